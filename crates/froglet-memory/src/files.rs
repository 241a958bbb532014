//! Whole files through the environment, with their checksums.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use froglet_engine::env::{Env, EnvError, EnvFile, OpenMode};

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
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
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

/// Reads a file through a buffer.
pub(crate) struct FileReader {
    file: Box<dyn EnvFile>,
    len: u64,
    at: u64,
    buffer: Vec<u8>,
    buffer_at: u64,
}

impl FileReader {
    pub fn open(env: &dyn Env, path: &Path) -> Result<FileReader, EnvError> {
        let file = env.open(path, OpenMode::Read)?;
        let len = file.len()?;
        Ok(FileReader { file, len, at: 0, buffer: Vec::new(), buffer_at: 0 })
    }

    /// The length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// The checksum of the whole file. Goes back to the start.
    pub fn checksum(&mut self) -> io::Result<u32> {
        let mut hasher = crc32fast::Hasher::new();
        let mut chunk = vec![0; BUFFER_BYTES];
        self.at = 0;
        loop {
            let n = self.read(&mut chunk)?;
            if n == 0 {
                self.at = 0;
                return Ok(hasher.finalize());
            }
            hasher.update(&chunk[..n]);
        }
    }
}

impl Read for FileReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let buffered =
            self.at.checked_sub(self.buffer_at).filter(|&skip| skip < self.buffer.len() as u64);
        let skip = match buffered {
            Some(skip) => skip as usize,
            None => {
                self.buffer.resize(BUFFER_BYTES, 0);
                let n = self.file.read_at(&mut self.buffer, self.at).map_err(io::Error::other)?;
                self.buffer.truncate(n);
                self.buffer_at = self.at;
                0
            }
        };
        let available = &self.buffer[skip..];
        let n = available.len().min(out.len());
        out[..n].copy_from_slice(&available[..n]);
        self.at += n as u64;
        Ok(n)
    }
}

impl Seek for FileReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.len.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(self.at)
    }
}
