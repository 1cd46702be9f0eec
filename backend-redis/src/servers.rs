//! The servers of one store, as those see them who want something of a name.

use crate::cluster::Cluster;
use crate::link::{Call, Confirmed, Link, Matter};
use crate::mailbox::Mailbox;
use crate::scripts::Script;
use crate::sentinel::Sentinels;
use crate::target::{Deployment, Replicas};
use leasehold_core::{Error, Result};
use redis::{ServerErrorKind, Value};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// How long a waiter stays to be told that it will hear of its turn: half of the time between two heartbeats.
const LISTENS_WITHIN: Duration = Duration::from_millis(250);

/// The servers of one store.
#[derive(Debug)]
pub(crate) enum Servers {
    /// One server has all names: always the same, or the primary of the moment.
    One(Arc<PrimaryNode>),
    /// Several have some names each.
    Cluster(Cluster),
}

/// One server, and the channel on which this process hears from it and from no other.
#[derive(Debug)]
pub(crate) struct PrimaryNode {
    pub(crate) link: Link,
    pub(crate) channel: String,
}

/// What came of a call.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) reply: Value,
    /// Whether whoever listens will hear.
    pub(crate) hears: bool,
    /// Whether the replicas have what it wrote, if they were asked.
    pub(crate) confirmed: Option<Confirmed>,
}

/// A call for several names that nothing came of.
#[derive(Debug)]
pub(crate) struct Refused {
    /// True if the node takes them only one by one, because their keys are not all in one place.
    pub(crate) is_torn_apart: bool,
    pub(crate) why: Error,
}

impl From<Error> for Refused {
    fn from(why: Error) -> Self {
        Self { is_torn_apart: false, why }
    }
}

/// What is expected of a call beside its reply.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Manner {
    Plain,
    /// Its owner will wait for a message: the script has one argument more, the channel.
    Listening,
    /// So many replicas are to have what it wrote.
    Confirmed(Replicas, Matter),
}

impl Servers {
    /// The servers of a deployment. Connects to nothing yet.
    pub(crate) fn new(deployment: Deployment, mailbox: &Arc<Mailbox>, channel: String) -> Self {
        let mailbox = Arc::clone(mailbox);
        let link = match deployment {
            Deployment::Single(target) => Link::new(target, mailbox),
            Deployment::Sentinel(group) => Link::to_primary(Sentinels::new(group), mailbox),
            Deployment::Cluster(seeds) => return Self::Cluster(Cluster::new(seeds, mailbox, channel)),
        };
        Self::One(Arc::new(PrimaryNode { link, channel }))
    }

    /// Runs a script where its keys lie, and gives its reply. They lie in one slot.
    ///
    /// # Errors
    ///
    /// As of [`Link::run`].
    pub(crate) async fn run(&self, script: &'static Script, keys: &[&str], args: &[&str]) -> Result<Value> {
        match self {
            Self::One(node) => node.link.run(script, keys, args).await,
            Self::Cluster(_) => {
                let call = self.call(Call::new(script, keys, args), Manner::Plain);
                Box::pin(call).await.map(|answer| answer.reply)
            }
        }
    }

    /// As [`run`](Self::run), for keys of several names. Also says of a refusal whether each name by itself may be served.
    pub(crate) async fn run_together(
        &self,
        script: &'static Script,
        keys: &[&str],
        args: &[&str],
        manner: Manner,
    ) -> Result<Answer, Refused> {
        let call = Call::new(script, keys, args);
        let (node, answer) = self.ask(call, manner).await?;
        let is_torn_apart = is_torn_apart(&answer.reply);
        let understood = node.link.understood(&call, answer.reply).await;
        let reply = understood.map_err(|why| Refused { is_torn_apart, why })?;
        Ok(Answer { reply, ..answer })
    }

    /// As [`run`](Self::run), for somebody who will wait for a message. Also says whether it will be heard.
    pub(crate) async fn run_listening(
        &self,
        script: &'static Script,
        keys: &[&str],
        args: &[&str],
    ) -> Result<(Value, bool)> {
        let answer = self.call(Call::new(script, keys, args), Manner::Listening).await?;
        Ok((answer.reply, answer.hears))
    }

    /// As [`run`](Self::run); afterwards waits for replicas to have what it wrote, and says whether they have.
    pub(crate) async fn run_confirmed(
        &self,
        script: &'static Script,
        keys: &[&str],
        args: &[&str],
        replicas: Replicas,
        matter: Matter,
    ) -> Result<(Value, Confirmed)> {
        let manner = Manner::Confirmed(replicas, matter);
        let answer = self.call(Call::new(script, keys, args), manner).await?;
        // Not asked is as good as not confirmed.
        Ok((answer.reply, answer.confirmed.unwrap_or(Confirmed::By(0))))
    }

    /// Sees to it that messages on this key's name are heard. True if they are, by now: who stays for it sends no heartbeat.
    pub(crate) async fn listen(&self, key: &str) -> bool {
        let node = match self {
            Self::One(node) => Ok(Arc::clone(node)),
            Self::Cluster(cluster) => cluster.node_of(key).await,
        };
        match node {
            // What is begun goes on, in a task of its own.
            Ok(node) => timeout(LISTENS_WITHIN, node.link.listen(&node.channel)).await.unwrap_or(false),
            Err(_) => false,
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
    pub(crate) fn have_slots(&self) -> bool {
        matches!(self, Self::Cluster(_))
    }

    /// Which of them has the key as far as is known, as a number: one that does not answer holds up nobody elsewhere.
    pub(crate) fn number_of(&self, key: &str) -> u64 {
        match self {
            Self::One(_) => 0,
            Self::Cluster(cluster) => cluster.number_of_node(key),
        }
    }

    /// Ends the connections. What is under way gets no answer.
    pub(crate) fn close(&self) {
        match self {
            Self::One(node) => node.link.close(),
            Self::Cluster(cluster) => cluster.close(),
        }
    }

    async fn call(&self, call: Call<'_>, manner: Manner) -> Result<Answer> {
        let (node, answer) = self.ask(call, manner).await?;
        Ok(Answer { reply: node.link.understood(&call, answer.reply).await?, ..answer })
    }

    /// The very reply, which may be an error of the server, and who gave it.
    async fn ask(&self, call: Call<'_>, manner: Manner) -> Result<(Arc<PrimaryNode>, Answer)> {
        match self {
            Self::One(node) => Ok((Arc::clone(node), node.ask(&call, manner).await?)),
            Self::Cluster(cluster) => Box::pin(cluster.ask(call, manner)).await,
        }
    }
}

fn is_torn_apart(reply: &Value) -> bool {
    let Value::ServerError(error) = reply else { return false };
    matches!(error.kind(), Some(ServerErrorKind::TryAgain | ServerErrorKind::CrossSlot))
}

impl PrimaryNode {
    /// Calls a script and gives the very reply, which may be an error of the server.
    pub(crate) async fn ask(&self, call: &Call<'_>, manner: Manner) -> Result<Answer> {
        let (reply, hears, confirmed) = match manner {
            Manner::Plain => (self.link.ask(call).await?, false, None),
            Manner::Listening => {
                let (reply, hears) = self.link.ask_listening(call, &self.channel).await?;
                (reply, hears, None)
            }
            Manner::Confirmed(replicas, matter) => {
                let (reply, confirmed) = self.link.ask_confirmed(call, replicas, matter).await?;
                (reply, false, Some(confirmed))
            }
        };
        Ok(Answer { reply, hears, confirmed })
    }
}
