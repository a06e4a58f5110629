//! A function that sends the two requests of ingress, through the same clients, and does nothing else. It shows how much of the
//! CPU time of ingress the SDK and the Lambda runtime need.

use std::env;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use switchhook_aws::sdk;

/// Size of the compressed body of a webhook of 5 KB.
const BODY_BYTES: usize = 1_500;
/// Size of a message with the call events of one webhook.
const MESSAGE_BYTES: usize = 600;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let (table, queue_url) = (env::var("INBOX_TABLE")?, env::var("QUEUE_URL")?);
    let aws = sdk::from_environment().await;
    let (dynamodb, sqs) = (sdk::dynamodb(&aws), sdk::sqs(&aws));
    let (table, queue_url, dynamodb, sqs) = (&table, &queue_url, &dynamodb, &sqs);
    run(service_fn(move |_event: LambdaEvent<IgnoredAny>| async move {
        let put = dynamodb.put_item().table_name(table);
        let put = put.item("event_id", AttributeValue::S("retell:floor".to_owned()));
        put.item("body", AttributeValue::B(Blob::new(vec![7; BODY_BYTES]))).send().await?;
        let send = sqs.send_message().queue_url(queue_url).message_body("m".repeat(MESSAGE_BYTES));
        send.message_group_id("floor").message_deduplication_id("retell:floor").send().await?;
        Ok::<Value, Error>(json!({"statusCode": 200}))
    }))
    .await
}
