//! The directories above the queue. That of a lock is a container: the server deletes it some time after its last child.

use crate::acl::Access;
use crate::session::{SessionCall, ZkError, ZkResult};
use zookeeper_client::CreateMode;

/// Deeper than any path that a URL can have.
const MAX_DEPTH: usize = 1024;

/// Makes the directory of a lock, and those above it that are missing.
///
/// From below: the server checks the right to make a node before it checks whether the node exists. From above, an
/// application that may only write in its own directory would be refused at the root.
pub(crate) async fn make_lock(call: &SessionCall, access: Access, directory: &str) -> ZkResult<()> {
    match make_one(call, access, directory, CreateMode::Container).await {
        Err(ZkError::NoNode) => {
            make(call, access, parent(directory)).await?;
            make_one(call, access, directory, CreateMode::Container).await
        }
        answer => answer,
    }
}

/// Makes a directory that stays, and those above it that are missing.
pub(crate) async fn make(call: &SessionCall, access: Access, directory: &str) -> ZkResult<()> {
    let mut missing = vec![directory];
    while let Some(lowest) = missing.last().copied() {
        match make_one(call, access, lowest, CreateMode::Persistent).await {
            Ok(()) => drop(missing.pop()),
            // The root always exists.
            Err(ZkError::NoNode) if !parent(lowest).is_empty() && missing.len() < MAX_DEPTH => {
                missing.push(parent(lowest));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The commands of `zkCli.sh` that do what [`make`](Self::make) does.
pub(crate) fn script(access: Access, directory: &str) -> String {
    let mut directories: Vec<&str> = std::iter::successors(Some(directory), |lower| Some(parent(lower)))
        .take_while(|it| !it.is_empty())
        .collect();
    directories.reverse();
    let access = access.zkcli_of_directories();
    directories.into_iter().map(|directory| format!("create \"{directory}\" \"\" {access}\n")).collect()
}

async fn make_one(call: &SessionCall, access: Access, directory: &str, mode: CreateMode) -> ZkResult<()> {
    match call.make(directory, mode, access.of_directories()).await {
        Err(ZkError::NodeExists) => Ok(()),
        answer => answer,
    }
}

/// The path of the parent; `""` is the root.
fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}
