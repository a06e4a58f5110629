//! The hours in which a person may be called.

use jiff::civil;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::time::Timestamp;

/// Hours in which a person may be called, in the local time of that person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallingWindow {
    /// IANA name of the person's time zone, for example `Europe/London`.
    pub time_zone: String,
    /// Local time at which the window opens.
    pub opens: civil::Time,
    /// Local time at which the window closes, on the same day.
    pub closes: civil::Time,
    /// Days on which the window opens. Empty: every day.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub days: Vec<Day>,
}

/// Day of the week.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Day {
    Mon,
    Tue,
    Wed,
    Thu,
    Fri,
    Sat,
    Sun,
}

/// Reason why a calling window can never be open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WindowError {
    #[error("unknown time zone: an IANA name such as Europe/London is needed")]
    UnknownTimeZone,
    #[error("the window closes before it opens")]
    ClosesBeforeItOpens,
}

impl CallingWindow {
    /// Checks that the window can be open at all.
    ///
    /// # Errors
    /// See [`WindowError`].
    pub fn check(&self) -> Result<(), WindowError> {
        TimeZone::get(&self.time_zone).map_err(|_| WindowError::UnknownTimeZone)?;
        if self.closes <= self.opens { Err(WindowError::ClosesBeforeItOpens) } else { Ok(()) }
    }

    /// Returns the time at which the window opens next. `None` if it is open now.
    ///
    /// # Errors
    /// See [`WindowError`]. A window with an error counts as closed.
    pub fn next_opening(&self, now: Timestamp) -> Result<Option<Timestamp>, WindowError> {
        self.check()?;
        let zone = TimeZone::get(&self.time_zone).map_err(|_| WindowError::UnknownTimeZone)?;
        let now = jiff::Timestamp::from_millisecond(now.as_millis()).map_err(|_| WindowError::UnknownTimeZone)?;
        let local = now.to_zoned(zone.clone());
        if self.is_day(local.weekday()) && (self.opens..self.closes).contains(&local.time()) {
            return Ok(None);
        }
        // Today and the seven days after it: a window that opens only on Mondays and has closed today opens again in a week.
        let openings = (0..=7).filter_map(|days| {
            let date = local.date().checked_add(jiff::Span::new().days(days)).ok()?;
            let opening = date.to_datetime(self.opens).to_zoned(zone.clone()).ok()?.timestamp();
            (self.is_day(date.weekday()) && opening > now).then(|| Timestamp::from(opening))
        });
        Ok(Some(openings.min().unwrap_or(Timestamp::MAX)))
    }

    fn is_day(&self, weekday: civil::Weekday) -> bool {
        self.days.is_empty() || self.days.iter().any(|day| day.weekday() == weekday)
    }
}

impl Day {
    const fn weekday(self) -> civil::Weekday {
        match self {
            Self::Mon => civil::Weekday::Monday,
            Self::Tue => civil::Weekday::Tuesday,
            Self::Wed => civil::Weekday::Wednesday,
            Self::Thu => civil::Weekday::Thursday,
            Self::Fri => civil::Weekday::Friday,
            Self::Sat => civil::Weekday::Saturday,
            Self::Sun => civil::Weekday::Sunday,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(days: &[Day]) -> CallingWindow {
        CallingWindow {
            time_zone: "Europe/London".to_owned(),
            opens: civil::time(9, 0, 0, 0),
            closes: civil::time(18, 0, 0, 0),
            days: days.to_vec(),
        }
    }

    fn opening(window: &CallingWindow, now: &str) -> Result<Option<String>, WindowError> {
        let opens = window.next_opening(Timestamp::parse_rfc3339(now).unwrap())?;
        Ok(opens.map(|at| at.to_string()))
    }

    #[test]
    fn window_is_read_on_the_callees_clock() {
        // British summer time is an hour ahead of UTC.
        assert_eq!(opening(&window(&[]), "2025-07-01T08:00:00Z"), Ok(None));
        assert_eq!(opening(&window(&[]), "2025-07-01T07:59:59Z"), Ok(Some("2025-07-01T08:00:00.000Z".to_owned())));
        assert_eq!(opening(&window(&[]), "2025-12-01T08:00:00Z"), Ok(Some("2025-12-01T09:00:00.000Z".to_owned())));
        assert_eq!(opening(&window(&[]), "2025-07-01T17:00:00Z"), Ok(Some("2025-07-02T08:00:00.000Z".to_owned())));
    }

    #[test]
    fn window_opens_on_its_days_and_across_a_change_of_clocks() {
        // Friday evening before the clocks go forward on Sunday, 30 March 2025.
        let weekdays = window(&[Day::Mon, Day::Tue]);
        assert_eq!(opening(&weekdays, "2025-03-28T20:00:00Z"), Ok(Some("2025-03-31T08:00:00.000Z".to_owned())));
        let mondays = window(&[Day::Mon]);
        assert_eq!(opening(&mondays, "2025-03-31T18:00:00Z"), Ok(Some("2025-04-07T08:00:00.000Z".to_owned())));
    }

    #[test]
    fn window_that_cannot_be_understood_is_never_open() {
        let nowhere = CallingWindow { time_zone: "Europe/Nowhere".to_owned(), ..window(&[]) };
        assert_eq!(opening(&nowhere, "2025-07-01T08:00:00Z"), Err(WindowError::UnknownTimeZone));
        let inside_out = CallingWindow { closes: civil::time(9, 0, 0, 0), ..window(&[]) };
        assert_eq!(opening(&inside_out, "2025-07-01T08:00:00Z"), Err(WindowError::ClosesBeforeItOpens));
    }
}
