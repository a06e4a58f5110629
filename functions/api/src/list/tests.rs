use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::json;
use switchhook_aws::calls::{CURSOR_BYTES_MAX, WakeEntry};
use switchhook_aws::dynamodb::KEY_BYTES_MAX;
use switchhook_aws::shards::SHARDS_MAX;
use switchhook_domain::{CallDefaults, Policy, Provider, ProviderSet, RetryPolicy};

use super::*;
use crate::body;

const NOW: Timestamp = Timestamp::from_millis(1_795_168_800_000);

fn parse(query: &str) -> Result<ListQuery, Vec<String>> {
    let fields = |errors: Vec<FieldError>| errors.into_iter().map(|error| error.field).collect();
    ListQuery::parse(query, NOW).map_err(fields)
}

fn position(queue: WakeQueue, shard: u64, call_id: &str, wake_at: i64) -> Position {
    let entry = WakeEntry { call_id: CallId::new(call_id), wake_at: Timestamp::from_millis(wake_at) };
    Position { queue, shard, entry }
}

#[test]
fn query_is_read_whole() {
    let plain = ListQuery { job: None, lifecycle: None, stuck_for: None, limit: 20, start: None };
    assert_eq!(parse(""), Ok(plain.clone()));
    let at = position(WakeQueue::Endings, 3, "call-\u{eb}", 5);
    let query =
        format!("limit=100&job=IN_PROGRESS&stuck_for=10m&lifecycle=in%5Fprogress&cursor={}", at.to_cursor().unwrap());
    let expected = ListQuery {
        job: Some(JobState::InProgress),
        lifecycle: Some("in_progress"),
        stuck_for: Some(Duration::from_secs(600)),
        limit: 100,
        start: Some(at),
    };
    assert_eq!(parse(&query), Ok(expected));
}

#[test]
fn everything_wrong_with_a_query_is_told_at_once() {
    let query = "job=pending&lifecycle=hung&stuck_for=soon&limit=0&cursor=x&page=2&limit=5";
    assert_eq!(
        parse(query).unwrap_err(),
        ["page", "limit", "job", "lifecycle", "stuck_for", "limit", "cursor"],
        "a parameter that is given twice is an error too"
    );
    for limit in ["101", "-1", "+5", "1.5", "", "99999999999999999999999", "a"] {
        assert_eq!(parse(&format!("limit={}", limit.replace('+', "%2B"))).unwrap_err(), ["limit"], "{limit}");
    }
}

#[test]
fn times_are_a_number_and_a_unit() {
    let seconds = |text| duration(text).map(|duration| duration.as_secs());
    assert_eq!(["90s", "10m", "2h", "9999d"].map(seconds), [Some(90), Some(600), Some(7_200), Some(863_913_600)]);
    for text in [
        "",
        "0s",
        "10",
        "m",
        "10 m",
        "-1m",
        "+1m",
        "1h30m",
        "1w",
        "10000s",
        "010m",
        "1M",
        "99999999999999999999s",
        "9999999999999999999d",
    ] {
        assert_eq!(duration(text), None, "{text}");
    }
}

#[test]
fn every_state_of_a_job_can_be_asked_for() {
    let (due_at, lease_ends_at) = (NOW, NOW);
    let jobs = [
        Job::Pending { due_at },
        Job::Claimed { token: "t".to_owned(), provider: Provider::Retell, lease_ends_at },
        Job::InProgress,
        Job::Completed,
        Job::Failed,
        Job::Missed,
        Job::Canceled,
    ];
    assert_eq!(jobs.clone().map(|job| job.state()), JobState::ALL);
    assert_eq!(jobs.map(|job| job.as_str()), JobState::ALL.map(JobState::as_str));
}

#[test]
fn every_state_that_a_call_is_shown_in_can_be_asked_for_once() {
    let mut names = lifecycle_labels();
    names.sort_unstable();
    let expected =
        ["busy", "canceled", "completed", "failed", "in_progress", "inconclusive", "initiated", "no_answer", "ringing"];
    assert_eq!(names, expected);
}

#[test]
fn call_that_waits_for_its_time_is_not_stuck() {
    let body = br#"{"provider":"retell","from":"+14155550100","to":"+14155550123","due_at":"2026-11-20T10:20:00Z"}"#;
    let retry =
        RetryPolicy { attempts_max: 1, delay_seconds: 1, delay_max_seconds: 1, voicemail: false, unheard: false };
    let defaults = CallDefaults { retry, window: None };
    let policy = Policy { inactivity_timeout: Duration::from_secs(60), outcome_providers: ProviderSet::ALL };
    let request = body::read(body, Vec::new(), NOW).unwrap();
    let new = request.into_call(CallId::new("c1"), String::new(), &defaults, NOW);
    let call = Call::schedule(new, &policy, NOW).call;
    let minutes = |minutes: u64| NOW.plus(Duration::from_secs(60 * minutes));
    assert!(!is_stuck(&call, minutes(19)), "the call is not due yet");
    assert!(is_stuck(&call, minutes(20)));
    let canceled = call.cancel(&policy, minutes(1)).unwrap().call;
    assert!(!is_stuck(&canceled, minutes(20)), "a canceled call is finished");
    let changed = Call { updated_at: minutes(21), ..call };
    assert!(!is_stuck(&changed, minutes(20)));
}

#[test]
fn only_wake_queues_with_such_calls_are_read() {
    let accounts = ["twilio-eu".parse().unwrap()].into();
    let queues = |query: &str| {
        let query = parse(query).unwrap();
        WakeQueue::all(&accounts).into_iter().filter(|queue| query.includes(*queue)).collect::<Vec<_>>()
    };
    let (dial, open) = (WakeQueue::pending(&accounts), WakeQueue::OPEN);
    assert!(dial.contains(&WakeQueue::DialAny("twilio-eu".parse().unwrap())));
    assert_eq!(queues("job=PENDING"), dial);
    assert_eq!(queues("job=CLAIMED"), [WakeQueue::Claims]);
    assert_eq!(queues("job=CANCELED"), [open.as_slice(), &[WakeQueue::Settled]].concat());
    assert_eq!(queues("job=FAILED&stuck_for=1h"), open);
    assert_eq!(queues("stuck_for=1h"), [dial.as_slice(), &open].concat());
}

#[test]
fn cursor_that_is_none_is_refused() {
    let text = |value: serde_json::Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let refused = [
        String::new(),
        "%%%".to_owned(),
        "a".repeat(CURSOR_BYTES_MAX + 4),
        BASE64_URL_SAFE_NO_PAD.encode("{"),
        text(json!([])),
        text(json!({"queue": "dial.retell"})),
        text(json!({"queue": "attic", "shard": 0})),
        text(json!({"queue": "dial.retell", "shard": SHARDS_MAX})),
        text(json!({"queue": "dial.retell", "shard": -1})),
        text(json!({"queue": "dial.retell", "shard": 0, "call_id": "c1"})),
        text(json!({"queue": "dial.retell", "shard": 0, "wake_at": 1})),
        text(json!({"queue": "dial.retell", "shard": 0, "call_id": "", "wake_at": 1})),
        text(json!({"queue": "dial.retell", "shard": 0, "call_id": "a".repeat(KEY_BYTES_MAX + 1), "wake_at": 1})),
        text(json!({"queue": "dial.retell", "shard": 0, "call_id": "c1", "wake_at": 1, "wake_key": "endings#0"})),
    ];
    for cursor in refused {
        let cursor: String = form_urlencoded::byte_serialize(cursor.as_bytes()).collect();
        assert_eq!(parse(&format!("cursor={cursor}")).unwrap_err(), ["cursor"], "{cursor}");
    }
}

#[test]
fn cursor_of_another_question_is_refused() {
    let cursor = |queue, wake_at| position(queue, 0, "c1", wake_at).to_cursor().unwrap();
    let settled = cursor(WakeQueue::Settled, 1);
    assert!(parse(&format!("job=FAILED&cursor={settled}")).is_ok());
    assert_eq!(parse(&format!("job=PENDING&cursor={settled}")).unwrap_err(), ["cursor"]);
    let late = cursor(WakeQueue::Dial(Provider::Retell), NOW.as_millis());
    assert!(parse(&format!("job=PENDING&cursor={late}")).is_ok());
    assert_eq!(parse(&format!("job=PENDING&stuck_for=1m&cursor={late}")).unwrap_err(), ["cursor"]);
}

#[test]
fn position_comes_back_from_its_cursor() {
    let at = position(WakeQueue::Settled, 2, "retell:c1", -7);
    assert_eq!(Position::parse(&at.to_cursor().unwrap()), Some(at));
}
