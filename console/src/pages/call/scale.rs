//! The scale of the drawing: it leads from a time to a position along the axis of time, in pixels.
//!
//! **Silence is cut.** An empty gap becomes a narrow break if it is longer than a minute and longer than 15 % of the time that is
//! drawn to scale. So the scale consists of parts, each to its own scale, with breaks between them.

use switchhook_operate::duration;

/// Position at which the drawing across begins its axis of time, behind the names of the rails.
pub(super) const LEFT: i64 = 88;
/// Position at which that axis ends, unless it has too many parts for that.
const RIGHT: i64 = 1048;
/// Position at which the drawing down begins its axis of time, below the names of the columns.
const TOP: i64 = 52;
/// Length of the axis down: for each time, and limits.
const DOWN_EACH: i64 = 8;
const DOWN_MIN: i64 = 400;
const DOWN_MAX: i64 = 800;

/// Axis of time: its extent, and the sizes of its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Axis {
    begin: i64,
    end: i64,
    /// Room behind the end, for labels that begin there.
    margin: i64,
    /// Length of a break, enough for its label.
    break_length: i64,
    /// Smallest length of a part, enough for the label of its first time.
    part_min: i64,
    /// Room that the label of a time on the ruler takes.
    label_room: i64,
}

impl Axis {
    /// Returns the axis on which time runs from left to right. A drawing has its width on a page of 1,280 px, times the zoom.
    pub(super) const fn across(zoom: i64) -> Self {
        let end = LEFT + (RIGHT - LEFT) * zoom;
        Self { begin: LEFT, end, margin: 184, break_length: 56, part_min: 72, label_room: 80 }
    }

    /// Returns the axis on which this number of times runs down.
    pub(super) fn down(times: usize) -> Self {
        let length = i64::try_from(times).unwrap_or(DOWN_MAX).saturating_mul(DOWN_EACH).clamp(DOWN_MIN, DOWN_MAX);
        Self { begin: TOP, end: TOP + length, margin: 24, break_length: 32, part_min: 48, label_room: 48 }
    }
}

/// Gaps up to this length are never cut.
const SILENCE_MS_MIN: i64 = 60_000;
/// Smallest share of the time that a gap must take to be cut, in percent.
const SILENCE_PERCENT: i64 = 15;
/// Steps between times on the ruler.
const RULER_STEPS_MS: [i64; 21] = [
    100,
    200,
    500,
    1_000,
    2_000,
    5_000,
    10_000,
    15_000,
    30_000,
    60_000,
    120_000,
    300_000,
    600_000,
    900_000,
    1_800_000,
    3_600_000,
    7_200_000,
    21_600_000,
    43_200_000,
    86_400_000,
    604_800_000,
];

/// Part of the scale without a break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    from_ms: i64,
    to_ms: i64,
    from_x: i64,
    to_x: i64,
}

/// A cut silence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Break {
    pub(super) from_x: i64,
    pub(super) to_x: i64,
    /// Length of the silence, in its largest unit: `2 h`.
    pub(super) text: String,
}

/// Time on the ruler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tick {
    pub(super) x: i64,
    pub(super) at_ms: i64,
    /// True if the date is written too.
    pub(super) has_date: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scale {
    axis: Axis,
    parts: Vec<Part>,
}

impl Scale {
    /// Returns the scale on which all these times can be drawn. They are milliseconds since the Unix epoch.
    pub(super) fn of(times: &[i64], axis: Axis) -> Self {
        let mut times = times.to_vec();
        times.sort_unstable();
        times.dedup();
        let spans = spans(&times);
        let breaks = i64::try_from(spans.len()).unwrap_or(i64::MAX).saturating_sub(1);
        let room = (axis.end - axis.begin - breaks * axis.break_length).max((breaks + 1) * axis.part_min);
        let spare = room - (breaks + 1) * axis.part_min;
        // Half of the room is shared by duration. The other half is shared by the number of marks, so that a burst stays legible.
        let duration_sum = spans.iter().map(Span::duration_ms).fold(0_i64, i64::saturating_add).max(1);
        let gap_sum = spans.iter().map(|span| span.gaps).sum::<i64>().max(1);
        let mut x = axis.begin;
        let parts = spans.iter().map(|span| {
            let by_duration = i128::from(spare) * i128::from(span.duration_ms()) / i128::from(duration_sum) / 2;
            let by_gaps = spare * span.gaps / gap_sum / 2;
            let from_x = x;
            let to_x = from_x + axis.part_min + by_gaps + i64::try_from(by_duration).unwrap_or_default();
            x = to_x + axis.break_length;
            Part { from_ms: span.from_ms, to_ms: span.to_ms, from_x, to_x }
        });
        Self { axis, parts: parts.collect() }
    }

    /// Returns the position of a time.
    pub(super) fn x(&self, at_ms: i64) -> i64 {
        let mut before: Option<&Part> = None;
        for part in &self.parts {
            if at_ms < part.from_ms {
                // A time within a silence stands within its break.
                return before.map_or(part.from_x, |before| {
                    between(at_ms, (before.to_ms, part.from_ms), (before.to_x, part.from_x))
                });
            }
            if at_ms <= part.to_ms {
                return between(at_ms, (part.from_ms, part.to_ms), (part.from_x, part.to_x));
            }
            before = Some(part);
        }
        before.map_or(self.axis.begin, |part| part.to_x)
    }

    /// Returns the end of the scale.
    pub(super) fn end(&self) -> i64 {
        self.parts.last().map_or(self.axis.end, |part| part.to_x)
    }

    /// Returns the length of the drawing along the axis.
    pub(super) fn length(&self) -> i64 {
        self.end().max(self.axis.end) + self.axis.margin
    }

    pub(super) fn breaks(&self) -> Vec<Break> {
        let pairs = self.parts.iter().zip(self.parts.iter().skip(1));
        let cut = pairs.map(|(before, after)| {
            let text = coarse(after.from_ms.saturating_sub(before.to_ms));
            Break { from_x: before.to_x, to_x: after.from_x, text }
        });
        cut.collect()
    }

    /// Returns the times on the ruler: the beginning of each part, and round times within it.
    pub(super) fn ticks(&self) -> Vec<Tick> {
        let mut ticks: Vec<Tick> = Vec::new();
        for part in &self.parts {
            let day = |at_ms: i64| at_ms.div_euclid(86_400_000);
            let has_date = ticks.last().is_none_or(|last| day(last.at_ms) != day(part.from_ms));
            ticks.push(Tick { x: part.from_x, at_ms: part.from_ms, has_date });
            let width = part.to_x - part.from_x;
            let duration = part.to_ms.saturating_sub(part.from_ms);
            let is_wide = |step: &i64| {
                i128::from(*step) * i128::from(width) >= i128::from(duration) * i128::from(self.axis.label_room)
            };
            let Some(step) = RULER_STEPS_MS.into_iter().find(is_wide).filter(|_| duration > 0) else { continue };
            let mut at_ms = part.from_ms.div_euclid(step).saturating_add(1).saturating_mul(step);
            while at_ms < part.to_ms {
                let x = self.x(at_ms);
                let has_room = ticks.last().is_none_or(|last| x - last.x >= self.axis.label_room);
                if has_room && x + self.axis.label_room <= part.to_x + self.axis.break_length / 4 {
                    let has_date = ticks.last().is_none_or(|last| day(last.at_ms) != day(at_ms));
                    ticks.push(Tick { x, at_ms, has_date });
                }
                at_ms = at_ms.saturating_add(step);
            }
        }
        ticks
    }
}

/// Times without a silence between them.
struct Span {
    from_ms: i64,
    to_ms: i64,
    /// Number of gaps between its times.
    gaps: i64,
}

impl Span {
    fn duration_ms(&self) -> i64 {
        self.to_ms.saturating_sub(self.from_ms)
    }
}

/// Cuts the silences out of sorted times. Each cut makes the rest shorter, so that a shorter silence may be cut next.
fn spans(times: &[i64]) -> Vec<Span> {
    let gaps: Vec<i64> = times.iter().zip(times.iter().skip(1)).map(|(one, next)| next.saturating_sub(*one)).collect();
    let mut lengths: Vec<i64> = gaps.iter().copied().filter(|gap| *gap > SILENCE_MS_MIN).collect();
    lengths.sort_unstable();
    let mut rest = gaps.iter().fold(0_i64, |sum, gap| sum.saturating_add(*gap));
    let mut shortest_cut = i64::MAX;
    while let Some(longest) = lengths.pop() {
        if i128::from(longest) * 100 <= i128::from(rest) * i128::from(SILENCE_PERCENT) {
            break;
        }
        rest = rest.saturating_sub(longest);
        shortest_cut = longest;
    }
    let mut spans: Vec<Span> = Vec::new();
    let mut gaps = gaps.into_iter();
    for (index, at_ms) in times.iter().enumerate() {
        let gap = if index == 0 { None } else { gaps.next() };
        match (spans.last_mut(), gap) {
            (Some(span), Some(gap)) if gap < shortest_cut => {
                span.to_ms = *at_ms;
                span.gaps += 1;
            }
            (Some(_) | None, Some(_) | None) => spans.push(Span { from_ms: *at_ms, to_ms: *at_ms, gaps: 0 }),
        }
    }
    spans
}

fn between(at_ms: i64, (from_ms, to_ms): (i64, i64), (from_x, to_x): (i64, i64)) -> i64 {
    let duration = i128::from(to_ms.saturating_sub(from_ms)).max(1);
    let x = i128::from(to_x - from_x) * i128::from(at_ms.saturating_sub(from_ms)) / duration;
    from_x + i64::try_from(x).unwrap_or_default()
}

/// Returns the length of a silence in its largest unit.
fn coarse(ms: i64) -> String {
    let days = ms / 86_400_000;
    if days >= 730 {
        return format!("{} y", (days / 365).min(9_999));
    }
    duration(ms).split(' ').take(2).collect::<Vec<&str>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000;
    const HOUR: i64 = 3_600_000;
    const ACROSS: Axis = Axis::across(1);

    #[test]
    fn gap_of_two_hours_and_a_burst_of_two_seconds_are_both_legible() {
        let start = 1_800_000_000_000;
        let burst = start + 2 * HOUR;
        let times: Vec<i64> = [start].into_iter().chain((0..=4).map(|step| burst + step * 500)).collect();
        let scale = Scale::of(&times, ACROSS);
        let [cut] = scale.breaks().try_into().unwrap();
        assert_eq!((cut.text.as_str(), cut.to_x - cut.from_x), ("2 h", ACROSS.break_length));
        let apart = times.windows(2).map(|pair| scale.x(pair[1]) - scale.x(pair[0])).min().unwrap();
        assert!(apart >= 56, "{apart}");
        assert!(scale.x(burst + 2 * SECOND) == scale.end() && scale.length() <= 1_248, "{scale:?}");
        assert_eq!(scale.x(start + HOUR), (cut.from_x + cut.to_x) / 2, "a time within the silence stands in its break");
    }

    #[test]
    fn zoom_gives_a_burst_more_room_and_the_ruler_finer_steps() {
        let times: Vec<i64> = (0..=4).map(|step| step * 500).chain([20 * HOUR]).collect();
        let [one, eight] = [1, 8].map(|zoom| Scale::of(&times, Axis::across(zoom)));
        let burst = |scale: &Scale| scale.x(2_000) - scale.x(0);
        assert!(burst(&eight) >= 6 * burst(&one), "{} {}", burst(&one), burst(&eight));
        assert!(eight.ticks().len() > one.ticks().len());
    }

    #[test]
    fn gap_is_cut_only_if_it_is_long_in_itself_and_beside_the_rest() {
        let cuts = |times: &[i64]| Scale::of(times, ACROSS).breaks().len();
        assert_eq!(cuts(&[0, 60 * SECOND]), 0, "no longer than a minute");
        assert_eq!(cuts(&[0, 61 * SECOND]), 1);
        let regular: Vec<i64> = (0..20).map(|step| step * 90 * SECOND).collect();
        assert_eq!(cuts(&regular), 0, "90 s are 5 % of the whole");
        // The day hides the two minutes until it is cut.
        assert_eq!(cuts(&[0, SECOND, 121 * SECOND, 122 * SECOND, 24 * HOUR]), 2);
    }

    #[test]
    fn order_of_times_is_kept_and_everything_is_inside() {
        let mut seed = 7_u64;
        for count in 1..60 {
            let times: Vec<i64> = (0..count)
                .map(|_| {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let wide = i64::try_from(seed >> 33).unwrap();
                    1_800_000_000_000 + if seed.is_multiple_of(3) { wide * 50 } else { wide % 100_000 }
                })
                .collect();
            let scale = Scale::of(&times, ACROSS);
            let mut sorted = times.clone();
            sorted.sort_unstable();
            let places: Vec<i64> = sorted.iter().map(|at| scale.x(*at)).collect();
            assert!(places.is_sorted() && places[0] == LEFT && *places.last().unwrap() <= scale.length(), "{places:?}");
            let ticks = scale.ticks();
            assert!(ticks.windows(2).all(|pair| pair[1].x - pair[0].x >= ACROSS.part_min), "{ticks:?}");
        }
    }

    #[test]
    fn impossible_times_of_a_provider_do_no_harm() {
        let scale = Scale::of(&[i64::MIN, 0, 1_800_000_000_000, i64::MAX], ACROSS);
        assert_eq!(scale.breaks().len(), 3);
        assert_eq!(Scale::of(&[], ACROSS).x(5), LEFT);
        assert_eq!(Scale::of(&[5], ACROSS).x(5), LEFT);
        assert_eq!(Scale::of(&[5], ACROSS).x(i64::MAX), Scale::of(&[5], ACROSS).end());
    }
}
