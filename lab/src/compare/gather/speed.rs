//! Latency, hand-over, throughput and costs: the bench, one store after the other.

use super::GatherError;
use super::candidate::Candidate;
use crate::args::CompareArgs;
use crate::bench::{Outcome, Plan, measure as bench};
use crate::compare::model::{Declared, Speed};
use leasehold::backend::OwnerId;
use leasehold::semantics::Reach;
use leasehold_console::signals::Signals;
use leasehold_console::{Failure, Invocation};

/// Measures a store that is there. If the store fails meanwhile, its report has the reason and no figures.
pub(super) async fn measure(
    candidate: &mut Candidate,
    args: &CompareArgs,
    invocation: &Invocation,
    signals: &mut Signals,
) -> Result<(), GatherError> {
    let Some(declared) = candidate.report.declared.as_ref().filter(|_| candidate.is_there()) else {
        return Ok(());
    };
    let plan = plan(args, declared);
    invocation.console.note(format_args!("measuring {}", candidate.report.name));
    let store = match candidate.start().await {
        Ok(store) => store,
        Err(why) => {
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
    let seed = format!("leasehold-bench-{}", &OwnerId::random().map_err(Failure::from)?.to_hex()[..12]);
    match bench(&plan, &target, &seed, signals, invocation.console).await {
        Ok(Outcome::Measured(measured)) => {
            candidate.report.server = measured.server;
            candidate.report.speed = Speed::of(&measured.tallies, measured.left_out);
        }
        Ok(Outcome::Interrupted(signal)) => return Err(GatherError::Interrupted(signal)),
        Err(failure) => candidate.report.speed = not_measured(&plan, &failure.message()),
    }
    if candidate.user_store.is_some() {
        candidate.report.url = Some(target.store.config.url().to_string());
    }
    Ok(())
}

fn plan(args: &CompareArgs, declared: &Declared) -> Plan {
    Plan::comparing(args.quick, args.bench_time, declared.reach != Reach::Process)
}

fn not_measured(plan: &Plan, why: &str) -> Speed {
    let left_out =
        plan.rows.iter().map(|row| crate::bench::LeftOut { row: row.to_string(), why: why.to_owned() });
    Speed { left_out: left_out.collect(), ..Speed::default() }
}
