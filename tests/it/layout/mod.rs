//! Facts that are stated in several places, and must agree: workspace, template, documentation, local cloud.

#![expect(clippy::panic, clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod configuration;
mod dependencies;
mod documents;
mod event_ids;
mod house;
mod links;
mod local_cloud;
mod thresholds;

use std::collections::BTreeSet;

use serde_json::Value;

const TEMPLATE: &str = "template.yaml";

/// The names of the entries of a mapping.
fn names(mapping: &Value) -> BTreeSet<String> {
    mapping.as_object().unwrap().keys().cloned().collect()
}

/// A text or a number, as text.
fn scalar(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
