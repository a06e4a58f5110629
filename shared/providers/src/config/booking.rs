//! The object `booked_call` of a configured provider: the call that a booking schedules.

use serde_json::Value;
use switchhook_domain::{BookingRule, CallingWindow, PhoneNumber, Provider};

use super::fields::Fields;
use crate::api::api_url;

/// Longest time from the call to the start of the appointment: 60 days.
const BEFORE_MINUTES_MAX: u64 = 60 * 24 * 60;

/// Reads the object `booked_call`. `None` if it is missing or wrong.
pub(super) fn booking_rule(fields: &mut Fields<'_>) -> Option<BookingRule> {
    let mut fields = fields.object("booked_call")?;
    let providers = providers(&mut fields);
    let from = fields.text("from");
    let number = from.as_deref().and_then(PhoneNumber::parse);
    if from.is_some() && number.is_none() {
        fields.problem("from", "neither an E.164 number such as +14155550123 nor a SIP address");
    }
    let before_minutes = fields.take("before_minutes");
    let minutes = before_minutes.as_ref().and_then(Value::as_u64);
    let minutes = minutes.filter(|minutes| (1..=BEFORE_MINUTES_MAX).contains(minutes));
    let minutes = minutes.and_then(|minutes| u32::try_from(minutes).ok());
    if minutes.is_none() {
        let message = match before_minutes {
            None => "missing: the time from the call to the start of the appointment",
            Some(_) => "not a whole number from 1 to 86400",
        };
        fields.problem("before_minutes", message);
    }
    let window = fields.optional_text("window").and_then(|text| window(&mut fields, &text));
    fields.reject_unknown("providers, from, before_minutes, window");
    Some(BookingRule { providers: providers?, from: number?, before_minutes: minutes?, window })
}

fn providers(fields: &mut Fields<'_>) -> Option<Vec<Provider>> {
    let names = fields.take("providers");
    let find = |name: &Value| name.as_str()?.parse().ok().filter(|provider| api_url(*provider).is_some());
    let list = names.as_ref().and_then(Value::as_array);
    let providers: Option<Vec<Provider>> = list.and_then(|list| list.iter().map(find).collect());
    let is_right = |list: &Vec<Provider>| {
        !list.is_empty() && list.iter().enumerate().all(|(n, one)| !list.iter().take(n).any(|other| other == one))
    };
    let providers = providers.filter(is_right);
    if providers.is_none() {
        let known = Provider::ALL.iter().filter(|provider| api_url(**provider).is_some());
        let known = known.map(Provider::as_str).collect::<Vec<_>>().join(", ");
        fields.problem(
            "providers",
            &format!("not a list of different providers that place calls: {known}, and accounts of them"),
        );
    }
    providers
}

fn window(fields: &mut Fields<'_>, text: &str) -> Option<CallingWindow> {
    let window = text.parse::<CallingWindow>().and_then(|window| window.check().map(|()| window));
    if let Err(error) = &window {
        fields.problem("window", &error.to_string());
    }
    window.ok()
}
