//! The segment that is being written, and the file that the next one will be made of.
//!
//! Both are filled with zeros as far as somebody has been promised room ([`Disk::extend`]): that is where a full disk
//! is met, and nobody's record is lost by it.

use super::reader::Recovered;
use super::segment::{self, HEADER_BYTES};
use super::writer::Chunk;
use super::{LogError, Lsn};
use froglet_engine::CrashPoint;
use froglet_engine::env::{Env, EnvFile, OpenMode};
use std::path::Path;

/// How much of the unconfirmed tail is written again at once.
const REWRITE_BYTES: u64 = 1 << 20;

/// The current segment file. One chunk after the other goes through [`Disk::write`].
pub(super) struct Disk {
    file: Box<dyn EnvFile>,
    /// Where the segment begins.
    pub first: Lsn,
    /// The length of the file, with the zeros ahead.
    pub file_bytes: u64,
    /// Of zeros, for the next segment, and its length.
    spare: Option<Box<dyn EnvFile>>,
    pub spare_bytes: u64,
    database_id: u128,
    zeros_ahead_bytes: u64,
    segment_bytes: u64,
}

impl Disk {
    /// Takes up a recovered log: makes certain that everything before its end is durable
    /// (invariants *sync before next* and *clean slate*) and that nothing is behind it.
    pub fn resume(
        env: &dyn Env,
        dir: &Path,
        recovered: &Recovered,
        zeros_ahead_bytes: u64,
        segment_bytes: u64,
    ) -> Result<Disk, LogError> {
        let first = recovered.segments.last().expect("a recovered log has a segment").first;
        let file = env.open(&segment::path(dir, first), OpenMode::Write)?;
        let end = recovered.end.0 - first.0;
        let mut offset = recovered.confirmed.0 - first.0;
        assert!(
            HEADER_BYTES <= offset && offset <= end,
            "the unconfirmed tail is in the last segment"
        );
        let mut bytes = Vec::new();
        while offset < end {
            let part_bytes = (end - offset).min(REWRITE_BYTES);
            bytes.resize(part_bytes as usize, 0);
            file.read_exact_at(&mut bytes, offset)?;
            file.write_at(&bytes, offset)
                .map_err(|error| LogError::from_write(error, part_bytes))?;
            offset += part_bytes;
        }
        if recovered.torn {
            file.truncate(end)?;
        }
        file.sync_all()?;
        env.sync_dir(dir)?;
        let file_bytes = file.len()?;
        let database_id = recovered.database_id;
        Ok(Disk {
            file,
            first,
            file_bytes,
            spare: None,
            spare_bytes: 0,
            database_id,
            zeros_ahead_bytes,
            segment_bytes,
        })
    }

    /// Fills the segment with zeros up to a length, and the spare file, so that both can be written to. What
    /// an error leaves are zeros, which are nothing.
    pub fn extend(
        &mut self,
        env: &dyn Env,
        dir: &Path,
        file_bytes: u64,
        spare_bytes: u64,
    ) -> Result<(), LogError> {
        let ahead = self.zeros_ahead_bytes.max(1);
        if file_bytes > self.file_bytes {
            let wanted_bytes = file_bytes.next_multiple_of(ahead);
            fill(&*self.file, &mut self.file_bytes, wanted_bytes)?;
        }
        if spare_bytes > self.spare_bytes {
            if self.spare.is_none() {
                let opened = segment::open_spare(env, dir)
                    .map_err(|error| LogError::from_write(error, spare_bytes))?;
                self.spare = Some(opened);
                self.spare_bytes = 0;
            }
            let spare = self.spare.as_deref().expect("opened above");
            fill(spare, &mut self.spare_bytes, spare_bytes.next_multiple_of(ahead))?;
        }
        Ok(())
    }

    /// Writes a chunk and syncs it. After an error nothing more may be written.
    pub fn write(&mut self, env: &dyn Env, dir: &Path, chunk: &mut Chunk) -> Result<(), LogError> {
        if chunk.opens_segment {
            self.first = Lsn(chunk.begin - HEADER_BYTES);
            let needed_bytes = HEADER_BYTES + chunk.bytes.len() as u64;
            let spare = self.spare.take();
            let spare_bytes = std::mem::take(&mut self.spare_bytes);
            self.file = segment::create(env, dir, self.first, self.database_id, spare)
                .map_err(|error| LogError::from_write(error, needed_bytes))?;
            self.file_bytes = spare_bytes.max(HEADER_BYTES);
        }
        let offset = chunk.begin - self.first.0;
        let end = offset + chunk.bytes.len() as u64;
        if end > self.file_bytes {
            self.file_bytes = self.grown(end);
            chunk.bytes.resize((self.file_bytes - offset) as usize, 0);
        }
        let needed_bytes = chunk.bytes.len() as u64;
        self.file
            .write_at(&chunk.bytes, offset)
            .and_then(|()| {
                CrashPoint::LogWritten.reached();
                self.file.sync_data()
            })
            .map_err(|error| LogError::from_write(error, needed_bytes))
    }

    /// How long a file that is not promised to anybody becomes that must hold `end` bytes.
    fn grown(&self, end: u64) -> u64 {
        if self.zeros_ahead_bytes == 0 {
            return end;
        }
        end.next_multiple_of(self.zeros_ahead_bytes).min(self.segment_bytes).max(end)
    }
}

/// Writes zeros from one length to another. The first is what there is, however far that went.
fn fill(file: &dyn EnvFile, file_bytes: &mut u64, wanted_bytes: u64) -> Result<(), LogError> {
    let zeros = vec![0; REWRITE_BYTES.min(wanted_bytes - *file_bytes) as usize];
    while *file_bytes < wanted_bytes {
        let part = &zeros[..(zeros.len() as u64).min(wanted_bytes - *file_bytes) as usize];
        file.write_at(part, *file_bytes)
            .map_err(|error| LogError::from_write(error, wanted_bytes - *file_bytes))?;
        *file_bytes += part.len() as u64;
    }
    Ok(())
}
