//! The console of one stack: its routes, and what its pages share.

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use switchhook_operate::Stack;
use tokio::sync::watch;

use crate::session::{LinkError, Sessions};
use crate::{assets, guard, live, pages};

/// Settings of a console.
#[derive(Clone, Debug)]
pub struct Options {
    /// Host and port of its pages, as a browser sends them: for example `switchhook.localhost:8788`.
    pub host: String,
    /// True if operators may change the stack. Without it, the routes that change something do not exist.
    pub allows_changes: bool,
}

/// The console of one stack. Clones share their sessions.
#[derive(Clone, Debug)]
pub struct Console(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    stack: Stack,
    options: Options,
    sessions: Sessions,
    /// True when the server stops.
    closed: watch::Sender<bool>,
}

impl Console {
    #[must_use]
    pub fn new(stack: Stack, options: Options) -> Self {
        Self(Arc::new(Shared { stack, options, sessions: Sessions::default(), closed: watch::Sender::new(false) }))
    }

    /// Returns a link that opens the console once.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn link(&self) -> Result<String, LinkError> {
        let token = self.0.sessions.new_token()?;
        Ok(format!("http://{}/?token={token}", self.0.options.host))
    }

    /// Returns the routes of all pages, behind the guard.
    pub fn router(&self) -> Router {
        Router::new()
            .route("/", get(pages::health::show))
            .route("/calls", get(pages::calls::show))
            .route("/call", get(pages::call::show))
            .route("/search", axum::routing::post(pages::search::find))
            .route("/live", get(live::stream))
            .route("/assets/{hash}/{name}", get(assets::serve))
            .fallback(pages::not_found)
            .layer(from_fn_with_state(self.clone(), guard::check))
            .with_state(self.clone())
    }

    /// Ends the streams of open pages, which would otherwise keep the server from stopping.
    pub fn close(&self) {
        self.0.closed.send_replace(true);
    }

    /// Waits until the server stops.
    pub(crate) fn until_closed(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut closed = self.0.closed.subscribe();
        async move {
            // An error means that the console is gone.
            drop(closed.wait_for(|closed| *closed).await);
        }
    }

    pub(crate) fn stack(&self) -> &Stack {
        &self.0.stack
    }

    pub(crate) fn options(&self) -> &Options {
        &self.0.options
    }

    pub(crate) fn sessions(&self) -> &Sessions {
        &self.0.sessions
    }
}
