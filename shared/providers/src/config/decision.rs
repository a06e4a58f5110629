//! The object `decision`: where a built-in provider reports what the person decided, and which values say yes and no.

use serde_json::Value;
use switchhook_domain::Provider;

use super::fields::Fields;
use super::mapping::places;
use crate::configured::equals;
use crate::user_decision::DecisionRule;

/// Most values that say the same.
const VALUES_MAX: usize = 20;

/// True if the webhooks of the provider can hold a decision of the person.
#[must_use]
pub fn can_decide(provider: Provider) -> bool {
    match provider.vendor() {
        Provider::Retell | Provider::Vapi | Provider::Telnyx | Provider::ElevenLabs | Provider::Bland => true,
        Provider::Twilio
        | Provider::Plivo
        | Provider::Vonage
        | Provider::LiveKit
        | Provider::Daily
        | Provider::SignalWire
        | Provider::Generic
        | Provider::Named(_) => false,
    }
}

impl DecisionRule {
    /// Reads the object `decision`. `None` if it is missing or wrong.
    pub(super) fn read(provider: Provider, fields: &mut Fields<'_>) -> Option<Self> {
        if !can_decide(provider) {
            fields
                .reject("decision", &format!("not for {provider}, whose webhooks do not say what the person decided"));
        }
        let mut fields = fields.object("decision")?;
        if !fields.has("pointer") {
            fields.problem("pointer", "missing: the place of the value in the body");
        }
        let places = places(&mut fields, "pointer");
        let (confirmed, declined) = (values(&mut fields, "confirmed"), values(&mut fields, "declined"));
        if confirmed.iter().any(|value| declined.iter().any(|other| equals(value, other))) {
            fields.problem("declined", "has a value of confirmed");
        }
        fields.reject_unknown("pointer, confirmed, declined");
        (!places.is_empty() && !confirmed.is_empty()).then_some(Self { places, confirmed, declined })
    }
}

/// Reads a list of values: texts, numbers, true or false.
fn values(fields: &mut Fields<'_>, name: &str) -> Vec<Value> {
    let values = match fields.take(name) {
        Some(Value::Array(values)) if (1..=VALUES_MAX).contains(&values.len()) => values,
        Some(_) | None => {
            fields.problem(name, &format!("not a list of one to {VALUES_MAX} values"));
            return Vec::new();
        }
    };
    for (index, value) in values.iter().enumerate() {
        if matches!(value, Value::Null | Value::Array(_) | Value::Object(_)) {
            fields.problem(&format!("{name}[{index}]"), "not a text, a number, true or false");
        }
    }
    values
}
