//! Holds, attempts and waiters in a mode.

use crate::cases::prelude::*;
use crate::context::Waits;
use leasehold_core::{Fairness, LockMode, Semantics, Sharing};
use std::future::pending;

pub(super) const NOT_SHARED: [LockMode; 2] = [LockMode::Write, LockMode::Exclusive];
pub(super) const ALL: [LockMode; 3] = [LockMode::Shared, LockMode::Write, LockMode::Exclusive];

/// The semantics of a store that serves readers; skips the case on any other.
pub(in crate::cases) async fn sharing(cx: &Context) -> Result<Semantics, Stop> {
    let semantics = cx.semantics().await?;
    require!(semantics.sharing != Sharing::Unsupported, "the store does not declare shared locks");
    let is_in_order = semantics.fairness == Fairness::Fifo || semantics.sharing != Sharing::Fifo;
    ensure!(is_in_order, "readers and writers are declared to be served in their order, and waiters in none");
    Ok(semantics)
}

pub(super) async fn hold(
    cx: &Context,
    client: &Client,
    name: &LockName,
    mode: LockMode,
) -> Result<LockGuard, Stop> {
    client.take(name, &cx.options().with_mode(mode)).await
}

pub(in crate::cases) async fn ensure_excluded(
    client: &Client,
    name: &LockName,
    modes: &[LockMode],
    when: &str,
) -> Verdict {
    for mode in modes {
        ensure!(client.poke_in(name, *mode).await?.is_none(), "{when}: another owner got a {mode} lock");
    }
    Ok(())
}

/// A waiter that the store has refused once.
pub(crate) async fn waiter(cx: &Context, name: &LockName, mode: LockMode) -> Result<TakeTask, Stop> {
    Waiters::of_a_client(cx).await?.begin(cx, name, &cx.options().with_mode(mode)).await
}

/// A client whose waiters are known to have been refused: it says so, or the network shows that they were answered.
pub(in crate::cases) struct Waiters {
    client: Client,
    waits: Option<Waits>,
    network: Option<Arc<Proxy>>,
}

impl Waiters {
    pub(in crate::cases) async fn of_a_client(cx: &Context) -> Result<Self, Stop> {
        match cx.observed_client().await {
            Ok((client, waits)) => Ok(Self { client, waits: Some(waits), network: None }),
            Err(Stop::Skipped(_)) => Self::behind_a_proxy(cx).await,
            Err(stop) => Err(stop),
        }
    }

    pub(in crate::cases) async fn behind_a_proxy(cx: &Context) -> Result<Self, Stop> {
        let (proxy, client) = cx.client_behind_proxy(cx.patience()).await?;
        let network = Arc::new(proxy);
        let kept = Arc::clone(&network);
        // As long as the case: holds and releases need it.
        tokio::spawn(async move { (pending::<()>().await, kept) });
        Ok(Self { client, waits: None, network: Some(network) })
    }

    pub(in crate::cases) async fn begin(
        &mut self,
        cx: &Context,
        name: &LockName,
        options: &AcquireOptions,
    ) -> Result<TakeTask, Stop> {
        let waiter = self.ask(cx, name, options).await?.err();
        waiter.ok_or_else(|| Stop::Failed("a lock that is held was granted".to_owned()))
    }

    /// A guard, or a waiter that was refused.
    pub(super) async fn ask(
        &mut self,
        cx: &Context,
        name: &LockName,
        options: &AcquireOptions,
    ) -> Result<Result<LockGuard, TakeTask>, Stop> {
        let refused_before = self.waits.as_ref().map_or(0, |waits| *waits.0.borrow());
        let answered_before = self.network.as_ref().map_or(0, |network| network.reply_bytes());
        let mut waiter = spawn_take(&self.client, name, options);
        let is_refused = async {
            match (&mut self.waits, &self.network) {
                (Some(waits), _) => waits.reach(cx, refused_before + 1).await,
                (None, Some(network)) => until_answered(cx, network, answered_before).await,
                (None, None) => Ok(()),
            }
        };
        tokio::select! {
            biased;
            granted = &mut waiter => Ok(Ok(granted??)),
            refused = is_refused => refused.map(|()| Err(waiter)),
        }
    }

    /// What becomes of their messages, while they go on to wait.
    pub(in crate::cases) fn set_traffic(&self, traffic: Traffic) {
        self.network.iter().for_each(|network| network.set(traffic));
    }
}
