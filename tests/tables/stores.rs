use leasehold::semantics::Semantics;

/// Every subject of the matrix, in its order, and a URL of its kind.
pub(crate) const SUBJECTS: [(&str, &str); 16] = [
    ("memory", "memory:"),
    ("sqlite", "sqlite:/tmp/locks.db"),
    ("redis", "redis://h"),
    ("redis-sentinel", "redis+sentinel://h/mymaster"),
    ("redis-cluster", "redis+cluster://h"),
    ("redlock", "redlock://a,b,c"),
    ("etcd", "etcd://h"),
    ("etcd-ensemble", "etcd://h"),
    ("mariadb", "mariadb://u@h/d"),
    ("mariadb-for-update", "mariadb://u@h/d?mode=for-update"),
    ("mariadb-optimistic", "mariadb://u@h/d?mode=optimistic"),
    ("postgres", "postgres://u@h/d"),
    ("postgres-for-update", "postgres://u@h/d?mode=for-update"),
    ("postgres-optimistic", "postgres://u@h/d?mode=optimistic"),
    ("zookeeper", "zk://h"),
    ("zookeeper-ensemble", "zk://h"),
];

/// The subjects whose cells under a reader are committed too.
pub(crate) const SHARED: [&str; 14] = [
    "sqlite",
    "redis",
    "redis-sentinel",
    "redis-cluster",
    "etcd",
    "etcd-ensemble",
    "zookeeper",
    "zookeeper-ensemble",
    "mariadb",
    "mariadb-for-update",
    "mariadb-optimistic",
    "postgres",
    "postgres-for-update",
    "postgres-optimistic",
];

/// The kinds of stores that the documents tell apart, and URLs of all that a kind stands for.
const KINDS: [(&str, &[&str]); 11] = [
    ("SQLite", &["sqlite:/tmp/locks.db"]),
    ("Redis", &["redis://h", "valkey://h"]),
    ("Sentinel/Cluster", &["redis+sentinel://h/mymaster", "redis+cluster://h"]),
    ("Redlock", &["redlock://a,b,c"]),
    ("etcd", &["etcd://h"]),
    ("ZooKeeper", &["zk://h"]),
    ("PostgreSQL", &["postgres://u@h/d", "postgres://u@h/d?mode=optimistic"]),
    ("PostgreSQL `for-update`", &["postgres://u@h/d?mode=for-update"]),
    (
        "MySQL",
        &[
            "mysql://u@h/d",
            "mysql://u@h/d?mode=optimistic",
            "mariadb://u@h/d",
            "mariadb://u@h/d?mode=optimistic",
        ],
    ),
    ("MySQL `for-update`", &["mysql://u@h/d?mode=for-update", "mariadb://u@h/d?mode=for-update"]),
    ("memory", &["memory:"]),
];

/// What the code declares for a subject.
pub(crate) async fn semantics(subject: &str) -> Semantics {
    of_url(SUBJECTS.iter().find(|(name, _)| *name == subject).unwrap().1).await
}

/// Each kind, and what the code declares for it.
pub(crate) async fn kinds() -> Vec<(&'static str, Semantics)> {
    let mut kinds = Vec::new();
    for (name, urls) in KINDS {
        let first = of_url(urls[0]).await;
        for url in urls {
            assert_eq!(shown(&of_url(url).await), shown(&first), "{name} stands for two kinds");
        }
        kinds.push((name, first));
    }
    kinds
}

/// All that the documents show.
fn shown(semantics: &Semantics) -> String {
    let Semantics { reach, fairness, wake_up, crash_bound, token, promises, .. } = semantics;
    format!("{reach:?} {fairness:?} {wake_up:?} {crash_bound:?} {token:?} {promises:?}")
}

/// Opens nothing: connecting is lazy.
async fn of_url(url: &str) -> Semantics {
    leasehold::connect(url).await.unwrap().semantics().clone()
}
