//! The directories above the queue: made when they are missing, and gone again when they are empty.

use crate::acl::Access;
use crate::session::{Outcome, Trouble, Turn};
use std::sync::atomic::{AtomicBool, Ordering};
use zookeeper_client::CreateMode;

/// How the directories are made.
#[derive(Debug)]
pub(crate) struct Parents {
    access: Access,
    /// False once a server has said that it has no container nodes, which it deletes itself when they are empty.
    containers: AtomicBool,
}

impl Parents {
    pub(crate) fn new(access: Access) -> Self {
        Self { access, containers: AtomicBool::new(true) }
    }

    /// Makes the directory of a lock, and what is missing above it.
    ///
    /// From below: the right to make a node is looked at before whether it is there, so from above an application that
    /// may only write in its own directory would be refused at the root.
    pub(crate) async fn make_lock(&self, turn: &Turn, directory: &str) -> Outcome<()> {
        match self.make_container(turn, directory).await {
            Err(Trouble::NoNode) => {
                self.make(turn, parent(directory)).await?;
                self.make_container(turn, directory).await
            }
            made => made,
        }
    }

    /// Makes a directory that stays, and what is missing above it.
    pub(crate) async fn make(&self, turn: &Turn, directory: &str) -> Outcome<()> {
        let mut missing = vec![directory];
        while let Some(lowest) = missing.last().copied() {
            match self.make_one(turn, lowest, CreateMode::Persistent).await {
                Ok(()) => drop(missing.pop()),
                // The root is there; whoever cannot see it has another trouble.
                Err(Trouble::NoNode) if !parent(lowest).is_empty() && missing.len() < MAX_DEPTH => {
                    missing.push(parent(lowest));
                }
                Err(trouble) => return Err(trouble),
            }
        }
        Ok(())
    }

    /// What [`make`](Self::make) does, as the server's own shell is told it.
    pub(crate) fn in_words(&self, directory: &str) -> String {
        let mut directories: Vec<&str> = std::iter::successors(Some(directory), |lower| Some(parent(lower)))
            .take_while(|it| !it.is_empty())
            .collect();
        directories.reverse();
        let access = self.access.of_directories_in_words();
        directories.into_iter().map(|directory| format!("create \"{directory}\" \"\" {access}\n")).collect()
    }

    /// Deletes the directory of a lock if nobody stands in it, where the server does not.
    pub(crate) async fn tidy(&self, turn: &Turn, directory: &str) {
        if !self.containers.load(Ordering::Relaxed) {
            // Not empty, or gone already, is as good; and what an outage leaves, the next release finds.
            let _ = turn.delete(directory).await;
        }
    }

    async fn make_container(&self, turn: &Turn, directory: &str) -> Outcome<()> {
        if self.containers.load(Ordering::Relaxed) {
            match self.make_one(turn, directory, CreateMode::Container).await {
                Err(Trouble::Unimplemented) => self.containers.store(false, Ordering::Relaxed),
                made => return made,
            }
        }
        self.make_one(turn, directory, CreateMode::Persistent).await
    }

    async fn make_one(&self, turn: &Turn, directory: &str, mode: CreateMode) -> Outcome<()> {
        match turn.make(directory, mode, self.access.of_directories()).await {
            Err(Trouble::NodeExists) => Ok(()),
            made => made,
        }
    }
}

/// Deeper than any path that a URL can have.
const MAX_DEPTH: usize = 1024;

/// What is above it; `""` is the root.
pub(crate) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}
