use super::Process;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// A process that can be held between two of its steps, by the thread that follows it (`ptrace(2)`).
pub(crate) struct Traced(Pid);

impl Traced {
    #[track_caller]
    pub(crate) fn follow(process: Process) -> Self {
        let process = Pid::from_raw(process.number());
        ptrace::seize(process, Options::PTRACE_O_TRACEFORK).unwrap();
        Self(process)
    }

    /// Holds it in the moment in which it has started another process, which goes on.
    #[track_caller]
    pub(crate) fn until_it_has_forked(self) -> Self {
        let child = loop {
            match self.wait_for(self.0) {
                WaitStatus::PtraceEvent(..) => break ptrace::getevent(self.0).unwrap(),
                WaitStatus::Stopped(_, signal) => ptrace::cont(self.0, signal).unwrap(),
                other => panic!("{other:?}"),
            }
        };
        let child = Pid::from_raw(i32::try_from(child).unwrap());
        self.wait_for(child);
        ptrace::detach(child, None).unwrap();
        self
    }

    /// Kills it where it stands.
    #[track_caller]
    pub(crate) fn kill(self) {
        nix::sys::signal::kill(self.0, Signal::SIGKILL).unwrap();
        // Its parent hears of its end after this.
        while !matches!(self.wait_for(self.0), WaitStatus::Signaled(..)) {}
    }

    fn wait_for(&self, process: Pid) -> WaitStatus {
        waitpid(process, Some(WaitPidFlag::__WALL)).unwrap()
    }
}
