//! What a comparison has shown, as data: `report.json` is this and nothing else, and everything that people read is made from it.
//! The published form is `docs/compare.schema.json`.

use super::changes::Changes;
use crate::bench::{Row, RowResult, StoreFigures};
use crate::load::usage::{cores, load_average, system};
use leasehold::semantics::{
    CrashBound, Fairness, Fault, HoldKind, LossSignal, Outcome, Reach, Semantics, Sharing, TokenClass,
};
use leasehold_conformance::matrix::{Cell, State};
use leasehold_conformance::{CaseResult, Tally};
use serde::{Deserialize, Serialize};

/// Goes up when a reader of the JSON has to change.
pub(super) const SCHEMA: u32 = 4;

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Report {
    pub(super) schema: u32,
    /// The version of this program.
    pub(super) leasehold: String,
    /// In UTC.
    pub(super) started_at: String,
    pub(super) took_s: f64,
    /// True if a signal ended it early: what is missing was not measured.
    pub(super) interrupted: bool,
    /// What random choices were made from.
    pub(super) seed: u64,
    pub(super) setup: Setup,
    pub(super) stores: Vec<StoreReport>,
    /// Beside an earlier run, if one was named.
    pub(super) changes: Option<Changes>,
}

/// On what, and how, it was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Setup {
    /// System, release, architecture.
    pub(super) kernel: String,
    /// `None` where the system does not tell.
    pub(super) cpu: Option<String>,
    pub(super) cores: usize,
    /// How many tasks wanted a processor, on average over a minute, before the run and after it.
    pub(super) load_before: Option<f64>,
    pub(super) load_after: Option<f64>,
    /// How long one measurement of speed is, and how often it was repeated.
    pub(super) window_ms: u64,
    pub(super) passes: usize,
    /// True if this run has started the servers itself, for nobody else.
    pub(super) private_servers: bool,
    /// What a reader must know before believing a figure.
    pub(super) caveats: Vec<String>,
}

/// One store: what it declares, and what was seen of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoreReport {
    /// Its name in this report: `redis-sentinel`.
    pub(super) name: String,
    /// Without a password; `None` if it was a private one, which is gone.
    pub(super) url: Option<String>,
    /// Why nothing of it was measured; `None` if something was.
    pub(super) not_run: Option<NotRun>,
    pub(super) declared: Option<Declared>,
    /// What `leasehold config check` finds in it.
    pub(super) findings: Vec<String>,
    pub(super) cases: Vec<CaseResult>,
    /// What was seen under faults.
    pub(super) cells: Vec<Cell>,
    pub(super) speed: StoreFigures,
}

/// Why nothing of a store was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NotRun {
    pub(super) why: String,
    /// True if its server is there, and was not ready in time: nothing can be said of it then.
    pub(super) is_late: bool,
}

/// What a backend declares of itself in one mode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Declared {
    pub(super) backend: String,
    pub(super) mode: String,
    pub(super) reach: Reach,
    pub(super) hold: HoldKind,
    pub(super) fairness: Fairness,
    pub(super) sharing: Sharing,
    /// The longest time from a free lock to a waiter's next question, if every message is lost.
    pub(super) asks_within_ms: u64,
    pub(super) loss_signal: LossSignal,
    pub(super) crash_bound: CrashBound,
    pub(super) token: TokenClass,
    /// What is promised under each fault.
    pub(super) promises: Vec<(Fault, Outcome)>,
}

/// What a run says of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// All that was tried is as declared.
    AsDeclared,
    /// Something was seen that its declaration does not allow.
    Broken,
    /// A bound was missed twice, although the machine was on time.
    Late,
    /// The machine was late, the server was not ready in time, or a fault touched nothing.
    NotJudged,
    /// It is not there.
    NotRun,
}

impl Setup {
    /// This machine, with these measurements of speed.
    pub(super) fn here(window_ms: u64, passes: usize, private_servers: bool, caveats: Vec<String>) -> Self {
        Self {
            kernel: system(),
            cpu: cpu(),
            cores: cores(),
            load_before: load_average(),
            load_after: None,
            window_ms,
            passes,
            private_servers,
            caveats,
        }
    }

    /// True if something else wanted more than half of the machine when the run began.
    pub(super) fn was_busy(&self) -> bool {
        self.load_before.unwrap_or(0.0) > self.cores as f64 / 2.0
    }
}

/// The model of the first processor, by `proc_cpuinfo(5)`.
fn cpu() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, model)| model.trim().to_owned())
}

impl StoreReport {
    /// An empty report, for a store of which nothing is known yet.
    pub(super) fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            url: None,
            not_run: None,
            declared: None,
            findings: Vec::new(),
            cases: Vec::new(),
            cells: Vec::new(),
            speed: StoreFigures::default(),
        }
    }

    pub(super) fn counts(&self) -> Tally {
        Tally::count(&self.cases)
    }

    pub(super) fn cell(&self, fault: Fault) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.fault == fault)
    }

    /// The first row of which this is true.
    pub(super) fn row(&self, is_it: impl Fn(Row) -> bool) -> Option<&RowResult> {
        self.speed.rows.iter().find(|result| is_it(result.row))
    }

    /// True if anything was measured at all.
    pub(super) fn has_figures(&self) -> bool {
        let counts = self.counts();
        counts.passed + counts.failed > 0
            || !self.speed.rows.is_empty()
            || self.cells.iter().any(|cell| cell.measured.is_some())
    }

    /// How many held locks were lost while they were measured.
    pub(super) fn lost(&self) -> usize {
        self.speed.rows.iter().map(RowResult::lost).sum()
    }

    pub(super) fn verdict(&self) -> Verdict {
        let counts = self.counts();
        let any_cell = |is_so: fn(&State) -> bool| self.cells.iter().any(|cell| is_so(&cell.state));
        let is_broken = counts.failed > 0
            || any_cell(|state| matches!(state, State::Broken { .. }))
            || self.speed.rows.iter().any(|row| row.violations().next().is_some());
        let is_open = counts.not_judged + self.lost() > 0
            || any_cell(|state| matches!(state, State::NotJudged { .. } | State::Void { .. }));
        match &self.not_run {
            Some(NotRun { is_late: true, .. }) => Verdict::NotJudged,
            Some(_) => Verdict::NotRun,
            None if is_broken => Verdict::Broken,
            None if counts.late > 0 => Verdict::Late,
            None if is_open => Verdict::NotJudged,
            None => Verdict::AsDeclared,
        }
    }

    pub(super) fn reach(&self) -> Option<Reach> {
        self.declared.as_ref().map(|declared| declared.reach)
    }
}

impl Declared {
    pub(super) fn of(semantics: &Semantics) -> Self {
        Self {
            backend: semantics.backend.to_owned(),
            mode: semantics.mode.to_owned(),
            reach: semantics.reach,
            hold: semantics.hold,
            fairness: semantics.fairness,
            sharing: semantics.sharing,
            asks_within_ms: u64::try_from(semantics.wake_up.bound().as_millis()).unwrap_or(u64::MAX),
            loss_signal: semantics.loss_signal,
            crash_bound: semantics.crash_bound,
            token: semantics.token,
            promises: semantics.promises.iter().collect(),
        }
    }

    pub(super) fn under(&self, fault: Fault) -> Option<Outcome> {
        self.promises.iter().find(|(other, _)| *other == fault).map(|(_, outcome)| *outcome)
    }
}
