use crate::stop::Stop;
use std::path::Path;
use std::process::{Command, Output};

/// How to start a server in a data directory, and how to tell that it is ready.
pub trait Launch: Send + Sync + 'static {
    /// The command line.
    fn command(&self, data: &Path) -> Command;

    /// True if it answers.
    fn is_ready(&self) -> bool;

    /// Fills an empty data directory, if the server does not do so itself.
    ///
    /// # Errors
    ///
    /// What went wrong.
    fn prepare(&self, data: &Path) -> Result<(), Stop> {
        let _ = data;
        Ok(())
    }

    /// From the next start on, it acknowledges nothing that is not on its disk. By default it is such a server anyway.
    fn sync_each_write(&mut self) {}

    /// Removes what a server that was killed leaves in the system outside of its data directory, when it is not to come
    /// back.
    fn bury(&self, data: &Path) {
        let _ = data;
    }
}

/// Runs a command to its end.
///
/// # Errors
///
/// If it cannot be executed, or ends with another status than 0; with the last lines of what it printed.
pub fn run(command: &mut Command) -> Result<Output, Stop> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output =
        command.output().map_err(|error| Stop::failed(format!("cannot execute {program}: {error}")))?;
    if output.status.success() {
        return Ok(output);
    }
    let words = [&*output.stdout, &*output.stderr].map(String::from_utf8_lossy).concat();
    Err(Stop::failed(format!("{program} ended with {}: {}", output.status, tail(&words))))
}

/// The last lines, in one.
pub(super) fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(5)..].join(" | ")
}
