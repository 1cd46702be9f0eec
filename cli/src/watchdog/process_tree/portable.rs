//! Where the kernel does not tell who descends from whom, the tree is the process group, and which of its processes live is not
//! known: a group that was killed is taken for gone.

use leasehold::client::Moment;
use rustix::io;
use rustix::process::{Pid, Signal};

pub(crate) fn adopt_orphans(_adopts: bool) -> io::Result<()> {
    Ok(())
}

pub(crate) fn die_with_parent(_parent: Pid) -> io::Result<()> {
    Ok(())
}

pub(crate) fn die_at(_moment: Moment) -> Option<impl Sized> {
    None::<()>
}

pub(crate) fn shares_control_group(_process: Pid) -> bool {
    false
}

pub(crate) fn adopts_orphans(_process: Pid) -> bool {
    false
}

/// Nothing is missing here that could be mended.
pub(crate) fn is_blind() -> bool {
    false
}

pub(crate) fn tells_descent() -> bool {
    false
}

pub(crate) fn children() -> Option<Vec<Pid>> {
    None
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Process {
    pub(super) pid: Pid,
    pub(super) group: Pid,
    pub(super) exiting: bool,
}

impl Process {
    pub(super) fn signal(self, _signal: Signal) {}
}

pub(super) fn any_descendant_lives(_strangers: &[Pid]) -> Option<bool> {
    None
}

pub(super) fn descendants(_strangers: &[Pid]) -> Option<Vec<Process>> {
    None
}
