//! `leasehold conformance`: the suite of `leasehold-conformance`, over a store of the user's or over private servers.
//!
//! | looking for | it is in |
//! |---|---|
//! | a run on threads of its own | `run_suite.rs` |
//! | the signals that end it, and the second one | `interrupt.rs` |
//! | a store of the user's as a subject of the suite | `user_store.rs` |
//! | what the cases have left, and its end | `cleanup.rs` |
//! | lines, bars, JSON | `reporter/` |
//! | the file for a CI server | `junit.rs` |
//! | every fault under every store | `faults.rs` |
//! | random faults, for as long as told | `soak.rs` |

mod cleanup;
mod faults;
mod heartbeat;
mod interrupt;
mod junit;
mod reporter;
mod run_suite;
mod soak;
mod suite_result;
mod user_store;

pub(crate) use cleanup::clean_up;
pub(crate) use user_store::{UserStore, root};

use crate::args::ConformanceArgs;
use crate::cells::Pair;
use crate::private_stores;
use crate::result_file::can_be_written;
use crate::store_arguments::check_unnamed;
use interrupt::Interrupts;
use leasehold::{Error, ErrorKind, Registry};
use leasehold_conformance::{Run, Subject, serve_as_worker, worker_order};
use leasehold_console::exit::{self, Code};
use leasehold_console::signals::Signals;
use leasehold_console::{Console, Failure, Invocation, unprinted};
use run_suite::run_suite;
use rustix::process::Signal;
use std::sync::Arc;
use suite_result::SuiteResult;

/// How many cases run at once in one store: they measure times, and must not be in each other's way.
const IN_A_STORE_OF_THE_USERS: usize = 4;

/// Serves as a process of the suite, if this is one; `None` if it is not. To be called before a runtime or a thread is started.
pub fn serve_suite(registry: &Registry) -> Option<std::process::ExitCode> {
    let (name, address) = worker_order()?;
    let subjects = match UserStore::of_worker(&name, &address, registry) {
        Some(user_store) => vec![Arc::new(user_store) as Arc<dyn Subject>],
        None => private_stores::all(),
    };
    serve_as_worker(&subjects)
}

/// Puts stores to the test.
pub(crate) async fn conformance(args: &ConformanceArgs, invocation: &Invocation) -> Result<Code, Failure> {
    can_be_written("junit", args.junit.as_deref())?;
    leasehold_conformance::said_time_scale().map_err(|said| {
        Error::new(ErrorKind::Misconfigured, format!("LEASEHOLD_TIME_SCALE is {said:?}, from 0.1 to 10"))
            .with_help("write a number such as 2, or unset it")
    })?;
    if args.faults {
        check_unnamed(&invocation.store, "private servers")?;
    }
    if let Some(time) = args.soak {
        return soak::soak(args, time).await;
    }
    // Before the first lock: what is interrupted is tidied up.
    let mut signals =
        Signals::listen().map_err(|error| Failure::internal("cannot listen to signals", error))?;
    if args.faults {
        return run_faults(args, &mut signals, invocation.console).await;
    }
    run_user_stores(args, invocation, &mut signals).await
}

/// Every case and every fault on private servers.
async fn run_faults(
    args: &ConformanceArgs,
    signals: &mut Signals,
    console: Console,
) -> Result<Code, Failure> {
    let subjects = private_stores::named(&args.stores)?;
    let cells = faults::wanted(args, &subjects);
    let run = Arc::new(build_run(args, subjects, &cells)?);
    if args.list {
        return list(&run, &cells, args);
    }
    let ended = run_suite(&run, &cells, args, signals, &mut Interrupts::default(), console).await;
    // Servers that wait for their next case end with them; and what a signal has ended may end by that signal.
    drop((run, cells));
    Ok(conclude(&ended?))
}

/// The cases that do no harm, in stores of the user's.
async fn run_user_stores(
    args: &ConformanceArgs,
    invocation: &Invocation,
    signals: &mut Signals,
) -> Result<Code, Failure> {
    let console = invocation.console;
    let stores = UserStore::each(&args.stores, invocation)?;
    let subjects = stores.iter().map(UserStore::subject).collect();
    let root = root();
    let run = build_run(args, subjects, &[])?.harmless_below(&root);
    if args.list {
        return list(&run, &[], args);
    }
    let mut threads = IN_A_STORE_OF_THE_USERS;
    for store in &stores {
        threads = threads.min(store.probe(&root).await?);
    }
    let run = Arc::new(run.with_threads(args.threads.map_or(threads, usize::from)));
    let mut interrupts = Interrupts::default();
    let attended = run_suite(&run, &[], args, signals, &mut interrupts, console).await;
    let cleaned = interrupts.unless_aborted(signals, clean_up_all(&stores, &root, &run)).await;
    let ended = attended?;
    match cleaned {
        None => {
            let ls = stores
                .iter()
                .map(|store| format!("leasehold ls{} {root}", store.invocation.store.shell_words()));
            let ls = ls.collect::<Vec<_>>().join("; ");
            console.note(format_args!("nobody has looked what the cases left: {ls}"));
            Ok(exit::ended_by(interrupts.signal().unwrap_or(Signal::INT)))
        }
        Some(Err(failure)) if ended.signal.is_none() && ended.code() == Code::SUCCESS => Err(failure),
        Some(cleaned) => {
            // What was found says more than what was left.
            if let Err(failure) = cleaned {
                console.fail(&failure);
            }
            Ok(conclude(&ended))
        }
    }
}

async fn clean_up_all(stores: &[UserStore], root: &str, run: &Run) -> Result<(), Failure> {
    let mut cleaned = Ok(());
    for store in stores {
        cleaned = cleaned.and(clean_up(store, root, &run.names()).await);
    }
    cleaned
}

fn build_run(
    args: &ConformanceArgs,
    subjects: Vec<Arc<dyn Subject>>,
    cells: &[Pair],
) -> Result<Run, Failure> {
    let mut run = Run::new(subjects).with_threads(args.threads.map_or(Run::THREADS, usize::from));
    run = args.filter.iter().fold(run, Run::with_filter);
    if let Some(seed) = args.seed {
        run = run.with_seed(seed);
    }
    if run.plan().is_empty() && cells.is_empty() {
        let problem = format_args!("{:?} is in the line of no case", args.filter);
        return Err(Error::invalid("filter", problem, "look for one in what --list says").into());
    }
    Ok(run)
}

fn list(run: &Run, cells: &[Pair], args: &ConformanceArgs) -> Result<Code, Failure> {
    reporter::list(run, cells, args.format).map_err(unprinted)?;
    Ok(Code::SUCCESS)
}

/// What a run means.
fn conclude(ended: &SuiteResult) -> Code {
    match ended.signal {
        Some(signal) => exit::ended_by(signal),
        None => ended.code(),
    }
}
