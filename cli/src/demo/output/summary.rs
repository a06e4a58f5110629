//! The figures of one run. The same seed gives the same figures. Field names are the names in the JSON output.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value;

use crate::demo::json::text;
use crate::demo::observation::{Observations, ObservedCall};
use crate::demo::oracle::{EndingSource, Mismatch, ending_source};
use crate::demo::placed_script::ApiAction;
use crate::demo::traffic::{FaultCounts, Traffic};

/// Smallest number of calls of a run in which every fault must occur. With fewer calls a fault may be missing by
/// chance.
const CALLS_WITH_EVERY_FAULT: usize = 200;
/// Number of mismatches that are printed.
const MISMATCHES_SHOWN: usize = 20;

#[derive(Debug, Serialize)]
pub(in crate::demo) struct Summary {
    pub(super) seed: u64,
    pub(super) calls: usize,
    /// Calls with at least one mismatch.
    pub(super) wrong_calls: usize,
    /// Mismatches that belong to no single call.
    pub(super) other_mismatches: usize,
    /// Attempts for which a phone rang more than once.
    pub(super) phones_rung_twice: usize,
    /// Descriptions of the first mismatches.
    pub(super) mismatches: Vec<String>,
    /// Faults that this run should have contained and did not.
    pub(super) missing_faults: Vec<&'static str>,

    pub(super) webhooks_delivered: usize,
    pub(super) accepted: u64,
    pub(super) duplicates: u64,
    pub(super) rejected: u64,
    /// Authentic webhooks that are not about the state of a call.
    pub(super) recorded: u64,
    /// Authentic webhooks that cannot be read.
    pub(super) quarantined: u64,
    pub(super) rejected_by_cause: BTreeMap<String, u64>,
    pub(super) faults: FaultCounts,

    /// Dispositions of the accepted webhooks.
    pub(super) applied: u64,
    pub(super) stale: u64,
    pub(super) parked: u64,
    pub(super) refused: u64,

    /// Calls that Switchhook was asked to place.
    pub(super) calls_placed: usize,
    pub(super) claims: u64,
    pub(super) phones_rung: usize,
    /// Attempts after the first attempt of a call.
    pub(super) retries: usize,
    /// Dials that the provider did not answer.
    pub(super) dials_in_doubt: u64,
    /// Dials that the provider refused because of its rate limit.
    pub(super) dials_withdrawn: u64,
    /// Calls with an ending that was learned by a lookup at the provider.
    pub(super) endings_looked_up: usize,
    pub(super) calls_triggered: usize,
    pub(super) calls_canceled: usize,
    /// Repetitions of the request that created a call. They must create nothing.
    pub(super) repeated_api_requests: usize,
    /// Calls for which the drift check found a drift.
    pub(super) drifts: usize,

    /// Calls without any report of their ending.
    pub(super) calls_inconclusive: u64,
    pub(super) inactivity_timeouts: u64,
    pub(super) domain_events: usize,
    pub(super) lifecycles: BTreeMap<String, u64>,
    pub(super) outcomes: BTreeMap<String, u64>,
    pub(super) appointment_statuses: BTreeMap<String, u64>,
    pub(super) job_states: BTreeMap<String, u64>,

    /// Database requests by operation.
    pub(super) database_requests: BTreeMap<&'static str, u64>,
    pub(super) database_per_accepted_webhook: DatabaseUse,
}

/// Use of the database by the whole run, schedules and duplicates included, divided by the number of accepted webhooks.
#[derive(Debug, Serialize)]
pub(super) struct DatabaseUse {
    pub(super) requests: f64,
    pub(super) read_units: f64,
    pub(super) write_units: f64,
    pub(super) index_write_units: f64,
}

impl Summary {
    pub(in crate::demo) fn new(
        seed: u64,
        traffic: &Traffic,
        observations: &Observations,
        mismatches: &[Mismatch],
    ) -> Self {
        let answered = |status: &str| {
            observations.webhook_responses.iter().filter(|response| response.status == status).count() as u64
        };
        let is_rejection = |code: u16| (400..500).contains(&code);
        let rejected = observations.webhook_responses.iter().filter(|response| is_rejection(response.code)).count();
        let all_calls =
            || observations.calls.iter().chain(observations.placed_calls.iter().map(|placed| &placed.observed));
        let count_states = |pointer: &str| {
            let mut counts: BTreeMap<String, u64> = BTreeMap::new();
            for call in all_calls().filter_map(|observed| observed.call.as_ref()) {
                let state = call.pointer(pointer).and_then(Value::as_str).unwrap_or("no_attempt");
                *counts.entry(state.to_owned()).or_default() += 1;
            }
            counts
        };
        let dispositions = count_dispositions(observations);
        let disposed = |name: &str| dispositions.get(name).copied().unwrap_or_default();
        let is_timeout = |entry: &&Value| text(entry, "kind") == "deadline_passed";
        let logged = |action: &str| observations.worker_actions.get(action).copied().unwrap_or_default();
        let successful_requests = |action: ApiAction| {
            let responses = observations.placed_calls.iter().flat_map(|placed| &placed.api_responses);
            responses.filter(|response| response.request.action == action && response.code < 300).count()
        };
        let sources = observations.placed_calls.iter().map(|placed| ending_source(placed, &observations.sent_webhooks));
        let lifecycles = count_states("/lifecycle");
        let accepted = answered("accepted");
        let calls = traffic.scripts.len() + traffic.placed_scripts.len();
        let wrong: BTreeSet<usize> = mismatches.iter().filter_map(|mismatch| mismatch.call).collect();
        let mut summary = Self {
            seed,
            calls,
            wrong_calls: wrong.len(),
            other_mismatches: mismatches.iter().filter(|mismatch| mismatch.call.is_none()).count(),
            phones_rung_twice: observations.duplicate_dials,
            mismatches: mismatches.iter().take(MISMATCHES_SHOWN).map(|mismatch| describe(traffic, mismatch)).collect(),
            missing_faults: Vec::new(),
            webhooks_delivered: traffic.deliveries.len(),
            accepted,
            duplicates: answered("already_processed"),
            rejected: rejected as u64,
            recorded: answered("recorded"),
            quarantined: answered("quarantined"),
            rejected_by_cause: observations.rejections_by_cause.clone(),
            faults: traffic.faults,
            applied: disposed("applied"),
            stale: disposed("stale"),
            parked: disposed("parked"),
            refused: disposed("refused"),
            calls_placed: traffic.placed_scripts.len(),
            claims: logged("claimed") + logged("triggered"),
            phones_rung: observations.placed_calls.iter().map(|placed| placed.phone_rings.len()).sum(),
            retries: observations.placed_calls.iter().map(|placed| attempts(&placed.observed).saturating_sub(1)).sum(),
            dials_in_doubt: logged("dial_in_doubt"),
            dials_withdrawn: logged("dial_withdrawn"),
            endings_looked_up: sources.filter(|source| *source == EndingSource::Lookup).count(),
            calls_triggered: successful_requests(ApiAction::Trigger),
            calls_canceled: successful_requests(ApiAction::Cancel),
            repeated_api_requests: successful_requests(ApiAction::CreateAgain),
            drifts: observations.drifted_calls.len(),
            calls_inconclusive: lifecycles.get("inconclusive").copied().unwrap_or_default(),
            inactivity_timeouts: all_calls().flat_map(|call| &call.timeline).filter(is_timeout).count() as u64,
            domain_events: all_calls().map(|call| call.domain_events.len()).sum(),
            lifecycles,
            outcomes: count_states("/outcome"),
            appointment_statuses: count_states("/appointment_status"),
            job_states: count_states("/job/state"),
            database_requests: observations
                .database_requests
                .iter()
                .map(|(operation, count)| (*operation, count.requests))
                .collect(),
            database_per_accepted_webhook: DatabaseUse::per_webhook(observations, accepted),
        };
        if calls >= CALLS_WITH_EVERY_FAULT {
            summary.missing_faults = summary.find_missing_faults();
        }
        summary
    }

    /// True if there is no mismatch, and every fault occurred that this run should have contained.
    pub(in crate::demo) fn is_right(&self) -> bool {
        self.wrong_calls + self.other_mismatches + self.phones_rung_twice == 0 && self.missing_faults.is_empty()
    }

    pub(in crate::demo) fn print_json(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "{}", serde_json::to_string_pretty(self)?)
    }

    fn find_missing_faults(&self) -> Vec<&'static str> {
        let of_placed_calls = [
            ("retries", self.retries as u64),
            ("dials in doubt", self.dials_in_doubt),
            ("endings looked up", self.endings_looked_up as u64),
            ("calls triggered by hand", self.calls_triggered as u64),
            ("calls canceled", self.calls_canceled as u64),
        ];
        let all = self.faults.all().into_iter().chain(of_placed_calls);
        all.filter(|(_, count)| *count == 0).map(|(name, _)| name).collect()
    }
}

impl DatabaseUse {
    fn per_webhook(observations: &Observations, accepted: u64) -> Self {
        let mut all = switchhook_local::dynamodb::Count::default();
        for count in observations.database_requests.values() {
            all.requests += count.requests;
            all.read_units += count.read_units;
            all.write_units += count.write_units;
            all.index_write_units += count.index_write_units;
        }
        let share = |total: f64| (total / accepted.max(1) as f64 * 100.0).round() / 100.0;
        Self {
            requests: share(all.requests as f64),
            read_units: share(all.read_units),
            write_units: share(all.write_units),
            index_write_units: share(all.index_write_units),
        }
    }
}

/// Number of attempts that the API shows.
pub(super) fn attempts(observed: &ObservedCall) -> usize {
    let attempts = observed.call.as_ref().and_then(|call| call.get("attempts")?.as_array());
    attempts.map_or(0, Vec::len)
}

/// Counts the dispositions of all webhooks about calls that others place.
fn count_dispositions(observations: &Observations) -> BTreeMap<String, u64> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for observed in &observations.calls {
        for (event_id, disposition) in dispositions(&observed.timeline) {
            // Switchhook's own events are no webhooks.
            if !event_id.starts_with("switchhook:") {
                *counts.entry(disposition).or_default() += 1;
            }
        }
    }
    counts
}

/// Returns the disposition of each event of a timeline. An event may have several entries: its own fact, and facts that
/// it implies. The disposition of its own fact counts.
fn dispositions(timeline: &[Value]) -> BTreeMap<String, String> {
    let mut by_event: BTreeMap<String, (bool, String)> = BTreeMap::new();
    for entry in timeline {
        let implied = entry.get("implied").and_then(Value::as_bool).unwrap_or_default();
        let id = text(entry, "event_id");
        let suffix = format!("~{}", text(entry, "kind"));
        let event_id = if implied { id.strip_suffix(&suffix).unwrap_or(id) } else { id };
        let disposition = (implied, text(entry, "disposition").to_owned());
        let known = by_event.entry(event_id.to_owned()).or_insert_with(|| disposition.clone());
        if known.0 && !implied {
            *known = disposition;
        }
    }
    by_event.into_iter().map(|(id, (_, disposition))| (id, disposition)).collect()
}

/// Describes a mismatch, with the call that it concerns.
fn describe(traffic: &Traffic, mismatch: &Mismatch) -> String {
    let Mismatch { call, description } = mismatch;
    let script = call.and_then(|call| traffic.scripts.get(call));
    let placed = call.and_then(|call| traffic.placed_scripts.get(call.checked_sub(traffic.scripts.len())?));
    match (script, placed) {
        (Some(script), _) => format!("{}: {description}", script.call_id),
        (None, Some(placed)) => format!("{} ({:?}): {description}", placed.key, placed.pattern),
        (None, None) => description.clone(),
    }
}
