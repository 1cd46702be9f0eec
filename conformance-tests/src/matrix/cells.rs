//! Cells, many at once.

use super::cell::{Cell, Figures, State};
use super::cell_run::play;
use super::judgement::has_more_owners;
use crate::case::HostShare;
use crate::faults::can_happen;
use crate::lateness::{self, Lateness, stays_too_late};
use crate::locked;
use crate::runner::{HostCapacity, WATCHDOG, in_time};
use crate::stop::Stop;
use crate::subject::Subject;
use crate::time_scale::{millis, scaled};
use leasehold_core::{Fault, Semantics, Sharing};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

/// How often a fault is made at most, until one hits a holder: on a busy machine the lease may end before the fault.
const TRIALS: u64 = 3;

/// Subjects, and what is known of them.
#[derive(Debug)]
pub struct Matrix {
    subjects: Vec<Arc<dyn Subject>>,
    seed: u64,
    /// What each promises, by its name: to ask, a store must be started.
    semantics: Mutex<HashMap<String, Arc<OnceCell<Semantics>>>>,
    capacity: HostCapacity,
    interrupt: CancellationToken,
}

impl Matrix {
    /// How many cells are played at once. The processes of a cell work; the cases of the suite mostly wait.
    pub const THREADS: usize = 12;

    /// The matrix of these subjects.
    pub fn new(subjects: &[Arc<dyn Subject>], seed: u64) -> Self {
        Self {
            subjects: subjects.to_vec(),
            seed,
            semantics: Mutex::default(),
            capacity: HostCapacity::new(Self::THREADS),
            interrupt: CancellationToken::new(),
        }
    }

    /// All pairs of a subject and a fault, in the order of the table.
    pub fn all(&self) -> impl Iterator<Item = (Arc<dyn Subject>, Fault)> + '_ {
        self.subjects.iter().flat_map(|subject| Fault::ALL.map(|fault| (Arc::clone(subject), fault)))
    }

    /// Cancelled, from any thread, it ends cells early.
    pub fn interrupt(&self) -> CancellationToken {
        self.interrupt.clone()
    }

    /// Plays one cell when its share of the machine is free. `None` if it was interrupted.
    ///
    /// For a `reader`, the holder shares the lock, while others wait to have it for themselves; not applicable where the
    /// store declares no shared locks.
    pub fn play(&self, subject: &Arc<dyn Subject>, fault: Fault, reader: bool) -> Option<Cell> {
        lateness::watch();
        let cell = Cell::new(subject.name(), fault, reader, self.seed);
        let permit = self.capacity.take(share(subject.name(), fault));
        let first = self.attempt(subject, cell.clone())?;
        drop(permit);
        match first.cell.state {
            State::Broken { .. } | State::Late { .. } | State::Void { .. } | State::NotJudged { .. } => {
                let _permit = self.capacity.take_all_when_idle();
                let was_too_late = matches!(first.cell.state, State::NotJudged { .. });
                let second = if stays_too_late(was_too_late) { None } else { self.attempt(subject, cell) };
                Some(of_two(first, second))
            }
            _ => Some(first.cell),
        }
    }

    fn attempt(&self, subject: &Arc<dyn Subject>, new: Cell) -> Option<CellAttempt> {
        if self.interrupt.is_cancelled() {
            return None;
        }
        let start = Instant::now();
        let known = Arc::clone(locked(&self.semantics).entry(subject.name().to_owned()).or_default());
        let work = play_until_met(Arc::clone(subject), known, new.clone());
        // A task of its own: a panic is the failure of this cell.
        let judged = in_time(scaled(WATCHDOG), &self.interrupt, async { tokio::spawn(work).await? })?;
        let late = Lateness::of_a_case(start);
        let unplayed = |stop| {
            let is_wrong = matches!(stop, Stop::Wrong(_));
            (Cell { state: State::of(stop, late), ..new }, is_wrong)
        };
        let (mut cell, is_wrong) = judged.unwrap_or_else(unplayed);
        cell.took_ms = millis(start.elapsed());
        Some(attempt_of(cell, is_wrong, late))
    }
}

/// A cell as one attempt has shown it.
struct CellAttempt {
    cell: Cell,
    /// True if it is broken whatever another attempt shows.
    is_certain: bool,
}

/// On a machine that is too late, a cell is not judged, unless it shows what no delay explains.
fn attempt_of(mut cell: Cell, is_wrong: bool, late: Lateness) -> CellAttempt {
    let is_broken = matches!(cell.state, State::Broken { .. });
    let has_failed = cell.measured.is_none_or(|seen| has_more_owners(cell.promised, seen));
    // No delay repeats a token. A store that promises nothing may repeat one.
    let is_wrong = is_broken && (is_wrong || has_failed && cell.figures.tokens_repeated > 0);
    if let State::Broken { why } | State::Late { why } | State::Void { why } = &cell.state
        && late.is_too_late()
        && !is_wrong
    {
        cell.state = State::NotJudged { why: late.told(why) };
    }
    let is_certain = is_wrong || is_broken && has_failed && late.is_on_time();
    CellAttempt { cell, is_certain }
}

/// Joins two attempts. `None` in place of the second if it was interrupted or left out.
fn of_two(first: CellAttempt, second: Option<CellAttempt>) -> Cell {
    let mut cell = first.cell;
    match (&mut cell.state, second.filter(|second| !matches!(second.cell.state, State::NotRun { .. }))) {
        (State::Broken { why }, Some(second))
            if first.is_certain && !matches!(second.cell.state, State::Broken { .. }) =>
        {
            *why = format!("in one of two attempts: {why}");
        }
        (_, Some(second)) => return second.cell,
        (State::Broken { why } | State::Late { why } | State::Void { why }, None) if !first.is_certain => {
            cell.state =
                State::NotJudged { why: format!("interrupted, or not run, when it was played again: {why}") };
        }
        (_, None) => {}
    }
    cell
}

/// Plays a cell, again if its fault hit no holder, and fills in what was seen.
async fn play_until_met(
    subject: Arc<dyn Subject>,
    known: Arc<OnceCell<Semantics>>,
    mut cell: Cell,
) -> Result<(Cell, bool), Stop> {
    let asked = async || {
        let store = subject.start().await?;
        Ok::<_, Stop>(subject.connect(&store.address()).await?.semantics().clone())
    };
    let semantics = known.get_or_try_init(asked).await?;
    cell.promised = semantics.promises.under(cell.fault);
    let mut is_wrong = false;
    if let Err(cannot) = can_happen(&*subject, semantics, cell.fault) {
        cell.state = State::NotApplicable { why: cannot.to_string() };
    } else if cell.reader && semantics.sharing == Sharing::Unsupported {
        cell.state = State::NotApplicable { why: "the store does not declare shared locks".to_owned() };
    } else {
        for trials in 1..=TRIALS {
            let start = Instant::now();
            let seen = play(&subject, semantics, cell.fault, cell.seed, cell.reader).await;
            (cell.words, cell.measured, cell.figures) = (String::new(), None, Figures::default());
            is_wrong = matches!(seen, Err(Stop::Wrong(_)));
            cell.state = match seen {
                Ok(seen) => seen.judge(&mut cell),
                Err(stop) => State::of(stop, Lateness::of_a_case(start)),
            };
            cell.figures.trials = trials;
            if !matches!(cell.state, State::Void { .. }) {
                break;
            }
        }
    }
    Ok((cell, is_wrong))
}

/// Elections and fail-overs have time-outs of their own, which other cells would make them miss; and of servers that
/// are three virtual machines, ten at once find no leader in time.
fn share(subject: &str, fault: Fault) -> HostShare {
    let elects =
        matches!(fault, Fault::FailOver | Fault::SplitBrain | Fault::MinorityDown | Fault::QuorumLost);
    let has_time_outs = elects && ["sentinel", "cluster"].iter().any(|name| subject.contains(name));
    if has_time_outs || subject.contains("ensemble") { HostShare::Quarter } else { HostShare::Usual }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::Store;
    use async_trait::async_trait;
    use leasehold_core::memory::MemoryBackend;
    use leasehold_core::{DistributedLock, LockClient, Outcome};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    #[test]
    fn cell_that_is_certainly_broken_stays_so_and_an_interrupted_one_is_not_judged() {
        let attempt = |state, is_certain| CellAttempt {
            cell: Cell { state, ..Cell::new("redis", Fault::StorePaused, false, 7) },
            is_certain,
        };
        let broken = |why: &str| State::Broken { why: why.to_owned() };
        let judged = |certain, second| of_two(attempt(broken("two"), certain), second).state;
        assert_eq!(judged(false, Some(attempt(State::Kept, false))), State::Kept);
        let once = broken("in one of two attempts: two");
        assert_eq!(judged(true, Some(attempt(State::Kept, false))), once);
        assert_eq!(judged(true, Some(attempt(broken("three"), true))), broken("three"));
        assert_eq!(judged(true, None), broken("two"));
        let open = |why: &str| {
            let why = format!("interrupted, or not run, when it was played again: {why}");
            State::NotJudged { why }
        };
        assert_eq!(judged(false, None), open("two"));
        let not_run = State::NotRun { why: "no port is free".to_owned() };
        assert_eq!(judged(false, Some(attempt(not_run, false))), open("two"));
        let why = || "it".to_owned();
        for state in [State::Late { why: why() }, State::Void { why: why() }] {
            assert_eq!(of_two(attempt(state, false), None).state, open("it"));
        }
    }

    /// The state of an attempt, and whether it is certain: of a machine whose timers lost so much of a window of 600 ms.
    fn attempted(cell: Cell, is_wrong: bool, lost_ms: u64) -> (State, bool) {
        let [most, window] = [lost_ms, 600].map(Duration::from_millis);
        let late = Lateness { most, window, ..Lateness::default() };
        let CellAttempt { cell, is_certain } = attempt_of(cell, is_wrong, late);
        (cell.state, is_certain)
    }

    #[test]
    fn two_owners_are_certain_on_a_machine_on_time_and_a_repeated_token_on_any() {
        let state = || State::Broken { why: "it".to_owned() };
        let broken = || Cell { state: state(), ..Cell::new("redis", Fault::StorePaused, false, 7) };
        assert_eq!(attempted(broken(), false, 100), (state(), true));
        assert_eq!(attempted(broken(), false, 101), (state(), false));
        assert!(matches!(attempted(broken(), false, 201), (State::NotJudged { .. }, false)));
        assert_eq!(attempted(broken(), true, 201), (state(), true));
        let mut repeated = broken();
        repeated.figures.tokens_repeated = 1;
        assert_eq!(attempted(repeated, false, 201), (state(), true));
        // A store that promises nothing may repeat one: what broke is a record that was left.
        let mut left = Cell { promised: Outcome::MayBreak, measured: Some(Outcome::MayBreak), ..broken() };
        left.figures.tokens_repeated = 1;
        assert!(matches!(attempted(left, false, 201), (State::NotJudged { .. }, false)));
        // Records that are left, or an outage that is not promised, may go another time.
        let left = Cell { promised: Outcome::Holds, measured: Some(Outcome::Unavailable), ..broken() };
        assert_eq!(attempted(left, false, 100), (state(), false));
        let late = || Cell { state: State::Late { why: "it".to_owned() }, ..broken() };
        assert_eq!(attempted(late(), true, 200), (late().state, false));
        assert!(matches!(attempted(late(), false, 201), (State::NotJudged { .. }, false)));
        let void = || Cell { state: State::Void { why: "it".to_owned() }, ..broken() };
        assert_eq!(attempted(void(), false, 200), (void().state, false));
        assert!(matches!(attempted(void(), false, 201), (State::NotJudged { .. }, false)));
    }

    /// Locks in memory, in a store of which the first start stops.
    #[derive(Debug)]
    struct Starts(Mutex<Vec<Stop>>, Arc<LockClient>, AtomicUsize);

    #[derive(Debug)]
    struct Here;

    impl Store for Here {
        fn address(&self) -> String {
            String::new()
        }
    }

    #[async_trait]
    impl Subject for Starts {
        fn name(&self) -> &str {
            "starts"
        }

        async fn start(&self) -> Result<Box<dyn Store>, Stop> {
            self.2.fetch_add(1, Ordering::SeqCst);
            let stop = locked(&self.0).pop();
            stop.map_or_else(|| Ok(Box::new(Here) as Box<dyn Store>), Err)
        }

        async fn connect(&self, _: &str) -> leasehold_core::Result<Arc<dyn DistributedLock>> {
            Ok(self.1.clone())
        }
    }

    #[test]
    fn cell_that_is_not_as_promised_is_played_again() {
        let why = || "it".to_owned();
        for (stop, starts) in [
            (Stop::Failed(why()), 2),
            (Stop::Late(why(), None), 2),
            (Stop::NotJudged(why()), 2),
            (Stop::Skipped(why()), 1),
        ] {
            let client = Arc::new(LockClient::new(Arc::new(MemoryBackend::new())));
            let subject = Arc::new(Starts(Mutex::new(vec![stop.clone()]), client, AtomicUsize::new(0)));
            let as_subject: Arc<dyn Subject> = subject.clone();
            // Memory has no server to take over, so nothing is made.
            let matrix = Matrix::new(&[Arc::clone(&as_subject)], 7);
            let cell = matrix.play(&as_subject, Fault::FailOver, false).unwrap();
            assert_eq!(subject.2.load(Ordering::SeqCst), starts, "{stop:?}: {cell:?}");
        }
    }
}
