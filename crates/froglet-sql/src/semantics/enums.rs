//! Enum types in expressions: a value is its label, a text, and the order is that of the type's declaration.
//!
//! ```text
//!   m > 'ok'            froglet_enum_rank(m) > froglet_enum_rank('ok')     'ok' is one of the labels: 22P02
//!   ORDER BY m          ORDER BY froglet_enum_rank(m)
//! ```
//!
//! Labels are those of the catalog that a statement is planned under; a plan does not outlive it.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, StringViewArray};
use arrow::datatypes::{DataType, FieldRef, Int32Type};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{ScalarFunction, Sort as SortExpr};
use datafusion::logical_expr::{
    AggregateUDF, Between, BinaryExpr, ColumnarValue, Expr, LogicalPlan, Operator, ReturnFieldArgs,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::sql::sqlparser::ast::ObjectName;
use froglet_engine::SqlState;
use froglet_schema::def::FIRST_USER_ID;

use super::fields::field_of;
use crate::context::{SessionFunctions, session_here};
use crate::error::SqlError;
use crate::resolve::Names;
use crate::types::{self, plain, sql_field, sql_type_of_field};
use crate::udf::lookup::quote_ident;
use crate::udf::{extremes, ordered};

/// The labels of an enum type, in order.
pub(crate) fn labels_of(oid: u32) -> Option<Arc<[String]>> {
    if oid < FIRST_USER_ID {
        return None;
    }
    let catalog = session_here()?.catalog();
    let def = catalog.enum_type(oid)?;
    Some(def.labels.iter().map(|(_, label)| label.clone()).collect())
}

/// The type of arrays of an enum.
pub(crate) fn array_of(oid: u32) -> Option<u32> {
    session_here()?.catalog().enum_type(oid).map(|def| def.array)
}

/// The enum that a type has arrays of.
pub(crate) fn element_of(array: u32) -> Option<u32> {
    let catalog = session_here()?.catalog();
    catalog.enum_of(array).filter(|def| def.array == array).map(|def| def.id)
}

/// The enum type that a name means here.
pub(crate) fn type_named(name: &ObjectName) -> Option<u32> {
    let session = session_here()?;
    if let Some(id) = crate::stored_names::number_of(name) {
        return session.catalog().enum_type(id).map(|def| def.id);
    }
    let (catalog, path) = (session.catalog(), session.search_path());
    let found = Names { catalog: &catalog, path: &path }.enum_type(name).ok()?;
    found.map(|def| def.id)
}

/// The name of an enum type alone.
pub(crate) fn bare_name(oid: u32) -> Option<String> {
    Some(session_here()?.catalog().enum_of(oid)?.name.clone())
}

/// An enum type as errors call it.
pub(crate) fn type_name(oid: u32) -> Option<String> {
    name_in(&*session_here()?, oid)
}

/// The same, for a session.
pub(crate) fn name_in(session: &dyn SessionFunctions, oid: u32) -> Option<String> {
    let catalog = session.catalog();
    let def = catalog.enum_of(oid)?;
    // Another of the name may be found before it.
    let path = session.search_path();
    let is_there = |s: &&String| catalog.types.contains_key(&((*s).clone(), def.name.clone()));
    let name = match path.iter().find(is_there) == Some(&def.schema) {
        true => quote_ident(&def.name),
        false => format!("{}.{}", quote_ident(&def.schema), quote_ident(&def.name)),
    };
    Some(if def.array == oid { format!("{name}[]") } else { name })
}

/// 22P02 for a text that is none of the labels.
pub(crate) fn not_a_label(ty: &str, text: &str) -> SqlError {
    SqlError::new(
        SqlState::INVALID_TEXT_REPRESENTATION,
        format!("invalid input value for enum {ty}: \"{text}\""),
    )
}

/// 22P02 if a text of an array is none of the labels.
pub(crate) fn check_array(array: &ArrayRef, labels: &[String], ty: &str) -> Result<(), SqlError> {
    let Some(texts) = array.as_any().downcast_ref::<StringViewArray>() else { return Ok(()) };
    let unknown = texts.iter().flatten().find(|text| !labels.iter().any(|label| label == text));
    unknown.map_or(Ok(()), |text| Err(not_a_label(ty, text)))
}

/// The enum type of an expression.
fn enum_of(expr: &Expr, schema: &DFSchema) -> Option<u32> {
    let field = field_of(expr, schema).ok()?;
    let oid = sql_type_of_field(&field).oid;
    (oid >= FIRST_USER_ID && labels_of(oid).is_some()).then_some(oid)
}

/// A comparison with an enum goes by the order of labels; what is not equal to any label is an error.
pub(crate) fn compare(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if matches!(
                op,
                Eq | NotEq | IsDistinctFrom | IsNotDistinctFrom | Lt | LtEq | Gt | GtEq
            ) =>
        {
            let oid = enum_of(&left, schema).or_else(|| enum_of(&right, schema));
            let Some(oid) = oid else {
                return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })));
            };
            check_literal(&left, oid)?;
            check_literal(&right, oid)?;
            let (left, right) = match matches!(op, Lt | LtEq | Gt | GtEq) {
                true => (Box::new(rank(*left, oid)), Box::new(rank(*right, oid))),
                false => (left, right),
            };
            Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right })))
        }
        Expr::Between(Between { expr, negated, low, high }) => {
            let Some(oid) = enum_of(&expr, schema) else {
                return Ok(Transformed::no(Expr::Between(Between { expr, negated, low, high })));
            };
            check_literal(&low, oid)?;
            check_literal(&high, oid)?;
            let ranked = |expr: Box<Expr>| Box::new(rank(*expr, oid));
            let between =
                Between { expr: ranked(expr), negated, low: ranked(low), high: ranked(high) };
            Ok(Transformed::yes(Expr::Between(between)))
        }
        Expr::InList(list) => {
            if let Some(oid) = enum_of(&list.expr, schema) {
                list.list.iter().try_for_each(|item| check_literal(item, oid))?;
            }
            Ok(Transformed::no(Expr::InList(list)))
        }
        other => Ok(Transformed::no(other)),
    }
}

fn check_literal(expr: &Expr, oid: u32) -> Result<(), SqlError> {
    let Expr::Literal(
        ScalarValue::Utf8(Some(text))
        | ScalarValue::Utf8View(Some(text))
        | ScalarValue::LargeUtf8(Some(text)),
        _,
    ) = expr
    else {
        return Ok(());
    };
    match labels_of(oid) {
        Some(labels) if !labels.contains(text) => {
            Err(not_a_label(&types::type_name(plain(oid)), text))
        }
        _ => Ok(()),
    }
}

/// ORDER BY.
pub(crate) fn sort(plan: LogicalPlan, schema: &DFSchema) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Sort(mut sort) => {
            order_by(&mut sort.expr, schema);
            Ok(LogicalPlan::Sort(sort))
        }
        other => Ok(other),
    }
}

/// ORDER BY of a query, an aggregate or a window.
pub(crate) fn order_by(sorts: &mut [SortExpr], schema: &DFSchema) {
    for sort in sorts {
        if let Some(oid) = enum_of(&sort.expr, schema) {
            sort.expr = rank(std::mem::take(&mut sort.expr), oid);
        }
    }
}

/// An aggregate of an enum that goes by its order; `None` for other aggregates and arguments.
pub(crate) fn aggregate(
    function: &AggregateUDF,
    args: &[Expr],
    schema: &DFSchema,
) -> Option<Arc<AggregateUDF>> {
    let labels = labels_of(enum_of(args.first()?, schema)?)?;
    extremes::of_enum(function, labels.clone()).or_else(|| ordered::of_enum(function, labels))
}

/// Puts places in the places of those values that are of enum types; whether there were any.
pub(crate) fn rank_all(exprs: &mut [Expr], schema: &DFSchema) -> bool {
    let mut changed = false;
    for expr in exprs {
        if let Some(oid) = enum_of(expr, schema) {
            *expr = rank(std::mem::take(expr), oid);
            changed = true;
        }
    }
    changed
}

/// The place of a label among those of its type, from 1.
fn rank(expr: Expr, oid: u32) -> Expr {
    let labels = labels_of(oid).unwrap_or_else(|| Arc::from([]));
    let function = Rank { oid, labels, signature: Signature::any(1, Volatility::Immutable) };
    let function = Arc::new(ScalarUDF::new_from_impl(function));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![expr]))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Rank {
    oid: u32,
    labels: Arc<[String]>,
    signature: Signature,
}

impl ScalarUDFImpl for Rank {
    fn name(&self) -> &str {
        "froglet_enum_rank"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int32)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let nullable = args.arg_fields[0].is_nullable();
        Ok(sql_field(self.name(), plain(types::oids::INT4), DataType::Int32, nullable))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let array = args.args[0].clone().into_array(args.number_rows)?;
        let array = arrow::compute::cast(&array, &DataType::Utf8View)?;
        let place = |text: &str| -> Result<i32> {
            let found = self.labels.iter().position(|label| label == text);
            match found.and_then(|at| i32::try_from(at + 1).ok()) {
                Some(place) => Ok(place),
                None => Err(not_a_label(&types::type_name(plain(self.oid)), text).into()),
            }
        };
        let ranks = array.as_string_view().iter().map(|text| text.map(place).transpose());
        let ranks: ArrayRef = Arc::new(ranks.collect::<Result<Int32Array>>()?);
        debug_assert_eq!(ranks.as_primitive::<Int32Type>().len(), array.len());
        match is_scalar {
            true => ScalarValue::try_from_array(&ranks, 0).map(ColumnarValue::Scalar),
            false => Ok(ColumnarValue::Array(ranks)),
        }
    }
}
