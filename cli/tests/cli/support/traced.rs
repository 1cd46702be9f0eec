use super::Process;
use nix::sys::ptrace::{self, Event, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// A process that can be held between two of its steps, by the thread that follows it (`ptrace(2)`). Dropped, it is killed.
pub(crate) struct Traced {
    process: Pid,
    has_ended: bool,
}

impl Traced {
    /// Holds it wherever it is.
    #[track_caller]
    pub(crate) fn hold(process: Process) -> Self {
        let process = Pid::from_raw(process.number());
        ptrace::seize(process, Options::PTRACE_O_TRACEFORK | Options::PTRACE_O_TRACESYSGOOD).unwrap();
        let mut this = Self { process, has_ended: false };
        ptrace::interrupt(process).unwrap();
        this.wait();
        this
    }

    /// Lets it go on to the moment in which it has started another process, which runs.
    #[track_caller]
    pub(crate) fn go_to_fork(&mut self) {
        self.wait_for_fork();
        self.let_its_child_go();
    }

    /// Holds what it starts next, before that has done anything. It goes on itself.
    #[track_caller]
    pub(crate) fn hold_its_child(mut self) -> Self {
        self.wait_for_fork();
        let process = self.held_child();
        ptrace::detach(self.process, None).unwrap();
        self.has_ended = true;
        Self { process, has_ended: false }
    }

    /// Lets it go on. True if it ends by itself and executes nothing before.
    #[track_caller]
    pub(crate) fn gives_up(mut self) -> bool {
        ptrace::setoptions(self.process, Options::PTRACE_O_TRACEEXEC).unwrap();
        let mut signal = None;
        loop {
            ptrace::cont(self.process, signal).unwrap();
            match self.wait() {
                WaitStatus::Stopped(_, received) => signal = Some(received),
                // It was killed from outside: it did not end by itself.
                WaitStatus::Signaled(_, Signal::SIGKILL, _) => return false,
                // It aborts if nobody is there to be told why it gives up.
                WaitStatus::Exited(..) | WaitStatus::Signaled(..) => return true,
                _ => return false,
            }
        }
    }

    /// Lets it go on to where it enters or leaves its next system call. False if it has ended instead.
    #[track_caller]
    pub(crate) fn go_to_next_call(&mut self) -> bool {
        let mut signal = None;
        while !self.has_ended && ptrace::syscall(self.process, signal).is_ok() {
            signal = match self.wait() {
                WaitStatus::PtraceSyscall(_) => return true,
                WaitStatus::Stopped(_, received) => Some(received),
                WaitStatus::PtraceEvent(_, _, event) if event == Event::PTRACE_EVENT_FORK as i32 => {
                    self.let_its_child_go();
                    None
                }
                _ => None,
            };
        }
        false
    }

    /// Lets it go on to where it enters this one (`proc_pid_syscall(5)`).
    #[track_caller]
    pub(crate) fn go_to_call(&mut self, number: i64) {
        let is_there = |process: Pid| {
            let call = std::fs::read_to_string(format!("/proc/{process}/syscall")).unwrap();
            call.split(' ').next() == Some(&number.to_string())
        };
        while !is_there(self.process) {
            assert!(self.go_to_next_call(), "it has ended before");
        }
    }

    /// Lets it go on, followed no more.
    #[track_caller]
    pub(crate) fn let_go(mut self) {
        ptrace::detach(self.process, None).unwrap();
        self.has_ended = true;
    }

    /// Kills it where it stands.
    pub(crate) fn kill(&mut self) {
        if self.has_ended {
            return;
        }
        let _ = kill(self.process, Signal::SIGKILL);
        // Its parent hears of its end after this.
        while !self.has_ended {
            self.wait();
        }
    }

    fn wait_for_fork(&mut self) {
        let mut signal = None;
        loop {
            ptrace::cont(self.process, signal).unwrap();
            match self.wait() {
                WaitStatus::PtraceEvent(_, _, event) if event == Event::PTRACE_EVENT_FORK as i32 => return,
                WaitStatus::Stopped(_, received) => signal = Some(received),
                WaitStatus::PtraceEvent(..) => signal = None,
                other => panic!("it forks no more: {other:?}"),
            }
        }
    }

    fn let_its_child_go(&self) {
        ptrace::detach(self.held_child(), None).unwrap();
    }

    /// What it has just started is held, too.
    fn held_child(&self) -> Pid {
        let child = ptrace::getevent(self.process).unwrap();
        let child = Pid::from_raw(i32::try_from(child).unwrap());
        waitpid(child, Some(WaitPidFlag::__WALL)).unwrap();
        child
    }

    fn wait(&mut self) -> WaitStatus {
        let status = waitpid(self.process, Some(WaitPidFlag::__WALL));
        self.has_ended = matches!(status, Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) | Err(_));
        status.unwrap_or(WaitStatus::StillAlive)
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        self.kill();
    }
}
