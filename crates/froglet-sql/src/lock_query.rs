//! FOR UPDATE and FOR SHARE in queries that the short path does not have: joins, subqueries in conditions, any order.
//!
//! ```text
//!   SELECT a.x FROM a JOIN b ON … WHERE … FOR UPDATE OF a
//!
//!   find    SELECT a.x, a._rid FROM a JOIN b ON … WHERE …      rows, and where the locked ones are
//!   lock    these rows of a; has one changed since they were found, again from the start, under a new view
//!   answer  the rows of which every part is locked, without the places
//! ```
//!
//! PostgreSQL looks again at the row that has changed alone. Here the whole query does: its rows are locked and
//! are of one view as well. What was locked on the way stays so to the end of the transaction, as there.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{Array, AsArray, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::Int64Type;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, GroupByExpr, Ident, JoinConstraint, JoinOperator, LimitClause, LockClause,
    ObjectName, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableAlias,
    TableFactor, TableWithJoins, Value as AstValue,
};
use froglet_engine::{RowId, Snapshot, SqlState};
use froglet_schema::{SqlType, TableVersion};
use froglet_txn::TxnError;

use crate::apply::{OnBusy, Recheck, Rechecked, Stop, Targets, Writer};
use crate::command::fold;
use crate::error::SqlError;
use crate::lock_parts::{RowLock, named};
use crate::plan::Planner;
use crate::planning::registry;
use crate::prepared::Field;
use crate::provider::{ROW_ID, ROW_ID_SCHEMA};
use crate::query_rows::{QueryPlan, next};
use crate::resolve::{Names, Relation};
use crate::select::{Lock, cannot_lock, lock_of};
use crate::walk;

/// How often a query looks again before it gives up: others change its rows all the time.
const MAX_TURNS: usize = 100;

/// A query whose rows are locked.
pub(crate) struct LockQueryPlan {
    find: QueryPlan,
    fields: Arc<[Field]>,
    locked: Vec<Locked>,
    /// LIMIT and OFFSET, where rows that others hold do not count.
    window: Option<(usize, usize)>,
}

/// A table of the query whose rows are locked.
struct Locked {
    table: Arc<TableVersion>,
    lock: Lock,
}

/// Plans such a query; with it the types of its parameters.
pub(crate) async fn plan(
    planner: &mut Planner<'_>,
    query: &Query,
    given: &[SqlType],
) -> Result<(LockQueryPlan, Vec<SqlType>), Stop> {
    let mut query = query.clone();
    let clauses = std::mem::take(&mut query.locks);
    let names = planner.names();
    let with = query.with.iter().flat_map(|with| &with.cte_tables);
    let ctes = with.map(|cte| fold(&cte.alias.name)).collect();
    let mut tables = Tables { names, clauses, ctes, locked: Vec::new(), relations: Vec::new() };
    let clause = tables.clause();
    let SetExpr::Select(select) = query.body.as_mut() else {
        return Err(not_allowed(&clause, "UNION/INTERSECT/EXCEPT").into());
    };
    refuse_grouped(select, &clause)?;
    for from in &mut select.from {
        tables.of_item(from)?;
    }
    tables.refuse_unknown()?;
    if tables.locked.is_empty() {
        return Err(cannot_lock().into());
    }
    tables.name_columns(select)?;
    let skips = tables.locked.iter().any(|(_, locked)| locked.lock.busy == OnBusy::Skip);
    let window = if skips { take_window(&mut query)? } else { None };
    let (find, params) = QueryPlan::plan(planner, &query, given).await?;
    let count = find.fields().len() - tables.locked.len();
    let fields = find.fields()[..count].iter().cloned().collect();
    let locked = tables.locked.into_iter().map(|(_, locked)| locked).collect();
    Ok((LockQueryPlan { find, fields, locked, window }, params))
}

/// A row of such a query is of no one row of a table.
fn refuse_grouped(select: &Select, clause: &str) -> Result<(), SqlError> {
    let calls = |found: &dyn Fn(&Function) -> bool| {
        walk::any_expr(
            &select.projection,
            |expr| matches!(expr, Expr::Function(function) if found(function)),
        )
    };
    let is_aggregate = |function: &Function| {
        let name = function.name.0.last().and_then(|part| part.as_ident()).map(fold);
        function.over.is_none() && name.is_some_and(|name| registry().is_aggregate(&name))
    };
    let is_plain =
        matches!(&select.group_by, GroupByExpr::Expressions(a, b) if a.is_empty() && b.is_empty());
    let what = if select.distinct.is_some() {
        "DISTINCT clause"
    } else if !is_plain {
        "GROUP BY clause"
    } else if select.having.is_some() {
        "HAVING clause"
    } else if calls(&is_aggregate) {
        "aggregate functions"
    } else if calls(&|function| function.over.is_some()) {
        "window functions"
    } else if select.into.is_some() || select.qualify.is_some() {
        return Err(cannot_lock());
    } else {
        return Ok(());
    };
    Err(not_allowed(clause, what))
}

fn not_allowed(clause: &str, what: &str) -> SqlError {
    let message = format!("{clause} is not allowed with {what}");
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
}

/// LIMIT and OFFSET, taken out of the query.
fn take_window(query: &mut Query) -> Result<Option<(usize, usize)>, SqlError> {
    let Some(clause) = query.limit_clause.take() else { return Ok(None) };
    let LimitClause::LimitOffset { limit, offset, limit_by } = clause else {
        return Err(cannot_lock());
    };
    let number = |expr: &Expr| match expr {
        Expr::Value(value) => match &value.value {
            AstValue::Number(digits, _) => digits.parse::<usize>().map_err(|_| cannot_lock()),
            _ => Err(cannot_lock()),
        },
        _ => Err(cannot_lock()),
    };
    if !limit_by.is_empty() || query.fetch.is_some() {
        return Err(cannot_lock());
    }
    let limit = limit.as_ref().map_or(Ok(usize::MAX), number)?;
    let offset = offset.as_ref().map_or(Ok(0), |offset| number(&offset.value))?;
    Ok(Some((limit, offset)))
}

/// The relations of FROM, and which of them are locked.
struct Tables<'a> {
    names: Names<'a>,
    clauses: Vec<LockClause>,
    ctes: HashSet<String>,
    locked: Vec<(String, Locked)>,
    /// Under which names they go.
    relations: Vec<String>,
}

impl Tables<'_> {
    fn of_item(&mut self, item: &mut TableWithJoins) -> Result<(), SqlError> {
        use JoinOperator::{FullOuter, Left, LeftOuter, Right, RightOuter};
        let from = self.locked.len();
        self.of_factor(&mut item.relation)?;
        for join in &mut item.joins {
            let before = self.locked.len();
            self.of_factor(&mut join.relation)?;
            let outer = match &join.join_operator {
                Left(_) | LeftOuter(_) => before..self.locked.len(),
                Right(_) | RightOuter(_) => from..before,
                FullOuter(_) => from..self.locked.len(),
                _ => 0..0,
            };
            if !outer.is_empty() {
                return Err(SqlError::new(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    format!(
                        "{} cannot be applied to the nullable side of an outer join",
                        self.clause()
                    ),
                ));
            }
        }
        Ok(())
    }

    fn clause(&self) -> String {
        self.clauses.first().map_or("", |clause| RowLock::of(clause).clause()).to_owned()
    }

    fn of_factor(&mut self, factor: &mut TableFactor) -> Result<(), SqlError> {
        match factor {
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                self.of_item(table_with_joins)
            }
            TableFactor::Table { name, alias, args: None, .. } => {
                let called = match alias {
                    Some(alias) => fold(&alias.name),
                    None => Names::parts(name)?.1,
                };
                self.relations.push(called.clone());
                match self.lock(&called)? {
                    Some(lock) => self.of_table(name, alias, called, lock),
                    None => Ok(()),
                }
            }
            TableFactor::Derived { alias, .. }
            | TableFactor::Function { alias, .. }
            | TableFactor::UNNEST { alias, .. }
            | TableFactor::Table { alias, .. } => {
                let called = alias.as_ref().map(|alias| fold(&alias.name)).unwrap_or_default();
                let is_query = matches!(factor, TableFactor::Derived { .. });
                self.relations.push(called.clone());
                // The rows of a function are nobody's; those of a subquery are a table's.
                match self.lock(&called)? {
                    Some(_) if is_query => Err(cannot_lock()),
                    _ => Ok(()),
                }
            }
            _ => Err(cannot_lock()),
        }
    }

    /// How a relation is locked, if it is.
    fn lock(&self, called: &str) -> Result<Option<Lock>, SqlError> {
        let mut meant = Vec::new();
        for clause in &self.clauses {
            let is_it = match named(clause) {
                None => true,
                Some(name) => Names::parts(&name)?.1 == called,
            };
            if is_it {
                meant.push(clause.clone());
            }
        }
        lock_of(&meant)
    }

    fn of_table(
        &mut self,
        name: &mut ObjectName,
        alias: &mut Option<TableAlias>,
        called: String,
        lock: Lock,
    ) -> Result<(), SqlError> {
        let (schema, bare) = Names::parts(name)?;
        if schema.is_none() && self.ctes.contains(&bare) {
            return Ok(());
        }
        let table = match self.names.relation(name)? {
            Some(Relation::Table(table)) => table.clone(),
            None if !self.names.is_system_table(name)? => self.names.table(name)?.clone(),
            _ => return Err(cannot_lock()),
        };
        let ident = |text: &str| Ident::with_quote('"', text);
        *name = ObjectName::from(vec![ident(ROW_ID_SCHEMA), ident(&table.def.id.to_string())]);
        match alias {
            Some(alias) if !alias.columns.is_empty() => return Err(cannot_lock()),
            Some(_) => {}
            None => {
                let name = ident(&called);
                *alias = Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None });
            }
        }
        self.locked.push((called, Locked { table, lock }));
        Ok(())
    }

    /// 42P01 for an OF that names no relation of FROM.
    fn refuse_unknown(&self) -> Result<(), SqlError> {
        for clause in &self.clauses {
            let Some(name) = named(clause) else { continue };
            let name = Names::parts(&name)?.1;
            if !self.relations.contains(&name) {
                return Err(SqlError::new(
                    SqlState::UNDEFINED_TABLE,
                    format!(
                        "relation \"{name}\" in {} clause not found in FROM clause",
                        RowLock::of(clause).clause()
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Writes out which columns a `*` stands for, places being none of them, and adds the places.
    fn name_columns(&self, select: &mut Select) -> Result<(), SqlError> {
        let merges = select.from.iter().any(merges_columns);
        let mut items = Vec::new();
        for item in select.projection.drain(..) {
            match &item {
                SelectItem::Wildcard(_) if merges => return Err(cannot_lock()),
                SelectItem::Wildcard(_) => {
                    for relation in &self.relations {
                        self.all_columns(relation, &mut items);
                    }
                }
                SelectItem::QualifiedWildcard(
                    SelectItemQualifiedWildcardKind::ObjectName(name),
                    _,
                ) => self.all_columns(&Names::parts(name)?.1, &mut items),
                _ => items.push(item),
            }
        }
        for (called, _) in &self.locked {
            items.push(column(called, ROW_ID));
        }
        select.projection = items;
        Ok(())
    }

    fn all_columns(&self, relation: &str, items: &mut Vec<SelectItem>) {
        match self.locked.iter().find(|(called, _)| called == relation) {
            Some((_, locked)) => {
                items.extend(locked.table.def.columns.iter().map(|c| column(relation, &c.name)));
            }
            None => {
                let name = ObjectName::from(vec![Ident::with_quote('"', relation)]);
                let all = SelectItemQualifiedWildcardKind::ObjectName(name);
                items.push(SelectItem::QualifiedWildcard(all, Default::default()));
            }
        }
    }
}

fn column(relation: &str, name: &str) -> SelectItem {
    let ident = |text: &str| Ident::with_quote('"', text);
    SelectItem::UnnamedExpr(Expr::CompoundIdentifier(vec![ident(relation), ident(name)]))
}

/// Whether columns of two relations are one in a `*`.
fn merges_columns(from: &TableWithJoins) -> bool {
    use JoinOperator::{CrossJoin, FullOuter, Inner, Join, Left, LeftOuter, Right, RightOuter};
    from.joins.iter().any(|join| match &join.join_operator {
        Join(on) | Inner(on) | Left(on) | LeftOuter(on) | Right(on) | RightOuter(on)
        | FullOuter(on) | CrossJoin(on) => {
            matches!(on, JoinConstraint::Using(_) | JoinConstraint::Natural)
        }
        _ => true,
    })
}

impl LockQueryPlan {
    pub(crate) fn fields(&self) -> &Arc<[Field]> {
        &self.fields
    }

    /// The query that finds the rows.
    pub(crate) fn query(&self) -> &QueryPlan {
        &self.find
    }

    /// Reads and locks the rows.
    pub(crate) async fn run(&self, writer: &mut Writer<'_>) -> Result<Vec<RecordBatch>, Stop> {
        for locked in &self.locked {
            writer.note(&locked.table);
        }
        for _ in 0..MAX_TURNS {
            let view = writer.txn.part().snapshot().clone();
            let limits = writer.limits;
            let mut stream = self.find.run_within(writer).await?;
            let mut found = Vec::new();
            while let Some(batch) = next(&mut stream, limits).await? {
                found.push(batch);
            }
            if let Some(held) = self.lock_rows(writer, &view, &found).await? {
                return self.answer(&found, &held).map_err(Stop::Error);
            }
        }
        Err(TxnError::Serialization.into())
    }

    /// Which rows are answered; `None` if one has changed since it was found.
    async fn lock_rows(
        &self,
        writer: &mut Writer<'_>,
        view: &Snapshot,
        found: &[RecordBatch],
    ) -> Result<Option<Vec<Vec<bool>>>, Stop> {
        let mut held: Vec<Vec<bool>> = Vec::with_capacity(found.len());
        let (limit, offset) = self.window.unwrap_or((usize::MAX, 0));
        if self.window.is_none() {
            let mut locked = Vec::with_capacity(self.locked.len());
            for (at, table) in self.locked.iter().enumerate() {
                let mut seen = HashSet::new();
                let mut rids = Vec::new();
                for batch in found {
                    let places = self.places(batch, at)?;
                    rids.extend(places.into_iter().filter(|rid| seen.insert(*rid)));
                }
                match table.lock_all(writer, view, rids).await? {
                    Some(rids) => locked.push(rids),
                    None => return Ok(None),
                }
            }
            for batch in found {
                let mut all = vec![true; batch.num_rows()];
                for (at, rids) in locked.iter().enumerate() {
                    for (row, rid) in self.places(batch, at)?.into_iter().enumerate() {
                        all[row] &= rids.contains(&rid);
                    }
                }
                held.push(all);
            }
            return Ok(Some(held));
        }
        // Rows that others hold do not count: one by one, until there are enough.
        let mut known: HashMap<(usize, RowId), bool> = HashMap::new();
        let (mut passed, mut answered) = (0, 0);
        for batch in found {
            let mut of_batch = vec![false; batch.num_rows()];
            for (row, is_held) in of_batch.iter_mut().enumerate() {
                if answered >= limit {
                    break;
                }
                let mut all = true;
                for (at, table) in self.locked.iter().enumerate() {
                    let rid = self.places(batch, at)?[row];
                    let one = match known.get(&(at, rid)) {
                        Some(one) => *one,
                        None => match table.lock_all(writer, view, vec![rid]).await? {
                            Some(rids) => !rids.is_empty(),
                            None => return Ok(None),
                        },
                    };
                    known.insert((at, rid), one);
                    all &= one;
                }
                match (all, passed < offset) {
                    (false, _) => {}
                    (true, true) => passed += 1,
                    (true, false) => {
                        *is_held = true;
                        answered += 1;
                    }
                }
            }
            held.push(of_batch);
        }
        Ok(Some(held))
    }

    /// Where the rows of a locked table are.
    fn places(&self, batch: &RecordBatch, at: usize) -> Result<Vec<RowId>, SqlError> {
        let column = batch.columns().get(self.fields.len() + at);
        let numbers = column.and_then(|column| column.as_primitive_opt::<Int64Type>());
        match numbers.filter(|numbers| numbers.null_count() == 0) {
            Some(numbers) => Ok(numbers.values().iter().map(|rid| RowId(*rid as u64)).collect()),
            None => Err(SqlError::new(SqlState::INTERNAL_ERROR, "a locked row has no place")),
        }
    }

    fn answer(
        &self,
        found: &[RecordBatch],
        held: &[Vec<bool>],
    ) -> Result<Vec<RecordBatch>, SqlError> {
        let internal =
            |e: arrow::error::ArrowError| SqlError::new(SqlState::INTERNAL_ERROR, e.to_string());
        let columns: Vec<usize> = (0..self.fields.len()).collect();
        let answer = |(batch, held): (&RecordBatch, &Vec<bool>)| {
            let batch = batch.project(&columns)?;
            filter_record_batch(&batch, &BooleanArray::from(held.clone()))
        };
        found.iter().zip(held).map(answer).collect::<Result<_, _>>().map_err(internal)
    }
}

impl Locked {
    /// Locks rows. Answers with those that are there and not left out; `None` if one has changed since the view.
    async fn lock_all(
        &self,
        writer: &mut Writer<'_>,
        view: &Snapshot,
        rids: Vec<RowId>,
    ) -> Result<Option<HashSet<RowId>>, Stop> {
        let mut changed = false;
        let mut targets = Targets { rids, ..Targets::new() };
        let mut recheck = |_: &Snapshot, _: RowId| -> Rechecked {
            changed = true;
            Ok(Some((Vec::new(), Vec::new())))
        };
        let recheck: Recheck<'_> = &mut recheck;
        writer.lock(&self.table, self.lock, view.ts, &mut targets, recheck).await?;
        Ok((!changed).then(|| targets.rids.into_iter().collect()))
    }
}
