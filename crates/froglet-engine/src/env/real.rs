//! [`RealEnv`]: the operating system.

use super::map::map;
use super::{DirLock, Env, EnvError, EnvFile, OpenMode, Operation};
use arrow_buffer::Buffer;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The environment of a server: system clocks, the thread's random generator, real files.
#[derive(Debug, Clone)]
pub struct RealEnv {
    started: Instant,
}

impl RealEnv {
    /// An environment whose monotonic clock starts now.
    pub fn new() -> RealEnv {
        RealEnv { started: Instant::now() }
    }
}

impl Default for RealEnv {
    fn default() -> RealEnv {
        RealEnv::new()
    }
}

impl Env for RealEnv {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos())
            .expect("a process runs for less than 584 years")
    }

    fn wall_clock_us(&self) -> i64 {
        // A clock set before 1970 counts as 1970: nothing here is worth a panic.
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX)
    }

    fn random_u64(&self) -> u64 {
        rand::random()
    }

    fn open(&self, path: &Path, mode: OpenMode) -> Result<Box<dyn EnvFile>, EnvError> {
        let mut options = OpenOptions::new();
        options.read(true).write(mode != OpenMode::Read);
        let operation = match mode {
            OpenMode::Read | OpenMode::Write => Operation::Open,
            OpenMode::CreateNew => {
                options.create_new(true);
                Operation::Create
            }
            OpenMode::CreateOrOpen => {
                options.create(true);
                Operation::Create
            }
        };
        let file = options.open(path).map_err(failed(path, operation))?;
        Ok(Box::new(RealFile { file, path: path.to_owned() }))
    }

    fn create_dir_all(&self, dir: &Path) -> Result<(), EnvError> {
        fs::create_dir_all(dir).map_err(failed(dir, Operation::Create))
    }

    fn sync_dir(&self, dir: &Path) -> Result<(), EnvError> {
        File::open(dir)
            .and_then(|opened| opened.sync_all())
            .map_err(failed(dir, Operation::SyncDir))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), EnvError> {
        fs::rename(from, to).map_err(failed(from, Operation::Rename))
    }

    fn remove(&self, path: &Path) -> Result<(), EnvError> {
        fs::remove_file(path).map_err(failed(path, Operation::Remove))
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>, EnvError> {
        let mut names = Vec::new();
        let entries = fs::read_dir(dir).map_err(failed(dir, Operation::List))?;
        for entry in entries {
            let entry = entry.map_err(failed(dir, Operation::List))?;
            if !entry.file_type().map_err(failed(dir, Operation::List))?.is_dir() {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    fn try_lock_dir(&self, dir: &Path) -> Result<Option<Box<dyn DirLock>>, EnvError> {
        let opened = File::open(dir).map_err(failed(dir, Operation::Lock))?;
        match opened.try_lock() {
            Ok(()) => Ok(Some(Box::new(RealDirLock { _opened: opened }))),
            Err(TryLockError::WouldBlock) => Ok(None),
            // Over NFS the kernel has locks of files that are written to, and of nothing else.
            Err(TryLockError::Error(source)) if source.raw_os_error() == Some(libc::EBADF) => {
                Ok(Some(Box::new(RealDirLock { _opened: opened })))
            }
            Err(TryLockError::Error(source)) => Err(failed(dir, Operation::Lock)(source)),
        }
    }
}

/// A directory that is open and, but for NFS, locked.
#[derive(Debug)]
struct RealDirLock {
    _opened: File,
}

impl DirLock for RealDirLock {}

/// An open file of the operating system.
#[derive(Debug)]
struct RealFile {
    file: File,
    path: PathBuf,
}

impl RealFile {
    fn failed_at(&self, operation: Operation, offset: u64) -> impl FnOnce(io::Error) -> EnvError {
        let path = self.path.clone();
        move |source| EnvError { path, offset: Some(offset), operation, source }
    }
}

impl EnvFile for RealFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, EnvError> {
        let mut read = 0;
        while read < buf.len() {
            let at = offset + read as u64;
            match self.file.read_at(&mut buf[read..], at) {
                Ok(0) => break,
                Ok(bytes) => read += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed_at(Operation::Read, at)(error)),
            }
        }
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), EnvError> {
        self.file
            .write_all_at(bytes, offset)
            .map_err(|source| self.failed_at(Operation::Write, offset)(source))
    }

    fn len(&self) -> Result<u64, EnvError> {
        let metadata = self.file.metadata().map_err(failed(&self.path, Operation::Len))?;
        Ok(metadata.len())
    }

    fn truncate(&self, len_bytes: u64) -> Result<(), EnvError> {
        self.file
            .set_len(len_bytes)
            .map_err(|source| self.failed_at(Operation::Truncate, len_bytes)(source))
    }

    fn sync_data(&self) -> Result<(), EnvError> {
        self.file.sync_data().map_err(failed(&self.path, Operation::Sync))
    }

    fn sync_all(&self) -> Result<(), EnvError> {
        self.file.sync_all().map_err(failed(&self.path, Operation::Sync))
    }

    fn map(&self) -> Result<Buffer, EnvError> {
        map(&self.file).map_err(failed(&self.path, Operation::Map))
    }

    fn try_lock_exclusive(&self) -> Result<bool, EnvError> {
        match self.file.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(source)) => Err(failed(&self.path, Operation::Lock)(source)),
        }
    }
}

fn failed(path: &Path, operation: Operation) -> impl FnOnce(io::Error) -> EnvError + use<> {
    let path = path.to_owned();
    move |source| EnvError { path, offset: None, operation, source }
}
