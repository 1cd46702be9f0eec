//! What a case waits for: requests without an answer, and waiters.

use super::Context;
use crate::expect::{Client, ClientExt, eventually};
use crate::proxy::{Proxy, Traffic};
use crate::stop::{Stop, Verdict, ensure};
use leasehold_core::{Event, LockName, Observer};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

#[derive(Debug, Default)]
struct WaitObserver(watch::Sender<usize>);

impl Observer for WaitObserver {
    fn event(&self, event: &Event<'_>) {
        if matches!(event, Event::Waiting { .. }) {
            self.0.send_modify(|waits| *waits += 1);
        }
    }
}

/// The number of acquisitions of a client that the store has refused, or that stand behind others of the client.
pub(crate) struct Waits(watch::Receiver<usize>);

impl Waits {
    pub(crate) async fn reach(&mut self, cx: &Context, count: usize) -> Verdict {
        let reached = self.0.wait_for(|waits| *waits >= count);
        let is_reached = matches!(tokio::time::timeout(cx.patience(), reached).await, Ok(Ok(_)));
        ensure!(is_reached, "{} of {count} acquisitions of a held lock wait", *self.0.borrow());
        Ok(())
    }
}

impl Context {
    pub(crate) async fn observed_client(&self) -> Result<(Client, Waits), Stop> {
        let observer = WaitObserver::default();
        let waits = Waits(observer.0.subscribe());
        let client = self.subject.connect_observed(&self.store.address(), Arc::new(observer)).await?;
        Ok((client, waits))
    }
}

/// Starts a request through a proxy, and returns when the store has answered its first part. The proxy holds the answer.
pub(crate) async fn until_answer_is_held<T: Send + 'static>(
    cx: &Context,
    proxy: &Proxy,
    request: impl Future<Output = T> + Send + 'static,
) -> Result<JoinHandle<T>, Stop> {
    let before = proxy.reply_bytes();
    proxy.set(Traffic::HoldReplies);
    let request = tokio::spawn(request);
    let is_answered = eventually(cx.patience(), || proxy.reply_bytes() > before).await;
    ensure!(is_answered, "the store did not answer the request whose reply is held");
    Ok(request)
}

/// Waits until so many stand in the queue of a lock. For a store that knows who waits.
pub(crate) async fn until_queued(cx: &Context, client: &Client, name: &LockName, waiters: usize) -> Verdict {
    let start = Instant::now();
    loop {
        let queued = client.looking()?.waiters(name).await?.len();
        if queued >= waiters {
            return Ok(());
        }
        ensure!(start.elapsed() < cx.patience(), "of {waiters} waiters, `LockAdmin::waiters` shows {queued}");
        // A long queue is a long answer.
        tokio::time::sleep(Duration::from_millis(2) + Duration::from_micros(20) * waiters as u32).await;
    }
}
