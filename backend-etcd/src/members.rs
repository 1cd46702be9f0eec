//! The members of a cluster, asked in turn.

use crate::connection::{Client, Connection, Proof};
use crate::rpc::{AUTHENTICATE, AuthenticateRequest, Empty, Method, STATUS, StatusResponse, TxnRequest};
use crate::server_error::{is_out_of_space, no_answer, not_connected, of_read, outage};
use crate::target::Target;
use leasehold_core::{Error, ErrorKind, KnownServers, Result};
use prost::Message;
use secrecy::ExposeSecret;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};
use tonic::metadata::MetadataValue;

/// The members, and the connection to one of them.
#[derive(Debug)]
pub(crate) struct Members {
    pub(crate) target: Target,
    pub(crate) servers: KnownServers,
    /// The member that is asked.
    current: AtomicUsize,
    /// Locked while a connection is made: other callers wait for the same one.
    connection: Mutex<Option<Arc<Connection>>>,
    /// The id of the cluster of the member that answered first.
    cluster: OnceLock<u64>,
    is_closed: AtomicBool,
}

impl Members {
    pub(crate) fn new(target: Target) -> Self {
        let (servers, current, connection, cluster, is_closed) = Default::default();
        Self { target, servers, current, connection, cluster, is_closed }
    }

    /// A request that may be repeated.
    pub(crate) async fn call<Q: Message + Clone + 'static, A: Message + Default + 'static>(
        &self,
        method: &Method<Q, A>,
        request: Q,
    ) -> Result<A> {
        let request = &request;
        self.run(true, &mut false, |it| async move { it.client.call(method, request.clone()).await }).await
    }

    /// A transaction beside the extension of a lease: see [`Connection::prove`] and [`run`](Self::run).
    pub(crate) async fn prove(&self, txn: &TxnRequest, lease: i64, is_unsure: &mut bool) -> Result<Proof> {
        self.run(true, is_unsure, |it| it.prove(txn.clone(), lease)).await
    }

    /// Makes a request of the current member, and of the next ones while it does not answer, until the time is over. A request that
    /// may have been carried out is made again only if `repeats`. Sets `is_unsure` if one may be carried out later, also when this is
    /// dropped.
    pub(crate) async fn run<T, F: Future<Output = Result<T>>>(
        &self,
        repeats: bool,
        is_unsure: &mut bool,
        request: impl Fn(Arc<Connection>) -> F,
    ) -> Result<T> {
        let (deadline, mut failure) = (Instant::now() + self.target.timeout, None);
        let count = self.target.members.len();
        // Without space all members refuse, and a new connection would cost the holders their watches.
        let asks_another = |error: &Error| error.is_outage() && !is_out_of_space(error);
        for attempt in 0..=count {
            let (now, member) = (Instant::now(), self.current.load(Ordering::Relaxed));
            // A member that hangs leaves time for the others.
            let members_left = u32::try_from(count.saturating_sub(attempt).max(1)).unwrap_or(u32::MAX);
            let share = deadline.saturating_duration_since(now) / members_left;
            if share.is_zero() || (*is_unsure && !repeats) {
                break;
            }
            let answer = match self.connection(member, now + share).await {
                Err(error) => Err(error),
                Ok(connection) => {
                    let was_unsure = std::mem::replace(is_unsure, true);
                    let answer = timeout_at(now + share, request(Arc::clone(&connection))).await;
                    let answer = answer.unwrap_or_else(|_| Err(no_answer(&connection.client.address, share)));
                    *is_unsure = was_unsure || answer.as_ref().is_err_and(Error::is_indeterminate);
                    if answer.as_ref().is_err_and(asks_another) {
                        connection.is_left.store(true, Ordering::Relaxed);
                    }
                    answer
                }
            };
            match answer {
                Err(error) if asks_another(&error) => failure = Some(error),
                answer => return answer,
            }
            // Another call may have left it at the same moment.
            let next = (member + 1) % count;
            let _ = self.current.compare_exchange(member, next, Ordering::Relaxed, Ordering::Relaxed);
        }
        let failure = failure.unwrap_or_else(|| outage("there was no time for a request"));
        Err(if *is_unsure { failure.with_kind(ErrorKind::Indeterminate) } else { failure })
    }

    /// The connection to a member, made if there is none.
    async fn connection(&self, member: usize, deadline: Instant) -> Result<Arc<Connection>> {
        let connect = async {
            let mut current = self.connection.lock().await;
            self.ensure_open()?;
            if let Some(connection) = current.as_ref().filter(|it| it.member == member && it.is_open()) {
                return Ok(Arc::clone(connection));
            }
            let (client, _) = self.connect(member).await?;
            Ok(Arc::clone(current.insert(Arc::new(Connection::new(member, client)))))
        };
        let deadline = deadline.min(Instant::now() + self.target.connect_timeout);
        timeout_at(deadline, connect).await.unwrap_or_else(|_| {
            Err(outage(format!("cannot connect to {} in time", self.target.members[member])))
        })
    }

    pub(crate) fn ensure_open(&self) -> Result<()> {
        if self.is_closed.load(Ordering::Relaxed) { Err(Error::closed()) } else { Ok(()) }
    }

    /// A new connection to a member of this cluster, logged in. After a failure, nothing was sent of the request that needs it.
    pub(crate) async fn connect(&self, member: usize) -> Result<(Client, StatusResponse)> {
        let address = self.target.members[member].to_string();
        // Its certificates were fit when the store was opened: that they cannot be read now is an outage.
        let endpoint = self.target.endpoint(&self.target.members[member]);
        let endpoint = endpoint.map_err(|error| error.with_kind(ErrorKind::Unavailable))?;
        let channel = endpoint.connect().await.map_err(|error| not_connected(&address, error))?;
        let mut client = Client { address: address.into(), channel, token: None };
        let status = client.call(&STATUS, Empty {}).await.map_err(of_read)?;
        self.check_cluster(&client.address, &status)?;
        if let Some((user, password)) = &self.target.login {
            let password = password.read()?.expose_secret().to_owned();
            let request = AuthenticateRequest { name: user.clone(), password };
            let answer = client.call(&AUTHENTICATE, request).await.map_err(of_read)?;
            client.token = MetadataValue::try_from(answer.token).ok();
        }
        Ok((client, status))
    }

    /// Two clusters behind one URL would be two locks of one name.
    fn check_cluster(&self, address: &str, status: &StatusResponse) -> Result<()> {
        let header = status.header.clone().unwrap_or_default();
        let (first, found) = (*self.cluster.get_or_init(|| header.cluster_id), header.cluster_id);
        if found == first {
            self.servers.note(address, &format!("member {:x} of cluster {found:x}", header.member_id));
            return Ok(());
        }
        let message = format!("{address} is a member of cluster {found:x}, another of the URL of {first:x}");
        Err(Error::new(ErrorKind::Misconfigured, message)
            .with_help("see etcdctl member list, and name one cluster"))
    }

    /// Gives the connection back. Later calls fail.
    pub(crate) async fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        self.connection.lock().await.take();
    }
}
