//! The object `events` of a configured provider.

use serde_json::Value;
use switchhook_domain::EventKind;

use super::booking::booking_rule;
use super::fields::Fields;
use super::scheme::one_of;
use crate::configured::{Condition, EventMapping, Meaning, Place, Rule, implied_by};
use crate::scheme::Scheme;

/// Most rules of a mapping, and most conditions and required values of a rule. Every webhook may try all of them.
const RULES_MAX: usize = 100;
const CONDITIONS_MAX: usize = 8;
const REQUIRED_MAX: usize = 8;
/// Most values that `webhook.received` repeats, and the longest name of one.
const DATA_MAX: usize = 16;
const DATA_NAME_MAX: usize = 32;
/// Names of the meanings of an event that is about no call.
const RECEIVED: &str = "received";
const BOOKED: &str = "booked";
const BOOKING_CANCELED: &str = "booking_canceled";
/// Most values that together identify an event.
const ID_PARTS_MAX: usize = 4;

/// Kinds of call events that a sender can report.
const KINDS: [EventKind; 12] = [
    EventKind::Initiated,
    EventKind::Ringing,
    EventKind::InProgress,
    EventKind::VoicemailDetected,
    EventKind::UserDeclined,
    EventKind::UserConfirmed,
    EventKind::NoAnswer,
    EventKind::Canceled,
    EventKind::Busy,
    EventKind::Failed,
    EventKind::Completed,
    EventKind::RetryScheduled,
];

impl EventMapping {
    /// Reads the object `events` of a provider that signs by this scheme. A problem is added for everything that is wrong.
    pub(super) fn read(scheme: Option<&Scheme>, fields: &mut Fields<'_>) -> Option<Self> {
        if !fields.has("events") {
            fields.problem("events", "missing: the places of the ids, and the rules");
        }
        let mut fields = fields.object("events")?;
        let signs_url = scheme.is_some_and(Scheme::signs_url);
        if signs_url {
            fields.reject("body", "not beside this signature, which says itself whether the body is a form");
            if !fields.has("event_id") {
                // Anybody could reorder the parameters, and so change the hash of the body.
                let message =
                    "missing: this signature does not cover the order of parameters, so the body identifies no event";
                fields.problem("event_id", message);
            }
        }
        let is_form = one_of(&mut fields, "body", "neither json nor form", &[("json", false), ("form", true)]);
        let event_id = places(&mut fields, "event_id");
        let names_type = fields.has("type");
        let event_type = place(&mut fields, "type");
        // A wrong place has its own problem, so nothing is reported about those that need it.
        let place_of_rules = event_type.clone().or_else(|| Place::new("/").filter(|_| names_type));
        let names_call = ["call_id", "switchhook_call_id", "appointment_id"].iter().any(|name| fields.has(name));
        let of_bookings = ["starts_at", "booked_call", "to", "entity_id", "time", "replaces"];
        let present: Vec<&str> = of_bookings.into_iter().filter(|name| fields.has(name)).collect();
        let mapping = Self {
            is_form: is_form.unwrap_or(false),
            event_id,
            call_id: place(&mut fields, "call_id"),
            switchhook_call_id: place(&mut fields, "switchhook_call_id"),
            switchhook_attempt: place(&mut fields, "switchhook_attempt"),
            appointment_id: place(&mut fields, "appointment_id"),
            attempt: place(&mut fields, "attempt"),
            time: place(&mut fields, "time"),
            sequence: place(&mut fields, "sequence"),
            from: place(&mut fields, "from"),
            to: place(&mut fields, "to"),
            entity_id: place(&mut fields, "entity_id"),
            starts_at: place(&mut fields, "starts_at"),
            replaces: place(&mut fields, "replaces"),
            booking_rule: booking_rule(&mut fields),
            data: data(&mut fields),
            rules: rules(&mut fields, place_of_rules.as_ref()),
            event_type,
        };
        let has = |is_meant: fn(&Meaning) -> bool| mapping.rules.iter().any(|rule| is_meant(&rule.meaning));
        let is_about_calls = has(|meaning| matches!(meaning, Meaning::OfCall { .. }));
        let is_about_others = has(|meaning| !matches!(meaning, Meaning::OfCall { .. }));
        if !names_call && is_about_calls {
            fields
                .problem("call_id", "missing: an event of a call needs call_id, appointment_id or switchhook_call_id");
        }
        if !is_about_others {
            for (name, is_there) in [("entity_id", mapping.entity_id.is_some()), ("data", !mapping.data.is_empty())] {
                if is_there {
                    fields.problem(name, "needs a rule with the event received");
                }
            }
        }
        check_bookings(
            &mut fields,
            &present,
            has(|meaning| *meaning == Meaning::Booked),
            has(|meaning| *meaning == Meaning::BookingCanceled),
        );
        fields.reject_unknown(
            "body, event_id, type, call_id, switchhook_call_id, switchhook_attempt, appointment_id, attempt, time, sequence, from, to, \
             entity_id, data, starts_at, replaces, booked_call, rules",
        );
        Some(mapping)
    }
}

/// Adds a problem for every field that bookings need and that is not `present`, and for every field that only bookings need.
fn check_bookings(fields: &mut Fields<'_>, present: &[&str], is_booked: bool, is_canceled: bool) {
    for (name, is_needed) in [
        ("starts_at", is_booked),
        ("booked_call", is_booked),
        ("to", is_booked),
        ("entity_id", is_booked || is_canceled),
        ("time", is_booked || is_canceled),
    ] {
        if is_needed && !present.contains(&name) {
            fields.problem(name, "missing: the events of bookings need it");
        }
    }
    for name in ["starts_at", "replaces", "booked_call"] {
        if present.contains(&name) && !is_booked {
            fields.problem(name, "needs a rule with the event booked");
        }
    }
}

/// Reads a JSON pointer. `None` if the field is missing or wrong.
fn place(fields: &mut Fields<'_>, name: &str) -> Option<Place> {
    let text = fields.optional_text(name)?;
    let place = Place::new(&text);
    if place.is_none() {
        fields.problem(name, NOT_A_POINTER);
    }
    place
}

const NOT_A_POINTER: &str = "not a JSON pointer such as /data/id";

/// Reads the object `data`: the names of values, and their places.
fn data(fields: &mut Fields<'_>) -> Vec<(String, Place)> {
    let object = match fields.take("data") {
        None => return Vec::new(),
        Some(Value::Object(object)) if (1..=DATA_MAX).contains(&object.len()) => object,
        Some(_) => {
            fields.problem("data", &format!("not an object with one to {DATA_MAX} JSON pointers"));
            return Vec::new();
        }
    };
    let mut data = Vec::new();
    for (name, value) in object {
        let is_name = (1..=DATA_NAME_MAX).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        match value.as_str().and_then(Place::new) {
            _ if !is_name => {
                let problem = format!("not a name of at most {DATA_NAME_MAX} letters, digits and underscores");
                fields.problem(&format!("data.{name:?}"), &problem);
            }
            Some(place) => data.push((name, place)),
            None => fields.problem(&format!("data.{name}"), NOT_A_POINTER),
        }
    }
    data
}

/// Reads a JSON pointer, or a list of them.
pub(super) fn places(fields: &mut Fields<'_>, name: &str) -> Vec<Place> {
    let texts = match fields.take(name) {
        None => return Vec::new(),
        Some(Value::String(text)) => vec![Value::String(text)],
        Some(Value::Array(texts)) if (1..=ID_PARTS_MAX).contains(&texts.len()) => texts,
        Some(_) => {
            fields.problem(name, &format!("not a JSON pointer such as /id, nor a list of one to {ID_PARTS_MAX}"));
            return Vec::new();
        }
    };
    let mut places = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        match text.as_str().and_then(Place::new) {
            Some(place) => places.push(place),
            None => fields.problem(&format!("{name}[{index}]"), NOT_A_POINTER),
        }
    }
    places
}

fn rules(fields: &mut Fields<'_>, event_type: Option<&Place>) -> Vec<Rule> {
    let values = match fields.take("rules") {
        None => return Vec::new(),
        Some(Value::Array(values)) if values.len() <= RULES_MAX => values,
        Some(_) => {
            fields.problem("rules", &format!("not a list of at most {RULES_MAX} rules"));
            return Vec::new();
        }
    };
    let mut rules = Vec::new();
    for (index, value) in values.into_iter().enumerate() {
        let name = format!("rules[{index}]");
        match value {
            Value::Object(object) => rules.extend(rule(fields.inner(&name, object), event_type)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                fields.problem(&name, "not an object");
            }
        }
    }
    rules
}

fn rule(mut fields: Fields<'_>, event_type: Option<&Place>) -> Option<Rule> {
    let event = fields.text("event");
    let of_others = match event.as_deref() {
        Some(RECEIVED) => Some(Meaning::Received),
        Some(BOOKED) => Some(Meaning::Booked),
        Some(BOOKING_CANCELED) => Some(Meaning::BookingCanceled),
        Some(_) | None => None,
    };
    // A rule without a condition may end the list, for everything that is about no call.
    let is_received = of_others == Some(Meaning::Received);
    let conditions = if is_received && !fields.has("when") { Vec::new() } else { conditions(&mut fields, event_type) };
    let required = required(&mut fields, event_type);
    if let Some(meaning) = of_others {
        fields.reject("implies", &format!("not beside the event {}", event.as_deref().unwrap_or_default()));
        fields.reject_unknown(RULE_FIELDS);
        return Some(Rule { conditions, required, meaning });
    }
    let kind = event.and_then(|text| {
        kind_of(&text).or_else(|| {
            fields.problem("event", &format!("{}, {RECEIVED}, {BOOKED}, {BOOKING_CANCELED}", not_a_kind()));
            None
        })
    });
    let implies = implies(&mut fields, kind);
    fields.reject_unknown(RULE_FIELDS);
    Some(Rule { conditions, required, meaning: Meaning::OfCall { kind: kind?, implies } })
}

const RULE_FIELDS: &str = "when, has, event, implies";

/// Reads the object `when`: the value that `type` or a JSON pointer must have.
fn conditions(fields: &mut Fields<'_>, event_type: Option<&Place>) -> Vec<Condition> {
    let object = match fields.take("when") {
        Some(Value::Object(object)) if (1..=CONDITIONS_MAX).contains(&object.len()) => object,
        Some(_) => {
            fields.problem("when", &format!("not an object with one to {CONDITIONS_MAX} conditions"));
            return Vec::new();
        }
        None => {
            fields.problem("when", "missing: the values that make the rule apply");
            return Vec::new();
        }
    };
    let mut conditions = Vec::new();
    for (name, value) in object {
        let at = format!("when.{name:?}");
        match (place_of(fields, &at, &name, event_type), &value) {
            (None, _) => {}
            (Some(_), Value::Null | Value::Array(_) | Value::Object(_)) => {
                fields.problem(&at, "not a text, a number, true or false");
            }
            (Some(place), Value::String(_) | Value::Number(_) | Value::Bool(_)) => {
                conditions.push(Condition { place, value });
            }
        }
    }
    conditions
}

/// Reads the list `has`: the names of places at which the body must have a value.
fn required(fields: &mut Fields<'_>, event_type: Option<&Place>) -> Vec<Place> {
    let names = match fields.take("has") {
        None => return Vec::new(),
        Some(Value::Array(names)) if (1..=REQUIRED_MAX).contains(&names.len()) => names,
        Some(_) => {
            fields.problem("has", &format!("not a list of one to {REQUIRED_MAX} names, such as /data/id"));
            return Vec::new();
        }
    };
    let mut places = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let name = name.as_str().unwrap_or_default();
        places.extend(place_of(fields, &format!("has[{index}]"), name, event_type));
    }
    places
}

/// Returns the place that a rule names, as `type` or by a JSON pointer. If there is none, a problem with the field `at` is added.
fn place_of(fields: &mut Fields<'_>, at: &str, name: &str, event_type: Option<&Place>) -> Option<Place> {
    let place = if name == "type" { event_type.cloned() } else { Place::new(name) };
    match place {
        Some(_) => {}
        None if name == "type" => fields.problem(at, "needs events.type, the place of the type"),
        None => fields.problem(at, "neither type nor a JSON pointer such as /data/status"),
    }
    place
}

/// Reads the list `implies`. Without it, an event implies what its word implies for the generic provider.
fn implies(fields: &mut Fields<'_>, kind: Option<EventKind>) -> Vec<EventKind> {
    let texts = match fields.take("implies") {
        None => return kind.map(|kind| implied_by(kind).to_vec()).unwrap_or_default(),
        Some(Value::Array(texts)) => texts,
        Some(_) => {
            fields.problem("implies", "not a list");
            return Vec::new();
        }
    };
    let mut implies = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        let name = format!("implies[{index}]");
        match text.as_str().and_then(kind_of) {
            Some(implied) if Some(implied) == kind => fields.problem(&name, "the event itself"),
            Some(implied) => implies.push(implied),
            None => fields.problem(&name, &not_a_kind()),
        }
    }
    implies
}

fn kind_of(text: &str) -> Option<EventKind> {
    KINDS.into_iter().find(|kind| kind.as_str() == text)
}

fn not_a_kind() -> String {
    format!("none of {}", KINDS.map(EventKind::as_str).join(", "))
}
