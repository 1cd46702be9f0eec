//! What a report says, before it is known whether on a terminal, in Markdown or on a page: answers, cards, tables and charts, all made
//! from the [report](super::Report). No store is named here: the data say which one is meant. A figure is formatted here,
//! once; so it is the same in every form.

mod answers;
mod cards;
mod evidence;
mod faults;
mod speed;
mod table;
#[cfg(test)]
mod tests;

pub(super) use answers::Answer;
pub(super) use cards::Card;
pub(super) use table::{Column, Datum, Section, Table, Tone};

use crate::format::list;
use crate::report::{Report, Verdict};
use leasehold_console::brief;
use serde::Serialize;
use std::time::Duration;

/// What the signs behind figures mean.
const LEGEND: &str = "† not seen in this run: promised, and held against the table of faults that comes with Leasehold. \
                      ‡ as the backend declares. Everything else was measured in this run.";

/// All of it, in the order in which it is read.
#[derive(Debug, Serialize)]
pub(super) struct Findings {
    pub(super) title: String,
    /// When, on what, for how long.
    pub(super) facts: Vec<String>,
    /// What must be known before anything else is read.
    pub(super) notices: Vec<String>,
    /// Which store for whom; `None` of a bench, which knows of nothing but speed.
    pub(super) answers: Option<Vec<Answer>>,
    pub(super) legend: &'static str,
    /// One for each store.
    pub(super) cards: Vec<Card>,
    pub(super) sections: Vec<Section>,
    pub(super) caveats: Vec<String>,
}

/// What a figure or a word rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Basis {
    /// It was seen in this run.
    Measured,
    /// The backend promises it, and Leasehold's own tests hold that against the table of faults of the release.
    Promised,
    /// The backend declares it.
    Declared,
}

impl Basis {
    /// What follows a figure.
    fn sign(self) -> &'static str {
        match self {
            Self::Measured => "",
            Self::Promised => " †",
            Self::Declared => " ‡",
        }
    }
}

impl Findings {
    pub(super) fn of(report: &Report) -> Self {
        let changes = report.changes.as_ref().map(super::changes::Changes::section);
        Self {
            title: match report.stores.len() {
                1 => "One lock store, measured".to_owned(),
                count => format!("{count} lock stores, measured"),
            },
            facts: facts(report),
            notices: notices(report),
            answers: report.seed.map(|_| answers::answers(report)),
            legend: LEGEND,
            cards: report.stores.iter().map(|store| Card::of(report, store)).collect(),
            sections: changes
                .into_iter()
                .chain(faults::section(report))
                .chain(speed::sections(report))
                .chain(evidence::section(report))
                .collect(),
            caveats: report.setup.caveats.clone(),
        }
    }
}

fn facts(report: &Report) -> Vec<String> {
    let setup = &report.setup;
    let processor = setup.cpu.as_deref().unwrap_or("processor unknown");
    let servers = if setup.private_servers { "private servers" } else { "the user's stores" };
    let mut facts = vec![
        report.started_at.clone(),
        format!("leasehold {}", report.leasehold),
        setup.kernel.clone(),
        format!("{} cores, {processor}", setup.cores),
        servers.to_owned(),
        format!("{} windows of {} ms for each figure of speed", setup.passes, setup.window_ms),
        format!("took {}", brief(Duration::from_secs_f64(report.took_s.clamp(0.0, 1e9)))),
    ];
    facts.extend(report.seed.map(|seed| format!("seed {seed:#x}")));
    facts
}

fn notices(report: &Report) -> Vec<String> {
    let mut notices = Vec::new();
    if report.interrupted {
        notices.push("This run was interrupted: what is missing was not measured.".to_owned());
    }
    let sentences = [
        (Verdict::Broken, "Something was seen that must not be, and the cards say what"),
        (Verdict::Late, "Bounds were missed, also when tried again, by more than the machine was late"),
        (Verdict::NotJudged, "Not fully judged, and the cards say why"),
        (Verdict::NotRun, "Not run"),
    ];
    for (verdict, words) in sentences {
        let stores = report.stores.iter().filter(|store| store.verdict() == verdict);
        let names: Vec<String> = stores
            .map(|store| match (&store.not_run, verdict) {
                (Some(not_run), Verdict::NotRun) => format!("{} ({})", store.name, not_run.why),
                _ => store.name.clone(),
            })
            .collect();
        if !names.is_empty() {
            notices.push(format!("{words}: {}.", list(&names, names.len())));
        }
    }
    let noisy = report.stores.iter().flat_map(|store| &store.speed.rows).filter(|row| row.is_noisy()).count();
    if noisy > 0 {
        notices.push(format!("{noisy} rows of speed are too noisy to tell small differences."));
    }
    if report.setup.was_busy() {
        let load = report.setup.load_before.unwrap_or_default();
        notices.push(format!(
            "The machine was busy before the run (load {load:.1} on {} cores): figures of speed are worse than they \
             need be.",
            report.setup.cores
        ));
    }
    notices
}
