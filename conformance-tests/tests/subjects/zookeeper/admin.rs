use super::cannot;
use leasehold::LockName;
use leasehold_conformance::Cannot;
use std::time::Duration;
use zookeeper_client::{Client, Error};

/// An administrator with ZooKeeper's own means: the library under test is not asked.
pub(super) struct Admin {
    client: Client,
    directory: String,
}

impl Admin {
    /// For the locks in a directory.
    pub(super) async fn connect(servers: &str, directory: &str) -> Result<Self, Cannot> {
        let connecting = Client::connector().with_session_timeout(Duration::from_secs(10)).connect(servers);
        let client = tokio::time::timeout(Duration::from_secs(5), connecting).await.map_err(cannot)?;
        Ok(Self { client: client.map_err(cannot)?, directory: directory.to_owned() })
    }

    /// Deletes the first place in the queue of a lock: the node of its holder.
    pub(super) async fn delete_holder(&self, name: &LockName) -> Result<(), Cannot> {
        let queue = self.queue(name);
        let places = self.client.list_children(&queue).await.map_err(cannot)?;
        let first = places.into_iter().min_by_key(|place| sequence(place));
        let first = first.ok_or_else(|| Cannot::new(format!("{queue} has no places")))?;
        self.client.delete(&format!("{queue}/{first}"), None).await.map_err(cannot)
    }

    /// Deletes all places of a lock, and where they are.
    pub(super) async fn delete_queue(&self, name: &LockName) -> Result<(), Cannot> {
        self.delete_tree(&self.queue(name)).await
    }

    /// Deletes all locks, and where they are.
    pub(super) async fn delete_all(&self) -> Result<(), Cannot> {
        self.delete_tree(&self.directory).await
    }

    /// How many nodes there are with a holder or waiter behind them, and where they are. Directories of locks that
    /// nobody wants are the server's to remove; they do not count.
    pub(super) async fn places(&self) -> Result<usize, Cannot> {
        let mut places = 0;
        for queue in self.children(&self.directory).await? {
            places += self.children(&format!("{}/{queue}", self.directory)).await?.len();
        }
        Ok(places)
    }

    /// Again and again: those who wait take new places meanwhile.
    async fn delete_tree(&self, root: &str) -> Result<(), Cannot> {
        loop {
            let mut found = vec![root.to_owned()];
            let mut next = 0;
            while next < found.len() {
                let parent = found[next].clone();
                found.extend(
                    self.children(&parent).await?.into_iter().map(|child| format!("{parent}/{child}")),
                );
                next += 1;
            }
            let mut done = true;
            for node in found.iter().rev() {
                match self.client.delete(node, None).await {
                    Ok(()) | Err(Error::NoNode) => {}
                    Err(Error::NotEmpty) => done = false,
                    Err(error) => return Err(cannot(error)),
                }
            }
            if done {
                return Ok(());
            }
        }
    }

    async fn children(&self, parent: &str) -> Result<Vec<String>, Cannot> {
        match self.client.list_children(parent).await {
            Ok(children) => Ok(children),
            Err(Error::NoNode) => Ok(Vec::new()),
            Err(error) => Err(cannot(error)),
        }
    }

    /// The names of the cases that get here are plain; only their slash is not one in a path.
    fn queue(&self, name: &LockName) -> String {
        format!("{}/{}", self.directory, name.as_str().replace('/', "%2F"))
    }
}

fn sequence(place: &str) -> Option<u64> {
    place.rsplit('-').next()?.parse().ok()
}
