//! Latency, hand-over, throughput and costs: the bench, one store after the other.

use super::candidate::Candidate;
use crate::args::CompareArgs;
use crate::bench::{LeftOut, Plan, StoreFigures, measure as bench, seed};
use crate::interrupt::{EarlyEnd, Interrupts};
use leasehold::semantics::Reach;
use leasehold_console::Invocation;

/// Measures a store that is there. If the store fails meanwhile, its report has the reason; what was measured before an early end is
/// kept.
pub(super) async fn measure(
    candidate: &mut Candidate,
    args: &CompareArgs,
    invocation: &Invocation,
    interrupts: &mut Interrupts,
) -> Result<(), EarlyEnd> {
    let Some(declared) = candidate.report.declared.as_ref().filter(|_| candidate.is_there()) else {
        return Ok(());
    };
    let plan = Plan::comparing(args.quick, args.bench_time, declared.reach != Reach::Process);
    let console = invocation.console;
    console.note(format_args!("measuring {}", candidate.report.name));
    let store = match candidate.start().await {
        Ok(store) => store,
        Err(not_run) => {
            candidate.report.speed = not_measured(&plan, &not_run.why);
            return Ok(());
        }
    };
    let target = match candidate.target(&*store, invocation).await {
        Ok(target) => target,
        Err(failure) => {
            candidate.report.speed = not_measured(&plan, &failure.message());
            return Ok(());
        }
    };
    let (figures, outcome) = bench(&plan, &target, &seed()?, interrupts, console).await;
    candidate.report.speed = figures;
    match outcome {
        Err(EarlyEnd::Failed(failure)) => {
            let why = failure.message();
            console.warn(format_args!("{}: {why}", candidate.report.name), None);
            candidate.report.speed.left_out.push(LeftOut::new("the rest", &why));
            Ok(())
        }
        outcome => outcome,
    }
}

fn not_measured(plan: &Plan, why: &str) -> StoreFigures {
    let left_out = plan.rows.iter().map(|row| LeftOut::new(row, why)).collect();
    StoreFigures { left_out, ..StoreFigures::default() }
}
