//! `leasehold compare`: which store to choose, by measurement.
//!
//! | looking for | it is in |
//! |---|---|
//! | what is tried, in which order | `gather/` |
//! | the form of `report.json` | `model/` |
//! | from figures to sentences: who is recommended for what | `rules/` |
//! | tables and charts, before it is known for what | `view/` |
//! | terminal, Markdown, HTML | `render/` |
//!
//! The way is one: gather, model, rules and view, render. What is rendered is made from the model alone, so that
//! `leasehold report` shows the same again.

mod gather;
mod model;
mod publish;
mod render;
mod rules;
mod view;

use crate::args::{CompareArgs, ReportArgs};
use leasehold::{Error, ErrorKind};
use leasehold_console::exit::{self, Code};
use leasehold_console::signals::Signals;
use leasehold_console::{Failure, Invocation};
use model::Report;

/// Gathers, publishes, and says by its code whether all is as declared.
pub(crate) async fn compare(args: &CompareArgs, invocation: &Invocation) -> Result<Code, Failure> {
    let baseline = args.baseline.as_deref().map(publish::read).transpose()?;
    publish::make_room(args.out.as_deref())?;
    let mut signals =
        Signals::listen().map_err(|error| Failure::internal("cannot listen to signals", error))?;
    let (mut report, ended) = gather::gather(args, invocation, &mut signals).await?;
    report.changes = baseline.map(|baseline| report.changes_since(&baseline));
    publish::publish(&report, args.out.as_deref(), args.format)?;
    match ended {
        Some(signal) => Ok(exit::ended_by(signal)),
        None => conclude(&report),
    }
}

/// Renders a report again.
pub(crate) fn report(args: &ReportArgs) -> Result<Code, Failure> {
    let mut report = publish::read(&args.file)?;
    let baseline = args.baseline.as_deref().map(publish::read).transpose()?;
    if let Some(baseline) = baseline {
        report.changes = Some(report.changes_since(&baseline));
    }
    publish::make_room(args.out.as_deref())?;
    publish::publish(&report, args.out.as_deref(), args.format)?;
    Ok(Code::SUCCESS)
}

fn conclude(report: &Report) -> Result<Code, Failure> {
    if !report.stores.iter().any(model::StoreReport::has_figures) {
        let reasons = report.stores.iter().filter_map(|store| Some((store, store.not_run.as_ref()?)));
        let reasons = reasons.map(|(store, why)| ("cause", format!("{}: {why}", store.name)));
        let error = Error::new(ErrorKind::Unavailable, "nothing was measured");
        return Err(Failure::new(error).exiting_with(Code::FAILED).with_lines(reasons));
    }
    if report.stores.iter().any(model::StoreReport::is_broken) {
        let message = "a store is not what it declares, or a fault that was to be shown touched nothing";
        let help = "see the failed cases, and the broken and void fields, in the report";
        let error = Error::new(ErrorKind::Lost, message).with_help(help);
        return Err(Failure::new(error).with_code("E_FAILED", Code::FAILED));
    }
    if report.stores.iter().any(|store| store.counts().late > 0) {
        return Ok(Code::LATE);
    }
    let not_judged = report.stores.iter().any(|store| store.not_judged() > 0);
    Ok(if not_judged { Code::NOT_JUDGED } else { Code::SUCCESS })
}
