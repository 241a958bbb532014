//! Arrow files (`.arrow`, `.feather`), batch by batch.
//!
//! ```text
//!   "ARROW1" │ … dictionaries, batches … │ footer: schema, where each is │ length i32 │ "ARROW1"
//! ```
//! Where a batch lies is the file's word, and so is how long a compressed buffer will be: both are looked at
//! before memory is allocated, for an allocation that fails cannot be caught (`columnar/ipc_check.rs`).
//! Flatbuffers are verified by their crate, arrays by Arrow's.
//!
//! A batch is the least that can be read, so one of more than [`BATCH_BYTES_MAX`] is refused. Left out: Arrow's
//! stream format, which has no footer and another extension.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::buffer::{Buffer, MutableBuffer};
use arrow::datatypes::{Schema, SchemaRef};
use arrow::ipc::convert::fb_to_schema;
use arrow::ipc::reader::FileDecoder;
use arrow::ipc::{Block, root_as_footer, root_as_message};
use froglet_engine::SqlState;

use super::from_file::malformed;
use super::progress::Progress;
use crate::columnar::{Refused, batch_in, check_batch};
use crate::error::SqlError;

const MAGIC: &[u8] = b"ARROW1";
/// The longest footer.
const FOOTER_BYTES_MAX: usize = 64 << 20;
/// The longest batch, as it is in the file and as it is when it is decompressed.
const BATCH_BYTES_MAX: u64 = 1 << 30;

/// An Arrow file whose footer is known.
pub(super) struct IpcFile {
    name: String,
    file: File,
    length: u64,
    progress: Arc<Progress>,
    schema: SchemaRef,
    decoder: FileDecoder,
    dictionaries: Vec<Block>,
    batches: Vec<Block>,
}

impl IpcFile {
    /// Reads the footer.
    pub(super) fn open(
        file: File,
        name: String,
        progress: Arc<Progress>,
    ) -> Result<IpcFile, SqlError> {
        let wrong = |why: String| malformed(&name, "Arrow", why);
        let failed = |e: io::Error| malformed(&name, "Arrow", e);
        let length = file.metadata().map_err(failed)?.len();
        let mut magic = [0; 6];
        let mut tail = [0; 10];
        if length < 20 {
            return Err(wrong("it is too short".to_owned()));
        }
        file.read_exact_at(&mut magic, 0).map_err(failed)?;
        file.read_exact_at(&mut tail, length - 10).map_err(failed)?;
        if magic != MAGIC || tail[4..] != *MAGIC {
            let error = wrong("it does not begin and end with \"ARROW1\"".to_owned());
            return Err(error.hint("Arrow's stream format is not read: write a file (Feather V2)."));
        }
        let footer_bytes = i32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]);
        let found = usize::try_from(footer_bytes)
            .ok()
            .filter(|bytes| *bytes <= FOOTER_BYTES_MAX && *bytes as u64 <= length - 18);
        let found =
            found.ok_or_else(|| wrong(format!("its footer cannot have {footer_bytes} bytes")))?;
        let mut bytes = vec![0; found];
        file.read_exact_at(&mut bytes, length - 10 - found as u64).map_err(failed)?;
        let footer = root_as_footer(&bytes).map_err(|e| wrong(format!("its footer: {e}")))?;
        let schema = footer.schema().filter(|schema| schema.fields().is_some());
        let schema = schema.ok_or_else(|| wrong("its footer has no schema".to_owned()))?;
        let schema = Arc::new(fb_to_schema(schema));
        let blocks = footer.dictionaries();
        let dictionaries = blocks.map(|b| b.iter().copied().collect()).unwrap_or_default();
        let blocks = footer.recordBatches();
        let batches = blocks.map(|b| b.iter().copied().collect()).unwrap_or_default();
        let decoder = FileDecoder::new(schema.clone(), footer.version());
        Ok(IpcFile { name, file, length, progress, schema, decoder, dictionaries, batches })
    }

    /// Its columns.
    pub(super) fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Hands out all batches of these columns, which are in the file's order.
    pub(super) fn batches(
        mut self,
        columns: &[usize],
        each: &mut dyn FnMut(RecordBatch) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        self.decoder = self.decoder.with_projection(columns.to_vec());
        for (at, block) in std::mem::take(&mut self.dictionaries).iter().enumerate() {
            let place = format!("dictionary {at}");
            let bytes = self.block(block, &place)?;
            self.decoder.read_dictionary(block, &bytes).map_err(|e| self.wrong(&place, e))?;
        }
        for (at, block) in self.batches.iter().enumerate() {
            let place = format!("record batch {at}");
            let bytes = self.block(block, &place)?;
            let batch = self.decoder.read_record_batch(block, &bytes);
            if let Some(batch) = batch.map_err(|e| self.wrong(&place, e))? {
                each(batch)?;
            }
        }
        Ok(())
    }

    fn wrong(&self, place: &str, why: impl std::fmt::Display) -> SqlError {
        malformed(&self.name, "Arrow", format!("{place}: {why}"))
    }

    /// The bytes of a block, which are found to claim nothing impossible.
    fn block(&self, block: &Block, place: &str) -> Result<Buffer, SqlError> {
        let outside = || {
            let (offset, meta, body) = (block.offset(), block.metaDataLength(), block.bodyLength());
            self.wrong(place, format!("{meta} and {body} bytes at byte {offset}"))
        };
        let start = u64::try_from(block.offset()).map_err(|_| outside())?;
        let meta = u64::try_from(block.metaDataLength()).map_err(|_| outside())?;
        let body = u64::try_from(block.bodyLength()).map_err(|_| outside())?;
        let bytes = meta.checked_add(body).ok_or_else(outside)?;
        let end = start.checked_add(bytes).ok_or_else(outside)?;
        if end > self.length || meta < 8 {
            return Err(outside());
        }
        if bytes > BATCH_BYTES_MAX {
            return Err(too_long(&self.name, place, bytes));
        }
        let mut buffer = MutableBuffer::from_len_zeroed(bytes as usize);
        let read = self.file.read_exact_at(buffer.as_slice_mut(), start);
        read.map_err(|e| self.wrong(place, e))?;
        self.progress.add_bytes(bytes as usize);
        let buffer: Buffer = buffer.into();
        self.check(&buffer, meta as usize, place)?;
        Ok(buffer)
    }

    /// Whether the buffers of a message lie in it, and are not too long when they are decompressed.
    fn check(&self, bytes: &[u8], meta: usize, place: &str) -> Result<(), SqlError> {
        let head = if bytes[..4] == [0xFF; 4] { 8 } else { 4 };
        let message = root_as_message(&bytes[head..meta]).map_err(|e| self.wrong(place, e))?;
        let batch = batch_in(message).ok_or_else(|| self.wrong(place, "it is none"))?;
        let checked = check_batch(batch, &bytes[meta..], Some(BATCH_BYTES_MAX));
        checked.map_err(|refused| match refused {
            Refused::TooLong(bytes) => too_long(&self.name, place, bytes),
            other => self.wrong(place, other),
        })
    }
}

fn too_long(name: &str, place: &str, bytes: u64) -> SqlError {
    SqlError::new(
        SqlState::PROGRAM_LIMIT_EXCEEDED,
        format!(
            "{place} of file \"{name}\" has {bytes} bytes, more than the {BATCH_BYTES_MAX} that COPY reads at once"
        ),
    )
    .hint("Write the file in smaller record batches.")
}
