//! Shapes of dispositions, so that a list can be read without colour.

/// Returns the shape of a disposition or of another status of an event.
pub(crate) fn mark(status: &str) -> char {
    match status {
        "applied" => '●',
        "parked" => '◐',
        "refused" => '✕',
        "stale" => '○',
        "duplicate" => '◎',
        "processed" => '–',
        "recorded" => '□',
        "quarantined" => '▲',
        "dead_lettered" => '▼',
        "discarded" => '✓',
        "retrying" => '↻',
        "unknown" => '?',
        _ => '◌',
    }
}
