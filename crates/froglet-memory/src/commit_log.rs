//! A transaction's way into the log.
//!
//! ```text
//!   short   reserve room ──────────────────────────────▶ timestamp ▶ [ts operations]
//!   long    closed chunks, as parts of a long record ─┐
//!           room for the rest ────────────────────────┴▶ timestamp ▶ last part: [rest ts]
//! ```
//! All that may wait is done before the commit timestamp is taken: the parts are in the log by then, and the last
//! one has its room. Parts say nothing of a commit; the last one does (`log/chain.rs`). So a transaction
//! may be larger than a frame, and than the log's buffer.

use std::pin::Pin;

use froglet_engine::{EngineError, LogRoom, Lsn};

use crate::txn::MemoryTxn;
use froglet_log::redo;
use froglet_log::{Chain, Log, Reserving, Room};

/// A longer one would wait in line behind everybody.
const CHUNK_BYTES: usize = 1 << 20;
/// More than what is logged beside operations: heads of a record and of a part, a timestamp.
const AROUND_BYTES: usize = 64;

/// How far a transaction has come into the log.
#[derive(Debug, Default)]
pub(crate) struct CommitLog {
    /// Closed chunks of its redo that are in the log.
    chunks: usize,
    /// Bytes of the next one that are.
    bytes: usize,
    chain: Option<Chain>,
    reserving: Option<Reserving>,
    /// For what is left when all closed chunks are in the log.
    room: Option<Room>,
    /// What has to be logged before the commit was not.
    refused: Option<EngineError>,
    /// Another engine logs a half of the transaction: here is one to be logged even if nothing was written.
    pub crosses: bool,
    /// Under this number.
    half: Option<u64>,
}

impl CommitLog {
    /// Only so many closed chunks are as they were: what is in the log of others is given up.
    pub fn forget_from(&mut self, chunks: usize) {
        let logged = self.chunks + usize::from(self.bytes > 0);
        if logged > chunks {
            *self = CommitLog { crosses: self.crosses, ..CommitLog::default() };
        }
    }

    /// Something without which a commit means something else was not logged: it will not be one.
    pub fn refuse(&mut self, error: EngineError) {
        self.refused = Some(error);
    }

    /// It is logged as the half of this number.
    pub fn set_half(&mut self, number: u64) -> Result<(), EngineError> {
        self.half = Some(number);
        self.refused.clone().map_or(Ok(()), Err)
    }

    /// Others may have the room.
    pub fn give_room_back(&mut self) {
        self.room = None;
        self.reserving = None;
    }
}

impl MemoryTxn {
    /// Where the next operation of its redo goes.
    pub(crate) fn next_redo(&mut self) -> &mut Vec<u8> {
        let log = self.core.log.as_ref();
        let chunk_bytes = log.map_or(CHUNK_BYTES, chunk_bytes);
        self.redo.next(chunk_bytes, &self.core.budget)
    }

    /// See [`froglet_engine::EngineTxn::reserve_log`].
    pub(crate) fn reserve_room(&mut self) -> Result<LogRoom, EngineError> {
        Ok(match self.reserve()? {
            None => LogRoom::Reserved,
            Some(reserving) => LogRoom::Wait(Box::pin(reserving) as Pin<Box<_>>),
        })
    }

    /// The same, in this thread.
    pub(crate) fn reserve_log_here(&mut self) -> Result<(), EngineError> {
        while let Some(reserving) = self.reserve()? {
            reserving.wait_here();
        }
        Ok(())
    }

    fn reserve(&mut self) -> Result<Option<Reserving>, EngineError> {
        let core = std::sync::Arc::clone(&self.core);
        let Some(log) = &core.log else { return Ok(None) };
        if self.redo.len() == 0 && !self.log.crosses {
            return Ok(None);
        }
        self.redo.close(chunk_bytes(log));
        loop {
            let piece_bytes = self.next_piece(log).map(<[u8]>::len);
            if piece_bytes.is_none() && self.log.room.is_some() {
                return Ok(None);
            }
            let wanted_bytes = piece_bytes.unwrap_or(self.redo.rest().len()) + AROUND_BYTES;
            let reserving = match self.log.reserving.take() {
                Some(reserving) => reserving,
                None => log.reserve(wanted_bytes)?,
            };
            match reserving.taken() {
                None => {
                    self.log.reserving = Some(reserving.clone());
                    return Ok(Some(reserving));
                }
                Some(Err(error)) => return Err(error.into()),
                // It was reserved for what has changed since.
                Some(Ok(room)) if !room.is_for(wanted_bytes) => {}
                Some(Ok(room)) => match piece_bytes {
                    Some(_) => self.push_piece(log, Some(room))?,
                    None => self.log.room = Some(room),
                },
            }
        }
    }

    /// The next bytes of closed chunks that are not in the log.
    fn next_piece(&self, log: &Log) -> Option<&[u8]> {
        let chunk = self.redo.closed().get(self.log.chunks)?;
        let left = &chunk[self.log.bytes..];
        Some(&left[..left.len().min(log.part_bytes())])
    }

    fn push_piece(&mut self, log: &Log, room: Option<Room>) -> Result<(), EngineError> {
        let mut chain = self.log.chain.take().unwrap_or_else(|| log.chain());
        let piece = self.next_piece(log).expect("the caller has looked");
        let pushed = match chain.is_begun() {
            true => chain.push(room, &[piece]),
            false => chain.push(room, &[&[redo::LONG_TXN], piece]),
        };
        pushed?;
        let bytes = self.log.bytes + piece.len();
        let whole = bytes == self.redo.closed()[self.log.chunks].len();
        self.log.chain = Some(chain);
        self.log.chunks += usize::from(whole);
        self.log.bytes = if whole { 0 } else { bytes };
        Ok(())
    }

    /// Logs what is left: this is the commit.
    pub(crate) fn log_operations(&mut self, ts: u64) -> Result<Lsn, EngineError> {
        let core = std::sync::Arc::clone(&self.core);
        let Some(log) = &core.log else { return Ok(Lsn(0)) };
        if let Some(error) = self.log.refused.take() {
            return Err(error);
        }
        let half = self.log.half.take();
        if self.redo.len() == 0 && half.is_none() {
            return Ok(Lsn(0));
        }
        // Nothing is left to push, but of a caller that has reserved nothing.
        while self.next_piece(log).is_some() {
            self.push_piece(log, None)?;
        }
        let rest = self.redo.rest();
        let room = self.log.room.take().filter(|room| room.is_for(rest.len() + AROUND_BYTES));
        let logged = match (self.log.chain.take(), room) {
            (Some(chain), room) => chain.end(room, &[rest, &redo::long_end(half, ts)]),
            (None, room) => {
                let mut head = Vec::with_capacity(21);
                redo::txn_head(&mut head, half, ts);
                match room {
                    Some(room) => log.append_in(room, &[&head, rest]),
                    None => log.append(&[&head, rest]),
                }
            }
        };
        logged.map_err(EngineError::from)
    }
}

fn chunk_bytes(log: &Log) -> usize {
    CHUNK_BYTES.min(log.part_bytes())
}
