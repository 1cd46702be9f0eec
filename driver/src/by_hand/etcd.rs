//! etcd, by two transactions of its interface of gRPC. Without a user.

use super::{ByHand, broken, stored_name, unexpected};
use async_trait::async_trait;
use leasehold::{Config, LockName, Result};
use prost::Message;
use tokio::sync::OnceCell;
use tonic::Request;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

const TXN: &str = "/etcdserverpb.KV/Txn";
const GRANT: &str = "/etcdserverpb.Lease/LeaseGrant";
/// The lease of all keys, in seconds: longer than a measurement.
const LEASE: i64 = 3600;
/// `Compare::target`.
const CREATE_REVISION: i32 = 1;

pub(super) struct RawEtcd {
    config: Config,
    /// The prefix of all keys.
    base: String,
    /// The first member of the URL.
    address: String,
    session: OnceCell<(Channel, i64)>,
}

impl RawEtcd {
    pub(super) fn new(config: &Config) -> Result<Self> {
        let mut authority = config.url().authority()?;
        let path = authority.path.trim_end_matches('/');
        let base = if path.is_empty() { "leasehold".to_owned() } else { path.to_owned() };
        let member = authority.endpoints.first_mut().ok_or_else(|| unexpected("the URL names no member"))?;
        member.port.get_or_insert(2379);
        let address = format!("http://{member}");
        Ok(Self { config: config.clone(), base, address, session: OnceCell::new() })
    }

    /// The connection, and the lease.
    async fn session(&self) -> Result<&(Channel, i64)> {
        let connect = async || {
            let endpoint = Endpoint::from_shared(self.address.clone()).map_err(broken)?;
            let channel = endpoint.connect().await.map_err(broken)?;
            let granted: LeaseResponse = call(&channel, GRANT, LeaseGrantRequest { ttl: LEASE }).await?;
            Ok((channel, granted.id))
        };
        self.session.get_or_try_init(connect).await
    }
}

#[async_trait]
impl ByHand for RawEtcd {
    /// Creates a key if there is none, whose revision is the token; then deletes it, if it is still that one.
    async fn pair(&self, name: &LockName) -> Result<()> {
        let (channel, lease) = self.session().await?;
        let key = format!("{}/{}", self.base, stored_name(&self.config, name)).into_bytes();
        let put = PutRequest { key: key.clone(), value: b"owner".to_vec(), lease: *lease };
        let taken = change(channel, key.clone(), 0, RequestOp { put: Some(put), delete: None }).await?;
        let token = taken.header.filter(|_| taken.succeeded).map(|header| header.revision);
        let token = token.ok_or_else(|| unexpected("a name for measuring is in use"))?;
        let delete = RequestOp { put: None, delete: Some(DeleteRequest { key: key.clone() }) };
        let released = change(channel, key, token, delete).await?;
        if released.succeeded { Ok(()) } else { Err(unexpected("a name for measuring is in use")) }
    }
}

/// Changes a key if it was created at this revision.
async fn change(channel: &Channel, key: Vec<u8>, revision: i64, change: RequestOp) -> Result<TxnResponse> {
    let compare = Compare { target: CREATE_REVISION, key, create_revision: Some(revision) };
    call(channel, TXN, TxnRequest { compare: vec![compare], success: vec![change] }).await
}

async fn call<Q, A>(channel: &Channel, path: &'static str, request: Q) -> Result<A>
where
    Q: Message + 'static,
    A: Message + Default + 'static,
{
    let mut grpc = Grpc::new(channel.clone());
    grpc.ready().await.map_err(broken)?;
    let path = PathAndQuery::from_static(path);
    let answer = grpc.unary(Request::new(request), path, ProstCodec::<Q, A>::default()).await;
    Ok(answer.map_err(broken)?.into_inner())
}

#[derive(Clone, PartialEq, Message)]
struct LeaseGrantRequest {
    #[prost(int64, tag = "1")]
    ttl: i64,
}

#[derive(Clone, PartialEq, Message)]
struct LeaseResponse {
    #[prost(int64, tag = "2")]
    id: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Compare {
    #[prost(int32, tag = "2")]
    target: i32,
    #[prost(bytes = "vec", tag = "3")]
    key: Vec<u8>,
    #[prost(int64, optional, tag = "5")]
    create_revision: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
    #[prost(int64, tag = "3")]
    lease: i64,
}

#[derive(Clone, PartialEq, Message)]
struct DeleteRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
}

/// Has one field.
#[derive(Clone, PartialEq, Message)]
struct RequestOp {
    #[prost(message, optional, tag = "2")]
    put: Option<PutRequest>,
    #[prost(message, optional, tag = "3")]
    delete: Option<DeleteRequest>,
}

#[derive(Clone, PartialEq, Message)]
struct TxnRequest {
    #[prost(message, repeated, tag = "1")]
    compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    success: Vec<RequestOp>,
}

#[derive(Clone, PartialEq, Message)]
struct ResponseHeader {
    #[prost(int64, tag = "3")]
    revision: i64,
}

#[derive(Clone, PartialEq, Message)]
struct TxnResponse {
    #[prost(message, optional, tag = "1")]
    header: Option<ResponseHeader>,
    #[prost(bool, tag = "2")]
    succeeded: bool,
}
