//! Reads and checks the bodies of `POST /calls` and `POST /calls/batch`. All errors of a call are reported together.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use jiff::civil;
use serde_json::{Map, Value};
use switchhook_aws::problem::{FieldError, Problem, ProblemKind};
use switchhook_domain::{
    APPOINTMENT_ID_BYTES_MAX, CALL_ATTEMPTS_MAX, CallingWindow, Day, PhoneNumber, Provider, Timestamp, WindowError,
};
use switchhook_providers::{ReadError, api_url, distinct_json, is_reserved_metadata};

use crate::idempotency::is_key;
use crate::number::INVALID_NUMBER;
use crate::request::{CallRequest, RetryOptions};
use crate::time::{due_at_error, is_like, is_rfc3339};

/// Limit on the size of the body.
pub const BODY_BYTES_MAX: usize = 16 * 1024;
/// Limit on the calls of a batch.
pub const BATCH_CALLS_MAX: usize = 100;
/// Limit on the entries of `metadata`. Every dial sends them to the provider.
pub(crate) const METADATA_ENTRIES_MAX: usize = 20;
pub(crate) const METADATA_NAME_BYTES_MAX: usize = 64;
const METADATA_VALUE_BYTES_MAX: usize = 512;
/// Limit on the metadata as the query of a URL. Twilio documents 4,000 characters for a URL (error 21609). The rest is for the URL of the
/// application and for our ids. A longer URL would be refused like a wrong setting of the account.
const METADATA_QUERY_BYTES_MAX: usize = 2_000;
pub(crate) const TIME_ZONE_BYTES_MAX: usize = 64;
/// Limit on the dates without calls of one window. Each takes 12 bytes of the row.
pub(crate) const CLOSED_DATES_MAX: usize = 50;
/// Longest delay before the second attempt, in seconds.
pub const DELAY_SECONDS_MAX: u32 = 24 * 60 * 60;
pub(crate) const DELAY_MAX_SECONDS_MAX: u32 = 7 * 24 * 60 * 60;
/// Limit on the field errors of one answer.
const ERRORS_MAX: usize = 50;

const FIELDS: [&str; 10] = [
    "provider",
    "providers",
    "from",
    "to",
    "appointment_id",
    "metadata",
    "due_at",
    "window",
    "retry",
    "allow_duplicate",
];
/// Extra field of a call in a batch. It replaces the header `Idempotency-Key`.
pub(crate) const KEY_FIELD: &str = "idempotency_key";
const WINDOW_FIELDS: [&str; 5] = ["time_zone", "opens", "closes", "days", "closed_dates"];
const RETRY_FIELDS: [&str; 5] = ["attempts_max", "delay_seconds", "delay_max_seconds", "voicemail", "unheard"];

/// One call of a batch.
#[derive(Debug)]
pub(crate) struct BatchEntry {
    pub(crate) key: Option<String>,
    pub(crate) request: CallRequest,
}

/// Checks a call of a batch without sending it.
///
/// # Errors
/// The problem that the API would answer with for this call. Whether the due time is near enough to `now` is checked too.
pub fn check_entry(call: Value, now: Timestamp) -> Result<(), Problem> {
    match read_entry(call, now)?.request.due_at_error {
        None => Ok(()),
        Some(error) => Err(Problem::invalid(vec![error])),
    }
}

/// Reads a body. `errors` are errors found elsewhere in the request; they are reported together with those of the body.
pub(crate) fn read(body: &[u8], errors: Vec<FieldError>, now: Timestamp) -> Result<CallRequest, Problem> {
    let Value::Object(body) = parse(body, BODY_BYTES_MAX)? else {
        return Err(Problem::new(ProblemKind::InvalidRequest, "the body must be a JSON object"));
    };
    read_call(&body, errors, now)
}

/// Reads the body of a batch. A call with errors does not affect the others.
pub(crate) fn read_batch(body: &[u8], now: Timestamp) -> Result<Vec<Result<BatchEntry, Problem>>, Problem> {
    let mut body = parse(body, BATCH_CALLS_MAX * BODY_BYTES_MAX)?;
    let calls = body.get_mut("calls").map(Value::take);
    let has_other_fields = body.as_object().is_none_or(|body| body.len() > 1);
    match calls {
        Some(Value::Array(calls)) if (1..=BATCH_CALLS_MAX).contains(&calls.len()) && !has_other_fields => {
            Ok(calls.into_iter().map(|call| read_entry(call, now)).collect())
        }
        Some(_) | None => {
            let message = format!("must be a list of 1 to {BATCH_CALLS_MAX} calls, and the only field of the body");
            Err(Problem::invalid(vec![FieldError::new("calls", message)]))
        }
    }
}

fn read_entry(call: Value, now: Timestamp) -> Result<BatchEntry, Problem> {
    let Value::Object(mut call) = call else {
        return Err(Problem::new(ProblemKind::InvalidRequest, "the call must be a JSON object"));
    };
    let mut errors = Vec::new();
    let key = match call.remove(KEY_FIELD) {
        None => None,
        Some(Value::String(key)) if is_key(key.as_bytes()) => Some(key),
        Some(_) => {
            errors.push(FieldError::new(KEY_FIELD, "must be text of 1 to 255 visible ASCII characters"));
            None
        }
    };
    Ok(BatchEntry { key, request: read_call(&call, errors, now)? })
}

fn parse(body: &[u8], bytes_max: usize) -> Result<Value, Problem> {
    if body.len() > bytes_max {
        let detail = format!("the body is larger than the limit of {bytes_max} bytes");
        return Err(Problem::new(ProblemKind::PayloadTooLarge, detail));
    }
    // The error has a position and no text of the body, which may be a phone number.
    distinct_json(body).map_err(|error| {
        let is_json = matches!(error, ReadError::RepeatedField { .. });
        let kind = if is_json { ProblemKind::InvalidRequest } else { ProblemKind::InvalidJson };
        Problem::new(kind, error.to_string())
    })
}

fn read_call(body: &Map<String, Value>, errors: Vec<FieldError>, now: Timestamp) -> Result<CallRequest, Problem> {
    let mut reader = Reader { errors, due_at_error: None };
    match reader.request(body, now) {
        Some(request) if reader.errors.is_empty() => Ok(CallRequest { due_at_error: reader.due_at_error, ..request }),
        Some(_) | None => Err(reader.problem()),
    }
}

/// True if Switchhook can place calls through this provider. The dialer checks later whether the provider is configured.
pub(crate) fn can_place_calls(provider: Provider) -> bool {
    api_url(provider).is_some()
}

/// True if this provider may call a SIP address. LiveKit does not: it adds the host of its trunk to each address.
fn calls_sip_addresses(provider: Provider) -> bool {
    can_place_calls(provider) && provider.vendor() != Provider::LiveKit
}

/// True if this provider gets the metadata in the query of a URL.
fn gets_metadata_in_url(provider: Provider) -> bool {
    matches!(provider.vendor(), Provider::Twilio | Provider::Plivo | Provider::Vonage | Provider::SignalWire)
}

/// Number of bytes that the metadata has in a query: `name=value&` for each entry, percent-encoded.
fn query_bytes(metadata: &BTreeMap<String, String>) -> usize {
    let encoded = |byte: u8| if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) { 1_usize } else { 3 };
    metadata.iter().map(|(name, value)| 2 + name.bytes().chain(value.bytes()).map(encoded).sum::<usize>()).sum()
}

/// Reads one field after another, and collects their errors.
struct Reader {
    errors: Vec<FieldError>,
    /// Error of the due time, kept apart as in [`CallRequest::due_at_error`].
    due_at_error: Option<FieldError>,
}

impl Reader {
    fn request(&mut self, body: &Map<String, Value>, now: Timestamp) -> Option<CallRequest> {
        self.reject_unknown_fields("", body, &FIELDS);
        let providers = self.providers(body);
        let from = self.text("", body, "from", true).and_then(|text| self.number("from", text));
        let to = self.text("", body, "to", true).and_then(|text| self.number("to", text));
        if to.as_ref().is_some_and(|to| !to.is_e164()) {
            let of_numbers = providers.iter().flatten().filter(|provider| !calls_sip_addresses(**provider));
            for provider in of_numbers {
                self.error("to", format!("must be an E.164 number, because {provider} calls no SIP address"));
            }
        }
        let appointment_id =
            self.text("", body, "appointment_id", false).and_then(|text| self.appointment_id(text)).map(str::to_owned);
        let metadata = self.object(body, "metadata").map(|object| self.metadata(object)).unwrap_or_default();
        if query_bytes(&metadata) > METADATA_QUERY_BYTES_MAX {
            for provider in providers.iter().flatten().filter(|provider| gets_metadata_in_url(**provider)) {
                let limit = format!("must have at most {METADATA_QUERY_BYTES_MAX} bytes as the query of a URL");
                self.error("metadata", format!("{limit}, in which {provider} gets it"));
            }
        }
        let due_at = self.text("", body, "due_at", false).and_then(|text| self.time(text));
        let window = self.object(body, "window").and_then(|object| self.window(object));
        // No option is the same as no options, so that both give the same hash.
        let retry = self.object(body, "retry").map(|object| self.retry(object));
        let retry = retry.filter(|options| *options != RetryOptions::default());
        let allow_duplicate = self.truth("", body, "allow_duplicate");
        self.due_at_error = due_at.and_then(|due_at| due_at_error(due_at, now));
        Some(CallRequest {
            providers: providers?,
            from: from?,
            to: to?,
            appointment_id,
            metadata,
            due_at,
            window,
            retry,
            allow_duplicate: allow_duplicate.unwrap_or_default(),
            due_at_error: None,
        })
    }

    fn problem(mut self) -> Problem {
        self.errors.extend(self.due_at_error);
        self.errors.truncate(ERRORS_MAX);
        Problem::invalid(self.errors)
    }

    fn error(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.errors.push(FieldError::new(field, message));
    }

    fn reject_unknown_fields(&mut self, path: &str, object: &Map<String, Value>, known: &[&str]) {
        for name in object.keys().filter(|name| !known.contains(&name.as_str())) {
            let name: String = name.chars().take(METADATA_NAME_BYTES_MAX).collect();
            self.error(format!("{path}{name}"), format!("is not a known field; known fields are {}", known.join(", ")));
        }
    }

    fn text<'a>(&mut self, path: &str, object: &'a Map<String, Value>, name: &str, required: bool) -> Option<&'a str> {
        match object.get(name) {
            Some(Value::String(text)) => return Some(text),
            Some(_) => self.error(format!("{path}{name}"), "must be a string"),
            None if required => self.error(format!("{path}{name}"), "is missing"),
            None => {}
        }
        None
    }

    fn object<'a>(&mut self, object: &'a Map<String, Value>, name: &str) -> Option<&'a Map<String, Value>> {
        match object.get(name) {
            Some(Value::Object(inner)) => return Some(inner),
            Some(_) => self.error(name, "must be an object"),
            None => {}
        }
        None
    }

    fn truth(&mut self, path: &str, object: &Map<String, Value>, name: &str) -> Option<bool> {
        let value = object.get(name)?.as_bool();
        if value.is_none() {
            self.error(format!("{path}{name}"), "must be true or false");
        }
        value
    }

    fn whole_number(
        &mut self,
        path: &str,
        object: &Map<String, Value>,
        name: &str,
        range: RangeInclusive<u32>,
    ) -> Option<u32> {
        let value = object.get(name)?;
        let number = value.as_u64().and_then(|number| u32::try_from(number).ok()).filter(|n| range.contains(n));
        if number.is_none() {
            let message = format!("must be a whole number from {} to {}", range.start(), range.end());
            self.error(format!("{path}{name}"), message);
        }
        number
    }

    /// Reads `providers`, or `provider` for a list of one.
    fn providers(&mut self, body: &Map<String, Value>) -> Option<Vec<Provider>> {
        let dialing: Vec<Provider> = Provider::ALL.into_iter().filter(|provider| can_place_calls(*provider)).collect();
        let find = |name: &Value| name.as_str()?.parse().ok().filter(|provider| can_place_calls(*provider));
        let names = || {
            let names = dialing.iter().map(Provider::as_str).collect::<Vec<_>>();
            format!("{}, or an account such as twilio-eu", names.join(", "))
        };
        match (body.get("provider"), body.get("providers")) {
            (Some(name), None) => {
                let provider = find(name);
                if provider.is_none() {
                    self.error("provider", format!("must be one of {}", names()));
                }
                provider.map(|provider| vec![provider])
            }
            (None, Some(list)) => {
                let list = list.as_array().filter(|list| (1..=dialing.len()).contains(&list.len()));
                let providers: Option<Vec<Provider>> = list.and_then(|list| list.iter().map(find).collect());
                let providers = providers.filter(|list| {
                    list.iter().enumerate().all(|(n, one)| !list.iter().take(n).any(|other| other == one))
                });
                if providers.is_none() {
                    self.error("providers", format!("must be a list of different providers, each one of {}", names()));
                }
                providers
            }
            (Some(_), Some(_)) => {
                self.error("providers", "must be left out if provider is given");
                None
            }
            (None, None) => {
                self.error("provider", "is missing; name one here, or several in providers");
                None
            }
        }
    }

    fn number(&mut self, field: &str, text: &str) -> Option<PhoneNumber> {
        let number = PhoneNumber::parse(text);
        if number.is_none() {
            self.error(field, INVALID_NUMBER);
        }
        number
    }

    fn appointment_id<'a>(&mut self, text: &'a str) -> Option<&'a str> {
        if (1..=APPOINTMENT_ID_BYTES_MAX).contains(&text.len()) && !text.chars().any(char::is_control) {
            return Some(text);
        }
        let message = format!("must have 1 to {APPOINTMENT_ID_BYTES_MAX} bytes and no control characters");
        self.error("appointment_id", message);
        None
    }

    fn metadata(&mut self, object: &Map<String, Value>) -> BTreeMap<String, String> {
        if object.len() > METADATA_ENTRIES_MAX {
            self.error("metadata", format!("must have at most {METADATA_ENTRIES_MAX} entries"));
        }
        let mut metadata = BTreeMap::new();
        for (name, value) in object {
            let field = format!("metadata.{}", name.chars().take(METADATA_NAME_BYTES_MAX).collect::<String>());
            if !(1..=METADATA_NAME_BYTES_MAX).contains(&name.len()) || name.chars().any(char::is_control) {
                let message =
                    format!("must have a name of 1 to {METADATA_NAME_BYTES_MAX} bytes and no control characters");
                self.error(&field, message);
            } else if is_reserved_metadata(name) {
                self.error(&field, "is a reserved name; choose another one");
            }
            match value {
                Value::String(text) if text.len() <= METADATA_VALUE_BYTES_MAX => {
                    metadata.insert(name.clone(), text.clone());
                }
                Value::String(_) => {
                    self.error(field, format!("must have at most {METADATA_VALUE_BYTES_MAX} bytes"));
                }
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                    self.error(field, "must be a string");
                }
            }
        }
        metadata
    }

    fn time(&mut self, text: &str) -> Option<Timestamp> {
        let time = Some(text).filter(|text| is_rfc3339(text)).and_then(Timestamp::parse_rfc3339);
        if time.is_none() {
            // There is no such day, or it is one of the last of the year 9999, which the time parser does not read.
            let message = if is_rfc3339(text) {
                "must be a time that exists, and is at most 365 days in the future"
            } else {
                "must be a time in RFC 3339 such as 2026-11-20T09:30:00Z"
            };
            self.error("due_at", message);
        }
        time
    }

    fn window(&mut self, object: &Map<String, Value>) -> Option<CallingWindow> {
        let path = "window.";
        self.reject_unknown_fields(path, object, &WINDOW_FIELDS);
        let time_zone = self.text(path, object, "time_zone", true);
        let opens = self.text(path, object, "opens", true).and_then(|text| self.opens(text));
        let closes = self.text(path, object, "closes", true).and_then(|text| self.closes(text));
        let (days, closed_dates) = (self.days(object), self.closed_dates(object));
        let time_zone = time_zone?.to_owned();
        // A missing time has its error already. A stand-in lets the other fields be checked.
        let (from, to) = (opens.unwrap_or(civil::Time::MIN), closes.unwrap_or(civil::Time::MAX));
        let days = days.unwrap_or_default();
        let window =
            CallingWindow { time_zone, opens: from, closes: to, days, closed_dates: closed_dates.unwrap_or_default() };
        let checked = if window.time_zone.len() > TIME_ZONE_BYTES_MAX {
            Err(WindowError::UnknownTimeZone)
        } else {
            window.check()
        };
        match checked {
            Ok(()) => {}
            Err(error @ WindowError::UnknownTimeZone) => self.error("window.time_zone", error.to_string()),
            Err(
                error @ (WindowError::ClosesAsItOpens
                | WindowError::Malformed
                | WindowError::MalformedHours
                | WindowError::UnknownDay
                | WindowError::UnknownDate),
            ) => {
                self.error("window.closes", error.to_string());
            }
        }
        opens.and(closes).map(|_| window)
    }

    fn opens(&mut self, text: &str) -> Option<civil::Time> {
        let time = CallingWindow::parse_opens(text);
        if time.is_none() {
            self.error("window.opens", "must be a local time from 00:00 to 23:59");
        }
        time
    }

    fn closes(&mut self, text: &str) -> Option<civil::Time> {
        let time = CallingWindow::parse_closes(text);
        if time.is_none() {
            self.error("window.closes", "must be a local time from 00:00 to 24:00");
        }
        time
    }

    fn days(&mut self, object: &Map<String, Value>) -> Option<Vec<Day>> {
        let value = object.get("days")?;
        let names = value.as_array().filter(|names| (1..=Day::ALL.len()).contains(&names.len()));
        let day = |name: &Value| name.as_str()?.parse().ok();
        let days: Option<Vec<Day>> = names.and_then(|names| names.iter().map(day).collect());
        if days.is_none() {
            let message = "must be a list of 1 to 7 of mon, tue, wed, thu, fri, sat, sun; leave it out for every day";
            self.error("window.days", message);
        }
        // In the order of the week and without repetitions, so that the same days give the same hash.
        days.map(|days| Day::ALL.into_iter().filter(|day| days.contains(day)).collect())
    }

    fn closed_dates(&mut self, object: &Map<String, Value>) -> Option<BTreeSet<civil::Date>> {
        let value = object.get("closed_dates")?;
        let dates = value.as_array().filter(|dates| (1..=CLOSED_DATES_MAX).contains(&dates.len()));
        let date = |date: &Value| date.as_str().filter(|text| is_like(text, "0000-00-00"))?.parse().ok();
        let dates = dates.and_then(|dates| dates.iter().map(date).collect());
        if dates.is_none() {
            let message = format!("must be a list of 1 to {CLOSED_DATES_MAX} dates such as 2026-12-25");
            self.error("window.closed_dates", message);
        }
        dates
    }

    fn retry(&mut self, object: &Map<String, Value>) -> RetryOptions {
        let path = "retry.";
        self.reject_unknown_fields(path, object, &RETRY_FIELDS);
        let attempts_max = u32::try_from(CALL_ATTEMPTS_MAX).unwrap_or(u32::MAX);
        let options = RetryOptions {
            attempts_max: self
                .whole_number(path, object, "attempts_max", 1..=attempts_max)
                .and_then(|number| u8::try_from(number).ok()),
            delay_seconds: self.whole_number(path, object, "delay_seconds", 0..=DELAY_SECONDS_MAX),
            delay_max_seconds: self.whole_number(path, object, "delay_max_seconds", 0..=DELAY_MAX_SECONDS_MAX),
            voicemail: self.truth(path, object, "voicemail"),
            unheard: self.truth(path, object, "unheard"),
        };
        if let (Some(delay), Some(max)) = (options.delay_seconds, options.delay_max_seconds)
            && max < delay
        {
            self.error("retry.delay_max_seconds", "must be at least delay_seconds");
        }
        options
    }
}

#[cfg(test)]
mod tests;
