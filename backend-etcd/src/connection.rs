//! A connection to one member.

use crate::etcd_error::{EtcdError, EtcdResult};
use crate::rpc::{KEEP_ALIVE, KeyValue, LeaseRequest, Method, TXN, TxnRequest, TxnResponse};
use crate::watches::Watches;
use futures_util::{Stream, stream};
use prost::Message;
use std::sync::Arc;
use tonic::client::Grpc;
use tonic::codec::Streaming;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

/// The longest answer: a list of hundreds of thousands of locks.
const MAX_ANSWER_BYTES: usize = 256 << 20;

/// One member, and the watches there.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) member: usize,
    pub(crate) client: Client,
    pub(crate) watches: Watches,
}

/// One member, with the login of our user.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) address: Arc<str>,
    pub(crate) channel: Channel,
    pub(crate) token: Option<MetadataValue<Ascii>>,
}

/// The answer to a transaction beside the extension of a lease.
#[derive(Debug)]
pub(crate) struct Proof {
    pub(crate) answer: TxnResponse,
    /// The revision of the store at the answer.
    pub(crate) revision: i64,
    /// True if the lease lives for at least its length from before the requests were sent, false if it has ended, `None` if neither
    /// is proven.
    pub(crate) is_extended: Option<bool>,
}

impl Client {
    /// Sends a request, and waits for the answer.
    pub(crate) async fn call<Q: Message + 'static, A: Message + Default + 'static>(
        &self,
        method: &Method<Q, A>,
        request: Q,
    ) -> EtcdResult<A> {
        let (mut grpc, path) = (self.ready().await?, PathAndQuery::from_static(method.path));
        let answer = grpc.unary(self.request(request), path, ProstCodec::default()).await;
        answer.map(Response::into_inner).map_err(|status| self.failed(status))
    }

    /// Opens a stream of requests and answers.
    pub(crate) async fn stream<Q: Message + 'static, A: Message + Default + 'static>(
        &self,
        method: &Method<Q, A>,
        requests: impl Stream<Item = Q> + Send + 'static,
    ) -> EtcdResult<Streaming<A>> {
        let (mut grpc, path) = (self.ready().await?, PathAndQuery::from_static(method.path));
        let answers = grpc.streaming(self.request(requests), path, ProstCodec::default()).await;
        answers.map(Response::into_inner).map_err(|status| self.failed(status))
    }

    /// Extends a lease beside a transaction that is linearizable.
    ///
    /// A leader that was stopped and replaced extends leases when it goes on, though the new leader has started each of them anew and
    /// may have ended it. So an extension counts only if its answer has the member and the raft term of the transaction's
    /// answer: the leader of that term led after both were sent, and any later one starts the lease anew later.
    pub(crate) async fn txn_and_keep_alive(&self, txn: TxnRequest, lease: i64) -> EtcdResult<Proof> {
        let extension = async {
            let mut answers = self.stream(&KEEP_ALIVE, stream::iter([LeaseRequest { id: lease }])).await?;
            answers.message().await.map_err(|status| self.failed(status))
        };
        let (extension, answer) = tokio::join!(extension, self.call(&TXN, txn));
        let answer = answer?;
        let extension = match extension {
            // The transaction was carried out.
            Err(EtcdError::NotDone(error)) => return Err(EtcdError::Unknown(error)),
            extension => extension?.unwrap_or_default(),
        };
        let (txn, keep_alive) = (answer.header.unwrap_or_default(), extension.header.unwrap_or_default());
        let is_proven = (keep_alive.member_id, keep_alive.raft_term) == (txn.member_id, txn.raft_term);
        Ok(Proof { answer, revision: txn.revision, is_extended: is_proven.then_some(extension.ttl > 0) })
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

    fn failed(&self, status: Status) -> EtcdError {
        EtcdError::of_status(&self.address, status)
    }
}

impl Proof {
    /// The keys that each read of the transaction found, in the order of the reads.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = &[KeyValue]> {
        self.answer.responses.iter().filter_map(|response| Some(&*response.range.as_ref()?.kvs))
    }
}
