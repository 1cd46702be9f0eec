//! The servers of one store: scripts run on the one that has the keys.

use crate::connection::{Call, ConfirmKind, Confirmed, Link};
use crate::keys::LockKeys;
use crate::reply;
use crate::scripts::Script;
use crate::target::{Deployment, Replicas};
use crate::topology::cluster::Cluster;
use crate::topology::sentinel::Sentinels;
use crate::waiters::WaiterRegistry;
use futures_util::future::join_all;
use leasehold_core::Result;
use redis::{ServerErrorKind, Value};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// How long a waiter that is in the queue already waits for its subscription: half of the time between two heartbeats.
const LISTENS_WITHIN: Duration = Duration::from_millis(250);

/// The servers of one store.
#[derive(Debug)]
pub(crate) enum Servers {
    /// One server has all names: always the same, or the primary of the moment.
    One(Arc<PrimaryNode>),
    /// Several have some names each.
    Cluster(Cluster),
}

/// One primary, and the channel to which this process subscribes on it.
#[derive(Debug)]
pub(crate) struct PrimaryNode {
    pub(crate) link: Link,
    pub(crate) channel: String,
}

/// The reply to a call, which may be an error of the server.
#[derive(Debug)]
pub(crate) struct Reply {
    /// The server that gave it.
    pub(crate) node: Arc<PrimaryNode>,
    pub(crate) value: Value,
    /// Whether the replicas have what was written, if they were asked.
    pub(crate) confirmed: Option<Confirmed>,
}

/// The claim's part of a request: the keys of its name, and its arguments.
pub(crate) type ClaimRequest = (LockKeys, Vec<String>);

impl Servers {
    /// The servers of a deployment. Connects to nothing yet.
    pub(crate) fn new(deployment: Deployment, waiters: &Arc<WaiterRegistry>, channel: String) -> Self {
        let waiters = Arc::clone(waiters);
        let link = match deployment {
            Deployment::Single(target) => Link::new(target, waiters),
            Deployment::Sentinel(group) => Link::to_primary(Sentinels::new(group), waiters),
            Deployment::Cluster(seeds) => return Self::Cluster(Cluster::new(seeds, waiters, channel)),
        };
        Self::One(Arc::new(PrimaryNode { link, channel }))
    }

    /// Makes sure that there is a connection, if all names are on one server.
    pub(crate) async fn connect(&self) -> Result<()> {
        match self {
            Self::One(node) => node.link.connect().await,
            Self::Cluster(_) => Ok(()),
        }
    }

    /// Runs a script for one claim.
    ///
    /// # Errors
    ///
    /// As of [`Link::run`].
    pub(crate) async fn run(&self, script: &'static Script, keys: &LockKeys, args: &[&str]) -> Result<Value> {
        let keys = script.keys_of(&[keys]);
        let Reply { node, value, .. } = self.ask(Call::new(script, &keys, args)).await?;
        node.link.check_reply(script, &keys, value).await
    }

    /// As [`run`](Self::run); afterwards waits for replicas to have what it wrote, and says whether they have.
    pub(crate) async fn run_confirmed(
        &self,
        script: &'static Script,
        keys: &LockKeys,
        args: &[&str],
        confirm: (Replicas, ConfirmKind),
    ) -> Result<(Value, Confirmed)> {
        let keys = script.keys_of(&[keys]);
        let call = Call { confirm: Some(confirm), ..Call::new(script, &keys, args) };
        let Reply { node, value, confirmed } = self.ask(call).await?;
        Ok((node.link.check_reply(script, &keys, value).await?, confirmed.unwrap_or(Confirmed::By(0))))
    }

    /// Runs a script for several claims in one request; `shared_args` stand before those of each claim. The second value of an answer is false if too few replicas have what
    /// was written, where they were asked.
    pub(crate) async fn run_each(
        &self,
        script: &'static Script,
        shared_args: &[String],
        requests: &[ClaimRequest],
        confirm: Option<(Replicas, ConfirmKind)>,
    ) -> Vec<Result<(Value, bool)>> {
        let keys: Vec<_> = requests.iter().map(|(keys, _)| keys).collect();
        let keys = script.keys_of(&keys);
        let args = shared_args.iter().chain(requests.iter().flat_map(|(_, args)| args));
        let args: Vec<&str> = args.map(String::as_str).collect();
        let reply = self.ask(Call { confirm, ..Call::new(script, &keys, &args) }).await;
        let Reply { node, value, confirmed } = match reply {
            Ok(reply) => reply,
            Err(why) => return requests.iter().map(|_| Err(why.clone())).collect(),
        };
        if requests.len() > 1 && may_concern_one_claim(&value) {
            let one_by_one = requests.chunks(1).map(|one| self.run_each(script, shared_args, one, confirm));
            return Box::pin(join_all(one_by_one)).await.into_iter().flatten().collect();
        }
        let is_confirmed = matches!(confirmed, None | Some(Confirmed::Yes));
        let answers = match value {
            // The refusal of the whole request.
            Value::ServerError(error) => vec![Value::ServerError(error); requests.len()],
            value => match reply::split(value, requests.len()) {
                Ok(answers) => answers,
                Err(why) => {
                    let why = node.link.here(why);
                    return requests.iter().map(|_| Err(why.clone())).collect();
                }
            },
        };
        let check_reply = requests.iter().zip(answers).map(async |((keys, _), answer)| {
            let answer = node.link.check_reply(script, &keys.all(), answer).await?;
            Ok((answer, is_confirmed))
        });
        join_all(check_reply).await
    }

    /// The channel on which this process hears messages about the key's name; `None` if it hears none now.
    pub(crate) fn channel(&self, key: &str) -> Option<String> {
        let node = match self {
            Self::One(node) => Some(Arc::clone(node)),
            Self::Cluster(cluster) => cluster.known_node_of(key),
        };
        node.filter(|node| node.link.hears()).map(|node| node.channel.clone())
    }

    /// Sees to it that messages about the key's name are heard. True if they are, by now.
    pub(crate) async fn listen(&self, key: &str) -> bool {
        match self.node_of(key).await {
            // A subscription goes on in a task of its own.
            Ok(node) => timeout(LISTENS_WITHIN, node.link.listen(&node.channel)).await.unwrap_or(false),
            Err(_) => false,
        }
    }

    /// The server that has the key.
    pub(crate) async fn node_of(&self, key: &str) -> Result<Arc<PrimaryNode>> {
        match self {
            Self::One(node) => Ok(Arc::clone(node)),
            Self::Cluster(cluster) => cluster.node_of(key).await,
        }
    }

    /// Each server that has names.
    pub(crate) async fn each(&self) -> Result<Vec<Arc<PrimaryNode>>> {
        match self {
            Self::One(node) => Ok(vec![Arc::clone(node)]),
            Self::Cluster(cluster) => cluster.primaries().await,
        }
    }

    /// True if the keys of one call must lie in one slot.
    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster(_))
    }

    /// The number of the node that has the key, as far as is known: renewals are grouped by node, so that a silent one delays only
    /// its own.
    pub(crate) fn number_of(&self, key: &str) -> u64 {
        match self {
            Self::One(_) => 0,
            Self::Cluster(cluster) => cluster.number_of_node(key),
        }
    }

    /// Ends the connections. Requests under way get no answer.
    pub(crate) fn close(&self) {
        match self {
            Self::One(node) => node.link.close(),
            Self::Cluster(cluster) => cluster.close(),
        }
    }

    async fn ask(&self, call: Call<'_>) -> Result<Reply> {
        match self {
            Self::One(node) => PrimaryNode::ask(node, &call).await,
            Self::Cluster(cluster) => Box::pin(cluster.ask(call)).await,
        }
    }
}

impl PrimaryNode {
    pub(crate) async fn ask(node: &Arc<Self>, call: &Call<'_>) -> Result<Reply> {
        let (value, confirmed) = node.link.ask(call).await?;
        Ok(Reply { node: Arc::clone(node), value, confirmed })
    }
}

/// True if a request was refused as a whole, perhaps for the keys of one claim: one is forbidden, or they are not all on this
/// node. A refusal says that nothing was done, so each claim may be asked for by itself.
fn may_concern_one_claim(reply: &Value) -> bool {
    use ServerErrorKind::{CrossSlot, NoPerm, TryAgain};
    matches!(reply, Value::ServerError(error) if matches!(error.kind(), Some(CrossSlot | NoPerm | TryAgain)))
}
