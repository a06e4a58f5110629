//! The caller of a request: the IAM principal that API Gateway authenticated.

use lambda_http::request::RequestContext;
use lambda_http::{Request, RequestExt};

/// Beginning of the unique id of a role. Source: "Understanding unique ID prefixes" in the user guide of IAM.
const ROLE_PREFIX: &str = "AROA";

/// Unique id of the principal that signed a request: an IAM user, a role, a federated user, or the root user of an account. Empty if the
/// server in front requires no signature.
///
/// The name of a role's session is left out. So a program that starts again, with a new session of its role, is the same caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller(String);

impl Caller {
    #[cfg(test)]
    pub(crate) fn new(id: &str) -> Self {
        Self(id.to_owned())
    }

    pub(crate) fn of(request: &Request) -> Self {
        let user_id = match request.request_context_ref() {
            Some(RequestContext::ApiGatewayV2(context)) => {
                context.authorizer.as_ref().and_then(|authorizer| authorizer.iam.as_ref()?.user_id.as_deref())
            }
            // The crate's features compile in no other kind of context.
            Some(_) | None => None,
        };
        // `AIDA…` for a user, `AROA…:session` for a role, `ACCOUNT:name` for a federated user, `ACCOUNT` for the root user.
        let user_id = user_id.unwrap_or_default();
        let principal = match user_id.split_once(':') {
            Some((role, _)) if role.starts_with(ROLE_PREFIX) => role,
            Some(_) | None => user_id,
        };
        Self(principal.to_owned())
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use switchhook_aws::http::request_from_event;

    use super::*;

    fn caller(authorizer: serde_json::Value) -> Caller {
        let event = json!({
            "version": "2.0", "routeKey": "$default", "rawPath": "/calls", "rawQueryString": "", "headers": {},
            "isBase64Encoded": false,
            "requestContext": {
                "accountId": "1", "apiId": "a", "domainName": "h", "requestId": "r", "routeKey": "$default",
                "stage": "$default", "timeEpoch": 0, "time": "", "authorizer": authorizer,
                "http": {"method": "POST", "path": "/calls", "protocol": "HTTP/1.1", "sourceIp": "::1", "userAgent": ""},
            },
        });
        Caller::of(&request_from_event(serde_json::from_value(event).unwrap()))
    }

    #[test]
    fn caller_is_the_user_or_the_role_whatever_its_session() {
        let iam = |user_id: &str| {
            caller(json!({"iam": {
                "accessKey": "ASIA1", "accountId": "111122223333", "callerId": user_id, "cognitoIdentity": null,
                "principalOrgId": "o-1", "userArn": "arn:aws:sts::111122223333:assumed-role/orders/s", "userId": user_id,
            }}))
        };
        assert_eq!(iam("AROAORDERS:session-1"), iam("AROAORDERS:session-2"));
        assert_ne!(iam("AROAORDERS:session-1"), iam("AROACLINIC:session-1"));
        assert_eq!(iam("AIDAUSER"), Caller::new("AIDAUSER"));
        // Federated users share the account, also with its root user.
        let others = ["111122223333:ada", "111122223333:bob", "111122223333"];
        assert_eq!(others.map(iam), others.map(Caller::new));
        assert_eq!(caller(json!(null)), Caller::new(""));
    }
}
