//! What an undamaged log does. Damage and crashes have files of their own.

mod chain;
mod crash;
mod damage;
mod room;

use super::*;
use froglet_engine::env::{Env, Fault, FaultKind, FaultPoint, MemEnv, RealEnv};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

/// Records in the order of the log, each with its end.
type Records = Vec<(Lsn, Vec<u8>)>;

fn manual(segment_bytes: u64) -> LogOptions {
    LogOptions {
        segment_bytes,
        zeros_ahead_bytes: 512,
        flusher: Flusher::Manual,
        ..LogOptions::default()
    }
}

fn open(
    env: &Arc<dyn Env>,
    dir: &Path,
    options: LogOptions,
    from: Lsn,
) -> Result<(Log, Records), LogError> {
    let mut records = Vec::new();
    let log = Log::open(env.clone(), dir, options, from, &mut |lsn, payload| {
        records.push((lsn, payload.to_vec()));
        Ok(())
    })?;
    Ok((log, records))
}

fn sim() -> (Arc<dyn Env>, MemEnv, &'static Path) {
    let env = MemEnv::new(1);
    (Arc::new(env.clone()), env, Path::new("/sim/log"))
}

#[test]
fn records_come_back_in_order_with_their_ends() {
    let temporary = tempfile::tempdir().unwrap();
    let real: Arc<dyn Env> = Arc::new(RealEnv::new());
    let (simulated, _, sim_dir) = sim();
    for (env, dir) in [(real, temporary.path().join("log")), (simulated, sim_dir.to_owned())] {
        let mut expected = Records::new();
        for life in 0..3 {
            let (log, records) = open(&env, &dir, LogOptions::default(), Lsn(0)).unwrap();
            assert_eq!(records, expected);
            for length in [1, 7, 8, 9, 1000, 100_000] {
                let payload = vec![life; length];
                let end =
                    log.append(&[&payload[..length / 2], &[], &payload[length / 2..]]).unwrap();
                assert_eq!(end, log.appended());
                expected.push((end, payload));
            }
            log.flush().unwrap();
            assert_eq!(log.durable(), log.appended());
        }
        let (_, records) = open(&env, &dir, LogOptions::default(), expected[10].0).unwrap();
        assert_eq!(records, expected[11..], "replay from a position");
    }
}

#[test]
fn a_log_of_many_segments_loses_only_those_before_the_checkpoint() {
    let (env, mem, dir) = sim();
    let (log, _) = open(&env, dir, manual(1024), Lsn(0)).unwrap();
    let mut ends = Vec::new();
    for record in 0..100u8 {
        ends.push(log.append(&[&[record; 300]]).unwrap());
        if record % 3 == 0 {
            log.flush().unwrap();
        }
    }
    let _ = log.append(&[&[100; 5000]]).unwrap();
    let _ = log.append(&[&[101; 10]]).unwrap();
    log.flush().unwrap();
    let segments = env.list(dir).unwrap().len();
    assert!(segments > 20);
    let on_disk = |env: &Arc<dyn Env>| -> u64 {
        let names = env.list(dir).unwrap();
        names.iter().map(|name| mem.contents(&dir.join(name)).unwrap().len() as u64).sum()
    };
    assert_eq!(log.size_bytes(), on_disk(&env));
    log.truncate_before(Lsn(0)).unwrap();
    assert_eq!(env.list(dir).unwrap().len(), segments);
    log.truncate_before(ends[60]).unwrap();
    assert!(env.list(dir).unwrap().len() < segments / 2);
    assert_eq!(log.size_bytes(), on_disk(&env));
    drop(log);

    let (log, records) = open(&env, dir, manual(1024), ends[60]).unwrap();
    assert_eq!(records.len(), 102 - 61);
    assert_eq!(records[0], (ends[61], vec![61; 300]));
    log.truncate_before(log.appended()).unwrap();
    assert_eq!(env.list(dir).unwrap().len(), 1, "the current segment stays");
    drop(log);
    let error = open(&env, dir, manual(1024), ends[60]).unwrap_err();
    assert!(matches!(error, LogError::MissingStart { oldest: Some(_), .. }), "{error}");
}

#[test]
fn a_wrong_start_or_database_is_refused() {
    let (env, mem, dir) = sim();
    let (log, _) =
        open(&env, dir, LogOptions { database_id: Some(5), ..manual(1024) }, Lsn(0)).unwrap();
    assert_eq!(log.database_id(), 5);
    let first = log.append(&[b"one"]).unwrap();
    let second = log.append(&[b"two"]).unwrap();
    drop(log);
    let error = open(&env, dir, manual(1024), Lsn(first.0 + 8)).unwrap_err();
    assert!(matches!(error, LogError::NotABoundary { end, .. } if end == second), "{error}");
    let error = open(&env, dir, manual(1024), Lsn(1 << 40)).unwrap_err();
    assert!(matches!(error, LogError::EndsEarly { .. }), "{error}");
    let error =
        open(&env, dir, LogOptions { database_id: Some(6), ..manual(1024) }, Lsn(0)).unwrap_err();
    assert!(matches!(error, LogError::OtherDatabase { found: 5, expected: 6, .. }), "{error}");
    let error = open(&env, Path::new("/sim/other"), manual(1024), first).unwrap_err();
    assert!(matches!(error, LogError::MissingStart { oldest: None, .. }), "{error}");
    let refused = Log::open(env.clone(), dir, manual(1024), Lsn(0), &mut |lsn, _| {
        let source: Box<dyn Error + Send + Sync> = "no such table".into();
        Err(LogError::Replay { lsn, source: source.into() })
    });
    let error = refused.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("the log record that ends at LSN {first} could not be replayed: no such table")
    );
    mem.overwrite(&dir.join("notes.txt"), b"mine".to_vec());
    mem.overwrite(&dir.join("00000000000000aa.frlog.tmp"), b"unfinished".to_vec());
    assert_eq!(open(&env, dir, manual(1024), first).unwrap().1, [(second, b"two".to_vec())]);
    assert_eq!(env.list(dir).unwrap(), ["0000000000000000.frlog", "notes.txt"]);
}

#[test]
fn impossible_records_and_waits_are_refused() {
    let (env, _, dir) = sim();
    let (log, _) = open(&env, dir, manual(1024), Lsn(0)).unwrap();
    assert!(matches!(log.append(&[]), Err(LogError::EmptyRecord)));
    assert!(matches!(log.wait_durable(Lsn(4711)), Err(LogError::NotAppended { .. })));
    let _ = log.append(&[b"last"]).unwrap();
    log.close().unwrap();
    log.close().unwrap();
    log.flush().unwrap();
    assert!(matches!(log.append(&[b"late"]), Err(LogError::Closed)));
}

#[test]
fn appends_between_two_flushes_become_durable_together() {
    let (env, mem, dir) = sim();
    let (log, _) = open(&env, dir, manual(1 << 20), Lsn(0)).unwrap();
    let (told, verdicts) = mpsc::channel();
    let mut ends = Vec::new();
    for number in 0..5u8 {
        let end = log.append(&[&[number]]).unwrap();
        let told = told.clone();
        log.subscribe(end, Box::new(move |verdict| told.send((number, verdict.is_ok())).unwrap()));
        ends.push(end);
    }
    assert!(verdicts.try_recv().is_err());
    assert_eq!(log.durable(), Lsn(segment::HEADER_BYTES));
    log.wait_durable(ends[0]).unwrap();
    assert_eq!(
        verdicts.try_iter().collect::<Vec<_>>(),
        [0, 1, 2, 3, 4].map(|number| (number, true))
    );
    let _ = log.append(&[b"next"]).unwrap();
    log.flush().unwrap();
    let bytes = mem.contents(&dir.join("0000000000000000.frlog")).unwrap();
    let marks =
        bytes.chunks(8).filter(|word| word[..4] == segment::MARK_WORD.to_le_bytes()).count();
    assert_eq!(marks, 2, "two batches");
}

/// Waits for the flusher, or does its work if `alone`.
fn durably(log: &Log, end: Lsn, alone: bool) -> Result<(), LogError> {
    match alone && log.make_durable(end)? {
        true => Ok(()),
        false => log.wait_durable(end),
    }
}

#[test]
fn eight_threads_commit() {
    let temporary = tempfile::tempdir().unwrap();
    let env: Arc<dyn Env> = Arc::new(RealEnv::new());
    let (log, _) = open(&env, temporary.path(), LogOptions::default(), Lsn(0)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8u32 {
            let log = &log;
            scope.spawn(move || {
                for commit in 0..50u32 {
                    let end = log.append(&[&thread.to_le_bytes(), &commit.to_le_bytes()]).unwrap();
                    durably(log, end, thread.is_multiple_of(2)).unwrap();
                    assert!(log.durable() >= end);
                }
            });
        }
    });
    drop(log);
    let (_, records) = open(&env, temporary.path(), LogOptions::default(), Lsn(0)).unwrap();
    assert_eq!(records.len(), 400);
    for thread in 0..8u32 {
        let own = records.iter().filter(|(_, payload)| payload[..4] == thread.to_le_bytes());
        assert!(
            own.map(|(_, payload)| &payload[4..]).eq((0..50u32).map(u32::to_le_bytes)),
            "in order"
        );
    }
}

#[test]
fn without_waiters_the_interval_flushes_and_a_full_buffer_waits() {
    let (env, _, dir) = sim();
    let options =
        LogOptions { buffer_bytes: 1000, segment_bytes: 1 << 14, ..LogOptions::default() };
    let (log, _) = open(&env, dir, options, Lsn(0)).unwrap();
    let end = log.append(&[b"alone"]).unwrap();
    while log.durable() < end {
        std::thread::yield_now();
    }
    for _ in 0..200 {
        let _ = log.append(&[&[1; 400]]).unwrap();
    }
    let _ = log.append(&[&[2; 9000]]).unwrap();
    drop(log);
    let (_, records) = open(&env, dir, LogOptions::default(), Lsn(0)).unwrap();
    assert_eq!(records.len(), 202);
}

#[test]
fn a_callback_may_panic_or_drop_the_log() {
    let (env, _, dir) = sim();
    let (log, _) = open(&env, dir, LogOptions::default(), Lsn(0)).unwrap();
    let log = Arc::new(log);
    let end = log.append(&[b"x"]).unwrap();
    log.subscribe(end, Box::new(|_| std::panic::panic_any("a panic that the test wants")));
    log.wait_durable(end).unwrap();
    let here = std::thread::current().id();
    let (release, wait) = loop {
        let end = log.append(&[b"y"]).unwrap();
        let (dropped, wait) = mpsc::channel();
        let last = log.clone();
        let (release, released) = mpsc::channel::<()>();
        log.subscribe(
            end,
            Box::new(move |_| {
                let called_at_once = std::thread::current().id() == here;
                if !called_at_once {
                    released.recv().unwrap();
                }
                drop(last);
                dropped.send(called_at_once).unwrap();
            }),
        );
        // Durable before the subscription: once more.
        if wait.try_recv() != Ok(true) {
            break (release, wait);
        }
    };
    drop(log);
    release.send(()).unwrap();
    assert!(!wait.recv().unwrap());
}

#[test]
fn a_full_disk_says_so_to_everybody_once_and_for_all() {
    let (env, mem, dir) = sim();
    let calls = Arc::new(AtomicUsize::new(0));
    let seen = calls.clone();
    let on_failure: FailureHook = Box::new(move |error| {
        assert!(matches!(error, LogError::DiskFull { .. }));
        seen.fetch_add(1, Ordering::Relaxed);
    });
    let (log, _) = open(
        &env,
        dir,
        LogOptions { on_failure: Some(on_failure), ..LogOptions::default() },
        Lsn(0),
    )
    .unwrap();
    let safe = log.append(&[b"safe"]).unwrap();
    log.wait_durable(safe).unwrap();
    mem.inject(Fault { point: FaultPoint::Write, nth: 1, kind: FaultKind::DiskFull });
    let lost = log.append(&[b"lost"]).unwrap();
    let error = log.wait_durable(lost).unwrap_err();
    assert!(
        error.to_string().starts_with("the disk is full: /sim/log/0000000000000000.frlog needs "),
        "{error}"
    );
    assert!(matches!(log.append(&[b"later"]), Err(LogError::DiskFull { .. })));
    assert!(matches!(log.wait_durable(lost), Err(LogError::DiskFull { .. })));
    assert!(matches!(log.close(), Err(LogError::DiskFull { .. })));
    log.wait_durable(safe).unwrap();
    assert_eq!((calls.load(Ordering::Relaxed), log.durable()), (1, safe));
}

#[test]
fn a_disk_that_is_full_at_a_new_segment_says_so_too() {
    let (env, mem, dir) = sim();
    let (log, _) = open(&env, dir, manual(512), Lsn(0)).unwrap();
    let _ = log.append(&[&[1; 600]]).unwrap();
    log.flush().unwrap();
    mem.inject(Fault { point: FaultPoint::Write, nth: 1, kind: FaultKind::DiskFull });
    let _ = log.append(&[&[2; 600]]).unwrap();
    let error = log.flush().unwrap_err();
    assert!(matches!(error, LogError::DiskFull { needed_bytes: 680, .. }), "{error}");
    drop(log);
    let (_, records) = open(&env, dir, manual(512), Lsn(0)).unwrap();
    assert_eq!(records.len(), 1);
    assert_eq!(env.list(dir).unwrap().len(), 1, "the unfinished segment is gone");
}
