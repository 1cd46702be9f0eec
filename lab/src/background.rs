//! Cases, cells of the fault matrix and rounds of a soak: played on threads of their own, many at once.

use crate::interrupt::{Interrupts, WaitResult};
use leasehold::semantics::Fault;
use leasehold_conformance::matrix::{Cell, Matrix};
use leasehold_conformance::{CaseEvent, CaseResult, Run, Subject};
use leasehold_console::Failure;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, timeout_at};

/// Number of cells played at once by default. They mostly wait.
pub(crate) const CELLS_AT_ONCE: usize = 10;
/// Timeout for what is under way to end its servers after a signal.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);

/// A fault under a store.
pub(crate) type Pair = (Arc<dyn Subject>, Fault);

/// Threads at work, and what comes of it.
pub(crate) struct Background<T> {
    threads: Vec<JoinHandle<()>>,
    results: UnboundedReceiver<T>,
    /// Begins nothing more, and ends what is under way.
    stop: Box<dyn Fn() + Send + Sync>,
    /// After a signal: when the end is no longer waited for.
    deadline: Option<Instant>,
}

impl<T: Send + 'static> Background<T> {
    /// Does this on so many threads, until it returns.
    pub(crate) fn start(
        threads: usize,
        stop: impl Fn() + Send + Sync + 'static,
        work: impl Fn(&UnboundedSender<T>) + Send + Sync + 'static,
    ) -> Self {
        let (tell, results) = unbounded_channel();
        let work = Arc::new(work);
        let start = |_| {
            let (work, tell) = (Arc::clone(&work), tell.clone());
            std::thread::spawn(move || work(&tell))
        };
        let threads = (0..threads).map(start).collect();
        Self { threads, results, stop: Box::new(stop), deadline: None }
    }

    /// The next result, as they come; `None` at the end. After a first signal, results of work already begun still come.
    pub(crate) async fn next(&mut self, interrupts: &mut Interrupts) -> Option<T> {
        loop {
            let result = async {
                match self.deadline {
                    Some(deadline) => timeout_at(deadline, self.results.recv()).await.ok().flatten(),
                    None => self.results.recv().await,
                }
            };
            match interrupts.next(result).await {
                WaitResult::Done(result) => return result,
                WaitResult::Stop => {
                    (self.stop)();
                    self.deadline = Some(Instant::now() + STOP_TIMEOUT);
                }
                WaitResult::Abort => return None,
            }
        }
    }

    /// An error if a thread has panicked. Threads that are still at work are left.
    pub(crate) fn end(self) -> Result<(), Failure> {
        let ended = self.threads.into_iter().filter(JoinHandle::is_finished);
        match ended.map(JoinHandle::join).find(Result::is_err) {
            Some(_) => Err(Failure::internal("the run of the suite ended", io::Error::other("it panicked"))),
            None => Ok(()),
        }
    }
}

impl Background<CaseResult> {
    /// The cases of a run; the observer is told of each event, from whatever thread.
    pub(crate) fn cases(run: &Arc<Run>, observe: impl Fn(CaseEvent<'_>) + Send + Sync + 'static) -> Self {
        let (interrupt, run) = (run.interrupt(), Arc::clone(run));
        let work = move |tell: &UnboundedSender<CaseResult>| {
            run.execute(&|event: CaseEvent<'_>| {
                observe(event);
                if let CaseEvent::Finished(result) = event {
                    // The send fails only if the receiver was dropped: the result is not wanted then.
                    let _ = tell.send(result.clone());
                }
            });
        };
        Self::start(1, move || interrupt.cancel(), work)
    }
}

impl Background<Cell> {
    /// These cells, fault by fault, so that stores of several servers do not all stand at the same time.
    pub(crate) fn cells(matrix: Matrix, mut cells: Vec<Pair>, at_once: usize) -> Self {
        cells.sort_by_key(|(_, fault)| *fault as usize);
        let (interrupt, left) = (matrix.interrupt(), Mutex::new(VecDeque::from(cells)));
        let work = move |tell: &UnboundedSender<Cell>| {
            let next = || left.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            while let Some((subject, fault)) = next() {
                let Some(cell) = matrix.play(&subject, fault, false) else { break };
                let _ = tell.send(cell);
            }
        };
        Self::start(at_once, move || interrupt.cancel(), work)
    }
}
