//! Names that are spread over several primaries.

use crate::half_cluster::holder_of_thirty;
use crate::kit::{
    Changes, TTL, answered, attempt_fails, backend, claim, client, hold, name, queue, release, renew, run_id,
    told, waiter,
};
use crate::slot_move::SlotMove;
use leasehold_core::{
    AcquireOptions, Claim, DistributedLockExt, ErrorKind, LockAdmin, LockBackend, LockGuard, LossCause,
    OwnerId, Release, Renewal, Severity,
};
use leasehold_test_stores::servers::{RedisCluster, RedisServer};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[tokio::test]
async fn names_on_all_nodes_are_held_renewed_and_listed() {
    let cluster = RedisCluster::start(false).unwrap();
    let backend = backend(&cluster.url());
    let claims: Vec<Claim> = (0..300).map(|n| claim(&format!("job/{n}"))).collect();
    for claim in &claims {
        hold(&backend, claim).await;
    }
    let used = |node: &RedisServer| node.command(&["DBSIZE"]).unwrap() != ":0";
    assert!(cluster.nodes().iter().all(used), "the names are on all nodes");
    let lost = [claim("never/held"), claim("job/7")];
    let asked: Vec<Claim> = [&lost[..1], &claims[..], &lost[1..]].concat();
    let renewals = answered(backend.renew(&asked)).await;
    let expected = [Renewal::Lost(LossCause::Gone), Renewal::Lost(LossCause::Taken)];
    assert_eq!(renewals.first().unwrap().as_ref().unwrap(), &expected[0]);
    assert_eq!(renewals.last().unwrap().as_ref().unwrap(), &expected[1]);
    assert!(renewals[1..301].iter().all(|renewal| matches!(renewal, Ok(Renewal::Renewed))));
    let listed = backend.list("job/").await.unwrap();
    let names: BTreeSet<&str> = listed.iter().map(|status| status.name.as_str()).collect();
    assert_eq!((listed.len(), names.len()), (300, 300));
    for claim in &claims {
        assert_eq!(release(&backend, claim).await, Release::Released);
    }
    assert!(backend.list("").await.unwrap().is_empty());
}

/// Renewals of a client travel together, and an answer comes as a whole.
#[tokio::test(flavor = "multi_thread")]
async fn node_that_stands_still_costs_no_lock_on_another_node() {
    let cluster = RedisCluster::start(false).unwrap();
    // Longer than the lease: what the node that stands still is asked is not answered before it is over.
    let locks = client(&format!("{}?timeout=20s", cluster.url()));
    let ttl = Duration::from_millis(1_500);
    let mut guards = Vec::new();
    for n in 0..12 {
        let name = name(&format!("job/{n}"));
        let owner = cluster.owner_of(&format!("leasehold:{name}")).unwrap();
        let options = AcquireOptions::new().with_ttl(ttl);
        guards.push((owner, locks.acquire_with(&name, &options).await.unwrap()));
    }
    let still = &cluster.nodes()[guards[0].0];
    still.pause();
    tokio::time::sleep(ttl * 2).await;
    let held = |(owner, guard): &(usize, LockGuard)| (*owner == guards[0].0, guard.is_held());
    let found: BTreeSet<(bool, bool)> = guards.iter().map(held).collect();
    still.resume();
    assert_eq!(
        found,
        [(true, false), (false, true)].into(),
        "who is on the node that stood still, and who holds"
    );
}

/// One seed is enough, and names with braces have all their keys in one slot.
#[tokio::test]
async fn odd_names_are_queued_for_and_handed_over() {
    let cluster = RedisCluster::start(false).unwrap();
    let seed = cluster.nodes()[2].port();
    let url = format!("redis+cluster://127.0.0.1:{seed}");
    let (holding, waiting) = (backend(&url), backend(&cluster.url()));
    for odd in ["job", "{a}b", "{}", "}{", "%7B", "a{b}c{d}", "é🔒 {", "job:holder", "*"] {
        let (holder, first, second) = (claim(odd), waiter(odd), waiter(odd));
        let token = hold(&holding, &holder).await;
        queue(&waiting, &first).await;
        queue(&holding, &second).await;
        assert_eq!(waiting.waiters(&name(odd)).await.unwrap().len(), 2, "{odd}");
        release(&holding, &holder).await;
        answered(waiting.changed(&first)).await;
        let next = hold(&waiting, &first).await;
        assert!(next > token, "{odd}");
        release(&waiting, &first).await;
        answered(holding.changed(&second)).await;
        assert!(hold(&holding, &second).await > next, "{odd}");
        assert!(!holding.force_release(&name(odd), None).await.unwrap().is_empty());
        assert_eq!(renew(&holding, &second).await.unwrap(), Renewal::Lost(LossCause::Gone));
    }
}

#[tokio::test]
async fn node_and_single_server_are_told_apart() {
    let cluster = RedisCluster::start(false).unwrap();
    let single = backend(&format!("redis://127.0.0.1:{}", cluster.nodes()[0].port()));
    // Also for the names that it has: renewed together with others, they would be refused.
    for n in 0..20 {
        let error = attempt_fails(&single, &claim(&format!("job/{n}"))).await;
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
        assert!(told(&error).contains("redis+cluster://"), "{}", told(&error));
    }
    let error = single.check().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    assert!(error.help().unwrap().contains("redis+cluster://"));
    let findings = backend(&cluster.url()).check().await.unwrap();
    assert!(findings.iter().all(|finding| finding.severity != Severity::Error), "{findings:?}");
    assert_eq!(findings.iter().filter(|finding| finding.code == "I_SERVER").count(), 3);

    let plain = RedisServer::start().unwrap();
    let error =
        attempt_fails(&backend(&format!("redis+cluster://127.0.0.1:{}", plain.port())), &claim("job")).await;
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    assert!(told(&error).contains("no node of a cluster; use the URL of one server"), "{}", told(&error));
}

#[tokio::test]
async fn check_names_the_node_that_refuses_the_password_and_fails_if_all_do() {
    let cluster = RedisCluster::start(false).unwrap();
    let lock_out = |node: &RedisServer| {
        assert_eq!(node.command(&["CONFIG", "SET", "requirepass", "other"]).unwrap(), "+OK");
    };
    lock_out(&cluster.nodes()[0]);
    let findings = backend(&cluster.url()).check().await.unwrap();
    let refused: Vec<_> = findings.iter().filter(|finding| finding.code == "E_DENIED").collect();
    let place = format!("127.0.0.1:{}", cluster.nodes()[0].port());
    assert!(refused.len() == 1 && refused[0].message.contains(&place), "{findings:?}");

    cluster.nodes()[1..].iter().for_each(lock_out);
    let error = backend(&cluster.url()).check().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
}

/// The other nodes serve on while one is down. Its names are unavailable until a replica takes over.
#[tokio::test]
async fn node_that_is_down_costs_its_own_names_only() {
    let mut cluster = RedisCluster::start(false).unwrap();
    let (backend, claims) = holder_of_thirty(&cluster).await;
    let (gone, there): (Vec<Claim>, Vec<Claim>) = claims
        .into_iter()
        .partition(|claim| cluster.owner_of(&format!("leasehold:{}", claim.name())).unwrap() == 0);
    assert!(!gone.is_empty() && !there.is_empty());
    cluster.nodes_mut()[0].kill();
    for _ in 0..3 {
        for renewal in answered(backend.renew(&there)).await {
            assert_eq!(renewal.unwrap(), Renewal::Renewed);
        }
    }
    let failed = answered(backend.renew(&gone)).await;
    assert!(failed.iter().all(Result::is_err), "{failed:?}");
    let error = attempt_fails(&backend, &gone[0]).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{}", told(&error));
    cluster.nodes_mut()[0].restart(true).unwrap();
    cluster.wait_until_whole().unwrap();
    for renewal in answered(backend.renew(&gone)).await {
        assert_eq!(renewal.unwrap(), Renewal::Renewed, "the node had its locks on disk");
    }
}

#[tokio::test]
async fn replica_that_took_over_is_told_once() {
    let mut cluster = RedisCluster::start(true).unwrap();
    let backend = backend(&cluster.url());
    let (changes, _client) = Changes::of(&backend);
    hold(&backend, &claim("before")).await;
    let address = |cluster: &RedisCluster| {
        let owner = cluster.owner_of("leasehold:job").unwrap();
        format!("127.0.0.1:{}", cluster.nodes()[owner].port())
    };
    let before = address(&cluster);
    cluster.fail_over("leasehold:job").unwrap();
    let told = changes.told(&backend).await;
    assert!(told.len() == 1 && told[0][0].starts_with("slots "), "{told:?}");
    assert_eq!(told[0][1..], [before, address(&cluster)]);
}

#[tokio::test]
async fn node_that_was_started_anew_is_told_once() {
    let mut cluster = RedisCluster::start(false).unwrap();
    let backend = backend(&cluster.url());
    let (changes, _client) = Changes::of(&backend);
    let job = claim("job");
    hold(&backend, &job).await;
    release(&backend, &job).await;
    let node = cluster.owner_of("leasehold:job").unwrap();
    let (place, before) =
        (format!("127.0.0.1:{}", cluster.nodes()[node].port()), run_id(&cluster.nodes()[node]));
    cluster.nodes_mut()[node].kill();
    cluster.nodes_mut()[node].restart(true).unwrap();
    cluster.wait_until_whole().unwrap();
    let told = changes.told(&backend).await;
    assert_eq!(told, [[place, before, run_id(&cluster.nodes()[node])]]);
}

/// What a process does whose URL names one of its replicas: it has the map, and no names.
#[tokio::test]
async fn replica_serves_as_a_seed() {
    let cluster = RedisCluster::start(true).unwrap();
    let backend = backend(&format!("redis+cluster://127.0.0.1:{}", cluster.nodes()[4].port()));
    let claim = Claim::new(name("job"), OwnerId::random().unwrap(), TTL, "{}".into());
    hold(&backend, &claim).await;
    assert_eq!(release(&backend, &claim).await, Release::Released);
}

#[tokio::test]
async fn wait_replicas_counts_those_of_the_names_own_primary() {
    let mut cluster = RedisCluster::start(true).unwrap();
    let url = format!("{}?wait_replicas=1", cluster.url());
    let backend = backend(&url);
    hold(&backend, &claim("job")).await;
    let primary = cluster.owner_of("leasehold:other").unwrap();
    cluster.nodes_mut()[primary + 3].kill();
    let error = attempt_fails(&backend, &claim("other")).await;
    assert!(told(&error).contains("0 of 1 replicas"), "{}", told(&error));
    assert_eq!(error.kind(), ErrorKind::Indeterminate);
}

/// The lines that the documentation of the crate gives to administrators.
const RIGHTS: &str = "ACL SETUSER locker on >PASSWORD resetkeys ~leasehold:* ~{leasehold:* resetchannels &leasehold:* -@all \
                      +eval +evalsha +set +get +exists +del +pexpire +pttl +time +ping +scan +type \
                      +zadd +zscore +zrange +zrem +hset +hget +hdel +publish +subscribe \
                      +cluster|slots +asking +wait";

#[tokio::test]
async fn documented_rights_suffice_and_missing_ones_are_named() {
    let cluster = RedisCluster::start(true).unwrap();
    let tell = |words: &str| {
        for node in cluster.nodes() {
            let words: Vec<&str> = words.split_whitespace().collect();
            assert_eq!(node.command(&words).unwrap(), "+OK");
        }
    };
    tell(RIGHTS);
    let hosts = cluster.url().replace("redis+cluster://", "");
    let url = format!("redis+cluster://locker:PASSWORD@{hosts}?wait_replicas=1&timeout=8s");
    let confirming = backend(&url);
    let (holder, next) = (claim("job"), waiter("job"));
    hold(&confirming, &holder).await;
    queue(&confirming, &next).await;
    let from = cluster.owner_of("leasehold:job").unwrap();
    cluster.begin_migration("leasehold:job", (from + 1) % 3).unwrap();
    let all = ["holder", "token", "queue", "owners"].map(|what| format!("{{leasehold:job}}:{what}"));
    cluster.migrate(from, (from + 1) % 3, &["leasehold:job", &all[0], &all[1], &all[2], &all[3]]).unwrap();
    assert_eq!(renew(&confirming, &holder).await.unwrap(), Renewal::Renewed, "ASK");
    cluster.end_migration("leasehold:job", from, (from + 1) % 3).unwrap();
    assert_eq!(release(&confirming, &holder).await, Release::Released);
    let findings = confirming.check().await.unwrap();
    assert!(findings.iter().all(|finding| finding.severity != Severity::Error), "{findings:?}");

    // It is not missed before a slot moves.
    tell("ACL SETUSER locker -asking");
    let findings = confirming.check().await.unwrap();
    let lacks: Vec<_> = findings.iter().filter(|finding| finding.severity == Severity::Error).collect();
    assert_eq!(lacks.len(), 3, "one of each node: {findings:?}");
    assert!(lacks.iter().all(|lack| lack.help == "grant it with ACL SETUSER: +asking"), "{lacks:?}");
    let moved = claim("moved");
    hold(&confirming, &moved).await;
    let from = cluster.owner_of("leasehold:moved").unwrap();
    cluster.begin_migration("leasehold:moved", (from + 1) % 3).unwrap();
    let all = ["leasehold:moved", "{leasehold:moved}:holder", "{leasehold:moved}:token"];
    cluster.migrate(from, (from + 1) % 3, &all).unwrap();
    for backend in [&confirming, &backend(&url.replace("wait_replicas=1&", ""))] {
        let error = renew(backend, &moved).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{}", told(&error));
        assert!(told(&error).contains("this user may not run ASKING"), "{}", told(&error));
    }
    tell("ACL SETUSER locker +asking");

    let denied =
        [("wait", "+wait", ErrorKind::Indeterminate), ("cluster|slots", "+cluster|slots", ErrorKind::Denied)];
    for (right, help, kind) in denied {
        tell(&format!("ACL SETUSER locker -{right}"));
        let error = attempt_fails(&backend(&url), &claim("other")).await;
        assert_eq!(error.kind(), kind, "{}", told(&error));
        assert!(told(&error).ends_with(&format!("grant it with ACL SETUSER: {help}")), "{}", told(&error));
        tell(&format!("ACL SETUSER locker +{right}"));
    }
}

/// They are told so together, and not one after the other.
#[tokio::test]
async fn callers_of_a_silent_cluster_get_their_errors_in_the_time_of_one() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = silent.local_addr().unwrap().port();
    let backend = backend(&format!("redis+cluster://127.0.0.1:{port}?connect_timeout=300ms"));
    let start = Instant::now();
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..30 {
        let backend = Arc::clone(&backend);
        asking.spawn(async move { attempt_fails(&backend, &claim("job")).await.kind() });
    }
    while let Some(kind) = asking.join_next().await {
        assert_eq!(kind.unwrap(), ErrorKind::Unavailable);
    }
    // One after the other, it would be 9 s.
    assert!(start.elapsed() < Duration::from_secs(3), "the last one was told after {:?}", start.elapsed());
}
