use crate::servers::ZOOKEEPER_SUPER_USER;
use crate::stores::cannot::not_held;
use leasehold::LockName;
use leasehold_conformance::Stop;
use std::time::Duration;
use zookeeper_client::{Acl, Acls, AuthId, Client, CreateMode, Error, Permission};

/// Limit for a connection: a server that is busy with thousands of waiters lets an administrator wait too.
const CONNECTED_WITHIN: Duration = Duration::from_secs(30);

/// A client of ZooKeeper for an administrator: the library under test is not asked.
pub(super) struct AdminClient {
    client: Client,
    directory: String,
}

impl AdminClient {
    /// Connects, for the locks in a directory.
    pub(super) async fn connect(servers: &str, directory: String) -> Result<Self, Stop> {
        let connector = Client::connector().with_auth("digest", ZOOKEEPER_SUPER_USER.as_bytes());
        let connecting = connector.with_session_timeout(Duration::from_secs(10)).connect(servers);
        let client = tokio::time::timeout(CONNECTED_WITHIN, connecting).await.map_err(Stop::failed)?;
        Ok(Self { client: client.map_err(Stop::failed)?, directory })
    }

    /// Deletes the nodes of the holders of a lock: the first in the queue, and with a reader the readers that follow it.
    pub(super) async fn delete_holders(&self, name: &LockName) -> Result<(), Stop> {
        let queue = self.queue(name);
        let mut places = self.client.list_children(&queue).await.map_err(Stop::failed)?;
        places.sort_by_key(|place| sequence(place));
        let readers = places.iter().take_while(|place| place.contains("-__READ__")).count();
        for place in places.iter().take(readers.max(1)) {
            match self.client.delete(&format!("{queue}/{place}"), None).await {
                Err(Error::NoNode) => return Err(not_held()),
                deleted => deleted.map_err(Stop::failed)?,
            }
        }
        if places.is_empty() { Err(not_held()) } else { Ok(()) }
    }

    /// Deletes all nodes of a lock and their parent in one transaction: no client takes a new place in between.
    pub(super) async fn delete_queue(&self, name: &LockName) -> Result<(), Stop> {
        let queue = self.queue(name);
        let mut deletion = self.client.new_multi_writer();
        for place in self.children(&queue).await? {
            deletion.add_delete(&format!("{queue}/{place}"), None).map_err(Stop::failed)?;
        }
        deletion.add_delete(&queue, None).map_err(Stop::failed)?;
        deletion.commit().await.map(drop).map_err(Stop::failed)
    }

    /// Deletes all nodes of all locks and their parents until none is left: waiters take new places meanwhile.
    pub(super) async fn delete_all(&self) -> Result<(), Stop> {
        while !self.children(&self.directory).await?.is_empty() {
            for queue in self.children(&self.directory).await? {
                let queue = format!("{}/{queue}", self.directory);
                for place in self.children(&queue).await? {
                    self.delete(&format!("{queue}/{place}")).await?;
                }
                self.delete(&queue).await?;
            }
        }
        Ok(())
    }

    /// Takes the rights to the locks away from everyone, or gives them back. A client without rights keeps its nodes. All nodes are
    /// written again, which wakes those who watch them: a waiter that nothing wakes would ask for nothing meanwhile.
    pub(super) async fn refuse(&self, refuse: bool) -> Result<(), Stop> {
        let user = if refuse { AuthId::authed() } else { AuthId::anyone() };
        let rights = [Acl::new(Permission::ALL, user)];
        if_there(self.client.set_acl(&self.directory, &rights, None).await)?;
        for queue in self.children(&self.directory).await? {
            let queue = format!("{}/{queue}", self.directory);
            if_there(self.client.set_acl(&queue, &rights, None).await)?;
            for place in self.children(&queue).await? {
                let place = format!("{queue}/{place}");
                if let Some((holder, _)) = if_there(self.client.get_data(&place).await)? {
                    if_there(self.client.set_data(&place, &holder, None).await)?;
                }
            }
        }
        Ok(())
    }

    /// The wall clock of the server that orders writes, in milliseconds: it stands on every node.
    pub(super) async fn wall_clock(&self) -> Result<i64, Stop> {
        let options = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
        let path = format!("/clock-{:08x}", fastrand::u32(..));
        let (stat, _) = self.client.create(&path, b"", &options).await.map_err(Stop::failed)?;
        self.delete(&path).await?;
        Ok(stat.ctime)
    }

    /// How many nodes of holders and waiters there are. Parents without children are the server's to remove, and do not count.
    pub(super) async fn places(&self) -> Result<usize, Stop> {
        let mut places = 0;
        for queue in self.children(&self.directory).await? {
            let stat =
                self.client.check_stat(&format!("{}/{queue}", self.directory)).await.map_err(Stop::failed)?;
            places += stat.map_or(0, |stat| usize::try_from(stat.num_children).unwrap_or_default());
        }
        Ok(places)
    }

    async fn delete(&self, node: &str) -> Result<(), Stop> {
        match self.client.delete(node, None).await {
            Ok(()) | Err(Error::NoNode | Error::NotEmpty) => Ok(()),
            Err(error) => Err(Stop::failed(error)),
        }
    }

    async fn children(&self, parent: &str) -> Result<Vec<String>, Stop> {
        if_there(self.client.list_children(parent).await).map(Option::unwrap_or_default)
    }

    /// The parent of a lock's nodes. A slash is the only character in the names of cases that a path does not take.
    fn queue(&self, name: &LockName) -> String {
        format!("{}/{}", self.directory, name.as_str().replace('/', "%2F"))
    }
}

fn if_there<T>(answer: Result<T, Error>) -> Result<Option<T>, Stop> {
    match answer {
        Err(Error::NoNode) => Ok(None),
        answer => answer.map(Some).map_err(Stop::failed),
    }
}

fn sequence(place: &str) -> Option<u64> {
    place.rsplit(['-', '_']).next()?.parse().ok()
}
