//! Pessimistic transactions: keys that are taken early, and who waits for them.

use std::time::Duration;

use froglet_cluster::network::Network;
use froglet_cluster::wire::kv::{self, Action, Assertion, Op};
use tokio::time::Instant;

use super::{Story, TTL_MS, mutation, word, words};
use crate::ranges::Fault;

/// A key has this value.
async fn put(story: &Story, key: &str, value: &str) {
    let txn = story.begin(key);
    assert_eq!(txn.put(key, value).await, "");
    assert_eq!(txn.commit(&[key]).await, "");
}

#[tokio::test]
async fn who_locks_reads_what_is_there_and_writes_over_it() {
    let story = Story::new(1);
    put(&story, "x", "1").await;
    let a = story.begin("x").refreshed();
    assert_eq!(a.lock(&["x", "y"]).await, Ok("1 ".to_owned()));
    assert_eq!(a.lock(&["x", "y"]).await, Ok("1 ".to_owned()), "it has them already");
    // Nothing is written: readers pass.
    assert_eq!(story.get("x").await, "1");
    assert_eq!(story.begin("x").refreshed().lock(&["x"]).await, Err("locked"));
    assert_eq!(a.put_locked("x", "2").await, "");
    assert_eq!(a.put_locked("x", "2").await, "");
    assert_eq!(story.get("x").await, "locked");
    assert_eq!(a.lock(&["x"]).await, Err("abort"), "it is written");
    assert_eq!(a.commit(&["x"]).await, "");
    a.give_back(&["y"]).await;
    assert_eq!(story.get("x").await, "2");
    assert!(story.locked().is_empty());
}

#[tokio::test]
async fn who_locks_with_an_old_timestamp_has_a_conflict() {
    let story = Story::new(1);
    let a = story.begin("x").refreshed();
    put(&story, "x", "1").await;
    // All or none: the free key is not locked either.
    assert_eq!(a.lock(&["free", "x"]).await, Err("conflict"));
    assert!(story.locked().is_empty());
    assert_eq!(a.refreshed().lock(&["free", "x"]).await, Ok(" 1".to_owned()));
    // Others' rollbacks are conflicts, too.
    let b = story.begin("z").refreshed();
    assert_eq!(story.begin("z").roll_back(&["z"]).await, "");
    assert_eq!(b.lock(&["z"]).await, Err("conflict"));
}

#[tokio::test]
async fn who_wants_a_key_to_be_new_is_told_when_it_is_not() {
    let story = Story::new(1);
    put(&story, "x", "1").await;
    let a = story.begin("x").refreshed();
    let mut request = a.locking(&["x"], -1);
    request.mutations[0].assertion = Assertion::NotExist as i32;
    let error = a.send_lock(request.clone()).await.expect_err("it is there");
    assert_eq!(word(&error), "exists");
    request.mutations[0].key = b"y".to_vec();
    assert_eq!(a.send_lock(request).await.expect("it is not there"), "");
}

#[tokio::test]
async fn locks_are_given_back_only_if_they_are_not_younger() {
    let story = Story::new(1);
    let early = story.begin("x").refreshed();
    let late = early.refreshed();
    assert!(early.lock(&["x"]).await.is_ok());
    assert!(late.lock(&["x"]).await.is_ok(), "its own lock becomes younger");
    early.give_back(&["x"]).await;
    assert_eq!(story.locked(), ["x"]);
    story.begin("x").refreshed().give_back(&["x"]).await;
    assert_eq!(story.locked(), ["x"], "it is another's");
    late.give_back(&["x"]).await;
    assert!(story.locked().is_empty());
    // It leaves no trace, unlike a rollback.
    assert!(late.lock(&["x"]).await.is_ok());
    assert_eq!(late.roll_back(&["x"]).await, "");
    assert_eq!(late.lock(&["x"]).await, Err("abort"));
    assert_eq!(late.put_locked("x", "1").await, "abort");
}

#[tokio::test]
async fn a_lock_that_was_lost_is_missed_only_if_something_has_come() {
    let story = Story::new(1);
    let a = story.begin("x").refreshed();
    assert!(a.lock(&["x", "y"]).await.is_ok());
    story.ranges.advance(TTL_MS + 1);
    let mut request = kv::CheckTxnStatusRequest {
        primary_key: b"x".to_vec(),
        lock_ts: a.start_ts,
        current_ts: story.ranges.timestamp(),
        rollback_if_not_exist: true,
        resolving_pessimistic_lock: true,
        ..kv::CheckTxnStatusRequest::default()
    };
    let answer = story.ask("x", request.clone()).await;
    assert_eq!(answer.action, Action::TtlExpirePessimisticRollback as i32);
    let answer = story.ask("x", request.clone()).await;
    assert_eq!(answer.action, Action::LockNotExistDoNothing as i32);
    assert_eq!(story.locked(), ["y"]);
    // Nobody has written since it began: it is as if the lock were there.
    assert_eq!(a.put_locked("x", "1").await, "");
    assert_eq!(a.commit(&["x"]).await, "");
    // Somebody has.
    a.give_back(&["y"]).await;
    put(&story, "y", "2").await;
    assert_eq!(a.put_locked("y", "1").await, "abort");
    // Another has it.
    let (b, c) = (story.begin("z").refreshed(), story.begin("z").refreshed());
    assert!(b.lock(&["z"]).await.is_ok());
    assert_eq!(c.put_locked("z", "1").await, "abort");
    // Asked because of a write, a lock whose time is over is rolled back for good.
    story.ranges.advance(TTL_MS + 1);
    (request.primary_key, request.lock_ts) = (b"z".to_vec(), b.start_ts);
    request.current_ts = story.ranges.timestamp();
    request.resolving_pessimistic_lock = false;
    let answer = story.ask("z", request).await;
    assert_eq!(answer.action, Action::TtlExpireRollback as i32);
    assert_eq!(b.put_locked("z", "1").await, "abort");
}

#[tokio::test]
async fn keys_without_a_lock_are_not_looked_at_but_for_locks() {
    let story = Story::new(1);
    let a = story.begin("x").refreshed();
    assert!(a.lock(&["x"]).await.is_ok());
    put(&story, "new", "0").await;
    // No conflict, whatever has come since: that nobody else writes there is the caller's promise.
    assert_eq!(a.put("new", "1").await, "");
    let b = story.begin("other");
    assert_eq!(b.put("other", "1").await, "");
    let request = a.prewriting(&[mutation(Op::Put, "other", "2")]);
    let errors = a.send(request).await.errors;
    assert_eq!(words(&errors), "locked");
    assert_eq!(errors[0].locked.as_ref().map(|lock| lock.lock_ttl), Some(0), "it is stale");
    let looking = a.prewrite(&[mutation(Op::CheckNotExists, "new", "")]).await;
    assert_eq!(looking, "abort");
}

#[tokio::test]
async fn a_pessimistic_transaction_commits_in_one_phase_and_wakes_who_waits() {
    let story = Story::new(1);
    let a = story.begin("x").refreshed();
    assert!(a.lock(&["x"]).await.is_ok());
    let b = story.begin("x").refreshed();
    let mut request = a.prewriting(&[mutation(Op::Put, "x", "1"), mutation(Op::Put, "y", "1")]);
    (request.try_one_pc, request.pessimistic_actions) = (true, vec![1, 0]);
    let (waited, answer) = tokio::join!(b.wait_for("x", 900), a.send(request));
    assert!(answer.one_pc_commit_ts > a.for_update_ts);
    assert_eq!(waited, Err("conflict"));
    assert_eq!(b.refreshed().lock(&["x"]).await, Ok("1".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_told_when_the_lock_goes() {
    let story = Story::new(1);
    let a = story.begin("x").refreshed();
    assert!(a.lock(&["x"]).await.is_ok());
    assert_eq!(a.put_locked("x", "1").await, "");
    let (old, young) = (story.begin("x").refreshed(), story.begin("x").refreshed());
    let begun = Instant::now();
    let wait = async |txn: super::Txn| {
        let error = txn.send_lock(txn.locking(&["x"], 900)).await.expect_err("it has to retry");
        (error.conflict.expect("a conflict"), begun.elapsed())
    };
    let commit_ts = story.ranges.timestamp();
    let end = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let mut waiting = story.ranges.waiting();
        waiting.sort_unstable();
        assert_eq!(waiting, [(old.start_ts, a.start_ts), (young.start_ts, a.start_ts)]);
        assert_eq!(a.commit_at(&["x"], commit_ts).await, "");
    };
    // The younger has waited longer; the older is told first.
    let (second, first, ()) = tokio::join!(wait(young), wait(old), end);
    assert_eq!((first.0.conflict_ts, first.0.conflict_commit_ts), (a.start_ts, commit_ts));
    assert_eq!(first.1, Duration::from_millis(100));
    assert_eq!(second.1, Duration::from_millis(120));
    assert_eq!(old.refreshed().lock(&["x"]).await, Ok("1".to_owned()));
    assert!(story.ranges.waiting().is_empty());
}

#[tokio::test(start_paused = true)]
async fn every_end_of_a_lock_wakes() {
    let story = Story::new(1);
    for how in ["given back", "rolled back", "resolved", "expired"] {
        let a = story.begin(how).refreshed();
        assert!(a.lock(&[how]).await.is_ok());
        let b = story.begin(how).refreshed();
        let end = async {
            tokio::time::sleep(Duration::from_millis(10)).await;
            match how {
                "given back" => a.give_back(&[how]).await,
                "rolled back" => assert_eq!(a.roll_back(&[how]).await, ""),
                "resolved" => assert_eq!(story.resolve(&a, 0, &[how]).await, ""),
                _ => {
                    story.ranges.advance(TTL_MS + 1);
                    story.status(&a, 0).await;
                }
            }
        };
        let (waited, ()) = tokio::join!(b.wait_for(how, 900), end);
        assert_eq!(waited, Err("conflict"), "{how}");
        assert_eq!(b.refreshed().wait_for(how, 900).await, Ok(String::new()), "{how}");
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_ever() {
    let story = Story::new(1);
    let a = story.begin("x").refreshed();
    assert!(a.lock(&["x"]).await.is_ok());
    let b = story.begin("x").refreshed();
    for (asked_ms, waited_ms) in [(-1, 0), (300, 300), (0, 1000), (60_000, 1000)] {
        let begun = Instant::now();
        assert_eq!(b.wait_for("x", asked_ms).await, Err("locked"));
        assert_eq!(begun.elapsed(), Duration::from_millis(waited_ms));
    }
    // Who goes away waits no longer, and gets nothing later.
    let gone = tokio::time::timeout(Duration::from_millis(5), b.wait_for("x", 900)).await;
    assert!(gone.is_err());
    assert!(story.ranges.waiting().is_empty());
    a.give_back(&["x"]).await;
    assert!(story.locked().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_ring_of_waiters_is_a_deadlock_of_the_last() {
    let story = Story::new(1);
    let txns = ["x", "y", "z"].map(|key| story.begin(key).refreshed());
    for txn in &txns {
        assert!(txn.lock(&[txn.primary]).await.is_ok());
    }
    let [a, b, c] = txns;
    let last = async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        let error = c.send_lock(c.locking(&["x"], 900)).await.expect_err("x waits for y, y for z");
        let deadlock = error.deadlock.expect("a deadlock");
        assert_eq!((deadlock.lock_ts, &deadlock.lock_key[..]), (a.start_ts, &b"x"[..]));
        // It goes, and the others come through, one after the other.
        c.give_back(&["z"]).await;
    };
    let second = async {
        assert_eq!(b.wait_for("z", 900).await, Err("conflict"));
        assert!(b.refreshed().lock(&["z"]).await.is_ok());
        b.refreshed().give_back(&["y", "z"]).await;
    };
    let (first, (), ()) = tokio::join!(a.wait_for("y", 900), second, last);
    assert_eq!(first, Err("conflict"));
    assert_eq!(a.refreshed().lock(&["y"]).await, Ok(String::new()));
    assert_eq!(story.locked(), ["x", "y"]);
}

#[tokio::test(start_paused = true)]
async fn a_lock_whose_answer_was_lost_is_there() {
    let story = Story::new(1);
    let a = story.begin("x").refreshed();
    let place = story.gateway.place_of(b"x").await.expect("the driver answers");
    let request = kv::PessimisticLockRequest {
        context: Some(super::context(&place)),
        ..a.locking(&["x"], -1)
    };
    let request = froglet_cluster::network::Request::PessimisticLock(request);
    story.gateway.on_next("KvPessimisticLock", Fault::LoseAnswer);
    assert!(story.gateway.ask(1, request.clone()).await.is_err());
    assert_eq!(story.locked(), ["x"]);
    a.give_back(&["x"]).await;
    // It may even come when it was given back.
    let late = Fault::Late(Duration::from_millis(50));
    story.gateway.on_next("KvPessimisticLock", late);
    assert!(story.gateway.ask(1, request).await.is_err());
    a.give_back(&["x"]).await;
    assert!(story.locked().is_empty());
    tokio::time::sleep(Duration::from_millis(60)).await;
    assert_eq!(story.locked(), ["x"]);
}
