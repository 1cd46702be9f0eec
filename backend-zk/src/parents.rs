//! The directories above the queue: made when they are missing, and deleted when they are empty.

use crate::acl::Access;
use crate::session::{SessionCall, ZkError, ZkResult};
use std::sync::atomic::{AtomicBool, Ordering};
use zookeeper_client::CreateMode;

/// How the directories are made.
#[derive(Debug)]
pub(crate) struct Parents {
    access: Access,
    /// False once a server has refused a container node, which it would delete itself when it is empty.
    containers: AtomicBool,
}

impl Parents {
    pub(crate) fn new(access: Access) -> Self {
        Self { access, containers: AtomicBool::new(true) }
    }

    /// Makes the directory of a lock, and those above it that are missing.
    ///
    /// From below: the server checks the right to make a node before it checks whether the node exists. From above, an
    /// application that may only write in its own directory would be refused at the root.
    pub(crate) async fn make_lock(&self, call: &SessionCall, directory: &str) -> ZkResult<()> {
        match self.make_container(call, directory).await {
            Err(ZkError::NoNode) => {
                self.make(call, parent(directory)).await?;
                self.make_container(call, directory).await
            }
            made => made,
        }
    }

    /// Makes a directory that stays, and those above it that are missing.
    pub(crate) async fn make(&self, call: &SessionCall, directory: &str) -> ZkResult<()> {
        let mut missing = vec![directory];
        while let Some(lowest) = missing.last().copied() {
            match self.make_one(call, lowest, CreateMode::Persistent).await {
                Ok(()) => drop(missing.pop()),
                // The root always exists.
                Err(ZkError::NoNode) if !parent(lowest).is_empty() && missing.len() < MAX_DEPTH => {
                    missing.push(parent(lowest));
                }
                Err(trouble) => return Err(trouble),
            }
        }
        Ok(())
    }

    /// The commands of `zkCli.sh` that do what [`make`](Self::make) does.
    pub(crate) fn script(&self, directory: &str) -> String {
        let mut directories: Vec<&str> = std::iter::successors(Some(directory), |lower| Some(parent(lower)))
            .take_while(|it| !it.is_empty())
            .collect();
        directories.reverse();
        let access = self.access.zkcli_of_directories();
        directories.into_iter().map(|directory| format!("create \"{directory}\" \"\" {access}\n")).collect()
    }

    /// Deletes the directory of a lock if it is empty and the server does not do it.
    pub(crate) async fn tidy(&self, call: &SessionCall, directory: &str) {
        if !self.containers.load(Ordering::Relaxed) {
            // The directory may be gone, or in use. What an outage leaves, the next release deletes.
            let _ = call.delete(directory).await;
        }
    }

    async fn make_container(&self, call: &SessionCall, directory: &str) -> ZkResult<()> {
        if self.containers.load(Ordering::Relaxed) {
            match self.make_one(call, directory, CreateMode::Container).await {
                Err(ZkError::Unimplemented) => self.containers.store(false, Ordering::Relaxed),
                made => return made,
            }
        }
        self.make_one(call, directory, CreateMode::Persistent).await
    }

    async fn make_one(&self, call: &SessionCall, directory: &str, mode: CreateMode) -> ZkResult<()> {
        match call.make(directory, mode, self.access.of_directories()).await {
            Err(ZkError::NodeExists) => Ok(()),
            made => made,
        }
    }
}

/// Deeper than any path that a URL can have.
const MAX_DEPTH: usize = 1024;

/// The path of the parent; `""` is the root.
pub(crate) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}
