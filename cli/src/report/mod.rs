//! What people read: errors, holders, tables, durations.

mod console;
mod failure;
mod holder;
mod json;
mod log;
mod observer;
mod progress;
mod promptly;
mod safe;
mod table;
mod time;

pub(crate) use console::Console;
pub(crate) use failure::{Failure, in_one_line};
pub(crate) use holder::{block, sentence};
pub(crate) use json::{State, can_be_written, print_json, write_result};
pub(crate) use log::log_as_asked;
pub(crate) use observer::CliObserver;
pub(crate) use progress::Progress;
pub(crate) use promptly::write_promptly;
pub(crate) use safe::safe;
pub(crate) use table::table;
pub(crate) use time::{ago, brief, timestamp};
