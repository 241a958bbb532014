//! A join of which each row is made of one row of one table, the driver, and of rows of others that are
//! found by their unique keys: run row by row, without a plan (BullFrog, section 4.3.6, the second way: a
//! foreign key's table drives, and nothing is tracked of the tables it refers to). Or of one of those of
//! one other that are found by any columns: run pair by pair (the third).
//!
//! ```text
//!   SELECT f.id, i.day, f.capacity - i.passengers FROM flights f, flewon i WHERE f.id = i.flight
//!
//!   flewon (driver)     flight, day, passengers
//!   flights, by id = flight                     capacity      the row so far grows to the right
//!   condition, columns                                        expressions over all of it
//! ```

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{Field, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, NullEquality, TableReference};
use datafusion::error::Result;
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{BinaryExpr, Expr, JoinType, LogicalPlan, Operator};
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use froglet_engine::{ColumnId, ColumnType};
use froglet_schema::{LazyVerify, Lookup, Made, ObjectId, RowQuery, SchemaError, TableVersion};

use crate::context::EvalContext;
use crate::ddl_compile::refusal;
use crate::error::SqlError;
use crate::insert_plan::CastTarget;
use crate::join_way::JoinSide;
use crate::semantics::casts;
use crate::types::cast::CastContext;
use crate::types::{arrow_of_column, as_stored, cast_array};
use crate::units::{Source, columns_read, has_subquery};
use crate::{df_error, integers};

/// See the module.
pub(crate) struct LookupQuery {
    driver: Vec<ColumnId>,
    lookups: Vec<Lookup>,
    /// Of the driver's columns, and then those of the others.
    schema: SchemaRef,
    condition: Option<Arc<dyn PhysicalExpr>>,
    columns: Vec<(Arc<dyn PhysicalExpr>, CastTarget)>,
    /// The driver's column that an output is.
    plain: Vec<Option<ColumnId>>,
    /// The column of the first of the others that an output is.
    looked_up: Vec<Option<ColumnId>>,
    /// See [`RowQuery::copies`].
    copies: Option<Vec<usize>>,
    context: EvalContext,
}

/// A column of a table of the join, as an expression names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Atom {
    table: usize,
    column: usize,
}

impl Atom {
    fn expr(self) -> Expr {
        let table = TableReference::bare(self.table.to_string());
        Expr::Column(Column::new(Some(table), self.column.to_string()))
    }

    fn of(expr: &Expr) -> Option<Atom> {
        let Expr::Column(column) = expr else { return None };
        Atom::of_column(column)
    }

    fn of_column(column: &Column) -> Option<Atom> {
        let table = column.relation.as_ref()?.table().parse().ok()?;
        Some(Atom { table, column: column.name.parse().ok()? })
    }
}

/// A join as a set of tables, conditions and outputs.
#[derive(Default)]
struct Flat {
    tables: Vec<Arc<TableVersion>>,
    conditions: Vec<Expr>,
}

impl Flat {
    /// The outputs of a node; `None` of one that is no part of such a join.
    fn node(&mut self, plan: &LogicalPlan) -> Result<Option<Vec<Expr>>> {
        if has_subquery(plan)? {
            return Ok(None);
        }
        Ok(match plan {
            LogicalPlan::TableScan(scan) if scan.fetch.is_none() => {
                let Some(Source::Table(table)) = Source::of(scan) else { return Ok(None) };
                let number = self.tables.len();
                self.tables.push(table);
                let columns = columns_read(scan).into_iter();
                Some(columns.map(|column| Atom { table: number, column }.expr()).collect())
            }
            LogicalPlan::SubqueryAlias(alias) => self.node(&alias.input)?,
            LogicalPlan::Projection(projection) => {
                let Some(below) = self.node(&projection.input)? else { return Ok(None) };
                let over = |expr: &Expr| over(expr, projection.input.schema(), &below);
                Some(projection.expr.iter().map(over).collect::<Result<_>>()?)
            }
            LogicalPlan::Filter(filter) => {
                let Some(below) = self.node(&filter.input)? else { return Ok(None) };
                self.conditions.push(over(&filter.predicate, filter.input.schema(), &below)?);
                Some(below)
            }
            LogicalPlan::Join(join)
                if join.join_type == JoinType::Inner
                    && join.null_equality == NullEquality::NullEqualsNothing =>
            {
                let Some(mut left) = self.node(&join.left)? else { return Ok(None) };
                let Some(right) = self.node(&join.right)? else { return Ok(None) };
                for (a, b) in &join.on {
                    let a = over(a, join.left.schema(), &left)?;
                    self.conditions.push(a.eq(over(b, join.right.schema(), &right)?));
                }
                left.extend(right);
                if let Some(filter) = &join.filter {
                    self.conditions.push(over(filter, &join.schema, &left)?);
                }
                Some(left)
            }
            _ => None,
        })
    }
}

/// An expression over a node's outputs, over what these are.
fn over(expr: &Expr, schema: &DFSchema, outputs: &[Expr]) -> Result<Expr> {
    let replaced = expr.clone().transform_up(|expr| match expr {
        Expr::Column(column) => {
            let at = schema.index_of_column(&column)?;
            Ok(Transformed::yes(outputs[at].clone()))
        }
        Expr::Alias(alias) => Ok(Transformed::yes(*alias.expr)),
        expr => Ok(Transformed::no(expr)),
    });
    Ok(replaced?.data)
}

/// The columns that are equal, of an equality of two.
fn equality(condition: &Expr) -> Option<(Atom, Atom)> {
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
            Some((Atom::of(left)?, Atom::of(right)?))
        }
        _ => None,
    }
}

/// Whether equal values of a type are the same, so that one stands for the other: -0 and 0 are not, nor 1.0 and
/// 1.00.
fn is_exact(ty: ColumnType) -> bool {
    use ColumnType::{Float32, Float64, Interval, Numeric};
    !matches!(ty, Float32 | Float64 | Interval | Numeric)
}

/// How a table is found: for each column of a unique key of it, in its order, what that is equal to.
type Found = (usize, Vec<(Atom, Atom)>);

impl Flat {
    fn ty(&self, atom: Atom) -> ColumnType {
        self.tables[atom.table].def.columns[atom.column].ty
    }

    /// How the others are found from a driver, in order; `None` if they are not.
    fn lookups(&self, driver: usize, equal: &[(Atom, Atom)]) -> Option<Vec<Found>> {
        let (mut reached, mut found) = (vec![driver], Vec::new());
        while reached.len() < self.tables.len() {
            let next = (0..self.tables.len()).filter(|table| !reached.contains(table));
            let mut next =
                next.filter_map(|table| Some((table, self.key(table, &reached, equal)?)));
            let (table, key) = next.next()?;
            reached.push(table);
            found.push((table, key));
        }
        Some(found)
    }

    /// What a unique key of a table is equal to, among columns of tables that are there.
    fn key(
        &self,
        table: usize,
        reached: &[usize],
        equal: &[(Atom, Atom)],
    ) -> Option<Vec<(Atom, Atom)>> {
        let def = &self.tables[table].def;
        let partner = |id: ColumnId| {
            let column = def.columns.iter().position(|column| column.id == id)?;
            let own = Atom { table, column };
            let both = equal.iter().flat_map(|(a, b)| [(*a, *b), (*b, *a)]);
            let mut others = both.filter(|(a, other)| {
                *a == own && reached.contains(&other.table) && self.ty(*other) == self.ty(own)
            });
            others.next().map(|(_, other)| (own, other)).filter(|_| is_exact(self.ty(own)))
        };
        let unique = def.indexes.iter().filter(|index| index.spec.unique);
        let mut keys =
            unique.map(|index| index.spec.key.iter().map(|p| partner(p.column)).collect());
        keys.find_map(|key: Option<Vec<(Atom, Atom)>>| key)
    }
}

/// A query that can be made lazily, row by row.
pub(crate) struct Looked {
    pub(crate) query: LookupQuery,
    pub(crate) driver: ObjectId,
    /// What a unit is.
    pub(crate) unit: String,
    /// What keeps it from failing for some row.
    pub(crate) verify: LazyVerify,
}

/// An inner join of tables, with what is made of a row of each.
pub(crate) struct FlatJoin {
    flat: Flat,
    outputs: Vec<Expr>,
    conditions: Vec<Expr>,
    equal: Vec<(Atom, Atom)>,
}

impl FlatJoin {
    /// A plan as such a join, if it is one.
    pub(crate) fn of(plan: &LogicalPlan) -> Result<Option<FlatJoin>> {
        let mut flat = Flat::default();
        let Some(outputs) = flat.node(plan)? else { return Ok(None) };
        if flat.tables.len() < 2 {
            return Ok(None);
        }
        let conditions: Vec<Expr> =
            flat.conditions.iter().cloned().flat_map(split_conjunction_owned).collect();
        if conditions.iter().chain(&outputs).any(Expr::is_volatile) {
            return Ok(None);
        }
        let equal = conditions.iter().filter_map(equality).collect();
        Ok(Some(FlatJoin { flat, outputs, conditions, equal }))
    }

    /// Tables that may be the driver, those with most rows first.
    fn drivers(&self, driver: Option<ObjectId>) -> Vec<usize> {
        let tables = &self.flat.tables;
        let may_drive = |at: &usize| driver.is_none_or(|id| tables[*at].def.id == id);
        let mut drivers: Vec<usize> = (0..tables.len()).filter(may_drive).collect();
        drivers.sort_by_key(|at| std::cmp::Reverse(tables[*at].table.row_estimate()));
        drivers
    }

    /// Compiles it, its columns going into these, row by row of a driver; `None` if unique keys do not lead to
    /// the others. `driver`: a table that has to be it.
    pub(crate) fn by_rows(
        &self,
        targets: &[CastTarget],
        driver: Option<ObjectId>,
        context: &EvalContext,
    ) -> Result<Option<Looked>> {
        let drivers = self.drivers(driver).into_iter();
        let mut found = drivers.filter_map(|at| Some((at, self.flat.lookups(at, &self.equal)?)));
        let Some((driver, found)) = found.next() else { return Ok(None) };
        let name = |table: usize| self.flat.tables[table].def.name.as_str();
        let others: Vec<&str> = found.iter().map(|(table, _)| name(*table)).collect();
        let others = others.join(", and of ");
        let unit = format!("a row of {}, with the row of {others}", name(driver));
        compile(self, targets, driver, found, unit, context)
    }

    /// Compiles it pair by pair, the same way; `None` if it is no join of two tables by columns that are equal,
    /// and with which an index of each begins.
    pub(crate) fn by_pairs(
        &self,
        targets: &[CastTarget],
        driver: Option<ObjectId>,
        context: &EvalContext,
    ) -> Result<Option<(Looked, [JoinSide; 2])>> {
        let Some(&driver) = self.drivers(driver).first() else { return Ok(None) };
        let tables = &self.flat.tables;
        if tables.len() != 2 {
            return Ok(None);
        }
        let other = 1 - driver;
        let both =
            self.equal.iter().map(|(a, b)| if a.table == other { (*a, *b) } else { (*b, *a) });
        let key = both.filter(|(own, of)| {
            let ty = self.flat.ty(*own);
            (own.table, of.table) == (other, driver) && self.flat.ty(*of) == ty && is_exact(ty)
        });
        let key: Vec<(Atom, Atom)> = key.collect();
        let side = |table: usize, key: Vec<usize>| JoinSide { table: tables[table].clone(), key };
        let sides = [
            side(driver, key.iter().map(|(_, of)| of.column).collect()),
            side(other, key.iter().map(|(own, _)| own.column).collect()),
        ];
        if !sides.iter().all(JoinSide::has_index) {
            return Ok(None);
        }
        let name = |table: usize| tables[table].def.name.as_str();
        let columns = key.iter().map(|(own, of)| {
            let name = |atom: &Atom| tables[atom.table].def.columns[atom.column].name.as_str();
            format!("{} = {}", name(of), name(own))
        });
        let columns = columns.collect::<Vec<_>>().join(" and ");
        let unit = format!("a row of {} and one of {}, by {columns}", name(driver), name(other));
        let looked = compile(self, targets, driver, vec![(other, key)], unit, context)?;
        Ok(looked.map(|looked| (looked, sides)))
    }
}

/// A join that goes from a driver to the others as was found.
fn compile(
    join: &FlatJoin,
    targets: &[CastTarget],
    driver: usize,
    found: Vec<Found>,
    unit: String,
    context: &EvalContext,
) -> Result<Option<Looked>> {
    let FlatJoin { flat, outputs, conditions, .. } = join;
    let is_found = |condition: &Expr| {
        equality(condition).is_some_and(|(a, b)| {
            found.iter().any(|(_, key)| key.contains(&(a, b)) || key.contains(&(b, a)))
        })
    };
    let rest: Vec<Expr> = conditions.iter().filter(|c| !is_found(c)).cloned().collect();
    let mut read: Vec<Atom> = Vec::new();
    for expr in rest.iter().chain(outputs) {
        read.extend(expr.column_refs().into_iter().filter_map(Atom::of_column));
    }
    read.extend(found.iter().flat_map(|(_, key)| key.iter().map(|(_, other)| *other)));
    let mut row: Vec<Atom> = Vec::new();
    for table in std::iter::once(driver).chain(found.iter().map(|(table, _)| *table)) {
        let mut of_it: Vec<Atom> = read.iter().copied().filter(|a| a.table == table).collect();
        of_it.sort_unstable();
        of_it.dedup();
        row.extend(of_it);
    }
    let place =
        |atom: &Atom| row.iter().position(|a| a == atom).expect("all that is read is there");
    let id = |atom: &Atom| flat.tables[atom.table].def.columns[atom.column].id;
    let lookups = found.iter().map(|(table, key)| Lookup {
        table: flat.tables[*table].def.id,
        key: key.iter().map(|(own, other)| (place(other), id(own))).collect(),
        columns: row.iter().filter(|atom| atom.table == *table).map(&id).collect(),
    });
    let lookups = lookups.collect();

    let fields = row.iter().map(|atom| {
        let table = TableReference::bare(atom.table.to_string());
        let field = Field::new(atom.column.to_string(), arrow_of_column(flat.ty(*atom)), true);
        (Some(table), Arc::new(field))
    });
    let schema = DFSchema::new_with_metadata(fields.collect(), Default::default())?;
    let (props, planning) = (ExecutionProps::new(), PhysicalPlanningContext::default());
    let physical = |expr: &Expr| create_physical_expr(expr, &schema, &props, &planning);
    let condition = conjunction(rest.clone()).map(|expr| physical(&expr)).transpose()?;
    let columns = outputs.iter().map(physical).collect::<Result<Vec<_>>>()?;
    let arrow: SchemaRef = Arc::new(schema.as_arrow().clone());
    for (column, (_, ty, _)) in columns.iter().zip(targets) {
        if column.data_type(&arrow)? != arrow_of_column(*ty) {
            return Ok(None);
        }
    }
    let exprs: Vec<&Expr> = rest.iter().chain(outputs).collect();
    let Some(within) = integers::guard(&exprs, &schema) else { return Ok(None) };
    let verify = match within.bound {
        Some(bound) => {
            let atoms = within.columns.iter().filter_map(Atom::of_column);
            let columns = atoms.map(|atom| (flat.tables[atom.table].def.id, id(&atom)));
            LazyVerify::Within(columns.collect(), bound)
        }
        None => LazyVerify::Nothing,
    };
    // A column of a key is what it was looked up by.
    let plain = |expr: &Expr| {
        let mut atom = Atom::of(expr)?;
        while atom.table != driver {
            let (_, key) = found.iter().find(|(table, _)| *table == atom.table)?;
            atom = key.iter().find(|(own, _)| *own == atom)?.1;
        }
        Some(id(&atom))
    };
    let first = &found[0];
    let looked_up = |expr: &Expr| {
        let atom = Atom::of(expr)?;
        let equal = first.1.iter().find(|(_, other)| *other == atom).map(|(own, _)| *own);
        let atom = if atom.table == first.0 { Some(atom) } else { equal };
        atom.map(|atom| id(&atom))
    };
    // A value that was stored under the same declared type needs no cast.
    let copy = |(expr, (_, ty, sql_type)): (&Expr, &CastTarget)| {
        let atom = Atom::of(expr)?;
        let column = &flat.tables[atom.table].def.columns[atom.column];
        ((column.ty, column.sql_type) == (*ty, *sql_type)).then(|| place(&atom))
    };
    let copies = rest.is_empty().then(|| outputs.iter().zip(targets).map(copy).collect());
    let query = LookupQuery {
        copies: copies.flatten(),
        driver: row.iter().filter(|atom| atom.table == driver).map(&id).collect(),
        lookups,
        schema: arrow.clone(),
        condition,
        plain: outputs.iter().map(plain).collect(),
        looked_up: outputs.iter().map(looked_up).collect(),
        columns: columns.into_iter().zip(targets.iter().cloned()).collect(),
        context: context.clone(),
    };
    let driver = flat.tables[driver].def.id;
    Ok(Some(Looked { query, driver, unit, verify }))
}

impl LookupQuery {
    fn eval(&self, batch: &RecordBatch) -> std::result::Result<Made, SqlError> {
        let rows = batch.num_rows();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let columns = casts::computed(batch.columns().to_vec(), &self.schema)?;
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)
            .map_err(df_error::arrow)?;
        let (kept, rows) = match &self.condition {
            None => (batch, (0..rows).collect()),
            Some(condition) => {
                let holds = condition.evaluate(&batch).and_then(|holds| holds.into_array(rows));
                let holds = holds.map_err(df_error::map_df_error)?;
                // A condition that is always NULL keeps nothing.
                let none = BooleanArray::from(vec![false; rows]);
                let holds = holds.as_any().downcast_ref::<BooleanArray>().unwrap_or(&none);
                let keeps = |at: &usize| holds.is_valid(*at) && holds.value(*at);
                let rows = (0..rows).filter(keeps).collect();
                (filter_record_batch(&batch, holds).map_err(df_error::arrow)?, rows)
            }
        };
        let column = |(expr, (_, ty, sql_type)): &(Arc<dyn PhysicalExpr>, CastTarget)| {
            let array = expr.evaluate(&kept).and_then(|array| array.into_array(kept.num_rows()));
            let array: ArrayRef = array.map_err(df_error::map_df_error)?;
            cast_array(&array, *ty, *sql_type, CastContext::Assignment).map(|cast| as_stored(&cast))
        };
        let columns = self.columns.iter().map(column).collect::<std::result::Result<_, _>>()?;
        Ok(Made { rows, columns })
    }
}

impl RowQuery for LookupQuery {
    fn inputs(&self) -> &[ColumnId] {
        &self.driver
    }

    fn lookups(&self) -> &[Lookup] {
        &self.lookups
    }

    fn eval(&self, batch: &RecordBatch) -> std::result::Result<Made, SchemaError> {
        self.context.enter(|| LookupQuery::eval(self, batch)).map_err(refusal)
    }

    fn plain(&self, output: usize) -> Option<ColumnId> {
        self.plain[output]
    }

    fn looked_up(&self, output: usize) -> Option<ColumnId> {
        self.looked_up[output]
    }

    fn copies(&self) -> Option<&[usize]> {
        self.copies.as_deref()
    }
}
