//! Cells, many at once.

use super::cell::{Cell, Figures, State};
use super::cell_run::play;
use crate::case::HostShare;
use crate::faults::can_happen;
use crate::lateness::{self, Lateness};
use crate::run_config::Interrupt;
use crate::runner::{HostCapacity, WATCHDOG, in_parallel, in_time, lock};
use crate::stop::Stop;
use crate::subject::Subject;
use crate::time_scale::scaled;
use leasehold_core::{Fault, Semantics, Sharing};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// How often a fault is made until it hits a holder: a machine that is busy may take a lease from its holder before.
const TRIALS: u64 = 3;

/// Plays all cells of these subjects whose subject and fault the filter takes, many at once, and tells of each when it is
/// finished. In the order of the subjects and of
/// [`Fault::ALL`].
///
/// To be called in a program that [serves as a worker](crate::serve_as_worker) for these subjects.
pub fn cells(
    subjects: &[Arc<dyn Subject>],
    filter: impl Fn(&str, Fault) -> bool,
    seed: u64,
    on_finished: impl FnMut(&Cell) + Send,
) -> Vec<Cell> {
    let matrix = Matrix::new(subjects, seed);
    let wanted: Vec<_> =
        matrix.all().filter(|(subject, fault)| filter(subject.name(), *fault)).enumerate().collect();
    let on_finished = Mutex::new(on_finished);
    let mut finished = in_parallel(Matrix::THREADS, wanted, |(place, (subject, fault))| {
        let cell = matrix.play(&subject, fault)?;
        lock(&on_finished)(&cell);
        Some((place, cell))
    });
    finished.sort_by_key(|(place, _)| *place);
    finished.into_iter().map(|(_, cell)| cell).collect()
}

/// What a subject promises, once it was asked. The thread that asks holds the mutex, so that only one store is started.
type Known = Arc<Mutex<Option<Semantics>>>;

/// Subjects, and what is known of them.
#[derive(Debug)]
pub struct Matrix {
    subjects: Vec<Arc<dyn Subject>>,
    seed: u64,
    /// What each promises, by its name: to ask, a store must be started.
    semantics: Mutex<HashMap<String, Known>>,
    capacity: HostCapacity,
    interrupt: Interrupt,
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
            capacity: HostCapacity::new(),
            interrupt: Interrupt::default(),
        }
    }

    /// All pairs of a subject and a fault, in the order of the table.
    pub fn all(&self) -> impl Iterator<Item = (Arc<dyn Subject>, Fault)> + '_ {
        self.subjects.iter().flat_map(|subject| Fault::ALL.map(|fault| (Arc::clone(subject), fault)))
    }

    /// Ends cells early, from any thread.
    pub fn interrupt(&self) -> Interrupt {
        self.interrupt.clone()
    }

    /// Plays one cell, here and now; waits until its share of the machine is free. `None` if it was interrupted.
    pub fn play(&self, subject: &Arc<dyn Subject>, fault: Fault) -> Option<Cell> {
        self.timed(subject, fault, false)
    }

    /// The same run with a holder that shares the lock, while others wait to have it for themselves. Not applicable where the
    /// store declares no shared locks.
    pub fn play_with_reader(&self, subject: &Arc<dyn Subject>, fault: Fault) -> Option<Cell> {
        self.timed(subject, fault, true)
    }

    fn timed(&self, subject: &Arc<dyn Subject>, fault: Fault, reader: bool) -> Option<Cell> {
        lateness::watch();
        let mut cell = self.judged(subject, fault, reader, share(subject.name(), fault))?;
        if matches!(cell.state, State::Broken { .. }) {
            cell = self.judged(subject, fault, reader, HostShare::Whole)?;
        }
        Some(cell)
    }

    /// A cell that is broken on a machine that is late is not judged.
    fn judged(
        &self,
        subject: &Arc<dyn Subject>,
        fault: Fault,
        reader: bool,
        share: HostShare,
    ) -> Option<Cell> {
        let _permit = self.capacity.take(share);
        if self.interrupt.is_asked_for() {
            return None;
        }
        let (start, mut cell) = (Instant::now(), Cell::new(subject.name(), fault, reader, self.seed));
        let state = self.state(subject, &mut cell)?;
        let late = Lateness::of_a_case(start);
        cell.state = match state {
            State::Broken { why } if late.is_too_late() => State::NotJudged { why: late.told(&why) },
            state => state,
        };
        cell.took_ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
        Some(cell)
    }

    /// Plays a cell, again if its fault hit no holder, and fills in what was seen.
    fn state(&self, subject: &Arc<dyn Subject>, cell: &mut Cell) -> Option<State> {
        let (fault, reader, seed) = (cell.fault, cell.reader, self.seed);
        let semantics = match self.semantics_of(subject)? {
            Ok(semantics) => semantics,
            Err(stop) => return Some(stop.into()),
        };
        cell.promised = semantics.promises.under(fault);
        if let Err(cannot) = can_happen(&**subject, &semantics, fault) {
            return Some(State::NotApplicable { why: cannot.to_string() });
        }
        if reader && semantics.sharing == Sharing::Unsupported {
            return Some(State::NotApplicable { why: "the store does not declare shared locks".to_owned() });
        }
        let mut trials = 0;
        loop {
            trials += 1;
            let (this, semantics) = (Arc::clone(subject), semantics.clone());
            let seen =
                self.watched(move || async move { play(&this, &semantics, fault, seed, reader).await })?;
            (cell.words, cell.measured, cell.figures) = (String::new(), None, Figures::default());
            let state = match seen {
                Ok(seen) => seen.judge(cell),
                Err(stop) => stop.into(),
            };
            cell.figures.trials = trials;
            if trials == TRIALS || !matches!(state, State::Void { .. }) {
                return Some(state);
            }
        }
    }

    /// `None` if it was interrupted.
    fn semantics_of(&self, subject: &Arc<dyn Subject>) -> Option<Result<Semantics, Stop>> {
        let known = Arc::clone(lock(&self.semantics).entry(subject.name().to_owned()).or_default());
        let mut known = lock(&known);
        if let Some(known) = &*known {
            return Some(Ok(known.clone()));
        }
        let this = Arc::clone(subject);
        let semantics = self.watched(move || async move {
            let store = this.start().await.map_err(Stop::without_store)?;
            Ok(this.connect(&store.address()).await?.semantics().clone())
        })?;
        if let Ok(semantics) = &semantics {
            *known = Some(semantics.clone());
        }
        Some(semantics)
    }

    /// `None` if it was interrupted.
    fn watched<T, F>(&self, work: impl FnOnce() -> F + Send + 'static) -> Option<Result<T, Stop>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Stop>> + Send + 'static,
    {
        if self.interrupt.is_asked_for() {
            return None;
        }
        // A task of its own: a panic is the failure of this cell.
        in_time(scaled(WATCHDOG), &self.interrupt, async { tokio::spawn(work()).await? })
    }
}

/// Elections and fail-overs have time-outs of their own, which other cells would make them miss; and of servers that
/// are three virtual machines, ten at once find no leader in time.
fn share(subject: &str, fault: Fault) -> HostShare {
    let ensemble = subject.contains("ensemble");
    let elects =
        matches!(fault, Fault::FailOver | Fault::SplitBrain | Fault::MinorityDown | Fault::QuorumLost);
    match (ensemble, elects) {
        (true, true) => HostShare::Half,
        (true, false) => HostShare::Quarter,
        (false, true) if subject.contains("sentinel") || subject.contains("cluster") => HostShare::Quarter,
        (false, _) => HostShare::Usual,
    }
}
