use super::connection::{Done, Query};
use super::link::Link;
use leasehold_core::{Error, ErrorKind, Result};
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::{Mutex, OwnedMutexGuard, oneshot};

/// A connection, and the calls that wait for it.
///
/// Each call runs in a task of its own, so that a caller that is not polled holds up no other. If the runtime of a call ends, the
/// next call goes on with the connection.
#[derive(Clone, Debug)]
pub(super) struct Worker(Arc<Mutex<Link>>);

impl Worker {
    pub(super) fn new(link: Link) -> Self {
        Self(Arc::new(Mutex::new(link)))
    }

    /// Runs a statement; without a result if a reader finds no table.
    pub(super) async fn run(&self, query: impl Fn() -> Query + Send + Sync + 'static) -> Result<Done> {
        self.call(async move |mut link| link.run(query).await).await
    }

    /// Runs a call when the connection is free, unless its caller has gone by then: a call that was given up must not change anything
    /// later.
    pub(super) async fn call<T, F>(
        &self,
        call: impl FnOnce(OwnedMutexGuard<Link>) -> F + Send + 'static,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        self.spawn(async move |link| {
            if !reply.is_closed() {
                let _ = reply.send(call(link).await);
            }
        })?;
        answer.await.unwrap_or_else(|_| Err(runtime_ended()))
    }

    /// Starts a task that runs as soon as the connection is free.
    pub(super) fn spawn<F>(&self, job: impl FnOnce(OwnedMutexGuard<Link>) -> F + Send + 'static) -> Result<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let runtime = Handle::try_current().map_err(|_| no_runtime())?;
        let link = Arc::clone(&self.0);
        runtime.spawn(async move { job(link.lock_owned().await).await });
        Ok(())
    }
}

pub(super) fn runtime_ended() -> Error {
    Error::new(ErrorKind::Indeterminate, "the runtime on which the store was used has ended")
        .with_help("ask again; runtimes that share a store should live as long as it is used")
}

fn no_runtime() -> Error {
    Error::new(ErrorKind::Misconfigured, "using a store needs a Tokio runtime, and there is none here")
        .with_help("call it from async code that runs on Tokio, for instance under #[tokio::main]")
}
