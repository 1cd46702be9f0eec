//! Standard output, which is for data.

use crate::Failure;
use crate::exit::Code;
use serde::Serialize;
use std::io::{self, Write};

/// Prints a value on one line of standard output, and sees that it is out.
///
/// # Errors
///
/// If it cannot be written; [`unprinted`] makes a failure of that.
pub fn print_json(value: &impl Serialize) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, value)?;
    out.write_all(b"\n")?;
    out.flush()
}

/// The failure of a verb whose result could not be printed.
pub fn unprinted(error: io::Error) -> Failure {
    if error.kind() == io::ErrorKind::BrokenPipe {
        // The reader has closed the pipe: exit as after a SIGPIPE, like other tools, and without a message.
        return Failure::silent(Code::of_signal(signal_hook::consts::SIGPIPE));
    }
    Failure::internal("cannot write to standard output", error)
}
