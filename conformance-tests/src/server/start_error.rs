use std::fmt;

/// A server could not be started, and why.
#[derive(Debug)]
#[non_exhaustive]
pub struct StartError {
    /// What was tried and what came of it, in one line.
    pub message: String,
}

impl StartError {
    /// An error with this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for StartError {}
