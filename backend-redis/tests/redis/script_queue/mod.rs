//! What the scripts do with a queue, branch by branch: joining, handing over, leaving.

mod handing_over;
mod joining;
mod leaving;

use crate::kit::{Look, backend, claim, hold, keys, queue, server, waiter};
use leasehold_core::{Claim, FencingToken};
use leasehold_redis::RedisBackend;
use leasehold_test_stores::servers::RedisServer;
use std::sync::Arc;

/// A lock that is held, and so many who wait for it in this order.
struct Setup {
    server: RedisServer,
    backend: Arc<RedisBackend>,
    holder: Claim,
    token: FencingToken,
    waiters: Vec<Claim>,
}

async fn setup(waiting: usize) -> Setup {
    let server = server();
    let backend = backend(&server.url());
    let holder = claim("job");
    let token = hold(&backend, &holder).await;
    let waiters: Vec<Claim> = (0..waiting).map(|_| waiter("job")).collect();
    for waiter in &waiters {
        queue(&backend, waiter).await;
    }
    Setup { server, backend, holder, token, waiters }
}

impl Setup {
    fn owners(&self) -> Vec<String> {
        self.waiters.iter().map(|waiter| waiter.owner().to_hex()).collect()
    }

    /// The owner in the lock key.
    fn owner(&self) -> Option<String> {
        self.server.get(&keys("job").lock)
    }

    fn entry(&self, waiter: &Claim) -> Vec<String> {
        let reply = self.server.command(&["HGET", &keys("job").waiters, &waiter.owner().to_hex()]).unwrap();
        let entry = reply.lines().nth(1).unwrap_or_default();
        entry.splitn(5, ' ').map(str::to_owned).collect()
    }

    /// Makes it look as if no heartbeat of this one had come for two seconds.
    fn silence(&self, waiter: &Claim) {
        let [_, lease, channel, mode, words] = self.entry(waiter).try_into().unwrap();
        let entry = format!("1 {lease} {channel} {mode} {words}");
        self.server.command(&["HSET", &keys("job").waiters, &waiter.owner().to_hex(), &entry]).unwrap();
    }

    /// Ends the hold as its expiry does: nothing is left of it, and no message is sent.
    fn expire(&self) {
        self.server.command(&["DEL", &keys("job").lock, &keys("job").holder]).unwrap();
    }
}
