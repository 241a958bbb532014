//! The two tables of every history, and the small worlds of values in which keys collide.

use std::sync::Arc;

use froglet_engine::key::encode_part;
use froglet_engine::{
    ColumnId, ColumnSpec, ColumnType, Home, IndexId, IndexSpec, KeyPart, Layout, Row, SpaceId,
    Value, numeric,
};

/// Tables of a history.
pub const TABLES: usize = 2;
/// Columns of the longest row.
pub(crate) const COLUMNS_MAX: usize = 5;

/// A row space under two layouts: the wide one is the narrow one and columns added to it.
#[derive(Debug)]
pub(crate) struct TableSpec {
    pub space: SpaceId,
    pub narrow: Arc<Layout>,
    pub wide: Arc<Layout>,
}

impl TableSpec {
    pub fn layout(&self, wide: bool) -> &Arc<Layout> {
        if wide { &self.wide } else { &self.narrow }
    }
}

fn column(id: u32, ty: ColumnType) -> ColumnSpec {
    ColumnSpec { id: ColumnId(id), ty, missing: Value::Null }
}

fn part(id: u32) -> KeyPart {
    KeyPart { column: ColumnId(id), descending: false, nulls_first: false }
}

fn descending(id: u32) -> KeyPart {
    KeyPart { column: ColumnId(id), descending: true, nulls_first: true }
}

fn index(id: u32, key: Vec<KeyPart>, unique: bool) -> IndexSpec {
    IndexSpec { id: IndexId(id), key, unique, unique_at_commit: false, nulls: Default::default() }
}

fn table(
    space: u32,
    columns: Vec<ColumnSpec>,
    added: Vec<ColumnSpec>,
    indexes: Vec<IndexSpec>,
) -> TableSpec {
    let narrow = Layout { columns, indexes, row_key: None };
    let mut wide = narrow.clone();
    wide.columns.extend(added);
    assert!(wide.columns.len() <= COLUMNS_MAX, "an operation has a code for each column");
    TableSpec { space: SpaceId(space), narrow: Arc::new(narrow), wide: Arc::new(wide) }
}

/// The tables, each at its home.
pub(crate) fn tables(homes: [Home; TABLES]) -> [TableSpec; TABLES] {
    let missing = Value::text("a missing value that is longer than its view");
    let accounts = table(
        7,
        vec![
            column(1, ColumnType::Int64),
            column(2, ColumnType::Text),
            column(3, ColumnType::Int32),
        ],
        vec![ColumnSpec { missing, ..column(4, ColumnType::Text) }, column(5, ColumnType::Bool)],
        vec![
            index(1, vec![part(1)], true),
            index(2, vec![descending(3), part(1)], false),
            index(3, vec![part(2), part(3)], true),
        ],
    );
    let marks = table(
        8,
        vec![
            column(1, ColumnType::Text),
            column(2, ColumnType::Decimal { precision: 38, scale: 2 }),
            column(3, ColumnType::Bytes),
            column(5, ColumnType::Numeric),
        ],
        vec![ColumnSpec { missing: Value::Float64(1.5), ..column(4, ColumnType::Float64) }],
        vec![
            index(11, vec![descending(1)], true),
            index(12, vec![part(2)], false),
            index(13, vec![descending(5)], true),
        ],
    );
    let mut tables = [accounts, marks];
    for (table, home) in tables.iter_mut().zip(homes) {
        table.space = home.space(table.space.0);
    }
    tables
}

/// The value that a code stands for in a column; NULL is one of them except for bigints.
pub(crate) fn value(ty: ColumnType, code: u8) -> Value {
    let texts = ["", "a", "a\0", "b", "a text that is longer than its view, 1", "é"];
    match ty {
        ColumnType::Int64 => Value::Int64(i64::from(code % 12) - 2),
        _ if code % 7 == 6 => Value::Null,
        ColumnType::Text if code >= 128 => Value::text(texts[4].repeat(1 + usize::from(code % 5))),
        ColumnType::Text => Value::text(texts[usize::from(code) % texts.len()]),
        ColumnType::Int32 => Value::Int32(i32::from(code % 5) - 1),
        ColumnType::Decimal { .. } if code >= 200 => Value::Decimal(-(i128::from(code) << 90)),
        ColumnType::Decimal { .. } => Value::Decimal(i128::from(code % 4)),
        ColumnType::Bytes => Value::Bytes(vec![code; usize::from(code % 40)].into()),
        ColumnType::Numeric => Value::Numeric(number(code)),
        ColumnType::Float64 => Value::Float64([0.0, -0.0, f64::NAN, 2.5][usize::from(code % 4)]),
        ColumnType::Bool => Value::Bool(code % 2 == 1),
        other => unreachable!("no table has a column of type {other:?}"),
    }
}

/// Three codes for each number, which differ in what is shown of it; from 160 on the number is longer than
/// its view.
fn number(code: u8) -> Box<[u8]> {
    let (n, scale) = (i128::from(code / 3) - 20, u16::from(code % 3));
    let shown = 10_i128.pow(scale.into());
    match code {
        253..=255 => numeric::NAN.into(),
        250..253 => numeric::NEGATIVE_INFINITY.into(),
        160..250 => numeric::of_unscaled((n << 90) * shown, 25 + scale),
        _ => numeric::of_unscaled(n * shown, scale),
    }
}

/// Whether two values are the same bits: `PartialEq` tells NaN from NaN.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Float64(a), Value::Float64(b)) => a.to_bits() == b.to_bits(),
        _ => a == b,
    }
}

/// Whether two rows are the same.
pub(crate) fn same_row(a: &[Value], b: &[Value]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
}

/// The row of codes under a layout, with missing values where that lacks columns of the wide one.
pub(crate) fn row_of(spec: &TableSpec, wide: bool, codes: &[u8; COLUMNS_MAX]) -> Row {
    let given = spec.layout(wide).columns.len();
    let of = |(at, column): (usize, &ColumnSpec)| match at < given {
        true => value(column.ty, codes[at]),
        false => column.missing.clone(),
    };
    spec.wide.columns.iter().enumerate().map(of).collect()
}

/// The key of a row in an index, and whether a NULL makes it unlike every other.
pub(crate) fn key_of(spec: &TableSpec, index: &IndexSpec, row: &[Value]) -> (Vec<u8>, bool) {
    let mut key = Vec::new();
    let mut has_null = false;
    for (i, part) in index.key.iter().enumerate() {
        let at = spec.wide.position(part.column).expect("an index is over columns of its table");
        has_null |= row[at].is_null() && index.nulls.sets_apart(i);
        encode_part(&mut key, &row[at], part);
    }
    (key, has_null)
}
