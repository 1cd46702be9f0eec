//! What `leasehold` and its watchdog tell each other: one JSON object a line, over a socket pair.
//!
//! The socket itself says the most important thing: when one of the two is gone, whatever killed it, the other reads
//! the end of it.

use super::stop_plan::Terms;
use leasehold::client::Moment;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::time::Duration;

/// What the watchdog is to do.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// This is the command. The first order.
    Prepare(Program),
    /// Start it. The second order, given when the lock is held.
    Start(Start),
    /// The lease is confirmed until then.
    ConfirmedUntil(SinceBoot),
    /// Pass this signal on to the command's process group, which may have got it by itself.
    Signal(i32),
    /// Let a suspended command go on, with the terminal if that is ours to give.
    Continue,
    /// The lock is lost: stop the command.
    Stop,
}

/// The command. It is no argument of the watchdog, so that `pkill -f` with its words does not find the watchdog.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Program {
    /// Where it was found.
    pub(crate) file: OsString,
    /// What it was called.
    pub(crate) name: OsString,
    pub(crate) arguments: Vec<OsString>,
}

/// How the command is started.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Start {
    /// Variables to take out of the environment first.
    pub(crate) removed: Vec<String>,
    /// Variables to add to it.
    pub(crate) environment: Vec<(String, String)>,
    /// True if the lock is held until all that the command has started is over.
    pub(crate) waits_for_all: bool,
    pub(crate) terms: Terms,
    pub(crate) lease_end: SinceBoot,
}

/// What became of the command.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum CommandReport {
    /// It runs; its process group has this number too.
    Started { pid: i32 },
    /// It could not be executed, and why.
    NotStarted { errno: i32 },
    /// There was no time left to start it in.
    TooLate,
    /// It was suspended by this signal, and the terminal taken back from it if it had that.
    Suspended { signal: i32, had_terminal: bool },
    /// It is being stopped: the lease was not confirmed in time.
    Stopping,
    /// It is over. The last report.
    Ended(CommandEnd),
}

/// The end of the command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CommandEnd {
    /// How it ended; `None` if it could not be killed.
    pub(crate) exit: Option<Exit>,
    /// How it was stopped, if it was.
    pub(crate) stopped: Option<StopResult>,
    /// True if that was seen only after the end of the lease, as far as it was confirmed: all of them, the watchdog too, had
    /// stood still.
    pub(crate) late: bool,
    /// Processes of its whole process tree that are still there.
    pub(crate) left: Vec<i32>,
    /// True if it could not be told whether a process lives that has left its group.
    pub(crate) unseen: bool,
    /// True if it had the terminal.
    pub(crate) had_terminal: bool,
}

impl CommandEnd {
    /// An end that nobody reported.
    pub(crate) fn unknown(left: Vec<i32>) -> Self {
        Self { exit: None, stopped: None, late: true, left, unseen: false, had_terminal: false }
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Exit {
    Code(i32),
    Signal(i32),
}

/// How the command was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StopResult {
    /// True if it had to be killed.
    pub(crate) killed: bool,
    /// From the first signal to the end of its last process.
    pub(crate) took: Duration,
}

/// A moment of the clock that both processes read, `CLOCK_BOOTTIME` on Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct SinceBoot {
    nanoseconds: u64,
}

impl From<Moment> for SinceBoot {
    fn from(moment: Moment) -> Self {
        let since_boot = moment.since(Moment::ORIGIN).as_nanos();
        Self { nanoseconds: u64::try_from(since_boot).unwrap_or(u64::MAX) }
    }
}

impl From<SinceBoot> for Moment {
    fn from(time: SinceBoot) -> Self {
        Self::since_origin(Duration::from_nanos(time.nanoseconds))
    }
}

/// One line of the conversation.
pub(crate) fn to_line(message: &impl Serialize) -> Vec<u8> {
    // Structs of numbers and text cannot fail to serialise.
    let mut line = serde_json::to_vec(message).unwrap_or_default();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_cross_the_socket_unchanged() {
        for moment in
            [Moment::ORIGIN, Moment::since_origin(Duration::from_nanos(1_234_567_890_123)), Moment::NEVER]
        {
            let line = to_line(&SinceBoot::from(moment));
            let there: SinceBoot = serde_json::from_slice(&line).unwrap();
            assert_eq!(Moment::from(there), moment);
        }
    }

    #[test]
    fn message_of_any_text_is_one_line() {
        let line = to_line(&Order::Start(Start {
            removed: Vec::new(),
            environment: vec![("A".to_owned(), "b\nc\"\u{2028}".to_owned())],
            waits_for_all: false,
            terms: Terms::new(super::super::stop_plan::OnLost::Term, Duration::ZERO, Duration::from_secs(30)),
            lease_end: Moment::NEVER.into(),
        }));
        assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
        assert_eq!(line.last(), Some(&b'\n'));
    }
}
