//! The requests of one call of the backend, with the one deadline that they share.

use super::listening::Listening;
use super::room::Whose;
use super::trouble::{Outcome, Trouble};
use super::{Session, over};
use crate::place::Place;
use leasehold_core::{FencingToken, Result};
use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};
use zookeeper_client::{
    Acl, Acls, Client, CreateMode, Error as Answer, MultiWriteError, OneshotWatcher, Stat,
};

/// A version that no node has.
const NEVER: i32 = i32::MIN;

/// A session for the time of one call.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    session: Arc<Session>,
    client: Arc<Client>,
    until: Instant,
    limit: Duration,
}

/// A read that begins a watch, to be made later.
#[derive(Debug)]
pub(super) struct Read {
    /// Not a handle of its own: the session ends with the last one, and is not to wait for this.
    client: Weak<Client>,
    path: String,
    made_by: FencingToken,
    limit: Duration,
}

impl Turn {
    pub(super) fn new(session: &Arc<Session>, limit: Duration) -> Result<Self> {
        let client = session.client().ok_or_else(over)?;
        Ok(Self { session: Arc::clone(session), client, until: Instant::now() + limit, limit })
    }

    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// An answer to which nobody need wait, once that to another request has come which was sent with it. It is given up if
    /// it is late, as where the connection falls silent between the two.
    pub(crate) async fn not_for_long<T>(&self, answer: impl Future<Output = T>) -> Option<T> {
        timeout(self.limit / 8, answer).await.ok()
    }

    /// Creates a node of the queue, whose name it answers.
    pub(crate) async fn stand(
        &self,
        directory: &str,
        prefix: &str,
        data: &[u8],
        acls: Acls<'_>,
    ) -> Outcome<(String, Stat)> {
        let options = CreateMode::EphemeralSequential.with_acls(acls);
        let path = format!("{directory}/{prefix}");
        let (stat, sequence) = self.in_time(self.client.create(&path, data, &options)).await?;
        Ok((format!("{prefix}{sequence}"), stat))
    }

    /// As well, and lists the directory as it is after that. Both are sent at once; the server keeps the order of a
    /// session's requests.
    pub(crate) async fn stand_and_list(
        &self,
        directory: &str,
        prefix: &str,
        data: &[u8],
        acls: Acls<'_>,
    ) -> (Outcome<(String, Stat)>, Outcome<Vec<String>>) {
        tokio::join!(self.stand(directory, prefix, data, acls), self.list_as_seen(directory))
    }

    /// Creates a directory.
    pub(crate) async fn make(&self, path: &str, mode: CreateMode, acls: Acls<'_>) -> Outcome<()> {
        self.in_time(self.client.create(path, &[], &mode.with_acls(acls))).await.map(drop)
    }

    /// Whether this user may create nodes in a directory. None is created: it is asked for together with what cannot be, so
    /// that neither is done. The root is `""`.
    pub(crate) async fn may_make_in(&self, directory: &str, acls: Acls<'_>) -> Outcome<bool> {
        let mut both = self.client.new_multi_writer();
        let node = format!("{directory}/never");
        both.add_create(&node, &[], &CreateMode::Persistent.with_acls(acls)).map_err(Trouble::from)?;
        let itself = if directory.is_empty() { "/" } else { directory };
        both.add_check_version(itself, NEVER).map_err(Trouble::from)?;
        let answer = both.commit();
        self.in_time(async {
            match answer.await {
                Err(MultiWriteError::RequestFailed { source }) => Err(source),
                Err(MultiWriteError::OperationFailed { index: 0, source: Answer::NoAuth }) => Ok(false),
                Err(MultiWriteError::OperationFailed { index: 0, source: Answer::NoNode }) => {
                    Err(Answer::NoNode)
                }
                Ok(_) | Err(MultiWriteError::OperationFailed { .. }) => Ok(true),
            }
        })
        .await
    }

    /// The children of a directory, no older than what the leader knows: the server that we are connected to has first to
    /// hear of it. No proof of anything: a leader that is cut off answers as well, until it notices.
    pub(crate) async fn list(&self, directory: &str) -> Outcome<Vec<String>> {
        let (heard, listed) = (self.client.sync(directory), self.client.list_children(directory));
        let (heard, listed) = tokio::join!(self.in_time(heard), self.in_time(listed));
        heard.and(listed)
    }

    /// The children of a directory as the server that we are connected to knows them: no older than what it has told us
    /// of, however long its leader may have been silent.
    pub(crate) async fn list_as_seen(&self, directory: &str) -> Outcome<Vec<String>> {
        self.in_time(self.client.list_children(directory)).await
    }

    /// The children of a directory, no older than this call, and the [proof](Self::prove), sent at once.
    pub(crate) async fn prove_and_list(&self, directory: &str) -> Outcome<Vec<String>> {
        let (proved, listed) = (self.proof(), self.client.list_children(directory));
        let (proved, listed) = tokio::join!(self.in_time(proved), self.in_time(listed));
        proved.and(listed)
    }

    /// Proves that the session lives: by a request that a majority of the servers has to agree to.
    ///
    /// `sync` is none. A leader answers it alone, also one that is cut off from its followers and has not noticed yet, while
    /// those have another leader that ends the session. A write waits for the majority, and one that fails does too: the
    /// leader proposes the failure (`PrepRequestProcessor`, `ErrorTxn`).
    pub(crate) async fn prove(&self) -> Outcome<()> {
        self.in_time(self.proof()).await
    }

    /// The same, for whoever need not know of a moment before the call: one proof for all who are waiting for one.
    pub(crate) async fn prove_with_others(&self) -> Outcome<()> {
        // Sent when it is polled, and not before.
        self.session.proof.ask(self.limit / 4, async { self.prove().await }).await
    }

    /// Sent by this call. "No such node" and "another version" are answers of the majority. "Not allowed" need not be one:
    /// with `enableEagerACLCheck` the server that we are connected to says so by itself.
    fn proof(&self) -> impl Future<Output = Result<(), Answer>> {
        let deleted = self.client.delete(&self.session.nowhere, Some(NEVER));
        async {
            match deleted.await {
                Err(Answer::NoNode | Answer::BadVersion) => Ok(()),
                answer => answer,
            }
        }
    }

    /// What a node holds.
    pub(crate) async fn read(&self, path: &str) -> Outcome<(Vec<u8>, Stat)> {
        self.in_time(self.client.get_data(path)).await
    }

    /// What is known of a node, and the bell rings when that changes, if there is [room](super::room) to listen. Not by
    /// "exists", which leaves a watch on a node that is not there.
    pub(crate) async fn read_and_watch(
        &self,
        path: &str,
        whose: Whose,
        place: &Arc<Place>,
    ) -> Outcome<(Stat, Listening)> {
        place.bell.listen();
        self.read_and_watch_listening(path, whose, place).await
    }

    /// For one whose bell listens already.
    pub(crate) async fn read_and_watch_listening(
        &self,
        path: &str,
        whose: Whose,
        place: &Arc<Place>,
    ) -> Outcome<(Stat, Listening)> {
        let room = &self.session.room;
        let Some(share) = room.share(whose, path) else {
            let (_, stat) = self.read(path).await?;
            return Ok((stat, Listening::to_nothing(room.outside())));
        };
        let (_, stat, watcher) = self.in_time(self.client.get_and_watch_data(path)).await?;
        Ok((stat, Listening::to(watcher, place, share)))
    }

    /// Listens to the node that this transaction made, without waiting for the read that begins it, which comes a
    /// moment later. If the node is gone by then, or another of its name is there, or the read fails, the bell rings as
    /// for a change. Its own node: there is no read if there is no room to listen.
    pub(crate) fn watch_later(&self, path: String, made_by: FencingToken, place: &Arc<Place>) -> Listening {
        place.bell.listen();
        let room = &self.session.room;
        let Some(share) = room.share(Whose::Own, &path) else {
            return Listening::to_nothing(room.outside());
        };
        let read = Read { client: Arc::downgrade(&self.client), path, made_by, limit: self.limit };
        self.session.soon.enter(read, place, share)
    }

    /// Deletes a node.
    pub(crate) async fn delete(&self, path: &str) -> Outcome<()> {
        self.in_time(self.client.delete(path, None)).await
    }

    /// Whether there is such a node. Everybody may ask that, and of newer servers only who may read it (ZOOKEEPER-2590).
    pub(crate) async fn is_there(&self, path: &str) -> Outcome<bool> {
        self.in_time(self.client.check_stat(path)).await.map(|stat| stat.is_some())
    }

    /// The access list of a node.
    pub(crate) async fn access(&self, path: &str) -> Outcome<Vec<Acl>> {
        self.in_time(self.client.get_acl(path)).await.map(|(acls, _)| acls)
    }

    /// Every request has the deadline: while it is disconnected, the library keeps requests until it is connected again
    /// or gives up.
    async fn in_time<T>(&self, request: impl Future<Output = Result<T, Answer>>) -> Outcome<T> {
        let answer = timeout_at(self.until, request).await.map_err(|_| Trouble::silence(self.limit))?;
        answer.map_err(Trouble::from)
    }
}

impl Read {
    /// The watch; `None` if the node is not there, or is not the one.
    pub(super) async fn watch(self) -> Option<OneshotWatcher> {
        let client = self.client.upgrade()?;
        let read = timeout(self.limit, client.get_and_watch_data(&self.path)).await;
        let (_, stat, watcher) = read.ok()?.ok()?;
        (stat.czxid.unsigned_abs() == self.made_by.get()).then_some(watcher)
    }

    /// One that finds nothing.
    #[cfg(test)]
    pub(super) fn of_nothing() -> Self {
        Self {
            client: Weak::new(),
            path: String::new(),
            made_by: FencingToken::new(1),
            limit: Duration::ZERO,
        }
    }
}
