//! The API as a client sees it: its answers, the rows that it stores, and a log without phone numbers.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, LOCATION};
use http::{Request, Response, StatusCode};
use serde_dynamo::AttributeValue;
use serde_json::{Value, json};
use switchhook_aws::do_not_call::DoNotCallList;
use switchhook_domain::{PhoneNumber, Provider};
use switchhook_local::connector::Fault;
use switchhook_local::{CALLS_TABLE, INBOX_TABLE};
use switchhook_tests::{MINUTE, World, database_down, generic};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

async fn send(world: &World, method: &str, path: &str, key: Option<&str>, body: &str) -> Response<Bytes> {
    let mut request = Request::builder().method(method).uri(path).header(CONTENT_TYPE, "application/json");
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    world.cloud.request(request.body(Bytes::copy_from_slice(body.as_bytes())).unwrap()).await
}

fn body(response: &Response<Bytes>) -> Value {
    serde_json::from_slice(response.body()).unwrap()
}

/// The status code of a problem (RFC 9457), and the last part of its `type`: `not_found`.
fn problem(response: &Response<Bytes>) -> (u16, String) {
    assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
    let body = body(response);
    assert_eq!(body["status"], response.status().as_u16(), "{body}");
    let kind = body["type"].as_str().unwrap().strip_prefix("urn:switchhook:problem:").unwrap();
    (response.status().as_u16(), kind.to_owned())
}

/// A valid body of `POST /calls`, with these members added or replaced.
fn request_body(change: &Value) -> String {
    let mut body = json!({"provider": "retell", "from": "+14155550100", "to": "+14155550123"});
    body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    body.to_string()
}

async fn create(world: &World, mut change: Value) -> String {
    change["allow_duplicate"] = json!(true);
    let response = send(world, "POST", "/calls", None, &request_body(&change)).await;
    assert_eq!(response.status(), StatusCode::CREATED, "{response:?}");
    body(&response)["call_id"].as_str().unwrap().to_owned()
}

/// The call ids of a whole list, and its number of pages.
async fn listed(world: &World, query: &str) -> (Vec<String>, usize) {
    let (mut ids, mut pages, mut path) = (Vec::new(), 0, format!("/calls?{query}"));
    loop {
        let response = send(world, "GET", &path, None, "").await;
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        let page = body(&response);
        ids.extend(page["calls"].as_array().unwrap().iter().map(|call| call["call_id"].as_str().unwrap().to_owned()));
        pages += 1;
        match page["cursor"].as_str() {
            Some(cursor) => path = format!("/calls?{query}&cursor={cursor}"),
            None => return (ids, pages),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn created_call_is_shown_where_its_answer_says() {
    let world = World::stopped();
    let change =
        json!({"appointment_id": "apt/7 é", "metadata": {"name": "Zoë"}, "due_at": "2026-01-01T10:00:00+02:00"});
    let created = send(&world, "POST", "/calls", None, &request_body(&change)).await;
    assert_eq!(created.status(), StatusCode::CREATED);
    let location = created.headers()[LOCATION].to_str().unwrap().to_owned();
    let answer = body(&created);
    assert_eq!(location, format!("/call?id={}", answer["call_id"].as_str().unwrap()));
    let (code, call) = world.get(&location).await;
    let expected = json!({
        "call_id": answer["call_id"],
        "provider": "retell",
        "direction": "outbound",
        "appointment_id": "apt/7 é",
        "appointment_status": "Pending",
        "job": {"state": "PENDING", "due_at": "2026-01-01T08:00:00.000Z"},
        "lifecycle": null,
        "outcome": null,
        "settled": false,
        "attempts": [],
        "metadata": {"name": "Zoë"},
        "providers": ["retell"],
        "version": 1,
        "created_at": answer["created_at"],
        "updated_at": answer["created_at"],
    });
    assert_eq!((code, &call), (StatusCode::OK, &expected));
    let appointment = world.get("/appointment?id=apt%2F7%20%C3%A9").await;
    let expected = json!({"appointment_id": "apt/7 é", "status": "Pending", "calls_total": 1, "calls": [expected]});
    assert_eq!(appointment, (StatusCode::OK, expected));
    assert!(!world.log_text().contains("415555"));
}

#[tokio::test(start_paused = true)]
async fn repeat_is_answered_with_the_same_bytes_however_it_is_written() {
    let world = World::stopped();
    let first = send(&world, "POST", "/calls", Some("k1"), &request_body(&json!({}))).await;
    assert_eq!((first.status(), first.headers().get("idempotent-replayed")), (StatusCode::CREATED, None));
    world.wait(MINUTE).await;
    // The call changes after its creation; the answer to a repeated request does not.
    let id = body(&first)["call_id"].as_str().unwrap().to_owned();
    assert_eq!(send(&world, "POST", &format!("/call/cancel?id={id}"), None, "").await.status(), StatusCode::OK);
    let spaced = " {\"to\": \"\\u002b14155550123\", \"from\": \"+14155550100\",\n \"provider\": \"retell\"}";
    let again = send(&world, "POST", "/calls", Some("k1"), spaced).await;
    assert_eq!((again.status(), &again.headers()["idempotent-replayed"]), (StatusCode::OK, &"true".parse().unwrap()));
    assert_eq!((again.body(), &again.headers()[LOCATION]), (first.body(), &first.headers()[LOCATION]));
    let (_, shown) = world.get(&format!("/call?id={id}")).await;
    assert_eq!(shown["job"]["state"], "CANCELED", "a canceled call is not made again by its request");
    let other = send(&world, "POST", "/calls", Some("k1"), &request_body(&json!({"appointment_id": "apt"}))).await;
    assert_eq!(problem(&other), (409, "idempotency_key_reused".to_owned()));
    assert_eq!(world.items(CALLS_TABLE).await.len(), 1);
}

/// The inbox forgets a request long before the table of calls forgets its call.
#[tokio::test(start_paused = true)]
async fn key_stays_that_of_its_first_request_when_the_inbox_has_forgotten_it() {
    let world = World::stopped();
    let request = request_body(&json!({}));
    let first = send(&world, "POST", "/calls", Some("k1"), &request).await;
    let call_id = body(&first)["call_id"].as_str().unwrap().to_owned();
    world.wait(MINUTE).await;
    world.delete_item(INBOX_TABLE, &format!("switchhook:{call_id}/created")).await;
    let other = send(&world, "POST", "/calls", Some("k1"), &request_body(&json!({"appointment_id": "apt"}))).await;
    assert_eq!(problem(&other), (409, "idempotency_key_reused".to_owned()));
    let again = send(&world, "POST", "/calls", Some("k1"), &request).await;
    assert_eq!((again.status(), again.body()), (StatusCode::OK, first.body()));
}

/// API Gateway joins them by a comma. A program that repeats the request may send another second key, and so create another call.
#[tokio::test(start_paused = true)]
async fn two_keys_in_one_request_are_refused() {
    let world = World::stopped();
    let request = Request::builder().method("POST").uri("/calls").header(CONTENT_TYPE, "application/json");
    let request = request.header("idempotency-key", "order-7").header("idempotency-key", "8f3e");
    let response = world.cloud.request(request.body(Bytes::from(request_body(&json!({})))).unwrap()).await;
    assert_eq!(problem(&response), (400, "invalid_request".to_owned()));
    let message = body(&response)["errors"][0]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("must be given once") && message.contains("comma"), "{message}");
    assert_eq!(world.items(CALLS_TABLE).await, []);
}

#[tokio::test(start_paused = true)]
async fn same_request_twice_at_once_creates_one_call() {
    let world = World::stopped();
    let request = request_body(&json!({}));
    let create = || send(&world, "POST", "/calls", Some("k1"), &request);
    let (one, two, three) = tokio::join!(create(), create(), create());
    assert_eq!((one.body(), two.body()), (two.body(), three.body()));
    assert_eq!(world.items(CALLS_TABLE).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn call_whose_write_was_not_answered_is_created_once() {
    for key in [None, Some("k1")] {
        let world = World::stopped();
        world.inject_fault("PutItem", CALLS_TABLE, 1, Fault::ResponseLost);
        let created = send(&world, "POST", "/calls", key, &request_body(&json!({}))).await;
        assert_eq!(created.status(), StatusCode::CREATED, "the function must recognise its own write");
        world.clear_faults();
        assert_eq!(world.items(CALLS_TABLE).await.len(), 1, "{key:?}");
        let (code, _) = world.get(created.headers()[LOCATION].to_str().unwrap()).await;
        assert_eq!(code, StatusCode::OK);
    }
}

#[tokio::test(start_paused = true)]
async fn repeat_is_known_after_its_due_time_is_long_past() {
    let world = World::stopped();
    let request = request_body(&json!({"due_at": "2026-01-01T00:00:00Z"}));
    let first = send(&world, "POST", "/calls", Some("k1"), &request).await;
    assert_eq!(first.status(), StatusCode::CREATED);
    world.wait(DAY * 3).await;
    let again = send(&world, "POST", "/calls", Some("k1"), &request).await;
    assert_eq!((again.status(), again.body()), (StatusCode::OK, first.body()));
    for key in [None, Some("k2")] {
        let late = send(&world, "POST", "/calls", key, &request).await;
        assert_eq!(problem(&late), (400, "invalid_request".to_owned()));
        assert_eq!(body(&late)["errors"][0]["field"], "due_at");
    }
}

#[tokio::test(start_paused = true)]
async fn key_whose_call_somebody_else_made_is_taken() {
    let world = World::stopped();
    // Another stack shows which call id the idempotency key `k1` gives.
    let other = World::stopped();
    let made = body(&send(&other, "POST", "/calls", Some("k1"), &request_body(&json!({}))).await);
    let event = generic(made["call_id"].as_str().unwrap(), "e1", "call.ringing", 0);
    world.accept(Provider::Generic, &event).await;
    world.invoke_consumer(&world.receive()).await;
    let response = send(&world, "POST", "/calls", Some("k1"), &request_body(&json!({}))).await;
    assert_eq!(problem(&response), (409, "idempotency_key_reused".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn only_a_call_of_ours_that_has_not_ended_can_be_canceled() {
    let world = World::stopped();
    let cancel = async |id: &str| send(&world, "POST", &format!("/call/cancel?id={id}"), None, "").await;
    let id = create(&world, json!({"due_at": "2026-01-02T00:00:00Z"})).await;
    let canceled = cancel(&id).await;
    let job = json!({"state": "CANCELED", "stop_reason": "canceled_by_user"});
    assert_eq!((canceled.status(), &body(&canceled)["job"]), (StatusCode::OK, &job));
    assert!(body(&canceled)["settled_at"].is_string());
    world.wait(MINUTE).await;
    let again = cancel(&id).await;
    assert_eq!(
        (again.status(), body(&again)),
        (StatusCode::OK, body(&canceled)),
        "a repeated cancel must leave the call as it is"
    );

    let claimed = create(&world, json!({})).await;
    assert_eq!(send(&world, "POST", &format!("/call/trigger?id={claimed}"), None, "").await.status(), StatusCode::OK);
    let (_, shown) = world.get(&format!("/call?id={claimed}")).await;
    assert_eq!(shown["job"]["state"], "CLAIMED");
    assert!(shown["job"]["lease_ends_at"].is_string() && shown["job"].get("due_at").is_none());
    let AttributeValue::S(token) = world.item(CALLS_TABLE, &claimed).await["claim_token"].clone() else {
        panic!("the claim has no token");
    };
    assert!(!shown.to_string().contains(&token));
    // The dialer that holds the claim loses it.
    let canceled = cancel(&claimed).await;
    assert_eq!((canceled.status(), &body(&canceled)["job"]), (StatusCode::OK, &job));

    let confirmed = create(&world, json!({"to": "+14155550177"})).await;
    world.accept(Provider::Generic, &generic(&confirmed, "e0", "USER_CONFIRMED", 0)).await;
    world.invoke_consumer(&world.receive()).await;
    let refused = cancel(&confirmed).await;
    assert_eq!(problem(&refused), (409, "not_pending".to_owned()));
    assert!(body(&refused)["detail"].as_str().unwrap().contains("COMPLETED"));

    world.accept(Provider::Generic, &generic("theirs", "e1", "call.ringing", 0)).await;
    world.invoke_consumer(&world.receive()).await;
    assert_eq!(problem(&cancel("theirs").await), (409, "not_placed_by_switchhook".to_owned()));
    assert_eq!(problem(&cancel("nobody").await), (404, "not_found".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn cancellation_that_was_written_and_not_answered_is_one() {
    let world = World::stopped();
    let id = create(&world, json!({})).await;
    world.inject_fault("PutItem", CALLS_TABLE, 1, Fault::ResponseLost);
    let canceled = send(&world, "POST", &format!("/call/cancel?id={id}"), None, "").await;
    assert_eq!((canceled.status(), &body(&canceled)["job"]["state"]), (StatusCode::OK, &json!("CANCELED")));
    assert_eq!(body(&canceled)["version"], 2);
}

#[tokio::test(start_paused = true)]
async fn list_has_every_call_once_whatever_the_size_of_its_pages() {
    let world = World::stopped();
    let mut pending = BTreeSet::new();
    let mut canceled = BTreeSet::new();
    for n in 0..60 {
        let id = create(&world, json!({"provider": if n % 3 == 0 { "twilio" } else { "retell" }})).await;
        if n % 4 == 0 {
            send(&world, "POST", &format!("/call/cancel?id={id}"), None, "").await;
            canceled.insert(id);
        } else {
            pending.insert(id);
        }
    }
    let all: BTreeSet<String> = pending.union(&canceled).cloned().collect();
    drop(world.requests());
    for limit in [1, 7, 20, 100] {
        for (filter, expected) in [("", &all), ("&job=PENDING", &pending), ("&job=CANCELED", &canceled)] {
            let (ids, pages) = listed(&world, &format!("limit={limit}{filter}")).await;
            assert_eq!(ids.len(), expected.len(), "no call may be listed twice");
            assert_eq!(&ids.into_iter().collect::<BTreeSet<_>>(), expected, "limit={limit}{filter}");
            assert!(pages <= expected.len() / limit + 2, "{pages} pages of {limit}{filter}");
        }
    }
    assert_eq!(listed(&world, "job=CLAIMED").await, (vec![], 1));
    assert!(!world.requests().contains_key("Scan"));
}

#[tokio::test(start_paused = true)]
async fn list_tells_what_is_stuck_from_what_waits() {
    let world = World::stopped();
    let forgotten = create(&world, json!({})).await;
    let planned = create(&world, json!({"due_at": "2026-01-01T00:20:00Z"})).await;
    let canceled = create(&world, json!({})).await;
    send(&world, "POST", &format!("/call/cancel?id={canceled}"), None, "").await;
    world.accept(Provider::Generic, &generic("silent", "e1", "call.ringing", 0)).await;
    world.invoke_consumer(&world.receive()).await;
    world.wait(MINUTE * 15).await;
    let stuck = async |query: &str| listed(&world, query).await.0;
    assert_eq!(stuck("stuck_for=10m").await, [forgotten.clone(), "silent".to_owned()]);
    assert_eq!(stuck("stuck_for=10m&lifecycle=ringing").await, ["silent"]);
    assert_eq!(stuck("stuck_for=10m&job=IN_PROGRESS").await, ["silent"]);
    assert_eq!(stuck("stuck_for=20m").await, Vec::<String>::new());
    world.wait(MINUTE * 16).await;
    let all: BTreeSet<String> = stuck("stuck_for=10m").await.into_iter().collect();
    assert_eq!(
        all,
        [forgotten, planned, "silent".to_owned()].into(),
        "calls that have been due for more than ten minutes are stuck"
    );
}

#[tokio::test(start_paused = true)]
async fn row_that_cannot_be_read_is_named_and_hides_no_other() {
    let world = World::stopped();
    let (broken, whole) = (create(&world, json!({})).await, create(&world, json!({})).await);
    world.alter_text(&broken, "job", "LOST").await;
    let page = body(&send(&world, "GET", "/calls", None, "").await);
    assert_eq!(
        page["calls"].as_array().unwrap().iter().map(|call| &call["call_id"]).collect::<Vec<_>>(),
        [&json!(whole)]
    );
    assert_eq!(page["unreadable"], json!([broken]));
}

#[tokio::test(start_paused = true)]
async fn appointment_stands_as_its_latest_call_does() {
    let world = World::stopped();
    let change = || json!({"appointment_id": "apt", "due_at": "2026-01-02T00:00:00Z"});
    let first = create(&world, change()).await;
    world.wait(MINUTE).await;
    let second = create(&world, change()).await;
    create(&world, json!({"appointment_id": "another"})).await;
    let (code, appointment) = world.get("/appointment?id=apt").await;
    assert_eq!((code, &appointment["status"]), (StatusCode::OK, &json!("Pending")));
    let ids: Vec<&Value> = appointment["calls"].as_array().unwrap().iter().map(|call| &call["call_id"]).collect();
    assert_eq!(ids, [&json!(second), &json!(first)]);
    assert_eq!(problem(&send(&world, "GET", "/appointment?id=none", None, "").await), (404, "not_found".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn appointment_of_more_calls_than_one_answer_reads_is_refused_before_they_are_read() {
    let world = World::stopped();
    let call = json!({
        "provider": "retell", "from": "+14155550100", "to": "+14155550123", "appointment_id": "campaign", "allow_duplicate": true,
    });
    let create = async |count: usize| {
        let calls = json!({"calls": vec![&call; count]}).to_string();
        assert_eq!(send(&world, "POST", "/calls/batch", None, &calls).await.status(), StatusCode::OK);
    };
    for _ in 0..10 {
        create(100).await;
    }
    let (code, appointment) = world.get("/appointment?id=campaign").await;
    assert_eq!((code, &appointment["calls_total"]), (StatusCode::OK, &json!(1_000)));
    create(1).await;
    drop(world.requests());
    let refused = send(&world, "GET", "/appointment?id=campaign", None, "").await;
    assert_eq!(problem(&refused), (400, "invalid_request".to_owned()));
    assert_eq!(body(&refused)["errors"][0]["field"], "id");
    assert!(!world.requests().contains_key("GetItem"));
}

#[tokio::test(start_paused = true)]
async fn number_is_listed_and_taken_off_and_never_logged() {
    let world = World::stopped();
    for (method, is_listed) in [("PUT", true), ("PUT", true), ("DELETE", false), ("DELETE", false)] {
        for number in ["+14155550123", "%2B14155550123"] {
            let response = send(&world, method, &format!("/do-not-call?number={number}"), None, "").await;
            assert_eq!((response.status(), response.body().len()), (StatusCode::NO_CONTENT, 0));
            let listed = DoNotCallList::new(&world.calls, &world.inbox)
                .contains(&PhoneNumber::new("+14155550123"))
                .await
                .unwrap();
            assert_eq!(listed, is_listed);
        }
    }
    let wrong = send(&world, "PUT", "/do-not-call?number=14155550123", None, "").await;
    assert_eq!(problem(&wrong), (400, "invalid_request".to_owned()));
    // A phone number is no call id. A request with one in its path must not log it.
    send(&world, "PUT", "/do-not-call?number=+14155550123", None, "").await;
    for path in ["/call?id=do-not-call:+14155550123", "/call?id=+14155550123", "/event/status?id=+14155550123"] {
        assert_eq!(problem(&send(&world, "GET", path, None, "").await), (404, "not_found".to_owned()));
    }
    assert!(!world.log_text().contains("415555"), "{}", world.log_text());
}

#[tokio::test(start_paused = true)]
async fn refusals_are_problems_and_leave_nothing() {
    let world = World::stopped();
    let check = async |method: &str, path: &str, key: Option<&str>, body: &str, expected: (u16, &str)| {
        let response = send(&world, method, path, key, body).await;
        assert_eq!(problem(&response), (expected.0, expected.1.to_owned()), "{method} {path}");
        response
    };
    check("POST", "/calls", None, "{", (400, "invalid_json")).await;
    check("POST", "/calls", None, "[]", (400, "invalid_request")).await;
    for path in ["/calls", "/calls/batch"] {
        let compressed = Request::post(path).header("content-encoding", "gzip");
        let compressed = compressed.body(Bytes::from_static(b"\x1f\x8b\x08\x00\xff")).unwrap();
        let response = world.cloud.request(compressed).await;
        assert_eq!(problem(&response), (400, "invalid_json".to_owned()));
        assert!(body(&response)["detail"].as_str().unwrap().contains("Content-Encoding is not supported"), "{path}");
    }
    check("POST", "/calls", Some("a b"), &request_body(&json!({})), (400, "invalid_request")).await;
    check("POST", "/calls", None, &" ".repeat(16 * 1024 + 1), (413, "payload_too_large")).await;
    check("GET", "/calls?cursor=e30", None, "", (400, "invalid_request")).await;
    check("GET", "/calls?job=pending&limit=0", None, "", (400, "invalid_request")).await;
    check("GET", "/call?id=none", None, "", (404, "not_found")).await;
    check("GET", "/call/events?id=none", None, "", (404, "not_found")).await;
    check("GET", "/event/status?id=none", None, "", (404, "not_found")).await;
    let response = check("PATCH", "/calls", None, "", (405, "method_not_allowed")).await;
    assert_eq!(response.headers()[ALLOW], "GET, POST");
    let response = check("GET", "/call/cancel?id=c1", None, "", (405, "method_not_allowed")).await;
    assert_eq!(response.headers()[ALLOW], "POST");
    assert_eq!(world.items(CALLS_TABLE).await, []);
}

#[tokio::test(start_paused = true)]
async fn database_that_is_down_is_a_problem_of_ours() {
    let world = World::stopped();
    world.set_fault_hook(database_down);
    let paths = [
        ("POST", "/calls"),
        ("GET", "/calls"),
        ("GET", "/call?id=c1"),
        ("GET", "/call/events?id=c1"),
        ("POST", "/call/cancel?id=c1"),
        ("POST", "/call/trigger?id=c1"),
        ("GET", "/appointment?id=a1"),
        ("GET", "/event/status?id=e1"),
        ("PUT", "/do-not-call?number=+14155550123"),
        ("DELETE", "/do-not-call?number=+14155550123"),
    ];
    for (method, path) in paths {
        let response = send(&world, method, path, None, &request_body(&json!({}))).await;
        assert_eq!(problem(&response), (500, "storage_failure".to_owned()), "{method} {path}");
    }
    let lines = world.logged("storage_failure");
    assert_eq!(lines.len(), paths.len(), "each failure must be logged once");
    let counted = |function: &str| {
        lines.iter().filter(|line| line["function"] == function && line["storage_failure"] == 1).count()
    };
    assert_eq!((counted("api"), counted("scheduler")), (paths.len() - 1, 1), "{lines:?}");
    assert!(!world.log_text().contains("415555"));
}
