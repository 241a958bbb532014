//! What a table that is made lazily must keep to: known, or looked at, before its transaction commits. Nobody
//! can say no afterwards.
//!
//! ```text
//!   the query may fail for a row      run over every row; integers are looked at, where it has several tables
//!   keys, NOT NULL, foreign keys      known of what the table is made of, or refused
//! ```

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int16Type, Int32Type, Int64Type};
use arrow_array::{Array, BooleanArray, RecordBatch};
use arrow_schema::DataType;
use froglet_engine::{ColumnId, ColumnType, Home, KeyPart, NullKeys, SqlState, Value, batch, key};
use froglet_txn::Transaction;

use crate::apply::Scope;
use crate::catalog::Catalog;
use crate::change::{Check, LazyQuery, LazyVerify, RowQuery};
use crate::def::{ColumnDef, ForeignKeyDef, ObjectId, TableDef};
use crate::edit::{Demand, Edited, Work};
use crate::error::SchemaError;
use crate::lazy::LazyMigration;
use crate::rows::row_at;
use crate::step::{Step, StepKind, positions};

impl Catalog {
    /// Looks at all rows, and at those that change until the commit: the query does not fail for any.
    pub(crate) async fn verify_lazy(
        &self,
        txn: &mut Transaction,
        scope: &mut Scope<'_>,
        query: &LazyQuery,
        verify: LazyVerify,
        recipe: &str,
    ) -> Result<(), SchemaError> {
        let mut checks: Vec<(ObjectId, Arc<dyn Check>)> = Vec::new();
        let is_in_cluster = |id| scope.table(id).is_ok_and(|t| t.def.space.home() == Home::Cluster);
        if verify != LazyVerify::Nothing && query.tables().into_iter().any(is_in_cluster) {
            return match query {
                LazyQuery::Rows(source, query) if query.lookups().is_empty() => {
                    self.verify_query_online(txn, scope, *source, query, recipe).await
                }
                _ => Err(not_lazily(
                    "In a cluster nothing is looked at before of several rows or tables, and it may fail for some",
                )),
            };
        }
        match (verify, query) {
            (LazyVerify::Nothing, _) => {}
            (LazyVerify::Query, LazyQuery::Rows(source, query)) => {
                let layout = scope.table(*source)?.def.layout();
                let ty = |id: &ColumnId| Some(layout.columns[layout.position(*id)?].ty);
                let types = query.inputs().iter().filter_map(ty).collect();
                checks.push((*source, Arc::new(Succeeds { query: query.clone(), types })));
            }
            (LazyVerify::Query, LazyQuery::Units(_) | LazyQuery::Pairs(..)) => {
                return Err(not_lazily("An expression over several rows may fail for some"));
            }
            (LazyVerify::Within(columns, bound), _) => {
                for (table, column) in columns {
                    let def = &scope.table(table)?.def;
                    let name = def.column_by_id(column).map_or("?", |c| &c.name).to_owned();
                    checks.push((table, Arc::new(Within { column: [column], name, bound })));
                }
            }
        }
        // In order, so that two such statements do not wait for each other.
        checks.sort_by_key(|(table, _)| *table);
        for (table, check) in checks {
            self.store.lock(txn, table, scope.limits).await?;
            self.verify_rows(txn, scope, table, check).await?;
        }
        Ok(())
    }

    /// Looks at all rows of a table that is held, and at those that change until the commit.
    pub(crate) async fn verify_rows(
        &self,
        txn: &mut Transaction,
        scope: &mut Scope<'_>,
        table: ObjectId,
        check: Arc<dyn Check>,
    ) -> Result<(), SchemaError> {
        let def = scope.table(table)?.def.clone();
        let rows = self.open_table(&def)?;
        let source = positions(&*rows, check.inputs());
        let kind = StepKind::Verify { source, check, demand: Demand::Change };
        let step = Step::new(kind, rows, txn.savepoint(), self.engine().clone());
        self.run_step(txn, scope, &def, step).await?;
        scope.view = self.view(txn);
        Ok(())
    }
}

/// That a query does not fail.
struct Succeeds {
    query: Arc<dyn RowQuery>,
    /// Of its inputs.
    types: Vec<ColumnType>,
}

impl Check for Succeeds {
    fn inputs(&self) -> &[ColumnId] {
        self.query.inputs()
    }

    fn eval(&self, batch: &RecordBatch) -> Result<BooleanArray, SchemaError> {
        let rows = batch.num_rows();
        if self.query.eval(batch).is_ok() {
            return Ok(vec![true; rows].into());
        }
        let succeeds = |at| self.query.eval(&batch.slice(at, 1)).is_ok();
        Ok((0..rows).map(succeeds).collect::<Vec<bool>>().into())
    }

    fn violation(&self, row: &[Value]) -> SchemaError {
        let failed = self.query.eval(&batch::batch_of(&self.types, &[row.to_vec()]));
        failed.err().unwrap_or_else(|| not_lazily("Its query failed for a row"))
    }
}

/// That the keys of a table's indexes are not too long for a table elsewhere.
pub(crate) struct KeysFit {
    home: Home,
    columns: Vec<ColumnId>,
    types: Vec<ColumnType>,
    /// Of each index: the places among the columns, and how they are encoded.
    keys: Vec<Vec<(usize, KeyPart)>>,
}

impl KeysFit {
    /// The check, if there are keys of which that is not known by their types.
    pub fn of(def: &TableDef, home: Home) -> Option<KeysFit> {
        home.longest_key()?;
        let layout = def.layout();
        let ty = |id: ColumnId| layout.position(id).map(|at| layout.columns[at].ty);
        let is_long = |part: &KeyPart| ty(part.column).is_none_or(ColumnType::may_be_long);
        let long = layout.indexes.iter().filter(|index| index.key.iter().any(is_long));
        let (mut columns, mut keys) = (Vec::new(), Vec::new());
        for index in long {
            let mut key = Vec::with_capacity(index.key.len());
            for part in &index.key {
                let known = columns.iter().position(|column| *column == part.column);
                let at = known.unwrap_or_else(|| {
                    columns.push(part.column);
                    columns.len() - 1
                });
                key.push((at, *part));
            }
            keys.push(key);
        }
        let types = columns.iter().filter_map(|id| ty(*id)).collect();
        (!keys.is_empty()).then_some(KeysFit { home, columns, types, keys })
    }

    /// Of its inputs.
    pub fn types(&self) -> &[ColumnType] {
        &self.types
    }

    fn look(&self, row: &[Value]) -> Result<(), SchemaError> {
        // Encoded they may be twice as long, and a little more.
        let bytes: usize = row.iter().map(Value::heap_bytes).sum();
        if self.home.longest_key().is_some_and(|most| 2 * bytes + 64 * row.len() <= most) {
            return Ok(());
        }
        for parts in &self.keys {
            let values = parts.iter().map(|(at, _)| &row[*at]);
            let key = key::encode(values, parts.iter().map(|(_, part)| part));
            key::check_length(&key, self.home)?;
        }
        Ok(())
    }
}

impl Check for KeysFit {
    fn inputs(&self) -> &[ColumnId] {
        &self.columns
    }

    fn eval(&self, batch: &RecordBatch) -> Result<BooleanArray, SchemaError> {
        let fits = |at| self.look(&row_at(batch.columns(), &self.types, at)).is_ok();
        Ok((0..batch.num_rows()).map(fits).collect::<Vec<bool>>().into())
    }

    fn violation(&self, row: &[Value]) -> SchemaError {
        self.look(row).err().unwrap_or_else(|| not_lazily("A key of it is too long"))
    }
}

/// That an integer is at most so far from 0.
struct Within {
    column: [ColumnId; 1],
    name: String,
    bound: i64,
}

impl Check for Within {
    fn inputs(&self) -> &[ColumnId] {
        &self.column
    }

    fn eval(&self, batch: &RecordBatch) -> Result<BooleanArray, SchemaError> {
        let column = batch.column(0);
        let values: Box<dyn Iterator<Item = Option<i64>>> = match column.data_type() {
            DataType::Int16 => {
                Box::new(column.as_primitive::<Int16Type>().iter().map(|v| v.map(i64::from)))
            }
            DataType::Int32 => {
                Box::new(column.as_primitive::<Int32Type>().iter().map(|v| v.map(i64::from)))
            }
            _ => Box::new(column.as_primitive::<Int64Type>().iter()),
        };
        let bound = self.bound.unsigned_abs();
        Ok(values.map(|value| Some(value.is_none_or(|v| v.unsigned_abs() <= bound))).collect())
    }

    fn violation(&self, row: &[Value]) -> SchemaError {
        let value = row.first().and_then(Value::as_integer);
        let value = value.map_or_else(|| "NULL".to_owned(), |value| value.to_string());
        not_lazily(format!(
            "Column \"{}\" has {value}: beyond {} its arithmetic might overflow for some row",
            self.name, self.bound
        ))
    }
}

/// Whether NULLs are equal in a unique index of a source over some of these columns.
fn has_one_null(lazy: &dyn LazyMigration, sources: &[&TableDef], columns: &[ColumnId]) -> bool {
    let of: Vec<_> = columns.iter().filter_map(|id| lazy.origin(*id)).collect();
    sources.iter().enumerate().any(|(at, source)| {
        let specs = source.indexes.iter().map(|index| &index.spec);
        let mut equal = specs.filter(|spec| spec.unique && spec.nulls == NullKeys::Equal);
        equal.any(|spec| spec.key.iter().all(|part| of.contains(&(at, part.column))))
    })
}

/// Columns of a table that is made lazily which an edit says are not NULL, and of which that is not known.
pub(crate) fn may_be_null<'a>(
    lazy: &dyn LazyMigration,
    base: &TableDef,
    edited: &'a Edited,
) -> Vec<&'a ColumnDef> {
    let was = |id| base.column_by_id(id).is_some_and(|column| column.not_null);
    let new = edited.def.columns.iter().filter(|c| c.not_null && !was(c.id));
    new.filter(|column| !is_not_null(lazy, column.id)).collect()
}

/// Whether a column of a table that is made lazily is not NULL, as it is one of a source.
fn is_not_null(lazy: &dyn LazyMigration, id: ColumnId) -> bool {
    let source = |at| lazy.state().def.sources().nth(at);
    let of = lazy.origin(id).and_then(|(at, id)| source(at)?.column_by_id(id));
    of.is_some_and(|column| column.not_null)
}

/// Whether what an edit needs of the rows of a table that is made lazily is known of the source [D2], but for what was
/// looked at.
pub(crate) fn implied(
    lazy: &dyn LazyMigration,
    base: &TableDef,
    edited: &Edited,
    looked_at: bool,
) -> Result<(), SchemaError> {
    let sources: Vec<&TableDef> = lazy.state().def.sources().collect();
    let is_said = |id| edited.def.column_by_id(id).is_some_and(|column| column.not_null);
    let is_not_null = |id: ColumnId| is_not_null(lazy, id) || looked_at && is_said(id);
    if let Some(column) = may_be_null(lazy, base, edited).first().filter(|_| !looked_at) {
        return Err(not_lazily(format!(
            "Column \"{}\" may be NULL in what the table is made of",
            column.name
        )));
    }
    for work in &edited.work {
        match work {
            Work::Verify(_, Demand::NotNull(_)) => {}
            Work::Verify(..) if looked_at => {}
            Work::Verify(..) => {
                return Err(not_lazily("The condition has to be checked for every row"));
            }
            Work::KeptForeignKey(_) => {}
            Work::Fill { .. } => return Err(not_lazily("The column has to be computed")),
            Work::Index(id) => {
                let index = edited.def.index_by_id(*id).expect("the edit added the index");
                if index.spec.unique_at_commit {
                    return Err(not_lazily("A deferrable key is asked of rows that are there"));
                }
                let columns: Vec<ColumnId> = index.spec.key.iter().map(|p| p.column).collect();
                let one = TableDef { indexes: vec![index.clone()], ..edited.def.clone() };
                if !looked_at
                    && lazy.state().is_move()
                    && KeysFit::of(&one, one.space.home()).is_some()
                {
                    return Err(not_lazily("Its keys may be too long for a table on disk"));
                }
                let may_be_null = |(n, part): (usize, &KeyPart)| {
                    !index.spec.nulls.sets_apart(n) && !is_not_null(part.column)
                };
                if index.spec.unique
                    && index.spec.key.iter().enumerate().any(may_be_null)
                    && !has_one_null(lazy, &sources, &columns)
                {
                    return Err(not_lazily(format!(
                        "Nothing says that the keys of \"{}\" with a NULL differ in what the table is made of",
                        index.name
                    )));
                }
                if index.spec.unique && !lazy.is_unique(&columns) {
                    return Err(not_lazily(format!(
                        "Nothing says that the keys of \"{}\" differ in what the table is made of",
                        index.name
                    )));
                }
            }
            Work::ForeignKey(name) => {
                let key = edited.def.foreign_keys().find(|(n, _)| n == name).map(|(_, key)| key);
                let pairs = |key: &ForeignKeyDef, columns: &[ColumnId]| {
                    let mut pairs: Vec<_> =
                        columns.iter().copied().zip(key.parent_columns.clone()).collect();
                    pairs.sort_unstable();
                    (key.parent, pairs)
                };
                let is_known = key.is_some_and(|key| {
                    let of = key.columns.iter().map(|id| lazy.origin(*id));
                    let Some(of) = of.collect::<Option<Vec<_>>>() else { return false };
                    let Some(&(at, _)) = of.first() else { return false };
                    let columns: Vec<ColumnId> = of.iter().map(|(_, id)| *id).collect();
                    let wanted = pairs(key, &columns);
                    let mut known = sources[at].foreign_keys();
                    of.iter().all(|(other, _)| *other == at)
                        && known.any(|(_, other)| pairs(other, &other.columns) == wanted)
                });
                if !is_known {
                    return Err(not_lazily(format!(
                        "The table it is made of has no foreign key like \"{name}\""
                    )));
                }
            }
        }
    }
    Ok(())
}

/// What is refused of a table that is made lazily, and why.
pub(crate) fn not_lazily(why: impl std::fmt::Display) -> SchemaError {
    SchemaError::refused(
        SqlState::FEATURE_NOT_SUPPORTED,
        "this is not supported of a table that is made lazily by the same transaction",
    )
    .with_detail(format!("{why}."))
    .with_hint("Set froglet.migration to eager, or commit the new table first.")
}
