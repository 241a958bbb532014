//! The lock of a data directory: at most one server works in it.
//!
//! ```text
//!   <data directory>/                under flock(2) while process 4711 lives
//!   <data directory>/froglet.pid     "4711\n", likewise
//! ```
//!
//! The locks, not the text, are the truth: the operating system gives a lock up with the process that
//! had it, however it died, and a process id may be somebody else's by now. The text only names the
//! holder in an error message. The directory's lock is what holds when somebody removes the file, and another
//! server makes it anew; the file's is what servers had that knew of no other, and what there is over NFS.

use froglet_engine::env::{DirLock, Env, EnvError, EnvFile, OpenMode};
use std::path::{Path, PathBuf};

/// The name of the lock file in a data directory.
pub const LOCK_FILE: &str = "froglet.pid";

/// The right to work in a data directory; given up on drop and by the death of the process.
#[derive(Debug)]
pub struct DataDirLock {
    file: Box<dyn EnvFile>,
    _dir: Box<dyn DirLock>,
}

impl DataDirLock {
    /// Locks the existing directory `dir`.
    pub fn acquire(env: &dyn Env, dir: &Path) -> Result<DataDirLock, LockError> {
        let path = dir.join(LOCK_FILE);
        let locked = env.try_lock_dir(dir)?;
        let Some(locked) = locked else {
            // Whoever has it has made the file; another may have removed it.
            let process_id = match env.open(&path, OpenMode::Read) {
                Ok(file) => read_process_id(&*file)?,
                Err(error) if error.is_not_found() => None,
                Err(error) => return Err(error.into()),
            };
            return Err(LockError::held(path, process_id));
        };
        let file = env.open(&path, OpenMode::CreateOrOpen)?;
        if !file.try_lock_exclusive()? {
            return Err(LockError::held(path, read_process_id(&*file)?));
        }
        file.truncate(0)?;
        file.write_at(format!("{}\n", std::process::id()).as_bytes(), 0)?;
        Ok(DataDirLock { file, _dir: locked })
    }
}

impl Drop for DataDirLock {
    fn drop(&mut self) {
        // Nobody reads the text of an unlocked file, so failing to clear it harms nobody.
        let _ = self.file.truncate(0);
    }
}

/// Why a data directory could not be locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process works in the directory.
    #[error(
        "{} is locked: process {process_id} is using this data directory; stop it, or choose another directory",
        path.display()
    )]
    Held {
        /// The lock file.
        path: PathBuf,
        /// The process that has the lock.
        process_id: u32,
    },
    /// Another process has the lock and has not written its process id yet.
    #[error(
        "{} is locked: another process is using this data directory; stop it, or choose another directory",
        path.display()
    )]
    HeldByUnknown {
        /// The lock file.
        path: PathBuf,
    },
    /// The lock file could not be opened, locked or written.
    #[error(transparent)]
    Env(#[from] EnvError),
}

impl LockError {
    fn held(path: PathBuf, process_id: Option<u32>) -> LockError {
        match process_id {
            Some(process_id) => LockError::Held { path, process_id },
            None => LockError::HeldByUnknown { path },
        }
    }
}

fn read_process_id(file: &dyn EnvFile) -> Result<Option<u32>, EnvError> {
    let mut text = [0; 16];
    let bytes = file.read_at(&mut text, 0)?;
    Ok(std::str::from_utf8(&text[..bytes]).ok().and_then(|text| text.trim().parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use froglet_engine::env::{MemEnv, RealEnv};

    fn check(env: &dyn Env, dir: &Path) {
        env.create_dir_all(dir).unwrap();
        let lock = DataDirLock::acquire(env, dir).unwrap();
        let error = DataDirLock::acquire(env, dir).unwrap_err();
        let own = std::process::id();
        assert!(
            matches!(error, LockError::Held { process_id, .. } if process_id == own),
            "{error}"
        );
        assert!(error.to_string().contains(&format!("process {own} is using")), "{error}");
        drop(lock);
        drop(DataDirLock::acquire(env, dir).unwrap());
    }

    #[test]
    fn a_second_acquire_names_the_first_process() {
        let temporary = tempfile::tempdir().unwrap();
        check(&RealEnv::new(), temporary.path());
        check(&MemEnv::new(1), Path::new("/sim"));
    }

    #[test]
    fn without_its_file_the_directory_stays_locked() {
        let temporary = tempfile::tempdir().unwrap();
        let (real, simulated) = (RealEnv::new(), MemEnv::new(1));
        for (env, dir) in
            [(&real as &dyn Env, temporary.path()), (&simulated as &dyn Env, Path::new("/sim"))]
        {
            env.create_dir_all(dir).unwrap();
            let lock = DataDirLock::acquire(env, dir).unwrap();
            env.remove(&dir.join(LOCK_FILE)).unwrap();
            let second = DataDirLock::acquire(env, dir);
            assert!(matches!(second, Err(LockError::HeldByUnknown { .. })), "{second:?}");
            drop(lock);
            drop(DataDirLock::acquire(env, dir).unwrap());
        }
    }

    #[test]
    fn a_crash_gives_the_lock_up() {
        let (env, dir) = (MemEnv::new(1), Path::new("/sim"));
        env.create_dir_all(dir).unwrap();
        let before = DataDirLock::acquire(&env, dir).unwrap();
        env.crash();
        let after = DataDirLock::acquire(&env, dir).unwrap();
        drop(before);
        assert!(matches!(DataDirLock::acquire(&env, dir), Err(LockError::Held { .. })));
        drop(after);
    }

    #[test]
    fn a_lock_file_left_by_the_dead_is_no_obstacle() {
        let temporary = tempfile::tempdir().unwrap();
        std::fs::write(temporary.path().join(LOCK_FILE), "99999999999999999999 nonsense").unwrap();
        DataDirLock::acquire(&RealEnv::new(), temporary.path()).unwrap();
    }
}
