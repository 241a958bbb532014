//! Room for a record that is not there yet: who has it appends without waiting for anything.
//!
//! ```text
//!   reserve ──▶ granted ──▶ append: what is reserved becomes what is pending
//!      │           └──────▶ dropped: it is the next one's
//!      └ buffer full ──▶ in line ── the flusher has written ──▶ granted, oldest first
//! ```
//! Room is space on the disk, too: the files are filled with zeros as far as somebody is promised to write. A disk
//! that is full refuses the promise, before anything of a commit is anywhere, and the log works on: with
//! space again the next one is granted. (What has no room and is taken all the same has a margin.)
//!
//! [`super::LogOptions::buffer_bytes`] bounds what is reserved, pending and being written, together. Whoever waits in
//! line parks his task ([`Reserving`] is a future), or his thread.

use super::disk::Disk;
use super::segment::HEADER_BYTES;
use super::writer::{Shared, State};
use super::{Flusher, LogError};
use parking_lot::{Condvar, Mutex};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// So much more than is promised is kept for short records that are always taken.
const MARGIN_BYTES: u64 = 64 << 10;
/// What a frame may need beside its own bytes: a mark before it.
const MARK_BYTES: usize = 8;

/// Room for one record. Dropped, it is given back.
pub struct Room {
    shared: Arc<Shared>,
    pub(super) bytes: usize,
}

impl Room {
    /// Of bytes that are counted as reserved.
    pub(super) fn new(shared: &Arc<Shared>, bytes: usize) -> Room {
        Room { shared: Arc::clone(shared), bytes }
    }

    /// Whether a record of so many bytes, of which all are counted, has room in it.
    pub fn is_for(&self, payload_bytes: usize) -> bool {
        super::segment::record_frame_bytes(payload_bytes) <= self.bytes
    }

    /// The bytes of the longest frame it is for.
    pub(super) fn take(mut self) -> usize {
        std::mem::take(&mut self.bytes)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if self.bytes > 0 {
            let mut state = self.shared.state.lock();
            state.reserved_bytes -= self.bytes;
            let granted = self.shared.grant(&mut state);
            self.shared.room.notify_all();
            drop(state);
            tell(granted);
        }
    }
}

impl fmt::Debug for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Room({} bytes)", self.bytes)
    }
}

/// A place in line for room. The future is ready when [`Reserving::taken`] has the verdict.
#[derive(Clone)]
pub struct Reserving(Arc<Place>);

#[derive(Default)]
struct Place {
    inner: Mutex<Inner>,
    told: Condvar,
}

#[derive(Default)]
struct Inner {
    verdict: Option<Result<Room, LogError>>,
    is_known: bool,
    waker: Option<Waker>,
}

impl Reserving {
    fn new() -> Reserving {
        Reserving(Arc::default())
    }

    fn known(verdict: Result<Room, LogError>) -> Reserving {
        let place = Reserving::new();
        place.tell(verdict);
        place
    }

    fn tell(&self, verdict: Result<Room, LogError>) {
        let waker = {
            let mut inner = self.0.inner.lock();
            inner.verdict = Some(verdict);
            inner.is_known = true;
            self.0.told.notify_all();
            inner.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The room, once it is there. `None` before that, and after it was taken.
    pub fn taken(&self) -> Option<Result<Room, LogError>> {
        self.0.inner.lock().verdict.take()
    }

    /// Blocks until the verdict is there.
    pub fn wait_here(&self) {
        let mut inner = self.0.inner.lock();
        while !inner.is_known {
            self.0.told.wait(&mut inner);
        }
    }
}

impl Future for Reserving {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.0.inner.lock();
        if inner.is_known {
            return Poll::Ready(());
        }
        inner.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl fmt::Debug for Reserving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reserving({})", self.0.inner.lock().is_known)
    }
}

/// In line for so many bytes.
pub(super) struct InLine {
    bytes: usize,
    place: Reserving,
}

/// What has been decided under the lock, to be told without it: whoever is told may drop what he has.
pub(super) type Granted = Vec<(Reserving, Result<Room, LogError>)>;

pub(super) fn tell(granted: Granted) {
    for (place, verdict) in granted {
        place.tell(verdict);
    }
}

impl State {
    /// Whether so many bytes more may be promised. An empty buffer takes any record, or one longer than
    /// the buffer would wait for ever.
    pub(super) fn has_room(&self, bytes: usize, buffer_bytes: usize) -> bool {
        let held_bytes = self.unwritten_bytes() + self.reserved_bytes;
        held_bytes == 0 || held_bytes + bytes <= buffer_bytes
    }
}

impl Shared {
    /// Room for a record whose payload has so many bytes; at once, or in line.
    pub(super) fn reserve(self: &Arc<Self>, payload_bytes: usize) -> Result<Reserving, LogError> {
        let bytes = super::segment::record_frame_bytes(payload_bytes) + MARK_BYTES;
        let mut state = self.state.lock();
        loop {
            if let Some(error) = state.refusal() {
                return Err(error);
            }
            let manual = self.flusher == Flusher::Manual;
            if manual && !self.has_space(&state, bytes) {
                drop(state);
                self.extend(&mut self.disk.lock(), bytes)?;
                state = self.state.lock();
            }
            let has_room = state.in_line.is_empty() && state.has_room(bytes, self.buffer_bytes);
            // As in `append`: nobody else makes room.
            if has_room && self.has_space(&state, bytes) || manual && state.pending.is_empty() {
                state.reserved_bytes += bytes;
                drop(state);
                return Ok(Reserving::known(Ok(Room::new(self, bytes))));
            }
            if manual {
                drop(state);
                self.flush_step()?;
                state = self.state.lock();
                continue;
            }
            let place = Reserving::new();
            state.in_line.push_back(InLine { bytes, place: place.clone() });
            match has_room {
                true => state.wants_bytes = state.wants_bytes.max(bytes),
                false => state.requested = state.next,
            }
            self.wake(&mut state);
            return Ok(place);
        }
    }

    /// Grants what there is room for now, oldest first; or refuses all, when the log takes nothing more.
    pub(super) fn grant(self: &Arc<Self>, state: &mut State) -> Granted {
        self.grant_or(state, None)
    }

    /// The same after a look for space; who needs it is told why there is none.
    fn grant_or(self: &Arc<Self>, state: &mut State, no_space: Option<&LogError>) -> Granted {
        let mut granted = Granted::new();
        while let Some(bytes) = state.in_line.front().map(|first| first.bytes) {
            let verdict = match state.refusal() {
                Some(error) => Err(error),
                None if !state.has_room(bytes, self.buffer_bytes) => break,
                None if self.has_space(state, bytes) => {
                    state.reserved_bytes += bytes;
                    Ok(Room::new(self, bytes))
                }
                None => match no_space {
                    Some(error) => Err(error.clone()),
                    None => {
                        state.wants_bytes = state.wants_bytes.max(bytes);
                        self.wake(state);
                        break;
                    }
                },
            };
            let first = state.in_line.pop_front().expect("looked at just now");
            granted.push((first.place, verdict));
        }
        granted
    }

    /// Whether the files have the space for so many bytes more than what is promised.
    pub(super) fn has_space(&self, state: &State, bytes: usize) -> bool {
        if self.zeros_ahead_bytes == 0 {
            return true;
        }
        let (end, spare_bytes) = self.space_for(state, bytes);
        end.is_none_or(|end| end <= state.file_end) && spare_bytes <= state.spare_bytes
    }

    /// Up to where the segment's file is needed, and how much of the next one.
    fn space_for(&self, state: &State, bytes: usize) -> (Option<u64>, u64) {
        let margin_bytes = MARGIN_BYTES.min(self.zeros_ahead_bytes);
        let promised_bytes = (state.reserved_bytes + bytes) as u64 + margin_bytes;
        let end = state.next + promised_bytes;
        let is_full = state.next - state.segment_first >= self.segment_bytes;
        // It becomes full before all that is promised is there, so the rest goes into the next.
        let fills = end - state.segment_first >= self.segment_bytes;
        let spare_bytes = if fills { HEADER_BYTES + promised_bytes } else { 0 };
        ((!is_full).then_some(end), spare_bytes)
    }

    /// Looks for the space that who is in line needs; the flusher's.
    pub(super) fn extend_if_wanted(self: &Arc<Self>) -> Result<(), LogError> {
        let first_bytes = {
            let mut state = self.state.lock();
            let wanted_bytes = std::mem::take(&mut state.wants_bytes);
            if wanted_bytes == 0 {
                return Ok(());
            }
            // As many as come together.
            let asked_bytes: usize = state.in_line.iter().map(|first| first.bytes).take(16).sum();
            asked_bytes.max(wanted_bytes).max(self.zeros_ahead_bytes as usize / 2)
        };
        let extended = self.extend(&mut self.disk.lock(), first_bytes);
        let full = self.note_full(extended)?;
        let mut state = self.state.lock();
        let granted = self.grant_or(&mut state, full.as_ref());
        self.room.notify_all();
        drop(state);
        tell(granted);
        Ok(())
    }

    /// Whoever flushes looks for space before it is needed, so that nobody waits for it. A disk that is full is
    /// not asked again but by those who need it.
    pub(super) fn look_ahead(&self, disk: &mut Disk) -> Result<(), LogError> {
        let ahead_bytes = self.zeros_ahead_bytes as usize;
        if self.flusher == Flusher::Manual {
            return Ok(());
        }
        let state = self.state.lock();
        let has_space = self.has_space(&state, ahead_bytes / 4) || state.no_space.is_some();
        drop(state);
        if !has_space {
            let extended = self.extend(disk, ahead_bytes / 2);
            self.note_full(extended)?;
        }
        Ok(())
    }

    /// That there is no space is told to those who come for it, and to an operator.
    fn note_full(&self, extended: Result<(), LogError>) -> Result<Option<LogError>, LogError> {
        let full = match extended {
            Ok(()) => None,
            Err(error @ LogError::DiskFull { .. }) => Some(error),
            Err(error) => return Err(error),
        };
        let mut state = self.state.lock();
        if let Some(error) = full.as_ref().filter(|_| state.no_space.is_none()) {
            tracing::error!(%error, "nothing can be written until there is space, reads go on");
        }
        state.no_space.clone_from(&full);
        Ok(full)
    }

    /// Fills the files with zeros as far as so many bytes more need it.
    fn extend(&self, disk: &mut Disk, bytes: usize) -> Result<(), LogError> {
        let (segment_first, end, spare_bytes) = {
            let state = self.state.lock();
            let (end, spare_bytes) = self.space_for(&state, bytes);
            (state.segment_first, end, spare_bytes)
        };
        if segment_first != disk.first.0 {
            // Space behind a segment that is to be made is had when it is there.
            let mut state = self.state.lock();
            state.requested = state.next;
            // Whoever asks for less later wakes nobody, and this may be another thread than the flusher's.
            self.wake(&mut state);
        }
        // A segment that is not there yet is the spare file.
        let (file_bytes, spare_bytes) = match segment_first == disk.first.0 {
            true => (end.map_or(0, |end| end - segment_first), spare_bytes),
            false => (0, end.map_or(0, |end| end - segment_first)),
        };
        let extended = disk.extend(&*self.env, &self.dir, file_bytes, spare_bytes);
        self.note_space(disk);
        extended
    }

    /// What the files have by now.
    pub(super) fn note_space(&self, disk: &Disk) {
        let mut state = self.state.lock();
        if state.segment_first == disk.first.0 {
            state.file_end = state.file_end.max(disk.first.0 + disk.file_bytes);
            state.spare_bytes = disk.spare_bytes;
        } else {
            state.file_end = state.file_end.max(state.segment_first + disk.spare_bytes);
        }
    }
}
