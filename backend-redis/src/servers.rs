//! The servers of one store: scripts run on the one that has the keys.

use crate::cluster::Cluster;
use crate::connection::{ConfirmKind, Route, ScriptCall, ScriptReply, Sentinels, ServerLink};
use crate::keys::{Keys, LockKeys};
use crate::reply;
use crate::scripts::Script;
use crate::target::{Deployment, Replicas};
use crate::waiters::WaiterRegistry;
use futures_util::future::join_all;
use leasehold_core::{Claim, Result};
use redis::{ServerErrorKind, Value};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// The mode of one server that is always the same.
pub(crate) const SINGLE: &str = "single";
/// How long a waiter that is in the queue already waits for its subscription: half of the time between two heartbeats.
const LISTENS_WITHIN: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(crate) enum Servers {
    /// One server has all names: always the same, or the primary of the moment.
    One(Arc<ServerLink>),
    /// Several have some names each.
    Cluster(Arc<Cluster>),
}

/// The claim's part of a request: the keys of its name, and its arguments.
pub(crate) type ClaimRequest = (LockKeys, Vec<String>);

pub(crate) fn renewal_of(claim: &Claim, keys: &Keys) -> ClaimRequest {
    (keys.of(claim.name()), vec![claim.owner().to_hex(), claim.ttl_millis().to_string()])
}

impl Servers {
    /// The servers of a deployment. Connects to nothing yet.
    pub(crate) fn new(deployment: Deployment, waiters: &Arc<WaiterRegistry>, channel: String) -> Self {
        let waiters = Arc::clone(waiters);
        let route = match deployment {
            Deployment::Single(target) => Route::Server(target),
            Deployment::Sentinel(group) => Route::Primary(Sentinels::new(group)),
            Deployment::Cluster(seeds) => {
                return Self::Cluster(Arc::new(Cluster::new(seeds, waiters, channel)));
            }
        };
        Self::One(ServerLink::new(route, waiters, channel))
    }

    /// Runs a script for one claim. Errors: the refusal of the server; and as of [`ServerLink::ask`].
    pub(crate) async fn run(&self, script: &'static Script, keys: &LockKeys, args: &[&str]) -> Result<Value> {
        let keys = script.keys_of(&[keys]);
        let call = ScriptCall { script, keys: &keys, args, asking: false, confirm: None };
        let ScriptReply { link, value, .. } = self.ask(call).await?;
        link.check_reply(script, &keys, value).await
    }

    /// Runs a script for several claims in one request; `shared_args` stand before those of each claim. With each answer, how many
    /// replicas have what was written, where they are asked.
    pub(crate) async fn run_each(
        &self,
        script: &'static Script,
        shared_args: &[String],
        requests: &[ClaimRequest],
        confirm: Option<(Replicas, ConfirmKind)>,
    ) -> Vec<Result<(Value, Result<u32>)>> {
        let keys: Vec<_> = requests.iter().map(|(keys, _)| keys).collect();
        let keys = script.keys_of(&keys);
        let args = shared_args.iter().chain(requests.iter().flat_map(|(_, args)| args));
        let args: Vec<&str> = args.map(String::as_str).collect();
        let reply = self.ask(ScriptCall { script, keys: &keys, args: &args, asking: false, confirm }).await;
        let ScriptReply { link, value, replicas } = match reply {
            Ok(reply) => reply,
            Err(why) => return requests.iter().map(|_| Err(why.clone())).collect(),
        };
        if requests.len() > 1 && may_concern_one_claim(&value) {
            let one_by_one = requests.chunks(1).map(|one| self.run_each(script, shared_args, one, confirm));
            return Box::pin(join_all(one_by_one)).await.into_iter().flatten().collect();
        }
        let answers = reply::split(value, requests.len());
        let mut checked = Vec::with_capacity(requests.len());
        for ((keys, _), answer) in requests.iter().zip(answers) {
            let answer = match answer {
                Ok(answer) => link.check_reply(script, &keys.all(), answer).await,
                Err(why) => Err(link.route.with_address(why)),
            };
            checked.push(answer.map(|answer| (answer, replicas.clone())));
        }
        checked
    }

    /// The channel on which this process hears messages about the key's name; `None` if it hears none now.
    pub(crate) fn channel(&self, key: &str) -> Option<String> {
        self.known_link(key).filter(|link| link.hears()).map(|link| link.channel.clone())
    }

    /// Sees to it that messages about the key's name are heard. True if they are, by now.
    pub(crate) async fn listen(&self, key: &str) -> bool {
        let Ok(link) = self.link(key).await else { return false };
        // A subscription goes on in a task of its own.
        matches!(timeout(LISTENS_WITHIN, link.listen()).await, Ok(Ok(())))
    }

    /// Deletes all that is stored of a name, a hold too.
    pub(crate) async fn delete(&self, keys: &LockKeys) -> Result<()> {
        let link = self.link(keys.lock()).await?;
        link.command(redis::cmd("DEL").arg(&keys.all())).await.map(drop)
    }

    pub(crate) async fn link(&self, key: &str) -> Result<Arc<ServerLink>> {
        match self {
            Self::One(link) => Ok(Arc::clone(link)),
            Self::Cluster(cluster) => cluster.node_of(key).await,
        }
    }

    /// The server that has the key as far as is known, if it was ever linked to.
    fn known_link(&self, key: &str) -> Option<Arc<ServerLink>> {
        match self {
            Self::One(link) => Some(Arc::clone(link)),
            Self::Cluster(cluster) => cluster.known_node_of(key),
        }
    }

    /// Each server that has names, and an error in the place of one that is missing.
    pub(crate) async fn each(&self) -> Result<Vec<Result<Arc<ServerLink>>>> {
        match self {
            Self::One(link) => Ok(vec![Ok(Arc::clone(link))]),
            Self::Cluster(cluster) => cluster.primaries().await,
        }
    }

    /// How the servers are one store.
    pub(crate) fn mode(&self) -> &'static str {
        match self {
            Self::One(link) if matches!(*link.route, Route::Primary(_)) => "sentinel",
            Self::One(_) => SINGLE,
            Self::Cluster(_) => "cluster",
        }
    }

    /// True if the keys of one call must lie in one slot.
    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster(_))
    }

    /// The number of the server that has the key, as far as is known: renewals are grouped by server, so that a silent one delays
    /// only its own.
    pub(crate) fn number_of(&self, key: &str) -> u64 {
        self.known_link(key).map_or(0, |link| Arc::as_ptr(&link).addr() as u64)
    }

    /// Ends the connections. Requests under way get no answer.
    pub(crate) fn close(&self) {
        match self {
            Self::One(link) => link.close(),
            Self::Cluster(cluster) => cluster.close(),
        }
    }

    async fn ask(&self, call: ScriptCall<'_>) -> Result<ScriptReply> {
        match self {
            Self::One(link) => link.ask(&call).await,
            Self::Cluster(cluster) => Box::pin(cluster.ask(call)).await,
        }
    }
}

/// True if a request was refused as a whole, perhaps for the keys of one claim: one is forbidden, or they are not all on this
/// node. A refusal says that nothing was done, so each claim may be asked for by itself.
fn may_concern_one_claim(reply: &Value) -> bool {
    use ServerErrorKind::{CrossSlot, NoPerm, TryAgain};
    matches!(reply, Value::ServerError(error) if matches!(error.kind(), Some(CrossSlot | NoPerm | TryAgain)))
}
