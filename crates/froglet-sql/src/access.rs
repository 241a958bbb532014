//! How a short statement finds its rows: through an index where its conditions allow one.
//!
//! ```text
//!   WHERE a = $1 AND b > 5 AND c <> 2        index (a, b, d)
//!          └──────────┬──┘   └─ residual     key range: prefix a, then b above 5
//! ```
//!
//! Conditions that the range answers exactly (the value has the column's own type) are not
//! evaluated again: the engine has compared the key with the visible version. Others are, so that
//! an index never changes an answer, only the work.

use std::ops::Bound;

use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr};
use froglet_engine::{ColumnType, KeyRange, Value, key as keys};
use froglet_schema::{SqlType, TableDef, TableVersion};

use crate::bound::BoundExpr;
use crate::command::fold;
use crate::context::EvalContext;
use crate::error::SqlError;
use crate::expr::{RowExpr, Scope};
use crate::index_expr;
use crate::key::{self, Fit, Told, fit, has_counterparts, told_of};
use crate::types::{self, oids};

/// The place of what is no condition, but implied by some.
const NO_CONJUNCT: usize = usize::MAX;

/// A comparison that an index may answer.
#[derive(Debug)]
struct Comparison {
    column: usize,
    op: Op,
    /// IN has several.
    values: Vec<KeyValue>,
    /// The condition it comes from.
    conjunct: usize,
    /// The range answers it without a second look.
    exact: bool,
}

#[derive(Debug)]
struct KeyValue {
    expr: BoundExpr,
    from: ColumnType,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// The way to the rows.
#[derive(Debug)]
pub(crate) struct Access {
    /// Position in the layout.
    pub(crate) index: usize,
    /// One for each of the index's first parts.
    equal: Vec<Comparison>,
    /// On the part after these.
    low: Option<Comparison>,
    high: Option<Comparison>,
    /// At most one row.
    pub(crate) unique: bool,
}

/// What the conditions of a unique access come to.
pub(crate) enum UniqueKey {
    /// A key.
    Whole,
    /// Nothing has such a key.
    None,
    /// A value has no counterpart in its column's type: the range is wider.
    Unusable,
}

/// Conditions joined by AND.
pub(crate) fn conjuncts(expr: &Expr) -> Vec<&Expr> {
    let mut found = Vec::new();
    let mut stack = vec![expr];
    while let Some(expr) = stack.pop() {
        match expr {
            Expr::Nested(inner) => stack.push(inner),
            Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
                stack.push(right);
                stack.push(left);
            }
            other => found.push(other),
        }
    }
    found
}

/// The best way to the rows that satisfy all `conditions`, and which of these remain to be
/// evaluated.
pub(crate) fn choose(
    table: &TableVersion,
    conditions: &[&Expr],
    params: &[SqlType],
) -> Result<(Option<Access>, Vec<usize>), SqlError> {
    let mut comparisons = Vec::new();
    for (conjunct, condition) in conditions.iter().enumerate() {
        compare(&table.def, condition, conjunct, params, &mut comparisons)?;
    }
    implied_predicates(&table.def, conditions, &mut comparisons)?;
    let indexes = &table.table.layout().indexes;
    let best = (0..indexes.len())
        .filter_map(|index| Some((score(table, index, &comparisons)?, index)))
        .max_by_key(|(score, index)| (*score, std::cmp::Reverse(*index)));
    let all = (0..conditions.len()).collect();
    let Some((_, index)) = best else { return Ok((None, all)) };
    let access = build(table, index, comparisons);
    let residual = all
        .into_iter()
        .filter(|conjunct| !access.answers(*conjunct, conditions[*conjunct]))
        .collect();
    Ok((Some(access), residual))
}

/// The first part of a partial index is true, where the conditions imply its predicate.
fn implied_predicates(
    table: &TableDef,
    conditions: &[&Expr],
    out: &mut Vec<Comparison>,
) -> Result<(), SqlError> {
    for index in table.indexes.iter().filter(|index| index.notes.partial) {
        let Some(predicate) = index_expr::predicate(table, index) else { continue };
        let Some(column) = table.position_of(index.spec.key[0].column) else { continue };
        if index_expr::implied(table, &predicate, conditions) {
            let boolean = types::plain(oids::BOOL);
            let yes = ScalarValue::Boolean(Some(true));
            let expr = RowExpr::constant(yes, ColumnType::Bool, boolean)?;
            let value = KeyValue { expr: BoundExpr::new(expr, &[]), from: ColumnType::Bool };
            let (op, conjunct) = (Op::Equal, NO_CONJUNCT);
            out.push(Comparison { column, op, values: vec![value], conjunct, exact: true });
        }
    }
    Ok(())
}

/// How much of an index the comparisons use; `None` for nothing.
fn score(table: &TableVersion, index: usize, comparisons: &[Comparison]) -> Option<u32> {
    let spec = &table.table.layout().indexes[index];
    let mut equal = 0;
    let mut in_lists = 0;
    for part in &spec.key {
        let column = table.table.layout().position(part.column)?;
        let found = comparisons.iter().find(|c| c.column == column && c.op == Op::Equal);
        match found {
            Some(c) if c.values.len() > 1 && in_lists > 0 => break,
            Some(c) => in_lists += u32::from(c.values.len() > 1),
            None => {
                let range = comparisons.iter().any(|c| c.column == column && c.op != Op::Equal);
                return match (equal, range) {
                    (0, false) => None,
                    _ => Some(equal * 4 + u32::from(range) * 2),
                };
            }
        }
        equal += 1;
    }
    let whole = equal as usize == spec.key.len() && spec.unique;
    (equal > 0).then_some(equal * 4 + u32::from(whole) * 100)
}

fn build(table: &TableVersion, index: usize, mut comparisons: Vec<Comparison>) -> Access {
    let layout = table.table.layout();
    let spec = &layout.indexes[index];
    let mut equal: Vec<Comparison> = Vec::new();
    let (mut low, mut high) = (None, None);
    for part in &spec.key {
        let Some(column) = layout.position(part.column) else { break };
        let in_list = equal.iter().any(|c| c.values.len() > 1);
        let at = comparisons.iter().position(|c| {
            c.column == column && c.op == Op::Equal && !(in_list && c.values.len() > 1)
        });
        if let Some(at) = at {
            equal.push(comparisons.swap_remove(at));
            continue;
        }
        let mut take = |ops: [Op; 2]| {
            let at = comparisons.iter().position(|c| c.column == column && ops.contains(&c.op))?;
            Some(comparisons.swap_remove(at))
        };
        low = take([Op::Greater, Op::GreaterOrEqual]);
        high = take([Op::Less, Op::LessOrEqual]);
        break;
    }
    let one_each = equal.iter().all(|c| c.values.len() == 1);
    let unique = spec.unique && equal.len() == spec.key.len() && one_each;
    Access { index, equal, low, high, unique }
}

/// The comparisons with a column that a condition makes, if it is made of such.
fn compare(
    table: &TableDef,
    condition: &Expr,
    conjunct: usize,
    params: &[SqlType],
    out: &mut Vec<Comparison>,
) -> Result<(), SqlError> {
    let add = |column: &Expr, op: Op, values: &[&Expr], out: &mut Vec<Comparison>| {
        let Some(position) = key_column_of(table, column) else { return Ok(()) };
        let mut compiled = Vec::with_capacity(values.len());
        let def = table.column_at(position);
        let mut exact = true;
        for value in values {
            let Some(value) = key_value(def, value, params)? else { return Ok(()) };
            exact &= has_counterparts(value.from, def.ty);
            compiled.push(value);
        }
        let wanted = if op == Op::Equal { Told::Equality } else { Told::Order };
        if def.sql_type.oid != oids::BPCHAR && told_of(def) >= wanted {
            out.push(Comparison { column: position, op, values: compiled, conjunct, exact });
        }
        Ok::<(), SqlError>(())
    };
    match condition {
        Expr::BinaryOp { left, op, right } => {
            let (straight, mirrored) = match op {
                BinaryOperator::Eq => (Op::Equal, Op::Equal),
                BinaryOperator::Lt => (Op::Less, Op::Greater),
                BinaryOperator::LtEq => (Op::LessOrEqual, Op::GreaterOrEqual),
                BinaryOperator::Gt => (Op::Greater, Op::Less),
                BinaryOperator::GtEq => (Op::GreaterOrEqual, Op::LessOrEqual),
                _ => return Ok(()),
            };
            if key_column_of(table, left).is_some() {
                add(left, straight, &[right], out)
            } else {
                add(right, mirrored, &[left], out)
            }
        }
        Expr::Between { expr, negated: false, low, high } => {
            add(expr, Op::GreaterOrEqual, &[low], out)?;
            add(expr, Op::LessOrEqual, &[high], out)
        }
        Expr::InList { expr, list, negated: false } if !list.is_empty() && list.len() <= 1000 => {
            add(expr, Op::Equal, &list.iter().collect::<Vec<_>>(), out)
        }
        _ => Ok(()),
    }
}

/// The column that an expression is.
fn column_of(table: &TableDef, expr: &Expr) -> Option<usize> {
    let name = match expr {
        Expr::Nested(inner) => return column_of(table, inner),
        Expr::Identifier(ident) => fold(ident),
        Expr::CompoundIdentifier(parts) => fold(parts.last()?),
        _ => return None,
    };
    table.columns.iter().position(|c| c.name == name)
}

/// The column that an expression is, or the hidden one that has it.
fn key_column_of(table: &TableDef, expr: &Expr) -> Option<usize> {
    column_of(table, expr).or_else(|| index_expr::column_of(table, expr))
}

/// A value to compare a column with: no columns in it, and the same however often it is asked.
fn key_value(
    column: &froglet_schema::ColumnDef,
    value: &Expr,
    params: &[SqlType],
) -> Result<Option<KeyValue>, SqlError> {
    // What does not compile without columns is not a key; the condition itself reports errors.
    let expr = match bare_literal(value) {
        true => RowExpr::compile_for(
            &Scope::empty(),
            value,
            params,
            &column.name,
            column.ty,
            plain_type(column.sql_type),
        ),
        false => RowExpr::compile(&Scope::empty(), value, params),
    };
    let Ok(expr) = expr else { return Ok(None) };
    let Some(from) = expr.column_type() else { return Ok(None) };
    if expr.volatile() || !expr.inputs().is_empty() {
        return Ok(None);
    }
    Ok(Some(KeyValue { expr: BoundExpr::new(expr, &[]), from }))
}

/// Without a modifier: a comparison does not cut a literal to a column's length.
fn plain_type(ty: SqlType) -> SqlType {
    match ty.oid {
        oids::VARCHAR => SqlType { oid: oids::TEXT, modifier: -1 },
        _ => ty,
    }
}

/// A string literal, which takes the column's type.
fn bare_literal(expr: &Expr) -> bool {
    use datafusion::sql::sqlparser::ast::Value as V;
    match expr {
        Expr::Nested(inner) => bare_literal(inner),
        Expr::Value(v) => {
            matches!(v.value, V::SingleQuotedString(_) | V::EscapedStringLiteral(_) | V::Null)
        }
        _ => false,
    }
}

impl Access {
    /// Whether the range alone answers a condition. A comparison counts only if those before it
    /// are exact: one that turns out to have no counterpart ends the range at its part.
    fn answers(&self, conjunct: usize, condition: &Expr) -> bool {
        let wanted = if matches!(condition, Expr::Between { .. }) { 2 } else { 1 };
        let sound = self.equal.iter().take_while(|c| c.exact).count();
        let ends = [&self.low, &self.high].into_iter().flatten();
        let ends = ends.filter(|c| c.exact && sound == self.equal.len());
        let mine = self.equal[..sound].iter().chain(ends).filter(|c| c.conjunct == conjunct);
        mine.count() == wanted
    }

    /// The columns that the range fixes to one value each: an order by these is no order.
    pub(crate) fn fixed(&self) -> impl Iterator<Item = usize> {
        self.equal.iter().filter(|c| c.values.len() == 1).map(|c| c.column)
    }

    /// How many of the index's parts are fixed.
    pub(crate) fn fixed_parts(&self) -> usize {
        self.equal.iter().take_while(|c| c.values.len() == 1).count()
    }

    /// A way through a whole index, for its order.
    pub(crate) fn whole(index: usize) -> Access {
        Access { index, equal: Vec::new(), low: None, high: None, unique: false }
    }

    /// Where the access is unique: appends its one key under these parameters to `key`.
    pub(crate) fn key(
        &self,
        table: &TableVersion,
        context: &EvalContext,
        key: &mut Vec<u8>,
    ) -> Result<UniqueKey, SqlError> {
        let spec = &table.table.layout().indexes[self.index];
        for (comparison, part) in self.equal.iter().zip(&spec.key) {
            let to = table.def.column_at(comparison.column).ty;
            let [value] = &comparison.values[..] else { return Ok(UniqueKey::Unusable) };
            match fit(value.expr.eval(&[], context)?, value.from, to) {
                Fit::Exact(Value::Null) | Fit::Below | Fit::Above => return Ok(UniqueKey::None),
                Fit::Exact(value) => keys::encode_part(key, &value, part),
                Fit::Unusable => return Ok(UniqueKey::Unusable),
            }
        }
        Ok(UniqueKey::Whole)
    }

    /// The key ranges under these parameters, ascending and without overlap. Where a value has no
    /// counterpart in its column's type, the range is as wide as it must be.
    pub(crate) fn ranges(
        &self,
        table: &TableVersion,
        context: &EvalContext,
    ) -> Result<Vec<KeyRange>, SqlError> {
        let spec = &table.table.layout().indexes[self.index];
        let mut prefixes: Vec<Vec<u8>> = vec![Vec::new()];
        for (comparison, part) in self.equal.iter().zip(&spec.key) {
            let to = table.def.column_at(comparison.column).ty;
            let mut next = Vec::new();
            for value in &comparison.values {
                match fit(value.expr.eval(&[], context)?, value.from, to) {
                    Fit::Exact(Value::Null) | Fit::Below | Fit::Above => {}
                    Fit::Exact(value) => {
                        for prefix in &prefixes {
                            let mut bytes = prefix.clone();
                            keys::encode_part(&mut bytes, &value, part);
                            next.push(bytes);
                        }
                    }
                    Fit::Unusable => return Ok(in_order(prefixes, false)),
                }
            }
            next.sort_unstable();
            next.dedup();
            prefixes = next;
        }
        if self.low.is_none() && self.high.is_none() {
            return Ok(in_order(prefixes, self.equal.len() == spec.key.len()));
        }
        let part = &spec.key[self.equal.len()];
        let (low, high) =
            (self.bound(&self.low, table, context)?, self.bound(&self.high, table, context)?);
        let (Some(low), Some(high)) = (low, high) else { return Ok(Vec::new()) };
        let ranges: Vec<KeyRange> = prefixes
            .iter()
            .map(|prefix| key::range(prefix, part, low.as_ref(), high.as_ref()))
            .filter(|range| !key::is_empty(range))
            .collect();
        Ok(ranges)
    }

    /// One end of the range; `None` where nothing can satisfy it.
    fn bound(
        &self,
        comparison: &Option<Comparison>,
        table: &TableVersion,
        context: &EvalContext,
    ) -> Result<Option<Bound<Value>>, SqlError> {
        let Some(comparison) = comparison else { return Ok(Some(Bound::Unbounded)) };
        let to = table.def.column_at(comparison.column).ty;
        let value = &comparison.values[0];
        let upper = matches!(comparison.op, Op::Less | Op::LessOrEqual);
        Ok(match fit(value.expr.eval(&[], context)?, value.from, to) {
            Fit::Exact(Value::Null) => None,
            Fit::Exact(value) => Some(match comparison.op {
                Op::Less | Op::Greater => Bound::Excluded(value),
                _ => Bound::Included(value),
            }),
            Fit::Below if upper => None,
            Fit::Above if !upper => None,
            Fit::Below | Fit::Above | Fit::Unusable => Some(Bound::Unbounded),
        })
    }
}

/// The ranges of what keys begin with, or of whole keys.
fn in_order(keys: Vec<Vec<u8>>, are_whole: bool) -> Vec<KeyRange> {
    let range = |key: Vec<u8>| match (key.is_empty(), are_whole) {
        (true, _) => KeyRange::all(),
        (false, true) => KeyRange::exactly(&key),
        (false, false) => KeyRange::prefix(key),
    };
    keys.into_iter().map(range).collect()
}
