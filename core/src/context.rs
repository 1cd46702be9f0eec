//! What a client, its keeper, its guards and its background work share. It knows none of them.

use crate::fallback_runtime::FallbackRuntime;
use crate::observer::Events;
use crate::sync::AtomicBool;
use crate::wait_queue::WaitQueues;
use crate::{Clock, Error, LockBackend, Result, Semantics};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio_util::task::TaskTracker;

pub(crate) struct Context {
    pub(crate) backend: Arc<dyn LockBackend>,
    pub(crate) semantics: Semantics,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) events: Arc<Events>,
    pub(crate) wait_queues: WaitQueues,
    /// Requests that go on without a caller. Closing the client waits for them.
    pub(crate) background: TaskTracker,
    pub(crate) fallback_runtime: FallbackRuntime,
    closed: AtomicBool,
}

impl Context {
    pub(crate) fn new(backend: Arc<dyn LockBackend>, clock: Arc<dyn Clock>, events: Events) -> Self {
        let (semantics, events) = (backend.semantics(), Arc::new(events));
        if let Some(servers) = backend.servers() {
            servers.tell(&events);
        }
        Self {
            wait_queues: WaitQueues::new(&semantics),
            backend,
            semantics,
            clock,
            events,
            background: TaskTracker::new(),
            fallback_runtime: FallbackRuntime::default(),
            closed: AtomicBool::new(false),
        }
    }

    /// From now on no guard of this client is held, and nothing new is acquired.
    pub(crate) fn mark_closed(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if self.is_closed() { Err(Error::closed()) } else { Ok(()) }
    }
}
