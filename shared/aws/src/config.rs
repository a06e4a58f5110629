//! Configuration from the environment, read once at cold start. Everything missing or bad is reported at once.
//!
//! `docs/configuration.md` has the table of these variables, and a test holds `template.yaml` against it.

use std::time::Duration;

use thiserror::Error;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// One function's environment, and what was wrong with it so far.
#[derive(Debug)]
pub struct Environment<G> {
    lookup: G,
    problems: Vec<String>,
}

/// The environment lacks something, or holds something unreadable.
#[derive(Debug, Error)]
#[error("bad configuration: {}", .0.join("; "))]
pub struct EnvironmentError(Vec<String>);

/// The environment of this process.
#[must_use]
pub fn environment() -> Environment<impl Fn(&str) -> Option<String>> {
    Environment::new(|name| std::env::var(name).ok())
}

impl<G: Fn(&str) -> Option<String>> Environment<G> {
    pub const fn new(lookup: G) -> Self {
        Self { lookup, problems: Vec::new() }
    }

    /// A text that must be there and not be empty.
    pub fn text(&mut self, name: &str) -> String {
        (self.lookup)(name).filter(|value| !value.is_empty()).unwrap_or_else(|| {
            self.problems.push(format!("{name} is not set"));
            String::new()
        })
    }

    /// A text that may be missing; an empty one counts as missing.
    pub fn optional(&mut self, name: &str) -> Option<String> {
        (self.lookup)(name).filter(|value| !value.is_empty())
    }

    /// A whole number of at least 1.
    pub fn number(&mut self, name: &str) -> u32 {
        let text = self.text(name);
        match text.parse() {
            Ok(number) if number > 0 => number,
            Ok(_) | Err(_) if text.is_empty() => 1,
            Ok(_) | Err(_) => {
                self.problems.push(format!("{name} must be a whole number of at least 1, is {text:?}"));
                1
            }
        }
    }

    pub fn seconds(&mut self, name: &str) -> Duration {
        Duration::from_secs(self.number(name).into())
    }

    pub fn days(&mut self, name: &str) -> Duration {
        DAY * self.number(name)
    }

    /// A number of days that must not be shorter than this.
    pub fn days_at_least(&mut self, name: &str, min: Duration) -> Duration {
        let problems = self.problems.len();
        let days = self.days(name);
        if days < min && self.problems.len() == problems {
            self.problems.push(format!("{name} must be at least {}", min.as_secs() / DAY.as_secs()));
        }
        days
    }

    /// `config`, if nothing was wrong with what it was made of.
    ///
    /// # Errors
    /// Every problem found, in one.
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
            "PATIENCE" => Some("90".to_owned()),
            _ => None,
        });
        let read = (environment.text("TABLE"), environment.days("DAYS"), environment.seconds("PATIENCE"));
        assert_eq!(read.2, Duration::from_secs(90));
        let error = environment.check(read).unwrap_err().to_string();
        assert_eq!(
            error,
            "bad configuration: TABLE is not set; DAYS must be a whole number of at least 1, is \"soon\""
        );
    }
}
