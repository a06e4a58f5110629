//! The alarms of `template.yaml`, with the names of a local stack in the place of references.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use switchhook_local::metrics::{API_ID, Alarm, function_name};

use crate::files::yaml;

/// Every alarm by the name of its resource.
pub(super) fn alarms() -> BTreeMap<String, Alarm> {
    let template = yaml("template.yaml");
    let resources = template["Resources"].as_object().unwrap();
    let alarms = resources.iter().filter(|(_, resource)| resource["Type"] == "AWS::CloudWatch::Alarm");
    alarms
        .map(|(name, resource)| {
            let alarm = serde_json::from_value(resolve(&resource["Properties"]));
            (name.clone(), alarm.unwrap_or_else(|error| panic!("{name}: {error}")))
        })
        .collect()
}

fn resolve(value: &Value) -> Value {
    match value {
        Value::Object(fields) => match fields.iter().next() {
            Some((tag, of)) if tag == "!Ref" => json!(physical_name(of.as_str().unwrap())),
            Some((tag, of)) if tag == "!GetAtt" => json!(physical_name(of.as_str().unwrap())),
            Some((tag, of)) if tag == "!Sub" => json!(of.as_str().unwrap().replace("${AWS::StackName}", "local")),
            Some((tag, _)) if tag == "!If" => json!([]),
            _ => Value::Object(fields.iter().map(|(name, of)| (name.clone(), resolve(of))).collect::<Map<_, _>>()),
        },
        Value::Array(items) => items.iter().map(resolve).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// Name that a resource has in the metrics of a local stack.
fn physical_name(resource: &str) -> String {
    match resource {
        "AWS::StackName" => "local".to_owned(),
        "HttpApi" => API_ID.to_owned(),
        "InboxTable" => switchhook_local::INBOX_TABLE.to_owned(),
        "CallsTable" => switchhook_local::CALLS_TABLE.to_owned(),
        "EventsQueue.QueueName" => switchhook_local::EVENTS_QUEUE.to_owned(),
        "EventsDlq.QueueName" => switchhook_local::EVENTS_DEAD_LETTER_QUEUE.to_owned(),
        "DialQueue.QueueName" => switchhook_local::DIAL_QUEUE.to_owned(),
        "RelayFailuresQueue.QueueName" => switchhook_local::RELAY_FAILURES_QUEUE.to_owned(),
        _ => {
            // A local function has one version.
            let resource = resource.strip_suffix(".Version.Version").unwrap_or(resource);
            let function = resource.strip_suffix("Function");
            function_name(&function.unwrap_or_else(|| panic!("{resource} has no local name")).to_lowercase())
        }
    }
}
