//! The watches of one connection: one stream, on which each watch waits for the deletion of one key.

use crate::connection::Client;
use crate::rpc::{NO_PUT, RANGE, RangeRequest, WATCH, WatchCancelRequest, WatchCreateRequest, WatchRequest};
use futures_util::stream::poll_fn;
use leasehold_core::{OwnerId, Suspects};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// A member that hangs answers to no stream, and ends none.
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
    /// The watch fires by closing this.
    signal: watch::Receiver<()>,
    orders: UnboundedSender<Order>,
}

#[derive(Debug)]
enum Order {
    Set(i64, FireOnDrop),
    Cancel(i64),
}

/// The owner that holds a watched key, and what takes it when the hold may be over.
pub(crate) type Hold = (OwnerId, Arc<Suspects>);

/// Fires a watch when the task drops it: at an event, or at the end of the stream, of the task or of its runtime. So no watch is lost
/// in silence.
#[derive(Debug)]
struct FireOnDrop {
    key: Vec<u8>,
    since_revision: i64,
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

    /// A watch that fires when this key is deleted, or if it was after this revision.
    pub(crate) fn set(&self, key: Vec<u8>, since_revision: i64, hold: Option<Hold>) -> Watch {
        let id = LAST_ID.fetch_add(1, Ordering::Relaxed) + 1;
        let (_signal, signal) = watch::channel(());
        // If the task has ended, the order is dropped here, and fires.
        let _ = self.0.send(Order::Set(id, FireOnDrop { key: key.clone(), since_revision, _signal, hold }));
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
        let (mut signal, orders) = (self.signal.clone(), self.orders.clone());
        async move {
            tokio::select! {
                _ = signal.changed() => {}
                // An order that was sent while the task ended is not dropped.
                () = orders.closed() => {}
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // Also of a watch that has fired: the server goes on watching the deleted key.
        let _ = self.orders.send(Order::Cancel(self.id));
    }
}

impl Drop for FireOnDrop {
    fn drop(&mut self) {
        if let Some((owner, suspects)) = &self.hold {
            suspects.add(*owner);
        }
    }
}

async fn serve(client: Client, mut orders: UnboundedReceiver<Order>) {
    let mut set: HashMap<i64, FireOnDrop> = HashMap::new();
    let mut reads = JoinSet::new();
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
                // The refusal of a watch names none, as after a change of rights: all fire, and the next call connects anew.
                let answer = answer.ok().flatten().filter(|it| !(it.created && it.canceled));
                let Some(answer) = answer else { return };
                let revision = answer.header.map_or(i64::MAX, |header| header.revision);
                if answer.canceled || !answer.events.is_empty() {
                    set.remove(&answer.watch_id);
                } else if let Some(watch) = set.get(&answer.watch_id)
                    && answer.created && watch.hold.is_none() && revision > watch.since_revision
                {
                    reads.spawn(find_deleted(client.clone(), answer.watch_id, watch.key.clone(), watch.since_revision));
                }
            }
            Some(read) = reads.join_next() => {
                if let Ok(Some(deleted)) = read {
                    set.remove(&deleted);
                }
            }
        }
    }
}

/// The id of a watch whose key was deleted after this revision, or cannot be read.
async fn find_deleted(client: Client, id: i64, key: Vec<u8>, since_revision: i64) -> Option<i64> {
    let read = RangeRequest { key, keys_only: true, ..RangeRequest::default() };
    let found = client.call(&RANGE, read).await.map(|answer| answer.kvs);
    let is_there = found.is_ok_and(|keys| keys.iter().any(|found| found.create_revision <= since_revision));
    (!is_there).then_some(id)
}

/// The request of an order. A watch that is cancelled does not fire for its holder.
fn carry_out(order: Order, set: &mut HashMap<i64, FireOnDrop>) -> WatchRequest {
    match order {
        Order::Set(watch_id, watch) => {
            // The server looks at a watch from a past revision ten times a second, until it has caught up. That is soon enough for a
            // holder. A waiter's watch begins with the next revision, and its key is read if the store has changed meanwhile.
            let start_revision = if watch.hold.is_some() { watch.since_revision + 1 } else { 0 };
            let (key, filters) = (watch.key.clone(), vec![NO_PUT]);
            set.insert(watch_id, watch);
            let create = WatchCreateRequest { key, start_revision, filters, watch_id };
            WatchRequest { create: Some(create), cancel: None }
        }
        Order::Cancel(watch_id) => {
            if let Some(mut watch) = set.remove(&watch_id) {
                watch.hold = None;
            }
            WatchRequest { create: None, cancel: Some(WatchCancelRequest { watch_id }) }
        }
    }
}
