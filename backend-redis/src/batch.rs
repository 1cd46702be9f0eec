//! Groups claims that are asked for at the same time into one call of a script.
//!
//! Where many tasks have locks on one server, the server's one core is the limit, and half of what it does for a request is
//! not the lock: reading the command, calling the script, answering. So claims that are asked for while many others wait for
//! their answers go in one call of the same script. A claim that is asked for alone, or nearly, waits for no other.
//!
//! * Each claim has its own answer, and an error of one ends no other.
//! * The requests are sent by a task: a caller may keep its future and not poll it, and holds up no other.
//! * Claims of one request come from one runtime: another one may stand still. If it ends, the outcome is unknown.

use crate::scripts::Script;
use crate::servers::{ClaimRequest, Servers};
use leasehold_core::{Error, ErrorKind, Result};
use redis::Value;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use tokio::runtime::{Handle, Id};
use tokio::sync::oneshot;

/// Claims in one request at most: a larger one would keep the server longer from answering others.
const MAX_BATCH: usize = 32;
/// Claims in one request at least: fewer go by themselves.
const MIN_BATCH: usize = 3;
/// A request has this part of the claims in flight, so that the server works at one while this process fills the next.
const BATCHES_IN_FLIGHT: usize = 2;

/// The claims for one script, and who waits for their answers.
#[derive(Debug)]
pub(crate) struct Batch {
    script: &'static Script,
    servers: Arc<Servers>,
    /// Claims that wait for an answer.
    in_flight: AtomicUsize,
    waiting: Mutex<Waiting>,
}

/// Claims that wait to be sent.
#[derive(Debug, Default)]
struct Waiting {
    claims: Vec<Pending>,
    /// The arguments that all of them have in common.
    shared_args: Vec<String>,
    /// The runtime of all of them, on which a task will send them.
    runtime: Option<Id>,
}

#[derive(Debug)]
struct Pending {
    request: ClaimRequest,
    answer: oneshot::Sender<Result<Value>>,
}

/// Sends the claims that wait when the tasks that are ready now have had their turn. If its runtime ends first, they get no
/// answer.
struct Flush {
    /// `None` once they are sent.
    batch: Option<Arc<Batch>>,
    runtime: Id,
}

impl Batch {
    pub(crate) fn new(script: &'static Script, servers: &Arc<Servers>) -> Arc<Self> {
        Arc::new(Self {
            script,
            servers: Arc::clone(servers),
            in_flight: AtomicUsize::new(0),
            waiting: Mutex::default(),
        })
    }

    /// Runs the script for one claim, whose arguments stand behind those that claims of one request have in common.
    ///
    /// # Errors
    ///
    /// As of [`Servers::run`]; [`Indeterminate`](ErrorKind::Indeterminate) if the runtime ends.
    pub(crate) async fn run(
        self: &Arc<Self>,
        shared_args: Vec<String>,
        request: ClaimRequest,
    ) -> Result<Value> {
        let _counted = Counted::new(&self.in_flight);
        let size = (self.in_flight.load(Ordering::Relaxed) / BATCHES_IN_FLIGHT).min(MAX_BATCH);
        // Names of a cluster lie on several servers.
        let alone = size < MIN_BATCH || self.servers.is_cluster();
        match Handle::try_current() {
            Ok(runtime) if !alone => match self.join(&shared_args, request, size, &runtime) {
                Ok(answer) => answer.await.unwrap_or_else(|_| Err(no_answer())),
                Err(request) => Box::pin(self.run_alone(&shared_args, &request)).await,
            },
            _ => Box::pin(self.run_alone(&shared_args, &request)).await,
        }
    }

    async fn run_alone(&self, shared_args: &[String], (keys, args): &ClaimRequest) -> Result<Value> {
        let args: Vec<&str> = shared_args.iter().chain(args).map(String::as_str).collect();
        self.servers.run(self.script, keys, &args).await
    }

    /// Adds a claim to those that wait, and has them sent if they are `size`. Gives it back if they wait for another runtime, or
    /// have other arguments in common.
    fn join(
        self: &Arc<Self>,
        shared_args: &[String],
        request: ClaimRequest,
        size: usize,
        runtime: &Handle,
    ) -> Result<oneshot::Receiver<Result<Value>>, ClaimRequest> {
        let mut waiting = self.waiting();
        let is_first = waiting.claims.is_empty();
        if !is_first && (waiting.runtime != Some(runtime.id()) || waiting.shared_args != shared_args) {
            return Err(request);
        }
        if is_first {
            waiting.shared_args = shared_args.to_vec();
        }
        let (answer, answered) = oneshot::channel();
        waiting.claims.push(Pending { request, answer });
        waiting.runtime = Some(runtime.id());
        let full = (waiting.claims.len() >= size).then(|| waiting.take());
        // A runtime that has been shut down drops a task while it is spawned, and the drop of `Flush` takes this mutex.
        drop(waiting);
        let batch = Arc::clone(self);
        if let Some(claims) = full {
            runtime.spawn(async move { batch.send(claims).await });
        } else if is_first {
            runtime.spawn(Flush { batch: Some(batch), runtime: runtime.id() }.run());
        }
        Ok(answered)
    }

    async fn send(&self, (shared_args, mut claims): (Vec<String>, Vec<Pending>)) {
        if let Err(why) = self.servers.connect().await {
            return claims.into_iter().for_each(|claim| drop(claim.answer.send(Err(why.clone()))));
        }
        // Looked at once there is a connection: the release of a claim whose caller is gone may have been sent by now.
        claims.retain(|claim| !claim.answer.is_closed());
        let (requests, answers): (Vec<_>, Vec<_>) =
            claims.into_iter().map(|Pending { request, answer }| (request, answer)).unzip();
        if requests.is_empty() {
            return;
        }
        let replies = self.servers.run_each(self.script, &shared_args, &requests, None).await;
        for (answer, reply) in answers.into_iter().zip(replies) {
            let _ = answer.send(reply.map(|(value, _)| value));
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn take(&mut self) -> (Vec<String>, Vec<Pending>) {
        (std::mem::take(&mut self.shared_args), std::mem::take(&mut self.claims))
    }
}

impl Flush {
    async fn run(mut self) {
        behind_other_tasks().await;
        let Some(batch) = self.batch.take() else { return };
        let claims = batch.waiting().take();
        batch.send(claims).await;
    }
}

impl Drop for Flush {
    fn drop(&mut self) {
        let Some(batch) = self.batch.take() else { return };
        let mut waiting = batch.waiting();
        if waiting.runtime == Some(self.runtime) {
            let unsent = waiting.take();
            drop(waiting);
            drop(unsent);
        }
    }
}

/// Counts a claim for as long as it waits for its answer.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns when the tasks that are ready now have had their turn: a task that wakes itself goes to the end of the queue.
async fn behind_other_tasks() {
    let mut is_last = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut is_last, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

fn no_answer() -> Error {
    Error::new(ErrorKind::Indeterminate, "the runtime was shut down before the request was answered")
        .with_help("ask again, on a runtime that lives as long as the answer takes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Keys;
    use crate::scripts::ACQUIRE;
    use crate::target::Deployment;
    use leasehold_core::{LockName, Namespace};
    use leasehold_store_url::StoreUrl;
    use tokio::runtime::Runtime;

    /// To a port on which no server listens.
    fn batch() -> Arc<Batch> {
        let url = StoreUrl::parse("redis://127.0.0.1:1").unwrap();
        let servers = Servers::new(Deployment::of(&url).unwrap().0, &Arc::default(), "channel".to_owned());
        Batch::new(&ACQUIRE, &Arc::new(servers))
    }

    fn request(number: u32) -> ClaimRequest {
        let keys = Keys::new(&Namespace::new("leasehold:").unwrap()).unwrap();
        (keys.of(&LockName::new(format!("job/{number}")).unwrap()), Vec::new())
    }

    fn runtime() -> Runtime {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
    }

    #[test]
    fn claim_of_another_runtime_does_not_wait_for_one_that_stands_still() {
        let (batch, still, other) = (batch(), runtime(), runtime());
        let _left = batch.join(&[], request(1), 9, still.handle()).unwrap();
        assert!(batch.join(&[], request(2), 9, other.handle()).is_err(), "it goes alone");
    }

    #[test]
    fn claims_get_an_answer_when_their_runtime_ends() {
        let (batch, ends, other) = (batch(), runtime(), runtime());
        let left = [1, 2].map(|number| batch.join(&[], request(number), 9, ends.handle()).unwrap());
        drop(ends);
        for answer in left {
            assert!(other.block_on(answer).is_err(), "the outcome is unknown");
        }
        let next = batch.join(&[], request(3), 9, other.handle()).unwrap();
        assert_eq!(other.block_on(next).unwrap().unwrap_err().kind(), ErrorKind::Unavailable);
    }

    #[test]
    fn claim_for_a_runtime_that_has_ended_gets_an_answer() {
        let (batch, ended, other) = (batch(), runtime(), runtime());
        let handle = ended.handle().clone();
        drop(ended);
        let answer = batch.join(&[], request(1), 9, &handle).unwrap();
        assert!(other.block_on(answer).is_err(), "the outcome is unknown");
    }

    #[test]
    fn claim_whose_caller_is_gone_is_not_sent() {
        let (batch, runtime) = (batch(), runtime());
        drop(batch.join(&[], request(1), 9, runtime.handle()).unwrap());
        let asked = batch.join(&[], request(2), 2, runtime.handle()).unwrap();
        assert!(runtime.block_on(asked).unwrap().is_err());
        assert!(batch.waiting().claims.is_empty());
    }
}
