//! The console of one stack, and what its pages share.

use std::sync::Arc;

use switchhook_domain::CallId;
use switchhook_operate::Stack;
use tokio::sync::watch;

use crate::playground::Playground;
use crate::runs::Runs;
use crate::session::{LinkError, Sessions};

/// Settings of a console.
#[derive(Clone, Debug)]
pub struct Options {
    /// Host and port of its pages, as a browser sends them: for example `switchhook.localhost:8788`, and without the port if it is 80.
    pub host: String,
    /// True if operators may change the stack. Without it, the routes that change something do not exist.
    pub allows_changes: bool,
    /// True if the clock of the stack stands still, so that nothing runs.
    pub is_frozen: bool,
    /// Call that a demo recommends to newcomers: its webhooks came late, twice and out of order.
    pub look_first: Option<CallId>,
}

/// The console of one stack. Clones share their sessions.
#[derive(Clone, Debug)]
pub struct Console(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    stack: Stack,
    options: Options,
    sessions: Sessions,
    /// Runs that this console carries out. `None` if it may change nothing.
    runs: Option<Runs>,
    /// True when the server stops.
    closed: watch::Sender<bool>,
    /// `None` for a deployed stack.
    playground: Option<Arc<dyn Playground>>,
}

impl Console {
    #[must_use]
    pub fn new(stack: Stack, options: Options) -> Self {
        Self::over(stack, options, None)
    }

    /// Returns a console of a local stack, with the page Try.
    #[must_use]
    pub fn with_playground(stack: Stack, options: Options, playground: Arc<dyn Playground>) -> Self {
        Self::over(stack, options, Some(playground))
    }

    fn over(stack: Stack, options: Options, playground: Option<Arc<dyn Playground>>) -> Self {
        let runs = options.allows_changes.then(Runs::default);
        let (sessions, closed) = (Sessions::default(), watch::Sender::new(false));
        Self(Arc::new(Shared { stack, options, sessions, runs, closed, playground }))
    }

    /// Returns a link that opens the console once.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn link(&self) -> Result<String, LinkError> {
        let token = self.0.sessions.new_token()?;
        Ok(format!("http://{}/?token={token}", self.0.options.host))
    }

    /// Stops the runs that this console carries out, each at the end of its page of items. They can be resumed from any machine.
    pub async fn stop_runs(&self) {
        if let Some(runs) = &self.0.runs {
            runs.stop_all().await;
        }
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

    pub(crate) fn runs(&self) -> Option<&Runs> {
        self.0.runs.as_ref()
    }

    pub(crate) fn stack(&self) -> &Stack {
        &self.0.stack
    }

    pub(crate) fn options(&self) -> &Options {
        &self.0.options
    }

    pub(crate) fn playground(&self) -> Option<&dyn Playground> {
        self.0.playground.as_deref()
    }

    pub(crate) fn sessions(&self) -> &Sessions {
        &self.0.sessions
    }
}
