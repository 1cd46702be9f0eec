//! What the administrator of several Redis servers does, to all of them alike.

use super::cannot;
use crate::servers::RedisServer;
use crate::stores::wall_clock::ensure_ahead;
use async_trait::async_trait;
use leasehold_conformance::{Administrator, Cannot, ShimmedClock};
use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

type Done = Result<(), Cannot>;

/// Redis servers that are one store.
pub(in crate::stores) trait Servers: Debug + Send + Sync + 'static {
    /// Does this to each that keeps data.
    fn each(&self, act: &mut dyn FnMut(&mut RedisServer) -> Done) -> Done;

    /// Waits until they are one store again, after each was started anew.
    fn settle(&self) -> Done;

    /// The clock that they run by, if it is one of their own.
    fn clock(&self) -> &Mutex<Option<ShimmedClock>>;
}

/// How long what the servers do by themselves may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The administrator of a type that is [`Servers`].
macro_rules! administrator_of {
    ($servers:ty) => {
        #[async_trait]
        impl Administrator for $servers {
            async fn kill_connections(&self) -> Done {
                self.each(&mut |server| {
                    tell(server, &["CLIENT", "KILL", "TYPE", "normal"])?;
                    tell(server, &["CLIENT", "KILL", "TYPE", "pubsub"])
                })
            }

            async fn step_clock(&self, seconds: i64) -> Done {
                let mut clock = self.clock().lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(clock) = &*clock {
                    clock.step_to(seconds).map_err(Cannot::from)?;
                } else {
                    let new = ShimmedClock::ahead(seconds)?;
                    self.each(&mut |server| server.restart_in(new.environment()).map_err(cannot))?;
                    *clock = Some(new);
                    self.settle()?;
                }
                self.each(&mut |server| ensure_ahead(wall_clock(server)?, seconds))
            }

            async fn fill_disk(&self, full: bool) -> Done {
                if full {
                    return self.each(&mut |server| server.fill_disk().map_err(cannot));
                }
                self.each(&mut |server| server.restart(true).map_err(cannot))?;
                self.settle()
            }

            /// No client can write meanwhile, because there is no room for it.
            async fn evict_everything(&self) -> Done {
                self.each(&mut |server| {
                    tell(server, &["CONFIG", "SET", "maxmemory-policy", "allkeys-random"])?;
                    tell(server, &["CONFIG", "SET", "maxmemory", "1"])
                })?;
                self.each(&mut |server| {
                    let start = Instant::now();
                    while server.command(&["DBSIZE"]).map_err(cannot)? != ":0" {
                        if start.elapsed() > PATIENCE {
                            return Err(Cannot::failed("a server evicts nothing"));
                        }
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    Ok(())
                })?;
                self.each(&mut |server| {
                    tell(server, &["CONFIG", "SET", "maxmemory", "0"])?;
                    tell(server, &["CONFIG", "SET", "maxmemory-policy", "noeviction"])
                })
            }
        }
    };
}
administrator_of!(crate::stores::redis_sentinel::Watched);
administrator_of!(crate::stores::redis_cluster::Cluster);
administrator_of!(crate::stores::redlock::Nodes);

/// In milliseconds since 1970.
pub(super) fn wall_clock(server: &RedisServer) -> Result<i64, Cannot> {
    let time = server.command(&["EVAL", "return tonumber(redis.call('TIME')[1])", "0"]).map_err(cannot)?;
    let seconds = time.strip_prefix(':').and_then(|seconds| seconds.parse::<i64>().ok());
    seconds.map(|seconds| seconds * 1_000).ok_or_else(|| Cannot::failed(format!("TIME answered {time}")))
}

/// Says this to a server, which is not to refuse it.
pub(in crate::stores) fn tell(server: &RedisServer, words: &[&str]) -> Done {
    let answer = server.command(words).map_err(cannot)?;
    match answer.starts_with('-') {
        true => Err(Cannot::failed(format!("{words:?} answered {answer}"))),
        false => Ok(()),
    }
}

/// Ends all connections of clients, and makes a server forget its keys, its scripts and what it has counted.
pub(in crate::stores) fn clear(server: &RedisServer) -> Done {
    for kind in ["normal", "pubsub"] {
        tell(server, &["CLIENT", "KILL", "TYPE", kind])?;
    }
    [&["FLUSHALL"][..], &["SCRIPT", "FLUSH"], &["CONFIG", "RESETSTAT"]]
        .into_iter()
        .try_for_each(|words| tell(server, words))
}
