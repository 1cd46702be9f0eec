//! A connection to one member.

use crate::failure::{EtcdError, EtcdResult};
use crate::wire::{
    KEEP_ALIVE, LeaseKeepAliveRequest, LeaseKeepAliveResponse, ResponseHeader, Rpc, TxnRequest, TxnResponse,
    WATCH, WatchRequest, WatchResponse,
};
use futures_util::{Stream, stream};
use leasehold_core::{Error, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tonic::client::Grpc;
use tonic::codec::Streaming;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

/// The longest answer: a queue of tens of thousands.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// One member, with the login of our user.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) member: usize,
    address: String,
    channel: Channel,
    token: Option<MetadataValue<Ascii>>,
    cluster: Arc<ClusterId>,
}

/// The cluster that the first answer came from. Two clusters behind one URL would be two locks of one name.
#[derive(Debug, Default)]
pub(crate) struct ClusterId(AtomicU64);

/// A write or a read with the extension of leases beside it, answered by one member.
#[derive(Debug)]
pub(crate) struct Proven {
    pub(crate) answer: TxnResponse,
    /// The revision of the store at the answer.
    pub(crate) revision: i64,
    /// Which of the leases lives on, for at least its ttl from before the requests were sent. `None` if that is not proven.
    pub(crate) extended: Option<Vec<bool>>,
}

impl ClusterId {
    fn check(&self, address: &str, header: &ResponseHeader) -> EtcdResult<()> {
        let id = header.cluster_id;
        match self.0.compare_exchange(0, id, Ordering::Relaxed, Ordering::Relaxed) {
            Err(first) if first != id => {
                let message = format!(
                    "{address} is a member of cluster {id:x}, and another host of the URL of cluster {first:x}"
                );
                let help = "name the members of one cluster: etcdctl member list";
                Err(EtcdError::Refused(Error::new(ErrorKind::Misconfigured, message).with_help(help)))
            }
            _ => Ok(()),
        }
    }
}

impl Link {
    pub(crate) fn new(member: usize, address: String, channel: Channel, cluster: Arc<ClusterId>) -> Self {
        Self { member, address, channel, token: None, cluster }
    }

    /// The same with a login.
    pub(crate) fn with_token(mut self, token: &str) -> EtcdResult<Self> {
        let token = MetadataValue::try_from(token).map_err(|_| EtcdError::LoginExpired)?;
        self.token = Some(token);
        Ok(self)
    }

    /// Sends a request, and waits for the answer.
    pub(crate) async fn call<R: Rpc>(&self, request: R) -> EtcdResult<R::Response> {
        let mut grpc = self.ready().await?;
        let codec = ProstCodec::<R, R::Response>::default();
        let answer = grpc.unary(self.request(request), PathAndQuery::from_static(R::PATH), codec).await;
        let answer = answer.map_err(|status| self.failed(status))?.into_inner();
        // An answer about alarms has none if there is no alarm.
        if let Some(header) = R::header(&answer) {
            self.cluster.check(&self.address, header)?;
        }
        Ok(answer)
    }

    /// Extends leases beside a transaction that is linearizable.
    ///
    /// An old leader that goes on after a pause still extends leases, though a new one has started each of them anew and may
    /// have ended them. So an extension counts only if its answer has the member and the raft term of the transaction's
    /// answer: the leader of that term was the leader after both were sent, and any later leader starts leases anew later.
    pub(crate) async fn prove(&self, leases: &[i64], txn: TxnRequest) -> EtcdResult<Proven> {
        let (extensions, answer) = tokio::join!(self.extend(leases), self.call(txn));
        let answer = answer?;
        let extensions = extensions?;
        let header = self.header(answer.header.as_ref())?;
        let same = |it: &LeaseKeepAliveResponse| {
            it.header.is_some_and(|it| (it.member_id, it.raft_term) == (header.member_id, header.raft_term))
        };
        let is_proven = extensions.len() == leases.len() && extensions.iter().all(same);
        let extended = is_proven.then(|| extensions.iter().map(|it| it.ttl > 0).collect());
        Ok(Proven { answer, revision: header.revision, extended })
    }

    /// Extends leases, in one stream, whose answers come in the order of the requests.
    async fn extend(&self, leases: &[i64]) -> EtcdResult<Vec<LeaseKeepAliveResponse>> {
        let requests: Vec<_> = leases.iter().map(|id| LeaseKeepAliveRequest { id: *id }).collect();
        let mut answers = self.stream(KEEP_ALIVE, stream::iter(requests)).await?;
        let mut extensions = Vec::with_capacity(leases.len());
        while extensions.len() < leases.len() {
            let answer: Option<LeaseKeepAliveResponse> =
                answers.message().await.map_err(|status| self.failed(status))?;
            let Some(answer) = answer else { break };
            self.header(answer.header.as_ref())?;
            extensions.push(answer);
        }
        Ok(extensions)
    }

    /// Opens a stream of watches.
    pub(crate) async fn watch(
        &self,
        requests: impl Stream<Item = WatchRequest> + Send + 'static,
    ) -> EtcdResult<Streaming<WatchResponse>> {
        self.stream(WATCH, requests).await
    }

    async fn stream<Q, A>(
        &self,
        path: &'static str,
        requests: impl Stream<Item = Q> + Send + 'static,
    ) -> EtcdResult<Streaming<A>>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        let mut grpc = self.ready().await?;
        let codec = ProstCodec::<Q, A>::default();
        let answers = grpc.streaming(self.request(requests), PathAndQuery::from_static(path), codec).await;
        answers.map(tonic::Response::into_inner).map_err(|status| self.failed(status))
    }

    async fn ready(&self) -> EtcdResult<Grpc<Channel>> {
        let mut grpc = Grpc::new(self.channel.clone()).max_decoding_message_size(MAX_ANSWER_BYTES);
        grpc.ready().await.map_err(|error| EtcdError::not_connected(&self.address, error))?;
        Ok(grpc)
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        // A member that has lost its leader refuses at once, and ends its streams.
        request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
        if let Some(token) = &self.token {
            request.metadata_mut().insert("token", token.clone());
        }
        request
    }

    fn header(&self, header: Option<&ResponseHeader>) -> EtcdResult<ResponseHeader> {
        let Some(header) = header else {
            let message = format!("{} answered without the header of etcd", self.address);
            let help = "look at what stands between here and the member";
            return Err(EtcdError::Refused(Error::new(ErrorKind::Misconfigured, message).with_help(help)));
        };
        self.cluster.check(&self.address, header)?;
        Ok(*header)
    }

    fn failed(&self, status: Status) -> EtcdError {
        EtcdError::of_status(&self.address, status)
    }
}
