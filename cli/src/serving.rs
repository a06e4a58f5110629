//! Shared parts of `switchhook dev` and `switchhook fake`: the port, the stop signal, the option `--delivery-faults`, and the
//! help about the fake provider's behaviours.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use clap::ValueEnum;
use switchhook_local::fake::DeliveryFaults;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// Help text about the behaviours of the fake provider. A macro, because `concat!` accepts only literals.
macro_rules! behaviours {
    () => {
        "\
The fake provider plays one behaviour per attempt. The metadata of the call lists them, for example {\"fake\": \"busy,confirms\"}:
the first attempt is busy, and all later attempts confirm. Without that, the last digit of the called number decides:
  0 confirms       the person answers and confirms
  1 declines       the person answers and declines
  2 voicemail      an answering machine picks up
  3 busy           the line is busy
  4 no_answer      nobody picks up
  5 fails          the call fails; a retry may succeed
  6 forgotten      the provider accepts the call and loses it: no webhooks, and a lookup finds nothing
  7 response_lost  the person confirms, but the responses to the dial request and its repetition are lost
  8 silent         the person confirms, but no webhook is sent
  9 rate_limited   the provider rejects some dial requests with 429; later the person confirms
  - invalid        the number does not exist
  - first_response_lost, no_response, out_of_credit, unknown_asset, over_capacity
                   the provider loses the first response, or treats some dial requests so; later the person confirms"
    };
}
pub(crate) use behaviours;

#[derive(Debug, thiserror::Error)]
#[error(
    "could not listen on {address}: if another program uses the port, stop it or choose another --port (0 chooses a free \
     port)"
)]
pub(crate) struct ListenError {
    address: SocketAddr,
    #[source]
    source: io::Error,
}

/// Listens on a port of this machine. Returns the address too, because port 0 chooses a free port.
pub(crate) async fn listen(port: u16) -> Result<(TcpListener, SocketAddr), ListenError> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let failed = |source| ListenError { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

/// Value of `--delivery-faults`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum FaultLevel {
    /// Every webhook is sent once, within seconds
    None,
    /// 15 % of the webhooks are sent twice, 15 % late, 8 % never
    Usual,
    /// No webhook is sent
    AllLost,
}

impl From<FaultLevel> for DeliveryFaults {
    fn from(level: FaultLevel) -> Self {
        match level {
            FaultLevel::None => Self::NONE,
            FaultLevel::Usual => Self::USUAL,
            FaultLevel::AllLost => Self::ALL_LOST,
        }
    }
}

/// Returns a future that resolves at Ctrl-C or SIGTERM. The signal handlers are installed when this function returns.
pub(crate) fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}
