//! `switchhook demo`: plays calls whose true course is known through the whole system, delivers their webhooks badly,
//! and checks every result.
//!
//! The demo answers one question: does Switchhook show and announce what truly happened? It has six parts. Each part
//! uses only the parts above it in this list.
//!
//! - [`script`] and [`placed_script`] make the **ground truth**: what truly happens to each call, drawn from the seed.
//!   One half of the calls is placed by others, and their scripts also contain every webhook that the provider makes.
//!   The other half is placed by Switchhook at a fake provider, which plays the scenarios of the script.
//! - [`traffic`] plans the **deliveries**. A webhook arrives on time, late, twice or never. Forged webhooks are added,
//!   which Switchhook must reject.
//! - [`observation`] holds the **observations**: everything that can be seen from outside during a run.
//! - [`play`] runs the traffic through the local cloud in virtual time, so that hours pass in seconds, and fills in the
//!   observations.
//! - [`oracle`] computes the **expectations** from the ground truth and the deliveries, and compares them with the
//!   observations. Each difference is a **mismatch**. The oracle uses no code of Switchhook, so both cannot be wrong in
//!   the same way.
//! - [`output`] prints the figures, the mismatches, and five calls in full.
//!
//! # Example
//!
//! The ground truth of one call is: answered at 12:00:10, confirmed at 12:00:20, completed at 12:00:30. Its provider
//! makes five webhooks. The traffic planner loses the last one, so no webhook about the ending is delivered. The oracle
//! therefore expects that Switchhook waits for the inactivity timeout, and then publishes `call.inconclusive`. The
//! outcome must be `confirmed`, because that webhook arrived. If Switchhook shows anything else, or publishes one event
//! more or less, that is a mismatch.

mod json;
mod observation;
mod oracle;
mod output;
mod placed_script;
mod play;
mod script;
mod stack_settings;
mod traffic;

use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use output::Summary;
use play::PlayError;
use script::MINUTE;
use traffic::{Senders, Traffic};

use crate::data_dir::{DataDir, StartDemoError};
use crate::shell::{program, shell_word};
use crate::words::progress;

/// Largest number of calls in one run. It limits the memory that a run needs.
const CALLS_MAX: u64 = 100_000;
const CALLS_DEFAULT: u64 = 200;
const SEED_DEFAULT: u64 = 1;

const EXAMPLES: &str = "\
Examples:
  switchhook demo
  switchhook demo --calls 2000 --seed 42
  switchhook demo --providers all
  switchhook demo --json
  switchhook demo --data calls && switchhook dev --data calls --freeze

One half of the calls is placed by others, and Retell, Twilio or a generic sender posts webhooks about them. With --providers all,
every provider that Switchhook has code for does. The demo repeats, delays, loses, reorders and forges these webhooks. The other
half is placed by Switchhook, which dials a fake provider, so that no real phone rings. Some of these calls are triggered by
hand, some are canceled, and for ten minutes the provider is down.
Time is simulated: hours pass in seconds. In the end every call is compared with what truly happened.

With --data, the calls stay: `switchhook dev --data DIR --freeze` shows them in a browser, with the clock stopped at the end of the
demo. The keys that sign the webhooks are in providers.json there.

Exit status: 0 if everything is right, 1 if something is wrong, 2 if the demo could not run.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Demo {
    /// Number of calls to play
    #[arg(long, value_name = "N", default_value_t = CALLS_DEFAULT, value_parser = clap::value_parser!(u64).range(1..=CALLS_MAX))]
    calls: u64,
    /// Seed of all random choices: the same seed gives the same result
    #[arg(long, value_name = "N", default_value_t = SEED_DEFAULT)]
    seed: u64,
    /// Providers that post webhooks about the calls that others place
    #[arg(long, value_enum, default_value_t)]
    providers: Senders,
    /// New or empty directory for the finished stack, to look at with `switchhook dev`; without it, nothing is kept
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Print one JSON object and nothing else
    #[arg(long)]
    json: bool,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum DemoError {
    #[error(transparent)]
    Start(#[from] StartDemoError),
    #[error("the demo could not run")]
    Play(#[source] PlayError),
    #[error("the result could not be printed")]
    Print(#[source] io::Error),
}

impl Demo {
    /// Runs the demo and prints its result. Returns `true` if everything is right.
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<bool, DemoError> {
        if let Some(path) = &self.data {
            DataDir::new(path).start_demo()?;
        }
        let traffic = Traffic::draw(usize::try_from(self.calls).unwrap_or(usize::MAX), self.seed, self.providers);
        let requests = (traffic.deliveries.len() + traffic.requests.len()) as u64;
        let progress = progress(self.json, Some(requests), "{bar:40} {pos}/{len} requests, {msg}");
        let played = play::play(&traffic, self.seed, self.data.as_deref(), |at| {
            progress.inc(1);
            let minutes = (at - script::START) / MINUTE;
            progress.set_message(format!("{}:{:02} hours of simulated time", minutes / 60, minutes % 60));
        });
        progress.finish_and_clear();
        let observations = played.map_err(DemoError::Play)?;
        let mismatches = oracle::mismatches(&traffic, &observations);
        let summary = Summary::new(self.seed, &traffic, &observations, &mismatches);
        let printed =
            if self.json { summary.print_json(out) } else { self.print_text(&summary, &traffic, &observations, out) };
        printed.map_err(DemoError::Print)?;
        Ok(summary.is_right())
    }

    /// Prints for people: first five calls in full, then the summary with the result, then how to look at the calls.
    fn print_text(
        &self,
        summary: &Summary,
        traffic: &Traffic,
        observations: &observation::Observations,
        out: &mut impl Write,
    ) -> io::Result<()> {
        output::print_timelines(traffic, observations, out)?;
        writeln!(out)?;
        output::print_summary(summary, observations.wall_time, out)?;
        let program = program();
        match &self.data {
            Some(path) => {
                let directory = shell_word(&path.to_string_lossy());
                writeln!(out, "\nlook at these calls: {program} dev --data {directory} --freeze")
            }
            None => writeln!(
                out,
                "\nlook at these calls: {program} demo{} --data calls && {program} dev --data calls --freeze",
                self.choice()
            ),
        }
    }

    /// Returns the options that choose the calls of this run, as a command line has them. It leaves out those with their default values.
    fn choice(&self) -> String {
        let calls = (self.calls != CALLS_DEFAULT).then(|| format!(" --calls {}", self.calls));
        let seed = (self.seed != SEED_DEFAULT).then(|| format!(" --seed {}", self.seed));
        let senders = self.providers.to_possible_value().filter(|_| self.providers != Senders::default());
        let providers = senders.map(|senders| format!(" --providers {}", senders.get_name()));
        [calls, seed, providers].into_iter().flatten().collect()
    }
}
