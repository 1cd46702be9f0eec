//! The server without a library over it, for `leasehold bench`.

use crate::connection::{Link, Route};
use crate::keys::Keys;
use crate::reply::{info_field, text};
use crate::scripts::Script;
use crate::target::Deployment;
use crate::waiters::WaiterRegistry;
use async_trait::async_trait;
use leasehold_core::bench::{ByHand, Counters, Yardstick};
use leasehold_core::{Error, ErrorKind, LockName, Namespace, OwnerId, Result};
use leasehold_store_url::StoreUrl;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, ServerErrorKind, Value};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::OnceCell;

/// As long as no measurement takes.
const LEASE_MILLIS: &str = "30000";
/// The least that grants a lease with a token: no queue, no holder record. Replies the token, or nil if it is held.
static RAW_ACQUIRE: Script = Script::new(
    "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return redis.call('INCR', KEYS[2]) end return false",
);
/// The least that ends a lease, if it is still its owner's. Replies 1, or 0 if it is not held.
static RAW_RELEASE: Script = Script::new(
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0",
);
/// The same, and publishes `ARGV[3]` on the channel `ARGV[2]`. Replies the number of listeners, or 0 if it was not held.
static RAW_RELEASE_TELLING: Script = Script::new(
    "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) \
     return redis.call('PUBLISH', ARGV[2], ARGV[3]) end return 0",
);
/// How many names are forgotten in one command.
const AT_ONCE: usize = 128;

#[derive(Debug)]
struct Raw {
    link: Arc<Link>,
    keys: Keys,
    id: OwnerId,
    owner: String,
    /// Another connection, on which a waiter listens, and its messages.
    waiting: Arc<Link>,
    waiters: Arc<WaiterRegistry>,
    connection: OnceCell<MultiplexedConnection>,
    /// What is sent by hand waits for none, and so would be no measure of a lock that does.
    waits_for_replicas: bool,
}

/// The server at this URL, if it names one. Connects to nothing yet. Errors as of [`open`](crate::open).
pub fn open(url: &StoreUrl, namespace: &Namespace) -> Result<Option<Arc<dyn Yardstick>>> {
    if url.scheme().starts_with("redlock") {
        return Ok(None);
    }
    let (Deployment::Single(target), replicas) = Deployment::of(url)? else {
        return Ok(None);
    };
    let (keys, id, waiters) = (Keys::new(namespace)?, OwnerId::random()?, Arc::<WaiterRegistry>::default());
    let owner = id.to_hex();
    let link = |waiters: &Arc<WaiterRegistry>| {
        Link::new(Route::Server(target.clone()), Arc::clone(waiters), keys.channel(&owner))
    };
    Ok(Some(Arc::new(Raw {
        link: link(&Arc::default()),
        waiting: link(&waiters),
        keys,
        id,
        owner,
        waiters,
        connection: OnceCell::new(),
        waits_for_replicas: replicas.is_some(),
    })))
}

impl Raw {
    /// By digest; in full the first time, when the server does not have the script.
    async fn call(&self, script: &Script, keys: &[&str], args: &[&str]) -> Result<()> {
        let mut reply = self.send(&script.call(false, keys, args)).await?;
        if matches!(&reply, Value::ServerError(error) if error.kind() == Some(ServerErrorKind::NoScript)) {
            reply = self.send(&script.call(true, keys, args)).await?;
        }
        match reply {
            Value::Int(1..) => Ok(()),
            other => Err(unexpected(format!("a script for measuring answered {other:?}"))),
        }
    }

    async fn send(&self, command: &Cmd) -> Result<Value> {
        let mut connection = self.connection.get_or_try_init(|| self.link.bare()).await?.clone();
        let reply = connection.send_packed_command(command).await;
        reply.map_err(|error| unexpected("the connection broke").with_source(error))
    }
}

#[async_trait]
impl Yardstick for Raw {
    async fn server(&self) -> Result<String> {
        let facts = self.link.facts().await?;
        Ok(format!("{} {}", facts.flavour, facts.version))
    }

    fn has(&self, _measure: ByHand) -> bool {
        !self.waits_for_replicas
    }

    async fn raw_pair(&self, name: &LockName) -> Result<()> {
        let keys = self.keys.of(name);
        let [lock, _, token] = keys.of_grant();
        self.call(&RAW_ACQUIRE, &[lock, token], &[&self.owner, LEASE_MILLIS]).await?;
        self.call(&RAW_RELEASE, &[lock], &[&self.owner]).await
    }

    async fn tokenless_pair(&self, name: &LockName) -> Result<()> {
        let keys = self.keys.of(name);
        let mut set = redis::cmd("SET");
        set.arg(keys.lock()).arg(&self.owner).arg("NX").arg("PX").arg(LEASE_MILLIS);
        match self.send(&set).await? {
            Value::Okay => self.call(&RAW_RELEASE, &[keys.lock()], &[&self.owner]).await,
            other => Err(unexpected(format!("a name for measuring is in use: {other:?}"))),
        }
    }

    async fn raw_notice(&self, name: &LockName) -> Result<Duration> {
        if !self.waiting.listen().await {
            return Err(unexpected("the server sends no messages"));
        }
        let keys = self.keys.of(name);
        let [lock, _, token] = keys.of_grant();
        self.call(&RAW_ACQUIRE, &[lock, token], &[&self.owner, LEASE_MILLIS]).await?;
        self.waiters.add(self.id, name);
        self.waiters.set_place(self.id, 1);
        // In the form that the registry understands: at the first place, with the first token.
        let message = format!("{} 1 1", self.owner);
        let (keys, args) = ([lock], [self.owner.as_str(), &self.waiting.channel, &message]);
        let (told, begin) = (self.waiters.changed(self.id), Instant::now());
        let heard = async {
            told.await;
            Ok(begin.elapsed())
        };
        let ended = tokio::try_join!(self.call(&RAW_RELEASE_TELLING, &keys, &args), heard);
        self.waiters.remove(self.id);
        ended.map(|((), heard)| heard)
    }

    async fn counters(&self) -> Result<Option<Counters>> {
        match self.link.command(redis::cmd("INFO").arg("stats")).await {
            Ok(info) => Ok(text(&info).and_then(|info| read_counters(&info))),
            Err(error) if error.kind() == ErrorKind::Denied => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn forget(&self, names: &[LockName]) -> Result<()> {
        for some in names.chunks(AT_ONCE) {
            let mut delete = Cmd::new();
            delete.arg("DEL");
            for name in some {
                delete.arg(&self.keys.of(name).all());
            }
            self.link.command(&delete).await?;
        }
        Ok(())
    }
}

fn read_counters(info: &str) -> Option<Counters> {
    let field = |name| -> Option<u64> { info_field(info, name)?.parse().ok() };
    let bytes = field("total_net_input_bytes")? + field("total_net_output_bytes")?;
    Some(Counters { commands: field("total_commands_processed")?, bytes })
}

fn unexpected(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Unavailable, what.into())
        .with_help("measure again; no other program may use these names")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_from_the_servers_own_words() {
        let info = "# Stats\r\ntotal_connections_received:3\r\ntotal_commands_processed:41\r\n\
                    total_net_input_bytes:100\r\ntotal_net_output_bytes:20\r\n";
        assert_eq!(read_counters(info), Some(Counters { commands: 41, bytes: 120 }));
        assert_eq!(read_counters("total_commands_processed:41"), None);
    }
}
