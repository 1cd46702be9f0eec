//! A lock over a cluster, and what people get wrong with its slots.

use crate::plain::{Redis, SOUND, Steps, busy, granted, key};
use crate::subject::cannot;
use async_trait::async_trait;
use leasehold_conformance::server::free_port;
use leasehold_conformance::{Stop, Store};
use leasehold_core::{Attempt, Claim, LockName, Result};
use leasehold_test_stores::servers::RedisServer;
use std::time::{Duration, Instant};

/// A node that has all slots, and still takes no call whose keys lie in several.
#[derive(Debug)]
struct Node(RedisServer);

/// How long it may take to trust itself: two seconds.
const READY_WITHIN: Duration = Duration::from_secs(20);

/// A cluster of one node.
pub(crate) fn start() -> std::result::Result<Box<dyn Store>, Stop> {
    // By default the second port is ten thousand above the first, where the kernel takes ports for outgoing connections.
    let bus = free_port().map_err(cannot)?.to_string();
    let node =
        RedisServer::start_with(&["--cluster-enabled", "yes", "--cluster-port", &bus]).map_err(cannot)?;
    node.command(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]).map_err(cannot)?;
    let start = Instant::now();
    while !node.command(&["CLUSTER", "INFO"]).map_err(cannot)?.contains("cluster_state:ok") {
        if start.elapsed() > READY_WITHIN {
            return Err(Stop::skipped("a cluster of one node is not ready"));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(Box::new(Node(node)))
}

/// #29: braces around the name make the fence lie in the name's slot, unless the name has braces itself.
pub(crate) const NAME_IS_THE_TAG: Steps =
    Steps { acquire: |redis, claim| Box::pin(async move { acquire(redis, claim).await }), ..SOUND };

/// The same, with names that have no braces any more.
pub(crate) const NO_BRACES_IN_NAMES: Steps = Steps {
    acquire: |redis, claim| Box::pin(async move { acquire(redis, &encoded(claim)).await }),
    renew: |redis, claim| Box::pin(async move { (SOUND.renew)(redis, &encoded(claim)).await }),
    release: |redis, claim| Box::pin(async move { (SOUND.release)(redis, &encoded(claim)).await }),
};

async fn acquire(redis: &Redis, claim: &Claim) -> Result<Attempt> {
    let script = "local v = redis.call('GET', KEYS[1])
                  if v and v ~= ARGV[1] then return false end
                  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
                  if v then return tonumber(redis.call('GET', KEYS[2])) end
                  return redis.call('INCR', KEYS[2])";
    let fence = format!("{{{}}}:fence", claim.name());
    let arguments = [claim.owner().to_hex(), claim.ttl_millis().to_string()];
    let token: Option<u64> =
        redis.script(script, &[&key(claim), &fence], &[&arguments[0], &arguments[1]]).await?;
    Ok(token.map_or_else(busy, granted))
}

fn encoded(claim: &Claim) -> Claim {
    let name = claim.name().as_str().replace('%', "%25").replace('{', "%7B").replace('}', "%7D");
    Claim::new(LockName::new(name).unwrap(), claim.owner(), claim.ttl(), claim.holder().clone())
}

#[async_trait]
impl Store for Node {
    fn address(&self) -> String {
        format!("127.0.0.1:{} 5000", self.0.port())
    }
}
