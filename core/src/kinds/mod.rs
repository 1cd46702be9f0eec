//! The kinds of lock that are built on exclusive locks. They need nothing of a backend, and so exist on every store.

mod deadline;
mod election;
mod lock_set;
mod scope;
mod semaphore;

pub use election::{Election, Leader, Leadership};
pub use lock_set::LockSetGuard;
pub use scope::Scope;
pub use semaphore::Semaphore;

pub(crate) use lock_set::{acquire_all, checked_names};
