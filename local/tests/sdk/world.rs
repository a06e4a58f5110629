//! Local services with one SDK client each, and helpers for items and messages.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use aws_sdk_dynamodb::types::AttributeValue;
use switchhook_local::clock::Clock;
use switchhook_local::connector::{Fault, RequestInfo, Service};
use switchhook_local::dynamodb::Count;
use switchhook_local::sqs::queue_url;
use switchhook_local::{CALLS_TABLE, EVENTS_QUEUE, Options, Services};

pub(crate) type Item = HashMap<String, AttributeValue>;

pub(crate) struct World {
    pub(crate) services: Services,
    pub(crate) dynamodb: aws_sdk_dynamodb::Client,
    pub(crate) sqs: aws_sdk_sqs::Client,
    pub(crate) eventbridge: aws_sdk_eventbridge::Client,
}

pub(crate) fn world() -> World {
    let clock = Clock::starting_at(UNIX_EPOCH + Duration::from_secs(1_800_000_000));
    let services = Services::open(Options::new(clock)).unwrap();
    let config = services.sdk_config();
    World {
        dynamodb: aws_sdk_dynamodb::Client::new(&config),
        sqs: aws_sdk_sqs::Client::new(&config),
        eventbridge: aws_sdk_eventbridge::Client::new(&config),
        services,
    }
}

impl World {
    pub(crate) fn count(&self, operation: &str) -> Count {
        self.services.dynamodb().counts().get(operation).copied().unwrap_or_default()
    }

    pub(crate) fn requests(&self, service: Service, operation: &str) -> u64 {
        self.services.connector().requests().get(&(service, operation.to_owned())).copied().unwrap_or_default()
    }

    /// Injects `fault` into one request: the one that is `number` requests after the next.
    pub(crate) fn fault_once(&self, number: usize, fault: Fault) {
        let seen = AtomicUsize::new(0);
        let hook = move |_: &RequestInfo<'_>| (seen.fetch_add(1, Ordering::Relaxed) == number).then(|| fault.clone());
        self.services.connector().set_fault_hook(Some(Arc::new(hook)));
    }

    pub(crate) async fn call_row(&self, call_id: &str) -> Option<Item> {
        let key = AttributeValue::S(call_id.to_owned());
        let request = self.dynamodb.get_item().table_name(CALLS_TABLE).consistent_read(true).key("call_id", key);
        request.send().await.unwrap().item
    }
}

pub(crate) fn s(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}

pub(crate) fn n(value: u64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

pub(crate) fn item<const N: usize>(attributes: [(&str, AttributeValue); N]) -> Item {
    attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

pub(crate) fn event(event_id: &str, body_bytes: usize) -> Item {
    item([
        ("event_id", s(event_id)),
        ("call_id", s("call-1")),
        ("received_bucket", s("2027-01-15T08:00#3")),
        ("received_at", n(1_800_000_000_000)),
        ("body", AttributeValue::B(vec![7; body_bytes].into())),
    ])
}

pub(crate) fn send(
    world: &World,
    group: &str,
    id: &str,
) -> aws_sdk_sqs::operation::send_message::builders::SendMessageFluentBuilder {
    let send = world.sqs.send_message().queue_url(queue_url(EVENTS_QUEUE)).message_body(format!("{{\"id\":\"{id}\"}}"));
    send.message_group_id(group).message_deduplication_id(id)
}

pub(crate) fn versioned_put(world: &World) -> aws_sdk_dynamodb::operation::put_item::builders::PutItemFluentBuilder {
    let put = world.dynamodb.put_item().table_name(CALLS_TABLE).item("call_id", s("c1")).item("version", n(1));
    put.condition_expression("attribute_not_exists(call_id)")
}

/// A directory for one test. It is deleted when the value is dropped.
pub(crate) struct TempDir(pub(crate) std::path::PathBuf);

impl TempDir {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("switchhook-local-{}-{name}", std::process::id()));
        drop(std::fs::remove_dir_all(&path));
        Self(path)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}
