use super::StartError;
use std::process::{Command, Output};

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
