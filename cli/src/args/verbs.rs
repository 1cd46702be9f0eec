use super::run::{AcquireArgs, CommandArgs, KindArgs, LeaseArgs, RunArgs};
use super::values::{Seconds, some_text, wait};
use clap::{Args, Subcommand, ValueHint};
use clap_complete::Shell;
use leasehold::Semaphore;
use leasehold_console::duration;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Run(RunArgs),
    Elect(ElectArgs),
    Hold(HoldArgs),
    Try(TryArgs),
    Wait(WaitArgs),
    Ls(LsArgs),
    Inspect(InspectArgs),
    Release(ReleaseArgs),
    Purge(PurgeArgs),
    Init(InitArgs),
    Config(ConfigArgs),
    #[cfg(feature = "lab")]
    #[command(flatten)]
    Lab(leasehold_lab::LabVerb),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

/// Run a command whenever this host leads.
///
/// Campaigns for as long as another host leads, then runs the command. When the leadership is lost, the command and everything it
/// has started is stopped before another host leads, and the campaign begins again. A command that ends with 0 resigns: others may
/// lead, and this host campaigns again. With any other code, elect resigns and ends with that code.
#[derive(Clone, Debug, Args)]
#[command(
    override_usage = "leasehold elect [OPTIONS] NAME -- COMMAND [ARGUMENT]...\n       leasehold elect --watch NAME"
)]
pub(crate) struct ElectArgs {
    /// The election. It is the exclusive lock of this name
    pub(crate) name: Option<OsString>,

    #[command(flatten)]
    pub(crate) command: CommandArgs,

    #[command(flatten)]
    pub(crate) lease: LeaseArgs,

    /// End after the first term, with the code of the command, or with 80 if the leadership was lost
    #[arg(long, conflicts_with = "restart")]
    pub(crate) once: bool,

    /// After a command that fails too, resign and campaign again
    #[arg(long)]
    pub(crate) restart: bool,

    /// Print a line of JSON for each leader, and when nobody leads; run nothing
    #[arg(long, conflicts_with_all = ["words", "shell", "once", "restart"])]
    pub(crate) watch: bool,

    /// A candidate waits: there is no attempt to be one
    #[arg(short, long, hide = true)]
    pub(crate) nonblock: bool,
}

/// Hold a lock, without a command.
///
/// Prints one line of JSON when the lock is held, and holds it until standard input ends, if that is a pipe, or until a
/// signal: HUP, INT, QUIT, TERM, USR1 or USR2. Exits with 80 if the lock is lost.
#[derive(Clone, Debug, Args)]
pub(crate) struct HoldArgs {
    /// The lock; several names are all held, or none
    #[arg(value_name = "NAME", required = true)]
    pub(crate) names: Vec<OsString>,
    #[command(flatten)]
    pub(crate) kind: KindArgs,
    #[command(flatten)]
    pub(crate) acquire: AcquireArgs,
}

/// Tell whether a lock is free (exit code 0) or held (75).
///
/// Changes nothing. What it says may be over when it is read: to do something if a lock is free, use run -n.
#[derive(Clone, Debug, Args)]
pub(crate) struct TryArgs {
    /// The lock
    pub(crate) name: OsString,
    #[command(flatten)]
    pub(crate) kind: KindArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Wait until a lock is free, and take nothing.
///
/// It looks once a second. The lock may be taken again when it ends: to do something under the lock, use run.
#[derive(Clone, Debug, Args)]
pub(crate) struct WaitArgs {
    /// The lock
    pub(crate) name: OsString,
    #[command(flatten)]
    pub(crate) kind: KindArgs,
    /// Wait for so long at most, as of run; then exit with 75
    #[arg(short, long, value_name = "TIME", value_parser = wait, allow_hyphen_values = true)]
    pub(crate) wait: Option<Seconds>,
}

/// List the locks that are held.
///
/// On Redis, only those that were taken with Leasehold. A lock that another program has set under the same key is not in the
/// list; try and inspect show it.
#[derive(Clone, Debug, Args)]
pub(crate) struct LsArgs {
    /// Only those whose names begin with this
    #[arg(default_value = "")]
    pub(crate) prefix: String,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the names alone, one a line
    #[arg(long, conflicts_with = "json")]
    pub(crate) names: bool,
    /// List them again every second, until a signal comes; at a terminal in place
    #[arg(long)]
    pub(crate) watch: bool,
}

/// Show everything that is known of a lock.
#[derive(Clone, Debug, Args)]
pub(crate) struct InspectArgs {
    /// The lock
    pub(crate) name: OsString,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Take a lock away from its holder.
///
/// The holder is not asked. It learns of it from its next renewal, within a third of its lease; until then it may work
/// on, beside the next holder.
#[derive(Clone, Debug, Args)]
pub(crate) struct ReleaseArgs {
    /// The lock
    pub(crate) name: OsString,
    /// Yes, take it away: nothing else can be done with a lock from outside
    #[arg(long, required = true)]
    pub(crate) force: bool,
    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Only if it is held with this fencing token
    #[arg(long, value_name = "TOKEN")]
    pub(crate) if_token: Option<u64>,
    /// Only if this is part of its holder's description
    #[arg(long, value_name = "TEXT", value_parser = some_text)]
    pub(crate) if_holder: Option<String>,
    /// Only the reader with this fencing token, if readers share the lock
    #[arg(long, value_name = "TOKEN", conflicts_with_all = ["if_token", "slot"])]
    pub(crate) reader: Option<u64>,
    /// Only the holder of this slot of a semaphore
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..i64::from(Semaphore::MAX_PERMITS)), allow_negative_numbers = true)]
    pub(crate) slot: Option<u32>,
}

/// Forget names that nobody has used for long.
///
/// A database keeps a row for every name, so that tokens grow. What nobody has held for so long can go while everything
/// runs: the next token is larger all the same. It needs the right to delete, which locking does not.
#[derive(Clone, Debug, Args)]
pub(crate) struct PurgeArgs {
    /// For how long nobody may have held it, an hour at least
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
    pub(crate) idle: Duration,
    /// Only count them
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
}

/// Create what the store needs, such as a table.
#[derive(Clone, Debug, Args)]
pub(crate) struct InitArgs {
    /// Only print the statements, for somebody who may execute them
    #[arg(long)]
    pub(crate) print: bool,
}

/// Look at the configuration.
#[derive(Clone, Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    pub(crate) verb: ConfigVerb,
}

/// What to do with the configuration.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ConfigVerb {
    /// Read it, connect to the store, and look for what would weaken the locks
    Check {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show every value that counts, and where it comes from. No password is shown
    Show {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the file that counts, or where one is looked for
    Path,
}

/// Print a completion script.
#[derive(Clone, Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: Shell,
}

/// Print the manual, or write its pages into a directory.
#[derive(Clone, Debug, Args)]
pub(crate) struct ManArgs {
    /// Where to write leasehold.1, leasehold-run.1 and so on
    #[arg(value_hint = ValueHint::DirPath)]
    pub(crate) directory: Option<PathBuf>,
}
