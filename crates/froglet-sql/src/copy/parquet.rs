//! Parquet files, by the parquet crate.
//!
//! Row groups are written when they have as many rows as the statement says, or [`ROW_GROUP_BYTES`]: so much is
//! held in memory, whatever the table. They are read one by one. Types come from the Parquet schema and not from
//! the Arrow schema that writers embed, and strings are read as views, so that a dictionary's long string in a
//! thousand rows is there once.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use ::parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use ::parquet::arrow::arrow_writer::ArrowWriterOptions;
use ::parquet::arrow::{ArrowSchemaConverter, ArrowWriter, ProjectionMask};
use ::parquet::basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use ::parquet::errors::{ParquetError, Result as ParquetResult};
use ::parquet::file::metadata::ParquetMetaData;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::reader::{ChunkReader, Length};
use ::parquet::schema::types::{SchemaDescriptor, Type};
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use bytes::Bytes;
use froglet_engine::id::ROWS_PER_BLOCK;

use super::columnar::is_uuid;
use super::from_file::malformed;
use super::options::{Codec, CopyOptions};
use super::parquet_check;
use super::progress::Progress;
use crate::error::SqlError;

/// A row group is closed when it is about as large as this.
const ROW_GROUP_BYTES: usize = 64 << 20;

pub(super) type ParquetWriter<W> = ArrowWriter<W>;

/// A writer of a file of these columns.
pub(super) fn writer<W: Write + Send>(
    sink: W,
    schema: &SchemaRef,
    options: &CopyOptions,
) -> ParquetResult<ArrowWriter<W>> {
    let compression = match options.codec {
        Codec::Zstd => Compression::ZSTD(ZstdLevel::default()),
        Codec::Snappy => Compression::SNAPPY,
        Codec::None | Codec::Lz4 => Compression::UNCOMPRESSED,
    };
    let properties = WriterProperties::builder()
        .set_compression(compression)
        .set_max_row_group_row_count(Some(options.row_group_rows))
        .set_max_row_group_bytes(Some(ROW_GROUP_BYTES))
        .build();
    let mut all = ArrowWriterOptions::new().with_properties(properties);
    if schema.fields().iter().any(|field| is_uuid(field)) {
        all = all.with_parquet_schema(with_uuids(schema)?);
    }
    ArrowWriter::try_new_with_options(sink, schema.clone(), all)
}

/// The Parquet schema with the logical type of UUIDs. (The crate would do it with a feature that makes every
/// Arrow crate be built again.)
fn with_uuids(schema: &Schema) -> ParquetResult<SchemaDescriptor> {
    let plain = ArrowSchemaConverter::new().convert(schema)?;
    let mut columns = Vec::with_capacity(schema.fields().len());
    for (field, column) in schema.fields().iter().zip(plain.root_schema().get_fields()) {
        columns.push(match is_uuid(field) {
            false => column.clone(),
            true => Arc::new(
                Type::primitive_type_builder(field.name(), Physical::FIXED_LEN_BYTE_ARRAY)
                    .with_length(16)
                    .with_logical_type(Some(LogicalType::Uuid))
                    .with_repetition(Repetition::OPTIONAL)
                    .build()?,
            ),
        });
    }
    let root = Type::group_type_builder(plain.root_schema().name()).with_fields(columns).build()?;
    Ok(SchemaDescriptor::new(Arc::new(root)))
}

/// A file that is read at places that it names itself: none of them lies outside, and nothing is allocated for
/// more bytes than it has.
#[derive(Clone)]
pub(super) struct Chunks {
    file: Arc<File>,
    length: u64,
    progress: Arc<Progress>,
}

impl Chunks {
    fn new(file: File, progress: Arc<Progress>) -> io::Result<Chunks> {
        let length = file.metadata()?.len();
        Ok(Chunks { file: Arc::new(file), length, progress })
    }

    /// Exactly these bytes.
    pub(super) fn read(&self, start: u64, length: usize) -> io::Result<Vec<u8>> {
        let end = start.checked_add(length as u64).filter(|end| *end <= self.length);
        if end.is_none() {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("{length} bytes at {start} are not in a file of {} bytes", self.length),
            ));
        }
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, start)?;
        Ok(bytes)
    }
}

impl Length for Chunks {
    fn len(&self) -> u64 {
        self.length
    }
}

impl ChunkReader for Chunks {
    type T = io::BufReader<From>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        Ok(io::BufReader::new(From { chunks: self.clone(), at: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let bytes = self.read(start, length)?;
        self.progress.add_bytes(length);
        Ok(Bytes::from(bytes))
    }
}

/// Bytes from a place on.
pub(super) struct From {
    chunks: Chunks,
    at: u64,
}

impl Read for From {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let got = self.chunks.file.read_at(bytes, self.at)?;
        self.at += got as u64;
        Ok(got)
    }
}

/// A Parquet file whose footer is known.
pub(super) struct ParquetFile {
    name: String,
    chunks: Chunks,
    metadata: ArrowReaderMetadata,
}

impl ParquetFile {
    /// Reads the footer.
    pub(super) fn open(
        file: File,
        name: String,
        progress: Arc<Progress>,
    ) -> Result<ParquetFile, SqlError> {
        let wrong = |e: ParquetError| malformed(&name, "Parquet", e);
        let chunks = Chunks::new(file, progress).map_err(|e| malformed(&name, "Parquet", e))?;
        parquet_check::footer(&chunks).map_err(|why| malformed(&name, "Parquet", why))?;
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let metadata = ArrowReaderMetadata::load(&chunks, options.clone()).map_err(wrong)?;
        refuse_codecs(metadata.metadata(), &name)?;
        let views = Arc::new(with_views(metadata.schema()));
        let options = options.with_schema(views);
        let metadata =
            ArrowReaderMetadata::try_new(metadata.metadata().clone(), options).map_err(wrong)?;
        Ok(ParquetFile { name, chunks, metadata })
    }

    /// Its columns.
    pub(super) fn schema(&self) -> &Schema {
        self.metadata.schema()
    }

    /// Hands out all batches of these columns, which are in the file's order.
    pub(super) fn batches(
        &self,
        columns: &[usize],
        each: &mut dyn FnMut(RecordBatch) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        let descriptor = self.metadata.parquet_schema();
        let mask = ProjectionMask::roots(descriptor, columns.iter().copied());
        for (at, group) in self.metadata.metadata().row_groups().iter().enumerate() {
            let wrong =
                |why: String| malformed(&self.name, "Parquet", format!("row group {at}: {why}"));
            for column in columns {
                let chunk = group.columns().get(*column);
                let chunk = chunk.ok_or_else(|| wrong(format!("there is no column {column}")))?;
                parquet_check::pages(&self.chunks, chunk).map_err(|why| {
                    wrong(format!("column {}: {why}", chunk.column_path().string()))
                })?;
            }
            let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(
                self.chunks.clone(),
                self.metadata.clone(),
            );
            let reader = builder
                .with_row_groups(vec![at])
                .with_projection(mask.clone())
                .with_batch_size(ROWS_PER_BLOCK)
                .build()
                .map_err(|e| wrong(e.to_string()))?;
            for batch in reader {
                each(batch.map_err(|e| wrong(e.to_string()))?)?;
            }
        }
        Ok(())
    }
}

/// Codecs that are not built in are named before anything is read.
fn refuse_codecs(metadata: &ParquetMetaData, file: &str) -> Result<(), SqlError> {
    use Compression::{LZ4, LZ4_RAW, SNAPPY, UNCOMPRESSED, ZSTD};
    for column in metadata.row_groups().iter().flat_map(|group| group.columns()) {
        match column.compression() {
            UNCOMPRESSED | SNAPPY | LZ4 | LZ4_RAW | ZSTD(_) => {}
            other => {
                let codec = other.to_string();
                let codec = codec.split('(').next().unwrap_or_default();
                let what = format!("compression {codec} of file \"{file}\"");
                return Err(SqlError::unsupported(what).hint(
                    "COPY reads Parquet files compressed with snappy, zstd or lz4, or not.",
                ));
            }
        }
    }
    Ok(())
}

fn with_views(schema: &Schema) -> Schema {
    let view = |field: &Arc<Field>| match field.data_type() {
        DataType::Utf8 => Arc::new(field.as_ref().clone().with_data_type(DataType::Utf8View)),
        DataType::Binary => Arc::new(field.as_ref().clone().with_data_type(DataType::BinaryView)),
        _ => field.clone(),
    };
    Schema::new_with_metadata(
        schema.fields().iter().map(view).collect::<Vec<_>>(),
        schema.metadata().clone(),
    )
}
