//! The watches of this process: a stream for each connection, on which each watch waits for the deletion of one key.

use crate::link::Link;
use crate::notifier::ClaimNotifier;
use crate::wire::{WatchCancelRequest, WatchCreateRequest, WatchFilter, WatchOrder, WatchRequest};
use futures_util::stream::poll_fn;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// The streams of watches: one, unless several runtimes use the store or a member has just been left. A stream that ends fires
/// all its watches: the claims ask again, and watch on another.
#[derive(Debug, Default)]
pub(crate) struct Watches(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    last_id: i64,
    streams: Vec<WatchStream>,
}

#[derive(Debug)]
struct WatchStream {
    link: Arc<Link>,
    requests: UnboundedSender<WatchRequest>,
    claims: HashMap<i64, Arc<ClaimNotifier>>,
}

/// A watch. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    id: i64,
    link: Arc<Link>,
    watches: Weak<Watches>,
}

/// Ends a stream also if its runtime ends.
struct StreamEnd {
    watches: Weak<Watches>,
    link: Arc<Link>,
}

impl Watches {
    /// Fires the claim when this key is deleted, or was since this revision.
    pub(crate) fn set(
        self: &Arc<Self>,
        link: &Arc<Link>,
        key: Vec<u8>,
        revision: i64,
        claim: &Arc<ClaimNotifier>,
    ) -> Watch {
        let mut opened = None;
        let id = {
            let mut state = self.state();
            state.last_id += 1;
            let id = state.last_id;
            // A stream that nobody needs any more ends.
            state.streams.retain(|stream| !stream.claims.is_empty() || Arc::ptr_eq(&stream.link, link));
            if state.stream(link).is_none() {
                let (requests, receiver) = unbounded_channel();
                opened = Some(receiver);
                state.streams.push(WatchStream { link: Arc::clone(link), requests, claims: HashMap::new() });
            }
            if let Some(stream) = state.stream(link) {
                stream.claims.insert(id, Arc::clone(claim));
                let create = WatchCreateRequest {
                    key,
                    start_revision: revision + 1,
                    filters: vec![WatchFilter::NoPut.into()],
                    watch_id: id,
                };
                // The end of a stream fires its claims.
                let _ = stream.requests.send(WatchRequest { order: Some(WatchOrder::Create(create)) });
            }
            id
        };
        if let Some(receiver) = opened {
            let end = StreamEnd { watches: Arc::downgrade(self), link: Arc::clone(link) };
            // One task serves all watches. A runtime that ends drops it here, so the state is not locked.
            tokio::spawn(serve(end, receiver));
        }
        Watch { id, link: Arc::clone(link), watches: Arc::downgrade(self) }
    }

    fn fire(&self, link: &Arc<Link>, id: i64) {
        let claim = self.state().stream(link).and_then(|stream| stream.claims.remove(&id));
        if let Some(claim) = claim {
            claim.fire();
        }
    }

    /// Ends all streams and watches.
    pub(crate) fn close(&self) {
        let streams = std::mem::take(&mut self.state().streams);
        fire_all(streams);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn stream(&mut self, link: &Arc<Link>) -> Option<&mut WatchStream> {
        self.streams.iter_mut().find(|stream| Arc::ptr_eq(&stream.link, link))
    }
}

fn fire_all(streams: Vec<WatchStream>) {
    for claim in streams.into_iter().flat_map(|stream| stream.claims.into_values()) {
        claim.fire();
    }
}

async fn serve(end: StreamEnd, mut requests: UnboundedReceiver<WatchRequest>) {
    let Ok(mut answers) = end.link.watch(poll_fn(move |cx| requests.poll_recv(cx))).await else { return };
    while let Ok(Some(answer)) = answers.message().await {
        let Some(watches) = end.watches.upgrade() else { return };
        if answer.canceled || !answer.events.is_empty() {
            watches.fire(&end.link, answer.watch_id);
        }
    }
}

impl Drop for StreamEnd {
    fn drop(&mut self) {
        let Some(watches) = self.watches.upgrade() else { return };
        let ended = {
            let mut state = watches.state();
            let place = state.streams.iter().position(|stream| Arc::ptr_eq(&stream.link, &self.link));
            place.map(|place| state.streams.swap_remove(place))
        };
        fire_all(ended.into_iter().collect());
    }
}

impl Watch {
    /// True if it is on this connection.
    pub(crate) fn is_on(&self, link: &Arc<Link>) -> bool {
        Arc::ptr_eq(&self.link, link)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let Some(watches) = self.watches.upgrade() else { return };
        let mut state = watches.state();
        if let Some(stream) = state.stream(&self.link)
            && stream.claims.remove(&self.id).is_some()
        {
            let cancel = WatchCancelRequest { watch_id: self.id };
            // A stream that has ended needs none.
            let _ = stream.requests.send(WatchRequest { order: Some(WatchOrder::Cancel(cancel)) });
        }
    }
}
