//! The part of etcd's gRPC interface that locks need, after `rpc.proto` and `kv.proto` of etcd 3.4. Written by hand, so that a build
//! needs no compiler of protocol buffers; a field that locks do not use is left out.

use prost::{Message, Oneof};
use std::marker::PhantomData;

/// A method of the interface, with the types of its requests and answers.
#[derive(Debug)]
pub(crate) struct Method<Q, A> {
    pub(crate) path: &'static str,
    types: PhantomData<fn(Q) -> A>,
}

impl<Q, A> Method<Q, A> {
    const fn new(path: &'static str) -> Self {
        Self { path, types: PhantomData }
    }
}

pub(crate) const RANGE: Method<RangeRequest, RangeResponse> = Method::new("/etcdserverpb.KV/Range");
pub(crate) const TXN: Method<TxnRequest, TxnResponse> = Method::new("/etcdserverpb.KV/Txn");
pub(crate) const WATCH: Method<WatchRequest, WatchResponse> = Method::new("/etcdserverpb.Watch/Watch");
pub(crate) const GRANT: Method<LeaseGrantRequest, LeaseResponse> = Method::new("/etcdserverpb.Lease/LeaseGrant");
pub(crate) const REVOKE: Method<LeaseRequest, LeaseResponse> = Method::new("/etcdserverpb.Lease/LeaseRevoke");
pub(crate) const KEEP_ALIVE: Method<LeaseRequest, LeaseResponse> = Method::new("/etcdserverpb.Lease/LeaseKeepAlive");
pub(crate) const TIME_TO_LIVE: Method<LeaseRequest, LeaseResponse> = Method::new("/etcdserverpb.Lease/LeaseTimeToLive");
pub(crate) const AUTHENTICATE: Method<AuthenticateRequest, AuthenticateResponse> = Method::new("/etcdserverpb.Auth/Authenticate");
pub(crate) const STATUS: Method<Empty, StatusResponse> = Method::new("/etcdserverpb.Maintenance/Status");
/// The zero values of its request ask for all alarms of all members.
pub(crate) const ALARM: Method<Empty, AlarmResponse> = Method::new("/etcdserverpb.Maintenance/Alarm");
pub(crate) const MEMBER_LIST: Method<Empty, MemberListResponse> = Method::new("/etcdserverpb.Cluster/MemberList");

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
/// Kinds of alarms: the quota of space is used up, or the data of a member differ from the others'.
pub(crate) const NO_SPACE: i32 = 1;
pub(crate) const CORRUPT: i32 = 2;

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Empty {}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct ResponseHeader {
    #[prost(uint64, tag = "1")] pub(crate) cluster_id: u64,
    #[prost(uint64, tag = "2")] pub(crate) member_id: u64,
    #[prost(int64, tag = "3")] pub(crate) revision: i64,
    #[prost(uint64, tag = "4")] pub(crate) raft_term: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct KeyValue {
    #[prost(bytes = "vec", tag = "1")] pub(crate) key: Vec<u8>,
    #[prost(int64, tag = "2")] pub(crate) create_revision: i64,
    #[prost(bytes = "vec", tag = "5")] pub(crate) value: Vec<u8>,
    #[prost(int64, tag = "6")] pub(crate) lease: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")] pub(crate) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")] pub(crate) range_end: Vec<u8>,
    #[prost(int64, tag = "3")] pub(crate) limit: i64,
    #[prost(int64, tag = "4")] pub(crate) revision: i64,
    #[prost(int32, tag = "5")] pub(crate) sort_order: i32,
    #[prost(int32, tag = "6")] pub(crate) sort_target: i32,
    #[prost(bool, tag = "8")] pub(crate) keys_only: bool,
    #[prost(int64, tag = "13")] pub(crate) max_create_revision: i64,
}
#[derive(Clone, PartialEq, Message)]
pub(crate) struct RangeResponse {
    #[prost(message, optional, tag = "1")] pub(crate) header: Option<ResponseHeader>,
    #[prost(message, repeated, tag = "2")] pub(crate) kvs: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PutRequest {
    #[prost(bytes = "vec", tag = "1")] pub(crate) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")] pub(crate) value: Vec<u8>,
    #[prost(int64, tag = "3")] pub(crate) lease: i64,
}
#[derive(Clone, PartialEq, Message)]
pub(crate) struct DeleteRequest { #[prost(bytes = "vec", tag = "1")] pub(crate) key: Vec<u8> }
#[derive(Clone, PartialEq, Message)]
pub(crate) struct RequestOp { #[prost(oneof = "Request", tags = "1, 2, 3")] pub(crate) request: Option<Request> }
#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Request {
    #[prost(message, tag = "1")] Range(RangeRequest),
    #[prost(message, tag = "2")] Put(PutRequest),
    #[prost(message, tag = "3")] Delete(DeleteRequest),
}

/// Only the answers of reads have content.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ResponseOp { #[prost(message, optional, tag = "1")] pub(crate) range: Option<RangeResponse> }

/// With a `range_end` all keys of the range are compared; an empty range counts as one key that was never created.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Compare {
    #[prost(int32, tag = "1")] pub(crate) result: i32,
    #[prost(int32, tag = "2")] pub(crate) target: i32,
    #[prost(bytes = "vec", tag = "3")] pub(crate) key: Vec<u8>,
    #[prost(oneof = "Operand", tags = "5, 8")] pub(crate) operand: Option<Operand>,
    #[prost(bytes = "vec", tag = "64")] pub(crate) range_end: Vec<u8>,
}
#[derive(Clone, Copy, PartialEq, Oneof)]
pub(crate) enum Operand {
    #[prost(int64, tag = "5")] CreateRevision(i64),
    #[prost(int64, tag = "8")] Lease(i64),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TxnRequest {
    #[prost(message, repeated, tag = "1")] pub(crate) compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")] pub(crate) success: Vec<RequestOp>,
    #[prost(message, repeated, tag = "3")] pub(crate) failure: Vec<RequestOp>,
}
#[derive(Clone, PartialEq, Message)]
pub(crate) struct TxnResponse {
    #[prost(message, optional, tag = "1")] pub(crate) header: Option<ResponseHeader>,
    #[prost(bool, tag = "2")] pub(crate) succeeded: bool,
    #[prost(message, repeated, tag = "3")] pub(crate) responses: Vec<ResponseOp>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchRequest { #[prost(oneof = "WatchOrder", tags = "1, 2")] pub(crate) order: Option<WatchOrder> }
#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum WatchOrder {
    #[prost(message, tag = "1")] Create(WatchCreateRequest),
    #[prost(message, tag = "2")] Cancel(WatchCancelRequest),
}
#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchCreateRequest {
    #[prost(bytes = "vec", tag = "1")] pub(crate) key: Vec<u8>,
    #[prost(int64, tag = "3")] pub(crate) start_revision: i64,
    #[prost(int32, repeated, tag = "5")] pub(crate) filters: Vec<i32>,
    #[prost(int64, tag = "7")] pub(crate) watch_id: i64,
}
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct WatchCancelRequest { #[prost(int64, tag = "1")] pub(crate) watch_id: i64 }
#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchResponse {
    #[prost(int64, tag = "2")] pub(crate) watch_id: i64,
    #[prost(bool, tag = "4")] pub(crate) canceled: bool,
    #[prost(message, repeated, tag = "11")] pub(crate) events: Vec<Empty>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct LeaseGrantRequest { #[prost(int64, tag = "1")] pub(crate) ttl: i64 }

/// The request of every method that is about one lease.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct LeaseRequest { #[prost(int64, tag = "1")] pub(crate) id: i64 }

/// The fields that the answers about a lease share. `ttl` is in whole seconds, and not positive if there is no such lease;
/// `granted_ttl` is in the answer of `LeaseTimeToLive` alone.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct LeaseResponse {
    #[prost(message, optional, tag = "1")] pub(crate) header: Option<ResponseHeader>,
    #[prost(int64, tag = "2")] pub(crate) id: i64,
    #[prost(int64, tag = "3")] pub(crate) ttl: i64,
    #[prost(int64, tag = "4")] pub(crate) granted_ttl: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AuthenticateRequest {
    #[prost(string, tag = "1")] pub(crate) name: String,
    #[prost(string, tag = "2")] pub(crate) password: String,
}
#[derive(Clone, PartialEq, Message)]
pub(crate) struct AuthenticateResponse { #[prost(string, tag = "2")] pub(crate) token: String }

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatusResponse {
    #[prost(message, optional, tag = "1")] pub(crate) header: Option<ResponseHeader>,
    #[prost(string, tag = "2")] pub(crate) version: String,
    #[prost(int64, tag = "3")] pub(crate) db_size: i64,
    #[prost(uint64, tag = "4")] pub(crate) leader: u64,
}
#[derive(Clone, PartialEq, Message)]
pub(crate) struct AlarmResponse { #[prost(message, repeated, tag = "2")] pub(crate) alarms: Vec<AlarmMember> }
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct AlarmMember { #[prost(int32, tag = "2")] pub(crate) alarm: i32 }
#[derive(Clone, PartialEq, Message)]
pub(crate) struct MemberListResponse { #[prost(message, repeated, tag = "2")] pub(crate) members: Vec<Empty> }
