//! The watches of one connection: one stream, on which each watch waits for the deletion of one key.

use crate::connection::Client;
use crate::rpc::{NO_PUT, WATCH, WatchCancelRequest, WatchCreateRequest, WatchOrder, WatchRequest};
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

#[derive(Debug)]
enum Order {
    Set(WatchCreateRequest, FireOnDrop),
    Cancel(i64),
}

/// Fires a watch when the task drops it: at an event, or at the end of the stream, of the task or of its runtime. So no watch is lost
/// in silence.
#[derive(Debug)]
struct FireOnDrop {
    _signal: watch::Sender<()>,
    /// The owner that holds the watched key, and who is told that the hold may be over.
    hold: Option<(OwnerId, UnboundedSender<OwnerId>)>,
}

impl Watches {
    /// The watches of a connection of the current runtime. The stream is opened for the first watch.
    pub(crate) fn on(client: Client) -> Self {
        let (orders, receiver) = unbounded_channel();
        tokio::spawn(serve(client, receiver));
        Self(orders)
    }

    /// A watch that fires when this key is deleted, or if it was since this revision.
    pub(crate) fn set(
        &self,
        key: Vec<u8>,
        since_revision: i64,
        hold: Option<(OwnerId, UnboundedSender<OwnerId>)>,
    ) -> Watch {
        let id = LAST_ID.fetch_add(1, Ordering::Relaxed) + 1;
        let (start_revision, filters) = (since_revision + 1, vec![NO_PUT]);
        let request = WatchCreateRequest { key: key.clone(), start_revision, filters, watch_id: id };
        let (sender, signal) = watch::channel(());
        // If the task has ended, the order is dropped here, and fires.
        let _ = self.0.send(Order::Set(request, FireOnDrop { _signal: sender, hold }));
        Watch { id, key, signal, orders: self.0.clone() }
    }

    /// True if the watch is on this connection, and has not fired.
    pub(crate) fn has(&self, watch: &Watch) -> bool {
        self.0.same_channel(&watch.orders) && watch.signal.has_changed().is_ok()
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
        let _ = self.orders.send(Order::Cancel(self.id));
    }
}

impl Drop for FireOnDrop {
    fn drop(&mut self) {
        if let Some((owner, suspects)) = &self.hold {
            // Nobody asks for the suspects of a backend that is dropped.
            let _ = suspects.send(*owner);
        }
    }
}

async fn serve(client: Client, mut orders: UnboundedReceiver<Order>) {
    let mut set: HashMap<i64, FireOnDrop> = HashMap::new();
    let (sender, mut requests) = unbounded_channel();
    let carry_out = |order, set: &mut HashMap<i64, FireOnDrop>| {
        let order = match order {
            Order::Set(request, watch) => {
                set.insert(request.watch_id, watch);
                WatchOrder::Create(request)
            }
            // Also of a watch that has fired: the server goes on watching the deleted key.
            Order::Cancel(watch_id) => {
                set.get_mut(&watch_id).and_then(|watch| watch.hold.take());
                set.remove(&watch_id);
                WatchOrder::Cancel(WatchCancelRequest { watch_id })
            }
        };
        let _ = sender.send(WatchRequest { order: Some(order) });
    };
    let Some(first) = orders.recv().await else { return };
    // The server answers to the stream when it has the first request.
    carry_out(first, &mut set);
    let opened = client.stream(&WATCH, poll_fn(move |cx| requests.poll_recv(cx)));
    let Ok(Ok(mut answers)) = timeout(OPEN_TIMEOUT, opened).await else { return };
    loop {
        tokio::select! {
            order = orders.recv() => match order {
                Some(order) => carry_out(order, &mut set),
                None => return,
            },
            answer = answers.message() => match answer {
                Ok(Some(answer)) if answer.canceled || !answer.events.is_empty() => drop(set.remove(&answer.watch_id)),
                Ok(Some(_)) => {}
                _ => return,
            },
        }
    }
}
