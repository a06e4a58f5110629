use switchhook_domain::{Direction, MoveKind, Provider};
use switchhook_operate::timeline::{AnnouncedInStory, CallSummary, JobSummary, WriteInStory};

use super::*;
use crate::pages::call::down::{self, TOUCH_DISTANCE};

const START_MS: i64 = 1_800_000_000_000;

fn at(ms: i64) -> String {
    Timestamp::from_millis(START_MS + ms).to_string()
}

fn event(id: &str, kind: &'static str, occurred: Option<i64>, received: i64) -> Line {
    let late_ms = occurred.map(|occurred| received - occurred);
    Line::Event(EventInStory {
        event_id: id.to_owned(),
        source_event_id: id.to_owned(),
        kind,
        implied: false,
        occurred_at: occurred.map(at),
        received_at: at(received),
        late_ms,
        is_late: late_ms.is_some_and(|ms| ms >= 10_000),
        folded_at: at(received),
        attempt: Some(1),
        disposition: "applied",
        reason: "stepped",
        why: String::new(),
        refers_to: Vec::new(),
    })
}

fn implied(line: Line, kind: &'static str) -> Line {
    match line {
        Line::Event(event) => {
            let event_id = format!("{}~{kind}", event.source_event_id);
            Line::Event(EventInStory { event_id, kind, implied: true, ..event })
        }
        other @ (Line::Move { .. } | Line::Write(_)) => other,
    }
}

fn unnamed(line: Line) -> Line {
    match line {
        Line::Event(event) => Line::Event(EventInStory { attempt: None, ..event }),
        other @ (Line::Move { .. } | Line::Write(_)) => other,
    }
}

fn write(ms: i64, job: &'static str, announced: std::ops::Range<usize>) -> Line {
    let announced = announced.map(|sequence| AnnouncedInStory {
        id: format!("d{sequence}"),
        sequence,
        event_type: "call.changed".to_owned(),
    });
    Line::Write(WriteInStory {
        at: at(ms),
        lifecycle: None,
        outcome: None,
        appointment_status: "Dialing",
        job: Some(job),
        announced: announced.collect(),
    })
}

fn moved(ms: i64, kind: MoveKind, reason: Option<&str>) -> Line {
    Line::Move { at: at(ms), kind: kind.as_str(), reason: reason.map(str::to_owned) }
}

fn attempt(number: u8, started: i64, ended: Option<i64>, lifecycle: &'static str) -> AttemptSummary {
    AttemptSummary {
        number,
        provider: Some(Provider::Retell),
        provider_call_id: None,
        lifecycle,
        outcome: "no_answer",
        dialled_at: Some(at(started)),
        started_at: at(started),
        ended_at: ended.map(at),
    }
}

fn story(attempts: Vec<AttemptSummary>, lines: Vec<Line>) -> Story {
    Story {
        call: CallSummary {
            call_id: "c".to_owned(),
            provider: None,
            direction: Some(Direction::Outbound),
            appointment_id: None,
            appointment_status: "Dialing",
            job: JobSummary { state: None, due_at: None, lease_ends_at: None, stop_reason: None },
            lifecycle: None,
            outcome: None,
            settled: false,
            attempts,
            version: 1,
            created_at: at(0),
            updated_at: at(0),
            settled_at: None,
            forgotten_at: None,
        },
        in_short: String::new(),
        person: None,
        found_by: None,
        other_calls: Vec::new(),
        as_of: None,
        doubts: Vec::new(),
        story: lines,
    }
}

fn drawn(story: &Story) -> Drawing {
    let rows: Vec<usize> = (0..story.story.len()).collect();
    draw(story, story, &rows, 1)
}

fn fills(drawing: &Drawing, y: i64) -> Vec<Fill> {
    drawing.bars.iter().filter(|bar| bar.y == y).map(|bar| bar.fill).collect()
}

#[test]
fn lines_of_events_out_of_order_cross_and_prompt_ones_are_vertical() {
    let drawing = drawn(&story(
        Vec::new(),
        vec![
            event("busy", "busy", Some(10_000), 10_000),
            event("ringing", "ringing", Some(5_000), 40_000),
            event("late", "completed", Some(20_000), 30_000),
        ],
    ));
    let line = |row: usize| drawing.joins.iter().find(|join| join.rows == [row]).unwrap();
    assert_eq!(line(0).from_x, line(0).to_x);
    let (first, second) = (line(1), line(2));
    assert!(first.from_x < second.from_x && first.to_x > second.to_x, "{first:?} {second:?}");
    assert_eq!((line(0).is_late, first.is_late, second.is_late), (false, true, true));
}

#[test]
fn event_without_a_time_of_its_provider_stands_on_the_lower_rail_alone() {
    let drawing = drawn(&story(
        Vec::new(),
        vec![
            event("a", "ringing", Some(0), 1_000),
            event("b", "busy", None, 30_000),
            event("switchhook:deadline", "deadline_passed", Some(2_000), 45_000),
        ],
    ));
    let rails = |row: usize| -> Vec<i64> {
        drawing.marks.iter().filter(|mark| mark.rows == [row]).map(|mark| mark.y - drawing.happened_y).collect()
    };
    assert_eq!((rails(0), rails(1), rails(2)), (vec![0, JOIN_HEIGHT], vec![JOIN_HEIGHT], vec![JOIN_HEIGHT]));
    assert_eq!(drawing.joins.len(), 1);
}

#[test]
fn implied_events_are_smaller_marks_on_the_line_of_their_source() {
    let source = || event("e", "completed", Some(0), 30_000);
    let lines = vec![source(), implied(source(), "ringing"), implied(source(), "in_progress")];
    let drawing = drawn(&story(Vec::new(), lines));
    let line = &drawing.joins[0];
    let small: Vec<&Mark> = drawing.marks.iter().filter(|mark| matches!(mark.shape, Shape::Implied(_))).collect();
    assert_eq!((drawing.joins.len(), small.len()), (1, 2));
    for mark in small {
        let part = (mark.y - drawing.happened_y) as f64 / JOIN_HEIGHT as f64;
        let on_line = line.from_x as f64 + (line.to_x - line.from_x) as f64 * part;
        assert!((mark.x as f64 - on_line).abs() < 8.0, "{mark:?} is not on {line:?}");
    }
}

#[test]
fn narrow_drawing_has_the_same_events_and_names_them() {
    let lines = vec![
        event("busy", "busy", Some(10_000), 10_000),
        event("ringing", "ringing", Some(5_000), 40_000),
        event("a", "user_confirmed", Some(50_000), 50_100),
        event("b", "completed", Some(50_050), 50_110),
        event("late", "no_answer", Some(15_000), 3_650_000),
    ];
    let story = story(vec![attempt(1, 0, Some(10_000), "busy")], lines);
    let down = down::draw(&story, &story, &[0, 1, 2, 3, 4]);
    let arrived = |mark: &&Mark| mark.y == down.happened_y + down.join;
    let rows: Vec<usize> = down.marks.iter().filter(arrived).flat_map(|mark| mark.rows.clone()).collect();
    assert_eq!(rows, [0, 1, 2, 3, 4]);
    let texts: Vec<&str> = down.labels.iter().map(|label| label.text.as_str()).collect();
    for text in ["Happened", "Arrived", "ringing", "2 events", "no answer", "59 min"] {
        assert!(texts.contains(&text), "{text}: {texts:?}");
    }
    assert!(down.height <= 326, "a page of 360 px has room for it");
    let crossed: Vec<&Join> = down.joins.iter().filter(|join| join.rows == [0] || join.rows == [1]).collect();
    assert!((crossed[0].from_x > crossed[1].from_x) != (crossed[0].to_x > crossed[1].to_x), "{crossed:?}");
}

#[test]
fn narrow_drawing_has_the_job_its_moves_and_what_was_announced() {
    let lines = vec![
        write(0, "PENDING", 1..2),
        moved(30_000, MoveKind::Claimed, None),
        write(30_000, "CLAIMED", 2..2),
        moved(60_000, MoveKind::Withdrawn, Some("connection_refused")),
        write(60_000, "PENDING", 2..4),
        event("c", "user_confirmed", Some(89_000), 90_000),
        write(90_041, "COMPLETED", 4..9),
    ];
    let story = story(Vec::new(), lines);
    let rows: Vec<usize> = (0..story.story.len()).collect();
    let down = down::draw(&story, &story, &rows);
    let is_job = |bar: &&Bar| matches!(bar.fill, Fill::Job(_));
    let states: Vec<Fill> = down.bars.iter().filter(is_job).map(|bar| bar.fill).collect();
    assert_eq!(states, ["PENDING", "CLAIMED", "PENDING", "COMPLETED"].map(Fill::Job));
    let moves: Vec<&[usize]> =
        down.marks.iter().filter(|mark| mark.shape == Shape::Move).map(|mark| mark.rows.as_slice()).collect();
    assert_eq!(moves, [&[1][..], &[3]]);
    let texts: Vec<(&str, &[usize])> = down
        .labels
        .iter()
        .filter(|label| !label.rows.is_empty())
        .map(|label| (label.text.as_str(), label.rows.as_slice()))
        .collect();
    let expected: [(&str, &[usize]); 4] =
        [("#1", &[0]), ("claimed", &[1]), ("withdrawn #2–#3", &[3, 4]), ("user confirmed #4–#8", &[5, 6])];
    assert_eq!(texts, expected);
}

#[test]
fn marks_closer_than_14_pixels_become_one() {
    assert_eq!(grouped(vec![(14, 3), (0, 1), (13, 2)], MARK_DISTANCE), [(0, vec![1, 2]), (14, vec![3])]);
    let burst: Vec<Line> = (0..5).map(|index| event(&format!("e{index}"), "ringing", None, index)).collect();
    let drawing = drawn(&story(Vec::new(), burst.into_iter().chain([event("z", "busy", None, 50_000)]).collect()));
    let rows: Vec<Vec<usize>> = drawing.marks.iter().map(|mark| mark.rows.clone()).collect();
    assert_eq!(rows, [vec![0, 1, 2, 3, 4], vec![5]]);
}

#[test]
fn mark_of_a_group_shows_what_needs_attention() {
    assert_eq!(most_notable(["applied", "refused", "stale"].into_iter()), "refused");
    assert_eq!(most_notable(["applied", "stale"].into_iter()), "stale");
}

#[test]
fn attempt_has_a_bar_for_each_phase() {
    let lines = vec![
        event("r", "ringing", Some(2_000), 2_000),
        event("p", "in_progress", Some(8_000), 8_000),
        event("c", "completed", Some(40_000), 40_000),
    ];
    let drawing = drawn(&story(vec![attempt(1, 0, Some(40_000), "completed")], lines));
    let y = drawing.rails[1];
    assert_eq!(fills(&drawing, y), [Fill::Dialled, Fill::Ringing, Fill::InProgress]);
    let bars: Vec<&Bar> = drawing.bars.iter().filter(|bar| bar.y == y).collect();
    assert!(bars.windows(2).all(|pair| pair[0].x + pair[0].width == pair[1].x), "{bars:?}");
    assert!(drawing.labels.iter().any(|label| label.text == "completed" && label.class.is_empty()));
}

#[test]
fn events_that_name_no_attempt_are_phases_of_the_only_one() {
    let lines = || {
        let ringing = event("r", "ringing", Some(2_000), 2_000);
        let answered = event("p", "in_progress", Some(8_000), 8_000);
        vec![unnamed(ringing), unnamed(answered)]
    };
    let drawing = drawn(&story(vec![attempt(1, 0, Some(40_000), "completed")], lines()));
    assert_eq!(fills(&drawing, drawing.rails[1]), [Fill::Dialled, Fill::Ringing, Fill::InProgress]);
    let attempts = vec![attempt(1, 0, Some(1_000), "busy"), attempt(2, 1_500, Some(40_000), "completed")];
    let drawing = drawn(&story(attempts, lines()));
    for y in [drawing.rails[1], drawing.rails[2]] {
        assert_eq!(fills(&drawing, y), [Fill::Dialled], "nobody knows which of the attempts rang");
    }
}

#[test]
fn phase_begins_with_its_first_report_and_never_returns() {
    let repeated = |line: Line| match line {
        Line::Event(event) => Line::Event(EventInStory { disposition: "stale", reason: "repeated", ..event }),
        other @ (Line::Move { .. } | Line::Write(_)) => other,
    };
    let lines = vec![
        event("c", "user_confirmed", Some(30_000), 30_000),
        implied(event("c", "user_confirmed", Some(30_000), 30_000), "in_progress"),
        repeated(event("p", "in_progress", Some(8_000), 40_000)),
        repeated(event("r", "ringing", Some(20_000), 41_000)),
    ];
    let drawing = drawn(&story(vec![attempt(1, 0, Some(50_000), "completed")], lines));
    let bars: Vec<&Bar> = drawing.bars.iter().filter(|bar| bar.y == drawing.rails[1]).collect();
    assert_eq!(bars.iter().map(|bar| bar.fill).collect::<Vec<_>>(), [Fill::Dialled, Fill::InProgress]);
    assert!(bars[1].width > 2 * bars[0].width, "the report says when it began: {bars:?}");
}

#[test]
fn doubt_and_silence_have_bars_of_their_own() {
    let doubted = vec![moved(20_000, MoveKind::Doubted, None), event("p", "in_progress", Some(40_000), 41_000)];
    let drawing = drawn(&story(vec![attempt(1, 0, None, "in_progress")], doubted));
    assert_eq!(fills(&drawing, drawing.rails[2]), [Fill::Doubt, Fill::InProgress]);
    let silent =
        vec![event("r", "ringing", Some(2_000), 2_000), event("switchhook:d", "deadline_passed", Some(2_000), 50_000)];
    let drawing = drawn(&story(vec![attempt(1, 0, Some(50_000), INCONCLUSIVE)], silent));
    let fills = fills(&drawing, drawing.rails[1]);
    assert_eq!((fills.first(), fills.last()), (Some(&Fill::Dialled), Some(&Fill::Inconclusive)), "{fills:?}");
}

#[test]
fn job_has_a_bar_for_each_state() {
    let lines = vec![
        write(0, "PENDING", 0..0),
        write(10_000, "CLAIMED", 0..0),
        write(11_000, "IN_PROGRESS", 1..3),
        write(40_000, "COMPLETED", 3..4),
    ];
    let drawing = drawn(&story(Vec::new(), lines));
    let states = fills(&drawing, drawing.rails[0]);
    assert_eq!(states, ["PENDING", "CLAIMED", "IN_PROGRESS", "COMPLETED"].map(Fill::Job));
    let labels: Vec<&str> =
        drawing.labels.iter().filter(|label| label.class == "job").map(|label| label.text.as_str()).collect();
    assert_eq!(labels, ["PENDING", "IN_PROGRESS", "COMPLETED"], "a short state has no room for its name");
    let announced: Vec<&str> =
        drawing.labels.iter().filter(|label| label.class == "announced").map(|label| label.text.as_str()).collect();
    assert_eq!(announced, ["#1–#2", "#3"]);
}

#[test]
fn earlier_view_keeps_the_scale_and_ends_at_its_time() {
    let whole = story(
        Vec::new(),
        vec![write(0, "PENDING", 0..0), write(10_000, "IN_PROGRESS", 1..2), write(40_000, "COMPLETED", 2..3)],
    );
    let mut past = story(Vec::new(), vec![write(0, "PENDING", 0..0), write(10_000, "IN_PROGRESS", 1..2)]);
    past.as_of = Some(at(10_000));
    let (now, then) = (drawn(&whole), draw(&past, &whole, &[0, 1], 1));
    assert_eq!((now.width, &now.ticks, now.cursor), (then.width, &then.ticks, None));
    assert_eq!(then.cursor, Some(now.bars[1].x));
    assert_eq!(then.bars[0], now.bars[0]);
}

/// The space that a text takes.
fn box_of(label: &Label) -> (i64, i64, i64, i64) {
    (label.x, label.x + text_width(&label.text), label.y - 11, label.y + 3)
}

#[test]
fn no_label_overlaps_another_or_leaves_the_drawing() {
    let mut seed = 11_u64;
    let mut random = |limit: i64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        i64::try_from(seed >> 34).unwrap() % limit
    };
    for round in 0..200 {
        let span = [2_000, 60_000, 3_600_000, 400_000_000][round % 4];
        let mut lines = Vec::new();
        let mut moments: Vec<i64> = (0..2 + random(40)).map(|_| random(span)).collect();
        moments.sort_unstable();
        let mut sequence = 1;
        for (index, ms) in moments.iter().enumerate() {
            let received = if random(3) == 0 { *ms + random(span) } else { *ms };
            lines.push(event(&format!("e{index}"), "ringing", Some(*ms), received));
            if random(3) == 0 {
                lines.push(moved(*ms, MoveKind::Withdrawn, Some("connection_refused_by_the_provider_at_last")));
            }
            let announced = usize::try_from(random(12)).unwrap();
            let job = ["PENDING", "CLAIMED", "IN_PROGRESS", "COMPLETED"][usize::try_from(random(4)).unwrap()];
            lines.push(write(*ms, job, sequence..sequence + announced));
            sequence += announced;
        }
        let attempts = (1..=1 + random(4)).map(|number| {
            let begin = random(span);
            let ended = (random(2) == 0).then(|| begin + random(span));
            attempt(u8::try_from(number).unwrap(), begin, ended, "inconclusive")
        });
        let story = story(attempts.collect(), lines);
        let rows: Vec<usize> = (0..story.story.len()).collect();
        let across = [1, 4].map(|zoom| draw(&story, &story, &rows, zoom));
        for drawing in across {
            let (width, height) = (drawing.width, drawing.height);
            for label in &drawing.labels {
                let (left, right, ..) = box_of(label);
                // The state of a job stands in its bar, which has the colour of the page.
                let is_on = |bar: &&Bar| bar.y + BASELINE == label.y && left < bar.x + bar.width && bar.x < right;
                let bar = drawing.bars.iter().find(is_on);
                assert!(label.class == "job" || bar.is_none(), "round {round}: {label:?} stands on {bar:?}");
            }
            labels_are_apart(&drawing, width, height, round);
        }
        let down = down::draw(&story, &story, &rows);
        labels_are_apart(&down, down.height, down.width, round);
        let is_touched = |mark: &&Mark| mark.y != down.happened_y && matches!(mark.shape, Shape::Event(_));
        let touched: Vec<i64> = down.marks.iter().filter(is_touched).map(|mark| mark.x).collect();
        assert!(touched.windows(2).all(|pair| pair[1] - pair[0] >= TOUCH_DISTANCE), "{touched:?}");
    }
}

fn labels_are_apart(drawing: &Drawing, width: i64, height: i64, round: usize) {
    for (index, label) in drawing.labels.iter().enumerate() {
        let (left, right, top, bottom) = box_of(label);
        assert!(left >= 0 && right <= width && top >= 0 && bottom <= height, "{label:?} in {drawing:?}");
        for other in drawing.labels.iter().skip(index + 1) {
            let (other_left, other_right, other_top, other_bottom) = box_of(other);
            let is_apart = right <= other_left || other_right <= left || bottom <= other_top || other_bottom <= top;
            assert!(is_apart, "round {round}: {label:?} overlaps {other:?}");
        }
    }
}
