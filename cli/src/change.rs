//! Parts that all changing commands share: their options, the printed plan, and the run with its progress bar.

mod consequences;
mod go_on;
mod items;

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use clap::builder::{NonEmptyStringValueParser, RangedU64ValueParser};
use indicatif::ProgressBar;
use serde_json::json;
use switchhook_operate::copy::Counted;
use switchhook_operate::plan::{
    self, CallSummary, CopiedTable, Effect, ITEMS_MAX_DEFAULT, NotFound, Plan, PlanId, Skipped, Subject, Verb,
};
use switchhook_operate::run::{self, RATE_DEFAULT, Run, RunId, RunOptions, RunState};
use switchhook_operate::{Error, Stack, audit, selection};

use self::consequences::print_consequences;
use self::go_on::{Stage, print_how_to_go_on, print_next_plan, print_resume};
use self::items::print_items;
use crate::error::CommandError;
use crate::stack_choice::{Connection, StackChoice};
use crate::table::aligned;
use crate::words::{counted, progress, visible};

/// Number of effects, of other items, and of skipped items, that are printed.
const PRINTED_MAX: usize = 20;
/// Minutes of a search from which on a command without a progress bar says that it searches: a day.
const LONG_SEARCH_MINUTES: u64 = 24 * 60;

/// Options of a command that changes something.
#[derive(Clone, Debug, Args)]
pub(crate) struct Change {
    /// Carry the plan out; without it, the plan is printed and nothing changes
    #[arg(long)]
    yes: bool,
    /// Run this plan, which the same command printed at most 15 minutes ago
    #[arg(long, value_name = "PLAN", value_parser = NonEmptyStringValueParser::new())]
    plan: Option<String>,
    /// Why, for the audit record
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Largest number of items in the plan
    #[arg(
        long,
        value_name = "N",
        default_value_t = ITEMS_MAX_DEFAULT,
        value_parser = RangedU64ValueParser::<usize>::new().range(1..),
        conflicts_with = "plan"
    )]
    max: usize,
    /// Items per second
    #[arg(long, value_name = "N", default_value_t = RATE_DEFAULT, value_parser = clap::value_parser!(u32).range(1..))]
    rate: u32,
    /// Carry the plan out even if phones could ring
    #[arg(long)]
    allow_ringing: bool,
    #[command(flatten)]
    stack: StackChoice,
    /// Print the plan or the run as JSON
    #[arg(long)]
    json: bool,
}

/// End of a command that met no error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Everything is right.
    Found,
    /// The command found nothing, or found a difference, or did not finish.
    NotFound,
    /// The command was refused.
    Refused,
}

impl Change {
    /// Prints the plan that the operator named or that `plan` makes, and with `--yes` carries it out. `plan` gets the largest
    /// number of items, and a function that shows the progress of its search.
    pub(crate) fn carry_out(
        &self,
        verb: Verb,
        plan: impl AsyncFnOnce(&Stack, usize, selection::Progress<'_>) -> Result<Plan, Error>,
        out: &mut impl Write,
        errors: &mut impl Write,
    ) -> Result<Ended, CommandError> {
        let connection = self.connect()?;
        if self.names_plan() {
            return self.carry_out_named(&connection, verb, out, errors);
        }
        let plan = self.search(&connection, async |stack, progress| plan(stack, self.max, progress).await);
        self.carry_out_made(&connection, verb, plan, out, errors)
    }

    /// Connects to the stack, for a search and a run. A run that would be refused for its reason is refused before a long search.
    pub(crate) fn connect(&self) -> Result<Connection, CommandError> {
        if self.yes {
            audit::require_reason(self.reason.as_deref().unwrap_or_default())?;
        }
        Ok(self.stack.connect_patiently()?)
    }

    /// True if the operator named a plan, so that none is to be made.
    pub(crate) const fn names_plan(&self) -> bool {
        self.plan.is_some()
    }

    /// Returns the largest number of items in the plan.
    pub(crate) const fn max(&self) -> usize {
        self.max
    }

    /// True if the result is printed as JSON.
    pub(crate) const fn prints_json(&self) -> bool {
        self.json
    }

    /// Waits for a search of the inbox, and shows its progress.
    pub(crate) fn search<T>(
        &self,
        connection: &Connection,
        search: impl AsyncFnOnce(&Stack, selection::Progress<'_>) -> T,
    ) -> T {
        let bar = progress_bar(self.json, "minutes searched");
        // Without a terminal there is no bar, and a search of all that is stored takes long.
        let mut is_told = self.json || !bar.is_hidden();
        let mut progress = |done, all| {
            if !is_told && all >= LONG_SEARCH_MINUTES {
                is_told = true;
                let text = format!("searching {all} minutes of stored webhooks, which takes a while …");
                // The search goes on if nobody can read that.
                drop(writeln!(io::stderr(), "{text}"));
            }
            bar.set_length(all);
            bar.set_position(done);
        };
        let found = connection.block_on(search(&connection.stack, &mut progress));
        bar.finish_and_clear();
        found
    }

    /// Waits for a count whose end nobody knows, and shows how far it is.
    pub(crate) fn count<T>(
        &self,
        connection: &Connection,
        unit: &'static str,
        count: impl AsyncFnOnce(&Stack, Counted<'_>) -> T,
    ) -> T {
        let bar = progress_count(self.json, unit);
        let counted = connection.block_on(count(&connection.stack, &|more| bar.inc(more)));
        bar.finish_and_clear();
        counted
    }

    /// Prints the plan that the operator named, and with `--yes` carries it out.
    pub(crate) fn carry_out_named(
        &self,
        connection: &Connection,
        verb: Verb,
        out: &mut impl Write,
        errors: &mut impl Write,
    ) -> Result<Ended, CommandError> {
        let id = PlanId::new(self.plan.clone().unwrap_or_default());
        let plan = connection.block_on(Plan::load(&connection.stack, &id));
        self.carry_out_made(connection, verb, plan, out, errors)
    }

    /// Prints a plan or the refusal to make it, and with `--yes` carries the plan out. A plan of another command is refused, and so is one that
    /// was run already or has expired.
    pub(crate) fn carry_out_made(
        &self,
        connection: &Connection,
        verb: Verb,
        plan: Result<Plan, Error>,
        out: &mut impl Write,
        errors: &mut impl Write,
    ) -> Result<Ended, CommandError> {
        let plan = match plan {
            Ok(plan) => plan,
            Err(error) => return refused(error, errors),
        };
        for NotFound { id, reason } in &plan.not_found {
            writeln!(errors, "switchhook: {}: {reason}", visible(id))?;
        }
        let finds_nothing = !plan.not_found.is_empty() && plan.found() == 0;
        if !self.json && !finds_nothing {
            print_plan(&plan, self.rate, out)?;
        }
        if plan.items.is_empty() {
            if self.json {
                writeln!(out, "{:#}", json!(plan))?;
            }
            return Ok(Ended::NotFound);
        }
        if self.yes {
            return self.run(connection, verb, &plan, out, errors);
        }
        if self.json {
            writeln!(out, "{:#}", json!(plan))?;
        }
        // The operator may have named any plan.
        if self.names_plan()
            && let Err(error) = connection.block_on(run::check_plan(&connection.stack, &plan, verb))
        {
            return refused(error, errors);
        }
        if !self.json {
            let ringing = if plan.phones > 0 { " --allow-ringing" } else { "" };
            let command = plan.verb.command();
            let address = connection.stack.options();
            writeln!(out, "\nNothing has changed. To carry it out:")?;
            writeln!(out, "  switchhook {command} --plan {} {address}{ringing} --yes --reason TEXT", plan.id)?;
        }
        Ok(if plan.not_found.is_empty() { Ended::Found } else { Ended::NotFound })
    }

    fn run(
        &self,
        connection: &Connection,
        verb: Verb,
        plan: &Plan,
        out: &mut impl Write,
        errors: &mut impl Write,
    ) -> Result<Ended, CommandError> {
        let stack = &connection.stack;
        let done = with_progress(connection, self.json, async |progress| {
            let who = stack.caller().await?;
            let reason = self.reason.clone().unwrap_or_default();
            let options = RunOptions { who, reason, rate: self.rate, allow_ringing: self.allow_ringing };
            run::start(stack, &plan.id, verb, options, progress).await
        });
        tell_how_to_go_on(connection, &RunId::of_plan(&plan.id), &done, errors)?;
        match done {
            Ok(run) => finish(connection, &run, plan, self.json, out),
            Err(error) => refused(error, errors),
        }
    }
}

/// Goes on with a run.
pub(crate) fn resume(
    connection: &Connection,
    id: &RunId,
    json: bool,
    out: &mut impl Write,
    errors: &mut impl Write,
) -> Result<Ended, CommandError> {
    let stack = &connection.stack;
    // Before the run, because an error after it would hide the result.
    let plan = match connection.block_on(run::plan_to_resume(stack, id)) {
        Ok(plan) => plan,
        Err(error) => return refused(error, errors),
    };
    let done = with_progress(connection, json, async |progress| {
        let who = stack.caller().await?;
        run::resume(stack, id, &who, progress).await
    });
    tell_how_to_go_on(connection, id, &done, errors)?;
    let run = match done {
        Ok(run) => run,
        Err(error) => return refused(error, errors),
    };
    if !json {
        print_skipped(&plan.skipped, plan.skipped_count, "of the plan cannot be processed", out)?;
    }
    finish(connection, &run, &plan, json, out)
}

/// Prints the command that goes on with a run that an error stopped. A refused run did not start.
fn tell_how_to_go_on(
    connection: &Connection,
    id: &RunId,
    done: &Result<Run, Error>,
    errors: &mut impl Write,
) -> io::Result<()> {
    let error = match done {
        Ok(_) | Err(Error::Refusal(_)) => return Ok(()),
        Err(error) => error,
    };
    let stored = connection.block_on(run::get(&connection.stack, id));
    print_how_to_go_on(&connection.stack.options(), id, error, stored, errors)
}

/// Prints the result of a run.
fn finish(
    connection: &Connection,
    run: &Run,
    plan: &Plan,
    json: bool,
    out: &mut impl Write,
) -> Result<Ended, CommandError> {
    if json {
        writeln!(out, "{:#}", json!({"plan": plan, "run": run}))?;
    } else {
        print_run(connection, run, plan, out)?;
    }
    Ok(ended(run, plan))
}

/// Returns the end of a command whose run has ended. A run that left an item alone did not reach its aim, nor did one whose plan reached
/// its limit.
fn ended(run: &Run, plan: &Plan) -> Ended {
    let left_in_plan = match run.verb {
        // A dead letter that cannot be redriven stays in the queue. A person whose call goes on is not forgotten. A call that cannot be
        // repaired stays wrong. A call that cannot be read may be dialled again, and its domain events are not published.
        Verb::Redrive | Verb::Forget | Verb::Verify | Verb::Refill | Verb::Stop | Verb::Republish => plan.skipped_count,
        // A selection by time may hold webhooks that never can be folded.
        Verb::Replay | Verb::Reprocess | Verb::DiscardDeadLetters | Verb::DiscardQuarantined | Verb::Copy => 0,
    };
    let is_whole = !plan.capped && plan.not_found.is_empty() && run.counts.skipped + left_in_plan == 0;
    match run.state {
        RunState::Finished if is_whole => Ended::Found,
        RunState::Finished | RunState::Unfinished => Ended::NotFound,
    }
}

/// Prints a refusal. Any other error is an error of the command.
pub(crate) fn refused(error: Error, errors: &mut impl Write) -> Result<Ended, CommandError> {
    if let Error::Refusal(refusal) = error {
        writeln!(errors, "switchhook: refused: {refusal}")?;
        return Ok(Ended::Refused);
    }
    Err(error.into())
}

/// Carries a run out with a progress bar. The first Ctrl-C stops the run at the end of its page.
fn with_progress(
    connection: &Connection,
    json: bool,
    run: impl AsyncFnOnce(run::Progress<'_>) -> Result<Run, Error>,
) -> Result<Run, Error> {
    let bar = progress_bar(json, "items");
    let is_stopped = AtomicBool::new(false);
    let mut progress = |run: &Run| {
        bar.set_length(run.items as u64);
        bar.set_position(run.position as u64);
        if is_stopped.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let done = connection.block_on(async {
        let mut run = std::pin::pin!(run(&mut progress));
        loop {
            tokio::select! {
                done = &mut run => break done,
                _ = tokio::signal::ctrl_c(), if !is_stopped.load(Ordering::Relaxed) => {
                    is_stopped.store(true, Ordering::Relaxed);
                    bar.set_message("items; stopping");
                }
            }
        }
    });
    bar.finish_and_clear();
    done
}

/// Progress bar on standard error. Hidden with `--json`, and if standard error is no terminal.
pub(crate) fn progress_bar(json: bool, unit: &'static str) -> ProgressBar {
    progress(json, Some(0), "{bar:40} {pos}/{len} {msg}").with_message(unit)
}

/// Running number on standard error, for work whose end nobody knows. Hidden like a progress bar.
fn progress_count(json: bool, unit: &'static str) -> ProgressBar {
    progress(json, None, "{spinner} {human_pos} {msg}").with_message(unit)
}

fn print_plan(plan: &Plan, rate: u32, out: &mut impl Write) -> io::Result<()> {
    let (items, subjects) = (counted(plan.items.len(), "item"), subjects(plan));
    writeln!(out, "Plan {}: {} {items} of {subjects}, valid until {}", plan.id, plan.verb.command(), plan.valid_until)?;
    for CopiedTable { table, from, items, parts, sample } in &plan.tables {
        let (items, parts, sample) = (counted(*items, "item"), counted(u64::from(*parts), "part"), sample.join(", "));
        writeln!(out, "  {}: {items} of {from}, in {parts}, for example {sample}", table.as_str())?;
    }
    print_effects(plan, out)?;
    print_items(plan, PRINTED_MAX, out)?;
    writeln!(out)?;
    if plan.found() == 0 {
        writeln!(out, "Nothing was selected.")?;
    }
    if plan.unaffected > 0 {
        writeln!(out, "Selected items with nothing to do: {}.", plan.unaffected)?;
    }
    print_skipped(&plan.skipped, plan.skipped_count, "cannot be processed", out)?;
    for warning in &plan.warnings {
        writeln!(out, "Warning: {warning}.")?;
    }
    if let Some(more) = plan.without_effect() {
        writeln!(
            out,
            "The effect on {more} is not worked out, because a plan shows {}. The run makes none of their phones ring.",
            plan::EFFECTS_MAX
        )?;
    }
    print_next_plan(plan, Stage::Planned, out)?;
    let blocked = plan.effects.iter().filter(|effect| effect.blocks_number).count();
    if blocked > 0 {
        writeln!(out, "Numbers that would be blocked, if BlockOnRequest is on: {blocked}.")?;
    }
    print_consequences(plan, out)?;
    let seconds = plan.steps().div_ceil(u64::from(rate.max(1)));
    let cost = &plan.cost;
    writeln!(
        out,
        "About {} requests, {} write units and ${:.5}; {} at {rate} a second.",
        cost.requests,
        cost.write_units,
        cost.dollars,
        counted(seconds, "second")
    )
}

/// Returns what the items belong to, for example `2 calls and 1 booking`.
fn subjects(plan: &Plan) -> String {
    let calls = counted(plan.calls, "call");
    match plan.effects_on(Subject::Booking) {
        0 => calls,
        bookings if plan.calls == 0 => counted(bookings, "booking"),
        bookings => format!("{calls} and {}", counted(bookings, "booking")),
    }
}

/// Prints the first effects as a table, and the number of calls and bookings that are not in it.
fn print_effects(plan: &Plan, out: &mut impl Write) -> io::Result<()> {
    let printed = plan.effects.get(..PRINTED_MAX).unwrap_or(&plan.effects);
    let printed_on = |subject| printed.iter().filter(|effect| effect.about == subject).count();
    if !printed.is_empty() {
        writeln!(out)?;
        let first = if printed_on(Subject::Booking) == 0 { "call" } else { "call or booking" };
        let titles = [first, "before", "after", "announces", "rings"].map(str::to_owned);
        for line in aligned(&std::iter::once(titles).chain(printed.iter().map(row)).collect::<Vec<_>>()) {
            writeln!(out, "  {line}")?;
        }
    }
    let more_calls = plan.calls.saturating_sub(printed_on(Subject::Call));
    let more_bookings = plan.effects_on(Subject::Booking) - printed_on(Subject::Booking);
    for (more, what) in [(more_calls, "more call"), (more_bookings, "more booking")] {
        if more > 0 {
            writeln!(out, "  and {}", counted(more, what))?;
        }
    }
    Ok(())
}

/// Returns an effect as a row of the plan's table.
fn row(effect: &Effect) -> [String; 5] {
    // A phone can ring without a state after it only if the row cannot be read: another version may read it.
    let none = if effect.could_ring && effect.after.is_none() { "cannot be read" } else { "no call" };
    let state = |summary: &Option<CallSummary>| summary.as_ref().map_or(none.to_owned(), ToString::to_string);
    let (name, before, after) = match effect.about {
        Subject::Call => (effect.call_id.to_string(), state(&effect.before), state(&effect.after)),
        Subject::Booking => (format!("booking {}", effect.call_id), "-".to_owned(), "schedules its call".to_owned()),
    };
    let rings = if effect.could_ring { "could ring" } else { "no" };
    [name, before, after, effect.announces.len().to_string(), rings.to_owned()]
}

fn print_skipped(skipped: &[Skipped], count: usize, what: &str, out: &mut impl Write) -> io::Result<()> {
    if count == 0 {
        return Ok(());
    }
    writeln!(out, "{} {what}:", counted(count, "item"))?;
    for Skipped { item, reason, .. } in skipped.iter().take(PRINTED_MAX) {
        writeln!(out, "  {item}: {reason}")?;
    }
    if count > PRINTED_MAX {
        writeln!(out, "  and {} more", count - PRINTED_MAX)?;
    }
    Ok(())
}

/// Prints the result of a run.
fn print_run(connection: &Connection, run: &Run, plan: &Plan, out: &mut impl Write) -> io::Result<()> {
    match run.state {
        RunState::Finished => writeln!(out, "Run {} finished: {}.", run.id, run.result())?,
        RunState::Unfinished => {
            let (id, position, items) = (&run.id, run.position, run.items);
            writeln!(out, "Run {id} stopped after {position} of {items} items: {}.", run.result())?;
            print_resume(&connection.stack.options(), run, out)?;
        }
    }
    print_skipped(&run.skipped, run.counts.skipped, "left alone", out)?;
    match run.state {
        // A later time would not find the earlier events of these calls.
        RunState::Finished if plan.capped && run.verb == Verb::Verify && run.counts.skipped > 0 => {
            writeln!(out, "More may match, and calls were left alone. Repeat the command with the same --since.")
        }
        RunState::Finished => print_next_plan(plan, Stage::CarriedOut, out),
        RunState::Unfinished => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use serde_json::Value;

    use super::*;

    /// Plan that replays the events of this number of calls, and of one booking.
    fn plan(calls: usize) -> Plan {
        let effect = |call_id: String, about: &str, could_ring: bool| {
            json!({"call_id": call_id, "about": about, "items": 1, "before": null, "after": null, "announces": [],
                "corrections": 0, "could_ring": could_ring, "blocks_number": false})
        };
        let mut effects: Vec<Value> = (0..calls).map(|n| effect(format!("c{n}"), "call", false)).collect();
        effects.push(effect("entity:x-calcom:b1".to_owned(), "booking", true));
        serde_json::from_value(json!({
            "id": "p-1", "verb": "replay", "made_at": "2026-11-22T15:58:04Z", "valid_until": "2026-11-22T16:13:04Z",
            "filter": null, "items": [], "capped": false, "examined": 0, "unaffected": 0, "skipped": [],
            "skipped_count": 0, "effects": effects, "calls": calls, "phones": 1, "corrections": 0, "domain_events": 0,
            "cost": {"requests": 0, "read_units": 0, "write_units": 0, "dollars": 0.0},
        }))
        .unwrap()
    }

    fn printed(plan: &Plan) -> String {
        let mut out = Vec::new();
        print_plan(plan, 50, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn run_that_left_an_event_alone_has_not_reached_its_aim() {
        let ended_of = |plan: &Plan, verb: &str, skipped: usize, state: &str| {
            let run = json!({
                "id": "r-1", "plan_id": "p-1", "verb": verb, "who": "ada", "reason": "a test", "rate": 50, "state": state,
                "started_at": "2026-11-22T15:58:04Z", "updated_at": "2026-11-22T15:58:04Z", "position": 2, "items": 2,
                "counts": {"done": 2 - skipped, "unchanged": 0, "skipped": skipped}, "skipped": [],
                "left_call": false, "holder": "h",
            });
            ended(&serde_json::from_value(run).unwrap(), plan)
        };
        let ended_with = |verb, skipped, state| ended_of(&plan(1), verb, skipped, state);
        assert_eq!(ended_with("redrive", 0, "finished"), Ended::Found);
        assert_eq!(ended_with("redrive", 1, "finished"), Ended::NotFound);
        assert_eq!([ended_with("replay", 1, "finished"), ended_with("reprocess", 1, "finished")], [Ended::NotFound; 2]);
        assert_eq!([ended_with("verify", 1, "finished"), ended_with("republish", 1, "finished")], [Ended::NotFound; 2]);
        assert_eq!(ended_with("replay", 0, "finished"), Ended::Found);
        assert_eq!(ended_with("replay", 0, "unfinished"), Ended::NotFound);
        let left = Plan { skipped_count: 1, ..plan(1) };
        for verb in ["redrive", "forget", "verify"] {
            assert_eq!(ended_of(&left, verb, 0, "finished"), Ended::NotFound, "{verb}");
        }
        assert_eq!(ended_of(&left, "replay", 0, "finished"), Ended::Found);
        let capped = Plan { capped: true, ..plan(1) };
        for verb in ["republish", "redrive", "stop", "verify", "replay"] {
            assert_eq!(ended_of(&capped, verb, 0, "finished"), Ended::NotFound, "{verb}");
        }
    }

    /// Whatever is copied, the plan counts no phone.
    #[test]
    fn plan_to_copy_rows_says_that_phones_may_ring() {
        let copied = |table: &str| -> Plan {
            let table = json!({"table": table, "from": "restored", "items": 1, "parts": 1, "sample": ["a"]});
            Plan { verb: Verb::Copy, tables: vec![serde_json::from_value(table).unwrap()], ..plan(0) }
        };
        let calls = printed(&copied("calls"));
        assert!(calls.contains("Calls that are due are dialled as soon as they are copied"), "{calls}");
        assert!(calls.contains("DIALER_FUNCTION_NAME") && !calls.contains("Phones that could ring"), "{calls}");
        assert!(!printed(&copied("inbox")).contains("dialled"), "the inbox alone makes no phone ring");
    }

    #[test]
    fn booking_is_not_called_a_call() {
        let first_lines = |plan: &Plan| printed(plan).lines().take(4).collect::<Vec<_>>().join("\n");
        assert_snapshot!(first_lines(&plan(0)), @"
        Plan p-1: replay 0 items of 1 booking, valid until 2026-11-22T16:13:04.000Z

          call or booking             before  after               announces  rings
          booking entity:x-calcom:b1  -       schedules its call  0          could ring
        ");
        let both = printed(&plan(1));
        assert!(both.starts_with("Plan p-1: replay 0 items of 1 call and 1 booking, valid"), "{both}");
        assert!(both.contains("  c0                          no call  no call             0          no\n"), "{both}");
        let many = printed(&plan(PRINTED_MAX));
        assert!(many.contains("  and 1 more booking\n") && !many.contains("more call"), "{many}");
    }

    #[test]
    fn call_whose_row_cannot_be_read_is_not_called_missing() {
        let mut plan = plan(1);
        plan.effects[0].could_ring = true;
        let text = printed(&plan);
        let row = text.lines().find(|line| line.starts_with("  c0 ")).unwrap();
        assert!(row.contains("cannot be read  cannot be read") && row.ends_with("could ring"), "{text}");
    }
}
