//! The body of `POST /calls`: what may stand in it, and everything that is wrong with it at once.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use jiff::civil;
use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use switchhook_aws::problem::{FieldError, Problem, ProblemKind};
use switchhook_domain::{
    CALL_ATTEMPTS_MAX, CallId, CallingWindow, Day, NewCall, PhoneNumber, Plan, Provider, RetryPolicy, Timestamp,
    WindowError,
};

/// Of the body.
pub const BODY_BYTES_MAX: usize = 16 * 1024;
/// Of an idempotency key.
pub(crate) const KEY_LENGTH_MAX: usize = 255;
const NUMBER_BYTES_MAX: usize = 256;
pub(crate) const APPOINTMENT_ID_BYTES_MAX: usize = 128;
/// Told to the provider with every attempt: Twilio's stands in the query of a URL.
pub(crate) const METADATA_ENTRIES_MAX: usize = 20;
pub(crate) const METADATA_NAME_BYTES_MAX: usize = 64;
const METADATA_VALUE_BYTES_MAX: usize = 512;
pub(crate) const TIME_ZONE_BYTES_MAX: usize = 64;
/// A call that was due before that was meant for another day.
const DUE_PAST_MAX: Duration = Duration::from_secs(24 * 60 * 60);
const DUE_AHEAD_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);
pub(crate) const DELAY_SECONDS_MAX: u32 = 24 * 60 * 60;
pub(crate) const DELAY_MAX_SECONDS_MAX: u32 = 7 * 24 * 60 * 60;
/// More of them help nobody.
const ERRORS_MAX: usize = 50;
/// Bytes of a hash that tells requests apart: in hex, 32 digits.
const HASH_BYTES: usize = 16;

const FIELDS: [&str; 8] = ["provider", "from", "to", "appointment_id", "metadata", "due_at", "window", "retry"];
const WINDOW_FIELDS: [&str; 4] = ["time_zone", "opens", "closes", "days"];
const RETRY_FIELDS: [&str; 4] = ["attempts_max", "delay_seconds", "delay_max_seconds", "voicemail"];
const DAYS: [(&str, Day); 7] = [
    ("mon", Day::Mon),
    ("tue", Day::Tue),
    ("wed", Day::Wed),
    ("thu", Day::Thu),
    ("fri", Day::Fri),
    ("sat", Day::Sat),
    ("sun", Day::Sun),
];

/// A call that is asked for. What was left out is left out here too, so that a repetition hashes alike whatever the
/// time and the stack's defaults are. `Debug` hides all but the provider.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub(crate) struct CallRequest {
    pub(crate) provider: Provider,
    from: PhoneNumber,
    to: PhoneNumber,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) appointment_id: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    metadata: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    due_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    window: Option<CallingWindow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<RetryOptions>,
    /// Wrong by the clock alone: a repetition of a request that was right in its time is still one.
    #[serde(skip)]
    pub(crate) due_at_error: Option<FieldError>,
}

/// What a request says of retries; the rest is the stack's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
struct RetryOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts_max: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_seconds: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_max_seconds: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    voicemail: Option<bool>,
}

impl fmt::Debug for CallRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallRequest").field("provider", &self.provider).finish_non_exhaustive()
    }
}

impl CallRequest {
    /// Reads a body. `errors` is what is wrong with the request besides.
    pub(crate) fn read(body: &[u8], errors: Vec<FieldError>, now: Timestamp) -> Result<Self, Problem> {
        if body.len() > BODY_BYTES_MAX {
            let detail = format!("a call is created with at most {BODY_BYTES_MAX} bytes");
            return Err(Problem::new(ProblemKind::PayloadTooLarge, detail));
        }
        // Of a parse error only the position is told: what surrounds it may be a phone number.
        let body: Value = serde_json::from_slice(body).map_err(|error| {
            let detail = format!("unreadable at line {} column {}", error.line(), error.column());
            Problem::new(ProblemKind::InvalidJson, detail)
        })?;
        let Value::Object(body) = body else {
            return Err(Problem::new(ProblemKind::InvalidRequest, "the body must be a JSON object"));
        };
        let mut reader = Reader { errors, due_at_error: None };
        match reader.request(&body, now) {
            Some(request) if reader.errors.is_empty() => {
                Ok(CallRequest { due_at_error: reader.due_at_error, ..request })
            }
            Some(_) | None => Err(reader.problem()),
        }
    }

    /// The same for the same request, however it is written.
    pub(crate) fn hash(&self) -> serde_json::Result<String> {
        Ok(short_hash(&serde_json::to_vec(self)?))
    }

    /// The call that is asked for, with what was left out filled in.
    pub(crate) fn into_call(self, call_id: CallId, hash: String, retry: RetryPolicy, now: Timestamp) -> NewCall {
        NewCall {
            call_id,
            provider: self.provider,
            from: self.from,
            to: self.to,
            appointment_id: self.appointment_id,
            plan: Plan {
                due_at: self.due_at.map_or(now, |due_at| due_at.max(now)),
                window: self.window,
                retry: self.retry.unwrap_or_default().over(retry),
                metadata: self.metadata,
                request_hash: Some(hash),
            },
        }
    }
}

impl RetryOptions {
    /// What is asked for wins; the stack's delays give way to it.
    fn over(self, default: RetryPolicy) -> RetryPolicy {
        let (delay_seconds, delay_max_seconds) = match (self.delay_seconds, self.delay_max_seconds) {
            (Some(delay), Some(max)) => (delay, max),
            (Some(delay), None) => (delay, default.delay_max_seconds.max(delay)),
            (None, Some(max)) => (default.delay_seconds.min(max), max),
            (None, None) => (default.delay_seconds, default.delay_max_seconds),
        };
        RetryPolicy {
            attempts_max: self.attempts_max.unwrap_or(default.attempts_max),
            delay_seconds,
            delay_max_seconds,
            voicemail: self.voicemail.unwrap_or(default.voicemail),
        }
    }
}

/// True if Switchhook can place a call at the provider. Whether the provider is configured the dialer finds out.
pub(crate) const fn can_place_calls(provider: Provider) -> bool {
    match provider {
        Provider::Retell | Provider::Twilio | Provider::Vapi | Provider::Telnyx => true,
        Provider::Generic => false,
    }
}

/// A number in E.164, or a SIP address.
pub(crate) fn phone_number(text: &str) -> Option<PhoneNumber> {
    let e164 = |digits: &str| {
        (7..=15).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0')
    };
    let sip = |address: &str| !address.is_empty() && address.bytes().all(|byte| byte.is_ascii_graphic());
    let is_number = text.strip_prefix('+').is_some_and(e164)
        || (text.len() <= NUMBER_BYTES_MAX
            && text.strip_prefix("sip:").or_else(|| text.strip_prefix("sips:")).is_some_and(sip));
    is_number.then(|| PhoneNumber::new(text))
}

/// What is said of one that is none.
pub(crate) const NO_NUMBER: &str =
    "must be a number in E.164 such as +14155550123, or a SIP address such as sip:desk@example.com";

/// 32 hex digits.
pub(crate) fn short_hash(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    hex::encode(digest.iter().copied().take(HASH_BYTES).collect::<Vec<u8>>())
}

/// Reads field after field and remembers what was wrong.
struct Reader {
    errors: Vec<FieldError>,
    /// See [`CallRequest::due_at_error`].
    due_at_error: Option<FieldError>,
}

impl Reader {
    fn request(&mut self, body: &Map<String, Value>, now: Timestamp) -> Option<CallRequest> {
        self.no_others("", body, &FIELDS);
        let provider = self.text("", body, "provider", true).and_then(|name| self.provider(name));
        let from = self.text("", body, "from", true).and_then(|text| self.number("from", text));
        let to = self.text("", body, "to", true).and_then(|text| self.number("to", text));
        let appointment_id =
            self.text("", body, "appointment_id", false).and_then(|text| self.appointment_id(text)).map(str::to_owned);
        let metadata = self.object(body, "metadata").map(|object| self.metadata(object)).unwrap_or_default();
        let due_at = self.text("", body, "due_at", false).and_then(|text| self.time(text));
        let window = self.object(body, "window").and_then(|object| self.window(object));
        let retry = self.object(body, "retry").map(|object| self.retry(object));
        self.due_at_error = due_at.and_then(|due_at| due_at_error(due_at, now));
        Some(CallRequest {
            provider: provider?,
            from: from?,
            to: to?,
            appointment_id,
            metadata,
            due_at,
            window,
            retry,
            due_at_error: None,
        })
    }

    fn problem(mut self) -> Problem {
        self.errors.extend(self.due_at_error);
        self.errors.truncate(ERRORS_MAX);
        Problem::invalid(self.errors)
    }

    fn wrong(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.errors.push(FieldError::new(field, message));
    }

    fn no_others(&mut self, path: &str, object: &Map<String, Value>, known: &[&str]) {
        for name in object.keys().filter(|name| !known.contains(&name.as_str())) {
            let name: String = name.chars().take(METADATA_NAME_BYTES_MAX).collect();
            self.wrong(format!("{path}{name}"), format!("is not known; known are {}", known.join(", ")));
        }
    }

    fn text<'a>(&mut self, path: &str, object: &'a Map<String, Value>, name: &str, required: bool) -> Option<&'a str> {
        match object.get(name) {
            Some(Value::String(text)) => return Some(text),
            Some(_) => self.wrong(format!("{path}{name}"), "must be a string"),
            None if required => self.wrong(format!("{path}{name}"), "is missing"),
            None => {}
        }
        None
    }

    fn object<'a>(&mut self, object: &'a Map<String, Value>, name: &str) -> Option<&'a Map<String, Value>> {
        match object.get(name) {
            Some(Value::Object(inner)) => return Some(inner),
            Some(_) => self.wrong(name, "must be an object"),
            None => {}
        }
        None
    }

    fn whole(
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
            self.wrong(format!("{path}{name}"), message);
        }
        number
    }

    fn provider(&mut self, name: &str) -> Option<Provider> {
        let mut dialled = Provider::ALL.into_iter().filter(|provider| can_place_calls(*provider));
        let provider = dialled.clone().find(|provider| provider.as_str() == name);
        if provider.is_none() {
            let names: Vec<&str> = dialled.by_ref().map(Provider::as_str).collect();
            self.wrong("provider", format!("must be one of {}", names.join(", ")));
        }
        provider
    }

    fn number(&mut self, field: &str, text: &str) -> Option<PhoneNumber> {
        let number = phone_number(text);
        if number.is_none() {
            self.wrong(field, NO_NUMBER);
        }
        number
    }

    fn appointment_id<'a>(&mut self, text: &'a str) -> Option<&'a str> {
        if (1..=APPOINTMENT_ID_BYTES_MAX).contains(&text.len()) && !text.chars().any(char::is_control) {
            return Some(text);
        }
        let message = format!("must be 1 to {APPOINTMENT_ID_BYTES_MAX} bytes without control characters");
        self.wrong("appointment_id", message);
        None
    }

    fn metadata(&mut self, object: &Map<String, Value>) -> BTreeMap<String, String> {
        if object.len() > METADATA_ENTRIES_MAX {
            self.wrong("metadata", format!("must have at most {METADATA_ENTRIES_MAX} entries"));
        }
        let mut metadata = BTreeMap::new();
        for (name, value) in object {
            let field = format!("metadata.{}", name.chars().take(METADATA_NAME_BYTES_MAX).collect::<String>());
            if !(1..=METADATA_NAME_BYTES_MAX).contains(&name.len()) || name.chars().any(char::is_control) {
                let message =
                    format!("must have a name of 1 to {METADATA_NAME_BYTES_MAX} bytes without control characters");
                self.wrong(&field, message);
            } else if name == "appointment_id" || name.starts_with("switchhook_") {
                self.wrong(&field, "is reserved: Switchhook itself tells the provider what has this name");
            }
            match value {
                Value::String(text) if text.len() <= METADATA_VALUE_BYTES_MAX => {
                    metadata.insert(name.clone(), text.clone());
                }
                Value::String(_) => {
                    self.wrong(field, format!("must have at most {METADATA_VALUE_BYTES_MAX} bytes"));
                }
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                    self.wrong(field, "must be a string");
                }
            }
        }
        metadata
    }

    fn time(&mut self, text: &str) -> Option<Timestamp> {
        let time = Some(text).filter(|text| is_rfc3339(text)).and_then(Timestamp::parse_rfc3339);
        if time.is_none() {
            self.wrong("due_at", "must be a time in RFC 3339 such as 2026-11-20T09:30:00Z");
        }
        time
    }

    fn window(&mut self, object: &Map<String, Value>) -> Option<CallingWindow> {
        let path = "window.";
        self.no_others(path, object, &WINDOW_FIELDS);
        let time_zone = self.text(path, object, "time_zone", true);
        let opens = self.text(path, object, "opens", true).and_then(|text| self.local_time("window.opens", text));
        let closes = self.text(path, object, "closes", true).and_then(|text| self.local_time("window.closes", text));
        let days = self.days(object);
        let time_zone = time_zone?.to_owned();
        // What is missing is told already; a stand-in lets the rest be checked with it.
        let (from, to) = (opens.unwrap_or(civil::Time::MIN), closes.unwrap_or(civil::Time::MAX));
        let window = CallingWindow { time_zone, opens: from, closes: to, days: days.unwrap_or_default() };
        let checked = if window.time_zone.len() > TIME_ZONE_BYTES_MAX {
            Err(WindowError::UnknownTimeZone)
        } else {
            window.check()
        };
        match checked {
            Ok(()) => {}
            Err(error @ WindowError::UnknownTimeZone) => self.wrong("window.time_zone", error.to_string()),
            Err(error @ WindowError::ClosesBeforeItOpens) => self.wrong("window.closes", error.to_string()),
        }
        opens.and(closes).map(|_| window)
    }

    fn local_time(&mut self, field: &str, text: &str) -> Option<civil::Time> {
        let time = Some(text).filter(|text| is_like(text, "00:00")).and_then(|text| {
            let (hours, minutes) = text.split_once(':')?;
            civil::Time::new(hours.parse().ok()?, minutes.parse().ok()?, 0, 0).ok()
        });
        if time.is_none() {
            self.wrong(field, "must be a local time from 00:00 to 23:59");
        }
        time
    }

    fn days(&mut self, object: &Map<String, Value>) -> Option<Vec<Day>> {
        let value = object.get("days")?;
        let names = value.as_array().filter(|names| (1..=DAYS.len()).contains(&names.len()));
        let day = |name: &Value| DAYS.iter().find(|(known, _)| name.as_str() == Some(known)).map(|(_, day)| *day);
        let days: Option<Vec<Day>> = names.and_then(|names| names.iter().map(day).collect());
        if days.is_none() {
            self.wrong("window.days", "must be 1 to 7 of mon, tue, wed, thu, fri, sat, sun; without it, every day");
        }
        // In the order of the week, each once: the same days make the same request.
        days.map(|days| DAYS.iter().map(|(_, day)| *day).filter(|day| days.contains(day)).collect())
    }

    fn retry(&mut self, object: &Map<String, Value>) -> RetryOptions {
        let path = "retry.";
        self.no_others(path, object, &RETRY_FIELDS);
        let attempts_max = u32::try_from(CALL_ATTEMPTS_MAX).unwrap_or(u32::MAX);
        let options = RetryOptions {
            attempts_max: self
                .whole(path, object, "attempts_max", 1..=attempts_max)
                .and_then(|number| u8::try_from(number).ok()),
            delay_seconds: self.whole(path, object, "delay_seconds", 0..=DELAY_SECONDS_MAX),
            delay_max_seconds: self.whole(path, object, "delay_max_seconds", 0..=DELAY_MAX_SECONDS_MAX),
            voicemail: object.get("voicemail").and_then(Value::as_bool),
        };
        if object.contains_key("voicemail") && options.voicemail.is_none() {
            self.wrong("retry.voicemail", "must be true or false");
        }
        if let (Some(delay), Some(max)) = (options.delay_seconds, options.delay_max_seconds)
            && max < delay
        {
            self.wrong("retry.delay_max_seconds", "must be at least delay_seconds");
        }
        options
    }
}

fn due_at_error(due_at: Timestamp, now: Timestamp) -> Option<FieldError> {
    let message = if due_at < now.minus(DUE_PAST_MAX) {
        "must not be more than a day ago"
    } else if due_at > now.plus(DUE_AHEAD_MAX) {
        "must not be more than 365 days ahead"
    } else {
        return None;
    };
    Some(FieldError::new("due_at", message))
}

/// The shape of RFC 3339; whether there is such a time the parser says, which by itself would take more than that.
fn is_rfc3339(text: &str) -> bool {
    let Some((head, tail)) = text.split_at_checked(19) else { return false };
    let zone = match tail.strip_prefix('.') {
        Some(fraction) => {
            let zone = fraction.trim_start_matches(|digit: char| digit.is_ascii_digit());
            if zone.len() == fraction.len() || fraction.len() - zone.len() > 9 {
                return false;
            }
            zone
        }
        None => tail,
    };
    let offset = || zone.strip_prefix(['+', '-']).is_some_and(|offset| is_like(offset, "00:00"));
    is_like(&head.to_ascii_uppercase(), "0000-00-00T00:00:00") && (zone.eq_ignore_ascii_case("z") || offset())
}

/// True if the text is the pattern, in which 0 stands for any digit.
fn is_like(text: &str, pattern: &str) -> bool {
    text.len() == pattern.len()
        && text.bytes().zip(pattern.bytes()).all(|(byte, like)| match like {
            b'0' => byte.is_ascii_digit(),
            other => byte == other,
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_795_168_800_000);
    const DEFAULT: RetryPolicy =
        RetryPolicy { attempts_max: 3, delay_seconds: 900, delay_max_seconds: 7_200, voicemail: false };

    fn whole() -> Value {
        json!({
            "provider": "retell",
            "from": "+14155550100",
            "to": "sip:desk@example.com",
            "appointment_id": "appt_7",
            "metadata": {"name": "Zoë", "empty": ""},
            "due_at": "2026-11-20T12:30:00.25+02:00",
            "window": {"time_zone": "Europe/London", "opens": "09:00", "closes": "17:30", "days": ["fri", "mon"]},
            "retry": {"attempts_max": 5, "delay_seconds": 60, "delay_max_seconds": 600, "voicemail": true},
        })
    }

    fn read(body: &Value) -> Result<CallRequest, Problem> {
        CallRequest::read(body.to_string().as_bytes(), Vec::new(), NOW)
    }

    fn with(field: &str, value: Value) -> Value {
        let mut body = json!({"provider": "twilio", "from": "+14155550100", "to": "+14155550123"});
        body[field] = value;
        body
    }

    /// The fields that are wrong.
    fn wrong(body: &Value) -> Vec<String> {
        let problem = read(body).map(|_| panic!("{body} is accepted")).unwrap_err();
        assert_eq!(problem.kind, ProblemKind::InvalidRequest);
        assert_eq!(problem.to_json()["errors"].as_array().map(Vec::len), Some(problem.errors.len()));
        problem.errors.into_iter().map(|error| error.field).collect()
    }

    fn check(field: &str, value: Value, is_right: bool) {
        let body = with(field, value);
        match read(&body) {
            Ok(request) => {
                let due_at_error: Vec<String> = request.due_at_error.into_iter().map(|error| error.field).collect();
                assert_eq!(due_at_error, if is_right { vec![] } else { vec![field.to_owned()] }, "{body}");
            }
            Err(problem) => {
                let fields: Vec<&str> = problem.errors.iter().map(|error| error.field.as_str()).collect();
                assert!(!is_right && fields.iter().all(|wrong| wrong.starts_with(field)), "{body}: {problem:?}");
            }
        }
    }

    #[test]
    fn everything_that_is_asked_for_is_in_the_plan() {
        let call = read(&whole()).unwrap().into_call(CallId::new("c1"), "hash".to_owned(), DEFAULT, NOW);
        let plan = Plan {
            due_at: Timestamp::parse_rfc3339("2026-11-20T10:30:00.25Z").unwrap(),
            window: Some(CallingWindow {
                time_zone: "Europe/London".to_owned(),
                opens: civil::time(9, 0, 0, 0),
                closes: civil::time(17, 30, 0, 0),
                days: vec![Day::Mon, Day::Fri],
            }),
            retry: RetryPolicy { attempts_max: 5, delay_seconds: 60, delay_max_seconds: 600, voicemail: true },
            metadata: [("empty", ""), ("name", "Zoë")].map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            request_hash: Some("hash".to_owned()),
        };
        let expected = NewCall {
            call_id: CallId::new("c1"),
            provider: Provider::Retell,
            from: PhoneNumber::new("+14155550100"),
            to: PhoneNumber::new("sip:desk@example.com"),
            appointment_id: Some("appt_7".to_owned()),
            plan,
        };
        assert_eq!(call, expected);
    }

    #[test]
    fn what_is_left_out_is_the_stacks() {
        let body = json!({"provider": "twilio", "from": "+14155550100", "to": "+14155550123"});
        let call = read(&body).unwrap().into_call(CallId::new("c1"), "hash".to_owned(), DEFAULT, NOW);
        let plan = Plan {
            due_at: NOW,
            window: None,
            retry: DEFAULT,
            metadata: BTreeMap::new(),
            request_hash: Some("hash".to_owned()),
        };
        assert_eq!((call.appointment_id, call.plan), (None, plan));
    }

    #[test]
    fn delays_of_the_stack_give_way_to_those_that_are_asked_for() {
        let delays = |delay_seconds, delay_max_seconds| {
            let policy = RetryOptions { delay_seconds, delay_max_seconds, ..RetryOptions::default() }.over(DEFAULT);
            (policy.delay_seconds, policy.delay_max_seconds)
        };
        assert_eq!(delays(Some(60), None), (60, 7_200));
        assert_eq!(delays(Some(10_000), None), (10_000, 10_000));
        assert_eq!(delays(None, Some(300)), (300, 300));
        assert_eq!(delays(None, Some(10_000)), (900, 10_000));
    }

    #[test]
    fn past_due_time_is_now() {
        let body = with("due_at", json!("2026-11-20T09:59:59Z"));
        let call = read(&body).unwrap().into_call(CallId::new("c1"), String::new(), DEFAULT, NOW);
        assert_eq!(call.plan.due_at, NOW);
    }

    #[test]
    fn everything_wrong_is_told_at_once_and_no_value_with_it() {
        let body = json!({
            "provider": "generic",
            "from": "0044 20 7946",
            "appointment_id": "a\u{0}b",
            "metadata": {"switchhook_attempt": "1", "age": 7},
            "due_at": "tomorrow",
            "window": {"time_zone": "Europe/Atlantis", "opens": "9am", "days": [], "dais": []},
            "retry": {"attempts_max": 17, "delay_seconds": -1, "voicemail": "yes"},
            "tel": "+14155550123",
        });
        let errors = vec![FieldError::new("Idempotency-Key", "is wrong")];
        let problem = CallRequest::read(body.to_string().as_bytes(), errors, NOW).unwrap_err();
        let mut fields: Vec<&str> = problem.errors.iter().map(|error| error.field.as_str()).collect();
        fields.sort_unstable();
        let expected = [
            "Idempotency-Key",
            "appointment_id",
            "due_at",
            "from",
            "metadata.age",
            "metadata.switchhook_attempt",
            "provider",
            "retry.attempts_max",
            "retry.delay_seconds",
            "retry.voicemail",
            "tel",
            "to",
            "window.closes",
            "window.dais",
            "window.days",
            "window.opens",
            "window.time_zone",
        ];
        assert_eq!(fields, expected);
        let text = problem.to_json().to_string();
        for value in ["7946", "+14155550123\"", "Atlantis", "9am", "tomorrow"] {
            assert!(!text.contains(value), "{text}");
        }
    }

    #[test]
    fn untimely_is_told_with_the_rest_and_stands_alone_otherwise() {
        let mut body = with("due_at", json!("2025-01-01T00:00:00Z"));
        assert_eq!(read(&body).unwrap().due_at_error.unwrap().field, "due_at");
        body["to"] = json!("");
        assert_eq!(wrong(&body), ["to", "due_at"]);
    }

    #[test]
    fn numbers_are_e164_or_sip() {
        for number in ["+1415555", "+14155550123", "+123456789012345", "sip:a", "sips:desk@example.com;transport=tls"] {
            check("to", json!(number), true);
        }
        let long = format!("sip:{}", "a".repeat(NUMBER_BYTES_MAX));
        for number in
            ["", "+", "14155550123", "+04155550123", "+141555", "+1234567890123456", "+1415 555", "sip:", "sip:a b"]
        {
            check("from", json!(number), false);
        }
        for number in
            [json!(long), json!("tel:+14155550123"), json!(null), json!(14_155_550_123_u64), json!("+１４１５５５５")]
        {
            check("from", number, false);
        }
    }

    #[test]
    fn appointment_id_is_short_text() {
        for (id, is_right) in [("Zoë/7 b", true), ("", false), ("a\nb", false), ("a\u{85}b", false)] {
            check("appointment_id", json!(id), is_right);
        }
        check("appointment_id", json!("a".repeat(128)), true);
        check("appointment_id", json!("é".repeat(65)), false);
    }

    #[test]
    fn metadata_is_bounded() {
        let entries = |count: usize| -> Value { (0..count).map(|n| (format!("n{n}"), json!("v"))).collect() };
        check("metadata", json!({}), true);
        check("metadata", entries(20), true);
        check("metadata", entries(21), false);
        check("metadata", json!({"a".repeat(64): "v".repeat(512)}), true);
        check("metadata", json!({"a".repeat(65): "v"}), false);
        check("metadata", json!({"a": "v".repeat(513)}), false);
        for metadata in [json!({"": "v"}), json!({"appointment_id": "v"}), json!({"a": null}), json!([]), json!("a")] {
            check("metadata", metadata, false);
        }
    }

    #[test]
    fn due_time_is_rfc3339_and_near() {
        for time in [
            "2026-11-19T10:00:00Z",
            "2027-11-20T10:00:00Z",
            "2026-11-20t12:00:00.123456789z",
            "2026-11-20T12:00:00-05:30",
        ] {
            check("due_at", json!(time), true);
        }
        for time in
            ["2026-11-19T09:59:59.999Z", "2027-11-20T10:00:00.001Z", "0001-01-01T00:00:00Z", "9999-12-30T22:00:00Z"]
        {
            check("due_at", json!(time), false);
        }
        for time in [
            "2026-11-20",
            "2026-11-20T12:00:00",
            "2026-11-20 12:00:00Z",
            "2026-11-20T12:00Z",
            "2026-11-20T12:00:00.Z",
            "2026-11-20T12:00:00+0200",
            "2026-11-20T12:00:00Z[UTC]",
            "2026-13-20T12:00:00Z",
            "2026-11-20T25:00:00Z",
            "２026-11-20T12:00:00Z",
            "now",
            "",
        ] {
            check("due_at", json!(time), false);
        }
    }

    #[test]
    fn window_can_be_open() {
        let window = |time_zone: &str, opens: &str, closes: &str| json!({"time_zone": time_zone, "opens": opens, "closes": closes});
        check("window", window("America/Los_Angeles", "00:00", "23:59"), true);
        check("window", window("Europe/London", "09:00", "09:00"), false);
        check("window", window("Europe/London", "17:00", "09:00"), false);
        check("window", window("Europe/London", "9:00", "17:00"), false);
        check("window", window("Europe/London", "09:00", "24:00"), false);
        check("window", window("Europe/London", "09:00:00", "17:00"), false);
        check("window", window("London", "09:00", "17:00"), false);
        check("window", window(&"a".repeat(65), "09:00", "17:00"), false);
        check("window", json!({}), false);
        let days = |days: Value| json!({"time_zone": "UTC", "opens": "09:00", "closes": "17:00", "days": days});
        check("window", days(json!(["mon", "mon"])), true);
        for wrong in [json!([]), json!(["Mon"]), json!("mon"), json!([1]), json!(vec!["mon"; 8])] {
            check("window", days(wrong), false);
        }
    }

    #[test]
    fn retry_is_bounded() {
        check("retry", json!({}), true);
        check("retry", json!({"attempts_max": 16, "delay_seconds": 86_400, "delay_max_seconds": 604_800}), true);
        check("retry", json!({"delay_seconds": 0, "delay_max_seconds": 0, "voicemail": false}), true);
        for retry in [
            json!({"attempts_max": 0}),
            json!({"attempts_max": 1.5}),
            json!({"attempts_max": "3"}),
            json!({"attempts_max": u64::MAX}),
            json!({"delay_seconds": 86_401}),
            json!({"delay_max_seconds": 604_801}),
            json!({"delay_seconds": 60, "delay_max_seconds": 59}),
            json!({"voicemail": null}),
            json!({"attempts": 3}),
        ] {
            check("retry", retry, false);
        }
    }

    #[test]
    fn body_that_is_no_request_is_told_so() {
        let kind = |body: &[u8]| CallRequest::read(body, Vec::new(), NOW).map_err(|problem| problem.kind).unwrap_err();
        assert_eq!(kind(b""), ProblemKind::InvalidJson);
        assert_eq!(kind(b"{\"to\": +1415}"), ProblemKind::InvalidJson);
        assert_eq!(kind(b"\"\xff\""), ProblemKind::InvalidJson);
        assert_eq!(kind(b"[]"), ProblemKind::InvalidRequest);
        assert_eq!(kind(b"null"), ProblemKind::InvalidRequest);
        assert_eq!(kind(&vec![b' '; BODY_BYTES_MAX + 1]), ProblemKind::PayloadTooLarge);
        assert_eq!(kind("[".repeat(BODY_BYTES_MAX).as_bytes()), ProblemKind::InvalidJson);
    }

    #[test]
    fn same_request_hashes_alike_however_it_is_written() {
        let hash = |body: &str| CallRequest::read(body.as_bytes(), Vec::new(), NOW).unwrap().hash().unwrap();
        let one =
            hash(r#"{"provider":"twilio","from":"+14155550100","to":"+14155550123","due_at":"2026-11-20T12:00:00Z"}"#);
        let same = hash(
            r#" {"due_at": "2026-11-20T13:00:00.000+01:00", "to": "\u002b14155550123",
                 "from": "+14155550100", "provider": "twilio", "metadata": {}}"#,
        );
        assert_eq!((one.len(), &one), (32, &same));
        let other =
            hash(r#"{"provider":"twilio","from":"+14155550100","to":"+14155550124","due_at":"2026-11-20T12:00:00Z"}"#);
        assert_ne!(one, other);
        let undated = hash(r#"{"provider":"twilio","from":"+14155550100","to":"+14155550123"}"#);
        assert_ne!(one, undated);
    }

    #[test]
    fn hash_does_not_depend_on_when_it_is_made() {
        let body = with("retry", json!({"voicemail": true})).to_string();
        let at = |now| CallRequest::read(body.as_bytes(), Vec::new(), now).unwrap().hash().unwrap();
        assert_eq!(at(NOW), at(NOW.plus(DUE_AHEAD_MAX)));
    }

    #[test]
    fn debug_shows_no_number_and_no_metadata() {
        let text = format!("{:?}", read(&whole()).unwrap());
        assert!(!text.contains("415555") && !text.contains("Zoë") && !text.contains("desk"), "{text}");
    }
}
