//! What every verb of the command `leasehold` shares, those of the [lab](https://docs.rs/leasehold-lab) included.
//!
//! | looking for | it is in |
//! |---|---|
//! | one call: its store, its schemes, its console | [`Invocation`] |
//! | the options that name a store | [`StoreOptions`] |
//! | messages for people, on standard error | [`Console`], and [`Failure`] for what ends a verb |
//! | data for programs, on standard output | [`print_json`] |
//! | exit codes | [`exit`] |
//! | signals that end a verb, or suspend it | [`signals`] |
//! | a store that is asked again and again | [`Poller`] |
//!
//! A crate of its own, because the lab is one: the command links the lab, so neither can hold what both use. It is no library for other
//! programs: [`leasehold`] is that.

#[cfg(not(unix))]
compile_error!("leasehold stops commands by process groups and signals, which only Unix has");

mod console;
pub mod exit;
mod failure;
mod holder;
mod invocation;
mod observer;
mod options;
mod poller;
mod progress;
mod safe;
pub mod signals;
mod stdout;
mod store;
mod time;
mod values;
mod write_with_timeout;

pub use console::Console;
pub use failure::{Failure, in_one_line};
pub use holder::{block, sentence, short_sentence, shown_name};
pub use invocation::Invocation;
pub use options::{OutputOptions, StoreOptions};
pub use poller::Poller;
pub use progress::{cut, erase_progress, width};
pub use safe::safe;
pub use stdout::{print_json, unprinted};
pub use store::OpenStore;
pub use time::{ago, brief, timestamp};
pub use values::{duration, shell_word};
pub use write_with_timeout::{WRITE_TIMEOUT, write_with_timeout, write_within};
