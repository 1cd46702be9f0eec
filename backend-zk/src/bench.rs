//! The ensemble without a library over it, for `leasehold bench`.

use crate::ZooKeeperBackend;
use crate::contenders::{Queue, prefix_of};
use crate::session::{Trouble, Turn};
use crate::words::{self, Said};
use async_trait::async_trait;
use futures_util::future::join_all;
use leasehold_core::bench::{ByHand, Counters, Yardstick};
use leasehold_core::{Error, ErrorKind, HolderInfo, LockName, Namespace, OwnerId, Result};
use leasehold_store_url::StoreUrl;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use zookeeper_client::{Client, CreateMode, Error as Answer};

/// How long a server may take to answer a word.
const WORD: Duration = Duration::from_secs(1);
/// How many directories are deleted at a time.
const AT_ONCE: usize = 128;

/// Never used for a lock: it lends its session, and its words for paths.
#[derive(Debug)]
struct Raw {
    backend: ZooKeeperBackend,
    /// Another session, of who waits.
    waiter: ZooKeeperBackend,
    owner: OwnerId,
    holder: String,
}

/// The ensemble at this URL. Connects to nothing yet. Errors as of [`open`](crate::open).
pub fn open(url: &StoreUrl, namespace: &Namespace) -> Result<Option<Arc<dyn Yardstick>>> {
    Ok(Some(Arc::new(Raw {
        backend: ZooKeeperBackend::open(url, namespace)?,
        waiter: ZooKeeperBackend::open(url, namespace)?,
        owner: OwnerId::random()?,
        holder: HolderInfo::this_process().to_json(),
    })))
}

impl Raw {
    /// Stands in line and looks who is first, both sent at once; then leaves. Without a watch: nobody would tell this holder
    /// that its node is gone.
    async fn pair(&self, client: &Client, directory: &str) -> std::result::Result<bool, Answer> {
        let path = format!("{directory}/{}", prefix_of(self.owner));
        let access = self.backend.sessions.target().access;
        let options = CreateMode::EphemeralSequential.with_acls(access.of_contenders());
        let created = client.create(&path, self.holder.as_bytes(), &options);
        let (created, listed) = tokio::join!(created, client.list_children(directory));
        let (_, sequence) = created?;
        let first = Queue::of(listed?).places_of(self.owner) == [0];
        client.delete(&format!("{path}{sequence}"), None).await?;
        Ok(first)
    }

    /// Stands in line and is watched from another session; then leaves. How long it takes until that one hears of it.
    async fn notice(
        &self,
        client: &Client,
        waiter: &Client,
        directory: &str,
    ) -> std::result::Result<Duration, Answer> {
        let path = format!("{directory}/{}", prefix_of(self.owner));
        let access = self.backend.sessions.target().access;
        let options = CreateMode::EphemeralSequential.with_acls(access.of_contenders());
        let (_, sequence) = client.create(&path, self.holder.as_bytes(), &options).await?;
        let path = format!("{path}{sequence}");
        let (_, _, watcher) = waiter.get_and_watch_data(&path).await?;
        let begin = Instant::now();
        let heard = async {
            watcher.changed().await;
            Ok(begin.elapsed())
        };
        tokio::try_join!(client.delete(&path, None), heard).map(|((), heard)| heard)
    }

    async fn make(&self, turn: &Turn, directory: &str) -> Result<()> {
        self.backend.parents.make_lock(turn, directory).await.map_err(Trouble::into_error)
    }

    /// What every server of the URL says of itself; `None` if one does not.
    async fn facts(&self) -> Option<Vec<BTreeMap<String, String>>> {
        let target = self.backend.sessions.target();
        // A port with TLS answers no word.
        if target.tls.is_some() {
            return None;
        }
        let said = join_all(target.servers.each().map(|server| words::ask(server, "srvr", WORD))).await;
        let facts = said.into_iter().map(|said| match said {
            Ok(Said::This(facts)) => Some(facts),
            Ok(Said::NotAllowed) | Err(_) => None,
        });
        facts.collect()
    }
}

#[async_trait]
impl Yardstick for Raw {
    async fn server(&self) -> Result<String> {
        let facts = self.facts().await;
        let version = facts.iter().flatten().find_map(|facts| facts.get("Zookeeper version"));
        // `3.8.0-5a02b05eddb59f6ac762f7ea82e92a68eb9c0f99, built on 2022-02-25 08:49 UTC`
        let version = version.and_then(|version| version.split('-').next());
        Ok(format!("zookeeper {}", version.unwrap_or("of unknown version")))
    }

    fn has(&self, measure: ByHand) -> bool {
        measure != ByHand::TokenlessPair
    }

    async fn raw_pair(&self, name: &LockName) -> Result<()> {
        let directory = self.backend.names.directory_of(name);
        let turn = self.backend.sessions.turn().await?;
        loop {
            match self.pair(turn.bare(), &directory).await {
                Ok(true) => return Ok(()),
                Ok(false) => return Err(Error::new(ErrorKind::Busy, "a name for measuring is in use")),
                Err(Answer::NoNode) => self.make(&turn, &directory).await?,
                Err(error) => return Err(failed(&error)),
            }
        }
    }

    async fn raw_notice(&self, name: &LockName) -> Result<Duration> {
        let directory = self.backend.names.directory_of(name);
        let (turn, waiter) = (self.backend.sessions.turn().await?, self.waiter.sessions.turn().await?);
        loop {
            match self.notice(turn.bare(), waiter.bare(), &directory).await {
                Ok(heard) => return Ok(heard),
                Err(Answer::NoNode) => self.make(&turn, &directory).await?,
                Err(error) => return Err(failed(&error)),
            }
        }
    }

    /// Packets of requests, pings among them. Bytes are not counted.
    async fn counters(&self) -> Result<Option<Counters>> {
        let received = |facts: &BTreeMap<String, String>| facts.get("Received")?.parse::<u64>().ok();
        let Some(facts) = self.facts().await else { return Ok(None) };
        let commands: Option<u64> = facts.iter().map(received).sum();
        Ok(commands.map(|commands| Counters { commands, bytes: 0 }))
    }

    /// The servers would do it themselves, some time later.
    async fn forget(&self, names: &[LockName]) -> Result<()> {
        let turn = self.backend.sessions.turn().await?;
        for some in names.chunks(AT_ONCE) {
            let directories: Vec<String> =
                some.iter().map(|name| self.backend.names.directory_of(name)).collect();
            let deleted = directories.iter().map(|directory| turn.bare().delete(directory, None));
            for outcome in join_all(deleted).await {
                match outcome {
                    Ok(()) | Err(Answer::NoNode | Answer::NotEmpty) => {}
                    Err(error) => return Err(failed(&error)),
                }
            }
        }
        Ok(())
    }
}

fn failed(error: &Answer) -> Error {
    Error::new(ErrorKind::Unavailable, format!("a request for measuring failed: {error}"))
        .with_help("leave --raw out to measure without it")
}
