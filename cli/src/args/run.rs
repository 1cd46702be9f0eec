use super::values::{Info, Seconds, info, wait};
use crate::watchdog::stop_plan::OnLost;
use clap::Args;
use leasehold::{Error, Result, Semaphore, Wait};
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
    override_usage = "leasehold run [OPTIONS] NAME... -- COMMAND [ARGUMENT]...\n       leasehold run [OPTIONS] NAME... -c STRING",
    after_help = RUN_EXAMPLES
)]
pub(crate) struct RunArgs {
    /// The lock; several names are all acquired, or none. Names that begin with a dash go behind the first --
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<OsString>,

    #[command(flatten)]
    pub(crate) command: CommandArgs,

    #[command(flatten)]
    pub(crate) kind: KindArgs,

    #[command(flatten)]
    pub(crate) acquire: AcquireArgs,

    /// If a command above this one holds the lock, run under that hold; otherwise acquire it. Options of the lock count
    /// only if it is acquired
    #[arg(long, conflicts_with_all = ["shared", "permits", "status_fd", "strict_release"])]
    pub(crate) reentrant: bool,

    /// Exit with this code if the lock is not acquired: 0 in a crontab
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = Code::HELD.number(), allow_negative_numbers = true)]
    pub(crate) conflict_exit_code: u8,

    /// Exit with 81 if the release is not confirmed, even if the command succeeded
    #[arg(long)]
    pub(crate) strict_release: bool,

    /// Write the fencing token to this file descriptor when the lock is acquired; of several names, a line for each
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(RawFd).range(0..), allow_negative_numbers = true)]
    pub(crate) token_fd: Option<RawFd>,

    /// Write how it ended to this file descriptor, as one line of JSON
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(RawFd).range(0..), allow_negative_numbers = true)]
    pub(crate) status_fd: Option<RawFd>,
}

const RUN_EXAMPLES: &str = "\
Examples:
  leasehold run nightly -- ./report.sh          wait for the lock, then run
  leasehold run -n -E 0 --hold-at-least 1m nightly -- ./report.sh
                                                in a crontab on several hosts: one of them runs it
  leasehold run --permits 3 convert -- ./convert.sh   three at a time, on all hosts together";

/// The command that runs under a lock, and how it is stopped.
#[derive(Clone, Debug, Args)]
pub(crate) struct CommandArgs {
    /// The command and its arguments. It is executed as it is, without a shell
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) words: Vec<OsString>,

    /// Run this by a shell: $SHELL if /etc/shells has it, or else /bin/sh
    #[arg(short = 'c', long = "shell", value_name = "STRING")]
    pub(crate) shell: Option<OsString>,

    /// What to do with the command when the lock is lost. With "warn" it may run beside the next holder's
    #[arg(long, value_name = "HOW", default_value = "term")]
    pub(crate) on_lost: OnLost,

    /// From TERM to KILL. It ends with the lease, so it is shortened to about a third of that
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration, allow_hyphen_values = true)]
    pub(crate) grace: Duration,

    /// Leave credentials in the command's environment
    #[arg(long)]
    pub(crate) pass_env: bool,

    /// Hold the lock until everything that the command has started is over, in whatever process group
    #[arg(long)]
    pub(crate) wait_all: bool,
}

/// The kind of lock, if it is not an exclusive one.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct KindArgs {
    /// Hold the lock together with others that give this option, as a reader; without it, it is held alone
    #[arg(long, conflicts_with = "permits")]
    pub(crate) shared: bool,

    /// Let so many hold it at a time, from 1 to 1000: a semaphore, which is not the lock of this name
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(Semaphore::MAX_PERMITS)), allow_negative_numbers = true)]
    pub(crate) permits: Option<u32>,
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

    /// Keep others out for so long at least, even if the lock is released earlier: for jobs that are shorter than the
    /// difference between the clocks that start them
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
    pub(crate) hold_at_least: Option<Duration>,

    #[command(flatten)]
    pub(crate) lease: LeaseArgs,
}

/// How a lock is held.
#[derive(Clone, Debug, Args)]
pub(crate) struct LeaseArgs {
    /// The length of the lease, such as 30s: for how long a crashed host keeps others out [default: 30s]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) ttl: Option<String>,

    /// Hold the lock for so long at most
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
    pub(crate) max_hold: Option<Duration>,

    /// Tell others something about this holder. May be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = info)]
    pub(crate) info: Vec<Info>,
}

impl AcquireArgs {
    /// As of a candidate, who waits for as long as another one leads.
    pub(crate) fn of_a_candidate(lease: LeaseArgs) -> Self {
        Self { nonblock: false, wait: None, hold_at_least: None, lease }
    }

    /// How long to wait, if that is said.
    pub(crate) fn wait(&self) -> Option<Wait> {
        if self.nonblock {
            return Some(Wait::No);
        }
        self.wait.map(Wait::from)
    }
}

impl RunArgs {
    /// The names and the command line, wherever they stand.
    ///
    /// `run -- -NAME -- COMMAND` is how names that look like options are given: all of it then comes behind the
    /// first `--`.
    pub(crate) fn names_and_command(&self) -> Result<(Vec<OsString>, Vec<OsString>)> {
        let CommandArgs { words, shell, .. } = &self.command;
        let second_dashes = words.iter().position(|word| word == "--");
        let (names, words) = match second_dashes {
            _ if !self.names.is_empty() => (&self.names[..], &words[..]),
            Some(at) => (&words[..at], &words[at + 1..]),
            None if shell.is_some() => (&words[..], &[][..]),
            None => (&[][..], &words[..]),
        };
        if names.is_empty() {
            return Err(Error::invalid(
                "lock name",
                "there is none",
                "write it first, then two dashes and the command: NAME -- COMMAND",
            ));
        }
        let command = match shell {
            Some(_) if !words.is_empty() => {
                return Err(Error::invalid("command", "there is one beside -c", "leave one of them out"));
            }
            Some(line) => in_shell(line),
            None => words.to_vec(),
        };
        match command.first() {
            None => Err(no_command(names)),
            Some(first) if first.is_empty() => {
                Err(Error::invalid("command", "it is empty", "name a program"))
            }
            Some(_) => Ok((names.to_vec(), command)),
        }
    }
}

/// `run NAME COMMAND` without the `--` that keeps the command's options apart from ours is the likeliest mistake.
fn no_command(names: &[OsString]) -> Error {
    let meant = names.get(1).map_or("COMMAND".into(), |word| format!("{} …", word.display()));
    let fix = format!("the command stands behind two dashes: leasehold run NAME -- {meant}");
    Error::invalid("command", "there is none", fix)
}

/// `$SHELL` is no shell for a user that is not to log in, such as `/usr/sbin/nologin`: the kernel's users of it go by
/// `/etc/shells` (`shells(5)`).
fn in_shell(line: &OsString) -> Vec<OsString> {
    let shells = std::fs::read_to_string("/etc/shells").unwrap_or_default();
    let is_known = |shell: &OsString| {
        shells.lines().map(str::trim).any(|known| known.starts_with('/') && shell == known)
    };
    let shell = std::env::var_os("SHELL").filter(is_known).unwrap_or_else(|| "/bin/sh".into());
    vec![shell, "-c".into(), line.clone()]
}
