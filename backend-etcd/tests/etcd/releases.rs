//! Releases that fail, calls that are dropped, and answers that come late: what stays of a claim, in the client and in the store.

use crate::*;
use leasehold_conformance::proxy::{Proxy, Traffic};
use leasehold_core::{LockBackend, Release};
use std::time::Duration;
use tokio::time::sleep;

const PAUSE: Duration = Duration::from_millis(10);

async fn behind_a_proxy(server: &EtcdServer) -> (Proxy, EtcdBackend) {
    let proxy = Proxy::to(([127, 0, 0, 1], server.port()).into()).await.unwrap();
    let backend = backend(&format!("etcd://{}", proxy.address()));
    (proxy, backend)
}

/// Passes on one piece of the replies after the other, until something holds in the store. The reply that tells of it is kept back.
async fn pass_replies_until(proxy: &Proxy, holds: impl Fn() -> bool) {
    let mut passed = proxy.reply_bytes();
    loop {
        let read = proxy.reply_bytes();
        if holds() {
            return;
        }
        if read > passed {
            passed = read;
            proxy.pass_one_reply();
        }
        sleep(PAUSE).await;
    }
}

/// The create that was not answered may still be carried out on that lease. That the revoke was carried out is not known either.
#[tokio::test]
async fn lease_whose_revoke_was_dropped_without_an_answer_is_not_given_back() {
    let server = server();
    let (proxy, backend) = behind_a_proxy(&server).await;
    let (other, holder) = (claim("other"), waiter("job"));
    // Its lease is kept, so that the create is the first request that is not answered.
    hold(&backend, &other).await;
    release(&backend, &other).await;
    proxy.set(Traffic::HoldReplies);
    let carry_out_the_revoke = async {
        while keys(&server, "leasehold/job/").is_empty() {
            sleep(PAUSE).await;
        }
        let first = format!("{:x}", lease_of(&server, "job"));
        proxy.cut();
        let has_ended = || server.ctl(&["lease", "timetolive", &first]).unwrap().contains("already expired");
        pass_replies_until(&proxy, has_ended).await;
    };
    let dropped = async {
        tokio::select! {
            attempt = backend.try_acquire(&holder) => panic!("{attempt:?}"),
            () = carry_out_the_revoke => {}
        }
    };
    answered(dropped).await;
    proxy.set(Traffic::Pass);
    let revokes = || server.counter("grpc_server_started_total{grpc_method=\"LeaseRevoke\"").unwrap();
    assert_eq!(revokes(), 1);
    assert_eq!(release(&backend, &holder).await, Release::Released);
    assert_eq!(revokes(), 2);
    assert_eq!(keys(&server, ""), [""; 0]);
}
