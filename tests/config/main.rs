//! How a configuration is found, read, refused and shown. Every test has an environment and files of its own, and changes
//! none of the process.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that unwraps fails, which is what it is for")]

mod arbitrary_input;
mod embedded;
mod files;
mod host;
mod mistakes;
mod parameters;
mod precedence;
mod secrets;
mod show;
mod store_choice;
