//! `etcdctl lock` in the same queue. Go's `concurrency.Mutex` is what it uses.

use crate::*;
use leasehold_core::{LockAdmin, LockBackend};
use leasehold_test_stores::servers::EtcdServer;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// `etcdctl lock`, which holds the lock until it is interrupted.
struct Peer(Child);

impl Peer {
    fn start(server: &EtcdServer, lock: &str) -> Self {
        let mut command = server.ctl_command().unwrap();
        Self(command.args(["lock", lock]).stdout(Stdio::piped()).spawn().unwrap())
    }

    /// Waits until it holds the lock, and answers its key.
    fn key(&mut self) -> String {
        let mut line = String::new();
        BufReader::new(self.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    fn release(mut self) {
        let interrupted = Command::new("kill").args(["-INT", &self.0.id().to_string()]).status();
        assert!(interrupted.unwrap().success());
        self.0.wait().unwrap();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn etcdctl_and_we_exclude_each_other_in_one_queue() {
    let server = server();
    let backend = backend(&server.url());
    let mut peer = Peer::start(&server, "leasehold/job");
    let key = tokio::task::block_in_place(|| peer.key());
    assert!(key.starts_with("leasehold/job/"), "{key}");
    assert!(is_busy(&backend, &claim("job")).await, "a try beside etcdctl");
    let ours = waiter("job");
    assert!(is_busy(&backend, &ours).await);

    let mut behind = Peer::start(&server, "leasehold/job");
    until("etcdctl waits behind us", || keys(&server, "leasehold/job/").len() == 3);
    let status = backend.inspect(&name("job")).await.unwrap().remove(0);
    assert_eq!(status.owner, None);
    let theirs = status.token.unwrap();

    tokio::task::block_in_place(|| peer.release());
    let token = wait_for_grant(&backend, &ours).await;
    assert!(token > theirs);
    assert_eq!(keys(&server, "leasehold/job/").len(), 2, "etcdctl still waits");
    release(&backend, &ours).await;
    let key = tokio::task::block_in_place(|| behind.key());
    let shown = server.ctl(&["get", &key, "-w", "fields"]).unwrap();
    let next = backend.inspect(&name("job")).await.unwrap().remove(0).token.unwrap();
    assert!(next > token && shown.contains(&format!("\"CreateRevision\" : {next}")), "{shown}");
    tokio::task::block_in_place(|| behind.release());
    backend.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn etcdctl_waits_for_our_reader() {
    let server = server();
    let backend = backend(&server.url());
    let reader = claim("job").with_mode(leasehold_core::LockMode::Shared);
    hold(&backend, &reader).await;
    let mut peer = Peer::start(&server, "leasehold/job");
    until("etcdctl waits", || keys(&server, "leasehold/job/").len() == 2);
    assert!(
        is_busy(&backend, &claim("job").with_mode(leasehold_core::LockMode::Shared)).await,
        "it is a writer"
    );
    release(&backend, &reader).await;
    tokio::task::block_in_place(|| {
        peer.key();
        peer.release();
    });
}
