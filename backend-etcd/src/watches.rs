//! The watches of one connection: one stream, on which each watch waits for the deletion of one key.

use crate::claims::ClaimNotifier;
use crate::connection::Client;
use crate::rpc::{NO_PUT, WATCH, WatchCancelRequest, WatchCreateRequest, WatchOrder, WatchRequest};
use futures_util::stream::poll_fn;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
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
    pub(crate) id: i64,
    pub(crate) key: Vec<u8>,
    orders: UnboundedSender<Order>,
}

#[derive(Debug)]
enum Order {
    Set(WatchCreateRequest, FireOnDrop),
    Cancel(i64),
}

/// Fires a watch when the task drops it: at an event, or at the end of the stream, of the task or of its runtime. No watch is lost
/// in silence. The claim ignores a watch that it has cancelled.
#[derive(Debug)]
struct FireOnDrop {
    id: i64,
    claim: Arc<ClaimNotifier>,
}

impl Watches {
    /// The watches of a connection of the current runtime. The stream is opened for the first watch.
    pub(crate) fn on(client: Client) -> Self {
        let (orders, receiver) = unbounded_channel();
        tokio::spawn(serve(client, receiver));
        Self(orders)
    }

    /// Notifies the claim when this key is deleted, or if it was since this revision.
    pub(crate) fn set(
        &self,
        key: Vec<u8>,
        since_revision: i64,
        claim: &Arc<ClaimNotifier>,
        is_hold: bool,
    ) -> Watch {
        let id = LAST_ID.fetch_add(1, Ordering::Relaxed) + 1;
        claim.watch(id, is_hold);
        let (start_revision, filters) = (since_revision + 1, vec![NO_PUT]);
        let request = WatchCreateRequest { key: key.clone(), start_revision, filters, watch_id: id };
        // If the task has ended, the order is dropped here, and fires.
        let _ = self.0.send(Order::Set(request, FireOnDrop { id, claim: Arc::clone(claim) }));
        Watch { id, key, orders: self.0.clone() }
    }

    /// True if the watch is on this connection.
    pub(crate) fn has(&self, watch: &Watch) -> bool {
        self.0.same_channel(&watch.orders)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.orders.send(Order::Cancel(self.id));
    }
}

impl Drop for FireOnDrop {
    fn drop(&mut self) {
        self.claim.fire(self.id);
    }
}

async fn serve(client: Client, mut orders: UnboundedReceiver<Order>) {
    let mut set: HashMap<i64, FireOnDrop> = HashMap::new();
    let (sender, mut requests) = unbounded_channel();
    let carry_out = |order, set: &mut HashMap<i64, FireOnDrop>| {
        let order = match order {
            Order::Set(request, claim) => {
                set.insert(claim.id, claim);
                WatchOrder::Create(request)
            }
            // Also of a watch that has fired: the server goes on watching the deleted key.
            Order::Cancel(id) => {
                set.remove(&id);
                WatchOrder::Cancel(WatchCancelRequest { watch_id: id })
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
