use crate::ZooKeeperBackend;
use crate::check;
use crate::claims::token;
use crate::parents;
use crate::queue::{Contender, Queue};
use crate::session::{SessionCall, ZkError};
use async_trait::async_trait;
use futures_util::future::{join_all, try_join_all};
use leasehold_core::{
    ErrorKind, FencingToken, Finding, HoldKind, HolderInfo, LockAdmin, LockName, LockStatus, Result, Waiter,
};
use std::time::{Duration, SystemTime};
use zookeeper_client::{CreateMode, Stat};

const READS_AT_ONCE: usize = 256;

#[async_trait]
impl LockAdmin for ZooKeeperBackend {
    /// A hold of another program is shown like one of ours: its node has an owner and a token too, and its data is given as the
    /// description. The time is that of the node: the begin of the wait or of the hold.
    async fn inspect(&self, name: &LockName) -> Result<Vec<LockStatus>> {
        inspect(&self.sessions.call().await?, &self.names.directory_of(name), name).await
    }

    /// Reads the names of all locks there are, then the holders of each that fits. A lock that may not be read is left out.
    async fn list(&self, prefix: &str) -> Result<Vec<LockStatus>> {
        let children = self.sessions.call().await?.sync_and_list(&self.names.base).await;
        let children = children.map_err(ZkError::into_read_error)?;
        let mut names: Vec<LockName> =
            children.iter().filter_map(|segment| self.names.name(segment)).collect();
        names.retain(|name| name.as_str().starts_with(prefix));
        names.sort();
        let mut held = Vec::new();
        for names in names.chunks(READS_AT_ONCE) {
            let call = self.sessions.call().await?;
            let inspected =
                names.iter().map(async |name| inspect(&call, &self.names.directory_of(name), name).await);
            for holds in join_all(inspected).await {
                match holds {
                    Err(error) if error.kind() == ErrorKind::Denied => {}
                    holds => held.extend(holds?),
                }
            }
        }
        Ok(held)
    }

    /// In the order in which they will be served.
    async fn waiters(&self, name: &LockName) -> Result<Vec<Waiter>> {
        let directory = self.names.directory_of(name);
        let queue = queue(&self.sessions.call().await?, &directory).await?;
        let mut waiters = Vec::new();
        for contenders in split_holders(&queue).1.chunks(READS_AT_ONCE) {
            let call = self.sessions.call().await?;
            let read = try_join_all(contenders.iter().map(|it| read(&call, &directory, it))).await?;
            waiters.extend(contenders.iter().zip(read).filter_map(|(contender, node)| {
                let (holder, stat) = node?;
                let mut waiter = Waiter::new(contender.owner(), holder);
                // By the clocks of two hosts: for people only.
                waiter.waiting =
                    created_at(&stat).and_then(|since| SystemTime::now().duration_since(since).ok());
                Some(waiter)
            }));
        }
        Ok(waiters)
    }

    /// Deletes the nodes of the holders by their own names, so it cannot hit the next holder.
    async fn force_release(&self, name: &LockName, only_if: Option<FencingToken>) -> Result<Vec<LockStatus>> {
        let (call, directory) = (self.sessions.call().await?, self.names.directory_of(name));
        let mut released = Vec::new();
        for holder in split_holders(&queue(&call, &directory).await?).0 {
            let Some(node) = read(&call, &directory, holder).await? else { continue };
            let status = status(name, holder, node);
            if only_if.is_none() || status.token == only_if {
                let deleted = call.delete(&format!("{directory}/{}", holder.node)).await;
                if deleted.map_err(ZkError::into_error)? {
                    released.push(status);
                }
            }
        }
        Ok(released)
    }

    /// Makes the directory of the locks, with its access list.
    async fn init(&self) -> Result<()> {
        let (call, base) = (self.sessions.call().await?, &self.names.base);
        let access = self.sessions.target.access;
        let made = parents::make(&call, access, base, CreateMode::Persistent).await;
        match made.map_err(ZkError::into_error) {
            // The server checks the right to make it before it checks whether it exists.
            Err(error) if error.kind() == ErrorKind::Denied => {
                let exists = call.exists(base).await.map_err(ZkError::into_read_error)?;
                if exists { Ok(()) } else { Err(error) }
            }
            answer => answer,
        }
    }

    /// For `zkCli.sh`; with a user, after its `addauth`.
    fn init_script(&self) -> Option<String> {
        Some(parents::script(self.sessions.target.access, &self.names.base))
    }

    /// Deletes their directories. The server would do it itself, some time later.
    async fn forget(&self, names: &[LockName]) -> Result<()> {
        for names in names.chunks(READS_AT_ONCE) {
            let call = self.sessions.call().await?;
            let deleted =
                names.iter().map(async |name| match call.delete(&self.names.directory_of(name)).await {
                    Ok(_) | Err(ZkError::NotEmpty) => Ok(()),
                    Err(error) => Err(error.into_error()),
                });
            try_join_all(deleted).await?;
        }
        Ok(())
    }

    async fn check(&self) -> Result<Vec<Finding>> {
        check::check(self).await
    }
}

/// The holds of a lock. A holder that leaves between the list and the read is left out. If none is left, the next may hold by then: so it
/// lists again, until the deadline of the call.
async fn inspect(call: &SessionCall, directory: &str, name: &LockName) -> Result<Vec<LockStatus>> {
    loop {
        let queue = queue(call, directory).await?;
        let (holders, _) = split_holders(&queue);
        let nodes = try_join_all(holders.iter().map(|holder| read(call, directory, holder))).await?;
        let nodes = holders.iter().zip(nodes);
        let holds: Vec<_> = nodes.filter_map(|(holder, node)| Some(status(name, holder, node?))).collect();
        if holders.is_empty() || !holds.is_empty() {
            return Ok(holds);
        }
    }
}

async fn queue(call: &SessionCall, directory: &str) -> Result<Queue> {
    call.sync_and_list(directory).await.map(Queue::of).map_err(ZkError::into_read_error)
}

/// The holders, and the waiters behind them.
fn split_holders(queue: &Queue) -> (&[Contender], &[Contender]) {
    let contenders = queue.contenders();
    let holders = (0..contenders.len()).take_while(|index| queue.blocker(*index).is_none()).count();
    contenders.split_at(holders)
}

/// The data and metadata of a contender; `None` if it has left.
async fn read(
    call: &SessionCall,
    directory: &str,
    contender: &Contender,
) -> Result<Option<(HolderInfo, Stat)>> {
    let node =
        call.read(&format!("{directory}/{}", contender.node)).await.map_err(ZkError::into_read_error)?;
    Ok(node.map(|(data, stat)| (HolderInfo::from_json(&String::from_utf8_lossy(&data)), stat)))
}

fn status(name: &LockName, contender: &Contender, (holder, stat): (HolderInfo, Stat)) -> LockStatus {
    let mut status = LockStatus::new(name.clone());
    // A permanent node, which another program has made, ends with no session.
    status.hold = if stat.ephemeral_owner == 0 { HoldKind::Lease } else { HoldKind::Session };
    status.mode = contender.mode;
    status.owner = contender.owner();
    status.token = Some(token(&stat));
    status.holder = holder;
    status.acquired_at = created_at(&stat);
    status
}

fn created_at(stat: &Stat) -> Option<SystemTime> {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(stat.ctime.try_into().ok()?))
}
