mod administrator;
mod servers;

pub(super) use servers::{Servers, clear, tell};

use super::kinds::KINDS;
use super::pool::{Pool, Pooled};
use super::{NOBODY, SECRET, cannot, connect, connect_observed, timeouts};
use crate::servers::RedisServer;
use async_trait::async_trait;
use leasehold::client::Observer;
use leasehold::{DistributedLock, LockName, Result};
use leasehold_conformance::ShimmedClock;
use leasehold_conformance::proxy::Proxy;
use leasehold_conformance::{Administrator, Cannot, Counters, Kinds, Store, Subject};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The user of the clients. It has the rights that the documentation names, and no other.
const USER: &str = "locker";
const PASSWORD: &str = "PASSWORD";
/// The rights that such a user needs, word by word as the documentation of `leasehold-redis` has them behind `resetkeys`:
/// the suite's own test holds the two against each other.
const RIGHTS: &str = "~leasehold:* ~{leasehold:* resetchannels &leasehold:* -@all \
    +eval +evalsha +set +get +exists +del +pexpire +pttl +time +ping +scan +type \
    +zadd +zscore +zrange +zrem +hset +hget +hdel +publish +subscribe";

/// Before a server answers, what it has done is in its file. The default, `everysec`, keeps a write back for up to two seconds while
/// the disk is slow (`flushAppendOnlyFile` in Redis's `aof.c`), and a killed process loses that.
pub(super) const APPEND_ONLY: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "no"];

/// One Redis node that writes to disk what it has acknowledged, as far as a crash of the process goes. A case has it to
/// itself; it is cleared and used again for another case unless this one has harmed it.
#[derive(Debug, Default)]
pub(crate) struct Redis {
    pool: Arc<Pool<RedisServer>>,
}

/// Counts the keys, and of a queue its places, with what may be left of a waiter that has none.
const RECORDS: &str = "#!lua flags=allow-cross-slot-keys
    local records = 0
    for _, key in ipairs(redis.call('KEYS', '*')) do
        local name = string.match(key, '^(.*):owners$')
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

/// Counts those who stand in any queue.
const WAITING: &str = "
    local waiting = 0
    for _, key in ipairs(redis.call('KEYS', '*:queue')) do
        waiting = waiting + redis.call('ZCARD', key)
    end
    return waiting";

#[derive(Debug)]
struct Node {
    server: Mutex<Pooled<RedisServer>>,
    /// The clock that the server runs by, if it is one of its own.
    clock: Mutex<Option<ShimmedClock>>,
}

fn start(environment: &[(String, String)]) -> std::result::Result<RedisServer, Cannot> {
    let password = format!(">{PASSWORD}");
    let mut arguments = APPEND_ONLY.to_vec();
    arguments.extend(["--user", USER, "on", &password]);
    arguments.extend(RIGHTS.split_whitespace());
    RedisServer::start_in(&arguments, environment).map_err(cannot)
}

/// Makes a server that was used like one that has just started, also for the clients' user.
fn renew(server: &RedisServer) -> std::result::Result<(), Cannot> {
    // Which closes the connections of the user.
    tell(server, &["ACL", "DELUSER", USER])?;
    clear(server)?;
    let password = format!(">{PASSWORD}");
    let rights = RIGHTS.split_whitespace();
    let words: Vec<&str> = ["ACL", "SETUSER", USER, "on", &password].into_iter().chain(rights).collect();
    tell(server, &words)
}

/// What a server keeps of locks, if it is a primary; of a replica it is what its primary keeps.
pub(super) fn records(server: &RedisServer) -> std::result::Result<usize, Cannot> {
    if !server.command(&["ROLE"]).map_err(cannot)?.contains("master") {
        return Ok(0);
    }
    let records = server.command(&["EVAL", RECORDS, "0"]).map_err(cannot)?;
    records.trim_start_matches(':').parse().map_err(|_| Cannot::failed(records.clone()))
}

/// Deletes the lock key of a name, which is to be there.
pub(super) fn delete(server: &RedisServer, name: &LockName) -> std::result::Result<(), Cannot> {
    let key = format!("leasehold:{name}");
    match server.command(&["DEL", &key]).map_err(cannot)?.as_str() {
        ":1" => Ok(()),
        ":0" => Err(Cannot::absent(NOBODY)),
        other => Err(Cannot::failed(format!("DEL {key} answered {other}"))),
    }
}

impl Node {
    fn server(&self) -> MutexGuard<'_, Pooled<RedisServer>> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server, which no other case is to have after this one.
    fn harmed(&self) -> MutexGuard<'_, Pooled<RedisServer>> {
        let server = self.server();
        server.keep_from_others();
        server
    }

    fn clock(&self) -> MutexGuard<'_, Option<ShimmedClock>> {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn port(&self) -> u16 {
        self.server().port()
    }

    /// How often clients have asked for this, scripts not counted.
    fn calls(stats: &str, command: &str) -> u64 {
        let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
        line.and_then(|line| line.split(',').next()?.parse().ok()).unwrap_or(0)
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

    fn kinds(&self) -> &dyn Kinds {
        &KINDS
    }

    async fn start(&self) -> std::result::Result<Box<dyn Store>, Cannot> {
        let server = match self.pool.take() {
            Some(used) => {
                renew(&used).inspect_err(|_| used.keep_from_others())?;
                used
            }
            None => self.pool.lend(start(&[])?),
        };
        Ok(Box::new(Node { server: Mutex::new(server), clock: Mutex::default() }))
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn DistributedLock>> {
        connect(address).await
    }

    async fn connect_observed(
        &self,
        address: &str,
        observer: Arc<dyn Observer>,
    ) -> std::result::Result<Arc<dyn DistributedLock>, Cannot> {
        connect_observed(address, observer).await.map_err(cannot)
    }
}

#[async_trait]
impl Store for Node {
    fn address(&self) -> String {
        format!("redis://{USER}:{PASSWORD}@127.0.0.1:{}", self.port())
    }

    async fn proxied(&self, patience: Duration) -> std::result::Result<(Proxy, String), Cannot> {
        let proxy = Proxy::to(([127, 0, 0, 1], self.port()).into()).await.map_err(cannot)?;
        let (server, timeouts) = (proxy.address(), timeouts(patience));
        let address = format!("redis://{USER}:{PASSWORD}@{server}?{timeouts}");
        Ok((proxy, address))
    }

    async fn pause(&self) -> std::result::Result<(), Cannot> {
        self.harmed().pause();
        Ok(())
    }

    async fn resume(&self) -> std::result::Result<(), Cannot> {
        self.harmed().resume();
        Ok(())
    }

    async fn kill(&self) -> std::result::Result<(), Cannot> {
        self.harmed().kill();
        Ok(())
    }

    async fn restart(&self, keep_data: bool) -> std::result::Result<(), Cannot> {
        self.harmed().restart(keep_data).map_err(cannot)
    }

    /// As it is shipped, Redis writes nothing but a snapshot after an hour.
    async fn crash(&self) -> std::result::Result<(), Cannot> {
        self.restart(false).await
    }

    async fn sync(&self) -> std::result::Result<(), Cannot> {
        self.harmed().sync().map_err(cannot)
    }

    async fn lose_power(&self) -> std::result::Result<(), Cannot> {
        self.harmed().lose_power().map_err(cannot)?;
        self.restart(true).await
    }

    async fn delete(&self, name: &LockName) -> std::result::Result<(), Cannot> {
        delete(&self.server(), name)
    }

    async fn wipe(&self) -> std::result::Result<(), Cannot> {
        tell(&self.server(), &["FLUSHALL"])
    }

    async fn records(&self) -> std::result::Result<usize, Cannot> {
        records(&self.server())
    }

    fn administrator(&self) -> std::result::Result<&dyn Administrator, Cannot> {
        Ok(self)
    }

    /// Messages are the requests of clients, wake-ups those who were told of a grant.
    async fn counters(&self) -> std::result::Result<Counters, Cannot> {
        let stats = self.command(&["INFO", "commandstats"])?;
        let messages =
            ["eval", "evalsha", "subscribe"].iter().map(|command| Self::calls(&stats, command)).sum();
        let waiting =
            self.command(&["EVAL", WAITING, "0"])?.trim_start_matches(':').parse().map_err(cannot)?;
        Ok(Counters::new(messages, Self::calls(&stats, "publish"), waiting))
    }

    async fn delete_queue(&self, name: &LockName) -> std::result::Result<(), Cannot> {
        let (lock, companion) = (format!("leasehold:{name}"), format!("{{leasehold:{name}}}:"));
        let [holder, token, queue, owners] =
            ["holder", "token", "queue", "owners"].map(|what| [&companion, what].concat());
        tell(&self.server(), &["DEL", &lock, &holder, &token, &queue, &owners])
    }

    async fn namespaced(&self, prefix: &str) -> std::result::Result<String, Cannot> {
        let [plain, tagged, channels] =
            [format!("~{prefix}*"), format!("~{{{prefix}*"), format!("&{prefix}*")];
        tell(&self.server(), &["ACL", "SETUSER", USER, &plain, &tagged, &channels])?;
        Ok(format!("{} {prefix}", self.address()))
    }

    async fn aliases(&self) -> std::result::Result<Vec<String>, Cannot> {
        let (login, port) = (format!("{USER}:{PASSWORD}"), self.port());
        Ok(vec![
            format!("redis://{login}@localhost:{port}"),
            format!("redis://{login}@127.0.0.1:{port}/0"),
            format!("valkey://{login}@127.0.0.1:{port}/?timeout=1s"),
            format!("redis://{login}@127.0.0.1:{port}?protocol=resp2"),
        ])
    }

    async fn secret(&self) -> std::result::Result<(String, String), Cannot> {
        let secret = SECRET.to_owned();
        Ok((format!("redis://locker:{secret}@127.0.0.1:{}", self.port()), secret))
    }
}

#[cfg(test)]
mod tests {
    use super::RIGHTS;

    #[test]
    fn the_rights_are_those_of_the_documentation() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/redis.md");
        let documentation = std::fs::read_to_string(file).unwrap();
        let line = documentation.split_once("resetkeys").and_then(|(_, rest)| rest.split_once("```"));
        let words = line.unwrap().0.split_whitespace().filter(|word| *word != "\\");
        assert!(words.eq(RIGHTS.split_whitespace()), "{file}");
    }
}
