//! Calls from their creation to their end, over the API and the real tables. Lists and requests by an id find a call in
//! every state, and never scan a table.

#![expect(clippy::indexing_slicing, reason = "a test that cannot go on fails")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use http::header::ALLOW;
use http::{Request, StatusCode};
use insta::assert_snapshot;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use switchhook_aws::calls::WakeQueue;
use switchhook_aws::shards::SHARDS_DEFAULT;
use switchhook_domain::Provider;
use switchhook_tests::{MINUTE, World, generic, text};

use crate::outbound::{call_request, call_state, create, send};

/// Number of calls of each kind.
const EACH: usize = 30;
/// Due time of the waiting calls. A world begins at 2026-01-01T00:00:00Z.
const DUE: &str = "2026-01-01T00:30:00Z";

async fn get(world: &World, path: &str) -> (StatusCode, Value) {
    send(world, "GET", path, None, &Value::Null).await
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

fn ids(page: &Value) -> Vec<String> {
    page["calls"].as_array().unwrap().iter().map(|call| text(&call["call_id"])).collect()
}

/// All pages of a list. Each with its requests, and the read units of the calls on it.
async fn pages(world: &World, query: &str) -> Vec<(Value, (BTreeMap<String, u64>, f64))> {
    let mut pages = Vec::new();
    let mut cursor = String::new();
    loop {
        drop((world.requests(), world.capacity()));
        let (code, page) = get(world, &format!("/calls?{query}{cursor}")).await;
        assert_eq!(code, StatusCode::OK, "{query}{cursor}: {page}");
        cursor = page["cursor"].as_str().map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
        let capacity = world.capacity();
        let reads = ["GetItem", "BatchGetItem"].into_iter().filter_map(|operation| capacity.get(operation));
        pages.push((page, (world.requests(), reads.map(|count| count.read_units).sum())));
        if cursor.is_empty() {
            return pages;
        }
        assert!(pages.len() < 1_000, "{query}: the list never ends");
    }
}

/// The call ids of a whole list. Panics if an id occurs twice.
async fn listed(world: &World, query: &str) -> BTreeSet<String> {
    let all: Vec<String> = pages(world, query).await.iter().flat_map(|(page, _)| ids(page)).collect();
    let set: BTreeSet<String> = all.iter().cloned().collect();
    assert_eq!(set.len(), all.len(), "{query}");
    set
}

/// Consumes messages until the events queue is empty.
async fn consume_all(world: &World) {
    while !world.queued().is_empty() {
        world.consume(&world.receive()).await;
        world.wait(std::time::Duration::from_secs(1)).await;
    }
}

/// Creates calls in several states. Returns their ids by kind: a provider's name for its waiting calls, `under way`,
/// and `settled`.
async fn by_state(world: &World) -> BTreeMap<&'static str, BTreeSet<String>> {
    let mut by_state: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for provider in ["retell", "twilio", "vapi", "telnyx"] {
        for number in 0..EACH {
            let mut later = call_request("confirms");
            later["provider"] = json!(provider);
            later["due_at"] = json!(DUE);
            later["appointment_id"] = json!(format!("{provider}-{number}"));
            by_state.entry(provider).or_default().insert(create(world, &later).await);
        }
    }
    for (kind, event_types) in
        [("under way", &["CALL_STARTED", "RINGING"][..]), ("settled", &["CALL_STARTED", "RINGING", "BUSY"])]
    {
        for number in 0..EACH {
            let call_id = format!("{kind} {number}");
            for event_type in event_types {
                world
                    .accept(Provider::Generic, &generic(&call_id, &format!("{call_id} {event_type}"), event_type, 0))
                    .await;
            }
            by_state.entry(kind).or_default().insert(call_id);
        }
    }
    consume_all(world).await;
    by_state
}

#[tokio::test(start_paused = true)]
async fn list_shows_every_call_once_whatever_the_size_of_a_page_and_never_scans() {
    let world = World::stopped();
    let by_state = by_state(&world).await;
    let everything: BTreeSet<String> = by_state.values().flatten().cloned().collect();
    for limit in [1, 7, 100] {
        let pages = pages(&world, &format!("limit={limit}")).await;
        let mut all: Vec<String> = pages.iter().flat_map(|(page, _)| ids(page)).collect();
        all.sort();
        assert_eq!(all, everything.iter().cloned().collect::<Vec<_>>(), "limit {limit}");
        for (page, (requests, read_units)) in &pages {
            let of_page = ids(page).len();
            assert!(of_page <= limit);
            assert!(
                requests.keys().all(|operation| ["Query", "GetItem", "BatchGetItem"].contains(&operation.as_str()))
            );
            let reads = ["GetItem", "BatchGetItem"].map(|operation| requests.get(operation).copied().unwrap_or(0));
            let reads_max = of_page.min(2) as u64 + 1;
            assert!(
                reads.iter().sum::<u64>() <= reads_max,
                "one for the open calls of a page, one for the settled ones, and one for the list of accounts"
            );
            let units = of_page as f64 / 2.0;
            assert!((units..=units + 0.5).contains(read_units), "only the listed calls are read, each once");
        }
        // A page reads ahead in every shard, and once more in shards that it uses up.
        let shards = WakeQueue::all(&BTreeSet::new()).len() as u64 * SHARDS_DEFAULT;
        for (page, (requests, _)) in &pages {
            let queries = requests.get("Query").copied().unwrap_or(0);
            assert!(queries <= shards + ids(page).len() as u64, "{queries} queries for a page of {limit}");
        }
    }
}

/// Time by which a call is listed: the time of its next step if it is open, else the time of its settlement.
fn listed_by(call: &Value) -> (bool, i64) {
    let text = call["settled_at"].as_str().or(call["job"]["due_at"].as_str());
    // An open call without a due time wakes after the inactivity timeout.
    let updated_at =
        || call["updated_at"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap().as_millisecond() + 900_000;
    let at = text.map_or_else(updated_at, |text| text.parse::<jiff::Timestamp>().unwrap().as_millisecond());
    if call["settled"] == true { (true, -at) } else { (false, at) }
}

#[tokio::test(start_paused = true)]
async fn list_has_one_order_over_all_providers_and_shards() {
    let world = World::stopped();
    for number in 0..60 {
        let mut request = call_request("confirms");
        request["provider"] = json!(["retell", "twilio", "vapi", "telnyx"][number % 4]);
        // Some calls are due at the same moment.
        request["due_at"] = json!(format!("2026-01-01T{:02}:00:00Z", number * 7 % 20 + 1));
        let call_id = create(&world, &request).await;
        world.wait(std::time::Duration::from_millis(7)).await;
        if number % 3 == 0 {
            send(&world, "POST", &format!("/call/cancel?id={call_id}"), None, &Value::Null).await;
        }
    }
    let mut orders = Vec::new();
    for limit in [1, 7, 100] {
        let pages = pages(&world, &format!("limit={limit}")).await;
        let calls: Vec<Value> = pages.iter().flat_map(|(page, _)| page["calls"].as_array().unwrap().clone()).collect();
        assert_eq!(calls.len(), 60);
        assert!(calls.iter().map(listed_by).is_sorted(), "limit {limit}");
        orders.push(calls.into_iter().map(|call| call["call_id"].clone()).collect::<Vec<_>>());
    }
    assert!(orders.iter().all(|order| *order == orders[0]), "the order does not depend on the size of a page");
}

#[tokio::test(start_paused = true)]
async fn status_of_an_appointment_follows_from_all_its_calls() {
    let world = World::stopped();
    let mut request = call_request("confirms");
    request["due_at"] = json!(DUE);
    let event =
        |number: usize, kind: &str| generic(&format!("c{number}"), &format!("e{number} {kind}"), kind, number as u64);
    let with_appointment = |body: String| {
        let mut body: Value = serde_json::from_str(&body).unwrap();
        body["appointment_id"] = json!("apt");
        body.to_string()
    };
    for number in 0..70 {
        world.accept(Provider::Generic, &with_appointment(event(number, "NO_ANSWER"))).await;
    }
    consume_all(&world).await;
    let status = async || get(&world, "/appointment?id=apt").await.1;
    let shown = status().await;
    assert_eq!((&shown["status"], &shown["calls_total"]), (&json!("NoAnswer"), &json!(70)));
    assert_eq!(ids(&shown).len(), 50);
    // A call that was not dialled yet says nothing.
    create(&world, &request).await;
    assert_eq!(status().await["status"], "NoAnswer");
    // The decision was made in the call that is the oldest of 71, and not among those that are shown.
    world.accept(Provider::Generic, &with_appointment(generic("c0", "decision", "USER_DECLINED", 1))).await;
    consume_all(&world).await;
    let shown = status().await;
    assert_eq!((&shown["status"], &shown["calls_total"]), (&json!("Declined"), &json!(71)));
    assert!(!ids(&shown).contains(&"c0".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn list_is_narrowed_by_job_lifecycle_and_how_long_nothing_changed() {
    let world = World::stopped();
    let by_state = by_state(&world).await;
    let of = |kinds: &[&str]| kinds.iter().flat_map(|kind| by_state[kind].clone()).collect::<BTreeSet<String>>();
    let waiting = of(&["retell", "twilio", "vapi", "telnyx"]);
    let check = async |query: &str, expected: &BTreeSet<String>| {
        for limit in ["", "&limit=11"] {
            assert_eq!(listed(&world, &format!("{query}{limit}")).await, *expected, "{query}{limit}");
        }
    };
    let none = BTreeSet::new();
    check("job=PENDING", &waiting).await;
    check("job=IN_PROGRESS", &of(&["under way"])).await;
    check("job=FAILED", &of(&["settled"])).await;
    check("job=CLAIMED", &none).await;
    check("job=COMPLETED", &none).await;
    check("lifecycle=ringing", &of(&["under way"])).await;
    check("lifecycle=busy", &of(&["settled"])).await;
    check("lifecycle=busy&job=PENDING", &none).await;
    check("stuck_for=10m", &none).await;
    world.wait(MINUTE * 20).await;
    check("stuck_for=10m", &of(&["under way"])).await;
    check("stuck_for=30m", &none).await;
    // No scheduler runs, so the waiting calls have been due for ten minutes.
    world.wait(MINUTE * 20).await;
    check("stuck_for=9m", &of(&["under way", "retell", "twilio", "vapi", "telnyx"])).await;
    check("stuck_for=9m&job=PENDING", &waiting).await;
    check("stuck_for=20m", &of(&["under way"])).await;
    check("stuck_for=20m&lifecycle=busy", &none).await;
}

#[tokio::test(start_paused = true)]
async fn cursor_is_good_for_its_own_question_alone() {
    let world = World::stopped();
    by_state(&world).await;
    let (_, page) = get(&world, "/calls?job=PENDING&limit=3").await;
    let pending = text(&page["cursor"]);
    let (_, page) = get(&world, "/calls?job=FAILED&limit=3").await;
    let failed = text(&page["cursor"]);
    let check = async |query: &str, status: StatusCode| {
        let (code, body) = get(&world, &format!("/calls?{query}")).await;
        assert_eq!(code, status, "{query}: {body}");
        if status == StatusCode::BAD_REQUEST {
            assert_eq!(body["type"], "urn:switchhook:problem:invalid_request");
            assert_eq!((&body["errors"][0]["field"], &body["errors"][1]), (&json!("cursor"), &Value::Null));
        }
    };
    check(&format!("job=PENDING&cursor={pending}"), StatusCode::OK).await;
    check(&format!("cursor={pending}"), StatusCode::OK).await;
    check(&format!("job=FAILED&cursor={pending}"), StatusCode::BAD_REQUEST).await;
    check(&format!("job=PENDING&cursor={failed}"), StatusCode::BAD_REQUEST).await;
    check("cursor=bm90aGluZw", StatusCode::BAD_REQUEST).await;
    check("cursor=%20", StatusCode::BAD_REQUEST).await;
    check("cursor=", StatusCode::BAD_REQUEST).await;
    check(&format!("cursor={}", &pending[..pending.len() - 2]), StatusCode::BAD_REQUEST).await;
    check(&format!("cursor={}", "A".repeat(5_000)), StatusCode::BAD_REQUEST).await;
}

#[tokio::test(start_paused = true)]
async fn created_call_is_shown_listed_and_found_by_its_appointment() {
    let world = World::new();
    let request = json!({
        "provider": "retell", "from": "+15550100", "to": "+15550199", "appointment_id": "apt 7/b",
        "metadata": {"fake": "busy,confirms"}, "due_at": "2026-01-01T00:10:00Z",
        "retry": {"attempts_max": 2, "delay_seconds": 60},
    });
    let (code, created) = send(&world, "POST", "/calls", None, &request).await;
    assert_eq!((code, &created["due_at"]), (StatusCode::CREATED, &json!("2026-01-01T00:10:00.000Z")));
    let call_id = text(&created["call_id"]);
    let (_, shown) = get(&world, &format!("/call?id={call_id}")).await;
    assert_eq!(
        (&shown["job"], &shown["attempts"], &shown["version"]),
        (&json!({"state": "PENDING", "due_at": "2026-01-01T00:10:00.000Z"}), &json!([]), &json!(1))
    );
    assert!(!shown.to_string().contains("+1555"), "{shown}");
    let (_, appointment) = get(&world, "/appointment?id=apt%207%2Fb").await;
    assert_eq!(
        appointment,
        json!({"appointment_id": "apt 7/b", "status": "Pending", "calls_total": 1, "calls": [shown]})
    );
    assert_eq!(get(&world, "/calls?job=PENDING").await.1["calls"], json!([shown]));

    world.wait(MINUTE * 30).await;
    let (_, shown) = get(&world, &format!("/call?id={call_id}")).await;
    assert_snapshot!(
        call_state(&world, &call_id).await,
        @"job COMPLETED, appointment Confirmed, attempts [busy, completed]"
    );
    assert_eq!(get(&world, "/calls?job=COMPLETED&lifecycle=completed").await.1["calls"], json!([shown]));
    assert_eq!(get(&world, "/calls?job=PENDING").await.1, json!({"calls": []}));
    // The provider call id of an attempt finds the call too.
    let attempt = text(&shown["attempts"][0]["provider_call_id"]);
    assert_eq!(get(&world, &format!("/call?id=retell:{attempt}")).await.1, shown);
    let (_, timeline) = get(&world, &format!("/call/events?id={call_id}")).await;
    let event_id = text(&timeline["events"][0]["event_id"]);
    let (code, _) = get(&world, &format!("/event/status?id={}", encoded(&event_id))).await;
    assert_eq!(code, StatusCode::OK, "{event_id}");

    // The decision of the person holds, although another call waits.
    world.wait(MINUTE).await;
    let mut again = request;
    again["due_at"] = json!("2026-01-02T00:00:00Z");
    let second = create(&world, &again).await;
    world.quiesce().await;
    let (_, appointment) = get(&world, "/appointment?id=apt%207%2Fb").await;
    assert_eq!((&appointment["status"], &appointment["calls_total"]), (&json!("Confirmed"), &json!(2)));
    assert_eq!(ids(&appointment), [second, call_id]);
    assert_eq!(get(&world, "/appointment?id=apt%207").await.0, StatusCode::NOT_FOUND);
}

#[tokio::test(start_paused = true)]
async fn method_that_a_path_does_not_have_is_told_with_those_that_it_has() {
    let world = World::stopped();
    for (method, path, allowed) in [
        ("DELETE", "/calls", "GET, POST"),
        ("PUT", "/call?id=c1", "GET"),
        ("POST", "/call/events?id=c1", "GET"),
        ("GET", "/call/cancel?id=c1", "POST"),
        ("GET", "/call/trigger?id=c1", "POST"),
        ("POST", "/appointment?id=a", "GET"),
        ("DELETE", "/event/status?id=e1", "GET"),
        ("GET", "/do-not-call?number=+15550100", "PUT, DELETE"),
    ] {
        let request = Request::builder().method(method).uri(path).body(Bytes::new()).unwrap();
        let response = world.cloud.request(request).await;
        assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED, "{method} {path}");
        assert_eq!(response.headers()[ALLOW], allowed, "{method} {path}");
        assert_eq!(response.headers()["content-type"], "application/problem+json");
    }
    assert_eq!(world.requests(), BTreeMap::new(), "no request may reach AWS");
}

#[tokio::test(start_paused = true)]
async fn ids_may_hold_any_character() {
    let world = World::new();
    for call_id in ["a b", "a/b", "2026/01/01 09:00", "50%", "50%25", "events/x", "ä ü/ß", "a#b&c=d", "a?b", "a+b"] {
        let event_id = format!("of {call_id}");
        let stored = world.accept(Provider::Generic, &generic(call_id, &event_id, "RINGING", 0)).await;
        world.quiesce().await;
        let query = format!("id={}", encoded(call_id));
        let (code, call) = get(&world, &format!("/call?{query}")).await;
        assert_eq!((code, &call["call_id"]), (StatusCode::OK, &json!(call_id)), "{query}");
        let (code, timeline) = get(&world, &format!("/call/events?{query}")).await;
        assert_eq!((code, &timeline["call_id"]), (StatusCode::OK, &json!(call_id)), "{query}");
        let (code, status) = get(&world, &format!("/event/status?id={}", encoded(stored.as_str()))).await;
        assert_eq!((code, &status["call_id"]), (StatusCode::OK, &json!(call_id)), "{stored}");
        let (code, _) = send(&world, "POST", &format!("/call/cancel?{query}"), None, &Value::Null).await;
        assert_eq!(code, StatusCode::CONFLICT, "{query}");
    }
}

#[tokio::test(start_paused = true)]
async fn number_that_may_not_be_called_is_not_called_until_it_may_be() {
    let world = World::new();
    let change_list = async |method: &str, number: &str| {
        send(&world, method, &format!("/do-not-call?number={number}"), None, &Value::Null).await
    };
    // A repeated request changes nothing.
    for _ in 0..2 {
        assert_eq!(change_list("PUT", "%2B15550199").await, (StatusCode::NO_CONTENT, Value::Null));
    }
    let call_id = create(&world, &call_request("confirms")).await;
    world.wait(MINUTE * 5).await;
    assert_snapshot!(call_state(&world, &call_id).await, @"job FAILED, appointment Blocked, attempts []");
    assert_eq!(get(&world, &format!("/call?id={call_id}")).await.1["job"]["stop_reason"], "do_not_call");
    assert_eq!(
        (world.published_types(&call_id), world.cloud.fake().dials().len()),
        (vec!["call.exhausted".to_owned(), "appointment.blocked".to_owned()], 0)
    );

    for _ in 0..2 {
        assert_eq!(change_list("DELETE", "+15550199").await, (StatusCode::NO_CONTENT, Value::Null));
    }
    let call_id = create(&world, &call_request("confirms")).await;
    world.wait(MINUTE * 5).await;
    assert_snapshot!(call_state(&world, &call_id).await, @"job COMPLETED, appointment Confirmed, attempts [completed]");
    let (code, problem) = change_list("PUT", "15550199").await;
    assert_eq!((code, &problem["errors"][0]["field"]), (StatusCode::BAD_REQUEST, &json!("number")));
    // A phone number is no call id, although both are stored in one table.
    for path in ["/call?id=do-not-call:%2B15550199", "/call?id=%2B15550199"] {
        assert_eq!(get(&world, path).await.0, StatusCode::NOT_FOUND);
    }
}
