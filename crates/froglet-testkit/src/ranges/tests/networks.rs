//! Timestamps, leases, safe points, and what can go wrong on the way.

use std::sync::Arc;
use std::time::Duration;

use froglet_cluster::network::{Ask, Network, Said};
use froglet_cluster::wire::kv::{self, RegionError};
use tokio::time::Instant;

use super::{Story, context};
use crate::ranges::{Fault, Faults, Gateway, Ranges, Whom};

const MS: Duration = Duration::from_millis(1);

#[tokio::test(start_paused = true)]
async fn timestamps_only_rise() {
    let ranges = Ranges::new(1);
    let (a, b) = (ranges.network("a"), ranges.network("b"));
    let first = a.timestamps(1).await.expect("the oracle answers");
    let tenth = b.timestamps(10).await.expect("the oracle answers");
    assert_eq!(tenth, first + 10);
    assert_eq!((a.timestamps_asked(), b.timestamps_asked()), (1, 10));
    let now = ranges.now_ms();
    ranges.advance(5);
    let next = a.timestamps(1).await.expect("the oracle answers");
    assert_eq!(next, ((now + 5) << 18) + 1);
    tokio::time::sleep(MS * 7).await;
    assert_eq!(ranges.now_ms(), now + 5, "the clock is the test's");
    ranges.let_clock_run();
    tokio::time::sleep(MS * 7).await;
    assert_eq!(ranges.now_ms(), now + 12);
}

#[tokio::test]
async fn what_is_said_goes_with_its_lease() {
    let ranges = Ranges::new(1);
    let network = ranges.network("a");
    let lease = network.grant_lease(10).await.expect("the driver answers");
    let other = network.grant_lease(1).await.expect("the driver answers");
    for (lease, key) in [(lease, "gateway/1"), (other, "gateway/2"), (lease, "else")] {
        assert!(network.say(lease, key.as_bytes(), b"here").await.expect("the driver answers"));
    }
    let said = async |prefix: &[u8]| -> Vec<String> {
        let said = network.said(prefix).await.expect("the driver answers");
        let key = |said: Said| String::from_utf8(said.key).expect("keys are text");
        said.into_iter().map(key).collect()
    };
    assert_eq!(said(b"gateway/").await, ["gateway/1", "gateway/2"]);
    ranges.advance(1001);
    assert_eq!(said(b"gateway/").await, ["gateway/1"]);
    assert!(!network.keep_lease(other).await.expect("the driver answers"));
    assert!(!network.say(other, b"gateway/2", b"late").await.expect("the driver answers"));
    ranges.advance(8000);
    assert!(network.keep_lease(lease).await.expect("the driver answers"));
    ranges.advance(10_000);
    assert_eq!(said(b"").await, ["else", "gateway/1"]);
    network.end_lease(lease).await.expect("the driver answers");
    assert!(said(b"").await.is_empty());
}

#[tokio::test]
async fn the_oldest_who_reads_decides_what_is_kept() {
    let ranges = Ranges::new(1);
    let network = ranges.network("a");
    let keep = async |who, ts, seconds| {
        network.keep_since(who, ts, seconds).await.expect("the driver answers")
    };
    assert_eq!(keep("a", 100, 60).await, 0, "nobody has said that anything may go");
    assert_eq!(keep("gc_worker", 1000, u32::MAX).await, 100);
    assert_eq!(keep("b", 150, 10).await, 100);
    assert_eq!(keep("a", 200, 60).await, 150);
    assert_eq!(keep("c", 50, 60).await, 150, "what is older may be gone: it is not kept");
    ranges.advance(10_001);
    assert_eq!(keep("a", 210, 60).await, 210);
    assert_eq!(keep("a", 0, 0).await, 1000);
    ranges.advance(u64::from(u32::MAX));
    assert_eq!(keep("b", 500, 60).await, 1000, "it is for ever");
    network.collect_before(90).await.expect("the driver answers");
    network.collect_before(80).await.expect("the driver answers");
    assert_eq!(ranges.safe_point(), 90);
}

/// How many of so many requests come through: of answers, and of what was done.
async fn come_through(gateway: &Arc<Gateway>, ranges: &Ranges, requests: u32) -> Vec<(bool, bool)> {
    let mut outcomes = Vec::new();
    for _ in 0..requests {
        let before = ranges.timestamp();
        let is_answered = gateway.timestamps(1).await.is_ok();
        let is_done = ranges.timestamp() > before + 1;
        outcomes.push((is_answered, is_done));
    }
    outcomes
}

#[tokio::test]
async fn faults_follow_from_their_seed() {
    let ranges = Ranges::new(1);
    let faults = Faults { seed: 7, lose_request: 0.2, lose_answer: 0.3, ..Faults::default() };
    let (a, b) = (ranges.network("a"), ranges.network("b"));
    let mut told = Vec::new();
    for gateway in [&a, &b] {
        gateway.set_faults(faults.clone());
        told.push(come_through(gateway, &ranges, 400).await);
    }
    assert_eq!(told[0], told[1]);
    let count = |outcome| told[0].iter().filter(|o| **o == outcome).count();
    assert_eq!(count((true, false)), 0, "what is answered was done");
    assert!((60..100).contains(&count((false, false))), "a fifth is lost on the way");
    assert!((95..145).contains(&count((false, true))), "three tenths are lost on the way back");
    a.set_faults(Faults { seed: 8, ..faults });
    assert_ne!(come_through(&a, &ranges, 400).await, told[0]);
    a.set_faults(Faults::default());
    assert!(come_through(&a, &ranges, 100).await.iter().all(|o| *o == (true, true)));
    assert_eq!(a.asked("timestamps"), 900);
}

#[tokio::test(start_paused = true)]
async fn faults_come_as_the_test_says() {
    let story = Story::new(1);
    let gateway = &story.gateway;
    let place = gateway.place_of(b"x").await.expect("the driver answers");
    let mut request = kv::GetRequest { context: None, key: b"x".to_vec(), version: 1 };
    request.place_at(context(&place));
    let busy =
        RegionError { server_is_busy: Some(kv::ServerIsBusy::default()), ..RegionError::default() };
    for fault in [Fault::Refuse(Box::new(busy.clone())), Fault::None, Fault::Delay(MS * 30)] {
        gateway.on_next("KvGet", fault);
    }
    let ask = async || {
        let begun = Instant::now();
        let answer = gateway.ask(1, request.wrapped()).await.expect("the store answers");
        let answer = kv::GetRequest::answer_of(answer).expect("of a read");
        (answer.region_error, begun.elapsed())
    };
    assert_eq!(ask().await, (Some(busy), Duration::ZERO));
    assert_eq!(ask().await, (None, Duration::ZERO));
    assert_eq!(ask().await, (None, MS * 30));
    assert_eq!(ask().await, (None, Duration::ZERO));
    assert_eq!(gateway.all_asked().get("KvGet"), Some(&4));
}

#[tokio::test]
async fn who_is_cut_off_reaches_nobody_and_loses_its_lease() {
    let ranges = Ranges::new(1);
    let (a, b) = (ranges.network("a"), ranges.network("b"));
    let lease = a.grant_lease(3).await.expect("the driver answers");
    assert!(a.say(lease, b"a", b"").await.expect("the driver answers"));
    a.cut_off(true);
    assert!(a.keep_lease(lease).await.is_err());
    assert!(a.place_of(b"x").await.is_err());
    assert_eq!(b.said(b"a").await.expect("b is not cut off").len(), 1);
    ranges.advance(3001);
    assert_eq!(b.said(b"a").await.expect("b is not cut off"), []);
    a.cut_off(false);
    assert!(!a.keep_lease(lease).await.expect("the driver answers"));
}

#[tokio::test(start_paused = true)]
async fn ways_take_their_time() {
    let story = Story::new(2);
    story.ranges.split_at(b"m");
    story.ranges.move_leader(b"x", 2);
    let delay = |from: &str, to: Whom| match (from, to) {
        ("a", Whom::Store(store)) => MS * 10 * u32::try_from(store).expect("few stores"),
        _ => MS,
    };
    story.gateway.set_delay(Some(Box::new(delay)));
    // There and back, to the driver for the place and then to the store.
    for (key, ms) in [("a", 22), ("x", 42)] {
        let begun = Instant::now();
        assert_eq!(story.get(key).await, "");
        assert_eq!(begun.elapsed(), MS * ms);
    }
    let b = story.ranges.network("b");
    b.set_delay(Some(Box::new(delay)));
    let begun = Instant::now();
    b.timestamps(1).await.expect("the driver answers");
    assert_eq!(begun.elapsed(), MS * 2);
}
