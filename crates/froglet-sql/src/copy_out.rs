//! COPY … TO STDOUT.

use bytes::Bytes;

use crate::error::SqlError;

/// A COPY that gives rows to the client.
pub struct CopyOut {
    columns: usize,
    binary: bool,
    rows: u64,
}

impl CopyOut {
    /// How many columns it sends.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Whether it sends the binary format.
    pub fn binary(&self) -> bool {
        self.binary
    }

    /// The next CopyData.
    pub async fn next(&mut self) -> Option<Result<Bytes, SqlError>> {
        unimplemented!()
    }

    /// The command tag.
    pub fn tag(&self) -> String {
        format!("COPY {}", self.rows)
    }
}
