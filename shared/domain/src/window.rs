//! The hours in which a person may be called.

use std::collections::BTreeSet;
use std::str::FromStr;

use jiff::civil;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::time::Timestamp;

/// Hours in which a person may be called, in the local time of that person.
///
/// **The local clock alone decides.** The window is open whenever that clock shows an hour of the window. So it also opens when
/// the clock is put forward past the opening, or back into the window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallingWindow {
    /// IANA name of the person's time zone, for example `Europe/London`.
    pub time_zone: String,
    /// Local time at which the window opens.
    #[serde(with = "opens")]
    pub opens: civil::Time,
    /// Local time at which the window closes. If it is earlier than `opens`, the window closes on the next day. So midnight
    /// is 24:00 of the day on which the window opens.
    #[serde(with = "closes")]
    pub closes: civil::Time,
    /// Days on which the window opens. Empty: every day.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub days: Vec<Day>,
    /// Dates without calls, for example holidays. The window does not open on them, and a window that opened the day before
    /// closes at midnight.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub closed_dates: BTreeSet<civil::Date>,
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

/// Error of a calling window. It shows no part of the text, because messages about a secret use it too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WindowError {
    #[error("unknown time zone: an IANA name such as Europe/London is needed")]
    UnknownTimeZone,
    #[error("the window opens and closes at the same time: a whole day is 00:00 to 24:00")]
    ClosesAsItOpens,
    #[error("not a window such as 'Europe/London 09:00-18:00 mon,tue 2026-12-25'")]
    Malformed,
    #[error("the hours of the window are not like 09:00-18:00, between 00:00 and 24:00")]
    MalformedHours,
    #[error("a day of the window is none of mon, tue, wed, thu, fri, sat, sun")]
    UnknownDay,
    #[error("a date of the window does not exist, or is not like 2026-12-25")]
    UnknownDate,
}

impl CallingWindow {
    /// Checks that the window can be open at all.
    ///
    /// # Errors
    /// [`WindowError::UnknownTimeZone`], [`WindowError::ClosesAsItOpens`].
    pub fn check(&self) -> Result<(), WindowError> {
        self.zone()?;
        let is_whole_day = self.opens == civil::Time::midnight();
        if self.closes == self.opens && !is_whole_day { Err(WindowError::ClosesAsItOpens) } else { Ok(()) }
    }

    /// Returns the time at which the window opens next. `None` if it is open now.
    ///
    /// # Errors
    /// The same as [`CallingWindow::check`]. A window with an error counts as closed.
    pub fn next_opening(&self, now: Timestamp) -> Result<Option<Timestamp>, WindowError> {
        self.check()?;
        let zone = self.zone()?;
        let now = jiff::Timestamp::from_millisecond(now.as_millis()).map_err(|_| WindowError::UnknownTimeZone)?;
        let local = zone.to_datetime(now);
        if self.is_open(local) {
            return Ok(None);
        }
        // A window that opens on one day of the week opens within a week, unless that day is a closed date, or the clock skips the window.
        let days = 7 * (i64::try_from(self.closed_dates.len()).unwrap_or(0) + 2) + 1;
        let by_days = (0..=days).find_map(|days| {
            let date = local.date().checked_add(jiff::Span::new().days(days)).ok()?;
            let opening = zone.to_ambiguous_timestamp(date.to_datetime(self.opens));
            let both = [opening.earlier(), opening.later()].into_iter().flatten();
            both.filter(|at| *at > now && self.is_open(zone.to_datetime(*at))).min()
        });
        let Some(by_days) = by_days else { return Ok(Some(Timestamp::MAX)) };
        let changes_of_clocks = zone.following(now).map(|change| change.timestamp());
        let by_change = changes_of_clocks.take_while(|at| *at < by_days).find(|at| self.is_open(zone.to_datetime(*at)));
        Ok(Some(by_change.unwrap_or(by_days).into()))
    }

    /// The time zone. `Etc/Unknown` is not one: systems name it if they do not know where they are, and its clock shows UTC.
    fn zone(&self) -> Result<TimeZone, WindowError> {
        let zone = TimeZone::get(&self.time_zone).ok();
        zone.filter(|zone| !zone.is_unknown()).ok_or(WindowError::UnknownTimeZone)
    }

    /// Parses a local time such as `09:00`. `None` if the text is no time from 00:00 to 23:59.
    #[must_use]
    pub fn parse_opens(text: &str) -> Option<civil::Time> {
        let (hours, minutes) = text.split_once(':')?;
        let two_digits = |text: &str| text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        if !two_digits(hours) || !two_digits(minutes) {
            return None;
        }
        civil::Time::new(hours.parse().ok()?, minutes.parse().ok()?, 0, 0).ok()
    }

    /// Parses a local time such as `18:00` or `24:00`. `None` if the text is no time from 00:00 to 24:00.
    #[must_use]
    pub fn parse_closes(text: &str) -> Option<civil::Time> {
        if text == MIDNIGHT { Some(civil::Time::midnight()) } else { Self::parse_opens(text) }
    }

    /// True if the window is open when the local clock shows this date and time.
    fn is_open(&self, local: civil::DateTime) -> bool {
        let (date, time) = (local.date(), local.time());
        let crosses_midnight = self.closes <= self.opens;
        let since_today = self.opens_on(date) && time >= self.opens && (crosses_midnight || time < self.closes);
        let since_yesterday = crosses_midnight
            && time < self.closes
            && !self.closed_dates.contains(&date)
            && date.yesterday().is_ok_and(|yesterday| self.opens_on(yesterday));
        since_today || since_yesterday
    }

    fn opens_on(&self, date: civil::Date) -> bool {
        let is_day = self.days.is_empty() || self.days.iter().any(|day| day.weekday() == date.weekday());
        is_day && !self.closed_dates.contains(&date)
    }
}

/// Parses `ZONE HH:MM-HH:MM [DAYS] [DATES]`, for example `Europe/London 09:00-18:00 mon,tue 2026-12-25,2026-12-26`. Days are
/// those on which the window opens, dates are those without calls. [`CallingWindow::check`] checks the rest.
impl FromStr for CallingWindow {
    type Err = WindowError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut words = text.split_whitespace();
        let mut word = || words.next().ok_or(WindowError::Malformed);
        let (time_zone, hours) = (word()?.to_owned(), word()?);
        let (opens, closes) = hours.split_once('-').ok_or(WindowError::MalformedHours)?;
        let opens = Self::parse_opens(opens).ok_or(WindowError::MalformedHours)?;
        let closes = Self::parse_closes(closes).ok_or(WindowError::MalformedHours)?;
        let mut rest: Vec<&str> = words.collect();
        let dates = rest.pop_if(|word| word.starts_with(|first: char| first.is_ascii_digit()));
        let days = rest.pop();
        if !rest.is_empty() {
            return Err(WindowError::Malformed);
        }
        let days = days.into_iter().flat_map(|days| days.split(','));
        let dates = dates.into_iter().flat_map(|dates| dates.split(','));
        Ok(Self {
            time_zone,
            opens,
            closes,
            days: days.map(str::parse).collect::<Result<_, _>>()?,
            closed_dates: dates
                .map(|date| date.parse().map_err(|_| WindowError::UnknownDate))
                .collect::<Result<_, _>>()?,
        })
    }
}

/// Text of a closing time at midnight.
const MIDNIGHT: &str = "24:00";

mod opens {
    use jiff::civil;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(time: &civil::Time, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:02}:{:02}", time.hour(), time.minute()))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<civil::Time, D::Error> {
        let text = String::deserialize(deserializer)?;
        super::CallingWindow::parse_opens(&text).ok_or_else(|| de::Error::custom("not a local time"))
    }
}

mod closes {
    use jiff::civil;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(time: &civil::Time, serializer: S) -> Result<S::Ok, S::Error> {
        if *time == civil::Time::midnight() {
            serializer.serialize_str(super::MIDNIGHT)
        } else {
            super::opens::serialize(time, serializer)
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<civil::Time, D::Error> {
        let text = String::deserialize(deserializer)?;
        super::CallingWindow::parse_closes(&text).ok_or_else(|| de::Error::custom("not a local time"))
    }
}

impl Day {
    /// The days from Monday to Sunday.
    pub const ALL: [Self; 7] = [Self::Mon, Self::Tue, Self::Wed, Self::Thu, Self::Fri, Self::Sat, Self::Sun];

    /// Returns the name used in the API and in rows.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Mon => "mon",
            Self::Tue => "tue",
            Self::Wed => "wed",
            Self::Thu => "thu",
            Self::Fri => "fri",
            Self::Sat => "sat",
            Self::Sun => "sun",
        }
    }

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

impl FromStr for Day {
    type Err = WindowError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|day| day.as_str() == text).ok_or(WindowError::UnknownDay)
    }
}

#[cfg(test)]
mod tests;
