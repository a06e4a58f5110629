//! The reason for which a request to AWS failed, found among the causes of an error.

use std::error::Error as StdError;

use aws_credential_types::provider::error::CredentialsError;
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_types::error::ErrorMetadata;

/// Reason for which a request to AWS failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The service refused the request.
    Refused { code: String, message: String },
    /// The request could not be signed: there are no credentials, or they could not be renewed.
    NoCredentials,
    /// No answer arrived.
    NoAnswer,
}

impl Failure {
    /// Returns the reason that an error and its causes name. `None` if no request failed.
    #[must_use]
    pub fn of(error: &(dyn StdError + 'static)) -> Option<Self> {
        let causes = || std::iter::successors(Some(error), |&cause| cause.source());
        if causes().any(|cause| cause.is::<CredentialsError>()) {
            return Some(Self::NoCredentials);
        }
        let mut is_refused = false;
        for cause in causes() {
            if let Some(refusal) = cause.downcast_ref::<ErrorMetadata>() {
                let text = |part: Option<&str>| part.unwrap_or_default().to_owned();
                return Some(Self::Refused { code: text(refusal.code()), message: text(refusal.message()) });
            }
            // An error that the service's model names is a type of its own. Its text is the code and the message.
            let text = cause.to_string();
            if let Some((code, message)) = is_refused.then(|| modelled(&text)).flatten() {
                return Some(Self::Refused { code, message });
            }
            if cause.is::<ConnectorError>() || text == "request has timed out" || text == "response error" {
                return Some(Self::NoAnswer);
            }
            is_refused |= text == "service error";
        }
        None
    }
}

/// Returns the text of an error and of each of its causes, separated by colons. A cause that only repeats the end of the text is left out.
#[must_use]
pub fn with_causes(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    for cause in std::iter::successors(error.source(), |&cause| cause.source()) {
        let more = cause_text(cause);
        if !text.ends_with(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
    }
    text
}

/// Returns the text of a cause of an error, for a person. The SDK writes a refusal that its model does not name as a Rust value, so the
/// message of the service is returned instead. The cause before it names the code.
fn cause_text(cause: &(dyn StdError + 'static)) -> String {
    let message = cause.downcast_ref::<ErrorMetadata>().and_then(ErrorMetadata::message);
    message.map_or_else(|| cause.to_string(), str::to_owned)
}

/// Returns code and message of a text such as `ThrottlingException: slow down`.
fn modelled(text: &str) -> Option<(String, String)> {
    let (code, message) = text.split_once(": ").unwrap_or((text, ""));
    let is_code = code.chars().all(|c| c.is_ascii_alphanumeric()) && code.starts_with(|c: char| c.is_ascii_uppercase());
    is_code.then(|| (code.to_owned(), message.to_owned()))
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::error::SdkError;
    use aws_sdk_dynamodb::operation::query::QueryError;
    use aws_sdk_dynamodb::types::error::ThrottlingException;

    use super::*;
    use crate::Error;

    fn refused(error: QueryError) -> Error {
        Error::ListCalls(Box::new(SdkError::<QueryError, ()>::service_error(error, ())))
    }

    #[test]
    fn refusal_has_its_code_and_its_message() {
        let meta = ErrorMetadata::builder().code("AccessDeniedException").message("not authorized").build();
        let expected =
            Failure::Refused { code: "AccessDeniedException".to_owned(), message: "not authorized".to_owned() };
        assert_eq!(Failure::of(&refused(QueryError::generic(meta))), Some(expected));
        let slow = ThrottlingException::builder().message("slow down").build();
        let expected = Failure::Refused { code: "ThrottlingException".to_owned(), message: "slow down".to_owned() };
        assert_eq!(Failure::of(&refused(QueryError::ThrottlingException(slow))), Some(expected));
    }

    #[test]
    fn message_of_a_service_is_shown_as_it_is() {
        let meta = ErrorMetadata::builder().code("StackIsFrozen").message("nothing can be changed").build();
        let text = refused(QueryError::generic(meta)).with_causes();
        let causes = "service error: unhandled error (StackIsFrozen): nothing can be changed";
        assert_eq!(text, format!("could not list calls: {causes}"));
        assert!(cause_text(&ErrorMetadata::builder().code("Unnamed").build()).contains("Unnamed"));
    }

    #[test]
    fn cause_that_repeats_is_left_out() {
        let error = Error::Send(Box::new(Error::Send("slow down".into())));
        assert_eq!(error.with_causes(), "could not send the event to the queue: slow down");
    }

    #[test]
    fn lost_connection_differs_from_lacking_credentials() {
        let dispatch = |source: ConnectorError| -> Error {
            Error::ReadCall(Box::new(SdkError::<QueryError, ()>::dispatch_failure(source)))
        };
        let broken = ConnectorError::io(std::io::Error::other("broken pipe").into());
        assert_eq!(Failure::of(&dispatch(broken)), Some(Failure::NoAnswer));
        let unsigned = ConnectorError::other(CredentialsError::not_loaded("no provider").into(), None);
        assert_eq!(Failure::of(&dispatch(unsigned)), Some(Failure::NoCredentials));
        let slow = SdkError::<QueryError, ()>::timeout_error("3 s");
        assert_eq!(Failure::of(&Error::ReadCall(Box::new(slow))), Some(Failure::NoAnswer));
        assert_eq!(Failure::of(&Error::DecodeInbox("body")), None);
    }
}
