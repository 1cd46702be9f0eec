//! What a bench or a comparison has shown, as data: `report.json` is this and nothing else, and everything that people read is made
//! from it. The published form is `docs/compare.schema.json`.
//!
//! | looking for | it is in |
//! |---|---|
//! | what is different from an earlier report | `changes.rs` |
//! | from figures to sentences and tables: which store answers which question, the verdicts | `findings/` |
//! | text for a terminal | `terminal.rs`; Markdown and HTML are templates: `report.md`, `report.html` |
//! | the files of a report | `publish.rs` |

mod changes;
mod findings;
mod publish;
mod terminal;

pub(crate) use changes::Changes;
pub(crate) use publish::{make_room, print, publish, read};

use crate::load::usage::{cores, load_average, system};
use crate::measure::{LeftOut, Plan, Row, RowResult, StoreFigures};
use leasehold::semantics::{
    CrashBound, Fairness, Fault, HoldKind, LossSignal, Outcome, Reach, Semantics, Sharing, TokenClass,
};
use leasehold_conformance::matrix::{Cell, State};
use leasehold_conformance::{CaseOutcome, CaseResult, Tally};
use leasehold_console::{Failure, timestamp};
use serde::{Deserialize, Serialize};
use std::time::{Instant, SystemTime};

/// Goes up when a reader of the JSON has to change.
const SCHEMA: u32 = 4;

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Report {
    pub(crate) schema: u32,
    /// The version of this program.
    pub(crate) leasehold: String,
    /// In UTC.
    pub(crate) started_at: String,
    pub(crate) took_s: f64,
    /// True if a signal ended it early: what is missing was not measured.
    pub(crate) interrupted: bool,
    /// What the random choices of the suite and of the faults were made from; `None` of a bench.
    pub(crate) seed: Option<u64>,
    pub(crate) setup: Setup,
    pub(crate) stores: Vec<StoreReport>,
    /// Beside an earlier run, if one was named.
    pub(crate) changes: Option<Changes>,
}

/// On what, and how, it was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Setup {
    /// System, release, architecture.
    pub(crate) kernel: String,
    /// `None` where the system does not tell.
    pub(crate) cpu: Option<String>,
    pub(crate) cores: usize,
    /// How many tasks wanted a processor, on average over a minute, before the run and after it.
    pub(crate) load_before: Option<f64>,
    pub(crate) load_after: Option<f64>,
    /// How long one measurement of speed is, and how often it was repeated.
    pub(crate) window_ms: u64,
    pub(crate) passes: usize,
    /// True if this run has started the servers itself, for nobody else.
    pub(crate) private_servers: bool,
    /// What a reader must know before believing a figure.
    pub(crate) caveats: Vec<String>,
}

/// One store: what it declares, and what was seen of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoreReport {
    /// Its name in this report: `redis-sentinel`.
    pub(crate) name: String,
    /// Without a password; `None` if it was a private one, which is gone.
    pub(crate) url: Option<String>,
    /// Why nothing of it was measured; `None` if something was.
    pub(crate) not_run: Option<NotRun>,
    pub(crate) declared: Option<Declared>,
    /// What `leasehold config check` finds in it.
    pub(crate) findings: Vec<String>,
    pub(crate) cases: Vec<CaseResult>,
    /// What was seen under faults.
    pub(crate) cells: Vec<Cell>,
    pub(crate) speed: StoreFigures,
}

/// Why nothing of a store was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NotRun {
    pub(crate) why: String,
    /// True if its server is there, and was not ready in time: nothing can be said of it then.
    pub(crate) is_late: bool,
}

/// What a backend declares of itself in one mode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Declared {
    pub(crate) backend: String,
    pub(crate) mode: String,
    pub(crate) reach: Reach,
    pub(crate) hold: HoldKind,
    pub(crate) fairness: Fairness,
    pub(crate) sharing: Sharing,
    /// The longest time from a free lock to a waiter's next question, if every message is lost.
    pub(crate) asks_within_ms: u64,
    pub(crate) loss_signal: LossSignal,
    pub(crate) crash_bound: CrashBound,
    pub(crate) token: TokenClass,
    /// What is promised under each fault.
    pub(crate) promises: Vec<(Fault, Outcome)>,
}

/// What a run says of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
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

impl Report {
    /// A run that begins, on this machine.
    pub(crate) fn begin(plan: &Plan, seed: Option<u64>, private_servers: bool, caveats: Vec<String>) -> Self {
        Self {
            schema: SCHEMA,
            leasehold: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: timestamp(SystemTime::now()),
            took_s: 0.0,
            interrupted: false,
            seed,
            setup: Setup {
                kernel: system(),
                cpu: cpu(),
                cores: cores(),
                load_before: load_average(),
                load_after: None,
                window_ms: u64::try_from(plan.window.as_millis()).unwrap_or(u64::MAX),
                passes: plan.passes,
                private_servers,
                caveats,
            },
            stores: Vec::new(),
            changes: None,
        }
    }

    pub(crate) fn end(&mut self, began: Instant, interrupted: bool) {
        self.took_s = began.elapsed().as_secs_f64();
        self.setup.load_after = load_average();
        self.interrupted = interrupted;
    }

    pub(crate) fn to_json(&self) -> Result<String, Failure> {
        let json = serde_json::to_string_pretty(self);
        Ok(json.map_err(|error| Failure::internal("cannot write the report", error))? + "\n")
    }
}

impl Setup {
    /// True if something else wanted more than half of the machine when the run began.
    pub(crate) fn was_busy(&self) -> bool {
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
    pub(crate) fn named(name: &str) -> Self {
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

    pub(crate) fn counts(&self) -> Tally {
        Tally::count(&self.cases)
    }

    pub(crate) fn cell(&self, fault: Fault) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.fault == fault)
    }

    /// The cell, if what was measured in it says something of the store.
    pub(crate) fn judged_cell(&self, fault: Fault) -> Option<&Cell> {
        let is_judged = |state: &State| matches!(state, State::Kept | State::Better | State::Broken { .. });
        self.cell(fault).filter(|cell| is_judged(&cell.state))
    }

    pub(crate) fn was_late_under(&self, fault: Fault) -> bool {
        self.cell(fault).is_some_and(|cell| matches!(cell.state, State::Late { .. }))
    }

    pub(crate) fn has_passed(&self, case: &str) -> bool {
        self.cases.iter().any(|result| result.case == case && result.outcome == CaseOutcome::Passed)
    }

    /// The first row of which this is true.
    pub(crate) fn row(&self, is_it: impl Fn(Row) -> bool) -> Option<&RowResult> {
        self.speed.rows.iter().find(|result| is_it(result.row))
    }

    /// True if anything was measured at all.
    pub(crate) fn has_figures(&self) -> bool {
        self.counts().skipped < self.cases.len()
            || !self.speed.rows.is_empty()
            || self.cells.iter().any(|cell| cell.measured.is_some())
    }

    pub(crate) fn has_ended_early(&self) -> bool {
        self.speed.left_out.iter().any(|left_out| left_out.row == LeftOut::THE_REST)
    }

    /// How many held locks were lost while they were measured: renewals came too late.
    pub(crate) fn lost(&self) -> usize {
        self.speed.rows.iter().filter_map(|result| result.held).map(|held| held.lost).sum()
    }

    /// What was seen while its speed was measured that a lock must never do.
    pub(crate) fn violations(&self) -> impl Iterator<Item = String> {
        self.speed.rows.iter().flat_map(RowResult::violations)
    }

    pub(crate) fn verdict(&self) -> Verdict {
        let counts = self.counts();
        let any_cell = |is_so: fn(&State) -> bool| self.cells.iter().any(|cell| is_so(&cell.state));
        let is_broken = counts.failed > 0
            || any_cell(|state| matches!(state, State::Broken { .. }))
            || self.violations().next().is_some();
        let is_open = counts.not_judged + self.lost() > 0
            || self.has_ended_early()
            || any_cell(|state| matches!(state, State::NotJudged { .. } | State::Void { .. }));
        let is_late = counts.late > 0 || any_cell(|state| matches!(state, State::Late { .. }));
        match &self.not_run {
            Some(NotRun { is_late: true, .. }) => Verdict::NotJudged,
            Some(_) => Verdict::NotRun,
            None if is_broken => Verdict::Broken,
            None if is_late => Verdict::Late,
            None if is_open => Verdict::NotJudged,
            None => Verdict::AsDeclared,
        }
    }

    pub(crate) fn reach(&self) -> Option<Reach> {
        self.declared.as_ref().map(|declared| declared.reach)
    }
}

impl Declared {
    pub(crate) fn of(semantics: &Semantics) -> Self {
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

    pub(crate) fn under(&self, fault: Fault) -> Option<Outcome> {
        self.promises.iter().find(|(other, _)| *other == fault).map(|(_, outcome)| *outcome)
    }
}
