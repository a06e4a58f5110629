//! Requests to AWS services, recorded for `tests/e2e/test_service_models.py`, which holds them against the models of those
//! services.
//!
//! The variable `SWITCHHOOK_REQUESTS` names the folder of the records; without it, nothing is recorded. Of requests of
//! the same form, only the first is recorded: the same sender, operation, resource, fields and expressions, and about
//! the same lengths. So the records of all tests together are a few thousand lines.

use std::collections::BTreeSet;
use std::collections::hash_map::DefaultHasher;
use std::env;
use std::fs::File;
use std::hash::{Hash, Hasher};
use std::io::Write;
use std::path::Path;
use std::process;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use serde_json::{Value, json};
use switchhook_local::connector::{Observer, RequestInfo, Service};

const FOLDER: &str = "SWITCHHOOK_REQUESTS";
/// Depth below which names are data: the attributes of an item lie above, and the keys of a call's metadata below.
const NAMES_DEPTH: usize = 4;
/// Fields whose whole text is part of the form, besides expressions and what a request asks to have returned.
const WHOLE_FIELDS: [&str; 5] = ["TableName", "IndexName", "QueueUrl", "EventBusName", "Select"];

static RECORDER: LazyLock<Option<Arc<Mutex<Recorder>>>> = LazyLock::new(|| {
    let folder = env::var_os(FOLDER)?;
    let path = Path::new(&folder).join(format!("{}.jsonl", process::id()));
    let file = File::create(&path).unwrap_or_else(|error| panic!("{FOLDER}: {}: {error}", path.display()));
    Some(Arc::new(Mutex::new(Recorder { file, forms: BTreeSet::new() })))
});

struct Recorder {
    file: File,
    /// Hashes of the forms that were recorded.
    forms: BTreeSet<u64>,
}

/// Returns the observer that records the requests of a stack. `None` if nothing is to be recorded.
pub(crate) fn observer() -> Option<Observer> {
    let recorder = RECORDER.clone()?;
    Some(Arc::new(move |request: &RequestInfo<'_>| {
        recorder.lock().unwrap_or_else(PoisonError::into_inner).record(request);
    }))
}

impl Recorder {
    fn record(&mut self, request: &RequestInfo<'_>) {
        let body: Value = serde_json::from_slice(request.body).unwrap_or_else(|error| panic!("{request:?}: {error}"));
        let mut hasher = DefaultHasher::new();
        (request.sender, request.service, request.operation, form(&body, 0)).hash(&mut hasher);
        if self.forms.insert(hasher.finish()) {
            let service = match request.service {
                Service::DynamoDb => "dynamodb",
                Service::Sqs => "sqs",
                Service::EventBridge => "events",
                Service::SecretsManager => "secretsmanager",
            };
            let line = json!({
                "sender": request.sender, "service": service, "operation": request.operation, "body": body,
            });
            // One write per line, because nothing flushes a static when the process ends.
            self.file.write_all(format!("{line}\n").as_bytes()).unwrap_or_else(|error| panic!("{FOLDER}: {error}"));
        }
    }
}

/// Hash of the form of a value: its names, types, and the magnitudes of its numbers and lengths.
fn form(value: &Value, depth: usize) -> u64 {
    let mut hasher = DefaultHasher::new();
    match value {
        Value::Null => "null".hash(&mut hasher),
        Value::Bool(_) => "bool".hash(&mut hasher),
        Value::Number(number) => ("number", number.to_string().len()).hash(&mut hasher),
        Value::String(text) => ("text", magnitude(text.len())).hash(&mut hasher),
        Value::Array(values) => {
            let forms: BTreeSet<u64> = values.iter().map(|value| form(value, depth + 1)).collect();
            ("list", magnitude(values.len()), forms).hash(&mut hasher);
        }
        Value::Object(fields) if depth > NAMES_DEPTH => {
            let forms: BTreeSet<u64> = fields.values().map(|value| form(value, depth + 1)).collect();
            ("map", magnitude(fields.len()), forms).hash(&mut hasher);
        }
        Value::Object(fields) => {
            let forms: BTreeSet<u64> = fields.iter().map(|(name, value)| field_form(name, value, depth + 1)).collect();
            ("object", forms).hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// Hash of the form of a field: its name, and the form of its value.
fn field_form(name: &str, value: &Value, depth: usize) -> u64 {
    let mut hasher = DefaultHasher::new();
    let is_whole = name.ends_with("Expression") || name.starts_with("Return") || WHOLE_FIELDS.contains(&name);
    match value.as_str().filter(|_| is_whole) {
        Some(text) => (name, text).hash(&mut hasher),
        None => (name, form(value, depth)).hash(&mut hasher),
    }
    hasher.finish()
}

/// Number of bits of a length.
const fn magnitude(length: usize) -> u32 {
    usize::BITS - length.leading_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form_of(call_id: &str, condition: &str, attempts: usize) -> u64 {
        let attempts = vec![json!({"M": {call_id: {"S": call_id}}}); attempts];
        let item = json!({"call_id": {"S": call_id}, "attempts": {"L": attempts}});
        form(&json!({"TableName": "calls", "Item": item, "ConditionExpression": condition}), 0)
    }

    #[test]
    fn form_depends_on_names_and_expressions_and_not_on_values() {
        assert_eq!(form_of("call-1", "version = :read", 2), form_of("call-2", "version = :read", 3));
        assert_ne!(form_of("call-1", "version = :read", 2), form_of("call-1", "version = :last", 2));
        assert_ne!(form_of("call-1", "version = :read", 2), form_of("call-1", "version = :read", 9));
        assert_ne!(form_of("call-1", "version = :read", 2), form_of("a much longer id", "version = :read", 2));
    }
}
