//! The part of etcd's gRPC interface that locks need, after `rpc.proto` and `kv.proto` of etcd 3.4. Written by hand, so that a build
//! needs no compiler of protocol buffers; a field that locks do not use is left out.

use prost::Message;
use std::marker::PhantomData;

/// A method of the interface, with the types of its requests and answers.
#[derive(Debug)]
pub(crate) struct Method<Q, A> {
    pub(crate) path: &'static str,
    types: PhantomData<fn(Q) -> A>,
}

macro_rules! methods {
    ($($name:ident($request:ty) -> $answer:ty: $path:literal;)*) => {$(
        pub(crate) const $name: Method<$request, $answer> =
            Method { path: concat!("/etcdserverpb.", $path), types: PhantomData };
    )*};
}

macro_rules! messages {
    ($($(#[$doc:meta])* $name:ident { $($(#[$tag:meta])* $field:ident: $type:ty),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Message)]
        pub(crate) struct $name { $($(#[$tag])* pub(crate) $field: $type,)* }
    )*};
}

methods! {
    RANGE(RangeRequest) -> RangeResponse: "KV/Range";
    TXN(TxnRequest) -> TxnResponse: "KV/Txn";
    WATCH(WatchRequest) -> WatchResponse: "Watch/Watch";
    GRANT(LeaseGrantRequest) -> LeaseResponse: "Lease/LeaseGrant";
    REVOKE(LeaseRequest) -> LeaseResponse: "Lease/LeaseRevoke";
    KEEP_ALIVE(LeaseRequest) -> LeaseResponse: "Lease/LeaseKeepAlive";
    TIME_TO_LIVE(LeaseRequest) -> LeaseResponse: "Lease/LeaseTimeToLive";
    AUTHENTICATE(AuthenticateRequest) -> AuthenticateResponse: "Auth/Authenticate";
    STATUS(Empty) -> StatusResponse: "Maintenance/Status";
    ALARM(Empty) -> AlarmResponse: "Maintenance/Alarm";
}

/// `RangeRequest::sort_order` and `sort_target`.
pub(crate) const ASCENDING: i32 = 1;
pub(crate) const DESCENDING: i32 = 2;
pub(crate) const BY_CREATE_REVISION: i32 = 2;
/// `Compare::result` and `target`.
pub(crate) const EQUAL: i32 = 0;
pub(crate) const CREATE_REVISION: i32 = 1;
pub(crate) const LEASE: i32 = 4;
/// A filter of watches: without writes, every event is a deletion.
pub(crate) const NO_PUT: i32 = 0;
/// An alarm: the quota of space is used up. The other alarm is that the data of a member differ from the others'.
pub(crate) const NO_SPACE: i32 = 1;

messages! {
    /// As a request: for a method whose default is right for us, such as all alarms of all members.
    Empty {}
    ResponseHeader {
        #[prost(uint64, tag = "1")] cluster_id: u64,
        #[prost(uint64, tag = "2")] member_id: u64,
        #[prost(int64, tag = "3")] revision: i64,
        #[prost(uint64, tag = "4")] raft_term: u64,
    }
    KeyValue {
        #[prost(bytes = "vec", tag = "1")] key: Vec<u8>,
        #[prost(int64, tag = "2")] create_revision: i64,
        #[prost(bytes = "vec", tag = "5")] value: Vec<u8>,
        #[prost(int64, tag = "6")] lease: i64,
    }

    RangeRequest {
        #[prost(bytes = "vec", tag = "1")] key: Vec<u8>,
        #[prost(bytes = "vec", tag = "2")] range_end: Vec<u8>,
        #[prost(int64, tag = "3")] limit: i64,
        #[prost(int64, tag = "4")] revision: i64,
        #[prost(int32, tag = "5")] sort_order: i32,
        #[prost(int32, tag = "6")] sort_target: i32,
        #[prost(bool, tag = "8")] keys_only: bool,
        #[prost(int64, tag = "13")] max_create_revision: i64,
    }
    RangeResponse {
        #[prost(message, optional, tag = "1")] header: Option<ResponseHeader>,
        #[prost(message, repeated, tag = "2")] kvs: Vec<KeyValue>,
    }
    PutRequest {
        #[prost(bytes = "vec", tag = "1")] key: Vec<u8>,
        #[prost(bytes = "vec", tag = "2")] value: Vec<u8>,
        #[prost(int64, tag = "3")] lease: i64,
    }
    DeleteRequest { #[prost(bytes = "vec", tag = "1")] key: Vec<u8> }
    /// Has one field.
    RequestOp {
        #[prost(message, optional, tag = "1")] range: Option<RangeRequest>,
        #[prost(message, optional, tag = "2")] put: Option<PutRequest>,
        #[prost(message, optional, tag = "3")] delete: Option<DeleteRequest>,
    }
    /// Only the answers of reads have content.
    ResponseOp { #[prost(message, optional, tag = "1")] range: Option<RangeResponse> }
    /// With a `range_end` all keys of the range are compared; an empty range counts as one key that was never created.
    Compare {
        #[prost(int32, tag = "1")] result: i32,
        #[prost(int32, tag = "2")] target: i32,
        #[prost(bytes = "vec", tag = "3")] key: Vec<u8>,
        #[prost(int64, optional, tag = "5")] create_revision: Option<i64>,
        #[prost(int64, optional, tag = "8")] lease: Option<i64>,
        #[prost(bytes = "vec", tag = "64")] range_end: Vec<u8>,
    }
    TxnRequest {
        #[prost(message, repeated, tag = "1")] compare: Vec<Compare>,
        #[prost(message, repeated, tag = "2")] success: Vec<RequestOp>,
        #[prost(message, repeated, tag = "3")] failure: Vec<RequestOp>,
    }
    TxnResponse {
        #[prost(message, optional, tag = "1")] header: Option<ResponseHeader>,
        #[prost(bool, tag = "2")] succeeded: bool,
        #[prost(message, repeated, tag = "3")] responses: Vec<ResponseOp>,
    }

    /// Has one field.
    WatchRequest {
        #[prost(message, optional, tag = "1")] create: Option<WatchCreateRequest>,
        #[prost(message, optional, tag = "2")] cancel: Option<WatchCancelRequest>,
    }
    WatchCreateRequest {
        #[prost(bytes = "vec", tag = "1")] key: Vec<u8>,
        #[prost(int64, tag = "3")] start_revision: i64,
        #[prost(int32, repeated, tag = "5")] filters: Vec<i32>,
        #[prost(int64, tag = "7")] watch_id: i64,
    }
    WatchCancelRequest { #[prost(int64, tag = "1")] watch_id: i64 }
    WatchResponse {
        #[prost(message, optional, tag = "1")] header: Option<ResponseHeader>,
        #[prost(int64, tag = "2")] watch_id: i64,
        #[prost(bool, tag = "3")] created: bool,
        #[prost(bool, tag = "4")] canceled: bool,
        #[prost(message, repeated, tag = "11")] events: Vec<Empty>,
    }

    LeaseGrantRequest { #[prost(int64, tag = "1")] ttl: i64 }
    /// The request of every method that is about one lease.
    LeaseRequest { #[prost(int64, tag = "1")] id: i64 }
    /// The fields that the answers about a lease share. `ttl` is in whole seconds, and not positive if there is no such lease;
    /// `granted_ttl` is in the answer of `LeaseTimeToLive` alone.
    LeaseResponse {
        #[prost(message, optional, tag = "1")] header: Option<ResponseHeader>,
        #[prost(int64, tag = "2")] id: i64,
        #[prost(int64, tag = "3")] ttl: i64,
        #[prost(int64, tag = "4")] granted_ttl: i64,
    }

    AuthenticateRequest {
        #[prost(string, tag = "1")] name: String,
        #[prost(string, tag = "2")] password: String,
    }
    AuthenticateResponse { #[prost(string, tag = "2")] token: String }
    StatusResponse {
        #[prost(message, optional, tag = "1")] header: Option<ResponseHeader>,
        #[prost(string, tag = "2")] version: String,
        #[prost(uint64, tag = "4")] leader: u64,
    }
    AlarmResponse { #[prost(message, repeated, tag = "2")] alarms: Vec<AlarmMember> }
    AlarmMember { #[prost(int32, tag = "2")] alarm: i32 }
}
