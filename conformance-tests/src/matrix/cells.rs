//! Cells, many at once.

use super::cell::{Cell, Figures, State};
use super::fault_run::{Seen, play};
use super::never;
use crate::case::{HostShare, Stop};
use crate::faults::scaled;
use crate::runner::{HostCapacity, Interrupt, in_time};
use crate::subject::Subject;
use leasehold_core::{Fault, Outcome, Semantics, Sharing};
use std::collections::{HashMap, VecDeque};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A cell that takes longer than this hangs. More than its servers may take to start.
const WATCHDOG: Duration = Duration::from_secs(300);
/// How often a fault is made until it hits somebody: a machine that is busy may take a lease from its holder before.
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
    mut on_finished: impl FnMut(&Cell),
) -> Vec<Cell> {
    let matrix = Matrix::new(subjects, seed);
    let wanted: Vec<_> =
        matrix.all().filter(|(subject, fault)| filter(subject.name(), *fault)).enumerate().collect();
    let mut finished: Vec<Option<Cell>> = wanted.iter().map(|_| None).collect();
    let queue = Mutex::new(wanted.into_iter().collect::<VecDeque<_>>());
    let (done, cells) = channel();
    std::thread::scope(|scope| {
        for _ in 0..Matrix::THREADS {
            let (done, queue, matrix) = (done.clone(), &queue, &matrix);
            scope.spawn(move || {
                while let Some((place, (subject, fault))) = lock(queue).pop_front() {
                    // This matrix is never interrupted, and its receiver is gone only if the caller panicked.
                    if let Some(cell) = matrix.play(&subject, fault) {
                        let _ = done.send((place, cell));
                    }
                }
            });
        }
        drop(done);
        for (place, cell) in cells {
            on_finished(&cell);
            finished[place] = Some(cell);
        }
    });
    finished.into_iter().flatten().collect()
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
        let permit = self.capacity.take(share(subject.name(), fault));
        if self.interrupt.is_asked_for() {
            return None;
        }
        let start = Instant::now();
        let mut cell = self.played(subject, fault, reader)?;
        cell.reader = reader;
        cell.took_ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
        drop(permit);
        Some(cell)
    }

    fn played(&self, subject: &Arc<dyn Subject>, fault: Fault, reader: bool) -> Option<Cell> {
        let semantics = match self.semantics_of(subject)? {
            Ok(semantics) => semantics,
            Err(stop) => return Some(self.stopped(subject, fault, Outcome::NotApplicable, stop)),
        };
        let promised = semantics.promises.under(fault);
        let possible = match never::can_happen(&**subject, &semantics, fault) {
            Ok(()) if reader && semantics.sharing == Sharing::Unsupported => {
                Err("the store does not declare shared locks".to_owned())
            }
            possible => possible.map_err(|cannot| cannot.to_string()),
        };
        if let Err(why) = possible {
            return Some(self.cell(subject, fault, promised, State::NotApplicable { why }));
        }
        let mut trials = 0;
        loop {
            trials += 1;
            let (this, semantics, seed) = (Arc::clone(subject), semantics.clone(), self.seed);
            let seen =
                self.watched(move || async move { play(&this, &semantics, fault, seed, reader).await })?;
            let mut cell = match seen {
                Ok(seen) => self.judged(subject, promised, &seen),
                Err(stop) => self.stopped(subject, fault, promised, stop),
            };
            cell.figures.trials = trials;
            if trials == TRIALS || !matches!(cell.state, State::Void { .. }) {
                return Some(cell);
            }
        }
    }

    fn judged(&self, subject: &Arc<dyn Subject>, promised: Outcome, seen: &Seen) -> Cell {
        let figures = seen.figures();
        let measured = seen.outcome(&figures);
        let mut cell = self.cell(subject, seen.fault, promised, seen.state(promised, measured, &figures));
        cell.words = seen.words.to_owned();
        cell.measured = Some(measured);
        cell.figures = figures;
        cell
    }

    fn stopped(&self, subject: &Arc<dyn Subject>, fault: Fault, promised: Outcome, stop: Stop) -> Cell {
        let state = match stop {
            Stop::Skipped(why) => State::NotRun { why },
            Stop::Failed(why) => State::Broken { why },
        };
        self.cell(subject, fault, promised, state)
    }

    fn cell(&self, subject: &Arc<dyn Subject>, fault: Fault, promised: Outcome, state: State) -> Cell {
        Cell {
            subject: subject.name().to_owned(),
            fault,
            reader: false,
            promised,
            measured: None,
            state,
            words: String::new(),
            figures: Figures::default(),
            seed: self.seed,
            took_ms: 0,
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
            let store = this.start().await.map_err(|cannot| Stop::missing(&cannot.to_string()))?;
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
