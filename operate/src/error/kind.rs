//! Kinds of errors, by what an operator does about them.
//!
//! AWS names the refused action, the resource and the caller in the message of a refusal. So the advice can name them too.

use std::fmt;

use serde::Serialize;
use switchhook_aws::failure::Failure;
use switchhook_aws::sign::SignError;

use super::Error;
use crate::web::WebError;

/// Codes of refusals because of a lacking permission.
const DENIED: [&str; 6] = [
    "AccessDenied",
    "AccessDeniedException",
    "AuthorizationError",
    "AuthorizationErrorException",
    "NotAuthorized",
    "UnauthorizedOperation",
];
/// Codes of refusals because of too many requests.
const THROTTLED: [&str; 11] = [
    "BandwidthLimitExceeded",
    "KMS.ThrottlingException",
    "KmsThrottled",
    "PriorRequestNotComplete",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "RequestThrottled",
    "RequestThrottledException",
    "Throttling",
    "ThrottlingException",
    "TooManyRequestsException",
];
/// Codes of refusals because of credentials that have expired, or that AWS does not know.
const CREDENTIALS: [&str; 12] = [
    "AuthFailure",
    "ExpiredToken",
    "ExpiredTokenException",
    "IncompleteSignature",
    "IncompleteSignatureException",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "MissingAuthenticationToken",
    "MissingAuthenticationTokenException",
    "RequestExpired",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
];
/// Beginnings of the names of actions that only read. `ReceiveMessage` and `ChangeMessageVisibility` list dead letters.
const READING: [&str; 7] = ["BatchGet", "ChangeMessage", "Describe", "Get", "List", "Query", "Receive"];

/// Beginnings of the names of our own operations that change something.
const CHANGING: [&str; 4] = ["delete", "publish", "send", "write"];

/// Kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The caller lacks a permission.
    Denied,
    /// There were too many requests.
    Throttled,
    /// The credentials are missing, expired or unknown.
    Expired,
    /// No answer arrived.
    Unreachable,
    Other,
}

impl ErrorKind {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Denied => "denied",
            Self::Throttled => "throttled",
            Self::Expired => "expired",
            Self::Unreachable => "unreachable",
            Self::Other => "other",
        }
    }

    fn of_code(code: &str) -> Self {
        if DENIED.contains(&code) {
            Self::Denied
        } else if THROTTLED.contains(&code) {
            Self::Throttled
        } else if CREDENTIALS.contains(&code) {
            Self::Expired
        } else {
            Self::Other
        }
    }
}

/// Explanation of an error, with advice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explanation {
    pub kind: ErrorKind,
    /// Event in words, for example `Query on by_wake was denied`.
    pub text: String,
    /// Refused request, for example `Query`.
    pub request: Option<String>,
    /// Last part of the resource's name, for example `by_wake`.
    pub resource: Option<String>,
    /// Advice, for example `attach ConsoleReadPolicy to role Operator`. `None` if no advice is known.
    pub remedy: Option<String>,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        self.remedy.as_ref().map_or(Ok(()), |remedy| write!(f, ": {remedy}"))
    }
}

/// Parts of the message of a refusal because of a lacking permission.
#[derive(Debug, Default, PartialEq, Eq)]
struct Denial<'a> {
    /// Action, for example `dynamodb:Query`.
    action: Option<&'a str>,
    resource: Option<&'a str>,
    caller: Option<String>,
    /// True if a policy forbids the action, so that permitting it does not help.
    is_explicit: bool,
}

impl<'a> Denial<'a> {
    /// Reads `User: ARN is not authorized to perform: ACTION on resource: ARN because …`.
    fn parse(message: &'a str) -> Self {
        let after = |mark: &str| {
            let rest = message.split_once(mark)?.1;
            Some(rest.split_whitespace().next()?.trim_end_matches(['.', ',']))
        };
        let resource = after("on resource: ").filter(|arn| *arn != "*");
        Self {
            action: after("to perform: "),
            resource: resource.and_then(|arn| arn.rsplit([':', '/']).next()),
            caller: after("User: ").and_then(caller),
            is_explicit: message.contains("explicit deny"),
        }
    }
}

/// True if an action of this name only reads. SQS writes its actions in lower case.
fn is_reading(action: &str) -> bool {
    let begins = |start: &str| action.get(..start.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(start));
    READING.into_iter().any(begins)
}

/// Returns the name of the role or user of an ARN.
fn caller(arn: &str) -> Option<String> {
    let (kind, name) = arn.rsplit(':').next()?.split_once('/')?;
    match kind {
        "assumed-role" => Some(format!("role {}", name.split('/').next()?)),
        "user" => Some(format!("user {}", name.rsplit('/').next()?)),
        _ => None,
    }
}

impl Error {
    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.explanation().kind
    }

    /// Explains the error.
    #[must_use]
    pub fn explanation(&self) -> Explanation {
        match self {
            Self::Refused { operation, code, message, .. } => self.refused(code, message, Some(operation)),
            Self::Web(WebError::NoAnswer { url, .. }) => {
                unreachable(format!("no answer from {url}"), "check that the stack is running, and your network")
            }
            Self::Aws(error) => match Failure::of(error) {
                Some(Failure::Refused { code, message }) => self.refused(&code, &message, None),
                Some(Failure::NoCredentials) => expired(),
                Some(Failure::NoAnswer) => {
                    unreachable(format!("{error}: no answer arrived"), "check your network, and load the page again")
                }
                None => self.other(),
            },
            Self::Sign(SignError::NoCredentials { .. }) => expired(),
            Self::Sign(
                SignError::NoRegion(_) | SignError::Sign(_) | SignError::Parameters(_) | SignError::Runtime(_),
            )
            | Self::Web(WebError::BadUrl(_) | WebError::Request { .. } | WebError::Wait(_))
            | Self::NotDev(_)
            | Self::NoRegion
            | Self::Unreadable { .. }
            | Self::FunctionFailed { .. }
            | Self::MissingOutputs { .. }
            | Self::Encode(_)
            | Self::Decode(_)
            | Self::Refusal(_) => self.other(),
        }
    }

    fn refused(&self, code: &str, message: &str, operation: Option<&str>) -> Explanation {
        match ErrorKind::of_code(code) {
            ErrorKind::Denied => self.denied(&Denial::parse(message), operation),
            ErrorKind::Throttled => Explanation {
                kind: ErrorKind::Throttled,
                text: format!(
                    "{}: AWS throttled it ({code})",
                    operation.map_or_else(|| self.to_string(), str::to_owned)
                ),
                request: operation.map(str::to_owned),
                resource: None,
                remedy: Some("there were too many requests; load the page again in a minute".to_owned()),
            },
            ErrorKind::Expired => Explanation { request: operation.map(str::to_owned), ..expired() },
            ErrorKind::Unreachable | ErrorKind::Other => self.other(),
        }
    }

    fn denied(&self, denial: &Denial<'_>, operation: Option<&str>) -> Explanation {
        let request = denial.action.map(|action| action.rsplit(':').next().unwrap_or(action)).or(operation);
        let text = match (request, denial.resource) {
            (Some(request), Some(resource)) => format!("{request} on {resource} was denied"),
            (Some(request), None) => format!("{request} was denied"),
            (None, _) => format!("{self}: it was denied"),
        };
        let is_reading = request.map_or_else(|| !self.is_of_a_change(), is_reading);
        let policy = if is_reading { "ConsoleReadPolicy" } else { "ConsoleChangePolicy" };
        let caller = denial.caller.as_deref().unwrap_or("your role");
        let remedy = if denial.is_explicit {
            format!("a policy forbids it to {caller} explicitly; ask the administrator of the account")
        } else {
            format!("attach {policy} to {caller}")
        };
        Explanation {
            kind: ErrorKind::Denied,
            text,
            request: request.map(str::to_owned),
            resource: denial.resource.map(str::to_owned),
            remedy: Some(remedy),
        }
    }

    /// True if the operation that failed changes something.
    fn is_of_a_change(&self) -> bool {
        let Self::Aws(error) = self else { return false };
        CHANGING.iter().any(|start| error.operation().starts_with(start))
    }

    fn other(&self) -> Explanation {
        Explanation { kind: ErrorKind::Other, text: self.with_causes(), request: None, resource: None, remedy: None }
    }
}

fn expired() -> Explanation {
    let remedy = "renew them, for example with `aws sso login`; if they come from environment variables, start this command \
                  again";
    Explanation {
        kind: ErrorKind::Expired,
        text: "your AWS credentials are missing, expired or not known".to_owned(),
        request: None,
        resource: None,
        remedy: Some(remedy.to_owned()),
    }
}

fn unreachable(text: String, remedy: &str) -> Explanation {
    Explanation { kind: ErrorKind::Unreachable, text, request: None, resource: None, remedy: Some(remedy.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: &str, message: &str) -> Error {
        let (code, message) = (code.to_owned(), message.to_owned());
        Error::Refused { service: "dynamodb", operation: "Query".to_owned(), status: 400, code, message }
    }

    const DENIED_MESSAGE: &str = "User: arn:aws:sts::123456789012:assumed-role/Operator/anna is not authorized to perform: \
        dynamodb:Query on resource: arn:aws:dynamodb:eu-west-1:123456789012:table/prod-calls/index/by_wake because no \
        identity-based policy allows the dynamodb:Query action";

    #[test]
    fn denial_names_request_resource_and_remedy() {
        let explanation = refused("AccessDeniedException", DENIED_MESSAGE).explanation();
        assert_eq!(explanation.kind, ErrorKind::Denied);
        assert_eq!(explanation.to_string(), "Query on by_wake was denied: attach ConsoleReadPolicy to role Operator");
        assert_eq!((explanation.request.as_deref(), explanation.resource.as_deref()), (Some("Query"), Some("by_wake")));
    }

    #[test]
    fn denial_of_a_change_names_the_policy_of_changes() {
        let message = "User: arn:aws:iam::123456789012:user/team/anna is not authorized to perform: sqs:sendmessage on \
                       resource: arn:aws:sqs:eu-west-1:123456789012:prod-events.fifo because no identity-based policy allows \
                       the sqs:sendmessage action";
        let text = refused("AccessDenied", message).explanation().to_string();
        assert_eq!(text, "sendmessage on prod-events.fifo was denied: attach ConsoleChangePolicy to user anna");
        let read = message.replace("sendmessage", "receivemessage");
        assert!(refused("AccessDenied", &read).explanation().to_string().contains("ConsoleReadPolicy"));
    }

    #[test]
    fn permission_does_not_help_against_an_explicit_deny() {
        let message = DENIED_MESSAGE.replace(
            "because no identity-based policy allows the dynamodb:Query action",
            "with an explicit deny in a service control policy",
        );
        let text = refused("AccessDeniedException", &message).explanation().to_string();
        assert_eq!(
            text,
            "Query on by_wake was denied: a policy forbids it to role Operator explicitly; ask the administrator of the account"
        );
    }

    #[test]
    fn kinds_are_told_apart_by_the_codes_of_the_services() {
        for (code, kind) in [
            ("AccessDenied", ErrorKind::Denied),
            ("ProvisionedThroughputExceededException", ErrorKind::Throttled),
            ("RequestThrottled", ErrorKind::Throttled),
            ("Throttling", ErrorKind::Throttled),
            ("ExpiredToken", ErrorKind::Expired),
            ("ExpiredTokenException", ErrorKind::Expired),
            ("UnrecognizedClientException", ErrorKind::Expired),
            ("ResourceNotFoundException", ErrorKind::Other),
            ("InternalServerError", ErrorKind::Other),
        ] {
            let error = refused(code, "");
            assert_eq!(error.kind(), kind, "{code}");
            assert_eq!(error.explanation().remedy.is_none(), kind == ErrorKind::Other, "{code}");
        }
        assert_eq!(Error::NoRegion.kind(), ErrorKind::Other);
    }
}
