//! `leasehold conformance`: the suite of `leasehold-conformance`, over a store of the user's or over private servers.
//!
//! | looking for | it is in |
//! |---|---|
//! | a store of the user's as a subject of the suite, and what the cases have left in it | `user_store.rs` |
//! | lines, a bar, JSON | `reporter.rs` |
//! | the file for a CI server | `junit.rs` |
//! | random faults, for as long as told | `soak.rs` |

mod junit;
mod reporter;
mod soak;
mod user_store;

pub(crate) use user_store::{UserStore, root};

use crate::args::ConformanceArgs;
use crate::background::{Background, CELLS_AT_ONCE, Pair};
use crate::interrupt::Interrupts;
use crate::result_file::can_be_written;
use crate::stores::{check_unnamed, private_stores, private_stores_named};
use leasehold::semantics::Fault;
use leasehold::{Error, ErrorKind, Registry};
use leasehold_conformance::matrix::{Matrix, cell_name};
use leasehold_conformance::{CaseResult, Run, Subject, Tally, serve_as_worker, worker_order};
use leasehold_console::exit::{self, Code};
use leasehold_console::{Console, Failure, Invocation, unprinted};
use reporter::Reporter;
use rustix::process::Signal;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// How long nothing comes of a run until a line says that it lives.
const HEARTBEAT: Duration = Duration::from_secs(30);

/// Serves as a process of the suite, if this is one; `None` if it is not. To be called before a runtime or a thread is started.
pub fn serve_suite(registry: &Registry) -> Option<std::process::ExitCode> {
    let (name, address) = worker_order()?;
    let subjects = match UserStore::of_worker(&name, &address, registry) {
        Some(user_store) => vec![Arc::new(user_store) as Arc<dyn Subject>],
        None => private_stores(),
    };
    serve_as_worker(&subjects)
}

/// Puts stores to the test.
pub(crate) async fn conformance(args: &ConformanceArgs, invocation: &Invocation) -> Result<Code, Failure> {
    can_be_written("junit", args.junit.as_deref())?;
    check_time_scale()?;
    if args.faults {
        check_unnamed(&invocation.store, "private servers")?;
    }
    let mut interrupts = Interrupts::listen()?;
    match args.soak {
        Some(time) => soak::soak(args, time, &mut interrupts).await,
        None if args.faults => run_faults(args, &mut interrupts, invocation.console).await,
        None => run_user_stores(args, invocation, &mut interrupts).await,
    }
}

/// Refuses a scale of time that would judge the machine, and not the store.
pub(crate) fn check_time_scale() -> Result<(), Error> {
    let refused = |said| {
        Error::new(ErrorKind::Misconfigured, format!("LEASEHOLD_TIME_SCALE is {said:?}, from 0.1 to 10"))
            .with_help("write a number such as 2, or unset it")
    };
    leasehold_conformance::said_time_scale().map(drop).map_err(refused)
}

/// Every case and every fault on private servers.
async fn run_faults(
    args: &ConformanceArgs,
    interrupts: &mut Interrupts,
    console: Console,
) -> Result<Code, Failure> {
    let subjects = private_stores_named(&args.stores)?;
    let cells = wanted_cells(args, &subjects);
    let run = Arc::new(build_run(args, subjects, &cells)?);
    if args.list {
        return list(&run, &cells, args);
    }
    let results = run_suite(&run, &cells, args, interrupts, console).await;
    // Servers that wait for their next case end with them; and what a signal has ended may end by that signal.
    drop((run, cells));
    Ok(conclude(&results?, interrupts))
}

/// The cases that do no harm, in stores of the user's.
async fn run_user_stores(
    args: &ConformanceArgs,
    invocation: &Invocation,
    interrupts: &mut Interrupts,
) -> Result<Code, Failure> {
    let console = invocation.console;
    let stores = UserStore::each(&args.stores, invocation)?;
    let subjects = stores.iter().map(UserStore::subject).collect();
    let root = root()?;
    let run = build_run(args, subjects, &[])?.harmless_below(&root);
    if args.list {
        return list(&run, &[], args);
    }
    for store in &stores {
        store.probe(&root).await?;
    }
    let threads = stores.iter().map(UserStore::cases_at_once).min().unwrap_or(1);
    let run = Arc::new(run.with_threads(args.threads.map_or(threads, usize::from)));
    let results = run_suite(&run, &[], args, interrupts, console).await;
    let cleaned = interrupts.unless_aborted(clean_up_all(&stores, &root, &run)).await;
    let results = results?;
    match cleaned {
        None => {
            let ls = stores
                .iter()
                .map(|store| format!("leasehold ls{} {root}", store.invocation.store.shell_words()));
            let ls = ls.collect::<Vec<_>>().join("; ");
            console.note(format_args!("clean-up was interrupted; to see what the cases left: {ls}"));
            Ok(exit::ended_by(interrupts.signal().unwrap_or(Signal::INT)))
        }
        Some(Err(failure)) if interrupts.signal().is_none() && Tally::count(&results).is_success() => {
            Err(failure)
        }
        Some(cleaned) => {
            // What was found says more than what was left.
            if let Err(failure) = cleaned {
                console.fail(&failure);
            }
            Ok(conclude(&results, interrupts))
        }
    }
}

async fn clean_up_all(stores: &[UserStore], root: &str, run: &Run) -> Result<(), Failure> {
    let mut cleaned = Ok(());
    for store in stores {
        cleaned = cleaned.and(store.clean_up(root, &run.names()).await);
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

/// The cells whose lines match the filters of the call.
fn wanted_cells(args: &ConformanceArgs, subjects: &[Arc<dyn Subject>]) -> Vec<Pair> {
    let all = subjects.iter().flat_map(|subject| Fault::ALL.map(|fault| (Arc::clone(subject), fault)));
    let is_wanted = |(subject, fault): &Pair| {
        let line = cell_name(subject.name(), *fault);
        args.filter.is_empty() || args.filter.iter().any(|filter| line.contains(filter.as_str()))
    };
    all.filter(is_wanted).collect()
}

fn list(run: &Run, cells: &[Pair], args: &ConformanceArgs) -> Result<Code, Failure> {
    reporter::list(run, cells, args.format).map_err(unprinted)?;
    Ok(Code::SUCCESS)
}

/// Runs the cases, then the cells, and publishes what came of them.
async fn run_suite(
    run: &Arc<Run>,
    cells: &[Pair],
    args: &ConformanceArgs,
    interrupts: &mut Interrupts,
    console: Console,
) -> Result<Vec<CaseResult>, Failure> {
    let reporter = Arc::new(Reporter::new(run, cells, args, console));
    let observer = Arc::clone(&reporter);
    let mut cases = Background::cases(run, move |event| observer.observe(event));
    let mut results = Vec::new();
    while let Some(result) = next(&mut cases, &reporter, interrupts).await {
        results.push(result);
    }
    cases.end()?;
    if interrupts.signal().is_none() && !cells.is_empty() {
        let subjects: Vec<Arc<dyn Subject>> = cells.iter().map(|(subject, _)| Arc::clone(subject)).collect();
        let at_once = args.threads.map_or(CELLS_AT_ONCE, usize::from);
        let mut playing = Background::cells(Matrix::new(&subjects, run.seed()), cells.to_vec(), at_once);
        while let Some(cell) = next(&mut playing, &reporter, interrupts).await {
            reporter.cell(&cell);
            results.push(CaseResult::from(&cell));
        }
        playing.end()?;
    }
    let is_interrupted = interrupts.signal().is_some();
    let said = reporter.end(&results, is_interrupted);
    // Also where nobody reads what is said.
    if let Some(file) = &args.junit {
        junit::write(file, &results, is_interrupted)?;
    }
    said.map_err(unprinted)?;
    Ok(results)
}

/// The next result; meanwhile a line now and then.
async fn next<T: Send + 'static>(
    work: &mut Background<T>,
    reporter: &Reporter,
    interrupts: &mut Interrupts,
) -> Option<T> {
    loop {
        match timeout(HEARTBEAT, work.next(interrupts)).await {
            Ok(result) => return result,
            Err(_) => reporter.heartbeat(),
        }
    }
}

/// What a run means.
fn conclude(results: &[CaseResult], interrupts: &Interrupts) -> Code {
    interrupts.signal().map_or_else(|| code_of(Tally::count(results)), exit::ended_by)
}

/// A failure counts for more than a missed bound, and that for more than what was not judged.
fn code_of(tally: Tally) -> Code {
    match tally {
        tally if tally.is_success() => Code::SUCCESS,
        tally if tally.is_not_judged() => Code::NOT_JUDGED,
        Tally { failed: 0, late: 1.., .. } => Code::LATE,
        _ => Code::FAILED,
    }
}
