//! Cells of the fault matrix, played on threads of their own, many at once.

use leasehold::semantics::Fault;
use leasehold_conformance::Subject;
use leasehold_conformance::matrix::{Cell, Matrix};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Number of cells played at once by default. They mostly wait.
pub(crate) const AT_ONCE: usize = 10;
/// Timeout for the cells and cases under way to end their servers after a signal.
pub(crate) const STOP_TIMEOUT: Duration = Duration::from_secs(20);

/// A fault under a store.
pub(crate) type Pair = (Arc<dyn Subject>, Fault);

/// Cells that are being played.
pub(crate) struct Playing {
    work: Arc<Work>,
    played: UnboundedReceiver<Cell>,
}

struct Work {
    matrix: Matrix,
    left: Mutex<VecDeque<Pair>>,
}

impl Playing {
    /// Begins with these, fault by fault, so that stores of several servers do not all stand at the same time.
    pub(crate) fn begin(matrix: Matrix, mut cells: Vec<Pair>, at_once: usize) -> Self {
        cells.sort_by_key(|(_, fault)| *fault as usize);
        let work = Arc::new(Work { matrix, left: Mutex::new(cells.into()) });
        let (done, played) = unbounded_channel();
        for _ in 0..at_once {
            let (work, done) = (Arc::clone(&work), done.clone());
            std::thread::spawn(move || work.play(&done));
        }
        Self { work, played }
    }

    /// The next one that is finished, in whatever order they end; `None` when all are.
    pub(crate) async fn next(&mut self) -> Option<Cell> {
        self.played.recv().await
    }

    /// Begins no more of them, and ends those that are being played.
    pub(crate) fn stop(&self) {
        self.work.matrix.interrupt().cancel();
    }
}

impl Work {
    fn play(&self, done: &UnboundedSender<Cell>) {
        let next = || self.left.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        while let Some((subject, fault)) = next() {
            let Some(cell) = self.matrix.play(&subject, fault, false) else { break };
            // The send fails only if the receiver was dropped: the result is not wanted then.
            let _ = done.send(cell);
        }
    }
}
