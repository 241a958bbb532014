//! Recovery: finding the end of the log and replaying what is before it.
//!
//! The argument is in the [parent module](super); here are its steps.

use super::chain::Chains;
use super::segment::{
    self, FRAME_HEADER_BYTES, FileKind, FrameKey, HEADER_BYTES, MARK_WORD, PART_HEADER_BYTES,
    PartKind, Segment,
};
use super::{Damage, LogError, Lsn, MAX_PAYLOAD_BYTES};
use froglet_engine::env::{Env, EnvError, EnvFile, OpenMode};
use std::path::Path;

/// How much of a file is read at once.
const READ_BYTES: usize = 1 << 20;

/// What is called with each record: where its last frame begins, where it ends, its bytes.
pub(super) type Each<'a> = dyn FnMut(Lsn, Lsn, &[u8]) -> Result<(), LogError> + 'a;

/// A whole, correct frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A record.
    Record {
        /// What was appended.
        payload: &'a [u8],
        /// The bytes of the frame, a multiple of 8.
        frame_bytes: usize,
    },
    /// A part of a long record.
    Part {
        /// Which.
        kind: PartKind,
        /// Where the frame of the first part is; 0 in that itself.
        begin: Lsn,
        /// What it has of the record.
        bytes: &'a [u8],
        /// The bytes of the frame, a multiple of 8.
        frame_bytes: usize,
    },
    /// A sync mark, 8 bytes: everything before it was durable before it was written.
    Mark,
}

/// Decodes the frame that `bytes` begin with, read at the position `at` of the log of the database
/// with the given key. Never panics, whatever the bytes are; looks at no byte behind the frame.
pub fn decode_record(bytes: &[u8], at: Lsn, key: FrameKey) -> Result<Frame<'_>, Damage> {
    let Some((head, rest)) = bytes.split_first_chunk::<FRAME_HEADER_BYTES>() else {
        return Err(Damage::Incomplete { needed_bytes: FRAME_HEADER_BYTES });
    };
    let word = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
    let stored = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
    if word == 0 {
        return Err(Damage::NoFrame);
    }
    let (is_part, payload_bytes) = (word > MARK_WORD, (word & !MARK_WORD) as usize);
    if payload_bytes > MAX_PAYLOAD_BYTES || is_part && payload_bytes < PART_HEADER_BYTES {
        return Err(Damage::Length { word });
    }
    let frame_bytes = segment::record_frame_bytes(payload_bytes);
    if bytes.len() < frame_bytes {
        return Err(Damage::Incomplete { needed_bytes: frame_bytes });
    }
    let payload = &rest[..payload_bytes];
    let mut hasher = key.hasher();
    hasher.update(payload);
    let computed = segment::seal(hasher, word, at);
    if stored != computed {
        return Err(Damage::Checksum { stored, computed });
    }
    if is_part {
        let (header, bytes) = payload.split_at(PART_HEADER_BYTES);
        let kind = PartKind::of(header[0]).ok_or(Damage::Part { kind: header[0] })?;
        let begin = Lsn(u64::from_le_bytes(header[1..].try_into().expect("8 of 9 bytes")));
        return Ok(Frame::Part { kind, begin, bytes, frame_bytes });
    }
    Ok(if word == MARK_WORD { Frame::Mark } else { Frame::Record { payload, frame_bytes } })
}

/// A log that has been read to its end.
#[derive(Debug)]
pub(super) struct Recovered {
    pub database_id: u128,
    /// All segments, oldest first; the last one is the one to append to.
    pub segments: Vec<Segment>,
    /// Where the next frame goes.
    pub end: Lsn,
    /// Everything before this was certainly durable; from here to `end` perhaps only written.
    pub confirmed: Lsn,
    /// Whether the last frame is a sync mark.
    pub ends_with_mark: bool,
    /// Whether there are bytes behind `end` that must be cut before anything is appended.
    pub torn: bool,
}

/// Lists the segments in `dir`, oldest first, and removes unfinished ones.
pub(super) fn list(env: &dyn Env, dir: &Path) -> Result<Vec<Segment>, LogError> {
    let mut segments = Vec::new();
    for name in env.list(dir)? {
        match segment::classify(&name) {
            FileKind::Segment(first) => {
                let file_bytes = env.open(&dir.join(name), OpenMode::Read)?.len()?;
                segments.push(Segment { first, file_bytes });
            }
            FileKind::Unfinished => env.remove(&dir.join(name))?,
            FileKind::Foreign => tracing::warn!(%name, "ignoring a file that is no log segment"),
        }
    }
    segments.sort_by_key(|segment| segment.first);
    Ok(segments)
}

/// Replays every record that begins at `from` or later and finds the end of the log. Changes
/// nothing.
pub(super) fn recover(
    env: &dyn Env,
    dir: &Path,
    segments: Vec<Segment>,
    from: Lsn,
    mut database_id: Option<u128>,
    each: &mut Each<'_>,
) -> Result<Recovered, LogError> {
    let oldest = segments.first().map(|segment| segment.first);
    let start = segments.partition_point(|segment| segment.first <= from);
    let Some(start) = start.checked_sub(1) else {
        return Err(LogError::MissingStart { dir: dir.to_owned(), from, oldest });
    };
    // What is begun and not ended when all is read has never been a record.
    let mut chains = Chains::default();
    for index in start..segments.len() {
        let first = segments[index].first;
        let next = segments.get(index + 1).map(|next| next.first);
        let file = env.open(&segment::path(dir, first), OpenMode::Read)?;
        let found = segment::read_header(&*file, first)?;
        let expected = *database_id.get_or_insert(found);
        if found != expected {
            return Err(LogError::OtherDatabase { path: file.path().to_owned(), found, expected });
        }
        let mut walk = Walk::new(&*file, first, next, FrameKey::new(found))?;
        let damage = walk.run(from, &mut chains, each)?;
        let end = walk.position();
        let Some(next) = next else {
            let torn = walk.check_tail(damage)?;
            if end < from {
                return Err(LogError::EndsEarly { dir: dir.to_owned(), from, end });
            }
            let (confirmed, ends_with_mark) = (walk.confirmed, walk.ends_with_mark);
            return Ok(Recovered {
                database_id: found,
                segments,
                end,
                confirmed,
                ends_with_mark,
                torn,
            });
        };
        if end != next {
            return Err(walk.damaged(damage));
        }
    }
    unreachable!("the last segment has no next one")
}

/// A walk over the frames of one segment.
struct Walk<'a> {
    file: &'a dyn EnvFile,
    first: Lsn,
    key: FrameKey,
    /// The file offset where the frames of this segment must end.
    limit: u64,
    /// The file offset of the next frame.
    offset: u64,
    /// See [`Recovered::confirmed`].
    confirmed: Lsn,
    ends_with_mark: bool,
    window: Window,
}

impl<'a> Walk<'a> {
    fn new(
        file: &'a dyn EnvFile,
        first: Lsn,
        next: Option<Lsn>,
        key: FrameKey,
    ) -> Result<Walk<'a>, LogError> {
        let file_bytes = file.len()?;
        let limit =
            next.map_or(file_bytes, |next| file_bytes.min(next.0 - first.0)).max(HEADER_BYTES);
        let offset = HEADER_BYTES;
        let confirmed = Lsn(first.0 + HEADER_BYTES);
        let window = Window::default();
        Ok(Walk { file, first, key, limit, offset, confirmed, ends_with_mark: false, window })
    }

    fn position(&self) -> Lsn {
        Lsn(self.first.0 + self.offset)
    }

    /// Goes from frame to frame; returns why the place where it stopped holds no frame.
    fn run(
        &mut self,
        from: Lsn,
        chains: &mut Chains,
        each: &mut Each<'_>,
    ) -> Result<Damage, LogError> {
        loop {
            let at = self.position();
            let mut wanted_bytes = FRAME_HEADER_BYTES;
            let frame = loop {
                let bytes = self.window.at(self.file, self.offset, wanted_bytes, self.limit)?;
                match decode_record(bytes, at, self.key) {
                    Err(Damage::Incomplete { needed_bytes })
                        if needed_bytes > wanted_bytes
                            && needed_bytes as u64 <= self.limit - self.offset =>
                    {
                        wanted_bytes = needed_bytes;
                    }
                    result => break result,
                }
            };
            let frame_bytes = match frame {
                Err(damage) => return Ok(damage),
                Ok(Frame::Mark) => {
                    self.confirmed = at;
                    self.ends_with_mark = true;
                    self.offset += FRAME_HEADER_BYTES as u64;
                    continue;
                }
                Ok(Frame::Record { frame_bytes, .. } | Frame::Part { frame_bytes, .. }) => {
                    frame_bytes
                }
            };
            let end = Lsn(at.0 + frame_bytes as u64);
            if at < from && end > from {
                return Err(LogError::NotABoundary { from, begin: at, end });
            }
            match frame {
                Ok(Frame::Record { payload, .. }) if at >= from => each(at, end, payload)?,
                Ok(Frame::Part { kind, begin, bytes, .. }) if at >= from => {
                    match chains.part(at, kind, begin, bytes) {
                        Ok(Some(record)) => each(at, end, &record)?,
                        Ok(None) => {}
                        // Where the replay begins no record is begun.
                        Err(damage) => return Err(self.damaged(damage)),
                    }
                }
                _ => {}
            }
            self.ends_with_mark = false;
            self.offset += frame_bytes as u64;
        }
    }

    /// Looks at everything behind the last frame of the log. A sync mark there proves that the
    /// frame before it was durable once, so its absence is damage. Without one the rest was never
    /// confirmed; returns whether there is any, that is, anything but zeros.
    fn check_tail(&mut self, damage: Damage) -> Result<bool, LogError> {
        let mut torn = !self.limit.is_multiple_of(8);
        let mut offset = self.offset;
        while offset + 8 <= self.limit {
            let bytes = self.window.at(self.file, offset, 8, self.limit)?;
            let whole_bytes = bytes.len() & !7;
            if whole_bytes == 0 {
                break;
            }
            for (index, chunk) in bytes[..whole_bytes].as_chunks::<8>().0.iter().enumerate() {
                torn |= *chunk != [0; 8];
                if chunk[..4] != MARK_WORD.to_le_bytes() {
                    continue;
                }
                let mark = Lsn(self.first.0 + offset + 8 * index as u64);
                if decode_record(chunk, mark, self.key) == Ok(Frame::Mark) {
                    return Err(self.damaged(Damage::BeforeMark { mark, damage: Box::new(damage) }));
                }
            }
            offset += whole_bytes as u64;
        }
        if torn {
            let cut_bytes = self.limit - self.offset;
            let (path, end) = (self.file.path().display(), self.position());
            tracing::warn!(%path, %end, cut_bytes, %damage, "cutting the torn tail of the log");
        }
        Ok(torn)
    }

    fn damaged(&self, damage: Damage) -> LogError {
        let path = self.file.path().to_owned();
        LogError::Damaged { path, offset: self.offset, lsn: self.position(), damage }
    }
}

/// The part of a file that is in memory.
#[derive(Default)]
struct Window {
    begin: u64,
    bytes: Vec<u8>,
}

impl Window {
    /// The bytes from `offset` on: at least `wanted_bytes`, unless `limit` comes first.
    fn at(
        &mut self,
        file: &dyn EnvFile,
        offset: u64,
        wanted_bytes: usize,
        limit: u64,
    ) -> Result<&[u8], EnvError> {
        let left_bytes = usize::try_from(limit - offset).unwrap_or(usize::MAX);
        let wanted_bytes = wanted_bytes.min(left_bytes);
        let end = self.begin + self.bytes.len() as u64;
        if offset < self.begin || offset + wanted_bytes as u64 > end {
            self.bytes.resize(wanted_bytes.max(READ_BYTES).min(left_bytes), 0);
            self.begin = offset;
            let got = file.read_at(&mut self.bytes, offset)?;
            self.bytes.truncate(got);
        }
        let skip = usize::try_from(offset - self.begin).expect("the offset is inside the window");
        Ok(&self.bytes[skip..])
    }
}
