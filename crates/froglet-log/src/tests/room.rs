//! Room that is reserved: nobody waits who has it, and a full disk refuses it before anything is lost.

use super::*;
use std::time::Duration;

/// The verdict, when it is there.
fn room(reserving: &Reserving) -> Option<Result<Room, LogError>> {
    reserving.taken()
}

#[test]
fn who_has_room_appends_although_others_wait() {
    let (env, _, dir) = sim();
    let hour = Duration::from_secs(3600);
    let options = LogOptions { buffer_bytes: 4000, flush_interval: hour, ..LogOptions::default() };
    let (log, _) = open(&env, dir, options, Lsn(0)).unwrap();
    let first = log.reserve(1500).unwrap();
    first.wait_here();
    let first = room(&first).expect("it is known").expect("there is room");
    let second = log.reserve(1500).unwrap();
    second.wait_here();
    let second = room(&second).expect("it is known").expect("there is room");
    let third = log.reserve(1500).unwrap();
    assert!(room(&third).is_none(), "4,000 bytes are not enough for three");
    let end = log.append_in(first, &[&[1; 1500]]).unwrap();
    log.append_now(&[b"short"]).unwrap().waits_for_nothing("a test");
    drop(second);
    third.wait_here();
    let third = room(&third).expect("it is known").expect("the second one's");
    let last = log.append_in(third, &[&[3; 1500]]).unwrap();
    assert!(end < last);
    log.flush().unwrap();
    drop(log);
    assert_eq!(open(&env, dir, LogOptions::default(), Lsn(0)).unwrap().1.len(), 3);
}

#[test]
fn room_that_nobody_takes_any_more_is_given_on() {
    let (env, _, dir) = sim();
    let options = LogOptions { buffer_bytes: 2000, ..LogOptions::default() };
    let (log, _) = open(&env, dir, options, Lsn(0)).unwrap();
    let held = log.reserve(1500).unwrap();
    held.wait_here();
    let held = room(&held).expect("it is known").expect("there is room");
    let (gone, waits) = (log.reserve(1500).unwrap(), log.reserve(1500).unwrap());
    drop(gone);
    assert!(room(&waits).is_none());
    drop(held);
    waits.wait_here();
    assert!(room(&waits).expect("it is known").is_ok());
}

#[test]
fn a_full_disk_refuses_room_and_the_log_works_on() {
    let (env, mem, dir) = sim();
    let options = || LogOptions { zeros_ahead_bytes: 4096, ..LogOptions::default() };
    let (log, _) = open(&env, dir, options(), Lsn(0)).unwrap();
    let safe = log.append(&[b"safe"]).unwrap();
    log.wait_durable(safe).unwrap();
    mem.inject(Fault { point: FaultPoint::Write, nth: 1, kind: FaultKind::DiskFull });
    let refused = log.reserve(100_000).unwrap();
    refused.wait_here();
    let error = room(&refused).expect("it is known").expect_err("the disk is full");
    assert!(matches!(error, LogError::DiskFull { .. }), "{error}");
    assert!(error.to_string().contains("0000000000000000.frlog"), "{error}");
    // With space again it is had by asking again; nothing has failed.
    let granted = log.reserve(100_000).unwrap();
    granted.wait_here();
    let granted = room(&granted).expect("it is known").expect("there is space");
    let end = log.append_in(granted, &[&vec![7; 100_000]]).unwrap();
    log.wait_durable(end).unwrap();
    drop(log);
    assert_eq!(open(&env, dir, options(), Lsn(0)).unwrap().1.len(), 2);
}

#[test]
fn the_next_segment_has_its_space_before_it_is_needed() {
    let (env, _, dir) = sim();
    let options =
        || LogOptions { segment_bytes: 8192, zeros_ahead_bytes: 4096, ..LogOptions::default() };
    let (log, _) = open(&env, dir, options(), Lsn(0)).unwrap();
    for n in 0..40u8 {
        let reserving = log.reserve(2000).unwrap();
        reserving.wait_here();
        let granted = room(&reserving).expect("it is known").expect("there is space");
        let end = log.append_in(granted, &[&[n; 2000]]).unwrap();
        log.wait_durable(end).unwrap();
    }
    drop(log);
    let names = env.list(dir).unwrap();
    assert!(names.len() > 5, "{names:?}");
    assert_eq!(open(&env, dir, options(), Lsn(0)).unwrap().1.len(), 40);
    let names = env.list(dir).unwrap();
    assert!(names.iter().all(|name| name.ends_with(".frlog")), "{names:?}");
}

#[test]
fn a_record_longer_than_what_is_filled_at_once_has_its_space() {
    let (env, _, dir) = sim();
    let options = || LogOptions { zeros_ahead_bytes: 4096, ..LogOptions::default() };
    let (log, _) = open(&env, dir, options(), Lsn(0)).unwrap();
    let end = log.append(&[&vec![1; 500_000]]).unwrap();
    log.wait_durable(end).unwrap();
    drop(log);
    assert_eq!(open(&env, dir, options(), Lsn(0)).unwrap().1.len(), 1);
}
