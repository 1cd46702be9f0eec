//! Tries everything, in an order that spoils nothing: first the suite and the faults, which mostly wait, many at once; then
//! the measurements of speed, one store after the other, on a machine that does nothing else.

mod candidate;
mod estimate;
mod speed;
mod suite;

use super::report::{Report, SCHEMA, Setup};
use crate::args::{CompareArgs, ComparePart, Preset};
use crate::bench::Plan;
use crate::interrupt::{EarlyEnd, Interrupts};
use crate::load::usage::load_average;
use candidate::Candidate;
use leasehold::Error;
use leasehold::backend::OwnerId;
use leasehold_console::{Failure, Invocation, timestamp};
use rustix::process::Signal;
use std::time::{Instant, SystemTime};

/// What was seen, and the signal that ended it early, if one did. All servers that were started have ended.
pub(super) async fn gather(
    args: &CompareArgs,
    invocation: &Invocation,
    interrupts: &mut Interrupts,
) -> Result<(Report, Option<Signal>), Failure> {
    if args.only.contains(&ComparePart::Faults) && args.preset.is_none() {
        let problem = "no fault is made in a store that somebody may be using";
        let help = "use --preset local, which starts stores of its own";
        return Err(Error::invalid("only", problem, help).into());
    }
    let began = Instant::now();
    let mut report = begin(args)?;
    let mut candidates = candidate::all(args, invocation).await?;
    let outcome = try_all(args, report.seed, &mut candidates, invocation, interrupts).await;
    report.stores = candidates.into_iter().map(|candidate| candidate.report).collect();
    report.took_s = began.elapsed().as_secs_f64();
    report.setup.load_after = load_average();
    match outcome {
        Ok(()) => Ok((report, None)),
        Err(EarlyEnd::Failed(failure)) => Err(failure),
        Err(EarlyEnd::Interrupted(signal)) => {
            report.interrupted = true;
            Ok((report, Some(signal)))
        }
    }
}

async fn try_all(
    args: &CompareArgs,
    seed: u64,
    candidates: &mut [Candidate],
    invocation: &Invocation,
    interrupts: &mut Interrupts,
) -> Result<(), EarlyEnd> {
    let console = invocation.console;
    let wants = |part| args.only.is_empty() || args.only.contains(&part);
    for candidate in candidates.iter_mut() {
        candidate.meet(interrupts, console).await?;
    }
    console.note(estimate::estimate(args, candidates));
    if wants(ComparePart::Suite) {
        suite::run_cases(candidates, seed, args.quick, interrupts, console).await?;
    } else {
        for candidate in candidates.iter() {
            candidate.clean_up(&[], console).await;
        }
    }
    if wants(ComparePart::Faults) && args.preset.is_some() {
        suite::play_faults(candidates, seed, interrupts, console).await?;
    }
    if wants(ComparePart::Bench) {
        for candidate in candidates.iter_mut() {
            speed::measure(candidate, args, invocation, interrupts).await?;
        }
    }
    Ok(())
}

fn begin(args: &CompareArgs) -> Result<Report, Failure> {
    let plan = Plan::comparing(args.quick, args.bench_time, true);
    let private = args.preset == Some(Preset::Local);
    let window_ms = u64::try_from(plan.window.as_millis()).unwrap_or(u64::MAX);
    let setup = Setup::here(window_ms, plan.passes, private, caveats(private, args.quick));
    Ok(Report {
        schema: SCHEMA,
        leasehold: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: timestamp(SystemTime::now()),
        took_s: 0.0,
        interrupted: false,
        seed: match args.seed {
            Some(seed) => seed,
            None => random()?,
        },
        setup,
        stores: Vec::new(),
        changes: None,
    })
}

fn random() -> Result<u64, Failure> {
    let id = OwnerId::random()?.to_hex();
    // Short enough to be typed again.
    Ok(id.get(..8).and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or_default())
}

fn caveats(private: bool, quick: bool) -> Vec<String> {
    let mut caveats = vec![
        "Speed is that of one host in one hour: compare ratios within one report, and reports of one machine.",
        "Full speed is a closed loop: nobody asks while a store stands still.",
    ];
    if private {
        caveats.insert(
            0,
            "Servers and clients share one host: there is no network between them, and what one of them uses of the \
             processors the other one lacks. Latencies are lower bounds, and rates too.",
        );
        caveats.push("The servers run with the settings of the suite: durable, small, on the host's own disk or in memory.");
    } else {
        caveats.push(
            "No fault was made in these stores; what they do under faults is what their backends promise.",
        );
    }
    if quick {
        caveats.push("Cases that need more than their share of the machine, long windows and large crowds were left out by --quick.");
    }
    caveats.into_iter().map(str::to_owned).collect()
}
