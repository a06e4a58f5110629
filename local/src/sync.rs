//! A lock that is never poisoned, and a signal that is never missed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The guard, whether or not a holder panicked: what the locks of this crate protect is brought up to date in one step,
/// after everything that can fail.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Says that something changed, to any number of watchers, in the order in which they began to wait.
///
/// Not `tokio::sync::watch`: that wakes its waiters in an order which tokio draws at random, and one seed must be one run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Signal(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    changes: AtomicU64,
    notify: Notify,
}

impl Signal {
    pub(crate) fn changed(&self) {
        self.0.changes.fetch_add(1, Ordering::AcqRel);
        self.0.notify.notify_waiters();
    }

    pub(crate) fn watch(&self) -> Watch {
        Watch { seen: self.0.changes.load(Ordering::Acquire), signal: self.clone() }
    }
}

/// A watcher of one queue, stream or bus. Make it, look at the thing, then wait: no change made after the watcher was made
/// is missed.
#[derive(Debug, Clone)]
pub struct Watch {
    seen: u64,
    signal: Signal,
}

impl Watch {
    /// Resolves when something has changed since the watcher was made or last resolved; many changes may resolve it once.
    /// Safe to drop: a change that was not waited out is still seen by the next call.
    pub async fn changed(&mut self) {
        loop {
            let notified = self.signal.0.notify.notified();
            let changes = self.signal.0.changes.load(Ordering::Acquire);
            if changes != self.seen {
                self.seen = changes;
                return;
            }
            notified.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn change_before_the_wait_is_seen() {
        let signal = Signal::default();
        let mut watch = signal.watch();

        signal.changed();
        signal.changed();

        watch.changed().await;
        assert_eq!(watch.seen, 2);
    }

    #[tokio::test]
    async fn every_watcher_sees_a_change() {
        let signal = Signal::default();
        let waiters: Vec<_> = (0..3)
            .map(|_| {
                let mut watch = signal.watch();
                tokio::spawn(async move { watch.changed().await })
            })
            .collect();
        tokio::task::yield_now().await;

        signal.changed();

        for waiter in waiters {
            waiter.await.unwrap();
        }
    }
}
