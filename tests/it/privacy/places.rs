//! Search of both tables, all queues, the bus and the log for traces of a person.

use std::collections::{BTreeMap, BTreeSet};

use serde_dynamo::AttributeValue;
use switchhook_local::{
    CALLS_TABLE, DIAL_QUEUE, DUE_QUEUE, EVENTS_DEAD_LETTER_QUEUE, EVENTS_QUEUE, INBOX_TABLE, RELAY_FAILURES_QUEUE,
    REPAIR_QUEUE,
};
use switchhook_tests::World;

use super::TRACES;

/// Dictionary with which bodies are compressed.
const DICTIONARY: &[u8] = include_bytes!("../../../shared/aws/src/dictionary-1.txt");
const BODY_MAX: usize = 8 << 20;
const QUEUES: [&str; 6] =
    [EVENTS_QUEUE, EVENTS_DEAD_LETTER_QUEUE, DIAL_QUEUE, DUE_QUEUE, REPAIR_QUEUE, RELAY_FAILURES_QUEUE];

/// Returns the places that hold a trace of our person, for example `inbox conflict:generic:e1`.
pub(super) async fn places(world: &World) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut chunks: BTreeMap<String, BTreeMap<u32, Vec<u8>>> = BTreeMap::new();
    for (table, key_name) in [(INBOX_TABLE, "event_id"), (CALLS_TABLE, "call_id")] {
        for item in world.items(table).await {
            let AttributeValue::S(key) = &item[key_name] else { panic!("a key is no text") };
            let mut texts = Vec::new();
            for value in item.values() {
                collect(value, &mut texts);
            }
            if texts.iter().any(|text| has_trace(text)) {
                found.insert(format!("{table} {key}"));
            }
            // The first part of a chunk's key is its number.
            if let (Some((number, of)), Some(AttributeValue::B(bytes))) =
                (key.strip_prefix("chunk:").and_then(|rest| rest.split_once(':')), item.get("body"))
            {
                chunks.entry(of.to_owned()).or_default().insert(number.parse().unwrap(), bytes.to_vec());
            }
        }
    }
    for (of, parts) in chunks {
        let whole: Vec<u8> = parts.into_values().flatten().collect();
        if decompressed(&whole).is_none_or(|body| has_trace(&body)) {
            found.insert(format!("{INBOX_TABLE} chunk:{of}"));
        }
    }
    for queue in QUEUES {
        let messages = world.cloud.services().sqs().messages(queue).unwrap();
        if messages.iter().any(|message| has_trace(message.body.as_bytes())) {
            found.insert(format!("queue {queue}"));
        }
    }
    if world.domain_events().iter().any(|event| has_trace(event.to_string().as_bytes())) {
        found.insert("bus".to_owned());
    }
    if has_trace(world.log_text().as_bytes()) {
        found.insert("log".to_owned());
    }
    found
}

/// Adds every text and every binary value, the latter also decompressed.
fn collect(value: &AttributeValue, texts: &mut Vec<Vec<u8>>) {
    match value {
        AttributeValue::S(text) | AttributeValue::N(text) => texts.push(text.as_bytes().to_vec()),
        AttributeValue::B(bytes) => {
            texts.push(bytes.to_vec());
            texts.extend(decompressed(bytes));
        }
        AttributeValue::M(fields) => {
            for (name, value) in fields {
                texts.push(name.as_bytes().to_vec());
                collect(value, texts);
            }
        }
        AttributeValue::L(values) => values.iter().for_each(|value| collect(value, texts)),
        AttributeValue::Ss(values) | AttributeValue::Ns(values) => {
            texts.extend(values.iter().map(|text| text.as_bytes().to_vec()));
        }
        AttributeValue::Bs(values) => texts.extend(values.iter().map(|bytes| bytes.to_vec())),
        AttributeValue::Bool(_) | AttributeValue::Null(_) => {}
    }
}

fn decompressed(bytes: &[u8]) -> Option<Vec<u8>> {
    zstd::bulk::Decompressor::with_dictionary(DICTIONARY).unwrap().decompress(bytes, BODY_MAX).ok()
}

fn has_trace(text: &[u8]) -> bool {
    TRACES.iter().any(|trace| text.windows(trace.len()).any(|window| window == trace.as_bytes()))
}

#[tokio::test(start_paused = true)]
async fn search_finds_what_is_stored() {
    let world = World::stopped();
    assert_eq!(places(&world).await, BTreeSet::new());
    world.accept(switchhook_domain::Provider::Retell, &super::retell("call_ended")).await;
    let found = places(&world).await;
    let expected = [
        format!("{INBOX_TABLE} retell:call_5d0b8f6e2c3a4f7d9e1b0a6c8d2f4e70:call_ended"),
        format!("queue {EVENTS_QUEUE}"),
    ];
    assert_eq!(found, BTreeSet::from(expected));
}
