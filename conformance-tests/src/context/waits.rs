//! A client whose waiters are counted, by its events.

use super::{Client, Context};
use crate::case::{Stop, Verdict, ensure};
use leasehold_core::{Event, Observer};
use std::sync::Arc;
use tokio::sync::watch;

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
