//! The kinds of lock that are built on exclusive locks. They need nothing of a backend, and so exist on every store.

mod deadline;
mod lock_set;
mod scope;

pub use lock_set::LockSetGuard;
pub use scope::Scope;

pub(crate) use lock_set::{acquire_all, checked_names};
