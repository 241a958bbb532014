//! What the log holds: one record for each committed transaction, and a few for what is not one.
//!
//! ```text
//!   record = kind u8, body                          integers are LEB128 unless said otherwise
//!   1 transaction   ts, then to the end: operation…
//!       operation = 1 insert  space rid n (column value)…
//!                 | 2 update  space rid n (column value)…
//!                 | 3 delete  space rid
//!                 | 4 keep    keeper n (space)…
//!   2 declare       space n (column type missing-value)…
//!   3 fill          ts space block c (column)… n (slot)… then n × c values, row by row
//!   4 note          key, bytes to the end
//!   5 create space  space
//!   6 drop space    space
//!   7 drop column   space column
//!   8 install       ts space n note-bytes n (column)… n (row id)… then n × c values, row by row
//!   9 keeper        keeper p n (space)…          announced with a pin at p; released with n = 0
//!  10 transaction   operation… then ts, 8 bytes little-endian: one that was logged in parts (not written any more)
//!  13 index entries space index n (rid key-bytes)…  of an index that is made of rows that were there
//!  14 drop index   space index
//!  15 index        space, its definition to the end
//!  11 half          number ts operation…          a transaction that another engine logs, too, under this number
//!  12 transaction   operation… then number, 0 for none, and ts, 8 bytes little-endian each: in parts
//!   value = tag u8, body; integers zigzag; strings length and bytes; floats, uuid raw
//! ```
//!
//! Values describe themselves. Nothing here panics on bytes from a disk.

mod bytes;
#[cfg(test)]
mod tests;

pub use bytes::put_value;
use bytes::{Input, put, put_bytes, put_type};
use froglet_engine::{ColumnId, ColumnSpec, IndexId, RowId, SpaceId, Value};

const TXN: u8 = 1;
const DECLARE: u8 = 2;
const FILL: u8 = 3;
const NOTE: u8 = 4;
const CREATE_SPACE: u8 = 5;
const DROP_SPACE: u8 = 6;
const DROP_COLUMN: u8 = 7;
const INSTALL: u8 = 8;
const KEEPER: u8 = 9;
const INDEX_ENTRIES: u8 = 13;
const DROP_INDEX: u8 = 14;
const DECLARE_INDEX: u8 = 15;
const OLD_LONG_TXN: u8 = 10;
const HALF_TXN: u8 = 11;
/// What the record of a transaction begins with that is logged in parts; the operations follow, and [`long_end`].
pub const LONG_TXN: u8 = 12;

const INSERT: u8 = 1;
const UPDATE: u8 = 2;
const DELETE: u8 = 3;
const KEEP: u8 = 4;

/// Where and why bytes are not a record.
#[derive(Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The byte.
    pub offset: usize,
    /// What is wrong there.
    pub what: String,
}

/// The head of a transaction's record; the operations follow. `half`: the number under which another engine logs
/// the other half of it, never 0.
pub fn txn_head(out: &mut Vec<u8>, half: Option<u64>, ts: u64) {
    match half {
        None => out.push(TXN),
        Some(number) => {
            out.push(HALF_TXN);
            put(out, number);
        }
    }
    put(out, ts);
}

/// The end of the record of a transaction that is logged in parts.
pub fn long_end(half: Option<u64>, ts: u64) -> [u8; 16] {
    let mut end = [0; 16];
    end[..8].copy_from_slice(&half.unwrap_or(0).to_le_bytes());
    end[8..].copy_from_slice(&ts.to_le_bytes());
    end
}

/// Appends an insert to a transaction's operations.
pub fn insert<'a>(
    out: &mut Vec<u8>,
    space: SpaceId,
    rid: RowId,
    cells: impl ExactSizeIterator<Item = (ColumnId, &'a Value)>,
) {
    put_row(out, INSERT, space, rid, cells);
}

/// Appends an insert to a transaction's operations, of cells as [`put_cells`] writes them.
pub fn insert_cells(out: &mut Vec<u8>, space: SpaceId, rid: RowId, cells: &[u8]) {
    out.push(INSERT);
    put(out, u64::from(space.0));
    put(out, rid.0);
    out.extend_from_slice(cells);
}

/// Appends an update to a transaction's operations.
pub fn update<'a>(
    out: &mut Vec<u8>,
    space: SpaceId,
    rid: RowId,
    cells: impl ExactSizeIterator<Item = (ColumnId, &'a Value)>,
) {
    put_row(out, UPDATE, space, rid, cells);
}

/// Appends a delete to a transaction's operations.
pub fn delete(out: &mut Vec<u8>, space: SpaceId, rid: RowId) {
    out.push(DELETE);
    put(out, u64::from(space.0));
    put(out, rid.0);
}

/// Appends to a transaction's operations that it keeps spaces.
pub fn keep(out: &mut Vec<u8>, keeper: u64, spaces: &[SpaceId]) {
    out.push(KEEP);
    put(out, keeper);
    put_spaces(out, spaces);
}

fn put_spaces(out: &mut Vec<u8>, spaces: &[SpaceId]) {
    put(out, spaces.len() as u64);
    spaces.iter().for_each(|space| put(out, u64::from(space.0)));
}

/// The record that announces a keeper: what ends above `floor` in these spaces may be kept for it.
/// Without spaces, nothing is.
pub fn keeper(keeper: u64, floor: u64, spaces: &[SpaceId]) -> Vec<u8> {
    let mut out = vec![KEEPER];
    put(&mut out, keeper);
    put(&mut out, floor);
    put_spaces(&mut out, spaces);
    out
}

fn put_row<'a>(
    out: &mut Vec<u8>,
    operation: u8,
    space: SpaceId,
    rid: RowId,
    cells: impl ExactSizeIterator<Item = (ColumnId, &'a Value)>,
) {
    out.push(operation);
    put(out, u64::from(space.0));
    put(out, rid.0);
    put_cells(out, cells);
}

/// Appends cells: how many, and each with its column.
pub fn put_cells<'a>(
    out: &mut Vec<u8>,
    cells: impl ExactSizeIterator<Item = (ColumnId, &'a Value)>,
) {
    put(out, cells.len() as u64);
    cells.for_each(|(column, value)| put_cell(out, column, value));
}

fn put_cell(out: &mut Vec<u8>, column: ColumnId, value: &Value) {
    put(out, u64::from(column.0));
    put_value(out, value);
}

/// Appends cells with some set to other values, and without columns that are not kept. What is not set is copied as it is.
pub fn put_changed_cells(
    out: &mut Vec<u8>,
    cells: &[u8],
    set: &[(ColumnId, &Value)],
    keeps: impl Fn(ColumnId) -> bool,
) -> Result<(), Malformed> {
    let is_once = |(n, (id, _)): (usize, &(ColumnId, _))| set[..n].iter().all(|(of, _)| of != id);
    debug_assert!(set.iter().enumerate().all(is_once), "each column is set once");
    let mut read = Cells::new(cells)?;
    let mut kept = Vec::<(usize, usize)>::with_capacity(set.len() + 1);
    let mut count = set.len();
    loop {
        let from = read.input.at;
        let Some(column) = read.column()? else { break };
        read.skip()?;
        if set.iter().any(|(id, _)| *id == column) || !keeps(column) {
            continue;
        }
        count += 1;
        match kept.last_mut() {
            Some((_, to)) if *to == from => *to = read.input.at,
            _ => kept.push((from, read.input.at)),
        }
    }
    put(out, count as u64);
    kept.into_iter().for_each(|(from, to)| out.extend_from_slice(&cells[from..to]));
    set.iter().for_each(|(column, value)| put_cell(out, *column, value));
    Ok(())
}

/// Cells being read, in the order in which they were put; values are decoded when somebody wants them.
#[derive(Debug)]
pub struct Cells<'a> {
    input: Input<'a>,
    left: usize,
}

impl<'a> Cells<'a> {
    /// Of bytes as [`put_cells`] writes them.
    pub fn new(bytes: &'a [u8]) -> Result<Cells<'a>, Malformed> {
        let mut input = Input { bytes, at: 0 };
        let left = input.count()?;
        Ok(Cells { input, left })
    }

    /// The next column; then [`Cells::take`] or [`Cells::skip`] its value.
    pub fn column(&mut self) -> Result<Option<ColumnId>, Malformed> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        self.input.column().map(Some)
    }

    /// The value of the column.
    pub fn take(&mut self) -> Result<Value, Malformed> {
        self.input.value()
    }

    /// Goes on behind the value of the column.
    pub fn skip(&mut self) -> Result<(), Malformed> {
        self.input.skip_value()
    }
}

/// The record that declares columns.
pub fn declare(space: SpaceId, columns: &[ColumnSpec]) -> Vec<u8> {
    let mut out = vec![DECLARE];
    put(&mut out, u64::from(space.0));
    put(&mut out, columns.len() as u64);
    for column in columns {
        put(&mut out, u64::from(column.id.0));
        put_type(&mut out, column.ty);
        put_value(&mut out, &column.missing);
    }
    out
}

/// A migration's stores in one block.
#[derive(Clone, Debug, PartialEq)]
pub struct Fill {
    /// A clock value from inside the block's migration latch.
    pub ts: u64,
    /// The row space.
    pub space: SpaceId,
    /// The block.
    pub block: u32,
    /// What is filled.
    pub columns: Vec<ColumnId>,
    /// The rows of the block that are, ascending.
    pub slots: Vec<u16>,
    /// Row by row, one for each column.
    pub values: Vec<Value>,
}

impl Fill {
    /// Its record.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![FILL];
        put(&mut out, self.ts);
        put(&mut out, u64::from(self.space.0));
        put(&mut out, u64::from(self.block));
        put(&mut out, self.columns.len() as u64);
        self.columns.iter().for_each(|c| put(&mut out, u64::from(c.0)));
        put(&mut out, self.slots.len() as u64);
        self.slots.iter().for_each(|&s| put(&mut out, u64::from(s)));
        self.values.iter().for_each(|v| put_value(&mut out, v));
        out
    }
}

/// Rows that were installed.
#[derive(Clone, Debug, PartialEq)]
pub struct Installed {
    /// A clock value from inside the space's latch.
    pub ts: u64,
    /// The row space.
    pub space: SpaceId,
    /// What recovery is to know of it.
    pub note: Vec<u8>,
    /// The columns of the values.
    pub columns: Vec<ColumnId>,
    /// The rows, ascending.
    pub rids: Vec<RowId>,
    /// Row by row, one for each column.
    pub values: Vec<Value>,
}

/// The record of an install.
pub fn install(
    ts: u64,
    space: SpaceId,
    note: &[u8],
    columns: impl ExactSizeIterator<Item = ColumnId>,
    rids: &[RowId],
    values: &[Value],
) -> Vec<u8> {
    let mut out = vec![INSTALL];
    put(&mut out, ts);
    put(&mut out, u64::from(space.0));
    put_bytes(&mut out, note);
    put(&mut out, columns.len() as u64);
    columns.for_each(|c| put(&mut out, u64::from(c.0)));
    put(&mut out, rids.len() as u64);
    rids.iter().for_each(|rid| put(&mut out, rid.0));
    values.iter().for_each(|v| put_value(&mut out, v));
    out
}

/// The head of a note's record; its bytes follow.
pub fn note_head(key: u64) -> Vec<u8> {
    let mut out = vec![NOTE];
    put(&mut out, key);
    out
}

/// The record of a new row space.
pub fn create_space(space: SpaceId) -> Vec<u8> {
    space_record(CREATE_SPACE, space)
}

/// The record of a row space that is dropped.
pub fn drop_space(space: SpaceId) -> Vec<u8> {
    space_record(DROP_SPACE, space)
}

fn space_record(kind: u8, space: SpaceId) -> Vec<u8> {
    let mut out = vec![kind];
    put(&mut out, u64::from(space.0));
    out
}

/// The record of a column that is dropped.
pub fn drop_column(space: SpaceId, column: ColumnId) -> Vec<u8> {
    let mut out = space_record(DROP_COLUMN, space);
    put(&mut out, u64::from(column.0));
    out
}

/// The record of entries of an index, each with its row.
pub fn index_entries(space: SpaceId, index: IndexId, entries: &[(RowId, Vec<u8>)]) -> Vec<u8> {
    let mut out = space_record(INDEX_ENTRIES, space);
    put(&mut out, u64::from(index.0));
    put(&mut out, entries.len() as u64);
    for (rid, key) in entries {
        put(&mut out, rid.0);
        put_bytes(&mut out, key);
    }
    out
}

/// The record of an index that a space has from now on.
pub fn declare_index(space: SpaceId, definition: &[u8]) -> Vec<u8> {
    let mut out = space_record(DECLARE_INDEX, space);
    out.extend_from_slice(definition);
    out
}

/// The record of an index that is dropped.
pub fn drop_index(space: SpaceId, index: IndexId) -> Vec<u8> {
    let mut out = space_record(DROP_INDEX, space);
    put(&mut out, u64::from(index.0));
    out
}

/// One operation of a transaction.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the fields are what the module's drawing says")]
pub enum Operation {
    /// A row is there.
    Insert { space: SpaceId, rid: RowId, cells: Vec<(ColumnId, Value)> },
    /// Some of its columns have other values.
    Update { space: SpaceId, rid: RowId, cells: Vec<(ColumnId, Value)> },
    /// It is not there any more.
    Delete { space: SpaceId, rid: RowId },
    /// Spaces are kept as of this transaction.
    Keep { keeper: u64, spaces: Vec<SpaceId> },
}

/// The operations of a transaction, decoded one by one: a large one takes its bytes, and a row.
pub struct Operations<'a>(Input<'a>);

impl std::fmt::Debug for Operations<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Operations({} bytes left)", self.0.bytes.len() - self.0.at)
    }
}

impl Iterator for Operations<'_> {
    type Item = Result<Operation, Malformed>;

    fn next(&mut self) -> Option<Result<Operation, Malformed>> {
        if self.0.is_empty() {
            return None;
        }
        let next = operation(&mut self.0);
        if next.is_err() {
            self.0.rest();
        }
        Some(next)
    }
}

/// The record of a transaction.
#[derive(Debug)]
pub struct Transaction<'a> {
    /// Its commit timestamp.
    pub ts: u64,
    /// The number under which another engine logs the other half of it, if it is one of two.
    pub half: Option<u64>,
    /// What it has written.
    pub operations: Operations<'a>,
}

/// The transaction, if that is what a record is.
pub fn transaction(record: &[u8]) -> Option<Result<Transaction<'_>, Malformed>> {
    let kind = *record.first()?;
    Some(match kind {
        TXN | HALF_TXN => short_transaction(record, kind == HALF_TXN),
        OLD_LONG_TXN | LONG_TXN => long_transaction(record, kind == LONG_TXN),
        _ => return None,
    })
}

fn short_transaction(record: &[u8], is_half: bool) -> Result<Transaction<'_>, Malformed> {
    let mut input = Input { bytes: record, at: 1 };
    let half = if is_half { Some(input.number()?) } else { None };
    let ts = input.number()?;
    Ok(Transaction { ts, half, operations: Operations(input) })
}

fn long_transaction(record: &[u8], has_number: bool) -> Result<Transaction<'_>, Malformed> {
    let none = || Malformed { offset: 1, what: "a transaction without a timestamp".into() };
    let (rest, ts) = record[1..].split_last_chunk::<8>().ok_or_else(none)?;
    let (rest, half) = match has_number {
        true => rest.split_last_chunk::<8>().ok_or_else(none)?,
        false => (rest, &[0; 8]),
    };
    let bytes = &record[..1 + rest.len()];
    Ok(Transaction {
        ts: u64::from_le_bytes(*ts),
        half: Some(u64::from_le_bytes(*half)).filter(|half| *half != 0),
        operations: Operations(Input { bytes, at: 1 }),
    })
}

/// The number of the transaction of which a record is one half, if it is.
pub fn half_of(record: &[u8]) -> Result<Option<u64>, Malformed> {
    transaction(record).map_or(Ok(None), |transaction| Ok(transaction?.half))
}

/// One record of the log that is no transaction.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the fields are what the module's drawing says")]
pub enum Entry {
    /// Columns that a space has from now on.
    Declare { space: SpaceId, columns: Vec<ColumnSpec> },
    /// A migration's stores in one block.
    Fill(Fill),
    /// A note of the upper crates.
    Note { key: u64, value: Vec<u8> },
    /// A row space is there.
    CreateSpace(SpaceId),
    /// It is not there any more.
    DropSpace(SpaceId),
    /// A column of it is not there any more.
    DropColumn { space: SpaceId, column: ColumnId },
    /// Entries of an index that is made of rows that were there.
    IndexEntries { space: SpaceId, index: IndexId, entries: Vec<(RowId, Vec<u8>)> },
    /// An index that a space has from now on, as its engine defines it.
    DeclareIndex { space: SpaceId, definition: Vec<u8> },
    /// An index is not there any more.
    DropIndex { space: SpaceId, index: IndexId },
    /// Rows that count as if they had always been there.
    Install(Installed),
    /// A keeper is announced, or without spaces released.
    Keeper { keeper: u64, floor: u64, spaces: Vec<SpaceId> },
}

impl Entry {
    /// Reads one record.
    pub fn decode(bytes: &[u8]) -> Result<Entry, Malformed> {
        let mut input = Input { bytes, at: 0 };
        let entry = match input.byte()? {
            DECLARE => {
                let space = input.space()?;
                let n = input.count()?;
                let columns = (0..n).map(|_| column_spec(&mut input)).collect::<Result<_, _>>()?;
                Entry::Declare { space, columns }
            }
            FILL => Entry::Fill(fill(&mut input)?),
            NOTE => {
                let key = input.number()?;
                Entry::Note { key, value: input.rest().to_vec() }
            }
            CREATE_SPACE => Entry::CreateSpace(input.space()?),
            DROP_SPACE => Entry::DropSpace(input.space()?),
            DROP_COLUMN => Entry::DropColumn { space: input.space()?, column: input.column()? },
            INDEX_ENTRIES => {
                let (space, index) = (input.space()?, IndexId(input.small()?));
                let n = input.count()?;
                let mut entries = Vec::new();
                for _ in 0..n {
                    entries.push((RowId(input.number()?), input.counted()?.to_vec()));
                }
                Entry::IndexEntries { space, index, entries }
            }
            DECLARE_INDEX => {
                let space = input.space()?;
                Entry::DeclareIndex { space, definition: input.rest().to_vec() }
            }
            DROP_INDEX => {
                Entry::DropIndex { space: input.space()?, index: IndexId(input.small()?) }
            }
            INSTALL => Entry::Install(installed(&mut input)?),
            KEEPER => {
                let (keeper, floor) = (input.number()?, input.number()?);
                Entry::Keeper { keeper, floor, spaces: input.spaces()? }
            }
            kind => return Err(input.fail(format!("record kind {kind} is unknown"))),
        };
        if input.is_empty() {
            Ok(entry)
        } else {
            Err(input.fail("bytes after the end of a record".into()))
        }
    }
}

/// Reads one value.
pub fn value(bytes: &[u8]) -> Result<Value, Malformed> {
    Input { bytes, at: 0 }.value()
}

fn operation(input: &mut Input<'_>) -> Result<Operation, Malformed> {
    let kind = input.byte()?;
    if kind == KEEP {
        return Ok(Operation::Keep { keeper: input.number()?, spaces: input.spaces()? });
    }
    let (space, rid) = (input.space()?, RowId(input.number()?));
    let mut cells = Vec::new();
    if kind != DELETE {
        for _ in 0..input.count()? {
            cells.push((input.column()?, input.value()?));
        }
    }
    match kind {
        INSERT => Ok(Operation::Insert { space, rid, cells }),
        UPDATE => Ok(Operation::Update { space, rid, cells }),
        DELETE => Ok(Operation::Delete { space, rid }),
        kind => Err(input.fail(format!("operation {kind} is unknown"))),
    }
}

fn column_spec(input: &mut Input<'_>) -> Result<ColumnSpec, Malformed> {
    let (id, ty, missing) = (input.column()?, input.ty()?, input.value()?);
    if !ty.accepts(&missing) {
        return Err(input.fail(format!("missing value {missing:?} is not of type {ty:?}")));
    }
    Ok(ColumnSpec { id, ty, missing })
}

fn fill(input: &mut Input<'_>) -> Result<Fill, Malformed> {
    let (ts, space) = (input.number()?, input.space()?);
    let block = input.small()?;
    let columns: Vec<ColumnId> =
        (0..input.count()?).map(|_| input.column()).collect::<Result<_, _>>()?;
    let n = input.count()?;
    let mut slots = Vec::new();
    for _ in 0..n {
        let slot = input.small()?;
        if slot as usize >= froglet_engine::id::ROWS_PER_BLOCK {
            return Err(input.fail(format!("slot {slot} is past the end of a block")));
        }
        slots.push(slot as u16);
    }
    let values = (0..n * columns.len()).map(|_| input.value()).collect::<Result<_, _>>()?;
    Ok(Fill { ts, space, block, columns, slots, values })
}

fn installed(input: &mut Input<'_>) -> Result<Installed, Malformed> {
    let (ts, space) = (input.number()?, input.space()?);
    let note = input.counted()?.to_vec();
    let columns: Vec<ColumnId> =
        (0..input.count()?).map(|_| input.column()).collect::<Result<_, _>>()?;
    let n = input.count()?;
    let rids: Vec<RowId> = (0..n).map(|_| input.number().map(RowId)).collect::<Result<_, _>>()?;
    let values = (0..n * columns.len()).map(|_| input.value()).collect::<Result<_, _>>()?;
    Ok(Installed { ts, space, note, columns, rids, values })
}
