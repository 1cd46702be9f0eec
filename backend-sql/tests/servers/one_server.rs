//! Several servers behind one address.

use crate::kit::{Server, claim, open, until};
use leasehold_core::{DistributedLockExt, Event, LockClient, Observer, Severity};
use leasehold_test_stores::servers::PostgresServer;
use std::sync::{Arc, Mutex};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

/// Leads one connection after the other to the next of these servers.
async fn balancer(servers: [u16; 2]) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        for server in servers.into_iter().cycle() {
            let (mut client, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut server = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
                let _ = copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    port
}

#[derive(Debug, Default)]
struct Changes(Mutex<Vec<String>>);

impl Observer for Changes {
    fn event(&self, event: &Event<'_>) {
        if let Event::ServerChanged { address, before, now } = event {
            assert_ne!(before, now);
            self.0.lock().unwrap().push((*address).to_owned());
        }
    }
}

/// Two servers with the same tables. On PostgreSQL: a primary, and its standby that was promoted beside it.
async fn two_servers() -> [[Server; 2]; 2] {
    let mariadb = [Server::mariadb(&[]), Server::mariadb(&[])];
    for server in &mariadb {
        server.furnish().await;
    }
    let primary = PostgresServer::start().unwrap();
    let standby = PostgresServer::start_standby_of(&primary).unwrap();
    let postgres = [Server::Postgres(primary), Server::Postgres(standby)];
    postgres[0].furnish().await;
    until("the standby has the rights", &postgres[1], "SELECT count(*) FROM pg_roles WHERE rolname = 'locker' AND has_table_privilege(oid, 'leasehold', 'update')").await;
    postgres[1].run("SELECT pg_promote()").await;
    [mariadb, postgres]
}

#[tokio::test]
async fn several_servers_behind_one_address_are_found_and_told_once() {
    for servers in two_servers().await {
        let port = balancer([servers[0].port(), servers[1].port()]).await;
        let backend = open(&servers[0].url_at(port, "locker:sesame", "")).unwrap();
        let changes = Arc::<Changes>::default();
        let client = LockClient::builder(backend.clone()).with_observer(changes.clone()).build();
        let findings = backend.admin().unwrap().check().await.unwrap();
        let found = findings.iter().find(|finding| finding.code == "E_SERVERS").unwrap();
        assert_eq!(found.severity, Severity::Error);
        client.try_acquire("a").await.map(drop).unwrap();
        let told = changes.0.lock().unwrap().clone();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains(&port.to_string()), "{told:?}");

        let alone = servers[0].backend("").admin().unwrap().check().await.unwrap();
        assert!(alone.iter().all(|finding| finding.code != "E_SERVERS"), "{alone:?}");
    }
}

/// A standby that was not promoted; and a server whose data is a copy, as all of these tests are copies of one: both have the system of
/// the primary, and the copy its timeline too.
#[tokio::test]
async fn copies_behind_the_address_of_a_primary_are_told_apart() {
    let primary = PostgresServer::start().unwrap();
    let standby = Server::Postgres(PostgresServer::start_standby_of(&primary).unwrap());
    let (primary, copy) = (Server::Postgres(primary), Server::postgres(&[]));
    for server in [&primary, &copy] {
        server.furnish().await;
    }
    let furnished = "SELECT count(*) FROM pg_class WHERE oid = to_regclass('leasehold')";
    until("the standby has the table", &standby, furnished).await;
    for (other, differs) in [(&standby, ", in recovery, started at "), (&copy, ", started at ")] {
        let port = balancer([primary.port(), other.port()]).await;
        let findings = open(&primary.url_at(port, "postgres", "")).unwrap().admin().unwrap().check().await;
        let findings = findings.unwrap();
        let found = findings.iter().find(|finding| finding.code == "E_SERVERS").unwrap();
        assert!(found.message.contains(differs), "{found:?}");
        assert!(found.message.contains(", timeline 00000001, started at "), "{found:?}");
    }
}

#[tokio::test]
async fn row_that_is_made_on_one_server_and_locked_on_another_is_told_without_a_cause() {
    let servers = [Server::mariadb(&[]), Server::mariadb(&[])];
    for server in &servers {
        server.furnish().await;
    }
    let port = balancer([servers[0].port(), servers[1].port()]).await;
    let backend = open(&servers[0].url_at(port, "locker:sesame", "mode=for-update&connections=2")).unwrap();
    let mut refused = 0;
    for name in 0..8 {
        if let Err(error) = backend.try_acquire(&claim(&name.to_string())).await {
            assert!(error.to_string().contains("not there each time after it was made"), "{error:?}");
            assert!(error.help().unwrap().contains("several servers"), "{error:?}");
            refused += 1;
        }
    }
    assert!(refused > 0, "the row was never made on the other server");
}

/// By a restart: the server is the same.
#[tokio::test]
async fn restarted_server_is_no_other_one() {
    for make in [Server::mariadb, Server::postgres] {
        let mut server = make(&[]);
        server.furnish().await;
        let backend = server.backend("");
        let changes = Arc::<Changes>::default();
        let client = LockClient::builder(backend).with_observer(changes.clone()).build();
        client.acquire("a").await.unwrap().release().await.unwrap();
        server.process().kill();
        server.process().restart(true).unwrap();
        client.acquire("a").await.unwrap().release().await.unwrap();
        assert_eq!(*changes.0.lock().unwrap(), Vec::<String>::new());
    }
}
