//! Rejected requests, with the error names and texts of SQS.

use crate::queue::{ReceiptHandleError, SendError};
use crate::response::ServiceResponse;
use crate::sqs::QueueError;

/// The reason why a request is rejected.
#[derive(Debug)]
pub(super) enum Rejection {
    Queue(QueueError),
    Malformed(serde_json::Error),
    Parameter(&'static str),
    EmptyBatch,
    TooManyEntries,
    BatchTooLong,
    InvalidEntryId,
    EntryIdsNotDistinct,
}

impl From<QueueError> for Rejection {
    fn from(error: QueueError) -> Self {
        Self::Queue(error)
    }
}

impl Rejection {
    /// Returns the error's name in the JSON protocol, and its name in the older query protocol. The SDKs read the
    /// second.
    fn names(&self) -> (&'static str, &'static str) {
        let same = |name| (name, name);
        match self {
            Self::Queue(QueueError::UnknownQueue) => ("QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue"),
            Self::Queue(QueueError::Send(SendError::EmptyBody | SendError::MissingGroup)) => same("MissingParameter"),
            Self::Queue(QueueError::Send(SendError::InvalidCharacters)) => same("InvalidMessageContents"),
            Self::Queue(QueueError::Send(
                SendError::TooLarge
                | SendError::MissingDeduplicationId
                | SendError::InvalidGroup
                | SendError::InvalidDeduplicationId
                | SendError::InvalidDelay
                | SendError::DelayInFifo,
            )) => same("InvalidParameterValue"),
            Self::Queue(QueueError::ReceiptHandle(ReceiptHandleError::Invalid)) => same("ReceiptHandleIsInvalid"),
            Self::Queue(QueueError::ReceiptHandle(
                ReceiptHandleError::Expired | ReceiptHandleError::NotInFlight | ReceiptHandleError::InvalidTimeout,
            )) => same("InvalidParameterValue"),
            Self::Queue(QueueError::Persist(_)) => same("InternalError"),
            Self::Malformed(_) => same("SerializationException"),
            Self::Parameter(_) => same("InvalidParameterValue"),
            Self::EmptyBatch => ("EmptyBatchRequest", "AWS.SimpleQueueService.EmptyBatchRequest"),
            Self::TooManyEntries => {
                ("TooManyEntriesInBatchRequest", "AWS.SimpleQueueService.TooManyEntriesInBatchRequest")
            }
            Self::BatchTooLong => ("BatchRequestTooLong", "AWS.SimpleQueueService.BatchRequestTooLong"),
            Self::InvalidEntryId => ("InvalidBatchEntryId", "AWS.SimpleQueueService.InvalidBatchEntryId"),
            Self::EntryIdsNotDistinct => {
                ("BatchEntryIdsNotDistinct", "AWS.SimpleQueueService.BatchEntryIdsNotDistinct")
            }
        }
    }

    pub(super) fn code(&self) -> &'static str {
        self.names().1
    }

    pub(super) fn message(&self) -> String {
        match self {
            Self::Queue(error) => error.to_string(),
            Self::Malformed(error) => error.to_string(),
            Self::Parameter(message) => (*message).to_owned(),
            Self::EmptyBatch => "There should be at least one entry in the request.".to_owned(),
            Self::TooManyEntries => "Maximum number of entries per request are 10.".to_owned(),
            Self::BatchTooLong => "Batch requests cannot be longer than 1048576 bytes.".to_owned(),
            Self::InvalidEntryId => "A batch entry id can only contain alphanumeric characters, hyphens and \
                                     underscores. It can be at most 80 letters long."
                .to_owned(),
            Self::EntryIdsNotDistinct => "Two or more batch entries have the same id.".to_owned(),
        }
    }

    /// True if the sender caused the error, false if the service failed.
    pub(super) fn is_sender_fault(&self) -> bool {
        !matches!(self, Self::Queue(QueueError::Persist(_)))
    }

    pub(super) fn into_response(self) -> ServiceResponse {
        if let Self::Queue(QueueError::Persist(error)) = &self {
            tracing::error!(error = error as &dyn std::error::Error, "queue of the local cloud failed");
        }
        let (name, query_name) = self.names();
        let (status, fault) = if self.is_sender_fault() { (400, "Sender") } else { (500, "Receiver") };
        ServiceResponse {
            query_error: Some(format!("{query_name};{fault}")),
            ..ServiceResponse::error(status, &format!("com.amazonaws.sqs#{name}"), &self.message())
        }
    }
}
