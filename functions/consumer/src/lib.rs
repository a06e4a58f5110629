//! The consumer of the event queue: folds the events of each call into its state, and writes the state once per batch.
//!
//! **Order within a call is kept by failing together.** If an event of a call cannot be folded now, its message and every
//! later one of the same message group in the batch return to the queue. They stay invisible for a random time that grows with every
//! failure. Other groups go on.
//!
//! An event that can never be folded gets a note in the inbox, and its message is deleted. Examples are an event for another
//! provider's call, and an event beyond the limits of a call. So the dead-letter queue holds only unexpected failures.
//!
//! **An event of a call that fails for minutes [waits in the inbox](switchhook_aws::inbox::WAITS_AFTER)**, so that the messages of failing events do not
//! fill the queue. Later events of its call are folded meanwhile: the state of a call does not depend on the order in which its events
//! arrive.
//!
//! **Only the consumer follows an alias to fold an event, and only the consumer refolds a call**, because both decide
//! which state is written. An alias leads an event that has only the provider's call id to its call. A refold rebuilds
//! a row that does not match its events from the inbox.

mod batch;
mod block;
mod booking;
mod entity;
mod failed;
mod folded;
mod forget;
mod health;
mod refold;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use aws_lambda_events::event::sqs::{BatchItemFailure, SqsBatchResponse, SqsEvent, SqsMessage};
use futures_util::future::join_all;
use switchhook_aws::Error;
use switchhook_aws::bus::Bus;
use switchhook_aws::calls::{Calls, Found, Resolved, StoreOutcome};
use switchhook_aws::config::{Environment, EnvironmentError};
use switchhook_aws::inbox::{Inbox, Note};
use switchhook_aws::queue::{Message, Queue};
use switchhook_aws::sdk::Clock;
use switchhook_aws::shards::Shards;
use switchhook_aws::telemetry::Decision;
use switchhook_domain::{
    AttemptKey, Call, CallDefaults, CallId, Disposition, EventId, FoldOutcome, Origin, Policy, ProviderEvent,
    Timestamp, WebhookQuarantined, fold,
};

use crate::batch::{FailedTail, Group, read_calls};
use crate::folded::folded_events;
pub use crate::refold::READ_MAX as REFOLD_READ_MAX;
use crate::refold::{Refolded, Refolder, added, is_drift_event};

/// Maximum number of tries of a conditional write that loses the race against another writer. After them, the message returns to
/// the queue.
const RACES_MAX: u32 = 5;
/// Time in milliseconds since the start of the invocation after which a fold that lost a race is not tried again. The rest of the function's 10 s is for handling
/// the failure.
const FOLD_MS_MAX: i64 = 3_000;

/// Age from which an event may have a mark, although its message says that it is received for the first time. The sweep marks an event
/// a minute after its receipt at the earliest, and after a redrive of a dead letter SQS counts from 1 again.
const LATE: Duration = Duration::from_secs(60);

/// Configuration, read from environment variables at cold start.
#[derive(Debug)]
pub struct Config {
    pub inbox_table: String,
    pub shards: Shards,
    pub inbox_retention: Duration,
    pub calls_table: String,
    pub index_numbers: bool,
    pub call_retention: Duration,
    pub queue_url: String,
    pub event_bus: String,
    pub policy: Policy,
    pub defaults: CallDefaults,
    pub max_receive_count: u32,
    pub block_on_request: bool,
}

impl Config {
    /// Reads the configuration.
    ///
    /// # Errors
    /// Names every variable that is missing or not valid.
    pub fn from_environment(
        mut environment: Environment<impl Fn(&str) -> Option<String>>,
    ) -> Result<Self, EnvironmentError> {
        let config = Self {
            inbox_table: environment.text("INBOX_TABLE"),
            shards: environment.shards(),
            inbox_retention: environment.days("INBOX_RETENTION_DAYS"),
            calls_table: environment.text("CALLS_TABLE"),
            index_numbers: environment.flag("INDEX_NUMBERS"),
            call_retention: environment.days("CALL_RETENTION_DAYS"),
            queue_url: environment.text("QUEUE_URL"),
            event_bus: environment.text("EVENT_BUS"),
            policy: environment.policy(),
            defaults: environment.call_defaults(),
            max_receive_count: environment.number("MAX_RECEIVE_COUNT"),
            block_on_request: environment.flag("BLOCK_ON_REQUEST"),
        };
        environment.check(config)
    }
}

/// The handler, with its clients and settings.
#[derive(Debug)]
pub struct Consumer {
    pub inbox: Inbox,
    pub calls: Calls,
    pub queue: Queue,
    pub bus: Bus,
    pub policy: Policy,
    /// Settings for the calls of bookings.
    pub defaults: CallDefaults,
    /// The queue's `maxReceiveCount`. A message that fails at this receive goes to the dead-letter queue.
    pub max_receive_count: u32,
    /// True if the consumer adds a number to the do-not-call list when the person asks not to be called again.
    pub block_on_request: bool,
    pub clock: Clock,
}

/// Names and values of metrics. The line of a batch adds them up.
type Counts = Vec<(&'static str, u64)>;

impl Consumer {
    /// Folds a batch. Reports the messages that SQS must deliver again.
    pub async fn handle(&self, batch: SqsEvent) -> SqsBatchResponse {
        let mut messages: BTreeMap<String, Vec<SqsMessage>> = BTreeMap::new();
        for message in batch.records {
            let group = message.attributes.get("MessageGroupId").cloned().unwrap_or_default();
            messages.entry(group).or_default().push(message);
        }
        let invoked_at = self.clock.now();
        let groups: Vec<Group> = messages.into_values().map(Group::of).collect();
        let mut found = read_calls(&self.calls, &groups).await;
        let folds = groups.into_iter().map(|group| {
            let found = group.call_ids().filter_map(|id| found.remove_entry(id)).collect();
            self.fold_group(group, found, invoked_at)
        });
        let folds = join_all(folds).await;
        let (counts, failed): (Vec<Counts>, Vec<Option<FailedTail>>) = folds.into_iter().unzip();
        self.log_batch(counts.concat(), invoked_at);
        let returned = join_all(failed.into_iter().flatten().map(|tail| self.retry_later(tail))).await;
        let mut response = SqsBatchResponse::default();
        for message in returned.into_iter().flatten() {
            let mut failure = BatchItemFailure::default();
            failure.item_identifier = message.message_id.unwrap_or_default();
            response.batch_item_failures.push(failure);
        }
        response
    }

    /// Folds the messages of one group, in order. Stops at the first failure. Returns the counts of the messages before it. `found` holds
    /// the items of the shared read.
    async fn fold_group(
        &self,
        group: Group,
        mut found: HashMap<CallId, Found>,
        invoked_at: Timestamp,
    ) -> (Counts, Option<FailedTail>) {
        let Group { mut messages, decoded, decode_error } = group;
        let mut counts = Counts::new();
        // A group is one call, with two exceptions: hashed ids can collide, and other programs can send to the queue.
        let mut done = 0;
        let together = |a: &Message, b: &Message| {
            a.event.call_id == b.event.call_id && !is_drift_event(&a.event) && !is_drift_event(&b.event)
        };
        for same_call in decoded.chunk_by(together) {
            let received = messages.get(done..done + same_call.len()).unwrap_or_default();
            let Some(Message { event, .. }) = same_call.first() else { continue };
            self.list_repeated(received, same_call).await;
            let folded = if event.call_id.is_entity() {
                self.fold_entity(same_call).await
            } else {
                self.fold_call(same_call, found.remove(&event.call_id), invoked_at).await
            };
            let folded = match folded {
                Ok(counts_of_call) => {
                    counts.extend(counts_of_call);
                    self.end_retries(received, same_call).await
                }
                Err(error) => Err(error),
            };
            if let Err(error) = folded {
                return (counts, Some(FailedTail { messages: messages.split_off(done), error }));
            }
            done += same_call.len();
        }
        (counts, decode_error.map(|error| FailedTail { messages: messages.split_off(done), error }))
    }

    /// Removes the attention mark from the notes on events that were folded after a retry. So no person looks at them any more.
    async fn end_retries(&self, received: &[SqsMessage], messages: &[Message]) -> Result<(), Error> {
        let late = self.clock.now().minus(LATE);
        let retried = received
            .iter()
            .zip(messages)
            .filter(|(received, message)| receives_of(received) > 1 || message.event.received_at < late);
        let ended = join_all(retried.map(|(_, message)| self.end_retry(message))).await;
        ended.into_iter().collect()
    }

    /// Removes the mark of one event. If that fails, the event is folded all the same, and the reconciler removes the mark of a retried event.
    /// It does not look at the marks of dead letters, so the message of a dead letter returns to the queue.
    async fn end_retry(&self, message: &Message) -> Result<(), Error> {
        let event = &message.event;
        let Err(error) = self.inbox.clear_retry(&event.event_id).await else { return Ok(()) };
        let note = self.inbox.get_note(&event.event_id).await;
        if !note.is_ok_and(|note| note.is_none_or(|note| note.dead_lettered_at.is_none())) {
            return Err(error);
        }
        let decision = Decision {
            function: "consumer",
            message: "mark of a folded event not removed, the reconciler removes it",
            action_taken: "mark_not_removed",
            provider: Some(event.origin.as_str()),
            event_id: Some(event.event_id.as_str()),
            call_id: Some(event.call_id.as_str()),
            trace_id: Some(&message.trace_id),
            ..Decision::from_error(Some(&error))
        };
        decision.log(self.clock.now(), true);
        Ok(())
    }

    /// Folds events of one call: one read and one conditional write, repeated if another writer came first. `found` was read for the
    /// batch, and takes the place of the first read. Returns the counts for the line of the batch.
    async fn fold_call(
        &self,
        messages: &[Message],
        mut found: Option<Found>,
        invoked_at: Timestamp,
    ) -> Result<Counts, Error> {
        let Some(first) = messages.first() else { return Ok(Counts::new()) };
        let mut call_id = first.event.call_id.clone();
        let mut folding: Vec<&Message> = messages.iter().collect();
        // If the id turns out to be an alias, Switchhook's own events are refused: they concern the call that became the alias.
        let mut refused: Vec<&Message> = Vec::new();
        let mut events: Vec<ProviderEvent> = messages.iter().map(|message| message.event.clone()).collect();
        let mut refused_at: Vec<Timestamp> = Vec::new();
        let started = self.clock.now();
        for race in 0..RACES_MAX {
            let now = self.clock.now();
            if now.millis_since(invoked_at) > FOLD_MS_MAX {
                return Err(Error::Contended(race));
            }
            let Resolved { call, alias } = match found.take() {
                Some(found) => self.calls.resolve_found(found, true).await?,
                None => self.calls.resolve(&call_id).await?,
            };
            if let Some(alias) = alias {
                refused.extend(folding.extract_if(.., |message| message.event.origin == Origin::Switchhook));
                events.retain(|event| event.origin != Origin::Switchhook);
                for event in &mut events {
                    event.call_id = alias.call_id.clone();
                    event.attempt = Some(alias.attempt.clone());
                }
                call_id = alias.call_id;
            }
            // A refold may add events to the call that were never folded.
            let (folded, read) = match (&call, events.as_slice()) {
                (Some(call), [drift]) if is_drift_event(drift) => {
                    let refolder = Refolder::new(&self.inbox, &self.policy);
                    match refolder.refold(call, drift, invoked_at, now).await? {
                        Refolded::Done(folded, read) => (*folded, read),
                        Refolded::Skipped(reason) => {
                            refolder.skip(first, &reason, started, self.clock.now()).await?;
                            return Ok(Counts::new());
                        }
                    }
                }
                (_, _) => (fold(call.as_ref(), &events, &self.policy, now), Vec::new()),
            };
            let added = added(&read, call.as_ref(), &folded).into_iter();
            let added: Vec<(&ProviderEvent, FoldOutcome)> = added.map(|event| (event, FoldOutcome::Folded)).collect();
            let outcomes = events.iter().zip(folded.outcomes.iter().copied()).chain(added.iter().copied());
            let next = folded.transition.as_ref().map(|transition| &transition.call);
            self.block_numbers(call.as_ref(), next, outcomes, now).await?;
            if let Some(transition) = &folded.transition {
                match self.calls.store(transition).await? {
                    StoreOutcome::Committed => {}
                    StoreOutcome::LostRace => {
                        refused_at.push(now);
                        tokio::time::sleep(Duration::from_millis(fastrand::u64(1..=(20 << race)))).await;
                        continue;
                    }
                }
            }
            let mut outcomes: Vec<(&ProviderEvent, FoldOutcome)> = events.iter().zip(folded.outcomes).collect();
            outcomes.extend(refused.iter().map(|message| (&message.event, FoldOutcome::Refused)));
            // They come last, because they have no message here.
            outcomes.extend(added);
            self.note_unfolded(&outcomes, now).await?;
            let (before, after) = (call.as_ref(), folded.transition.as_ref().map(|transition| &transition.call));
            let new = folded_events(&outcomes, &read, before, &refused_at);
            self.note_dials(after.or(before), &new, now).await;
            let late = events.iter().chain(&read);
            self.erase_late_events(after.or(before).and_then(|call| call.forgotten_at), late).await?;
            let outcomes = folding.into_iter().chain(refused).zip(outcomes.into_iter().map(|(_, outcome)| outcome));
            return Ok(self.log(outcomes, before, after, race, started));
        }
        Err(Error::Contended(RACES_MAX))
    }

    /// Notes in the inbox why events were not folded, and publishes `webhook.quarantined` for those that were quarantined.
    async fn note_unfolded(&self, outcomes: &[(&ProviderEvent, FoldOutcome)], now: Timestamp) -> Result<(), Error> {
        for (event, outcome) in outcomes {
            let note = match outcome {
                FoldOutcome::Folded | FoldOutcome::Duplicate => continue,
                FoldOutcome::Refused => Note::no_call(),
                FoldOutcome::Quarantined => Note {
                    disposition: Some(Disposition::Quarantined),
                    error: Some("the call has reached its limit of events".to_owned()),
                    cause: Some("call_full".to_owned()),
                    ..Note::default()
                },
            };
            self.inbox.put_note(event, &note, now).await?;
            if *outcome == FoldOutcome::Quarantined {
                let reason = note.error.as_deref().unwrap_or_default();
                let ProviderEvent { event_id, origin, call_id, received_at, trace_id, .. } = event;
                let (call_id, trace_id) = (Some(call_id), trace_id.as_ref());
                let quarantined = WebhookQuarantined::new(event_id, *origin, call_id, reason, trace_id, *received_at);
                self.bus.publish_quarantined(&quarantined).await?;
            }
        }
        Ok(())
    }

    /// Logs the outcome of each event of a call. `before` and `after` are the call before and after the fold; `after` is
    /// `None` if the fold changed nothing. Returns the counts for the line of the batch.
    fn log<'a>(
        &self,
        outcomes: impl Iterator<Item = (&'a Message, FoldOutcome)>,
        before: Option<&Call>,
        after: Option<&Call>,
        lost_races: u32,
        started: Timestamp,
    ) -> Counts {
        let now = self.clock.now();
        let mut counts = vec![("unparked", unparked(before, after)), ("fold_conflicts", lost_races.into())];
        let call = after.or(before);
        for (message, outcome) in outcomes {
            let event = &message.event;
            let disposition = |call: &Call| disposition_of(call, &event.event_id);
            let action_taken = match outcome {
                FoldOutcome::Folded => call.and_then(disposition).map_or("folded", Disposition::as_str),
                FoldOutcome::Duplicate => Disposition::Duplicate.as_str(),
                FoldOutcome::Refused => Disposition::Refused.as_str(),
                FoldOutcome::Quarantined => Disposition::Quarantined.as_str(),
            };
            let attempt = event.attempt.as_ref().map(AttemptKey::as_str);
            counts.extend([("received", 1), (action_taken, 1)]);
            if action_taken == Disposition::Applied.as_str() {
                counts.push(("received_to_applied_ms", now.millis_since(event.received_at).unsigned_abs()));
            }
            let decision = Decision {
                function: "consumer",
                action_taken,
                provider: Some(event.origin.as_str()),
                event_id: Some(event.event_id.as_str()),
                call_id: Some(event.call_id.as_str()),
                appointment_id: event.appointment_id.as_deref(),
                // The id of an event often begins with its attempt. Log volume is a cost, so it is not repeated.
                attempt: attempt.filter(|key| !event.event_id.as_str().starts_with(key)),
                // An event can be refused for two reasons: it contradicts the state of its call, or it has no call.
                cause: (outcome == FoldOutcome::Refused).then_some("no_call"),
                duration_ms: Some(now.millis_since(started)),
                trace_id: Some(&message.trace_id),
                counted_elsewhere: true,
                ..Decision::default()
            };
            decision.log(now, matches!(outcome, FoldOutcome::Quarantined));
        }
        counts
    }

    /// Logs the metrics of a batch. One line for all its events is shorter than the same metrics in the line of each event.
    fn log_batch(&self, counts: Counts, started: Timestamp) {
        if counts.is_empty() {
            return;
        }
        let now = self.clock.now();
        let decision = Decision {
            function: "consumer",
            action_taken: "batch_folded",
            duration_ms: Some(now.millis_since(started)),
            counts,
            ..Decision::default()
        };
        decision.log(now, false);
    }
}

/// Disposition of the call event that the provider reported. If it reported none, the first implied call event decides.
fn disposition_of(call: &Call, event_id: &EventId) -> Option<Disposition> {
    let entries = || call.history.iter().filter(|entry| entry.source_event_id == *event_id);
    entries().find(|entry| !entry.event.implied).or_else(|| entries().next()).map(|entry| entry.disposition)
}

/// Returns the number of events that were parked before a fold and no longer are: they had only arrived too early.
fn unparked(before: Option<&Call>, after: Option<&Call>) -> u64 {
    let (Some(before), Some(after)) = (before, after) else { return 0 };
    let is_parked = |call: &Call, id: &EventId| disposition_of(call, id) == Some(Disposition::Parked);
    // Few entries are parked, and most calls have none.
    let parked = before.history.iter().filter(|entry| entry.disposition == Disposition::Parked);
    let ids: BTreeSet<&EventId> = parked.map(|entry| &entry.source_event_id).collect();
    let reached = |id: &&&EventId| is_parked(before, id) && after.contains_event(id) && !is_parked(after, id);
    ids.iter().filter(reached).count() as u64
}

fn receives_of(message: &SqsMessage) -> u32 {
    message.attributes.get("ApproximateReceiveCount").and_then(|count| count.parse().ok()).unwrap_or(1)
}
