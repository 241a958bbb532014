//! From batches to the bytes of a file, in any format.

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::ipc::CompressionType;
use arrow::ipc::writer::{FileWriter, IpcWriteOptions};
use froglet_engine::SqlState;
use parking_lot::Mutex;

use super::columnar::FileColumns;
use super::directory::{Unfinished, file_error};
use super::options::{Codec, CopyOptions, Format};
use super::parquet::{self, ParquetWriter};
use super::progress::Progress;
use super::rows::{CopyRows, RowFormat};
use crate::error::SqlError;

/// The file that is written. What goes wrong with it is remembered here: on the way through the libraries an
/// error of the operating system may become a text.
#[derive(Clone)]
pub(super) struct Sink {
    file: Arc<File>,
    progress: Arc<Progress>,
    failure: Arc<Mutex<Option<io::Error>>>,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match (&*self.file).write(bytes) {
            Ok(written) => {
                self.progress.add_bytes(written);
                Ok(written)
            }
            // Whoever writes tries that again.
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Err(e),
            Err(e) => {
                let told = io::Error::from(e.kind());
                self.failure.lock().get_or_insert(e);
                Err(told)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A file that is being written.
pub(super) struct Encoder {
    kind: Kind,
    sink: Sink,
    /// What it will be called.
    name: String,
}

enum Kind {
    Rows(RowFormat),
    Parquet(FileColumns, ParquetWriter<Sink>),
    Arrow(FileColumns, FileWriter<Sink>),
}

impl Encoder {
    /// Writes what comes before the rows. `columns` are those of a columnar format.
    pub(super) fn begin(
        file: &Unfinished,
        format: RowFormat,
        columns: Option<FileColumns>,
        options: &CopyOptions,
        progress: Arc<Progress>,
    ) -> Result<Encoder, SqlError> {
        let name = file.name().to_owned();
        let handle = file.file.try_clone().map_err(|e| file_error("write", &name, &e))?;
        let sink = Sink { file: Arc::new(handle), progress, failure: Arc::default() };
        let told = |e: String| told(&sink, &name, e);
        let kind = match columns {
            None => Kind::Rows(format),
            Some(columns) if options.format == Format::Parquet => {
                let writer = parquet::writer(sink.clone(), &columns.schema, options);
                Kind::Parquet(columns, writer.map_err(|e| told(e.to_string()))?)
            }
            Some(columns) => {
                let codec = match options.codec {
                    Codec::Lz4 => Some(CompressionType::LZ4_FRAME),
                    Codec::Zstd => Some(CompressionType::ZSTD),
                    Codec::None | Codec::Snappy => None,
                };
                let writer = IpcWriteOptions::default().try_with_compression(codec).and_then(|o| {
                    FileWriter::try_new_with_options(sink.clone(), &columns.schema, o)
                });
                Kind::Arrow(columns, writer.map_err(|e| told(e.to_string()))?)
            }
        };
        let mut encoder = Encoder { kind, sink, name };
        if let Kind::Rows(format) = &encoder.kind {
            let mut out = CopyRows::default();
            format.begin(&mut out);
            encoder.bytes(&out.bytes)?;
        }
        Ok(encoder)
    }

    /// Some rows.
    pub(super) fn batch(&mut self, batch: &RecordBatch) -> Result<(), SqlError> {
        let (sink, name) = (&self.sink, &self.name);
        match &mut self.kind {
            Kind::Rows(format) => {
                let mut out = CopyRows::default();
                format.batch(batch, &mut out);
                self.bytes(&out.bytes)?;
            }
            Kind::Parquet(columns, writer) => {
                for piece in columns.convert(batch)? {
                    writer.write(&piece).map_err(|e| told(sink, name, e.to_string()))?;
                }
            }
            Kind::Arrow(columns, writer) => {
                for piece in columns.convert(batch)? {
                    writer.write(&piece).map_err(|e| told(sink, name, e.to_string()))?;
                }
            }
        }
        self.sink.progress.add_rows(batch.num_rows());
        Ok(())
    }

    /// What comes after the rows.
    pub(super) fn finish(mut self) -> Result<(), SqlError> {
        let (sink, name) = (self.sink.clone(), self.name.clone());
        match &mut self.kind {
            Kind::Rows(format) => {
                let mut out = CopyRows::default();
                format.end(&mut out);
                self.bytes(&out.bytes)
            }
            Kind::Parquet(_, writer) => {
                writer.finish().map(drop).map_err(|e| told(&sink, &name, e.to_string()))
            }
            Kind::Arrow(_, writer) => {
                writer.finish().map_err(|e| told(&sink, &name, e.to_string()))
            }
        }
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<(), SqlError> {
        let written = self.sink.write_all(bytes);
        written.map_err(|e| told(&self.sink, &self.name, e.to_string()))
    }
}

/// What to say of an error that came out of a library: what the file has said, if that was it.
fn told(sink: &Sink, name: &str, message: String) -> SqlError {
    match sink.failure.lock().take() {
        Some(e) => file_error("write", name, &e),
        None => {
            SqlError::new(SqlState::IO_ERROR, format!("could not write file \"{name}\": {message}"))
        }
    }
}
