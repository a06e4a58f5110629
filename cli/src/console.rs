//! `switchhook console`: serves the pages of a stack on this machine.
//!
//! **Standard output carries exactly one line for each link, the first one when the pages are ready.** Each press of Enter prints
//! a new link, because a link opens the console once.

use std::io::{self, Write};
use std::time::Duration;

use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use clap::{Args, ValueEnum};
use switchhook_aws::telemetry::JsonLines;
use switchhook_console::{Console as Pages, LinkError, Options};
use tokio::sync::watch;
use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Layer, SubscriberExt};

use crate::dev::until_stopped;
use crate::serving::{ListenError, browser_host, enter_presses, listen, stop_signal};
use crate::stack_choice::{StackChoice, StackChoiceError};

const EXAMPLES: &str = "\
Examples:
  switchhook console --stack switchhook --region eu-west-1
  switchhook console --stack switchhook --allow-changes
  switchhook console --to http://127.0.0.1:8787

The pages are served on this machine only, with your own AWS credentials. The link that is printed opens them once, in one browser;
Enter prints a new one. A session lasts twelve hours, or until the command ends.

Nothing can be changed without --allow-changes. Plans can be made either way.

`switchhook dev` serves the same pages itself. Its ready line has the link.

Requests that are refused, such as those of pages of other sites, are logged to standard error.

Exit status: 0 after Ctrl-C or SIGTERM, 2 if the pages could not be served.";

/// Time that open requests get to finish after the stop signal.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);

/// Name of this machine in the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum HostName {
    /// The console's cookie goes to no other server on this machine
    #[value(name = "switchhook.localhost")]
    Own,
    /// For browsers that cannot resolve names under localhost
    #[value(name = "127.0.0.1")]
    Address,
}

/// Arguments of `switchhook console`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Console {
    #[command(flatten)]
    stack: StackChoice,
    /// Port on 127.0.0.1; 0 chooses a free port
    #[arg(long, value_name = "PORT", default_value_t = 8788)]
    port: u16,
    /// Name of this machine in the link
    #[arg(long, value_name = "NAME", default_value = "switchhook.localhost")]
    host: HostName,
    /// Let the pages carry out plans
    #[arg(long)]
    allow_changes: bool,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ConsoleError {
    #[error(transparent)]
    Stack(#[from] StackChoiceError),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error("could not make a link")]
    Link(#[from] LinkError),
    #[error("could not print the link")]
    Print(#[source] io::Error),
    #[error("could not start the console")]
    Start(#[source] io::Error),
    #[error("could not serve the pages")]
    Serve(#[source] io::Error),
}

impl Console {
    /// Serves until Ctrl-C or SIGTERM.
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<bool, ConsoleError> {
        let connection = self.stack.connect()?;
        log_to_stderr();
        connection.block_on(self.serve(connection.stack.clone(), out))?;
        Ok(true)
    }

    async fn serve(&self, stack: switchhook_operate::Stack, out: &mut impl Write) -> Result<(), ConsoleError> {
        let (listener, address) = listen(self.port).await?;
        let name = match self.host {
            HostName::Own => OWN_NAME,
            HostName::Address => "127.0.0.1",
        };
        let pages = Pages::new(
            stack.clone(),
            Options {
                host: browser_host(name, address.port()),
                allows_changes: self.allow_changes,
                is_frozen: false,
                look_first: None,
            },
        );
        let stop = stop_signal().map_err(ConsoleError::Start)?;
        let (stopping, stopped) = watch::channel(false);
        // The user of a `switchhook dev` may skip time meanwhile.
        let router = pages.router().layer(from_fn(move |request: Request, next: Next| {
            let stack = stack.clone();
            async move {
                if stack.local.is_some() {
                    stack.read_clock().await;
                }
                next.run(request).await
            }
        }));
        let serving = axum::serve(listener, router).with_graceful_shutdown(until_stopped(stopped));
        let mut serving = tokio::spawn(async move { serving.await });
        let mut pressed = enter_presses();
        tokio::pin!(stop);
        print_link(&pages, out)?;
        loop {
            tokio::select! {
                () = &mut stop => break,
                ended = &mut serving => {
                    return ended.map_err(|error| ConsoleError::Serve(io::Error::other(error)))?.map_err(ConsoleError::Serve);
                }
                Some(()) = pressed.recv() => print_link(&pages, out)?,
            }
        }
        pages.close();
        stopping.send_replace(true);
        // Requests that are still open after this time are dropped.
        drop(tokio::time::timeout(SHUTDOWN_GRACE, serving).await);
        pages.stop_runs().await;
        Ok(())
    }
}

/// Name of this machine under which only the console is served. Browsers keep cookies by host name, so its cookies and those of
/// other local servers stay apart.
pub(crate) const OWN_NAME: &str = "switchhook.localhost";

/// Sends the log lines of the pages to standard error: the requests that they refused.
fn log_to_stderr() {
    let filter = Targets::new().with_target("switchhook_console", Level::WARN);
    let subscriber = tracing_subscriber::registry().with(JsonLines::new(io::stderr()).with_filter(filter));
    // This fails only if a global subscriber is already set, and nothing else sets one.
    drop(tracing::subscriber::set_global_default(subscriber));
}

fn print_link(pages: &Pages, out: &mut impl Write) -> Result<(), ConsoleError> {
    let link = pages.link()?;
    writeln!(out, "look at it: {link}").and_then(|()| out.flush()).map_err(ConsoleError::Print)
}
