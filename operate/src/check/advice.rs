//! Advice about an error: what an operator does first.

use super::step::Finding;
use crate::error::{Error, ErrorKind};

/// Returns a failed step: the error with its causes, and what to do about it.
pub(super) fn failed(error: &Error) -> Finding {
    Finding::failed(error.with_causes(), advice(error))
}

fn advice(error: &Error) -> String {
    let advice = match (error, error.kind()) {
        (Error::Sign(_), _) | (_, ErrorKind::Expired) => {
            "sign in: set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, until `aws sts get-caller-identity` answers; if \
             they are right, check the clock of this machine"
        }
        (Error::Web(_), _) | (_, ErrorKind::Unreachable) => {
            "check the network of this machine, its proxy, and AWS_ENDPOINT_URL"
        }
        (Error::Refused { service, operation, .. }, ErrorKind::Denied) => {
            // The names in IAM differ from those of the API.
            let service = if *service == "monitoring" { "cloudwatch" } else { *service };
            return format!("your credentials need the permission {service}:{operation}");
        }
        (Error::Aws(_), ErrorKind::Denied) => {
            "your credentials may not read or change the tables of the stack: they need dynamodb:GetItem and \
             dynamodb:DeleteItem, and the use of the tables' KMS key if they have one"
        }
        (Error::NoRegion, _) => "name the region of the stack with --region, or set AWS_REGION",
        (Error::NotDev(_), _) => "start `switchhook dev`, or name a deployed stack with --stack",
        (Error::MissingOutputs { .. }, _) => "deploy this version of the template: docs/deploy.md",
        (
            Error::Aws(_)
            | Error::Refused { .. }
            | Error::Unreadable { .. }
            | Error::FunctionFailed { .. }
            | Error::Encode(_)
            | Error::Decode(_)
            | Error::Refusal(_),
            _,
        ) => "run the check again; if it fails again, look at docs/first-deployment.md",
    };
    advice.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Error of the SDK for a refused request. Its cause names the code.
    #[derive(Debug, thiserror::Error)]
    #[error("service error")]
    struct ServiceError(#[source] std::io::Error);

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
        assert!(refused("NotAuthorized").contains("lambda:GetFunction"));
        assert!(failed(&Error::NoRegion).advice.unwrap().contains("--region"));
    }

    #[test]
    fn refusals_that_the_sdk_met_get_the_same_advice() {
        let advice = |source: Box<dyn std::error::Error + Send + Sync>| {
            failed(&Error::Aws(switchhook_aws::Error::ReadInbox(source))).advice.unwrap()
        };
        let refused = |text: &str| advice(Box::new(ServiceError(std::io::Error::other(text.to_owned()))));
        assert!(refused("ExpiredTokenException: the token has expired").contains("AWS_PROFILE"));
        assert!(refused("AccessDeniedException: no").contains("dynamodb:GetItem"));
        assert!(refused("InternalServerError: no").contains("again"));
        assert!(advice("request has timed out".into()).contains("network"));
    }
}
