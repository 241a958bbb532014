//! A version of a row as it is stored: since when, and its cells.
//!
//! ```text
//!   begin, 8 bytes │ n (column value)…        as `froglet_log::redo` writes cells
//! ```
//! A column that is not there has the value that its layout says is missing.

use std::sync::Arc;

use froglet_engine::{ColumnId, EngineError, Layout, Row, Value};
use froglet_log::redo::{self, Malformed};

/// Cells, shared by whoever reads them.
pub(crate) type Cells = Arc<[u8]>;

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
        encode(self.begin, &self.cells)
    }
}

pub(crate) fn encode(begin: u64, cells: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(8 + cells.len());
    bytes.extend_from_slice(&begin.to_le_bytes());
    bytes.extend_from_slice(cells);
    bytes
}

pub(crate) fn corrupt(malformed: &Malformed) -> EngineError {
    EngineError::Corrupt {
        file: "a row on disk".into(),
        offset: malformed.offset as u64,
        what: malformed.what.clone(),
    }
}

/// The cells of a row in the order of a layout.
pub(crate) fn of_row(layout: &Layout, row: &[Value]) -> Cells {
    let mut bytes = Vec::new();
    redo::put_cells(&mut bytes, layout.columns.iter().map(|c| c.id).zip(row));
    bytes.into()
}

/// The cells with some set to other values, and without columns that are not kept.
pub(crate) fn with(
    cells: &[u8],
    set: &[(ColumnId, &Value)],
    keeps: impl Fn(ColumnId) -> bool,
) -> Result<Cells, EngineError> {
    let mut read = redo::Cells::new(cells).map_err(|e| corrupt(&e))?;
    let mut kept: Vec<(ColumnId, Value)> = Vec::new();
    while let Some(column) = read.column().map_err(|e| corrupt(&e))? {
        if set.iter().any(|(id, _)| *id == column) || !keeps(column) {
            read.skip().map_err(|e| corrupt(&e))?;
        } else {
            kept.push((column, read.take().map_err(|e| corrupt(&e))?));
        }
    }
    let mut all: Vec<(ColumnId, &Value)> = kept.iter().map(|(id, value)| (*id, value)).collect();
    all.extend_from_slice(set);
    let mut bytes = Vec::with_capacity(cells.len() + 16);
    redo::put_cells(&mut bytes, all.into_iter());
    Ok(bytes.into())
}

/// Which columns are wanted, and what they are where a row does not have them.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    columns: Vec<(ColumnId, Value)>,
}

impl Wanted {
    pub fn new(columns: impl Iterator<Item = (ColumnId, Value)>) -> Wanted {
        Wanted { columns: columns.collect() }
    }

    /// Appends the values of a row, in order.
    pub fn read(&self, cells: &[u8], out: &mut Row) -> Result<(), EngineError> {
        if self.columns.is_empty() {
            return Ok(());
        }
        let first = out.len();
        out.extend(self.columns.iter().map(|(_, missing)| missing.clone()));
        let mut read = redo::Cells::new(cells).map_err(|e| corrupt(&e))?;
        while let Some(column) = read.column().map_err(|e| corrupt(&e))? {
            let mut places = self.columns.iter().enumerate().filter(|(_, (id, _))| *id == column);
            match places.next() {
                None => read.skip().map_err(|e| corrupt(&e))?,
                Some((at, _)) => {
                    let value = read.take().map_err(|e| corrupt(&e))?;
                    for (other, _) in places {
                        out[first + other] = value.clone();
                    }
                    out[first + at] = value;
                }
            }
        }
        Ok(())
    }
}
