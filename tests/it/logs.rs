//! The log of a run with every kind of traffic and fault: every line has its fields and metrics, and no line holds a
//! secret.

#![expect(clippy::panic, clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::path::Path;

use http::StatusCode;
use serde_dynamo::AttributeValue;
use serde_json::{Value, json};
use switchhook_aws::telemetry::{METRICS, Metric};
use switchhook_domain::Provider;
use switchhook_local::connector::Service;
use switchhook_local::queue::NewMessage;
use switchhook_local::{CALLS_TABLE, EVENTS_QUEUE};
use switchhook_tests::{
    INACTIVITY_TIMEOUT, KEY, MINUTE, OLD_KEY, World, database_down, down, is_request_to, sample, text,
};

use crate::budget::{LOG_LINE_BYTES, RUNS, price};
use crate::outbound::{create, send};
use crate::traffic::{retell_call, twilio_call};

/// Phone numbers of the caller and of the person called.
const NUMBERS: [&str; 2] = ["+15550107001", "+15550107002"];
/// Sentence of a conversation.
const SPOKEN: &str = "my card ends in four three two one";

/// All dimension sets. None has an id or another text without a bound.
const DIMENSION_SETS: [&[&str]; 3] =
    [&["stack", "function"], &["stack", "function", "provider"], &["stack", "function", "cause"]];

/// Numbers of a line that are no metrics.
const NUMBERS_WITHOUT_METRIC: [&str; 19] = [
    "dead_letters_marked",
    "delayed",
    "drift_checked",
    "drift_lookups",
    "due",
    "duration_ms",
    "expired",
    "failed",
    "key_number",
    "lookup_events",
    "lookups",
    "lost_races",
    "notices",
    "postponed",
    "records",
    "rescheduled",
    "retry_count",
    "sweep_lag_ms",
    "swept_minutes",
];

/// Price of one series of a custom metric in a month, for the first 10,000.
const SERIES_DOLLARS: f64 = 0.30;

/// Metrics of states that the runs of this file do not reach.
const EMITTED_ELSEWHERE: [(&str, &str); 63] = [
    ("consumer", "call_booked"),
    ("consumer", "call_called_off"),
    ("consumer", "booking_without_call"),
    ("ingress", "question_fallback"),
    ("dialer", "record_not_deleted"),
    ("dialer", "dialled_before"),
    ("ingress", "edge_disabled"),
    ("relay", "call_failed"),
    ("relay", "call_no_answer"),
    ("consumer", "circuit_closed"),
    ("consumer", "circuit_open"),
    ("reconciler", "stuck_dialing"),
    ("api", "number_unblocked"),
    ("api", "repeated"),
    ("consumer", "duplicate"),
    ("consumer", "fold_conflicts"),
    ("consumer", "health_not_noted"),
    ("consumer", "number_blocked"),
    ("consumer", "number_unknown"),
    ("consumer", "parked"),
    ("consumer", "refold_too_long"),
    ("consumer", "refold_unreadable"),
    ("consumer", "unparked"),
    ("dialer", "circuit_closed"),
    ("dialer", "circuit_open"),
    ("dialer", "claim_lost"),
    ("dialer", "dial_failed"),
    ("dialer", "dial_held"),
    ("dialer", "dial_released"),
    ("dialer", "dial_withdrawn"),
    ("dialer", "health_not_noted"),
    ("dialer", "no_account"),
    ("dialer", "window_closed"),
    ("ingress", "provider_disabled"),
    ("ingress", "key_3"),
    ("ingress", "key_4"),
    ("ingress", "reserved_call_id"),
    ("ingress", "unknown_value"),
    ("ingress", "unsigned"),
    ("reconciler", "budget_used_up"),
    ("reconciler", "claims_expired"),
    ("reconciler", "discovered"),
    ("reconciler", "discovery_postponed"),
    ("reconciler", "discovery_skipped_ms"),
    ("reconciler", "drift_found"),
    ("reconciler", "drift_skipped_ms"),
    ("reconciler", "drifted"),
    ("reconciler", "handed_on"),
    ("reconciler", "not_discovered"),
    ("reconciler", "not_requeued"),
    ("reconciler", "shard_failed"),
    ("reconciler", "shard_worked"),
    ("reconciler", "unfolded_ms"),
    ("reconciler", "unknown_value"),
    ("relay", "record_skipped"),
    ("scheduler", "batch_failed"),
    ("scheduler", "budget_used_up"),
    ("scheduler", "providers_unavailable"),
    ("scheduler", "storage_failure"),
    ("scheduler", "unconfigured"),
    ("scheduler", "waiting"),
    ("secret", "provider_disabled"),
    ("secret", "secret_refresh_failed"),
];

/// Texts that no log line may hold: keys, signatures, bodies, phone numbers, names.
#[derive(Debug, Default)]
struct Secrets(BTreeSet<String>);

impl Secrets {
    fn add(&mut self, secret: impl Into<String>) {
        self.0.insert(secret.into());
    }

    /// Posts a webhook. Adds its signature to the secrets, and its body if it has more than 20 bytes.
    async fn post(&mut self, world: &World, provider: Provider, key: &str, query: &str, body: &[u8]) -> StatusCode {
        let request = world.signed(provider, key, query, body, world.now());
        for (name, value) in request.headers() {
            // A nonce is no secret. The tests use the time for it, which is in every line.
            if name.as_str().contains("signature") && !name.as_str().contains("nonce") {
                let value = value.to_str().unwrap();
                self.add(value);
                // The signature without its timestamp or prefix is a secret too.
                self.add(value.rsplit(['=', ',']).find(|part| part.len() >= 20).unwrap_or(value));
            }
        }
        if body.len() > 20 {
            self.add(String::from_utf8_lossy(body));
        }
        world.send(request).await.0
    }
}

/// The body of a generic webhook about the call `c1`, with phone numbers and a spoken sentence.
fn generic(event_id: &str, event_type: &str) -> Vec<u8> {
    json!({
        "event_id": event_id, "type": event_type, "call_id": "c1", "occurred_at": "2026-01-01T00:00:01Z",
        "call": {"sid": "s1", "from": NUMBERS[0], "to": NUMBERS[1]}, "data": {"said": SPOKEN},
    })
    .to_string()
    .into_bytes()
}

/// Runs every kind of traffic and fault. Returns the texts that the log must not hold.
async fn run(world: &mut World) -> Secrets {
    let mut secrets = Secrets::default();
    for secret in [KEY, OLD_KEY, SPOKEN, "Lovelace", "+442079460018", "442079460018", "+44770090"] {
        secrets.add(secret);
    }
    NUMBERS.iter().for_each(|number| secrets.add(*number));

    // Traffic without faults.
    for webhook in retell_call(1, 8, 3).into_iter().chain(twilio_call(1, true)) {
        let body = webhook.body.as_bytes();
        secrets.post(world, webhook.provider, KEY, &webhook.query, body).await;
        secrets.post(world, webhook.provider, KEY, &webhook.query, body).await;
        world.quiesce().await;
    }
    secrets.post(world, Provider::Retell, OLD_KEY, "", sample("retell/call_ended").as_bytes()).await;
    secrets.post(world, Provider::Generic, KEY, "", &generic("e1", "RINGING")).await;
    world.quiesce().await;
    // Webhooks that are refused, unreadable, of unknown type, or in conflict with an earlier one.
    for provider in Provider::ALL {
        secrets.post(world, provider, "another key", "", &generic("e2", "ANSWERED")).await;
        secrets.post(world, provider, KEY, "", format!("{{\"to\":\"{}\", {SPOKEN}", NUMBERS[0]).as_bytes()).await;
    }
    secrets.post(world, Provider::Generic, KEY, "", &generic("e1", "BUSY")).await;
    secrets.post(world, Provider::Generic, KEY, "", &generic("e3", "SOMETHING_ELSE")).await;
    secrets.post(world, Provider::Generic, KEY, "", &vec![b'x'; 5_000_000]).await;
    let mut elsewhere = world.signed(Provider::Generic, KEY, "", &generic("e4", "RINGING"), world.now());
    *elsewhere.uri_mut() = format!("/webhooks/{}", NUMBERS[0]).parse().unwrap();
    world.send(elsewhere).await;
    // A second provider reports the same appointment, and a call reaches its limit of events.
    let claim = json!({"event_id": "e5", "type": "BUSY", "appointment_id": "appt_1", "call": {"to": NUMBERS[0]}});
    secrets.post(world, Provider::Generic, KEY, "", claim.to_string().as_bytes()).await;
    for number in 0..66 {
        secrets.post(world, Provider::Generic, KEY, "", &generic(&format!("full{number}"), "ANSWERED")).await;
    }
    world.wait(MINUTE).await;
    // Each service is down once. Then the queue and the table hold content that Switchhook did not write.
    world.set_fault_hook(database_down);
    secrets.post(world, Provider::Generic, KEY, "", &generic("e6", "RINGING")).await;
    world.get("/call?id=c1").await;
    world.wait(MINUTE * 2).await;
    world.set_fault_hook(|call| (call.service == Service::Sqs).then(down));
    secrets.post(world, Provider::Generic, KEY, "", &generic("e7", "RINGING")).await;
    world.clear_faults();
    world.set_fault_hook(|call| (call.service == Service::EventBridge).then(down));
    secrets.post(world, Provider::Generic, KEY, "", &generic_of("c2", "e8")).await;
    world.wait(MINUTE).await;
    world.set_fault_hook(|call| (call.operation == "GetItem" || call.operation.starts_with("Change")).then(down));
    secrets.post(world, Provider::Generic, KEY, "", &generic_of("c3", "e9")).await;
    world.wait(MINUTE).await;
    world.clear_faults();
    let poison = json!({"schema_version": 1, "trace_id": "t", "event": format!("{} {SPOKEN}", NUMBERS[0])}).to_string();
    secrets.add(poison.clone());
    let poison = NewMessage {
        body: poison,
        group: Some("g".to_owned()),
        deduplication_id: Some("d".to_owned()),
        ..NewMessage::default()
    };
    world.cloud.services().sqs().send(EVENTS_QUEUE, poison).unwrap();
    for (call_id, attribute, value) in [
        ("c2", "version", AttributeValue::S(NUMBERS[0].to_owned())),
        ("c3", "history", AttributeValue::L(vec![AttributeValue::S(format!("0 {} {SPOKEN}", NUMBERS[1]))])),
        ("appointment:appt_1", "direction", AttributeValue::S(NUMBERS[0].to_owned())),
    ] {
        let mut row = world.item(CALLS_TABLE, call_id).await;
        row.insert(attribute.to_owned(), value);
        world.put_item(CALLS_TABLE, row).await;
        secrets.post(world, Provider::Generic, KEY, "", &generic_of(call_id, &format!("{call_id}-again"))).await;
        world.get(&format!("/call?id={call_id}")).await;
    }
    world.get("/call/events?id=c1").await;
    world.get("/call?id=none").await;
    world.get("/event/status?id=generic:e1").await;
    world.wait(INACTIVITY_TIMEOUT + MINUTE * 5).await;
    world
        .wait_until(MINUTE * 300, async || {
            world.logged("given_up").len() >= 2 && !world.logged("dead_lettered").is_empty()
        })
        .await;
    secrets
}

/// The body of a generic webhook that reports ringing for this call.
fn generic_of(call_id: &str, event_id: &str) -> Vec<u8> {
    let event = json!({"event_id": event_id, "type": "RINGING", "call_id": call_id, "call": {"to": NUMBERS[1]}});
    event.to_string().into_bytes()
}

#[tokio::test(start_paused = true)]
async fn every_line_says_what_was_decided_and_none_says_what_was_sent() {
    let logs = [log_of_webhooks().await, log_of_placed_calls().await].concat();
    let emitted: BTreeSet<(&str, &str)> = logs.lines().flat_map(|line| metrics_of(&parse(line))).collect();
    let missing: BTreeSet<(&str, &str)> =
        METRICS.iter().map(|metric| (metric.function, metric.name)).filter(|name| !emitted.contains(name)).collect();
    let unexpected: Vec<_> = missing.iter().filter(|name| !EMITTED_ELSEWHERE.contains(name)).collect();
    assert!(unexpected.is_empty(), "these runs do not emit {unexpected:?}");
    for (function, name) in missing {
        let is_named = sources_of(function).iter().any(|source| source.contains(&format!("\"{name}\"")));
        assert!(is_named, "{function} cannot emit {name}: its source does not name it");
    }
}

/// Runs every kind of webhook and fault, and checks the log.
async fn log_of_webhooks() -> String {
    let mut world = World::new();
    let secrets = run(&mut world).await;
    let expected = [
        "api not_found",
        "api shown",
        "api storage_failure",
        "consumer applied",
        "consumer backoff_failed change_visibility",
        "consumer batch_folded",
        "consumer dead_lettered decode_message",
        "consumer quarantined",
        "consumer retried decode_call",
        "consumer retried decode_message",
        "consumer retried read_call",
        "consumer stale",
        "ingress accepted",
        "ingress duplicate",
        "ingress duplicate conflicting_body",
        "ingress quarantined",
        "ingress recorded",
        "ingress rejected bad_signature",
        "ingress rejected too_large",
        "ingress rejected unknown_provider",
        "ingress storage_failure send",
        "ingress storage_failure write_inbox",
        "reconciler given_up decode_call",
        "reconciler reconcile_failed decode_call",
        "reconciler reconcile_failed read_inbox",
        "reconciler reconciled",
        "reconciler shard_worked",
        "relay relay_failed publish",
        "relay relayed",
    ];
    let log = world.log_text();
    check_log(&log, &expected, &secrets);
    log
}

/// Runs placed calls with every kind of ending, and checks the log.
async fn log_of_placed_calls() -> String {
    let mut world = World::new();
    let mut secrets = Secrets::default();
    // Any notation of a phone number contains these digits.
    for secret in ["5550107001", "5550107002", "an API key of the tests", "Lovelace"] {
        secrets.add(secret);
    }
    let request = |behaviour: &str| {
        let metadata = json!({"fake": behaviour, "name": "Ada Lovelace"});
        json!({"provider": "retell", "from": NUMBERS[0], "to": NUMBERS[1], "metadata": metadata})
    };
    let mut later = request("confirms");
    later["due_at"] = json!("2026-01-02T00:00:00Z");
    let triggered = create(&world, &later).await;
    later["allow_duplicate"] = json!(true);
    let canceled = create(&world, &later).await;
    // Before other calls make the provider busy.
    for path in [format!("/call/trigger?id={triggered}"), format!("/call/cancel?id={canceled}")] {
        send(&world, "POST", &path, None, &Value::Null).await;
    }
    for behaviour in ["confirms", "busy,invalid", "response_lost", "forgotten", "rate_limited", "silent"] {
        create(&world, &request(behaviour)).await;
    }
    // A client sends a phone number in place of a call id.
    for (method, path) in [
        ("POST", "/call/trigger?id=%2B15550107002"),
        ("POST", "/call/cancel?id=%2B15550107002"),
        ("GET", "/call?id=%2B15550107002"),
    ] {
        send(&world, method, path, None, &Value::Null).await;
    }
    send(&world, "POST", "/calls", None, &json!({"provider": "retell", "from": "Lovelace", "to": NUMBERS[1]})).await;
    world.wait(MINUTE * 60).await;
    world.cloud.fake().set_down(true);
    create(&world, &request("confirms")).await;
    world.wait(MINUTE * 5).await;
    world.cloud.fake().set_down(false);
    create(&world, &request("confirms")).await;
    world.set_fault_hook(|call| (call.operation == "PutItem" && is_request_to(call, CALLS_TABLE)).then(down));
    world.wait(MINUTE * 5).await;
    world.clear_faults();
    send(&world, "PUT", "/do-not-call?number=%2B15550107002", None, &Value::Null).await;
    create(&world, &request("confirms")).await;
    world.wait(MINUTE * 60).await;
    for _ in 0..25 {
        // The schedules run in the last two minutes of each hour, because little is due.
        world.skip(MINUTE * 58).await;
        world.wait(MINUTE * 2).await;
    }

    let expected = [
        "api canceled",
        "api created",
        "api number_blocked",
        "consumer retried write_call",
        "dialer dial_in_doubt no_response",
        "dialer dial_in_doubt unclear_answer",
        "dialer dial_rejected invalid_number",
        "dialer dial_stopped do_not_call",
        "dialer dialled",
        "reconciler drift_run",
        "reconciler provider_asked",
        "reconciler reconciled",
        "scheduler not_found",
        "scheduler scheduled",
        "scheduler triggered",
    ];
    let log = world.log_text();
    check_log(&log, &expected, &secrets);
    for line in log.lines().map(parse).filter(|line| line["function"] == "reconciler") {
        let is_about_requests = line["action_taken"] == "provider_asked";
        assert_eq!(line["provider_requests"].is_number(), is_about_requests, "{line}");
        if is_about_requests {
            let by_provider = json!(["stack", "function", "provider"]);
            let dimensions = &line["_aws"]["CloudWatchMetrics"][1]["Dimensions"];
            assert_eq!((&line["provider"], &dimensions[0]), (&json!("retell"), &by_provider));
            assert!(line["provider_request_ms"].is_number(), "{line}");
        }
    }
    log
}

/// Series of metrics that CloudWatch charges for if it gets these lines.
fn series_of(log: &str) -> BTreeSet<String> {
    let mut series = BTreeSet::new();
    for line in log.lines().map(parse) {
        for directive in line["_aws"]["CloudWatchMetrics"].as_array().into_iter().flatten() {
            for set in directive["Dimensions"].as_array().into_iter().flatten() {
                let values = set.as_array().into_iter().flatten().map(|name| text(&line[text(name)]));
                let values: Vec<String> = values.collect();
                let names = directive["Metrics"].as_array().into_iter().flatten();
                series.extend(names.map(|metric| format!("{} {}", text(&metric["Name"]), values.join(" "))));
            }
        }
    }
    series
}

#[tokio::test(start_paused = true)]
async fn an_idle_stack_has_no_series_of_metrics_and_a_busy_one_as_many_as_documented() {
    let world = World::new();
    world.wait(MINUTE * 130).await;
    let log = world.log_text();
    let idle = series_of(&log);
    let log_bytes = log.len() as f64 + log.lines().count() as f64 * LOG_LINE_BYTES;
    let log_dollars = log_bytes / 130.0 * RUNS / 1e9 * price::LOG_GB;
    for number in 0..3 {
        for webhook in retell_call(number, 3, 1).into_iter().chain(twilio_call(number, true)) {
            let (code, _) = world.post_signed(webhook.provider, KEY, &webhook.query, webhook.body.as_bytes()).await;
            assert_eq!(code, StatusCode::OK);
            world.quiesce().await;
        }
    }
    for behaviour in ["confirms", "busy,confirms", "voicemail", "silent"] {
        let metadata = json!({"fake": behaviour});
        let request = json!({"provider": "retell", "from": NUMBERS[0], "to": NUMBERS[1], "metadata": metadata});
        create(&world, &request).await;
    }
    world.wait(MINUTE * 180).await;
    let busy = series_of(&world.log_text());
    println!("idle {}: {idle:#?}\nbusy {}: {busy:#?}", idle.len(), busy.len());
    assert_eq!(idle, BTreeSet::new());
    let row = |what: &str, series: usize| format!("| {what} | {series} | {:.2} |", series as f64 * SERIES_DOLLARS);
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/cost.md")).unwrap();
    let log_row = format!("| their log lines | {log_dollars:.2} |");
    for row in
        [log_row, row("idle", idle.len()), row("two providers that report calls, one of which places some", busy.len())]
    {
        assert!(page.contains(&row), "docs/cost.md must have the row {row}");
    }
}

/// A batch has one line with its metrics. They must be those of the lines of its events.
#[tokio::test(start_paused = true)]
async fn line_of_a_batch_counts_each_of_its_events_once() {
    let world = World::stopped();
    let mut secrets = Secrets::default();
    for call in 0..4 {
        for event in ["RINGING", "ANSWERED"] {
            let id = format!("c{call}");
            secrets.post(&world, Provider::Generic, KEY, "", &generic_of(&id, &format!("{id}-{event}"))).await;
        }
    }
    let batch = world.receive();
    assert_eq!(batch.len(), 8);
    world.inject_fault("PutItem", CALLS_TABLE, 1, down());
    let done = world.consume(&batch).await;
    assert!((1..8).contains(&done), "{done}");
    let lines: Vec<Value> = world.log_text().lines().map(parse).filter(|line| line["function"] == "consumer").collect();
    let [counts] = lines.iter().filter(|line| line["action_taken"] == "batch_folded").collect::<Vec<_>>()[..] else {
        panic!("{lines:?}");
    };
    let events: Vec<&Value> = lines.iter().filter(|line| line["action_taken"] != "retried").collect();
    let events: Vec<&Value> = events.into_iter().filter(|line| line["event_id"].is_string()).collect();
    assert_eq!((events.len(), &counts["received"]), (done, &json!(done)));
    for name in ["applied", "stale", "parked", "duplicate"] {
        let expected = events.iter().filter(|line| line["action_taken"] == name).count();
        assert_eq!(counts[name].as_u64().unwrap_or_default(), expected as u64, "{name}: {lines:?}");
    }
    let waits = counts["received_to_applied_ms"].as_array().map_or(1, Vec::len);
    assert_eq!(counts["applied"], json!(waits));
    assert!(events.iter().all(|line| line["_aws"].is_null()), "an event's own line has no metrics");
}

#[test]
fn table_of_metrics_is_documented() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/operate.md")).unwrap();
    let rows = page
        .lines()
        .skip_while(|line| *line != "| function | metric | meaning |")
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let documented: Vec<String> = rows.map(|row| row.split(" | ").take(2).collect::<Vec<_>>().join(" | ")).collect();
    let expected: Vec<String> =
        METRICS.iter().map(|Metric { name, function, .. }| format!("| {function} | `{name}`")).collect();
    assert_eq!(documented, expected);
}

/// Source of a function, and of the dispositions, which name metrics of the consumer.
fn sources_of(function: &str) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folder = root.join("functions").join(function).join("src");
    let files = std::fs::read_dir(folder).into_iter().flatten().map(|file| file.unwrap().path());
    let files = files.filter(|path| path.is_file());
    let shared = ["shared/domain/src/call.rs", "shared/aws/src/secret.rs"].map(|file| root.join(file));
    files.chain(shared).map(|file| std::fs::read_to_string(file).unwrap()).collect()
}

fn parse(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// Metrics of a line: function and name.
fn metrics_of(line: &Value) -> Vec<(&'static str, &'static str)> {
    let directives = line["_aws"]["CloudWatchMetrics"].as_array();
    let names = directives.into_iter().flatten().flat_map(|directive| directive["Metrics"].as_array()).flatten();
    names.filter_map(|found| metric(line, &text(&found["Name"]))).map(|known| (known.function, known.name)).collect()
}

/// Checks that every line has a decision and its metrics, that all expected decisions were made, and that no line holds
/// a secret.
fn check_log(log: &str, expected: &[&str], secrets: &Secrets) {
    let mut decisions = BTreeSet::new();
    for line in log.lines() {
        let line = parse(line);
        let (function, action) = (text(&line["function"]), text(&line["action_taken"]));
        assert!(!function.is_empty() && !action.is_empty(), "{line}");
        check_metrics(&line);
        decisions.insert(format!("{function} {action} {}", text(&line["cause"])).trim_end().to_owned());
    }
    let missing: Vec<&&str> = expected.iter().filter(|decision| !decisions.contains(**decision)).collect();
    assert!(missing.is_empty(), "the log has no line with {missing:?}; it has {decisions:?}");
    for secret in &secrets.0 {
        assert!(!log.contains(secret.as_str()), "the log holds {secret:?}");
        // The log must not hold the secret in its JSON form either.
        let escaped = json!(secret).to_string();
        assert!(!log.contains(escaped.trim_matches('"')), "the log holds {escaped}");
    }
}

/// Checks a line against CloudWatch's embedded metric format, and its metrics against the table of all metrics.
/// The format: <https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html>.
fn check_metrics(line: &Value) {
    let directives = line["_aws"]["CloudWatchMetrics"].as_array();
    for (name, _) in line.as_object().unwrap().iter().filter(|(_, value)| value.is_number()) {
        let is_known = metric(line, name).is_some() || NUMBERS_WITHOUT_METRIC.contains(&name.as_str());
        assert!(is_known, "neither METRICS nor NUMBERS_WITHOUT_METRIC names {name} of {line}");
    }
    let Some(directives) = directives else {
        let is_of_batch = line["function"] == "consumer" && line["event_id"].is_string();
        assert!(is_of_batch || metric(line, &text(&line["action_taken"])).is_none(), "no metric in {line}");
        return;
    };
    assert!(line["_aws"]["Timestamp"].is_u64(), "{line}");
    let mut series = BTreeSet::new();
    for directive in directives {
        assert_eq!(directive["Namespace"], "Switchhook", "{line}");
        let dimensions = directive["Dimensions"].as_array().unwrap();
        assert!(!dimensions.is_empty(), "{line}");
        for set in dimensions {
            for metric in directive["Metrics"].as_array().unwrap() {
                assert!(series.insert(format!("{} {set}", metric["Name"])), "{metric} is counted twice: {line}");
            }
            let set = set.as_array().unwrap();
            assert!(
                DIMENSION_SETS.contains(&set.iter().map(|name| name.as_str().unwrap()).collect::<Vec<_>>().as_slice()),
                "{line}"
            );
            for name in set {
                let value = line[text(name)].as_str().unwrap_or_default();
                assert!(!value.is_empty() && value.len() <= 1_024 && value.is_ascii(), "dimension {name} in {line}");
            }
        }
        let metrics = directive["Metrics"].as_array().unwrap();
        assert!((1..=100).contains(&metrics.len()), "{line}");
        let names: BTreeSet<String> = metrics.iter().map(|metric| text(&metric["Name"])).collect();
        assert_eq!(names.len(), metrics.len(), "a metric is named twice: {line}");
        for found in metrics {
            let name = text(&found["Name"]);
            let known = metric(line, &name).unwrap_or_else(|| panic!("METRICS does not name {name} of {line}"));
            let is_list =
                |values: &Vec<Value>| known.is_duration() && values.len() <= 10 && values.iter().all(Value::is_u64);
            assert!(line[&name].is_u64() || line[&name].as_array().is_some_and(is_list), "{name} in {line}");
            assert_eq!(found.as_object().unwrap().len(), 1, "a metric has a name only: {line}");
        }
    }
}

/// Returns a metric of the function that wrote the line.
fn metric(line: &Value, name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.name == name && line["function"] == metric.function)
}
