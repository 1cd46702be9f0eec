//! The directories above the queue. That of a lock is a container: the server deletes it some time after its last child.

use crate::acl::Access;
use crate::session::{SessionCall, ZkError, ZkResult};
use zookeeper_client::CreateMode;

/// Makes a directory, and those above it that are missing, which stay.
///
/// From below: the server checks the right to make a node before it checks whether the node exists. From above, an
/// application that may only write in its own directory would be refused at the root.
pub(crate) async fn make(call: &SessionCall, access: Access, path: &str, mode: CreateMode) -> ZkResult<()> {
    let mut missing = vec![(path, mode)];
    while let Some((lowest, mode)) = missing.last().copied() {
        match call.make(lowest, mode, access.of_directories()).await {
            Ok(()) | Err(ZkError::NodeExists) => drop(missing.pop()),
            // The root always exists.
            Err(ZkError::NoNode) if !parent(lowest).is_empty() => {
                missing.push((parent(lowest), CreateMode::Persistent));
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

/// The path of the parent; `""` is the root.
fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}
