//! The summary as text for people.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use super::summary::{DatabaseUse, Summary};
use crate::demo::script::MINUTE;
use crate::demo::stack_settings::INACTIVITY_TIMEOUT;

/// Prints the summary. The result comes last, where a reader sees it first.
pub(in crate::demo) fn print_summary(summary: &Summary, wall_time: Duration, out: &mut impl Write) -> io::Result<()> {
    let Summary { seed, calls, calls_placed, webhooks_delivered, .. } = summary;
    let placed_by_others = calls - calls_placed;
    writeln!(out, "{calls} calls, seed {seed}: others placed {placed_by_others}, Switchhook placed {calls_placed}.")?;

    writeln!(out, "\nWebhooks about the calls that others placed: {webhooks_delivered} deliveries")?;
    let causes = list(&summary.rejected_by_cause);
    figure(out, summary.accepted, "accepted: new, stored and processed")?;
    figure(out, summary.duplicates, "duplicates: seen before, changed nothing")?;
    figure(out, summary.rejected, &format!("rejected: {causes}"))?;
    figure(out, summary.recorded, "recorded: authentic, but not about the state of a call")?;
    figure(out, summary.quarantined, "quarantined: authentic, but not readable")?;

    writeln!(out, "\nFaults in these deliveries")?;
    for (description, count) in summary.faults.all() {
        figure(out, count, description)?;
    }

    writeln!(out, "\nEffect of the accepted webhooks")?;
    figure(out, summary.applied, "applied: led to the final state")?;
    figure(out, summary.stale, "stale: superseded by other events")?;
    figure(out, summary.parked, "parked: waited for an event that was lost")?;
    figure(out, summary.refused, "refused: contradicted the state")?;

    writeln!(out, "\nCalls that Switchhook placed: {calls_placed} calls")?;
    figure(out, summary.phones_rung as u64, "phones rang")?;
    figure(out, summary.retries as u64, "attempts were retries")?;
    figure(out, summary.claims, "claims of a call by the scheduler or by a manual trigger")?;
    figure(out, summary.dials_in_doubt, "dials in doubt: the provider did not answer, and was asked later")?;
    figure(out, summary.dials_withdrawn, "dials refused by the provider's rate limit, and repeated")?;
    figure(out, summary.endings_looked_up as u64, "calls whose ending was looked up, because its webhook was lost")?;
    figure(out, summary.calls_triggered as u64, "calls triggered by hand")?;
    figure(out, summary.calls_canceled as u64, "calls canceled")?;

    writeln!(out, "\nFinal state of all {calls} calls")?;
    writeln!(out, "  lifecycle    {}", list(&summary.lifecycles))?;
    writeln!(out, "  outcome      {}", list(&summary.outcomes))?;
    writeln!(out, "  appointment  {}", list(&summary.appointment_statuses))?;
    writeln!(out, "  job          {}", list(&summary.job_states))?;
    figure(out, summary.domain_events as u64, "domain events published, each under its own id")?;
    let minutes = INACTIVITY_TIMEOUT / MINUTE;
    let timeouts = format!("inactivity timeouts: no report of an attempt for {minutes} minutes");
    figure(out, summary.inactivity_timeouts, &timeouts)?;

    let DatabaseUse { requests, read_units, write_units, index_write_units } = &summary.database_per_accepted_webhook;
    writeln!(out, "\nDatabase use of the whole run, divided by the accepted webhooks")?;
    writeln!(
        out,
        "  {requests} requests, {read_units} read units, {write_units} write units, \
         {index_write_units} write units for indexes",
    )?;

    writeln!(
        out,
        "\nResult, after {:.1} s: every call was compared with what truly happened",
        wall_time.as_secs_f64()
    )?;
    figure(out, summary.wrong_calls as u64, "wrong calls: in state, timeline, phones or domain events")?;
    figure(out, summary.other_mismatches as u64, "other differences: queues, logs, rejections")?;
    figure(out, summary.phones_rung_twice as u64, "phones rang twice for one attempt")?;
    for mismatch in &summary.mismatches {
        writeln!(out, "  wrong: {mismatch}")?;
    }
    for fault in &summary.missing_faults {
        writeln!(out, "  never tried in this run: {fault}")?;
    }
    Ok(())
}

fn figure(out: &mut impl Write, count: u64, meaning: &str) -> io::Result<()> {
    writeln!(out, "  {count:>6}  {meaning}")
}

/// Lists names with their counts, the largest count first.
fn list(counts: &BTreeMap<String, u64>) -> String {
    let mut counts: Vec<(&String, &u64)> = counts.iter().collect();
    counts.sort_by_key(|(_, count)| Reverse(**count));
    counts.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
}
