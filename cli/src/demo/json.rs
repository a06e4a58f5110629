//! Reading of fields from JSON objects.

use serde_json::Value;

use super::script::Millis;

/// Returns a text field. Empty if there is no such text.
pub(super) fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Returns a field with an RFC 3339 time. `None` if there is no such time.
pub(super) fn time(value: &Value, name: &str) -> Option<Millis> {
    text(value, name).parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond)
}
