//! The processes of the command: its group, and whatever else it has started.
//!
//! A signal to the group reaches most of them in one step of the kernel. It misses those that have left it: `timeout`
//! makes a group of its own, an interactive shell one for every job. So, where the kernel tells who descends from whom,
//! those are found and signalled one by one.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod portable;

#[cfg(target_os = "linux")]
use linux as system;
#[cfg(not(target_os = "linux"))]
use portable as system;

pub(crate) use system::{
    adopt_orphans, adopts_orphans, children, die_at, die_with_parent, is_blind, shares_control_group,
    tells_descent,
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// The command and its descendants.
#[derive(Clone, Debug)]
pub(crate) struct ProcessTree {
    /// The command, if it is known. The number of its process group too.
    command: Option<Pid>,
    /// Children of this process that it did not start itself: a script may have, before it became this process by exec. Their
    /// orphans come to it too.
    strangers: Vec<Pid>,
}

impl ProcessTree {
    /// The process tree of this command, a descendant of this process in a process group of its own.
    ///
    /// As long as the command is not reaped its number belongs to it, and a signal to that group reaches nobody else.
    pub(crate) fn of(command: Pid, strangers: Vec<Pid>) -> Self {
        Self { command: Some(command), strangers }
    }

    /// The process tree of a command that may have been started, by a watchdog that has not told so. It is found among the
    /// descendants of this process, where these are known.
    pub(crate) fn unnamed(strangers: Vec<Pid>) -> Self {
        Self { command: None, strangers }
    }

    /// Signals the group and no one else: what a terminal would do.
    pub(crate) fn signal_group(&self, signal: Signal) {
        if let Some(group) = self.command {
            // An empty group is no failure; a process that may not be signalled is noticed later, because it still lives.
            let _ = kill_process_group(group, signal);
        }
    }

    /// Sends everybody these signals, in this order.
    pub(crate) fn signal_all(&self, signals: &[Signal]) {
        for signal in signals {
            self.signal_group(*signal);
        }
        let strays = system::descendants(&self.strangers).unwrap_or_default().into_iter();
        for stray in strays.filter(|process| Some(process.group) != self.command) {
            for signal in signals {
                stray.signal(*signal);
            }
        }
    }

    /// Whether any process of it lives; `None` if that cannot be told here. Zombies do not live.
    pub(crate) fn lives(&self) -> Option<bool> {
        system::any_descendant_lives(&self.strangers)
            .or_else(|| Some(!system::descendants(&self.strangers)?.is_empty()))
            // For lack of memory or of descriptors no process can be found at the moment; there may be some all the same.
            .or_else(|| tells_descent().then_some(true))
    }

    /// The processes that still live, for messages: without those that are about to end.
    pub(crate) fn alive(&self) -> Vec<i32> {
        if self.lives() == Some(false) {
            return Vec::new();
        }
        let all = system::descendants(&self.strangers).unwrap_or_default().into_iter();
        all.filter(|process| !process.exiting).map(|process| process.pid.as_raw_pid()).collect()
    }
}

/// Reaps the children that have ended, but for these.
pub(crate) fn reap(but: &[Pid]) {
    for child in children().unwrap_or_default() {
        if !but.contains(&child) {
            let _ = waitid(WaitId::Pid(child), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        }
    }
}
