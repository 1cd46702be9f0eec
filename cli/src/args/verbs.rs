use super::run::{AcquireArgs, RunArgs};
use super::values::some_text;
use clap::{Args, Subcommand, ValueHint};
use clap_complete::Shell;
use leasehold_console::duration;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Run(RunArgs),
    Hold(HoldArgs),
    Try(TryArgs),
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

/// Hold a lock, without a command.
///
/// Prints one line of JSON when the lock is held, and holds it until standard input ends, if that is a pipe, or until a
/// signal: HUP, INT, QUIT, TERM, USR1 or USR2. Exits with 80 if the lock is lost.
#[derive(Clone, Debug, Args)]
pub(crate) struct HoldArgs {
    /// The lock
    pub(crate) name: OsString,
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
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// List the locks that are held.
///
/// On Redis, only those that were taken with Leasehold. One that another program has set under the same key is not in the
/// list; try and inspect show it.
#[derive(Clone, Debug, Args)]
pub(crate) struct LsArgs {
    /// Only those whose names begin with this
    #[arg(default_value = "")]
    pub(crate) prefix: String,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
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
