//! One file per verb. `run` and `elect` have a [folder of their own](crate::run).

mod completions;
mod config;
mod hold;
mod init;
mod inspect;
mod lock_state;
mod lock_table;
mod ls;
mod man;
mod purge;
mod release;
mod try_lock;
mod wait;

use crate::args::Verb;
use crate::run;
use leasehold::Error;
use leasehold_console::exit::Code;
use leasehold_console::{Console, Failure, Invocation, in_one_line};

/// Does what the command line says.
pub(crate) async fn execute(verb: Verb, invocation: &Invocation) -> Result<Code, Failure> {
    match verb {
        Verb::Run(args) => run::run(&args, invocation).await,
        Verb::Elect(args) => run::elect::elect(&args, invocation).await,
        Verb::Hold(args) => hold::hold(&args, invocation).await,
        Verb::Try(args) => try_lock::try_lock(&args, invocation).await,
        Verb::Wait(args) => wait::wait(&args, invocation).await,
        Verb::Ls(args) => ls::ls(&args, invocation).await,
        Verb::Inspect(args) => inspect::inspect(&args, invocation).await,
        Verb::Release(args) => release::release(&args, invocation).await,
        Verb::Purge(args) => purge::purge(&args, invocation).await,
        Verb::Init(args) => init::init(&args, invocation).await,
        Verb::Config(args) => config::config(&args.verb, invocation).await,
        #[cfg(feature = "lab")]
        Verb::Lab(verb) => leasehold_lab::execute(verb, invocation).await,
        Verb::Completions(args) => completions::completions(&args),
        Verb::Man(args) => man::man(&args),
    }
}

/// Fails for the servers of a store that did not answer, once it is printed what the others know.
fn unless_unseen(mut unseen: Vec<Error>, console: Console) -> Result<(), Failure> {
    let Some(last) = unseen.pop() else { return Ok(()) };
    unseen.iter().for_each(|why| console.warn(in_one_line(why), why.help()));
    let failure = Failure::new(last);
    let code = failure.code();
    Err(failure.with_code("E_SERVER", code))
}
