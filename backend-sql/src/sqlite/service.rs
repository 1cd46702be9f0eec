use leasehold_core::{Error, ErrorKind, Result};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::runtime::Handle;
use tokio::sync::mpsc::error::SendError;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

/// A queue of jobs, and a task that works them off.
///
/// A task of its own, although its callers could take turns at the connection: a caller may keep its future and not poll
/// it, and would hold up all others. To hand a job over wakes no other thread. The task ends with the queue.
#[derive(Debug)]
pub(super) struct Service<Job> {
    inbox: Mutex<Option<UnboundedSender<Job>>>,
}

/// What is asked of a service, and who hears the answer.
#[derive(Debug)]
pub(super) struct Asked<What, Answer> {
    pub(super) what: What,
    pub(super) reply: Reply<Answer>,
}

pub(super) type Reply<Answer> = oneshot::Sender<Result<Answer>>;

impl<Job: Send + 'static> Service<Job> {
    pub(super) fn new() -> Self {
        Self { inbox: Mutex::default() }
    }

    /// Asks for something, and waits for the answer. `task` is what works the queue off.
    pub(super) async fn ask<What, Answer, Task>(
        &self,
        what: What,
        job: impl FnOnce(Asked<What, Answer>) -> Job,
        task: impl FnOnce(UnboundedReceiver<Job>) -> Task,
    ) -> Result<Answer>
    where
        Task: Future<Output = ()> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        self.hand_in(job(Asked { what, reply }), task)?;
        answer.await.unwrap_or_else(|_| Err(left_alone()))
    }

    /// Tells the task something, if there is one, and waits until it has done it.
    pub(super) async fn tell(&self, job: impl FnOnce(Reply<()>) -> Job) {
        let (reply, done) = oneshot::channel();
        match self.inbox().as_ref() {
            Some(inbox) => _ = inbox.send(job(reply)),
            None => return,
        }
        // An error means that its runtime has ended, and the task with it.
        let _ = done.await;
    }

    /// Starts the task for the first job, and again when the runtime that it ran on has ended.
    fn hand_in<Task>(&self, job: Job, task: impl FnOnce(UnboundedReceiver<Job>) -> Task) -> Result<()>
    where
        Task: Future<Output = ()> + Send + 'static,
    {
        let mut inbox = self.inbox();
        let job = match inbox.as_ref() {
            None => job,
            Some(sender) => match sender.send(job) {
                Ok(()) => return Ok(()),
                Err(SendError(job)) => job,
            },
        };
        let runtime = Handle::try_current().map_err(|_| no_runtime())?;
        let (sender, jobs) = unbounded_channel();
        // It has its receiver, here.
        let _ = sender.send(job);
        *inbox = Some(sender);
        runtime.spawn(task(jobs));
        Ok(())
    }

    fn inbox(&self) -> MutexGuard<'_, Option<UnboundedSender<Job>>> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<What, Answer> Asked<What, Answer> {
    /// True if nobody waits for the answer any more. What was not begun need not be: an acquisition that was given up must
    /// not be granted at any later time.
    pub(super) fn is_given_up(&self) -> bool {
        self.reply.is_closed()
    }

    pub(super) fn answer(self, answer: Result<Answer>) {
        let _ = self.reply.send(answer);
    }
}

fn left_alone() -> Error {
    Error::new(ErrorKind::Indeterminate, "the runtime on which the store was used has ended")
        .with_help("ask again; runtimes that share a store should live as long as it is used")
}

fn no_runtime() -> Error {
    Error::new(ErrorKind::Misconfigured, "using a store needs a Tokio runtime, and there is none here")
        .with_help("call it from async code that runs on Tokio, for instance under #[tokio::main]")
}
