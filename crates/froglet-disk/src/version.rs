//! A version of a row as it is stored: since when, and its cells.
//!
//! ```text
//!   begin, 8 bytes │ cells, see `froglet_log::cells`
//! ```

use froglet_engine::EngineError;
pub(crate) use froglet_log::cells::{Cells, Wanted, corrupt, of_row, with};
use froglet_log::redo::Malformed;

/// A version that is committed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Version {
    /// Its commit timestamp; 0: it counts as if it had always been there.
    pub begin: u64,
    pub cells: Cells,
}

impl Version {
    pub fn decode(bytes: &[u8]) -> Result<Version, EngineError> {
        let (begin, cells) = bytes.split_first_chunk::<8>().ok_or_else(|| {
            corrupt(&Malformed { offset: 0, what: "a row without a timestamp".into() })
        })?;
        Ok(Version { begin: u64::from_le_bytes(*begin), cells: cells.into() })
    }

    pub fn encode(&self) -> Vec<u8> {
        [&self.begin.to_le_bytes(), &self.cells[..]].concat()
    }
}
