use async_trait::async_trait;
use leasehold_conformance::proxy::Proxy;
use leasehold_conformance::{Administrator, Kinds, ProcessClock, Stop, Store, Subject};
use leasehold_core::{DistributedLock, LockName, Result};
use leasehold_test_stores::servers::RedisServer;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Makes a lock on the server at an address, with the patience that it is to have for a reply.
pub(crate) type Make = fn(address: &Address) -> Result<Arc<dyn DistributedLock>>;

/// Starts the server that such a lock stands on.
pub(crate) type Start = fn() -> std::result::Result<Box<dyn Store>, Stop>;

/// A lock of this program, broken or not, as a subject of the suite: on a real server of its own.
pub(crate) struct Made {
    pub(crate) name: String,
    pub(crate) start: Start,
    pub(crate) make: Make,
    pub(crate) kinds: &'static dyn Kinds,
    /// The lease that it makes of a ttl.
    pub(crate) lease: Lasting,
}

/// What becomes of a time.
pub(crate) type Lasting = fn(Duration) -> Duration;

/// `host:port [patience_ms [password [hold_ms [replica]]]]`, in one line for worker processes.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    pub(crate) server: String,
    pub(crate) patience: Duration,
    pub(crate) password: String,
    /// The time for which a hold lasts without a word, where the lease does not say it.
    pub(crate) hold: Option<Duration>,
    /// The address of a copy of the store, if there is one.
    pub(crate) replica: Option<String>,
}

/// For a server that does not do its part. The case is then skipped: a failed one would pass for one that has caught the lock.
pub(crate) fn cannot(error: impl fmt::Display) -> Stop {
    Stop::skipped(error.to_string())
}

/// With the clock that it sees, if that can be set.
#[derive(Debug)]
struct Server(RedisServer, Option<ProcessClock>);

/// A `redis-server` of its own, which tells its listeners of keys that are deleted or expire.
pub(crate) fn redis() -> std::result::Result<Box<dyn Store>, Stop> {
    let told = ["--notify-keyspace-events", "Kgx"];
    let server = RedisServer::start_with(&told).map_err(cannot)?;
    Ok(Box::new(Server(server, None)))
}

pub(crate) fn redis_with_a_clock() -> std::result::Result<Box<dyn Store>, Stop> {
    let clock = ProcessClock::ahead(0)?;
    let server = RedisServer::start_in(&[], &clock.environment()).map_err(cannot)?;
    Ok(Box::new(Server(server, Some(clock))))
}

impl Address {
    fn parse(text: &str) -> Self {
        let mut words = text.split(' ');
        let mut word = || words.next().unwrap_or_default().to_owned();
        let (server, patience, password, hold, replica) = (word(), word(), word(), word(), word());
        let patience = Duration::from_millis(patience.parse().unwrap_or(5000));
        let hold = hold.parse().ok().map(Duration::from_millis);
        Self {
            server,
            patience,
            password,
            hold,
            replica: Some(replica).filter(|replica| !replica.is_empty()),
        }
    }

    /// The same client's way to the copy of the store; to the store itself, if it has none.
    pub(crate) fn to_replica(&self) -> Self {
        Self { server: self.replica.clone().unwrap_or_else(|| self.server.clone()), ..self.clone() }
    }
}

#[async_trait]
impl Subject for Made {
    fn name(&self) -> &str {
        &self.name
    }

    async fn start(&self) -> std::result::Result<Box<dyn Store>, Stop> {
        (self.start)()
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn DistributedLock>> {
        (self.make)(&Address::parse(address))
    }

    fn kinds(&self) -> &dyn Kinds {
        self.kinds
    }

    fn lease(&self, ttl: Duration) -> Duration {
        (self.lease)(ttl)
    }
}

#[async_trait]
impl Store for Server {
    fn address(&self) -> String {
        format!("127.0.0.1:{} 5000", self.0.port())
    }

    async fn proxied(&self, patience: Duration) -> std::result::Result<(Proxy, String), Stop> {
        let target = ([127, 0, 0, 1], self.0.port()).into();
        let proxy = Proxy::to(target).await.map_err(cannot)?;
        let address = format!("{} {}", proxy.address(), patience.as_millis());
        Ok((proxy, address))
    }

    async fn records(&self) -> std::result::Result<usize, Stop> {
        let size = self.0.command(&["DBSIZE"]).map_err(cannot)?;
        size.trim_start_matches(':').parse().map_err(|_| Stop::skipped(size.clone()))
    }

    async fn wipe(&self) -> std::result::Result<(), Stop> {
        self.0.command(&["FLUSHALL"]).map(drop).map_err(cannot)
    }

    async fn refuse(&self, refuse: bool) -> std::result::Result<(), Stop> {
        let rights = if refuse { &["-@all", "+acl", "+echo"][..] } else { &["+@all"] };
        self.0.command(&[&["ACL", "SETUSER", "default"][..], rights].concat()).map(drop).map_err(cannot)
    }

    fn administrator(&self) -> std::result::Result<&dyn Administrator, Stop> {
        Ok(self)
    }

    async fn delete(&self, name: &LockName) -> std::result::Result<(), Stop> {
        let readers = format!("{name}\u{1}readers");
        self.0.command(&["DEL", name.as_str(), &readers]).map(drop).map_err(cannot)
    }

    async fn kill(&self) -> std::result::Result<(), Stop> {
        // Its answer is that the connection ends.
        let _ = self.0.command(&["SHUTDOWN", "NOSAVE"]);
        Ok(())
    }

    async fn secret(&self) -> std::result::Result<(String, String), Stop> {
        let secret = "S3CR3T-CANARY".to_owned();
        Ok((format!("127.0.0.1:{} 5000 {secret}", self.0.port()), secret))
    }
}

#[async_trait]
impl Administrator for Server {
    async fn evict_everything(&self) -> std::result::Result<(), Stop> {
        self.wipe().await
    }

    async fn set_clock_ahead(&self, seconds: i64) -> std::result::Result<(), Stop> {
        let clock = self.1.as_ref().ok_or_else(|| cannot("its clock is that of the host"))?;
        clock.set_ahead(seconds)
    }
}

impl fmt::Debug for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
