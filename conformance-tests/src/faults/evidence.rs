//! What others than the store's own hooks see of a fault: whether it was made.

use crate::expect::{Client, eventually, first_use, optional};
use crate::proxy::Proxy;
use crate::stop::{Stop, Verdict, ensure_met, ensure_untimed};
use crate::subject::{Members, Store, Subject};
use crate::time_scale::scaled;
use leasehold_core::{
    AcquireOptions, DistributedLock, DistributedLockExt, ErrorKind, LockName, LockStatus, Wait,
};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// How long the store may take for a reply, and a proxy to be refused, on any machine.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);
/// More than any store needs, with statements that are prepared at their first use, and a look at the connections that are left.
const REPLIES_BEFORE_IT_IS_DONE: usize = 100;
/// Longer than servers of one host answer apart.
const REST: Duration = Duration::from_millis(20);

/// A client behind a proxy that has used the store, and does no more.
pub(crate) struct Witness {
    proxy: Proxy,
    before: u64,
    _client: Client,
}

/// Longer than it takes a server that has just been started to serve.
const SERVES_WITHIN: Duration = Duration::from_secs(5);

impl Witness {
    /// Connects, and uses a lock that nobody else wants meanwhile. `None` where there is no network between.
    pub(crate) async fn connect(
        subject: &dyn Subject,
        store: &dyn Store,
        name: &LockName,
    ) -> Result<Option<Self>, Stop> {
        let Some((proxy, address)) = optional(store.proxied(SERVES_WITHIN).await)? else { return Ok(None) };
        let client = subject.connect(&address).await?;
        first_use(&client, name, &AcquireOptions::new().with_wait(SERVES_WITHIN), scaled(SERVES_WITHIN))
            .await?;
        Ok(Some(Self { before: proxy.ended_by_servers(), proxy, _client: client }))
    }

    /// How many connections the store has ended since.
    pub(crate) fn ended(&self) -> u64 {
        self.proxy.ended_by_servers() - self.before
    }
}

/// Waits until the store has done what was asked through a proxy, which keeps back all replies and had heard so many bytes of them
/// before. Most stores do it with the first request; of the others, what they answer before (a script is not known, a statement is
/// prepared) is passed on, one reply after the other. `other` is not behind the proxy.
/// Ends with [`Stop::Failed`] if the store answers, and it is never done; [`Stop::Void`] if there is no answer.
pub(crate) async fn until_done_unheard(
    proxy: &Proxy,
    mut before: u64,
    (other, name): (&dyn DistributedLock, &LockName),
    is_done: impl Fn(&[LockStatus]) -> bool + Sync,
) -> Verdict {
    for _ in 0..REPLIES_BEFORE_IT_IS_DONE {
        let replied = eventually(ANSWERS_WITHIN, || proxy.reply_bytes() > before).await;
        ensure_met!(replied, "no reply was held, because the store never did what was asked");
        before = at_rest(proxy).await;
        if is_done(&holds(other, name).await?) {
            return Ok(());
        }
        proxy.pass_one_reply();
    }
    Err(Stop::Failed("the store answered, and never did what was asked".to_owned()))
}

/// Whether the lock has been granted, for [`until_done_unheard`].
pub(crate) fn is_taken(holds: &[LockStatus]) -> bool {
    holds.iter().any(|hold| !hold.is_released())
}

/// By a look, where there is one: to ask for a lock changes what somebody else may have read of it.
async fn holds(other: &dyn DistributedLock, name: &LockName) -> Result<Vec<LockStatus>, Stop> {
    if let Some(admin) = other.admin() {
        return Ok(admin.inspect(name).await?);
    }
    match other.acquire_with(name, &AcquireOptions::new().with_wait(Wait::No)).await {
        Ok(guard) => guard.release().await.map(|()| Vec::new()).map_err(Stop::from),
        Err(error) if error.kind() == ErrorKind::Busy => Ok(vec![LockStatus::new(name.clone())]),
        Err(error) => Err(error.into()),
    }
}

/// The replies so far, once no more come: several servers may have been asked at once.
async fn at_rest(proxy: &Proxy) -> u64 {
    loop {
        let seen = proxy.reply_bytes();
        tokio::time::sleep(REST).await;
        if proxy.reply_bytes() == seen {
            return seen;
        }
    }
}

/// A hook that kills nobody is not to pass for a fault.
pub(super) async fn ensure_killed(members: &dyn Members, killed: &[usize]) -> Verdict {
    let Some((proxies, _)) = optional(members.proxied().await)? else { return Ok(()) };
    for member in killed {
        let up = serves(proxies[*member].address()).await;
        ensure_untimed!(!up, "server {member} was killed, and still takes connections");
    }
    Ok(())
}

/// The same for a whole store. One server is enough, because watchers beside the servers may stay up.
pub(super) async fn ensure_one_is_down(store: &dyn Store) -> Verdict {
    let Some((proxy, _)) = optional(store.proxied(ANSWERS_WITHIN).await)? else { return Ok(()) };
    let mut servers: JoinSet<bool> = proxy.addresses().iter().map(|address| serves(*address)).collect();
    while let Some(up) = servers.join_next().await {
        if !up? {
            return Ok(());
        }
    }
    Err(Stop::Wrong("the store was killed, and all of it still takes connections".to_owned()))
}

/// Whether there is a server behind the proxy at an address: of one that is down, the proxy ends the connection at once.
async fn serves(through: SocketAddr) -> bool {
    let Ok(mut connection) = TcpStream::connect(through).await else { return false };
    // A server that is up greets, or waits for a greeting.
    let said = tokio::time::timeout(ANSWERS_WITHIN, connection.read(&mut [0])).await;
    !matches!(said, Ok(Ok(0) | Err(_)))
}
