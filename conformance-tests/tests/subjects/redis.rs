use super::{cannot, connect};
use async_trait::async_trait;
use leasehold::{DistributedLock, LockName, Result};
use leasehold_conformance::proxy::Proxy;
use leasehold_conformance::servers::RedisServer;
use leasehold_conformance::{Cannot, Store, Subject};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// One Redis node that writes to disk what it has acknowledged, as far as a crash of the process goes.
#[derive(Debug)]
pub(crate) struct Redis;

/// Counts the keys, and of a queue its places, with what may be left of a waiter that has none.
const RECORDS: &str = "
    local records = 0
    for _, key in ipairs(redis.call('KEYS', '*')) do
        local name = string.match(key, '^(.*):waiters$')
        if name then
            local places = redis.call('ZCARD', name .. ':queue')
            records = records + math.max(0, redis.call('HLEN', key) - places)
        elseif string.match(key, ':queue$') then
            records = records + redis.call('ZCARD', key)
        else
            records = records + 1
        end
    end
    return records";

#[derive(Debug)]
struct Node {
    server: Mutex<RedisServer>,
    port: u16,
}

impl Node {
    fn server(&self) -> MutexGuard<'_, RedisServer> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn command(&self, words: &[&str]) -> std::result::Result<String, Cannot> {
        self.server().command(words).map_err(cannot)
    }
}

#[async_trait]
impl Subject for Redis {
    fn name(&self) -> &str {
        "redis"
    }

    async fn start(&self) -> std::result::Result<Box<dyn Store>, Cannot> {
        let server = RedisServer::start_with(&["--appendonly", "yes"]).map_err(cannot)?;
        let port = server.port();
        Ok(Box::new(Node { server: Mutex::new(server), port }))
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn DistributedLock>> {
        connect(address).await
    }
}

#[async_trait]
impl Store for Node {
    fn address(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    async fn proxied(&self, patience: Duration) -> std::result::Result<(Proxy, String), Cannot> {
        let proxy = Proxy::to(([127, 0, 0, 1], self.port).into()).await.map_err(cannot)?;
        let patience = patience.as_millis();
        let address =
            format!("redis://{}?timeout={patience}ms&connect_timeout={patience}ms", proxy.address());
        Ok((proxy, address))
    }

    async fn pause(&self) -> std::result::Result<(), Cannot> {
        self.server().pause();
        Ok(())
    }

    async fn resume(&self) -> std::result::Result<(), Cannot> {
        self.server().resume();
        Ok(())
    }

    async fn kill(&self) -> std::result::Result<(), Cannot> {
        self.server().kill();
        Ok(())
    }

    async fn restart(&self, keep_data: bool) -> std::result::Result<(), Cannot> {
        self.server().restart(keep_data).map_err(cannot)
    }

    async fn delete(&self, name: &LockName) -> std::result::Result<(), Cannot> {
        let key = format!("leasehold:{name}");
        let deleted = self.command(&["DEL", &key])?;
        if deleted == ":1" { Ok(()) } else { Err(Cannot::new(format!("DEL {key} answered {deleted}"))) }
    }

    async fn wipe(&self) -> std::result::Result<(), Cannot> {
        self.command(&["FLUSHALL"]).map(drop)
    }

    async fn records(&self) -> std::result::Result<usize, Cannot> {
        self.command(&["EVAL", RECORDS, "0"])?.trim_start_matches(':').parse().map_err(cannot)
    }

    async fn delete_queue(&self, name: &LockName) -> std::result::Result<(), Cannot> {
        let (lock, companion) = (format!("leasehold:{name}"), format!("{{leasehold:{name}}}:"));
        let [holder, token, queue, waiters] =
            ["holder", "token", "queue", "waiters"].map(|what| [&companion, what].concat());
        self.command(&["DEL", &lock, &holder, &token, &queue, &waiters]).map(drop)
    }

    async fn namespaced(&self, prefix: &str) -> std::result::Result<String, Cannot> {
        Ok(format!("{} {prefix}", self.address()))
    }

    async fn aliases(&self) -> std::result::Result<Vec<String>, Cannot> {
        let port = self.port;
        Ok(vec![
            format!("redis://localhost:{port}"),
            format!("redis://127.0.0.1:{port}/0"),
            format!("valkey://127.0.0.1:{port}/?timeout=1s"),
            format!("redis://127.0.0.1:{port}?protocol=resp2"),
        ])
    }

    async fn secret(&self) -> std::result::Result<(String, String), Cannot> {
        let secret = "S3CR3T-CANARY".to_owned();
        Ok((format!("redis://locker:{secret}@127.0.0.1:{}", self.port), secret))
    }
}
