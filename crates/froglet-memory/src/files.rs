//! Whole files written through the environment, with their checksums; and what is said when that fails.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use froglet_engine::EngineError;
use froglet_engine::env::{Env, EnvError, EnvFile, OpenMode, is_disk_full};

const BUFFER_BYTES: usize = 1 << 20;

/// Writes a file from its start, summing it up.
pub(crate) struct FileWriter {
    file: Box<dyn EnvFile>,
    at: u64,
    buffer: Vec<u8>,
    hasher: crc32fast::Hasher,
}

impl FileWriter {
    /// An empty file of this name; one that is there is overwritten.
    pub fn create(env: &dyn Env, path: &Path) -> Result<FileWriter, EnvError> {
        let file = env.open(path, OpenMode::CreateOrOpen)?;
        file.truncate(0)?;
        Ok(FileWriter {
            file,
            at: 0,
            buffer: Vec::with_capacity(BUFFER_BYTES),
            hasher: crc32fast::Hasher::new(),
        })
    }

    /// Makes the file durable; its length in bytes and its checksum.
    pub fn finish(mut self) -> io::Result<(u64, u32)> {
        self.flush()?;
        self.file.sync_all().map_err(io_error)?;
        Ok((self.at, self.hasher.finalize()))
    }
}

impl Write for FileWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.hasher.update(bytes);
        if self.buffer.len() + bytes.len() > BUFFER_BYTES {
            self.flush()?;
        }
        if bytes.len() < BUFFER_BYTES {
            self.buffer.extend_from_slice(bytes);
        } else {
            self.file.write_at(bytes, self.at).map_err(io_error)?;
            self.at += bytes.len() as u64;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        self.file.write_at(&self.buffer, self.at).map_err(io_error)?;
        self.at += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

/// Keeps the kind, which tells a full disk from a broken one.
fn io_error(error: EnvError) -> io::Error {
    io::Error::new(error.source.kind(), error)
}

/// What is wrong with a file, and where.
pub(crate) fn corrupt(path: &Path, offset: u64, what: impl Into<String>) -> EngineError {
    EngineError::Corrupt { file: path.display().to_string(), offset, what: what.into() }
}

/// An error of a writer, whose only cause is the file.
pub(crate) fn write_error(
    path: &Path,
    error: impl std::error::Error + Send + Sync + 'static,
) -> EngineError {
    let is_full = causes(&error).any(|cause| {
        let io = cause.downcast_ref::<std::io::Error>();
        io.is_some_and(is_disk_full)
    });
    let what = format!("checkpoint file {} cannot be written", path.display());
    let unusable = EngineError::Unusable { what, source: Arc::new(error) };
    if is_full { EngineError::DiskFull(Arc::new(unusable)) } else { unusable }
}

/// An error and what it came from.
fn causes<'e>(
    error: &'e (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'e (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |error| error.source())
}
