//! What is said of a command whose run did not go well: what happened to the lock, what became of the command, and how
//! far its work was covered.

use super::watch::{InterruptSource, lost_names};
use crate::watchdog::protocol::{CommandEnd, Exit};
use leasehold::{Error, ErrorKind, Loss, LossCause};
use leasehold_console::exit::Code;
use leasehold_console::{Failure, brief};
use std::time::Duration;

/// What is to be known of a command that ran.
#[derive(Debug)]
pub(super) struct FinishedRun {
    /// The names of the locks.
    pub(super) locks: String,
    pub(super) pid: i32,
    pub(super) held_for: Duration,
    pub(super) interrupted: InterruptSource,
    /// A signal came that asks a service to end.
    pub(super) is_told_to_end: bool,
}

impl FinishedRun {
    /// The lock was lost. Without a `loss`, the command was stopped because that was near.
    pub(super) fn lost(&self, loss: Option<&Loss>, ended: &CommandEnd) -> Failure {
        let why = loss.map_or_else(|| "its lease was not renewed in time".to_owned(), ToString::to_string);
        let locks = loss.map_or_else(|| self.locks.clone(), |loss| lost_names(loss, &self.locks));
        let message = format!("lock {locks} was lost after {}: {why}", brief(self.held_for));
        let error = Error::new(ErrorKind::Lost, message).with_help(coverage(loss, ended));
        Failure::new(error).with_lines([("effect", self.effect(ended))])
    }

    /// The watchdog was killed, and the command with it.
    pub(super) fn watchdog_killed(&self, ended: &CommandEnd) -> Failure {
        let error = Error::new(ErrorKind::Unavailable, "the watchdog was killed")
            .with_help("find out who kills processes here, such as a memory limit");
        Failure::new(error)
            .with_code("E_INTERNAL", Code::INTERNAL)
            .with_lines([("effect", self.effect(ended))])
    }

    /// What became of the command.
    fn effect(&self, ended: &CommandEnd) -> String {
        let command = format!("the command (pid {})", self.pid);
        if survived(ended) {
            return format!("{command} {}", unstopped(&ended.left));
        }
        match (ended.stopped, ended.exit) {
            (Some(stopped), _) => {
                let how = if stopped.killed { "was killed" } else { "has ended" };
                format!("{command} {how}, {} after the first signal", brief(stopped.took))
            }
            (None, Some(Exit::Code(code))) => format!("{command} had ended by itself, with code {code}"),
            (None, Some(Exit::Signal(signal))) => format!("{command} had been ended by signal {signal}"),
            (None, None) if ended.unseen => {
                format!("{command} was killed; who else still runs cannot be told")
            }
            (None, None) => format!("{command} was killed"),
        }
    }
}

/// How far the lock covered the command.
fn coverage(loss: Option<&Loss>, ended: &CommandEnd) -> &'static str {
    if survived(ended) {
        return "it may run beside the next holder's: end it by hand, and let what it writes to check LEASEHOLD_TOKEN";
    }
    match loss.map(Loss::cause) {
        Some(LossCause::Taken | LossCause::Gone | LossCause::SessionOver | LossCause::ReadOnly) => {
            "somebody else may have held the lock meanwhile: let what it writes to check LEASEHOLD_TOKEN"
        }
        Some(LossCause::MaxHold) => "raise --max-hold, or split the work",
        _ if ended.unseen => {
            "what has left its process group may run beside the next holder's: let what it writes to check LEASEHOLD_TOKEN"
        }
        _ if ended.stopped.is_some() && !ended.late => {
            "nobody else could hold the lock while it ran; its work may be half done"
        }
        _ => "its last moments were not covered by the lock: let what it writes to check LEASEHOLD_TOKEN",
    }
}

/// True if something of it lives that was to be stopped.
fn survived(ended: &CommandEnd) -> bool {
    let by_itself = ended.stopped.is_none() && ended.exit.is_some();
    !by_itself && !ended.left.is_empty()
}

/// What is said of processes that a command left behind when it ended by itself.
pub(super) fn still_there(left: &[i32]) -> String {
    format!("{} still there, without the lock; --wait-all waits for all that the command starts", are(left))
}

/// What is said of processes that outlive a kill.
pub(super) fn unstopped(left: &[i32]) -> String {
    format!("could not be stopped: {} still there", are(left))
}

fn are(processes: &[i32]) -> String {
    match processes {
        [only] => format!("process {only} is"),
        several => {
            let numbers: Vec<String> = several.iter().map(ToString::to_string).collect();
            format!("processes {} are", numbers.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watchdog::protocol::StopResult;

    #[test]
    fn process_that_left_the_group_unseen_may_be_uncovered() {
        let stopped = Some(StopResult { killed: true, took: Duration::from_millis(3) });
        let ended = CommandEnd { stopped, late: false, unseen: true, ..CommandEnd::unknown(Vec::new()) };
        assert!(coverage(None, &ended).starts_with("what has left its process group may run beside"));
    }

    /// As when all of them were stopped, and went on after the lease.
    #[test]
    fn command_stopped_too_late_was_not_covered() {
        for (late, words) in [(false, "nobody else could hold"), (true, "its last moments were not covered")]
        {
            let stopped = StopResult { killed: true, took: Duration::from_millis(3) };
            let ended = CommandEnd { stopped: Some(stopped), late, ..CommandEnd::unknown(Vec::new()) };
            assert!(coverage(None, &ended).starts_with(words), "{late}: {}", coverage(None, &ended));
        }
    }
}
