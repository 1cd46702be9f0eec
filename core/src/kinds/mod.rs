//! The kinds of lock that are built on exclusive locks. They need nothing of a backend, and so exist on every store.

mod deadline;
mod election;
mod semaphore;

pub use election::{Election, Leader, Leadership};
pub use semaphore::Semaphore;
