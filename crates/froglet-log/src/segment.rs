//! A segment file and the frames in it, byte for byte.
//!
//! ```text
//! segment   0        8         12      16          24                 40         64
//!           ├─ magic ┼ version ┼ crc ──┼ first LSN ┼ database id u128 ┼ zeros ───┼ frame, frame, …
//!
//! frame     0      4       8                    8 + len, zeros up to a multiple of 8
//!           ├ word ┼ crc ──┼ payload (len bytes) ┼─┤
//!
//!           word = len in 1 ..= 2^30         a record
//!           word = 0x8000_0000, no payload   a sync mark
//!           word = 0x8000_0000 | len         a part of a long record, since version 2
//!           anything else                    no frame
//!
//! part      0      1                            9
//!           ├ kind ┼ LSN of the first part's ───┼ bytes of the record
//!                    frame, in the first 0
//! ```
//!
//! All integers are little-endian. The crc of a header covers the header without the crc. The crc
//! of a frame covers the database id, the payload, the word and the frame's LSN, in this order: so
//! the writer computes the costly part, over the payload, before it knows the LSN, and a frame
//! copied to another place or from another database is no frame.

use super::{Damage, LogError, Lsn};
use crc32fast::Hasher;
use froglet_engine::env::{Env, EnvError, EnvFile, OpenMode};
use std::path::{Path, PathBuf};

/// The bytes of a segment header; the first frame follows it.
pub(super) const HEADER_BYTES: u64 = 64;
/// The bytes of word and crc before a payload.
pub(super) const FRAME_HEADER_BYTES: usize = 8;
/// The longest payload of one record.
pub const MAX_PAYLOAD_BYTES: usize = 1 << 30;
/// The word of a sync mark.
pub(super) const MARK_WORD: u32 = 0x8000_0000;

/// No segment begins here or later, so that a position in a segment never overflows.
const LAST: Lsn = Lsn(1 << 62);
const MAGIC: [u8; 8] = *b"FROGLOG\0";
const VERSION: u32 = 2;
/// The oldest one whose segments are read: it has no long records.
const OLDEST_VERSION: u32 = 1;
/// The bytes of a part before those of its record.
pub(super) const PART_HEADER_BYTES: usize = 9;
const SUFFIX: &str = ".frlog";
const UNFINISHED_SUFFIX: &str = ".frlog.tmp";
/// The file that the next segment will be made of.
const SPARE: &str = "next.frlog.tmp";

const _: () = assert!(HEADER_BYTES.is_multiple_of(8), "the first frame of a segment is aligned");
const _: () = assert!(MAX_PAYLOAD_BYTES < MARK_WORD as usize, "a length is never a mark");

/// What the crc of every frame of one database begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameKey(u32);

impl FrameKey {
    /// The key of the database `database_id`.
    pub fn new(database_id: u128) -> FrameKey {
        FrameKey(crc32fast::hash(&database_id.to_le_bytes()))
    }

    /// Starts the crc of a frame; the payload comes next.
    pub(super) fn hasher(self) -> Hasher {
        Hasher::new_with_initial(self.0)
    }
}

/// Ends the crc of a frame whose payload has been hashed.
pub(super) fn seal(mut payload_hasher: Hasher, word: u32, at: Lsn) -> u32 {
    let mut place = [0; 12];
    place[..4].copy_from_slice(&word.to_le_bytes());
    place[4..].copy_from_slice(&at.0.to_le_bytes());
    payload_hasher.update(&place);
    payload_hasher.finalize()
}

/// What a part of a long record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartKind {
    /// The first.
    Begin = 1,
    /// One in the middle.
    Middle = 2,
    /// The last: the record is whole, and stands here.
    End = 3,
    /// There will be no last one.
    GivenUp = 4,
}

impl PartKind {
    /// What a byte says.
    pub(super) fn of(byte: u8) -> Option<PartKind> {
        [PartKind::Begin, PartKind::Middle, PartKind::End, PartKind::GivenUp]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }
}

/// What stands before the bytes of a part.
pub(super) fn part_header(kind: PartKind, begin: Lsn) -> [u8; PART_HEADER_BYTES] {
    let mut header = [kind as u8; PART_HEADER_BYTES];
    header[1..].copy_from_slice(&begin.0.to_le_bytes());
    header
}

/// The bytes a record with a payload of `payload_bytes` takes in the log.
pub(super) fn record_frame_bytes(payload_bytes: usize) -> usize {
    (FRAME_HEADER_BYTES + payload_bytes).next_multiple_of(8)
}

/// A segment file, known by the LSN of its first byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Segment {
    /// The LSN of the first byte of its header.
    pub first: Lsn,
    /// Its length on disk.
    pub file_bytes: u64,
}

/// The path of the segment that begins at `first`.
pub(super) fn path(dir: &Path, first: Lsn) -> PathBuf {
    dir.join(file_name(first))
}

fn file_name(first: Lsn) -> String {
    format!("{:016x}{SUFFIX}", first.0)
}

/// What a file in the log directory is, by its name.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FileKind {
    /// The segment that begins at this LSN.
    Segment(Lsn),
    /// A segment whose creation a crash interrupted; nothing in it was ever in use.
    Unfinished,
    /// Not ours.
    Foreign,
}

/// Tells what a file of the log directory is.
pub(super) fn classify(name: &str) -> FileKind {
    if name.ends_with(UNFINISHED_SUFFIX) {
        return FileKind::Unfinished;
    }
    let first = name.strip_suffix(SUFFIX).and_then(|hex| u64::from_str_radix(hex, 16).ok());
    match first.map(Lsn) {
        Some(first) if first < LAST && file_name(first) == name => FileKind::Segment(first),
        _ => FileKind::Foreign,
    }
}

/// Opens the file that the next segment will be made of: nothing is in it, or zeros.
pub(super) fn open_spare(env: &dyn Env, dir: &Path) -> Result<Box<dyn EnvFile>, EnvError> {
    env.open(&dir.join(SPARE), OpenMode::CreateOrOpen)
}

/// Creates the segment that begins at `first`, of the spare file if there is one. It gets its name only
/// when its header is durable, so a crash leaves either a segment with a whole header or an unfinished file.
pub(super) fn create(
    env: &dyn Env,
    dir: &Path,
    first: Lsn,
    database_id: u128,
    spare: Option<Box<dyn EnvFile>>,
) -> Result<Box<dyn EnvFile>, EnvError> {
    let (unfinished, file) = match spare {
        Some(spare) => (dir.join(SPARE), spare),
        None => {
            let unfinished = dir.join(format!("{:016x}{UNFINISHED_SUFFIX}", first.0));
            let file = env.open(&unfinished, OpenMode::CreateOrOpen)?;
            file.truncate(0)?;
            (unfinished, file)
        }
    };
    file.write_at(&encode_header(first, database_id), 0)?;
    file.sync_all()?;
    drop(file);
    let path = path(dir, first);
    env.rename(&unfinished, &path)?;
    env.sync_dir(dir)?;
    env.open(&path, OpenMode::Write)
}

/// Reads and checks the header of the segment that begins at `first`; returns the database id.
pub(super) fn read_header(file: &dyn EnvFile, first: Lsn) -> Result<u128, LogError> {
    let mut header = [0; HEADER_BYTES as usize];
    let bytes = file.read_at(&mut header, 0)?;
    let damaged =
        |damage| LogError::Damaged { path: file.path().to_owned(), offset: 0, lsn: first, damage };
    if bytes < header.len() {
        return Err(damaged(Damage::ShortHeader { bytes }));
    }
    let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("4 bytes"));
    let (stored, computed) = (word(12), header_crc(&header));
    if header[..8] != MAGIC {
        return Err(damaged(Damage::Magic));
    }
    if stored != computed {
        return Err(damaged(Damage::Checksum { stored, computed }));
    }
    if !(OLDEST_VERSION..=VERSION).contains(&word(8)) {
        let path = file.path().to_owned();
        return Err(LogError::Version { path, found: word(8), supported: VERSION });
    }
    let found = Lsn(u64::from_le_bytes(header[16..24].try_into().expect("8 bytes")));
    if found != first {
        return Err(damaged(Damage::FirstLsn { found }));
    }
    Ok(u128::from_le_bytes(header[24..40].try_into().expect("16 bytes")))
}

fn encode_header(first: Lsn, database_id: u128) -> [u8; HEADER_BYTES as usize] {
    let mut header = [0; HEADER_BYTES as usize];
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[16..24].copy_from_slice(&first.0.to_le_bytes());
    header[24..40].copy_from_slice(&database_id.to_le_bytes());
    let crc = header_crc(&header);
    header[12..16].copy_from_slice(&crc.to_le_bytes());
    header
}

fn header_crc(header: &[u8; HEADER_BYTES as usize]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(&header[..12]);
    hasher.update(&header[16..]);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_there_and_back() {
        let first = Lsn(0x1_2345_6789);
        assert_eq!(path(Path::new("log"), first), Path::new("log/0000000123456789.frlog"));
        assert_eq!(classify("0000000123456789.frlog"), FileKind::Segment(first));
        assert_eq!(classify("0000000123456789.frlog.tmp"), FileKind::Unfinished);
        for name in
            ["123456789.frlog", "+000000123456789.frlog", "000000012345678A.FRLOG", "notes.txt"]
        {
            assert_eq!(classify(name), FileKind::Foreign, "{name}");
        }
    }
}
