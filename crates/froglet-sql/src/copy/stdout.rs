//! COPY … TO STDOUT: a query whose batches become lines or tuples.

use compact_str::format_compact;

use super::read::Reading;
use super::rows::{CopyRows, RowFormat};
use crate::error::SqlError;
use crate::stream::Tag;
use crate::types::Zone;

/// A COPY that gives rows to the client.
pub struct CopyOut {
    reading: Reading,
    format: RowFormat,
    zone: Zone,
    begun: bool,
    ended: bool,
}

impl CopyOut {
    pub(super) fn new(reading: Reading, format: RowFormat, zone: Zone) -> CopyOut {
        CopyOut { reading, format, zone, begun: false, ended: false }
    }

    /// How many columns it sends.
    pub fn columns(&self) -> usize {
        self.format.fields.len()
    }

    /// Whether it sends the binary format.
    pub fn binary(&self) -> bool {
        self.format.binary()
    }

    /// The next rows; `None` after the last.
    pub async fn next(&mut self) -> Option<Result<CopyRows, SqlError>> {
        if self.ended {
            return None;
        }
        let mut out = CopyRows::default();
        if !self.begun {
            self.begun = true;
            self.format.begin(&mut out);
        }
        match self.reading.next().await {
            Ok(Some(batch)) => {
                self.zone.run(|| self.format.batch(&batch, &mut out));
                self.reading.progress.add_rows(batch.num_rows());
            }
            Ok(None) => {
                self.ended = true;
                self.format.end(&mut out);
                if out.is_empty() {
                    return None;
                }
            }
            Err(e) => {
                self.ended = true;
                return Some(Err(e));
            }
        }
        self.reading.progress.add_bytes(out.bytes.len());
        Some(Ok(out))
    }

    /// The command tag.
    pub fn tag(&self) -> Tag {
        format_compact!("COPY {}", self.reading.progress.rows())
    }
}
