//! Text for a terminal of 100 columns.

/// Width of a terminal that everything fits into.
pub(crate) const WIDTH: usize = 100;

/// Breaks a text into lines of at most [`WIDTH`] characters, each after `indent` spaces. A word that is too long stands alone.
pub(crate) fn wrapped(text: &str, indent: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) | None => lines.push(format!("{:indent$}{word}", "")),
        }
    }
    lines
}

/// Cuts a text in the middle, so that it has at most `width` characters.
pub(crate) fn cut(text: &str, width: usize) -> String {
    let count = text.chars().count();
    if count <= width {
        return text.to_owned();
    }
    let tail = width.saturating_sub(1) / 2;
    let head = width.saturating_sub(1) - tail;
    let (first, last): (String, String) =
        (text.chars().take(head).collect(), text.chars().skip(count - tail).collect());
    format!("{first}…{last}")
}

/// Returns a duration for people: `41 ms`, `3.2 s`, `2 min 5 s`, `3 h 12 min`, `2 d 4 h`.
pub(crate) fn duration(ms: i64) -> String {
    let (sign, ms) = (if ms < 0 { "-" } else { "" }, ms.unsigned_abs());
    let (seconds, minutes, hours, days) = (ms / 1_000, ms / 60_000, ms / 3_600_000, ms / 86_400_000);
    let text = match (days, hours, minutes) {
        (0, 0, 0) if ms < 1_000 => format!("{ms} ms"),
        (0, 0, 0) => format!("{}.{} s", seconds, ms % 1_000 / 100),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, _, _) => format!("{hours} h {} min", minutes % 60),
        (_, _, _) => format!("{days} d {} h", hours % 24),
    };
    format!("{sign}{text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_short() {
        let texts = [41, 3_290, 125_000, 11_520_000, 187_200_000, -41].map(duration);
        assert_eq!(texts, ["41 ms", "3.2 s", "2 min 5 s", "3 h 12 min", "2 d 4 h", "-41 ms"]);
    }

    #[test]
    fn long_texts_are_wrapped_or_cut() {
        let text = "word ".repeat(40);
        let lines = wrapped(&text, 4);
        assert!(lines.len() > 1 && lines.iter().all(|line| line.chars().count() <= WIDTH && line.starts_with("    w")));
        assert_eq!(cut("call-0123456789", 9), "call…6789");
        assert_eq!(cut("call", 9), "call");
    }
}
