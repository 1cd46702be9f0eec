//! A connection to one member.

use crate::rpc::{KEEP_ALIVE, KeyValue, LeaseRequest, Method, ResponseHeader, TXN, TxnRequest, TxnResponse};
use crate::server_error::{not_connected, of_status};
use crate::watches::Watches;
use futures_util::Stream;
use leasehold_core::{Clock, ErrorKind, Moment, Result, SystemClock};
use prost::Message;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tonic::client::Grpc;
use tonic::codec::Streaming;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;
use tonic::{Request, Response};
use tonic_prost::ProstCodec;

/// The longest answer: a list of hundreds of thousands of locks.
const MAX_ANSWER_BYTES: usize = 256 << 20;

/// One member, and the watches there.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) member: usize,
    pub(crate) client: Client,
    pub(crate) watches: Watches,
    /// True after a request without an answer: no further one is made on it.
    pub(crate) is_left: AtomicBool,
}

/// What a transaction beside the extension of a lease has shown.
#[derive(Debug)]
pub(crate) struct Proof {
    pub(crate) answer: TxnResponse,
    /// True if the lease lives for at least its length from `sent_at` on; false if it has ended. `None` if neither is proven.
    pub(crate) is_extended: Option<bool>,
    pub(crate) connection: Arc<Connection>,
    pub(crate) sent_at: Moment,
}

/// One member, with the login of our user.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) address: Arc<str>,
    pub(crate) channel: Channel,
    pub(crate) token: Option<MetadataValue<Ascii>>,
}

impl Connection {
    pub(crate) fn new(member: usize, client: Client) -> Self {
        Self { member, watches: Watches::on(client.clone()), client, is_left: AtomicBool::new(false) }
    }

    /// False also once the runtime that serves it, or its stream of watches, has ended.
    pub(crate) fn is_open(&self) -> bool {
        !self.is_left.load(Ordering::Relaxed) && self.watches.are_served()
    }

    /// Extends a lease beside a transaction that is linearizable.
    ///
    /// A leader that was stopped and replaced extends leases when it goes on, though the new leader has started each of them anew and
    /// may have ended it. So the extension counts only if its answer has the member and the raft term of the transaction's
    /// answer: the leader of that term led after both were sent, and any later one starts the lease anew later.
    pub(crate) async fn prove(self: Arc<Self>, txn: TxnRequest, lease: i64) -> Result<Proof> {
        let (client, sent_at) = (&self.client, SystemClock::new().now());
        let extension = client.call(&KEEP_ALIVE, LeaseRequest { id: lease });
        let (extension, answer) = tokio::join!(extension, client.call(&TXN, txn));
        let answer = answer?;
        // The transaction was carried out.
        let extension = extension.map_err(|error| error.with_kind(ErrorKind::Indeterminate))?;
        let leader = |header: &Option<ResponseHeader>| header.as_ref().map(|it| (it.member_id, it.raft_term));
        let is_extended = (leader(&extension.header) == leader(&answer.header)).then_some(extension.ttl > 0);
        Ok(Proof { answer, is_extended, connection: self, sent_at })
    }
}

impl Proof {
    /// The keys that each read of the transaction found, in the order of the reads.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = &[KeyValue]> {
        self.answer.responses.iter().filter_map(|response| Some(&*response.range.as_ref()?.kvs))
    }

    /// The revision of the store at the answer.
    pub(crate) fn revision(&self) -> i64 {
        self.answer.header.as_ref().map_or(0, |header| header.revision)
    }
}

impl Client {
    /// Sends a request, and waits for the answer.
    pub(crate) async fn call<Q: Message + 'static, A: Message + Default + 'static>(
        &self,
        method: &Method<Q, A>,
        request: Q,
    ) -> Result<A> {
        let (mut grpc, path) = (self.ready().await?, PathAndQuery::from_static(method.path));
        let answer = grpc.unary(self.request(request), path, ProstCodec::default()).await;
        answer.map(Response::into_inner).map_err(|status| of_status(&self.address, status))
    }

    /// Opens a stream of requests and answers.
    pub(crate) async fn stream<Q: Message + 'static, A: Message + Default + 'static>(
        &self,
        method: &Method<Q, A>,
        requests: impl Stream<Item = Q> + Send + 'static,
    ) -> Result<Streaming<A>> {
        let (mut grpc, path) = (self.ready().await?, PathAndQuery::from_static(method.path));
        let answers = grpc.streaming(self.request(requests), path, ProstCodec::default()).await;
        answers.map(Response::into_inner).map_err(|status| of_status(&self.address, status))
    }

    async fn ready(&self) -> Result<Grpc<Channel>> {
        let mut grpc = Grpc::new(self.channel.clone()).max_decoding_message_size(MAX_ANSWER_BYTES);
        grpc.ready().await.map_err(|error| not_connected(&self.address, error))?;
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
}
