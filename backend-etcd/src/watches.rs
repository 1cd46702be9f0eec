//! The watches of one connection: one stream, on which each watch waits for the deletion of one key.

use crate::connection::Client;
use crate::rpc::{NO_PUT, WATCH, WatchCancelRequest, WatchCreateRequest, WatchRequest};
use futures_util::stream::poll_fn;
use leasehold_core::OwnerId;
use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::time::timeout;

/// A member that is stopped answers to no stream, and ends none.
const OPEN_TIMEOUT: Duration = Duration::from_secs(5);

static LAST_ID: AtomicI64 = AtomicI64::new(0);

/// The sender of orders to the task that serves the stream. The task ends with the last sender, or with the stream.
#[derive(Debug)]
pub(crate) struct Watches(UnboundedSender<Order>);

/// A watch. It is cancelled when this is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    id: i64,
    pub(crate) key: Vec<u8>,
    /// Closed when the watch has fired.
    signal: watch::Receiver<()>,
    orders: UnboundedSender<Order>,
}

/// A request, and what it sets.
type Order = (WatchRequest, Option<FireOnDrop>);

/// The owner that holds a watched key, and the channel that takes it when the hold may be over.
pub(crate) type Hold = (OwnerId, UnboundedSender<OwnerId>);

/// Fires a watch when the task drops it: at an event, or at the end of the stream, of the task or of its runtime. So no watch is lost
/// in silence.
#[derive(Debug)]
struct FireOnDrop {
    _signal: watch::Sender<()>,
    hold: Option<Hold>,
}

impl Watches {
    /// The watches of a connection of the current runtime. The stream is opened for the first watch.
    pub(crate) fn on(client: Client) -> Self {
        let (orders, receiver) = unbounded_channel();
        tokio::spawn(serve(client, receiver));
        Self(orders)
    }

    /// A watch that fires when this key is deleted, or if it was since this revision.
    pub(crate) fn set(&self, key: Vec<u8>, since_revision: i64, hold: Option<Hold>) -> Watch {
        let id = LAST_ID.fetch_add(1, Ordering::Relaxed) + 1;
        let (start_revision, filters) = (since_revision + 1, vec![NO_PUT]);
        let create = WatchCreateRequest { key: key.clone(), start_revision, filters, watch_id: id };
        let request = WatchRequest { create: Some(create), cancel: None };
        let (_signal, signal) = watch::channel(());
        // If the task has ended, the order is dropped here, and fires.
        let _ = self.0.send((request, Some(FireOnDrop { _signal, hold })));
        Watch { id, key, signal, orders: self.0.clone() }
    }

    /// True if the watch is on this connection, and has not fired.
    pub(crate) fn has(&self, watch: &Watch) -> bool {
        self.0.same_channel(&watch.orders) && watch.signal.has_changed().is_ok()
    }

    /// False once the stream or the runtime of the task has ended.
    pub(crate) fn are_served(&self) -> bool {
        !self.0.is_closed()
    }
}

impl Watch {
    /// Waits until the watch has fired.
    pub(crate) fn fired(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut signal = self.signal.clone();
        async move {
            let _ = signal.changed().await;
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // Also of a watch that has fired: the server goes on watching the deleted key.
        let cancel = Some(WatchCancelRequest { watch_id: self.id });
        let _ = self.orders.send((WatchRequest { create: None, cancel }, None));
    }
}

impl Drop for FireOnDrop {
    fn drop(&mut self) {
        if let Some((owner, suspects)) = &self.hold {
            // A backend that is dropped has no reader of its suspects.
            let _ = suspects.send(*owner);
        }
    }
}

async fn serve(client: Client, mut orders: UnboundedReceiver<Order>) {
    let mut set: HashMap<i64, FireOnDrop> = HashMap::new();
    let (requests, mut receiver) = unbounded_channel();
    let Some(first) = orders.recv().await else { return };
    // The server answers to the stream when it has the first request.
    let _ = requests.send(carry_out(first, &mut set));
    let opened = client.stream(&WATCH, poll_fn(move |cx| receiver.poll_recv(cx)));
    let Ok(Ok(mut answers)) = timeout(OPEN_TIMEOUT, opened).await else { return };
    loop {
        tokio::select! {
            order = orders.recv() => {
                let Some(order) = order else { return };
                let _ = requests.send(carry_out(order, &mut set));
            }
            answer = answers.message() => {
                let Ok(Some(answer)) = answer else { return };
                if answer.canceled || !answer.events.is_empty() {
                    set.remove(&answer.watch_id);
                }
            }
        }
    }
}

/// The request of an order, whose watch is set, or is removed and does not fire for its holder.
fn carry_out((request, watch): Order, set: &mut HashMap<i64, FireOnDrop>) -> WatchRequest {
    if let (Some(create), Some(watch)) = (&request.create, watch) {
        set.insert(create.watch_id, watch);
    }
    if let Some(mut watch) = request.cancel.as_ref().and_then(|cancel| set.remove(&cancel.watch_id)) {
        watch.hold = None;
    }
    request
}
