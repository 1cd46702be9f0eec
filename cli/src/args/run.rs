use super::values::{Info, Seconds, info, wait};
use crate::watchdog::stop_plan::OnLost;
use clap::Args;
use leasehold::{Error, Result, Wait};
use leasehold_console::duration;
use leasehold_console::exit::Code;
use std::ffi::OsString;
use std::os::fd::RawFd;
use std::time::Duration;

/// Run a command while a lock is held.
///
/// Waits for the lock, runs the command, and releases the lock when it is over. If the lock is lost meanwhile, the
/// command and everything it has started is stopped before anybody else can hold the lock: TERM, then KILL.
#[derive(Clone, Debug, Args)]
#[command(
    override_usage = "leasehold run [OPTIONS] NAME -- COMMAND [ARGUMENT]...\n       leasehold run [OPTIONS] NAME -c STRING"
)]
pub(crate) struct RunArgs {
    /// The lock. One that begins with a dash goes behind the first --
    pub(crate) name: Option<OsString>,

    /// The command and its arguments. It is executed as it is, without a shell
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,

    /// Run this by a shell, $SHELL or else /bin/sh
    #[arg(short = 'c', long = "shell", value_name = "STRING")]
    pub(crate) shell: Option<OsString>,

    #[command(flatten)]
    pub(crate) acquire: AcquireArgs,

    /// Exit with this code if the lock is not acquired: 0 in a crontab
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = Code::HELD.number(), allow_negative_numbers = true)]
    pub(crate) conflict_exit_code: u8,

    /// What to do with the command when the lock is lost. With "warn" it may run beside the next holder's
    #[arg(long, value_name = "HOW", default_value = "term")]
    pub(crate) on_lost: OnLost,

    /// From TERM to KILL. It ends with the lease, so it is shortened to about a third of that
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration, allow_hyphen_values = true)]
    pub(crate) grace: Duration,

    /// Exit with 81 if the release is not confirmed, even if the command succeeded
    #[arg(long)]
    pub(crate) strict_release: bool,

    /// Leave credentials in the command's environment
    #[arg(long)]
    pub(crate) pass_env: bool,

    /// Write the fencing token to this file descriptor when the lock is acquired
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(RawFd).range(0..), allow_negative_numbers = true)]
    pub(crate) token_fd: Option<RawFd>,

    /// Write how it ended to this file descriptor, as one line of JSON
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(RawFd).range(0..), allow_negative_numbers = true)]
    pub(crate) status_fd: Option<RawFd>,
}

/// How a lock is acquired and held.
#[derive(Clone, Debug, Args)]
pub(crate) struct AcquireArgs {
    /// Do not wait if somebody else holds the lock
    #[arg(short, long, conflicts_with = "wait")]
    pub(crate) nonblock: bool,

    /// Wait for so long at most: 10s, or a plain number of seconds as flock(1) takes it. 0 is -n [default: forever]
    #[arg(short, long, value_name = "TIME", value_parser = wait, allow_hyphen_values = true)]
    wait: Option<Seconds>,

    /// The length of the lease, such as 30s: for how long a crashed host keeps others out [default: 30s]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) ttl: Option<String>,

    /// Keep others out for so long at least, even if the lock is released earlier: for jobs that are shorter than the
    /// difference between the clocks that start them
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
    pub(crate) hold_at_least: Option<Duration>,

    /// Hold the lock for so long at most
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
    pub(crate) max_hold: Option<Duration>,

    /// Tell others something about this holder. May be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = info)]
    pub(crate) info: Vec<Info>,
}

impl AcquireArgs {
    /// How long to wait, if that is said.
    pub(crate) fn wait(&self) -> Option<Wait> {
        if self.nonblock {
            return Some(Wait::No);
        }
        self.wait.map(Wait::from)
    }
}

impl RunArgs {
    /// The lock and the command line, wherever they stand.
    ///
    /// `run -- -NAME -- COMMAND` is how a name that looks like an option is given: all of it then comes behind the
    /// first `--`.
    pub(crate) fn name_and_command(&self) -> Result<(OsString, Vec<OsString>)> {
        let mut words = self.command.iter();
        let name = match &self.name {
            Some(name) => name,
            None => {
                let name = words.next().ok_or_else(no_name)?;
                if words.next().is_some_and(|word| word != "--") {
                    return Err(no_name());
                }
                name
            }
        };
        let command = match &self.shell {
            Some(_) if words.len() > 0 => {
                return Err(Error::invalid("command", "there is one beside -c", "leave one of them out"));
            }
            Some(line) => in_shell(line),
            None => words.cloned().collect(),
        };
        match command.first() {
            None => Err(Error::invalid(
                "command",
                "there is none",
                "write it behind two dashes: leasehold run NAME -- COMMAND",
            )),
            Some(first) if first.is_empty() => {
                Err(Error::invalid("command", "it is empty", "name a program"))
            }
            Some(_) => Ok((name.clone(), command)),
        }
    }
}

fn in_shell(line: &OsString) -> Vec<OsString> {
    let shell = std::env::var_os("SHELL").filter(|shell| !shell.is_empty());
    vec![shell.unwrap_or_else(|| "/bin/sh".into()), "-c".into(), line.clone()]
}

fn no_name() -> Error {
    Error::invalid("lock name", "there is none", "write leasehold run NAME -- COMMAND")
}
