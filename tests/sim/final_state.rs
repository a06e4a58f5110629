//! Checks of the laws that hold at the end of a run, after all faults are over.

use std::collections::{BTreeMap, BTreeSet};

use http::StatusCode;
use serde_json::Value;
use switchhook_aws::calls::Alias;
use switchhook_aws::inbox::AttentionKind;
use switchhook_domain::{Call, CallId, EventId, Provider, ProviderEvent, Timestamp, differences, refold};
use switchhook_local::fake::Dial;
use switchhook_tests::{KEY, OLD_KEY, text};

use crate::calls::{ExternalCall, Truth};
use crate::law::Law;
use crate::observed::INCONCLUSIVE;
use crate::plan::FaultKind;
use crate::requests::{ATTEMPTS_MAX, CallRequest, proves_no_absence, truth_of};
use crate::sim::{API_KEY, RequestedCall, Sim, Told, policy};

/// Lease of a claim.
const LEASE_MS: u64 = 5 * 60 * 1_000;
/// Tolerance for retries. They may delay the message of a claim after its write, and the request to the provider after
/// the check of the lease.
const LEASE_SLACK_MS: u64 = 30_000;

impl Sim {
    /// Checks every law that holds at the end.
    pub(crate) async fn check_final_state(&self) {
        self.check_changes().await;
        self.check_all_dials();
        let violated = |law, what: String| self.state().report_violation(law, what);
        if !self.is_over().await {
            let queued = self.world.queued().len();
            let calls: Vec<String> = (self.observed.borrow().calls.values())
                .filter(|call| call.settled_at.is_none())
                .map(|call| call.call_id.to_string())
                .collect();
            let retried = self.world.attention(AttentionKind::Retrying).await;
            return violated(
                Law::Settles,
                format!("{queued} messages wait, {calls:?} are not settled, and events are retried: {retried:?}"),
            );
        }
        // A call that is not settled may be refused every quarter of an hour, as a probe.
        self.check_refusals();
        for body in self.readable_dead_letters() {
            violated(Law::DeadLettersAreUnreadable, format!("a dead letter is readable: {body}"));
        }
        for secret in [KEY, OLD_KEY, API_KEY, "+44"] {
            if let Some(line) = self.world.log_text().lines().find(|line| line.contains(secret)) {
                violated(Law::NothingLeaks, line.to_owned());
            }
        }
        let ids: BTreeSet<String> = self.acknowledged.borrow().iter().map(|it| it.event_id.clone()).collect();
        for id in ids {
            let status = self.world.status(&EventId::new(id.as_str())).await;
            if !["processed", "recorded"].contains(&text(&status["status"]).as_str()) {
                violated(Law::Accounted, status.to_string());
            }
        }
        self.check_claims();
        self.check_folds().await;
        for (index, call) in self.plan.external_calls.iter().enumerate() {
            self.check_external_call(index, call).await;
        }
        self.check_unreported_calls().await;
        self.check_no_call_is_double();
        let requested = self.requested.borrow().clone();
        for (request, requested) in self.plan.call_requests.iter().zip(&requested) {
            self.check_placed_call(request, requested).await;
        }
    }

    /// Bodies of the dead letters whose events could be folded.
    pub(crate) fn readable_dead_letters(&self) -> Vec<Value> {
        let is_readable = |body: &Value| body["nonsense"] != true && body["quarantined"].is_null();
        self.world.dead_letters().into_iter().filter(is_readable).collect()
    }

    /// Checks the age that each claim had when a dialer used it.
    fn check_claims(&self) {
        for line in self.world.log_text().lines().filter(|line| line.contains("\"function\":\"dialer\"")) {
            let line: Value = serde_json::from_str(line).unwrap();
            let used = ["dialled", "dial_in_doubt", "dial_withdrawn", "dial_rejected"];
            let claim = (text(&line["call_id"]), text(&line["trace_id"]));
            let claimed_at = self.state().claims.get(&claim).copied().unwrap_or_default();
            let logged_at = Timestamp::parse_rfc3339(&text(&line["timestamp"])).unwrap().as_millis().unsigned_abs();
            // The clock of the dialer may be behind.
            let age_ms = logged_at.saturating_sub(claimed_at + line["duration_ms"].as_u64().unwrap_or_default());
            if used.contains(&text(&line["action_taken"]).as_str()) && age_ms > LEASE_MS + LEASE_SLACK_MS {
                self.state().report_violation(
                    Law::ClaimInTime,
                    format!("{claim:?} was used {} s after the claim", age_ms / 1_000),
                );
            }
        }
    }

    /// Folds every call again from the events in the inbox, and checks that all its domain events were published.
    async fn check_folds(&self) {
        let mut events: BTreeMap<CallId, Vec<ProviderEvent>> = BTreeMap::new();
        let inbox = self.state().inbox.keys().cloned().collect::<Vec<_>>();
        for id in inbox {
            let stored = self.without_faults(self.world.inbox.get(&EventId::new(id))).await.unwrap();
            let Some(stored) = stored else { continue };
            if let Some(event) = self.without_faults(self.world.inbox.renormalize(&stored)).await.unwrap() {
                let alias = self.observed.borrow().aliases.get(&event.call_id).cloned();
                let event = match alias {
                    Some(Alias { call_id, attempt }) => ProviderEvent { call_id, attempt: Some(attempt), ..event },
                    None => event,
                };
                events.entry(event.call_id.clone()).or_default().push(event);
            }
        }
        let observed = self.observed.borrow();
        for (id, call) in &observed.calls {
            let (events, now) = (events.remove(id).unwrap_or_default(), self.world.now());
            let drift = call.drift_found_event("nothing", now);
            let policy = policy();
            let again = refold(call, &events, |_| false, &drift, &policy, now).transition.unwrap().call;
            let entries = |call: &Call| -> BTreeSet<String> {
                let entries = call.history.iter().filter(|entry| entry.source_event_id != drift.event_id);
                entries.map(|entry| format!("{} {:?}", entry.id(), entry.disposition)).collect()
            };
            let shown = |call: &Call| -> Vec<(&'static str, &'static str)> {
                call.attempts().iter().map(|it| (it.lifecycle_label(), it.outcome_label())).collect()
            };
            if (&call.job, shown(call), entries(call)) != (&again.job, shown(&again), entries(&again)) {
                let [stored, again] = [call, &again].map(|call| format!("{:?} {:?}", shown(call), entries(call)));
                self.state()
                    .report_violation(Law::IsFold, format!("{id}: the row has {stored}, its events give {again}"));
            }
            for difference in differences(call, &events, |_| false, now) {
                self.state().report_violation(Law::IsFold, format!("{id}: {difference}"));
            }
            for number in 1..=call.announcements.len() {
                if !observed.published.contains_key(&format!("{id}/{number}")) {
                    self.state().report_violation(Law::Published, format!("{id}/{number} is not published"));
                }
            }
        }
    }

    /// Checks an external call. If every webhook was acknowledged, the call shows the truth. Otherwise it shows only
    /// endings that an acknowledged webhook reported, or `completed` after the person decided or a voicemail answered.
    async fn check_external_call(&self, index: usize, call: &ExternalCall) {
        let acknowledged: BTreeSet<usize> = (self.acknowledged.borrow().iter())
            .filter_map(|it| it.webhook)
            .filter(|(of, place)| *of == index && call.webhooks[*place].is_folded)
            .map(|(_, place)| place)
            .collect();
        if acknowledged.is_empty() {
            return;
        }
        let shown = self.shown(&call.call_id).await;
        let attempts = attempts_of(&shown);
        let all_acknowledged =
            call.webhooks.iter().enumerate().all(|(place, webhook)| {
                acknowledged.contains(&place) != (webhook.is_contradiction || !webhook.is_folded)
            });
        let right = if all_acknowledged {
            self.state().result.verified_calls += 1;
            attempts == call.attempts
        } else {
            let endings: BTreeSet<&str> =
                acknowledged.iter().flat_map(|place| call.webhooks[*place].endings.iter().copied()).collect();
            let is_presumed = |it: &Truth| {
                it.lifecycle == "completed" && ["confirmed", "declined", "voicemail"].contains(&it.outcome)
            };
            attempts.iter().all(|it| endings.contains(it.lifecycle) || it.lifecycle == INCONCLUSIVE || is_presumed(it))
        };
        if !right {
            let what = format!(
                "{}: the API shows {attempts:?}, the truth is {:?}; all webhooks acknowledged: {all_acknowledged}",
                call.call_id, call.attempts
            );
            self.state().report_violation(Law::Truth, what);
        }
    }

    /// Checks a placed call. Its attempts must be those in which a phone rang at the fake provider. If it failed, the
    /// reason must be the person, the number or the policy.
    async fn check_placed_call(&self, request: &CallRequest, requested: &RequestedCall) {
        let shown = self.shown(&requested.call_id).await;
        let attempts = attempts_of(&shown);
        let mut dials = self.world.cloud.fake().dials();
        dials.retain(|dial| dial.call_id == requested.call_id);
        let is_dialled_after_cancel = requested.dials_max.is_some_and(|max| dials.len() > max);
        dials.retain(|dial| !self.is_unknowable(dial));
        let truth: Vec<Truth> = (dials.iter())
            .map(|dial| {
                // An attempt without a dial may come before.
                let index = dial.attempt.parse::<usize>().unwrap() - 1;
                let truth = truth_of(dial.behaviour, dial.provider.as_str());
                // The provider may report no outcome.
                let truth = Truth { outcome: self.told_outcome(dial).unwrap_or(truth.outcome), ..truth };
                let is_inconclusive = attempts.get(index).is_some_and(|attempt| attempt.outcome == INCONCLUSIVE);
                // The provider may tell nothing of a call, and a second sender may report that it is over.
                let is_untold = is_never_named(&shown["attempts"][index]) && self.told_at(dial, Told::Answer).is_none();
                let may_be = is_inconclusive && (is_untold || self.is_answer_unreported(dial));
                if may_be { Truth { outcome: INCONCLUSIVE, ..truth } } else { truth }
            })
            .collect();
        // The provider took such a call, dialled nobody because it had too many calls, and forgot it without a word. Nobody can know that.
        let may_be_forgotten =
            request.behaviours.contains(&"forgotten") && self.plan.has_fault(FaultKind::OverCapacity);
        let is_unproven = unproven_attempts(&shown, may_be_forgotten);
        let truth = if agrees(&attempts, &is_unproven, &truth) { attempts.clone() } else { truth };
        let ended = |lifecycle: &str| truth.iter().filter(|it| it.lifecycle == lifecycle).count();
        let job = match (ended("completed"), requested.dials_max) {
            (1.., _) => "COMPLETED",
            (0, Some(_)) => "CANCELED",
            (0, None) => "FAILED",
        };
        let violated = |law, why: &str| {
            let what = format!(
                "{} {request:?}: {why}: the API shows {} {attempts:?}, the truth is {job} {truth:?}",
                requested.call_id, shown["job"]
            );
            self.state().report_violation(law, what);
        };
        if self.is_decision_of_call_told(&dials) {
            return self.check_decided_call(&shown, &attempts, &truth);
        }
        let too_many = truth.len() > ATTEMPTS_MAX || is_dialled_after_cancel;
        if attempts != truth || shown["job"]["state"] != job || too_many {
            return violated(Law::Truth, "wrong state");
        }
        let is_unheard = truth.last().is_some_and(|last| last.lifecycle == INCONCLUSIVE) && !request.retries_unheard;
        let is_reason_right = match text(&shown["job"]["stop_reason"]).as_str() {
            "do_not_call" => requested.blocked_at.is_some(),
            "rejected_by_provider" => request.behaviours.contains(&"invalid"),
            "" => truth.len() == ATTEMPTS_MAX || ended("failed") == 2 || is_unheard,
            _ => false,
        };
        if job == "FAILED" && !is_reason_right {
            return violated(Law::NoFailureWithoutReason, "wrong reason");
        }
        let published = self.observed.borrow().published_types(&requested.call_id);
        let has = |kind: &str| published.iter().any(|other| other.starts_with(kind));
        let is_announced = if request.has_appointment {
            has("appointment.") && !has("call.outcome")
        } else {
            !has("appointment.") && (truth.is_empty() || has("call.outcome"))
        };
        if !is_announced {
            return violated(Law::Truth, &format!("published {published:?}"));
        }
        self.state().result.verified_calls += 1;
    }

    /// Checks a placed call if a report tells what the person decided, and not in which attempt. The decision belongs to every attempt
    /// that had started by then, also to one that nobody answered.
    fn check_decided_call(&self, shown: &Value, attempts: &[Truth], truth: &[Truth]) {
        let is_decision = |attempt: &&Truth| ["confirmed", "declined"].contains(&attempt.outcome);
        let decisions: BTreeSet<&str> = attempts.iter().filter(is_decision).map(|attempt| attempt.outcome).collect();
        if shown["job"]["state"] != "COMPLETED" || decisions.len() != 1 || attempts.len() < truth.len() {
            let what = format!("the person decided, and the API shows {} {attempts:?}: {truth:?}", shown["job"]);
            return self.state().report_violation(Law::Truth, what);
        }
        self.state().result.verified_calls += 1;
    }

    /// True if somebody answered at Telnyx, the webhook that reports the answer was lost, and no other program reported it. The hangup does not report it. A lookup does,
    /// but the provider may not answer lookups for two inactivity timeouts.
    fn is_answer_unreported(&self, dial: &Dial) -> bool {
        let answer = format!("telnyx:{}:call.answered", dial.provider_call_id);
        dial.provider == Provider::Telnyx
            && dial.answered_ms.is_some()
            && self.told_at(dial, Told::Answer).is_none()
            && !self.acknowledged.borrow().iter().any(|it| it.event_id == answer)
    }

    /// The call as the API shows it. It must be settled.
    pub(crate) async fn shown(&self, call_id: &str) -> Value {
        let (code, shown) = self.world.get(&format!("/call?id={call_id}")).await;
        if code != StatusCode::OK || shown["settled"] != true {
            self.state().report_violation(Law::Settles, format!("{call_id}: {code} {shown}"));
        }
        shown
    }
}

/// Tells for each attempt whether nobody can know if it happened. Either no event reports it, and its provider's lists never prove that
/// there was no call. Or the provider may have forgotten a call that it never dialled.
fn unproven_attempts(shown: &Value, may_be_forgotten: bool) -> Vec<bool> {
    let attempts = shown["attempts"].as_array().into_iter().flatten();
    let is_unproven =
        |attempt: &Value| (is_never_named(attempt) || may_be_forgotten) && attempt["lifecycle"] == INCONCLUSIVE;
    attempts.map(is_unproven).collect()
}

/// True if no event of the provider reports the attempt, and its lists never prove that there was no call.
fn is_never_named(attempt: &Value) -> bool {
    proves_no_absence(&text(&attempt["provider"])) && attempt["provider_call_id"].is_null()
}

/// True if the attempts are those that truly happened. An unproven one may be any, or none.
fn agrees(attempts: &[Truth], is_unproven: &[bool], truth: &[Truth]) -> bool {
    let (Some((attempt, others)), Some((unproven, others_unproven))) =
        (attempts.split_first(), is_unproven.split_first())
    else {
        return truth.is_empty();
    };
    let rest_agrees = |truth: &[Truth]| agrees(others, others_unproven, truth);
    let is_this = truth.split_first().is_some_and(|(first, rest)| (attempt == first || *unproven) && rest_agrees(rest));
    is_this || *unproven && rest_agrees(truth)
}

/// The end of each attempt, as the API shows it. `not over` if the API shows none.
pub(crate) fn attempts_of(shown: &Value) -> Vec<Truth> {
    let words = "completed no_answer busy failed canceled inconclusive connected voicemail declined confirmed";
    let known = |word: &Value| words.split(' ').find(|known| *known == word).unwrap_or("not over");
    let attempts = shown["attempts"].as_array().into_iter().flatten();
    attempts.map(|it| Truth { lifecycle: known(&it["lifecycle"]), outcome: known(&it["outcome"]) }).collect()
}
