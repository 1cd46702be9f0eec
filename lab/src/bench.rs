//! `leasehold bench`: what locks cost on a store. The result is a report of speed alone.

use crate::args::{BenchArgs, Format, ReportFormat};
use crate::conformance::UserStore;
use crate::interrupt::{EarlyEnd, Interrupts};
use crate::measure::{BenchStore, Plan, measure};
use crate::report::{Report, StoreReport, print};
use crate::result_file::{can_be_written, write_result};
use leasehold::{Error, ErrorKind};
use leasehold_console::exit::{self, Code};
use leasehold_console::{Failure, Invocation};
use std::time::Instant;

/// Measures the stores that the call names, one after the other.
pub(crate) async fn bench(args: &BenchArgs, invocation: &Invocation) -> Result<Code, Failure> {
    let console = invocation.console;
    can_be_written("json", args.json.as_deref())?;
    let stores = UserStore::each(&args.stores, invocation)?;
    let (plan, began) = (Plan::of(args), Instant::now());
    let mut interrupts = Interrupts::listen()?;
    let mut report = Report::begin(&plan, None, false, Vec::new());
    let measured = measure_all(&plan, stores, &mut report, &mut interrupts).await;
    report.end(began, matches!(measured, Err(EarlyEnd::Interrupted(_))));
    // Also if a later store has failed: what was measured took minutes.
    if !matches!(measured, Err(EarlyEnd::Failed(_))) || !report.stores.is_empty() {
        publish(&report, args)?;
    }
    let is_broken = |store: &StoreReport| store.lost() > 0 || store.violations().next().is_some();
    match measured {
        // A broken lock is the worst result, so it outranks a failure and a signal.
        measured if report.stores.iter().any(is_broken) => {
            if let Err(EarlyEnd::Failed(failure)) = measured {
                console.fail(&failure);
            }
            let message = "a lock was held by two at once, or lost, or a token did not grow";
            Err(Failure::new(Error::new(ErrorKind::Lost, message).with_help("see the stores above")))
        }
        Ok(()) => Ok(Code::SUCCESS),
        Err(EarlyEnd::Interrupted(signal)) => Ok(exit::ended_by(signal)),
        Err(EarlyEnd::Failed(failure)) => Err(failure),
    }
}

/// Measures one store after the other, into the report.
async fn measure_all(
    plan: &Plan,
    stores: Vec<UserStore>,
    report: &mut Report,
    interrupts: &mut Interrupts,
) -> Result<(), EarlyEnd> {
    for UserStore { name, invocation } in stores {
        let target = BenchStore::configured(&invocation).await?;
        let (figures, outcome) = measure(plan, &target, interrupts, invocation.console).await;
        if !figures.rows.is_empty() {
            let url = Some(target.store.config.url().to_string());
            report.stores.push(StoreReport { url, speed: figures, ..StoreReport::named(&name) });
        }
        outcome?;
    }
    Ok(())
}

fn publish(report: &Report, args: &BenchArgs) -> Result<(), Failure> {
    // A run that came to nothing leaves an earlier result where it is.
    if let Some(file) = args.json.as_ref().filter(|_| !report.stores.is_empty()) {
        write_result(file, report.to_json()?.as_bytes())?;
    }
    let format = match args.format {
        Format::Table => ReportFormat::Terminal,
        Format::Json => ReportFormat::Json,
    };
    print(report, format)
}
