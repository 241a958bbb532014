//! Long records: whole or nothing, wherever the log ends, is cut or goes on.

use super::*;

const FILE: &str = "/sim/log/0000000000000000.frlog";

fn in_parts(segment_bytes: u64) -> LogOptions {
    LogOptions { part_bytes: 100, ..manual(segment_bytes) }
}

fn long(n: u8) -> Vec<u8> {
    (0..1000 + usize::from(n)).map(|i| n ^ (i % 251) as u8).collect()
}

#[test]
fn a_long_record_comes_back_whole_among_others_and_over_segments() {
    for segment_bytes in [512, 1 << 20] {
        let (env, _, dir) = sim();
        let mut expected = Records::new();
        for life in 0..3 {
            let (log, records) = open(&env, dir, in_parts(segment_bytes), Lsn(0)).unwrap();
            assert_eq!(records, expected);
            let (first, second) = (long(2 * life), long(2 * life + 1));
            expected.push((log.append(&[&first[..30], &[], &first[30..]]).unwrap(), first));
            // Parts of two, with a short record between, and one that is given up.
            let (mut chain, mut other, third) = (log.chain(), log.chain(), long(100 + life));
            let mut never = log.chain();
            for at in 0..5 {
                chain.push(None, &[&second[at * 90..(at + 1) * 90]]).unwrap();
                never.push(None, &[b"never"]).unwrap();
                other.push(None, &[&third[at * 80..(at + 1) * 80]]).unwrap();
                expected.push((log.append(&[b"short"]).unwrap(), b"short".to_vec()));
            }
            expected.push((other.end(None, &[&third[400..]]).unwrap(), third));
            drop(never);
            expected.push((chain.end(None, &[&second[450..]]).unwrap(), second));
            assert_eq!(log.begun_before(), log.appended(), "nothing is under way");
            log.flush().unwrap();
            if life == 1 {
                std::mem::forget(log);
            }
        }
    }
}

#[test]
fn wherever_the_log_is_torn_a_long_record_is_there_or_not() {
    let (env, mem, dir) = sim();
    let options = || LogOptions { database_id: Some(42), ..in_parts(1 << 20) };
    let (log, _) = open(&env, dir, options(), Lsn(0)).unwrap();
    let before = (log.append(&[b"before"]).unwrap(), b"before".to_vec());
    let mut chain = log.chain();
    let record = long(7);
    chain.push(None, &[&record[..300]]).unwrap();
    let between = (log.append(&[b"between"]).unwrap(), b"between".to_vec());
    chain.push(None, &[&record[300..600]]).unwrap();
    let whole = (chain.end(None, &[&record[600..]]).unwrap(), record);
    let after = (log.append(&[b"after"]).unwrap(), b"after".to_vec());
    log.flush().unwrap();
    std::mem::forget(log);
    let bytes = mem.contents(Path::new(FILE)).unwrap();
    let all = [before, between, whole, after];
    let end = all[3].0.0 as usize;
    for cut in (segment::HEADER_BYTES as usize..=end).chain([end + 100]) {
        let mem = MemEnv::new(9);
        let env: Arc<dyn Env> = Arc::new(mem.clone());
        env.create_dir_all(dir).unwrap();
        mem.overwrite(Path::new(FILE), bytes[..cut.min(bytes.len())].to_vec());
        let (log, records) = open(&env, dir, options(), Lsn(0)).unwrap();
        let there = all.iter().take_while(|(lsn, _)| lsn.0 as usize <= cut).cloned();
        let mut expected: Records = there.collect();
        assert_eq!(records, expected, "cut at {cut}");
        // What has no end stays without one, whatever comes behind it.
        expected.push((log.append(&[&long(1)]).unwrap(), long(1)));
        expected.push((log.append(&[b"short"]).unwrap(), b"short".to_vec()));
        log.flush().unwrap();
        drop(log);
        assert_eq!(open(&env, dir, options(), Lsn(0)).unwrap().1, expected, "cut at {cut}");
    }
}

#[test]
fn no_segment_goes_that_a_long_record_begins_in() {
    let (env, _, dir) = sim();
    let (log, _) = open(&env, dir, in_parts(512), Lsn(0)).unwrap();
    let _ = log.append(&[&[1; 900]]).unwrap();
    let mut chain = log.chain();
    let record = long(3);
    chain.push(None, &[&record[..100]]).unwrap();
    let from = log.begun_before();
    let mut expected = Records::new();
    for n in 0..40u8 {
        expected.push((log.append(&[&[n; 90]]).unwrap(), vec![n; 90]));
    }
    log.flush().unwrap();
    assert_eq!(log.begun_before(), from, "it is not ended");
    log.truncate_before(log.begun_before()).unwrap();
    expected.push((chain.end(None, &[&record[100..]]).unwrap(), record));
    assert_eq!(log.begun_before(), log.appended());
    drop(log);
    assert_eq!(open(&env, dir, in_parts(512), from).unwrap().1, expected);
    let (log, _) = open(&env, dir, in_parts(512), from).unwrap();
    log.truncate_before(log.begun_before()).unwrap();
    assert_eq!(env.list(dir).unwrap().len(), 1, "nobody needs the others");
}

#[test]
fn a_part_of_nothing_is_damage() {
    let (env, mem, dir) = sim();
    let (log, _) = open(&env, dir, in_parts(1 << 20), Lsn(0)).unwrap();
    let mut chain = log.chain();
    chain.push(None, &[b"first"]).unwrap();
    let from = log.appended();
    chain.end(None, &[b"last"]).unwrap().waits_for_nothing("a test");
    log.flush().unwrap();
    std::mem::forget(log);
    assert!(mem.contents(Path::new(FILE)).is_some());
    let error = open(&env, dir, in_parts(1 << 20), from).unwrap_err();
    assert!(error.to_string().contains("belongs to a record that begins at LSN 72"), "{error}");
}
