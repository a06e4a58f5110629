//! Configuration from environment variables, read once at cold start. All missing and bad variables are reported at
//! once.
//!
//! `docs/configuration.md` has the table of the variables. A test compares it with `template.yaml`.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use switchhook_domain::{
    CALL_ATTEMPTS_MAX, CallDefaults, CallingWindow, Policy, ProviderSet, ProviderSetError, RetryPolicy,
};
use thiserror::Error;

use crate::sdk::{Clock, SdkConfig};
use crate::shards::Shards;
use crate::telemetry::Decision;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Environment of one function, and the problems found in it so far.
#[derive(Debug)]
pub struct Environment<G> {
    lookup: G,
    problems: Vec<String>,
}

/// Problems in the environment: missing or bad variables.
#[derive(Debug, Error)]
#[error("bad configuration: {}", .0.join("; "))]
pub struct EnvironmentError(Vec<String>);

/// Environment of this process.
#[must_use]
pub fn environment() -> Environment<impl Fn(&str) -> Option<String>> {
    Environment::new(|name| std::env::var(name).ok())
}

/// Returns the configuration with which a function starts. If it could not be read, logs every problem in one line, and ends the process.
pub fn or_exit<T>(function: &'static str, config: Result<T, EnvironmentError>) -> T {
    config.unwrap_or_else(|error| {
        let decision =
            Decision { function, action_taken: "start_failed", error: Some(error.to_string()), ..Decision::default() };
        decision.log(Clock::from_config(&SdkConfig::builder().build()).now(), true);
        std::process::exit(1)
    })
}

/// Reads a number as CloudFormation may write it: a parameter that is a number may have a fraction, which is dropped.
#[must_use]
pub fn whole_number(text: &str) -> Option<u32> {
    let number: f64 = text.parse().ok()?;
    (0.0..=f64::from(u32::MAX)).contains(&number).then_some(number as u32)
}

impl<G: Fn(&str) -> Option<String>> Environment<G> {
    pub const fn new(lookup: G) -> Self {
        Self { lookup, problems: Vec::new() }
    }

    /// Reads a text that must be set and not empty.
    pub fn text(&mut self, name: &str) -> String {
        (self.lookup)(name).filter(|value| !value.is_empty()).unwrap_or_else(|| {
            self.problems.push(format!("{name} is not set"));
            String::new()
        })
    }

    /// Reads a text that may be missing. An empty text counts as missing.
    pub fn optional(&mut self, name: &str) -> Option<String> {
        (self.lookup)(name).filter(|value| !value.is_empty())
    }

    /// Reads a value that may be missing. An empty text counts as missing.
    pub fn optional_parsed<T, E: Display>(
        &mut self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let text = self.optional(name)?;
        parse(&text).map_err(|error| self.problems.push(format!("{name}: {error}"))).ok()
    }

    /// Reads a [whole number](whole_number) of at least 1.
    pub fn number(&mut self, name: &str) -> u32 {
        let text = self.text(name);
        match whole_number(&text) {
            Some(number) if number > 0 => number,
            Some(_) | None if text.is_empty() => 1,
            Some(_) | None => {
                self.problems.push(format!("{name} must be a whole number of at least 1, is {text:?}"));
                1
            }
        }
    }

    /// Reads `true` or `false`.
    pub fn flag(&mut self, name: &str) -> bool {
        let text = self.text(name);
        text.parse().unwrap_or_else(|_| {
            if !text.is_empty() {
                self.problems.push(format!("{name} must be true or false, is {text:?}"));
            }
            false
        })
    }

    pub fn seconds(&mut self, name: &str) -> Duration {
        Duration::from_secs(self.number(name).into())
    }

    pub fn days(&mut self, name: &str) -> Duration {
        DAY * self.number(name)
    }

    /// Reads the number of shards of the indexes.
    pub fn shards(&mut self) -> Shards {
        let name = "INDEX_SHARDS";
        let text = self.text(name);
        text.parse().unwrap_or_else(|error| {
            if !text.is_empty() {
                self.problems.push(format!("{name} {error}, is {text:?}"));
            }
            Shards::default()
        })
    }

    /// Reads the time limits and rules that hold for every call.
    pub fn policy(&mut self) -> Policy {
        let inactivity_timeout = self.seconds("INACTIVITY_TIMEOUT_SECONDS");
        let names = self.text("OUTCOME_PROVIDERS");
        let outcome_providers = names.parse().unwrap_or_else(|problem: ProviderSetError| {
            // A missing text is a problem already.
            if !names.is_empty() {
                self.problems.push(format!("OUTCOME_PROVIDERS: {problem}"));
            }
            ProviderSet::default()
        });
        Policy { inactivity_timeout, outcome_providers }
    }

    /// Reads the settings for calls whose request omits them.
    pub fn call_defaults(&mut self) -> CallDefaults {
        let attempts_max = self.number("RETRY_ATTEMPTS_MAX");
        CallDefaults {
            retry: RetryPolicy {
                // A call has no room for more attempts.
                attempts_max: u8::try_from(attempts_max).unwrap_or(u8::MAX).min(CALL_ATTEMPTS_MAX as u8),
                delay_seconds: self.number("RETRY_DELAY_SECONDS"),
                delay_max_seconds: self.number("RETRY_DELAY_MAX_SECONDS"),
                voicemail: false,
                unheard: false,
            },
            // A window with an unknown time zone counts as closed, so the dialer ends its calls. Nothing else must stop for it.
            window: self.optional_parsed("CALLING_WINDOW", CallingWindow::from_str),
        }
    }

    /// Reads a number of days that must be at least `min`.
    pub fn days_at_least(&mut self, name: &str, min: Duration) -> Duration {
        let problems = self.problems.len();
        let days = self.days(name);
        if days < min && self.problems.len() == problems {
            self.problems.push(format!("{name} must be at least {}", min.as_secs() / DAY.as_secs()));
        }
        days
    }

    /// Returns `config` if no problem was found while it was read.
    ///
    /// # Errors
    /// One error that names every problem.
    pub fn check<T>(self, config: T) -> Result<T, EnvironmentError> {
        if self.problems.is_empty() { Ok(config) } else { Err(EnvironmentError(self.problems)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_is_reported_at_once() {
        let mut environment = Environment::new(|name| match name {
            "DAYS" => Some("soon".to_owned()),
            "TIMEOUT" => Some("90".to_owned()),
            _ => None,
        });
        let read = (environment.text("TABLE"), environment.days("DAYS"), environment.seconds("TIMEOUT"));
        assert_eq!(read.2, Duration::from_secs(90));
        let error = environment.check(read).unwrap_err().to_string();
        assert_eq!(
            error,
            "bad configuration: TABLE is not set; DAYS must be a whole number of at least 1, is \"soon\""
        );
    }

    #[test]
    fn numbers_that_cloudformation_takes_are_read() {
        let read = ["4500", "4500.0", "7.5", "1e3", "0.5"].map(whole_number);
        assert_eq!(read, [Some(4_500), Some(4_500), Some(7), Some(1_000), Some(0)]);
        for text in ["", "soon", "-1", "4294967296", "NaN", "inf"] {
            assert_eq!(whole_number(text), None, "{text}");
        }
        let mut environment = Environment::new(|_| Some("0.5".to_owned()));
        environment.number("DAYS");
        assert!(environment.check(()).is_err());
    }
}
