//! Times on the command line: a time ago, or a point in time.

use std::time::Duration;

use switchhook_domain::Timestamp;

use crate::duration;

/// Longest time ago, which is the largest `InboxRetentionDays` of the template.
const LONGEST: Duration = Duration::from_secs(3_650 * 24 * 60 * 60);

/// Time that an option names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Since {
    Ago(Duration),
    At(Timestamp),
}

impl Since {
    /// Returns the point in time.
    pub(crate) fn at(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Ago(ago) => now.minus(ago),
            Self::At(at) => at,
        }
    }
}

/// Reads a time for clap.
pub(crate) fn parse(text: &str) -> Result<Since, String> {
    match (Timestamp::parse_rfc3339(text), duration::parse_up_to(LONGEST, text)) {
        (Some(at), _) => Ok(Since::At(at)),
        (None, Ok(ago)) => Ok(Since::Ago(ago)),
        (None, Err(_)) => {
            Err("not a time ago such as 2h or 7d, up to 3650 days, and not a time such as 2026-11-20T09:00:00Z"
                .to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;

    /// Options that take a time. `true` if a point in time is allowed too.
    const OPTIONS: [(&str, bool); 10] = [
        ("--as-of", true),
        ("--delay", false),
        ("--every", false),
        ("--for", false),
        ("--inactivity-timeout", false),
        ("--since", true),
        ("--stop-after", false),
        ("--tick", false),
        ("--timeout", false),
        ("--until", true),
    ];

    /// Pages, and the sources with the help texts and the advice.
    fn texts(path: &Path, found: &mut Vec<PathBuf>) {
        let is_text = |name: &str| [".md", ".rs"].iter().any(|end| name.ends_with(end));
        if path.is_file() {
            found.extend(path.to_str().filter(|name| is_text(name)).map(PathBuf::from));
            return;
        }
        for entry in path.read_dir().unwrap() {
            texts(&entry.unwrap().path(), found);
        }
    }

    #[test]
    fn every_time_that_pages_and_help_texts_show_is_read() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut files = Vec::new();
        for part in ["README.md", "docs", "infra", "examples", "cli/src", "console/src", "operate/src"] {
            texts(&root.join(part), &mut files);
        }
        let mut count = 0;
        for file in files {
            let text = std::fs::read_to_string(&file).unwrap();
            for (name, takes_point) in OPTIONS {
                for value in text.split(&format!("{name} ")).skip(1) {
                    let is_of_value = |c: char| c.is_ascii_alphanumeric() || ":-+.".contains(c);
                    let value = value.split(|c| !is_of_value(c)).next().unwrap_or_default().trim_end_matches('.');
                    if !value.starts_with(|c: char| c.is_ascii_digit()) {
                        continue;
                    }
                    let is_read = if takes_point { parse(value).is_ok() } else { duration::parse(value).is_ok() };
                    assert!(is_read, "{}: {name} {value}", file.display());
                    count += 1;
                }
            }
        }
        assert!(count > 50, "only {count} times were found");
    }

    #[test]
    fn since_is_a_time_or_a_time_ago() {
        assert_eq!(parse("2h"), Ok(Since::Ago(Duration::from_secs(7_200))));
        assert_eq!(parse("30d"), Ok(Since::Ago(Duration::from_secs(2_592_000))));
        assert_eq!(parse("1970-01-01T00:00:01Z"), Ok(Since::At(Timestamp::from_millis(1_000))));
        for text in ["", "yesterday", "3651d"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn time_ago_may_be_as_long_as_any_stack_stores_webhooks() {
        let template = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../template.yaml")).unwrap();
        let parameter = template.split("InboxRetentionDays:\n").nth(1).unwrap();
        let days = parameter.split("MaxValue: ").nth(1).unwrap().lines().next().unwrap();
        assert_eq!(parse(&format!("{days}d")), Ok(Since::Ago(LONGEST)));
    }

    #[test]
    fn time_ago_counts_from_now() {
        let now = Timestamp::from_millis(5_000);
        assert_eq!(Since::Ago(Duration::from_secs(2)).at(now), Timestamp::from_millis(3_000));
        assert_eq!(Since::At(now).at(Timestamp::from_millis(0)), now);
    }
}
