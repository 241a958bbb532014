//! `Env`: all time, randomness and files of the core.
//!
//! A run that must be repeatable cannot ask the operating system for the time, for a random number
//! or for a file behind our back. So the core asks an [`Env`]:
//!
//! ```text
//!                    ┌─ RealEnv   the operating system: pread, pwrite, fdatasync, flock
//!   core ──▶ dyn Env ┤
//!                    └─ MemEnv    memory: a logical clock, a seed, injected faults, crash()
//! ```
//!
//! What a file system promises, and so what the code above may rely on:
//!
//! - **Contents.** Bytes written are durable once `sync_data` or `sync_all` has returned `Ok`.
//!   Before that, any subset of the written 512-byte sectors may survive a crash, in any order.
//! - **Names.** A created, renamed or removed name is durable once `sync_dir` of its directory has
//!   returned `Ok`. A rename is atomic: after a crash the old or the new state, never neither.
//! - **A failed sync is final.** The bytes it covered may be lost although a later sync succeeds
//!   (Rebello et al., "Can Applications Recover from fsync Failures?", USENIX ATC 2020). Whoever
//!   sees one stops acknowledging; trying again proves nothing.
//!
//! [`MemEnv`] is as nasty as these three sentences allow. The standard library has every call we
//! need (positioned reads and writes, `fdatasync`, `flock`) but one: mapping a file, in `map`.
//!
//! Left out on purpose: sockets (the server is simulated above them), threads and timers (a
//! component with a thread of its own also offers a manual step, which a simulation drives), mappings
//! that are written to.

mod map;
mod mem;
mod real;
#[cfg(test)]
mod tests;

pub use mem::{Fault, FaultKind, FaultPoint, MemEnv};
pub use real::RealEnv;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use arrow_buffer::Buffer;

/// Time, randomness and files. Shared as `Arc<dyn Env>`.
pub trait Env: fmt::Debug + Send + Sync {
    /// Nanoseconds on a clock that never goes back; its zero means nothing.
    fn now_ns(&self) -> u64;

    /// Microseconds since the Unix epoch on the wall clock, which may jump.
    fn wall_clock_us(&self) -> i64;

    /// 64 random bits.
    fn random_u64(&self) -> u64;

    /// Opens the file at `path`.
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Box<dyn EnvFile>, EnvError>;

    /// Creates a directory and its missing parents; one that exists is fine.
    fn create_dir_all(&self, dir: &Path) -> Result<(), EnvError>;

    /// Makes the names created, renamed and removed in `dir` durable.
    fn sync_dir(&self, dir: &Path) -> Result<(), EnvError>;

    /// Gives the file `from` the name `to`, atomically, replacing a file of that name.
    fn rename(&self, from: &Path, to: &Path) -> Result<(), EnvError>;

    /// Removes the file at `path`.
    fn remove(&self, path: &Path) -> Result<(), EnvError>;

    /// The names of the files in `dir`, sorted. Directories in it are not listed.
    fn list(&self, dir: &Path) -> Result<Vec<String>, EnvError>;

    /// Takes the exclusive lock of a directory, whatever becomes of the names in it or of its own; none if
    /// somebody else has it. The lock ends with what is returned or with the process.
    fn try_lock_dir(&self, dir: &Path) -> Result<Option<Box<dyn DirLock>>, EnvError>;
}

/// The lock of a directory, until it is dropped.
pub trait DirLock: fmt::Debug + Send + Sync {}

/// An open file. Closed on drop, which also gives up its lock.
pub trait EnvFile: fmt::Debug + Send + Sync {
    /// The path the file was opened at.
    fn path(&self) -> &Path;

    /// Reads into `buf` from byte `offset` and returns how many bytes were read: fewer than
    /// `buf.len()` only at the end of the file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, EnvError>;

    /// Writes all of `bytes` at byte `offset`; a gap behind the old end reads as zeros. After an
    /// error any part of `bytes` may have been written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), EnvError>;

    /// The length in bytes.
    fn len(&self) -> Result<u64, EnvError>;

    /// Whether the file has no bytes.
    fn is_empty(&self) -> Result<bool, EnvError> {
        Ok(self.len()? == 0)
    }

    /// Cuts the file, or extends it with zeros, to `len_bytes`.
    fn truncate(&self, len_bytes: u64) -> Result<(), EnvError>;

    /// Makes the contents durable, with the metadata needed to read them back (`fdatasync`).
    fn sync_data(&self) -> Result<(), EnvError>;

    /// Makes contents and all metadata durable (`fsync`).
    fn sync_all(&self) -> Result<(), EnvError>;

    /// All bytes, without a copy where that can be had. For a file that nobody changes any more; it may
    /// be removed, the bytes stay as long as the buffer does.
    fn map(&self) -> Result<Buffer, EnvError>;

    /// Takes the exclusive lock of the file; false if another open file has it. The lock ends with
    /// this file or with the process, however the process ends.
    fn try_lock_exclusive(&self) -> Result<bool, EnvError>;

    /// Writes all of `bytes` at the end and returns the offset they begin at. Only for a file with
    /// one writer: the end is looked up first.
    fn append(&self, bytes: &[u8]) -> Result<u64, EnvError> {
        let end = self.len()?;
        self.write_at(bytes, end)?;
        Ok(end)
    }

    /// Reads exactly `buf.len()` bytes from byte `offset`; an end of file before that is an error.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), EnvError> {
        let got = self.read_at(buf, offset)?;
        if got == buf.len() {
            return Ok(());
        }
        Err(EnvError {
            path: self.path().to_owned(),
            offset: Some(offset + got as u64),
            operation: Operation::Read,
            source: io::Error::from(io::ErrorKind::UnexpectedEof),
        })
    }
}

/// How [`Env::open`] treats a file that exists, or does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// For reading; must exist.
    Read,
    /// For reading and writing; must exist.
    Write,
    /// For reading and writing; must not exist.
    CreateNew,
    /// For reading and writing; created if missing, contents kept if not.
    CreateOrOpen,
}

/// What was asked of the [`Env`] when it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Opening an existing file.
    Open,
    /// Creating a file or a directory.
    Create,
    /// Reading.
    Read,
    /// Writing or appending.
    Write,
    /// Reading a file's length.
    Len,
    /// Changing a file's length.
    Truncate,
    /// Making a file durable.
    Sync,
    /// Making a directory durable.
    SyncDir,
    /// Renaming a file.
    Rename,
    /// Removing a file.
    Remove,
    /// Listing a directory.
    List,
    /// Locking a file.
    Lock,
    /// Mapping a file into memory.
    Map,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operation::Open => "open",
            Operation::Create => "create",
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Len => "read the length of",
            Operation::Truncate => "change the length of",
            Operation::Sync => "sync",
            Operation::SyncDir => "sync the directory",
            Operation::Rename => "rename",
            Operation::Remove => "remove",
            Operation::List => "list",
            Operation::Lock => "lock",
            Operation::Map => "map",
        })
    }
}

/// A failed file operation.
#[derive(Debug, thiserror::Error)]
#[error("could not {operation} {}{}: {source}", path.display(), At(*offset))]
pub struct EnvError {
    /// The file or directory.
    pub path: PathBuf,
    /// The byte offset in the file, where the operation has one.
    pub offset: Option<u64>,
    /// What was attempted.
    pub operation: Operation,
    /// What the operating system answered.
    pub source: io::Error,
}

impl EnvError {
    /// Whether there was no space left, no quota, or no file that may be so long.
    pub fn is_disk_full(&self) -> bool {
        is_disk_full(&self.source)
    }

    /// Whether the file or directory does not exist.
    pub fn is_not_found(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotFound
    }
}

/// Whether there was no space left, no quota, or no file that may be so long.
pub fn is_disk_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// Prints ` at byte N`, or nothing.
struct At(Option<u64>);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |offset| write!(f, " at byte {offset}"))
    }
}
