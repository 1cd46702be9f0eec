//! A connection to one member.

use crate::etcd_error::{EtcdError, EtcdResult};
use crate::rpc::{KEEP_ALIVE, LeaseRequest, Method, ResponseHeader, TXN, TxnRequest, TxnResponse};
use crate::watches::Watches;
use futures_util::{Stream, StreamExt, TryStreamExt, stream};
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

    /// Extends leases beside a transaction that is linearizable. Answers which of them live for at least their length from before the
    /// requests were sent; `None` if that is not proven.
    ///
    /// A leader that was stopped and replaced extends leases when it goes on, though the new leader has started each of them anew and
    /// may have ended it. So extensions count only if their answers have the member and the raft term of the transaction's
    /// answer: the leader of that term led after all were sent, and any later one starts the leases anew later.
    pub(crate) async fn txn_and_keep_alive(
        &self,
        txn: TxnRequest,
        leases: &[i64],
    ) -> EtcdResult<(TxnResponse, Option<Vec<i64>>)> {
        let requests: Vec<_> = leases.iter().map(|id| LeaseRequest { id: *id }).collect();
        let extensions = async {
            let answers = self.stream(&KEEP_ALIVE, stream::iter(requests)).await?.take(leases.len());
            answers.try_collect::<Vec<_>>().await.map_err(|status| self.failed(status))
        };
        let (extensions, answer) = tokio::join!(extensions, self.call(&TXN, txn));
        let answer = answer?;
        let extensions = match extensions {
            // The transaction was carried out.
            Err(EtcdError::NotDone(error)) => return Err(EtcdError::Unknown(error)),
            extensions => extensions?,
        };
        let leader =
            |header: Option<ResponseHeader>| header.map(|header| (header.member_id, header.raft_term));
        let is_proven = extensions.iter().all(|it| leader(it.header) == leader(answer.header));
        let extended = extensions.iter().filter(|it| it.ttl > 0).map(|it| it.id).collect();
        Ok((answer, (is_proven && extensions.len() == leases.len()).then_some(extended)))
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
