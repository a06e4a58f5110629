//! Commands that are printed, so that they can be pasted into a shell.

/// Returns the name by which this program was called, quoted for a shell.
pub(crate) fn program() -> String {
    let called = std::env::args_os().next().filter(|called| !called.is_empty());
    called.map_or_else(|| "switchhook".to_owned(), |called| shell_word(&called.to_string_lossy()))
}

/// Quotes a text for a shell, if it must be.
pub(crate) fn shell_word(text: &str) -> String {
    if text.chars().all(|c| c.is_alphanumeric() || "/._-+".contains(c)) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_is_named_as_a_shell_takes_it() {
        for (called, word) in [
            ("switchhook", "switchhook"),
            ("target/debug/switchhook", "target/debug/switchhook"),
            ("/my tools/switchhook", "'/my tools/switchhook'"),
            ("it's", r"'it'\''s'"),
        ] {
            assert_eq!(shell_word(called), word);
        }
    }
}
