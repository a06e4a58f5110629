//! Requests to forget persons, and the ids and numbers of their calls.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use switchhook_domain::{Call, CallId, PhoneNumber, Timestamp};

/// Persons to forget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForgetFilter {
    /// The persons of these calls. Ids of attempts, such as `retell:call_1`, are followed to their calls. The key of an entity, such as
    /// `entity:x-acme:pay_1`, stands for all its webhooks. If it is a booking, its call is meant too.
    Calls(Vec<CallId>),
    /// The person with this number, also if it lacks its plus sign. Finds nothing while `IndexNumbers` is off.
    Number(PhoneNumber),
    /// The persons of all calls of an appointment, and of webhooks about no call that name it in their body.
    Appointment(String),
}

impl ForgetFilter {
    /// Returns the filter for the plan, without a phone number.
    pub(super) fn to_json(&self) -> Value {
        match self {
            Self::Calls(calls) => json!({ "calls": calls }),
            Self::Number(_) => json!({ "number": "not kept" }),
            Self::Appointment(id) => json!({ "appointment": id }),
        }
    }
}

/// Request to forget persons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgetRequest {
    pub filter: ForgetFilter,
    /// Earliest time at which an event of the calls may have arrived. `None` for the creation of the first of the calls, or for all events if
    /// Switchhook did not place every call.
    pub since: Option<Timestamp>,
    /// True if the persons' numbers are also taken off the do-not-call list.
    pub also_do_not_call: bool,
}

/// Returns the ids under which the webhooks of a call arrive: its own, and those that its attempts have at their providers, also those that
/// another system dialled.
pub(super) fn ids_of(call: &Call) -> BTreeSet<CallId> {
    let attempts = call.attempt_records.iter().enumerate();
    let derived = attempts.filter_map(|(index, record)| {
        let provider = call.attempt_provider(index)?;
        let id = switchhook_providers::derived_call_id(provider, record.provider_call_id.as_ref()?);
        Some(CallId::new(id))
    });
    derived.chain([call.call_id.clone()]).collect()
}
