//! The suite over the backends of this workspace, on real servers.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that unwraps fails, which is what it is for")]

mod subjects;

leasehold_conformance::main!(
    subjects::Memory,
    subjects::Sqlite,
    subjects::Redis,
    subjects::MariaDb::lease("mariadb"),
    subjects::Postgres::lease("postgres"),
);
