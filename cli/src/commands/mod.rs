//! One file per verb. `run` has a [folder of its own](crate::run).

mod completions;
mod config;
mod hold;
mod init;
mod inspect;
mod ls;
mod man;
mod purge;
mod release;
mod try_lock;

use crate::args::{Cli, Verb};
use crate::exit::Code;
use crate::report::{Console, Failure};
use crate::run;
use std::io;

/// Does what the command line says.
pub(crate) async fn execute(cli: Cli, console: Console) -> Result<Code, Failure> {
    let common = &cli.common;
    match cli.verb {
        Verb::Run(args) => run::run(&args, common, console).await,
        Verb::Hold(args) => hold::hold(&args, common, console).await,
        Verb::Try(args) => try_lock::try_lock(&args, common, console).await,
        Verb::Ls(args) => ls::ls(&args, common, console).await,
        Verb::Inspect(args) => inspect::inspect(&args, common, console).await,
        Verb::Release(args) => release::release(&args, common, console).await,
        Verb::Purge(args) => purge::purge(&args, common, console).await,
        Verb::Init(args) => init::init(&args, common, console).await,
        Verb::Config(args) => config::config(&args.verb, common, console).await,
        #[cfg(feature = "lab")]
        Verb::Lab(verb) => crate::lab::execute(verb, common, console).await,
        Verb::Completions(args) => completions::completions(&args),
        Verb::Man(args) => man::man(&args),
    }
}

/// What was to be printed could not be.
pub(crate) fn unprinted(error: io::Error) -> Failure {
    if error.kind() == io::ErrorKind::BrokenPipe {
        // The reader has closed the pipe: exit as after a SIGPIPE, like other tools, and without a message.
        return Failure::silent(Code::of_signal(signal_hook::consts::SIGPIPE));
    }
    Failure::internal("cannot write to standard output", error)
}
