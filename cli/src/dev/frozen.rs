//! The guard before the API of a frozen `switchhook dev`: it refuses every request that could change the data.

use axum::extract::Request;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use serde_json::json;

use super::response::json_response;

/// Beginnings of the names of AWS operations that change nothing.
const READS: [&str; 7] = ["BatchGet", "Describe", "Get", "List", "Query", "Scan", "TransactGet"];

/// Answers 409 to requests that could change the data.
pub(super) async fn check(request: Request, next: Next) -> Response {
    if only_reads(request.method(), request.uri().path(), request.headers()) {
        return next.run(request).await;
    }
    let text = "this stack is frozen, so nothing in it can be changed: start `switchhook dev --data` without --freeze, and it \
                goes on";
    // An AWS SDK reads the name of an error from the first field.
    json_response(StatusCode::CONFLICT, &json!({"__type": "StackIsFrozen", "message": text}))
}

fn only_reads(method: &Method, path: &str, headers: &HeaderMap) -> bool {
    if matches!(*method, Method::GET | Method::HEAD) {
        return true;
    }
    let target = headers.get("x-amz-target").and_then(|target| target.to_str().ok()).unwrap_or_default();
    let operation = target.rsplit('.').next().unwrap_or_default();
    matches!(path, "/aws" | "/aws/") && READS.iter().any(|read| operation.starts_with(read))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_reads_of_aws_are_let_through() {
        let aws = |target: &str| {
            let headers = [("x-amz-target".parse().unwrap(), target.parse().unwrap())].into_iter().collect();
            only_reads(&Method::POST, "/aws/", &headers)
        };
        for read in ["DynamoDB_20120810.Query", "DynamoDB_20120810.GetItem", "AmazonSQS.GetQueueAttributes"] {
            assert!(aws(read), "{read}");
        }
        let changes = [
            "DynamoDB_20120810.PutItem",
            "DynamoDB_20120810.TransactWriteItems",
            "AmazonSQS.SendMessage",
            "AmazonSQS.ReceiveMessage",
            "AWSEvents.PutEvents",
            "secretsmanager.PutSecretValue",
            "",
        ];
        for change in changes {
            assert!(!aws(change), "{change}");
        }
        let none = HeaderMap::new();
        assert!(only_reads(&Method::GET, "/calls", &none));
        for (method, path) in
            [(Method::POST, "/webhooks/retell"), (Method::PUT, "/do-not-call"), (Method::POST, "/run/reconciler")]
        {
            assert!(!only_reads(&method, path, &none), "{path}");
        }
    }
}
