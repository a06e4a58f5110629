//! Shared parts of `switchhook dev` and `switchhook fake`: the port, the stop signal, the key Enter, the option `--delivery-faults`, and the
//! help about the fake provider's behaviours.

use std::io::{self, BufRead, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::thread;
use std::time::Duration;

use axum::serve::Listener;
use clap::ValueEnum;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;
use switchhook_local::fake::DeliveryFaults;
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

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

/// Returns the host that a browser names in its requests to this name and port. It leaves out the default port.
pub(crate) fn browser_host(name: &str, port: u16) -> String {
    if port == 80 { name.to_owned() } else { format!("{name}:{port}") }
}

/// Largest number of free ports that are tried until one is free on both addresses.
const FREE_PORTS_TRIED: usize = 16;

/// Listener on both loopback addresses of this machine. For a name such as `switchhook.localhost`, a browser asks `[::1]` first.
/// **So no other program may have the same port there.** It would get the secret of the console's link.
#[derive(Debug)]
pub(crate) struct LoopbackListener {
    v4: TcpListener,
    /// `None` if this machine has no IPv6.
    v6: Option<TcpListener>,
}

impl Listener for LoopbackListener {
    type Io = TcpStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        let Some(v6) = &mut self.v6 else { return Listener::accept(&mut self.v4).await };
        tokio::select! {
            accepted = Listener::accept(&mut self.v4) => accepted,
            accepted = Listener::accept(v6) => accepted,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.v4.local_addr()
    }
}

/// Listens on a port of both loopback addresses. Returns the IPv4 address too, because port 0 chooses a free port.
pub(crate) async fn listen(port: u16) -> Result<(LoopbackListener, SocketAddr), ListenError> {
    for _ in 1..FREE_PORTS_TRIED {
        match listen_once(port).await {
            // The port that was chosen for one address is taken at the other.
            Err(error) if port == 0 && error.source.kind() == ErrorKind::AddrInUse => {}
            done => return done,
        }
    }
    listen_once(port).await
}

async fn listen_once(port: u16) -> Result<(LoopbackListener, SocketAddr), ListenError> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let failed = |source| ListenError { address, source };
    let v4 = TcpListener::bind(address).await.map_err(failed)?;
    let bound = v4.local_addr().map_err(failed)?;
    let address = SocketAddr::from((Ipv6Addr::LOCALHOST, bound.port()));
    let v6 = match TcpListener::bind(address).await {
        Ok(v6) => Some(v6),
        Err(source) if source.kind() == ErrorKind::AddrInUse => return Err(ListenError { address, source }),
        // This machine has no IPv6, so no program listens there.
        Err(_) => None,
    };
    Ok((LoopbackListener { v4, v6 }, bound))
}

/// Time after which a wait for input looks again whether this program is in the background.
const LOOK_AGAIN: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

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

/// Returns a message for each time that Enter is pressed on standard input.
pub(crate) fn enter_presses() -> mpsc::Receiver<()> {
    let (pressed, presses) = mpsc::channel(1);
    // A blocked read of standard input cannot be cancelled, so no task of the runtime waits for it.
    thread::spawn(move || while read_input().is_ok() && pressed.blocking_send(()).is_ok() {});
    presses
}

/// Waits for input, and takes it. Fails at the end of standard input.
fn read_input() -> io::Result<()> {
    let stdin = io::stdin();
    loop {
        let mut input = [PollFd::new(&stdin, PollFlags::IN)];
        let is_ready = match poll(&mut input, Some(&LOOK_AGAIN)) {
            Err(error) if error != Errno::INTR => return Err(error.into()),
            ready => ready.is_ok_and(|count| count > 0),
        };
        // Its terminal would stop a program that reads in the background, as after `switchhook dev &`.
        if is_in_background() {
            thread::sleep(Duration::from_secs(1));
        } else if is_ready {
            let mut stdin = stdin.lock();
            let length = stdin.fill_buf()?.len();
            stdin.consume(length);
            return if length > 0 { Ok(()) } else { Err(ErrorKind::UnexpectedEof.into()) };
        }
    }
}

/// True if standard input is a terminal that another program reads from.
fn is_in_background() -> bool {
    tcgetpgrp(io::stdin()).is_ok_and(|reader| reader != getpgrp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browser_leaves_out_the_default_port() {
        assert_eq!(browser_host("switchhook.localhost", 8787), "switchhook.localhost:8787");
        assert_eq!(browser_host("switchhook.localhost", 80), "switchhook.localhost");
    }

    #[tokio::test]
    async fn port_that_another_program_has_on_one_address_is_refused() {
        let Ok(other) = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).await else {
            // This machine has no IPv6.
            return;
        };
        let taken = other.local_addr().unwrap();
        let error = listen(taken.port()).await.unwrap_err().to_string();
        assert!(error.starts_with(&format!("could not listen on {taken}: ")), "{error}");
    }

    #[tokio::test]
    async fn both_addresses_are_served() {
        let (mut listener, address) = listen(0).await.unwrap();
        TcpStream::connect(address).await.unwrap();
        assert!(listener.accept().await.1.ip().is_loopback());
        if listener.v6.is_some() {
            TcpStream::connect((Ipv6Addr::LOCALHOST, address.port())).await.unwrap();
            assert!(listener.accept().await.1.is_ipv6());
        }
    }
}
