//! The nodes, and how all of them are asked at once.

use crate::connection::{Route, ServerLink};
use crate::servers::Servers;
use crate::target::Target;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use leasehold_core::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Nodes that are well are waited for at least this much longer than a majority took.
const LEAST_GRACE: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(super) struct RedlockNode {
    /// Its place in the URL, from zero.
    pub(super) place: usize,
    pub(super) address: String,
    pub(super) link: Arc<ServerLink>,
    /// The same, for scripts.
    pub(super) servers: Servers,
    /// True since a request to it failed: rounds do not wait for it longer than for a majority.
    is_failing: AtomicBool,
}

/// Requests that are still under way.
pub(super) type PendingRequests<T> = FuturesUnordered<BoxFuture<'static, (Arc<RedlockNode>, Result<T>)>>;

#[derive(Debug, Default)]
pub(super) struct YesNoAnswers {
    pub(super) yes: usize,
    pub(super) no: usize,
    /// Also one for each node that has not answered in time.
    pub(super) failed: Vec<Error>,
}

/// For how long answers about a lease of this length are waited for: what is left of it afterwards must be worth having. An
/// eighth, since a grant takes two rounds.
pub(super) fn round_timeout(ttl: Duration) -> Option<Duration> {
    Some(ttl / 8)
}

/// Asks the nodes at these places at once, and hands over each answer as it comes, until `take` says that they decide. Nodes
/// that are well get as long again as it took until then, so that a round reaches all that it can; those that fail delay
/// no round. What has not come is returned.
pub(super) async fn ask<T: Send + 'static, F: Future<Output = Result<T>> + Send + 'static>(
    nodes: &[Arc<RedlockNode>],
    places: impl Fn(usize) -> bool,
    within: Option<Duration>,
    question: impl Fn(Arc<RedlockNode>) -> F,
    mut take: impl FnMut(usize, Result<T>) -> bool,
) -> PendingRequests<T> {
    let start = Instant::now();
    let mut well = Vec::new();
    let mut pending = PendingRequests::<T>::new();
    for node in nodes.iter().filter(|node| places(node.place)) {
        if !node.is_failing.load(Ordering::Relaxed) {
            well.push(node.place);
        }
        let (node, answer) = (Arc::clone(node), question(Arc::clone(node)));
        pending.push(Box::pin(async move {
            let answer = answer.await;
            node.note(&answer);
            (node, answer)
        }));
    }
    let mut until = within.map(|within| start + within);
    let mut is_decided = false;
    loop {
        let next = match until {
            None => pending.next().await,
            Some(until) => timeout_at(until, pending.next()).await.unwrap_or(None),
        };
        let Some((node, answer)) = next else { break };
        well.retain(|place| *place != node.place);
        if take(node.place, answer) && !is_decided {
            is_decided = true;
            let grace = Instant::now() + start.elapsed().max(LEAST_GRACE);
            until = Some(until.map_or(grace, |until| until.min(grace)));
        }
        if is_decided && well.is_empty() {
            break;
        }
    }
    pending
}

/// Asks a question with yes or no, until the answers decide it. Requests that are under way then come to their end without a
/// caller.
pub(super) async fn ask_yes_no<F: Future<Output = Result<bool>> + Send + 'static>(
    nodes: &[Arc<RedlockNode>],
    places: impl Fn(usize) -> bool + Send,
    within: Option<Duration>,
    question: impl Fn(Arc<RedlockNode>) -> F + Send,
    is_decided: impl Fn(&YesNoAnswers) -> bool + Send + Sync,
) -> YesNoAnswers {
    let mut answers = YesNoAnswers::default();
    let take = |_, answer| {
        match answer {
            Ok(true) => answers.yes += 1,
            Ok(false) => answers.no += 1,
            Err(error) => answers.failed.push(error),
        }
        is_decided(&answers)
    };
    let pending = ask(nodes, places, within, question, take).await;
    answers.failed.extend(overdue(&pending));
    detach(pending);
    answers
}

impl RedlockNode {
    pub(super) fn new((place, target): (usize, Target)) -> Arc<Self> {
        let address = target.address.to_string();
        // No channel is listened to: nodes know nothing of each other, so none can hand the lock over.
        let link = ServerLink::new(Route::Server(target), Arc::default(), String::new());
        let servers = Servers::One(Arc::clone(&link));
        Arc::new(Self { place, address, link, servers, is_failing: AtomicBool::new(false) })
    }

    /// Says once that it fails, and once that it is well again: locks go on, with fewer nodes to spare.
    fn note<T>(&self, answer: &Result<T>) {
        let failure = answer.as_ref().err().filter(|error| error.kind() != ErrorKind::Closed);
        if self.is_failing.swap(failure.is_some(), Ordering::Relaxed) == failure.is_some() {
            return;
        }
        match failure {
            Some(error) => {
                tracing::warn!(target: "leasehold", { node = %self.address }, "quorum_eroded: {error}");
            }
            None => tracing::info!(target: "leasehold", { node = %self.address }, "quorum_restored"),
        }
    }
}

/// Lets requests come to their end without a caller, and goes on from each answer. Nothing is left half-way because its caller
/// had seen enough.
pub(super) fn finish<T: Send + 'static, F: Future<Output = ()> + Send + 'static>(
    pending: PendingRequests<T>,
    then: impl Fn(Arc<RedlockNode>, Result<T>) -> F + Send + 'static,
) {
    if !pending.is_empty() {
        tokio::spawn(pending.for_each_concurrent(None, move |(node, answer)| then(node, answer)));
    }
}

pub(super) fn detach<T: Send + 'static>(pending: PendingRequests<T>) {
    finish(pending, |_, _| std::future::ready(()));
}

/// What is said of those that have not answered in time.
pub(super) fn overdue<T>(pending: &PendingRequests<T>) -> Vec<Error> {
    let late = Error::new(ErrorKind::Indeterminate, "a node did not answer in time");
    vec![late.with_help("look at the nodes and at the network to them"); pending.len()]
}
