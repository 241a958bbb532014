//! How stores and the placement driver are reached: a trait, so that a test can stand in for all of them.
//!
//! ```text
//!   client ──▶ Network ──▶ placement driver   timestamps, where keys are, leases
//!                    └───▶ stores             one request of one region each
//! ```
//! Keys are given and answered as they are; whatever encoding others want of them is the network's affair.

pub mod grpc;
mod sizes;

use std::time::Duration;

use async_trait::async_trait;

use crate::wire::kv;

/// Nothing was answered: what was asked may have been done, or not.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{whom} cannot be reached: {why}")]
pub struct Unreachable {
    /// A store or the placement driver, by its address.
    pub whom: String,
    /// What happened.
    pub why: String,
}

/// A region, and who leads it as far as that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// With keys as they are; an empty end is none.
    pub region: kv::Region,
    /// Whom to ask.
    pub leader: Option<kv::Peer>,
}

/// How much a region has, as the placement driver was told some time ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionSize {
    /// Its number.
    pub region: u64,
    /// Bytes.
    pub bytes: u64,
    /// Keys, old versions among them.
    pub keys: u64,
}

/// What is said under a lease: it goes when the lease is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// By whom.
    pub key: Vec<u8>,
    /// What.
    pub value: Vec<u8>,
}

macro_rules! requests {
    ($($name:ident: $request:ident -> $response:ident, $path:literal;)*) => {
        /// What a store is asked.
        #[allow(missing_docs, reason = "as kvproto calls them")]
        #[derive(Clone, Debug, PartialEq)]
        pub enum Request { $($name(kv::$request),)* }

        /// What it answers.
        #[allow(missing_docs, reason = "as kvproto calls them")]
        #[derive(Clone, Debug, PartialEq)]
        pub enum Response { $($name(kv::$response),)* }

        $(impl Ask for kv::$request {
            type Answer = kv::$response;

            fn place_at(&mut self, context: kv::Context) {
                self.context = Some(context);
            }

            fn wrapped(&self) -> Request {
                Request::$name(self.clone())
            }

            fn answer_of(response: Response) -> Option<kv::$response> {
                match response {
                    Response::$name(answer) => Some(answer),
                    _ => None,
                }
            }
        }

        impl Answer for kv::$response {
            fn take_region_error(&mut self) -> Option<kv::RegionError> {
                self.region_error.take()
            }
        })*

        impl Request {
            /// The name of its call, behind `/tikvpb.Tikv/`.
            pub fn method(&self) -> &'static str {
                match self { $(Request::$name(_) => $path,)* }
            }

            /// The region that it is for.
            pub fn context(&self) -> Option<&kv::Context> {
                match self { $(Request::$name(request) => request.context.as_ref(),)* }
            }
        }
    };
}

/// A request of one region.
pub trait Ask: Clone + Send + Sync + 'static {
    /// What is answered.
    type Answer: Answer;
    /// Says for which region it is.
    fn place_at(&mut self, context: kv::Context);
    /// As one of all.
    fn wrapped(&self) -> Request;
    /// Its answer, of one of all.
    fn answer_of(response: Response) -> Option<Self::Answer>;
}

/// What a region answers.
pub trait Answer: Send + 'static {
    /// Why it has not.
    fn take_region_error(&mut self) -> Option<kv::RegionError>;
}

requests! {
    Get: GetRequest -> GetResponse, "KvGet";
    BatchGet: BatchGetRequest -> BatchGetResponse, "KvBatchGet";
    Scan: ScanRequest -> ScanResponse, "KvScan";
    PessimisticLock: PessimisticLockRequest -> PessimisticLockResponse, "KvPessimisticLock";
    PessimisticRollback: PessimisticRollbackRequest -> PessimisticRollbackResponse, "KVPessimisticRollback";
    Prewrite: PrewriteRequest -> PrewriteResponse, "KvPrewrite";
    Commit: CommitRequest -> CommitResponse, "KvCommit";
    BatchRollback: BatchRollbackRequest -> BatchRollbackResponse, "KvBatchRollback";
    TxnHeartBeat: TxnHeartBeatRequest -> TxnHeartBeatResponse, "KvTxnHeartBeat";
    CheckTxnStatus: CheckTxnStatusRequest -> CheckTxnStatusResponse, "KvCheckTxnStatus";
    ResolveLock: ResolveLockRequest -> ResolveLockResponse, "KvResolveLock";
    ScanLock: ScanLockRequest -> ScanLockResponse, "KvScanLock";
    SplitRegion: SplitRegionRequest -> SplitRegionResponse, "SplitRegion";
}

/// See the module.
#[async_trait]
pub trait Network: Send + Sync + 'static {
    /// Asks a store.
    async fn ask(&self, store: u64, request: Request) -> Result<Response, Unreachable>;
    /// As many timestamps of the oracle as are asked for: the last of them, above all that anybody was given before.
    async fn timestamps(&self, count: u32) -> Result<u64, Unreachable>;
    /// Time by a clock of this machine, since some moment: it goes on while the process stands still.
    fn clock(&self) -> Duration;
    /// The region of a key.
    async fn place_of(&self, key: &[u8]) -> Result<Place, Unreachable>;
    /// The sizes of regions from a key on up to another, of those that are known.
    async fn sizes(&self, _start: &[u8], _end: &[u8]) -> Result<Vec<RegionSize>, Unreachable> {
        Ok(Vec::new())
    }
    /// Where a store was known to be may be wrong: it is asked for again before the next request.
    fn forget_store(&self, store: u64);

    /// A lease for so many seconds, which the placement driver counts.
    async fn grant_lease(&self, seconds: u32) -> Result<i64, Unreachable>;
    /// A lease begins anew; false if it is over.
    async fn keep_lease(&self, lease: i64) -> Result<bool, Unreachable>;
    /// A lease is over.
    async fn end_lease(&self, lease: i64) -> Result<(), Unreachable>;
    /// Says something for as long as a lease lasts; false if it is over.
    async fn say(&self, lease: i64, key: &[u8], value: &[u8]) -> Result<bool, Unreachable>;
    /// All that is said by those whose keys begin so.
    async fn said(&self, prefix: &[u8]) -> Result<Vec<Said>, Unreachable>;

    /// Keeps what can be read at a timestamp and later, for so many seconds (`u32::MAX`: for ever), in the name of
    /// somebody; the oldest timestamp that anybody keeps. If that is later than what was asked for, nothing was done.
    async fn keep_since(&self, who: &str, ts: u64, seconds: u32) -> Result<u64, Unreachable>;
    /// What nobody reads at a timestamp or later may go.
    async fn collect_before(&self, ts: u64) -> Result<(), Unreachable>;
}
