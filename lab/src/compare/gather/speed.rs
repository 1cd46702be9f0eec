//! Latency, hand-over, throughput and costs: the bench, one store after the other.

use super::candidate::Candidate;
use crate::args::CompareArgs;
use crate::bench::{LeftOut, Plan, measure as bench};
use crate::compare::model::{NotRun, Speed};
use crate::early_end::EarlyEnd;
use leasehold::backend::OwnerId;
use leasehold::semantics::Reach;
use leasehold_console::Invocation;
use leasehold_console::signals::Signals;

/// Measures a store that is there. If the store fails meanwhile, its report has the reason and no figures.
pub(super) async fn measure(
    candidate: &mut Candidate,
    args: &CompareArgs,
    invocation: &Invocation,
    signals: &mut Signals,
) -> Result<(), EarlyEnd> {
    let Some(declared) = candidate.report.declared.as_ref().filter(|_| candidate.is_there()) else {
        return Ok(());
    };
    let plan = Plan::comparing(args.quick, args.bench_time, declared.reach != Reach::Process);
    invocation.console.note(format_args!("measuring {}", candidate.report.name));
    let store = match candidate.start().await {
        Ok(store) => store,
        Err(NotRun { why, .. }) => {
            candidate.report.speed = not_measured(&plan, &why);
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
    let seed = format!("leasehold-bench-{}", &OwnerId::random()?.to_hex()[..12]);
    match bench(&plan, &target, &seed, signals, invocation.console).await {
        Ok(measured) => {
            candidate.report.server = measured.server;
            candidate.report.speed = Speed::of(&measured.tallies, measured.left_out);
        }
        Err(interrupted @ EarlyEnd::Interrupted(_)) => return Err(interrupted),
        Err(EarlyEnd::Failed(failure)) => candidate.report.speed = not_measured(&plan, &failure.message()),
    }
    if candidate.user_store.is_some() {
        candidate.report.url = Some(target.store.config.url().to_string());
    }
    Ok(())
}

fn not_measured(plan: &Plan, why: &str) -> Speed {
    let left_out = plan.rows.iter().map(|row| LeftOut::new(row, why)).collect();
    Speed { left_out, ..Speed::default() }
}
