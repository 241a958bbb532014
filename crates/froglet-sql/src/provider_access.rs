//! Which index answers a filter.
//!
//! Filters reach a scan as conjuncts that stay above it (inexact push-down), so an index only has
//! to return a superset. An index helps when its leading columns are compared with constants:
//!
//! ```text
//!   key       a          b          c
//!   filter    = 5        in (1, 2)  > 7 and <= 9     one range for each combination of the equal ones
//! ```
//! Or with columns of the keys of a join (`query/index_join.rs`), of which the rows are known when it runs: one range for each.

use std::ops::Bound;
use std::sync::Arc;

use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::{Between, BinaryExpr, Expr, Operator};
use froglet_engine::key::{encode_part, successor};
use froglet_engine::{ColumnType, IndexSpec, KeyPart, KeyRange, Value, numeric};
use froglet_schema::{ColumnDef, TableDef};

use crate::key::{Fit, fit};
use crate::semantics::numerics;
use crate::types::{arrow_of_column, value_of_scalar};

/// More ranges than this are a scan.
const MAX_RANGES: usize = 1_000;

/// How a scan finds its rows.
#[derive(Debug, Clone)]
pub enum Access {
    /// So many blocks, but for those that have no row to return.
    Blocks {
        /// How many there are.
        all: u32,
        /// Those that may have one, if not all.
        left: Option<Arc<[u32]>>,
    },
    /// Ranges of an index.
    Index(IndexAccess),
}

/// Ranges of one index.
#[derive(Debug, Clone)]
pub struct IndexAccess {
    /// Its position in the layout.
    pub index: usize,
    /// Disjoint.
    pub ranges: Vec<KeyRange>,
    /// How it is shown.
    pub name: String,
    /// Whether each range holds at most one row.
    pub unique: bool,
    /// How many leading parts of its key are fixed.
    equal: usize,
}

/// Keys of a join: each with a value of each of some columns.
pub type KeyRows = Vec<Vec<ScalarValue>>;

/// Whether a filter may help to choose an index, or to leave blocks out; parameters are not known yet.
pub fn usable(filter: &Expr) -> bool {
    condition_of(filter, true).is_some()
}

/// The best index for a conjunction of filters, if any helps.
pub fn choose(def: &TableDef, filters: &[Expr]) -> Option<IndexAccess> {
    let conditions = conditions_of(filters);
    if conditions.is_empty() {
        return None;
    }
    best_of(def, |spec| ranges_of(def, spec, &conditions))
}

fn conditions_of(filters: &[Expr]) -> Vec<Condition> {
    filters.iter().filter_map(|filter| condition_of(filter, false)).collect()
}

/// Of the indexes that help the one with the most parts that are fixed; a unique one, if they all are.
fn best_of(
    def: &TableDef,
    ranges_of: impl Fn(&IndexSpec) -> Option<(usize, Vec<KeyRange>)>,
) -> Option<IndexAccess> {
    let candidates = def.indexes.iter().enumerate();
    candidates
        .filter_map(|(at, index)| {
            let (equal, ranges) = ranges_of(&index.spec)?;
            let whole = equal == index.spec.key.len();
            let (name, unique) = (index.name.clone(), whole && index.spec.unique);
            Some(IndexAccess { index: at, ranges, name, unique, equal })
        })
        .max_by_key(IndexAccess::rank)
}

impl IndexAccess {
    /// Which of two is better.
    fn rank(&self) -> (bool, usize) {
        (self.unique, self.equal)
    }
}

/// The best index for rows that have a key of a join in some columns, within a conjunction of filters, if it is better than
/// what was chosen without the keys. With no keys yet, without ranges.
pub fn choose_by_keys(
    def: &TableDef,
    filters: &[Expr],
    columns: &[usize],
    keys: Option<&KeyRows>,
    without: &Access,
) -> Option<IndexAccess> {
    let conditions = conditions_of(filters);
    let rows = keys.map(|rows| values_of_keys(def, columns, rows));
    let rows = match &rows {
        Some(None) => return None,
        Some(Some(rows)) => &rows[..],
        None => &[],
    };
    let keyed = best_of(def, |spec| ranges_of_keys(def, spec, &conditions, columns, rows))?;
    let is_better = match without {
        Access::Index(without) => without.rank() < keyed.rank(),
        Access::Blocks { .. } => true,
    };
    is_better.then_some(keyed)
}

/// The keys as values of their columns, without those that equal no value of these. `None` if it cannot be told of one.
fn values_of_keys(def: &TableDef, columns: &[usize], rows: &KeyRows) -> Option<Vec<Vec<Value>>> {
    let mut keys = Vec::with_capacity(rows.len());
    for row in rows {
        let values = columns.iter().zip(row);
        let values = values.map(|(column, value)| equal_to(value, def.columns[*column].ty));
        keys.extend(values.collect::<Option<Option<Vec<Value>>>>()?);
    }
    Some(keys)
}

/// The value of a type that equals another; `Some(None)` if there is none, `None` if it is not known.
fn equal_to(value: &ScalarValue, ty: ColumnType) -> Option<Option<Value>> {
    use ColumnType::{Decimal, Int16, Int32, Int64};
    if value.is_null() {
        return Some(None);
    }
    if let Some(value) = exact(value, ty) {
        return Some(Some(value));
    }
    let is_integer = matches!(ty, Int16 | Int32 | Int64);
    let number = match value {
        ScalarValue::Int16(Some(number)) => i64::from(*number),
        ScalarValue::Int32(Some(number)) => i64::from(*number),
        ScalarValue::Int64(Some(number)) => *number,
        // A number, by its order: these types have no infinities.
        ScalarValue::Binary(Some(order)) if is_integer || matches!(ty, Decimal { .. }) => {
            return numeric::is_finite(order).then_some(None);
        }
        _ => return None,
    };
    is_integer.then(|| Value::of_integer(number, ty))
}

/// How many leading parts are fixed by keys and conditions, one of them by keys, and the ranges.
fn ranges_of_keys(
    def: &TableDef,
    spec: &IndexSpec,
    conditions: &[Condition],
    columns: &[usize],
    rows: &[Vec<Value>],
) -> Option<(usize, Vec<KeyRange>)> {
    let mut prefixes: Vec<(Vec<u8>, &[Value])> =
        rows.iter().map(|row| (Vec::new(), &row[..])).collect();
    let (mut equal, mut is_keyed) = (0, false);
    for part in &spec.key {
        let column = def.column_by_id(part.column)?;
        let is_it = |at: &usize| def.columns[*at].id == part.column;
        if let Some(place) = columns.iter().position(is_it) {
            for (prefix, row) in &mut prefixes {
                encode_part(prefix, &row[place], part);
            }
            is_keyed = true;
        } else if let Some(values) = listed(conditions, column)
            && prefixes.len() * values.len() <= MAX_RANGES.max(prefixes.len())
        {
            let longer = |(prefix, row): &(Vec<u8>, _)| {
                let one = extend(std::slice::from_ref(prefix), &values, part);
                let row = *row;
                one.into_iter().map(move |longer| (longer, row))
            };
            prefixes = prefixes.iter().flat_map(longer).collect();
        } else {
            break;
        }
        equal += 1;
    }
    let mut prefixes: Vec<Vec<u8>> = prefixes.into_iter().map(|(prefix, _)| prefix).collect();
    prefixes.sort_unstable();
    prefixes.dedup();
    let is_one = spec.unique && equal == spec.key.len();
    let range = |key: Vec<u8>| if is_one { KeyRange::exactly(&key) } else { KeyRange::prefix(key) };
    is_keyed.then(|| (equal, prefixes.into_iter().map(range).collect()))
}

/// The values that a column has by the conditions, if they list them.
fn listed(conditions: &[Condition], column: &ColumnDef) -> Option<Vec<Value>> {
    conditions.iter().filter(|c| c.column == column.name).find_map(|c| match &c.test {
        Test::In(values) => values_of(values, column.ty),
        _ => None,
    })
}

/// A column compared with constants.
struct Condition {
    column: String,
    test: Test,
}

enum Test {
    /// One of these.
    In(Vec<ScalarValue>),
    Lower(ScalarValue, bool),
    Upper(ScalarValue, bool),
    Between(ScalarValue, ScalarValue),
    /// Not known before the parameters are.
    Later,
}

/// A filter as a condition. With `planning`, a parameter counts as a constant.
fn condition_of(filter: &Expr, planning: bool) -> Option<Condition> {
    match filter {
        // What was a short list.
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            let one = condition_of(left, planning)?;
            let other = condition_of(right, planning).filter(|c| c.column == one.column)?;
            let test = match (one.test, other.test) {
                (Test::In(values), Test::In(more)) => Test::In([values, more].concat()),
                (Test::Later | Test::In(_), Test::Later) | (Test::Later, Test::In(_)) => {
                    Test::Later
                }
                _ => return None,
            };
            Some(Condition { column: one.column, test })
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (column, op, value) = match (column_of(left), column_of(right)) {
                (Some(column), _) => (column, *op, right),
                (_, Some(column)) => (column, op.swap()?, left),
                _ => return None,
            };
            let test = comparison(op, value, planning)?;
            Some(Condition { column: column.name.clone(), test })
        }
        Expr::InList(list) if !list.negated => {
            let column = column_of(&list.expr)?;
            let later = list.list.iter().any(is_parameter);
            if later {
                return planning
                    .then(|| Condition { column: column.name.clone(), test: Test::Later });
            }
            let values = list.list.iter().map(constant).collect::<Option<Vec<_>>>()?;
            Some(Condition { column: column.name.clone(), test: Test::In(values) })
        }
        Expr::Between(Between { expr, negated: false, low, high }) => {
            let column = column_of(expr)?;
            let test = match (constant(low), constant(high)) {
                (Some(low), Some(high)) => Test::Between(low, high),
                _ if planning => Test::Later,
                _ => return None,
            };
            Some(Condition { column: column.name.clone(), test })
        }
        _ => None,
    }
}

/// A column, or one whose numbers are compared by their order.
fn column_of(expr: &Expr) -> Option<&Column> {
    match numerics::ordered(expr).unwrap_or(expr) {
        Expr::Column(column) => Some(column),
        _ => None,
    }
}

fn is_parameter(expr: &Expr) -> bool {
    matches!(numerics::ordered(expr).unwrap_or(expr), Expr::Placeholder(_))
}

fn comparison(op: Operator, value: &Expr, planning: bool) -> Option<Test> {
    let known =
        matches!(op, Operator::Eq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq);
    if known && planning && is_parameter(value) {
        return Some(Test::Later);
    }
    let value = constant(value)?;
    match op {
        Operator::Eq => Some(Test::In(vec![value])),
        Operator::Gt => Some(Test::Lower(value, false)),
        Operator::GtEq => Some(Test::Lower(value, true)),
        Operator::Lt => Some(Test::Upper(value, false)),
        Operator::LtEq => Some(Test::Upper(value, true)),
        _ => None,
    }
}

fn constant(expr: &Expr) -> Option<ScalarValue> {
    match expr {
        Expr::Literal(value, _) => Some(value.clone()),
        Expr::Alias(alias) => constant(&alias.expr),
        _ => None,
    }
}

/// A constant as a value of the column, if it is of exactly the column's type. NULL matches nothing
/// and is left to the filter above.
fn exact(value: &ScalarValue, ty: ColumnType) -> Option<Value> {
    if let (ScalarValue::Binary(Some(order)), false) = (value, ty == ColumnType::Bytes) {
        let number = Value::Numeric(froglet_engine::numeric::of_order(order)?);
        return match fit(number, ColumnType::Numeric, ty) {
            Fit::Exact(value) => Some(value),
            _ => None,
        };
    }
    let same = match (value.data_type(), arrow_of_column(ty)) {
        (a, b) if a == b => true,
        (a, b) => a.is_string() && b.is_string(),
    };
    if !same || value.is_null() {
        return None;
    }
    value_of_scalar(value, ty).ok()
}

/// How many leading parts are fixed, and the ranges. `None` if the first part is free.
fn ranges_of(
    def: &TableDef,
    spec: &IndexSpec,
    conditions: &[Condition],
) -> Option<(usize, Vec<KeyRange>)> {
    let mut prefixes: Vec<Vec<u8>> = vec![Vec::new()];
    let mut equal = 0;
    for part in &spec.key {
        let column = def.column_by_id(part.column)?;
        if let Some(values) = listed(conditions, column)
            && prefixes.len() * values.len() <= MAX_RANGES
        {
            prefixes = extend(&prefixes, &values, part);
            equal += 1;
            continue;
        }
        let on_column = conditions.iter().filter(|c| c.column == column.name);
        if let Some(range) = part_range(on_column, column.ty, part) {
            let ranges = prefixes.iter().map(|prefix| bounded(prefix, &range)).collect();
            return Some((equal, ranges));
        }
        break;
    }
    (equal > 0).then(|| (equal, prefixes.into_iter().map(KeyRange::prefix).collect()))
}

fn values_of(values: &[ScalarValue], ty: ColumnType) -> Option<Vec<Value>> {
    values.iter().filter(|v| !v.is_null()).map(|v| exact(v, ty)).collect()
}

fn extend(prefixes: &[Vec<u8>], values: &[Value], part: &KeyPart) -> Vec<Vec<u8>> {
    let mut longer: Vec<Vec<u8>> = prefixes
        .iter()
        .flat_map(|prefix| {
            values.iter().map(|value| {
                let mut key = prefix.clone();
                encode_part(&mut key, value, part);
                key
            })
        })
        .collect();
    // The same key twice would return its rows twice.
    longer.sort_unstable();
    longer.dedup();
    longer
}

/// Bounds on one part's own bytes.
struct PartRange {
    lower: Bound<Vec<u8>>,
    upper: Bound<Vec<u8>>,
}

fn part_range<'a>(
    conditions: impl Iterator<Item = &'a Condition>,
    ty: ColumnType,
    part: &KeyPart,
) -> Option<PartRange> {
    let mut low: Option<(Value, bool)> = None;
    let mut high: Option<(Value, bool)> = None;
    for condition in conditions {
        match &condition.test {
            Test::Lower(value, inclusive) => low = low.or(Some((exact(value, ty)?, *inclusive))),
            Test::Upper(value, inclusive) => high = high.or(Some((exact(value, ty)?, *inclusive))),
            Test::Between(a, b) => {
                low = low.or(Some((exact(a, ty)?, true)));
                high = high.or(Some((exact(b, ty)?, true)));
            }
            Test::In(_) | Test::Later => {}
        }
    }
    if low.is_none() && high.is_none() {
        return None;
    }
    if part.descending {
        std::mem::swap(&mut low, &mut high);
    }
    let encode = |value: &Value| {
        let mut key = Vec::new();
        encode_part(&mut key, value, part);
        key
    };
    // Longer keys that begin with the bound's bytes are equal to it in this part.
    let lower = match &low {
        None => Bound::Unbounded,
        Some((value, true)) => Bound::Included(encode(value)),
        Some((value, false)) => after(&encode(value)),
    };
    let upper = match &high {
        None => Bound::Unbounded,
        Some((value, true)) => before(&encode(value)),
        Some((value, false)) => Bound::Excluded(encode(value)),
    };
    Some(PartRange { lower, upper })
}

/// The lower bound above every key that starts with these bytes.
fn after(key: &[u8]) -> Bound<Vec<u8>> {
    successor(key).map_or(Bound::Unbounded, Bound::Included)
}

/// The upper bound above every key that starts with these bytes.
fn before(key: &[u8]) -> Bound<Vec<u8>> {
    successor(key).map_or(Bound::Unbounded, Bound::Excluded)
}

fn bounded(prefix: &[u8], range: &PartRange) -> KeyRange {
    let join = |tail: &[u8]| [prefix, tail].concat();
    let lower = match &range.lower {
        Bound::Included(key) => Bound::Included(join(key)),
        Bound::Excluded(key) => Bound::Excluded(join(key)),
        Bound::Unbounded if prefix.is_empty() => Bound::Unbounded,
        Bound::Unbounded => Bound::Included(prefix.to_vec()),
    };
    let upper = match &range.upper {
        Bound::Included(key) => Bound::Included(join(key)),
        Bound::Excluded(key) => Bound::Excluded(join(key)),
        Bound::Unbounded if prefix.is_empty() => Bound::Unbounded,
        Bound::Unbounded => before(prefix),
    };
    KeyRange { lower, upper }
}
