//! Errors of AWS calls, and of the data that they return. Duplicates and lost races are values, never errors.

use std::error::Error as StdError;

use switchhook_domain::Provider;
use thiserror::Error;

use crate::failure::with_causes;

pub(crate) type Source = Box<dyn StdError + Send + Sync>;

/// One variant for each operation that can fail.
#[derive(Debug, Error)]
pub enum Error {
    #[error("could not write to the inbox")]
    WriteInbox(#[source] Source),
    #[error("could not read from the inbox")]
    ReadInbox(#[source] Source),
    #[error("could not read {0} of the inbox item")]
    DecodeInbox(&'static str),
    #[error("could not list the events that the inbox received")]
    ListInbox(#[source] Source),
    #[error("could not send the event to the queue")]
    Send(#[source] Source),
    #[error("could not receive messages from the queue")]
    Receive(#[source] Source),
    #[error("could not delete the messages from the queue")]
    Delete(#[source] Source),
    #[error("could not change the visibility timeout of the messages")]
    ChangeVisibility(#[source] Source),
    #[error("could not read the number of messages in the queue")]
    ReadQueueDepth(#[source] Source),
    #[error("the queue message is not one of Switchhook's: {0}")]
    DecodeMessage(String),
    #[error("could not read the call")]
    ReadCall(#[source] Source),
    #[error("could not write the call")]
    WriteCall(#[source] Source),
    #[error("could not read the health of the provider")]
    ReadHealth(#[source] Source),
    #[error("could not write the health of the provider")]
    WriteHealth(#[source] Source),
    #[error("could not read {0} of the row of the provider's health")]
    DecodeHealth(&'static str),
    #[error("could not read the entity")]
    ReadEntity(#[source] Source),
    #[error("could not write the entity")]
    WriteEntity(#[source] Source),
    #[error("could not read {0} of the entity's row")]
    DecodeEntity(&'static str),
    #[error("could not list calls")]
    ListCalls(#[source] Source),
    #[error(
        "the account {0} never had a rate in the parameter DialRates, so nobody would look for calls that wait for it"
    )]
    UnlistedAccount(Provider),
    #[error("could not read {0} of the call's row")]
    DecodeCall(String),
    #[error("could not copy the items of a table")]
    CopyTable(#[source] Source),
    #[error("could not encode the call's row")]
    EncodeCall(#[source] Source),
    #[error(
        "the row of the call was lost, or was never written, and the call was created too long ago to find its events at once; \
         run `switchhook verify --repair` with a --since before its creation"
    )]
    CreatedTooLongAgo,
    #[error(
        "the row of the call was lost, and is not rebuilt yet, because other rows were rebuilt first; the next try goes on"
    )]
    RebuildPostponed,
    #[error("other writers changed the call during each of {0} attempts to write it")]
    Contended(u32),
    #[error("the system returned no random bytes")]
    Random(#[source] Source),
    #[error("could not publish domain events")]
    Publish(#[source] Source),
    #[error("the event bus rejected a domain event: {0}")]
    PublishRefused(String),
    #[error("schema version {0} is newer than this program supports; a newer program must process it")]
    NewerSchema(u32),
    #[error("could not read a secret of the providers")]
    ReadSecret(#[source] Source),
    #[error("could not write a secret of the providers")]
    WriteSecret(#[source] Source),
}

impl Error {
    /// Name of the operation that failed, as a metric dimension.
    #[must_use]
    pub const fn operation(&self) -> &'static str {
        match self {
            Self::WriteInbox(_) => "write_inbox",
            Self::ReadInbox(_) => "read_inbox",
            Self::DecodeInbox(_) => "decode_inbox",
            Self::ListInbox(_) => "list_inbox",
            Self::Send(_) => "send",
            Self::Receive(_) => "receive",
            Self::Delete(_) => "delete",
            Self::ChangeVisibility(_) => "change_visibility",
            Self::ReadQueueDepth(_) => "read_queue_depth",
            Self::DecodeMessage(_) => "decode_message",
            Self::ReadCall(_) => "read_call",
            Self::WriteCall(_) => "write_call",
            Self::ReadHealth(_) => "read_health",
            Self::WriteHealth(_) => "write_health",
            Self::DecodeHealth(_) => "decode_health",
            Self::ReadEntity(_) => "read_entity",
            Self::WriteEntity(_) => "write_entity",
            Self::DecodeEntity(_) => "decode_entity",
            Self::ListCalls(_) => "list_calls",
            Self::UnlistedAccount(_) => "unlisted_account",
            Self::DecodeCall(_) => "decode_call",
            Self::CopyTable(_) => "copy_table",
            Self::EncodeCall(_) => "encode_call",
            Self::CreatedTooLongAgo => "created_too_long_ago",
            Self::RebuildPostponed => "rebuild_postponed",
            Self::Contended(_) => "contended",
            Self::Random(_) => "random",
            Self::Publish(_) => "publish",
            Self::PublishRefused(_) => "publish_refused",
            Self::NewerSchema(_) => "newer_schema",
            Self::ReadSecret(_) => "read_secret",
            Self::WriteSecret(_) => "write_secret",
        }
    }

    /// True if one stored item cannot be read, because it is damaged or because a newer version wrote it. Each try fails alike until somebody
    /// repairs it, so **it must stop no work but its own**.
    #[must_use]
    pub const fn is_unreadable(&self) -> bool {
        matches!(
            self,
            Self::DecodeInbox(_)
                | Self::DecodeHealth(_)
                | Self::DecodeEntity(_)
                | Self::DecodeCall(_)
                | Self::NewerSchema(_)
        )
    }

    /// Text of the error and of each of its causes, separated by colons. For a log.
    #[must_use]
    pub fn with_causes(&self) -> String {
        with_causes(self)
    }
}

/// Keeps an error of one part of a run that goes on. The first one stays, but an [`Error::DecodeCall`] gives way to any later error. The alarms
/// of the schedules leave that one out, so **it must hide no error that they count**.
pub fn note_error(noted: &mut Option<Error>, error: impl Into<Option<Error>>) {
    if noted.as_ref().is_none_or(|noted| matches!(noted, Error::DecodeCall(_))) {
        *noted = error.into().or_else(|| noted.take());
    }
}

/// Result of two parts of a run, with [the error](note_error) that the run returns.
///
/// # Errors
/// One of the two parts failed.
pub fn both(first: Result<(), Error>, second: Result<(), Error>) -> Result<(), Error> {
    let mut noted = first.err();
    note_error(&mut noted, second.err());
    noted.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_row_hides_no_other_error() {
        let damaged = || Err(Error::DecodeCall("version".to_owned()));
        let other = || Err(Error::Contended(1));
        let operation = |first, second| both(first, second).map_err(|error| error.operation());
        assert_eq!(operation(damaged(), other()), Err("contended"));
        assert_eq!(operation(other(), damaged()), Err("contended"));
        assert_eq!(operation(other(), Err(Error::CreatedTooLongAgo)), Err("contended"));
        assert_eq!(operation(damaged(), Ok(())), Err("decode_call"));
        assert_eq!(operation(Ok(()), damaged()), Err("decode_call"));
        assert_eq!(operation(Ok(()), Ok(())), Ok(()));
    }
}
