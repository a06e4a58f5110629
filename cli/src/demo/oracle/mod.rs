//! What must be shown and announced of each call, from the script and from what was delivered of it; and what is wrong
//! with what was.
//!
//! **Nothing of Switchhook's own is used here**: no type, no table, no rule. What a call must come to is written down in
//! [`known`] as what the script says less what was lost, what must be announced in [`announced`], and this module
//! compares, field by field, with the JSON that subscribers and callers of the API get.

mod announced;
mod choices;
mod known;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::placed;
use super::play::{Answer, Placed, Played, Shown};
use super::script::{Millis, Report, Script, Vendor};
use super::traffic::{Delivered, Delivery, PATIENCE, TICK, Traffic};
use known::Known;

pub(super) use announced::findings as announced_findings;

/// A report that got through: the one delivery of it that was believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Receipt {
    /// Index into the script's reports.
    pub(crate) report: usize,
    /// The id under which Switchhook acknowledged it.
    pub(crate) event_id: String,
    pub(crate) at: Millis,
}

/// A call as the oracle follows it, whoever placed it.
#[derive(Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) call_id: &'a str,
    pub(crate) vendor: Vendor,
    pub(crate) appointment_id: Option<&'a str>,
    /// One for each attempt.
    pub(crate) vendor_call_ids: Vec<Option<&'a str>>,
    pub(crate) reports: &'a [Report],
    /// None: others place it.
    pub(crate) plan: Option<Plan>,
}

/// What Switchhook has to make of a call that it places.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    /// When each attempt was dialled.
    pub(crate) dialled_at: Vec<Millis>,
    /// One for each attempt that has to be followed by another.
    pub(crate) retries: Vec<Retry>,
    /// After the last attempt nobody has been reached.
    pub(crate) fails: bool,
    /// When the user wanted no call any more.
    pub(crate) canceled_at: Option<Millis>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Retry {
    /// From the end of the attempt before it, as far as that is known, to when it is due.
    pub(crate) delay_max: Millis,
    /// When the provider was asked for it.
    pub(crate) asked_at: Millis,
}

/// Something of which a call can be known.
#[derive(Clone, Debug)]
pub(crate) enum Moment {
    /// A report came.
    Came(Receipt),
    /// The provider was asked, and answered what this report says.
    Asked(Receipt),
    /// The provider was asked, and has no such call.
    Unknown {
        /// Index into the subject's attempts.
        attempt: usize,
        at: Millis,
    },
}

/// Something that is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The scripts first, then the orders; none: of no one call.
    pub(crate) call: Option<usize>,
    pub(crate) what: String,
}

impl<'a> Subject<'a> {
    fn of(script: &'a Script) -> Self {
        Self {
            call_id: &script.call_id,
            vendor: script.vendor,
            appointment_id: script.appointment_id.as_deref(),
            vendor_call_ids: script.attempts.iter().map(|attempt| attempt.vendor_call_id.as_deref()).collect(),
            reports: &script.reports,
            plan: None,
        }
    }
}

impl Plan {
    /// True if this attempt is followed by another.
    fn retries(&self, attempt: usize) -> bool {
        attempt < self.retries.len()
    }

    /// Between which moments the next attempt is due, if the end of this one became known between these; none if there is no next
    /// one.
    fn retried_between(&self, attempt: usize, (earliest, latest): (Millis, Millis)) -> Option<(Millis, Millis)> {
        let Retry { delay_max, asked_at } = *self.retries.get(attempt)?;
        Some((earliest, asked_at.min(latest + delay_max)))
    }
}

impl Moment {
    pub(crate) const fn at(&self) -> Millis {
        match self {
            Self::Came(receipt) | Self::Asked(receipt) => receipt.at,
            Self::Unknown { at, .. } => *at,
        }
    }
}

/// Everything that is wrong.
pub(crate) fn findings(traffic: &Traffic, played: &Played) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut found = |call: Option<usize>, what: String| findings.push(Finding { call, what });
    let receipts = receipts(traffic, played, &mut found);
    for (call, script) in traffic.scripts.iter().enumerate() {
        let (receipts, shown) = (receipts.get(call).map_or(&[][..], Vec::as_slice), played.calls.get(call));
        for what in call_findings(script, receipts, shown.unwrap_or(&Shown::default())) {
            found(Some(call), what);
        }
    }
    for (index, order) in traffic.orders.iter().enumerate() {
        let nothing = Placed::default();
        for what in placed::findings(order, played.placed.get(index).unwrap_or(&nothing)) {
            found(Some(traffic.scripts.len() + index), what);
        }
    }
    whole_findings(traffic, played, &mut |what| found(None, what));
    findings
}

/// What got through of each call, in the order of arrival. Finds fault with answers on the way.
pub(crate) fn receipts(
    traffic: &Traffic,
    played: &Played,
    found: &mut impl FnMut(Option<usize>, String),
) -> Vec<Vec<Receipt>> {
    let mut all: Vec<Vec<Receipt>> = vec![Vec::new(); traffic.scripts.len()];
    let mut known: BTreeSet<(usize, usize)> = BTreeSet::new();
    for (delivery, answer) in traffic.deliveries.iter().zip(&played.answers) {
        let first = delivery.report.is_some_and(|report| known.insert((delivery.call, report)));
        let expected = expected_answer(traffic, delivery, first);
        if (answer.code, answer.status.as_str()) != expected {
            let Answer { code, status, .. } = answer;
            let what = format!("{} was answered {code} {status}, not {} {}", delivery.name, expected.0, expected.1);
            found(Some(delivery.call), what);
        }
        let folded = delivery.report.filter(|report| {
            let script = traffic.scripts.get(delivery.call);
            script.and_then(|script| script.reports.get(*report)).is_some_and(|report| report.is_folded())
        });
        let (Some(report), Some(of_call)) = (folded, all.get_mut(delivery.call)) else { continue };
        let event_id = answer.event_id.clone().unwrap_or_default();
        match of_call.iter().find(|receipt| receipt.report == report) {
            None => of_call.push(Receipt { report, event_id, at: delivery.at }),
            Some(receipt) if receipt.event_id == event_id => {}
            Some(receipt) => found(
                Some(delivery.call),
                format!("the repeated {} is known as {event_id}, not as {}", delivery.name, receipt.event_id),
            ),
        }
    }
    all
}

fn expected_answer(traffic: &Traffic, delivery: &Delivery, first: bool) -> (u16, &'static str) {
    let report = delivery.report.and_then(|report| traffic.scripts.get(delivery.call)?.reports.get(report));
    match (delivery.how, report) {
        (Delivered::Forged(_), _) => (401, "invalid_signature"),
        (Delivered::Unreadable, _) => (200, "quarantined"),
        (Delivered::Claimed, _) => (200, "accepted"),
        (Delivered::Once | Delivered::Again | Delivered::Reworded, _) if !first => (200, "already_processed"),
        (Delivered::Once | Delivered::Again | Delivered::Reworded, Some(report)) if !report.is_folded() => {
            (200, "recorded")
        }
        (Delivered::Once | Delivered::Again | Delivered::Reworded, _) => (200, "accepted"),
    }
}

/// What is wrong with one call.
pub(crate) fn call_findings(script: &Script, receipts: &[Receipt], shown: &Shown) -> Vec<String> {
    let mut findings = Vec::new();
    let Some(call) = &shown.call else {
        findings.push(format!("{} is not known at all", script.call_id));
        return findings;
    };
    let subject = Subject::of(script);
    let moments: Vec<Moment> = receipts.iter().cloned().map(Moment::Came).collect();
    let known = Known::in_the_end(&subject, &moments);
    state_findings(script, &known, call, &mut findings);
    timeline_findings(&script.call_id, &moments, &shown.timeline, &mut findings);
    findings.extend(announced_findings(&subject, &moments, &shown.announced));
    findings
}

fn state_findings(script: &Script, known: &Known<'_>, call: &Value, findings: &mut Vec<String>) {
    let attempts = known.attempts();
    let latest = attempts.last();
    let mut check = |path: &str, expected: Value| {
        let actual = call.pointer(path).unwrap_or(&Value::Null);
        if *actual != expected {
            findings.push(format!("{path} is {actual}, must be {expected}"));
        }
    };
    check("/call_id", script.call_id.as_str().into());
    check("/provider", script.vendor.name().into());
    check("/appointment_id", script.appointment_id.as_deref().into());
    check("/lifecycle", latest.map(|attempt| attempt.final_lifecycle()).into());
    check("/outcome", latest.map(|attempt| attempt.final_outcome()).into());
    check("/appointment_status", known.final_appointment().into());
    check("/job/state", known.final_job().into());
    check("/settled", true.into());
    for (place, attempt) in attempts.iter().enumerate() {
        check(&format!("/attempts/{place}/number"), (place + 1).into());
        check(&format!("/attempts/{place}/provider_call_id"), attempt.vendor_call_id().into());
        check(&format!("/attempts/{place}/lifecycle"), attempt.final_lifecycle().into());
        check(&format!("/attempts/{place}/outcome"), attempt.final_outcome().into());
    }
    check(&format!("/attempts/{}", attempts.len()), Value::Null);
    // Where nothing was lost, what is shown is simply what happened.
    if known.is_whole() {
        for (place, attempt) in attempts.iter().enumerate() {
            let Some(story) = script.attempts.get(attempt.index).map(|attempt| &attempt.story) else { continue };
            check(&format!("/attempts/{place}/lifecycle"), story.ending.status().into());
            check(&format!("/attempts/{place}/outcome"), known::true_outcome(story).into());
        }
    }
    for (place, attempt) in attempts.iter().enumerate() {
        let ended_at = call.pointer(&format!("/attempts/{place}/ended_at")).and_then(Value::as_str).unwrap_or_default();
        let at = ended_at.parse::<jiff::Timestamp>().map(jiff::Timestamp::as_millisecond).unwrap_or_default();
        if !attempt.may_have_ended_at(at) {
            findings.push(format!("/attempts/{place}/ended_at is {ended_at}, which nobody said"));
        }
    }
    let direction = call.pointer("/direction").and_then(Value::as_str);
    let true_direction = if script.inbound { "inbound" } else { "outbound" };
    if direction.is_some_and(|direction| direction != true_direction)
        || script.vendor == Vendor::Retell && direction.is_none()
    {
        findings.push(format!("/direction is {direction:?}, must be {true_direction}"));
    }
}

/// The timeline holds what was acknowledged, all of it and nothing else but what the provider answered.
pub(crate) fn timeline_findings(call_id: &str, moments: &[Moment], timeline: &[Value], findings: &mut Vec<String>) {
    let mut heard: BTreeSet<&str> = BTreeSet::new();
    let mut answered: BTreeSet<&str> = BTreeSet::new();
    for moment in moments {
        match moment {
            Moment::Came(receipt) => drop(heard.insert(&receipt.event_id)),
            Moment::Asked(receipt) => drop(answered.insert(&receipt.event_id)),
            Moment::Unknown { .. } => {}
        }
    }
    let own = format!("switchhook:{call_id}/");
    let mut told: BTreeSet<&str> = BTreeSet::new();
    for entry in timeline {
        let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
        let id = text("event_id");
        let implied = entry.get("implied").and_then(Value::as_bool).unwrap_or_default();
        let event_id = if implied { id.strip_suffix(&format!("~{}", text("kind"))).unwrap_or(id) } else { id };
        if !heard.contains(event_id) && !answered.contains(event_id) && !event_id.starts_with(&own) {
            findings.push(format!("the timeline holds {event_id}, which nobody sent"));
        }
        told.insert(event_id);
    }
    for missing in heard.difference(&told) {
        findings.push(format!("the timeline lacks {missing}, which was acknowledged"));
    }
}

/// What is wrong with the run as a whole.
fn whole_findings(traffic: &Traffic, played: &Played, found: &mut impl FnMut(String)) {
    let troubles = &traffic.troubles;
    for event in &played.strangers {
        found(format!("a domain event of a call that nobody made: {event}"));
    }
    for id in &played.two_faced {
        found(format!("the domain event {id} was published with two contents"));
    }
    for line in &played.failures {
        found(format!("a failure was logged: {line}"));
    }
    for status in &played.claims {
        let disposition = status.get("disposition").and_then(Value::as_str);
        if disposition != Some("refused") {
            found(format!("the claim of another provider is {disposition:?}, must be refused: {status}"));
        }
    }
    quarantine_findings(traffic, played, found);
    // Of the calls that others placed the provider that can be asked knows nothing.
    for call_id in &played.drifts {
        if !played.placed.iter().any(|placed| placed.call_id == *call_id) {
            found(format!("the provider disagrees about {call_id}, which it never had"));
        }
    }
    let mut check = |what: &str, actual: u64, expected: u64| {
        if actual != expected {
            found(format!("{what}: {actual}, must be {expected}"));
        }
    };
    check("claims that were looked up", played.claims.len() as u64, troubles.claimed);
    let cause = |name: &str| played.causes.get(name).copied().unwrap_or_default();
    let bad = troubles.wrong_key + troubles.flipped_bit + troubles.no_signature;
    check("requests refused for their signature", cause("bad_signature"), bad);
    check("requests refused for their age", cause("stale_timestamp"), troubles.stale_timestamp);
    check("requests refused for any cause", played.causes.values().sum(), bad + troubles.stale_timestamp);
    check("messages still in the queue", (played.waiting.visible + played.waiting.in_flight) as u64, 0);
    check("claims still in the queue", (played.dials_waiting.visible + played.dials_waiting.in_flight) as u64, 0);
    check("phones that rang twice", played.phones_rung_twice as u64, 0);
    let dead = played.dead_letters.visible + played.dead_letters.in_flight;
    check("messages in the dead-letter queue", dead as u64, troubles.unreadable);
    let unrelayed = played.relay_failures.visible + played.relay_failures.in_flight;
    check("records that the relay gave up on", unrelayed as u64, 0);
}

/// Each webhook that could not be read is announced once, and nothing else is announced so.
fn quarantine_findings(traffic: &Traffic, played: &Played, found: &mut impl FnMut(String)) {
    let deliveries = traffic.deliveries.iter().zip(&played.answers);
    let expected: Vec<Value> = deliveries
        .filter(|(delivery, _)| delivery.how == Delivered::Unreadable)
        .map(|(delivery, answer)| {
            let event_id = answer.event_id.clone().unwrap_or_default();
            json!({
                "id": format!("{event_id}/quarantined"),
                "event_id": event_id,
                "provider": delivery.vendor.name(),
                "call_id": null,
                "at": delivery.at,
            })
        })
        .collect();
    let actual: Vec<Value> = played
        .quarantined
        .iter()
        .map(|event| {
            let field = |name: &str| event.get(name).cloned().unwrap_or_default();
            let at = field("occurred_at").as_str().and_then(|at| at.parse::<jiff::Timestamp>().ok());
            json!({
                "id": field("id"),
                "event_id": field("event_id"),
                "provider": field("provider"),
                "call_id": field("call_id"),
                "at": at.map(jiff::Timestamp::as_millisecond),
            })
        })
        .collect();
    for missing in expected.iter().filter(|event| !actual.contains(event)) {
        found(format!("it is not announced that a webhook cannot be read: {missing}"));
    }
    for extra in actual.iter().filter(|event| !expected.contains(event)) {
        found(format!("it is announced that a webhook cannot be read, and none such came: {extra}"));
    }
}

/// Between these two moments silence since `heard_at` is found out.
pub(crate) const fn found_out(heard_at: Millis) -> (Millis, Millis) {
    (heard_at + PATIENCE, heard_at + PATIENCE + 2 * TICK)
}
