//! Appending: the way of a record from the caller's hands into the batch.
//!
//! ```text
//!   append ─▶ State.pending ──take──▶ flusher ─▶ Disk: write, fdatasync ─▶ publish ─▶ callbacks
//!             (short mutex)           (one at a time)
//! ```
//! What may be long waits for room in its thread ([`Log::append`]) or has reserved it ([`Log::append_in`]);
//! short records of whoever cannot wait, and need not, are always taken ([`Log::append_now`]).
//!
//! Locks are taken in this order: `disk` (for a whole flush), then `state`, `waiters` or `segments`
//! (each for moments, never two of them).

use super::chain::{self, Chain};
use super::disk::Disk;
use super::reader::{self, Recovered};
use super::room::{self, InLine, Reserving, Room};
use super::segment::{
    self, FRAME_HEADER_BYTES, FrameKey, HEADER_BYTES, MARK_WORD, PartKind, Segment,
};
use super::{
    DurableCallback, FailureHook, Flusher, LogError, LogOptions, Lsn, MAX_PAYLOAD_BYTES, Replay,
};
use froglet_engine::env::Env;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// An open log. Dropping it flushes everything and ends its thread.
pub struct Log {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Log {
    /// Opens the log in `dir`, creating both if they do not exist and `from` is 0. Replays all
    /// whole records from `from` (0, or an end that an append returned) in order, each with its
    /// end; cuts a torn tail. After damage was found the segments are as they were; what was
    /// replayed before an error is worth nothing.
    pub fn open(
        env: Arc<dyn Env>,
        dir: &Path,
        options: LogOptions,
        from: Lsn,
        replay: &mut Replay<'_>,
    ) -> Result<Log, LogError> {
        env.create_dir_all(dir)?;
        let mut segments = reader::list(&*env, dir)?;
        if segments.is_empty() && from == Lsn(0) {
            let random = || u128::from(env.random_u64()) << 64 | u128::from(env.random_u64());
            let database_id = options.database_id.unwrap_or_else(random);
            segment::create(&*env, dir, Lsn(0), database_id, None)
                .map_err(|error| LogError::from_write(error, HEADER_BYTES))?;
            if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                env.sync_dir(parent)?;
            }
            segments.push(Segment { first: Lsn(0), file_bytes: HEADER_BYTES });
        }
        let mut each = |_: Lsn, end: Lsn, record: &[u8]| replay(end, record);
        let recovered =
            reader::recover(&*env, dir, segments, from, options.database_id, &mut each)?;
        let disk =
            Disk::resume(&*env, dir, &recovered, options.zeros_ahead_bytes, options.segment_bytes)?;
        let shared = Arc::new(Shared::new(env, dir, options, disk, recovered));
        let mut thread = None;
        if shared.flusher == Flusher::Thread {
            let shared = shared.clone();
            let started = std::thread::Builder::new()
                .name("froglet-log".to_owned())
                .spawn(move || shared.run());
            thread = Some(started.map_err(|source| LogError::Thread { source: Arc::new(source) })?);
        }
        Ok(Log { shared, thread: Mutex::new(thread) })
    }

    /// Appends one record, the concatenation of `payload_parts`, and returns its end. The record is
    /// in order but not durable. Blocks while more than `buffer_bytes` wait to be written.
    pub fn append(&self, payload_parts: &[&[u8]]) -> Result<Lsn, LogError> {
        self.shared.append(payload_parts, When::ThereIsRoom)
    }

    /// The same, and never blocks: for short records that are few.
    pub fn append_now(&self, payload_parts: &[&[u8]]) -> Result<Lsn, LogError> {
        self.shared.append(payload_parts, When::Now)
    }

    /// The same, where there is room for it, and of no more bytes than that was reserved for.
    pub fn append_in(&self, room: Room, payload_parts: &[&[u8]]) -> Result<Lsn, LogError> {
        self.shared.append(payload_parts, When::Reserved(room))
    }

    /// Room for a record whose payload has at most so many bytes; or a place in line for it.
    pub fn reserve(&self, payload_bytes: usize) -> Result<Reserving, LogError> {
        self.shared.reserve(payload_bytes)
    }

    /// A record in parts.
    pub fn chain(&self) -> Chain {
        Chain::new(Arc::clone(&self.shared))
    }

    /// The payload of the longest record that is logged in one part.
    pub fn part_bytes(&self) -> usize {
        self.shared.part_bytes
    }

    /// What part of a log is needed from the last record on: where the oldest long record begins that is not
    /// ended, or else the log's end.
    pub fn begun_before(&self) -> Lsn {
        let state = self.shared.state.lock();
        Lsn(state.chains.first().copied().unwrap_or(state.next))
    }

    /// Asks for everything up to `lsn` to be made durable now, not after the flush interval.
    pub fn request_durable(&self, lsn: Lsn) {
        self.shared.request(lsn);
    }

    /// Everything before this is durable.
    pub fn durable(&self) -> Lsn {
        Lsn(self.shared.durable.load(Ordering::Acquire))
    }

    /// The end of the last record.
    pub fn appended(&self) -> Lsn {
        Lsn(self.shared.state.lock().next)
    }

    /// Makes everything up to `lsn` durable in the caller's thread; false if another thread is
    /// flushing, perhaps without `lsn`. Saves the hand-over to the flusher and back.
    pub fn make_durable(&self, lsn: Lsn) -> Result<bool, LogError> {
        Ok(self.durable() >= lsn || self.shared.try_flush_step()? && self.durable() >= lsn)
    }

    /// Requests `lsn` durable and calls back once it is, or once the log has failed: at once in
    /// this thread, or later in the flushing thread. The callback must neither append nor wait, for
    /// the flusher would wait for itself. After an error the fate of the record is known only after
    /// a restart: the error says that nobody may rely on it, not that it is gone.
    pub fn subscribe(&self, lsn: Lsn, callback: DurableCallback) {
        let appended = self.appended();
        if lsn > appended {
            return callback(Err(LogError::NotAppended { lsn, appended }));
        }
        if self.shared.enqueue(lsn, callback) {
            self.shared.request(lsn);
        }
    }

    /// Blocks until everything up to `lsn` is durable or the log has failed.
    pub fn wait_durable(&self, lsn: Lsn) -> Result<(), LogError> {
        if self.durable() >= lsn {
            return Ok(());
        }
        if self.shared.flusher == Flusher::Manual && lsn <= self.appended() {
            return self.shared.flush_step();
        }
        let outcome = Arc::new((Mutex::new(None), Condvar::new()));
        let told = outcome.clone();
        self.subscribe(
            lsn,
            Box::new(move |result| {
                *told.0.lock() = Some(result);
                told.1.notify_one();
            }),
        );
        let mut slot = outcome.0.lock();
        loop {
            if let Some(result) = slot.take() {
                return result;
            }
            outcome.1.wait(&mut slot);
        }
    }

    /// Makes everything appended so far durable.
    pub fn flush(&self) -> Result<(), LogError> {
        self.wait_durable(self.appended())
    }

    /// Removes the segments that end at `lsn` or before, after a checkpoint from which recovery
    /// begins at `lsn`. The current segment always stays. What a failure leaves behind is listed
    /// again by the next open.
    pub fn truncate_before(&self, lsn: Lsn) -> Result<(), LogError> {
        let old: Vec<Segment> = {
            let mut segments = self.shared.segments.lock();
            let begun = segments.partition_point(|segment| segment.first <= lsn);
            segments.drain(..begun.saturating_sub(1)).collect()
        };
        if old.is_empty() {
            return Ok(());
        }
        for segment in &old {
            self.shared.env.remove(&segment::path(&self.shared.dir, segment.first))?;
        }
        Ok(self.shared.env.sync_dir(&self.shared.dir)?)
    }

    /// The bytes of all segments on disk.
    pub fn size_bytes(&self) -> u64 {
        self.shared.segments.lock().iter().map(|segment| segment.file_bytes).sum()
    }

    /// The database the log belongs to.
    pub fn database_id(&self) -> u128 {
        self.shared.database_id
    }

    /// Flushes everything, ends the log with a sync mark and its thread. Later appends are refused.
    pub fn close(&self) -> Result<(), LogError> {
        let thread = self.thread.lock().take();
        {
            let mut state = self.shared.state.lock();
            state.closing = true;
            self.shared.work.notify_one();
            let refused = self.shared.grant(&mut state);
            self.shared.room.notify_all();
            drop(state);
            room::tell(refused);
        }
        match thread {
            // A callback may drop the last handle: the flushing thread cannot join itself, but sees
            // `closing` when it goes on.
            Some(thread) if thread.thread().id() == std::thread::current().id() => return Ok(()),
            Some(thread) => thread.join().map_err(|_| LogError::Panicked)?,
            None => self.shared.finish()?,
        }
        self.shared.state.lock().failed.clone().map_or(Ok(()), Err)
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (durable, appended) = (self.durable(), self.appended());
        f.debug_struct("Log")
            .field("durable", &durable)
            .field("appended", &appended)
            .finish_non_exhaustive()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::error!(%error, "the log was closed after a failure");
        }
    }
}

/// A run of bytes that one write puts into one segment.
pub(super) struct Chunk {
    pub begin: u64,
    /// Whether a new segment is created for it, whose header takes the bytes before `begin`.
    pub opens_segment: bool,
    pub bytes: Vec<u8>,
}

/// What the flusher sleeps on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sleep {
    Awake,
    /// Nothing is pending.
    UntilAppend,
    /// Something is pending that nobody waits for.
    UntilInterval,
}

pub(super) struct State {
    /// The LSN of the next frame.
    pub next: u64,
    /// The LSN at which the current segment begins.
    pub segment_first: u64,
    pub pending: Vec<Chunk>,
    pub pending_bytes: usize,
    /// Taken by the flusher and not yet written.
    pub flushing_bytes: usize,
    /// Promised to records that are not there yet.
    pub reserved_bytes: usize,
    /// Who waits for a promise.
    pub in_line: VecDeque<InLine>,
    /// Up to here the segment's file can be written without asking for space. It is behind the truth for moments.
    pub file_end: u64,
    /// So much of the next one can.
    pub spare_bytes: u64,
    /// Somebody needs more of either, for so many bytes.
    pub wants_bytes: usize,
    /// Why there was none when it was last looked for. Who needs some has it looked for again.
    pub no_space: Option<LogError>,
    /// Where the long records begin that are not ended.
    pub chains: BTreeSet<u64>,
    /// An empty buffer to use again.
    pub spare: Vec<u8>,
    /// The highest position somebody waits for.
    pub requested: u64,
    pub sleep: Sleep,
    /// Whether the log ends with a sync mark.
    pub ends_with_mark: bool,
    pub closing: bool,
    pub closed: bool,
    pub failed: Option<LogError>,
}

impl State {
    /// The bytes not yet written.
    pub fn unwritten_bytes(&self) -> usize {
        self.pending_bytes + self.flushing_bytes
    }

    /// Starts a batch, in a new segment if the current one is long enough.
    pub fn begin_chunk(&mut self, key: FrameKey, segment_bytes: u64) {
        let opens_segment = self.next - self.segment_first >= segment_bytes;
        if opens_segment {
            self.segment_first = self.next;
            self.next += HEADER_BYTES;
            self.file_end = self.segment_first + std::mem::take(&mut self.spare_bytes);
        }
        assert!(self.next.is_multiple_of(8), "frames are aligned");
        let mut bytes = std::mem::take(&mut self.spare);
        bytes.clear();
        self.pending.push(Chunk { begin: self.next, opens_segment, bytes });
        let crc = segment::seal(key.hasher(), MARK_WORD, Lsn(self.next));
        self.push_frame(MARK_WORD, crc, &[], FRAME_HEADER_BYTES);
        self.ends_with_mark = true;
    }

    fn push_frame(&mut self, word: u32, crc: u32, payload_parts: &[&[u8]], frame_bytes: usize) {
        let bytes = &mut self.pending.last_mut().expect("a chunk was begun").bytes;
        let end = bytes.len() + frame_bytes;
        bytes.reserve(frame_bytes);
        bytes.extend_from_slice(&word.to_le_bytes());
        bytes.extend_from_slice(&crc.to_le_bytes());
        for part in payload_parts {
            bytes.extend_from_slice(part);
        }
        assert!(
            bytes.len() <= end && end - bytes.len() < 8,
            "a frame is as long as its payload says"
        );
        bytes.resize(end, 0);
        self.pending_bytes += frame_bytes;
        self.next += frame_bytes as u64;
        self.ends_with_mark = false;
    }

    /// Whether so many bytes more are more than the file has space for.
    fn is_beyond(&self, bytes: usize) -> bool {
        self.next + (self.reserved_bytes + bytes) as u64 > self.file_end
    }

    /// What is begun and not ended changes with a part.
    fn note_part(&mut self, at: Lsn, header: &[u8]) {
        let of = |header: &[u8]| u64::from_le_bytes(header[1..9].try_into().expect("8 bytes"));
        match PartKind::of(header[0]) {
            Some(PartKind::Begin) => {
                self.chains.insert(at.0);
            }
            Some(PartKind::End | PartKind::GivenUp) => {
                self.chains.remove(&of(header));
            }
            Some(PartKind::Middle) | None => {}
        }
    }

    pub fn refusal(&self) -> Option<LogError> {
        self.failed.clone().or_else(|| self.closing.then_some(LogError::Closed))
    }
}

/// When a record is appended.
enum When {
    /// As soon as there is room.
    ThereIsRoom,
    /// At once.
    Now,
    /// At once, where its room is.
    Reserved(Room),
}

/// Where a frame has come to be.
pub(super) struct Appended {
    pub begin: Lsn,
    pub end: Lsn,
}

/// Who waits for what; in the order of positions.
#[derive(Default)]
pub(super) struct Waiters {
    pub callbacks: BTreeMap<(Lsn, u64), DurableCallback>,
    pub count: u64,
    pub failed: Option<LogError>,
}

/// What the handle and the flusher share.
pub(super) struct Shared {
    pub env: Arc<dyn Env>,
    pub dir: PathBuf,
    pub database_id: u128,
    pub key: FrameKey,
    pub segment_bytes: u64,
    pub buffer_bytes: usize,
    pub part_bytes: usize,
    pub zeros_ahead_bytes: u64,
    pub flush_bytes: usize,
    pub flush_interval: Duration,
    pub flusher: Flusher,
    pub state: Mutex<State>,
    /// The flusher sleeps here.
    pub work: Condvar,
    /// Appends sleep here while the buffer is full.
    pub room: Condvar,
    pub durable: AtomicU64,
    pub waiters: Mutex<Waiters>,
    pub segments: Mutex<Vec<Segment>>,
    pub disk: Mutex<Disk>,
    pub on_failure: Mutex<Option<FailureHook>>,
}

impl Shared {
    fn new(
        env: Arc<dyn Env>,
        dir: &Path,
        options: LogOptions,
        disk: Disk,
        recovered: Recovered,
    ) -> Shared {
        let end = recovered.end.0;
        let state = State {
            next: end,
            segment_first: disk.first.0,
            pending: Vec::new(),
            pending_bytes: 0,
            flushing_bytes: 0,
            reserved_bytes: 0,
            in_line: VecDeque::new(),
            file_end: disk.first.0 + disk.file_bytes,
            spare_bytes: 0,
            wants_bytes: 0,
            no_space: None,
            chains: BTreeSet::new(),
            spare: Vec::new(),
            requested: 0,
            sleep: Sleep::Awake,
            ends_with_mark: recovered.ends_with_mark,
            closing: false,
            closed: false,
            failed: None,
        };
        let mut segments = recovered.segments;
        let current = segments.last_mut().expect("a recovered log has a segment");
        current.file_bytes = disk.file_bytes;
        Shared {
            env,
            dir: dir.to_owned(),
            database_id: recovered.database_id,
            key: FrameKey::new(recovered.database_id),
            segment_bytes: options.segment_bytes,
            buffer_bytes: options.buffer_bytes,
            part_bytes: options.part_bytes.clamp(1, MAX_PAYLOAD_BYTES / 2),
            zeros_ahead_bytes: options.zeros_ahead_bytes,
            flush_bytes: options.flush_bytes,
            flush_interval: options.flush_interval,
            flusher: options.flusher,
            state: Mutex::new(state),
            work: Condvar::new(),
            room: Condvar::new(),
            durable: AtomicU64::new(end),
            waiters: Mutex::new(Waiters::default()),
            segments: Mutex::new(segments),
            disk: Mutex::new(disk),
            on_failure: Mutex::new(options.on_failure),
        }
    }

    fn append(self: &Arc<Self>, payload_parts: &[&[u8]], when: When) -> Result<Lsn, LogError> {
        let payload_bytes: usize = payload_parts.iter().map(|part| part.len()).sum();
        if payload_bytes == 0 {
            return Err(LogError::EmptyRecord);
        }
        if let When::Reserved(_) = when {
            assert!(payload_bytes <= MAX_PAYLOAD_BYTES, "who reserves logs what is long in parts");
        } else if payload_bytes > self.part_bytes {
            return self.append_in_parts(payload_parts, matches!(when, When::Now));
        }
        Ok(self.append_frame(0, payload_parts, when)?.end)
    }

    /// One after the other: what is in memory is the caller's, and a part.
    fn append_in_parts(
        self: &Arc<Self>,
        payload_parts: &[&[u8]],
        now: bool,
    ) -> Result<Lsn, LogError> {
        let mut left: usize = payload_parts.iter().map(|part| part.len()).sum();
        let mut pieces = payload_parts.iter().flat_map(|part| part.chunks(self.part_bytes));
        let mut chain = Chain::new(Arc::clone(self));
        loop {
            let piece = pieces.next().expect("there are pieces until nothing is left");
            left -= piece.len();
            let room = match now {
                true => Some(self.room_at_once(piece.len() + chain::HEADER_BYTES)?),
                false => None,
            };
            if left == 0 && chain.is_begun() {
                return chain.end(room, &[piece]);
            }
            chain.push(room, &[piece])?;
        }
    }

    /// Room beyond what there is, for who cannot wait.
    fn room_at_once(self: &Arc<Self>, payload_bytes: usize) -> Result<Room, LogError> {
        let mut state = self.state.lock();
        if let Some(error) = state.refusal() {
            return Err(error);
        }
        let bytes = segment::record_frame_bytes(payload_bytes);
        state.reserved_bytes += bytes;
        Ok(Room::new(self, bytes))
    }

    /// Appends a part of a long record.
    pub fn append_part(
        self: &Arc<Self>,
        kind: PartKind,
        begin: Option<Lsn>,
        room: Option<Room>,
        bytes: &[&[u8]],
    ) -> Result<Appended, LogError> {
        let header = chain::header(kind, begin);
        let parts: Vec<&[u8]> = std::iter::once(&header[..]).chain(bytes.iter().copied()).collect();
        let when = room.map_or(When::ThereIsRoom, When::Reserved);
        self.append_frame(MARK_WORD, &parts, when)
    }

    /// A long record will not be ended.
    pub fn give_up(self: &Arc<Self>, begin: Option<Lsn>) {
        let header = chain::header(PartKind::GivenUp, begin);
        // A log that has failed is not read on.
        if self.append_frame(MARK_WORD, &[&header], When::Now).is_err()
            && let Some(begin) = begin
        {
            self.state.lock().chains.remove(&begin.0);
        }
    }

    fn append_frame(
        self: &Arc<Self>,
        flag: u32,
        payload_parts: &[&[u8]],
        when: When,
    ) -> Result<Appended, LogError> {
        let payload_bytes: usize = payload_parts.iter().map(|part| part.len()).sum();
        assert!(payload_bytes <= MAX_PAYLOAD_BYTES, "a frame of {payload_bytes} bytes");
        let word = flag | u32::try_from(payload_bytes).expect("the limit is 2^30");
        let frame_bytes = segment::record_frame_bytes(payload_bytes);
        let mut hasher = self.key.hasher();
        for part in payload_parts {
            hasher.update(part);
        }

        let mut state = self.state.lock();
        match when {
            When::ThereIsRoom => state = self.wait_for_room(state, frame_bytes)?,
            // A disk that is full refuses it, while it can: bytes without space are the end of the log.
            When::Now => {
                if let Some(error) = state.no_space.clone()
                    && state.is_beyond(frame_bytes)
                {
                    state.wants_bytes = state.wants_bytes.max(frame_bytes);
                    self.wake(&mut state);
                    return Err(error);
                }
            }
            When::Reserved(room) => {
                assert!(frame_bytes <= room.bytes, "{frame_bytes} bytes in a {room:?}");
                state.reserved_bytes -= room.take();
            }
        }
        if let Some(error) = state.refusal() {
            return Err(error);
        }
        let segment_is_full = state.next - state.segment_first >= self.segment_bytes;
        if state.pending.is_empty() || segment_is_full {
            state.begin_chunk(self.key, self.segment_bytes);
        }
        let begin = Lsn(state.next);
        let crc = segment::seal(hasher, word, begin);
        state.push_frame(word, crc, payload_parts, frame_bytes);
        if flag != 0 {
            state.note_part(begin, payload_parts[0]);
        }
        let much_gathered = state.pending_bytes >= self.flush_bytes;
        if state.sleep == Sleep::UntilAppend || much_gathered {
            self.wake(&mut state);
        }
        Ok(Appended { begin, end: Lsn(state.next) })
    }

    fn wait_for_room<'s>(
        self: &'s Arc<Self>,
        mut state: MutexGuard<'s, State>,
        frame_bytes: usize,
    ) -> Result<MutexGuard<'s, State>, LogError> {
        loop {
            if let Some(error) = state.refusal() {
                return Err(error);
            }
            let has_room = state.has_room(frame_bytes, self.buffer_bytes);
            if has_room && self.flusher == Flusher::Thread && !self.has_space(&state, frame_bytes) {
                state.wants_bytes = state.wants_bytes.max(frame_bytes);
                self.wake(&mut state);
                if let Some(error) = state.no_space.clone() {
                    return Err(error);
                }
                self.room.wait(&mut state);
                continue;
            }
            if has_room {
                return Ok(state);
            }
            if self.flusher == Flusher::Manual {
                // Nobody else makes room: what is only reserved is not waited for.
                if state.pending.is_empty() {
                    return Ok(state);
                }
                drop(state);
                self.flush_step()?;
                state = self.state.lock();
            } else {
                state.requested = state.next;
                self.wake(&mut state);
                self.room.wait(&mut state);
            }
        }
    }

    fn request(&self, lsn: Lsn) {
        let mut state = self.state.lock();
        if lsn.0 > state.requested {
            state.requested = lsn.0.min(state.next);
            self.wake(&mut state);
        }
    }

    pub fn wake(&self, state: &mut State) {
        if state.sleep != Sleep::Awake {
            state.sleep = Sleep::Awake;
            self.work.notify_one();
        }
    }

    /// Puts a callback where the flusher will find it; calls it and returns false if the verdict on
    /// `lsn` is already known.
    fn enqueue(&self, lsn: Lsn, callback: DurableCallback) -> bool {
        let verdict = {
            let mut waiters = self.waiters.lock();
            if self.durable.load(Ordering::Acquire) >= lsn.0 {
                Ok(())
            } else if let Some(error) = &waiters.failed {
                Err(error.clone())
            } else {
                waiters.count += 1;
                let key = (lsn, waiters.count);
                waiters.callbacks.insert(key, callback);
                return true;
            }
        };
        callback(verdict);
        false
    }
}
