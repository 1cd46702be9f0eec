//! The members of a cluster, asked in turn.

use crate::failure::{EtcdError, EtcdResult};
use crate::link::{ClusterId, Link};
use crate::target::Target;
use crate::wire::AuthenticateRequest;
use leasehold_core::{Error, ErrorKind, Result};
use secrecy::ExposeSecret;
use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::runtime::{self, Handle};
use tokio::time::{Instant, timeout, timeout_at};
use tonic::transport::Endpoint;

/// The most runtimes whose connections are kept. A program has one or two; a connection of a runtime that has ended is of no use.
const MAX_RUNTIMES: usize = 8;

/// Whether a request without an answer may be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    Yes,
    /// A second answer would hide the effect of the first request.
    No,
}

/// The members, and the connections to them: one for each runtime, because a connection is served by tasks.
#[derive(Debug)]
pub(crate) struct Members {
    pub(crate) target: Target,
    current: AtomicUsize,
    slots: Mutex<HashMap<runtime::Id, Arc<Slot>>>,
    cluster: Arc<ClusterId>,
    is_closed: AtomicBool,
}

type Slot = tokio::sync::Mutex<Option<Arc<Link>>>;

impl Members {
    pub(crate) fn new(target: Target) -> Self {
        Self {
            target,
            current: AtomicUsize::new(0),
            slots: Mutex::default(),
            cluster: Arc::default(),
            is_closed: AtomicBool::new(false),
        }
    }

    /// Makes a request of the current member, and of the next ones while it does not answer, until the time is over.
    /// If [`Repeat::No`], only a request that was certainly not carried out is made again. The second value is true if a
    /// request before the last one may have been carried out.
    pub(crate) async fn run<T, F>(
        &self,
        repeat: Repeat,
        request: impl Fn(Arc<Link>) -> F,
    ) -> (EtcdResult<T>, bool)
    where
        F: Future<Output = EtcdResult<T>>,
    {
        let deadline = Instant::now() + self.target.timeout;
        let members = self.target.members.len();
        let (mut is_unknown, mut has_logged_in, mut failure) = (false, false, None);
        for attempt in 0..=members {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            // With one member, only a connection that broke is made again.
            let share = left / u32::try_from(members.saturating_sub(attempt).max(1)).unwrap_or(1);
            let member = self.current.load(Ordering::Relaxed) % members;
            let link = match self.link(member, share.min(self.target.connect_timeout)).await {
                Ok(link) => link,
                Err(error) => {
                    self.leave(member, None);
                    if !error.is_outage() {
                        return (Err(error), is_unknown);
                    }
                    failure = Some(error);
                    continue;
                }
            };
            let answer = timeout(share, request(Arc::clone(&link))).await;
            let answer =
                answer.unwrap_or_else(|_| Err(EtcdError::no_answer(&self.target.address(member), share)));
            match answer {
                Err(EtcdError::LoginExpired) if !has_logged_in => {
                    has_logged_in = true;
                    self.forget(&link);
                }
                Err(error) if error.is_outage() => {
                    self.leave(member, Some(&link));
                    let is_answered = matches!(error, EtcdError::NotDone(_));
                    failure = Some(error);
                    if !is_answered {
                        if repeat == Repeat::No {
                            break;
                        }
                        is_unknown = true;
                    }
                }
                answer => return (answer, is_unknown),
            }
        }
        let failure =
            failure.unwrap_or_else(|| EtcdError::no_answer(&self.target.address(0), self.target.timeout));
        let failure = match failure {
            EtcdError::NotDone(error) if is_unknown => EtcdError::Unknown(error),
            failure => failure,
        };
        (Err(failure), is_unknown)
    }

    /// As [`run`](Self::run), for a request that may be repeated, and leaves nothing behind.
    pub(crate) async fn ask<T, F>(&self, request: impl Fn(Arc<Link>) -> F) -> EtcdResult<T>
    where
        F: Future<Output = EtcdResult<T>>,
    {
        self.run(Repeat::Yes, request).await.0
    }

    /// The connection of this runtime to a member, made if there is none.
    async fn link(&self, member: usize, within: Duration) -> EtcdResult<Arc<Link>> {
        let deadline = Instant::now() + within;
        let slot = self.slot();
        let late = |_| EtcdError::NotDone(unreachable_member(&self.target.address(member), within));
        let mut slot = timeout_at(deadline, slot.lock_owned()).await.map_err(late)?;
        if self.is_closed.load(Ordering::Relaxed) {
            return Err(EtcdError::Refused(Error::closed()));
        }
        if let Some(link) = slot.as_ref().filter(|link| link.member == member) {
            return Ok(Arc::clone(link));
        }
        let link = timeout_at(deadline, self.connect(member)).await.map_err(late)?;
        let link = Arc::new(link?);
        *slot = Some(Arc::clone(&link));
        Ok(link)
    }

    /// A new connection to a member, logged in.
    pub(crate) async fn connect(&self, member: usize) -> EtcdResult<Link> {
        let address = self.target.address(member);
        let endpoint = self.endpoint(&address).map_err(|error| match error.kind() {
            ErrorKind::Unavailable => EtcdError::NotDone(error),
            _ => EtcdError::Refused(error),
        })?;
        let channel = endpoint.connect().await.map_err(|error| EtcdError::not_connected(&address, error))?;
        let link = Link::new(member, address, channel, Arc::clone(&self.cluster));
        let Some(login) = &self.target.login else { return Ok(link) };
        let password = login.password.read().map_err(EtcdError::Refused)?;
        let request =
            AuthenticateRequest { name: login.user.clone(), password: password.expose_secret().to_owned() };
        // Nothing of the call itself was sent yet.
        let answer = link.call(request).await.map_err(EtcdError::of_read)?;
        link.with_token(&answer.token)
    }

    fn endpoint(&self, address: &str) -> Result<Endpoint> {
        let scheme = if self.target.tls.is_some() { "https" } else { "http" };
        let endpoint = Endpoint::from_shared(format!("{scheme}://{address}")).map_err(|error| {
            Error::invalid("store URL", format_args!("{address:?} is no address"), "write host:port")
                .with_source(error)
        })?;
        let endpoint = endpoint.tcp_nodelay(true);
        match &self.target.tls {
            Some(tls) => tls.encrypt(endpoint),
            None => Ok(endpoint),
        }
    }

    fn slot(&self) -> Arc<Slot> {
        let id = Handle::current().id();
        let mut slots = self.slots();
        if slots.len() >= MAX_RUNTIMES && !slots.contains_key(&id) {
            slots.clear();
        }
        Arc::clone(slots.entry(id).or_default())
    }

    /// The next requests go to the next member, over a new connection.
    fn leave(&self, member: usize, link: Option<&Arc<Link>>) {
        let next = (member + 1) % self.target.members.len();
        let current = self.current.load(Ordering::Relaxed);
        if current % self.target.members.len() == member {
            // Another call may have left it at the same moment.
            let _ = self.current.compare_exchange(current, next, Ordering::Relaxed, Ordering::Relaxed);
        }
        if let Some(link) = link {
            self.forget(link);
        }
    }

    fn forget(&self, link: &Arc<Link>) {
        for slot in self.slots().values() {
            if let Ok(mut slot) = slot.try_lock()
                && slot.as_ref().is_some_and(|current| Arc::ptr_eq(current, link))
            {
                *slot = None;
            }
        }
    }

    /// Gives the connections back. Later calls fail.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        self.slots().clear();
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<runtime::Id, Arc<Slot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unreachable_member(address: &str, within: Duration) -> Error {
    Error::new(ErrorKind::Unavailable, format!("cannot connect to {address} within {within:?}"))
        .with_help("look at the member and at the network; name more members in the URL")
}
