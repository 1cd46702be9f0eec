//! A cluster some of whose slots are not served. The administration shows what is there, and names what is not.

use crate::kit::{answered, backend, claim, hold, told};
use leasehold_core::{Claim, ErrorKind, LockAdmin, Severity};
use leasehold_redis::RedisBackend;
use leasehold_test_stores::servers::RedisCluster;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Holds of 30 names, in a cluster that serves some slots without the others.
pub(crate) async fn holder_of_thirty(cluster: &RedisCluster) -> (Arc<RedisBackend>, Vec<Claim>) {
    for node in cluster.nodes() {
        let partial = ["CONFIG", "SET", "cluster-require-full-coverage", "no"];
        assert_eq!(node.command(&partial).unwrap(), "+OK");
    }
    let backend = backend(&cluster.url());
    let claims: Vec<Claim> = (0..30).map(|n| claim(&format!("job/{n}"))).collect();
    for claim in &claims {
        hold(&backend, claim).await;
    }
    (backend, claims)
}

#[tokio::test]
async fn half_a_cluster_is_listed_and_checked() {
    let mut cluster = RedisCluster::start(false).unwrap();
    let (backend, claims) = holder_of_thirty(&cluster).await;
    let is_gone = |claim: &Claim| cluster.owner_of(&format!("leasehold:{}", claim.name())).unwrap() == 0;
    let there = claims.iter().filter(|claim| !is_gone(claim)).count();
    let gone = claims.iter().find(|claim| is_gone(claim)).unwrap().clone();
    let place = format!("127.0.0.1:{}", cluster.nodes()[0].port());
    cluster.nodes_mut()[0].kill();

    let (listed, unseen) = answered(backend.list_reachable("job/")).await.unwrap();
    assert_eq!((listed.len(), unseen.len()), (there, 1), "{unseen:?}");
    assert!(unseen[0].is_outage() && unseen[0].to_string().contains(&place), "{}", told(&unseen[0]));
    assert_eq!(answered(backend.list("job/")).await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(answered(backend.inspect(gone.name())).await.unwrap_err().kind(), ErrorKind::Unavailable);

    let findings = answered(backend.check()).await.unwrap();
    let errors: Vec<_> = findings.iter().filter(|finding| finding.severity == Severity::Error).collect();
    assert!(errors.len() == 1 && errors[0].code == "E_SERVER", "{findings:?}");
    assert!(errors[0].message.contains(&place), "{findings:?}");
    assert_eq!(findings.iter().filter(|finding| finding.code == "I_SERVER").count(), 2, "{findings:?}");

    cluster.nodes_mut()[1..].iter_mut().for_each(|node| node.kill());
    assert_eq!(answered(backend.list_reachable("")).await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(answered(backend.check()).await.unwrap_err().kind(), ErrorKind::Unavailable);
}

/// As after `CLUSTER FORGET` of a node that is gone.
#[tokio::test]
async fn list_at_slots_without_a_node_shows_the_other_locks_and_names_the_slots() {
    let cluster = RedisCluster::start(false).unwrap();
    let (_holder, claims) = holder_of_thirty(&cluster).await;
    let is_gone = |claim: &Claim| cluster.owner_of(&format!("leasehold:{}", claim.name())).unwrap() == 2;
    let gone: BTreeSet<&str> = claims.iter().filter(|it| is_gone(it)).map(|it| it.name().as_str()).collect();
    let slots = cluster.nodes()[0].command(&["CLUSTER", "SLOTS"]).unwrap();
    let words: Vec<&str> = slots.split("\r\n").collect();
    let at = words.iter().position(|word| *word == format!(":{}", cluster.nodes()[2].port())).unwrap();
    let mut numbers = words[..at].iter().rev().filter_map(|word| word.strip_prefix(':'));
    let (last, first) = (numbers.next().unwrap(), numbers.next().unwrap());
    // First the node that has them: it would tell the others again.
    for node in cluster.nodes().iter().rev() {
        assert_eq!(node.command(&["CLUSTER", "DELSLOTSRANGE", first, last]).unwrap(), "+OK");
    }
    let expected = format!("no node of the cluster has slots {first}-{last}");
    // The holder knows the slots from before, for a tenth of a second.
    let backend = backend(&cluster.url());

    let (listed, unseen) = answered(backend.list_reachable("job/")).await.unwrap();
    let listed: BTreeSet<&str> = listed.iter().map(|status| status.name.as_str()).collect();
    assert!(listed.len() == 30 - gone.len() && listed.is_disjoint(&gone), "{listed:?}");
    assert!(unseen.len() == 1 && unseen[0].kind() == ErrorKind::Unavailable, "{unseen:?}");
    assert_eq!(unseen[0].to_string(), expected);
    assert!(told(&answered(backend.init()).await.unwrap_err()).contains(&expected));
    let findings = answered(backend.check()).await.unwrap();
    let errors: Vec<_> = findings.iter().filter(|finding| finding.severity == Severity::Error).collect();
    assert!(errors.len() == 1 && errors[0].code == "E_SERVER", "{findings:?}");
    assert_eq!(errors[0].message, expected);
    assert_eq!(findings.iter().filter(|finding| finding.code == "I_SERVER").count(), 2, "{findings:?}");
}
