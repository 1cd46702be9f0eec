//! What people read: errors, holders, tables, durations.

mod console;
mod failure;
mod holder;
mod json;
mod log;
mod observer;
mod safe;
mod table;
mod time;
mod write_with_timeout;

pub(crate) use console::Console;
pub(crate) use failure::Failure;
#[cfg(feature = "lab")]
pub(crate) use failure::in_one_line;
pub(crate) use holder::{block, sentence};
pub(crate) use json::{State, print_json};
pub(crate) use log::log_as_asked;
pub(crate) use observer::CliObserver;
pub(crate) use safe::safe;
pub(crate) use table::table;
pub(crate) use time::{ago, brief, timestamp};
pub(crate) use write_with_timeout::write_with_timeout;
