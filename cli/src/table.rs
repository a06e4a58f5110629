//! Text for a terminal of 100 columns.

/// Width of a terminal in characters.
const WIDTH: usize = 100;

/// Breaks a text into lines of at most [`WIDTH`] characters, each after `indent` spaces. A longer word gets a line of its own.
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

/// Returns the rows of a table as lines. Each column is as wide as its widest cell.
pub(crate) fn aligned<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) -> Vec<String> {
    let mut widths = [0; COLUMNS];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let line = |row: &[String; COLUMNS]| {
        let cells: Vec<String> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        cells.join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn column_is_as_wide_as_its_widest_cell() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned);
        assert_eq!(aligned(&[row(["call", "job"]), row(["call-1", "-"])]), ["call    job", "call-1  -"]);
    }

    #[test]
    fn long_texts_are_wrapped() {
        let text = "word ".repeat(40);
        let lines = wrapped(&text, 4);
        assert!(lines.len() > 1 && lines.iter().all(|line| line.chars().count() <= WIDTH && line.starts_with("    w")));
    }
}
