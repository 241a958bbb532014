//! The stores of tables on disk, each through the same trait: load, reads by a key and ranges, on one thread.
//!
//! ```text
//! cargo bench -p froglet-disk --bench stores -- [--rows 4000000] [--rounds 3] [--dir DIR]
//! ```
//! With `--features rocksdb` RocksDB is beside lsm-tree, and every figure has its ratio; docs/disk.md says how that is built.
//! A row is a key of 12 bytes and a value of 220, half of them random. Rows are put in order, then a fifth of them again
//! in none; files are compacted until there is nothing to do. Rounds of the stores take turns; the median counts. Reads
//! are measured with a cache for everything, and of a tenth of the rows: with the files in the system's page cache, and
//! without (evicted before each round, which reads no more than a twentieth of them; `disk` is what the system has read).
//! `cpu` is the time of the reading thread on a core. What DIR has from an earlier run is read again.
//! Writes its tables as JSON to the file that `FROGLET_BENCH_JSON` names.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[cfg(feature = "rocksdb")]
use froglet_disk::stores::RocksStore;
use froglet_disk::stores::{LsmStore, SlowReads, Store, Tree};
use serde_json::json;

const VALUE_BYTES: usize = 220;
const ROW_BYTES: u64 = 12 + VALUE_BYTES as u64;
/// What gathers in memory before it is written.
const GATHER_BYTES: u64 = 32 << 20;
const RANGE_KEYS: u64 = 100;
const PAUSE: Duration = Duration::from_millis(5);

/// One of the stores: its name, and how it is opened with a cache of so many bytes.
type Contender = (&'static str, fn(&Path, u64) -> Box<dyn Store>);

const CONTENDERS: &[Contender] = &[
    ("lsm-tree", |dir, cache| Box::new(LsmStore::open(dir, cache, reads()).expect("it opens"))),
    #[cfg(feature = "rocksdb")]
    ("RocksDB", |dir, cache| Box::new(RocksStore::open(dir, cache, reads()).expect("it opens"))),
];

fn reads() -> Arc<SlowReads> {
    SlowReads::new(|work| work(), Duration::ZERO)
}

/// Numbers that follow from the first one (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn key(n: u64) -> [u8; 12] {
    let mut key = [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    key[4..].copy_from_slice(&n.to_be_bytes());
    key
}

fn value(random: &mut Random) -> [u8; VALUE_BYTES] {
    let mut value = [b'x'; VALUE_BYTES];
    for part in value[..VALUE_BYTES / 2].chunks_mut(8) {
        part.copy_from_slice(&random.next().to_be_bytes()[..part.len()]);
    }
    value
}

/// Puts some rows as an engine does: files are written, and compacted, on threads of their own. Rows a second.
fn put(store: &dyn Store, rows: impl Iterator<Item = u64>, random: &mut Random) -> f64 {
    let (begun, done) = (Instant::now(), AtomicBool::new(false));
    let mut count = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                if store.wants_flush(GATHER_BYTES) {
                    store.rotate();
                    store.flush().expect("it is written");
                } else {
                    std::thread::sleep(PAUSE);
                }
            }
        });
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                if !store.compact().expect("it is compacted") {
                    std::thread::sleep(PAUSE);
                }
            }
        });
        for n in rows {
            store.put(Tree::Rows, &key(n), &value(random));
            count += 1;
            while store.memory_bytes() > 3 * GATHER_BYTES || store.is_crowded() {
                std::thread::sleep(PAUSE);
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    store.rotate();
    store.flush().expect("it is written");
    count as f64 / begun.elapsed().as_secs_f64()
}

/// What a round took.
#[derive(Clone, Copy)]
struct Round {
    per_second: f64,
    p50_us: f64,
    p99_us: f64,
    /// Of one read.
    cpu_us: f64,
    disk_bytes: f64,
    /// Blocks that were not in the store's cache.
    misses: f64,
}

/// Time of this thread on a core, in nanoseconds.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

/// Bytes that this process has read from disks.
fn disk_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("read_bytes: "));
    line.and_then(|bytes| bytes.parse().ok()).unwrap_or(0)
}

fn measure(store: &dyn Store, count: u64, mut read: impl FnMut()) -> Round {
    let misses = || store.figures().cache_misses.unwrap_or(0);
    let before = (cpu_ns(), disk_bytes(), misses());
    let mut took = Vec::with_capacity(count as usize);
    let begun = Instant::now();
    for _ in 0..count {
        let one = Instant::now();
        read();
        took.push(one.elapsed());
    }
    let per_second = count as f64 / begun.elapsed().as_secs_f64();
    let after = (cpu_ns(), disk_bytes(), misses());
    took.sort_unstable();
    let at = |share: f64| took[(count as f64 * share) as usize].as_secs_f64() * 1e6;
    let each = |from: u64, to: u64| (to - from) as f64 / count as f64;
    Round {
        per_second,
        p50_us: at(0.5),
        p99_us: at(0.99),
        cpu_us: each(before.0, after.0) / 1e3,
        disk_bytes: each(before.1, after.1),
        misses: each(before.2, after.2),
    }
}

fn points(store: &dyn Store, rows: u64, count: u64, random: &mut Random) -> Round {
    measure(store, count, || {
        let found = store.get(Tree::Rows, &key(random.next() % rows)).expect("it is read");
        assert_eq!(found.map(|value| value.len()), Some(VALUE_BYTES));
    })
}

fn ranges(store: &dyn Store, rows: u64, count: u64, random: &mut Random) -> Round {
    measure(store, count, || {
        let (from, mut found) = (random.next() % (rows - RANGE_KEYS), 0);
        let mut visit = |_: &[u8], value: &[u8]| {
            black_box(value);
            found += 1;
            true
        };
        store
            .range(Tree::Rows, &key(from), &key(from + RANGE_KEYS), false, &mut visit)
            .expect("it is read");
        assert_eq!(found, RANGE_KEYS);
    })
}

/// Puts the files of a directory out of the page cache.
fn evict(dir: &Path) {
    for entry in std::fs::read_dir(dir).expect("a directory").flatten() {
        match entry.path().is_dir() {
            true => evict(&entry.path()),
            false => {
                let Ok(file) = std::fs::File::open(entry.path()) else { continue };
                let _ = file.sync_all();
                let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
            }
        }
    }
}

fn read_files(dir: &Path) {
    for entry in std::fs::read_dir(dir).expect("a directory").flatten() {
        match entry.path().is_dir() {
            true => read_files(&entry.path()),
            false => drop(black_box(std::fs::read(entry.path()))),
        }
    }
}

fn median(rounds: &[Round], of: fn(&Round) -> f64) -> f64 {
    let mut all: Vec<f64> = rounds.iter().map(of).collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

struct Bench {
    rows: u64,
    rounds: usize,
    dir: PathBuf,
    lines: Vec<serde_json::Value>,
}

impl Bench {
    fn dir_of(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Makes what is read, unless it is there already.
    fn load(&mut self) {
        println!(
            "\n{:10} {:>12} {:>12} {:>9} {:>8}",
            "", "load rows/s", "again rows/s", "files MB", "written"
        );
        let mut rates = Vec::new();
        for (name, open) in CONTENDERS {
            let (dir, made) = (self.dir_of(name), self.dir_of(name).join("made"));
            if std::fs::read_to_string(&made).is_ok_and(|rows| rows == self.rows.to_string()) {
                println!("{name:10} is there from an earlier run");
                continue;
            }
            let _ = std::fs::remove_dir_all(&dir);
            std::fs::create_dir_all(&dir).expect("a directory");
            let store = open(&dir, 64 << 20);
            let mut random = Random(7);
            let loaded = put(&*store, 0..self.rows, &mut random);
            let mut which = Random(11);
            let again = (0..self.rows / 5).map(|_| which.next() % self.rows);
            let again = put(&*store, again, &mut random);
            while store.compact().expect("it is compacted") {}
            let figures = store.figures();
            let file_mb = figures.file_bytes.unwrap_or(0) as f64 / 1e6;
            // Bytes of files for each of a row that was put.
            let put_bytes = (self.rows + self.rows / 5) * ROW_BYTES;
            let written = figures.written_bytes.unwrap_or(0) as f64 / put_bytes as f64;
            println!("{name:10} {loaded:12.0} {again:12.0} {file_mb:9.0} {written:8.2}");
            self.lines.push(json!({"what": "load", "store": name, "rows_per_second": loaded,
                "again_per_second": again, "file_mb": file_mb, "write_amplification": written}));
            rates.push((loaded, again));
            std::fs::write(made, self.rows.to_string()).expect("a file");
        }
        if let [lsm, other] = rates[..] {
            println!("{:10} {:12.2} {:12.2}", "ratio", other.0 / lsm.0, other.1 / lsm.1);
        }
    }

    /// Point reads and ranges with a cache of so many bytes.
    fn read(&mut self, what: &str, cache_bytes: u64, counts: (u64, u64), cold: bool) {
        let stores: Vec<_> = CONTENDERS
            .iter()
            .map(|(name, open)| (*name, self.dir_of(name), open(&self.dir_of(name), cache_bytes)))
            .collect();
        let rows = self.rows;
        for (_, dir, store) in &stores {
            read_files(dir);
            // What is warm is warm by what is measured.
            let mut random = Random(3);
            if cache_bytes > rows * ROW_BYTES {
                store
                    .range(Tree::Rows, &key(0), &key(rows), false, &mut |_, _| true)
                    .expect("read");
            } else {
                points(&**store, rows, cache_bytes / ROW_BYTES / 4, &mut random);
            }
            points(&**store, rows, 1_000, &mut random);
        }
        type Work = fn(&dyn Store, u64, u64, &mut Random) -> Round;
        let works: [(&str, Work, u64); 2] =
            [("point reads", points, counts.0), ("ranges of 100", ranges, counts.1)];
        for (work, run, count) in works {
            let mut found = vec![Vec::new(); stores.len()];
            for round in 0..self.rounds {
                for (at, (_, dir, store)) in stores.iter().enumerate() {
                    if cold {
                        evict(dir);
                    }
                    let mut random = Random(1_000 + round as u64);
                    found[at].push(run(&**store, rows, count, &mut random));
                }
            }
            println!("\n{work}, {what}");
            println!(
                "{:10} {:>10} {:>9} {:>9} {:>9} {:>12} {:>8}",
                "", "per second", "p50 us", "p99 us", "cpu us", "disk bytes", "misses"
            );
            let of: [fn(&Round) -> f64; 6] = [
                |round| round.per_second,
                |round| round.p50_us,
                |round| round.p99_us,
                |round| round.cpu_us,
                |round| round.disk_bytes,
                |round| round.misses,
            ];
            let medians: Vec<[f64; 6]> =
                found.iter().map(|rounds| of.map(|of| median(rounds, of))).collect();
            for ((name, ..), medians) in stores.iter().zip(&medians) {
                let [rate, p50, p99, cpu, disk, misses] = medians;
                println!(
                    "{name:10} {rate:10.0} {p50:9.2} {p99:9.2} {cpu:9.2} {disk:12.0} {misses:8.2}"
                );
                self.lines.push(json!({"what": work, "cache": what, "store": name, "per_second": rate,
                    "p50_us": p50, "p99_us": p99, "cpu_us": cpu, "disk_bytes": disk, "misses": misses}));
            }
            if let [lsm, other] = &medians[..] {
                println!(
                    "{:10} {:10.2} {:9.2} {:9.2} {:9.2}",
                    "ratio",
                    other[0] / lsm[0],
                    lsm[1] / other[1],
                    lsm[2] / other[2],
                    lsm[3] / other[3]
                );
            }
        }
    }
}

fn argument<T: std::str::FromStr>(name: &str) -> Option<T> {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    arguments.nth(1)?.parse().ok()
}

fn main() {
    let made = tempfile::tempdir().expect("a directory");
    let mut bench = Bench {
        rows: argument("--rows").unwrap_or(4_000_000),
        rounds: argument("--rounds").unwrap_or(3),
        dir: argument("--dir").unwrap_or_else(|| made.path().to_owned()),
        lines: Vec::new(),
    };
    let bytes = bench.rows * ROW_BYTES;
    println!(
        "{} rows, {} MB; ratios are times of lsm-tree by those of RocksDB",
        bench.rows,
        bytes / 1_000_000
    );
    bench.load();
    let (many, few) = (bench.rows / 20, bench.rows / 400);
    bench.read("cache for everything", 2 * bytes, (many, many / 10), false);
    bench.read("cache of a tenth, files in the page cache", bytes / 10, (many, many / 10), false);
    bench.read("cache of a tenth, files on the disk", bytes / 10, (few, few / 10), true);
    if let Ok(path) = std::env::var("FROGLET_BENCH_JSON") {
        let json = json!({ "rows": bench.rows, "rounds": bench.rounds, "lines": bench.lines });
        std::fs::write(&path, json.to_string()).expect("FROGLET_BENCH_JSON names a writable file");
    }
}
