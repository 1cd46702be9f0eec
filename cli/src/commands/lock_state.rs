use leasehold::LockName;
use leasehold::admin::{LockStatus, Waiter};
use serde::Serialize;

/// A lock, held or not, as `try` and `inspect` print it.
#[derive(Debug, Serialize)]
pub(crate) struct LockState<'a> {
    name: &'a str,
    held: bool,
    /// True if nobody has it: its last holder has released it, and others are kept out for a while.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    released: bool,
    /// The hold, if it is held: the first, if several readers hold it.
    lock: Option<&'a LockStatus>,
    /// The holds of the other readers.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    others: &'a [LockStatus],
    #[serde(skip_serializing_if = "Option::is_none")]
    waiters: Option<&'a [Waiter]>,
}

impl<'a> LockState<'a> {
    pub(crate) fn new(name: &'a LockName, holds: &'a [LockStatus], waiters: Option<&'a [Waiter]>) -> Self {
        Self {
            name: name.as_str(),
            held: !holds.is_empty(),
            released: holds.first().is_some_and(LockStatus::is_released),
            lock: holds.first(),
            others: holds.get(1..).unwrap_or_default(),
            waiters,
        }
    }
}
