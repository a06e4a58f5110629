//! The contract with subscribers: the JSON Schemas of the domain events in `infra/events`.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::Value;
use switchhook_aws::bus::SOURCE;
use switchhook_local::bus::BusEvent;

use crate::fixtures::text;

const SOURCES: [&str; 6] = [
    include_str!("../../infra/events/appointment.json"),
    include_str!("../../infra/events/call.json"),
    include_str!("../../infra/events/operator.json"),
    include_str!("../../infra/events/provider.json"),
    include_str!("../../infra/events/received.json"),
    include_str!("../../infra/events/webhook.json"),
];

static CONTRACT: LazyLock<Contract> = LazyLock::new(Contract::read);

struct Contract {
    schemas: Schemas,
    /// Types of events, each set with the schema that describes it.
    schemas_by_types: Vec<(BTreeSet<String>, SchemaIndex)>,
}

/// The schemas, as they are published.
///
/// # Panics
/// If a schema is not valid JSON.
#[must_use]
pub fn schema_documents() -> Vec<Value> {
    SOURCES.iter().map(|text| serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}"))).collect()
}

/// The types of domain events that a schema describes.
#[must_use]
pub fn described_types(schema: &Value) -> BTreeSet<String> {
    let described = &schema["properties"]["type"];
    let many = described["enum"].as_array().into_iter().flatten();
    many.chain(described.get("const")).map(text).collect()
}

/// Validates a domain event against the schema of its type. Returns the violation, or `None` if the event is valid.
#[must_use]
pub fn schema_violation(event: &Value) -> Option<String> {
    let contract = &*CONTRACT;
    let known = contract.schemas_by_types.iter().find(|(types, _)| types.contains(&text(&event["type"])));
    match known {
        Some((_, index)) => contract.schemas.validate(event, *index).err().map(|error| format!("{error:#}")),
        None => Some("no schema describes this type".to_owned()),
    }
}

/// Validates an event of the bus: its source, its detail type, and its detail by [`schema_violation`].
#[must_use]
pub fn bus_event_violation(event: &BusEvent) -> Option<String> {
    let detail: Value = serde_json::from_str(&event.detail).unwrap_or_default();
    if event.source != SOURCE || event.detail_type != detail["type"] {
        return Some(format!("wrong detail type {} or source {}", event.detail_type, event.source));
    }
    schema_violation(&detail)
}

impl Contract {
    fn read() -> Self {
        let mut compiler = Compiler::new();
        compiler.enable_format_assertions();
        let mut schemas = Schemas::new();
        let compiled = schema_documents().into_iter().map(|schema| {
            let (id, types) = (text(&schema["$id"]), described_types(&schema));
            compiler.add_resource(&id, schema).unwrap_or_else(|error| panic!("{error}"));
            (types, compiler.compile(&id, &mut schemas).unwrap_or_else(|error| panic!("{error:#}")))
        });
        let schemas_by_types = compiled.collect();
        Self { schemas, schemas_by_types }
    }
}
