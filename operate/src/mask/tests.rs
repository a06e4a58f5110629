use std::collections::BTreeSet;
use std::path::Path;

use serde_json::json;

use super::*;

impl Masker {
    /// Returns all lines of a body.
    fn body(&mut self, body: &[u8]) -> Vec<String> {
        self.first_lines(body, usize::MAX)
    }
}

/// Fields of the fixtures whose values identify a person or repeat spoken words.
const PERSONAL: [&str; 24] = [
    "agentname",
    "appointmenttime",
    "called",
    "caller",
    "callsummary",
    "clientstate",
    "content",
    "customername",
    "deliveredto",
    "from",
    "fromnumber",
    "message",
    "name",
    "number",
    "publiclogurl",
    "recordingurl",
    "summary",
    "to",
    "tonumber",
    "transcript",
    "transferdestination",
    "word",
    "calledcountry",
    "preferredlanguage",
];

fn personal_values(name: &str, value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::String(text) if PERSONAL.contains(&normalized(name).as_str()) && !text.trim().is_empty() => {
            found.insert(text.trim().to_owned());
        }
        Value::Array(items) => items.iter().for_each(|item| personal_values(name, item, found)),
        Value::Object(fields) => fields.iter().for_each(|(name, value)| personal_values(name, value, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn fixtures() -> Vec<(String, Vec<u8>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/providers/fixtures");
    let mut all = Vec::new();
    for provider in ["retell", "twilio", "vapi", "telnyx", "generic"] {
        for file in std::fs::read_dir(root.join(provider)).expect("the fixtures") {
            let path = file.expect("a file").path();
            if path.extension().is_some_and(|end| end == "json" || end == "form") {
                all.push((path.display().to_string(), std::fs::read(&path).expect("a fixture")));
            }
        }
    }
    all
}

#[test]
fn no_number_name_transcript_or_address_of_a_fixture_survives() {
    let fixtures = fixtures();
    assert!(fixtures.len() > 60, "{}", fixtures.len());
    let mut values = 0;
    for (path, body) in &fixtures {
        let mut personal = BTreeSet::new();
        match serde_json::from_slice::<Value>(body) {
            Ok(value) => personal_values("", &value, &mut personal),
            Err(_) => {
                for (name, value) in form_urlencoded::parse(body) {
                    personal_values(&name, &Value::from(value.as_ref()), &mut personal);
                }
            }
        }
        values += personal.len();
        let masked = Masker::new().body(body).join("\n");
        for value in &personal {
            // Short words such as "a" stand in other words.
            let is_there = if value.len() > 3 {
                masked.contains(value.as_str())
            } else {
                masked.contains(&format!("\"{value}\""))
            };
            assert!(!is_there, "{path}: {value:?} in {masked}");
        }
        for mark in ["Ada", "https://", "@"] {
            assert!(!masked.contains(mark), "{path}: {mark} in {masked}");
        }
        let digits = masked.split("+44").skip(1).any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        assert!(!digits, "{path}: a number in {masked}");
    }
    assert!(values > 150, "the fixtures hold personal values: {values}");
}

#[test]
fn masked_payload_is_still_useful() {
    let body = include_bytes!("../../../shared/providers/fixtures/retell/call_ended.json");
    let masked = Masker::new().body(body).join("\n");
    for kept in
        ["\"call_ended\"", "\"appointment_id\": \"appt_201\"", "\"call_id\": \"call_", "1760962437211", "+44…000 "]
    {
        assert!(masked.contains(kept), "{kept} in {masked}");
    }
    assert!(masked.contains("‹text "), "{masked}");
}

#[test]
fn values_that_look_personal_are_masked_in_every_field() {
    let mut masker = Masker::new();
    let masked = masker.json(json!({
        "id": "sip:ada@example.com",
        "call_id": "+447700900123",
        "status": "ada@example.com",
        "event": "call for +44 7700 900123",
        "unknown": "harmless",
        "phone": 447_700_900_123_i64,
        "phone_f": 447_700_900_123.0,
        "otp": 123_456,
        "lat": 51.5,
        "Ada Smith": true,
        "diabetic": true,
        "timestamp": 1_760_962_437_211_i64,
        "start_time_unix_secs": 1_760_962_437,
        "event_ts": 1_760_962_437.5,
        "duration_ms": 1_200_000,
        "cost": 0.123_456_789,
        "sid": 447_700_900_123_i64,
        "provider_call_id": 447_700_900_123.0,
        "metadata": {"appointment_id": "appt_1", "note": "busy", "+447700900123": true},
        "tel": "tel:+447700900123",
    }));
    assert_eq!(
        masked,
        json!({
            "id": "‹text C, 19 characters›",
            "call_id": "+44…123 A",
            "status": "‹text G, 15 characters›",
            "event": "‹text B, 24 characters›",
            "unknown": "‹text I, 8 characters›",
            "phone": "…123 B",
            "phone_f": "…230 C",
            "otp": "‹text F, 6 characters›",
            "lat": "‹text D, 4 characters›",
            "‹text A, 9 characters›": "‹true or false›",
            "diabetic": "‹true or false›",
            "timestamp": 1_760_962_437_211_i64,
            "start_time_unix_secs": 1_760_962_437,
            "event_ts": 1_760_962_437.5,
            "duration_ms": 1_200_000,
            "cost": 0.123_456_789,
            "sid": "…123 B",
            "provider_call_id": "…230 C",
            "metadata": {"appointment_id": "appt_1", "note": "‹text E, 4 characters›", "+44…123 A": "‹true or false›"},
            "tel": "‹text H, 17 characters›",
        })
    );
}

#[test]
fn values_that_a_team_defines_are_masked_under_every_name() {
    let mut masker = Masker::new();
    let mut lines = |value: Value| masker.body(value.to_string().as_bytes()).join("\n");
    let secrets = ["chemotherapy", "husband", "QQ123456C", "4711", "12.75"];
    for body in [
        json!({"analysis": {"reason": "chemotherapy", "time": "when my husband is out"}, "variables": {"id": "QQ123456C"}}),
        json!({"request_data": {"id": "QQ123456C", "pin": 4711, "price": 12.75}}),
        json!({"message": {"artifact": {"structuredOutputs": {"o-1": {"name": "why", "result": "chemotherapy"}}}}}),
        json!({"message": {"analysis": {"structuredData": {"state": "chemotherapy"}}}}),
        json!({"data": {"conversation_id": "c-1", "analysis": {"data_collection_results": {"reason": {"value": "chemotherapy"}}}}}),
        json!({"call": {"call_analysis": {"custom_analysis_data": {"reason": "chemotherapy"}}}}),
        json!({"call": {"collected_dynamic_variables": {"status": "chemotherapy"}}}),
        json!({"data": {"record_type": "event", "payload": {"conversation_insights": [{"result": "chemotherapy"}]}}}),
        json!({"data": {"record_type": "event", "payload": {"results": [{"result": "chemotherapy"}]}}}),
        json!({"data": {"record_type": "event", "payload": {"result": {"reason": "chemotherapy"}}}}),
        json!({"event_type": "call.completed", "data": {"reason": "chemotherapy"}, "meta": {"status": "QQ123456C"}}),
        json!({"participant": {"attributes": {"reason": "chemotherapy"}}}),
        json!({"payload": {"responses": {"reason": "chemotherapy"}}}),
        json!({"messages": [{"role": "tool_call_result", "result": "chemotherapy"}]}),
        json!({"time": "when my husband is out", "end": "after chemotherapy"}),
    ] {
        let shown = lines(body);
        assert!(secrets.iter().all(|secret| !shown.contains(secret)), "{shown}");
    }
}

#[test]
fn words_that_a_provider_defines_are_shown_beside_those_of_a_team() {
    let body = json!({
        "type": "post_call_transcription",
        "data": {
            "conversation_id": "c-1",
            "status": "done",
            "analysis": {"call_successful": "success", "reason": "success"},
            "metadata": {"switchhook_attempt": 2},
        },
        "time": "Mon, 20 Oct 2025 12:14:47 +0000",
    });
    let shown = Masker::new().json(body);
    assert_eq!(shown.pointer("/data/status"), Some(&json!("done")));
    assert_eq!(shown.pointer("/data/analysis/call_successful"), Some(&json!("success")));
    assert_eq!(shown.pointer("/data/analysis/reason"), Some(&json!("‹text A, 7 characters›")));
    assert_eq!(shown.pointer("/data/metadata/switchhook_attempt"), Some(&json!(2)));
    assert_eq!(shown.pointer("/time"), Some(&json!("Mon, 20 Oct 2025 12:14:47 +0000")));
    let other = Masker::new().json(json!({"analysis": {"call_successful": "chemotherapy"}}));
    assert_eq!(other, json!({"analysis": {"call_successful": "‹text A, 12 characters›"}}));
    let telnyx = json!({"data": {"record_type": "event", "payload": {"result": "human_residence"}}});
    assert_eq!(Masker::new().json(telnyx.clone()), telnyx);
}

#[test]
fn equal_values_have_equal_letters() {
    let mut masker = Masker::new();
    let (first, again) = (masker.field("to", "+447700900123"), masker.field("From", "+44 7700 900123"));
    assert_eq!(first, "+44…123 A");
    assert_eq!(again, "+44…123 B", "another notation is another value");
    assert_eq!(masker.field("to", "+447700900123"), "+44…123 A");
    assert_eq!(masker.text("could not call +447700900123: busy"), "could not call +44…123 A: busy");
}

#[test]
fn body_that_cannot_be_read_shows_its_length_alone() {
    assert_eq!(Masker::new().body(b"\xffAda +447700900123"), ["‹18 bytes that are neither JSON nor a form›"]);
    assert_eq!(
        Masker::new().body(b"CallSid=CA1&To=%2B447700900123&CallStatus=busy"),
        ["CallSid = CA1", "To = +44…123 A", "CallStatus = busy"]
    );
}

#[test]
fn letters_go_on_after_z() {
    let mut seen = BTreeMap::new();
    let letters: Vec<String> = (0..28).map(|n| letter(&mut seen, &n.to_string())).collect();
    assert_eq!([&letters[0], &letters[25], &letters[26], &letters[27]], ["A", "Z", "AA", "AB"]);
}

#[test]
fn large_body_is_masked_as_far_as_it_is_shown() {
    let texts: Vec<String> = (0..60_000).map(|n| format!("text {n:065}")).collect();
    let body = serde_json::to_vec(&json!({"id": "a", "list": [&texts[..2], &texts], "other": "b"})).unwrap();
    assert!(body.len() > 4 << 20, "{}", body.len());
    let mut masker = Masker::new();
    let shown = masker.first_lines(&body, 100);
    assert!(shown.len() == 100 && masker.texts.len() <= 100, "{} lines, {} values", shown.len(), masker.texts.len());
    // They are the lines of the whole body.
    let whole = Masker::new().body(&body);
    assert_eq!((whole.len(), &whole[..100]), (texts.len() + 12, shown.as_slice()));
    // A name that is masked comes behind the others, and leaves them their lines.
    let body = serde_json::to_vec(&json!({"Ada Smith": &texts[..6_000], "id": "x"})).unwrap();
    let shown = Masker::new().first_lines(&body, 100);
    assert_eq!((shown.len(), shown[1].as_str()), (100, "  \"id\": \"x\","));
    assert_eq!(shown, Masker::new().body(&body)[..100]);
    let form = "a=b&".repeat(1 << 20);
    assert_eq!(Masker::new().first_lines(form.as_bytes(), 2), ["a = ‹text A, 1 character›"; 2]);
}
