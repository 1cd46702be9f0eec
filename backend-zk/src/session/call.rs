//! The requests of one call of the backend. They share one deadline.

use super::Session;
use super::watch::{NodeWatch, WatchTarget};
use super::zk_error::{ZkError, ZkResult};
use crate::locked;
use leasehold_core::{Clock, Error, ErrorKind, Moment, Result, SystemClock};
use std::future::Future;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use zookeeper_client::{Acl, Acls, Client, CreateMode, Error as Answer, Stat};

#[derive(Clone, Debug)]
pub(crate) struct SessionCall {
    session: Arc<Session>,
    client: Arc<Client>,
    deadline: Instant,
    limit: Duration,
}

impl SessionCall {
    pub(super) fn new(session: &Arc<Session>, limit: Duration) -> Result<Self> {
        let ended = || Error::new(ErrorKind::Unavailable, "the session with ZooKeeper has ended");
        let client = locked(&session.client).clone().ok_or_else(ended)?;
        Ok(Self { session: Arc::clone(session), client, deadline: Instant::now() + limit, limit })
    }

    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// False once the deadline has passed: a request would be sent, and its answer not awaited.
    pub(crate) fn has_time(&self) -> bool {
        Instant::now() < self.deadline
    }

    /// Creates an ephemeral sequential node, and lists its directory as it is after that. Both requests are sent at once, and
    /// the server keeps the order of a session. Answers the name of the node.
    pub(crate) async fn create_and_list(
        &self,
        directory: &str,
        prefix: &str,
        data: &[u8],
        acls: Acls<'_>,
    ) -> (ZkResult<(String, Stat)>, ZkResult<Vec<String>>) {
        let path = format!("{directory}/{prefix}");
        let options = CreateMode::EphemeralSequential.with_acls(acls);
        let creation = async {
            let (stat, sequence) = self.write(|client| client.create(&path, data, &options)).await?;
            Ok((format!("{prefix}{sequence}"), stat))
        };
        tokio::join!(biased; creation, self.list(directory))
    }

    pub(crate) async fn make(&self, path: &str, mode: CreateMode, acls: Acls<'_>) -> ZkResult<()> {
        let options = mode.with_acls(acls);
        self.write(|client| client.create(path, &[], &options)).await.map(drop)
    }

    /// Deletes a node. False if it was gone: so a delete can be repeated after a lost reply.
    pub(crate) async fn delete(&self, path: &str) -> ZkResult<bool> {
        if_exists(self.write(|client| client.delete(path, None)).await).map(|deleted| deleted.is_some())
    }

    /// The children of a directory, as the connected server has them; none if there is no directory. They are no older than any
    /// reply to this session. Watch events do not count: the library ignores their zxid.
    pub(crate) async fn list(&self, directory: &str) -> ZkResult<Vec<String>> {
        if_exists(self.in_time(self.client.list_children(directory)).await).map(Option::unwrap_or_default)
    }

    /// The same, as the leader had them after this call began. A leader that is cut off from its followers still answers this.
    pub(crate) async fn sync_and_list(&self, directory: &str) -> ZkResult<Vec<String>> {
        let (sync, children) =
            tokio::join!(biased; self.in_time(self.client.sync(directory)), self.list(directory));
        sync.and(children)
    }

    /// The same, as a majority had them after this call began, with a [proof](Self::prove). Both requests are sent at once.
    pub(crate) async fn prove_and_list(&self, directory: &str) -> ZkResult<Vec<String>> {
        let (proof, children) = tokio::join!(biased; self.prove(), self.list(directory));
        proof.and(children)
    }

    /// Proves that the session lives, by a write: a majority of the servers must agree to it. It deletes a node that does not
    /// exist. The failure too is a transaction of the majority (`PrepRequestProcessor`, `ErrorTxn`).
    ///
    /// `sync` proves nothing. A leader answers it alone, also one that is cut off from its followers and has not noticed yet,
    /// while these have another leader, which ends the session.
    pub(crate) async fn prove(&self) -> ZkResult<()> {
        // With a version that no node has.
        let delete = |client: &Client| client.delete(&self.session.proof_path, Some(i32::MIN));
        match self.write(delete).await {
            Err(ZkError::NoNode | ZkError::BadVersion) => Ok(()),
            answer => answer,
        }
    }

    /// Proves that the session lived at `moment` or later. Callers at one time share a proof.
    pub(crate) async fn prove_since(&self, moment: Moment) -> ZkResult<()> {
        let locked = timeout_at(self.deadline, self.session.proving.lock()).await;
        let _proving = locked.map_err(|_| ZkError::no_answer(self.limit))?;
        if self.session.proved_at() >= moment { Ok(()) } else { self.prove().await }
    }

    /// The data of a node; `None` if there is none.
    pub(crate) async fn read(&self, path: &str) -> ZkResult<Option<(Vec<u8>, Stat)>> {
        if_exists(self.in_time(self.client.get_data(path)).await)
    }

    /// Reads a node, and sets a watch that wakes the waker; no watch if the session has too many. `None` if there is no node: a
    /// check by `exists` would leave a watch on it.
    pub(crate) async fn watch(
        &self,
        path: &str,
        target: WatchTarget,
        waker: &Waker,
    ) -> ZkResult<Option<(Stat, Option<NodeWatch>)>> {
        let Some(permit) = self.session.watches.permit(target, path) else {
            return Ok(self.read(path).await?.map(|(_, stat)| (stat, None)));
        };
        let node = if_exists(self.in_time(self.client.get_and_watch_data(path)).await)?;
        Ok(node.map(|(_, stat, watcher)| (stat, Some(NodeWatch::new(watcher, waker, permit)))))
    }

    /// Whether a node exists. Newer servers want the right to read it (ZOOKEEPER-2590).
    pub(crate) async fn exists(&self, path: &str) -> ZkResult<bool> {
        self.in_time(self.client.check_stat(path)).await.map(|stat| stat.is_some())
    }

    /// The access list of a node; `None` if there is none.
    pub(crate) async fn access(&self, path: &str) -> ZkResult<Option<Vec<Acl>>> {
        if_exists(self.in_time(self.client.get_acl(path)).await.map(|(acls, _)| acls))
    }

    /// A write. Its answer proves that the session lived when it was sent, also if the state of a node refused it. A refusal by
    /// an access list may come from the connected server alone (`enableEagerACLCheck`), and proves nothing.
    async fn write<'a, T, F>(&'a self, request: impl FnOnce(&'a Client) -> F) -> ZkResult<T>
    where
        F: Future<Output = Result<T, Answer>>,
    {
        let sent_after = SystemClock::new().now();
        let answer = self.in_time(request(&self.client)).await;
        if !matches!(answer, Err(ZkError::Refused(_) | ZkError::Unimplemented | ZkError::Unknown(_))) {
            self.session.note_proof(sent_after);
        }
        answer
    }

    /// The library keeps requests while it is disconnected, so each has the deadline.
    async fn in_time<T>(&self, request: impl Future<Output = Result<T, Answer>>) -> ZkResult<T> {
        let answer = timeout_at(self.deadline, request).await.map_err(|_| ZkError::no_answer(self.limit))?;
        answer.map_err(ZkError::from)
    }
}

fn if_exists<T>(answer: ZkResult<T>) -> ZkResult<Option<T>> {
    match answer {
        Err(ZkError::NoNode) => Ok(None),
        answer => answer.map(Some),
    }
}
