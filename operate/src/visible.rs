//! Texts that somebody else wrote, made safe to look at.

/// Returns the text with control characters, and those that change the direction of writing, as `⟨U+202E⟩`. So it stays one line, and a terminal
/// obeys no part of it.
#[must_use]
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_invisible(c) {
            shown.push_str(&format!("⟨U+{:04X}⟩", u32::from(c)));
        } else {
            shown.push(c);
        }
    }
    shown
}

fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_named() {
        assert_eq!(visible("a\u{202e}b\n\u{0}"), "a⟨U+202E⟩b⟨U+000A⟩⟨U+0000⟩");
        assert_eq!(visible("née 😀"), "née 😀");
    }
}
