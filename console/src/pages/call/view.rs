//! The choices of a user on the page of a call. The URL of the page holds them.

use switchhook_domain::Timestamp;

use crate::query::{Query, url};

/// Largest factor by which the drawing is wider than the page.
const ZOOM_MAX: i64 = 32;

/// Choice of what the page of a call shows.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a> {
    pub(super) call_id: &'a str,
    /// Time at which the story is known. `None` for the present.
    pub(super) as_of: Option<Timestamp>,
    /// Attempt whose events are shown, or `all`.
    pub(super) attempt: Option<&'a str>,
    /// Id of the event whose payload is open. Its place in the history may change while somebody looks.
    pub(super) event: Option<&'a str>,
    /// Factor by which the drawing is wider than the page: a power of two.
    pub(super) zoom: i64,
    pub(super) unfolded: Option<Unfolded>,
}

/// Events that are not folded, and the time before which they arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unfolded {
    /// The events around the last write of the call's row.
    Latest,
    Before(Timestamp),
}

impl<'a> View<'a> {
    /// Returns the choice that a URL holds.
    pub(super) fn of(query: &'a Query, call_id: &'a str) -> Self {
        let zoom: i64 = query.get("zoom").and_then(|zoom| zoom.parse().ok()).unwrap_or(1);
        Self {
            call_id,
            as_of: query.get("as_of").and_then(Timestamp::parse_rfc3339),
            attempt: query.get("attempt"),
            event: query.id("event"),
            zoom: if zoom.count_ones() == 1 { zoom.clamp(1, ZOOM_MAX) } else { 1 },
            unfolded: query
                .get("unfolded")
                .map(|until| Timestamp::parse_rfc3339(until).map_or(Unfolded::Latest, Unfolded::Before)),
        }
    }

    /// Returns the choice that shows a call as it is now.
    #[cfg(test)]
    pub(super) const fn of_call(call_id: &'a str) -> Self {
        Self { call_id, as_of: None, attempt: None, event: None, zoom: 1, unfolded: None }
    }

    /// Returns the URL of the page that shows this.
    pub(super) fn url(&self) -> String {
        let as_of = self.as_of.map(|at| at.to_string());
        let zoom = (self.zoom > 1).then(|| self.zoom.to_string());
        let unfolded = self.unfolded.map(|unfolded| match unfolded {
            Unfolded::Latest => "latest".to_owned(),
            Unfolded::Before(until) => until.to_string(),
        });
        let chosen = [
            ("as_of", as_of.as_deref()),
            ("attempt", self.attempt),
            ("event", self.event),
            ("zoom", zoom.as_deref()),
            ("unfolded", unfolded.as_deref()),
        ];
        let chosen = chosen.into_iter().filter_map(|(name, value)| Some((name, value?)));
        url("/call", &[("id", self.call_id)].into_iter().chain(chosen).collect::<Vec<_>>())
    }

    /// Returns the choice with the next larger or smaller drawing. `None` at the limits.
    pub(super) fn zoomed(&self, is_in: bool) -> Option<Self> {
        let zoom = if is_in { self.zoom * 2 } else { self.zoom / 2 };
        (1..=ZOOM_MAX).contains(&zoom).then_some(Self { zoom, ..*self })
    }
}

#[cfg(test)]
mod tests {
    use axum::http::Uri;

    use super::*;

    #[test]
    fn choice_comes_back_from_its_url() {
        for chosen in [
            "/call?id=a",
            "/call?id=a%2F%3F&as_of=2026-11-22T10%3A00%3A00.000Z&attempt=all&event=generic%3Aa+b&zoom=4&unfolded=latest",
            "/call?id=a&unfolded=2026-11-22T10%3A00%3A00.000Z",
        ] {
            let uri: Uri = chosen.parse().unwrap();
            let query = Query::of(&uri);
            assert_eq!(View::of(&query, query.id("id").unwrap()).url(), chosen);
        }
    }

    #[test]
    fn zoom_stays_within_its_limits() {
        for (given, zoom) in [("", 1), ("0", 1), ("-4", 1), ("3", 1), ("8", 8), ("4096", ZOOM_MAX), ("x", 1)] {
            let query = Query::parse(format!("zoom={given}").as_bytes());
            assert_eq!(View::of(&query, "a").zoom, zoom, "{given}");
        }
        let view = View::of_call("a");
        assert!(view.zoomed(false).is_none());
        assert_eq!(view.zoomed(true).map(|view| view.url()).as_deref(), Some("/call?id=a&zoom=2"));
        assert!(View { zoom: ZOOM_MAX, ..view }.zoomed(true).is_none());
    }
}
