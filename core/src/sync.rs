//! Mutexes and atomics, from one place: `schedules/` compiles these sources with `cfg(shuttle)`, and the mutexes of its schedule
//! explorer.

#[cfg(shuttle)]
pub(crate) use shuttle::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64},
};
#[cfg(not(shuttle))]
pub(crate) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64},
};

use std::sync::PoisonError;

/// Locks a mutex, also a poisoned one. For mutexes under which no code can panic half-way.
pub fn locked<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
