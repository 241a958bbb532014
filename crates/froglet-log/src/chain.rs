//! Records that are longer than a frame may be, or than waits in memory at once: in parts.
//!
//! ```text
//!   frames   │ begin │ record │ middle, of begin's │ begin │ M │ middle │ record │ end, of begin's │ …
//!                └──────────────────┴── other records, and other chains, between ──────┘
//!                                                                          here stands the record
//! ```
//! A part names the LSN of the first one's frame, so parts of several records may be mixed.
//!
//! - **Whole or nothing.** The record is where its last part is: replayed there, in order with the records
//!   around it. Parts without a last one are no record; a part that says so spares recovery their memory.
//! - **Not cut.** A checkpoint replays from the beginning of the oldest record that is begun and not ended
//!   ([`super::Log::begun_before`]), however far the log has gone on. So no segment goes that has a part
//!   of a record whose end may be replayed.
//!
//! Recovery holds the parts of what is begun: the size of the record, once.

use super::room::Room;
use super::segment::{PART_HEADER_BYTES, PartKind, part_header};
use super::writer::Shared;
use super::{Damage, LogError, Lsn};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A long record under way. Dropped before its end, it has never been.
pub struct Chain {
    shared: Arc<Shared>,
    begin: Option<Lsn>,
}

impl Chain {
    pub(super) fn new(shared: Arc<Shared>) -> Chain {
        Chain { shared, begin: None }
    }

    /// Whether a part of it is in the log.
    pub fn is_begun(&self) -> bool {
        self.begin.is_some()
    }

    /// Appends a part, of at most `part_bytes`, for which there is room, or which waits for it.
    pub fn push(&mut self, room: Option<Room>, bytes: &[&[u8]]) -> Result<(), LogError> {
        let kind = if self.begin.is_none() { PartKind::Begin } else { PartKind::Middle };
        let appended = self.shared.append_part(kind, self.begin, room, bytes)?;
        self.begin.get_or_insert(appended.begin);
        Ok(())
    }

    /// Appends the last part: the record is logged, up to the LSN that is returned.
    pub fn end(mut self, room: Option<Room>, bytes: &[&[u8]]) -> Result<Lsn, LogError> {
        assert!(self.is_begun(), "a record of one part is no long one");
        let end = self.shared.append_part(PartKind::End, self.begin, room, bytes)?.end;
        self.begin = None;
        Ok(end)
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        if self.begin.is_some() {
            self.shared.give_up(self.begin);
        }
    }
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Chain({:?})", self.begin)
    }
}

/// The bytes of a part before those of its record.
pub const HEADER_BYTES: usize = PART_HEADER_BYTES;

/// What stands before the bytes of a part in its frame.
pub(super) fn header(kind: PartKind, begin: Option<Lsn>) -> [u8; HEADER_BYTES] {
    part_header(kind, begin.unwrap_or(Lsn(0)))
}

/// The long records that a replay has met the beginning of.
#[derive(Default)]
pub(super) struct Chains {
    begun: BTreeMap<Lsn, Vec<Vec<u8>>>,
}

impl Chains {
    /// Takes the part whose frame is at `at`; the whole record, if this ends it.
    pub fn part(
        &mut self,
        at: Lsn,
        kind: PartKind,
        begin: Lsn,
        bytes: &[u8],
    ) -> Result<Option<Vec<u8>>, Damage> {
        if kind == PartKind::Begin {
            self.begun.insert(at, vec![bytes.to_vec()]);
            return Ok(None);
        }
        let parts = self.begun.get_mut(&begin).ok_or(Damage::NoBeginning { begin })?;
        match kind {
            PartKind::Begin | PartKind::Middle => {
                parts.push(bytes.to_vec());
                return Ok(None);
            }
            PartKind::End => parts.push(bytes.to_vec()),
            PartKind::GivenUp => {
                self.begun.remove(&begin);
                return Ok(None);
            }
        }
        let parts = self.begun.remove(&begin).unwrap_or_default();
        let mut record = Vec::with_capacity(parts.iter().map(Vec::len).sum());
        // Each goes when it is copied: together they are hardly more than the record once.
        for part in parts {
            record.extend_from_slice(&part);
        }
        Ok(Some(record))
    }
}
