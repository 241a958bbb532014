//! Windows that DataFusion does not run as they are.
//!
//! ```text
//!   PARTITION BY x IN (SELECT …)      by a column of a projection below
//!   ORDER BY a jsonb, uuid, time, row  RANGE as GROUPS, which asks for no type: to be a peer is to be equal
//! ```

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Window, WindowFrame, WindowFrameBound,
    WindowFrameUnits,
};
use froglet_engine::{Interval, SqlState};

use crate::error::SqlError;
use crate::semantics::casts;
use crate::semantics::common::common_type;
use crate::semantics::fields::field_of;
use crate::semantics::numerics;
use crate::semantics::operators::unknown_literal;
use crate::types::cell::{Cell, cell_at};
use crate::types::interval::Fields;
use crate::types::{interval_input, sql_type_of_field, type_name};

/// 22013 for a distance that is less than nothing, with which DataFusion computes frames that end before they begin.
pub fn refuse_frame(frame: &WindowFrame) -> Result<(), SqlError> {
    let is_negative = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::Preceding(distance) | WindowFrameBound::Following(distance) => {
            is_negative(distance)
        }
        WindowFrameBound::CurrentRow => false,
    };
    if is_negative(&frame.start_bound) || is_negative(&frame.end_bound) {
        let message = "invalid preceding or following size in window function";
        return Err(SqlError::new(SqlState::new("22013"), message));
    }
    Ok(())
}

fn is_negative(distance: &ScalarValue) -> bool {
    let text = match distance {
        ScalarValue::Utf8(text) | ScalarValue::Utf8View(text) => text.as_deref(),
        _ => None,
    };
    if let Some(text) = text {
        return match text.trim().parse::<f64>() {
            Ok(number) => number < 0.0,
            Err(_) => interval_input::parse(text, Fields::ALL).is_ok_and(|i| i.span_us() < 0),
        };
    }
    let Ok(array) = distance.to_array() else { return false };
    match cell_at(array.as_ref(), 0) {
        Cell::Interval(months, days, us) => Interval { months, days, us }.span_us() < 0,
        _ => matches!(
            distance.cast_to(&DataType::Float64),
            Ok(ScalarValue::Float64(Some(number))) if number < 0.0
        ),
    }
}

/// The types of what `lag`, `first_value` and the like take; whether an argument was changed. 42804 for a literal
/// without a type, of which there is nothing else that says one.
pub fn type_arguments(call: &mut WindowFunction, schema: &DFSchema) -> Result<bool> {
    let polymorphic = ["lag", "lead", "first_value", "last_value", "nth_value"];
    if !polymorphic.contains(&call.fun.name()) {
        return Ok(false);
    }
    let args = &mut call.params.args;
    let [value, _, otherwise] = &args[..] else {
        let message = "could not determine polymorphic type because input has type unknown";
        return match args.first() {
            Some(value) if is_unknown(value) => {
                Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message).into())
            }
            _ => Ok(false),
        };
    };
    if is_unknown(value) || is_unknown(otherwise) {
        return Ok(false);
    }
    let (Ok(a), Ok(b)) = (field_of(value, schema), field_of(otherwise, schema)) else {
        return Ok(false);
    };
    let Ok(Some(ty)) = common_type("lag", &[a.clone(), b.clone()]) else { return Ok(false) };
    if let [value, _, otherwise] = &mut args[..]
        && numerics::to_one(vec![value, otherwise], schema)
    {
        return Ok(true);
    }
    let mut changed = false;
    for (at, field) in [(0, a), (2, b)] {
        if sql_type_of_field(&field).oid != ty.oid && field.data_type().is_numeric() {
            args[at] = casts::call(args[at].clone(), ty);
            changed = true;
        }
    }
    Ok(changed)
}

fn is_unknown(value: &Expr) -> bool {
    let is_null = |value: &ScalarValue| value.data_type().is_null();
    unknown_literal(value).is_some() || matches!(value, Expr::Literal(value, _) if is_null(value))
}

/// Puts subqueries of windows into projections below.
pub fn lower_subqueries(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut count = 0;
    let changed = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Window(window) => lowered(window, &mut count),
        node => Ok(Transformed::no(node)),
    })?;
    Ok(changed.data)
}

fn lowered(window: Window, count: &mut usize) -> Result<Transformed<LogicalPlan>> {
    let mut below: Vec<(Expr, Column)> = Vec::new();
    let mut lower = |expr: &mut Expr| {
        if !has_subquery(expr) {
            return;
        }
        let known = below.iter().find(|(known, _)| known == expr);
        let column = match known {
            Some((_, column)) => column.clone(),
            None => {
                *count += 1;
                let column = Column::new_unqualified(format!("froglet window {count}"));
                below.push((expr.clone(), column.clone()));
                column
            }
        };
        *expr = Expr::Column(column);
    };
    let node = LogicalPlan::Window(window.clone());
    let preserver = NamePreserver::new(&node);
    let mut functions = Vec::with_capacity(window.window_expr.len());
    for expr in window.window_expr.clone() {
        let name = preserver.save(&expr);
        let changed = expr.transform_up(|part| {
            let Expr::WindowFunction(mut function) = part else { return Ok(Transformed::no(part)) };
            let params = &mut function.params;
            params.args.iter_mut().chain(&mut params.partition_by).for_each(&mut lower);
            params.order_by.iter_mut().for_each(|key| lower(&mut key.expr));
            params.filter.iter_mut().for_each(|filter| lower(filter));
            Ok(Transformed::yes(Expr::WindowFunction(function)))
        })?;
        functions.push(name.restore(changed.data));
    }
    if below.is_empty() {
        return Ok(Transformed::no(node));
    }
    let own = window.input.schema().iter().map(Expr::from);
    let more = below.into_iter().map(|(expr, column)| expr.alias(column.name));
    let columns: Vec<Expr> = own.chain(more).collect();
    let result: Vec<Expr> = window.schema.iter().map(Expr::from).collect();
    LogicalPlanBuilder::from(window.input.as_ref().clone())
        .project(columns)?
        .window(functions)?
        .project(result)?
        .build()
        .map(Transformed::yes)
}

fn has_subquery(expr: &Expr) -> bool {
    let is_one = |part: &Expr| {
        Ok(matches!(part, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_)))
    };
    expr.exists(is_one).unwrap_or(false)
}

/// Frames of windows that are ordered by what DataFusion makes no ranges of.
pub fn type_frames(plan: LogicalPlan) -> Result<LogicalPlan> {
    let changed = plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::Window(window) = &node else { return Ok(Transformed::no(node)) };
        let schema = window.input.schema().clone();
        let preserver = NamePreserver::new(&node);
        node.map_expressions(|expr| {
            let name = preserver.save(&expr);
            let changed = expr.transform_up(|part| match part {
                Expr::WindowFunction(mut function) => match is_of_peers(&function, &schema)? {
                    true => {
                        function.params.window_frame.units = WindowFrameUnits::Groups;
                        Ok(Transformed::yes(Expr::WindowFunction(function)))
                    }
                    false => Ok(Transformed::no(Expr::WindowFunction(function))),
                },
                part => Ok(Transformed::no(part)),
            })?;
            Ok(changed.update_data(|expr| name.restore(expr)))
        })
    })?;
    Ok(changed.data)
}

/// Whether DataFusion makes ranges of a type's values.
fn has_ranges(ty: &DataType) -> bool {
    ty.is_numeric()
        || ty.is_string()
        || ty.is_null()
        || ty.is_list()
        || matches!(
            ty,
            DataType::Boolean | DataType::Date32 | DataType::Date64 | DataType::Timestamp(..)
        )
}

/// Whether a window's frame is a range of what has none but its peers; 0A000 for one by distances, of which there are none.
fn is_of_peers(function: &WindowFunction, schema: &DFSchema) -> Result<bool> {
    let frame = &function.params.window_frame;
    if frame.units != WindowFrameUnits::Range {
        return Ok(false);
    }
    let keys = function.params.order_by.iter();
    let key =
        keys.map(|key| &key.expr).find(|key| key.get_type(schema).is_ok_and(|ty| !has_ranges(&ty)));
    let Some(key) = key else { return Ok(false) };
    let by_distance = |bound: &WindowFrameBound| {
        matches!(bound, WindowFrameBound::Preceding(distance) | WindowFrameBound::Following(distance)
            if !distance.is_null())
    };
    if !by_distance(&frame.start_bound) && !by_distance(&frame.end_bound) {
        return Ok(true);
    }
    // Of a measure, what is measured.
    let value = match key {
        Expr::ScalarFunction(measure) => measure.args.first().unwrap_or(key),
        key => key,
    };
    let message = format!(
        "RANGE with offset PRECEDING/FOLLOWING is not supported for column type {}",
        type_name(sql_type_of_field(&*field_of(value, schema)?)),
    );
    Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).into())
}
