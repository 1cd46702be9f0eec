//! The command line.

#![allow(
    clippy::doc_markdown,
    reason = "the comments of options are what people read in a terminal, where a backtick is a backtick"
)]

mod left_out;
mod run;
mod usage_error;
mod values;
mod verbs;

pub(crate) use run::{AcquireArgs, CommandArgs, KindArgs, RunArgs};
pub(crate) use values::{lock_name, stored_name};
pub(crate) use verbs::{
    CompletionsArgs, ConfigVerb, ElectArgs, HoldArgs, InitArgs, InspectArgs, LsArgs, ManArgs, PurgeArgs,
    ReleaseArgs, TryArgs, Verb, WaitArgs,
};

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use leasehold_console::exit::Code;
use leasehold_console::{Console, Failure, OutputOptions, StoreOptions};
use std::ffi::OsString;

/// Distributed locks for any program: run a command while a lock is held, and stop it when the lock is lost.
///
/// Without any configuration the locks are in a SQLite file of this user, and exclude processes of this user on this host.
/// Set LEASEHOLD_URL, or write a leasehold.toml, to share them between users and hosts.
#[derive(Debug, Parser)]
#[command(name = "leasehold", version, after_help = AFTER_HELP)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) store: StoreOptions,
    #[command(flatten)]
    pub(crate) output: OutputOptions,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

const AFTER_HELP: &str = "\
Stores: redis:// rediss:// redis+sentinel:// redis+cluster:// redlock:// zk://
  postgres:// mysql:// mariadb:// sqlite:FILE

Exit codes: the command's own, or
  75 not acquired, 80 lost, 64 usage, 69 store unavailable, 70 internal,
  77 denied, 78 configuration, 81 not released (--strict-release),
  126 and 127 the command cannot be executed or found, 128+n ended by
  signal n.

Examples:
  leasehold run nightly -- ./report.sh          wait for the lock, then run
  leasehold run -n -E 0 --hold-at-least 1m nightly -- ./report.sh
                                                in a crontab on several hosts: one of them runs it
  leasehold ls                                  who holds what";

impl Cli {
    /// The definition, for the manual.
    pub(crate) fn definition() -> clap::Command {
        Self::command()
    }

    /// The same for completions, which would offer hidden verbs too.
    pub(crate) fn without_hidden_verbs() -> clap::Command {
        let all = Self::command();
        let verbs = all.get_subcommands().filter(|verb| !verb.is_hide_set());
        clap::Command::new("leasehold")
            .version(env!("CARGO_PKG_VERSION"))
            .args(all.get_arguments())
            .subcommands(verbs)
    }

    /// Reads a command line. Otherwise the code to exit with: help is printed, and what is wrong is said.
    pub(crate) fn read(words: &[OsString]) -> Result<Self, Code> {
        Self::try_parse_from(words).map_err(|error| {
            if let Some(error) = left_out::left_out(&error) {
                let failure = Failure::new(error).exiting_with(Code::USAGE);
                Console::before_options().fail(&failure);
                return failure.code();
            }
            let code = match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Code::SUCCESS,
                ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => Code::USAGE,
                _ => {
                    let failure = usage_error::usage_error(&error);
                    Console::before_options().fail(&failure);
                    return failure.code();
                }
            };
            // A closed output makes this fail: its reader is gone, so there is nothing to report.
            let _ = error.print();
            code
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definition_of_the_command_line_is_sound() {
        Cli::definition().debug_assert();
    }
}
