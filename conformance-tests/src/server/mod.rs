//! Servers for tests: child processes on free loopback ports, with data directories of their own, that end with the test. No docker,
//! no daemon, no fixed port.
//!
//! To run a store of your own: implement [`Launch`], start it as a [`ServerProcess`] at a [`free_port`], and call its methods from
//! the hooks of your [`Store`](crate::Store). A [`Proxy`](crate::proxy::Proxy) in front of it loses replies on command.

mod disk;
mod launch;
mod port;
mod process;
mod processes;

pub use disk::{Disk, disk_missing};
pub use launch::{Launch, run};
pub(crate) use launch::{killed_with_this_process, spawn_lasting};
pub use port::free_port;
pub use process::ServerProcess;
pub(crate) use processes::until_still;
