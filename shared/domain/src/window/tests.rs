use proptest::prelude::*;

use super::*;

const MINUTE_MS: i64 = 60_000;

fn window(text: &str) -> CallingWindow {
    text.parse().unwrap()
}

fn opening(window: &CallingWindow, now: &str) -> Result<Option<String>, WindowError> {
    let opens = window.next_opening(Timestamp::parse_rfc3339(now).unwrap())?;
    Ok(opens.map(|at| at.to_string()))
}

/// Checks the next opening. `None`: the window is open.
fn check(text: &str, now: &str, expected: Option<&str>) {
    assert_eq!(opening(&window(text), now), Ok(expected.map(str::to_owned)), "{text} at {now}");
}

#[test]
fn window_is_read_on_the_callees_clock() {
    // British summer time is an hour ahead of UTC.
    let text = "Europe/London 09:00-18:00";
    check(text, "2025-07-01T08:00:00Z", None);
    check(text, "2025-07-01T07:59:59Z", Some("2025-07-01T08:00:00.000Z"));
    check(text, "2025-12-01T08:00:00Z", Some("2025-12-01T09:00:00.000Z"));
    check(text, "2025-07-01T17:00:00Z", Some("2025-07-02T08:00:00.000Z"));
}

#[test]
fn window_opens_on_its_days_and_across_a_change_of_clocks() {
    // Friday evening before the clocks go forward on Sunday, 30 March 2025.
    check("Europe/London 09:00-18:00 mon,tue", "2025-03-28T20:00:00Z", Some("2025-03-31T08:00:00.000Z"));
    check("Europe/London 09:00-18:00 mon", "2025-03-31T18:00:00Z", Some("2025-04-07T08:00:00.000Z"));
}

#[test]
fn window_that_crosses_midnight_belongs_to_the_day_on_which_it_opens() {
    // 2 January 2026 is a Friday.
    let text = "UTC 20:00-02:00 fri";
    check(text, "2026-01-02T01:00:00Z", Some("2026-01-02T20:00:00.000Z"));
    check(text, "2026-01-02T20:00:00Z", None);
    check(text, "2026-01-03T01:59:59Z", None);
    check(text, "2026-01-03T02:00:00Z", Some("2026-01-09T20:00:00.000Z"));
}

#[test]
fn window_may_close_at_the_end_of_the_day() {
    check("UTC 09:00-24:00", "2026-01-02T23:59:59Z", None);
    check("UTC 09:00-24:00", "2026-01-03T00:00:00Z", Some("2026-01-03T09:00:00.000Z"));
    assert_eq!(window("UTC 09:00-24:00"), window("UTC 09:00-00:00"));
    for now in ["2026-01-02T00:00:00Z", "2026-01-02T23:59:59.999Z"] {
        check("UTC 00:00-24:00", now, None);
        check("UTC 00:00-24:00 sat", now, Some("2026-01-03T00:00:00.000Z"));
    }
}

#[test]
fn nobody_is_called_on_a_closed_date() {
    check("UTC 09:00-18:00 2026-12-25,2026-12-26", "2026-12-24T18:00:00Z", Some("2026-12-27T09:00:00.000Z"));
    check("UTC 09:00-18:00 fri 2026-12-25,2027-01-01", "2026-12-24T12:00:00Z", Some("2027-01-08T09:00:00.000Z"));
    // A window that opened the evening before closes at midnight, and the window of the date itself does not open.
    let night = "UTC 20:00-02:00 2026-12-25";
    check(night, "2026-12-24T23:59:59Z", None);
    check(night, "2026-12-25T00:00:00Z", Some("2026-12-26T20:00:00.000Z"));
    check(night, "2026-12-26T01:00:00Z", Some("2026-12-26T20:00:00.000Z"));
}

#[test]
fn clocks_that_go_forward_open_a_window_whose_opening_they_skip() {
    // In Berlin the clocks go from 02:00 to 03:00 on 29 March 2026, at 01:00 UTC.
    check("Europe/Berlin 02:30-12:00", "2026-03-29T00:59:59Z", Some("2026-03-29T01:00:00.000Z"));
    check("Europe/Berlin 02:30-03:15", "2026-03-29T00:59:59Z", Some("2026-03-29T01:00:00.000Z"));
    check("Europe/Berlin 02:30-12:00", "2026-03-29T01:00:00Z", None);
    // A window within the skipped hour does not open on that day.
    check("Europe/Berlin 02:10-02:50", "2026-03-29T00:00:00Z", Some("2026-03-30T00:10:00.000Z"));
    // A window on Sundays alone opens a week later.
    check("Europe/Berlin 02:10-02:50 sun", "2026-03-23T00:00:00Z", Some("2026-04-05T00:10:00.000Z"));
    // A window that would close in the skipped hour closes as the hour is skipped.
    check("Europe/Berlin 01:00-02:30", "2026-03-29T00:59:59Z", None);
    check("Europe/Berlin 01:00-02:30", "2026-03-29T01:00:00Z", Some("2026-03-29T23:00:00.000Z"));
}

#[test]
fn clocks_that_go_back_open_a_window_twice() {
    // In Berlin the clocks go from 03:00 back to 02:00 on 25 October 2026, at 01:00 UTC.
    let text = "Europe/Berlin 02:30-06:00";
    check(text, "2026-10-25T00:29:59Z", Some("2026-10-25T00:30:00.000Z"));
    check(text, "2026-10-25T00:59:59Z", None);
    check(text, "2026-10-25T01:00:00Z", Some("2026-10-25T01:30:00.000Z"));
    check(text, "2026-10-25T01:30:00Z", None);
    // The window closes at 02:30, and the clocks go back into it.
    let text = "Europe/Berlin 01:00-02:30";
    check(text, "2026-10-25T00:30:00Z", Some("2026-10-25T01:00:00.000Z"));
    check(text, "2026-10-25T01:29:59Z", None);
    check(text, "2026-10-25T01:30:00Z", Some("2026-10-26T00:00:00.000Z"));
}

#[test]
fn window_that_cannot_be_understood_is_never_open() {
    for now in ["2025-07-01T08:00:00Z", "2025-07-01T20:00:00Z"] {
        for unknown in ["Europe/Nowhere 09:00-18:00", "Etc/Unknown 09:00-18:00"] {
            assert_eq!(opening(&window(unknown), now), Err(WindowError::UnknownTimeZone));
        }
        assert_eq!(opening(&window("UTC 09:00-09:00"), now), Err(WindowError::ClosesAsItOpens));
    }
}

#[test]
fn window_is_text_or_json() {
    let text = "Europe/London 09:00-24:00 mon,sun 2026-12-25,2026-12-26";
    let json = serde_json::json!({
        "time_zone": "Europe/London", "opens": "09:00", "closes": "24:00", "days": ["mon", "sun"],
        "closed_dates": ["2026-12-25", "2026-12-26"],
    });
    assert_eq!(serde_json::to_value(window(text)).unwrap(), json);
    assert_eq!(serde_json::from_value::<CallingWindow>(json).unwrap(), window(text));
    for (text, error) in [
        ("", WindowError::Malformed),
        ("UTC", WindowError::Malformed),
        ("UTC 09:00", WindowError::MalformedHours),
        ("UTC 9:00-18:00", WindowError::MalformedHours),
        ("UTC 09:00-18:60", WindowError::MalformedHours),
        ("UTC 24:00-18:00", WindowError::MalformedHours),
        ("UTC 09:00-18:00 mon tue", WindowError::Malformed),
        ("UTC 09:00-18:00 monday", WindowError::UnknownDay),
        ("UTC 09:00-18:00 mon,tues", WindowError::UnknownDay),
        ("UTC 09:00-18:00 2026-02-30", WindowError::UnknownDate),
        ("UTC 09:00-18:00 mon 2026-12-25,2026-13-01", WindowError::UnknownDate),
        ("UTC 09:00-18:00 2026-12-25 mon", WindowError::Malformed),
    ] {
        assert_eq!(text.parse::<CallingWindow>(), Err(error), "{text}");
    }
}

mod random {
    use super::*;

    proptest! {
        #![proptest_config(switchhook_random::config(400, None))]

        /// The next opening is the first minute at which the window is open, when every minute is tried.
        #[test]
        fn next_opening_is_the_first_open_minute(
            zone in prop::sample::select(vec!["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo"]),
            // Around the changes of clocks of Berlin, New York and Lord Howe, and anywhere in 2026.
            start in prop_oneof![
                Just("2026-03-28T20:00:00Z"), Just("2026-10-24T20:00:00Z"), Just("2026-03-08T00:00:00Z"),
                Just("2026-11-01T00:00:00Z"), Just("2026-04-04T08:00:00Z"), Just("2026-10-03T08:00:00Z"),
                Just("2026-07-14T10:00:00Z"),
            ],
            minutes in 0_i64..1_440,
            (opens, closes) in (0_i8..96, 0_i8..96),
            days in prop::sample::subsequence(Day::ALL.to_vec(), 0..=3),
            closed in prop::collection::vec(0_i64..4, 0..=2),
        ) {
            let quarter = |n: i8| civil::time(n / 4, n % 4 * 15, 0, 0);
            let start = Timestamp::parse_rfc3339(start).unwrap().as_millis() + minutes * MINUTE_MS;
            let first_date = jiff::Timestamp::from_millisecond(start).unwrap().to_zoned(TimeZone::UTC).date();
            let window = CallingWindow {
                time_zone: zone.to_owned(),
                opens: quarter(opens),
                closes: quarter(closes),
                days,
                closed_dates: closed.iter().map(|days| first_date.saturating_add(jiff::Span::new().days(*days))).collect(),
            };
            prop_assume!(window.check().is_ok());
            let next = window.next_opening(Timestamp::from_millis(start)).unwrap().map_or(start, Timestamp::as_millis);
            let time_zone = TimeZone::get(zone).unwrap();
            let is_open = |at: &i64| window.is_open(time_zone.to_datetime(jiff::Timestamp::from_millisecond(*at).unwrap()));
            prop_assert!(is_open(&next));
            prop_assert!(next - start <= 31 * 24 * 60 * MINUTE_MS, "{}", Timestamp::from_millis(next));
            let earlier = (0..).map(|n| start + n * MINUTE_MS).take_while(|at| *at < next).find(is_open);
            prop_assert_eq!(earlier.map(Timestamp::from_millis), None);
        }
    }
}
