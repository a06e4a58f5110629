//! The stories and the other actions of the playground, over a local stack with the system's time.

use std::sync::Arc;

use serde_json::json;
use switchhook_aws::random::RandomIds;
use switchhook_aws::shards::Shards;
use switchhook_console::Story;
use switchhook_domain::CallId;
use switchhook_local::clock::Clock;
use switchhook_local::{CloudOptions, DEFAULT_RETRY_POLICY, DIALERS, MAX_RECEIVE_COUNT};
use switchhook_providers::ProvidersFile;

use super::story::ending;
use super::*;

/// A running stack and its playground. The stack stops when the value is dropped.
struct Running {
    playground: Arc<LocalPlayground>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn start() -> Running {
    start_with(None)
}

fn start_with(data: Option<DataDir>) -> Running {
    let keys = json!({
        "retell": {"keys": ["the key of Retell for this test"], "dial": {"api_key": "an API key for this test"}},
        "twilio": {"keys": ["the token of Twilio for this test"], "public_url": "https://switchhook.example"},
        "generic": {"keys": ["the generic key for this test, long enough"]},
    });
    let providers = ProvidersFile::from_json(&keys.to_string()).unwrap();
    let cloud = Cloud::open(CloudOptions {
        providers,
        replaces_secrets: false,
        reads_secrets: true,
        dial_rates: "retell=20".parse().unwrap(),
        inactivity_timeout: Duration::from_secs(15 * 60),
        // The playground runs the schedules.
        tick: Duration::from_secs(3_600),
        data_dir: None,
        clock: Clock::ahead_by_ms(0),
        dialers: DIALERS,
        block_on_request: true,
        default_retry_policy: DEFAULT_RETRY_POLICY,
        index_numbers: true,
        index_shards: Shards::default(),
        max_receive_count: MAX_RECEIVE_COUNT,
        random_ids: RandomIds::seeded(1),
        seed: 1,
        delivery_faults: DeliveryFaults::USUAL,
    })
    .unwrap();
    let url = "http://127.0.0.1:8787";
    let names = crate::dev::operator::names(&cloud, url);
    let stack = Stack::new(names, &cloud.services().sdk_config(), Some(url.to_owned()));
    let task = tokio::spawn({
        let cloud = cloud.clone();
        async move { drop(cloud.run().await) }
    });
    Running { playground: Arc::new(LocalPlayground::new(cloud, stack, data)), task }
}

impl Running {
    /// Does one thing. Returns what the log says of it.
    async fn act(&self, action: PlaygroundAction) -> LogLine {
        self.playground.act(action).await;
        let line = self.playground.view().await.log[0].clone();
        assert!(!line.failed, "{}", line.text);
        line
    }

    async fn ending(&self, call: &str) -> String {
        ending(&self.playground.shown(call).await.unwrap().unwrap())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_story_ends_as_it_says() {
    let running = start();
    let set = ("all_lost".to_owned(), "out_of_credit".to_owned(), "before_the_request".to_owned());
    let (faults, mode, crash) = set.clone();
    running.act(PlaygroundAction::Set { faults, mode, crash }).await;
    for story in Story::ALL {
        let line = running.act(PlaygroundAction::Play(story)).await;
        let call = &line.calls[0];
        assert_eq!(running.ending(call).await, story.ends(), "{story:?}: {}", line.text);
        assert!(line.text.ends_with(&format!("the call ended as {}.", story.ends())), "{}", line.text);
    }
    assert_eq!(running.playground.cloud.fake().duplicate_dials(), 0, "no phone rang twice");
    let view = running.playground.view().await;
    assert_eq!((view.faults.chosen, view.mode.chosen, view.crash.chosen), set, "the settings of the page came back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_ending_arrives_late_twice_and_in_the_wrong_order() {
    let running = start();
    let line = running.act(PlaygroundAction::Play(Story::LateEnding)).await;
    let call =
        running.playground.stack.calls.resolve(&CallId::new(line.calls[0].as_str())).await.unwrap().call.unwrap();
    let facts: Vec<_> = call.history.iter().filter(|entry| !entry.event.implied).collect();
    assert!(facts.windows(2).any(|pair| pair[0].event.occurred_at > pair[1].event.occurred_at), "{facts:?}");
    let last = facts.last().unwrap();
    let late_ms = last.event.occurred_at.map(|at| last.received_at.millis_since(at)).unwrap();
    assert!(late_ms > 9 * 60 * 1_000, "{last:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn held_webhooks_give_one_state_in_every_order() {
    let running = start();
    running.act(PlaygroundAction::Hold(true)).await;
    running.playground.cloud.fake().set_delivery_faults(DeliveryFaults::NONE);
    let placed = PlaygroundAction::Place { behaviours: vec!["confirms".to_owned()], office_hours: false };
    let call = running.act(placed).await.calls[0].clone();

    let view = running.playground.view().await;
    let events: Vec<&str> = view.held.iter().map(|held| held.event.as_str()).collect();
    assert_eq!(events, ["call_started", "call_ended", "call_analyzed"]);
    let [orders] = view.orders.as_slice() else { panic!("{:?}", view.orders) };
    assert_eq!((orders.events, orders.tried), (3, Some(6)));
    assert_eq!(orders.results, ["completed, Confirmed"]);
    assert!(orders.without.iter().any(|(_, without)| without != "completed, Confirmed"), "{orders:?}");

    // The worst order, with one of them twice.
    let [started, ended, analyzed] = [0, 1, 2].map(|index| view.held[index].number);
    running.act(PlaygroundAction::Release { numbers: vec![analyzed], how: Release::Twice }).await;
    running.act(PlaygroundAction::Release { numbers: vec![ended, started], how: Release::Once }).await;
    let is_over = |shown: &serde_json::Value| ending(shown) == "completed, Confirmed";
    running.playground.wait_until(&call, is_over).await.unwrap();
    assert!(running.playground.view().await.held.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sample_is_sent_as_asked() {
    let running = start();
    for (sending, answers) in [
        (Sending::Twice, "200 accepted, then 200 already_processed."),
        (Sending::Late, "200 already_processed."),
        (Sending::WrongKey, "401 "),
        (Sending::OldTimestamp, "401 "),
    ] {
        let (sample, appointment) = ("generic/user_confirmed".to_owned(), Some("apt_7".to_owned()));
        let line = running.act(PlaygroundAction::Send { sample, appointment, sending }).await;
        assert!(line.text.contains(answers), "{sending:?}: {}", line.text);
        assert_eq!(line.calls, ["appointment:apt_7"]);
    }
    assert_eq!(running.ending("appointment:apt_7").await, "in_progress, Confirmed");
    running
        .playground
        .act(PlaygroundAction::Set { faults: "x".into(), mode: "up".into(), crash: "never".into() })
        .await;
    assert!(running.playground.view().await.log[0].failed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sample_of_a_provider_with_a_public_url_is_accepted() {
    let running = start();
    for (sending, answer) in [(Sending::Once, "200 accepted."), (Sending::WrongKey, "401 invalid_signature.")] {
        let (sample, appointment) = ("twilio/completed".to_owned(), Some("apt_8".to_owned()));
        let line = running.act(PlaygroundAction::Send { sample, appointment, sending }).await;
        assert!(line.text.ends_with(answer), "{sending:?}: {}", line.text);
    }
    assert!(running.ending("appointment:apt_8").await.starts_with("completed"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sample_without_a_call_leads_to_its_event_alone() {
    let running = start();
    for (sample, sending, events) in [
        ("generic/unknown_type", Sending::Once, 1),
        ("generic/user_confirmed", Sending::WrongKey, 0),
        ("generic/user_confirmed", Sending::OldTimestamp, 0),
    ] {
        let (sample, appointment) = (sample.to_owned(), Some("apt_9".to_owned()));
        let line = running.act(PlaygroundAction::Send { sample, appointment, sending }).await;
        assert_eq!((line.calls.len(), line.events.len()), (0, events), "{}", line.text);
        for event in line.events {
            let id = switchhook_domain::EventId::new(event);
            assert!(running.playground.stack.inbox.get(&id).await.unwrap().is_some(), "{id}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn report_says_what_has_happened() {
    let running = start();
    for (numbers, how, text) in [
        (vec![7, 8], Release::Once, "0 webhooks arrived."),
        (vec![7, 8], Release::Drop, "0 webhooks will never arrive."),
    ] {
        assert_eq!(running.act(PlaygroundAction::Release { numbers, how }).await.text, text);
    }
    let due = |hours: i64| {
        let at = running.playground.now().plus(Duration::from_secs(3_600 * u64::try_from(hours).unwrap()));
        json!({"job": {"due_at": at.to_string()}})
    };
    let now = running.playground.now();
    assert_eq!(super::calls::next_step(&due(0), now), "Its webhooks come within the next minutes.");
    let later = super::calls::next_step(&due(2), now);
    assert!(later.starts_with("It waits for its calling window, and is due at 20"), "{later}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn time_goes_forwards_to_the_next_wake_up() {
    let running = start();
    assert_eq!(running.playground.view().await.next_wake_up, None);
    let behaviours = vec!["no_answer".to_owned()];
    running.act(PlaygroundAction::Set { faults: "none".into(), mode: "up".into(), crash: "never".into() }).await;
    let call = running.act(PlaygroundAction::Place { behaviours, office_hours: false }).await.calls[0].clone();
    running.playground.wait_until(&call, |shown| shown["attempts"].get(0).is_some()).await.unwrap();
    let before = running.playground.view().await;
    running.act(PlaygroundAction::Skip(Skip::ToNextWakeUp)).await;
    let after = running.playground.view().await;
    assert!(after.now >= before.next_wake_up.unwrap(), "{after:?}");
    assert!(after.ahead_ms > before.ahead_ms);
}

/// Otherwise the next start would turn the clock back, with rows in its future.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn time_that_cannot_be_kept_is_not_skipped() {
    let path = std::env::temp_dir().join(format!("switchhook-skip-{}", std::process::id()));
    // The clock cannot be written, because a directory is in its place.
    std::fs::create_dir_all(path.join("clock.json/full")).unwrap();
    let running = start_with(Some(DataDir::new(&path)));
    let skip = || running.playground.act(PlaygroundAction::Skip(Skip::By(Duration::from_secs(900))));
    skip().await;
    std::fs::remove_dir_all(path.join("clock.json")).unwrap();
    let line = running.playground.view().await.log[0].clone();
    assert!(line.failed && line.text.contains("could not be kept"), "{}", line.text);
    assert_eq!(running.playground.cloud.clock().offset_ms(), 0);
    skip().await;
    assert_eq!(running.playground.cloud.clock().offset_ms(), 900_000);
    std::fs::remove_dir_all(&path).unwrap();
}
