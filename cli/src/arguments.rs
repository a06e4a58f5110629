//! The commands of the tool, and their exit status.

use std::error::Error;
use std::ffi::OsString;
use std::io::{self, Write};
use std::marker;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use switchhook_operate::Refusal;

use crate::audit::Audit;
use crate::bench::Bench;
use crate::call::Call;
use crate::change::Ended;
use crate::check::Check;
use crate::completions::Completions;
use crate::console::Console;
use crate::demo::Demo;
use crate::dev::Dev;
use crate::dials::Dials;
use crate::dlq::Dlq;
use crate::error::CommandError;
use crate::event::Event;
use crate::fake::Fake;
use crate::forget::Forget;
use crate::providers::Providers;
use crate::quarantine::Quarantine;
use crate::reconcile::Reconcile;
use crate::recover::Recover;
use crate::replay::Replay;
use crate::republish::Republish;
use crate::run::Run;
use crate::send::Send;
use crate::show::Show;
use crate::simulate::Simulate;
use crate::status::Status;
use crate::stuck::Stuck;
use crate::tail::Tail;
use crate::timeline::Timeline;
use crate::verify::Verify;
use crate::words::with_causes;

const EXAMPLES: &str = "\
Examples:
  switchhook demo                 watch the whole system at work, in seconds
  switchhook dev                  run it on this machine; it prints commands to try
  switchhook send --provider retell --key KEY --sample retell/call_ended
  switchhook show appointment:appt_201
  switchhook call create --provider retell --from-number +442079460018 --to-number +447700900120
  switchhook check --stack NAME   does a deployed stack work, from the webhook to the domain event?
  switchhook status               is it healthy, is there a backlog, is there poison?

`switchhook COMMAND --help` explains a command, with examples.

A command needs a stack. The first of these that names one decides:
  1. --stack NAME for a deployed stack, or --to URL
  2. the environment variable SWITCHHOOK_STACK or SWITCHHOOK_TO
  3. the file ~/.config/switchhook/config.json: {\"stack\": \"NAME\", \"region\": \"REGION\"} or {\"to\": \"URL\"}
  4. a running `switchhook dev`, if only one runs

Exit status: 0 if everything is right, 1 if something is wrong or nothing was found, 2 if the command could not be carried out, 3 if it
was refused, 141 if the reader of its output ended first, as in `switchhook call list | head -1`. The help of a command says more.";

/// Turns webhooks of telephony providers into one correct state per call. This tool runs Switchhook on your machine,
/// and inspects and operates a deployed stack
#[derive(Debug, Parser)]
#[command(name = "switchhook", version, after_help = EXAMPLES)]
struct Switchhook {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run the whole stack on this machine
    Dev(Dev),
    /// List what operators did
    Audit(Audit),
    /// Measure a running stack with webhooks of invented calls, and remove them
    Bench(Bench),
    /// Create, import, trigger, cancel and list calls that Switchhook places
    Call(Call),
    /// Walk the whole path of a deployed stack with one signed webhook, and remove what that made
    Check(Check),
    /// Print a script that completes commands and options in a shell
    Completions(Completions),
    /// Serve the pages of a stack on this machine: its health, its calls, its repairs
    Console(Console),
    /// Play simulated calls through the whole stack, with unreliable webhooks, and check every result
    Demo(Demo),
    /// Show whether calls go out: circuits, rates, due calls, and calls in doubt
    Dials(Dials),
    /// List dead letters, send their events again, or discard them
    Dlq(Dlq),
    /// List received events, and show the path and the payload of one
    Event(Event),
    /// Run a fake provider, which accepts calls and dials nobody
    Fake(Fake),
    /// Erase a person's data from calls, events and dead letters
    Forget(Forget),
    /// List the providers of a stack, or check a providers file
    Providers(Providers),
    /// List webhooks that could not be read, read them again, or discard them
    Quarantine(Quarantine),
    /// Run the reconciler, or the drift check, now
    Reconcile(Reconcile),
    /// Recover from a disaster: copy restored tables, refill the inbox, stop calls whose dials are forgotten
    Recover(Recover),
    /// Fold stored events again
    Replay(Replay),
    /// Publish the domain events of calls again
    Republish(Republish),
    /// List runs of repairs, and go on with one that was interrupted
    Run(Run),
    /// Sign a test webhook and post it to a stack
    Send(Send),
    /// Show the state and the timeline of a call
    Show(Show),
    /// Reckon what a stack needs and costs at a given traffic, and which limit it meets first
    Simulate(Simulate),
    /// Answer three questions about a stack: is it healthy, is there a backlog, is there poison?
    Status(Status),
    /// List calls that do not move: why, what happens next, and when
    Stuck(Stuck),
    /// Follow new events and domain events
    Tail(Tail),
    /// Tell the story of a call: every event, its effect and the reason
    Timeline(Timeline),
    /// Compare calls with their events in the inbox, and repair what differs
    Verify(Verify),
}

/// The command was carried out, and everything is right.
const EXIT_SUCCESS: u8 = 0;
/// The command was carried out, and something is wrong: for example, the call does not exist.
const EXIT_FAILURE: u8 = 1;
/// The command could not be carried out.
const EXIT_ERROR: u8 = 2;
/// The command was refused: for example, because phones could ring.
const EXIT_REFUSED: u8 = 3;
/// The reader of the output has ended. A shell shows this status for a program that SIGPIPE ended.
const EXIT_UNREAD: u8 = 128 + 13;

/// Standard output, which remembers whether its reader has ended.
struct Output<W> {
    inner: W,
    is_unread: bool,
}

impl<W: Write> Output<W> {
    fn watch<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        self.is_unread |= result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
        result
    }
}

impl<W: Write> Write for Output<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes);
        self.watch(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.inner.flush();
        self.watch(flushed)
    }
}

pub(crate) fn run(
    arguments: impl Iterator<Item = OsString>,
    out: &mut (impl Write + marker::Send),
    errors: &mut impl Write,
) -> ExitCode {
    let switchhook = match Switchhook::try_parse_from(arguments) {
        Ok(switchhook) => switchhook,
        Err(error) => {
            let text = error.render();
            // If this fails too, there is nowhere left to report it.
            drop(if error.use_stderr() { write!(errors, "{text}") } else { write!(out, "{text}") });
            return ExitCode::from(if error.use_stderr() { EXIT_ERROR } else { EXIT_SUCCESS });
        }
    };
    let out = &mut Output { inner: out, is_unread: false };
    let ended = |is_right| if is_right { Ended::Found } else { Ended::NotFound };
    let done: Result<Ended, Box<dyn Error>> = match switchhook.verb {
        Verb::Dev(dev) => dev.run(out, errors).map(ended).map_err(Into::into),
        Verb::Audit(audit) => audit.run(out).map_err(Into::into),
        Verb::Bench(bench) => bench.run(out, errors).map_err(Into::into),
        Verb::Call(call) => call.run(out, errors).map(ended).map_err(Into::into),
        Verb::Check(check) => check.run(out).map(ended).map_err(Into::into),
        Verb::Completions(completions) => completions.run(Switchhook::command(), out).map(ended).map_err(Into::into),
        Verb::Console(console) => console.run(out).map(ended).map_err(Into::into),
        Verb::Demo(demo) => demo.run(out).map(ended).map_err(Into::into),
        Verb::Dials(dials) => dials.run(out).map(ended).map_err(Into::into),
        Verb::Dlq(dlq) => dlq.run(out, errors).map_err(Into::into),
        Verb::Event(event) => event.run(out, errors).map(ended).map_err(Into::into),
        Verb::Fake(fake) => fake.run(out, errors).map(ended).map_err(Into::into),
        Verb::Forget(forget) => forget.run(out, errors).map_err(Into::into),
        Verb::Providers(providers) => providers.run(out, errors).map(ended).map_err(Into::into),
        Verb::Reconcile(reconcile) => reconcile.run(out).map(ended).map_err(Into::into),
        Verb::Quarantine(quarantine) => quarantine.run(out, errors).map_err(Into::into),
        Verb::Recover(recover) => recover.run(out, errors).map_err(Into::into),
        Verb::Replay(replay) => replay.run(out, errors).map_err(Into::into),
        Verb::Republish(republish) => republish.run(out, errors).map_err(Into::into),
        Verb::Run(run) => run.run(out, errors).map_err(Into::into),
        Verb::Send(send) => send.run(out).map(ended).map_err(Into::into),
        Verb::Show(show) => show.run(out, errors).map(ended).map_err(Into::into),
        Verb::Simulate(simulate) => simulate.run(out).map(ended).map_err(Into::into),
        Verb::Status(status) => status.run(out).map(ended).map_err(Into::into),
        Verb::Stuck(stuck) => stuck.run(out).map(ended).map_err(Into::into),
        Verb::Tail(tail) => tail.run(out).map(ended).map_err(Into::into),
        Verb::Timeline(timeline) => timeline.run(out, errors).map(ended).map_err(Into::into),
        Verb::Verify(verify) => verify.run(out, errors).map_err(Into::into),
    };
    // The output may end without a line end, which standard output keeps until it is flushed.
    let done = done.and_then(|ended| match out.flush() {
        Ok(()) => Ok(ended),
        Err(error) => Err(CommandError::Print(error).into()),
    });
    ExitCode::from(match done {
        Ok(Ended::Found) => EXIT_SUCCESS,
        Ok(Ended::NotFound) => EXIT_FAILURE,
        Ok(Ended::Refused) => EXIT_REFUSED,
        Err(_) if out.is_unread => EXIT_UNREAD,
        Err(error) => match refusal(error.as_ref()) {
            Some(refusal) => {
                drop(writeln!(errors, "switchhook: refused: {refusal}"));
                EXIT_REFUSED
            }
            None => {
                drop(writeln!(errors, "switchhook: {}", with_causes(error.as_ref())));
                EXIT_ERROR
            }
        },
    })
}

/// Returns the refusal that is the error of a command. `None` if the command could not be carried out.
fn refusal<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Refusal> {
    let error = error.downcast_ref::<CommandError>()?;
    if let CommandError::Refused(refusal) | CommandError::Operate(switchhook_operate::Error::Refusal(refusal)) = error {
        Some(refusal)
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
