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
pub(crate) use figures::Passes;
pub(crate) use measure::StoreFigures;
pub(crate) use plan::{LeftOut, Plan, Row};
pub(crate) use tally::{Costs, HeldFigures, RowTally};
pub(crate) use worker::work;

pub(crate) use crate::load::usage::{cores, load_average, system};

use crate::args::{BenchArgs, Format};
use crate::early_end::EarlyEnd;
use crate::progress::Progress;
use crate::result_file::{can_be_written, write_result};
use crate::store_arguments::each_store;
use crate::yardstick::yardstick;
use leasehold::DistributedLock;
use leasehold::{Error, ErrorKind};
use leasehold_console::exit::{self, Code};
use leasehold_console::signals::Signals;
use leasehold_console::{Console, Failure, Invocation, StoreOptions, print_json, timestamp, unprinted};
use measure::Measurement;
use result::{BenchResult, Machine, RowResult, SCHEMA, StoreResult};
use std::collections::BTreeSet;
use std::time::SystemTime;

/// Measures the stores that the call names, one after the other.
pub(crate) async fn bench(args: &BenchArgs, invocation: &Invocation) -> Result<Code, Failure> {
    let console = invocation.console;
    can_be_written("json", args.json.as_deref())?;
    let stores = each_store(&args.stores, &invocation.store)?;
    let plan = Plan::of(args);
    let mut signals =
        Signals::listen().map_err(|error| Failure::internal("cannot listen to signals", error))?;
    let mut result = begin(&plan)?;
    let measured = measure_all(&plan, stores, &mut result, &mut signals, invocation).await;
    result.machine.load_after = load_average();
    result.interrupted = matches!(measured, Err(EarlyEnd::Interrupted(_)));
    // Also if a later store has failed: what was measured took minutes.
    if !matches!(measured, Err(EarlyEnd::Failed(_))) || !result.stores.is_empty() {
        publish(&result, args)?;
    }
    warn_of_noise(&result, console);
    let broken = result.rows().any(RowResult::is_broken);
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
    signals: &mut Signals,
    invocation: &Invocation,
) -> Result<(), EarlyEnd> {
    for store in stores {
        let target = BenchStore::configured(&invocation.with_store(store)).await?;
        let measured = measure(plan, &target, &result.seed, signals, invocation.console).await?;
        result.stores.push(StoreResult::of(&target.store, &measured));
    }
    Ok(())
}

/// Measures one store, and leaves nothing behind in it, however that ends.
pub(crate) async fn measure(
    plan: &Plan,
    target: &BenchStore,
    seed: &str,
    signals: &mut Signals,
    console: Console,
) -> Result<StoreFigures, EarlyEnd> {
    let progress = Progress::new(console, plan.rows.len() * plan.passes);
    let mut measurement = Measurement {
        plan,
        target,
        yardstick: yardstick(&target.store.config)?,
        seed,
        progress: &progress,
        workers: Vec::new(),
        names: BTreeSet::new(),
    };
    let outcome = match signals.unless_ended(measurement.run()).await {
        Ok(measured) => measured.map_err(EarlyEnd::Failed),
        Err(signal) => Err(EarlyEnd::Interrupted(signal)),
    };
    let Measurement { workers, names, .. } = measurement;
    for worker in workers {
        worker.end().await;
    }
    // Only now: nobody holds any of them any more. One name alone was never acquired: the store could not be reached.
    let admin = target.store.locks.admin().filter(|_| names.len() > 1 && !target.ends_with_us());
    if let Some(admin) = admin
        && let Err(error) = admin.forget(&names.into_iter().collect::<Vec<_>>()).await
    {
        console.warn(format_args!("not deleted: what locks below {seed:?} have left: {error}"), error.help());
    }
    outcome
}

fn begin(plan: &Plan) -> Result<BenchResult, Failure> {
    let seed = leasehold::backend::OwnerId::random()?.to_hex();
    Ok(BenchResult {
        schema: SCHEMA,
        leasehold: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: timestamp(SystemTime::now()),
        machine: Machine { system: system(), cores: cores(), load_before: load_average(), load_after: None },
        seed: format!("leasehold-bench-{}", &seed[..12]),
        passes: plan.passes,
        window_ms: u64::try_from(plan.window.as_millis()).unwrap_or(u64::MAX),
        warm_up_ms: u64::try_from(plan.warm_up.as_millis()).unwrap_or(u64::MAX),
        interrupted: false,
        stores: Vec::new(),
    })
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
