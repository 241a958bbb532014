//! `pdpb`: what placement drivers are asked, and what they answer.

#![allow(missing_docs, reason = "kvproto documents its fields")]

use super::kv::{Peer, Region, Store};

#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct RequestHeader {
    #[prost(uint64, tag = "1")]
    pub cluster_id: u64,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ResponseHeader {
    #[prost(uint64, tag = "1")]
    pub cluster_id: u64,
    #[prost(message, optional, tag = "2")]
    pub error: Option<Error>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Error {
    #[prost(int32, tag = "1")]
    pub r#type: i32,
    #[prost(string, tag = "2")]
    pub message: String,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetMembersRequest {
    #[prost(message, optional, tag = "1")]
    pub header: Option<RequestHeader>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetMembersResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    #[prost(message, repeated, tag = "2")]
    pub members: Vec<Member>,
    #[prost(message, optional, tag = "3")]
    pub leader: Option<Member>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Member {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(uint64, tag = "2")]
    pub member_id: u64,
    #[prost(string, repeated, tag = "4")]
    pub client_urls: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TsoRequest {
    #[prost(message, optional, tag = "1")]
    pub header: Option<RequestHeader>,
    #[prost(uint32, tag = "2")]
    pub count: u32,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TsoResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    #[prost(uint32, tag = "2")]
    pub count: u32,
    /// The last of them.
    #[prost(message, optional, tag = "3")]
    pub timestamp: Option<Timestamp>,
}

#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Timestamp {
    /// In milliseconds since 1970.
    #[prost(int64, tag = "1")]
    pub physical: i64,
    #[prost(int64, tag = "2")]
    pub logical: i64,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetRegionRequest {
    #[prost(message, optional, tag = "1")]
    pub header: Option<RequestHeader>,
    #[prost(bytes = "vec", tag = "2")]
    pub region_key: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetRegionResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    #[prost(message, optional, tag = "2")]
    pub region: Option<Region>,
    #[prost(message, optional, tag = "3")]
    pub leader: Option<Peer>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetStoreRequest {
    #[prost(message, optional, tag = "1")]
    pub header: Option<RequestHeader>,
    #[prost(uint64, tag = "2")]
    pub store_id: u64,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetStoreResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    #[prost(message, optional, tag = "2")]
    pub store: Option<Store>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct UpdateServiceGcSafePointRequest {
    #[prost(message, optional, tag = "1")]
    pub header: Option<RequestHeader>,
    #[prost(bytes = "vec", tag = "2")]
    pub service_id: Vec<u8>,
    /// In seconds; 0: it is forgotten.
    #[prost(int64, tag = "3")]
    pub ttl: i64,
    #[prost(uint64, tag = "4")]
    pub safe_point: u64,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct UpdateServiceGcSafePointResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    #[prost(uint64, tag = "4")]
    pub min_safe_point: u64,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct UpdateGcSafePointRequest {
    #[prost(message, optional, tag = "1")]
    pub header: Option<RequestHeader>,
    #[prost(uint64, tag = "2")]
    pub safe_point: u64,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct UpdateGcSafePointResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    #[prost(uint64, tag = "2")]
    pub new_safe_point: u64,
}
