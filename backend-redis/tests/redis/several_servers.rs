//! One address, and several servers behind it that know nothing of each other.

use crate::kit::{answered, backend, claim, hold, proxy_to, server, url_of};
use leasehold_core::{Event, LockAdmin, LockBackend, LockClient, Observer, Severity};
use leasehold_redis::RedisBackend;
use leasehold_test_stores::servers::RedisServer;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Leads each new connection to the next of these servers.
async fn balancer(servers: &[RedisServer]) -> (SocketAddr, JoinSet<()>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let ports: Vec<u16> = servers.iter().map(RedisServer::port).collect();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut served = JoinSet::new();
        for port in ports.iter().cycle() {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut server = TcpStream::connect(("127.0.0.1", *port)).await.unwrap();
            served.spawn(async move {
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    (address, tasks)
}

#[tokio::test]
async fn several_servers_behind_one_address_are_an_error() {
    let servers = [server(), server()];
    let (address, _tasks) = balancer(&servers).await;
    let findings = answered(backend(&format!("redis://{address}")).check()).await.unwrap();
    let found = findings.iter().find(|finding| finding.code == "E_SERVERS").unwrap();
    assert_eq!(found.severity, Severity::Error);
    assert!(found.message.contains("2 servers, run_id "), "{found:?}");
    let (address, _tasks) = balancer(&servers[..1]).await;
    let findings = answered(backend(&format!("redis://{address}")).check()).await.unwrap();
    assert!(findings.iter().all(|finding| finding.code != "E_SERVERS"), "{findings:?}");
}

#[derive(Clone, Debug, Default)]
struct Changes(Arc<Mutex<Vec<(String, String)>>>);

impl Observer for Changes {
    fn event(&self, event: &Event<'_>) {
        if let Event::ServerChanged { before, now, .. } = event {
            self.0.lock().unwrap().push(((*before).to_owned(), (*now).to_owned()));
        }
    }
}

#[tokio::test]
async fn connection_to_another_server_than_before_is_told_once() {
    let servers = [server(), server()];
    let run_id = |server: &RedisServer| {
        let info = server.command(&["INFO", "server"]).unwrap();
        let id = info.lines().find_map(|line| line.strip_prefix("run_id:")).unwrap().to_owned();
        format!("run_id {}", id.trim())
    };
    for query in ["", "?protocol=resp2"] {
        let (proxy, changes) = (proxy_to(&servers[0]).await, Changes::default());
        let backend: Arc<RedisBackend> = backend(&url_of(&proxy, query));
        let _client = LockClient::builder(Arc::clone(&backend) as Arc<dyn LockBackend>)
            .with_observer(Arc::new(changes.clone()))
            .build();
        let first = claim("job");
        hold(&backend, &first).await;
        proxy.cut();
        while answered(backend.release(&first, Duration::ZERO)).await.is_err() {}
        assert!(changes.0.lock().unwrap().is_empty(), "the same server");
        for _ in 0..2 {
            for server in [&servers[1], &servers[0]] {
                proxy.lead_to(([127, 0, 0, 1], server.port()).into());
                proxy.cut();
                while answered(backend.release(&first, Duration::ZERO)).await.is_err() {}
            }
        }
        let expected = (run_id(&servers[0]), run_id(&servers[1]));
        assert_eq!(*changes.0.lock().unwrap(), [expected], "once for each server");
    }
}
