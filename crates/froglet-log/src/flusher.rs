//! Flushing: the way of a batch to the disk, and of the verdict to those who wait.

use super::disk::Disk;
use super::room;
use super::writer::{Chunk, Shared, Sleep, State};
use super::{DurableCallback, LogError, Lsn};
use froglet_engine::CrashPoint;
use parking_lot::MutexGuard;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A buffer above this size is not kept for the next batch.
const KEPT_BUFFER_BYTES: usize = 4 << 20;

/// What the flusher has to do.
enum Due {
    Flush,
    Space,
}

impl Shared {
    /// The life of the thread `froglet-log`.
    pub fn run(self: &Arc<Self>) {
        // An error has been told to everybody where it arose.
        let _ = self.or_fail(|| {
            while let Some(due) = self.sleep() {
                match due {
                    Due::Flush => self.flush_step()?,
                    Due::Space => {
                        if let Err(error) = self.extend_if_wanted() {
                            self.fail(error.clone());
                            return Err(error);
                        }
                    }
                }
            }
            self.finish()
        });
    }

    /// Does a part of the log's work; a panic in it is the end of the log, and told to everybody.
    fn or_fail(
        self: &Arc<Self>,
        work: impl FnOnce() -> Result<(), LogError>,
    ) -> Result<(), LogError> {
        catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
            self.fail(LogError::Panicked);
            Err(LogError::Panicked)
        })
    }

    /// Sleeps until there is something to do that should not wait; none if the log is closing.
    fn sleep(&self) -> Option<Due> {
        let mut state = self.state.lock();
        loop {
            state.sleep = Sleep::Awake;
            if state.closing {
                return None;
            }
            let begin = state.pending.first().map(|chunk| chunk.begin);
            let is_due = begin.is_some_and(|begin| state.requested > begin);
            if is_due || state.pending_bytes >= self.flush_bytes {
                return Some(Due::Flush);
            }
            if state.wants_bytes > 0 {
                return Some(Due::Space);
            }
            if begin.is_none() {
                state.sleep = Sleep::UntilAppend;
                self.work.wait(&mut state);
                continue;
            }
            state.sleep = Sleep::UntilInterval;
            if self.work.wait_for(&mut state, self.flush_interval).timed_out() {
                state.sleep = Sleep::Awake;
                return (!state.closing).then_some(Due::Flush);
            }
        }
    }

    /// Writes and syncs what is pending now.
    pub fn flush_step(self: &Arc<Self>) -> Result<(), LogError> {
        self.flush_pending(self.disk.lock())
    }

    /// The same in a thread that has come along, unless somebody is at it: then false.
    pub fn try_flush_step(self: &Arc<Self>) -> Result<bool, LogError> {
        let Some(disk) = self.disk.try_lock() else { return Ok(false) };
        self.or_fail(|| self.flush_pending(disk))?;
        Ok(true)
    }

    fn flush_pending(self: &Arc<Self>, mut disk: MutexGuard<'_, Disk>) -> Result<(), LogError> {
        let batch = {
            let mut state = self.state.lock();
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            state.take()
        };
        for mut chunk in batch {
            let chunk_bytes = chunk.bytes.len();
            let end = Lsn(chunk.begin + chunk_bytes as u64);
            if let Err(error) = disk.write(&*self.env, &self.dir, &mut chunk) {
                self.fail(error.clone());
                return Err(error);
            }
            self.segment_has(disk.first, disk.file_bytes);
            self.note_space(&disk);
            let ahead = self.look_ahead(&mut disk);
            CrashPoint::LogSynced.reached();
            self.written(chunk, chunk_bytes);
            self.publish(end);
            if let Err(error) = ahead {
                self.fail(error.clone());
                return Err(error);
            }
        }
        Ok(())
    }

    /// Flushes the rest and ends the log with a sync mark, once.
    pub fn finish(self: &Arc<Self>) -> Result<(), LogError> {
        self.flush_step()?;
        {
            let mut state = self.state.lock();
            if state.closed {
                return Ok(());
            }
            state.closed = true;
            if !state.ends_with_mark {
                // A mark alone is not worth a new segment.
                state.begin_chunk(self.key, u64::MAX);
            }
        }
        self.flush_step()
    }

    fn segment_has(&self, first: Lsn, file_bytes: u64) {
        let mut segments = self.segments.lock();
        match segments.last_mut() {
            Some(last) if last.first == first => last.file_bytes = file_bytes,
            _ => segments.push(super::segment::Segment { first, file_bytes }),
        }
    }

    /// Makes room for appends, and keeps the buffer for them.
    fn written(self: &Arc<Self>, chunk: Chunk, chunk_bytes: usize) {
        let mut state = self.state.lock();
        state.flushing_bytes -= chunk_bytes;
        if chunk.bytes.capacity() <= KEPT_BUFFER_BYTES {
            state.spare = chunk.bytes;
        }
        let granted = self.grant(&mut state);
        self.room.notify_all();
        drop(state);
        room::tell(granted);
    }

    /// Everything before `end` is durable: says so.
    fn publish(&self, end: Lsn) {
        let before = self.durable.swap(end.0, Ordering::AcqRel);
        assert!(before < end.0, "the durable position only grows");
        let due = {
            let mut waiters = self.waiters.lock();
            let later = waiters.callbacks.split_off(&(Lsn(end.0 + 1), 0));
            std::mem::replace(&mut waiters.callbacks, later)
        };
        for callback in due.into_values() {
            tell(callback, Ok(()));
        }
    }

    /// The log fails for good: everybody who waits or will come hears of it.
    fn fail(self: &Arc<Self>, error: LogError) {
        tracing::error!(%error, durable = %Lsn(self.durable.load(Ordering::Acquire)), "the log has failed");
        // Before anybody else can know.
        let hook = self.on_failure.lock().take();
        if let Some(hook) = hook {
            quietly(|| hook(&error));
        }
        {
            let mut state = self.state.lock();
            if state.failed.is_some() {
                return;
            }
            state.failed = Some(error.clone());
            state.pending.clear();
            state.pending_bytes = 0;
            state.flushing_bytes = 0;
            let refused = self.grant(&mut state);
            self.room.notify_all();
            drop(state);
            room::tell(refused);
        }
        let waiting = {
            let mut waiters = self.waiters.lock();
            waiters.failed = Some(error.clone());
            std::mem::take(&mut waiters.callbacks)
        };
        for callback in waiting.into_values() {
            tell(callback, Err(error.clone()));
        }
    }
}

impl State {
    fn take(&mut self) -> Vec<Chunk> {
        self.flushing_bytes = self.pending_bytes;
        self.pending_bytes = 0;
        std::mem::take(&mut self.pending)
    }
}

fn tell(callback: DurableCallback, verdict: Result<(), LogError>) {
    quietly(|| callback(verdict));
}

/// A panic of a stranger's code must not take the flusher with it; the panic hook reports it.
fn quietly(strange: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(strange));
}
