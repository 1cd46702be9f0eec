//! What threads share, from one place, because the explorer of schedules puts its own here: `schedules/` compiles these very
//! sources once more, with `cfg(shuttle)`.

#[cfg(shuttle)]
pub(crate) use shuttle::sync::{Mutex, MutexGuard, atomic::AtomicBool};
#[cfg(not(shuttle))]
pub(crate) use std::sync::{Mutex, MutexGuard, atomic::AtomicBool};

use std::sync::PoisonError;

/// Locks a mutex whose data is consistent whenever it is free: what is done under these locks cannot panic half-way.
pub(crate) fn locked<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
