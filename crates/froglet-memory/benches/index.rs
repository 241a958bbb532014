//! The ordered index beside `RwLock<BTreeMap>`: million operations per second, best of three runs.
//!
//! `cargo bench -p froglet-memory --bench index [-- ENTRIES]`. Prints a table, and writes it as JSON
//! to the file that `FROGLET_BENCH_JSON` names.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::ops::{Bound, ControlFlow};
use std::sync::RwLock;
use std::time::Instant;

use froglet_memory::index::{Direction, OrderedIndex};

const COLUMNS: [&str; 5] = ["insert", "get", "scan 100", "remove", "append"];

/// Makes the key of a number.
type KeyOf = fn(u64) -> Vec<u8>;

/// What both contenders can do.
trait Contender: Sync + Default {
    fn insert(&self, key: &[u8], rid: u64);
    fn get(&self, key: &[u8]) -> Option<u64>;
    fn scan(&self, from: &[u8], count: usize) -> u64;
    fn remove(&self, key: &[u8], rid: u64);
}

impl Contender for OrderedIndex {
    fn insert(&self, key: &[u8], rid: u64) {
        OrderedIndex::insert(self, key, rid);
    }

    fn get(&self, key: &[u8]) -> Option<u64> {
        let mut rids = smallvec::SmallVec::<[u64; 4]>::new();
        OrderedIndex::get(self, key, &mut rids);
        rids.first().copied()
    }

    fn scan(&self, from: &[u8], count: usize) -> u64 {
        let (mut sum, mut visited) = (0, 0);
        let upper = Bound::Unbounded;
        OrderedIndex::scan(
            self,
            Bound::Included(from),
            upper,
            Direction::Ascending,
            &mut |key, rid| {
                sum ^= rid ^ key.len() as u64;
                visited += 1;
                if visited == count { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            },
        );
        sum
    }

    fn remove(&self, key: &[u8], rid: u64) {
        OrderedIndex::remove(self, key, rid);
    }
}

impl Contender for RwLock<BTreeMap<Box<[u8]>, u64>> {
    fn insert(&self, key: &[u8], rid: u64) {
        self.write().expect("no writer panics").insert(key.into(), rid);
    }

    fn get(&self, key: &[u8]) -> Option<u64> {
        self.read().expect("no writer panics").get(key).copied()
    }

    fn scan(&self, from: &[u8], count: usize) -> u64 {
        let map = self.read().expect("no writer panics");
        let range = map.range::<[u8], _>((Bound::Included(from), Bound::Unbounded));
        range.take(count).fold(0, |sum, (key, rid)| sum ^ rid ^ key.len() as u64)
    }

    fn remove(&self, key: &[u8], _rid: u64) {
        self.write().expect("no writer panics").remove(key);
    }
}

/// A bijection that scatters numbers over all 64-bit values.
fn scatter(n: u64) -> u64 {
    let mut z = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 27)
}

/// Million calls per second of `work` on the numbers below `count`, dealt out to `threads` threads.
fn rate(threads: usize, count: usize, work: impl Fn(usize) + Sync) -> f64 {
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let work = &work;
            scope.spawn(move || (thread..count).step_by(threads).for_each(work));
        }
    });
    count as f64 / begin.elapsed().as_secs_f64() / 1e6
}

/// One run of all columns.
fn run<C: Contender>(key_of: KeyOf, count: usize, threads: usize) -> [f64; COLUMNS.len()] {
    let keys: Vec<_> = (0..count).map(|n| key_of(scatter(n as u64))).collect();
    let probes: Vec<_> =
        (0..count).map(|n| keys[scatter(!n as u64) as usize % count].clone()).collect();
    let ascending: Vec<_> = (0..count).map(|n| key_of(n as u64)).collect();
    let (index, queue) = (C::default(), C::default());
    [
        rate(threads, count, |n| index.insert(&keys[n], n as u64)),
        rate(threads, count, |n| assert!(black_box(index.get(&probes[n])).is_some())),
        rate(threads, count / 10, |n| {
            black_box(index.scan(&probes[n], 100));
        }),
        rate(threads, count, |n| index.remove(&keys[n], n as u64)),
        rate(threads, count, |n| queue.insert(&ascending[n], n as u64)),
    ]
}

fn best_of_three<C: Contender>(
    key_of: KeyOf,
    count: usize,
    threads: usize,
) -> [f64; COLUMNS.len()] {
    let runs: [_; 3] = std::array::from_fn(|_| run::<C>(key_of, count, threads));
    std::array::from_fn(|column| runs.iter().map(|run| run[column]).fold(0.0, f64::max))
}

fn commit() -> String {
    let output = std::process::Command::new("git").args(["rev-parse", "--short", "HEAD"]).output();
    output
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        .unwrap_or_default()
}

fn main() {
    let count = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(1_000_000);
    let key_kinds: [(&str, KeyOf); 2] = [
        ("8 bytes", |n| n.to_be_bytes().to_vec()),
        ("24 bytes", |n| format!("user{n:020}").into_bytes()),
    ];
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut tables = Vec::new();
    for (kind, key_of) in key_kinds {
        for threads in [1, 2] {
            println!("{count} keys of {kind}, {threads} threads: million operations per second");
            println!("{:18}{}", "", COLUMNS.map(|column| format!("{column:>10}")).concat());
            let rows = [
                ("OrderedIndex", best_of_three::<OrderedIndex>(key_of, count, threads)),
                (
                    "RwLock<BTreeMap>",
                    best_of_three::<RwLock<BTreeMap<_, _>>>(key_of, count, threads),
                ),
            ];
            for (name, rates) in rows {
                println!("{name:18}{}", rates.map(|rate| format!("{rate:10.2}")).concat());
                tables.push(serde_json::json!({
                    "keys": kind, "threads": threads, "contender": name,
                    "columns": COLUMNS, "million_per_second": rates,
                }));
            }
        }
    }
    if let Ok(path) = std::env::var("FROGLET_BENCH_JSON") {
        let json = serde_json::json!({ "commit": commit(), "cores": cores, "entries": count, "rows": tables });
        std::fs::write(&path, json.to_string()).expect("FROGLET_BENCH_JSON names a writable file");
    }
}
