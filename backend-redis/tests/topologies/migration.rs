//! Slots that move from node to node under locks.

use crate::kit::{
    agreed, answered, attempt_fails, backend, claim, get, hold, in_one_slot, name, queue, release, renew,
    told, waiter,
};
use crate::slot_move::SlotMove;
use leasehold_core::{Attempt, ErrorKind, LockBackend, Release, Renewal};
use leasehold_test_stores::servers::RedisCluster;
use std::time::Duration;

const LOCK: &str = "leasehold:job";
const HOLDER: &str = "{leasehold:job}:holder";
const TOKEN: &str = "{leasehold:job}:token";
const QUEUE: &str = "{leasehold:job}:queue";
const WAITERS: &str = "{leasehold:job}:owners";

/// A cluster, where the name lies, and where it is to go.
fn cluster() -> (RedisCluster, usize, usize) {
    let cluster = RedisCluster::start(false).unwrap();
    let from = cluster.owner_of(LOCK).unwrap();
    (cluster, from, (from + 1) % 3)
}

#[tokio::test]
async fn hold_moves_with_its_slot_and_keeps_its_token() {
    let (cluster, from, to) = cluster();
    let (backend, holder) = (backend(&cluster.url()), claim("job"));
    let token = hold(&backend, &holder).await;
    cluster.begin_migration(LOCK, to).unwrap();
    assert_eq!(renew(&backend, &holder).await.unwrap(), Renewal::Renewed, "all is still where it was");
    cluster.migrate(from, to, &[LOCK, HOLDER, TOKEN]).unwrap();
    assert_eq!(renew(&backend, &holder).await.unwrap(), Renewal::Renewed, "ASK");
    let error = attempt_fails(&backend, &holder).await;
    assert_eq!(
        error.kind(),
        ErrorKind::Unavailable,
        "the queue, which does not exist, may be at either node"
    );
    cluster.end_migration(LOCK, from, to).unwrap();
    assert_eq!(renew(&backend, &holder).await.unwrap(), Renewal::Renewed, "MOVED");
    assert_eq!(get(&cluster.nodes()[to], LOCK), Some(holder.owner().to_hex()));
    assert_eq!(hold(&backend, &holder).await, token, "the same owner is recognised");
    assert_eq!(release(&backend, &holder).await, Release::Released);
    assert!(hold(&backend, &claim("job")).await > token);
}

/// Half of the keys are on one node and half on the other: no node can serve them, and nothing is done.
#[tokio::test]
async fn name_that_is_torn_apart_is_unavailable_for_a_moment() {
    let (cluster, from, to) = cluster();
    let (backend, holder) = (backend(&cluster.url()), claim("job"));
    hold(&backend, &holder).await;
    cluster.begin_migration(LOCK, to).unwrap();
    cluster.migrate(from, to, &[LOCK]).unwrap();
    for error in [renew(&backend, &holder).await.unwrap_err(), attempt_fails(&backend, &claim("job")).await] {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{}", told(&error));
        assert!(
            told(&error).contains("its cluster is moving these keys to another node"),
            "{}",
            told(&error)
        );
    }
    cluster.migrate(from, to, &[HOLDER, TOKEN]).unwrap();
    cluster.end_migration(LOCK, from, to).unwrap();
    assert_eq!(renew(&backend, &holder).await.unwrap(), Renewal::Renewed);
}

/// What travels together must not be lost together: a reshard that was broken off leaves a slot so for ever.
#[tokio::test]
async fn holds_of_a_slot_that_is_torn_apart_between_them_are_renewed_one_by_one() {
    let cluster = RedisCluster::start(false).unwrap();
    for parameters in ["", "?wait_replicas=1"] {
        let backend = in_one_slot(&format!("{}{parameters}", cluster.url()));
        let [here, torn, there] = ["here", "torn", "there"].map(claim);
        let plain = in_one_slot(&cluster.url());
        for claim in [&here, &torn, &there] {
            hold(&plain, claim).await;
        }
        let lock = |name| format!("{{shop}}:{name}");
        let companions = |name| ["holder", "token"].map(|what| format!("{{shop}}:{{{name}}}:{what}"));
        let from = cluster.owner_of(&lock("here")).unwrap();
        let to = (from + 1) % 3;
        cluster.begin_migration(&lock("here"), to).unwrap();
        let [holder, token] = companions("there");
        cluster.migrate(from, to, &[&lock("there"), &holder, &token, &lock("torn")]).unwrap();

        let expected = if parameters.is_empty() { Renewal::Renewed } else { Renewal::Held };
        let renewals = answered(backend.renew(&[here.clone(), torn.clone(), there.clone()])).await;
        assert_eq!(renewals[0].as_ref().unwrap(), &expected, "{parameters}");
        assert_eq!(renewals[2].as_ref().unwrap(), &expected, "{parameters}");
        assert_eq!(renewals[1].as_ref().unwrap_err().kind(), ErrorKind::Unavailable);

        let [holder, token] = companions("torn");
        cluster.migrate(from, to, &[&holder, &token]).unwrap();
        let all = ["here"].map(|name| [vec![lock(name)], companions(name).to_vec()].concat()).concat();
        cluster.migrate(from, to, &all.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
        cluster.end_migration(&lock("here"), from, to).unwrap();
        for renewal in answered(plain.renew(&[here.clone(), torn.clone(), there.clone()])).await {
            assert_eq!(renewal.unwrap(), Renewal::Renewed);
        }
        for claim in [&here, &torn, &there] {
            release(&plain, claim).await;
        }
    }
}

/// The channel in the queue belongs to the connection to the old node. It has no listener on the new one, so a release skips the
/// waiter; but the cluster carries the message to the old node, and the waiter hears it. It must not believe it.
#[tokio::test]
async fn waiter_of_a_moved_name_believes_no_message() {
    let (cluster, from, to) = cluster();
    let (holding, waiting, other) =
        (backend(&cluster.url()), backend(&cluster.url()), backend(&cluster.url()));
    let (holder, next) = (claim("job"), waiter("job"));
    hold(&holding, &holder).await;
    queue(&waiting, &next).await;
    cluster.begin_migration(LOCK, to).unwrap();
    cluster.migrate(from, to, &[LOCK, HOLDER, TOKEN, QUEUE, WAITERS]).unwrap();
    cluster.end_migration(LOCK, from, to).unwrap();
    release(&holding, &holder).await;
    answered(waiting.changed(&next)).await;
    // It was passed by, and another has taken what was free.
    let thief = claim("job");
    let token = hold(&other, &thief).await;
    match answered(waiting.try_acquire(&next)).await.unwrap() {
        Attempt::Busy(busy) => assert!(busy.queued),
        Attempt::Granted(grant) => panic!("two holders: {token} and {grant:?}"),
    }
    // From now on it is told, on the node where the name lies.
    release(&other, &thief).await;
    answered(waiting.changed(&next)).await;
    assert!(hold(&waiting, &next).await > token);
    assert_eq!(get(&cluster.nodes()[to], LOCK).unwrap(), next.owner().to_hex());
}

/// The new node has never seen a script, and the old one is forgotten with its connection.
#[tokio::test]
async fn waiters_are_served_on_each_node_that_their_name_moves_to() {
    let (cluster, first, _) = cluster();
    let (holding, waiting) = (backend(&cluster.url()), backend(&cluster.url()));
    let mut token = None;
    for hop in 0..6 {
        let (from, to) = ((first + hop) % 3, (first + hop + 1) % 3);
        let (holder, next) = (claim("job"), waiter("job"));
        let Attempt::Granted(granted) = agreed(async || holding.try_acquire(&holder).await).await else {
            panic!("nobody else has it")
        };
        assert!(Some(granted.token) > token);
        assert!(matches!(agreed(async || waiting.try_acquire(&next).await).await, Attempt::Busy(_)));
        cluster.begin_migration(LOCK, to).unwrap();
        cluster.migrate(from, to, &[LOCK, HOLDER, TOKEN, QUEUE, WAITERS]).unwrap();
        cluster.end_migration(LOCK, from, to).unwrap();
        let again = agreed(async || waiting.try_acquire(&next).await).await;
        assert!(matches!(again, Attempt::Busy(busy) if busy.queued));
        agreed(async || holding.release(&holder, Duration::ZERO).await).await;
        answered(waiting.changed(&next)).await;
        let Attempt::Granted(grant) = agreed(async || waiting.try_acquire(&next).await).await else {
            panic!("it was not handed over")
        };
        token = Some(grant.token);
        let released = agreed(async || waiting.release(&next, Duration::ZERO).await).await;
        assert_eq!(released, Release::Released);
        let admin = waiting.admin().unwrap();
        assert!(agreed(async || admin.inspect(&name("job")).await).await.is_empty());
    }
}
