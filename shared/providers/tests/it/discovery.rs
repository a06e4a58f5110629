//! Requests for a provider's own list of calls, and the events in their responses.

use insta::assert_snapshot;
use serde_json::{Value, json};
use switchhook_domain::{Direction, PhoneNumber, Provider, Timestamp};
use switchhook_providers::{CallPage, ClientError, Period, discovery_api_request, read_discovery_answer};

use crate::api::{DIALLED, NOW, config};

/// An hour that ends a second before [`NOW`].
const PERIOD: Period = Period {
    from: Timestamp::from_millis(NOW.as_millis() - 3_601_000),
    until: Timestamp::from_millis(NOW.as_millis() - 1_000),
};

fn request(provider: Provider, page: Option<&str>) -> String {
    let request = discovery_api_request(provider, &config(provider), PERIOD, page).unwrap();
    format!("{} {} {}", request.method, request.path, String::from_utf8(request.body).unwrap()).trim_end().to_owned()
}

fn read(provider: Provider, page: Option<&str>, body: &Value) -> CallPage {
    read_discovery_answer(provider, &config(provider), PERIOD, page, 200, body.to_string().as_bytes(), NOW).unwrap()
}

/// Ids of the events of a page, and the next page.
fn events(page: &CallPage) -> (Vec<&str>, Option<&str>) {
    (page.events.iter().map(|(_, event)| event.event_id.as_str()).collect(), page.next_page.as_deref())
}

#[test]
fn recent_calls_are_listed() {
    let requests = [
        request(Provider::Retell, None),
        request(Provider::Retell, Some("key")),
        request(Provider::Twilio, None),
        request(Provider::Twilio, Some("/2010-04-01/Accounts/AC1/Calls.json?Page=1")),
        request(Provider::Vapi, None),
        request(Provider::Telnyx, None),
        request(Provider::Telnyx, Some("2")),
        request(Provider::ElevenLabs, None),
        request(Provider::ElevenLabs, Some("a b")),
        request(Provider::Plivo, None),
        request(Provider::Plivo, Some("20")),
        request(Provider::Vonage, None),
        request(Provider::Vonage, Some("100")),
        request(Provider::Bland, None),
        request(Provider::Bland, Some("100")),
        request(Provider::SignalWire, None),
        request(Provider::SignalWire, Some("/api/laml/2010-04-01/Accounts/project-1/Calls.json?Page=1")),
    ];
    assert_snapshot!(requests.join("\n"), @r#"
    POST /v3/list-calls {"filter_criteria":{"start_timestamp":{"op":"bt","type":"range","value":[1760958999000,1760962599000]}},"limit":10,"sort_order":"ascending"}
    POST /v3/list-calls {"filter_criteria":{"start_timestamp":{"op":"bt","type":"range","value":[1760958999000,1760962599000]}},"limit":10,"pagination_key":"key","sort_order":"ascending"}
    GET /2010-04-01/Accounts/AC1/Calls.json?StartTime%3E=2025-10-20&PageSize=50
    GET /2010-04-01/Accounts/AC1/Calls.json?Page=1
    GET /call?createdAtGe=2025-10-20T11%3A16%3A39.000Z&createdAtLe=2025-10-20T12%3A16%3A39.000Z&limit=10
    GET /v2/call_events?filter%5Btype%5D=webhook&filter%5Boccurred_at%5D%5Bgte%5D=2025-10-20T11%3A16%3A39.000Z&page%5Bnumber%5D=1&page%5Bsize%5D=100
    GET /v2/call_events?filter%5Btype%5D=webhook&filter%5Boccurred_at%5D%5Bgte%5D=2025-10-20T11%3A16%3A39.000Z&page%5Bnumber%5D=2&page%5Bsize%5D=100
    GET /v1/convai/conversations?call_start_after_unix=1760958999&call_start_before_unix=1760962599&text_only=false&page_size=100
    GET /v1/convai/conversations?call_start_after_unix=1760958999&call_start_before_unix=1760962599&text_only=false&page_size=100&cursor=a%20b
    GET /v1/Account/MA1/Call/?end_time__gte=2025-10-20%2011%3A16%3A39&limit=20&offset=0
    GET /v1/Account/MA1/Call/?end_time__gte=2025-10-20%2011%3A16%3A39&limit=20&offset=20
    GET /v1/calls?date_start=2025-10-20T11%3A16%3A39Z&date_end=2025-10-20T12%3A16%3A39Z&order=asc&page_size=100&record_index=0
    GET /v1/calls?date_start=2025-10-20T11%3A16%3A39Z&date_end=2025-10-20T12%3A16%3A39Z&order=asc&page_size=100&record_index=100
    GET /v1/calls?sort_by=created_at&ascending=false&from=0&to=100&limit=100
    GET /v1/calls?sort_by=created_at&ascending=false&from=100&to=200&limit=100
    GET /api/laml/2010-04-01/Accounts/project-1/Calls.json?StartTime%3E=2025-10-20&PageSize=50
    GET /api/laml/2010-04-01/Accounts/project-1/Calls.json?Page=1
    "#);
    let elsewhere = discovery_api_request(Provider::Twilio, &config(Provider::Twilio), PERIOD, Some("//evil"));
    assert_eq!(elsewhere, Err(ClientError::LookupUnsupported));
    let config_of_space = config(Provider::SignalWire);
    let elsewhere = discovery_api_request(Provider::SignalWire, &config_of_space, PERIOD, Some("//evil"));
    assert_eq!(elsewhere, Err(ClientError::LookupUnsupported));
    let request_to_space = discovery_api_request(Provider::SignalWire, &config_of_space, PERIOD, None).unwrap();
    assert_eq!(request_to_space.base_url.as_deref(), Some("https://example.signalwire.com"));
    for provider in Provider::ALL.into_iter().filter(|provider| *provider != Provider::Retell) {
        let request = discovery_api_request(provider, &config(Provider::Retell), PERIOD, None);
        assert_eq!(request, Err(ClientError::LookupUnsupported));
    }
}

#[test]
fn half_of_a_character_in_a_list_hides_no_call() {
    let call = json!({
        "id": "v1", "type": "inboundPhoneCall", "status": "ended", "endedReason": "customer-ended-call",
        "startedAt": "2025-10-20T12:14:04.430Z", "endedAt": "2025-10-20T12:14:47.610Z", "artifact": {"transcript": "ok …"},
    });
    let list = format!("[{call}]").replace('…', r"\ud83d");
    let page = read_discovery_answer(Provider::Vapi, &config(Provider::Vapi), PERIOD, None, 200, list.as_bytes(), NOW)
        .unwrap();
    assert_eq!(events(&page), (vec!["vapi:v1:end-of-call-report"], None));
}

#[test]
fn ended_calls_become_the_events_of_their_webhooks() {
    let call = |id: &str, status: &str| {
        json!({
            "call_id": id, "call_status": status, "disconnection_reason": "user_hangup",
            "start_timestamp": 1_760_962_437_211_i64, "end_timestamp": 1_760_962_521_846_i64,
        })
    };
    // A call that goes on, and an item that is no call, give no event.
    let list =
        json!({"items": [call("c1", "ended"), call("c2", "ongoing"), 7], "has_more": true, "pagination_key": "c2"});
    assert_eq!(events(&read(Provider::Retell, None, &list)), (vec!["retell:c1:call_ended"], Some("c2")));

    // A call with a status that Retell has added cannot be read, and is counted.
    let page = read(Provider::Retell, None, &json!({"items": [call("c4", "paused"), call("c5", "ended")]}));
    assert_eq!(events(&page), (vec!["retell:c5:call_ended"], None));
    assert_eq!(page.unknown_values, ["call_status"]);

    // An inbound call belongs to nobody yet: it is a call of its own.
    let mut inbound = call("c3", "ended");
    inbound["direction"] = "inbound".into();
    inbound["from_number"] = "+447700900000".into();
    let page = read(Provider::Retell, None, &json!({"items": [inbound], "has_more": false}));
    let (_, event) = &page.events[0];
    assert_eq!((event.call_id.as_str(), event.direction), ("retell:c3", Some(Direction::Inbound)));
    assert_eq!(event.from.as_ref().map(PhoneNumber::as_str), Some("+447700900000"));

    let call = |id: &str, created: &str, parent: Value| {
        json!({
            "sid": id, "status": "busy", "direction": "inbound", "date_created": created, "parent_call_sid": parent,
            "end_time": "Mon, 20 Oct 2025 12:14:47 +0000",
        })
    };
    let now = call("CA1", "Mon, 20 Oct 2025 12:13:56 +0000", Value::Null);
    let leg = call("CA2", "Mon, 20 Oct 2025 12:13:56 +0000", json!("CA1"));
    let late = call("CA3", "Mon, 20 Oct 2025 12:17:56 +0000", Value::Null);
    let early = call("CA4", "Mon, 20 Oct 2025 11:00:00 +0000", Value::Null);
    let next = "/2010-04-01/Accounts/AC1/Calls.json?Page=1";
    let page = read(Provider::Twilio, None, &json!({"calls": [late, leg, now], "next_page_uri": next}));
    let (ids, next_page) = events(&page);
    assert!(ids.len() == 1 && ids[0].starts_with("twilio:CA1:busy"), "{ids:?}");
    assert_eq!(next_page, Some(next));
    // The newest call comes first, so nothing of the period follows after this page.
    let page = read(Provider::Twilio, None, &json!({"calls": [early], "next_page_uri": next}));
    assert_eq!(events(&page), (vec![], None));

    let call = |second: u32| {
        json!({
            "id": format!("v{second}"), "status": "ended", "endedReason": "customer-ended-call",
            "createdAt": format!("2025-10-20T12:14:{second:02}.000Z"), "endedAt": "2025-10-20T12:15:47.610Z",
        })
    };
    let page = read(Provider::Vapi, None, &(0..10).map(call).collect());
    assert_eq!(page.events.len(), 10);
    let next_page = page.next_page.unwrap();
    assert!(request(Provider::Vapi, Some(&next_page)).contains("createdAtGe=2025-10-20T12%3A14%3A09.000Z"));
    let page = read(Provider::Vapi, Some(&next_page), &json!([call(9)]));
    assert_eq!(events(&page), (vec!["vapi:v9:end-of-call-report"], None));

    let row = |id: &str, event_type: &str, at: &str| {
        let payload = json!({"call_control_id": "v3:1", "hangup_cause": "user_busy"});
        json!({"metadata": {"event_type": event_type, "id": id, "occurred_at": at, "payload": payload}})
    };
    let mut of_other_call = row("e0", "call.answered", "2025-10-20T12:14:46Z");
    of_other_call["metadata"]["payload"]["call_control_id"] = "v3:2".into();
    let rows = [
        row("e1", "call.answered", "2025-10-20T12:14:47Z"),
        row("e2", "call.hangup", "2025-10-20T12:14:48Z"),
        row("e3", "call.hangup", "2025-10-20T12:16:39.500Z"),
    ];
    let list = |rows: &[Value]| json!({"data": rows, "meta": {"total_pages": 3}});
    // The hangup does not say whether the call was answered. The events of a call that may go on are left out.
    let initiated = row("e4", "call.initiated", "2025-10-20T12:14:45Z");
    let page = list(&[&[initiated, of_other_call], &rows[..2]].concat());
    let expected = vec!["telnyx:e1", "telnyx:e4", "telnyx:e2"];
    assert_eq!(events(&read(Provider::Telnyx, Some("1"), &page)), (expected, Some("2")));
    assert_eq!(events(&read(Provider::Telnyx, Some("2"), &list(&rows[1..]))), (vec!["telnyx:e2"], None));
}

#[test]
fn plivo_records_of_ended_calls_become_events() {
    let call = |id: &str, created: &str, parent: Value| {
        json!({
            "call_uuid": id, "call_direction": "inbound", "from_number": "447700900000", "to_number": "+442079460018",
            "initiation_time": created, "answer_time": created, "end_time": "2025-10-20 17:44:47+05:30",
            "bill_duration": 51, "parent_call_uuid": parent, "hangup_cause_code": 4000,
        })
    };
    let calls = [
        call("p1", "2025-10-20 17:43:56+05:30", Value::Null),
        call("p2", "2025-10-20 17:43:56+05:30", json!("p1")),
        call("p3", "2025-10-20 16:00:00+05:30", Value::Null),
    ];
    let page = |next: Value| json!({"objects": calls, "meta": {"next": next, "offset": 0}});
    let first = read(Provider::Plivo, None, &page(json!("/v1/Account/MA1/Call/?offset=20")));
    assert_eq!(events(&first), (vec!["plivo:p1:CallRecord:completed"], Some("20")));
    let (_, event) = &first.events[0];
    assert_eq!((event.call_id.as_str(), event.direction), ("plivo:p1", Some(Direction::Inbound)));
    let last = read(Provider::Plivo, Some("20"), &page(Value::Null));
    assert_eq!(events(&last), (vec!["plivo:p1:CallRecord:completed"], None));
}

#[test]
fn vonage_calls_that_ended_become_events() {
    let call = |id: &str, status: &str, started: Value| {
        json!({
            "uuid": id, "status": status, "direction": "inbound", "start_time": started, "end_time": "2025-10-20 12:14:47",
            "from": {"type": "phone", "number": "447700900000"}, "to": {"type": "phone", "number": "442079460018"},
            "duration": "51",
        })
    };
    let calls = [
        call("v1", "completed", json!("2025-10-20 12:13:56")),
        call("v2", "answered", json!("2025-10-20 12:13:56")),
        call("v3", "completed", json!("2025-10-20 10:00:00")),
        // The list has the calls of the period only, and a call that nobody answered may have no start.
        call("v4", "busy", Value::Null),
    ];
    let page = |count: usize| json!({"count": count, "_embedded": {"calls": calls}});
    let ids = || vec!["vonage:v1:completed:call_record", "vonage:v4:busy:call_record"];
    let first = read(Provider::Vonage, None, &page(104));
    assert_eq!(events(&first), (ids(), Some("4")));
    let (_, event) = &first.events[0];
    assert_eq!((event.call_id.as_str(), event.direction), ("vonage:v1", Some(Direction::Inbound)));
    let last = read(Provider::Vonage, Some("100"), &page(104));
    assert_eq!(events(&last), (ids(), None));
}

#[test]
fn legs_that_a_vonage_call_added_are_no_calls() {
    let leg = |id: &str, direction: &str, started: Value, to: Value| {
        json!({
            "uuid": id, "status": "completed", "direction": direction, "conversation_uuid": "c1", "duration": "51", "to": to,
            "start_time": started, "end_time": "2025-10-20 12:14:47", "from": {"type": "phone", "number": "447700900000"},
        })
    };
    let phone = || json!({"type": "phone", "number": "442079460018"});
    let at = |second: u32| json!(format!("2025-10-20 12:13:{second}"));
    let of_conversation = |id: &str, mut leg: Value| {
        leg["conversation_uuid"] = json!(id);
        leg
    };
    let calls = [
        leg("without-start", "outbound", Value::Null, phone()),
        leg("later", "outbound", at(57), phone()),
        leg("agent", "outbound", at(56), json!({"type": "websocket", "uri": "wss://agent.example.com?token=secret"})),
        leg("user", "outbound", at(56), json!([{"type": "app", "user": "anna"}])),
        leg("call", "outbound", at(55), phone()),
        // A caller who is moved into a conversation called by themselves.
        leg("caller", "inbound", at(58), phone()),
        of_conversation(
            "c2",
            leg("other-call", "outbound", at(57), json!([{"type": "sip", "uri": "sip:desk@example.com"}])),
        ),
        // The agent's program was called first, and then the customer.
        of_conversation("c3", leg("first-agent", "outbound", at(55), json!({"type": "app", "user": "anna"}))),
        of_conversation("c3", leg("customer", "outbound", at(57), phone())),
    ];
    let page = read(Provider::Vonage, None, &json!({"count": calls.len(), "_embedded": {"calls": calls}}));
    let ids = ["call", "caller", "other-call", "customer"].map(|id| format!("vonage:{id}:completed:call_record"));
    assert_eq!(events(&page).0, ids);
}

#[test]
fn elevenlabs_list_names_the_conversations_that_have_ended() {
    let row = |id: &str, status: &str| json!({"conversation_id": id, "status": status});
    let of_source = |id: &str, source: &str| json!({"conversation_id": id, "status": "done", "conversation_initiation_source": source});
    let rows = [
        of_source("c1", "twilio"),
        row("c2", "processing"),
        row("c3", "failed"),
        row("c4", "new"),
        row("c5", "in-progress"),
        of_source("c6", "widget"),
        of_source("c7", "twilio_sms"),
    ];
    let page = |has_more: bool| json!({"conversations": rows, "has_more": has_more, "next_cursor": "x"});
    for (has_more, next_page) in [(true, Some("x".to_owned())), (false, None)] {
        // Nobody knows what "new" means, so the provider is asked about that conversation too.
        let named = vec!["c1".to_owned(), "c3".to_owned(), "c4".to_owned()];
        let expected = CallPage { events: Vec::new(), named, unknown_values: Vec::new(), next_page };
        assert_eq!(read(Provider::ElevenLabs, None, &page(has_more)), expected);
    }
}

#[test]
fn signalwire_calls_that_ended_become_events() {
    let call = |id: &str, created: Value, parent: Value| {
        json!({
            "sid": id, "status": "busy", "direction": "inbound", "date_created": created, "parent_call_sid": parent,
            "end_time": "Mon, 20 Oct 2025 12:14:47 +0000",
        })
    };
    let now = json!("Mon, 20 Oct 2025 12:13:56 +0000");
    let calls = [
        call("s1", json!("Mon, 20 Oct 2025 12:17:56 +0000"), Value::Null),
        call("s2", now.clone(), json!("s3")),
        call("s3", now, Value::Null),
        call("s4", json!("Mon, 20 Oct 2025 11:00:00 +0000"), Value::Null),
        // A call without a time that can be read may be of the period.
        call("s5", json!("Mon, 20 Sept 2025 12:13:56 +0000"), Value::Null),
    ];
    let next = "/api/laml/2010-04-01/Accounts/project-1/Calls.json?Page=1";
    let page = read(Provider::SignalWire, None, &json!({"calls": calls, "next_page_uri": next}));
    let (ids, next_page) = events(&page);
    assert!(
        ids.len() == 2 && ids[0].starts_with("signalwire:s3:busy") && ids[1].starts_with("signalwire:s5:busy"),
        "{ids:?}"
    );
    assert_eq!(next_page, Some(next));
    // The login must not go elsewhere.
    let evil = json!({"calls": [], "next_page_uri": "https://evil.example.com/"}).to_string();
    for provider in [Provider::SignalWire, Provider::Twilio] {
        let answer = read_discovery_answer(provider, &config(provider), PERIOD, None, 200, evil.as_bytes(), NOW);
        assert_eq!(answer, None);
    }
}

#[test]
fn bland_list_names_the_calls_of_the_period_that_have_ended() {
    let row = |id: &str, created: &str, completed: bool| json!({"call_id": id, "created_at": created, "completed": completed, "queue_status": if completed { "complete" } else { "started" }});
    let now = "2025-10-20T12:13:56.104213+00:00";
    let rows = [
        row("c1", "2025-10-20T12:16:39.500000+00:00", true),
        row("c2", now, true),
        row("c3", now, false),
        json!({"call_id": "c4", "created_at": now, "completed": false, "queue_status": "queue_error"}),
        // Nobody knows what "paused" means, so the provider is asked about that call too.
        json!({"call_id": "c6", "created_at": now, "queue_status": "paused"}),
        // The call to a colleague during a warm transfer is no call of its own.
        json!({"call_id": "c7", "created_at": now, "completed": true, "is_proxy_agent_call": true}),
        row("c5", "2025-10-20T11:00:00+00:00", true),
    ];
    let page = |rows: &[Value]| json!({"count": rows.len(), "calls": rows});
    let expected = |named: &[&str], next: Option<&str>| CallPage {
        events: Vec::new(),
        named: named.iter().map(|id| (*id).to_owned()).collect(),
        unknown_values: Vec::new(),
        next_page: next.map(str::to_owned),
    };
    assert_eq!(read(Provider::Bland, None, &page(&rows)), expected(&["c2", "c4", "c6"], None));
    // A full page is followed by another one, unless it reaches back before the period: the newest call comes first.
    let full = vec![row("c2", now, true); 100];
    assert_eq!(read(Provider::Bland, None, &page(&full)), expected(&["c2"; 100], Some("100")));
    assert_eq!(read(Provider::Bland, Some("100"), &page(&full)).next_page.as_deref(), Some("200"));
    let mut last = full;
    last[99] = row("c9", "2025-10-20T11:00:00+00:00", true);
    assert_eq!(read(Provider::Bland, Some("100"), &page(&last)), expected(&["c2"; 99], None));
}

#[test]
fn response_without_a_list_is_not_read() {
    for provider in DIALLED {
        for (status, body) in [(200, ""), (200, "{}"), (200, "7"), (500, "{\"items\":[]}"), (404, "[]"), (429, "[]")] {
            assert_eq!(
                read_discovery_answer(provider, &config(provider), PERIOD, None, status, body.as_bytes(), NOW),
                None,
                "{body}"
            );
        }
    }
}
