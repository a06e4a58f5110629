//! Requests to the fake provider, and its responses.

use std::time::UNIX_EPOCH;

use serde_json::{Value, json};

use super::*;
use crate::database::Database;

fn provider() -> FakeProvider {
    let clock = Clock::starting_at(UNIX_EPOCH + Duration::from_secs(1_767_225_600));
    FakeProvider::new(clock, 1, DeliveryFaults::ALL_LOST)
}

/// Sends a dial request. Returns the status and the body of the response.
fn dial(provider: &FakeProvider, key: &str, behaviour: &str) -> (ApiResponse, Value) {
    let metadata = json!({"switchhook_call_id": "call-1", "switchhook_attempt": "1", "fake": behaviour});
    let body = json!({
        "from_number": "+15550100", "to_number": "+15550199", "idempotency_key": key, "metadata": metadata,
    });
    let response = send(provider, "POST", "/v2/create-phone-call", &body);
    let body = serde_json::from_str(&response.body).unwrap_or_default();
    (response, body)
}

fn send(provider: &FakeProvider, method: &str, path: &str, body: &Value) -> ApiResponse {
    provider.handle(method, path, Some("Bearer key"), body.to_string().as_bytes())
}

#[tokio::test(start_paused = true)]
async fn same_key_rings_one_phone_within_an_hour() {
    let provider = provider();
    let (_, first) = dial(&provider, "a", "confirms");
    tokio::time::advance(Duration::from_secs(59 * 60)).await;
    let (repeated, second) = dial(&provider, "a", "confirms");
    assert_eq!((repeated.status, &second["call_id"]), (201, &first["call_id"]));
    assert_eq!(provider.dials().len(), 1);
    tokio::time::advance(Duration::from_secs(2 * 60)).await;
    dial(&provider, "a", "confirms");
    dial(&provider, "b", "confirms");
    assert_eq!(provider.dials().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn lost_response_is_lost_once_or_always() {
    let provider = provider();
    for (behaviour, fates) in [
        ("first_response_lost", [ResponseFate::Lost, ResponseFate::Arrives]),
        ("response_lost", [ResponseFate::Lost, ResponseFate::Lost]),
    ] {
        assert_eq!([(); 2].map(|()| dial(&provider, behaviour, behaviour).0.fate), fates, "{behaviour}");
    }
    assert_eq!(provider.dials().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn modes_answer_dials_and_lookups() {
    let provider = provider();
    let (_, call) = dial(&provider, "placed", "confirms");
    let path = format!("/v2/get-call/{}", call["call_id"].as_str().unwrap_or_default());
    let mut answers = Vec::new();
    for mode in Mode::ALL {
        provider.set_mode(mode);
        let (response, _) = dial(&provider, &format!("{mode:?}"), "confirms");
        let lookup = send(&provider, "GET", &path, &Value::Null);
        let fate = |response: &ApiResponse| match response.fate {
            ResponseFate::Arrives => response.status.to_string(),
            ResponseFate::Lost | ResponseFate::NeverSent => "silence".to_owned(),
        };
        answers.push(format!("{mode:?}: dial {}, lookup {}", fate(&response), fate(&lookup)));
    }
    let expected = [
        "Normal: dial 201, lookup 200",
        "Down: dial 503, lookup 503",
        "Unresponsive: dial silence, lookup silence",
        "FailsAfterDial: dial 500, lookup 200",
        "Unauthorized: dial 401, lookup 401",
        "OutOfCredit: dial 402, lookup 200",
        "UnknownAsset: dial 422, lookup 200",
        "RejectsNumbers: dial 422, lookup 200",
        "RateLimited: dial 429, lookup 200",
        "OverCapacity: dial 201, lookup 200",
    ];
    assert_eq!(answers, expected);
    // The first dial, the one in normal mode, and the one that was answered with 500.
    assert_eq!(provider.dials().len(), 3);
    provider.set_mode_for(Mode::Down, Duration::from_secs(60));
    assert_eq!(dial(&provider, "c", "confirms").0.status, 503);
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(dial(&provider, "c", "confirms").0.status, 201);
}

#[tokio::test(start_paused = true)]
async fn call_over_capacity_ends_with_an_error_and_rings_nobody() {
    let provider = provider();
    provider.set_mode(Mode::OverCapacity);
    let (_, call) = dial(&provider, "a", "confirms");
    tokio::time::advance(Duration::from_secs(1)).await;
    let path = format!("/v2/get-call/{}", call["call_id"].as_str().unwrap_or_default());
    let call: Value = serde_json::from_str(&send(&provider, "GET", &path, &Value::Null).body).unwrap_or_default();
    assert_eq!(
        (&call["call_status"], &call["disconnection_reason"]),
        (&json!("error"), &json!("concurrency_limit_reached"))
    );
    assert_eq!(provider.dials(), []);
}

#[tokio::test(start_paused = true)]
async fn calls_are_listed_in_pages() {
    let provider = provider();
    for number in 0..5 {
        dial(&provider, &number.to_string(), "confirms");
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    let mut listed = Vec::new();
    let mut body = json!({"sort_order": "ascending", "limit": 2});
    loop {
        let page = send(&provider, "POST", "/v3/list-calls", &body);
        let page: Value = serde_json::from_str(&page.body).unwrap_or_default();
        listed.extend(page["items"].as_array().into_iter().flatten().map(|call| call["call_id"].clone()));
        if page["has_more"] == false {
            break;
        }
        body["pagination_key"] = page["pagination_key"].clone();
    }
    let dialled: Vec<Value> = provider.dials().into_iter().map(|dial| dial.provider_call_id.into()).collect();
    assert_eq!(listed, dialled);
}

#[tokio::test(start_paused = true)]
async fn every_other_429_says_when_to_try_again() {
    let provider = provider();
    provider.set_mode(Mode::RateLimited);
    let answers: Vec<_> = (0..3).map(|_| dial(&provider, "a", "confirms").0).collect();
    let headers: Vec<_> = answers.iter().map(|answer| (answer.status, answer.retry_after)).collect();
    assert_eq!(headers, [(429, Some(90)), (429, None), (429, Some(90))]);
}

#[tokio::test(start_paused = true)]
async fn held_webhooks_wait_until_they_are_let_go() {
    let clock = Clock::starting_at(UNIX_EPOCH + Duration::from_secs(1_767_225_600));
    let provider = FakeProvider::new(clock, 1, DeliveryFaults::NONE);
    dial(&provider, "a", "confirms");
    provider.hold(true);
    let nothing = tokio::time::timeout(Duration::from_secs(600), provider.next_delivery()).await;
    assert!(nothing.is_err(), "{nothing:?}");
    let held = provider.held();
    let events: Vec<&str> = held.iter().map(|webhook| webhook.event).collect();
    assert_eq!(events, ["call_started", "call_ended", "call_analyzed"]);
    assert!(held.iter().all(|webhook| webhook.call_id == "call-1"), "{held:?}");
    assert_eq!(provider.next_webhook_at(), None);

    let [started, ended, analyzed] = [0, 1, 2].map(|index| held[index].number);
    provider.drop_held(&[started]);
    provider.release(&[analyzed, analyzed]);
    let mut sent = Vec::new();
    for _ in 0..2 {
        sent.push(provider.next_delivery().await.event);
    }
    assert_eq!(sent, ["call_analyzed", "call_analyzed"]);
    assert_eq!(provider.held().iter().map(|webhook| webhook.number).collect::<Vec<_>>(), [ended]);
    provider.release(&[ended]);
    assert_eq!(provider.next_delivery().await.event, "call_ended");
    assert!(provider.held().is_empty() && provider.is_holding());
}

/// Vonage and Bland have the same paths, and only a login at Vonage has a scheme.
#[tokio::test(start_paused = true)]
async fn same_path_is_of_the_provider_whose_login_it_has() {
    let provider = provider();
    let vonage =
        json!({"to": [{"number": "15550199"}], "from": {"number": "15550100"}, "answer_url": ["https://a.example"]});
    let bland =
        json!({"phone_number": "+15550199", "from": "+15550100", "metadata": {"fake": "voicemail"}, "webhook": "x"});
    for (login, body) in [("Bearer token", &vonage), ("key", &bland)] {
        let answer = provider.handle("POST", "/v1/calls", Some(login), body.to_string().as_bytes());
        assert!((200..=201).contains(&answer.status), "{answer:?}");
    }
    let dialled: Vec<Provider> = provider.dials().into_iter().map(|dial| dial.provider).collect();
    assert_eq!(dialled, [Provider::Vonage, Provider::Bland]);
    tokio::time::advance(Duration::from_secs(3600)).await;
    let list = |login: &str| provider.handle("GET", "/v1/calls?to_number=%2B15550199", Some(login), b"").body;
    let rows: Value = serde_json::from_str(&list("key")).unwrap_or_default();
    // A row shows no metadata.
    assert_eq!((&rows["count"], &rows["calls"][0]["metadata"]), (&json!(1), &Value::Null));
    assert!(list("Bearer token").contains("_embedded"));
    assert_eq!(provider.handle("GET", "/v1/calls", None, b"").status, 401);
}

#[tokio::test(start_paused = true)]
async fn signalwire_paths_may_leave_out_the_extension() {
    let provider = provider();
    let calls = "/api/laml/2010-04-01/Accounts/p/Calls";
    let form = "To=%2B15550199&From=%2B15550100&Url=https%3A%2F%2Fa.example%2F%3Ffake%3Dbusy&StatusCallback=https%3A%2F%2Fb.example%2F";
    for extension in ["", ".json"] {
        let path = format!("{calls}{extension}");
        let answer = provider.handle("POST", &path, Some("Basic login"), form.as_bytes());
        let call: Value = serde_json::from_str(&answer.body).unwrap_or_default();
        assert_eq!((answer.status, &call["status"]), (201, &json!("queued")));
        tokio::time::advance(Duration::from_secs(60)).await;
        let path = format!("{calls}/{}{extension}", call["sid"].as_str().unwrap_or_default());
        let call = provider.handle("GET", &path, Some("Basic login"), b"").body;
        let call: Value = serde_json::from_str(&call).unwrap_or_default();
        assert_eq!(call["status"], "busy", "{call}");
    }
    assert!(provider.dials().iter().all(|dial| dial.provider == Provider::SignalWire));
}

#[tokio::test(start_paused = true)]
async fn restarted_provider_knows_its_calls_and_sends_the_rest_of_their_webhooks() {
    let clock = Clock::starting_at(UNIX_EPOCH + Duration::from_secs(1_767_225_600));
    let database = Database::memory().unwrap();
    let start = || {
        let journal = Journal::open(&database, JOURNAL).unwrap();
        FakeProvider::open(clock, 1, DeliveryFaults::NONE, Some(journal)).unwrap()
    };
    let first = start();
    let (_, call) = dial(&first, "a", "confirms");
    let started = first.next_delivery().await;
    assert_eq!(started.event, "call_started");
    // A kill while the webhook is being sent does not lose it.
    assert_eq!(start().next_delivery().await.event, "call_started");
    first.finish_delivery(&started);
    drop(first);

    let second = start();
    let path = format!("/v2/get-call/{}", call["call_id"].as_str().unwrap());
    assert_eq!(send(&second, "GET", &path, &Value::Null).status, 200);
    assert_eq!(dial(&second, "a", "confirms").1["call_id"], call["call_id"], "the key still names the call");
    assert_eq!((second.dials().len(), second.duplicate_dials()), (1, 0));
    second.hold(true);
    let nothing = tokio::time::timeout(Duration::from_secs(600), second.next_delivery()).await;
    assert!(nothing.is_err(), "{nothing:?}");
    drop(second);

    // Held webhooks are sent, because nobody holds them any more.
    let third = start();
    for event in ["call_ended", "call_analyzed"] {
        let delivery = third.next_delivery().await;
        assert_eq!(delivery.event, event);
        third.finish_delivery(&delivery);
    }
    assert_eq!((third.next_webhook_at(), start().next_webhook_at()), (None, None));
}
