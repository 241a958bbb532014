//! The redo log: what makes a commit survive.
//!
//! One endless sequence of bytes, appended to and never changed; an [`Lsn`] is a position in it. A
//! record is named by its end: it is durable once [`Log::durable`] has reached that. Records
//! (opaque here) lie in frames, frames in segment files named by the LSN of their first byte.
//!
//! ```text
//! LSN   0                                   B (about 64 MiB)                  durable       appended
//!       ├ header │ M r r r │ M r │ M r r r ─┼ header │ M r r │ M r r r r r r ─┼ M r r r r r ─┤
//!       └ 0000000000000000.frlog ───────────┴ <B in hex>.frlog ── on disk ────┴ in memory ───┘ time ▶
//!
//!       M  sync mark    r  record    M r r …  one batch: one write, one fdatasync
//! ```
//!
//! (The bytes of headers and frames are drawn in `segment.rs`.)
//!
//! [`Log::append`] copies a record into the batch in memory under a short mutex: the order of
//! appends is the order of the log. The flusher thread takes the whole batch, writes and syncs it,
//! publishes the durable position, calls back who waited. Commits that arrive during a sync form
//! the next batch: group commit, without a delay. Nobody waiting, it flushes after an interval, or
//! when much has gathered.
//!
//! # Invariants
//! - **Position.** A frame's crc covers its LSN. Frames follow each other without gaps, a segment
//!   begins where the one before ended.
//! - **Sync before next.** A batch is written, and a segment created, only after everything before
//!   it was synced successfully. A batch begins with a *sync mark*. So a mark, or a segment, is a
//!   proof on disk that everything before it was durable once.
//! - **Whole name.** A file gets a segment's name only once its header is durable.
//! - **Clean slate.** Nothing is appended before everything behind the recovered end has been cut,
//!   and the cut synced. So bytes behind the end are zeros or of the one batch that was being
//!   written.
//! - **No false answer.** `durable` only grows, and only past bytes that a successful sync covered.
//!   After a failed write or sync it never moves again: the kernel may have dropped the bytes, and
//!   a later sync that succeeds proves nothing.
//!
//! # Why recovery works
//! Walk the frames from the start of the segment that holds `from`; let X be the first place
//! without a correct frame.
//! - X is not in the last segment, or a mark follows it: by *sync before next* X was durable, so
//!   bytes that were safe have changed. Refuse, with file and offset; cutting would lose commits in
//!   silence.
//! - Otherwise X is in the last batch, whose sync was not confirmed on disk. A crash may leave any
//!   subset of its sectors, so records *behind* X may be whole: they are no proof against a torn
//!   tail, which is why marks exist. Everything durable lies before X, unless the medium damaged
//!   this very batch, which nothing on disk can tell from a tear. Cut at X.
//!
//! A long record is there if its last part is before X: the parts that are, without a last one, are no
//! record, and stay as they are until a checkpoint cuts them (`chain.rs`).
//!
//! A clean shutdown ends the log with a mark, so after it even that last batch is protected. Frames
//! before X but after the last mark may have been only written (the process was killed before its
//! sync) or be a failed sync's leftovers in the page cache. So recovery writes those bytes once
//! more and syncs, before anyone relies on them.
//!
//! # Zeros ahead
//! A write that extends a file makes fdatasync journal metadata too. So the write that would extend
//! the file is lengthened with zeros to the next multiple of 1 MiB, and those that follow overwrite
//! written blocks: 92 µs instead of 130 to 145 µs per fdatasync (ext4, virtio disk). `fallocate` is
//! no help (its unwritten blocks need a journal entry each, 142 to 157 µs at 4 KiB), and filling
//! all 64 MiB at once is no faster afterwards but stalls for 30 to 180 ms. Zeros are no frame: they
//! end the log.
//!
//! # Left out on purpose
//! Model checking: threads share the log only through mutexes and one atomic number, and what can
//! go wrong is on the disk, so the tests simulate that ([`Flusher::Manual`], `MemEnv`). Also left
//! out: undo (before-images live in memory only), compression, encryption, archiving and
//! replication (they read closed segments), direct I/O.

pub mod cells;
mod chain;
mod disk;
mod flusher;
pub mod halves;
pub mod manifest;
mod reader;
pub mod redo;
mod room;
mod segment;
#[cfg(test)]
mod tests;
mod writer;

pub use chain::Chain;
pub use froglet_engine::Lsn;
pub use reader::{Frame, decode_record};
pub use room::{Reserving, Room};
pub use segment::{FrameKey, MAX_PAYLOAD_BYTES, PartKind};
pub use writer::Log;

use froglet_engine::EngineError;
use froglet_engine::env::EnvError;
use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How a log behaves. The defaults suit a server.
pub struct LogOptions {
    /// A segment is closed once it is this long; the record that makes it so may overshoot.
    pub segment_bytes: u64,
    /// How many bytes may wait to be written, or be reserved; past that, [`Log::append`] blocks, and
    /// [`Log::reserve`] waits.
    pub buffer_bytes: usize,
    /// A longer record is logged in parts of so many bytes.
    pub part_bytes: usize,
    /// How many bytes are gathered, with nobody waiting, before they are written without delay.
    pub flush_bytes: usize,
    /// How long bytes wait, with nobody waiting for them, before they are written.
    pub flush_interval: Duration,
    /// Files grow by multiples of this, filled with zeros; 0 for no zeros.
    pub zeros_ahead_bytes: u64,
    /// The database the log must belong to. `None`: an existing log says which it is, a new one
    /// draws a random id.
    pub database_id: Option<u128>,
    /// Who flushes.
    pub flusher: Flusher,
    /// Called once, by whoever flushes, when the log has failed for good.
    pub on_failure: Option<FailureHook>,
}

/// What [`Log::open`] calls with each record and its end; an error ends the replay.
pub type Replay<'a> = dyn FnMut(Lsn, &[u8]) -> Result<(), LogError> + 'a;

/// See [`LogOptions::on_failure`].
pub type FailureHook = Box<dyn FnOnce(&LogError) + Send>;

/// See [`Log::subscribe`].
pub type DurableCallback = Box<dyn FnOnce(Result<(), LogError>) + Send>;

impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions {
            segment_bytes: 64 << 20,
            buffer_bytes: 64 << 20,
            part_bytes: 1 << 20,
            flush_bytes: 1 << 20,
            flush_interval: Duration::from_millis(10),
            zeros_ahead_bytes: 1 << 20,
            database_id: None,
            flusher: Flusher::Thread,
            on_failure: None,
        }
    }
}

/// Who writes and syncs what was appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flusher {
    /// A thread named `froglet-log`.
    Thread,
    /// Nobody until [`Log::flush`] or a blocking wait does it in the caller's thread: a simulation
    /// repeats itself only without a thread of ours.
    Manual,
}

/// What is wrong with bytes that should be a frame or a header.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// The file ends inside the segment header.
    #[error("the file ends after {bytes} bytes of the 64-byte segment header")]
    ShortHeader {
        /// The length of the file.
        bytes: usize,
    },
    /// The file does not begin as a segment does.
    #[error("the file does not begin with the magic bytes of a log segment")]
    Magic,
    /// The header belongs to a segment of another name.
    #[error("the header says that the segment begins at LSN {found}")]
    FirstLsn {
        /// The LSN in the header.
        found: Lsn,
    },
    /// There are zeros in place of a frame.
    #[error("there is no record")]
    NoFrame,
    /// The length is none a record can have.
    #[error("the record length {word:#010x} is above the limit of {MAX_PAYLOAD_BYTES:#010x} bytes")]
    Length {
        /// The length as stored.
        word: u32,
    },
    /// The bytes end before the frame does.
    #[error("the record needs {needed_bytes} bytes, more than there are")]
    Incomplete {
        /// The bytes of the whole frame, as far as known.
        needed_bytes: usize,
    },
    /// A part of a long record is none that there can be.
    #[error("a part of kind {kind} is none of a long record")]
    Part {
        /// The kind as stored.
        kind: u8,
    },
    /// A part's record has no beginning.
    #[error("this part belongs to a record that begins at LSN {begin}, and there is none")]
    NoBeginning {
        /// Where it should begin.
        begin: Lsn,
    },
    /// The bytes are not what was written, or not where they were written.
    #[error("the checksum is {stored:08x} and should be {computed:08x}")]
    Checksum {
        /// The checksum as stored.
        stored: u32,
        /// The checksum of the bytes.
        computed: u32,
    },
    /// There is no correct frame, though a sync mark proves that there was one.
    #[error("{damage}, although the sync mark at LSN {mark} proves that this place was durable")]
    BeforeMark {
        /// The first sync mark behind the damage.
        mark: Lsn,
        /// What is wrong.
        damage: Box<Damage>,
    },
}

/// Why the log could not be opened, appended to or made durable.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LogError {
    /// A file operation failed.
    #[error(transparent)]
    Env(Arc<EnvError>),
    /// There is no space for the log.
    #[error(
        "the disk is full: {} needs {needed_bytes} bytes more for the log; free space on its file system",
        path.display()
    )]
    DiskFull {
        /// The segment.
        path: PathBuf,
        /// The bytes that could not be written.
        needed_bytes: u64,
        /// The failed operation.
        source: Arc<EnvError>,
    },
    /// Bytes that were durable once have changed.
    #[error(
        "log segment {} is damaged at byte {offset} (LSN {lsn}): {damage}; restore this file from a copy, nothing was changed",
        path.display()
    )]
    Damaged {
        /// The segment.
        path: PathBuf,
        /// The first damaged byte.
        offset: u64,
        /// Its position in the log.
        lsn: Lsn,
        /// What is wrong there.
        damage: Damage,
    },
    /// The log is of a format this program does not know.
    #[error("log segment {} has format version {found}, this program reads {supported}; use the program that wrote it", path.display())]
    Version {
        /// The segment.
        path: PathBuf,
        /// The version in its header.
        found: u32,
        /// The version this program reads.
        supported: u32,
    },
    /// A segment belongs to another database.
    #[error("log segment {} belongs to database {found:032x}, not to {expected:032x}; remove it from this directory", path.display())]
    OtherDatabase {
        /// The segment.
        path: PathBuf,
        /// The database in its header.
        found: u128,
        /// The database it should belong to.
        expected: u128,
    },
    /// The log does not reach back to where the replay should begin.
    #[error("the log in {} has no segment for LSN {from}{}; restore the missing files", dir.display(), Oldest(*oldest))]
    MissingStart {
        /// The directory.
        dir: PathBuf,
        /// Where the replay should begin.
        from: Lsn,
        /// Where the oldest segment begins.
        oldest: Option<Lsn>,
    },
    /// The log ends before the place where the replay should begin.
    #[error("the log in {} ends at LSN {end}, before the checkpoint at LSN {from}; restore the missing files", dir.display())]
    EndsEarly {
        /// The directory.
        dir: PathBuf,
        /// Where the replay should begin.
        from: Lsn,
        /// Where the log ends.
        end: Lsn,
    },
    /// The replay should begin inside a record.
    #[error(
        "LSN {from} lies inside the record from {begin} to {end}; replay from an end that an append returned"
    )]
    NotABoundary {
        /// Where the replay should begin.
        from: Lsn,
        /// Where the record begins.
        begin: Lsn,
        /// Where it ends.
        end: Lsn,
    },
    /// The replay callback could not apply a record.
    #[error("the log record that ends at LSN {lsn} could not be replayed: {source}")]
    Replay {
        /// The end of the record.
        lsn: Lsn,
        /// What the callback said.
        source: Arc<dyn Error + Send + Sync>,
    },
    /// Transactions that were durable here and in another log are not there any more.
    #[error(
        "{} has transactions up to number {half} in common with {}, which has only those up to {found}: restore both from one copy, nothing was changed",
        dir.display(), other.display()
    )]
    HalvesLost {
        /// The log that has them.
        dir: PathBuf,
        /// The log that does not.
        other: PathBuf,
        /// The newest that the first is certain of.
        half: u64,
        /// The newest that the second has.
        found: u64,
    },
    /// A half could not be read.
    #[error("the log record that ends at LSN {lsn} cannot be read at byte {offset}: {what}")]
    Malformed {
        /// The end of the record.
        lsn: Lsn,
        /// The byte of the record.
        offset: usize,
        /// What is wrong there.
        what: String,
    },
    /// A record must have a byte at least.
    #[error("a log record without a byte is impossible")]
    EmptyRecord,
    /// A wait for a position that nobody has appended yet would never end.
    #[error(
        "LSN {lsn} cannot become durable, the log ends at {appended}; wait for an end that an append returned"
    )]
    NotAppended {
        /// What was waited for.
        lsn: Lsn,
        /// Where the log ends.
        appended: Lsn,
    },
    /// The thread that flushes could not be started.
    #[error("the log thread could not be started: {source}; raise the limit of threads")]
    Thread {
        /// What the operating system answered.
        source: Arc<std::io::Error>,
    },
    /// The thread that flushes has panicked.
    #[error("the log thread panicked; start the server again and report its message")]
    Panicked,
    /// The log has been closed.
    #[error("the log is closed")]
    Closed,
}

impl From<EnvError> for LogError {
    fn from(error: EnvError) -> LogError {
        LogError::Env(Arc::new(error))
    }
}

impl From<LogError> for EngineError {
    fn from(error: LogError) -> EngineError {
        match error {
            LogError::Env(error) => EngineError::Env(error),
            LogError::Damaged { path, offset, damage, .. } => EngineError::Corrupt {
                file: path.display().to_string(),
                offset,
                what: damage.to_string(),
            },
            LogError::Replay { lsn, source } => match source.downcast_ref::<EngineError>() {
                Some(EngineError::Corrupt { file, offset, what }) => EngineError::Corrupt {
                    file: format!("{file} (it ends at LSN {lsn})"),
                    offset: *offset,
                    what: what.clone(),
                },
                Some(error) => error.clone(),
                None => EngineError::LogFailed(source),
            },
            error @ LogError::DiskFull { .. } => EngineError::DiskFull(Arc::new(error)),
            error => EngineError::LogFailed(Arc::new(error)),
        }
    }
}

impl LogError {
    /// Sets a lack of space apart from other failures of writing `needed_bytes`.
    fn from_write(error: EnvError, needed_bytes: u64) -> LogError {
        if error.is_disk_full() {
            let path = error.path.clone();
            return LogError::DiskFull { path, needed_bytes, source: Arc::new(error) };
        }
        error.into()
    }
}

/// Prints where the oldest segment begins.
struct Oldest(Option<Lsn>);

impl fmt::Display for Oldest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(lsn) => write!(f, ", the oldest one begins at {lsn}"),
            None => f.write_str(", it is empty"),
        }
    }
}
