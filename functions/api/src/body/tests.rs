use std::collections::BTreeMap;

use serde_json::json;
use switchhook_domain::{CallDefaults, CallId, DUE_AHEAD_MAX, NUMBER_BYTES_MAX, NewCall, Plan, RetryPolicy};

use super::*;

const NOW: Timestamp = Timestamp::from_millis(1_795_168_800_000);
const RETRY: RetryPolicy =
    RetryPolicy { attempts_max: 3, delay_seconds: 900, delay_max_seconds: 7_200, voicemail: false, unheard: false };
const DEFAULTS: CallDefaults = CallDefaults { retry: RETRY, window: None };

fn whole() -> Value {
    json!({
        "provider": "retell",
        "from": "+14155550100",
        "to": "sip:desk@example.com",
        "appointment_id": "appt_7",
        "metadata": {"name": "Zoë", "empty": ""},
        "due_at": "2026-11-20T12:30:00.25+02:00",
        "window": {"time_zone": "Europe/London", "opens": "09:00", "closes": "17:30", "days": ["fri", "mon"],
            "closed_dates": ["2026-12-26", "2026-12-25", "2026-12-26"]},
        "retry": {"attempts_max": 5, "delay_seconds": 60, "delay_max_seconds": 600, "voicemail": true},
    })
}

fn read(body: &Value) -> Result<CallRequest, Problem> {
    super::read(body.to_string().as_bytes(), Vec::new(), NOW)
}

fn with(field: &str, value: Value) -> Value {
    let mut body = json!({"provider": "twilio", "from": "+14155550100", "to": "+14155550123"});
    body[field] = value;
    body
}

/// Returns the fields with an error.
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
    let call = read(&whole()).unwrap().into_call(CallId::new("c1"), "hash".to_owned(), &DEFAULTS, NOW);
    let plan = Plan {
        providers: vec![Provider::Retell],
        due_at: Timestamp::parse_rfc3339("2026-11-20T10:30:00.25Z").unwrap(),
        not_after: None,
        window: Some("Europe/London 09:00-17:30 mon,fri 2026-12-25,2026-12-26".parse().unwrap()),
        retry: RetryPolicy {
            attempts_max: 5,
            delay_seconds: 60,
            delay_max_seconds: 600,
            voicemail: true,
            unheard: false,
        },
        metadata: [("empty", ""), ("name", "Zoë")].map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        request_hash: Some("hash".to_owned()),
        trace_id: None,
    };
    let expected = NewCall {
        call_id: CallId::new("c1"),
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
    let window: CallingWindow = "Europe/London 09:00-24:00".parse().unwrap();
    let defaults = CallDefaults { retry: RETRY, window: Some(window.clone()) };
    let call = read(&body).unwrap().into_call(CallId::new("c1"), "hash".to_owned(), &defaults, NOW);
    let own = with("window", json!({"time_zone": "UTC", "opens": "00:00", "closes": "24:00"}));
    let own = read(&own).unwrap().into_call(CallId::new("c1"), "hash".to_owned(), &defaults, NOW);
    assert_eq!(own.plan.window, Some("UTC 00:00-24:00".parse().unwrap()));
    let plan = Plan {
        providers: vec![Provider::Twilio],
        due_at: NOW,
        not_after: None,
        window: Some(window),
        retry: RETRY,
        metadata: BTreeMap::new(),
        request_hash: Some("hash".to_owned()),
        trace_id: None,
    };
    assert_eq!((call.appointment_id, call.plan), (None, plan));
}

#[test]
fn delays_of_the_stack_give_way_to_those_that_are_asked_for() {
    let delays = |delay_seconds, delay_max_seconds| {
        let policy = RetryOptions { delay_seconds, delay_max_seconds, ..RetryOptions::default() }.with_defaults(RETRY);
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
    let call = read(&body).unwrap().into_call(CallId::new("c1"), String::new(), &DEFAULTS, NOW);
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
        "window": {"time_zone": "Europe/Atlantis", "opens": "9am", "days": [], "closed_dates": ["soon"], "dais": []},
        "retry": {"attempts_max": 17, "delay_seconds": -1, "voicemail": "yes"},
        "tel": "+14155550123",
    });
    let errors = vec![FieldError::new("Idempotency-Key", "is wrong")];
    let problem = super::read(body.to_string().as_bytes(), errors, NOW).unwrap_err();
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
        "window.closed_dates",
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
fn call_names_one_provider_or_several_in_order() {
    let providers = |names: Value| {
        let mut body = with("providers", names);
        body.as_object_mut().unwrap().remove("provider");
        body
    };
    let several = read(&providers(json!(["vapi", "retell"]))).unwrap();
    assert_eq!(several.providers, [Provider::Vapi, Provider::Retell]);
    let one = read(&providers(json!(["twilio"]))).unwrap();
    assert_eq!(one.hash().unwrap(), read(&with("provider", json!("twilio"))).unwrap().hash().unwrap());
    for names in [json!([]), json!("retell"), json!(["retell", "retell"]), json!(["generic"]), json!(["retell", 7])] {
        assert_eq!(wrong(&providers(names)), ["providers"]);
    }
    assert_eq!(wrong(&with("providers", json!(["retell"]))), ["providers"], "provider is given too");
    assert_eq!(wrong(&json!({"from": "+14155550100", "to": "+14155550123"})), ["provider"]);
    check("provider", json!(7), false);
}

#[test]
fn calls_of_a_batch_are_read_one_by_one() {
    let mut keyed = whole();
    keyed["idempotency_key"] = json!("row-1");
    let mut wrong_key = whole();
    wrong_key["idempotency_key"] = json!("a b");
    wrong_key["to"] = json!("12");
    let body = json!({"calls": [keyed, whole(), wrong_key, 7]});
    let entries = read_batch(body.to_string().as_bytes(), NOW).unwrap();
    let keys: Vec<Result<Option<String>, Vec<String>>> = entries
        .into_iter()
        .map(|entry| match entry {
            Ok(BatchEntry { key, request }) => {
                assert_eq!(request, read(&whole()).unwrap(), "the key is no part of the call");
                Ok(key)
            }
            Err(problem) => Err(problem.errors.into_iter().map(|error| error.field).collect()),
        })
        .collect();
    let wrong = Err(vec!["idempotency_key".to_owned(), "to".to_owned()]);
    assert_eq!(keys, [Ok(Some("row-1".to_owned())), Ok(None), wrong, Err(vec![])]);
}

#[test]
fn batch_that_is_none_is_refused() {
    let refused =
        |body: Value| read_batch(body.to_string().as_bytes(), NOW).map(|_| panic!("{body} is accepted")).unwrap_err();
    let hundred_and_one = vec![whole(); BATCH_CALLS_MAX + 1];
    for body in [json!([]), json!({}), json!({"calls": []}), json!({"calls": {}}), json!({"calls": [whole()], "x": 1})]
    {
        assert_eq!(refused(body).errors[0].field, "calls");
    }
    assert_eq!(refused(json!({"calls": hundred_and_one})).errors[0].field, "calls");
    let too_large = vec![b' '; BATCH_CALLS_MAX * BODY_BYTES_MAX + 1];
    assert_eq!(read_batch(&too_large, NOW).map(|_| ()).unwrap_err().kind, ProblemKind::PayloadTooLarge);
    let most = json!({"calls": vec![whole(); BATCH_CALLS_MAX]});
    assert_eq!(read_batch(most.to_string().as_bytes(), NOW).unwrap().len(), BATCH_CALLS_MAX);
}

#[test]
fn wish_for_a_duplicate_is_no_part_of_the_content() {
    let with_wish = with("allow_duplicate", json!(true));
    let request = read(&with_wish).unwrap();
    assert!(request.allow_duplicate);
    assert_eq!(request.hash().unwrap(), read(&with("allow_duplicate", json!(false))).unwrap().hash().unwrap());
    check("allow_duplicate", json!("yes"), false);
}

#[test]
fn body_that_names_a_field_twice_is_refused_with_the_place() {
    let body = |fields: &str| format!(r#"{{"provider":"retell","from":"+14155550100","to":"+14155550123",{fields}}}"#);
    for (fields, column) in [
        (r#""to":"+14155550199""#, 67),
        (r#""metadata":{"a":"1","b":{"c":[{"d":1,"d":1}]}}"#, 103),
        (r#""window":{"opens":"09:00","opens":"10:00"}"#, 96),
        (r#""t\u006f":"+14155550199""#, 72),
    ] {
        let refused = |problem: Problem| {
            assert_eq!(problem.kind, ProblemKind::InvalidRequest, "{fields}");
            let expected = format!("the body names a field twice at line 1, column {column}");
            assert_eq!(problem.detail, expected, "{fields}");
        };
        refused(super::read(body(fields).as_bytes(), Vec::new(), NOW).unwrap_err());
        let batch = read_batch(format!(r#"{{"calls":[{}]}}"#, body(fields)).as_bytes(), NOW);
        assert!(batch.unwrap_err().detail.starts_with("the body names a field twice at line 1, column "), "{fields}");
    }
    // Objects beside each other may have the same names.
    assert!(super::read(body(r#""metadata":{"to":"1"}"#).as_bytes(), Vec::new(), NOW).is_ok());
}

#[test]
fn due_at_error_is_told_with_the_rest_and_stands_alone_otherwise() {
    let mut body = with("due_at", json!("2025-01-01T00:00:00Z"));
    assert_eq!(read(&body).unwrap().due_at_error.unwrap().field, "due_at");
    body["to"] = json!("");
    assert_eq!(wrong(&body), ["to", "due_at"]);
}

#[test]
fn metadata_fits_into_the_url_of_a_provider_that_gets_it_there() {
    // Three bytes of a query for each of these characters, and four for the rest of an entry.
    let entries = |values: [usize; 2]| json!({"aa": "+".repeat(values[0]), "bb": "+".repeat(values[1])});
    for (values, is_right) in [([332, 333], false), ([332, 332], true)] {
        for provider in ["twilio", "signalwire", "plivo", "vonage"] {
            let mut body = with("metadata", entries(values));
            body["provider"] = json!(provider);
            assert_eq!(read(&body).is_ok(), is_right, "{provider} {values:?}");
        }
    }
    let mut body = with("metadata", entries([512, 512]));
    body["provider"] = json!("retell");
    assert!(read(&body).is_ok());
    body.as_object_mut().unwrap().remove("provider");
    body["providers"] = json!(["retell", "plivo"]);
    assert_eq!(wrong(&body), ["metadata"]);
}

#[test]
fn sip_address_needs_a_provider_that_calls_it() {
    let mut body = with("to", json!("sip:desk@example.com"));
    assert!(read(&body).is_ok());
    body["provider"] = json!("livekit");
    assert_eq!(wrong(&body), ["to"]);
    body.as_object_mut().unwrap().remove("provider");
    body["providers"] = json!(["twilio", "livekit"]);
    assert_eq!(wrong(&body), ["to"]);
    body["to"] = json!("+14155550123");
    assert!(read(&body).is_ok());
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
    for metadata in [json!({"": "v"}), json!({"a": null}), json!([]), json!("a")] {
        check("metadata", metadata, false);
    }
    for reserved in ["appointment_id", "bodySHA256", "switchhook_note"] {
        check("metadata", json!({reserved: "v"}), false);
    }
}

#[test]
fn due_time_is_rfc3339_and_near() {
    for time in
        ["2026-11-19T10:00:00Z", "2027-11-20T10:00:00Z", "2026-11-20t12:00:00.123456789z", "2026-11-20T12:00:00-05:30"]
    {
        check("due_at", json!(time), true);
    }
    for time in ["2026-11-19T09:59:59.999Z", "2027-11-20T10:00:00.001Z", "0001-01-01T00:00:00Z", "9999-12-30T22:00:00Z"]
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
    // They have the right format.
    for time in ["9999-12-31T23:59:59Z", "2026-13-20T12:00:00Z"] {
        let problem = read(&with("due_at", json!(time))).unwrap_err();
        assert!(problem.errors[0].message.contains("at most 365 days"), "{problem:?}");
    }
}

#[test]
fn window_can_be_open() {
    let window =
        |time_zone: &str, opens: &str, closes: &str| json!({"time_zone": time_zone, "opens": opens, "closes": closes});
    check("window", window("America/Los_Angeles", "00:00", "23:59"), true);
    check("window", window("Europe/London", "09:00", "09:00"), false);
    check("window", window("Europe/London", "20:00", "02:00"), true);
    check("window", window("Europe/London", "09:00", "24:00"), true);
    check("window", window("Europe/London", "00:00", "24:00"), true);
    check("window", window("Europe/London", "24:00", "09:00"), false);
    check("window", window("Europe/London", "09:00", "24:01"), false);
    check("window", window("Europe/London", "9:00", "17:00"), false);
    check("window", window("Europe/London", "09:00:00", "17:00"), false);
    check("window", window("London", "09:00", "17:00"), false);
    check("window", window(&"a".repeat(65), "09:00", "17:00"), false);
    check("window", json!({}), false);
    let days = |days: Value| json!({"time_zone": "UTC", "opens": "09:00", "closes": "17:00", "days": days});
    check("window", days(json!(["mon", "mon"])), true);
    for wrong in [json!([]), json!(["Mon"]), json!("mon"), json!([1]), json!(vec!["mon"; 8])] {
        check("window", days(wrong), false);
    }
    let closed = |dates: Value| json!({"time_zone": "UTC", "opens": "09:00", "closes": "17:00", "closed_dates": dates});
    check("window", closed(json!(["2026-12-25", "2026-12-25"])), true);
    check("window", closed(json!(vec!["2026-12-25"; CLOSED_DATES_MAX])), true);
    for wrong in
        [json!([]), json!(["2026-02-30"]), json!("2026-12-25"), json!(["20261225"]), json!(["2026-12-25T00:00"])]
    {
        check("window", closed(wrong), false);
    }
    check("window", closed(json!(vec!["2026-12-25"; CLOSED_DATES_MAX + 1])), false);
}

#[test]
fn retry_is_bounded() {
    check("retry", json!({}), true);
    let hash = |field: &str, value: Value| read(&with(field, value)).unwrap().hash().unwrap();
    assert_eq!(hash("retry", json!({})), hash("allow_duplicate", json!(false)), "no option is no options");
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
    let kind = |body: &[u8]| super::read(body, Vec::new(), NOW).map_err(|problem| problem.kind).unwrap_err();
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
    let hash = |body: &str| super::read(body.as_bytes(), Vec::new(), NOW).unwrap().hash().unwrap();
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
    let at = |now| super::read(body.as_bytes(), Vec::new(), now).unwrap().hash().unwrap();
    assert_eq!(at(NOW), at(NOW.plus(DUE_AHEAD_MAX)));
}

#[test]
fn debug_shows_no_number_and_no_metadata() {
    let text = format!("{:?}", read(&whole()).unwrap());
    assert!(!text.contains("415555") && !text.contains("Zoë") && !text.contains("desk"), "{text}");
}
