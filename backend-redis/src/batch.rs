//! Groups claims that are asked for at the same time into one call of a script.
//!
//! Where many tasks have locks on one server, the server's one core is the limit, and half of what it does for a request is
//! not the lock: reading the command, calling the script, answering. So claims that are asked for while many others wait for
//! their answers go in one call of the same script. A claim that is asked for alone, or nearly, waits for no other.
//!
//! * Each claim has its own answer, and an error of one ends no other.
//! * The requests are sent by a task: a caller may keep its future and not poll it, and holds up no other.
//! * Claims of one request come from one runtime: another one may stand still. If it ends, the outcome is unknown.

use crate::locked;
use crate::scripts::Script;
use crate::server_error::shut_down;
use crate::servers::{ClaimRequest, Servers};
use leasehold_core::{ErrorKind, Result};
use redis::Value;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use tokio::runtime::{Handle, Id};
use tokio::sync::{mpsc, oneshot};

/// Claims in one request at most: a larger one would keep the server longer from answering others.
const MAX_BATCH: usize = 32;
/// Claims in one request at least: fewer go by themselves.
const MIN_BATCH: usize = 6;

/// The claims for one script, and the callers that wait for their answers.
#[derive(Debug)]
pub(crate) struct ClaimBatcher {
    script: &'static Script,
    servers: Arc<Servers>,
    /// A clone for each claim that waits for an answer.
    in_flight: Arc<()>,
    /// The request that claims join now.
    open: Mutex<Option<OpenRequest>>,
}

/// A request that a task will send. If the runtime of that task ends first, its claims get no answer.
#[derive(Debug)]
struct OpenRequest {
    runtime: Id,
    shared_args: Vec<String>,
    claims: mpsc::Sender<BatchedClaim>,
}

/// A claim's part of a request, and the caller that waits for the answer.
type BatchedClaim = (ClaimRequest, oneshot::Sender<Result<Value>>);

impl ClaimBatcher {
    pub(crate) fn new(script: &'static Script, servers: &Arc<Servers>) -> Arc<Self> {
        let servers = Arc::clone(servers);
        Arc::new(Self { script, servers, in_flight: Arc::default(), open: Mutex::default() })
    }

    /// Runs the script for one claim, whose arguments stand behind those that claims of one request have in common. Errors as of
    /// [`Servers::run`]; [`Indeterminate`](ErrorKind::Indeterminate) if the runtime ends.
    pub(crate) async fn run(
        self: &Arc<Self>,
        shared_args: Vec<String>,
        request: ClaimRequest,
    ) -> Result<Value> {
        let _in_flight = Arc::clone(&self.in_flight);
        let size = (Arc::strong_count(&self.in_flight) - 1).min(MAX_BATCH);
        // Names of a cluster lie on several servers.
        if size >= MIN_BATCH
            && !self.servers.is_cluster()
            && let Ok(runtime) = Handle::try_current()
        {
            let answer = self.join(shared_args, request, size, &runtime);
            let unknown = |_| Err(shut_down(ErrorKind::Indeterminate, "before the request was answered"));
            return answer.await.unwrap_or_else(unknown);
        }
        let (keys, args) = &request;
        let args: Vec<&str> = shared_args.iter().chain(args).map(String::as_str).collect();
        Box::pin(self.servers.run(self.script, keys, &args)).await
    }

    /// Adds a claim to the open request, or opens one for up to `size` claims.
    fn join(
        self: &Arc<Self>,
        shared_args: Vec<String>,
        request: ClaimRequest,
        size: usize,
        runtime: &Handle,
    ) -> oneshot::Receiver<Result<Value>> {
        let (answer, answered) = oneshot::channel();
        let pending = (request, answer);
        let mut open = locked(&self.open);
        let fits = |open: &&mut OpenRequest| {
            let has_room = MAX_BATCH - open.claims.capacity() < size;
            has_room && open.runtime == runtime.id() && open.shared_args == shared_args
        };
        let pending = match open.as_mut().filter(fits) {
            Some(open) => open.claims.try_send(pending).err().map(mpsc::error::TrySendError::into_inner),
            None => Some(pending),
        };
        // No open request, or it is full or on its way.
        if let Some(pending) = pending {
            let (claims, joined) = mpsc::channel(MAX_BATCH);
            let _ = claims.try_send(pending);
            *open = Some(OpenRequest { runtime: runtime.id(), shared_args: shared_args.clone(), claims });
            drop(open);
            runtime.spawn(Arc::clone(self).send(shared_args, joined, size));
        }
        answered
    }

    /// Sends the claims that have joined when there are `size`, or when the tasks that are ready now have had their turn.
    async fn send(
        self: Arc<Self>,
        shared_args: Vec<String>,
        mut joined: mpsc::Receiver<BatchedClaim>,
        size: usize,
    ) {
        let mut is_last = false;
        // A task that wakes itself goes to the end of the queue.
        poll_fn(|cx| match joined.len() >= size || std::mem::replace(&mut is_last, true) {
            true => Poll::Ready(()),
            false => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        })
        .await;
        let connected = match &*self.servers {
            Servers::One(link) => link.connection().await.map(drop),
            Servers::Cluster(_) => Ok(()),
        };
        joined.close();
        let mut claims = Vec::<BatchedClaim>::new();
        while let Some(claim) = joined.recv().await {
            claims.push(claim);
        }
        if let Err(why) = connected {
            return claims.into_iter().for_each(|(_, answer)| drop(answer.send(Err(why.clone()))));
        }
        // Looked at once there is a connection: the release of a claim whose caller is gone may have been sent by now.
        claims.retain(|(_, answer)| !answer.is_closed());
        let (requests, answers): (Vec<_>, Vec<_>) = claims.into_iter().unzip();
        if requests.is_empty() {
            return;
        }
        let replies = self.servers.run_each(self.script, &shared_args, &requests, None).await;
        for (answer, reply) in answers.into_iter().zip(replies) {
            let _ = answer.send(reply.map(|(value, _)| value));
        }
    }
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
    fn batch() -> Arc<ClaimBatcher> {
        let url = StoreUrl::parse("redis://127.0.0.1:1").unwrap();
        let servers =
            Servers::new(Deployment::from_url(&url).unwrap().0, &Arc::default(), "channel".to_owned());
        ClaimBatcher::new(&ACQUIRE, &Arc::new(servers))
    }

    fn join(batch: &Arc<ClaimBatcher>, number: u32, runtime: &Handle) -> oneshot::Receiver<Result<Value>> {
        let keys = Keys::new(&Namespace::new("leasehold:").unwrap()).unwrap();
        let request = (keys.of(&LockName::new(format!("job/{number}")).unwrap()), Vec::new());
        batch.join(Vec::new(), request, 9, runtime)
    }

    fn runtime() -> Runtime {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
    }

    #[test]
    fn claim_of_another_runtime_does_not_wait_for_one_that_stands_still() {
        let (batch, still, other) = (batch(), runtime(), runtime());
        let _left = join(&batch, 1, still.handle());
        let answer = other.block_on(join(&batch, 2, other.handle()));
        assert_eq!(answer.unwrap().unwrap_err().kind(), ErrorKind::Unavailable);
    }

    #[test]
    fn claims_get_an_answer_when_their_runtime_ends() {
        let (batch, ends, other) = (batch(), runtime(), runtime());
        let left = [1, 2].map(|number| join(&batch, number, ends.handle()));
        drop(ends);
        for answer in left {
            assert!(other.block_on(answer).is_err(), "the outcome is unknown");
        }
        let answer = other.block_on(join(&batch, 3, other.handle()));
        assert_eq!(answer.unwrap().unwrap_err().kind(), ErrorKind::Unavailable);
    }

    #[test]
    fn claim_for_a_runtime_that_has_ended_gets_an_answer() {
        let (batch, ended, other) = (batch(), runtime(), runtime());
        let handle = ended.handle().clone();
        drop(ended);
        for number in [1, 2] {
            assert!(other.block_on(join(&batch, number, &handle)).is_err(), "the outcome is unknown");
        }
    }

    #[test]
    fn claim_whose_caller_is_gone_is_not_sent() {
        let (batch, runtime) = (batch(), runtime());
        drop(join(&batch, 1, runtime.handle()));
        let answer = runtime.block_on(join(&batch, 2, runtime.handle()));
        assert!(answer.unwrap().is_err());
    }
}
