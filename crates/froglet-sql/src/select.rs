//! The short path of SELECT: one table, through an index, without the analytical planner.
//!
//! What does not fit (joins, aggregates, an order no index has, anything that does not compile
//! here) is left to DataFusion by answering `None`; so errors of such statements are DataFusion's.
//! A range that turns out to be long is left to it, too, when the statement has begun ([`crate::scan::MANY`]).

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, LimitClause, LockClause, NonBlock, ObjectName, OrderByExpr, OrderByKind,
    Query, Select, SelectItem, SetExpr,
};
use froglet_engine::{Direction, KeyPart, Row, RowId, Snapshot, SqlState, Value, key};
use froglet_schema::{ObjectId, SqlType, TableVersion};

use crate::access::{self, Access};
use crate::apply::{OnBusy, Stop, Targets, Writer};
use crate::bound::{BoundExpr, projection_of};
use crate::command::fold;
use crate::context::EvalContext;
use crate::error::SqlError;
use crate::expr::{RowExpr, Scope, infer_params};
use crate::key::{Told, told_of};
use crate::lock_parts::{RowLock, named as locked};
use crate::modify_plan::{expressions, remaining};
use crate::plan::Planner;
use crate::query::account::Gathering;
use crate::resolve::{Names, Relation};
use crate::returning::{self, Item, Output, OutputList};
use crate::scan::Scan;
use crate::semantics::named;
use crate::target::{TableRef, has_subquery, plain_table};
use crate::types::{column_type_of, oids, plain};

/// A planned lookup.
pub(crate) struct SelectPlan {
    pub(crate) table: Arc<TableVersion>,
    access: Option<Access>,
    direction: Direction,
    /// The order, where no index has it.
    sort: Option<Sort>,
    projection: Vec<usize>,
    residual: Option<BoundExpr>,
    /// All conditions over whole rows, for locked rows that have changed.
    condition: Option<BoundExpr>,
    pub(crate) outputs: OutputList,
    limit: Option<RowExpr>,
    offset: Option<RowExpr>,
    lock: Option<Lock>,
}

/// FOR UPDATE, or a weaker one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lock {
    pub(crate) busy: OnBusy,
    pub(crate) strength: RowLock,
}

/// What a lookup came to.
pub(crate) enum Found {
    Rows(Vec<Row>),
    /// Too many rows to be a lookup.
    Many,
}

/// The parts of a query that may be short.
struct Shape<'a> {
    table: TableRef<'a>,
    select: &'a Select,
    order: &'a [OrderByExpr],
    limit: Option<&'a Expr>,
    offset: Option<&'a Expr>,
    lock: Option<Lock>,
}

/// Plans a lookup; `None` if the query is not one.
pub(crate) fn plan(
    planner: &Planner<'_>,
    query: &Query,
    given: &[SqlType],
) -> Result<Option<(SelectPlan, Vec<SqlType>)>, SqlError> {
    let Some(shape) = shape(query)? else {
        return Ok(None);
    };
    if !planner.fast && shape.lock.is_none() {
        return Ok(None);
    }
    let names = planner.names();
    let table = match names.relation(shape.table.name)? {
        Some(Relation::Table(table)) => table.clone(),
        None if shape.lock.is_some() && !names.is_system_table(shape.table.name)? => {
            names.table(shape.table.name)?.clone()
        }
        _ => return Ok(None),
    };
    if let Some(view) = planner.catalog.materialized(table.def.id) {
        if shape.lock.is_some() {
            let message = format!("cannot lock rows in materialized view \"{}\"", table.def.name);
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        if view.materialized.is_some_and(|m| !m.populated) {
            return Ok(None);
        }
    }
    match bind(&table, &shape, given) {
        Ok(planned) => Ok(planned),
        Err(_) => Ok(None),
    }
}

/// Which column of which table each result of a query is, where that is plain to see: queries of
/// one table, whoever plans them.
pub(crate) fn origins(planner: &Planner<'_>, query: &Query) -> Vec<Option<(ObjectId, usize)>> {
    let Ok(Some(shape)) = shape(query) else { return Vec::new() };
    let Ok(Some(Relation::Table(table))) = planner.names().relation(shape.table.name) else {
        return Vec::new();
    };
    let alias = shape.table.alias.as_deref();
    let Ok(items) = returning::items(&shape.select.projection, &table.def, alias) else {
        return Vec::new();
    };
    items
        .into_iter()
        .map(|item| match item {
            Item::Column(at) => Some((table.def.id, at)),
            Item::Expr(Expr::Identifier(ident), _) => {
                let name = fold(ident);
                let at = table.def.columns.iter().position(|c| c.name == name)?;
                Some((table.def.id, at))
            }
            Item::Expr(..) => None,
        })
        .collect()
}

pub(crate) fn cannot_lock() -> SqlError {
    SqlError::unsupported("FOR UPDATE or FOR SHARE in this query")
        .hint("It is supported for tables in FROM, without grouping, DISTINCT and set operations.")
}

/// The table and the rest of a query that makes at most one row of each row of one table. An
/// order is no matter of which rows there are.
pub(crate) fn of_one_table(query: &Query) -> Result<Option<(TableRef<'_>, &Select)>, SqlError> {
    // Parentheses around all of it; an order outside them is no matter either.
    let mut query = query;
    while let SetExpr::Query(inner) = query.body.as_ref()
        && query.with.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none()
        && query.locks.is_empty()
    {
        query = inner;
    }
    let whole =
        |shape: &Shape<'_>| shape.limit.is_none() && shape.offset.is_none() && shape.lock.is_none();
    Ok(shape(query)?.filter(whole).map(|shape| (shape.table, shape.select)))
}

fn shape(query: &Query) -> Result<Option<Shape<'_>>, SqlError> {
    let SetExpr::Select(select) = query.body.as_ref() else { return Ok(None) };
    let simple = query.with.is_none()
        && query.fetch.is_none()
        && query.for_clause.is_none()
        && query.settings.is_none()
        && query.pipe_operators.is_empty()
        && select.distinct.is_none()
        && select.top.is_none()
        && select.into.is_none()
        && select.having.is_none()
        && select.qualify.is_none()
        && select.prewhere.is_none()
        && select.lateral_views.is_empty()
        && select.named_window.is_empty()
        && select.connect_by.is_empty()
        && matches!(&select.group_by, GroupByExpr::Expressions(a, b) if a.is_empty() && b.is_empty())
        && !select.selection.as_ref().is_some_and(has_subquery);
    let [from] = select.from.as_slice() else { return Ok(None) };
    let Some(table) = plain_table(from).filter(|_| simple) else { return Ok(None) };
    let order: &[OrderByExpr] = match &query.order_by {
        None => &[],
        Some(order) => match &order.kind {
            OrderByKind::Expressions(exprs) if order.interpolate.is_none() => exprs,
            _ => return Ok(None),
        },
    };
    let (limit, offset) = match &query.limit_clause {
        None => (None, None),
        Some(LimitClause::LimitOffset { limit, offset, limit_by }) if limit_by.is_empty() => {
            (limit.as_ref(), offset.as_ref().map(|o| &o.value))
        }
        Some(_) => return Ok(None),
    };
    // OF may name another.
    let called = match &table.alias {
        Some(alias) => alias.clone(),
        None => Names::parts(table.name)?.1,
    };
    let names_it = |name: &ObjectName| Names::parts(name).is_ok_and(|(_, name)| name == called);
    if query.locks.iter().filter_map(locked).any(|name| !names_it(&name)) {
        return Ok(None);
    }
    let lock = lock_of(&query.locks)?;
    Ok(Some(Shape { table, select, order, limit, offset, lock }))
}

pub(crate) fn lock_of(locks: &[LockClause]) -> Result<Option<Lock>, SqlError> {
    let mut strongest: Option<Lock> = None;
    for lock in locks {
        let busy = match lock.nonblock {
            None => OnBusy::Wait,
            Some(NonBlock::Nowait) => OnBusy::NoWait,
            Some(NonBlock::SkipLocked) => OnBusy::Skip,
        };
        let strength = RowLock::of(lock);
        let strength = strongest.map_or(strength, |lock| lock.strength.max(strength));
        strongest = Some(Lock { busy, strength });
    }
    Ok(strongest)
}

fn bind(
    table: &Arc<TableVersion>,
    shape: &Shape<'_>,
    given: &[SqlType],
) -> Result<Option<(SelectPlan, Vec<SqlType>)>, SqlError> {
    let alias = shape.table.alias.as_deref();
    let scope = Scope::table(&table.def, alias);
    let params = params(shape, &scope, given)?;
    let conjuncts = shape.select.selection.as_ref().map(access::conjuncts).unwrap_or_default();
    let (access, residual) = access::choose(table, &conjuncts, &params)?;
    let Some((access, order)) = order(table, shape, access) else { return Ok(None) };
    if access.is_none() && shape.lock.is_none() {
        return Ok(None);
    }
    let (direction, wanted) = match order {
        Order::Along(direction) => (direction, Vec::new()),
        Order::Sort(wanted) => (Direction::Forward, wanted),
    };
    let residual = remaining(&scope, &conjuncts, &residual, &params)?;
    let outputs = returning::compile(&shape.select.projection, &table.def, alias, &scope, &params)?;
    let is_named = |output: &Output| named::shower(output.field.sql_type.oid).is_some();
    if outputs.iter().any(|output| output.field.ty.is_none() || is_named(output)) {
        return Ok(None);
    }
    let condition = match (&shape.select.selection, shape.lock) {
        (Some(selection), Some(_)) => {
            Some(RowExpr::compile_condition(&scope, selection, &params, "WHERE")?)
        }
        _ => None,
    };
    let read = outputs.iter().map(|output| &output.expr).chain(residual.as_ref());
    let all = 0..if shape.lock.is_some() { table.def.columns.len() } else { 0 };
    let projection = projection_of(read, all.chain(wanted.iter().map(|w| w.column)));
    let sort = (!wanted.is_empty()).then(|| Sort::bind(table, wanted, &projection));
    let plan = SelectPlan {
        table: table.clone(),
        access,
        direction,
        sort,
        residual: residual.map(|expr| BoundExpr::new(expr, &projection)),
        condition: condition.map(BoundExpr::whole),
        outputs: OutputList::bind(outputs, &projection),
        projection,
        limit: count(shape.limit, &params)?,
        offset: count(shape.offset, &params)?,
        lock: shape.lock,
    };
    Ok(Some((plan, params)))
}

fn params(shape: &Shape<'_>, scope: &Scope, given: &[SqlType]) -> Result<Vec<SqlType>, SqlError> {
    let mut exprs = expressions(&shape.select.projection);
    exprs.extend(shape.select.selection.iter().map(|condition| (condition, None)));
    let counts = shape.limit.into_iter().chain(shape.offset);
    exprs.extend(counts.map(|count| (count, Some(plain(oids::INT8)))));
    infer_params(scope, &exprs, given)
}

fn count(expr: Option<&Expr>, params: &[SqlType]) -> Result<Option<RowExpr>, SqlError> {
    let Some(expr) = expr else { return Ok(None) };
    let int8 = plain(oids::INT8);
    let ty = column_type_of(int8.oid, -1).expect("bigint is stored");
    RowExpr::compile_for(&Scope::empty(), expr, params, "LIMIT", ty, int8).map(Some)
}

/// How the rows come to their order.
enum Order {
    /// As an index has them.
    Along(Direction),
    /// Sorted afterwards.
    Sort(Vec<Wanted>),
}

/// The access, and how the rows come to the order the query wants; `None` if that is not a matter
/// of plain columns, or of too many rows.
fn order(
    table: &TableVersion,
    shape: &Shape<'_>,
    access: Option<Access>,
) -> Option<(Option<Access>, Order)> {
    if shape.order.is_empty() || access.as_ref().is_some_and(|access| access.unique) {
        return Some((access, Order::Along(Direction::Forward)));
    }
    let wanted = wanted_order(table, shape)?;
    if let Some(access) = access {
        let fixed: Vec<usize> = access.fixed().collect();
        let open: Vec<Wanted> =
            wanted.iter().filter(|w| !fixed.contains(&w.column)).copied().collect();
        return Some(match along(table, access.index, access.fixed_parts(), &open) {
            Some(direction) => (Some(access), Order::Along(direction)),
            None => (Some(access), Order::Sort(wanted)),
        });
    }
    // Without conditions an order is worth an index only for a few rows.
    let indexes = 0..table.table.layout().indexes.len();
    let found = indexes
        .filter(|_| shape.limit.is_some())
        .find_map(|index| Some((index, along(table, index, 0, &wanted)?)));
    match found {
        Some((index, direction)) => Some((Some(Access::whole(index)), Order::Along(direction))),
        None => Some((None, Order::Sort(wanted))),
    }
}

/// An order by columns of the projection.
struct Sort {
    /// Place in the row, and how its values are encoded: the order of keys is that of rows.
    parts: Vec<(usize, KeyPart)>,
}

impl Sort {
    fn bind(table: &TableVersion, wanted: Vec<Wanted>, projection: &[usize]) -> Sort {
        let parts = wanted
            .into_iter()
            .map(|w| {
                let place = projection
                    .iter()
                    .position(|column| *column == w.column)
                    .expect("the projection has the columns of the order");
                let part = KeyPart {
                    column: table.def.columns[w.column].id,
                    descending: w.descending,
                    nulls_first: w.nulls_first,
                };
                (place, part)
            })
            .collect();
        Sort { parts }
    }

    fn key(&self, row: &[Value]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (place, part) in &self.parts {
            key::encode_part(&mut bytes, &row[*place], part);
        }
        bytes
    }
}

#[derive(Clone, Copy)]
struct Wanted {
    column: usize,
    descending: bool,
    nulls_first: bool,
}

fn wanted_order(table: &TableVersion, shape: &Shape<'_>) -> Option<Vec<Wanted>> {
    shape
        .order
        .iter()
        .map(|order| {
            let name = match &order.expr {
                Expr::Identifier(ident) => fold(ident),
                Expr::CompoundIdentifier(parts) => fold(parts.last()?),
                _ => return None,
            };
            // An output's name comes before a column's.
            let aliased = shape.select.projection.iter().any(|item| {
                matches!(item, SelectItem::ExprWithAlias { alias, .. } if fold(alias) == name)
            });
            if aliased {
                return None;
            }
            let column = table.def.columns.iter().position(|c| c.name == name)?;
            if told_of(&table.def.columns[column]) < Told::Order {
                return None;
            }
            let descending = order.options.asc == Some(false);
            let nulls_first = order.options.nulls_first.unwrap_or(descending);
            Some(Wanted { column, descending, nulls_first })
        })
        .collect()
}

/// The direction in which an index, from a part on, has an order.
fn along(table: &TableVersion, index: usize, from: usize, wanted: &[Wanted]) -> Option<Direction> {
    let layout = table.table.layout();
    let parts = layout.indexes[index].key.get(from..from + wanted.len())?;
    let mut direction = None;
    for (part, wanted) in parts.iter().zip(wanted) {
        if layout.position(part.column) != Some(wanted.column) {
            return None;
        }
        let forward = part.descending == wanted.descending;
        if table.may_be_null(wanted.column) && (part.nulls_first == wanted.nulls_first) != forward {
            return None;
        }
        let this = if forward { Direction::Forward } else { Direction::Backward };
        if direction.is_some_and(|d| d != this) {
            return None;
        }
        direction = Some(this);
    }
    Some(direction.unwrap_or(Direction::Forward))
}

impl SelectPlan {
    /// Whether it locks what it finds.
    pub(crate) fn locks(&self) -> bool {
        self.lock.is_some()
    }

    /// See `at_once.rs`.
    pub(crate) fn may_run_at_once(&self) -> bool {
        self.lock.is_none() && self.access.is_some()
    }

    /// The lines of EXPLAIN.
    pub(crate) fn describe(&self) -> Vec<String> {
        let table = &self.table.def;
        let mut lines = vec![match &self.access {
            Some(access) => {
                let backward = match self.direction {
                    Direction::Forward => "",
                    Direction::Backward => " Backward",
                };
                let index = &table.indexes[access.index].name;
                format!("Index Scan{backward} using {index} on {}", table.name)
            }
            None => format!("Seq Scan on {}", table.name),
        }];
        if self.residual.is_some() {
            lines.push("  Filter: conditions that the index does not answer".to_owned());
        }
        if self.limit.is_some() {
            lines.push("  Limit".to_owned());
        }
        lines
    }

    fn scan(&self) -> Scan<'_> {
        Scan {
            table: &self.table,
            access: self.access.as_ref(),
            projection: &self.projection,
            residual: self.residual.as_ref(),
            direction: self.direction,
        }
    }

    /// LIMIT and OFFSET, as numbers of rows.
    fn window(&self, context: &EvalContext) -> Result<(usize, usize), SqlError> {
        let number = |expr: &Option<RowExpr>, what: &str, otherwise: usize| {
            let Some(expr) = expr else { return Ok(otherwise) };
            match expr.eval_row(&[], context)? {
                Value::Int64(n) => usize::try_from(n).map_err(|_| {
                    let code = if what == "LIMIT" { "2201W" } else { "2201X" };
                    SqlError::new(SqlState::new(code), format!("{what} must not be negative"))
                }),
                _ => Ok(otherwise),
            }
        };
        Ok((number(&self.limit, "LIMIT", usize::MAX)?, number(&self.offset, "OFFSET", 0)?))
    }

    /// Reads the rows, if there are not more than `most` to look at.
    pub(crate) fn run(
        &self,
        snapshot: &Snapshot,
        context: &EvalContext,
        limits: &froglet_txn::Limits,
        most: usize,
    ) -> Result<Found, SqlError> {
        let (limit, skip) = self.window(context)?;
        if limit == 0 {
            return Ok(Found::Rows(Vec::new()));
        }
        if let Some(sort) = &self.sort {
            return self.run_sorted(sort, snapshot, context, limits, (limit, skip), most);
        }
        let mut rows = Vec::new();
        let mut passed = 0;
        let unique = self.access.as_ref().is_some_and(|access| access.unique);
        let whole = self.scan().visit(snapshot, context, limits, most, &mut |_, row| {
            if passed < skip {
                passed += 1;
                return Ok(ControlFlow::Continue(()));
            }
            rows.push(self.outputs.take(row, context)?);
            let enough = unique || rows.len() >= limit;
            Ok(if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        Ok(if whole { Found::Rows(rows) } else { Found::Many })
    }

    fn run_sorted(
        &self,
        sort: &Sort,
        snapshot: &Snapshot,
        context: &EvalContext,
        limits: &froglet_txn::Limits,
        (limit, skip): (usize, usize),
        most: usize,
    ) -> Result<Found, SqlError> {
        let mut found: Vec<(Vec<u8>, Row)> = Vec::new();
        let whole = self.scan().visit(snapshot, context, limits, most, &mut |_, row| {
            found.push((sort.key(row), std::mem::take(row)));
            Ok(ControlFlow::Continue(()))
        })?;
        if !whole {
            return Ok(Found::Many);
        }
        found.sort_by(|a, b| a.0.cmp(&b.0));
        let mut rows = Vec::new();
        for (_, mut row) in found.into_iter().skip(skip).take(limit) {
            rows.push(self.outputs.take(&mut row, context)?);
        }
        Ok(Found::Rows(rows))
    }

    /// Reads and locks the rows.
    pub(crate) async fn run_locking(&self, writer: &mut Writer<'_>) -> Result<Vec<Row>, Stop> {
        let (limit, skip) = self.window(writer.eval)?;
        let view = writer.txn.part().snapshot().clone();
        let wanted = limit.saturating_add(skip);
        // SKIP LOCKED looks for others instead of those it skips: it locks one by one.
        let lock = self.lock.unwrap_or_default();
        let one_by_one = lock.busy == OnBusy::Skip;
        let all = one_by_one || self.sort.is_some();
        let mut gathering = Gathering::new(&**writer.session);
        let mut targets = self.scan().gather(
            &view,
            writer.eval,
            writer.limits,
            &mut |targets: &mut Targets, rid, row| {
                if targets.rids.len() < wanted || all {
                    gathering.row(row)?;
                    targets.rids.push(rid);
                    targets.olds.push(std::mem::take(row));
                }
                let enough = targets.rids.len() >= wanted && !all;
                Ok(if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            },
        )?;
        if let Some(sort) = &self.sort {
            let rows = targets.rids.drain(..).zip(targets.olds.drain(..));
            let mut rows: Vec<(RowId, Row)> = rows.collect();
            rows.sort_by_cached_key(|(_, row)| sort.key(row));
            rows.truncate(if one_by_one { usize::MAX } else { wanted });
            (targets.rids, targets.olds) = rows.into_iter().unzip();
        }
        writer.note(&self.table);
        let locked = if one_by_one {
            self.lock_some(writer, &view, targets, wanted).await?
        } else {
            self.lock_all(writer, &view, &mut targets).await?;
            targets.olds
        };
        let outputs = locked.iter().skip(skip).map(|row| self.outputs.row(row, writer.eval));
        Ok(outputs.collect::<Result<Vec<Row>, SqlError>>()?)
    }

    async fn lock_all(
        &self,
        writer: &mut Writer<'_>,
        view: &Snapshot,
        targets: &mut Targets,
    ) -> Result<(), Stop> {
        let eval = writer.eval;
        let mut recheck = |view: &Snapshot, rid: RowId| {
            let mut row = Row::new();
            let there = self.table.table.read_row(view, rid, &self.projection, &mut row);
            let holds = match &self.condition {
                Some(condition) => there && condition.holds(&row, eval)?,
                None => there,
            };
            Ok(holds.then_some((Vec::new(), row)))
        };
        let lock = self.lock.unwrap_or_default();
        writer.lock(&self.table, lock, view.ts, targets, &mut recheck).await
    }

    async fn lock_some(
        &self,
        writer: &mut Writer<'_>,
        view: &Snapshot,
        targets: Targets,
        wanted: usize,
    ) -> Result<Vec<Row>, Stop> {
        let mut locked = Vec::new();
        for (rid, old) in targets.rids.into_iter().zip(targets.olds) {
            if locked.len() >= wanted {
                break;
            }
            let mut one = Targets { rids: vec![rid], olds: vec![old], ..Targets::new() };
            self.lock_all(writer, view, &mut one).await?;
            locked.append(&mut one.olds);
        }
        Ok(locked)
    }
}
