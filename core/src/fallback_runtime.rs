//! The runtime for releases and renewals whose own runtime has ended.
//!
//! A runtime that ends drops its tasks: the keeper, and releases, and nothing but a release ends a hold that is not a lease. The
//! first such task starts one thread with a small runtime. It lives as long as the client, because connections that are made
//! there serve later requests too.

use crate::locked;
use crate::sync::Mutex;
use futures_util::future::BoxFuture;
use std::thread;
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Time for connections to close after the last handle to the client is gone.
const CLOSING_TIME: Duration = Duration::from_secs(1);

type Work = BoxFuture<'static, ()>;

#[derive(Debug, Default)]
pub(crate) struct FallbackRuntime {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    NotStarted,
    Running(UnboundedSender<Work>),
    /// The thread got no runtime. Its work is being dropped, and must not be sent again.
    Failed,
}

impl FallbackRuntime {
    /// Runs the work that `make` builds, on the one thread of this client for it. False, and `make` is not called, where the
    /// system has no thread to give now: the hold then ends with its lease, or with the session.
    pub(crate) fn spawn(&self, make: impl FnOnce() -> Work) -> bool {
        let mut state = locked(&self.state);
        if let State::NotStarted = *state
            && let Some(sender) = start()
        {
            *state = State::Running(sender);
        }
        let State::Running(sender) = &*state else { return false };
        let sender = sender.clone();
        drop(state);
        if let Err(refused) = sender.send(make()) {
            // Work that is dropped unfinished asks for this runtime again. Later work may start another thread.
            *locked(&self.state) = State::Failed;
            drop(refused);
            *locked(&self.state) = State::NotStarted;
        }
        true
    }
}

/// The channel closes, and the thread ends, when the client is dropped.
fn start() -> Option<UnboundedSender<Work>> {
    let (sender, receiver) = unbounded_channel();
    thread::Builder::new().name("leasehold".to_owned()).spawn(move || run(receiver)).ok()?;
    Some(sender)
}

fn run(mut receiver: UnboundedReceiver<Work>) {
    let Ok(runtime) = Builder::new_current_thread().enable_all().build() else {
        // The sender finds the channel closed. Work that was sent before is dropped here, and asks again.
        return;
    };
    runtime.block_on(async {
        while let Some(work) = receiver.recv().await {
            tokio::spawn(work);
        }
        tokio::time::sleep(CLOSING_TIME).await;
    });
}
