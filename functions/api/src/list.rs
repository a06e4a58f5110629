//! `GET /calls`: by the index by which calls wake, never by scanning.
//!
//! Calls stand on queues of some shards each, and the pages of one shard follow those of another. The index holds keys
//! alone, so the rows are read and what does not fit is left out. **A request reads a bounded number of rows, so a page
//! may hold fewer calls than were asked for, or none, and still have a successor.** A page of the index never holds
//! more than still fits into the answer: what follows it is exactly where the next request starts.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use switchhook_aws::Error;
use switchhook_aws::calls::{Calls, Found, Item, KEY_BYTES_MAX, TimeRange, WAKE_SHARDS, WakeQueue};
use switchhook_aws::problem::FieldError;
use switchhook_domain::{Call, CallId, INCONCLUSIVE, Job, Lifecycle, Provider, State, Timestamp};

pub(crate) const LIMIT_DEFAULT: usize = 20;
pub(crate) const LIMIT_MAX: usize = 100;
/// Rows read for one answer: a page of 100 calls out of twice as many.
const ROWS_MAX: usize = 200;
/// Pages of the index asked for one answer, one after the other: all shards of all queues, and as many again.
const PAGES_MAX: usize = 2 * WakeQueue::ALL.len() * WAKE_SHARDS as usize;
/// Rows read at once.
pub(crate) const READS_AT_ONCE: usize = 16;
/// Of the number in `stuck_for`: as many days are longer than any call is kept.
const STUCK_DIGITS_MAX: usize = 4;
const CURSOR_BYTES_MAX: usize = 4 * 1024;
const PARAMETERS: [&str; 5] = ["job", "lifecycle", "stuck_for", "limit", "cursor"];

/// Which calls are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListQuery {
    job: Option<JobName>,
    lifecycle: Option<&'static str>,
    stuck_for: Option<Duration>,
    limit: usize,
    start: Option<Position>,
}

/// The state of a job without what belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JobName {
    Pending,
    Claimed,
    InProgress,
    Completed,
    Failed,
    Canceled,
}

/// Where a list goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Position {
    queue: WakeQueue,
    shard: u64,
    /// What was looked at last; none: nothing of this shard yet.
    after: Option<After>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct After {
    call_id: String,
    wake_at: i64,
}

/// A position as it travels.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cursor {
    queue: String,
    shard: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    call_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wake_at: Option<i64>,
}

/// Key of an item of the index.
#[derive(Debug, Serialize, Deserialize)]
struct IndexKey {
    call_id: String,
    wake_key: String,
    wake_at: i64,
}

/// One page of calls.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) calls: Vec<Call>,
    /// Calls whose rows cannot be read: whether they are among what was asked for nobody knows.
    pub(crate) unreadable: Vec<CallId>,
    pub(crate) cursor: Option<String>,
}

/// What became of reading some rows.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    pub(crate) calls: Vec<Call>,
    pub(crate) unreadable: Vec<(CallId, Error)>,
}

impl ListQuery {
    /// Reads the query of the URL.
    pub(crate) fn parse(query: &str, now: Timestamp) -> Result<Self, Vec<FieldError>> {
        let mut errors = Vec::new();
        let mut values: [Option<String>; PARAMETERS.len()] = Default::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let known = PARAMETERS.iter().zip(&mut values).find(|(known, _)| **known == name);
            match known {
                None => {
                    let name: String = name.chars().take(64).collect();
                    errors.push(FieldError::new(name, format!("is not known; known are {}", PARAMETERS.join(", "))));
                }
                Some((name, Some(_))) => errors.push(FieldError::new(*name, "is given twice")),
                Some((_, slot @ None)) => *slot = Some(value.into_owned()),
            }
        }
        let [job, lifecycle, stuck_for, limit, cursor] = values;
        let mut wrong = |name: &str, message: String| errors.push(FieldError::new(name, message));
        let job = job.and_then(|text| {
            let job = JobName::ALL.into_iter().find(|job| job.as_str() == text);
            if job.is_none() {
                wrong("job", format!("must be one of {}", JobName::ALL.map(JobName::as_str).join(", ")));
            }
            job
        });
        let lifecycle = lifecycle.and_then(|text| {
            let lifecycle = lifecycles().into_iter().find(|known| *known == text);
            if lifecycle.is_none() {
                wrong("lifecycle", format!("must be one of {}", lifecycles().join(", ")));
            }
            lifecycle
        });
        let stuck_for = stuck_for.and_then(|text| {
            let duration = duration(&text);
            if duration.is_none() {
                wrong("stuck_for", "must be a time such as 90s, 10m, 2h or 3d, with at most 4 digits".to_owned());
            }
            duration
        });
        let limit = limit.map_or(LIMIT_DEFAULT, |text| {
            let limit = whole(&text).and_then(|limit| usize::try_from(limit).ok());
            limit.filter(|limit| (1..=LIMIT_MAX).contains(limit)).unwrap_or_else(|| {
                wrong("limit", format!("must be a whole number from 1 to {LIMIT_MAX}"));
                LIMIT_DEFAULT
            })
        });
        let mut query = Self { job, lifecycle, stuck_for, limit, start: None };
        if let Some(text) = cursor {
            query.start = Position::parse(&text).filter(|at| query.holds(at, now));
            if query.start.is_none() {
                wrong("cursor", "must be the cursor of an answer to the same question".to_owned());
            }
        }
        if errors.is_empty() { Ok(query) } else { Err(errors) }
    }

    /// The calls asked for, from where the query starts.
    pub(crate) async fn run(&self, calls: &Calls, now: Timestamp) -> Result<Page, Error> {
        let mut page = Page { calls: Vec::new(), unreadable: Vec::new(), cursor: None };
        let mut next = self.start.clone().or_else(|| self.first());
        let (mut rows, mut pages) = (0, 0);
        while let Some(at) = next.take() {
            let room = self.limit.saturating_sub(page.calls.len()).min(ROWS_MAX.saturating_sub(rows));
            if room == 0 || pages == PAGES_MAX {
                page.cursor = Some(at.to_text()?);
                break;
            }
            let limit = i32::try_from(room).ok();
            let key = at.key()?;
            let (ids, last) = calls.wake_queue_page(at.queue, at.shard, self.range(at.queue, now), limit, key).await?;
            rows += ids.len();
            pages += 1;
            // A call that changes queues while it is listed may be seen on both.
            let new = ids.into_iter().filter(|id| page.calls.iter().all(|call| call.call_id != *id)).collect();
            let loaded = load(calls, new).await?;
            page.calls.extend(loaded.calls.into_iter().filter(|call| self.is_met_by(call, now)));
            page.unreadable.extend(loaded.unreadable.into_iter().map(|(id, _)| id));
            next = match last {
                Some(key) => Some(Position { after: Some(After::of(key)?), ..at }),
                None => self.following(&at),
            };
        }
        Ok(page)
    }

    /// Where calls of the kind asked for stand.
    fn queues(&self) -> Vec<WakeQueue> {
        let queues = match self.job {
            Some(JobName::Pending) => Provider::ALL.map(WakeQueue::Dial).to_vec(),
            Some(JobName::Claimed | JobName::InProgress) => vec![WakeQueue::Reconcile],
            // A call that is over waits until its attempts have ended and their outcomes are known.
            Some(JobName::Completed | JobName::Failed | JobName::Canceled) => {
                vec![WakeQueue::Settled, WakeQueue::Reconcile]
            }
            None => WakeQueue::ALL.to_vec(),
        };
        // What is settled is not stuck.
        queues.into_iter().filter(|queue| self.stuck_for.is_none() || *queue != WakeQueue::Settled).collect()
    }

    /// True if the list comes by there: DynamoDB refuses to start elsewhere.
    fn holds(&self, at: &Position, now: Timestamp) -> bool {
        let wake_at = at.after.as_ref().map(|after| Timestamp::from_millis(after.wake_at));
        let within = wake_at.is_none_or(|wake_at| match self.range(at.queue, now) {
            TimeRange::UpTo(end) => wake_at <= end,
            TimeRange::Since(start) => wake_at >= start,
        });
        within && self.queues().contains(&at.queue)
    }

    fn first(&self) -> Option<Position> {
        self.queues().first().map(|queue| Position { queue: *queue, shard: 0, after: None })
    }

    fn following(&self, at: &Position) -> Option<Position> {
        if at.shard + 1 < WAKE_SHARDS {
            return Some(Position { queue: at.queue, shard: at.shard + 1, after: None });
        }
        let mut left = self.queues().into_iter().skip_while(|queue| *queue != at.queue).skip(1);
        left.next().map(|queue| Position { queue, shard: 0, after: None })
    }

    /// What waits comes with the longest waiting first, what is settled with the latest first.
    fn range(&self, queue: WakeQueue, now: Timestamp) -> TimeRange {
        match (queue, self.stuck_for) {
            // Nothing that is due later than that is stuck.
            (WakeQueue::Dial(_), Some(stuck_for)) => TimeRange::UpTo(now.minus(stuck_for)),
            (WakeQueue::Dial(_), None) | (WakeQueue::Reconcile, _) => TimeRange::UpTo(Timestamp::MAX),
            (WakeQueue::Settled, _) => TimeRange::Since(Timestamp::MIN),
        }
    }

    fn is_met_by(&self, call: &Call, now: Timestamp) -> bool {
        self.job.is_none_or(|job| job == JobName::of(&call.job))
            && self.lifecycle.is_none_or(|lifecycle| {
                call.attempts().last().is_some_and(|attempt| attempt.lifecycle_label() == lifecycle)
            })
            && self.stuck_for.is_none_or(|stuck_for| is_stuck(call, now.minus(stuck_for)))
    }
}

/// Reads the rows of some calls, in their order. One that is gone is left out, one that cannot be understood is told
/// apart.
pub(crate) async fn load(calls: &Calls, ids: Vec<CallId>) -> Result<Loaded, Error> {
    let reads = ids.into_iter().map(|id| async move {
        let read = calls.get_eventual(&id).await;
        (id, read)
    });
    let reads: Vec<_> = futures_util::stream::iter(reads).buffered(READS_AT_ONCE).collect().await;
    let mut loaded = Loaded::default();
    for (id, read) in reads {
        match read {
            Ok(Found::Call(call)) => loaded.calls.push(*call),
            Ok(Found::Alias(_) | Found::Nothing) => {}
            Err(error @ (Error::DecodeCall(_) | Error::NewerSchema(_))) => loaded.unreadable.push((id, error)),
            Err(error) => return Err(error),
        }
    }
    Ok(loaded)
}

/// True if the call is not settled, nothing has changed since then, and it does not merely wait for its time.
fn is_stuck(call: &Call, since: Timestamp) -> bool {
    let waits = match &call.job {
        Job::Pending { due_at } => *due_at > since,
        Job::Claimed { .. } | Job::InProgress | Job::Completed | Job::Failed | Job::Canceled => false,
    };
    call.updated_at <= since && !waits && !call.is_settled()
}

/// The names that lists know, which are those that calls are shown with.
fn lifecycles() -> Vec<&'static str> {
    let mut names: Vec<&str> = Vec::new();
    for name in Lifecycle::ALL.iter().map(|lifecycle| lifecycle.label()).chain([INCONCLUSIVE]) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

#[cfg(test)]
pub(crate) fn job_names() -> [&'static str; 6] {
    JobName::ALL.map(JobName::as_str)
}

fn whole(text: &str) -> Option<u64> {
    Some(text).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?.parse().ok()
}

fn duration(text: &str) -> Option<Duration> {
    let number = text.trim_end_matches(|unit: char| unit.is_ascii_lowercase());
    let seconds: u64 = match text.strip_prefix(number)? {
        "s" => 1,
        "m" => 60,
        "h" => 60 * 60,
        "d" => 24 * 60 * 60,
        _ => return None,
    };
    let number = whole(number).filter(|_| number.len() <= STUCK_DIGITS_MAX && !number.starts_with('0'))?;
    Some(Duration::from_secs(number * seconds))
}

impl JobName {
    const ALL: [Self; 6] =
        [Self::Pending, Self::Claimed, Self::InProgress, Self::Completed, Self::Failed, Self::Canceled];

    const fn of(job: &Job) -> Self {
        match job {
            Job::Pending { .. } => Self::Pending,
            Job::Claimed { .. } => Self::Claimed,
            Job::InProgress => Self::InProgress,
            Job::Completed => Self::Completed,
            Job::Failed => Self::Failed,
            Job::Canceled => Self::Canceled,
        }
    }

    /// As [`Job::as_str`].
    const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Claimed => "CLAIMED",
            Self::InProgress => "IN_PROGRESS",
            Self::Completed => "COMPLETED",
            Self::Failed => "FAILED",
            Self::Canceled => "CANCELED",
        }
    }
}

impl Position {
    fn parse(text: &str) -> Option<Self> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(Some(text).filter(|text| text.len() <= CURSOR_BYTES_MAX)?).ok()?;
        let cursor: Cursor = serde_json::from_slice(&bytes).ok()?;
        let queue = WakeQueue::ALL.into_iter().find(|queue| queue.to_string() == cursor.queue)?;
        let after = match (cursor.call_id, cursor.wake_at) {
            (Some(call_id), Some(wake_at)) if (1..=KEY_BYTES_MAX).contains(&call_id.len()) => {
                Some(After { call_id, wake_at })
            }
            (None, None) => None,
            (Some(_), Some(_)) | (Some(_), None) | (None, Some(_)) => return None,
        };
        Some(Self { queue, shard: cursor.shard, after }).filter(|at| at.shard < WAKE_SHARDS)
    }

    fn to_text(&self) -> Result<String, Error> {
        let cursor = Cursor {
            queue: self.queue.to_string(),
            shard: self.shard,
            call_id: self.after.as_ref().map(|after| after.call_id.clone()),
            wake_at: self.after.as_ref().map(|after| after.wake_at),
        };
        let json = serde_json::to_vec(&cursor).map_err(|error| Error::ListCalls(Box::new(error)))?;
        Ok(BASE64_URL_SAFE_NO_PAD.encode(json))
    }

    fn key(&self) -> Result<Option<Item>, Error> {
        let Some(After { call_id, wake_at }) = self.after.clone() else { return Ok(None) };
        let wake_key = format!("{}#{}", self.queue, self.shard);
        let key = serde_dynamo::to_item(IndexKey { call_id, wake_key, wake_at });
        key.map(Some).map_err(|error| Error::ListCalls(Box::new(error)))
    }
}

impl After {
    fn of(key: Item) -> Result<Self, Error> {
        let key: IndexKey = serde_dynamo::from_item(key).map_err(|error| Error::ListCalls(Box::new(error)))?;
        Ok(Self { call_id: key.call_id, wake_at: key.wake_at })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use switchhook_domain::{Policy, RetryPolicy};

    use super::*;
    use crate::request::CallRequest;

    const NOW: Timestamp = Timestamp::from_millis(1_795_168_800_000);

    fn parse(query: &str) -> Result<ListQuery, Vec<String>> {
        let fields = |errors: Vec<FieldError>| errors.into_iter().map(|error| error.field).collect();
        ListQuery::parse(query, NOW).map_err(fields)
    }

    fn position(queue: WakeQueue, shard: u64, after: Option<(&str, i64)>) -> Position {
        let after = after.map(|(call_id, wake_at)| After { call_id: call_id.to_owned(), wake_at });
        Position { queue, shard, after }
    }

    #[test]
    fn query_is_read_whole() {
        let plain = ListQuery { job: None, lifecycle: None, stuck_for: None, limit: 20, start: None };
        assert_eq!(parse(""), Ok(plain.clone()));
        let at = position(WakeQueue::Reconcile, 3, Some(("call-\u{eb}", 5)));
        let query =
            format!("limit=100&job=IN_PROGRESS&stuck_for=10m&lifecycle=in%5Fprogress&cursor={}", at.to_text().unwrap());
        let expected = ListQuery {
            job: Some(JobName::InProgress),
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
            "and what is given twice as well"
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
            Job::Claimed { token: "t".to_owned(), lease_ends_at },
            Job::InProgress,
            Job::Completed,
            Job::Failed,
            Job::Canceled,
        ];
        assert_eq!(jobs.clone().map(|job| JobName::of(&job)), JobName::ALL);
        assert_eq!(jobs.map(|job| job.as_str()), JobName::ALL.map(JobName::as_str));
    }

    #[test]
    fn every_state_that_a_call_is_shown_in_can_be_asked_for_once() {
        let mut names = lifecycles();
        names.sort_unstable();
        let expected = [
            "busy",
            "canceled",
            "completed",
            "failed",
            "in_progress",
            "inconclusive",
            "initiated",
            "no_answer",
            "ringing",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn call_that_waits_for_its_time_is_not_stuck() {
        let body =
            br#"{"provider":"retell","from":"+14155550100","to":"+14155550123","due_at":"2026-11-20T10:20:00Z"}"#;
        let retry = RetryPolicy { attempts_max: 1, delay_seconds: 1, delay_max_seconds: 1, voicemail: false };
        let policy = Policy { inactivity_timeout: Duration::from_secs(60) };
        let request = CallRequest::read(body, Vec::new(), NOW).unwrap();
        let new = request.into_call(CallId::new("c1"), String::new(), retry, NOW);
        let call = Call::schedule(new, &policy, NOW).call;
        let minutes = |minutes: u64| NOW.plus(Duration::from_secs(60 * minutes));
        assert!(!is_stuck(&call, minutes(19)), "it is not due");
        assert!(is_stuck(&call, minutes(20)));
        let canceled = call.cancel(&policy, minutes(1)).unwrap().call;
        assert!(!is_stuck(&canceled, minutes(20)), "nothing is expected of it");
        let changed = Call { updated_at: minutes(21), ..call };
        assert!(!is_stuck(&changed, minutes(20)));
    }

    #[test]
    fn list_goes_through_every_shard_of_every_shelf() {
        let query = parse("").unwrap();
        let mut seen = Vec::new();
        let mut next = query.first();
        while let Some(at) = next {
            next = query.following(&at);
            seen.push((at.queue, at.shard));
        }
        let shards = |queue| (0..WAKE_SHARDS).map(move |shard| (queue, shard));
        assert_eq!(seen, WakeQueue::ALL.into_iter().flat_map(shards).collect::<Vec<_>>());
        assert!(PAGES_MAX >= seen.len(), "one request sees a small stack whole");
    }

    #[test]
    fn only_shelves_with_such_calls_are_looked_at() {
        let queues = |query: &str| parse(query).unwrap().queues();
        let dial = Provider::ALL.map(WakeQueue::Dial);
        assert_eq!(queues("job=PENDING"), dial);
        assert_eq!(queues("job=CLAIMED"), [WakeQueue::Reconcile]);
        assert_eq!(queues("job=CANCELED"), [WakeQueue::Settled, WakeQueue::Reconcile]);
        assert_eq!(queues("job=FAILED&stuck_for=1h"), [WakeQueue::Reconcile]);
        assert_eq!(queues("stuck_for=1h"), [dial.as_slice(), &[WakeQueue::Reconcile]].concat());
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
            text(json!({"queue": "dial.retell", "shard": WAKE_SHARDS})),
            text(json!({"queue": "dial.retell", "shard": -1})),
            text(json!({"queue": "dial.retell", "shard": 0, "call_id": "c1"})),
            text(json!({"queue": "dial.retell", "shard": 0, "wake_at": 1})),
            text(json!({"queue": "dial.retell", "shard": 0, "call_id": "", "wake_at": 1})),
            text(json!({"queue": "dial.retell", "shard": 0, "call_id": "a".repeat(KEY_BYTES_MAX + 1), "wake_at": 1})),
            text(json!({"queue": "dial.retell", "shard": 0, "wake_key": "reconcile#0"})),
        ];
        for cursor in refused {
            let cursor: String = form_urlencoded::byte_serialize(cursor.as_bytes()).collect();
            assert_eq!(parse(&format!("cursor={cursor}")).unwrap_err(), ["cursor"], "{cursor}");
        }
    }

    #[test]
    fn cursor_of_another_question_is_refused() {
        let cursor = |queue, wake_at| position(queue, 0, Some(("c1", wake_at))).to_text().unwrap();
        let settled = cursor(WakeQueue::Settled, 1);
        assert!(parse(&format!("job=FAILED&cursor={settled}")).is_ok());
        assert_eq!(parse(&format!("job=PENDING&cursor={settled}")).unwrap_err(), ["cursor"]);
        let late = cursor(WakeQueue::Dial(Provider::Retell), NOW.as_millis());
        assert!(parse(&format!("job=PENDING&cursor={late}")).is_ok());
        assert_eq!(parse(&format!("job=PENDING&stuck_for=1m&cursor={late}")).unwrap_err(), ["cursor"]);
    }

    #[test]
    fn key_of_the_index_comes_back_from_its_cursor() {
        let at = position(WakeQueue::Settled, 2, Some(("retell:c1", -7)));
        let key = at.key().unwrap().unwrap();
        assert_eq!(After::of(key).unwrap(), at.after.clone().unwrap());
        assert_eq!(Position::parse(&at.to_text().unwrap()), Some(at));
        assert_eq!(position(WakeQueue::Dial(Provider::Twilio), 0, None).key().unwrap(), None);
    }
}
