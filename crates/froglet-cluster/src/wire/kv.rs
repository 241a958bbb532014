//! `kvrpcpb`, `errorpb`, `metapb`: what stores are asked, and what they answer.

#![allow(missing_docs, reason = "kvproto documents its fields")]

/// The place of a request: a region as its sender knows it.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Context {
    #[prost(uint64, tag = "1")]
    pub region_id: u64,
    #[prost(message, optional, tag = "2")]
    pub region_epoch: Option<RegionEpoch>,
    #[prost(message, optional, tag = "3")]
    pub peer: Option<Peer>,
    /// Start timestamps of transactions that commit, if ever, after the reader's timestamp.
    #[prost(uint64, repeated, tag = "13")]
    pub resolved_locks: Vec<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct RegionEpoch {
    #[prost(uint64, tag = "1")]
    pub conf_ver: u64,
    #[prost(uint64, tag = "2")]
    pub version: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Peer {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(uint64, tag = "2")]
    pub store_id: u64,
}

/// Of placement drivers and in [`EpochNotMatch`] with keys in their ordered encoding.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Region {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(bytes = "vec", tag = "2")]
    pub start_key: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    pub end_key: Vec<u8>,
    #[prost(message, optional, tag = "4")]
    pub region_epoch: Option<RegionEpoch>,
    #[prost(message, repeated, tag = "5")]
    pub peers: Vec<Peer>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Store {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(string, tag = "2")]
    pub address: String,
    /// 0: it is up.
    #[prost(int32, tag = "3")]
    pub state: i32,
}

/// Why a region does not answer. The request has done nothing.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RegionError {
    #[prost(string, tag = "1")]
    pub message: String,
    #[prost(message, optional, tag = "2")]
    pub not_leader: Option<NotLeader>,
    #[prost(message, optional, tag = "3")]
    pub region_not_found: Option<RegionNotFound>,
    #[prost(message, optional, tag = "4")]
    pub key_not_in_region: Option<KeyNotInRegion>,
    #[prost(message, optional, tag = "5")]
    pub epoch_not_match: Option<EpochNotMatch>,
    #[prost(message, optional, tag = "6")]
    pub server_is_busy: Option<ServerIsBusy>,
    #[prost(message, optional, tag = "7")]
    pub stale_command: Option<StaleCommand>,
    #[prost(message, optional, tag = "8")]
    pub store_not_match: Option<StoreNotMatch>,
    #[prost(message, optional, tag = "9")]
    pub raft_entry_too_large: Option<RaftEntryTooLarge>,
    #[prost(message, optional, tag = "15")]
    pub disk_full: Option<DiskFull>,
}

#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct NotLeader {
    #[prost(uint64, tag = "1")]
    pub region_id: u64,
    #[prost(message, optional, tag = "2")]
    pub leader: Option<Peer>,
}

#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct RegionNotFound {
    #[prost(uint64, tag = "1")]
    pub region_id: u64,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct KeyNotInRegion {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(uint64, tag = "2")]
    pub region_id: u64,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct EpochNotMatch {
    #[prost(message, repeated, tag = "1")]
    pub current_regions: Vec<Region>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ServerIsBusy {
    #[prost(string, tag = "1")]
    pub reason: String,
    #[prost(uint64, tag = "2")]
    pub backoff_ms: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct StaleCommand {}

#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct StoreNotMatch {
    #[prost(uint64, tag = "1")]
    pub request_store_id: u64,
    #[prost(uint64, tag = "2")]
    pub actual_store_id: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct RaftEntryTooLarge {
    #[prost(uint64, tag = "1")]
    pub region_id: u64,
    #[prost(uint64, tag = "2")]
    pub entry_size: u64,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DiskFull {
    #[prost(uint64, repeated, tag = "1")]
    pub store_id: Vec<u64>,
    #[prost(string, tag = "2")]
    pub reason: String,
}

/// Why a key does not.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct KeyError {
    #[prost(message, optional, tag = "1")]
    pub locked: Option<LockInfo>,
    #[prost(string, tag = "2")]
    pub retryable: String,
    #[prost(string, tag = "3")]
    pub abort: String,
    #[prost(message, optional, tag = "4")]
    pub conflict: Option<WriteConflict>,
    #[prost(message, optional, tag = "5")]
    pub already_exist: Option<AlreadyExist>,
    #[prost(message, optional, tag = "6")]
    pub deadlock: Option<Deadlock>,
    #[prost(message, optional, tag = "7")]
    pub commit_ts_expired: Option<CommitTsExpired>,
    #[prost(message, optional, tag = "8")]
    pub txn_not_found: Option<TxnNotFound>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LockInfo {
    #[prost(bytes = "vec", tag = "1")]
    pub primary_lock: Vec<u8>,
    /// The start timestamp of whoever holds it.
    #[prost(uint64, tag = "2")]
    pub lock_version: u64,
    #[prost(bytes = "vec", tag = "3")]
    pub key: Vec<u8>,
    #[prost(uint64, tag = "4")]
    pub lock_ttl: u64,
    #[prost(uint64, tag = "5")]
    pub txn_size: u64,
    #[prost(enumeration = "Op", tag = "6")]
    pub lock_type: i32,
    #[prost(uint64, tag = "7")]
    pub lock_for_update_ts: u64,
    #[prost(bool, tag = "8")]
    pub use_async_commit: bool,
    #[prost(uint64, tag = "9")]
    pub min_commit_ts: u64,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct WriteConflict {
    #[prost(uint64, tag = "1")]
    pub start_ts: u64,
    #[prost(uint64, tag = "2")]
    pub conflict_ts: u64,
    #[prost(bytes = "vec", tag = "3")]
    pub key: Vec<u8>,
    #[prost(uint64, tag = "5")]
    pub conflict_commit_ts: u64,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AlreadyExist {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Deadlock {
    #[prost(uint64, tag = "1")]
    pub lock_ts: u64,
    #[prost(bytes = "vec", tag = "2")]
    pub lock_key: Vec<u8>,
    #[prost(uint64, tag = "3")]
    pub deadlock_key_hash: u64,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CommitTsExpired {
    #[prost(uint64, tag = "1")]
    pub start_ts: u64,
    #[prost(uint64, tag = "2")]
    pub attempted_commit_ts: u64,
    #[prost(bytes = "vec", tag = "3")]
    pub key: Vec<u8>,
    #[prost(uint64, tag = "4")]
    pub min_commit_ts: u64,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TxnNotFound {
    #[prost(uint64, tag = "1")]
    pub start_ts: u64,
    #[prost(bytes = "vec", tag = "2")]
    pub primary_key: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Op {
    Put = 0,
    Del = 1,
    Lock = 2,
    Rollback = 3,
    Insert = 4,
    PessimisticLock = 5,
    CheckNotExists = 6,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Assertion {
    None = 0,
    Exist = 1,
    NotExist = 2,
}

/// What is done with a key of a pessimistic transaction before it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum PessimisticAction {
    /// Nobody else writes it: it needs no lock.
    SkipPessimisticCheck = 0,
    /// Its lock has to be there.
    DoPessimisticCheck = 1,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Action {
    NoAction = 0,
    TtlExpireRollback = 1,
    LockNotExistRollback = 2,
    MinCommitTsPushed = 3,
    TtlExpirePessimisticRollback = 4,
    LockNotExistDoNothing = 5,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Mutation {
    #[prost(enumeration = "Op", tag = "1")]
    pub op: i32,
    #[prost(bytes = "vec", tag = "2")]
    pub key: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    pub value: Vec<u8>,
    #[prost(enumeration = "Assertion", tag = "4")]
    pub assertion: i32,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct KvPair {
    #[prost(message, optional, tag = "1")]
    pub error: Option<KeyError>,
    #[prost(bytes = "vec", tag = "2")]
    pub key: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    pub value: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetRequest {
    #[prost(message, optional, tag = "1")]
    pub context: Option<Context>,
    #[prost(bytes = "vec", tag = "2")]
    pub key: Vec<u8>,
    #[prost(uint64, tag = "3")]
    pub version: u64,
}

/// An empty value is none.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetResponse {
    #[prost(message, optional, tag = "1")]
    pub region_error: Option<RegionError>,
    #[prost(message, optional, tag = "2")]
    pub error: Option<KeyError>,
    #[prost(bytes = "vec", tag = "3")]
    pub value: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct BatchGetRequest {
    #[prost(message, optional, tag = "1")]
    pub context: Option<Context>,
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub keys: Vec<Vec<u8>>,
    #[prost(uint64, tag = "3")]
    pub version: u64,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct BatchGetResponse {
    #[prost(message, optional, tag = "1")]
    pub region_error: Option<RegionError>,
    #[prost(message, repeated, tag = "2")]
    pub pairs: Vec<KvPair>,
    #[prost(message, optional, tag = "5")]
    pub error: Option<KeyError>,
}

/// Of one region: whoever has got fewer than the limit has seen its end.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ScanRequest {
    #[prost(message, optional, tag = "1")]
    pub context: Option<Context>,
    #[prost(bytes = "vec", tag = "2")]
    pub start_key: Vec<u8>,
    #[prost(uint32, tag = "3")]
    pub limit: u32,
    #[prost(uint64, tag = "4")]
    pub version: u64,
    #[prost(bool, tag = "5")]
    pub key_only: bool,
    #[prost(bytes = "vec", tag = "7")]
    pub end_key: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ScanResponse {
    #[prost(message, optional, tag = "1")]
    pub region_error: Option<RegionError>,
    #[prost(message, repeated, tag = "2")]
    pub pairs: Vec<KvPair>,
    #[prost(message, optional, tag = "3")]
    pub error: Option<KeyError>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PessimisticLockRequest {
    #[prost(message, optional, tag = "1")]
    pub context: Option<Context>,
    #[prost(message, repeated, tag = "2")]
    pub mutations: Vec<Mutation>,
    #[prost(bytes = "vec", tag = "3")]
    pub primary_lock: Vec<u8>,
    #[prost(uint64, tag = "4")]
    pub start_version: u64,
    #[prost(uint64, tag = "5")]
    pub lock_ttl: u64,
    #[prost(uint64, tag = "6")]
    pub for_update_ts: u64,
    #[prost(bool, tag = "7")]
    pub is_first_lock: bool,
    /// In milliseconds; -1: not at all.
    #[prost(int64, tag = "8")]
    pub wait_timeout: i64,
    #[prost(bool, tag = "10")]
    pub return_values: bool,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PessimisticLockResponse {
    #[prost(message, optional, tag = "1")]
    pub region_error: Option<RegionError>,
    #[prost(message, repeated, tag = "2")]
    pub errors: Vec<KeyError>,
    /// One for each mutation, in order.
    #[prost(bytes = "vec", repeated, tag = "5")]
    pub values: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PessimisticRollbackRequest {
    #[prost(message, optional, tag = "1")]
    pub context: Option<Context>,
    #[prost(uint64, tag = "2")]
    pub start_version: u64,
    #[prost(uint64, tag = "3")]
    pub for_update_ts: u64,
    #[prost(bytes = "vec", repeated, tag = "4")]
    pub keys: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PessimisticRollbackResponse {
    #[prost(message, optional, tag = "1")]
    pub region_error: Option<RegionError>,
    #[prost(message, repeated, tag = "2")]
    pub errors: Vec<KeyError>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PrewriteRequest {
    #[prost(message, optional, tag = "1")]
    pub context: Option<Context>,
    #[prost(message, repeated, tag = "2")]
    pub mutations: Vec<Mutation>,
    #[prost(bytes = "vec", tag = "3")]
    pub primary_lock: Vec<u8>,
    #[prost(uint64, tag = "4")]
    pub start_version: u64,
    #[prost(uint64, tag = "5")]
    pub lock_ttl: u64,
    #[prost(enumeration = "PessimisticAction", repeated, tag = "7")]
    pub pessimistic_actions: Vec<i32>,
    #[prost(uint64, tag = "8")]
    pub txn_size: u64,
    /// 0 of an optimistic transaction.
    #[prost(uint64, tag = "9")]
    pub for_update_ts: u64,
    #[prost(uint64, tag = "10")]
    pub min_commit_ts: u64,
    #[prost(bool, tag = "13")]
    pub try_one_pc: bool,
    #[prost(uint64, tag = "14")]
    pub max_commit_ts: u64,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PrewriteResponse {
    #[prost(message, optional, tag = "1")]
    pub region_error: Option<RegionError>,
    #[prost(message, repeated, tag = "2")]
    pub errors: Vec<KeyError>,
    #[prost(uint64, tag = "3")]
    pub min_commit_ts: u64,
    /// When it was committed in one phase; 0: it was only prewritten.
    #[prost(uint64, tag = "4")]
    pub one_pc_commit_ts: u64,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CommitRequest {
    #[prost(message, optional, tag = "1")]
    pub context: Option<Context>,
    #[prost(uint64, tag = "2")]
    pub start_version: u64,
    #[prost(bytes = "vec", repeated, tag = "3")]
    pub keys: Vec<Vec<u8>>,
    #[prost(uint64, tag = "4")]
    pub commit_version: u64,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CommitResponse {
    #[prost(message, optional, tag = "1")]
    pub region_error: Option<RegionError>,
    #[prost(message, optional, tag = "2")]
    pub error: Option<KeyError>,
    #[prost(uint64, tag = "3")]
    pub commit_version: u64,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct BatchRollbackRequest {
    #[prost(message, optional, tag = "1")]
    pub context: Option<Context>,
    #[prost(uint64, tag = "2")]
    pub start_version: u64,
    #[prost(bytes = "vec", repeated, tag = "3")]
    pub keys: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct BatchRollbackResponse {
    #[prost(message, optional, tag = "1")]
    pub region_error: Option<RegionError>,
    #[prost(message, optional, tag = "2")]
    pub error: Option<KeyError>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TxnHeartBeatRequest {
    #[prost(message, optional, tag = "1")]
    pub context: Option<Context>,
    #[prost(bytes = "vec", tag = "2")]
    pub primary_lock: Vec<u8>,
    #[prost(uint64, tag = "3")]
    pub start_version: u64,
    /// In milliseconds from the transaction's start.
    #[prost(uint64, tag = "4")]
    pub advise_lock_ttl: u64,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TxnHeartBeatResponse {
    #[prost(message, optional, tag = "1")]
    pub region_error: Option<RegionError>,
    #[prost(message, optional, tag = "2")]
    pub error: Option<KeyError>,
    #[prost(uint64, tag = "3")]
    pub lock_ttl: u64,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CheckTxnStatusRequest {
    #[prost(message, optional, tag = "1")]
    pub context: Option<Context>,
    #[prost(bytes = "vec", tag = "2")]
    pub primary_key: Vec<u8>,
    #[prost(uint64, tag = "3")]
    pub lock_ts: u64,
    #[prost(uint64, tag = "4")]
    pub caller_start_ts: u64,
    #[prost(uint64, tag = "5")]
    pub current_ts: u64,
    #[prost(bool, tag = "6")]
    pub rollback_if_not_exist: bool,
    #[prost(bool, tag = "8")]
    pub resolving_pessimistic_lock: bool,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CheckTxnStatusResponse {
    #[prost(message, optional, tag = "1")]
    pub region_error: Option<RegionError>,
    #[prost(message, optional, tag = "2")]
    pub error: Option<KeyError>,
    /// Not 0: it is locked.
    #[prost(uint64, tag = "3")]
    pub lock_ttl: u64,
    /// Not 0: it is committed.
    #[prost(uint64, tag = "4")]
    pub commit_version: u64,
    #[prost(enumeration = "Action", tag = "5")]
    pub action: i32,
    #[prost(message, optional, tag = "6")]
    pub lock_info: Option<LockInfo>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ResolveLockRequest {
    #[prost(message, optional, tag = "1")]
    pub context: Option<Context>,
    #[prost(uint64, tag = "2")]
    pub start_version: u64,
    /// 0: they are rolled back.
    #[prost(uint64, tag = "3")]
    pub commit_version: u64,
    /// None: all in the region.
    #[prost(bytes = "vec", repeated, tag = "5")]
    pub keys: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ResolveLockResponse {
    #[prost(message, optional, tag = "1")]
    pub region_error: Option<RegionError>,
    #[prost(message, optional, tag = "2")]
    pub error: Option<KeyError>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ScanLockRequest {
    #[prost(message, optional, tag = "1")]
    pub context: Option<Context>,
    #[prost(uint64, tag = "2")]
    pub max_version: u64,
    #[prost(bytes = "vec", tag = "3")]
    pub start_key: Vec<u8>,
    #[prost(uint32, tag = "4")]
    pub limit: u32,
    #[prost(bytes = "vec", tag = "5")]
    pub end_key: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ScanLockResponse {
    #[prost(message, optional, tag = "1")]
    pub region_error: Option<RegionError>,
    #[prost(message, optional, tag = "2")]
    pub error: Option<KeyError>,
    #[prost(message, repeated, tag = "3")]
    pub locks: Vec<LockInfo>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SplitRegionRequest {
    #[prost(message, optional, tag = "1")]
    pub context: Option<Context>,
    #[prost(bytes = "vec", repeated, tag = "3")]
    pub split_keys: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SplitRegionResponse {
    #[prost(message, optional, tag = "1")]
    pub region_error: Option<RegionError>,
    #[prost(message, repeated, tag = "4")]
    pub regions: Vec<Region>,
}
