//! The stream that tells open pages when to read again.
//!
//! It carries names and versions, and no data: the page fetches its own URL. A browser opens the stream only while the page is
//! visible, so a hidden page costs nothing.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, StreamExt};

use crate::console::Console;
use crate::query::Query;

/// Time after which a browser connects again.
const RETRY: Duration = Duration::from_secs(3);

pub(crate) async fn stream(State(console): State<Console>, uri: Uri) -> Response {
    let query = Query::of(&uri);
    let Some(every) = query.get("page").and_then(|page| interval(page, console.stack().local.is_some())) else {
        // The browser does not connect again.
        return StatusCode::NO_CONTENT.into_response();
    };
    let begins = stream::iter([Event::default().retry(RETRY)]);
    let versions = stream::unfold(1_u64, move |version| async move {
        tokio::time::sleep(every).await;
        Some((Event::default().event("version").data(version.to_string()), version + 1))
    });
    let events = begins.chain(versions).map(Ok::<_, Infallible>).take_until(console.until_closed());
    Sse::new(events).into_response()
}

/// Returns the time between two reads of a page. `None` if the page does not change by itself.
///
/// The metrics of a deployed stack cost most: an hour of Health, read once a minute, costs less than $0.04.
fn interval(page: &str, is_local: bool) -> Option<Duration> {
    let seconds = match (page, is_local) {
        ("/", true) => 5,
        ("/", false) => 60,
        ("/call" | "/try", true) | ("/run", _) => 1,
        ("/calls" | "/events" | "/event" | "/repair" | "/dials", true) => 2,
        ("/call" | "/calls" | "/events" | "/event" | "/repair" | "/dials", false) => 10,
        (_, _) => return None,
    };
    Some(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_that_a_form_answered_is_not_read_again() {
        assert_eq!(interval("/search", true), None);
        assert_eq!(interval("/calls", true), Some(Duration::from_secs(2)));
        assert!(interval("/", false) > interval("/", true));
    }
}
