//! The nodes of an owner, found by its name: the reply to a create was lost.

use crate::claims::OwnNode;
use crate::queue::Queue;
use crate::session::{SessionCall, ZkResult};
use leasehold_core::OwnerId;

/// Keeps the owner's first node of this session and deletes all its others, which would block the claim itself.
pub(crate) async fn keep_first(
    call: &SessionCall,
    directory: &str,
    queue: &Queue,
    indices: &[usize],
) -> ZkResult<Option<OwnNode>> {
    let mut own = None;
    for index in indices {
        let name = &*queue.contenders()[*index].node;
        let path = format!("{directory}/{name}");
        match call.read(&path).await? {
            Some((_, stat)) if own.is_none() && stat.ephemeral_owner == call.session().id => {
                own = Some(OwnNode::new(call.session(), name, &stat));
            }
            Some(_) => drop(call.delete(&path).await?),
            None => {}
        }
    }
    Ok(own)
}

/// Deletes all nodes of this owner. True if one of them held the lock.
pub(crate) async fn delete_all(call: &SessionCall, directory: &str, owner: OwnerId) -> ZkResult<bool> {
    // With a proof: a server that is behind may not show a node that stays for as long as the session.
    let queue = Queue::of(call.prove_and_list(directory).await?);
    let mut held = false;
    // From the back, so that none of them comes to hold the lock by this.
    for index in queue.indices_of(owner).into_iter().rev() {
        let existed = call.delete(&format!("{directory}/{}", queue.contenders()[index].node)).await?;
        held |= existed && queue.blocker(index).is_none();
    }
    Ok(held)
}
