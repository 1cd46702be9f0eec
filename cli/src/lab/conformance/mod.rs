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
mod user_store;

pub(crate) use cleanup::clean_up;
pub(crate) use user_store::{UserStore, root};

use crate::args::Common;
use crate::exit::{Code, as_interrupted};
use crate::lab::args::ConformanceArgs;
use crate::lab::cells::Pair;
use crate::lab::result_file::can_be_written;
use crate::lab::store_arguments::{check_rereadable, check_unnamed};
use crate::report::{Console, Failure};
use crate::run::signals::Signals;
use interrupt::Interrupts;
use leasehold::{Error, ErrorKind};
use leasehold_conformance::{Run, Subject, serve_as_worker, worker_order};
use leasehold_test_stores::stores;
use run_suite::{RunOutcome, run_suite};
use rustix::process::Signal;
use std::sync::Arc;

/// How many cases run at once in one store: they measure times, and must not be in each other's way.
const IN_A_STORE_OF_THE_USERS: usize = 4;

/// Serves as a process of the suite, if this is one.
pub(crate) fn work() -> Option<std::process::ExitCode> {
    let (name, address) = worker_order()?;
    let subjects = match UserStore::of_worker(&name, &address) {
        Some(user_store) => vec![Arc::new(user_store) as Arc<dyn Subject>],
        None => stores::all().into_iter().map(Arc::from).collect(),
    };
    serve_as_worker(&subjects)
}

/// Puts stores to the test.
pub(crate) async fn conformance(
    args: &ConformanceArgs,
    common: &Common,
    console: Console,
) -> Result<Code, Failure> {
    can_be_written("junit", args.junit.as_deref())?;
    leasehold_conformance::said_time_scale().map_err(|said| {
        Error::new(ErrorKind::Misconfigured, format!("LEASEHOLD_TIME_SCALE is {said:?}, from 0.1 to 10"))
            .with_help("write a number such as 2, or unset it")
    })?;
    if args.faults {
        check_unnamed(common, "private servers")?;
    } else if !args.stores.is_empty() {
        check_unnamed(common, "other URLs")?;
    }
    if let Some(time) = args.soak {
        return soak::soak(args, time).await;
    }
    // Before the first lock: what is interrupted is tidied up.
    let mut signals =
        Signals::listen().map_err(|error| Failure::internal("cannot listen to signals", error))?;
    if args.faults {
        return run_faults(args, &mut signals, console).await;
    }
    run_user_stores(args, common, &mut signals, console).await
}

/// Every case and every fault on private servers.
async fn run_faults(
    args: &ConformanceArgs,
    signals: &mut Signals,
    console: Console,
) -> Result<Code, Failure> {
    let subjects = private(args)?;
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
    common: &Common,
    signals: &mut Signals,
    console: Console,
) -> Result<Code, Failure> {
    check_rereadable(common)?;
    let stores = UserStore::each(&args.stores, common);
    let subjects = stores.iter().map(UserStore::subject).collect();
    let root = root();
    let run = build_run(args, subjects, &[])?.harmless_below(&root);
    if args.list {
        return list(&run, &[], args);
    }
    let mut threads = IN_A_STORE_OF_THE_USERS;
    for store in &stores {
        threads = threads.min(store.probe(&root, console).await?);
    }
    let run = Arc::new(run.with_threads(args.threads.map_or(threads, usize::from)));
    let mut interrupts = Interrupts::default();
    let attended = run_suite(&run, &[], args, signals, &mut interrupts, console).await;
    let cleaned = interrupts.unless_aborted(signals, clean_up_all(&stores, &root, &run, console)).await;
    let ended = attended?;
    match cleaned {
        None => {
            let ls = stores.iter().map(|store| format!("leasehold ls{} {root}", store.options().of_store()));
            let ls = ls.collect::<Vec<_>>().join("; ");
            console.note(format_args!("nobody has looked what the cases left: {ls}"));
            Ok(ended_by(interrupts.signal().unwrap_or(Signal::INT)))
        }
        Some(Err(failure)) if ended.is_success() => Err(failure),
        Some(cleaned) => {
            // What was found says more than what was left.
            if let Err(failure) = cleaned {
                console.fail(&failure);
            }
            Ok(conclude(&ended))
        }
    }
}

async fn clean_up_all(stores: &[UserStore], root: &str, run: &Run, console: Console) -> Result<(), Failure> {
    let mut cleaned = Ok(());
    for store in stores {
        cleaned = cleaned.and(clean_up(store, root, &run.names(), console).await);
    }
    cleaned
}

/// The subjects with private servers that were asked for.
fn private(args: &ConformanceArgs) -> Result<Vec<Arc<dyn Subject>>, Failure> {
    let named = stores::named(&args.stores).map_err(|cannot| {
        let known: Vec<String> = stores::all().iter().map(|subject| subject.name().to_owned()).collect();
        Error::invalid("URL", cannot, format!("use one of: {}", known.join(", ")))
    })?;
    Ok(named.into_iter().map(Arc::from).collect())
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
    reporter::list(run, cells, args.format).map_err(crate::commands::unprinted)?;
    Ok(Code::SUCCESS)
}

/// What a run means.
fn conclude(ended: &RunOutcome) -> Code {
    match ended.signal {
        Some(signal) => ended_by(signal),
        None if ended.is_success() => Code::SUCCESS,
        None => Code::FAILED,
    }
}

fn ended_by(signal: Signal) -> Code {
    match signal {
        Signal::INT => as_interrupted(),
        signal => Code::of_signal(signal.as_raw()),
    }
}
