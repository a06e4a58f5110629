//! SQS: a queue for a while. The queues of a stack have a client of their own.

use serde_json::{Value, json};

use super::{AwsServices, Service};
use crate::error::Error;

/// Prefix of the operations in the JSON protocol.
const TARGET: &str = "AmazonSQS";
/// Codes of the refusal to find a queue that does not exist.
const NOT_FOUND: [&str; 2] = ["QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue"];
/// Seconds for which a message is kept: ten minutes.
const RETENTION_SECONDS: &str = "600";

impl AwsServices {
    /// Makes a standard queue, and returns its URL and its ARN.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Web`], [`Error::Unreadable`].
    pub(crate) async fn create_queue(&self, name: &str) -> Result<(String, String), Error> {
        let body = json!({"QueueName": name, "Attributes": {"MessageRetentionPeriod": RETENTION_SECONDS}});
        let url = text(&self.sqs("CreateQueue", &body).await?, "/QueueUrl")?;
        let body = json!({"QueueUrl": url, "AttributeNames": ["QueueArn"]});
        let arn = text(&self.sqs("GetQueueAttributes", &body).await?, "/Attributes/QueueArn")?;
        Ok((url, arn))
    }

    /// Lets a rule of EventBridge send messages to a queue.
    ///
    /// # Errors
    /// The same as [`AwsServices::create_queue`].
    pub(crate) async fn allow_rule(&self, url: &str, arn: &str, rule_arn: &str) -> Result<(), Error> {
        let policy = json!({"Version": "2012-10-17", "Statement": [{
            "Effect": "Allow", "Principal": {"Service": "events.amazonaws.com"}, "Action": "sqs:SendMessage",
            "Resource": arn, "Condition": {"ArnEquals": {"aws:SourceArn": rule_arn}},
        }]});
        let body = json!({"QueueUrl": url, "Attributes": {"Policy": policy.to_string()}});
        self.sqs("SetQueueAttributes", &body).await.map(drop)
    }

    /// Returns the bodies of the next messages of a queue, at most ten. They stay in the queue.
    ///
    /// # Errors
    /// The same as [`AwsServices::create_queue`].
    pub(crate) async fn receive_bodies(&self, url: &str) -> Result<Vec<String>, Error> {
        let answer = self.sqs("ReceiveMessage", &json!({"QueueUrl": url, "MaxNumberOfMessages": 10})).await?;
        let messages = answer.get("Messages").and_then(Value::as_array).into_iter().flatten();
        Ok(messages.filter_map(|message| Some(message.get("Body")?.as_str()?.to_owned())).collect())
    }

    /// Deletes the queue with this name. Returns false if there is no such queue.
    ///
    /// # Errors
    /// The same as [`AwsServices::create_queue`].
    pub(crate) async fn delete_queue(&self, name: &str) -> Result<bool, Error> {
        let url = match self.sqs("GetQueueUrl", &json!({"QueueName": name})).await {
            Ok(answer) => text(&answer, "/QueueUrl")?,
            Err(Error::Refused { code, .. }) if NOT_FOUND.contains(&code.as_str()) => return Ok(false),
            Err(error) => return Err(error),
        };
        self.sqs("DeleteQueue", &json!({"QueueUrl": url})).await.map(|_| true)
    }

    async fn sqs(&self, operation: &str, body: &Value) -> Result<Value, Error> {
        self.json(Service::Sqs, TARGET, operation, body).await
    }
}

fn text(answer: &Value, pointer: &str) -> Result<String, Error> {
    let text = answer.pointer(pointer).and_then(Value::as_str);
    text.map(str::to_owned).ok_or(Error::Unreadable { service: Service::Sqs.name() })
}
