//! Advice about an error: what an operator does first.

use super::step::Finding;
use crate::error::Error;

/// Codes of refusals because of the credentials themselves.
const NOT_SIGNED_IN: [&str; 10] = [
    "AuthFailure",
    "ExpiredToken",
    "ExpiredTokenException",
    "IncompleteSignature",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "MissingAuthenticationToken",
    "RequestExpired",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
];
/// Parts of the codes of refusals because of a missing permission.
const NOT_ALLOWED: [&str; 4] = ["AccessDenied", "AuthorizationError", "NotAuthorized", "UnauthorizedOperation"];

const SIGN_IN: &str = "sign in: set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, until \
                       `aws sts get-caller-identity` answers; if they are right, check the clock of this machine";

/// Returns a failed step: the error with its causes, and what to do about it.
pub(super) fn failed(error: &Error) -> Finding {
    let text = error.with_causes();
    let advice = advice(error, &text);
    Finding::failed(text, advice)
}

fn advice(error: &Error, text: &str) -> String {
    match error {
        Error::Sign(_) => SIGN_IN.to_owned(),
        Error::NoRegion => "name the region of the stack with --region, or set AWS_REGION".to_owned(),
        Error::Refused { service, operation, code, .. } => refused(service, operation, code),
        Error::Web(_) => "check the network of this machine, its proxy, and AWS_ENDPOINT_URL".to_owned(),
        Error::NotDev(_) => "start `switchhook dev`, or name a deployed stack with --stack".to_owned(),
        Error::MissingOutputs { .. } => "deploy this version of the template: docs/deploy.md".to_owned(),
        Error::Aws(_) if is_denied(text) => {
            "your credentials may not read or change the tables of the stack: they need dynamodb:GetItem and \
             dynamodb:DeleteItem, and the use of the tables' KMS key if they have one"
                .to_owned()
        }
        Error::Aws(_)
        | Error::Unreadable { .. }
        | Error::FunctionFailed { .. }
        | Error::Encode(_)
        | Error::Decode(_)
        | Error::Refusal(_) => "run the check again; if it fails again, look at docs/first-deployment.md".to_owned(),
    }
}

fn refused(service: &str, operation: &str, code: &str) -> String {
    if NOT_SIGNED_IN.contains(&code) {
        return SIGN_IN.to_owned();
    }
    if is_denied(code) {
        // The names in IAM differ from those of the API.
        let service = if service == "monitoring" { "cloudwatch" } else { service };
        return format!("your credentials need the permission {service}:{operation}");
    }
    "run the check again; if it fails again, look at docs/first-deployment.md".to_owned()
}

fn is_denied(text: &str) -> bool {
    NOT_ALLOWED.iter().any(|part| text.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: &str) -> String {
        let (operation, message) = ("GetFunction".to_owned(), String::new());
        let error = Error::Refused { service: "lambda", operation, status: 403, code: code.to_owned(), message };
        failed(&error).advice.unwrap()
    }

    #[test]
    fn refusals_name_the_permission_or_the_way_to_sign_in() {
        assert_eq!(refused("AccessDeniedException"), "your credentials need the permission lambda:GetFunction");
        assert!(refused("ExpiredToken").contains("AWS_PROFILE"));
        assert!(refused("Throttling").contains("again"));
        assert!(failed(&Error::NoRegion).advice.unwrap().contains("--region"));
    }
}
