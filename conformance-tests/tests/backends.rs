//! The suite over the backends of this workspace, on real servers.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that unwraps fails, which is what it is for")]

mod subjects;

leasehold_conformance::main!(
    subjects::Memory,
    subjects::Sqlite,
    subjects::Redis,
    subjects::MariaDb::lease("mariadb-lease"),
    subjects::MariaDb::for_update("mariadb-for-update"),
    subjects::MariaDb::optimistic("mariadb-optimistic"),
    subjects::Postgres::lease("postgres-lease"),
    subjects::Postgres::for_update("postgres-for-update"),
    subjects::Postgres::optimistic("postgres-optimistic"),
);
