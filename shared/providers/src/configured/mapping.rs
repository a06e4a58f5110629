//! Mapping of a configured provider: where its JSON holds what, and what its events mean.

use serde_json::Value;
use switchhook_domain::{BookingRule, EventKind, Scalar, Timestamp};

use crate::json;
use crate::times::parse_rfc2822;

/// Smallest number that is read as milliseconds. As milliseconds it is in the year 1973, as seconds in the year 5138.
const MILLIS_FROM: f64 = 100_000_000_000.0;

/// Longest text that `webhook.received` repeats, in bytes. The row of the entity holds it, and each KB of a row costs a write unit.
const DATA_BYTES_MAX: usize = 256;

/// Mapping from the provider's JSON to call events.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventMapping {
    /// True if the configuration says that the body is a form. If the signature says it, this is false.
    pub(crate) is_form: bool,
    /// Values that together identify an event. Empty if the signature names the id, or if the body identifies the event.
    pub(crate) event_id: Vec<Place>,
    /// `None` if the provider sends one type of events.
    pub(crate) event_type: Option<Place>,
    pub(crate) call_id: Option<Place>,
    pub(crate) switchhook_call_id: Option<Place>,
    pub(crate) switchhook_attempt: Option<Place>,
    pub(crate) appointment_id: Option<Place>,
    pub(crate) attempt: Option<Place>,
    pub(crate) time: Option<Place>,
    pub(crate) sequence: Option<Place>,
    pub(crate) from: Option<Place>,
    pub(crate) to: Option<Place>,
    /// Id of the thing that an event is about, if it is about no call.
    pub(crate) entity_id: Option<Place>,
    /// Start of the appointment that a booking is about.
    pub(crate) starts_at: Option<Place>,
    /// Id of the booking that a booking replaces.
    pub(crate) replaces: Option<Place>,
    /// Rule by which a booking schedules a call. There is one if an event can mean [`Meaning::Booked`].
    pub(crate) booking_rule: Option<BookingRule>,
    /// Values that `webhook.received` repeats, by their names there.
    pub(crate) data: Vec<(String, Place)>,
    /// The first rule that applies decides.
    pub(crate) rules: Vec<Rule>,
}

/// Meaning of the events that fulfil all conditions, and have a value at all required places.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) conditions: Vec<Condition>,
    /// Places at which the body must have what [`Place::text`] accepts.
    pub(crate) required: Vec<Place>,
    pub(crate) meaning: Meaning,
}

/// Subject of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// A call: the event reports this kind of call event, and implies earlier ones.
    OfCall { kind: EventKind, implies: Vec<EventKind> },
    /// No call. The event is published as `webhook.received`.
    Received,
    /// A booking, which schedules a call. The event is published as `webhook.received` too.
    Booked,
    /// The end of a booking. The event is published as `webhook.received` too.
    BookingCanceled,
}

/// Condition that a value of the body equals this one.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    pub(crate) place: Place,
    pub(crate) value: Value,
}

/// JSON pointer (RFC 6901) into the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place(String);

impl Place {
    /// Makes a place of a JSON pointer. `None` if the text is no pointer to a part of the body.
    pub(crate) fn new(pointer: &str) -> Option<Self> {
        let escapes_are_right =
            pointer.split('~').skip(1).all(|after| after.starts_with('0') || after.starts_with('1'));
        (pointer.starts_with('/') && escapes_are_right).then(|| Self(pointer.to_owned()))
    }

    pub(crate) fn value<'a>(&self, body: &'a Value) -> Option<&'a Value> {
        body.pointer(&self.0)
    }

    /// The value in a JSON text. Nothing else of the text is built. An array or an object has no content then.
    pub(crate) fn value_in(&self, text: &str) -> Option<Value> {
        json::value_at(text, &self.0)
    }

    /// Text that is not blank, or a whole number as text.
    pub(crate) fn text(&self, body: &Value) -> Option<String> {
        match self.value(body)? {
            Value::String(text) => Some(text.clone()).filter(|text| !text.trim().is_empty()),
            Value::Number(number) if number.is_i64() || number.is_u64() => Some(number.to_string()),
            Value::Number(_) | Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        }
    }

    /// Text of limited length, whole number, true or false. A number with a fraction becomes text. `None` for every other value.
    pub(crate) fn scalar(&self, body: &Value) -> Option<Scalar> {
        match self.value(body)? {
            Value::String(text) => Some(Scalar::Text(shortened(text))),
            Value::Number(number) => {
                Some(number.as_i64().map_or_else(|| Scalar::Text(number.to_string()), Scalar::Integer))
            }
            Value::Bool(value) => Some(Scalar::Bool(*value)),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }

    /// Whole number, also as text.
    pub(crate) fn number(&self, body: &Value) -> Option<u32> {
        self.text(body)?.trim().parse().ok()
    }

    /// Time in RFC 3339 or RFC 2822, or Unix time in seconds or milliseconds. The size of the number decides.
    pub(crate) fn time(&self, body: &Value) -> Option<Timestamp> {
        let number = match self.value(body)? {
            Value::String(text) => {
                let text = text.trim();
                if let Some(time) = Timestamp::parse_rfc3339(text).or_else(|| parse_rfc2822(text)) {
                    return Some(time);
                }
                text.parse().ok()
            }
            Value::Number(number) => number.as_f64(),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        }?;
        let millis = if number < MILLIS_FROM { number * 1000.0 } else { number };
        // A number that does not fit becomes the nearest one, which is no plausible time.
        (number > 0.0).then(|| Timestamp::from_millis(millis.round() as i64))
    }
}

impl EventMapping {
    /// Returns the first rule that applies. **It decides even if it is about a call and the body names none.** Such a webhook is quarantined: the
    /// provider may have renamed the field of the call's id, and what another rule read would never change.
    pub(crate) fn rule(&self, body: &Value) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.applies_to(body))
    }
}

impl Rule {
    fn applies_to(&self, body: &Value) -> bool {
        self.conditions.iter().all(|condition| condition.holds(body))
            && self.required.iter().all(|place| place.text(body).is_some())
    }
}

impl Condition {
    /// True if the body has the value at the place. A whole number equals its text.
    fn holds(&self, body: &Value) -> bool {
        self.place.value(body).is_some_and(|value| equals(&self.value, value))
    }
}

/// True if the value of a body is the expected one. A whole number equals its text.
pub(crate) fn equals(expected: &Value, value: &Value) -> bool {
    match (expected, value) {
        (expected, value) if expected == value => true,
        (Value::String(text), Value::Number(number)) | (Value::Number(number), Value::String(text)) => {
            number.to_string() == *text
        }
        (_, _) => false,
    }
}

/// The beginning of a text, at most [`DATA_BYTES_MAX`] bytes.
fn shortened(text: &str) -> String {
    let mut end = text.len().min(DATA_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default().to_owned()
}

/// Earlier facts that an event of this kind proves, if the configuration names none.
pub(crate) const fn implied_by(kind: EventKind) -> &'static [EventKind] {
    match kind {
        EventKind::InProgress | EventKind::Busy | EventKind::NoAnswer | EventKind::Completed => &[EventKind::Ringing],
        EventKind::VoicemailDetected | EventKind::UserConfirmed | EventKind::UserDeclined => {
            &[EventKind::Ringing, EventKind::InProgress]
        }
        EventKind::Initiated
        | EventKind::Ringing
        | EventKind::Canceled
        | EventKind::Failed
        | EventKind::RetryScheduled
        | EventKind::Alive
        | EventKind::ClaimExpired
        | EventKind::DialNotFound
        | EventKind::RetryMissed
        | EventKind::DriftFound
        | EventKind::DeadlinePassed => &[],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn times_are_read_in_every_usual_notation() {
        let time = |value: Value| Place::new("/at").unwrap().time(&json!({"at": value})).map(Timestamp::as_millis);
        for value in [
            json!("2025-10-20T12:14:05Z"),
            json!("Mon, 20 Oct 2025 14:14:05 +0200"),
            json!(1_760_962_445),
            json!("1760962445"),
            json!(1_760_962_445_000_i64),
            json!(1_760_962_445.0),
        ] {
            assert_eq!(time(value.clone()), Some(1_760_962_445_000), "{value}");
        }
        assert_eq!(time(json!(1_760_962_445.25)), Some(1_760_962_445_250));
        for value in [json!("yesterday"), json!(-1), json!(0), json!(null), json!([1]), json!("NaN")] {
            assert_eq!(time(value.clone()), None, "{value}");
        }
    }

    #[test]
    fn condition_compares_values() {
        let holds = |expected: Value, value: Value| {
            Condition { place: Place::new("/a~1b/0").unwrap(), value: expected }.holds(&json!({"a/b": [value]}))
        };
        assert!(holds(json!("done"), json!("done")) && holds(json!(true), json!(true)));
        assert!(holds(json!("7"), json!(7)) && holds(json!(7), json!("7")));
        for (expected, value) in
            [("done", json!("Done")), ("true", json!(true)), ("", json!(null)), ("a", json!(["a"])), ("7", json!(7.5))]
        {
            assert!(!holds(json!(expected), value.clone()), "{expected} {value}");
        }
        assert!(!Condition { place: Place::new("/b").unwrap(), value: json!(null) }.holds(&json!({})));
    }

    #[test]
    fn pointers_start_with_a_slash() {
        for good in ["/", "/a", "/a/0", "/a~0b~1c"] {
            assert!(Place::new(good).is_some(), "{good}");
        }
        for bad in ["", "a", "$.a", "/a~2", "/a~"] {
            assert_eq!(Place::new(bad), None, "{bad}");
        }
    }
}
