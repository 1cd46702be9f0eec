//! Acquisitions in tasks of their own, and how to know how far they are.

use crate::cases::prelude::*;
use crate::faults::{is_taken, until_done_unheard};
use leasehold_core::{Error, Fairness, FencingToken, LockStatus};
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use tokio::task::JoinHandle;

/// A task that acquires.
pub(super) type TakeTask = JoinHandle<Result<LockGuard, Error>>;

/// Acquires in a task.
pub(super) fn spawn_take(client: &Client, name: &LockName, options: &AcquireOptions) -> TakeTask {
    let (client, name, options) = (client.clone(), name.clone(), options.clone());
    tokio::spawn(async move { client.acquire_with(&name, &options).await })
}

/// The guard of a task that acquires; late if it comes later than this.
pub(super) async fn granted_within(waiter: TakeTask, bound: Duration, who: &str) -> Result<LockGuard, Stop> {
    let never = |_| Stop::Late(format!("{who} has no lock after {bound:?}, nor after twice that"), None);
    let (granted, took) = timed(tokio::time::timeout(bound * 2, waiter)).await;
    let guard = granted.map_err(never)???;
    ensure_within!(took, bound, "{who} has no lock after {bound:?}, but after {took:?}");
    Ok(guard)
}

/// A task that takes the lock as soon as it can be had: the guard, and when it was granted.
pub(super) type Successor = JoinHandle<Result<(LockGuard, Instant), Stop>>;

pub(super) fn spawn_successor(cx: &Context, other: &Client, name: &LockName) -> Successor {
    let (other, name) = (other.clone(), name.clone());
    let options = AcquireOptions::new().with_wait(cx.patience());
    tokio::spawn(async move { Ok((other.take(&name, &options).await?, Instant::now())) })
}

/// Expects that a holder stops believing before another one has the lock.
pub(super) async fn ensure_believed_before(guard: &LockGuard, successor: Successor, when: &str) -> Verdict {
    let believed = believed_until(guard).await;
    let (successor, taken) = successor.await??;
    if let Some(believed) = believed.filter(|believed| *believed >= taken) {
        let late = believed - taken;
        return Err(Stop::Failed(format!("{when}: believed for {late:?} after another had got it")));
    }
    Ok(successor.release().await?)
}

/// Takes the lock, gives it back, and answers the token.
pub(super) async fn take_turn(
    client: &Client,
    name: &LockName,
    options: &AcquireOptions,
) -> Result<FencingToken, Stop> {
    let guard = client.take(name, options).await?;
    let token = guard.token()?;
    guard.release().await?;
    Ok(token)
}

/// Waits for all tasks. Their results, in the order in which they ended; the first failure ends the case.
pub(super) async fn joined<T, E>(mut tasks: JoinSet<Result<T, E>>) -> Result<Vec<T>, Stop>
where
    T: Send + 'static,
    E: Into<Stop> + Send + 'static,
{
    let mut results = Vec::new();
    while let Some(task) = tasks.join_next().await {
        results.push(task?.map_err(Into::into)?);
    }
    Ok(results)
}

/// Expects that no token was given twice.
pub(super) fn ensure_distinct(mut tokens: Vec<FencingToken>, when: &str) -> Verdict {
    tokens.sort_unstable();
    let differ = tokens.is_sorted_by(|one, next| one < next);
    ensure_untimed!(differ, "{when}: a token was given twice: {tokens:?}");
    Ok(())
}

/// Waits until so many wait for a lock, as far as the store knows and shows; else for long enough to have asked.
pub(super) async fn until_waiting(client: &Client, cx: &Context, name: &LockName, count: usize) -> Verdict {
    if client.semantics().fairness != Fairness::Fifo || client.admin().is_none() {
        tokio::time::sleep(Duration::from_millis(300)).await;
        return Ok(());
    }
    until_queued(cx, client, name, count).await
}

/// Waits until the store has answered what was asked through a proxy, and what follows at once: after a script that the server did
/// not know, or a second statement.
pub(super) async fn until_answered(cx: &Context, proxy: &Proxy, reply_bytes_before: u64) -> Verdict {
    let is_answered = eventually(cx.patience(), || proxy.reply_bytes() > reply_bytes_before).await;
    ensure_came!(is_answered, "a waiter was not answered");
    // A waiter that polls is never quiet for long.
    for _ in 0..10 {
        let seen = (proxy.requests(), proxy.reply_bytes());
        tokio::time::sleep(Duration::from_millis(20)).await;
        if seen == (proxy.requests(), proxy.reply_bytes()) {
            break;
        }
    }
    Ok(())
}

/// Waits until so many clients wait for the store's word.
pub(super) async fn until_all_wait(cx: &Context, waiting: u64) -> Verdict {
    let (pause, ask) = (Duration::from_millis(10), || async { Ok(cx.store().counters().await?.waiting) });
    let waits = last_answer_within(cx.patience(), pause, ask, |waits| *waits >= waiting).await?;
    ensure_came!(waits >= waiting, "the waiters never came to wait for the store's word");
    // A place is watched before its owner has heard so.
    tokio::time::sleep(Duration::from_millis(50)).await;
    Ok(())
}

/// An attempt that the store has granted. Its client, which takes a request for lost after `patience`, does not know: the proxy holds the
/// replies back.
pub(super) async fn attempt_without_a_reply(
    cx: &Context,
    patience: Duration,
    name: &LockName,
    options: &AcquireOptions,
) -> Result<(Proxy, Client, TakeTask), Stop> {
    let (proxy, client) = cx.new_client_behind_proxy(patience).await?;
    // With this very name: others may be another server's.
    ensure_free(&client, name, "before anybody wanted it").await?;
    proxy.set(Traffic::HoldReplies);
    let before = proxy.reply_bytes();
    let attempt = spawn_take(&client, name, options);
    until_done_unheard(&proxy, before, (&*cx.client().await?, name), is_taken).await?;
    Ok((proxy, client, attempt))
}

/// A release that the store has carried out. Its client does not know: the reply is held back.
pub(super) async fn release_without_a_reply(
    cx: &Context,
    (proxy, client): (&Proxy, &Client),
    guard: LockGuard,
) -> Result<JoinHandle<Result<(), Error>>, Stop> {
    // The connections and scripts of a first release are there from now on.
    cx.warm_up(client).await?;
    let (other, name, token) = (cx.client().await?, guard.name().clone(), guard.token()?);
    let before = proxy.reply_bytes();
    let release = until_answer_is_held(cx, proxy, guard.release()).await?;
    let is_gone = |holds: &[LockStatus]| holds.iter().all(|hold| hold.token != Some(token));
    until_done_unheard(proxy, before, (&*other, &name), is_gone).await?;
    Ok(release)
}

/// Waits until a renewal was confirmed, and made the rest of the lease longer. The connection of renewals is made by then, their
/// script is known, and a request that the grant has left behind has ended: the proxy reads no other behind one that it holds.
pub(super) async fn until_renewed(guard: &LockGuard, ttl: Duration) -> Verdict {
    let mut last = guard.remaining();
    let is_renewed = || std::mem::replace(&mut last, guard.remaining()) < last;
    ensure_came!(eventually(ttl * 2, is_renewed).await, "no renewal was confirmed: {:?}", guard.loss());
    Ok(())
}

/// Lets one renewal pass, and waits for the next, which the store carries out. Its holder does not know: the reply is held back.
pub(super) async fn until_renewed_unheard(
    cx: &Context,
    proxy: &Proxy,
    guard: &LockGuard,
    ttl: Duration,
) -> Verdict {
    until_renewed(guard, ttl).await?;
    let (other, asked) = (cx.client().await?, Instant::now());
    // A store that shows no end is believed: what it answers first is its answer.
    let is_renewed = |holds: &[LockStatus]| {
        let left = holds.last().and_then(|hold| hold.ends_in);
        left.is_none_or(|left| Instant::now() + left >= asked + ttl + ttl / 9)
    };
    proxy.set(Traffic::HoldReplies);
    until_done_unheard(proxy, proxy.reply_bytes(), (&*other, guard.name()), is_renewed).await
}

/// What counts the requests of one client: the proxy before it, or a store that nobody else uses meanwhile.
pub(super) struct Requests<'a>(&'a Context, Option<Proxy>);

impl<'a> Requests<'a> {
    /// A client that has its connections, and the count of its requests.
    pub(super) async fn of_client(cx: &'a Context) -> Result<(Self, Client), Stop> {
        if let Some((proxy, client)) = optional(cx.client_behind_proxy(cx.patience()).await)? {
            return Ok((Self(cx, Some(proxy)), client));
        }
        cx.store().counters().await?;
        let client = cx.client().await?;
        cx.warm_up(&client).await?;
        Ok((Self(cx, None), client))
    }

    pub(super) async fn so_far(&self) -> Result<u64, Stop> {
        match &self.1 {
            Some(proxy) => Ok(proxy.requests()),
            None => Ok(self.0.store().counters().await?.messages),
        }
    }

    /// How many there are meanwhile.
    pub(super) async fn during(&self, time: Duration) -> Result<u64, Stop> {
        let before = self.so_far().await?;
        tokio::time::sleep(time).await;
        Ok(self.so_far().await? - before)
    }
}

/// Cuts the connections there are, and loses what is held of them; new ones pass.
pub(super) fn lose_connections(proxy: &Proxy) -> Verdict {
    let connections = proxy.cut();
    proxy.set(Traffic::Pass);
    ensure_met!(connections > 0, "the fault met nothing, because there was no connection to be cut");
    Ok(())
}

/// Polls a future `polls` times at most; `None` if it was not ready by then, and was dropped.
pub(super) async fn at_most<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut polled = 0;
    poll_fn(|cx| {
        if polled == polls {
            return Poll::Ready(None);
        }
        polled += 1;
        future.as_mut().poll(cx).map(Some)
    })
    .await
}

/// Runs this on a runtime of one thread, which ends with it.
pub(super) async fn on_own_runtime<T: Send + 'static>(
    work: impl Future<Output = Result<T, Stop>> + Send + 'static,
) -> Result<T, Stop> {
    let run = move || tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work);
    tokio::task::spawn_blocking(run).await?
}
