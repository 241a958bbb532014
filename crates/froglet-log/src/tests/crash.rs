//! Crashes, kills and failing disks under hundreds of seeds, and what must hold after each:
//! everything reported durable is there, and what is there is a prefix of what was appended.

use super::*;
use std::sync::atomic::AtomicU64;

/// What the log should hold.
#[derive(Default)]
struct Model {
    /// Everything appended since the checkpoint.
    appended: Records,
    /// How many of these were reported durable.
    durable: usize,
    checkpoint: Lsn,
}

impl Model {
    fn check(&mut self, replayed: Records, seed: u64) {
        assert!(replayed.len() >= self.durable, "seed {seed}: a durable record is lost");
        assert!(replayed.len() <= self.appended.len(), "seed {seed}: a record from nowhere");
        assert_eq!(replayed, self.appended[..replayed.len()], "seed {seed}: not a prefix");
        // What an open has replayed may be relied on from then on.
        self.durable = replayed.len();
        self.appended = replayed;
    }
}

#[derive(Default)]
struct Seen {
    failed_opens: usize,
    failed_flushes: usize,
    lost: usize,
}

#[test]
fn hundreds_of_crashes() {
    let mut seen = Seen::default();
    for seed in 0..800 {
        live_and_die(seed, &mut seen);
    }
    assert!(seen.failed_opens > 100, "crashes hit opens: {}", seen.failed_opens);
    assert!(seen.failed_flushes > 100, "crashes hit flushes: {}", seen.failed_flushes);
    assert!(seen.lost > 100, "crashes lose unsynced records: {}", seen.lost);
}

/// Several lives of one log, each with a random end.
fn live_and_die(seed: u64, seen: &mut Seen) {
    let mem = MemEnv::new(seed);
    let env: Arc<dyn Env> = Arc::new(mem.clone());
    let dice = MemEnv::new(!seed);
    let below = |bound: u64| dice.random_u64() % bound;
    let mut model = Model::default();
    for _life in 0..6 {
        match below(4) {
            0 => mem.inject(Fault {
                point: FaultPoint::Change,
                nth: 1 + below(40),
                kind: FaultKind::Io,
            }),
            1 => mem.inject(Fault {
                point: FaultPoint::Sync,
                nth: 1 + below(12),
                kind: FaultKind::Io,
            }),
            2 => mem.inject(Fault {
                point: FaultPoint::Write,
                nth: 1 + below(12),
                kind: FaultKind::DiskFull,
            }),
            _ => {}
        }
        let options = LogOptions { zeros_ahead_bytes: 1024 * below(2), ..manual(2048) };
        let (log, replayed) = match open(&env, Path::new("/sim/log"), options, model.checkpoint) {
            Ok(opened) => opened,
            Err(LogError::Env(_) | LogError::DiskFull { .. }) => {
                seen.failed_opens += 1;
                mem.crash();
                continue;
            }
            Err(error) => panic!("seed {seed}: {error}"),
        };
        seen.lost += model.appended.len() - replayed.len().min(model.appended.len());
        model.check(replayed, seed);
        work(&log, &mut model, &below, seen);
        match below(3) {
            0 => drop(log),
            // Killed: the page cache survives the process.
            1 => std::mem::forget(log),
            _ => {
                mem.crash();
                drop(log);
            }
        }
        if below(2) == 0 {
            mem.crash();
        }
    }
}

fn work(log: &Log, model: &mut Model, below: &dyn Fn(u64) -> u64, seen: &mut Seen) {
    for _ in 0..below(40) {
        match below(10) {
            0..6 => {
                // Few different lengths, so that what a cut left behind would fit what is new.
                let length = [1, 9, 17, 1 + below(300), 1 + below(5000)][(below(13) / 3) as usize];
                let payload = vec![below(256) as u8; length as usize];
                let Ok(end) = log.append(&[&payload]) else {
                    return;
                };
                model.appended.push((end, payload));
            }
            6..9 => {
                let flushed = log.flush();
                let durable = log.durable();
                model.durable = model.appended.iter().filter(|(end, _)| *end <= durable).count();
                if flushed.is_err() {
                    seen.failed_flushes += 1;
                    assert!(log.append(&[b"never"]).is_err(), "a failed log takes nothing");
                    return;
                }
                assert_eq!(model.durable, model.appended.len());
            }
            _ => {
                if model.durable > 0 {
                    let covered = 1 + below(model.durable as u64) as usize;
                    model.checkpoint = model.appended[covered - 1].0;
                    model.appended.drain(..covered);
                    model.durable -= covered;
                }
                if log.truncate_before(model.checkpoint).is_err() {
                    return;
                }
            }
        }
    }
}

#[test]
fn threads_are_never_told_of_a_commit_that_a_failure_takes() {
    for nth in 1..60 {
        let mem = MemEnv::new(nth);
        let env: Arc<dyn Env> = Arc::new(mem.clone());
        let dir = Path::new("/sim/log");
        let failures = Arc::new(AtomicU64::new(0));
        let seen = failures.clone();
        let on_failure: FailureHook = Box::new(move |_| {
            seen.fetch_add(1, Ordering::Relaxed);
        });
        let options = LogOptions {
            segment_bytes: 1024,
            on_failure: Some(on_failure),
            ..LogOptions::default()
        };
        let (log, _) = open(&env, dir, options, Lsn(0)).unwrap();
        let point = if nth % 2 == 0 { FaultPoint::Sync } else { FaultPoint::Write };
        mem.inject(Fault { point, nth, kind: FaultKind::Io });
        let acknowledged = commit_until_failure(&log);
        assert_eq!(failures.load(Ordering::Relaxed), 1);
        mem.crash();
        drop(log);
        let (_, replayed) = open(&env, dir, LogOptions::default(), Lsn(0)).unwrap();
        for record in acknowledged {
            assert!(replayed.contains(&record), "fault {nth}: an acknowledged commit is lost");
        }
    }
}

/// Four threads commit, two of them flushing by themselves, until the log fails; returns what they
/// were told is durable.
fn commit_until_failure(log: &Log) -> Records {
    let commit = |thread: u8| {
        let mut acknowledged = Records::new();
        loop {
            let payload = vec![thread; 1 + acknowledged.len() % 50];
            let Ok(end) = log.append(&[&payload]) else {
                break;
            };
            if durably(log, end, thread.is_multiple_of(2)).is_err() {
                break;
            }
            acknowledged.push((end, payload));
        }
        acknowledged
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || commit(thread))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    })
}
