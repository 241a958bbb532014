//! What a table should be: a map of rows by their names, which are in the first column and no two rows share.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use froglet_engine::batch::value_at;
use froglet_engine::{
    ColumnId, ColumnSpec, ColumnType, Direction, IndexId, IndexSpec, KeyPart, KeyRange, Layout,
    NullKeys, Row, RowId, RowKey, Snapshot, Table, Value, key,
};

/// What is in all columns but the first, which is a row's name here.
pub type Rest = (Option<i32>, &'static str);
/// By their names.
pub type Model = BTreeMap<i64, Rest>;

pub const NAMES: i64 = 40;
pub const TAGS: [&str; 4] = ["", "a", "a\0b", "a tag that is longer than the view of a text"];
pub const ALL: [usize; 3] = [0, 1, 2];
pub const PRIMARY: IndexId = IndexId(1);
pub const UNIQUE: IndexId = IndexId(2);

fn index(id: IndexId, column: u32, unique: bool, descending: bool) -> IndexSpec {
    let key = vec![KeyPart { column: ColumnId(column), descending, nulls_first: descending }];
    IndexSpec { id, key, unique, unique_at_commit: false, nulls: NullKeys::Distinct }
}

pub fn layout(has_primary: bool) -> Arc<Layout> {
    let column = |id, ty| ColumnSpec { id: ColumnId(id), ty, missing: Value::Null };
    let types = [ColumnType::Int64, ColumnType::Int32, ColumnType::Text];
    let mut indexes = vec![index(UNIQUE, 2, true, true), index(IndexId(3), 3, false, false)];
    if has_primary {
        indexes.insert(0, index(PRIMARY, 1, true, false));
    }
    Arc::new(Layout {
        columns: (1..).zip(types).map(|(id, ty)| column(id, ty)).collect(),
        indexes,
        row_key: has_primary.then_some(RowKey { index: PRIMARY, within: None }),
    })
}

pub fn row(name: i64, (number, tag): Rest) -> Row {
    vec![Value::Int64(name), number.map_or(Value::Null, Value::Int32), Value::text(tag)]
}

/// The key of a row in the index at a position.
pub fn of_key(table: &dyn Table, at: usize, row: &[Value]) -> Vec<u8> {
    let spec = &table.layout().indexes[at];
    key::encode(table.layout().key_positions(spec).map(|at| &row[at]), &spec.key)
}

/// The indexes in which another row has a key of this one.
pub fn rivals(model: &Model, own: Option<i64>, name: i64, (number, _): Rest) -> Vec<IndexId> {
    let others = || model.iter().filter(|(name, _)| Some(**name) != own);
    let mut rivals = Vec::new();
    if others().any(|(other, _)| *other == name) {
        rivals.push(PRIMARY);
    }
    if number.is_some() && others().any(|(_, rest)| rest.0 == number) {
        rivals.push(UNIQUE);
    }
    rivals
}

/// All rows, part by part.
pub fn scanned(table: &dyn Table, snapshot: &Snapshot) -> Vec<(RowId, Row)> {
    let (mut rows, mut next) = (Vec::new(), Some(RowId(0)));
    while let Some(from) = next {
        let (part, after) = table.read_part(snapshot, from, &ALL).expect("the store answers");
        let cell =
            |n, at: usize| value_at(&**part.batch.column(at), n, table.layout().columns[at].ty);
        for (n, rid) in part.rids.iter().enumerate() {
            rows.push((*rid, ALL.map(|at| cell(n, at)).to_vec()));
        }
        next = after;
    }
    rows
}

/// The whole table, as it is scanned and as each index has it.
pub fn check_all(table: &dyn Table, snapshot: &Snapshot, model: &Model) {
    let mut found: Vec<(i64, Row)> = scanned(table, snapshot)
        .into_iter()
        .map(|(_, row)| match row[0] {
            Value::Int64(name) => (name, row),
            _ => panic!("every row has a name: {row:?}"),
        })
        .collect();
    if table.layout().row_key.is_some() {
        assert!(found.is_sorted_by_key(|(name, _)| *name), "it is kept by its primary key");
    }
    found.sort_by_key(|(name, _)| *name);
    let should: Vec<(i64, Row)> =
        model.iter().map(|(name, rest)| (*name, row(*name, *rest))).collect();
    assert_eq!(found, should, "a scan at {}", snapshot.ts);
    for at in 0..table.layout().indexes.len() {
        for direction in [Direction::Forward, Direction::Backward] {
            check_range(table, snapshot, model, (at, &KeyRange::all(), direction), usize::MAX);
        }
    }
}

/// A range of an index, up to so many rows. Rows of one key come in any order, but all before those of the next.
pub fn check_range(
    table: &dyn Table,
    snapshot: &Snapshot,
    model: &Model,
    (at, range, direction): (usize, &KeyRange, Direction),
    limit: usize,
) {
    let mut found: Vec<(Vec<u8>, Row)> = Vec::new();
    table.seek(snapshot, at, range, direction, &ALL, &mut |_, row| {
        found.push((of_key(table, at, row), row.clone()));
        if found.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    let rows = model.iter().map(|(name, rest)| row(*name, *rest));
    let keyed = rows.map(|row| (of_key(table, at, &row), row));
    let mut should: Vec<(Vec<u8>, Row)> = keyed.filter(|(key, _)| range.contains(key)).collect();
    should.sort_by(|(a, _), (b, _)| match direction {
        Direction::Forward => a.cmp(b),
        Direction::Backward => b.cmp(a),
    });
    let what = format!("{range:?} of index {at}, {direction:?}, at {}", snapshot.ts);
    for row in &found {
        assert!(should.contains(row), "{what}: {row:?} is not there");
    }
    let keys = |rows: &[(Vec<u8>, Row)]| -> Vec<Vec<u8>> {
        rows.iter().take(limit).map(|(key, _)| key.clone()).collect()
    };
    assert_eq!(keys(&found), keys(&should), "{what}: {found:?} is not {should:?}");
    let names: BTreeSet<String> = found.iter().map(|(_, row)| format!("{:?}", row[0])).collect();
    assert_eq!(names.len(), found.len(), "{what}: each row once");
}
