//! Faults between clients and their store.

use super::{Ground, Injection, Lasting, Schedule, Setting, scaled};
use crate::case::{Stop, Verdict, ensure};
use crate::context::eventually;
use crate::proxy::{Proxy, Traffic};
use crate::subject::{Cannot, Store};
use async_trait::async_trait;
use leasehold_core::{AcquireOptions, DistributedLock, DistributedLockExt, ErrorKind, LockName, Wait};
use std::time::Duration;

/// How long a client behind a proxy waits for a reply before it takes the request for lost.
const PATIENCE: Duration = Duration::from_millis(400);
/// On any machine.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);
/// More than any store needs, with statements that are prepared at their first use, and a look at the connections that are left.
const REPLIES_BEFORE_A_GRANT: usize = 100;
/// Longer than servers of one host answer apart.
const REST: Duration = Duration::from_millis(20);

/// The holder behind a proxy, the others not.
async fn behind_proxy(store: &dyn Store, schedule: &Schedule) -> Result<(Proxy, Setting), Cannot> {
    let (proxy, address) = store.proxied(scaled(PATIENCE)).await?;
    Ok((proxy, Setting::through(address, store.address_for_holds_of(schedule.ttl))))
}

/// Nothing passes between the holder and the store.
#[derive(Default)]
pub(super) struct BlackHole(Option<Proxy>);

#[async_trait]
impl Injection for BlackHole {
    fn words(&self) -> &'static str {
        "nothing passes between the holder and the store, in either direction, and no connection is closed"
    }

    fn schedule(&self) -> Schedule {
        Schedule::new(Lasting::SPELL)
    }

    async fn prepare(&mut self, store: &dyn Store, schedule: &Schedule) -> Result<Setting, Cannot> {
        let (proxy, setting) = behind_proxy(store, schedule).await?;
        self.0 = Some(proxy);
        Ok(setting)
    }

    async fn inject(&mut self, _: &mut Ground<'_>) -> Verdict {
        self.0.iter().for_each(|proxy| proxy.set(Traffic::BlackHole));
        Ok(())
    }

    async fn heal(&mut self, _: &mut Ground<'_>) -> Verdict {
        self.0.iter().for_each(|proxy| proxy.set(Traffic::Pass));
        Ok(())
    }
}

/// The store has granted, and the holder never hears of it: the reply dies with its connection.
#[derive(Default)]
pub(super) struct ReplyLost {
    proxy: Option<Proxy>,
    answered: u64,
}

#[async_trait]
impl Injection for ReplyLost {
    fn words(&self) -> &'static str {
        "the store grants, and every reply is held back; then the connection is cut with the replies in it"
    }

    fn schedule(&self) -> Schedule {
        Schedule::new(Lasting::Moment).there_from_the_start()
    }

    async fn prepare(&mut self, store: &dyn Store, schedule: &Schedule) -> Result<Setting, Cannot> {
        let (proxy, setting) = behind_proxy(store, schedule).await?;
        self.proxy = Some(proxy);
        Ok(setting)
    }

    async fn before_the_hold(&mut self, ground: &mut Ground<'_>) -> Verdict {
        // The reply that is lost is to be that of the acquisition, and not of a greeting.
        ground.holder.warm_up(ground.name).await
    }

    async fn inject(&mut self, _: &mut Ground<'_>) -> Verdict {
        if let Some(proxy) = &self.proxy {
            self.answered = proxy.reply_bytes();
            proxy.set(Traffic::HoldReplies);
        }
        Ok(())
    }

    async fn has_struck(&mut self, other: &dyn DistributedLock, name: &LockName) -> Verdict {
        match &self.proxy {
            Some(proxy) => until_granted_unheard(proxy, self.answered, other, name).await,
            None => Ok(()),
        }
    }

    async fn heal(&mut self, _: &mut Ground<'_>) -> Verdict {
        if let Some(proxy) = &self.proxy {
            proxy.cut();
            proxy.set(Traffic::Pass);
        }
        Ok(())
    }
}

/// Waits until the store has granted this lock to somebody behind a proxy, which keeps back all replies and had heard so many
/// bytes of them before. Most stores grant with the first thing that they are asked; of the others, what they answer before is
/// passed on, one reply after the other. `other` is not behind the proxy.
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
    let mut before = before;
    for _ in 0..REPLIES_BEFORE_A_GRANT {
        let answered = eventually(ANSWERS_WITHIN, || proxy.reply_bytes() > before).await;
        ensure!(answered, "the store never answered");
        before = at_rest(proxy).await;
        if is_taken(other, name).await? {
            return Ok(());
        }
        proxy.pass_one_reply();
    }
    Err(Stop::Failed("the store answered, and never granted".to_owned()))
}

/// By a look, where there is one: to ask for a lock changes what somebody else may have read of it.
async fn is_taken(other: &dyn DistributedLock, name: &LockName) -> Result<bool, Stop> {
    if let Some(admin) = other.admin() {
        return Ok(admin.inspect(name).await?.iter().any(|status| !status.is_released()));
    }
    match other.acquire_with(name, &AcquireOptions::new().with_wait(Wait::No)).await {
        Ok(guard) => guard.release().await.map(|()| false).map_err(Stop::from),
        Err(error) if error.kind() == ErrorKind::Busy => Ok(true),
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

/// The connections of all clients are ended, by an administrator; where there is none, those of the holder, by the network.
#[derive(Default)]
pub(super) struct Killed(Option<Proxy>);

#[async_trait]
impl Injection for Killed {
    fn words(&self) -> &'static str {
        match self.0 {
            Some(_) => "the network ends every connection of the holder",
            None => "an administrator ends the connections of all clients at once",
        }
    }

    fn schedule(&self) -> Schedule {
        Schedule::new(Lasting::Moment).patient()
    }

    /// By an administrator: what the network ends, it ends.
    fn ends_connections(&self) -> bool {
        self.0.is_none()
    }

    async fn prepare(&mut self, store: &dyn Store, schedule: &Schedule) -> Result<Setting, Cannot> {
        if let Ok(administrator) = store.administrator() {
            // No client is connected yet.
            match administrator.kill_connections().await {
                Ok(()) => return Ok(Setting::of(store, schedule)),
                Err(cannot) if cannot.was_tried() => return Err(cannot),
                Err(_) => {}
            }
        }
        let (proxy, setting) = behind_proxy(store, schedule).await?;
        self.0 = Some(proxy);
        Ok(setting)
    }

    async fn inject(&mut self, ground: &mut Ground<'_>) -> Verdict {
        match &self.0 {
            Some(proxy) => proxy.cut(),
            None => ground.store.administrator()?.kill_connections().await?,
        }
        Ok(())
    }
}
