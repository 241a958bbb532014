//! An index, and the entries that rows have in it.

use froglet_engine::{EngineError, IndexId, IndexSpec, Row, SpaceId, key};
use froglet_log::cells::Wanted;

use super::keys;

/// An index whose entries are keys of their own.
#[derive(Debug)]
pub(super) struct Index {
    pub spec: IndexSpec,
    pub prefix: Vec<u8>,
    /// Its columns.
    wanted: Wanted,
    /// Its place in the layout.
    pub position: usize,
}

/// An entry of a row: where it is, and whether no other row may be there.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub index: IndexId,
    pub at: Vec<u8>,
    pub is_unique: bool,
}

impl Index {
    /// `missing`: of each of its columns.
    pub fn new(
        database: u32,
        space: SpaceId,
        spec: IndexSpec,
        missing: Row,
        position: usize,
    ) -> Index {
        let prefix = keys::index(database, space, spec.id);
        let columns = spec.key.iter().map(|part| part.column).zip(missing);
        Index { wanted: Wanted::new(columns), spec, prefix, position }
    }

    /// The values of a row's key.
    pub fn values(&self, cells: &[u8]) -> Result<Row, EngineError> {
        let mut values = Row::new();
        self.wanted.read(cells, &mut values)?;
        Ok(values)
    }

    /// The entry of a row.
    pub fn entry(&self, cells: &[u8], row_key: &[u8]) -> Result<Entry, EngineError> {
        let mut at = self.prefix.clone();
        let mut is_apart = false;
        for (n, (value, part)) in self.values(cells)?.iter().zip(&self.spec.key).enumerate() {
            is_apart |= value.is_null() && self.spec.nulls.sets_apart(n);
            key::encode_part(&mut at, value, part);
        }
        let is_unique = self.spec.unique && !is_apart;
        if !is_unique {
            at.extend_from_slice(row_key);
        }
        Ok(Entry { index: self.spec.id, at, is_unique })
    }
}
