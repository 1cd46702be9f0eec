//! What people read, before it is known whether on a terminal, in Markdown or on a page: words, tables and charts, all made
//! from the [report](super::model::Report). A figure is formatted here, once; so it is the same in every form.

mod changes;
mod declared;
mod evidence;
mod matrix;
mod speed;
mod suite;
mod table;

pub(crate) use evidence::Evidence;
pub(crate) use table::{Chart, Column, Datum, Section, Span, Table};

use super::model::Report;
use super::rules::{self, Answer, Basis, Card};
use leasehold_console::brief;
use serde::Serialize;
use std::time::Duration;

/// All of it, in the order in which it is read.
#[derive(Debug, Serialize)]
pub(crate) struct View {
    pub(crate) title: String,
    /// When, on what, for how long.
    pub(crate) facts: Vec<String>,
    /// What must be known before anything else is read.
    pub(crate) notices: Vec<String>,
    /// Which store for whom.
    pub(crate) answers: Vec<Answer>,
    /// What the signs behind figures mean.
    pub(crate) legend: &'static str,
    /// One for each store.
    pub(crate) cards: Vec<Card>,
    pub(crate) sections: Vec<Section>,
    /// How each fault was made.
    pub(crate) faults: Vec<(String, String)>,
    pub(crate) evidence: Vec<Evidence>,
    pub(crate) caveats: Vec<String>,
}

impl View {
    pub(crate) fn of(report: &Report) -> Self {
        let sections = [
            changes::section(report),
            matrix::section(report),
            speed::hand_over(report),
            speed::latency(report),
            speed::throughput(report),
            speed::costs(report),
            suite::section(report),
            declared::section(report),
        ];
        Self {
            title: title(report),
            facts: facts(report),
            notices: rules::notices(report),
            answers: rules::answers(report),
            legend: Basis::LEGEND,
            cards: report.stores.iter().map(|store| rules::card(report, store)).collect(),
            sections: sections.into_iter().flatten().collect(),
            faults: evidence::faults(report),
            evidence: report.stores.iter().filter_map(evidence::evidence).collect(),
            caveats: report.setup.caveats.clone(),
        }
    }
}

fn title(report: &Report) -> String {
    match report.stores.len() {
        1 => "One lock store, measured".to_owned(),
        count => format!("{count} lock stores, measured"),
    }
}

fn facts(report: &Report) -> Vec<String> {
    let setup = &report.setup;
    let processor = setup.cpu.as_deref().unwrap_or("processor unknown");
    let servers = if setup.private_servers { "private servers" } else { "the user's stores" };
    let windows = format!("{} windows of {} ms for each figure of speed", setup.passes, setup.window_ms);
    vec![
        report.started_at.clone(),
        format!("leasehold {}", report.leasehold),
        setup.kernel.clone(),
        format!("{} cores, {processor}", setup.cores),
        servers.to_owned(),
        windows,
        format!("seed {:#x}", report.seed),
        format!("took {}", brief(Duration::from_secs_f64(report.took_s.clamp(0.0, 1e9)))),
    ]
}
