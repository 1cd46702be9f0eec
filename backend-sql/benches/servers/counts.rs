//! Statements, counted by the server, and round trips, counted on the wire, of each call to a free or held lock.

use crate::raw::mysql;
use crate::{Kind, MODES, backend, init};
use leasehold_conformance::proxy::Proxy;
use leasehold_core::{Attempt, Claim, LockBackend, LockName, OwnerId, Release, Renewal};
use leasehold_test_stores::servers::{MariaDbServer, PostgresServer};
use sqlx::Row;
use sqlx::mysql::MySqlConnection;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Mutex;

/// Less than there may be holds that are connections.
const TIMES: u32 = 20;

pub(super) async fn measure() {
    println!("\nstatements (counted by the server) and round trips (on the wire) a call; mean of {TIMES}\n");
    println!("| server | mode | acquire | renew | acquire a held one | release |");
    println!("|---|---|---|---|---|---|");
    for kind in Kind::BOTH {
        let server = Counting::start(kind).await;
        for mode in MODES {
            count(kind, &server, mode).await;
        }
    }
}

/// On names that exist and on connections that are open, as it is for all but the first.
async fn count(kind: Kind, server: &Counting, mode: &str) {
    init(&backend(&kind.url(server.port(), mode))).await;
    let proxy = Proxy::to(([127, 0, 0, 1], server.port()).into()).await.unwrap();
    let url = kind.url(proxy.address().port(), mode);
    let (holder, rival) = (backend(&url), backend(&url));
    for backend in [&holder, &rival] {
        let claims = claims();
        for call in [Call::Acquire, Call::Renew, Call::Release] {
            call.make_all(backend, &claims).await;
        }
    }
    let (claims, rivals) = (claims(), claims());
    let mut cells = String::new();
    for call in CALLS {
        let before = (server.statements().await, proxy.requests());
        match call {
            Call::AcquireHeld => call.make_all(&rival, &rivals).await,
            _ => call.make_all(&holder, &claims).await,
        }
        // What goes on behind the answer belongs to the call as well.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let after = (server.statements().await, proxy.requests());
        cells += &format!(" {:.1} in {:.1} |", per_call(after.0 - before.0), per_call(after.1 - before.1));
        for claim in rivals.iter().filter(|_| call == Call::AcquireHeld) {
            // What the attempt has left, such as a wait in the server.
            rival.release(claim, Duration::ZERO).await.unwrap();
        }
    }
    println!("| {} | {mode} |{cells}", kind.name());
}

fn per_call(count: u64) -> f64 {
    f64::from(u32::try_from(count).unwrap()) / f64::from(TIMES)
}

#[derive(Clone, Copy, PartialEq)]
enum Call {
    Acquire,
    Renew,
    AcquireHeld,
    Release,
}

const CALLS: [Call; 4] = [Call::Acquire, Call::Renew, Call::AcquireHeld, Call::Release];

impl Call {
    async fn make_all(self, backend: &Arc<dyn LockBackend>, claims: &[Claim]) {
        for claim in claims {
            self.make(backend, claim).await;
        }
    }

    async fn make(self, backend: &Arc<dyn LockBackend>, claim: &Claim) {
        match self {
            Self::Acquire => {
                let attempt = backend.try_acquire(claim).await.unwrap();
                assert!(matches!(attempt, Attempt::Granted(_)), "{attempt:?}");
            }
            Self::Renew => {
                let renewed = backend.renew(std::slice::from_ref(claim)).await.remove(0).unwrap();
                assert_eq!(renewed, Renewal::Renewed);
            }
            Self::AcquireHeld => {
                let attempt = backend.try_acquire(claim).await.unwrap();
                assert!(matches!(attempt, Attempt::Busy(_)), "{attempt:?}");
            }
            Self::Release => {
                assert_eq!(backend.release(claim, Duration::ZERO).await.unwrap(), Release::Released);
            }
        }
    }
}

fn claims() -> Vec<Claim> {
    let claim = |n| {
        let (name, owner) = (LockName::new(format!("count/{n}")).unwrap(), OwnerId::random().unwrap());
        Claim::new(name, owner, Duration::from_secs(30), "{}".into())
    };
    (0..TIMES).map(claim).collect()
}

/// A server that counts its statements. It serves nothing else: to log them all is slow.
enum Counting {
    /// With the connection that asks for the count, which costs a statement.
    MariaDb(MariaDbServer, Mutex<MySqlConnection>),
    Postgres(PostgresServer),
}

impl Counting {
    async fn start(kind: Kind) -> Self {
        match kind {
            Kind::MariaDb => {
                let server = MariaDbServer::start_with(&["--max-connections=300"], &[]).unwrap();
                let asking = mysql(server.port()).await;
                Self::MariaDb(server, Mutex::new(asking))
            }
            Kind::Postgres => {
                let arguments = ["-c", "log_statement=all", "-c", "max_connections=300"];
                Self::Postgres(PostgresServer::start_with(&arguments, &[]).unwrap())
            }
        }
    }

    fn port(&self) -> u16 {
        match self {
            Self::MariaDb(server, _) => server.port(),
            Self::Postgres(server) => server.port(),
        }
    }

    /// How many statements the server has executed so far, this question not among them.
    async fn statements(&self) -> u64 {
        match self {
            Self::MariaDb(_, asking) => {
                let mut asking = asking.lock().await;
                let count = sqlx::query("SHOW GLOBAL STATUS LIKE 'Questions'").fetch_one(&mut *asking).await;
                let asked = ASKED.fetch_add(1, Ordering::SeqCst) + 1;
                count.unwrap().get::<String, _>(1).parse::<u64>().unwrap() - asked
            }
            Self::Postgres(server) => {
                let log = std::fs::read_to_string(server.data().join("server.log")).unwrap();
                let is_one =
                    |line: &&str| line.contains("LOG:  execute ") || line.contains("LOG:  statement: ");
                log.lines().filter(is_one).count() as u64
            }
        }
    }
}

/// How often MariaDB was asked.
static ASKED: AtomicU64 = AtomicU64::new(0);
