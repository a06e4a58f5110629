//! Random calls and events: the effect that a plan shows is the effect of its run.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use switchhook_aws::inbox::{NewEvent, PutOutcome};
use switchhook_domain::{AttemptKey, Call, Disposition, EventId, Origin};
use switchhook_local::fake::DeliveryFaults;
use switchhook_local::queue::NewMessage;
use switchhook_local::{EVENTS_DEAD_LETTER_QUEUE, EVENTS_QUEUE};
use switchhook_operate::Stack;
use switchhook_operate::audit::Counts;
use switchhook_operate::dead_letters::{LetterFilter, plan_redrive};
use switchhook_operate::plan::{CallSummary, Plan};
use switchhook_operate::quarantine::{QuarantineFilter, plan_reprocess};
use switchhook_operate::run::{self, Run, RunOptions};
use switchhook_tests::{KEY, World};

use super::{carry_out, consume_all, drop_messages, everything, options, plan_replay, stack_of, summary};
use crate::outbound::{call_request, create};
use crate::traffic::{Webhook, retell_call, twilio_call};

/// Most webhooks of a case. The consumer gets as many messages in one batch, so that it announces as the plan does.
const WEBHOOKS_MAX: usize = 10;

/// Webhooks of some calls, and for each whether it was folded when it arrived. The others never reached the queue.
fn any_webhooks() -> impl Strategy<Value = Vec<(Webhook, bool)>> {
    let calls = proptest::collection::vec((any::<bool>(), any::<bool>()), 1..4);
    calls.prop_flat_map(|calls| {
        let numbered = calls.into_iter().zip(0..);
        let webhooks: Vec<Webhook> = numbered
            .flat_map(|((retell, answered), n)| if retell { retell_call(n, 2, 1) } else { twilio_call(n, answered) })
            .take(WEBHOOKS_MAX)
            .collect();
        let count = webhooks.len();
        (Just(webhooks).prop_shuffle(), proptest::collection::vec(any::<bool>(), count))
            .prop_map(|(webhooks, folded)| webhooks.into_iter().zip(folded).collect())
    })
}

async fn check(webhooks: Vec<(Webhook, bool)>) -> (usize, usize) {
    let world = World::stopped();
    let stack = stack_of(&world);
    for (webhook, is_folded) in &webhooks {
        world.post_signed(webhook.provider, KEY, &webhook.query, webhook.body.as_bytes()).await;
        if *is_folded { consume_all(&world).await } else { drop_messages(&world) }
    }
    let plan: Plan = plan_replay(&stack, &everything()).await;
    let mut before = Vec::new();
    for effect in &plan.effects {
        let row = world.load(effect.call_id.as_str()).await;
        assert_eq!(row.as_ref().map(CallSummary::new), effect.before);
        before.push(row.map_or(0, |row| row.announcements.len()));
    }
    if plan.items.is_empty() {
        return (0, 0);
    }
    let run = carry_out(&stack, &plan).await.unwrap();
    assert_eq!((run.counts.done, run.counts.unchanged, run.counts.skipped), (plan.items.len(), 0, 0));
    consume_all(&world).await;
    let mut announced = 0;
    for (effect, before) in plan.effects.iter().zip(before) {
        let row: Call = world.call(effect.call_id.as_str()).await;
        assert_eq!(Some(CallSummary::new(&row)), effect.after, "{}", effect.call_id);
        let events = row.domain_events_from(before + 1);
        assert_eq!(events.iter().filter(|event| event.corrects.is_some()).count(), effect.corrections);
        assert_eq!(events.into_iter().map(|event| event.event_type).collect::<Vec<_>>(), effect.announces);
        announced += effect.announces.len();
    }
    assert_eq!(plan.domain_events, announced);
    assert_eq!(plan_replay(&stack, &everything()).await.items.len(), 0, "nothing is left to do");
    (plan.items.len(), announced)
}

#[test]
fn run_has_exactly_the_planned_effect() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let mut runner = TestRunner::new(switchhook_random::config(40, None));
    let totals = std::cell::Cell::new((0, 0));
    let outcome = runner.run(&any_webhooks(), |webhooks| {
        let (items, announced) = runtime.block_on(check(webhooks));
        let (all_items, all_announced) = totals.get();
        totals.set((all_items + items, all_announced + announced));
        Ok(())
    });
    outcome.unwrap();
    assert!(totals.get().0 > 40 && totals.get().1 > 40, "few events were replayed: {:?}", totals.get());
}

/// Fate of a webhook before a plan is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Folded,
    /// It never reached the queue.
    Unqueued,
    /// The consumer could not fold it as often as it may try.
    DeadLettered,
    /// An earlier version could not read it.
    Quarantined,
    /// It arrives after the plan, and before the run.
    Later,
}

const FATES: [Fate; 8] = [
    Fate::Folded,
    Fate::Folded,
    Fate::Folded,
    Fate::Unqueued,
    Fate::DeadLettered,
    Fate::DeadLettered,
    Fate::Quarantined,
    Fate::Quarantined,
];

/// Numbers that all cases together must reach.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    items: usize,
    announced: usize,
    phones: usize,
    skipped: usize,
    changed_calls: usize,
}

/// Webhooks of Retell about the dial of a placed call.
fn webhooks_of_placed(random: &mut fastrand::Rng, row: &Call, number: u64) -> Vec<Webhook> {
    let attempt = &row.attempt_records[0];
    let reason = *random.choice(&["user_hangup", "dial_busy", "dial_no_answer", "voicemail_reached"]).unwrap();
    let outcome = *random.choice(&["confirmed", "declined", "unclear"]).unwrap();
    let is_answered = !reason.starts_with("dial_");
    let mut webhooks = retell_call(number, 2, 1);
    for webhook in &mut webhooks {
        let mut body: Value = serde_json::from_str(&webhook.body).unwrap();
        let call = &mut body["call"];
        call["call_id"] = json!(attempt.provider_call_id);
        call["metadata"] = json!({
            "switchhook_call_id": row.call_id.as_str(),
            "switchhook_attempt": attempt.key.as_ref().map(AttemptKey::as_str),
        });
        if call["disconnection_reason"].is_string() {
            call["disconnection_reason"] = json!(reason);
        }
        if !is_answered && call["call_status"] == "ended" {
            call["call_status"] = json!("not_connected");
        }
        if call["call_analysis"].is_object() {
            call["call_analysis"]["custom_analysis_data"]["outcome"] = json!(outcome);
        }
        webhook.body = body.to_string();
    }
    if !is_answered {
        webhooks.remove(0);
    }
    webhooks
}

/// Webhooks of a few random calls, in a random order, each with its fate. A placed call is created and dialled.
async fn random_webhooks(world: &World, random: &mut fastrand::Rng) -> Vec<(Webhook, Fate)> {
    let mut webhooks = Vec::new();
    for n in 0..random.u64(1..4) {
        let number = 10 * n + random.u64(0..10);
        webhooks.extend(match random.u8(0..4) {
            0 => retell_call(number, 2, 1),
            1 => twilio_call(number, random.bool()),
            _ => {
                let id = create(world, &call_request("silent")).await;
                world.cloud.schedule().await.unwrap().unwrap();
                world.cloud.dialer().handle(world.take_claims()).await;
                consume_all(world).await;
                let row = world.call(&id).await;
                webhooks_of_placed(random, &row, number)
            }
        });
    }
    webhooks.truncate(WEBHOOKS_MAX);
    random.shuffle(&mut webhooks);
    let has_later = random.u8(0..3) == 0;
    let fate = |random: &mut fastrand::Rng| {
        if has_later && random.u8(0..4) == 0 { Fate::Later } else { *random.choice(&FATES).unwrap() }
    };
    webhooks.into_iter().map(|webhook| (webhook, fate(random))).collect()
}

async fn post(world: &World, webhook: &Webhook) {
    let (status, answer) = world.post_signed(webhook.provider, KEY, &webhook.query, webhook.body.as_bytes()).await;
    assert_eq!(status, http::StatusCode::OK, "{answer}");
}

/// Lets a webhook meet its fate.
async fn meet_fate(world: &World, stack: &Stack, webhook: &Webhook, fate: Fate, number: usize) {
    match fate {
        Fate::Folded => {
            post(world, webhook).await;
            consume_all(world).await;
        }
        Fate::Unqueued => {
            post(world, webhook).await;
            drop_messages(world);
        }
        Fate::DeadLettered => {
            post(world, webhook).await;
            for message in world.receive() {
                let sqs = world.cloud.services().sqs();
                let letter = NewMessage {
                    body: message.message.body.clone(),
                    group: Some("group".to_owned()),
                    deduplication_id: Some(format!("letter-{number}")),
                    ..NewMessage::default()
                };
                sqs.send(EVENTS_DEAD_LETTER_QUEUE, letter).unwrap();
                sqs.delete(EVENTS_QUEUE, &message.receipt_handle).unwrap();
            }
        }
        Fate::Quarantined => {
            let event = NewEvent {
                event_id: EventId::new(format!("{}:sha256-{number}", webhook.provider)),
                call_id: None,
                origin: Origin::Provider(webhook.provider),
                event_type: String::new(),
                occurred_at: None,
                received_at: world.now(),
                query: webhook.query.clone(),
                body: webhook.body.clone().into_bytes(),
                key_index: 0,
                headers: BTreeMap::new(),
                disposition: Some(Disposition::Quarantined),
                reading: None,
                decision: None,
                cause: Some("the body is not a JSON object"),
                trace_id: "trace".to_owned(),
            };
            assert!(matches!(world.inbox.put(&event).await.unwrap(), PutOutcome::Stored));
            stack.dlq.send_quarantine_notice(&event.event_id, "the body is not a JSON object", "trace").await.unwrap();
        }
        Fate::Later => {}
    }
}

/// Has the consumer handle messages while something else goes on.
async fn while_consuming<T>(world: &World, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => {
                consume_all(world).await;
                return done;
            }
            () = world.wait(Duration::from_millis(100)) => consume_all(world).await,
        }
    }
}

/// Plans and carries out one repair of a random history. The run writes exactly the planned state of a call. If it does
/// not, its items are skipped and named, and the row stays as it was.
async fn check_repair(seed: u64) -> Totals {
    let mut random = fastrand::Rng::with_seed(seed);
    let world = World::stopped();
    world.cloud.fake().set_delivery_faults(DeliveryFaults::ALL_LOST);
    let stack = stack_of(&world);
    let webhooks = random_webhooks(&world, &mut random).await;
    for (number, (webhook, fate)) in webhooks.iter().enumerate() {
        meet_fate(&world, &stack, webhook, *fate, number).await;
    }
    let letters = LetterFilter { all: true, ..LetterFilter::default() };
    let quarantined = QuarantineFilter { all: true, ..QuarantineFilter::default() };
    let plan = match random.u8(0..3) {
        0 => plan_replay(&stack, &everything()).await,
        1 => plan_redrive(&stack, &letters, 1_000).await.unwrap(),
        _ => plan_reprocess(&stack, &quarantined, 1_000).await.unwrap(),
    };
    let told = format!("seed {seed}, {:?}", plan.verb);
    for effect in &plan.effects {
        assert_eq!(summary(&world, &effect.call_id).await, effect.before, "{told}: {}", effect.call_id);
        // A phone could ring if its call becomes pending, or is due earlier.
        let [before, after] = [&effect.before, &effect.after].map(|summary| {
            summary.as_ref().filter(|summary| summary.job == "PENDING").and_then(|summary| summary.due_at.clone())
        });
        let rings = after.is_some() && (before.is_none() || after < before);
        assert_eq!(effect.could_ring, rings, "{told}: {effect:?}");
    }
    assert_eq!(plan.phones, plan.effects.iter().filter(|effect| effect.could_ring).count());
    if plan.items.is_empty() {
        return Totals::default();
    }
    // The run may begin at any time while the plan is valid.
    let waits = random.u8(0..3) == 0;
    if waits {
        world.wait(Duration::from_secs(random.u64(1..880))).await;
    }
    let mut later = 0;
    for (webhook, _) in webhooks.iter().filter(|(_, fate)| *fate == Fate::Later) {
        post(&world, webhook).await;
        consume_all(&world).await;
        later += 1;
    }
    let mut rows = BTreeMap::new();
    for effect in &plan.effects {
        rows.insert(effect.call_id.clone(), world.load(effect.call_id.as_str()).await);
    }
    let allow = RunOptions { allow_ringing: true, ..options() };
    let mut goes_on = |_: &Run| ControlFlow::Continue(());
    let run = while_consuming(&world, run::start(&stack, &plan.id, plan.verb, allow, &mut goes_on)).await.unwrap();
    let Counts { done, unchanged, skipped } = run.counts;
    assert_eq!(done + unchanged + skipped, plan.items.len(), "{told}: {run:?}");
    assert_eq!(run.skipped.len(), skipped, "{told}: every skipped item is named");
    if later == 0 && !waits {
        assert_eq!(skipped, 0, "{told}: {run:?}");
    }
    let mut totals = Totals { items: done, skipped, phones: plan.phones, ..Totals::default() };
    for effect in &plan.effects {
        let row = &rows[&effect.call_id];
        let is_skipped = run.skipped.iter().any(|skipped| skipped.call_id.as_ref() == Some(&effect.call_id));
        let now = world.load(effect.call_id.as_str()).await;
        if is_skipped {
            assert_eq!(
                now.map(|row| row.version),
                row.as_ref().map(|row| row.version),
                "{told}: {} was skipped, and written",
                effect.call_id
            );
            totals.changed_calls += 1;
            continue;
        }
        assert_eq!(now.as_ref().map(CallSummary::new), effect.after, "{told}: {}", effect.call_id);
        if row.as_ref().map(CallSummary::new) != effect.before || later > 0 {
            continue;
        }
        let told_before = row.as_ref().map_or(0, |row| row.announcements.len());
        let events = now.unwrap().domain_events_from(told_before + 1);
        assert_eq!(events.iter().filter(|event| event.corrects.is_some()).count(), effect.corrections, "{told}");
        let types: Vec<String> = events.into_iter().map(|event| event.event_type).collect();
        assert_eq!(types, effect.announces, "{told}: {}", effect.call_id);
        totals.announced += types.len();
    }
    totals
}

#[test]
fn repair_has_exactly_the_planned_effect_or_skips_and_names_the_item() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let mut runner = TestRunner::new(switchhook_random::config(150, None));
    let totals = std::cell::Cell::new(Totals::default());
    let outcome = runner.run(&any::<u64>(), |seed| {
        let one = runtime.block_on(check_repair(seed));
        let all = totals.get();
        totals.set(Totals {
            items: all.items + one.items,
            announced: all.announced + one.announced,
            phones: all.phones + one.phones,
            skipped: all.skipped + one.skipped,
            changed_calls: all.changed_calls + one.changed_calls,
        });
        Ok(())
    });
    outcome.unwrap();
    let totals = totals.get();
    println!("{totals:?}");
    assert!(
        totals.items > 100 && totals.announced > 100 && totals.phones > 5 && totals.changed_calls > 5,
        "{totals:?}"
    );
}
