//! Texts of a stack, made safe to look at.

/// Longest id that is shown whole.
const ID_MAX: usize = 30;
/// Characters that are kept at each end of a longer one.
const ID_HEAD: usize = 16;
const ID_TAIL: usize = 8;

/// Returns the text with control characters, and those that change the direction of writing, as `⟨U+202E⟩`.
pub(crate) fn visible(text: &str) -> String {
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

/// Returns the id for a list, cut in its middle if it is long.
pub(crate) fn short_id(id: &str) -> String {
    let shown = visible(id);
    let count = shown.chars().count();
    if count <= ID_MAX {
        return shown;
    }
    let head: String = shown.chars().take(ID_HEAD).collect();
    let tail: String = shown.chars().skip(count - ID_TAIL).collect();
    format!("{head}…{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_named() {
        assert_eq!(visible("a\u{202e}b\n\u{0}"), "a⟨U+202E⟩b⟨U+000A⟩⟨U+0000⟩");
        assert_eq!(visible("née 😀"), "née 😀");
    }

    #[test]
    fn long_id_is_cut_in_its_middle() {
        assert_eq!(short_id("call-9a44c8"), "call-9a44c8");
        assert_eq!(short_id(&format!("retell:call_{}", "0123456789".repeat(3))), "retell:call_0123…23456789");
    }
}
