//! How a configuration is found, read, refused and shown. Every test has an environment and files of its own; none
//! changes those of the process.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that unwraps fails, which is what it is for")]

mod anything;
mod canary;
mod choices;
mod embedded;
mod files;
mod mistakes;
mod parameters;
mod precedence;
mod scene;
mod show;
