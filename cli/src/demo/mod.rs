//! `switchhook demo`: plays calls with known true endings through the whole system, badly delivered, and checks every
//! result.

mod oracle;
mod placed;
mod play;
mod report;
mod script;
mod traffic;

use std::io::{self, Write};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use play::PlayError;
use report::Summary;
use script::MINUTE;
use traffic::Traffic;

/// What one run can hold in memory.
const CALLS_MAX: u64 = 100_000;

const EXAMPLES: &str = "\
Examples:
  switchhook demo
  switchhook demo --calls 2000 --seed 42
  switchhook demo --json

Half of the calls are placed by others: Retell, Twilio and a generic sender post of them, and the webhooks are repeated,
delayed, lost, reordered and forged. The other half the stack places itself: they are asked for over the API, become due, are
claimed, dialled at a fake provider that dials nobody, and retried; some are triggered by hand, some canceled, and for ten
minutes the provider is down. The stack runs on a clock of its own, so that hours pass in seconds. Every call is then compared
with how it truly went.

Exit status: 0 if nothing is wrong, 1 if something is, 2 if it could not be played.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Demo {
    /// How many calls to play
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=CALLS_MAX))]
    calls: u64,
    /// Decides everything: the same seed gives the same output
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print one JSON object and nothing else
    #[arg(long)]
    json: bool,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum DemoError {
    #[error("the demo could not be played")]
    Play(#[source] PlayError),
    #[error("the result could not be printed")]
    Print(#[source] io::Error),
}

impl Demo {
    /// True if nothing is wrong.
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<bool, DemoError> {
        let traffic = Traffic::draw(usize::try_from(self.calls).unwrap_or(usize::MAX), self.seed);
        let progress = self.progress(&traffic);
        let played = play::play(&traffic, self.seed, |at| {
            progress.inc(1);
            let minutes = (at - script::START) / MINUTE;
            progress.set_message(format!("{}:{:02} h of their time", minutes / 60, minutes % 60));
        });
        progress.finish_and_clear();
        let played = played.map_err(DemoError::Play)?;
        let findings = oracle::findings(&traffic, &played);
        let summary = Summary::new(self.seed, &traffic, &played, &findings);
        let printed = if self.json {
            summary.print_json(out)
        } else {
            summary.print(&played, out).and_then(|()| report::print_timelines(&traffic, &played, out))
        };
        printed.map_err(DemoError::Print)?;
        Ok(summary.is_right())
    }

    /// On standard error, and only for people.
    fn progress(&self, traffic: &Traffic) -> ProgressBar {
        if self.json {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::new((traffic.deliveries.len() + traffic.requests.len()) as u64);
        match ProgressStyle::with_template("{bar:40} {pos}/{len} requests, {msg}") {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        }
    }
}
