//! Numbers, dollars and tables of the page.

/// A price with all its digits.
pub(super) fn usd(price: f64) -> String {
    let digits = format!("{price:.4}");
    let trimmed = digits.trim_end_matches('0');
    let decimals = trimmed.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    format!("${price:.*}", decimals.max(2))
}

/// A number with about three digits, or all those before the point.
pub(super) fn number(value: f64) -> String {
    let decimals = match value.abs() {
        0.0 => 0,
        ..0.1 => 4,
        ..10.0 => 3,
        ..100.0 => 1,
        _ => 0,
    };
    rounded(value, decimals)
}

/// A number that others are computed from: with four decimals if it is small, and else with one.
pub(super) fn precise(value: f64) -> String {
    rounded(value, if value.abs() < 10.0 { 4 } else { 1 })
}

fn rounded(value: f64, decimals: usize) -> String {
    let digits = format!("{value:.decimals$}");
    match digits.split_once('.') {
        Some((whole, rest)) => {
            let rest = rest.trim_end_matches('0');
            format!("{}{}{rest}", grouped(whole), if rest.is_empty() { "" } else { "." })
        }
        None => grouped(&digits),
    }
}

pub(super) fn dollars(value: f64) -> String {
    let digits = format!("{value:.2}");
    let (whole, cents) = digits.split_once('.').unwrap_or((&digits, "00"));
    format!("{}.{cents}", grouped(whole))
}

/// Separates each three digits of a whole number by a comma.
fn grouped(digits: &str) -> String {
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        let after = digits.len() - index;
        if index > 0 && after.is_multiple_of(3) && !text.ends_with('-') {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A Markdown table whose columns are as wide as their widest cells.
pub(super) fn table<const COLUMNS: usize>(
    titles: [&str; COLUMNS],
    rows: impl IntoIterator<Item = [String; COLUMNS]>,
) -> String {
    let rows: Vec<[String; COLUMNS]> = std::iter::once(titles.map(str::to_owned)).chain(rows).collect();
    let mut lines: Vec<String> = rows.iter().map(|row| format!("| {} |\n", row.join(" | "))).collect();
    lines.insert(1, format!("|{}\n", "---|".repeat(COLUMNS)));
    lines.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_grouped() {
        let numbers = [0.0, 0.0386, 0.5, 2.0, 11.574, 86.4, 115.74, 1_157.4, 1e9].map(number);
        assert_eq!(numbers, ["0", "0.0386", "0.5", "2", "11.6", "86.4", "116", "1,157", "1,000,000,000"]);
        assert_eq!([dollars(0.004), dollars(1_234_567.891)], ["0.00", "1,234,567.89"]);
        assert_eq!([usd(0.625), usd(1.0), usd(0.26667)], ["$0.625", "$1.00", "$0.2667"]);
    }
}
