//! `leasehold bench`: what locks cost on a store.
//!
//! | looking for | it is in |
//! |---|---|
//! | what is measured, for how long | `plan.rs` |
//! | the order of the passes, and how each row is measured | `measure.rs` |
//! | what tasks do meanwhile | `load/`, beside this folder; in processes of their own, `worker.rs` |
//! | what is said to a worker, and by it | `protocol.rs` |
//! | holders at once, fairness, passes | `figures.rs`, and `tally.rs` for one row |
//! | the form of the result | `result.rs`, as text `show.rs` |
//!
//! Loads are closed loops: they tell how long a pair takes when the store is as busy as its clients can make it, and how many
//! there are a second.

mod bench_store;
mod figures;
mod measure;
mod plan;
mod protocol;
mod result;
mod show;
mod tally;
mod worker;

pub(crate) use bench_store::BenchStore;
pub(crate) use figures::{Latency, Passes};
pub(crate) use measure::measure;
pub(crate) use plan::{LeftOut, Plan, Row};
pub(crate) use result::{RowResult, StoreFigures};
pub(crate) use worker::work;

use crate::args::{BenchArgs, Format};
use crate::interrupt::{EarlyEnd, Interrupts};
use crate::load::usage::load_average;
use crate::result_file::{can_be_written, write_result};
use crate::stores::each_store;
use leasehold::backend::OwnerId;
use leasehold::{DistributedLock, Error, ErrorKind};
use leasehold_console::exit::{self, Code};
use leasehold_console::{Console, Failure, Invocation, StoreOptions, print_json, unprinted};
use result::{BenchResult, StoreResult};

/// What the names of one run's locks begin with.
pub(crate) fn seed() -> Result<String, Error> {
    Ok(format!("leasehold-bench-{}", &OwnerId::random()?.to_hex()[..12]))
}

/// Measures the stores that the call names, one after the other.
pub(crate) async fn bench(args: &BenchArgs, invocation: &Invocation) -> Result<Code, Failure> {
    let console = invocation.console;
    can_be_written("json", args.json.as_deref())?;
    let stores = each_store(&args.stores, &invocation.store)?;
    let plan = Plan::of(args);
    let mut interrupts = Interrupts::listen()?;
    let millis = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let mut result = BenchResult::begin(seed()?, plan.passes, millis(plan.window), millis(plan.warm_up));
    let measured = measure_all(&plan, stores, &mut result, &mut interrupts, invocation).await;
    result.machine.load_after = load_average();
    result.interrupted = matches!(measured, Err(EarlyEnd::Interrupted(_)));
    // Also if a later store has failed: what was measured took minutes.
    if !matches!(measured, Err(EarlyEnd::Failed(_))) || !result.stores.is_empty() {
        publish(&result, args)?;
    }
    warn_of_noise(&result, console);
    let broken = result.rows().any(|row| row.violations().next().is_some() || row.lost() > 0);
    match measured {
        // A broken lock is the worst result, so it outranks a failure and a signal.
        measured if broken => {
            if let Err(EarlyEnd::Failed(failure)) = measured {
                console.fail(&failure);
            }
            let message = "a lock was held by two at once, or lost, or a token did not grow";
            Err(Failure::new(Error::new(ErrorKind::Lost, message).with_help("see the rows above")))
        }
        Ok(()) => Ok(Code::SUCCESS),
        Err(EarlyEnd::Interrupted(signal)) => Ok(exit::ended_by(signal)),
        Err(EarlyEnd::Failed(failure)) => Err(failure),
    }
}

/// Measures one store after the other, into the result.
async fn measure_all(
    plan: &Plan,
    stores: Vec<StoreOptions>,
    result: &mut BenchResult,
    interrupts: &mut Interrupts,
    invocation: &Invocation,
) -> Result<(), EarlyEnd> {
    for store in stores {
        let target = BenchStore::configured(&invocation.with_store(store)).await?;
        let (figures, outcome) = measure(plan, &target, &result.seed, interrupts, invocation.console).await;
        if !figures.rows.is_empty() {
            let url = target.store.config.url().to_string();
            let backend = target.store.locks.semantics().backend.to_owned();
            result.stores.push(StoreResult { url, backend, figures });
        }
        outcome?;
    }
    Ok(())
}

fn publish(result: &BenchResult, args: &BenchArgs) -> Result<(), Failure> {
    // A run that came to nothing leaves an earlier result where it is.
    if let Some(file) = args.json.as_ref().filter(|_| !result.stores.is_empty()) {
        let text = serde_json::to_vec_pretty(result);
        let text = text.map_err(|error| Failure::internal("cannot write the result", error))?;
        write_result(file, &text)?;
    }
    let shown = match args.format {
        Format::Table => show::show(result),
        Format::Json => print_json(result),
    };
    shown.map_err(unprinted)
}

fn warn_of_noise(result: &BenchResult, console: Console) {
    let noisy = result.rows().filter(|row| row.noisy).count();
    if noisy > 0 {
        let help = "measure on a machine that does nothing else, or with a longer --duration";
        console.warn(format_args!("{noisy} rows are too noisy to tell small differences"), Some(help));
    }
    let (load, cores) = (result.machine.load_before.unwrap_or(0.0), result.machine.cores);
    if load > cores as f64 / 2.0 {
        console.warn(format_args!("the machine was busy before: load {load:.1} on {cores} cores"), None);
    }
}
