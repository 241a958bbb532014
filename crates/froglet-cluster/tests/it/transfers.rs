//! Money moves between keys by several gateways, while requests are lost and late, regions split, leaders move, a store
//! stops, and time leaps over what locks live.
//!
//! ```text
//!   transfer   begin ▶ lock both accounts ▶ prewrite ▶ commit ─┬─ told that it is ─────────▶ its receipt is there
//!                │ a receipt under its start, which is unique  ├─ told that it is not ─────▶ there is none
//!                │                                             └─ told nothing for certain: either
//!   reader     any timestamp since the beginning: all accounts together have what they had
//! ```
//! The receipts say what the total cannot: a transfer that is done twice, or half of which is undone with the other half,
//! leaves the total as it was. So all accounts are computed once more from the receipts, each of which says what was moved
//! from where to where.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use froglet_cluster::client::{Client, Locking, Mutation, StoreError, WriteSet};
use froglet_testkit::ranges::{Faults, Ranges};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::support::{self, PATIENCE, begin, locking, now, outlive_locks, put};

const ACCOUNTS: u64 = 12;
/// More than a gateway moves out of one account: none is ever overdrawn.
const EACH: i64 = 10_000;
const GATEWAYS: u64 = 3;
const TRANSFERS: usize = 600;
/// Requests come as late as this, at most.
const LATE_BY: Duration = Duration::from_millis(60);

fn account(n: u64) -> Vec<u8> {
    format!("t/account/{n:04}").into_bytes()
}

fn receipt(start_ts: u64) -> Vec<u8> {
    format!("t/receipt/{start_ts:020}").into_bytes()
}

fn number(value: &[u8]) -> i64 {
    let text = std::str::from_utf8(value).expect("money is written in digits");
    text.parse().expect("money is written in digits")
}

/// What a gateway was told of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Done,
    Failed,
    Nothing,
}

/// By the start timestamps of transfers.
type Tales = BTreeMap<u64, Told>;

/// What an error of a commit says: the network's leave it in doubt.
fn meaning(error: &StoreError) -> Told {
    match error {
        StoreError::Conflict { .. } | StoreError::Lost(_) => Told::Failed,
        StoreError::Protocol(why) => panic!("the store and the client do not agree: {why}"),
        _ => Told::Nothing,
    }
}

/// Moves an amount; its start, and what was told of it. None: it has not begun.
async fn transfer(client: &Arc<Client>, from: u64, to: u64, amount: i64) -> Option<(u64, Told)> {
    let ts = client.timestamp().await.ok()?;
    let set = Arc::new(WriteSet::new(Arc::clone(client), ts));
    // The receipt, too, though nobody else writes it: a key that is prewritten without a lock is locked once more by a
    // prewrite that comes when all is committed, and committed once more by whoever meets that. It would be right in the
    // end, but the stores of these tests insist on one commit of a key at one timestamp.
    let mut locks = [from, to].map(|n| locking(&account(n))).to_vec();
    locks.push(Locking { key: receipt(ts), is_new: true });
    let held = match set.lock(&locks, ts, Duration::from_millis(300)).await {
        Ok(held) => held,
        Err(error) => {
            assert!(!matches!(error, StoreError::Protocol(_)), "{error}");
            set.roll_back().await;
            return Some((ts, Told::Failed));
        }
    };
    let has = |n: usize| number(held[n].as_deref().expect("nobody closes an account"));
    let mutations = vec![
        put(&account(from), &(has(0) - amount).to_string()),
        put(&account(to), &(has(1) + amount).to_string()),
        put(&receipt(ts), &format!("{from} {to} {amount}")),
    ];
    // Nothing was committed of what is not even prewritten, whatever the reason.
    let Ok(pending) = set.prewrite(mutations, ts % 3 > 0).await else {
        return Some((ts, Told::Failed));
    };
    let told = pending.commit().await.map_or_else(|error| meaning(&error), |_| Told::Done);
    Some((ts, told))
}

/// What one gateway does.
async fn transfers(client: Arc<Client>, seed: u64) -> Tales {
    let (mut random, mut tales) = (StdRng::seed_from_u64(seed), Tales::new());
    for _ in 0..TRANSFERS {
        let from = random.random_range(0..ACCOUNTS);
        let to = (from + random.random_range(1..ACCOUNTS)) % ACCOUNTS;
        let amount = random.random_range(1..10);
        tales.extend(transfer(&client, from, to, amount).await);
    }
    tales
}

/// All pairs of a range, a few with each request.
async fn range(
    client: &Client,
    start: &[u8],
    end: &[u8],
    ts: u64,
) -> Result<Vec<(Vec<u8>, Vec<u8>)>, StoreError> {
    let (mut pairs, mut next) = (Vec::new(), Some(start.to_vec()));
    while let Some(from) = next {
        let page = client.scan(&from, end, 5, ts).await?;
        pairs.extend(page.pairs);
        next = page.next;
    }
    Ok(pairs)
}

async fn accounts(client: &Client, ts: u64) -> Result<Vec<(Vec<u8>, Vec<u8>)>, StoreError> {
    range(client, b"t/account/", b"t/account0", ts).await
}

/// Reads all accounts in both ways, at timestamps that may be long gone; how often.
async fn read_on(client: Arc<Client>, since: u64, seed: u64, going: Arc<AtomicBool>) -> usize {
    let (mut random, mut reads) = (StdRng::seed_from_u64(seed), 0);
    while going.load(Ordering::SeqCst) {
        tokio::time::sleep(Duration::from_millis(2)).await;
        let Ok(newest) = client.timestamp().await else { continue };
        let ts = if random.random_bool(0.5) { newest } else { random.random_range(since..=newest) };
        let Ok(scanned) = accounts(&client, ts).await else { continue };
        let total: i64 = scanned.iter().map(|(_, value)| number(value)).sum();
        assert_eq!(total, EACH * ACCOUNTS as i64, "a scan at {ts} sees all the money");
        let Ok(mut got) = client.get_all((0..ACCOUNTS).map(account).collect(), ts).await else {
            continue;
        };
        got.sort_unstable();
        assert_eq!(got, scanned, "at {ts} keys are the same however they are read");
        reads += 1;
    }
    reads
}

/// What goes on around them.
async fn disturb(ranges: Arc<Ranges>, seed: u64, going: Arc<AtomicBool>) {
    let mut random = StdRng::seed_from_u64(seed);
    while going.load(Ordering::SeqCst) {
        let key = account(random.random_range(0..ACCOUNTS));
        match random.random_range(0..12) {
            0..=2 => ranges.split_at(&key),
            3..=7 => ranges.move_leader(&key, random.random_range(1..=2)),
            8..=9 => {
                ranges.stop_store(3, random.random_bool(0.7));
                tokio::time::sleep(Duration::from_millis(20)).await;
                ranges.start_store(3);
            }
            10 => ranges.move_leader(&key, 3),
            // Sometimes more than a lock lives: whoever is under way is given up by others.
            _ => ranges.advance(random.random_range(1_000..15_000)),
        }
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
}

fn unreliable(ranges: &Arc<Ranges>, name: &str, seed: u64) -> Arc<Client> {
    let network = ranges.network(name);
    network.set_faults(Faults {
        seed,
        lose_request: 0.01,
        lose_answer: 0.01,
        late: 0.01,
        late_by: LATE_BY,
    });
    Client::new(network, PATIENCE)
}

/// Opens the accounts; when.
async fn open_accounts(client: &Arc<Client>) -> u64 {
    let set = begin(client).await;
    let opened: Vec<Mutation> =
        (0..ACCOUNTS).map(|n| put(&account(n), &EACH.to_string())).collect();
    let pending = set.prewrite(opened, false).await.expect("nobody is in the way");
    pending.commit().await.expect("nobody is in the way")
}

/// Lets all of them run until the gateways are done; what these were told.
async fn run(ranges: &Arc<Ranges>, since: u64, seed: u64) -> Tales {
    let going = Arc::new(AtomicBool::new(true));
    let disturbing = tokio::spawn(disturb(Arc::clone(ranges), seed, Arc::clone(&going)));
    let reading: Vec<_> = (0..2)
        .map(|n| {
            let client = unreliable(ranges, &format!("reader {n}"), seed ^ (n << 20));
            tokio::spawn(read_on(client, since, seed + n, Arc::clone(&going)))
        })
        .collect();
    let moving: Vec<_> = (0..GATEWAYS)
        .map(|n| {
            let client = unreliable(ranges, &format!("gateway {n}"), seed ^ (n << 30));
            tokio::spawn(transfers(client, seed * GATEWAYS + n))
        })
        .collect();
    let mut tales = Tales::new();
    for gateway in moving {
        tales.extend(gateway.await.expect("a gateway finds nothing wrong"));
    }
    going.store(false, Ordering::SeqCst);
    disturbing.await.expect("it ends");
    for reader in reading {
        let reads = reader.await.expect("a reader finds nothing wrong");
        assert!(reads > 10, "a reader has read {reads} times only");
    }
    tales
}

/// Each receipt against what was told of its transfer; what accounts have if the receipts are right.
fn check_receipts(receipts: &BTreeMap<Vec<u8>, Vec<u8>>, tales: &Tales) -> Vec<i64> {
    for (start_ts, told) in tales {
        match (told, receipts.contains_key(&receipt(*start_ts))) {
            (Told::Done, false) => panic!("{start_ts} was said to be committed, and is not"),
            (Told::Failed, true) => panic!("{start_ts} was said to have failed, and is committed"),
            (Told::Done | Told::Nothing, true) | (Told::Failed | Told::Nothing, false) => {}
        }
    }
    let mut has = vec![EACH; usize::try_from(ACCOUNTS).expect("a dozen")];
    for (key, value) in receipts {
        assert!(tales.keys().any(|ts| receipt(*ts) == *key), "a receipt of nobody's: {key:?}");
        let text = std::str::from_utf8(value).expect("receipts are text");
        let moved: Vec<i64> =
            text.split(' ').map(|n| n.parse().expect("receipts have numbers")).collect();
        let at = |n: usize| usize::try_from(moved[n]).expect("an account's number");
        has[at(0)] -= moved[2];
        has[at(1)] += moved[2];
    }
    has
}

async fn check(seed: u64) {
    let ranges = Ranges::new(3);
    ranges.let_clock_run();
    let (_, calm) = support::gateway(&ranges, "calm");
    let since = open_accounts(&calm).await;
    let tales = run(&ranges, since, seed).await;

    // The latest of the late ones are still on their way, and may lock what nobody holds any more.
    tokio::time::sleep(2 * LATE_BY).await;
    outlive_locks(&ranges);
    calm.settle_range(b"t", b"u", now(&calm).await).await.expect("nobody lives so long");
    assert_eq!(ranges.locks(), [], "no lock outlives its time");

    let ts = now(&calm).await;
    let receipts = range(&calm, b"t/receipt/", b"t/receipt0", ts).await.expect("all is calm");
    let should = check_receipts(&receipts.into_iter().collect(), &tales);
    let has = accounts(&calm, ts).await.expect("all is calm");
    let has: Vec<i64> = has.iter().map(|(_, value)| number(value)).collect();
    assert_eq!(has, should, "each receipt was moved once");
    let done = tales.values().filter(|told| **told == Told::Done).count();
    assert!(done > TRANSFERS, "only {done} transfers of {} were done", tales.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_done_twice_with_seed_1() {
    check(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_done_twice_with_seed_20() {
    check(20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_done_twice_with_seed_300() {
    check(300).await;
}
