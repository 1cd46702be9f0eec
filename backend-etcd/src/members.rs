//! The members of a cluster, asked in turn.

use crate::connection::{Client, Connection};
use crate::etcd_error::{EtcdError, EtcdResult, outage};
use crate::rpc::{
    AUTHENTICATE, AuthenticateRequest, Empty, KeyValue, Method, STATUS, StatusResponse, TXN, TxnRequest,
    TxnResponse,
};
use crate::target::Target;
use crate::watches::Watches;
use leasehold_core::{Clock, Error, ErrorKind, KnownServers, Moment, SystemClock};
use prost::Message;
use secrecy::ExposeSecret;
use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::runtime::{self, Handle};
use tokio::time::{Instant, timeout_at};
use tonic::metadata::MetadataValue;

/// The most runtimes whose connections are kept. A program has one or two; a connection of a runtime that has ended is of no use.
const MAX_RUNTIMES: usize = 8;

/// The members, and the connection to one of them: one for each runtime, because tasks serve a connection.
#[derive(Debug)]
pub(crate) struct Members {
    pub(crate) target: Target,
    pub(crate) servers: KnownServers,
    current: AtomicUsize,
    slots: Mutex<HashMap<runtime::Id, Arc<Slot>>>,
    /// The id of the cluster of the member that answered first.
    cluster: OnceLock<u64>,
    is_closed: AtomicBool,
}

/// What a transaction beside the extension of leases has shown.
#[derive(Debug)]
pub(crate) struct Proof {
    pub(crate) answer: TxnResponse,
    /// The leases that live for at least their length from `sent_at` on. `None` if that is not proven.
    pub(crate) extended: Option<Vec<i64>>,
    pub(crate) connection: Arc<Connection>,
    pub(crate) sent_at: Moment,
}

type Slot = tokio::sync::Mutex<Option<Arc<Connection>>>;

impl Members {
    pub(crate) fn new(target: Target) -> Self {
        Self {
            target,
            servers: KnownServers::default(),
            current: AtomicUsize::new(0),
            slots: Mutex::default(),
            cluster: OnceLock::new(),
            is_closed: AtomicBool::new(false),
        }
    }

    /// A request that may be repeated.
    pub(crate) async fn call<Q: Message + Clone + 'static, A: Message + Default + 'static>(
        &self,
        method: &Method<Q, A>,
        request: Q,
    ) -> EtcdResult<A> {
        let request = &request;
        self.run(true, |it| async move { it.client.call(method, request.clone()).await }).await.0
    }

    /// A transaction whose repetition would be answered otherwise.
    pub(crate) async fn txn_once(&self, txn: &TxnRequest) -> EtcdResult<TxnResponse> {
        self.run(false, |it| async move { it.client.call(&TXN, txn.clone()).await }).await.0
    }

    /// A transaction beside the extension of leases: see [`Client::txn_and_keep_alive`]. The second value is true if a transaction
    /// without an answer may be carried out later.
    pub(crate) async fn prove(&self, txn: &TxnRequest, leases: &[i64]) -> (EtcdResult<Proof>, bool) {
        let sent_at = SystemClock::new().now();
        let prove = |connection: Arc<Connection>| async move {
            let (answer, extended) = connection.client.txn_and_keep_alive(txn.clone(), leases).await?;
            Ok(Proof { answer, extended, connection, sent_at })
        };
        self.run(true, prove).await
    }

    /// Makes a request of the current member, and of the next ones while it does not answer, until the time is over. A request that
    /// may have been carried out is made again only if `repeats`. The second value is true if there was one.
    async fn run<T, F: Future<Output = EtcdResult<T>>>(
        &self,
        repeats: bool,
        request: impl Fn(Arc<Connection>) -> F,
    ) -> (EtcdResult<T>, bool) {
        let (deadline, count) = (Instant::now() + self.target.timeout, self.target.members.len());
        let (mut is_unknown, mut has_logged_in) = (false, false);
        let mut failure = EtcdError::no_answer(&self.target.address(0), self.target.timeout);
        for attempt in 0..=count {
            let (now, member) = (Instant::now(), self.current.load(Ordering::Relaxed));
            // A member that hangs leaves time for the others.
            let members_left = u32::try_from(count.saturating_sub(attempt).max(1)).unwrap_or(u32::MAX);
            let share = deadline.saturating_duration_since(now) / members_left;
            if share.is_zero() || (is_unknown && !repeats) {
                break;
            }
            let connection = match self.connection(member, now + share).await {
                Ok(connection) => connection,
                Err(error) if error.is_outage() => {
                    self.leave(member, None);
                    failure = error;
                    continue;
                }
                Err(error) => return (Err(error), is_unknown),
            };
            let answer = timeout_at(now + share, request(Arc::clone(&connection))).await;
            match answer.unwrap_or_else(|_| Err(EtcdError::no_answer(&connection.client.address, share))) {
                Err(EtcdError::TokenExpired) if !has_logged_in => {
                    has_logged_in = true;
                    self.disconnect(&connection);
                }
                Err(error) if error.is_outage() => {
                    self.leave(member, Some(&connection));
                    is_unknown |= matches!(error, EtcdError::Unknown(_));
                    failure = error;
                }
                answer => return (answer, is_unknown),
            }
        }
        match failure {
            EtcdError::NotDone(error) if is_unknown => (Err(EtcdError::Unknown(error)), is_unknown),
            failure => (Err(failure), is_unknown),
        }
    }

    /// The connection of this runtime to a member, made if there is none.
    async fn connection(&self, member: usize, deadline: Instant) -> EtcdResult<Arc<Connection>> {
        let connect = async {
            let mut slot = self.slot().lock_owned().await;
            if self.is_closed.load(Ordering::Relaxed) {
                return Err(EtcdError::Refused(Error::closed()));
            }
            if let Some(connection) = slot.as_ref().filter(|it| it.member == member) {
                return Ok(Arc::clone(connection));
            }
            let (client, _) = self.connect(member).await?;
            let watches = Watches::on(client.clone());
            Ok(Arc::clone(slot.insert(Arc::new(Connection { member, client, watches }))))
        };
        timeout_at(deadline.min(Instant::now() + self.target.connect_timeout), connect).await.unwrap_or_else(
            |_| {
                let message = format!("cannot connect to {} in time", self.target.address(member));
                Err(EtcdError::NotDone(outage(message)))
            },
        )
    }

    /// A new connection to a member of this cluster, logged in. A failure is none of the call that needs it: nothing of that was sent.
    pub(crate) async fn connect(&self, member: usize) -> EtcdResult<(Client, StatusResponse)> {
        let address = self.target.address(member);
        // Its certificates were fit when the store was opened: that they cannot be read now is an outage.
        let endpoint = self.target.endpoint(&address);
        let endpoint =
            endpoint.map_err(|error| EtcdError::NotDone(error.with_kind(ErrorKind::Unavailable)))?;
        let channel = endpoint.connect().await.map_err(|error| EtcdError::not_connected(&address, error))?;
        let mut client = Client { address: address.into(), channel, token: None };
        let status = client.call(&STATUS, Empty {}).await.map_err(EtcdError::of_read)?;
        self.check_cluster(&client.address, &status)?;
        if let Some(login) = &self.target.login {
            let password = login.password.read().map_err(EtcdError::Refused)?.expose_secret().to_owned();
            let request = AuthenticateRequest { name: login.user.clone(), password };
            let answer = client.call(&AUTHENTICATE, request).await.map_err(EtcdError::of_read)?;
            client.token = MetadataValue::try_from(answer.token).ok();
        }
        Ok((client, status))
    }

    /// Two clusters behind one URL would be two locks of one name.
    fn check_cluster(&self, address: &str, status: &StatusResponse) -> EtcdResult<()> {
        let header = status.header.unwrap_or_default();
        let (first, found) = (*self.cluster.get_or_init(|| header.cluster_id), header.cluster_id);
        if found == first {
            self.servers.note(address, &format!("member {:x} of cluster {found:x}", header.member_id));
            return Ok(());
        }
        let message = format!(
            "{address} is a member of cluster {found:x}, and another host of the URL of cluster {first:x}"
        );
        let help = "name the members of one cluster: etcdctl member list";
        Err(EtcdError::Refused(Error::new(ErrorKind::Misconfigured, message).with_help(help)))
    }

    fn slot(&self) -> Arc<Slot> {
        let (id, mut slots) = (Handle::current().id(), self.slots());
        if slots.len() >= MAX_RUNTIMES && !slots.contains_key(&id) {
            slots.clear();
        }
        Arc::clone(slots.entry(id).or_default())
    }

    /// The next requests go to the next member, over a new connection. Another call may have left it at the same moment.
    fn leave(&self, member: usize, connection: Option<&Arc<Connection>>) {
        let next = (member + 1) % self.target.members.len();
        let _ = self.current.compare_exchange(member, next, Ordering::Relaxed, Ordering::Relaxed);
        connection.inspect(|connection| self.disconnect(connection));
    }

    fn disconnect(&self, connection: &Arc<Connection>) {
        if let Ok(mut slot) = self.slot().try_lock() {
            slot.take_if(|current| Arc::ptr_eq(current, connection));
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

impl Proof {
    /// The keys that each read of the transaction found, in the order of the reads.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = &[KeyValue]> {
        self.answer.responses.iter().filter_map(|response| Some(&*response.range.as_ref()?.kvs))
    }

    /// The revision of the store at the answer.
    pub(crate) fn revision(&self) -> i64 {
        self.answer.header.unwrap_or_default().revision
    }
}
