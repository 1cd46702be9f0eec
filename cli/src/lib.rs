//! The command `leasehold`: distributed locks for any program.
//!
//! [`main`] is all of it. A program of yours that calls it with a [`Registry`] of its own is the same command, for your
//! backend too.
//!
//! | looking for | it is in |
//! |---|---|
//! | how a command is stopped when its lock is lost | `watchdog/` |
//! | acquire, start, watch, release | `run/` |
//! | the other verbs | `commands/` |
//! | what `run`, `elect` and `hold` share | `lock_request.rs`, `acquire.rs`, `give_back.rs`, `nesting.rs` |
//! | options and their values | `args/` |
//! | messages, exit codes, signals, the store of a call | the crate `leasehold-console` |
//! | stores measured, compared and put to the test | the crate `leasehold-lab`, if it is compiled in |

mod acquire;
mod args;
mod commands;
mod give_back;
mod inherited;
mod lock_request;
mod log;
mod nesting;
mod reentry;
mod run;
mod terminal;
mod watchdog;

use leasehold::Registry;
use leasehold_console::exit::Code;
use leasehold_console::{Console, Failure, Invocation, signals};
use std::ffi::OsString;
use std::process::ExitCode;

/// The command `leasehold`, for the stores of this registry.
///
/// It reads the command line, the environment (`LEASEHOLD_URL` and the other `LEASEHOLD_…` variables), the configuration file,
/// and standard input where a verb says so. Call it first in `main`, before a runtime or a thread is started, and return its
/// result: it starts its own runtime, listens to signals, and forks. The program executes itself again for the watchdog of a
/// command and for the processes of a bench and of the suite, and knows these calls by its arguments and its environment: so each of them must
/// come here with the same registry.
///
/// ```no_run
/// use leasehold::Registry;
/// # use leasehold::backend::{LockBackend, MemoryBackend};
/// # use std::process::ExitCode;
/// # use std::sync::Arc;
///
/// fn main() -> ExitCode {
///     let mut registry = Registry::default();
///     let registered = registry.register("mine", |url, namespace| async move {
///         let backend = MemoryBackend::new(); // MyBackend::new(url.authority()?, namespace)
///         Ok(Arc::new(backend) as Arc<dyn LockBackend>)
///     });
///     registered.expect("the scheme is well formed");
///     leasehold_cli::main(registry)
/// }
/// ```
///
/// # Exit codes
///
/// Of `run`, the code of the command that was run. Otherwise 0; 1 if `release` was declined, or `conformance` or `compare` found a failure; 64 for a wrong command line, 69 if the store is unavailable, 70
/// for an internal failure, 75 if the lock is held by another client, 77 if the store refuses, 78 for a wrong configuration, 80
/// if the lock was lost, 81 for a release that was not confirmed under `--strict-release`; 126 and 127 if the command cannot
/// be executed or found, and 128 + n after signal n.
pub fn main(registry: Registry) -> ExitCode {
    let mut words = std::env::args_os();
    let name = words.next();
    if watchdog::is_meant(name.as_deref()) {
        return watchdog::main(words);
    }
    #[cfg(feature = "lab")]
    if let Some(served) = leasehold_lab::serve_suite(&registry) {
        return served;
    }
    let words: Vec<OsString> = name.into_iter().chain(words).collect();
    leasehold(&words, registry).into()
}

fn leasehold(words: &[OsString], registry: Registry) -> Code {
    let args::Cli { store, output, verb } = match args::Cli::read(words) {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    signals::survive_the_limit_of_file_sizes();
    let console = Console::new(&output, &store);
    let invocation = Invocation::new(store, registry, console);
    let outcome = log::log_as_asked().and_then(|()| {
        // One thread: nothing here waits for a processor, and the watchdog is started by a process with nobody else in it.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::internal("cannot start the runtime", error))?;
        let outcome = runtime.block_on(commands::execute(verb, &invocation));
        // What still runs, such as a look-up of a host name that nobody answers, is not waited for.
        runtime.shutdown_background();
        outcome
    });
    outcome.unwrap_or_else(|failure| {
        console.fail(&failure);
        failure.code()
    })
}
