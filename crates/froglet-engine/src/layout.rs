//! A layout: the columns and indexes of a row space under one schema version.
//!
//! Schema versions of one table share its row space. A version is a list of column ids, so that
//! adding or dropping a column changes a layout and no row. A column id that a block does not
//! hold has, for every row of that block, the column's *missing value*.

use crate::id::{ColumnId, IndexId, SpaceId};
use crate::value::{ColumnType, Value};

/// One column of a layout.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct ColumnSpec {
    /// Unique in the row space for ever.
    pub id: ColumnId,
    /// How its cells are stored and which values it takes.
    pub ty: ColumnType,
    /// The value of rows that were there before the column was.
    pub missing: Value,
}

/// Whether equal strings of a block that is frozen are kept once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dictionary {
    /// Never.
    Off,
    /// Where the first of them say that it is worth while.
    #[default]
    Auto,
    /// Always.
    On,
}

impl Dictionary {
    /// As settings and options say it.
    pub fn parse(name: &str) -> Option<Dictionary> {
        match name {
            "off" => Some(Dictionary::Off),
            "auto" => Some(Dictionary::Auto),
            "on" => Some(Dictionary::On),
            _ => None,
        }
    }

    /// As settings and options say it.
    pub fn name(self) -> &'static str {
        match self {
            Dictionary::Off => "off",
            Dictionary::Auto => "auto",
            Dictionary::On => "on",
        }
    }
}

/// One part of an index key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct KeyPart {
    /// The column whose value is encoded.
    pub column: ColumnId,
    /// Larger values come first.
    pub descending: bool,
    /// NULL sorts before every value (PostgreSQL's default when descending).
    pub nulls_first: bool,
}

/// What NULLs do to the keys of a unique index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum NullKeys {
    /// A key with a NULL is unlike every other.
    #[default]
    Distinct,
    /// NULLs are equal.
    Equal,
    /// NULLs are equal, but a key whose first part is NULL is unlike every other.
    EqualButFirst,
}

impl NullKeys {
    /// Whether a NULL in a part, counted from 0, makes a key unlike every other.
    #[inline]
    pub fn sets_apart(self, part: usize) -> bool {
        match self {
            NullKeys::Distinct => true,
            NullKeys::Equal => false,
            NullKeys::EqualButFirst => part == 0,
        }
    }
}

/// One index of a layout.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct IndexSpec {
    /// Unique in its space for ever. A table that moves takes it along: two spaces may have an index of one number.
    pub id: IndexId,
    /// Major part first; never empty.
    pub key: Vec<KeyPart>,
    /// No two rows visible at once may share a key without NULLs, or as `nulls` says.
    pub unique: bool,
    /// The same of rows that are committed: a transaction may let two share a key for a while, and asks
    /// before it commits ([`crate::Table::rival`]). Not with `unique`.
    #[serde(default)]
    pub unique_at_commit: bool,
    /// What NULLs do to its keys, if they are to differ.
    #[serde(default)]
    pub nulls: NullKeys,
}

impl IndexSpec {
    /// Whether no two rows that are committed may share a key.
    pub fn keeps_apart(&self) -> bool {
        self.unique || self.unique_at_commit
    }
}

/// The columns and indexes of a row space under one schema version.
#[derive(Clone, Debug, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct Layout {
    /// In the order in which rows are given and returned.
    pub columns: Vec<ColumnSpec>,
    /// Every index that writers under this layout maintain.
    pub indexes: Vec<IndexSpec>,
    /// By which key the rows are kept, of engines that keep rows by key: the same in every layout of a row space.
    pub row_key: Option<RowKey>,
}

/// By which key rows are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct RowKey {
    /// The index that it is of.
    pub index: IndexId,
    /// With the rows of which other space they are, if with any.
    pub within: Option<Within>,
}

/// Rows are where those of another space are whose key theirs begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Within {
    /// The other space.
    pub space: SpaceId,
    /// So many parts of the key are its key.
    pub parts: usize,
}

impl Layout {
    /// The position of a column id in this layout.
    pub fn position(&self, id: ColumnId) -> Option<usize> {
        self.columns.iter().position(|c| c.id == id)
    }

    /// The position of an index id in this layout.
    pub fn index_position(&self, id: IndexId) -> Option<usize> {
        self.indexes.iter().position(|i| i.id == id)
    }

    /// The positions of the columns of an index's key, in its order.
    ///
    /// Panics if a column is not in this layout: a layout has those of its indexes.
    pub fn key_positions<'a>(&'a self, index: &'a IndexSpec) -> impl Iterator<Item = usize> + 'a {
        let position = |part: &KeyPart| self.position(part.column);
        index.key.iter().map(move |part| position(part).expect("a layout has its indexes' columns"))
    }
}
