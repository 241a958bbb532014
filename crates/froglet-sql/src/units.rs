//! How the rows that a query makes fall into migration units (design, section 5; Tesseract, section 5).
//!
//! ```text
//!   SELECT c.region, sum(o.amount) FROM orders o JOIN customers c ON o.customer = c.id GROUP BY …
//!
//!   GROUP BY c.id, c.region     its groups: the unit is a function of c.id, c.region
//!     └ JOIN o.customer = c.id  of these it can keep together by c.id = o.customer
//!         ├ orders              unit = hash(customer)
//!         └ customers           unit = hash(id)
//! ```
//!
//! A demand goes down the plan: by which expressions must rows be kept together? At a table it says what
//! the unit of a row is. On the way up each node hands on a column with the unit, so that every row that
//! the query makes has it. Where a demand cannot be met (`GROUP BY c.region` alone, above), and there are
//! many rows, what is below becomes a stage, a table that can meet any (`stages.rs`); of few rows all are
//! one unit.
//!
//! Where a plan is a join, or a filter of it and so on, each row that it makes is made of one row of its
//! larger side: the driver. Then a row's unit is that row, and the keys above say which rows of the others
//! go with it.
//!
//! Q1: the query of some units' rows makes exactly those rows of the whole result that are of these units,
//!     beside rows that are made of no input (`VALUES`).

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, DFSchemaRef};
use datafusion::datasource::{DefaultTableSource, provider_as_source};
use datafusion::error::Result;
use datafusion::logical_expr::logical_plan::TableScanBuilder;
use datafusion::logical_expr::{
    Aggregate, Expr, ExprSchemable, Filter, Join, JoinType, LogicalPlan, Projection, Sort,
    SubqueryAlias, TableScan, Union, Window, lit, when,
};
use froglet_schema::TableVersion;

use crate::demand::{Demand, across, is_function_of, is_over};
use crate::partials::Halves;
use crate::provider::BaseTable;
use crate::stages::{STAGE, StageTable, Stages, with_aggregates};
use crate::unit_query::UnitTable;

/// What the columns with units are called, before a number.
const UNIT: &str = "froglet unit ";

/// A plan of which every row has its unit in the last column.
pub(crate) struct Divided {
    pub plan: LogicalPlan,
    pub inputs: Vec<Input>,
    /// It reads tables that are not base tables.
    pub reads_others: bool,
    /// How many rows the tables have of which all rows are one unit.
    pub rows_of_one: u64,
    /// The input of which each row makes rows of its own.
    pub driver: Option<usize>,
}

impl Divided {
    /// What a unit is, in words.
    pub(crate) fn units(&self) -> String {
        let is_all = |input: &Input| matches!(input.unit, UnitOf::All);
        if !self.inputs.is_empty() && self.inputs.iter().all(is_all) {
            return "all rows".to_owned();
        }
        let mut units = Vec::new();
        for (at, Input { source, unit, .. }) in self.inputs.iter().enumerate() {
            let name = source.name();
            let unit = match unit {
                UnitOf::Row => format!("a row of {name}"),
                UnitOf::Block => format!("a block of {name}"),
                UnitOf::Keys(keys) if !unit.is_all() => {
                    let keys: Vec<String> = keys.iter().map(shown).collect();
                    let keys = keys.join(", ");
                    match self.driver {
                        Some(driver) if driver == at => format!("a row of {name} by {keys}"),
                        _ => format!("rows of {name} with the same {keys}"),
                    }
                }
                UnitOf::All | UnitOf::Keys(_) => match self.driver {
                    Some(driver) if driver == at => format!("a row of {name}"),
                    _ => format!("all rows of {name}"),
                },
            };
            if !units.contains(&unit) {
                units.push(unit);
            }
        }
        units.join(" and ")
    }
}

/// What rows come from.
#[derive(Clone)]
pub(crate) enum Source {
    Table(Arc<TableVersion>),
    /// By its number.
    Stage(usize),
}

impl Source {
    /// That of a scan; none of a table that is no base table.
    pub(crate) fn of(scan: &TableScan) -> Option<Source> {
        if let Some(stage) = scan.source.downcast_ref::<StageTable>() {
            return Some(Source::Stage(stage.number));
        }
        let source = scan.source.downcast_ref::<DefaultTableSource>()?;
        let table = source.table_provider.downcast_ref::<BaseTable>()?;
        Some(Source::Table(table.table().clone()))
    }

    fn name(&self) -> String {
        match self {
            Source::Table(table) => table.def.name.clone(),
            Source::Stage(number) => format!("stage {}", number + 1),
        }
    }
}

/// A table that the plan reads.
pub(crate) struct Input {
    pub source: Source,
    /// Positions of the columns that are read.
    pub columns: Vec<usize>,
    /// These columns as the plan has them.
    pub schema: DFSchemaRef,
    pub unit: UnitOf,
}

/// What the unit of an input's row is.
#[derive(Debug)]
pub(crate) enum UnitOf {
    /// There is one.
    All,
    /// Each row is one.
    Row,
    /// Each block is one.
    Block,
    /// Rows in which these are equal are of one.
    Keys(Vec<Expr>),
}

impl UnitOf {
    /// Whether there is but one, of all rows.
    fn is_all(&self) -> bool {
        match self {
            UnitOf::All => true,
            UnitOf::Row | UnitOf::Block => false,
            UnitOf::Keys(keys) => keys.iter().all(|key| key.column_refs().is_empty()),
        }
    }
}

/// A node whose rows have units.
struct Part {
    plan: LogicalPlan,
    unit: Unit,
    /// The input of which each row makes rows of its own.
    driver: Option<usize>,
}

impl Part {
    /// The same rows, or some of them, with the same units.
    fn with(self, plan: LogicalPlan) -> Option<Part> {
        Some(Part { plan, ..self })
    }
}

enum Unit {
    /// In this column.
    Column(Column),
    /// One, of all rows below.
    One,
    /// The node reads no input.
    None,
}

/// Divides an optimised plan into units, the last of some stages.
pub(crate) fn divide(plan: &LogicalPlan, stages: &mut Stages<'_>) -> Result<Divided> {
    let plan = stages.halved(plan)?;
    let is_large = stages.is_large(stages.rows(&plan)?);
    let mut division = Division::new(stages);
    let mut part = division.part(&plan, &Demand::Rows)?;
    if part.is_none() && is_large {
        division.may_cut = true;
        part = division.part(&plan, &Demand::Rows)?;
    }
    let part = match part {
        Some(part) => part,
        None => division.whole(&plan)?,
    };
    let driver = part.driver;
    let plan = with_unit_last(part, plan.schema())?;
    division.divided(plan, driver)
}

/// Divides the first half of an aggregate: its rows are units by block. None if its input has no blocks.
pub(crate) fn divide_first(
    input: &LogicalPlan,
    groups: &[Expr],
    halves: &Halves,
    stages: &mut Stages<'_>,
) -> Result<Option<Divided>> {
    let input = stages.halved(input)?;
    let mut division = Division::new(stages);
    let child = match division.part(&input, &Demand::Blocks)? {
        None => division.cut(&input, &Demand::Blocks)?,
        part => part,
    };
    let Some(Part { plan, unit: Unit::Column(unit), .. }) = child else { return Ok(None) };
    let mut by = groups.to_vec();
    by.push(Expr::Column(unit));
    let plan = Aggregate::try_new(Arc::new(plan), by, halves.first.clone())?;
    let mut columns = columns(&plan.schema);
    let unit = columns.remove(groups.len());
    columns.push(unit.alias(UNIT));
    let plan = Projection::try_new(columns, Arc::new(LogicalPlan::Aggregate(plan)))?;
    division.divided(LogicalPlan::Projection(plan), None).map(Some)
}

struct Division<'a, 's> {
    inputs: Vec<Input>,
    /// Columns with units so far.
    named: usize,
    stages: &'a mut Stages<'s>,
    /// What meets no demand may become a stage.
    may_cut: bool,
}

impl<'a, 's> Division<'a, 's> {
    fn new(stages: &'a mut Stages<'s>) -> Division<'a, 's> {
        Division { inputs: Vec::new(), named: 0, stages, may_cut: false }
    }

    fn divided(self, plan: LogicalPlan, driver: Option<usize>) -> Result<Divided> {
        let inputs = self.inputs;
        let all = inputs.iter().filter(|input| input.unit.is_all());
        let rows: u64 = all.map(|input| self.stages.rows_of(&input.source)).sum();
        // A row that is a unit by itself needs no other to say so.
        let driver = driver.filter(|at| matches!(inputs[*at].unit, UnitOf::Keys(_)));
        let reads_others = reads(&plan, |scan| {
            let source = scan.source.as_ref().downcast_ref::<DefaultTableSource>();
            !source.is_some_and(|source| source.table_provider.is::<UnitTable>())
        })?;
        Ok(Divided { plan, inputs, reads_others, rows_of_one: rows, driver })
    }

    /// A node that meets a demand; `None` if it cannot.
    fn part(&mut self, plan: &LogicalPlan, demand: &Demand) -> Result<Option<Part>> {
        if !self.may_cut || matches!(demand, Demand::Rows) {
            return self.part_here(plan, demand);
        }
        self.may_cut = false;
        let part = self.part_here(plan, demand);
        self.may_cut = true;
        match part? {
            None => self.cut(plan, demand),
            part => Ok(part),
        }
    }

    fn part_here(&mut self, plan: &LogicalPlan, demand: &Demand) -> Result<Option<Part>> {
        let (inputs, stages) = (self.inputs.len(), self.stages.done.len());
        let part = stacker::maybe_grow(1 << 20, 16 << 20, || self.try_part(plan, demand))?;
        if part.is_none() {
            self.inputs.truncate(inputs);
            self.stages.done.truncate(stages);
        }
        Ok(part)
    }

    /// A node's rows from a stage that makes them.
    fn cut(&mut self, plan: &LogicalPlan, demand: &Demand) -> Result<Option<Part>> {
        let stage = match plan {
            // It is none the better for it.
            LogicalPlan::TableScan(_) => None,
            plan => self.stages.cut(plan)?,
        };
        match stage {
            Some(stage) => self.part_here(&stage, demand),
            None => Ok(None),
        }
    }

    fn try_part(&mut self, plan: &LogicalPlan, demand: &Demand) -> Result<Option<Part>> {
        if !is_live(plan)? {
            return Ok(Some(Part { plan: plan.clone(), unit: Unit::None, driver: None }));
        }
        if matches!(demand, Demand::All(keys) if keys.is_empty()) {
            return self.whole(plan).map(Some);
        }
        if has_subquery(plan)? {
            return Ok(None);
        }
        match plan {
            LogicalPlan::TableScan(scan) => self.scan(scan, demand),
            LogicalPlan::Filter(filter) => {
                let Some(child) = self.part(&filter.input, demand)? else { return Ok(None) };
                let input = Arc::new(child.plan.clone());
                let plan = Filter::try_new(filter.predicate.clone(), input)?;
                Ok(child.with(LogicalPlan::Filter(plan)))
            }
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => {
                let Some(child) = self.part(&sort.input, demand)? else { return Ok(None) };
                let (expr, input) = (sort.expr.clone(), Arc::new(child.plan.clone()));
                Ok(child.with(LogicalPlan::Sort(Sort { expr, input, fetch: None })))
            }
            LogicalPlan::Projection(projection) => self.projection(projection, demand),
            LogicalPlan::SubqueryAlias(alias) => self.alias(alias, demand),
            LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate, demand),
            LogicalPlan::Window(window) => self.window(window, demand),
            LogicalPlan::Join(join) => self.join(join, demand),
            LogicalPlan::Union(union) => self.union(union, demand),
            // A limit, say, takes its rows from all.
            _ => Ok(None),
        }
    }

    fn column_name(&mut self) -> String {
        self.named += 1;
        format!("{UNIT}{}", self.named)
    }

    fn scan(&mut self, scan: &TableScan, demand: &Demand) -> Result<Option<Part>> {
        let unit = match demand {
            Demand::Rows => UnitOf::Row,
            Demand::Blocks => UnitOf::Block,
            Demand::All(keys) | Demand::Any(keys) => UnitOf::Keys(keys.clone()),
        };
        let (name, driver) = (self.column_name(), Some(self.inputs.len()));
        let plan = self.input(scan, unit, Some(&name))?;
        let unit = Unit::Column(Column::new(Some(scan.table_name.clone()), name));
        Ok(Some(Part { plan, unit, driver }))
    }

    /// Enters an input in place of a scan.
    fn input(&mut self, scan: &TableScan, unit: UnitOf, name: Option<&str>) -> Result<LogicalPlan> {
        let source = Source::of(scan).expect("the caller has looked");
        let (columns, schema) = (columns_read(scan), scan.projected_schema.clone());
        let table = UnitTable::new(self.inputs.len(), schema.as_arrow(), name);
        self.inputs.push(Input { source, columns, schema, unit });
        let source = provider_as_source(Arc::new(table));
        let plan = TableScanBuilder::new(scan.table_name.clone(), source).build()?;
        Ok(LogicalPlan::TableScan(plan))
    }

    /// All rows are one unit; where that may be cut, those that are made of groups.
    fn whole(&mut self, plan: &LogicalPlan) -> Result<Part> {
        let mut plan = plan.clone();
        if self.may_cut {
            let mut cut = |node: &LogicalPlan, _: &Aggregate| self.stages.cut(node);
            let cut = plan.map_children(|child| with_aggregates(child, &mut cut))?;
            plan = if cut.transformed { cut.data.recompute_schema()? } else { cut.data };
        }
        let replaced = plan.transform_up_with_subqueries(|node| match &node {
            LogicalPlan::TableScan(scan) if Source::of(scan).is_some() => {
                Ok(Transformed::yes(self.input(scan, UnitOf::All, None)?))
            }
            _ => Ok(Transformed::no(node)),
        })?;
        Ok(Part { plan: replaced.data, unit: Unit::One, driver: None })
    }

    fn projection(&mut self, projection: &Projection, demand: &Demand) -> Result<Option<Part>> {
        let exprs = &projection.expr;
        let Some(demand) = demand.below(&projection.schema, |at| exprs.get(at)) else {
            return Ok(None);
        };
        let Some(child) = self.part(&projection.input, &demand)? else { return Ok(None) };
        let mut exprs = exprs.clone();
        if let Unit::Column(unit) = &child.unit {
            exprs.push(Expr::Column(unit.clone()));
        }
        let plan = Projection::try_new(exprs, Arc::new(child.plan.clone()))?;
        Ok(child.with(LogicalPlan::Projection(plan)))
    }

    fn alias(&mut self, alias: &SubqueryAlias, demand: &Demand) -> Result<Option<Part>> {
        let columns = columns(alias.input.schema());
        let Some(demand) = demand.below(&alias.schema, |at| columns.get(at)) else {
            return Ok(None);
        };
        let Some(child) = self.part(&alias.input, &demand)? else { return Ok(None) };
        let plan = SubqueryAlias::try_new(Arc::new(child.plan), alias.alias.clone())?;
        let unit = match child.unit {
            Unit::Column(unit) => Unit::Column(Column::new(Some(alias.alias.clone()), unit.name)),
            unit => unit,
        };
        Ok(Some(Part { plan: LogicalPlan::SubqueryAlias(plan), unit, driver: child.driver }))
    }

    fn aggregate(&mut self, aggregate: &Aggregate, demand: &Demand) -> Result<Option<Part>> {
        let groups = &aggregate.group_expr;
        if groups.iter().any(|group| matches!(group, Expr::GroupingSet(_))) {
            return Ok(None);
        }
        let demand = match demand {
            Demand::Blocks => return Ok(None),
            Demand::Rows if groups.is_empty() => Demand::All(Vec::new()),
            Demand::Rows => match Demand::Any(groups.clone()).stable() {
                Some(demand) => demand,
                None => return Ok(None),
            },
            demand => match demand.below(&aggregate.schema, |at| groups.get(at)) {
                Some(demand) => demand,
                None => return Ok(None),
            },
        };
        let Some(child) = self.part(&aggregate.input, &demand)? else { return Ok(None) };
        let (mut exprs, at) = (groups.clone(), groups.len());
        let is_column = matches!(child.unit, Unit::Column(_));
        if let Unit::Column(unit) = &child.unit {
            exprs.push(Expr::Column(unit.clone()));
        }
        let plan = Aggregate::try_new(Arc::new(child.plan), exprs, aggregate.aggr_expr.clone())?;
        let unit = match is_column {
            true => Unit::Column(Column::from(plan.schema.qualified_field(at))),
            false => child.unit,
        };
        Ok(Some(Part { plan: LogicalPlan::Aggregate(plan), unit, driver: None }))
    }

    fn window(&mut self, window: &Window, demand: &Demand) -> Result<Option<Part>> {
        let mut partitions = window.window_expr.iter().map(partition_of);
        let Some(Some(mut common)) = partitions.next() else { return Ok(None) };
        for partition in partitions {
            let Some(partition) = partition else { return Ok(None) };
            common.retain(|expr| partition.contains(expr));
        }
        let demand = match demand {
            Demand::Blocks => return Ok(None),
            Demand::Rows => Demand::Any(common).stable(),
            // What the input has comes first.
            demand => {
                let columns = columns(window.input.schema());
                let below = demand.below(&window.schema, |at| columns.get(at));
                below.and_then(|below| below.functions_of(&common, window.input.schema()))
            }
        };
        let Some(demand) = demand else { return Ok(None) };
        let Some(child) = self.part(&window.input, &demand)? else { return Ok(None) };
        let plan = Window::try_new(window.window_expr.clone(), Arc::new(child.plan))?;
        Ok(Some(Part { plan: LogicalPlan::Window(plan), unit: child.unit, driver: None }))
    }

    fn union(&mut self, union: &Union, demand: &Demand) -> Result<Option<Part>> {
        // What one branch keeps together, the others have to keep together with it.
        for demand in demand.exactly() {
            if let Some(part) = self.union_for(union, &demand)? {
                return Ok(Some(part));
            }
        }
        Ok(None)
    }

    fn union_for(&mut self, union: &Union, demand: &Demand) -> Result<Option<Part>> {
        let inputs = self.inputs.len();
        let name = self.column_name();
        let mut branches = Vec::with_capacity(union.inputs.len());
        for branch in &union.inputs {
            let columns = columns(branch.schema());
            let below = demand.below(&union.schema, |at| columns.get(at));
            let part = match below {
                Some(below) => self.part(branch, &below)?,
                None => None,
            };
            let Some(part) = part else {
                self.inputs.truncate(inputs);
                return Ok(None);
            };
            let mut exprs = columns;
            exprs.push(part.unit.expr().alias(name.clone()));
            let plan = Projection::try_new(exprs, Arc::new(part.plan))?;
            branches.push(Arc::new(LogicalPlan::Projection(plan)));
        }
        let plan = Union::try_new(branches)?;
        let unit = Column::from(plan.schema.qualified_field(union.schema.fields().len()));
        let (plan, unit) = (LogicalPlan::Union(plan), Unit::Column(unit));
        Ok(Some(Part { plan, unit, driver: None }))
    }

    fn join(&mut self, join: &Join, demand: &Demand) -> Result<Option<Part>> {
        let (left, right) = (is_live(&join.left)?, is_live(&join.right)?);
        let (keeps_left, keeps_right) = (keeps_left(join.join_type), keeps_right(join.join_type));
        let is_inner = join.join_type == JoinType::Inner;
        if !(left && right) {
            // Rows of one side, each by itself, meet the same rows of the other every time.
            let by_itself = if left { keeps_left } else { keeps_right };
            if !(by_itself || is_inner) {
                return Ok(None);
            }
            let demand = match demand {
                Demand::Rows | Demand::Blocks => demand.clone(),
                demand => {
                    let columns = columns(&join.schema);
                    let side = if left { &join.left } else { &join.right };
                    let of_side =
                        |at: usize| columns.get(at).filter(|column| is_over(column, side.schema()));
                    let Some(below) = demand.below(&join.schema, of_side) else { return Ok(None) };
                    below
                }
            };
            return self.join_for(join, (&demand, &demand));
        }
        let mut pairs: Vec<&(Expr, Expr)> = join.on.iter().filter(|on| is_key(join, on)).collect();
        if join.null_aware {
            // NOT IN asks all rows of the other side whether one is NULL.
            pairs.clear();
        }
        let candidates: Vec<Vec<(Expr, Expr)>> = match demand {
            Demand::Blocks => return Ok(None),
            Demand::Rows if pairs.is_empty() => return self.join_by_nothing(join),
            Demand::Rows => {
                let all = pairs.iter().map(|on| (*on).clone()).collect();
                let single = pairs.iter().map(|on| vec![(*on).clone()]);
                std::iter::once(all).chain(single).collect()
            }
            Demand::Any(keys) => {
                let (left, right) = (join.left.schema(), join.right.schema());
                let sides = |on: &&&(Expr, Expr)| {
                    (is_inner || keeps_left) && is_function_of(&on.0, keys, left)
                        || (is_inner || keeps_right) && is_function_of(&on.1, keys, right)
                };
                vec![pairs.iter().filter(sides).map(|on| (*on).clone()).collect()]
            }
            Demand::All(keys) => {
                let both = |key| {
                    let of_left = (is_inner || keeps_left)
                        .then(|| across(key, &pairs, join.right.schema(), |(l, r)| (l, r)));
                    let of_right = (is_inner || keeps_right)
                        .then(|| across(key, &pairs, join.left.schema(), |(l, r)| (r, l)));
                    match (of_left.flatten(), of_right.flatten()) {
                        (Some(right), _) if is_over(key, join.left.schema()) => {
                            Some((key.clone(), right))
                        }
                        (_, Some(left)) if is_over(key, join.right.schema()) => {
                            Some((left, key.clone()))
                        }
                        _ => None,
                    }
                };
                keys.iter().map(both).collect::<Option<Vec<_>>>().into_iter().collect()
            }
        };
        for candidate in candidates.into_iter().filter(|on| !on.is_empty()) {
            let (left, right) = candidate.into_iter().unzip();
            let demands = (&Demand::All(left), &Demand::All(right));
            if let Some(part) = self.join_for(join, demands)? {
                return Ok(Some(part));
            }
        }
        Ok(None)
    }

    /// Each row of the driver, and all rows of the other side.
    fn join_by_nothing(&mut self, join: &Join) -> Result<Option<Part>> {
        let all = Demand::All(vec![lit(true)]);
        let part = self.join_for(join, (&all, &all))?;
        Ok(part.filter(|part| part.driver.is_some()))
    }

    fn join_for(&mut self, join: &Join, demands: (&Demand, &Demand)) -> Result<Option<Part>> {
        let inputs = self.inputs.len();
        let left = self.part(&join.left, demands.0)?;
        let right = if left.is_some() { self.part(&join.right, demands.1)? } else { None };
        let (Some(left), Some(right)) = (left, right) else {
            self.inputs.truncate(inputs);
            return Ok(None);
        };
        let plan = Join::try_new(
            Arc::new(left.plan),
            Arc::new(right.plan),
            join.on.clone(),
            join.filter.clone(),
            join.join_type,
            join.join_constraint,
            join.null_equality,
            join.null_aware,
        )?;
        let plan = LogicalPlan::Join(plan);
        let drives = match join.join_type {
            JoinType::Full => None,
            JoinType::Inner => self.larger(left.driver, right.driver),
            kind if keeps_left(kind) => left.driver,
            _ => right.driver,
        };
        let is_right = match join.join_type {
            JoinType::Inner => drives.is_some() && drives == right.driver,
            kind => keeps_right(kind),
        };
        let unit = match (left.unit, right.unit) {
            (unit, Unit::None) | (Unit::None, unit) => unit,
            (Unit::Column(left), Unit::Column(right)) if join.join_type == JoinType::Full => {
                let name = self.column_name();
                let left = Expr::Column(left);
                let either =
                    when(left.clone().is_not_null(), left).otherwise(Expr::Column(right))?;
                let mut exprs = columns(&join.schema);
                exprs.push(either.alias(&name));
                let plan = LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(plan))?);
                let unit = Unit::Column(Column::new_unqualified(name));
                return Ok(Some(Part { plan, unit, driver: None }));
            }
            (Unit::Column(_), unit @ Unit::Column(_)) if is_right => unit,
            (unit @ Unit::Column(_), Unit::Column(_)) => unit,
            _ => {
                self.inputs.truncate(inputs);
                return Ok(None);
            }
        };
        Ok(Some(Part { plan, unit, driver: drives }))
    }

    /// That of two inputs which has more rows, and so more that change.
    fn larger(&self, left: Option<usize>, right: Option<usize>) -> Option<usize> {
        let rows = |at: usize| self.stages.rows_of(&self.inputs[at].source);
        match (left, right) {
            (Some(left), Some(right)) if rows(left) < rows(right) => Some(right),
            (left, right) => left.or(right),
        }
    }
}

/// Whether each row of a join is made of one of its left side.
fn keeps_left(kind: JoinType) -> bool {
    matches!(kind, JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark)
}

/// Whether each row of a join is made of one of its right side.
fn keeps_right(kind: JoinType) -> bool {
    matches!(
        kind,
        JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark
    )
}

impl Unit {
    fn expr(&self) -> Expr {
        match self {
            Unit::Column(column) => Expr::Column(column.clone()),
            Unit::One | Unit::None => lit(0_u64),
        }
    }
}

/// A key as a reader of EXPLAIN meets it: which stage it is of stands beside it.
fn shown(key: &Expr) -> String {
    let unqualified = key.clone().transform(|expr| match expr {
        Expr::Column(Column { relation: Some(stage), name, .. }) if stage.table() == STAGE => {
            Ok(Transformed::yes(Expr::Column(Column::new_unqualified(name))))
        }
        expr => Ok(Transformed::no(expr)),
    });
    unqualified.map_or_else(|_| key.to_string(), |key| key.data.to_string())
}

/// A plan's own columns, and then the unit.
fn with_unit_last(part: Part, schema: &DFSchema) -> Result<LogicalPlan> {
    let mut exprs = columns(schema);
    exprs.push(part.unit.expr().alias(UNIT));
    Ok(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(part.plan))?))
}

pub(crate) fn columns(schema: &DFSchema) -> Vec<Expr> {
    schema.iter().map(Expr::from).collect()
}

/// Positions of the columns that a scan reads.
pub(crate) fn columns_read(scan: &TableScan) -> Vec<usize> {
    let width = scan.source.schema().fields().len();
    scan.projection.clone().unwrap_or_else(|| (0..width).collect())
}

/// Whether a plan reads what may change.
fn is_live(plan: &LogicalPlan) -> Result<bool> {
    reads(plan, |scan| Source::of(scan).is_some())
}

/// Whether a plan reads such a table anywhere.
pub(crate) fn reads(plan: &LogicalPlan, is_such: impl Fn(&TableScan) -> bool) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found |= matches!(node, LogicalPlan::TableScan(scan) if is_such(scan));
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Whether a node's own expressions ask tables.
pub(crate) fn has_subquery(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_subqueries(|_| {
        found = true;
        Ok(TreeNodeRecursion::Stop)
    })?;
    Ok(found)
}

/// What a window function's rows are kept together by.
fn partition_of(expr: &Expr) -> Option<Vec<Expr>> {
    match expr {
        Expr::WindowFunction(window) => Some(window.params.partition_by.clone()),
        Expr::Alias(alias) => partition_of(&alias.expr),
        _ => None,
    }
}

/// Whether a join's condition can keep rows together: both sides are of one type, and stay what they
/// are.
fn is_key(join: &Join, (left, right): &(Expr, Expr)) -> bool {
    let types = (left.get_type(join.left.schema()), right.get_type(join.right.schema()));
    let same = matches!(types, (Ok(left), Ok(right)) if left == right);
    same && !left.is_volatile() && !right.is_volatile()
}
