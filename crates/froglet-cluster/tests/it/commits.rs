//! One thing that goes wrong each: who dies, whose answer is lost, who is in whose way.
//!
//! The stores' clock stands still unless a test moves it: a lock's time is over when the test says so, and not before.

use std::sync::Arc;
use std::time::Duration;

use froglet_cluster::client::{Client, Locking, StoreError};
use froglet_testkit::ranges::{Fault, Ranges};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::support::{
    WAIT, begin, gateway, lock, now, outlive_locks, prewritten, put, read, write,
};

const A: &[u8] = b"t/a";
const B: &[u8] = b"t/b";

/// Whoever has not gone on in this time waits.
const MOMENT: Duration = Duration::from_millis(80);
/// Whoever goes on has done so by then, on a busy machine, too.
const SOON: Duration = Duration::from_secs(5);

/// Two keys in two regions, led by two stores, with a value each.
async fn two_keys(ranges: &Arc<Ranges>) -> Arc<Client> {
    ranges.split_at(B);
    ranges.move_leader(B, 2);
    let (_, client) = gateway(ranges, "first");
    write(&client, &[A, B], "old").await;
    settled(ranges).await;
    client
}

/// Waits for what a commit does behind its caller's back.
async fn settled(ranges: &Ranges) {
    let until = Instant::now() + SOON;
    while !ranges.locks().is_empty() {
        assert!(Instant::now() < until, "nobody unlocks {:?}", ranges.locks());
        sleep(Duration::from_millis(1)).await;
    }
}

/// A read that goes on beside the test.
fn reading(client: &Arc<Client>, key: &'static [u8], ts: u64) -> JoinHandle<Option<String>> {
    let client = Arc::clone(client);
    tokio::spawn(async move { read(&client, key, ts).await })
}

async fn soon<T>(task: JoinHandle<T>) -> T {
    timeout(SOON, task).await.expect("it goes on").expect("it finds nothing wrong")
}

#[tokio::test]
async fn who_dies_after_its_prewrite_is_rolled_back_when_its_time_is_over() {
    let ranges = Ranges::new(2);
    let others = two_keys(&ranges).await;
    let (network, dying) = gateway(&ranges, "dying");
    let pending = prewritten(&dying, &[A, B], "new", false).await;
    network.cut_off(true);

    let reader = reading(&others, B, now(&others).await);
    sleep(MOMENT).await;
    assert!(!reader.is_finished(), "it may commit yet");
    outlive_locks(&ranges);
    assert_eq!(soon(reader).await.as_deref(), Some("old"));
    // The primary has said so, and everybody else's lock goes with it.
    assert_eq!(read(&others, A, now(&others).await).await.as_deref(), Some("old"));
    assert_eq!(ranges.locks(), []);

    // It comes back, and knows nothing of what was made of it.
    network.cut_off(false);
    let late = pending.commit().await;
    assert!(matches!(late, Err(StoreError::Lost(_))), "{late:?}");
    for key in [A, B] {
        assert_eq!(read(&others, key, now(&others).await).await.as_deref(), Some("old"));
    }
}

#[tokio::test]
async fn a_writer_waits_for_the_dead_as_readers_do() {
    let ranges = Ranges::new(2);
    let others = two_keys(&ranges).await;
    let (_, dying) = gateway(&ranges, "dying");
    drop(prewritten(&dying, &[A, B], "new", false).await);

    let writer = tokio::spawn({
        let others = Arc::clone(&others);
        async move { lock(&*begin(&others).await, B, SOON).await }
    });
    sleep(MOMENT).await;
    assert!(!writer.is_finished(), "somebody has the lock");
    outlive_locks(&ranges);
    let value = soon(writer).await.expect("nobody has it any more");
    assert_eq!(value.as_deref(), Some(b"old".as_slice()));
}

#[tokio::test]
async fn who_dies_before_its_prewrite_leaves_locks_without_a_trace() {
    let ranges = Ranges::new(2);
    let others = two_keys(&ranges).await;
    let (_, dying) = gateway(&ranges, "dying");
    let set = begin(&dying).await;
    lock(&set, A, WAIT).await.expect("nobody is in the way");
    lock(&set, B, WAIT).await.expect("nobody is in the way");
    drop(set);

    // What is only locked keeps no reader waiting.
    assert_eq!(read(&others, A, now(&others).await).await.as_deref(), Some("old"));
    let refused = lock(&*begin(&others).await, B, Duration::ZERO).await;
    assert!(matches!(refused, Err(StoreError::Locked { .. })), "{refused:?}");
    let changed = ranges.changed_at(A);
    outlive_locks(&ranges);
    let writer = begin(&others).await;
    for key in [A, B] {
        lock(&writer, key, WAIT).await.expect("its time is over");
    }
    writer.roll_back().await;
    assert_eq!((ranges.locks(), ranges.changed_at(A)), (Vec::new(), changed));
}

#[tokio::test]
async fn what_the_dead_have_only_locked_is_as_it_was() {
    let ranges = Ranges::new(2);
    let others = two_keys(&ranges).await;
    let (network, dying) = gateway(&ranges, "dying");
    let set = begin(&dying).await;
    lock(&set, A, WAIT).await.expect("nobody is in the way");
    lock(&set, B, WAIT).await.expect("nobody is in the way");
    let pending = set.prewrite(vec![put(A, "new")], false).await.expect("nobody is in the way");
    pending.commit().await.expect("nobody is in the way");
    // The other lock is given back behind the caller's back: on this one thread that has not begun.
    network.cut_off(true);
    let locked: Vec<Vec<u8>> = ranges.locks().into_iter().map(|lock| lock.key).collect();
    assert_eq!(locked, [B]);

    let ts = now(&others).await;
    assert_eq!(others.settle_range(b"t", b"u", ts).await.expect("its fate is known"), ts);
    assert_eq!(ranges.locks(), []);
    assert_eq!(read(&others, A, now(&others).await).await.as_deref(), Some("new"));
    assert_eq!(read(&others, B, now(&others).await).await.as_deref(), Some("old"));
}

#[tokio::test]
async fn a_large_transaction_is_committed_in_parts() {
    let ranges = Ranges::new(1);
    let (_, client) = gateway(&ranges, "large");
    let keys: Vec<Vec<u8>> = (0..40).map(|n| format!("t/{n:02}").into_bytes()).collect();
    let value = "v".repeat(400 << 10);
    let all: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    write(&client, &all, &value).await;
    settled(&ranges).await;
}

#[tokio::test]
async fn who_lives_is_not_settled() {
    let ranges = Ranges::new(2);
    let others = two_keys(&ranges).await;
    let (_, living) = gateway(&ranges, "living");
    let set = begin(&living).await;
    lock(&set, B, WAIT).await.expect("nobody is in the way");
    let before = set.start_ts - 1;
    let ts = now(&others).await;
    assert_eq!(others.settle_range(b"t", b"u", ts).await.expect("it answers"), before);
    assert_eq!(others.settle_range(b"t", b"u", before).await.expect("it answers"), before);
    assert_eq!(others.settle_range(b"t", B, ts).await.expect("it answers"), ts, "it is elsewhere");
    let pending = set.prewrite(vec![put(B, "new")], false).await.expect("it has its lock");
    pending.commit().await.expect("nobody is in the way");
}

#[tokio::test]
async fn what_dies_after_the_primary_is_committed_is_committed() {
    let ranges = Ranges::new(2);
    let others = two_keys(&ranges).await;
    let (network, dying) = gateway(&ranges, "dying");
    let pending = prewritten(&dying, &[A, B], "new", false).await;
    let committed = pending.commit().await.expect("nobody is in the way");
    // The other key is committed behind the caller's back: on this one thread that has not begun.
    network.cut_off(true);
    let locked: Vec<Vec<u8>> = ranges.locks().into_iter().map(|lock| lock.key).collect();
    assert_eq!(locked, [B]);

    assert_eq!(read(&others, B, committed).await.as_deref(), Some("new"));
    assert_eq!(read(&others, B, committed - 1).await.as_deref(), Some("old"));
    assert_eq!(ranges.locks(), []);
}

#[tokio::test]
async fn a_commit_whose_answer_is_lost_is_told() {
    let ranges = Ranges::new(2);
    let others = two_keys(&ranges).await;
    let (network, client) = gateway(&ranges, "unlucky");
    let pending = prewritten(&client, &[A, B], "new", false).await;
    let expected = pending.commit_ts;
    network.on_next("KvCommit", Fault::LoseAnswer);
    let committed = pending.commit().await.expect("it is committed, and says so when asked again");
    assert_eq!(committed, expected);
    assert_eq!(read(&others, A, committed).await.as_deref(), Some("new"));
    assert_eq!(read(&others, A, committed - 1).await.as_deref(), Some("old"));
}

#[tokio::test]
async fn a_late_commit_does_nothing_that_was_not_told() {
    let ranges = Ranges::new(2);
    let others = two_keys(&ranges).await;
    let (network, client) = gateway(&ranges, "slow");
    let pending = prewritten(&client, &[A, B], "new", false).await;
    // The first attempt comes when another has long been answered, and somebody has written since.
    network.on_next("KvCommit", Fault::Late(2 * MOMENT));
    let committed = pending.commit().await.expect("the second attempt comes in time");
    write(&others, &[A, B], "newer").await;
    sleep(3 * MOMENT).await;
    assert_eq!(read(&others, A, now(&others).await).await.as_deref(), Some("newer"));
    assert_eq!(read(&others, A, committed).await.as_deref(), Some("new"));
    assert_eq!(ranges.locks(), []);
}

#[tokio::test]
async fn a_commit_that_may_be_put_off_keeps_no_reader_waiting() {
    let ranges = Ranges::new(2);
    let others = two_keys(&ranges).await;
    let (_, client) = gateway(&ranges, "writer");
    let pending = prewritten(&client, &[A, B], "new", true).await;
    let ts = now(&others).await;
    assert!(pending.commit_ts < ts, "it would have been before the reader");
    for key in [B, A] {
        assert_eq!(soon(reading(&others, key, ts)).await.as_deref(), Some("old"));
    }
    let committed = pending.commit().await.expect("it is put off, not refused");
    assert!(committed > ts, "a reader at {ts} was told that it comes later: {committed}");
    for key in [A, B] {
        assert_eq!(read(&others, key, ts).await.as_deref(), Some("old"));
        assert_eq!(read(&others, key, committed).await.as_deref(), Some("new"));
    }
}

#[tokio::test]
async fn a_commit_is_not_put_off_beyond_what_it_may() {
    let ranges = Ranges::new(2);
    let others = two_keys(&ranges).await;
    let (_, client) = gateway(&ranges, "writer");
    let pending = prewritten(&client, &[A, B], "new", true).await;
    let latest = now(&others).await;
    assert!(pending.commit_ts < latest, "it might have been committed before");
    for key in [A, B] {
        assert_eq!(soon(reading(&others, key, latest)).await.as_deref(), Some("old"));
    }
    let refused = pending.commit_if(|ts| ts <= latest).await;
    assert!(matches!(refused, Err(StoreError::Lost(_))), "{refused:?}");
    assert_eq!(ranges.locks(), []);
    let after = now(&others).await;
    for key in [A, B] {
        assert_eq!(read(&others, key, after).await.as_deref(), Some("old"));
    }
}

#[tokio::test]
async fn a_commit_that_may_not_be_put_off_is_waited_for() {
    let ranges = Ranges::new(2);
    let others = two_keys(&ranges).await;
    let (_, client) = gateway(&ranges, "writer");
    let pending = prewritten(&client, &[A, B], "new", false).await;
    let (expected, ts) = (pending.commit_ts, now(&others).await);
    let readers = [A, B].map(|key| reading(&others, key, ts));
    sleep(MOMENT).await;
    assert!(readers.iter().all(|reader| !reader.is_finished()), "it may be before them");
    assert_eq!(pending.commit().await.expect("nobody is in the way"), expected);
    for reader in readers {
        assert_eq!(soon(reader).await.as_deref(), Some("new"));
    }
}

#[tokio::test]
async fn a_lock_as_of_before_the_last_commit_is_refused() {
    let ranges = Ranges::new(2);
    let others = two_keys(&ranges).await;
    let (_, client) = gateway(&ranges, "slow");
    let set = begin(&client).await;
    let committed = write(&others, &[A], "new").await;
    settled(&ranges).await;
    match lock(&set, A, WAIT).await {
        Err(StoreError::Conflict { key, commit_ts }) => {
            assert_eq!((&key[..], commit_ts), (A, committed));
        }
        other => panic!("what it has read is old: {other:?}"),
    }
    // It goes on with what is there now, and nothing was left of the attempt.
    assert_eq!(ranges.locks(), []);
    let again = [Locking { key: A.to_vec(), is_new: false }];
    let values = set.lock(&again, now(&client).await, WAIT).await.expect("this is the present");
    assert_eq!(values, [Some(b"new".to_vec())]);
}

#[tokio::test]
async fn a_key_that_is_to_be_new_and_is_there_exists() {
    let ranges = Ranges::new(2);
    let client = two_keys(&ranges).await;
    let set = begin(&client).await;
    let new = |key: &[u8]| Locking { key: key.to_vec(), is_new: true };
    // All or none: the one that is free is given back.
    let refused = set.lock(&[new(b"t/0"), new(B)], set.start_ts, WAIT).await;
    assert!(matches!(&refused, Err(StoreError::Exists { key }) if key == B), "{refused:?}");
    assert_eq!(ranges.locks(), []);

    let free = set.lock(&[new(b"t/0")], set.start_ts, WAIT).await.expect("it is free");
    assert_eq!(free, [None]);
    let pending = set.prewrite(vec![put(b"t/0", "new")], true).await.expect("it is locked");
    let committed = pending.commit().await.expect("nobody is in the way");
    assert_eq!(read(&client, b"t/0", committed).await.as_deref(), Some("new"));
}

#[tokio::test]
async fn of_two_that_wait_for_each_other_one_is_told() {
    let ranges = Ranges::new(2);
    let client = two_keys(&ranges).await;
    let (one, two) = (begin(&client).await, begin(&client).await);
    lock(&one, A, WAIT).await.expect("nobody is in the way");
    lock(&two, B, WAIT).await.expect("nobody is in the way");
    let waiting = tokio::spawn({
        let one = Arc::clone(&one);
        async move { lock(&one, B, SOON).await }
    });
    while ranges.waiting().is_empty() {
        sleep(Duration::from_millis(1)).await;
    }
    let told = lock(&two, A, WAIT).await;
    assert!(matches!(told, Err(StoreError::Deadlock)), "{told:?}");
    assert!(!waiting.is_finished(), "the other waits on");
    two.roll_back().await;
    soon(waiting).await.expect("nobody is in the way any more");
    one.roll_back().await;
    assert_eq!(ranges.locks(), []);
}
