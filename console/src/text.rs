//! Texts of a stack, made safe to look at.

pub(crate) use switchhook_operate::visible;

/// Largest part of a body or payload that is shown, in bytes.
pub(crate) const SHOWN_BYTES_MAX: usize = 256 * 1024;
/// Characters that are kept at each end of a long id of a call.
const ID_HEAD: usize = 16;
const ID_TAIL: usize = 8;
/// The same for an event, whose id ends with its type.
const EVENT_ID_HEAD: usize = 20;
const EVENT_ID_TAIL: usize = 18;
/// Longest end of an id that is shown rather than cut.
const CUT_MIN: usize = 6;

/// Returns the id of a call for a list, cut in its middle if it is long.
pub(crate) fn short_id(id: &str) -> String {
    cut(id, ID_HEAD, ID_TAIL)
}

/// Returns the id of an event for a list, cut in its middle if it is long.
pub(crate) fn short_event_id(id: &str) -> String {
    cut(id, EVENT_ID_HEAD, EVENT_ID_TAIL)
}

fn cut(id: &str, head: usize, tail: usize) -> String {
    let shown = visible(id);
    let count = shown.chars().count();
    if count <= head + tail + CUT_MIN {
        return shown;
    }
    let head: String = shown.chars().take(head).collect();
    let tail: String = shown.chars().skip(count - tail).collect();
    format!("{head}…{tail}")
}

/// Returns a duration in its largest unit, rounded down: `41 ms`, `12 s`, `3 min`, `2 h`, `4 d`.
pub(crate) fn short_duration(ms: i64) -> String {
    let ms = ms.max(0);
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")];
    let unit = units.into_iter().find(|(size, _)| ms >= *size);
    unit.map_or_else(|| format!("{ms} ms"), |(size, name)| format!("{} {name}", ms / size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_id_is_cut_in_its_middle() {
        assert_eq!(short_id("call-9a44c8"), "call-9a44c8");
        assert_eq!(short_id(&format!("retell:call_{}", "0123456789".repeat(3))), "retell:call_0123…23456789");
    }

    #[test]
    fn id_of_an_event_keeps_its_type() {
        let id = "retell:call_5d0b8f6e11aa22bb33cc44dd55ee66ff:call_analyzed";
        assert_eq!(short_event_id(id), "retell:call_5d0b8f6e…66ff:call_analyzed");
        assert_eq!(short_event_id("generic:evt_991"), "generic:evt_991");
    }

    #[test]
    fn duration_has_one_unit() {
        let texts = [-5, 41, 12_999, 185_000, 7_300_000, 400_000_000].map(short_duration);
        assert_eq!(texts, ["0 ms", "41 ms", "12 s", "3 min", "2 h", "4 d"]);
    }
}
