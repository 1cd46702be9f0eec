//! What a lock on a database server costs: alone, in statements and round trips, and from hand to hand. Its time beside that
//! of the statements by hand is measured by `leasehold-driver URL hand`.
//!
//! `cargo bench -p leasehold-sql --features mysql,postgres --bench servers [-- counts|handover|waking]`; all of it
//! takes some minutes. Servers of its own, which are small and quick and do not wait for a disk: only what is compared
//! within one run means anything elsewhere.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a program for people: what it cannot measure it must not pass over"
)]

mod counts;
mod handover;
mod raw;
mod waking;

use leasehold_core::{LockBackend, Namespace};
use leasehold_store_url::StoreUrl;
use leasehold_test_stores::servers::{MariaDbServer, PostgresServer};
use std::sync::Arc;

const MODES: [&str; 3] = ["lease", "for-update", "optimistic"];

fn main() {
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let runs = |what: &str| wanted.is_empty() || wanted.iter().any(|wanted| wanted == what);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        if runs("counts") {
            counts::measure().await;
        }
        if runs("handover") {
            handover::measure(&Servers::start().await).await;
        }
        if runs("waking") {
            waking::measure(&Servers::start().await).await;
        }
    });
}

/// A server of each kind, with the tables of all modes.
struct Servers {
    mariadb: MariaDbServer,
    postgres: PostgresServer,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    MariaDb,
    Postgres,
}

impl Kind {
    const BOTH: [Self; 2] = [Self::MariaDb, Self::Postgres];

    fn name(self) -> &'static str {
        match self {
            Self::MariaDb => "MariaDB",
            Self::Postgres => "PostgreSQL",
        }
    }

    /// The URL of a server of this kind at this port, in this mode.
    fn url(self, port: u16, mode: &str) -> String {
        match self {
            Self::MariaDb => format!("mariadb://root@127.0.0.1:{port}/locks?mode={mode}"),
            Self::Postgres => format!("postgres://postgres@127.0.0.1:{port}/postgres?mode={mode}"),
        }
    }
}

impl Servers {
    async fn start() -> Self {
        let arguments = ["--max-connections=500"];
        let mariadb = MariaDbServer::start_with(&arguments, &[]).unwrap();
        let postgres = PostgresServer::start_with(&["-c", "max_connections=500"], &[]).unwrap();
        let servers = Self { mariadb, postgres };
        for kind in Kind::BOTH {
            for mode in MODES {
                init(&backend(&servers.url(kind, mode))).await;
            }
        }
        servers
    }

    fn port(&self, kind: Kind) -> u16 {
        match kind {
            Kind::MariaDb => self.mariadb.port(),
            Kind::Postgres => self.postgres.port(),
        }
    }

    fn url(&self, kind: Kind, mode: &str) -> String {
        kind.url(self.port(kind), mode)
    }
}

fn backend(url: &str) -> Arc<dyn LockBackend> {
    leasehold_sql::open(&StoreUrl::parse(url).unwrap(), &Namespace::default()).unwrap()
}

async fn init(backend: &Arc<dyn LockBackend>) {
    backend.admin().unwrap().init().await.unwrap();
}

fn median(numbers: &mut [f64]) -> f64 {
    percentile(numbers, 50)
}

fn percentile(numbers: &mut [f64], percent: usize) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[(numbers.len() - 1) * percent / 100]
}
