//! Optimistic transactions: two phases, one phase, and what is left when whoever wrote it has gone.

use froglet_cluster::network::{Ask, Network};
use froglet_cluster::wire::kv::{self, Action, Op};

use super::{Story, TTL_MS, context, keys, mutation, word};
use crate::ranges::{Fault, Ranges};

#[tokio::test]
async fn two_phases_make_both_keys_visible_at_one_timestamp() {
    let story = Story::new(1);
    let before = story.ranges.timestamp();
    let a = story.begin("x");
    let puts = [mutation(Op::Put, "x", "1"), mutation(Op::Put, "y", "2")];
    assert_eq!(a.prewrite(&puts).await, "");
    assert_eq!(story.locked(), ["x", "y"]);
    // Who reads as of before does not care; who reads later has to know what becomes of it.
    assert_eq!(story.get_at("x", before).await, "");
    assert_eq!(story.get("x").await, "locked");
    let commit_ts = story.ranges.timestamp();
    assert_eq!(a.commit_at(&["x"], commit_ts).await, "");
    assert_eq!(story.get("x").await, "1");
    assert_eq!(story.get("y").await, "locked");
    assert_eq!(a.commit_at(&["y"], commit_ts).await, "");
    assert_eq!(story.get_at("y", commit_ts).await, "2");
    assert_eq!(story.get_at("y", commit_ts - 1).await, "");
    assert!(story.locked().is_empty());
}

#[tokio::test]
async fn everything_may_be_sent_twice() {
    let story = Story::new(1);
    let a = story.begin("x");
    assert_eq!(a.put("x", "1").await, "");
    assert_eq!(a.put("x", "1").await, "");
    let commit_ts = story.ranges.timestamp();
    assert_eq!(a.commit_at(&["x"], commit_ts).await, "");
    assert_eq!(a.commit_at(&["x"], commit_ts).await, "");
    // A prewrite that comes again after the commit has been done: it says so, and locks nothing.
    assert_eq!(a.put("x", "1").await, "");
    assert!(story.locked().is_empty());
    assert_eq!(a.roll_back(&["x"]).await, "abort");
    let b = story.begin("x");
    assert_eq!(b.roll_back(&["x"]).await, "");
    assert_eq!(b.roll_back(&["x"]).await, "");
}

#[tokio::test]
async fn of_two_writers_the_second_has_a_conflict() {
    let story = Story::new(1);
    let (a, b) = (story.begin("x"), story.begin("x"));
    assert_eq!(a.put("x", "a").await, "");
    assert_eq!(b.put("x", "b").await, "locked");
    assert_eq!(a.commit(&["x"]).await, "");
    assert_eq!(b.put("x", "b").await, "conflict");
    let late = story.begin("x");
    assert_eq!(late.put("x", "c").await, "");
    // All locked keys are told at once, and nothing is written.
    let c = story.begin("y");
    let puts = [mutation(Op::Put, "x", "d"), mutation(Op::Put, "y", "d")];
    assert_eq!(c.prewrite(&puts).await, "locked");
    assert_eq!(story.locked(), ["x"]);
}

#[tokio::test]
async fn a_rollback_is_final_and_conflicts_like_a_commit() {
    let story = Story::new(1);
    let (old, a) = (story.begin("x"), story.begin("x"));
    assert_eq!(a.put("x", "1").await, "");
    assert_eq!(a.roll_back(&["x", "y"]).await, "");
    assert!(story.locked().is_empty());
    assert_eq!(story.get("x").await, "");
    // Late prewrites and commits of it find that it is over, even where it had not come at all.
    assert_eq!(a.put("x", "1").await, "conflict");
    assert_eq!(a.put("y", "1").await, "conflict");
    assert_eq!(a.commit(&["x"]).await, "gone");
    // So do transactions that are older than the rollback.
    assert_eq!(old.put("x", "0").await, "conflict");
    assert_eq!(story.begin("x").put("x", "2").await, "");
}

#[tokio::test]
async fn an_insert_fails_where_there_is_something() {
    let story = Story::new(1);
    let a = story.begin("x");
    assert_eq!(a.prewrite(&[mutation(Op::Insert, "x", "1")]).await, "");
    assert_eq!(a.commit(&["x"]).await, "");
    for op in [Op::CheckNotExists, Op::Insert] {
        assert_eq!(story.begin("x").prewrite(&[mutation(op, "x", "2")]).await, "exists");
        assert_eq!(story.begin("y").prewrite(&[mutation(op, "y", "2")]).await, "");
    }
    // Only the insert has left a lock.
    assert_eq!(story.locked(), ["y"]);
    let b = story.begin("x");
    assert_eq!(b.prewrite(&[mutation(Op::Del, "x", "")]).await, "");
    assert_eq!(b.commit(&["x"]).await, "");
    assert_eq!(story.begin("x").prewrite(&[mutation(Op::Insert, "x", "3")]).await, "");
}

#[tokio::test]
async fn locked_only_a_key_stays_what_it_was() {
    let story = Story::new(1);
    let a = story.begin("x");
    assert_eq!(a.put("x", "1").await, "");
    assert_eq!(a.commit(&["x"]).await, "");
    let b = story.begin("x");
    assert_eq!(b.prewrite(&[mutation(Op::Lock, "x", "")]).await, "");
    // Readers pass, writers do not.
    assert_eq!(story.get("x").await, "1");
    assert_eq!(story.begin("x").put("x", "2").await, "locked");
    let c = story.begin("x");
    assert_eq!(b.commit(&["x"]).await, "");
    assert_eq!(story.get("x").await, "1");
    assert_eq!(c.put("x", "2").await, "conflict");
    assert_eq!(story.begin("x").prewrite(&[mutation(Op::Insert, "x", "2")]).await, "exists");
}

#[tokio::test]
async fn reads_of_many_keys_say_which_are_locked() {
    let story = Story::new(1);
    let a = story.begin("a");
    let puts = ["a", "b", "c", "d"].map(|key| mutation(Op::Put, key, key));
    assert_eq!(a.prewrite(&puts).await, "");
    assert_eq!(a.commit(&["a", "c", "d"]).await, "");
    let version = story.ranges.timestamp();
    let told = |pairs: Vec<kv::KvPair>| -> Vec<String> {
        let tell = |pair: kv::KvPair| match pair.error {
            Some(error) => word(&error).to_owned(),
            None => String::from_utf8(pair.value).expect("values are text"),
        };
        pairs.into_iter().map(tell).collect()
    };
    let all = keys(&["a", "b", "none", "d"]);
    let request = kv::BatchGetRequest { context: None, keys: all, version };
    assert_eq!(told(story.ask("a", request).await.pairs), ["a", "locked", "d"]);
    let scan = |start: &str, end: &str, limit| kv::ScanRequest {
        start_key: start.as_bytes().to_vec(),
        end_key: end.as_bytes().to_vec(),
        limit,
        version,
        ..kv::ScanRequest::default()
    };
    assert_eq!(told(story.ask("a", scan("", "", 9)).await.pairs), ["a", "locked", "c", "d"]);
    assert_eq!(told(story.ask("a", scan("", "", 2)).await.pairs), ["a", "locked"]);
    assert_eq!(told(story.ask("a", scan("b", "d", 9)).await.pairs), ["locked", "c"]);
    // A lock that is known to be committed later, if ever, is passed by.
    let mut request = scan("", "c", 9);
    let place = story.gateway.place_of(b"a").await.expect("the driver answers");
    request.place_at(kv::Context { resolved_locks: vec![a.start_ts], ..context(&place) });
    let answer = story.gateway.ask(1, request.wrapped()).await.expect("the store answers");
    let answer = kv::ScanRequest::answer_of(answer).expect("of a scan");
    assert_eq!(told(answer.pairs), ["a"]);
    // The end of a region is the end of a scan.
    story.ranges.split_at(b"c");
    assert_eq!(told(story.ask("a", scan("", "", 9)).await.pairs), ["a", "locked"]);
    assert_eq!(told(story.ask("c", scan("", "", 9)).await.pairs), ["c", "d"]);
}

#[tokio::test]
async fn who_crashes_after_prewrite_is_rolled_back_when_his_time_is_over() {
    let story = Story::new(1);
    let a = story.begin("x");
    let puts = [mutation(Op::Put, "x", "1"), mutation(Op::Put, "y", "1")];
    assert_eq!(a.prewrite(&puts).await, "");
    story.ranges.advance(TTL_MS);
    let status = story.status(&a, 0).await;
    assert_eq!((status.lock_ttl, status.action), (TTL_MS, Action::NoAction as i32));
    assert_eq!(status.lock_info.expect("it is locked").key, b"x");
    story.ranges.advance(1);
    let status = story.status(&a, 0).await;
    assert_eq!((status.lock_ttl, status.action), (0, Action::TtlExpireRollback as i32));
    assert_eq!(story.locked(), ["y"]);
    assert_eq!(story.resolve(&a, 0, &["y"]).await, "");
    assert_eq!(story.get("y").await, "");
    assert_eq!(a.commit(&["x"]).await, "gone");
    // Asked again, the primary says the same.
    let status = story.status(&a, 0).await;
    assert_eq!((status.lock_ttl, status.commit_version), (0, 0));
}

#[tokio::test]
async fn who_says_that_he_lives_is_not_rolled_back() {
    let story = Story::new(1);
    let a = story.begin("x");
    assert_eq!(a.live_for(1).await, Err("unknown"));
    assert_eq!(a.put("x", "1").await, "");
    assert_eq!(a.live_for(TTL_MS * 3).await, Ok(TTL_MS * 3));
    assert_eq!(a.live_for(TTL_MS).await, Ok(TTL_MS * 3), "it never becomes shorter");
    story.ranges.advance(TTL_MS * 2);
    assert_eq!(story.status(&a, 0).await.lock_ttl, TTL_MS * 3);
    assert_eq!(a.commit(&["x"]).await, "");
    assert_eq!(a.live_for(TTL_MS).await, Err("unknown"));
}

#[tokio::test]
async fn secondaries_of_a_committed_primary_are_committed_by_others() {
    let story = Story::new(1);
    let a = story.begin("x");
    let puts = ["x", "y", "z"].map(|key| mutation(Op::Put, key, "1"));
    assert_eq!(a.prewrite(&puts).await, "");
    let commit_ts = story.ranges.timestamp();
    assert_eq!(a.commit_at(&["x"], commit_ts).await, "");
    assert_eq!(story.status(&a, 0).await.commit_version, commit_ts);
    let locks = kv::ScanLockRequest {
        max_version: a.start_ts,
        end_key: b"z".to_vec(),
        ..kv::ScanLockRequest::default()
    };
    let locks = story.ask("x", locks).await.locks;
    assert_eq!(locks.iter().map(|lock| &lock.key[..]).collect::<Vec<_>>(), [b"y"]);
    // One by name, then the rest.
    assert_eq!(story.resolve(&a, commit_ts, &["y"]).await, "");
    assert_eq!(story.resolve(&a, commit_ts, &[]).await, "");
    assert_eq!(story.get_at("z", commit_ts).await, "1");
    // Whoever is late finds it done.
    assert_eq!(a.commit_at(&["y", "z"], commit_ts).await, "");
    assert!(story.locked().is_empty());
}

#[tokio::test]
async fn a_primary_that_has_not_come_is_kept_from_coming() {
    let story = Story::new(1);
    let a = story.begin("x");
    assert_eq!(a.put("y", "1").await, "");
    let mut request = kv::CheckTxnStatusRequest {
        primary_key: b"x".to_vec(),
        lock_ts: a.start_ts,
        current_ts: story.ranges.timestamp(),
        ..kv::CheckTxnStatusRequest::default()
    };
    let error = story.ask("x", request.clone()).await.error.expect("it is not known");
    assert_eq!(word(&error), "unknown");
    request.rollback_if_not_exist = true;
    let answer = story.ask("x", request).await;
    assert_eq!(answer.action, Action::LockNotExistRollback as i32);
    assert_eq!(a.put("x", "1").await, "conflict");
}

#[tokio::test]
async fn a_reader_puts_a_commit_off() {
    let story = Story::new(1);
    let a = story.begin("x");
    let mut request = a.prewriting(&[mutation(Op::Put, "x", "1"), mutation(Op::Put, "y", "1")]);
    request.min_commit_ts = a.start_ts + 1;
    assert_eq!(a.send(request).await.errors, vec![]);
    let commit_ts = story.ranges.timestamp();
    let reader = story.ranges.timestamp();
    assert_eq!(story.get_at("x", reader).await, "locked");
    let status = story.status(&a, reader).await;
    assert_eq!(status.action, Action::MinCommitTsPushed as i32);
    assert!(status.lock_info.expect("it is locked").min_commit_ts > reader);
    // The primary is passed by now; the secondary does not know, and the commit that was due comes too early.
    assert_eq!(story.get_at("x", reader).await, "");
    assert_eq!(story.get_at("y", reader).await, "locked");
    assert_eq!(a.commit_at(&["x"], commit_ts).await, "too early");
    assert_eq!(a.commit(&["x", "y"]).await, "");
    assert_eq!(story.get_at("y", reader).await, "");
    // Who has not said that his commit may be put off is waited for.
    let b = story.begin("z");
    assert_eq!(b.put("z", "1").await, "");
    let status = story.status(&b, story.ranges.timestamp()).await;
    assert_eq!(status.action, Action::NoAction as i32);
}

#[tokio::test]
async fn a_commit_whose_answer_is_lost_was_done() {
    let story = Story::new(1);
    let a = story.begin("x");
    assert_eq!(a.put("x", "1").await, "");
    let place = story.gateway.place_of(b"x").await.expect("the driver answers");
    let request = kv::CommitRequest {
        context: Some(context(&place)),
        start_version: a.start_ts,
        keys: keys(&["x"]),
        commit_version: story.ranges.timestamp(),
    };
    story.gateway.on_next("KvCommit", Fault::LoseRequest);
    story.gateway.on_next("KvCommit", Fault::LoseAnswer);
    assert!(story.gateway.ask(1, request.wrapped()).await.is_err());
    assert_eq!(story.locked(), ["x"]);
    assert!(story.gateway.ask(1, request.wrapped()).await.is_err());
    assert!(story.locked().is_empty());
    assert_eq!(story.status(&a, 0).await.commit_version, request.commit_version);
    assert_eq!(a.commit_at(&["x"], request.commit_version).await, "");
    assert_eq!(story.gateway.asked("KvCommit"), 3);
}

#[tokio::test]
async fn one_phase_commits_later_than_all_reads() {
    let story = Story::new(1);
    let a = story.begin("x");
    let reader = story.ranges.timestamp();
    assert_eq!(story.get_at("x", reader).await, "");
    let mut request = a.prewriting(&[mutation(Op::Put, "x", "1"), mutation(Op::Put, "y", "1")]);
    request.try_one_pc = true;
    let commit_ts = a.send(request.clone()).await.one_pc_commit_ts;
    assert_eq!(commit_ts, reader + 1);
    assert!(story.locked().is_empty());
    assert_eq!(story.get_at("y", commit_ts).await, "1");
    assert_eq!(story.get_at("x", reader).await, "");
    // Sent again, because the answer was lost, it is answered the same.
    assert_eq!(a.send(request).await.one_pc_commit_ts, commit_ts);
    assert_eq!(story.begin("x").roll_back(&["x"]).await, "");
    assert_eq!(a.roll_back(&["x"]).await, "abort");
}

#[tokio::test]
async fn one_phase_becomes_two_where_it_has_to() {
    let story = Story::new(1);
    let a = story.begin("x");
    let reader = story.ranges.timestamp();
    assert_eq!(story.get_at("x", reader).await, "");
    let mut request = a.prewriting(&[mutation(Op::Put, "x", "1")]);
    (request.try_one_pc, request.max_commit_ts) = (true, reader);
    assert_eq!(a.send(request.clone()).await.one_pc_commit_ts, 0);
    assert_eq!(story.locked(), ["x"]);
    // An earlier attempt has begun with two phases.
    request.max_commit_ts = 0;
    assert_eq!(a.send(request).await.one_pc_commit_ts, 0);
    assert_eq!(a.commit(&["x"]).await, "");
    // A conflict is one in one phase, too; and as much later as is asked for it may be.
    let b = story.begin("x");
    assert_eq!(story.begin("x").roll_back(&["x"]).await, "");
    let mut request = b.prewriting(&[mutation(Op::Put, "x", "2")]);
    request.try_one_pc = true;
    assert_eq!(super::words(&b.send(request).await.errors), "conflict");
    let c = story.begin("x");
    let mut request = c.prewriting(&[mutation(Op::Put, "x", "3")]);
    (request.try_one_pc, request.min_commit_ts) = (true, c.start_ts + 1000);
    assert_eq!(c.send(request).await.one_pc_commit_ts, c.start_ts + 1000);
}

#[tokio::test]
async fn what_nobody_reads_is_collected() {
    let story = Story::new(1);
    let mut commits = Vec::new();
    for value in ["1", "2", "3"] {
        let a = story.begin("x");
        assert_eq!(a.put("x", value).await, "");
        commits.push(story.ranges.timestamp());
        assert_eq!(a.commit_at(&["x"], commits[commits.len() - 1]).await, "");
    }
    let del = story.begin("y");
    assert_eq!(del.prewrite(&[mutation(Op::Del, "y", "")]).await, "");
    assert_eq!(del.commit(&["y"]).await, "");
    story.gateway.collect_before(commits[1]).await.expect("the driver answers");
    let at = |ts| Ranges::value_at(&story.ranges, b"x", ts);
    assert_eq!([at(commits[0]), at(commits[1])], [None, Some(b"2".to_vec())]);
    assert_eq!(story.get("x").await, "3");
    assert!(story.ranges.changed_at(b"y").is_some());
    story.gateway.collect_before(story.ranges.timestamp()).await.expect("the driver answers");
    assert_eq!(story.ranges.changed_at(b"y"), None);
    assert_eq!(story.get("x").await, "3");
}
