//! How a run ended, and how that is said: by an exit code, by words, and to a program that asked.

use super::finished_run::{FinishedRun, still_there};
use super::watch::{End, InterruptSource};
use crate::args::RunArgs;
use crate::give_back::Released;
use crate::terminal;
use crate::watchdog::protocol::{CommandEnd, Exit};
use crate::watchdog::stop_plan::OnLost;
use leasehold::{Loss, LossCause};
use leasehold_console::exit::{self, Code};
use leasehold_console::{Console, Failure, write_with_timeout};
use rustix::process::Signal;
use serde::Serialize;
use std::fs::File;
use std::io;

/// The end of a run.
#[derive(Debug)]
pub(super) struct Ending {
    outcome: EndingKind,
    code: Code,
    /// How the command ended.
    command: Option<Exit>,
    /// True if the lock was lost before the command ended, whatever was done about it.
    lost: bool,
    warning: Option<String>,
    failure: Option<Failure>,
    interrupt: InterruptedGroup,
    /// A signal came that asks a service to end.
    is_told_to_end: bool,
    /// Something of the command lives that could not be stopped.
    has_survivors: bool,
}

/// What became of it, in a word for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum EndingKind {
    /// The command ran under the lock to its end.
    Ended,
    /// The lock is held by another client.
    NotAcquired,
    /// A signal ended the wait for the lock.
    Interrupted,
    /// The lock was lost while the command ran, or before it could be started.
    Lost,
    /// The command ran, and the release was not confirmed.
    NotReleased,
    /// Something else went wrong.
    Failed,
}

/// The process group that Ctrl-C has interrupted, for a run that ends as Ctrl-C ends a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InterruptedGroup {
    None,
    /// The terminal has interrupted our group.
    Ours,
    /// The terminal has interrupted the command's group only, because that had the terminal.
    Commands,
}

impl Ending {
    /// A run that did not come to start its command.
    pub(super) fn failed(failure: Failure, args: &RunArgs) -> Self {
        let mut ending = match failure.code() {
            Code::HELD => Self::new(EndingKind::NotAcquired, Code::new(args.conflict_exit_code)),
            Code::LOST => Self::new(EndingKind::Lost, Code::LOST),
            code => Self::new(EndingKind::Failed, code),
        };
        ending.failure = Some(failure);
        ending
    }

    /// A wait that a signal ended.
    pub(super) fn interrupted(signal: Signal) -> Self {
        let mut ending = Self::new(EndingKind::Interrupted, Code::of_signal(signal.as_raw()));
        if signal == Signal::INT && terminal::is_ours() {
            ending.interrupt = InterruptedGroup::Ours;
        }
        ending
    }

    /// A command that ran. `loss` is what the lease said of itself before it was given back.
    pub(super) fn of_command(
        run: &FinishedRun,
        args: &RunArgs,
        end: End,
        loss: Option<Loss>,
        released: Released,
    ) -> Self {
        let loss = loss.or_else(|| released.loss());
        let has_survivors = end.has_survivors();
        let mut ending = Self::of_end(run, args, end, loss, released);
        (ending.is_told_to_end, ending.has_survivors) = (run.is_told_to_end, has_survivors);
        ending
    }

    fn of_end(run: &FinishedRun, args: &RunArgs, end: End, loss: Option<Loss>, released: Released) -> Self {
        match end {
            End::Ended(ended) => {
                let loss = loss.filter(|loss| !came_later(loss, &ended));
                let lost = ended.stopped.is_some() || loss.is_some();
                if lost && args.command.on_lost != OnLost::Warn {
                    return Self::lost(run, loss.as_ref(), &ended);
                }
                Self {
                    lost,
                    ..Self::of_its_own(&ended, run.interrupted)
                        .unless_unreleased(released, args.strict_release)
                }
            }
            End::WithoutWatchdog(killed) => {
                let unseen = killed.is_err();
                let ended = CommandEnd { unseen, ..CommandEnd::unknown(killed.err().unwrap_or_default()) };
                if loss.is_some() {
                    return Self::lost(run, loss.as_ref(), &ended);
                }
                let mut ending = Self::new(EndingKind::Failed, Code::INTERNAL);
                ending.failure = Some(run.watchdog_killed(&ended));
                ending
            }
        }
    }

    /// Whether a candidate campaigns again after a term that ended so; `restarts` after a command that failed, too.
    pub(super) fn is_followed_by_campaign(&self, restarts: bool) -> bool {
        let was_interrupted = self.is_told_to_end || self.interrupt != InterruptedGroup::None;
        !was_interrupted
            && !self.has_survivors
            && match self.outcome {
                EndingKind::Lost => true,
                EndingKind::Ended | EndingKind::NotReleased => restarts || self.code == Code::SUCCESS,
                EndingKind::NotAcquired | EndingKind::Interrupted | EndingKind::Failed => false,
            }
    }

    /// Says it, and answers the code.
    pub(super) fn finish(self, console: Console) -> Code {
        self.tell(console);
        match self.interrupt {
            InterruptedGroup::None => self.code,
            InterruptedGroup::Ours => exit::as_interrupted(),
            InterruptedGroup::Commands => exit::as_interrupted_with_group(),
        }
    }

    /// Says it.
    pub(super) fn tell(&self, console: Console) {
        if let Some(warning) = &self.warning {
            console.warn(warning, None);
        }
        match &self.failure {
            // The caller has said that this is no error, and a crontab wants to hear of errors only.
            Some(failure) if self.outcome == EndingKind::NotAcquired && self.code == Code::SUCCESS => {
                console.detail(failure.message());
            }
            Some(failure) => console.fail(failure),
            None => {}
        }
    }

    fn new(outcome: EndingKind, code: Code) -> Self {
        let lost = outcome == EndingKind::Lost;
        Self {
            outcome,
            code,
            command: None,
            lost,
            warning: None,
            failure: None,
            interrupt: InterruptedGroup::None,
            is_told_to_end: false,
            has_survivors: false,
        }
    }

    fn lost(run: &FinishedRun, loss: Option<&Loss>, ended: &CommandEnd) -> Self {
        let mut ending = Self::new(EndingKind::Lost, Code::LOST);
        ending.command = ended.exit;
        ending.failure = Some(run.lost(loss, ended));
        ending
    }

    fn of_its_own(ended: &CommandEnd, interrupted: InterruptSource) -> Self {
        let mut ending = Self::new(EndingKind::Ended, ended.exit.map_or(Code::INTERNAL, code_of));
        ending.command = ended.exit;
        if !ended.left.is_empty() {
            ending.warning = Some(still_there(&ended.left));
        }
        // A command that SIGINT did not kill has handled it: the signal goes no further.
        if ended.exit == Some(Exit::Signal(Signal::INT.as_raw())) {
            ending.interrupt = match interrupted {
                InterruptSource::Terminal => InterruptedGroup::Ours,
                InterruptSource::None if ended.had_terminal => InterruptedGroup::Commands,
                InterruptSource::None | InterruptSource::Signal => InterruptedGroup::None,
            };
        }
        ending
    }

    /// A failed release hides the command's own code only if that is asked for.
    fn unless_unreleased(mut self, released: Released, strict: bool) -> Self {
        let Released::Unconfirmed(error) = released else {
            return self;
        };
        if strict {
            self.outcome = EndingKind::NotReleased;
            self.code = Code::NOT_RELEASED;
            let error = error.context("the command has ended, but the release of its lock was not confirmed");
            self.failure = Some(Failure::new(error));
        }
        self
    }
}

/// True if the lease ended after the command had, by itself: `leasehold` alone stood still, and could neither renew it nor give it
/// back.
fn came_later(loss: &Loss, ended: &CommandEnd) -> bool {
    let by_its_end = matches!(loss.cause(), LossCause::Expired | LossCause::Unreachable | LossCause::MaxHold);
    by_its_end && ended.stopped.is_none() && !ended.late
}

fn code_of(exit: Exit) -> Code {
    match exit {
        Exit::Code(code) => Code::new(u8::try_from(code & 0xff).unwrap_or(u8::MAX)),
        Exit::Signal(signal) => Code::of_signal(signal),
    }
}

/// Where the ending is told to a program.
#[derive(Debug)]
pub(super) struct StatusFd(Option<File>);

#[derive(Serialize)]
struct Status {
    outcome: EndingKind,
    /// The command's exit code, or 128 and its signal; nothing if it did not run.
    command: Option<u8>,
    code: u8,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    lost: bool,
}

impl StatusFd {
    pub(super) fn new(file: Option<File>) -> Self {
        Self(file)
    }

    /// Tells it. A reader that is gone does not want to know, and for one that does not read nobody waits: whoever waits
    /// for the exit code, or ends us, would wait too.
    pub(super) fn write(&self, ending: &Ending, console: Console) {
        let Some(file) = &self.0 else { return };
        let status = Status {
            outcome: ending.outcome,
            command: ending.command.map(|exit| code_of(exit).number()),
            code: ending.code.number(),
            lost: ending.lost,
        };
        let mut line = serde_json::to_vec(&status).unwrap_or_default();
        line.push(b'\n');
        match write_with_timeout(file, &line) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => console.warn(
                format_args!("cannot write the ending to the descriptor of --status-fd: {error}"),
                None,
            ),
            _ => {}
        }
    }
}
