//! Pairs of acquire and release without a lock library: what Leasehold is measured against. By the fewest requests that are still correct:
//! a lease with a new token, and a release that checks its owner. They go through the client crates that the backends use, with no time
//! limit and no retry; to servers they go over TCP, unencrypted.

mod etcd;
mod redis;
mod sql;
mod zookeeper;

use async_trait::async_trait;
use leasehold::{Config, Error, ErrorKind, LockName, Result};
use leasehold_lab::load::{Outcome, Turn, Window, cpu_seconds, now, resident_bytes, sleep_until};
use std::fmt::Display;
use std::sync::Arc;
use tokio::task::JoinSet;

/// A store without a lock library.
#[async_trait]
pub(crate) trait ByHand: Send + Sync {
    /// Takes a free name and gives it back.
    async fn pair(&self, name: &LockName) -> Result<()>;
}

/// The store of this configuration. Opens nothing.
pub(crate) fn by_hand(config: &Config) -> Result<Arc<dyn ByHand>> {
    let url = config.url();
    Ok(match url.scheme() {
        "redis" | "valkey" => Arc::new(redis::RawRedis::new(config)?),
        "mysql" | "mariadb" => Arc::new(sql::RawSql::new(config, &sql::MYSQL)?),
        "postgres" | "postgresql" => Arc::new(sql::RawSql::new(config, &sql::POSTGRES)?),
        "sqlite" => Arc::new(sql::RawSql::new(config, &sql::SQLITE)?),
        "etcd" if url.authority()?.user.is_none() => Arc::new(etcd::RawEtcd::new(config)?),
        "zk" if url.authority()?.user.is_none() => Arc::new(zookeeper::RawZooKeeper::new(config)?),
        scheme => {
            return Err(Error::new(ErrorKind::Unsupported, format!("{scheme} has no measure by hand")));
        }
    })
}

/// Each task makes pairs of a name of its own until the window is over.
pub(crate) async fn run(store: Arc<dyn ByHand>, names: Vec<String>, window: Window) -> Result<Outcome> {
    let mut running = JoinSet::new();
    for (task, name) in names.into_iter().enumerate() {
        let (store, name) = (Arc::clone(&store), LockName::new(name)?);
        running.spawn(async move {
            let mut turns = Vec::new();
            while now() < window.until {
                let asked = now();
                store.pair(&name).await?;
                let end = now();
                let (acquired, ends, released) = (end, end, end);
                turns.push(Turn { task: task as u64, asked, acquired, ends, released, ..Turn::default() });
            }
            Ok::<_, Error>(turns)
        });
    }
    sleep_until(window.from).await;
    let before = cpu_seconds();
    sleep_until(window.until).await;
    let mut outcome =
        Outcome { cpu: cpu_seconds() - before, resident_bytes: resident_bytes(), ..Outcome::default() };
    while let Some(turns) = running.join_next().await {
        match turns {
            Ok(Ok(turns)) => outcome.turns.extend(turns),
            Ok(Err(error)) => {
                outcome.errors += 1;
                outcome.first_error.get_or_insert(error);
            }
            Err(_) => outcome.errors += 1,
        }
    }
    Ok(outcome)
}

/// A lock's name as the store knows it.
fn stored_name(config: &Config, name: &LockName) -> String {
    let prefix = config.prefix().map_or("", |prefix| prefix.prefix());
    [prefix, name.as_str()].concat()
}

fn broken(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    unexpected("a request for measuring failed").with_source(error)
}

fn unexpected(what: impl Display) -> Error {
    Error::new(ErrorKind::Unavailable, what.to_string())
        .with_help("measure again; no other program may use these names")
}
