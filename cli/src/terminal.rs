//! The terminal, and who has it.
//!
//! A terminal sends Ctrl-C and Ctrl-Z to one process group, its foreground group, and lets only that one read. So the
//! command's group is made the foreground group while it runs, and the terminal is taken back when it is suspended or
//! over (`tcsetpgrp(3)`; the GNU C library manual, *Implementing a Job Control Shell*).

use nix::sys::signal::{SigSet, Signal as MaskedSignal};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process_group};
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetpgrp, tcsetattr, tcsetpgrp};
use std::os::fd::OwnedFd;

/// The terminal that controls this process's session.
#[derive(Debug)]
pub(crate) struct Terminal {
    device: OwnedFd,
    /// The modes in which it was found.
    modes: Option<Termios>,
}

impl Terminal {
    /// `None` if there is none, as under cron.
    pub(crate) fn controlling() -> Option<Self> {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let device = open("/dev/tty", flags, Mode::empty()).ok()?;
        let modes = tcgetattr(&device).ok();
        Some(Self { device, modes })
    }

    /// True if this group has it.
    pub(crate) fn is_with(&self, group: Pid) -> bool {
        tcgetpgrp(&self.device).is_ok_and(|foreground| foreground == group)
    }

    /// True if the group that has it is gone: nobody gives it away any more. A zombie that nobody has reaped is still there.
    pub(crate) fn is_with_nobody(&self) -> bool {
        let Ok(group) = tcgetpgrp(&self.device) else { return false };
        test_kill_process_group(group) == Err(Errno::SRCH)
    }

    /// Gives it to this group of the same session. The caller must have [`SIGTTOU` blocked](block_stop_on_output).
    pub(crate) fn give_to(&self, group: Pid) {
        // It fails when the terminal was hung up or the group is gone. Neither leaves anything to be done.
        let _ = tcsetpgrp(&self.device, group);
    }

    /// Takes it from a command that was killed, if its number is known, in the modes in which it was found.
    ///
    /// Unless the command has it, or has died with the group of its own that had it, it is the shell's, whose background job we
    /// are: that would end without it.
    pub(crate) fn take_back_from(&self, command: Option<Pid>) {
        let is_theirs = command.is_some_and(|command| self.is_with(command)) || self.is_with_nobody();
        if let (true, Some(group)) = (is_theirs, group_of(None)) {
            self.give_to(group);
            self.restore_modes();
        }
    }

    /// Puts it back into the modes in which it was found: an editor that was killed had no time to.
    pub(crate) fn restore_modes(&self) {
        if let Some(modes) = &self.modes {
            // Not after what is being written: to a terminal that Ctrl-S has stopped, that may be for ever.
            let _ = tcsetattr(&self.device, OptionalActions::Now, modes);
        }
    }
}

/// True if the command should have the terminal from its first moment: it reads from it, and does not write into a
/// pipe. In a pipe there may be a pager of our own group behind it, which needs the terminal more; such a command gets
/// it when it asks.
pub(crate) fn is_for_command() -> bool {
    let piped = fstat(rustix::stdio::stdout())
        .is_ok_and(|stdout| FileType::from_raw_mode(stdout.st_mode) == FileType::Fifo);
    isatty(rustix::stdio::stdin()) && !piped
}

/// The process group of a process, or of this one; `None` if it is one of an outer process namespace, which has no
/// number here. (rustix takes that 0 for a number, and panics.)
pub(crate) fn group_of(process: Option<Pid>) -> Option<Pid> {
    let process = process.map(|process| nix::unistd::Pid::from_raw(process.as_raw_pid()));
    Pid::from_raw(nix::unistd::getpgid(process).ok()?.as_raw())
}

/// True if this process's group has the terminal, wherever its input comes from: then Ctrl-C reaches it.
pub(crate) fn is_ours() -> bool {
    let terminal = Terminal::controlling();
    terminal.is_some_and(|terminal| group_of(None).is_some_and(|group| terminal.is_with(group)))
}

/// From now on this process may move the terminal, and write to it, while another group has it. Otherwise it would be
/// suspended for either.
pub(crate) fn block_stop_on_output() {
    let _ = SigSet::from(MaskedSignal::SIGTTOU).thread_block();
}

/// The end of that, for a program that takes the place of this one.
pub(crate) fn allow_stop_on_output() {
    let _ = SigSet::from(MaskedSignal::SIGTTOU).thread_unblock();
}
