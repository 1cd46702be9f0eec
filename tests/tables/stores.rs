use leasehold::semantics::Semantics;

/// Every subject of the matrix, in its order, and a URL of its kind.
pub(crate) const SUBJECTS: [(&str, &str); 14] = [
    ("memory", "memory:"),
    ("sqlite", "sqlite:/tmp/locks.db"),
    ("redis", "redis://h"),
    ("redis-sentinel", "redis+sentinel://h/mymaster"),
    ("redis-cluster", "redis+cluster://h"),
    ("redlock", "redlock://a,b,c"),
    ("mariadb", "mariadb://u@h/d"),
    ("mariadb-for-update", "mariadb://u@h/d?mode=for-update"),
    ("mariadb-optimistic", "mariadb://u@h/d?mode=optimistic"),
    ("postgres", "postgres://u@h/d"),
    ("postgres-for-update", "postgres://u@h/d?mode=for-update"),
    ("postgres-optimistic", "postgres://u@h/d?mode=optimistic"),
    ("zookeeper", "zk://h"),
    ("zookeeper-ensemble", "zk://h"),
];

/// What the code declares for a subject.
pub(crate) async fn semantics(subject: &str) -> Semantics {
    let url = SUBJECTS.iter().find(|(name, _)| *name == subject).unwrap().1;
    leasehold::connect(url).await.unwrap().semantics().clone()
}
