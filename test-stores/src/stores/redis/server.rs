use super::commands::{
    APPEND_ONLY, ask_number, clear, delete, kill_connections, lock_key, records, tell, wall_clocks,
};
use crate::servers::RedisServer;
use crate::stores::connect::loopback;
use crate::stores::server_group::{DataServer, Environment, ServerGroup};
use crate::stores::server_store::ServerStore;
use async_trait::async_trait;
use leasehold::LockName;
use leasehold_conformance::{Counters, Stop};
use std::net::SocketAddr;
use std::slice::from_mut;

/// The user of the clients. It has the rights that the documentation names, and no other.
pub(super) const USER: &str = "locker";
const PASSWORD: &str = ">PASSWORD";
const LOGIN: &str = "locker:PASSWORD";
/// The rights that such a user needs, word by word as the documentation of `leasehold-redis` has them behind `resetkeys`: the
/// test below holds the two against each other.
const RIGHTS: &str = "~leasehold:* ~{leasehold:* resetchannels &leasehold:* -@all \
    +eval +evalsha +set +get +exists +del +pexpire +pttl +time +ping +scan +type \
    +zadd +zscore +zrange +zrem +hset +hget +hdel +publish +subscribe";

/// Counts the places in all queues.
const WAITING: &str = "
    local waiting = 0
    for _, key in ipairs(redis.call('KEYS', '*:queue')) do
        waiting = waiting + redis.call('ZCARD', key)
    end
    return waiting";

impl DataServer for RedisServer {
    fn port(&self) -> u16 {
        Self::port(self)
    }

    fn sync(&mut self) -> Result<(), Stop> {
        Ok(Self::sync(self)?)
    }

    fn lose_power(&mut self) -> Result<(), Stop> {
        Ok(Self::lose_power(self)?)
    }
}

/// One Redis server that writes to disk what it has acknowledged, as far as a crash of the process goes.
#[async_trait]
impl ServerGroup for RedisServer {
    type Server = Self;
    type Mode = ();

    const CRASH_KEEPS_DATA: bool = false;

    fn launch((): (), environment: &Environment) -> Result<Self, Stop> {
        let user = ["--user", USER, "on", PASSWORD].into_iter().chain(RIGHTS.split_whitespace());
        let arguments: Vec<&str> = APPEND_ONLY.into_iter().chain(user).collect();
        Self::start_in(&arguments, environment)
    }

    fn servers(&mut self) -> &mut [Self] {
        from_mut(self)
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        vec![loopback(self.port())]
    }

    fn url_at(&self, addresses: &[SocketAddr]) -> String {
        format!("redis://{LOGIN}@{}", addresses[0])
    }

    fn aliases(&self) -> Result<Vec<String>, Stop> {
        let port = self.port();
        Ok(vec![
            format!("redis://{LOGIN}@localhost:{port}"),
            format!("redis://{LOGIN}@127.0.0.1:{port}/0"),
            format!("valkey://{LOGIN}@127.0.0.1:{port}/?timeout=1s"),
            format!("redis://{LOGIN}@127.0.0.1:{port}?protocol=resp2"),
        ])
    }

    fn url_with_secret(&self, secret: &str) -> Result<String, Stop> {
        Ok(format!("redis://locker:{secret}@127.0.0.1:{}", self.port()))
    }

    fn permit_prefix(&self, prefix: &str) -> Result<(), Stop> {
        let [plain, tagged, channels] =
            [format!("~{prefix}*"), format!("~{{{prefix}*"), format!("&{prefix}*")];
        tell(self, &["ACL", "SETUSER", USER, &plain, &tagged, &channels])
    }

    /// Makes the user of the clients anew as well. To delete a user closes its connections.
    async fn reset(store: &ServerStore<Self>) -> Result<(), Stop> {
        let server = store.group();
        tell(&server, &["ACL", "DELUSER", USER])?;
        clear(&server)?;
        let user = ["ACL", "SETUSER", USER, "on", PASSWORD].into_iter().chain(RIGHTS.split_whitespace());
        tell(&server, &user.collect::<Vec<_>>())
    }

    /// Changes the password, and ends the connections that have logged in with the one before.
    async fn refuse(store: &ServerStore<Self>, refuse: bool) -> Result<(), Stop> {
        let (server, password) = (store.group(), if refuse { ">another" } else { PASSWORD });
        tell(&server, &["ACL", "SETUSER", USER, "resetpass", password])?;
        kill_connections(&server)
    }

    async fn delete(store: &ServerStore<Self>, name: &LockName) -> Result<(), Stop> {
        delete(&store.group(), name)
    }

    async fn delete_queue(store: &ServerStore<Self>, name: &LockName) -> Result<(), Stop> {
        let lock = lock_key(name);
        let [holder, token, queue, owners] =
            ["holder", "token", "queue", "owners"].map(|companion| format!("{{{lock}}}:{companion}"));
        tell(&store.group(), &["DEL", &lock, &holder, &token, &queue, &owners])
    }

    async fn wipe(store: &ServerStore<Self>) -> Result<(), Stop> {
        tell(&store.group(), &["FLUSHALL"])
    }

    async fn records(store: &ServerStore<Self>) -> Result<usize, Stop> {
        records(&store.group())
    }

    /// Messages are the requests of clients, scripts' own not counted; wake-ups are messages to those that were granted a lock.
    fn counters(&self) -> Result<Counters, Stop> {
        let stats = self.command(&["INFO", "commandstats"])?;
        let calls = |command: &str| {
            let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
            line.and_then(|line| line.split(',').next()?.parse().ok()).unwrap_or(0_u64)
        };
        let messages = ["eval", "evalsha", "subscribe"].into_iter().map(calls).sum();
        let waiting = ask_number(self, &["EVAL", WAITING, "0"])?;
        Ok(Counters::new(messages, calls("publish"), waiting.try_into().map_err(Stop::failed)?))
    }

    async fn wall_clocks(store: &ServerStore<Self>) -> Result<Vec<i64>, Stop> {
        wall_clocks(store.group().servers())
    }
}

#[cfg(test)]
mod tests {
    use super::RIGHTS;

    #[test]
    fn rights_of_the_user_are_those_of_the_documentation() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/redis.md");
        let documentation = std::fs::read_to_string(file).unwrap();
        let line = documentation.split_once("resetkeys").and_then(|(_, rest)| rest.split_once("```"));
        let words = line.unwrap().0.split_whitespace().filter(|word| *word != "\\");
        assert!(words.eq(RIGHTS.split_whitespace()), "{file}");
    }
}
