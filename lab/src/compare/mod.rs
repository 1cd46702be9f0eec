//! `leasehold compare`: which store to choose, by measurement.
//!
//! | looking for | it is in |
//! |---|---|
//! | what is tried, in which order | `gather/` |
//! | the form of `report.json` | `report.rs`; what is different from an earlier one: `changes.rs` |
//! | from figures to sentences and tables: which store answers which question, the verdicts | `findings/` |
//! | terminal, Markdown, HTML | `render/` |
//!
//! The way is one: gather, report, findings, render. What is rendered is made from the report alone, so that `leasehold report` shows
//! the same again.

mod changes;
mod findings;
mod gather;
mod publish;
mod render;
mod report;

use crate::args::{CompareArgs, ReportArgs};
use crate::interrupt::Interrupts;
use changes::Changes;
use leasehold::{Error, ErrorKind};
use leasehold_console::exit::{self, Code};
use leasehold_console::{Failure, Invocation};
use report::{Report, StoreReport, Verdict};

/// Gathers, publishes, and says by its code whether all is as declared.
pub(crate) async fn compare(args: &CompareArgs, invocation: &Invocation) -> Result<Code, Failure> {
    let baseline = args.baseline.as_deref().map(publish::read).transpose()?;
    publish::make_room(args.out.as_deref(), None)?;
    let mut interrupts = Interrupts::listen()?;
    let (mut report, ended) = gather::gather(args, invocation, &mut interrupts).await?;
    report.changes = baseline.map(|baseline| Changes::between(&baseline, &report));
    publish::publish(&report, args.out.as_deref(), args.format)?;
    match ended {
        Some(signal) => Ok(exit::ended_by(signal)),
        None => conclude(&report),
    }
}

/// Renders a report again.
pub(crate) fn render_again(args: &ReportArgs) -> Result<Code, Failure> {
    let mut report = publish::read(&args.file)?;
    if let Some(baseline) = &args.baseline {
        report.changes = Some(Changes::between(&publish::read(baseline)?, &report));
    }
    publish::make_room(args.out.as_deref(), Some(&args.file))?;
    publish::publish(&report, args.out.as_deref(), args.format)?;
    Ok(Code::SUCCESS)
}

fn conclude(report: &Report) -> Result<Code, Failure> {
    if !report.stores.iter().any(StoreReport::has_figures) {
        let reasons = report.stores.iter().filter_map(|store| Some((store, store.not_run.as_ref()?)));
        let reasons = reasons.map(|(store, not_run)| ("cause", format!("{}: {}", store.name, not_run.why)));
        let error = Error::new(ErrorKind::Unavailable, "nothing was measured");
        return Err(Failure::new(error).exiting_with(Code::FAILED).with_lines(reasons));
    }
    let any = |verdict| report.stores.iter().any(|store| store.verdict() == verdict);
    if any(Verdict::Broken) {
        let error = Error::new(ErrorKind::Lost, "a store is not what it declares").with_help(
            "see its card in the report: each case that failed, and the command that shows it again",
        );
        return Err(Failure::new(error).with_code("E_FAILED", Code::FAILED));
    }
    if any(Verdict::Late) {
        return Ok(Code::LATE);
    }
    Ok(if any(Verdict::NotJudged) { Code::NOT_JUDGED } else { Code::SUCCESS })
}
