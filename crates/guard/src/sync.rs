//! The lock and the clock that the model checker replaces by its own.

use tokio::time::Instant;

#[cfg(loom)]
pub(crate) use self::checked::Mutex;
#[cfg(not(loom))]
pub(crate) use parking_lot::Mutex;

/// The tokio clock; a checked history has one moment only, since what it does may not hang on the time.
pub(crate) fn now() -> Instant {
    #[cfg(not(loom))]
    let now = Instant::now();
    #[cfg(loom)]
    let now = checked::now();
    now
}

#[cfg(loom)]
mod checked {
    use std::sync::OnceLock;

    use loom::sync::MutexGuard;
    use tokio::time::Instant;

    /// A lock of the model checker with the everyday one's face.
    #[derive(Debug)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Mutex<T> {
            Mutex(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
        }
    }

    pub(super) fn now() -> Instant {
        static START: OnceLock<Instant> = OnceLock::new();
        *START.get_or_init(|| Instant::from_std(std::time::Instant::now()))
    }
}
