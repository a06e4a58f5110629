//! A lock that is never poisoned, and a signal that is never missed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Locks a mutex, even if a thread panicked while holding it. That is safe here: code in this crate updates the
/// protected data in one step, after everything that can fail.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notifies any number of watchers of a change, in the order in which they started to wait.
///
/// `tokio::sync::watch` cannot be used, because it wakes its waiters in random order. One seed must always give the
/// same run.
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

/// A watcher of one queue, stream or bus. Create it, read the data, then wait: no change after the creation is missed.
#[derive(Debug, Clone)]
pub struct Watch {
    seen: u64,
    signal: Signal,
}

impl Watch {
    /// Resolves when something has changed since the watcher was created or last resolved. Several changes may resolve
    /// it only once. Dropping the future is safe: the next call still sees the change.
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
