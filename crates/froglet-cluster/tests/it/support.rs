//! What the tests of the client have in common: gateways, and transactions in a few words.

use std::sync::Arc;
use std::time::Duration;

use froglet_cluster::client::{
    Client, LOCK_TTL, Locking, Mutation, PendingCommit, StoreError, WriteSet,
};
use froglet_testkit::ranges::{Gateway, Ranges};

/// Longer than what goes wrong in a test lasts.
pub const PATIENCE: Duration = Duration::from_secs(8);
/// Longer than a test lasts.
pub const HISTORY: Duration = Duration::from_secs(300);
/// Who waits for a lock in these tests has it sooner, or never.
pub const WAIT: Duration = Duration::from_secs(3);

/// A gateway, and its way to the stores.
pub fn gateway(ranges: &Arc<Ranges>, name: &str) -> (Arc<Gateway>, Arc<Client>) {
    let network = ranges.network(name);
    let client = Client::new(network.clone(), PATIENCE);
    (network, client)
}

/// So much later nobody believes that a lock of now is somebody's. Real time has passed, too, and counts in a lock's
/// own: hence some seconds more.
pub fn outlive_locks(ranges: &Ranges) {
    let ttl_ms = u64::try_from(LOCK_TTL.as_millis()).expect("a lock lives for seconds");
    ranges.advance(ttl_ms + 30_000);
}

pub fn put(key: &[u8], value: &str) -> Mutation {
    Mutation { key: key.to_vec(), value: Some(value.as_bytes().to_vec()) }
}

pub fn locking(key: &[u8]) -> Locking {
    Locking { key: key.to_vec(), is_new: false }
}

pub async fn now(client: &Client) -> u64 {
    client.timestamp().await.expect("the oracle answers")
}

pub async fn begin(client: &Arc<Client>) -> Arc<WriteSet> {
    Arc::new(WriteSet::new(Arc::clone(client), now(client).await))
}

/// Locks a key as of the start, as an engine does that derives what it writes from what it has read.
pub async fn lock(
    set: &WriteSet,
    key: &[u8],
    wait: Duration,
) -> Result<Option<Vec<u8>>, StoreError> {
    loop {
        match set.lock(&[locking(key)], set.start_ts, wait).await {
            Ok(mut values) => return Ok(values.pop().expect("as many values as keys")),
            // A store wakes whoever has waited with a conflict, even if what was in the way is older than he is, or was
            // rolled back: he looks again.
            Err(StoreError::Conflict { commit_ts, .. }) if commit_ts <= set.start_ts => {}
            Err(error) => return Err(error),
        }
    }
}

/// Keys that are locked, the first as the primary, and prewritten with one value.
pub async fn prewritten(
    client: &Arc<Client>,
    keys: &[&[u8]],
    value: &str,
    is_pushed: bool,
) -> PendingCommit {
    let set = begin(client).await;
    for key in keys {
        lock(&set, key, WAIT).await.expect("nobody is in the way");
    }
    let mutations = keys.iter().map(|key| put(key, value)).collect();
    set.prewrite(mutations, is_pushed).await.expect("nobody is in the way")
}

/// A transaction that writes some keys; when it was committed.
pub async fn write(client: &Arc<Client>, keys: &[&[u8]], value: &str) -> u64 {
    let pending = prewritten(client, keys, value, false).await;
    pending.commit().await.expect("nobody is in the way")
}

/// What a key is to whoever reads at a timestamp.
pub async fn read(client: &Client, key: &[u8], ts: u64) -> Option<String> {
    let value = client.get(key, ts).await.expect("the store answers in time");
    value.map(|value| String::from_utf8(value).expect("tests write texts"))
}
