//! Reads at a timestamp: one key, some keys, a range, and the locks of a range.
//!
//! ```text
//!   record ─┬─ a lock that may be committed before the timestamp ──▶ the error of this key
//!           └─ else the newest put at or before it, if nothing has deleted it since
//! ```
//! A locked key is an error of its pair, which counts for the limit and has no key of its own, as TiKV has it; the
//! others are answered.

use froglet_cluster::wire::kv;

use super::errors;
use super::record::{Record, Records};

fn resolved(context: Option<&kv::Context>) -> &[u64] {
    context.map_or(&[], |context| context.resolved_locks.as_slice())
}

fn pair(
    key: &[u8],
    record: &Record,
    version: u64,
    context: Option<&kv::Context>,
) -> Option<kv::KvPair> {
    match record.read(key, version, resolved(context)) {
        Ok(value) => {
            let value = value?.to_vec();
            Some(kv::KvPair { error: None, key: key.to_vec(), value })
        }
        Err(lock) => {
            let error = Some(*errors::locked_by(key, lock));
            Some(kv::KvPair { error, ..kv::KvPair::default() })
        }
    }
}

pub(super) fn get(records: &Records, request: &kv::GetRequest) -> kv::GetResponse {
    let (key, version) = (&request.key, request.version);
    let mut answer = kv::GetResponse::default();
    match records.of(key).read(key, version, resolved(request.context.as_ref())) {
        Ok(value) => answer.value = value.unwrap_or_default().to_vec(),
        Err(lock) => answer.error = Some(*errors::locked_by(key, lock)),
    }
    answer
}

pub(super) fn batch_get(records: &Records, request: &kv::BatchGetRequest) -> kv::BatchGetResponse {
    let (version, context) = (request.version, request.context.as_ref());
    let pairs = request.keys.iter().filter_map(|key| pair(key, records.of(key), version, context));
    kv::BatchGetResponse { pairs: pairs.collect(), ..kv::BatchGetResponse::default() }
}

/// The part of a range that is in a region; an empty end is none.
fn clipped<'a>(range: (&'a [u8], &'a [u8]), region: (&'a [u8], &'a [u8])) -> (&'a [u8], &'a [u8]) {
    let end = match (range.1.is_empty(), region.1.is_empty()) {
        (true, _) => region.1,
        (false, true) => range.1,
        (false, false) => range.1.min(region.1),
    };
    (range.0.max(region.0), end)
}

pub(super) fn scan(
    records: &Records,
    request: &kv::ScanRequest,
    region: (&[u8], &[u8]),
) -> kv::ScanResponse {
    let (start, end) = clipped((&request.start_key, &request.end_key), region);
    let (version, context) = (request.version, request.context.as_ref());
    let pairs = records.range(start, end);
    let pairs = pairs.filter_map(|(key, record)| pair(key, record, version, context));
    let mut pairs: Vec<_> = pairs.take(request.limit as usize).collect();
    if request.key_only {
        pairs.iter_mut().for_each(|pair| pair.value.clear());
    }
    kv::ScanResponse { pairs, ..kv::ScanResponse::default() }
}

/// As the worst of its kind answer (unistore): not what kind of locks these are.
pub(super) fn scan_lock(
    records: &Records,
    request: &kv::ScanLockRequest,
    region: (&[u8], &[u8]),
) -> kv::ScanLockResponse {
    let (start, end) = clipped((&request.start_key, &request.end_key), region);
    let limit = if request.limit == 0 { usize::MAX } else { request.limit as usize };
    let locks = records.range(start, end).filter_map(|(key, record)| {
        let lock = record.lock.as_ref()?;
        let told = kv::LockInfo { lock_type: 0, ..lock.info(key) };
        (lock.start_ts <= request.max_version).then_some(told)
    });
    kv::ScanLockResponse { locks: locks.take(limit).collect(), ..kv::ScanLockResponse::default() }
}
