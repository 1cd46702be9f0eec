//! What the exit code says.

use leasehold::{Error, ErrorKind};
use rustix::process::{Pid, Signal, getpid, kill_current_process_group};
use std::process::ExitCode;

/// An exit code. Ours are those of `sysexits.h` where it has one, so that cron, procmail and systemd read them as meant,
/// and those of the shell where a command is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(u8);

impl Code {
    /// The verb did what it was asked to.
    pub const SUCCESS: Self = Self(0);
    /// The operator was asked, and said no.
    pub const DECLINED: Self = Self(1);
    /// A store was put to the test, and failed it; or nothing was tested.
    pub const FAILED: Self = Self(1);
    /// A store missed a bound twice, on a machine that was on time.
    pub const LATE: Self = Self(2);
    /// The machine was too late to judge a store (`EX_TEMPFAIL`: try again later).
    pub const NOT_JUDGED: Self = Self(75);
    /// The command line is wrong (`EX_USAGE`).
    pub const USAGE: Self = Self(64);
    /// The store cannot be reached, or it is not known what it did (`EX_UNAVAILABLE`).
    pub const UNAVAILABLE: Self = Self(69);
    /// Something of ours failed (`EX_SOFTWARE`).
    pub const INTERNAL: Self = Self(70);
    /// The lock is held by another client (`EX_TEMPFAIL`: try again later).
    pub const HELD: Self = Self(75);
    /// The store refuses us (`EX_NOPERM`).
    pub const DENIED: Self = Self(77);
    /// The configuration is wrong (`EX_CONFIG`).
    pub const CONFIG: Self = Self(78);
    /// The lock was lost.
    pub const LOST: Self = Self(80);
    /// The release was not confirmed, and `--strict-release` is given.
    pub const NOT_RELEASED: Self = Self(81);
    /// The command is there and cannot be executed.
    pub const CANNOT_EXECUTE: Self = Self(126);
    /// There is no such command.
    pub const NOT_FOUND: Self = Self(127);

    /// This code.
    pub const fn new(code: u8) -> Self {
        Self(code)
    }

    /// What a shell says of a process that this signal ended.
    pub fn of_signal(number: i32) -> Self {
        Self(u8::try_from(number).map_or(u8::MAX, |number| number.saturating_add(128)))
    }

    /// What says the same as an error of this kind.
    pub fn of_error(error: &Error) -> Self {
        match error.kind() {
            ErrorKind::Busy | ErrorKind::TimedOut => Self::HELD,
            ErrorKind::Lost => Self::LOST,
            ErrorKind::Indeterminate | ErrorKind::Unavailable => Self::UNAVAILABLE,
            ErrorKind::Denied => Self::DENIED,
            ErrorKind::Misconfigured | ErrorKind::Unsupported => Self::CONFIG,
            ErrorKind::Invalid => Self::USAGE,
            _ => Self::INTERNAL,
        }
    }

    /// The code as a number.
    pub const fn number(self) -> u8 {
        self.0
    }
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code.0)
    }
}

/// Ends as Ctrl-C ends a program: a shell that sees how we died leaves its loop, which it does not for exit code 130.
pub fn as_interrupted() -> Code {
    // No default action of a signal ends the first process of a container (`pid_namespaces(7)`), and the library aborts
    // what it could not end.
    if getpid() != Pid::INIT {
        let _ = signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGINT);
    }
    Code::of_signal(signal_hook::consts::SIGINT)
}

/// Ends as this signal ends a program: after SIGINT as [`as_interrupted`], and otherwise by the code of the signal.
pub fn ended_by(signal: Signal) -> Code {
    match signal {
        Signal::INT => as_interrupted(),
        signal => Code::of_signal(signal.as_raw()),
    }
}

/// As [`as_interrupted`], for when the terminal has interrupted the command alone, because it was the one that had the terminal. Without
/// us it would have interrupted everybody in our group, a script that called us included.
pub fn as_interrupted_with_group() -> Code {
    let _ = kill_current_process_group(Signal::INT);
    as_interrupted()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_error_has_its_code() {
        let codes = [
            (ErrorKind::Busy, 75),
            (ErrorKind::TimedOut, 75),
            (ErrorKind::Lost, 80),
            (ErrorKind::Indeterminate, 69),
            (ErrorKind::Unavailable, 69),
            (ErrorKind::Denied, 77),
            (ErrorKind::Misconfigured, 78),
            (ErrorKind::Unsupported, 78),
            (ErrorKind::Invalid, 64),
            (ErrorKind::Closed, 70),
        ];
        for (kind, code) in codes {
            assert_eq!(Code::of_error(&Error::new(kind, "x")).number(), code, "{kind:?}");
        }
    }

    #[test]
    fn exit_code_of_a_signal_is_128_and_its_number() {
        assert_eq!(Code::of_signal(2).number(), 130);
        assert_eq!(Code::of_signal(64).number(), 192);
        assert_eq!(Code::of_signal(-1).number(), 255);
    }
}
