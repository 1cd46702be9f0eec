use std::fmt;
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
    fn prepare(&self, data: &Path) -> Result<(), StartError> {
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

/// A server could not be started, and why.
#[derive(Debug)]
#[non_exhaustive]
pub struct StartError {
    /// What was tried and what came of it, in one line.
    pub message: String,
    /// True if all that is wrong is that it took too long: nothing can be said of the server.
    pub is_late: bool,
}

impl StartError {
    /// An error with this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_late: false }
    }

    /// Not ready in time, with this message.
    pub fn late(message: impl Into<String>) -> Self {
        Self { is_late: true, ..Self::new(message) }
    }

    /// An error with these words before its cause.
    pub(super) fn caused<E: fmt::Display>(words: &str) -> impl FnOnce(E) -> Self {
        move |cause| Self::new(format!("{words}: {cause}"))
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for StartError {}

/// Runs a command to its end.
///
/// # Errors
///
/// If it cannot be executed, or ends with another status than 0; with the last lines of what it printed.
pub fn run(command: &mut Command) -> Result<Output, StartError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output =
        command.output().map_err(|error| StartError::new(format!("cannot execute {program}: {error}")))?;
    if output.status.success() {
        return Ok(output);
    }
    let words = [&*output.stdout, &*output.stderr].map(String::from_utf8_lossy).concat();
    let tail: Vec<&str> = words.lines().rev().take(5).collect();
    Err(StartError::new(format!("{program} ended with {}: {}", output.status, tail.join(" | "))))
}
