//! Both environments keep the same promises; only the simulated one also breaks what it may break.

use super::*;
use std::sync::Arc;

fn on_both(check: impl Fn(Arc<dyn Env>, &Path)) {
    let temporary = tempfile::tempdir().expect("a temporary directory");
    check(Arc::new(RealEnv::new()), temporary.path());
    check(Arc::new(MemEnv::new(1)), Path::new("/sim"));
}

#[test]
fn files_are_written_read_cut_and_appended() {
    on_both(|env, dir| {
        let dir = dir.join("a/b");
        env.create_dir_all(&dir).unwrap();
        let path = dir.join("file");
        assert!(env.open(&path, OpenMode::Write).unwrap_err().is_not_found());
        let file = env.open(&path, OpenMode::CreateNew).unwrap();
        assert!(file.is_empty().unwrap());
        file.write_at(b"world", 6).unwrap();
        file.write_at(b"hello", 0).unwrap();
        assert_eq!(file.append(b"!").unwrap(), 11);
        let mut text = [1; 12];
        file.read_exact_at(&mut text, 0).unwrap();
        assert_eq!(&text, b"hello\0world!");
        assert_eq!(file.read_at(&mut text, 11).unwrap(), 1);
        assert_eq!(file.read_at(&mut text, 99).unwrap(), 0);
        file.truncate(3).unwrap();
        file.truncate(5).unwrap();
        let error = file.read_exact_at(&mut text, 0).unwrap_err();
        assert_eq!((error.operation, error.offset), (Operation::Read, Some(5)));
        assert_eq!(&text[..5], b"hel\0\0");
        file.sync_data().unwrap();
        file.sync_all().unwrap();
        let error = env.open(&path, OpenMode::CreateNew).unwrap_err();
        assert!(
            error.to_string().starts_with(&format!("could not create {}: ", path.display())),
            "{error}"
        );
        let reader = env.open(&path, OpenMode::Read).unwrap();
        assert_eq!(reader.len().unwrap(), 5);
        assert!(reader.write_at(b"x", 0).is_err());
    });
}

#[test]
fn names_are_listed_renamed_and_removed() {
    on_both(|env, dir| {
        env.create_dir_all(&dir.join("sub")).unwrap();
        for name in ["b", "a"] {
            env.open(&dir.join(name), OpenMode::CreateOrOpen)
                .unwrap()
                .append(name.as_bytes())
                .unwrap();
        }
        assert_eq!(env.list(dir).unwrap(), ["a", "b"]);
        env.rename(&dir.join("a"), &dir.join("b")).unwrap();
        assert_eq!(env.list(dir).unwrap(), ["b"]);
        let mut text = [0; 1];
        env.open(&dir.join("b"), OpenMode::Read).unwrap().read_exact_at(&mut text, 0).unwrap();
        assert_eq!(&text, b"a");
        env.remove(&dir.join("b")).unwrap();
        env.sync_dir(dir).unwrap();
        assert!(env.list(dir).unwrap().is_empty());
        assert!(env.remove(&dir.join("b")).unwrap_err().is_not_found());
        assert!(env.list(&dir.join("nowhere")).unwrap_err().is_not_found());
    });
}

#[test]
fn one_open_file_has_the_lock() {
    on_both(|env, dir| {
        env.create_dir_all(dir).unwrap();
        let path = dir.join("lock");
        let first = env.open(&path, OpenMode::CreateOrOpen).unwrap();
        let second = env.open(&path, OpenMode::CreateOrOpen).unwrap();
        assert!(first.try_lock_exclusive().unwrap());
        assert!(!second.try_lock_exclusive().unwrap());
        drop(first);
        assert!(second.try_lock_exclusive().unwrap());
    });
}

#[test]
fn clocks_go_on_and_random_numbers_differ() {
    on_both(|env, _| {
        let before = env.now_ns();
        assert!(env.now_ns() >= before);
        assert!(env.wall_clock_us() > 1_500_000_000_000_000);
        assert_ne!(env.random_u64(), env.random_u64());
    });
}

#[test]
fn a_crash_keeps_what_was_synced_and_whole_sectors_of_the_rest() {
    let (mut lost, mut kept) = (0, 0);
    for seed in 0..200 {
        let env = MemEnv::new(seed);
        let dir = Path::new("/sim");
        env.create_dir_all(dir).unwrap();
        let file = env.open(&dir.join("file"), OpenMode::CreateNew).unwrap();
        file.write_at(&[1; 2000], 0).unwrap();
        file.sync_data().unwrap();
        env.sync_dir(dir).unwrap();
        file.write_at(&[2; 3000], 1024).unwrap();
        env.open(&dir.join("unsynced name"), OpenMode::CreateNew).unwrap();
        env.crash();
        assert!(file.sync_data().is_err(), "a file opened before the crash is gone");
        let after = env.contents(&dir.join("file")).unwrap();
        assert!(after.len() >= 2000 && after.len() <= 4024);
        assert!(after[..1024].iter().all(|&byte| byte == 1), "synced bytes survive");
        for sector in after.chunks(SECTOR) {
            let torn = sector.iter().any(|&byte| byte != sector[0]);
            assert!(!torn || sector.contains(&0) || sector.contains(&1), "a sector is whole");
        }
        lost += usize::from(!after.contains(&2));
        kept += usize::from(env.list(dir).unwrap().len() == 2);
    }
    assert!((20..180).contains(&lost) && (20..180).contains(&kept), "both happen: {lost} {kept}");
}

const SECTOR: usize = 512;

#[test]
fn the_nth_operation_fails_as_told() {
    let env = MemEnv::new(7);
    let dir = Path::new("/sim");
    env.create_dir_all(dir).unwrap();
    let file = env.open(&dir.join("file"), OpenMode::CreateNew).unwrap();
    env.inject(Fault { point: FaultPoint::Write, nth: 2, kind: FaultKind::DiskFull });
    file.write_at(b"one", 0).unwrap();
    let error = file.write_at(b"two", 3).unwrap_err();
    assert!(error.is_disk_full());
    assert_eq!((error.operation, error.offset), (Operation::Write, Some(3)));
    env.inject(Fault { point: FaultPoint::Sync, nth: 1, kind: FaultKind::Io });
    assert!(!file.sync_data().unwrap_err().is_disk_full());
    file.sync_data().unwrap();
    env.inject(Fault { point: FaultPoint::Change, nth: 2, kind: FaultKind::Io });
    file.write_at(b"x", 0).unwrap();
    assert!(file.sync_data().is_err());
    assert!(file.len().is_err() && env.list(dir).is_err(), "the power is off");
    env.crash();
    assert!(env.list(dir).unwrap().len() <= 1);
}

#[test]
fn a_program_ends_with_the_crash() {
    let (env, dir) = (MemEnv::new(1), Path::new("/data"));
    let before = env.program();
    before.create_dir_all(dir).unwrap();
    before.open(&dir.join("file"), OpenMode::CreateNew).unwrap();
    before.sync_dir(dir).unwrap();
    env.crash();
    assert!(before.remove(&dir.join("file")).is_err() && before.list(dir).is_err());
    assert!(before.rename(&dir.join("file"), &dir.join("other")).is_err());
    assert!(before.sync_dir(dir).is_err() && before.try_lock_dir(dir).is_err());
    assert!(before.open(&dir.join("new"), OpenMode::CreateNew).is_err());
    assert_eq!(env.program().list(dir).unwrap(), ["file"]);
}
