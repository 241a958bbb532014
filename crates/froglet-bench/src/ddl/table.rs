//! The table whose schema changes: how it is made, filled, and checked.
//!
//! ```text
//!   bench: id int8 primary key │ grp int4 │ amount int8 │ balance int8 │ code int8 │ note text
//!   groups: id int4 primary key
//! ```
//!
//! `code` is unique in random order; `grp` names one of a thousand groups. Whoever writes under a
//! version that has `doubled` keeps it at twice `amount`, as for a generated column, so that a row
//! that a migration missed or computed from the wrong version is found at the end.

use std::sync::Arc;

use anyhow::{Context, Result, anyhow, ensure};
use arrow_array::Array;
use froglet_engine::id::ROWS_PER_BLOCK;
use froglet_engine::{ColumnType, Direction, Engine, KeyRange, Row, Value, batch};
use froglet_schema::{
    Catalog, Change, MigrationOptions, NewColumn, NewConstraint, NewKey, NewTable, ObjectId,
    SqlType, TableDef, TableVersion,
};
use froglet_txn::{Isolation, Limits, SchemaUse, TxnManager};

use crate::progress;

/// The table's name.
pub const NAME: &str = "bench";
/// The parent of the foreign key.
pub const GROUPS: &str = "groups";
/// How many groups there are.
pub const GROUP_COUNT: u64 = 1000;
const SCHEMA: &str = "public";

/// As declared.
pub fn sql_type(ty: ColumnType) -> SqlType {
    let oid = match ty {
        ColumnType::Int64 => 20,
        ColumnType::Int32 => 23,
        ColumnType::Text => 25,
        ColumnType::Float64 => 701,
        ColumnType::Decimal { .. } => 1700,
        other => unreachable!("no column of this benchmark is {other:?}"),
    };
    SqlType { oid, modifier: -1 }
}

/// A column to be made.
pub fn column(name: &str, ty: ColumnType, not_null: bool) -> NewColumn {
    NewColumn { name: name.to_owned(), ty, sql_type: sql_type(ty), not_null, default: None }
}

/// The newest committed version of a table.
pub fn latest(catalog: &Catalog, name: &str) -> Result<Arc<TableVersion>> {
    let version = catalog.latest();
    version.table(SCHEMA, name).cloned().with_context(|| format!("table {name} is not there"))
}

/// Options of migrations with one scan thread.
pub fn options(statement: &str) -> MigrationOptions {
    MigrationOptions { statement: statement.to_owned(), ..MigrationOptions::default() }
}

/// One change in a transaction of its own.
pub async fn change(catalog: &Catalog, change: Change, sql: &str) -> Result<Option<ObjectId>> {
    let mut txn = catalog.manager().begin(Isolation::ReadCommitted);
    let limits = Limits::none();
    catalog.begin_statement(&mut txn, true, &limits).await?;
    let made = catalog.apply(&mut txn, change, &options(sql), &limits).await;
    catalog.end_statement(&mut txn);
    let made = made?;
    catalog.manager().commit(txn, &limits).await?;
    Ok(made.object)
}

/// Makes both tables and fills them.
pub async fn create(catalog: &Catalog, rows: u64) -> Result<()> {
    let key = |column: &str| NewConstraint::PrimaryKey(NewKey::of([column]));
    let table = |name: &str, columns| NewTable {
        schema: SCHEMA.to_owned(),
        name: name.to_owned(),
        columns,
        constraints: vec![key("id")],
        dictionary: None,
        home: froglet_engine::Home::Memory,
    };
    let groups = table(GROUPS, vec![column("id", ColumnType::Int32, true)]);
    let bench = table(
        NAME,
        vec![
            column("id", ColumnType::Int64, true),
            column("grp", ColumnType::Int32, true),
            column("amount", ColumnType::Int64, true),
            column("balance", ColumnType::Int64, false),
            column("code", ColumnType::Int64, true),
            column("note", ColumnType::Text, false),
        ],
    );
    change(catalog, Change::CreateTable(groups), "CREATE TABLE groups").await?;
    change(catalog, Change::CreateTable(bench), "CREATE TABLE bench").await?;
    let all = (0..GROUP_COUNT).map(|n| vec![group(n)]).collect::<Vec<_>>();
    let parents = latest(catalog, GROUPS)?;
    insert(catalog, &parents, &all).await?;
    let bar = progress::bar("loading rows", rows);
    let version = latest(catalog, NAME)?;
    for first in (0..rows).step_by(ROWS_PER_BLOCK) {
        let end = rows.min(first + ROWS_PER_BLOCK as u64);
        let batch: Vec<Row> = (first..end).map(|n| new_row(&version.def, n)).collect();
        insert(catalog, &version, &batch).await?;
        bar.set_position(end);
    }
    bar.finish_and_clear();
    Ok(())
}

async fn insert(catalog: &Catalog, version: &TableVersion, rows: &[Row]) -> Result<()> {
    let manager: &Arc<TxnManager> = catalog.manager();
    let mut txn = manager.begin(Isolation::ReadCommitted);
    let inserted = version.table.insert(txn.part(), rows, &mut Vec::new());
    inserted.map_err(|(n, stop)| anyhow!("row {n} of a batch was refused: {stop:?}"))?;
    txn.note_schema(schema_use(version));
    manager.commit(txn, &Limits::none()).await?;
    Ok(())
}

/// What a writer under this version declares.
pub fn schema_use(version: &TableVersion) -> SchemaUse {
    SchemaUse { table: version.def.id, space: version.def.space, version: version.version }
}

fn group(n: u64) -> Value {
    Value::Int32((n % GROUP_COUNT) as i32)
}

/// `amount` in a column of this type.
pub fn amount(ty: ColumnType, amount: i64) -> Value {
    match ty {
        ColumnType::Decimal { scale, .. } => {
            Value::Decimal(i128::from(amount) * 10i128.pow(scale.unsigned_abs().into()))
        }
        _ => Value::Int64(amount),
    }
}

/// Row `n` under any version of the table.
pub fn new_row(def: &TableDef, n: u64) -> Row {
    let scattered = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) as i64;
    let sum = scattered >> 24;
    let value = |name: &str, ty| match name {
        "id" => Value::Int64(n as i64),
        "grp" => group(n),
        "amount" => amount(ty, sum),
        "doubled" => Value::Int64(sum * 2),
        "balance" => Value::Int64(sum & 0xFFFF),
        "code" => Value::Int64(scattered),
        "note" | "remark" => Value::text(format!("{:020}", n)),
        "flat" => Value::Int64(7),
        "dice" => Value::Float64(0.5),
        other => unreachable!("no version of the table has a column {other}"),
    };
    def.columns.iter().map(|c| value(&c.name, c.ty)).collect()
}

/// Checks the table when nobody writes: its rows are all there, every index has each of them once
/// and in order, and computed columns have what they were computed to.
pub fn check(engine: &dyn Engine, version: &TableVersion, rows: u64) -> Result<()> {
    let snapshot = engine.snapshot();
    let table = &version.table;
    let position = |name: &str| version.def.columns.iter().position(|c| c.name == name);
    let computed: Vec<usize> =
        ["amount", "doubled", "dice"].iter().filter_map(|name| position(name)).collect();
    let (amount_at, doubled_at) = (position("amount"), position("doubled"));
    let mut found = 0;
    for block in 0..table.block_count() {
        let read = table.read_block(&snapshot, block, &computed)?;
        found += read.rids.len() as u64;
        for column in read.batch.columns() {
            ensure!(column.null_count() == 0, "block {block} has NULLs that nobody wrote");
        }
        if let (Some(_), Some(at)) = (amount_at, doubled_at) {
            let (ty, doubled) = (version.def.columns[computed[0]].ty, version.def.columns[at].ty);
            for row in 0..read.batch.num_rows() {
                let of = batch::value_at(read.batch.column(0), row, ty);
                let is = batch::value_at(read.batch.column(1), row, doubled);
                ensure!(is == twice(&of, ty), "doubled is {is:?} in a row of amount {of:?}");
            }
        }
    }
    ensure!(found == rows, "{found} rows of {rows} are there");
    for at in 0..version.def.indexes.len() {
        let mut entries = 0;
        let visit = &mut |_, _: &mut Row| {
            entries += 1;
            std::ops::ControlFlow::Continue(())
        };
        table.seek(&snapshot, at, &KeyRange::all(), Direction::Forward, &[], visit);
        let name = &version.def.indexes[at].name;
        ensure!(entries == rows, "index {name} leads to {entries} rows of {rows}");
    }
    Ok(())
}

fn twice(amount: &Value, ty: ColumnType) -> Value {
    match (amount, ty) {
        (Value::Int64(v), _) => Value::Int64(v * 2),
        (Value::Decimal(v), ColumnType::Decimal { scale, .. }) => {
            Value::Int64((v / 10i128.pow(scale.unsigned_abs().into())) as i64 * 2)
        }
        (other, _) => unreachable!("amount is {other:?}"),
    }
}
