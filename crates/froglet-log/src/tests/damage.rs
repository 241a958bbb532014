//! Bytes that are not what was written: recovery finds an exact prefix, or refuses and says where.

use super::*;
use proptest::prelude::*;

const FILE: &str = "/sim/log/0000000000000000.frlog";

/// The bytes of a small log of three batches that was not closed, its records, and where its last
/// sync mark is.
fn small_log() -> (Vec<u8>, Records, usize) {
    let (env, mem, dir) = sim();
    let (log, _) =
        open(&env, dir, LogOptions { database_id: Some(42), ..manual(1 << 20) }, Lsn(0)).unwrap();
    let mut records = Records::new();
    let mut last_mark = 0;
    for batch in 0..3u8 {
        last_mark = log.appended().0 as usize;
        for length in [5, 16, 60] {
            let payload = vec![0x11 * (batch + 1); length];
            records.push((log.append(&[&payload]).unwrap(), payload));
        }
        log.flush().unwrap();
    }
    (mem.contents(Path::new(FILE)).unwrap(), records, last_mark)
}

fn open_bytes(bytes: Vec<u8>) -> (Arc<dyn Env>, Result<(Log, Records), LogError>) {
    let (env, mem, dir) = sim();
    env.create_dir_all(dir).unwrap();
    mem.overwrite(Path::new(FILE), bytes);
    let opened = open(&env, dir, manual(1 << 20), Lsn(0));
    (env, opened)
}

/// Opens damaged bytes that must give a prefix, goes on, and opens again.
fn expect_prefix(bytes: Vec<u8>, records: &Records, what: &str) {
    let (env, opened) = open_bytes(bytes);
    let (log, mut replayed) = opened.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(replayed, records[..replayed.len()], "{what}");
    let payload = b"after the tear".to_vec();
    replayed.push((log.append(&[&payload]).unwrap(), payload));
    log.flush().unwrap();
    std::mem::forget(log);
    let (_, again) = open(&env, Path::new("/sim/log"), manual(1 << 20), Lsn(0)).unwrap();
    assert_eq!(again, replayed, "{what}");
}

#[test]
fn a_tail_torn_at_any_byte_is_cut() {
    let (bytes, records, _) = small_log();
    let end = records.last().unwrap().0.0 as usize;
    for cut in segment::HEADER_BYTES as usize..=bytes.len() {
        expect_prefix(bytes[..cut].to_vec(), &records, &format!("cut at {cut}"));
        let mut zeroed = bytes.clone();
        zeroed[cut..].fill(0);
        expect_prefix(zeroed, &records, &format!("zeros from {cut}"));
        if cut >= end {
            let mut scribbled = bytes.clone();
            scribbled[cut..].fill(0xA5);
            expect_prefix(scribbled, &records, &format!("scribbles from {cut}"));
        }
    }
}

#[test]
fn every_flipped_bit_gives_a_prefix_or_a_refusal() {
    let (bytes, records, last_mark) = small_log();
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            match open_bytes(damaged).1 {
                Ok((_, replayed)) => {
                    assert_eq!(replayed, records[..replayed.len()], "bit {bit} of byte {at}");
                    // Before the last mark only padding may change unnoticed, and does no harm.
                    assert!(
                        at >= last_mark || replayed.len() == records.len(),
                        "bit {bit} of byte {at}"
                    );
                }
                Err(LogError::Damaged { path, offset, .. }) => {
                    assert_eq!(path, Path::new(FILE));
                    assert!(
                        offset <= at as u64 && at < last_mark + 8,
                        "bit {bit} of byte {at}: {offset}"
                    );
                }
                Err(other) => panic!("bit {bit} of byte {at}: {other}"),
            }
        }
    }
}

#[test]
fn after_a_clean_close_every_record_is_protected() {
    let (env, mem, dir) = sim();
    let (log, _) = open(&env, dir, manual(1 << 20), Lsn(0)).unwrap();
    let end = log.append(&[&[7; 24]]).unwrap();
    drop(log);
    let bytes = mem.contents(Path::new(FILE)).unwrap();
    for at in end.0 - 32..end.0 {
        let mut damaged = bytes.clone();
        damaged[at as usize] ^= 1;
        let error = open_bytes(damaged).1.unwrap_err();
        let message = error.to_string();
        assert!(message.contains("is damaged at byte 72 (LSN 72): "), "{message}");
        assert!(message.contains("proves that this place was durable"), "{message}");
    }
    let (log, _) = open(&env, dir, manual(1 << 20), Lsn(0)).unwrap();
    drop(log);
    assert_eq!(mem.contents(Path::new(FILE)).unwrap(), bytes, "opening and closing adds nothing");
}

#[test]
fn a_tear_inside_the_last_batch_hides_whole_records_behind_it() {
    let (mut bytes, records, last_mark) = small_log();
    bytes[last_mark + 8 + 10] ^= 1;
    let (_, opened) = open_bytes(bytes.clone());
    assert_eq!(opened.unwrap().1, records[..6]);
    // A new sync mark and a record of 32 bytes end just where the last whole record behind the tear
    // begins: it must be gone, or it would come back here.
    let (env, opened) = open_bytes(bytes);
    let (log, mut expected) = opened.unwrap();
    let behind = Lsn(records[7].0.0);
    let payload = vec![0x44; 20];
    let end = log.append(&[&payload]).unwrap();
    assert_eq!(end, behind);
    expected.push((end, payload));
    log.flush().unwrap();
    std::mem::forget(log);
    assert_eq!(open(&env, Path::new("/sim/log"), manual(1 << 20), Lsn(0)).unwrap().1, expected);
}

#[test]
fn a_frame_elsewhere_or_of_another_database_is_no_frame() {
    let (bytes, records, _) = small_log();
    let (at, key) = (Lsn(segment::HEADER_BYTES + 8), FrameKey::new(42));
    let frame = &bytes[at.0 as usize..];
    let expected = Frame::Record { payload: &records[0].1, frame_bytes: 16 };
    assert_eq!(decode_record(frame, at, key), Ok(expected));
    assert!(matches!(decode_record(frame, Lsn(at.0 + 8), key), Err(Damage::Checksum { .. })));
    assert!(matches!(decode_record(frame, at, FrameKey::new(43)), Err(Damage::Checksum { .. })));
    for length in 0..16 {
        assert!(matches!(decode_record(&frame[..length], at, key), Err(Damage::Incomplete { .. })));
    }
    let length =
        |word: u32| decode_record(&[word.to_le_bytes(), [0; 4]].concat(), at, key).unwrap_err();
    assert_eq!(length(0), Damage::NoFrame);
    assert_eq!(length(1 << 30), Damage::Incomplete { needed_bytes: (1 << 30) + 8 });
    assert_eq!(length((1 << 30) + 1), Damage::Length { word: (1 << 30) + 1 });
    assert_eq!(length(u32::MAX), Damage::Length { word: u32::MAX });
}

#[test]
fn a_damaged_missing_or_short_segment_in_the_middle_is_refused() {
    let damage = |harm: &dyn Fn(&MemEnv, &Path, &[String])| {
        let (env, mem, dir) = sim();
        let (log, _) = open(&env, dir, manual(512), Lsn(0)).unwrap();
        for record in 0..20u8 {
            let _ = log.append(&[&[record; 100]]).unwrap();
        }
        log.flush().unwrap();
        drop(log);
        let names = env.list(dir).unwrap();
        harm(&mem, dir, &names);
        (dir.join(&names[1]), open(&env, dir, manual(512), Lsn(0)).unwrap_err())
    };
    let change = |change: &dyn Fn(&mut Vec<u8>)| {
        let (path, error) = damage(&|mem, dir, names| {
            let mut bytes = mem.contents(&dir.join(&names[1])).unwrap();
            change(&mut bytes);
            mem.overwrite(&dir.join(&names[1]), bytes);
        });
        assert!(
            matches!(&error, LogError::Damaged { path: found, .. } if *found == path),
            "{error}"
        );
    };
    change(&|bytes| bytes[100] ^= 1);
    change(&|bytes| bytes[3] ^= 1);
    change(&|bytes| bytes.truncate(200));
    change(&|bytes| bytes.truncate(10));
    change(&|bytes| bytes.clear());
    let (_, error) = damage(&|mem, dir, names| mem.remove(&dir.join(&names[1])).unwrap());
    assert!(matches!(error, LogError::Damaged { .. }), "{error}");
    let (_, error) = damage(&|mem, dir, names| {
        mem.overwrite(&dir.join(&names[2]), mem.contents(&dir.join(&names[1])).unwrap());
    });
    assert!(matches!(error, LogError::Damaged { damage: Damage::FirstLsn { .. }, .. }), "{error}");
}

#[test]
fn a_format_of_the_future_is_named() {
    let (mut bytes, ..) = small_log();
    bytes[8] = 3;
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..12]);
    hasher.update(&bytes[16..64]);
    bytes[12..16].copy_from_slice(&hasher.finalize().to_le_bytes());
    let error = open_bytes(bytes).1.unwrap_err();
    assert!(matches!(error, LogError::Version { found: 3, supported: 2, .. }), "{error}");
}

proptest! {
    #[test]
    fn decoding_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..64), word in any::<u32>(), at in any::<u64>()) {
        let key = FrameKey::new(42);
        let _ = decode_record(&bytes, Lsn(at), key);
        let mut framed = word.to_le_bytes().to_vec();
        framed.extend(&bytes);
        let _ = decode_record(&framed, Lsn(at), key);
    }

    #[test]
    fn opening_scribbled_files_never_panics(
        scribbles in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
        length in 0usize..1200,
    ) {
        let (mut bytes, records, _) = small_log();
        for (at, byte) in scribbles {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.resize(length, 0x5A);
        if let Ok((_, replayed)) = open_bytes(bytes).1 {
            prop_assert_eq!(&replayed[..], &records[..replayed.len()]);
        }
    }
}
