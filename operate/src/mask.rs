//! Payloads without what identifies a person.
//!
//! **A value is shown only if its field is known to be harmless. A text or a number must look harmless too.** All others are masked,
//! so a field that a provider adds tomorrow is masked too. `null` is shown. Equal texts and equal numbers get equal letters, so that two
//! payloads can be compared.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use switchhook_domain::PhoneNumber;

/// Fields whose values are shown, in lower case and without `_` and `-`. None of them holds what a person said or is called.
const SHOWN_FIELDS: [&str; 120] = [
    "acceptedtimeunixsecs",
    "accountsid",
    "agentid",
    "agentversion",
    "answeredby",
    "apiversion",
    "appointmentconfirmed",
    "appointmentid",
    "assistantid",
    "attempt",
    "beforeminutes",
    "billeddurationsecs",
    "callbacksource",
    "callcontrolid",
    "callduration",
    "calldurationsecs",
    "callid",
    "calllegid",
    "calllength",
    "callsessionid",
    "callsid",
    "callstatus",
    "callsuccessful",
    "calltype",
    "channels",
    "combinedcost",
    "connectionid",
    "contenttype",
    "cost",
    "created",
    "createdat",
    "currency",
    "departuretimeout",
    "dialledprovider",
    "direction",
    "disconnectionreason",
    "duration",
    "durationms",
    "durationsec",
    "durationseconds",
    "emptytimeout",
    "end",
    "endedat",
    "endedreason",
    "endtime",
    "endtimestamp",
    "endts",
    "errorcode",
    "event",
    "eventid",
    "eventtimestamp",
    "eventts",
    "eventtype",
    "hangupcause",
    "hangupsource",
    "id",
    "intwilioidempotencytoken",
    "invoicemail",
    "joinedat",
    "kind",
    "machinedetectionduration",
    "max",
    "maxduration",
    "min",
    "neverdialled",
    "num",
    "object",
    "occurredat",
    "orgid",
    "origin",
    "p50",
    "p90",
    "p95",
    "p99",
    "parentcallsid",
    "phonecallprovider",
    "phonecalltransport",
    "phonenumberid",
    "product",
    "provider",
    "providercallid",
    "reason",
    "receivedat",
    "recordingchannels",
    "recordingduration",
    "recordingsid",
    "recordingsource",
    "recordingstatus",
    "recordtype",
    "result",
    "role",
    "samplerate",
    "schemaversion",
    "secondsfromstart",
    "sequence",
    "sequencenumber",
    "sid",
    "siphangupcause",
    "sipnotifyresponse",
    "sipresponsecode",
    "sipstatuscode",
    "start",
    "startedat",
    "starttime",
    "starttimestamp",
    "starttimeunixsecs",
    "startts",
    "state",
    "status",
    "switchhookattempt",
    "switchhookcallid",
    "time",
    "timeincallsecs",
    "timestamp",
    "toolcallid",
    "totaldurationseconds",
    "transfertype",
    "type",
    "version",
    "waittimesecs",
];
/// Fields whose `true` or `false` is shown, also in content that a team defines. Switchhook reads what became of a call from such fields.
const SHOWN_FLAGS: [&str; 9] = [
    "appointmentconfirmed",
    "callsuccessful",
    "completed",
    "confirmed",
    "implied",
    "inbound",
    "invoicemail",
    "optoutsensitivedatastorage",
    "permanent",
];
/// Text in place of a `true` or `false` that is hidden.
const HIDDEN_FLAG: &str = "‹true or false›";
/// Ends of the names of fields whose objects and lists a team defines: only our ids are shown in them.
const FREE_ENDS: [&str; 21] = [
    "analysis",
    "answers",
    "arguments",
    "attributes",
    "clientdata",
    "conversationinsights",
    "customanalysisdata",
    "customdata",
    "customfields",
    "datacollectionresults",
    "extrabody",
    "globaldata",
    "metadata",
    "postpromptdata",
    "requestdata",
    "responses",
    "structureddata",
    "structuredoutputs",
    "userdata",
    "variables",
    "variablevalues",
];
/// The same, for whole names.
const FREE_FIELDS: [&str; 5] = ["data", "meta", "result", "results", "vars"];
/// Fields in the `data` of ElevenLabs and Telnyx, which they define themselves.
const ENVELOPE_FIELDS: [&str; 2] = ["conversationid", "recordtype"];
/// Fields of free content that are shown nevertheless.
const FREE_SHOWN: [&str; 3] = ["appointmentid", "switchhookcallid", "switchhookattempt"];
/// Words of ElevenLabs for the success of a call, in its analysis, beside the fields of a team.
const SUCCESS_FIELD: &str = "callsuccessful";
const SUCCESS_WORDS: [&str; 3] = ["failure", "success", "unknown"];
/// Words of a date, beside its digits.
const DATE_WORDS: [&str; 25] = [
    "mon", "tue", "wed", "thu", "fri", "sat", "sun", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep",
    "oct", "nov", "dec", "gmt", "utc", "t", "z", "am", "pm",
];
/// A text with this many digits may be a phone number.
const PHONE_DIGITS_MIN: usize = 7;
const PHONE_DIGITS_MAX: usize = 15;

/// Masks payloads. One masker gives equal values equal letters.
#[derive(Debug, Default)]
pub struct Masker {
    numbers: BTreeMap<String, usize>,
    texts: BTreeMap<String, usize>,
}

impl Masker {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns at most this many lines of a body, without what identifies a person. The body is JSON, a form, or anything else: of that,
    /// only its length is shown. It masks no more values than these lines show, and the names of all fields beside them.
    #[must_use]
    pub fn first_lines(&mut self, body: &[u8], lines_max: usize) -> Vec<String> {
        if let Ok(value) = serde_json::from_slice::<Value>(body) {
            // One line more, so that the last one ends as it does in the whole body.
            let masked = self.value("", value, false, &mut lines_max.saturating_add(1));
            return format!("{masked:#}").lines().take(lines_max).map(str::to_owned).collect();
        }
        let is_form = !body.is_empty() && body.contains(&b'=') && body.iter().all(|byte| (33..127).contains(byte));
        if is_form {
            let fields = form_urlencoded::parse(body).into_owned();
            return fields
                .take(lines_max)
                .map(|(name, value)| format!("{} = {}", self.name(&name), self.field(&name, &value)))
                .collect();
        }
        vec![format!("‹{} bytes that are neither JSON nor a form›", body.len())]
    }

    /// Returns a JSON value without what identifies a person.
    #[must_use]
    pub fn json(&mut self, value: Value) -> Value {
        let mut lines_left = usize::MAX;
        self.value("", value, false, &mut lines_left)
    }

    /// Returns the value of a named field without what identifies a person.
    #[must_use]
    pub fn field(&mut self, name: &str, value: &str) -> String {
        let name = normalized(name);
        if value.is_empty() || (SHOWN_FIELDS.contains(&name.as_str()) && is_harmless(value, is_time(&name))) {
            value.to_owned()
        } else {
            self.hidden(value)
        }
    }

    /// Returns a text in which phone numbers and addresses are masked. For texts of our own, such as errors and headers.
    #[must_use]
    pub fn text(&mut self, text: &str) -> String {
        let mut shown = Vec::new();
        for word in text.split(' ') {
            let core = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '+');
            shown.push(if is_personal(core) { word.replace(core, &self.hidden(core)) } else { word.to_owned() });
        }
        shown.join(" ")
    }

    /// Returns a phone number or a SIP address without what identifies its person.
    #[must_use]
    pub fn number(&mut self, number: &PhoneNumber) -> String {
        self.hidden(number.canonical().as_str())
    }

    /// Masks a value and all that is in it, until no line is left. Each value takes at least one line.
    fn value(&mut self, name: &str, value: Value, is_free: bool, lines_left: &mut usize) -> Value {
        *lines_left = lines_left.saturating_sub(1);
        match value {
            Value::Null => value,
            Value::Bool(_) if SHOWN_FLAGS.contains(&normalized(name).as_str()) => value,
            Value::Bool(_) => HIDDEN_FLAG.into(),
            Value::Number(number) => {
                let shown: &[&str] = if is_free { &FREE_SHOWN } else { &SHOWN_FIELDS };
                let (name, text) = (normalized(name), number.to_string());
                if shown.contains(&name.as_str()) && is_harmless_number(&name, &text) {
                    Value::Number(number)
                } else {
                    self.hidden(&text).into()
                }
            }
            Value::String(text) if is_free && !is_shown_in_free(&normalized(name), &text) => self.hidden(&text).into(),
            Value::String(text) => self.field(name, &text).into(),
            Value::Array(items) => items
                .into_iter()
                .map_while(|item| (*lines_left > 0).then(|| self.value(name, item, is_free, lines_left)))
                .collect(),
            Value::Object(fields) => {
                // A turn of a conversation. What a tool returns in it is up to the team.
                let is_turn = fields.contains_key("role");
                // The fields are shown in the order of their masked names, so the lines are spent in this order.
                let named = fields.into_iter().map(|(name, value)| (self.name(&name), (name, value)));
                let named: BTreeMap<String, (String, Value)> = named.collect();
                let mut masked = Map::new();
                for (masked_name, (name, value)) in named {
                    if *lines_left == 0 {
                        break;
                    }
                    let is_free = is_free || holds_free(&name, &value) || (is_turn && name == "result");
                    masked.insert(masked_name, self.value(&name, value, is_free, lines_left));
                }
                Value::Object(masked)
            }
        }
    }

    /// Returns the name of a field. A name that is no identifier may be the name of a person.
    fn name(&mut self, name: &str) -> String {
        let is_identifier = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.:[]".contains(c));
        if is_identifier { self.text(name) } else { self.hidden(name) }
    }

    /// Returns the text that replaces a hidden value. Of a phone number it keeps the country and the last three digits.
    fn hidden(&mut self, value: &str) -> String {
        if is_phone(value) {
            let letter = letter(&mut self.numbers, value);
            let compact: String = value.chars().filter(|c| c.is_ascii_digit() || *c == '+').collect();
            let digits = compact.chars().count();
            let head: String = compact.chars().take(3).filter(|_| compact.starts_with('+')).collect();
            let tail: String = compact.chars().skip(digits.saturating_sub(3)).collect();
            format!("{head}…{tail} {letter}")
        } else {
            let letter = letter(&mut self.texts, value);
            let count = value.chars().count();
            format!("‹text {letter}, {count} character{}›", if count == 1 { "" } else { "s" })
        }
    }
}

/// Returns the letter of a value: A for the first one seen, then B.
fn letter(seen: &mut BTreeMap<String, usize>, value: &str) -> String {
    let next = seen.len();
    let index = *seen.entry(value.to_owned()).or_insert(next);
    let mut rest = index;
    let mut letters = Vec::new();
    loop {
        letters.push(char::from(b'A' + u8::try_from(rest % 26).unwrap_or_default()));
        match (rest / 26).checked_sub(1) {
            Some(more) => rest = more,
            None => return letters.iter().rev().collect(),
        }
    }
}

fn normalized(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).collect::<String>().to_lowercase()
}

/// True if a team defines the content of the field.
fn holds_free(name: &str, value: &Value) -> bool {
    let name = normalized(name);
    let is_free = FREE_FIELDS.contains(&name.as_str()) || FREE_ENDS.iter().any(|free| name.ends_with(free));
    match value {
        Value::Object(fields) => {
            let is_envelope = || fields.keys().any(|field| ENVELOPE_FIELDS.contains(&normalized(field).as_str()));
            is_free && !(name == "data" && is_envelope())
        }
        Value::Array(_) => is_free,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// True if the text is shown in content that a team defines.
fn is_shown_in_free(name: &str, text: &str) -> bool {
    text.is_empty() || FREE_SHOWN.contains(&name) || (name == SUCCESS_FIELD && SUCCESS_WORDS.contains(&text))
}

fn is_time(name: &str) -> bool {
    let ends = ["time", "timestamp", "ts", "unixsecs", "at", "created", "start", "end"];
    ends.iter().any(|suffix| name.ends_with(suffix))
}

/// True if a number of a shown field is a time or a duration, or too short or too long for a phone number. A fraction does not count.
fn is_harmless_number(name: &str, number: &str) -> bool {
    let whole = number.split('.').next().unwrap_or_default();
    is_time(name) || name.contains("duration") || !is_phone(whole)
}

/// True if a value of a shown field is an id, a name of a state, a number or a time.
fn is_harmless(value: &str, is_time: bool) -> bool {
    let is_token = value.chars().all(|c| c.is_ascii_alphanumeric() || "-_.:~/%,+=".contains(c));
    let is_date = is_time && is_date(value);
    (is_token || is_date) && !value.contains("://") && (is_date && value.contains(':') || !is_personal(value))
}

/// True if the text has nothing but digits and words of a date.
fn is_date(text: &str) -> bool {
    let mut words = text.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| !word.is_empty());
    text.len() < 40
        && text.contains(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || " ,:+-.".contains(c))
        && words.all(|word| DATE_WORDS.contains(&word.to_lowercase().as_str()))
}

/// True if a text holds a phone number, an e-mail address or a SIP address.
fn is_personal(text: &str) -> bool {
    let lower = text.to_lowercase();
    text.contains('@')
        || lower.starts_with("sip:")
        || lower.starts_with("sips:")
        || lower.starts_with("tel:")
        || holds_phone(text)
}

/// True if the whole text is a phone number, in some notation.
fn is_phone(text: &str) -> bool {
    let is_notation = text.chars().all(|c| c.is_ascii_digit() || "+-. ()xX/".contains(c));
    let digits = text.chars().filter(char::is_ascii_digit).count();
    is_notation && (PHONE_DIGITS_MIN..=PHONE_DIGITS_MAX).contains(&digits)
}

/// True if a phone number stands anywhere in the text: all of it, or a plus sign with digits after it.
fn holds_phone(text: &str) -> bool {
    let after_plus = |rest: &str| {
        rest.chars().take_while(|c| c.is_ascii_digit() || "-. ()".contains(*c)).filter(char::is_ascii_digit).count()
    };
    is_phone(text) || text.split('+').skip(1).any(|rest| after_plus(rest) >= PHONE_DIGITS_MIN)
}

#[cfg(test)]
mod tests;
