//! The alarms of all templates, with the names of a local stack in the place of references.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use switchhook_local::metrics::{API_ID, Alarm, function_name};

use crate::files::yaml;

/// Templates with alarms.
const TEMPLATES: [&str; 4] = ["template.yaml", "infra/forward.yaml", "infra/edge.yaml", "infra/export.yaml"];

/// Every alarm by the name of its resource.
pub(super) fn alarms() -> BTreeMap<String, Alarm> {
    let templates = TEMPLATES.map(yaml);
    let resources = templates.iter().flat_map(|template| template["Resources"].as_object().unwrap());
    let alarms = resources.filter(|(_, resource)| resource["Type"] == "AWS::CloudWatch::Alarm");
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
            Some((tag, of)) if tag == "!Sub" => json!(substitute(of.as_str().unwrap())),
            Some((tag, _)) if tag == "!If" => json!([]),
            _ => Value::Object(fields.iter().map(|(name, of)| (name.clone(), resolve(of))).collect::<Map<_, _>>()),
        },
        Value::Array(items) => items.iter().map(resolve).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// Replaces each `${NAME}` of a text.
fn substitute(text: &str) -> String {
    let mut parts = text.split("${");
    let start = parts.next().unwrap_or_default().to_owned();
    parts.fold(start, |text, part| {
        let (name, rest) = part.split_once('}').unwrap();
        format!("{text}{}{rest}", physical_name(name))
    })
}

/// Name that a resource has in the metrics of a local stack.
fn physical_name(resource: &str) -> String {
    match resource {
        "AWS::StackName" | "StackName" | "SwitchhookStackName" => "local".to_owned(),
        "EventBusName" => "bus".to_owned(),
        "ForwardDlq.QueueName" => "forward-dlq".to_owned(),
        "Distribution" => "distribution".to_owned(),
        "ExportScheduleGroup" => "exports".to_owned(),
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
