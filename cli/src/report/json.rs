use leasehold::admin::{LockStatus, Waiter};
use serde::Serialize;
use std::io::{self, Write};

/// A lock, held or not, as `try` and `inspect` print it.
#[derive(Debug, Serialize)]
pub(crate) struct State<'a> {
    pub(crate) name: &'a str,
    pub(crate) held: bool,
    /// True if nobody has it: its last holder has released it, and others are kept out for a while.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) released: bool,
    /// The hold, if it is held.
    pub(crate) lock: Option<&'a LockStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) waiters: Option<&'a [Waiter]>,
}

/// Prints a value on one line of standard output, and sees that it is out.
pub(crate) fn print_json(value: &impl Serialize) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, value)?;
    out.write_all(b"\n")?;
    out.flush()
}
