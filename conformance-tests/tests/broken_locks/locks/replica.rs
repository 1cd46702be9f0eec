//! A lock over a Redis with a replica, and what people get wrong with one.

use crate::plain::{SOUND, Steps, busy, fence, granted, key};
use crate::subject::cannot;
use async_trait::async_trait;
use leasehold_conformance::proxy::{Proxy, Traffic};
use leasehold_conformance::{Administrator, Stop, Store};
use leasehold_core::Attempt;
use leasehold_test_stores::servers::RedisServer;
use std::time::{Duration, Instant};

/// A primary, a replica, and the network between them.
#[derive(Debug)]
struct Pair {
    primary: RedisServer,
    replica: RedisServer,
    link: Proxy,
}

/// How long a replica may take to follow.
const FOLLOWS_WITHIN: Duration = Duration::from_secs(10);

/// Two servers of their own, the one a copy of the other.
pub(crate) fn start() -> Result<Box<dyn Store>, Stop> {
    let started = tokio::runtime::Handle::current();
    tokio::task::block_in_place(|| started.block_on(Pair::start())).map(|pair| Box::new(pair) as _)
}

/// #30: whether the lock is free is asked of the replica, to spare the primary, and what it says is believed.
pub(crate) const ASKS_THE_REPLICA: Steps = Steps {
    acquire: |redis, claim| {
        Box::pin(async move {
            if redis.replica().command::<Option<String>>(&["GET", &key(claim)]).await?.is_some() {
                return Ok(busy());
            }
            let (owner, lease) = (claim.owner().to_hex(), claim.ttl_millis().to_string());
            redis.command::<()>(&["SET", &key(claim), &owner, "PX", &lease]).await?;
            let token = redis.command(&["INCR", &fence(claim)]).await?;
            // With a replica that follows, nobody ever sees it go wrong. For one that does not, it must not wait for
            // longer than its lease.
            redis.command::<u64>(&["WAIT", "1", "300"]).await?;
            Ok(granted(token))
        })
    },
    release: |redis, claim| {
        Box::pin(async move {
            let released = (SOUND.release)(redis, claim).await?;
            redis.command::<u64>(&["WAIT", "1", "300"]).await?;
            Ok(released)
        })
    },
    ..SOUND
};

/// #105: the token of a grant is asked of the replica, which may have the last one.
pub(crate) const TOKEN_OF_THE_REPLICA: Steps = Steps {
    acquire: |redis, claim| {
        Box::pin(async move {
            let attempt = (SOUND.acquire)(redis, claim).await?;
            if let Attempt::Busy(_) = attempt {
                return Ok(attempt);
            }
            redis.command::<u64>(&["WAIT", "1", "300"]).await?;
            let token: Option<u64> = redis.replica().command(&["GET", &fence(claim)]).await?;
            Ok(granted(token.unwrap_or_default()))
        })
    },
    ..SOUND
};

impl Pair {
    async fn start() -> Result<Self, Stop> {
        let primary = RedisServer::start_with(&["--repl-diskless-sync-delay", "0"]).map_err(cannot)?;
        let replica = RedisServer::start().map_err(cannot)?;
        let link = Proxy::to(([127, 0, 0, 1], primary.port()).into()).await.map_err(cannot)?;
        let port = link.address().port().to_string();
        replica.command(&["REPLICAOF", "127.0.0.1", &port]).map_err(cannot)?;
        let pair = Self { primary, replica, link };
        // The first mark may come with the copy, a second before the replica takes what follows that.
        pair.until_the_replica_follows().await?;
        pair.until_the_replica_follows().await?;
        Ok(pair)
    }

    async fn until_the_replica_follows(&self) -> Result<(), Stop> {
        let start = Instant::now();
        // Counts up, so that a mark of an earlier time is none.
        let mark = self.primary.command(&["INCR", "mark"]).map_err(cannot)?;
        let mark = mark.trim_start_matches(':');
        while !self.replica.command(&["GET", "mark"]).map_err(cannot)?.ends_with(&format!("\n{mark}")) {
            if start.elapsed() > FOLLOWS_WITHIN {
                return Err(Stop::skipped("the replica does not follow"));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }
}

#[async_trait]
impl Store for Pair {
    fn address(&self) -> String {
        format!("127.0.0.1:{} 5000   127.0.0.1:{}", self.primary.port(), self.replica.port())
    }

    fn administrator(&self) -> Result<&dyn Administrator, Stop> {
        Ok(self)
    }
}

#[async_trait]
impl Administrator for Pair {
    async fn hold_back_replication(&self, hold: bool) -> Result<(), Stop> {
        self.link.set(if hold { Traffic::HoldReplies } else { Traffic::Pass });
        if hold { Ok(()) } else { self.until_the_replica_follows().await }
    }
}
