//! What the kernel tells of a child.

use super::protocol::Exit;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};

/// How a child ended, if it has. Does not reap it.
pub(super) fn exit_of(child: Pid) -> Option<Exit> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let status = waitid(WaitId::Pid(child), options).ok().flatten()?;
    let by_signal = status.terminating_signal().map(Exit::Signal);
    by_signal.or_else(|| status.exit_status().map(Exit::Code))
}

/// The signal that suspended a child since this was last asked.
pub(super) fn suspension_of(child: Pid) -> Option<Signal> {
    let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
    let status = waitid(WaitId::Pid(child), options).ok().flatten()?;
    Signal::from_named_raw(status.stopping_signal()?)
}
