//! Runs and their merge against sorting everything at once.

use std::sync::Arc;

use proptest::prelude::*;

use super::merge::Merge;
use super::run::Collector;
use crate::memory::Budget;

/// Keys around the length of a head, with zero bytes, and long ones that share their beginnings.
fn keys() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(0..2_u8, 0..20),
        (0..300_u64).prop_map(|n| [&[1], &n.to_be_bytes()[..]].concat()),
        (10..60_usize, 0..9_u8).prop_map(|(len, end)| [vec![b'k'; len], vec![end]].concat()),
        (0..3_u8, 100..300_usize).prop_map(|(letter, len)| vec![letter; len]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 200 }))]

    #[test]
    fn merged_runs_are_all_entries_in_order(
        keys in prop::collection::vec(keys(), if cfg!(miri) { 0..30_usize } else { 0..900 }),
        first_rid in prop_oneof![Just(0), Just(250), Just(65_400), Just((1_u64 << 45) - 1000)],
        collectors in 1..4_usize,
    ) {
        // Equal keys have NULLs alike.
        let has_null = |key: &[u8]| key.first() == Some(&0);
        let budget = Arc::new(Budget::new(1 << 30));
        let mut busy: Vec<_> = (0..collectors).map(|_| Collector::new(&budget)).collect();
        let (mut runs, mut wanted) = (Vec::new(), Vec::new());
        for (rid, key) in (first_rid..).zip(keys) {
            let collector = &mut busy[rid as usize % collectors];
            collector.push(&key, has_null(&key), rid).unwrap();
            if collector.is_full() {
                runs.push(collector.take_run().unwrap());
            }
            wanted.push((key, rid));
        }
        for mut collector in busy.into_iter().filter(|collector| !collector.is_empty()) {
            runs.push(collector.take_run().unwrap());
        }
        wanted.sort();
        let (mut merge, mut got) = (Merge::new(runs), Vec::new());
        while let Some(run) = merge.peek() {
            assert_eq!(run.has_null, has_null(&run.key));
            got.push((run.key.clone(), run.rid));
            merge.advance();
        }
        assert_eq!(got, wanted);
        assert_eq!(budget.used_bytes(), 0, "what was read is given back");
    }
}

#[test]
fn a_collector_past_the_limit_is_refused_and_gives_everything_back() {
    let budget = Arc::new(Budget::new(40_000));
    let mut collector = Collector::new(&budget);
    let long = vec![7; 1000];
    let refused = (0..64).map(|n| collector.push(&long, false, n)).find(Result::is_err);
    assert!(refused.is_some(), "64 keys of 1,000 bytes are past the limit");
    drop(collector);
    assert_eq!(budget.used_bytes(), 0);
}
