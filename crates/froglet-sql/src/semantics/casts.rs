//! Casts as PostgreSQL does them.
//!
//! DataFusion plans `x::t` as a cast of Arrow's, which truncates where PostgreSQL rounds, knows no
//! lengths and prints other texts. This pass runs over a fresh logical plan, before DataFusion's
//! own coercions are added: a literal is converted on the spot, casts that Arrow does exactly stay,
//! every other one becomes a call of [`CastFunction`].

use std::sync::Arc;

use arrow::array::*;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, ExprSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{InList, Placeholder, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ExprSchemable, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility, WindowFunctionDefinition, lit,
};
use froglet_engine::{ColumnType, SqlState, Value};
use froglet_schema::SqlType;
use froglet_schema::def::FIRST_USER_ID;

use super::fields::field_of;
use super::{
    calls, cast_names, common, enums, expr_names, kinds, measures, numerics, operators, quantified,
    zeros,
};
use crate::context::{NoSession, SessionFunctions, current_session, session_here};
use crate::error::SqlError;
use crate::types::cast::{CastContext, castable, text_array};
use crate::types::cell::{Cell, cell_at};
use crate::types::json::{self, Json};
use crate::types::{self, Zone, input, names, numeric, oids, sql_field, sql_type_of_field};
use crate::udf::json::ROW_TO_JSON;
use crate::udf::lookup;
use crate::udf::overload::Overloads;

/// Rewrites the casts of a plan, of its subqueries too.
pub fn rewrite_plan(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| {
        let node = super::unnested::type_items(super::unions::type_literals(node)?)?;
        let node = match node {
            LogicalPlan::Values(values) => numerics::of_rows(values)?,
            node => node,
        };
        let mut schema = merge_schema(&node.inputs());
        let node = super::outer_types::refresh(node, &schema)?;
        if let LogicalPlan::TableScan(scan) = &node {
            schema.merge(&scan.projected_schema);
        }
        let node = order_by_measures(node, &schema)?;
        let preserver = NamePreserver::new(&node);
        // A cast may keep more digits than its declared type: types above follow.
        enums::sort(node, &schema)?
            .map_expressions(|expr| {
                let name = preserver.save(&expr);
                Ok(rewrite_expr(expr, &schema)?.update_data(|e| name.restore(e)))
            })?
            .map_data(LogicalPlan::recompute_schema)?
            .transform_data(|node| super::grouped::by_measures(node).map(Transformed::yes))
    })
    .map(|t| t.data)
}

/// The order of a plan's rows by measures of what Arrow orders otherwise.
fn order_by_measures(mut node: LogicalPlan, schema: &DFSchema) -> Result<LogicalPlan> {
    if let LogicalPlan::Sort(sort) = &mut node {
        measures::order(&mut sort.expr, schema)?;
        zeros::order_but_last(&mut sort.expr, schema);
    }
    Ok(node)
}

/// Rewrites the casts of an expression.
pub fn rewrite_expr(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    expr.transform_up(|node| match kinds::checked(node, schema)? {
        Expr::Cast(cast) => rewrite_cast(cast, schema),
        mut node @ (Expr::BinaryExpr(_) | Expr::Between(_) | Expr::InList(_)) => {
            operators::pad_listed(&mut node, schema);
            common::compared_with(&mut node, schema)?;
            let in_one_zone = measures::in_one_zone(&mut node, schema)?;
            let mut compared = enums::compare(node, schema)?;
            compared.transformed |= in_one_zone;
            compared.transformed |= measures::compare(&mut compared.data, schema)?;
            if let Expr::InList(list) = &mut compared.data {
                compared.transformed |= zeros::in_list(list, schema);
            }
            Ok(match compared.data {
                Expr::InList(list) if list.list.iter().any(Expr::any_column_refs) => {
                    Transformed::yes(each_compared(list))
                }
                data => Transformed { data, ..compared },
            })
        }
        Expr::InSubquery(mut found) => {
            operators::compared_with_subquery(&found, schema)?;
            let changed = super::grouped::compare_with_subquery(&mut found, schema)?;
            Ok(mark(Expr::InSubquery(found), changed))
        }
        node @ Expr::ScalarSubquery(_) => common::marked_subquery(node, schema),
        Expr::IsNull(tested) => {
            super::records::refuse_null_test(&tested, schema)?;
            Ok(Transformed::no(Expr::IsNull(tested)))
        }
        Expr::IsNotNull(tested) => {
            super::records::refuse_null_test(&tested, schema)?;
            Ok(Transformed::no(Expr::IsNotNull(tested)))
        }
        Expr::ScalarFunction(call) if call.func.inner().is::<Overloads>() => {
            calls::resolve(call, schema)
        }
        Expr::ScalarFunction(mut call) if call.func.name() == cast_names::NAME => {
            Ok(Transformed::yes(call.args.swap_remove(0)))
        }
        Expr::ScalarFunction(call) if call.func.name() == ROW_TO_JSON => {
            super::records::row_to_json(call, schema).map(Transformed::yes)
        }
        Expr::ScalarFunction(call) if call.func.name() == "pg_typeof" => {
            calls::type_named(call, schema)
        }
        Expr::ScalarFunction(mut call) if numerics::takes_elements(call.func.name()) => {
            let changed = numerics::bring_elements(&mut call, schema);
            Ok(mark(Expr::ScalarFunction(call), changed))
        }
        Expr::ScalarFunction(mut call) => {
            let typed = calls::type_parameters(&mut call)
                | calls::without_blanks(&mut call, schema)
                | calls::printed_in_json(&mut call, schema)?
                | super::records::rank_fields(&mut call, schema);
            let resolved = quantified::resolve(call, schema)?;
            match resolved.data {
                Expr::ScalarFunction(call) if !resolved.transformed => {
                    let mut resolved = common::resolve(call, schema)?;
                    resolved.transformed |= typed;
                    Ok(resolved)
                }
                other => Ok(Transformed::yes(other)),
            }
        }
        Expr::AggregateFunction(mut call) => {
            let cut =
                call.func.name() == "string_agg" && calls::texts_of(&mut call.params.args, schema);
            enums::order_by(&mut call.params.order_by, schema);
            let swapped = cut
                | super::aggregates::compute(&mut call.func, &call.params.args, schema)
                | measures::order(&mut call.params.order_by, schema)?;
            let mut changed =
                swapped | super::aggregates::widen(call.func.name(), &mut call.params.args, schema);
            if call.params.distinct && call.func.name() == "count" {
                changed |= measures::measure_all(&mut call.params.args, schema)?
                    | zeros::one_zero(&mut call.params.args, schema);
            }
            let is_measured = |arg: &Expr| measures::is_measured(arg, schema);
            if call.params.distinct && call.params.args.iter().any(is_measured) {
                // DataFusion would group by what it takes for distinct, where there is no condition.
                call.params.filter.get_or_insert_with(|| Box::new(lit(true)));
                changed = true;
            }
            Ok(mark(Expr::AggregateFunction(call), changed))
        }
        Expr::WindowFunction(mut call) => {
            super::windows::refuse_frame(&call.params.window_frame)?;
            let typed = super::windows::type_arguments(&mut call, schema)?;
            enums::order_by(&mut call.params.order_by, schema);
            let name = call.fun.name().to_owned();
            let swapped = match &mut call.fun {
                WindowFunctionDefinition::AggregateUDF(function) => {
                    super::aggregates::compute(function, &call.params.args, schema)
                }
                WindowFunctionDefinition::WindowUDF(_) => false,
            };
            let swapped = typed
                | swapped
                | measures::order(&mut call.params.order_by, schema)?
                | measures::measure_all(&mut call.params.partition_by, schema)?
                | zeros::one_zero(call.params.order_by.iter_mut().map(|key| &mut key.expr), schema)
                | zeros::one_zero(&mut call.params.partition_by, schema);
            let changed = swapped | super::aggregates::widen(&name, &mut call.params.args, schema);
            Ok(mark(Expr::WindowFunction(call), changed))
        }
        Expr::Case(case) if operators::has_unpadded(&case, schema) => {
            let case = Expr::Case(operators::pad_branches(case, schema));
            rewrite_expr(case, schema).map(|done| Transformed::yes(done.data))
        }
        Expr::Case(case) if common::is_measured_case(&case, schema) => {
            rewrite_expr(common::searched(case), schema).map(|done| Transformed::yes(done.data))
        }
        Expr::Case(mut case) => {
            common::compared_in_case(&mut case, schema)?;
            match common::branches(&mut case, schema)? {
                Some(ty) => Ok(Transformed::yes(common::marked_case(case, ty, schema))),
                None => Ok(Transformed::no(Expr::Case(case))),
            }
        }
        node => Ok(Transformed::no(node)),
    })
}

/// `x IN (a, b)` as `x = a OR x = b`: of lists that read columns DataFusion's optimizer believes that what
/// is written differently has different values.
fn each_compared(list: InList) -> Expr {
    let InList { expr, list, negated } = list;
    let compared = list.into_iter().map(|item| match negated {
        true => (*expr).clone().not_eq(item),
        false => (*expr).clone().eq(item),
    });
    let both = if negated { Expr::and } else { Expr::or };
    compared.reduce(both).unwrap_or_else(|| lit(negated))
}

fn mark(expr: Expr, changed: bool) -> Transformed<Expr> {
    if changed { Transformed::yes(expr) } else { Transformed::no(expr) }
}

pub(super) fn rewrite_cast(cast: Cast, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let target = sql_type_of_field(&cast.field);
    let Cast { expr, field } = cast;
    // A scale that DataFusion has found for the values of several rows.
    if let (oids::NUMERIC, DataType::Decimal128(..)) = (target.oid, field.data_type())
        && target.modifier < 4
    {
        return Ok(Transformed::no(Expr::Cast(Cast::new_from_field(expr, field))));
    }
    match *expr {
        Expr::Placeholder(Placeholder { id, field: None }) => {
            let typed = Expr::Placeholder(Placeholder { id, field: Some(field) });
            Ok(Transformed::yes(typed))
        }
        Expr::Literal(value, None) => match literal(&value, target)? {
            Some(converted) => Ok(Transformed::yes(converted)),
            None => cast_call(Expr::Literal(value, None), field, target, schema),
        },
        expr => cast_call(expr, field, target, schema),
    }
}

fn cast_call(
    expr: Expr,
    field: FieldRef,
    target: SqlType,
    schema: &DFSchema,
) -> Result<Transformed<Expr>> {
    let Ok(source) = field_of(&expr, schema) else {
        return Ok(Transformed::no(Expr::Cast(Cast::new_from_field(Box::new(expr), field))));
    };
    let from = sql_type_of_field(&source);
    if arrow_does_it(&source, from, &field, target) {
        // A field without a name says nothing of the type, and a varchar's would stay.
        let field = match (from.oid, target.oid) {
            (oids::VARCHAR, oids::TEXT) => Arc::new(field.as_ref().clone().with_name("text")),
            _ => field,
        };
        return Ok(Transformed::no(Expr::Cast(Cast::new_from_field(Box::new(expr), field))));
    }
    if !possible(&source, from, target) {
        return Err(types::cast::cannot_cast(&input::input_name(from), target).into());
    }
    Ok(Transformed::yes(call(expr, target)))
}

/// A call of the cast function.
pub fn call(expr: Expr, target: SqlType) -> Expr {
    let function = Arc::new(ScalarUDF::new_from_impl(CastFunction::to(target)));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![expr]))
}

fn possible(source: &Field, from: SqlType, target: SqlType) -> bool {
    let registered = |oid| matches!(oid, oids::OID | oids::XID) || types::names_objects(oid);
    let integer = |oid| matches!(oid, oids::INT2 | oids::INT4 | oids::INT8);
    source.data_type().is_null()
        || castable(from.oid, target.oid)
        || (registered(from.oid) || integer(from.oid))
            && (registered(target.oid) || integer(target.oid))
        || (types::element_oid(from.oid).is_some() && types::element_oid(target.oid).is_some())
}

/// Whether Arrow's cast gives PostgreSQL's result.
fn arrow_does_it(source: &Field, from: SqlType, field: &Field, target: SqlType) -> bool {
    use DataType::*;
    let has_length = match target.oid {
        oids::VARCHAR | oids::BPCHAR | oids::NUMERIC => target.modifier >= 4,
        _ => types::cast::has_length(target),
    };
    if types::names_objects(from.oid) != types::names_objects(target.oid) {
        return false;
    }
    // It makes a list of one value.
    let is_array = |ty: SqlType| types::element_oid(ty.oid).is_some();
    if is_array(target) && !is_array(from) {
        return source.data_type().is_null();
    }
    // Their values are texts that are made anew.
    let json = |oid| matches!(oid, oids::JSON | oids::JSONB | oids::JSONPATH);
    if (json(from.oid) || json(target.oid)) && from.oid != target.oid {
        return source.data_type().is_null();
    }
    // The blanks at the end of a char(n) are none of a text's.
    if from.oid == oids::BPCHAR && target.oid != oids::BPCHAR {
        return false;
    }
    // A row's text, which is no row.
    if from.oid == oids::RECORD && target.oid != oids::RECORD {
        return source.data_type().is_null();
    }
    // Arrow has one type for all of them, and would keep what it was.
    if matches!(from.oid, oids::NAME | oids::CHAR) && target.oid == oids::TEXT {
        return source.data_type().is_null();
    }
    match (source.data_type(), field.data_type()) {
        (Null, _) => true,
        (a, b) if a == b => match from.oid >= FIRST_USER_ID || target.oid >= FIRST_USER_ID {
            true => from == target,
            false => !has_length || (from == target),
        },
        (Int16, Int32 | Int64 | Float64) | (Int32, Int64 | Float64) | (Float32, Float64) => true,
        // Between local times and points in time stands the session's zone.
        (Timestamp(_, a), Timestamp(_, b)) => {
            a.is_some() == b.is_some() || Zone::current().is_utc()
        }
        (Date32, Timestamp(_, zone)) => zone.is_none() || Zone::current().is_utc(),
        _ => false,
    }
}

/// A literal of another type, converted now. `None` where that takes more than the literal.
pub fn literal(value: &ScalarValue, target: SqlType) -> Result<Option<Expr>, SqlError> {
    match target.oid {
        registered if types::names_objects(registered) => return Ok(None),
        users if users >= FIRST_USER_ID => return Ok(None),
        oids::NUMERIC if target.modifier < 4 => {
            if let ScalarValue::Utf8(Some(text)) = value {
                return Ok(Some(Expr::Literal(numeric::literal(text)?, None)));
            }
            if matches!(value, ScalarValue::Decimal128(..)) || value.data_type() == types::EXACT {
                return Ok(Some(Expr::Literal(value.clone(), None)));
            }
        }
        _ => {}
    }
    let converted = cast_scalar(value, target)?;
    let field = sql_field("", target, converted.data_type(), true);
    let metadata = (!field.metadata().is_empty()).then(|| FieldMetadata::from(field.as_ref()));
    Ok(Some(Expr::Literal(converted, metadata)))
}

/// A scalar in another type.
pub fn cast_scalar(value: &ScalarValue, target: SqlType) -> Result<ScalarValue, SqlError> {
    let map = crate::df_error::map_df_error;
    let array = value.to_array().map_err(map)?;
    let from = types::plain(types::oid_of_arrow(array.data_type()));
    let session = session_here().unwrap_or_else(|| Arc::new(NoSession));
    let cast = cast_any(&array, from, target, session.as_ref())?;
    ScalarValue::try_from_array(&cast, 0).map_err(map)
}

/// A cast as a function of one argument.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct CastFunction {
    oid: u32,
    modifier: i32,
    /// Of an enum type, when the cast was planned.
    labels: Option<Arc<[String]>>,
    signature: Signature,
}

impl CastFunction {
    /// To a type.
    pub fn to(target: SqlType) -> CastFunction {
        // Names of relations change, and are looked up when the cast is evaluated.
        let volatility = match target.oid {
            registered if types::names_objects(registered) => Volatility::Stable,
            _ => Volatility::Immutable,
        };
        CastFunction {
            oid: target.oid,
            modifier: target.modifier,
            labels: enums::labels_of(target.oid),
            signature: Signature::any(1, volatility),
        }
    }

    /// Whether what it makes of a text depends on which relations, types or schemas there are.
    pub fn looks_up_a_name(&self) -> bool {
        types::names_objects(self.oid)
    }

    /// Whether it makes exact numerics.
    pub fn is_to_exact(&self) -> bool {
        self.oid == oids::NUMERIC && self.modifier < 4
    }

    /// The type that it makes.
    pub(crate) fn oid(&self) -> u32 {
        self.oid
    }

    pub(crate) fn target(&self) -> SqlType {
        SqlType { oid: self.oid, modifier: self.modifier }
    }
}

impl ScalarUDFImpl for CastFunction {
    fn name(&self) -> &str {
        "cast"
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let inner = args.first().map(|a| a.schema_name().to_string()).unwrap_or_default();
        Ok(expr_names::bounded(format!("{inner}::{}", names::type_name(self.target()))))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        let arrow = types::arrow_of(self.target()).unwrap_or(DataType::Utf8View);
        // Each dimension but the first is a list around.
        let mut depth = 0;
        let mut given = given.first();
        while let (DataType::List(_), Some(DataType::List(item))) = (&arrow, given) {
            depth += 1;
            given = Some(item.data_type());
        }
        Ok((1..depth).fold(arrow, |arrow, _| DataType::new_list(arrow, true)))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let arrow = self.return_type(&[args.arg_fields[0].data_type().clone()])?;
        Ok(sql_field("cast", self.target(), arrow, args.arg_fields[0].is_nullable()))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let from = sql_type_of_field(&args.arg_fields[0]);
        let session = current_session(&args.config_options);
        let cast = |array: &ArrayRef| -> Result<ArrayRef> {
            let cast = cast_any(array, from, self.target(), session.as_ref())?;
            if let Some(labels) = &self.labels {
                let name = enums::name_in(session.as_ref(), self.oid);
                enums::check_array(&cast, labels, name.as_deref().unwrap_or("???"))?;
            }
            Ok(cast)
        };
        let run = |array: &ArrayRef| session.zone().run(|| cast(array));
        match &args.args[0] {
            ColumnarValue::Array(array) => run(array).map(ColumnarValue::Array),
            ColumnarValue::Scalar(scalar) => {
                let array = run(&scalar.to_array()?)?;
                ScalarValue::try_from_array(&array, 0).map(ColumnarValue::Scalar)
            }
        }
    }
}

/// An array in another type, explicitly.
pub fn cast_any(
    array: &ArrayRef,
    from: SqlType,
    target: SqlType,
    session: &dyn SessionFunctions,
) -> Result<ArrayRef, SqlError> {
    match target.oid {
        oids::OID | oids::XID => return to_oid(array, |text| input::oid(text).map(Some)),
        oids::REGCLASS => {
            return to_oid(array, |text| lookup::relation_oid(session, text).map(Some));
        }
        oids::REGTYPE => return to_oid(array, |text| lookup::type_oid(session, text).map(Some)),
        oids::REGNAMESPACE => {
            return to_oid(array, |text| lookup::schema_oid(session, text).map(Some));
        }
        oids::REGPROC => return to_oid(array, |text| lookup::function_oid(text).map(Some)),
        oids::REGPROCEDURE => {
            return to_oid(array, |text| lookup::procedure_oid(session, text).map(Some));
        }
        oids::REGROLE => return to_oid(array, |text| lookup::role_oid(session, text).map(Some)),
        oids::CHAR if array.data_type().is_integer() => return to_char(array),
        _ => {}
    }
    if from.oid == oids::JSONB && types::oid_of_arrow(array.data_type()) == oids::TEXT {
        let scalar = |oid| column_of_json(oid, target.modifier);
        if let Some(column) = scalar(target.oid) {
            return of_json(array, column, target);
        }
    }
    if let Some(element) = types::array::element_type(target) {
        return to_list(array, element, target);
    }
    let column = types::column_type_of(target.oid, target.modifier)
        .ok_or_else(|| types::cast::cannot_cast(&input::input_name(from), target))?;
    if column == ColumnType::Text && matches!(array.data_type(), DataType::UInt32) {
        let named = lookup::names_of(session, from.oid, array);
        return types::cast_array(&named, column, target, CastContext::Explicit);
    }
    if column == ColumnType::Text && matches!(array.data_type(), DataType::List(_)) {
        let text = text_array(array, from.oid);
        return types::cast_array(&text, column, target, CastContext::Explicit);
    }
    if from.oid == oids::BPCHAR && target.oid != oids::BPCHAR && array.data_type().is_string() {
        return types::cast_array(&trimmed(array), column, target, CastContext::Explicit);
    }
    types::cast_array(array, column, target, CastContext::Explicit)
}

/// Strings without the blanks that char(n) adds.
pub(super) fn trimmed(array: &ArrayRef) -> ArrayRef {
    let texts = (0..array.len()).map(|row| match cell_at(array.as_ref(), row) {
        Cell::Text(text) => Some(text.trim_end_matches(' ').to_owned()),
        _ => None,
    });
    Arc::new(texts.collect::<StringViewArray>())
}

/// The "char" of a number, which is one byte.
fn to_char(array: &ArrayRef) -> Result<ArrayRef, SqlError> {
    let chars = (0..array.len()).map(|row| {
        let number = match cell_at(array.as_ref(), row) {
            Cell::Int16(v) => i64::from(v),
            Cell::Int32(v) => i64::from(v),
            Cell::Int64(v) => v,
            _ => return Ok(None),
        };
        match u8::try_from(number).ok().filter(u8::is_ascii) {
            Some(0) => Ok(Some(String::new())),
            Some(byte) => Ok(Some(char::from(byte).to_string())),
            None => Err(SqlError::new(
                froglet_engine::SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                "\"char\" out of range",
            )),
        }
    });
    Ok(Arc::new(chars.collect::<Result<StringViewArray, SqlError>>()?))
}

fn arrow_cast(array: &ArrayRef, target: SqlType) -> Result<ArrayRef, SqlError> {
    let arrow = types::arrow_of(target)
        .ok_or_else(|| SqlError::unsupported(format!("a cast to {}", names::type_name(target))))?;
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(array, &arrow, &options).map_err(|e| crate::df_error::map_df_error(e.into()))
}

fn to_oid(
    array: &ArrayRef,
    of_text: impl Fn(&str) -> Result<Option<u32>, SqlError>,
) -> Result<ArrayRef, SqlError> {
    let mut builder = UInt32Builder::with_capacity(array.len());
    let range =
        || SqlError::new(froglet_engine::SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "OID out of range");
    for row in 0..array.len() {
        let oid = match cell_at(array.as_ref(), row) {
            Cell::Null => None,
            Cell::Oid(v) => Some(v),
            Cell::Int16(v) => Some(i32::from(v) as u32),
            Cell::Int32(v) => Some(v as u32),
            Cell::Int64(v) => Some(u32::try_from(v).map_err(|_| range())?),
            Cell::Text(text) => of_text(text)?,
            _ => return Err(types::cast::cannot_cast("this", types::plain(oids::OID))),
        };
        builder.append_option(oid);
    }
    Ok(Arc::new(builder.finish()))
}

/// How a scalar out of jsonb is stored; `None` for types that jsonb is not cast to.
fn column_of_json(oid: u32, modifier: i32) -> Option<ColumnType> {
    let numbers = [oids::INT2, oids::INT4, oids::INT8, oids::FLOAT4, oids::FLOAT8, oids::NUMERIC];
    let scalar = oid == oids::BOOL || numbers.contains(&oid);
    scalar.then(|| types::column_type_of(oid, modifier)).flatten()
}

/// Numbers and booleans of jsonb.
fn of_json(array: &ArrayRef, column: ColumnType, target: SqlType) -> Result<ArrayRef, SqlError> {
    let mut values = Vec::with_capacity(array.len());
    for row in 0..array.len() {
        let Cell::Text(text) = cell_at(array.as_ref(), row) else {
            values.push(Value::Null);
            continue;
        };
        let exact: Vec<u8>;
        let cell = match (json::read(text)?, column) {
            (Json::Bool(value), ColumnType::Bool) => Cell::Bool(value),
            (Json::Number(text), column) if column != ColumnType::Bool => {
                exact = numeric::parse_exact(&text)?.encode();
                Cell::Exact(&exact)
            }
            (other, _) => {
                let (kind, name) = (other.type_name(), names::type_name(target));
                return Err(SqlError::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!("cannot cast jsonb {kind} to type {name}"),
                ));
            }
        };
        values.push(types::cast::cast_cell(&cell, column, target, CastContext::Explicit)?);
    }
    Ok(types::array_of(column, &mut values.iter()))
}

/// The columns of a schema as they are computed with: those that are stored as an array's text are lists then, and
/// those of exact numerics have their own type.
pub fn computed(mut columns: Vec<ArrayRef>, schema: &Schema) -> Result<Vec<ArrayRef>, SqlError> {
    for (column, field) in columns.iter_mut().zip(schema.fields()) {
        if *field.data_type() == types::EXACT && *column.data_type() != types::EXACT {
            *column = types::as_computed(column, ColumnType::Numeric);
        }
        if matches!(field.data_type(), DataType::List(_)) && column.data_type().is_string() {
            let ty = sql_type_of_field(field);
            if let Some(element) = types::array::element_type(ty) {
                *column = to_list(column, element, ty)?;
            }
        }
    }
    Ok(columns)
}

fn to_list(array: &ArrayRef, element: SqlType, target: SqlType) -> Result<ArrayRef, SqlError> {
    // Element by element: Arrow's own cast truncates, and knows no lengths.
    if let Some(list) = array.as_list_opt::<i32>() {
        // An array of several dimensions is of the same type.
        if list.values().data_type().is_nested() {
            let values = to_list(list.values(), element, target)?;
            return Ok(numerics::list_of(list, values));
        }
        let from = types::plain(types::oid_of_arrow(list.values().data_type()));
        let values = cast_any(list.values(), from, element, &crate::context::NoSession)?;
        return Ok(numerics::list_of(list, values));
    }
    if array.data_type().is_null() {
        return arrow_cast(array, target);
    }
    if !array.data_type().is_string() {
        let from = types::plain(types::oid_of_arrow(array.data_type()));
        return Err(types::cast::cannot_cast(&input::input_name(from), target));
    }
    let map = |e: arrow::error::ArrowError| crate::df_error::map_df_error(e.into());
    let mut items = StringViewBuilder::new();
    let mut offsets = vec![0i32];
    let mut present = Vec::with_capacity(array.len());
    let mut count = 0;
    for row in 0..array.len() {
        let cell = cell_at(array.as_ref(), row);
        present.push(!matches!(cell, Cell::Null));
        if let Cell::Text(text) = cell {
            let found = match target.oid {
                // A vector is written without braces.
                oids::INT2VECTOR | oids::OIDVECTOR => {
                    text.split_whitespace().map(|item| Some(item.to_owned())).collect()
                }
                _ => input::array_items(text)?,
            };
            for item in found {
                items.append_option(item);
                count += 1;
            }
        }
        offsets.push(count);
    }
    let texts: ArrayRef = Arc::new(items.finish());
    let values = cast_any(&texts, types::plain(oids::TEXT), element, &crate::context::NoSession)?;
    let field = Arc::new(Field::new("item", values.data_type().clone(), true));
    let list = ListArray::try_new(
        field,
        arrow::buffer::OffsetBuffer::new(offsets.into()),
        values,
        Some(present.into()),
    )
    .map_err(map)?;
    Ok(Arc::new(list))
}

/// Whether a schema knows a column; for passes that see partial schemas.
pub fn knows(schema: &dyn ExprSchema, expr: &Expr) -> bool {
    expr.get_type(schema).is_ok()
}
