//! Regions, leaders and stores: what is answered to those who are wrong about them.

use froglet_cluster::network::{Ask, Network, Place, Response};
use froglet_cluster::wire::kv::{self, Op, RegionError};

use super::{Story, context, keys, mutation};

async fn place(story: &Story, key: &str) -> Place {
    story.gateway.place_of(key.as_bytes()).await.expect("the driver answers")
}

/// What a store says to a reader who believes this.
async fn told(story: &Story, store: u64, context: kv::Context, key: &str) -> RegionError {
    let version = story.ranges.timestamp();
    let mut request = kv::GetRequest { context: None, key: key.as_bytes().to_vec(), version };
    request.place_at(context);
    match story.gateway.ask(store, request.wrapped()).await {
        Ok(Response::Get(answer)) => answer.region_error.expect("it should be refused"),
        other => panic!("{other:?}"),
    }
}

fn at_store(store_id: u64, place: &Place) -> kv::Context {
    kv::Context { peer: Some(kv::Peer { id: 1, store_id }), ..context(place) }
}

#[tokio::test]
async fn who_is_wrong_is_told_how_it_is() {
    let story = Story::new(3);
    let before = place(&story, "x").await;
    assert_eq!(before.region.peers.len(), 3);
    let error = told(&story, 2, context(&before), "x").await;
    let wrong = kv::StoreNotMatch { request_store_id: 1, actual_store_id: 2 };
    assert_eq!(error.store_not_match, Some(wrong));
    let error = told(&story, 2, at_store(2, &before), "x").await;
    assert_eq!(error.not_leader.and_then(|not| not.leader), before.leader);
    let unknown = kv::Context { region_id: 77, ..context(&before) };
    let error = told(&story, 1, unknown, "x").await;
    assert_eq!(error.region_not_found, Some(kv::RegionNotFound { region_id: 77 }));
    story.ranges.split_at(b"m");
    story.ranges.split_at(b"m");
    let (left, right) = (place(&story, "a").await, place(&story, "x").await);
    let error = told(&story, 1, context(&before), "x").await;
    let current = error.epoch_not_match.expect("it was split").current_regions;
    assert_eq!(current, [right.region.clone(), left.region.clone()]);
    let error = told(&story, 1, context(&left), "x").await;
    let outside = kv::KeyNotInRegion { key: b"x".to_vec(), region_id: left.region.id };
    assert_eq!(error.key_not_in_region, Some(outside));
}

#[tokio::test]
async fn a_split_gives_new_ids_to_the_left() {
    let story = Story::new(2);
    let before = place(&story, "").await;
    let request = kv::SplitRegionRequest { context: None, split_keys: keys(&["p", "d"]) };
    let regions = story.ask("a", request).await.regions;
    let starts: Vec<&[u8]> = regions.iter().map(|region| &region.start_key[..]).collect();
    assert_eq!(starts, [&b""[..], b"d", b"p"]);
    assert_eq!(
        regions.iter().map(|region| region.id).collect::<Vec<_>>(),
        [2, 3, before.region.id]
    );
    let versions = regions.iter().filter_map(|region| region.region_epoch).map(|e| e.version);
    assert_eq!(versions.collect::<Vec<_>>(), [3, 3, 3]);
    let all: Vec<kv::Region> = story.ranges.regions().into_iter().map(|p| p.region).collect();
    assert_eq!(all, regions);
    // Where a region begins it is not split.
    let here = place(&story, "e").await;
    let mut request = kv::SplitRegionRequest { context: None, split_keys: keys(&["d"]) };
    request.place_at(context(&here));
    let Ok(Response::SplitRegion(answer)) = story.gateway.ask(1, request.wrapped()).await else {
        panic!("the store answers");
    };
    assert!(answer.region_error.expect("it is refused").key_not_in_region.is_some());
}

#[tokio::test]
async fn a_transaction_goes_on_over_a_split() {
    let story = Story::new(2);
    let a = story.begin("a");
    let puts = [mutation(Op::Put, "a", "1"), mutation(Op::Put, "x", "1")];
    assert_eq!(a.prewrite(&puts).await, "");
    let before = place(&story, "a").await;
    story.ranges.split_at(b"m");
    story.ranges.move_leader(b"x", 2);
    // Whoever commits as it was is told, and nothing has happened.
    let commit_version = story.ranges.timestamp();
    let mut request = kv::CommitRequest {
        context: None,
        start_version: a.start_ts,
        keys: keys(&["a", "x"]),
        commit_version,
    };
    request.place_at(context(&before));
    let Ok(Response::Commit(answer)) = story.gateway.ask(1, request.wrapped()).await else {
        panic!("the store answers");
    };
    assert!(answer.region_error.expect("it has moved").not_leader.is_some());
    assert_eq!(story.locked(), ["a", "x"]);
    assert_eq!(a.commit_at(&["a"], commit_version).await, "");
    // All locks of a region are those of this region.
    assert_eq!(story.resolve(&a, commit_version, &[]).await, "");
    assert_eq!(story.locked(), ["x"]);
    assert_eq!(a.commit_at(&["x"], commit_version).await, "");
    assert_eq!(story.get_at("x", commit_version).await, "1");
}

#[tokio::test]
async fn a_store_that_is_down_has_lost_nothing() {
    let story = Story::new(3);
    let a = story.begin("x");
    assert_eq!(a.put("x", "1").await, "");
    story.ranges.stop_store(1, false);
    let here = place(&story, "x").await;
    assert_eq!(here.leader.map(|leader| leader.store_id), Some(1), "the driver does not know");
    let version = story.ranges.timestamp();
    let mut request = kv::GetRequest { context: None, key: b"x".to_vec(), version };
    request.place_at(context(&here));
    assert!(story.gateway.ask(1, request.wrapped()).await.is_err());
    let error = told(&story, 2, at_store(2, &here), "x").await;
    assert_eq!(error.not_leader.expect("it is not").leader, None);
    story.ranges.fail_over(1);
    let here = place(&story, "x").await;
    assert_eq!(here.leader.map(|leader| leader.store_id), Some(2));
    assert_eq!(a.commit(&["x"]).await, "");
    story.ranges.stop_store(2, true);
    assert_eq!(place(&story, "x").await.leader.map(|leader| leader.store_id), Some(3));
    assert_eq!(story.get("x").await, "1");
    story.ranges.start_store(1);
    story.ranges.move_leader(b"x", 1);
    assert_eq!(story.get("x").await, "1");
}

#[tokio::test(start_paused = true)]
async fn who_waits_at_a_store_that_goes_down_is_not_answered() {
    let story = Story::new(2);
    let a = story.begin("x").refreshed();
    assert!(a.lock(&["x"]).await.is_ok());
    let b = story.begin("x").refreshed();
    let here = place(&story, "x").await;
    let mut request = b.locking(&["x"], 900);
    request.place_at(context(&here));
    let stop = async { story.ranges.stop_store(1, true) };
    let (answer, ()) = tokio::join!(story.gateway.ask(1, request.wrapped()), stop);
    assert!(answer.is_err());
    // The lock was replicated.
    assert_eq!(b.lock(&["x"]).await, Err("locked"));
}

#[tokio::test]
async fn a_new_leader_commits_later_than_what_the_old_one_was_read_at() {
    let story = Story::new(2);
    let a = story.begin("x");
    let reader = story.ranges.timestamp();
    assert_eq!(story.get_at("x", reader).await, "");
    story.ranges.move_leader(b"x", 2);
    let mut request = a.prewriting(&[mutation(Op::Put, "x", "1")]);
    request.try_one_pc = true;
    assert!(a.send(request).await.one_pc_commit_ts > reader);
}
