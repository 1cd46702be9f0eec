//! The command `leasehold`: distributed locks for any program.
//!
//! | looking for | it is in |
//! |---|---|
//! | how a command is stopped when its lock is lost | `watchdog/` |
//! | acquire, start, watch, release | `run/` |
//! | the other verbs | `commands/` |
//! | stores measured, compared and put to the test | `lab/`, if it is compiled in |
//! | options and their values | `args/` |
//! | what people read | `report/` |
//! | exit codes | `exit.rs` |

#[cfg(not(unix))]
compile_error!("leasehold stops commands by process groups and signals, which only Unix has");

mod acquire;
mod args;
mod commands;
mod exit;
mod give_back;
mod inherited;
#[cfg(feature = "lab")]
mod lab;
mod report;
mod run;
mod store;
mod terminal;
mod watchdog;

use exit::Code;
use report::{Console, Failure};
use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut words = std::env::args_os();
    let name = words.next();
    if watchdog::is_meant(name.as_deref()) {
        return watchdog::main(words);
    }
    #[cfg(feature = "lab")]
    if let Some(done) = lab::work() {
        return done;
    }
    let words: Vec<OsString> = name.into_iter().chain(words).collect();
    leasehold(&words).into()
}

fn leasehold(words: &[OsString]) -> Code {
    let cli = match args::Cli::read(words) {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    run::signals::survive_the_limit_of_file_sizes();
    let console = Console::new(&cli.common);
    let outcome = report::log_as_asked().and_then(|()| {
        // One thread: nothing here waits for a processor, and the watchdog is started by a process with nobody else in it.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::internal("cannot start the runtime", error))?;
        let outcome = runtime.block_on(commands::execute(cli, console));
        // What still runs, such as a look-up of a host name that nobody answers, is not waited for.
        runtime.shutdown_background();
        outcome
    });
    outcome.unwrap_or_else(|failure| {
        console.fail(&failure);
        failure.code()
    })
}
