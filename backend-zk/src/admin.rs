use crate::ZooKeeperBackend;
use crate::check;
use crate::contenders::Contender;
use crate::recipe;
use crate::session::{Trouble, Turn};
use crate::ties;
use async_trait::async_trait;
use futures_util::future::try_join_all;
use leasehold_core::{
    Error, ErrorKind, FencingToken, Finding, HoldKind, HolderInfo, LockAdmin, LockName, LockStatus, Result,
    Waiter,
};
use std::time::{Duration, SystemTime};
use zookeeper_client::Stat;

/// How many nodes are read at once.
const AT_ONCE: usize = 256;

#[async_trait]
impl LockAdmin for ZooKeeperBackend {
    /// A lock that another program holds is told as one of ours: its node has an owner and a token too, and its data is
    /// given as the description. The time is that of its node: since when it holds the lock or began to wait for it.
    async fn inspect(&self, name: &LockName) -> Result<Vec<LockStatus>> {
        let held = inspect(&self.turn_to_look().await?, &self.names.directory_of(name), name).await?;
        Ok(held.into_iter().collect())
    }

    /// Reads the names of all locks there are, then the first in line of each that fits. Those that may not be read are
    /// passed over.
    async fn list(&self, prefix: &str) -> Result<Vec<LockStatus>> {
        let children = match self.turn_to_look().await?.list(self.names.base()).await {
            Err(Trouble::NoNode) => return Ok(Vec::new()),
            listed => listed.map_err(Trouble::of_read)?,
        };
        let mut names: Vec<LockName> =
            children.iter().filter_map(|segment| self.names.name(segment)).collect();
        names.retain(|name| name.as_str().starts_with(prefix));
        names.sort();
        let mut held = Vec::new();
        for names in names.chunks(AT_ONCE) {
            let turn = self.turn_to_look().await?;
            let looks = names.iter().map(|name| {
                let (turn, directory) = (&turn, self.names.directory_of(name));
                async move {
                    match inspect(turn, &directory, name).await {
                        Err(error) if error.kind() == ErrorKind::Denied => Ok(None),
                        looked => looked,
                    }
                }
            });
            held.extend(try_join_all(looks).await?.into_iter().flatten());
        }
        Ok(held)
    }

    /// In the order in which they will be served.
    async fn waiters(&self, name: &LockName) -> Result<Vec<Waiter>> {
        let directory = self.names.directory_of(name);
        let line = line(&self.turn_to_look().await?, &directory).await?;
        let mut waiters = Vec::new();
        for contenders in line.get(1..).unwrap_or_default().chunks(AT_ONCE) {
            let turn = self.turn_to_look().await?;
            let looks = contenders.iter().map(|contender| look(&turn, &directory, contender));
            let seen = try_join_all(looks).await?;
            waiters.extend(contenders.iter().zip(seen).filter_map(|(contender, seen)| {
                let (holder, stat) = seen?;
                // By the clocks of two hosts: for people only.
                let waiting = since(&stat).and_then(|since| SystemTime::now().duration_since(since).ok());
                let mut waiter = Waiter::new(contender.owner(), holder);
                waiter.waiting = waiting;
                Some(waiter)
            }));
        }
        Ok(waiters)
    }

    /// Deletes the holder's node, which has the holder's own name: it cannot hit the next one.
    async fn force_release(&self, name: &LockName, only_if: Option<FencingToken>) -> Result<Vec<LockStatus>> {
        let (turn, directory) = (self.turn_to_look().await?, self.names.directory_of(name));
        let Some(first) = line(&turn, &directory).await?.into_iter().next() else {
            return Ok(Vec::new());
        };
        let Some(seen) = look(&turn, &directory, &first).await? else {
            return Ok(Vec::new());
        };
        let status = status(name, &first, seen);
        if only_if.is_some() && status.token != only_if {
            return Ok(Vec::new());
        }
        let deleted = recipe::delete(&turn, &format!("{directory}/{}", first.node)).await;
        let deleted = deleted.map_err(Trouble::into_error)?;
        Ok(deleted.then_some(status).into_iter().collect())
    }

    /// Makes the directory of the locks, with its access list.
    async fn init(&self) -> Result<()> {
        let (turn, base) = (self.turn_to_look().await?, self.names.base());
        match self.parents.make(&turn, base).await.map_err(Trouble::into_error) {
            // Whoever may not make it is told so before whether it is there.
            Err(error) if error.kind() == ErrorKind::Denied => {
                let is_there = turn.is_there(base).await.map_err(Trouble::of_read)?;
                if is_there { Ok(()) } else { Err(error) }
            }
            made => made,
        }
    }

    /// For `zkCli.sh`; with a user, after its `addauth`.
    fn init_script(&self) -> Option<String> {
        Some(self.parents.in_words(self.names.base()))
    }

    /// Deletes their directories. The server would do it itself, some time later.
    async fn forget(&self, names: &[LockName]) -> Result<()> {
        for names in names.chunks(AT_ONCE) {
            let turn = self.turn_to_look().await?;
            let deleted = names.iter().map(|name| {
                let (turn, directory) = (&turn, self.names.directory_of(name));
                async move {
                    match turn.delete(&directory).await {
                        Ok(()) | Err(Trouble::NoNode | Trouble::NotEmpty) => Ok(()),
                        Err(trouble) => Err(trouble.into_error()),
                    }
                }
            });
            try_join_all(deleted).await?;
        }
        Ok(())
    }

    async fn check(&self) -> Result<Vec<Finding>> {
        check::check(self).await
    }
}

impl ZooKeeperBackend {
    async fn turn_to_look(&self) -> Result<Turn> {
        self.sessions.turn().await
    }
}

async fn inspect(turn: &Turn, directory: &str, name: &LockName) -> Result<Option<LockStatus>> {
    // The first may leave between the two looks; then there is another first, or none.
    for _ in 0..LOOKS {
        let Some(first) = line(turn, directory).await?.into_iter().next() else {
            return Ok(None);
        };
        if let Some(seen) = look(turn, directory, &first).await? {
            return Ok(Some(status(name, &first, seen)));
        }
    }
    Err(Error::new(
        ErrorKind::Unavailable,
        format!("lock {name:?} changes hands faster than it can be looked at"),
    )
    .with_help("try again"))
}

/// How often a first in line that has just left is looked for again.
const LOOKS: usize = 16;

async fn line(turn: &Turn, directory: &str) -> Result<Vec<Contender>> {
    let children = match turn.list(directory).await {
        Err(Trouble::NoNode) => return Ok(Vec::new()),
        listed => listed.map_err(Trouble::of_read)?,
    };
    let line = ties::line(turn, directory, children).await.map_err(Trouble::of_read)?;
    Ok(line.into_contenders())
}

/// What a contender says of itself; `None` if it has left.
async fn look(turn: &Turn, directory: &str, contender: &Contender) -> Result<Option<(HolderInfo, Stat)>> {
    match turn.read(&format!("{directory}/{}", contender.node)).await {
        Ok((data, stat)) => Ok(Some((HolderInfo::from_json(&String::from_utf8_lossy(&data)), stat))),
        Err(Trouble::NoNode) => Ok(None),
        Err(trouble) => Err(trouble.of_read()),
    }
}

fn status(name: &LockName, contender: &Contender, (holder, stat): (HolderInfo, Stat)) -> LockStatus {
    let mut status = LockStatus::new(name.clone());
    // A node that another program has made to stay ends with nobody.
    status.hold = if stat.ephemeral_owner == 0 { HoldKind::Lease } else { HoldKind::Session };
    status.owner = contender.owner();
    status.token = Some(FencingToken::new(stat.czxid.unsigned_abs()));
    status.holder = holder;
    status.acquired_at = since(&stat);
    status
}

fn since(stat: &Stat) -> Option<SystemTime> {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(stat.ctime.try_into().ok()?))
}
