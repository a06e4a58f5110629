//! What the demo tells of itself: figures for people and programs, and four calls in full.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value;

use super::oracle::Finding;
use super::placed::{Course, Demand, LearnedBy, Order, learned_by};
use super::play::{Placed, Played, Shown};
use super::script::{Millis, SECOND, Script};
use super::traffic::{Delivered, Delivery, Traffic, Troubles};

/// With fewer calls some trouble may be missing by chance.
const CALLS_WITH_EVERY_TROUBLE: usize = 200;
/// Findings that are printed.
const FINDINGS_SHOWN: usize = 20;

/// The figures. The same seed gives the same.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    seed: u64,
    calls: usize,
    deliveries: usize,
    accepted: u64,
    duplicates: u64,
    rejected: u64,
    /// Authentic, and of a type that is not folded.
    recorded: u64,
    /// Authentic, and unreadable.
    quarantined: u64,
    applied: u64,
    stale: u64,
    parked: u64,
    refused: u64,
    /// Calls that Switchhook was asked to place.
    placed: usize,
    /// Phones that rang.
    dialled: usize,
    phones_rung_twice: usize,
    /// Attempts after the first of their calls.
    retried: usize,
    claimed: u64,
    /// Dials of which the provider did not say whether it took them.
    in_doubt: u64,
    /// Dials that the provider would not take at that time.
    withdrawn: u64,
    /// Claims given back because the person may not be called at that hour.
    postponed: u64,
    /// Calls whose ending was learned by asking the provider.
    reconciled: usize,
    triggered: usize,
    canceled: usize,
    /// Requests that were made before, and created nothing.
    repeated_requests: usize,
    /// Calls about which the provider disagreed, and that were folded again.
    drifts: usize,
    /// Calls of which nobody told the ending.
    inconclusive: u64,
    /// Silences that the reconciler found out.
    deadlines: u64,
    domain_events: usize,
    /// Calls that are not as they must be, and what else is wrong.
    wrong: usize,
    rejected_by_cause: BTreeMap<String, u64>,
    lifecycles: BTreeMap<String, u64>,
    outcomes: BTreeMap<String, u64>,
    appointments: BTreeMap<String, u64>,
    jobs: BTreeMap<String, u64>,
    troubles: Troubles,
    /// Requests to the database by operation.
    database_requests: BTreeMap<&'static str, u64>,
    /// What an accepted event cost at the database: its share of everything, duplicates and schedules included.
    database_per_accepted: PerAccepted,
    findings: Vec<String>,
    missing_troubles: Vec<&'static str>,
}

#[derive(Debug, Serialize)]
struct PerAccepted {
    requests: f64,
    read_units: f64,
    write_units: f64,
    index_write_units: f64,
}

impl Summary {
    pub(crate) fn new(seed: u64, traffic: &Traffic, played: &Played, findings: &[Finding]) -> Self {
        let answered = |status: &str| played.answers.iter().filter(|answer| answer.status == status).count() as u64;
        let shown = |pointer: &str| {
            let mut counts = BTreeMap::new();
            let placed = played.placed.iter().map(|placed| &placed.shown);
            for call in played.calls.iter().chain(placed).filter_map(|shown| shown.call.as_ref()) {
                let state = call.pointer(pointer).and_then(Value::as_str).unwrap_or("none");
                *counts.entry(state.to_owned()).or_default() += 1;
            }
            counts
        };
        let mut dispositions: BTreeMap<String, u64> = BTreeMap::new();
        for shown in &played.calls {
            for (event_id, disposition) in dispositions_of(&shown.timeline) {
                if !event_id.starts_with("switchhook:") {
                    *dispositions.entry(disposition).or_default() += 1;
                }
            }
        }
        for claim in &played.claims {
            *dispositions.entry(text(claim, "disposition").to_owned()).or_default() += 1;
        }
        let all = || played.calls.iter().chain(played.placed.iter().map(|placed| &placed.shown));
        let is_deadline = |entry: &&Value| text(entry, "kind") == "deadline_passed";
        let deadlines = all().flat_map(|shown| &shown.timeline).filter(is_deadline).count() as u64;
        let decided = |name: &str| played.decided.get(name).copied().unwrap_or_default();
        let replies = |demand: Demand| {
            let all = played.placed.iter().flat_map(|placed| &placed.replies);
            all.filter(|reply| reply.request.demand == demand && reply.code < 300).count()
        };
        let disposed = |name: &str| dispositions.get(name).copied().unwrap_or_default();
        let lifecycles: BTreeMap<String, u64> = shown("/lifecycle");
        let accepted = answered("accepted");
        let wrong: BTreeSet<usize> = findings.iter().filter_map(|finding| finding.call).collect();
        let retried = played.placed.iter().map(|placed| attempts(&placed.shown).saturating_sub(1)).sum();
        let learned = played.placed.iter().map(|placed| learned_by(placed, &played.sent));
        let reconciled = learned.filter(|learned| *learned == LearnedBy::Asking).count();
        let (triggered, canceled) = (replies(Demand::Trigger), replies(Demand::Cancel));
        let (in_doubt, withdrawn, postponed) =
            (decided("dial_in_doubt"), decided("dial_withdrawn"), decided("window_closed"));
        let of_placed = [
            ("calls retried", retried as u64),
            ("dials in doubt", in_doubt),
            ("claims out of hours", postponed),
            ("endings learned by asking", reconciled as u64),
            ("calls triggered by hand", triggered as u64),
            ("calls canceled", canceled as u64),
        ];
        let missing_troubles = if traffic.scripts.len() + traffic.orders.len() >= CALLS_WITH_EVERY_TROUBLE {
            let all = traffic.troubles.all().into_iter().chain(of_placed);
            all.filter(|(_, count)| *count == 0).map(|(name, _)| name).collect()
        } else {
            Vec::new()
        };
        Self {
            seed,
            calls: traffic.scripts.len() + traffic.orders.len(),
            deliveries: traffic.deliveries.len(),
            accepted,
            duplicates: answered("already_processed"),
            rejected: played.answers.iter().filter(|answer| (400..500).contains(&answer.code)).count() as u64,
            recorded: answered("recorded"),
            quarantined: answered("quarantined"),
            applied: disposed("applied"),
            stale: disposed("stale"),
            parked: disposed("parked"),
            refused: disposed("refused"),
            placed: traffic.orders.len(),
            dialled: played.placed.iter().map(|placed| placed.rang.len()).sum(),
            phones_rung_twice: played.phones_rung_twice,
            retried,
            claimed: decided("claimed") + decided("triggered"),
            in_doubt,
            withdrawn,
            postponed,
            reconciled,
            triggered,
            canceled,
            repeated_requests: replies(Demand::CreateAgain),
            drifts: played.drifts.len(),
            inconclusive: lifecycles.get("inconclusive").copied().unwrap_or_default(),
            deadlines,
            domain_events: all().map(|shown| shown.announced.len()).sum(),
            wrong: wrong.len() + findings.iter().filter(|finding| finding.call.is_none()).count(),
            rejected_by_cause: played.causes.clone(),
            lifecycles,
            outcomes: shown("/outcome"),
            appointments: shown("/appointment_status"),
            jobs: shown("/job/state"),
            troubles: traffic.troubles,
            database_requests: played.database.iter().map(|(name, count)| (*name, count.requests)).collect(),
            database_per_accepted: PerAccepted::of(played, accepted),
            findings: findings.iter().take(FINDINGS_SHOWN).map(|finding| sentence(traffic, finding)).collect(),
            missing_troubles,
        }
    }

    /// True if nothing is wrong, and nothing that had to be tried was left out.
    pub(crate) fn is_right(&self) -> bool {
        self.wrong == 0 && self.phones_rung_twice == 0 && self.missing_troubles.is_empty()
    }

    pub(crate) fn print_json(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "{}", serde_json::to_string_pretty(self)?)
    }

    /// For people.
    pub(crate) fn print(&self, played: &Played, out: &mut impl Write) -> io::Result<()> {
        let Self { seed, calls, deliveries, .. } = self;
        writeln!(out, "{calls} calls, {deliveries} deliveries, seed {seed}\n")?;
        let list = |counts: &BTreeMap<String, u64>| {
            let mut counts: Vec<(&String, &u64)> = counts.iter().collect();
            counts.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
            counts.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
        };
        writeln!(out, "calls by state       {}", list(&self.lifecycles))?;
        writeln!(out, "calls by outcome     {}", list(&self.outcomes))?;
        writeln!(out, "appointments         {}", list(&self.appointments))?;
        writeln!(out, "jobs                 {}", list(&self.jobs))?;
        writeln!(
            out,
            "webhooks             accepted {}, duplicates {}, recorded {}, quarantined {}, refused {}",
            self.accepted, self.duplicates, self.recorded, self.quarantined, self.rejected,
        )?;
        writeln!(out, "refused webhooks     {}", list(&self.rejected_by_cause))?;
        writeln!(
            out,
            "dispositions         applied {}, stale {}, parked {}, refused {}",
            self.applied, self.stale, self.parked, self.refused,
        )?;
        writeln!(
            out,
            "calls placed         {}: claimed {}, phones rung {}, retried {}, canceled {}, triggered by hand {}",
            self.placed, self.claimed, self.dialled, self.retried, self.canceled, self.triggered,
        )?;
        writeln!(
            out,
            "                     dials in doubt {}, not taken {}, out of hours {}, endings learned by asking {}",
            self.in_doubt, self.withdrawn, self.postponed, self.reconciled,
        )?;
        writeln!(out, "phones rung twice    {}", self.phones_rung_twice)?;
        writeln!(out, "deadlines passed     {}", self.deadlines)?;
        writeln!(out, "domain events        {}, each announced once under its id", self.domain_events)?;
        let PerAccepted { requests, read_units, write_units, index_write_units } = &self.database_per_accepted;
        writeln!(
            out,
            "per accepted event   {requests} requests to the database, {read_units} read units, \
             {write_units} + {index_write_units} (indexes) write units",
        )?;
        writeln!(out, "\ntroubles made")?;
        for (name, count) in self.troubles.all() {
            writeln!(out, "  {count:>6}  {name}")?;
        }
        writeln!(out, "\nwall time            {:.1} s", played.took.as_secs_f64())?;
        writeln!(out, "wrong states: {}", self.wrong)?;
        for finding in &self.findings {
            writeln!(out, "  {finding}")?;
        }
        for name in &self.missing_troubles {
            writeln!(out, "  this trouble was never made: {name}")?;
        }
        Ok(())
    }
}

impl PerAccepted {
    fn of(played: &Played, accepted: u64) -> Self {
        let mut all = switchhook_local::dynamodb::Count::default();
        for count in played.database.values() {
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

/// What became of each event of a timeline: what it says itself comes before what it implies.
fn dispositions_of(timeline: &[Value]) -> BTreeMap<String, String> {
    let mut own: BTreeMap<String, (bool, String)> = BTreeMap::new();
    for entry in timeline {
        let implied = entry.get("implied").and_then(Value::as_bool).unwrap_or_default();
        let id = text(entry, "event_id");
        let suffix = format!("~{}", text(entry, "kind"));
        let event_id = if implied { id.strip_suffix(&suffix).unwrap_or(id) } else { id };
        let disposition = (implied, text(entry, "disposition").to_owned());
        let known = own.entry(event_id.to_owned()).or_insert_with(|| disposition.clone());
        if known.0 && !implied {
            *known = disposition;
        }
    }
    own.into_iter().map(|(id, (_, disposition))| (id, disposition)).collect()
}

fn sentence(traffic: &Traffic, finding: &Finding) -> String {
    let script = finding.call.and_then(|call| traffic.scripts.get(call));
    let order = finding.call.and_then(|call| traffic.orders.get(call.checked_sub(traffic.scripts.len())?));
    match (script, order) {
        (Some(script), _) => format!("{}: {}", script.call_id, finding.what),
        (None, Some(order)) => format!("{} ({:?}): {}", order.key, order.course, finding.what),
        (None, None) => finding.what.clone(),
    }
}

/// Four calls in full: one whose reports came out of order, one that lost some, one that was lied about, and one that
/// Switchhook placed and had to place again.
pub(crate) fn print_timelines(traffic: &Traffic, played: &Played, out: &mut impl Write) -> io::Result<()> {
    let of_call = |call: usize| traffic.deliveries.iter().filter(move |delivery| delivery.call == call);
    let once = |call: usize| of_call(call).filter(|delivery| delivery.how == Delivered::Once);
    let reordered = |call: usize| once(call).filter_map(|delivery| delivery.report).is_sorted();
    let lost = |call: usize, script: &Script| script.reports.len() > once(call).count();
    let forged = |call: usize| of_call(call).any(|delivery| matches!(delivery.how, Delivered::Forged(_)));
    type Wanted<'a> = (&'a str, Box<dyn Fn(usize, &Script) -> bool + 'a>);
    let wanted: [Wanted<'_>; 3] = [
        ("Reports out of order", Box::new(|call, script| !reordered(call) && !lost(call, script) && !forged(call))),
        ("Reports that never came", Box::new(|call, script| lost(call, script) && reordered(call))),
        ("Reports that nobody should believe", Box::new(|call, script| forged(call) && !lost(call, script))),
    ];
    for (title, fits) in &wanted {
        let calls = || traffic.scripts.iter().enumerate().filter(|(call, script)| fits(*call, script));
        let telling = calls().find(|(_, script)| script.reports.len() > 2).or_else(|| calls().next());
        if let Some((call, script)) = telling
            && let Some(shown) = played.calls.get(call)
        {
            let truth: Vec<&str> = script.attempts.iter().map(|attempt| attempt.story.plot.name()).collect();
            print_timeline(title, &script.call_id, &truth, shown, &lines(traffic, played, call), out)?;
        }
    }
    let retried = || traffic.orders.iter().zip(&played.placed).filter(|(_, placed)| attempts(&placed.shown) > 1);
    let doubtful = |(order, placed): &(&Order, &Placed)| {
        matches!(order.course, Course::WhileDown | Course::Repeated) && placed.rang.len() > 1
    };
    if let Some((order, placed)) = retried().find(doubtful).or_else(|| retried().next()) {
        let truth: Vec<&str> = lived(order, placed).collect();
        print_timeline(
            "Placed, and placed again",
            &placed.call_id,
            &truth,
            &placed.shown,
            &lines_of_placed(placed),
            out,
        )?;
    }
    Ok(())
}

/// What truly happened in each attempt of a call that Switchhook placed.
fn lived(order: &Order, placed: &Placed) -> impl Iterator<Item = &'static str> {
    let (lived, _) = order.life(|number| placed.found_down(number));
    lived.into_iter().map(super::placed::Person::name)
}

/// How many there were.
fn attempts(shown: &Shown) -> usize {
    let attempts = shown.call.as_ref().and_then(|call| call.get("attempts")?.as_array());
    attempts.map_or(0, Vec::len)
}

fn print_timeline(
    title: &str,
    call_id: &str,
    truth: &[&str],
    shown: &Shown,
    lines: &[(Millis, String)],
    out: &mut impl Write,
) -> io::Result<()> {
    writeln!(out, "\n{title}: {call_id}")?;
    writeln!(out, "  what truly happened: {}", truth.join("; then "))?;
    for (at, line) in lines {
        writeln!(out, "  {}  {line}", clock(*at))?;
    }
    let state = |pointer: &str| shown.call.as_ref().and_then(|call| call.pointer(pointer)?.as_str()).unwrap_or("-");
    writeln!(
        out,
        "  what is shown: {}, outcome {}, appointment {}, job {}",
        state("/lifecycle"),
        state("/outcome"),
        state("/appointment_status"),
        state("/job/state"),
    )
}

/// What came and what was announced, in the order of time.
fn lines(traffic: &Traffic, played: &Played, call: usize) -> Vec<(Millis, String)> {
    let mut lines: Vec<(Millis, String)> = Vec::new();
    let (Some(script), Some(shown)) = (traffic.scripts.get(call), played.calls.get(call)) else { return lines };
    let of_call = || traffic.deliveries.iter().zip(&played.answers).filter(|(delivery, _)| delivery.call == call);
    for (index, report) in script.reports.iter().enumerate() {
        if !of_call().any(|(delivery, _)| delivery.report == Some(index)) {
            lines.push((report.emitted_at, format!("✗ {:<22} lost on its way", report.name)));
        }
    }
    for (delivery, answer) in of_call() {
        let line = format!("→ {:<22} {}{}", delivery.name, remark(script, delivery), answer.status);
        lines.push((delivery.at, line));
    }
    lines.extend(announced(shown));
    lines.sort_by_key(|(at, _)| *at);
    lines
}

/// The same of a call that Switchhook placed: what was asked, phones, webhooks and what was announced.
fn lines_of_placed(placed: &Placed) -> Vec<(Millis, String)> {
    let mut lines: Vec<(Millis, String)> = Vec::new();
    for reply in &placed.replies {
        let answer = match reply.body.get("title").and_then(Value::as_str) {
            Some(title) => format!("{} {title}", reply.code),
            None => reply.code.to_string(),
        };
        lines.push((reply.request.at, format!("← {:<22} {answer}", reply.request.demand.name())));
    }
    for rang in &placed.rang {
        lines.push((rang.began, format!("☎ the phone rings         attempt {}: {}", rang.attempt, rang.behaviour)));
    }
    lines.extend(placed.sent.iter().map(|sent| (sent.at, format!("→ {}", sent.event))));
    lines.extend(announced(&placed.shown));
    lines.sort_by_key(|(at, _)| *at);
    lines
}

fn announced(shown: &Shown) -> impl Iterator<Item = (Millis, String)> {
    shown.published_at.iter().zip(&shown.announced).map(|(at, event)| {
        let corrects = event.get("corrects").and_then(Value::as_str);
        let corrects =
            corrects.and_then(|id| id.rsplit_once('/')).map(|(_, sequence)| format!(", corrects #{sequence}"));
        let due = time(event, "due_at").map(|at| format!(", due {}", clock(at)));
        let sequence = event.get("sequence").and_then(Value::as_u64).unwrap_or_default();
        let rest = corrects.or(due).unwrap_or_default();
        (*at, format!("    #{sequence} {}{rest}", text(event, "type")))
    })
}

fn remark(script: &Script, delivery: &Delivery) -> String {
    let made_at = delivery.report.and_then(|report| script.reports.get(report)).map(|report| report.emitted_at);
    let late = made_at.map_or(0, |made_at| (delivery.at - made_at) / SECOND);
    match delivery.how {
        Delivered::Once if late > 0 => format!("{late} s late: "),
        Delivered::Once => String::new(),
        Delivered::Again | Delivered::Reworded => "again: ".to_owned(),
        Delivered::Claimed => "claimed by another provider: ".to_owned(),
        Delivered::Unreadable => "unreadable: ".to_owned(),
        Delivered::Forged(forgery) => format!("forged, {}: ", forgery.name()),
    }
}

fn clock(at: Millis) -> String {
    jiff::Timestamp::from_millisecond(at).map(|time| time.strftime("%H:%M:%S%.3f").to_string()).unwrap_or_default()
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn time(value: &Value, name: &str) -> Option<Millis> {
    text(value, name).parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond)
}
