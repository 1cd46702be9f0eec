//! Faults between clients and their store.

use super::injection::{ClientSetup, Ground, Injection};
use super::timing::{FaultTiming, Lasting};
use crate::cannot::Cannot;
use crate::expect::eventually;
use crate::proxy::{Proxy, Traffic};
use crate::stop::{Stop, Verdict, ensure};
use crate::subject::Store;
use crate::time_scale::scaled;
use crate::worker::ClientRequest;
use async_trait::async_trait;
use leasehold_core::{
    AcquireOptions, DistributedLock, DistributedLockExt, ErrorKind, LockName, LockStatus, Wait,
};
use std::any::Any;
use std::time::Duration;

/// How long a client behind a proxy waits for a reply before it takes the request for lost.
const PATIENCE: Duration = Duration::from_millis(400);
/// How long the store may take for a reply, on any machine.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);
/// More than any store needs, with statements that are prepared at their first use, and a look at the connections that are left.
const REPLIES_BEFORE_IT_IS_DONE: usize = 100;
/// Longer than servers of one host answer apart.
const REST: Duration = Duration::from_millis(20);

/// What is done between clients and their store.
pub(super) struct Between {
    what: What,
    /// In front of the holder, and not of the others; `None` until there is one, or if an administrator does it.
    proxy: Option<Proxy>,
    /// The bytes of replies before the fault.
    answered: u64,
    /// What stands in front of all clients, as long as it stands there.
    stands: Option<Box<dyn Any + Send>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    BlackHole,
    /// The store has granted, and the holder never hears of it: the reply dies with its connection.
    ReplyLost,
    /// The connections of all clients are ended, by an administrator; where there is none, those of the holder, by the network.
    Killed,
    /// All clients reach the store by something that is not made for it.
    Pooler,
    NetworkFileSystem,
}

impl Between {
    pub(super) fn new(what: What) -> Self {
        Self { what, proxy: None, answered: 0, stands: None }
    }
}

#[async_trait]
impl Injection for Between {
    fn words(&self) -> &'static str {
        match self.what {
            What::BlackHole => {
                "nothing passes between the holder and the store, in either direction, and no connection is closed"
            }
            What::ReplyLost => {
                "the store grants, and every reply is held back; then the connection is cut with the replies in it"
            }
            What::Killed if self.proxy.is_some() => "the network ends every connection of the holder",
            What::Killed => "an administrator ends the connections of all clients at once",
            What::Pooler => {
                "all clients are behind a pooler that lends sessions for one transaction; then they go to the store itself"
            }
            What::NetworkFileSystem => {
                "all clients see the file by FUSE (bindfs), as what sshfs mounts or a virtual machine shares; then where it is"
            }
        }
    }

    fn timing(&self) -> FaultTiming {
        match self.what {
            What::BlackHole => FaultTiming::new(Lasting::SPELL),
            What::ReplyLost => FaultTiming::new(Lasting::Moment).there_from_the_start(),
            What::Killed => FaultTiming::new(Lasting::Moment).patient(),
            What::Pooler | What::NetworkFileSystem => FaultTiming::new(Lasting::STATE).there_from_the_start(),
        }
    }

    fn is_one_of_many(&self) -> bool {
        !matches!(self.what, What::Pooler | What::NetworkFileSystem)
    }

    /// By an administrator: what the network ends, it ends.
    fn ends_connections(&self) -> bool {
        self.what == What::Killed && self.proxy.is_none()
    }

    async fn prepare(&mut self, store: &dyn Store, lease: Duration) -> Result<ClientSetup, Cannot> {
        let (stands, address) = match self.what {
            What::Pooler => store.administrator()?.behind_pooler().await?,
            What::NetworkFileSystem => store.administrator()?.behind_network_file_system().await?,
            _ => return self.prepare_proxy(store, lease).await,
        };
        if [store.address(), store.address_for_holds_of(lease)].contains(&address) {
            return Err(Cannot::failed("nothing stands before the store: the address is its own"));
        }
        self.stands = Some(stands);
        let healed = Some(store.address_for_holds_of(lease));
        Ok(ClientSetup { healed, ..ClientSetup::through(address.clone(), address) })
    }

    async fn before_the_hold(&mut self, ground: &mut Ground<'_>) -> Verdict {
        match self.what {
            // The reply that is lost is to be that of the acquisition, and not of a greeting.
            What::ReplyLost => ground.holder.order(ClientRequest::WarmUp(ground.name.clone())).await,
            _ => Ok(()),
        }
    }

    async fn inject(&mut self, ground: &mut Ground<'_>) -> Verdict {
        match (self.what, &self.proxy) {
            (What::BlackHole, Some(proxy)) => proxy.set(Traffic::BlackHole),
            (What::ReplyLost, Some(proxy)) => {
                self.answered = proxy.reply_bytes();
                proxy.set(Traffic::HoldReplies);
            }
            (What::Killed, Some(proxy)) => {
                proxy.cut();
            }
            (What::Killed, None) => ground.store.administrator()?.kill_connections().await?,
            _ => {}
        }
        Ok(())
    }

    async fn has_struck(&mut self, other: &dyn DistributedLock, name: &LockName) -> Verdict {
        match (self.what, &self.proxy) {
            (What::ReplyLost, Some(proxy)) => until_granted_unheard(proxy, self.answered, other, name).await,
            _ => Ok(()),
        }
    }

    async fn heal(&mut self, _: &mut Ground<'_>) -> Verdict {
        if let (What::BlackHole | What::ReplyLost, Some(proxy)) = (self.what, &self.proxy) {
            if self.what == What::ReplyLost {
                proxy.cut();
            }
            proxy.set(Traffic::Pass);
        }
        Ok(())
    }
}

impl Between {
    async fn prepare_proxy(&mut self, store: &dyn Store, lease: Duration) -> Result<ClientSetup, Cannot> {
        if let (What::Killed, Ok(administrator)) = (self.what, store.administrator()) {
            // No client is connected yet.
            match administrator.kill_connections().await {
                Ok(()) => return Ok(ClientSetup::direct(store, lease)),
                Err(cannot) if cannot.was_tried() => return Err(cannot),
                Err(_) => {}
            }
        }
        let (proxy, address) = store.proxied(scaled(PATIENCE)).await?;
        self.proxy = Some(proxy);
        Ok(ClientSetup::through(address, store.address_for_holds_of(lease)))
    }
}

/// Waits until the store has granted this lock to somebody behind a proxy, which keeps back all replies and had heard so many
/// bytes of them before. `other` is not behind the proxy.
///
/// # Errors
///
/// [`Stop::Failed`] if it is never granted.
pub(crate) async fn until_granted_unheard(
    proxy: &Proxy,
    before: u64,
    other: &dyn DistributedLock,
    name: &LockName,
) -> Verdict {
    let is_taken = |holds: &[LockStatus]| holds.iter().any(|hold| !hold.is_released());
    until_done_unheard(proxy, before, (other, name), is_taken).await
}

/// Waits until the store has done what was asked through a proxy, which keeps back all replies and had heard so many bytes of them
/// before. Most stores do it with the first request; of the others, what they answer before (a script is not known, a statement is
/// prepared) is passed on, one reply after the other.
///
/// # Errors
///
/// [`Stop::Failed`] if it is never done.
pub(crate) async fn until_done_unheard(
    proxy: &Proxy,
    before: u64,
    (other, name): (&dyn DistributedLock, &LockName),
    is_done: impl Fn(&[LockStatus]) -> bool + Sync,
) -> Verdict {
    let mut before = before;
    for _ in 0..REPLIES_BEFORE_IT_IS_DONE {
        ensure!(
            eventually(ANSWERS_WITHIN, || proxy.reply_bytes() > before).await,
            "void: no reply was held, because the store never did what was asked"
        );
        before = at_rest(proxy).await;
        if is_done(&holds(other, name).await?) {
            return Ok(());
        }
        proxy.pass_one_reply();
    }
    Err(Stop::Failed("void: the store answered, and never did what was asked".to_owned()))
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
