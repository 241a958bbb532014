//! The field of an expression: its type, and whether it may be NULL.
//!
//! DataFusion's [`ExprSchemable::to_field`] makes the name of the expression, too, and of each
//! argument of each call in it. Whoever wants the type alone asks here.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{Expr, ExprSchemable, Operator, ReturnFieldArgs};

/// Whether an expression is a condition, whatever its parts are.
fn is_condition(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(binary) => matches!(
            binary.op,
            Operator::And
                | Operator::Or
                | Operator::Eq
                | Operator::NotEq
                | Operator::Lt
                | Operator::LtEq
                | Operator::Gt
                | Operator::GtEq
        ),
        Expr::Not(_) | Expr::IsNull(_) | Expr::IsNotNull(_) | Expr::InList(_) => true,
        _ => false,
    }
}

/// An expression's field. Its name means nothing.
pub fn field_of(expr: &Expr, schema: &DFSchema) -> Result<FieldRef> {
    // DataFusion would look at all of a chain of ORs for each of them, and name it.
    if is_condition(expr) {
        return Ok(Arc::new(Field::new("", DataType::Boolean, true)));
    }
    let Expr::ScalarFunction(ScalarFunction { func, args }) = expr else {
        return Ok(expr.to_field(schema)?.1);
    };
    let given: Vec<FieldRef> =
        args.iter().map(|arg| field_of(arg, schema)).collect::<Result<_>>()?;
    let arg_fields = fields_with_udf(&given, func.as_ref())?;
    let literals = args.iter().map(|arg| match arg {
        Expr::Literal(value, _) => Some(value),
        _ => None,
    });
    let scalar_arguments: Vec<_> = literals.collect();
    func.return_field_from_args(ReturnFieldArgs {
        arg_fields: &arg_fields,
        scalar_arguments: &scalar_arguments,
    })
}

/// An expression's type in Arrow.
pub fn arrow_type_of(expr: &Expr, schema: &DFSchema) -> Result<DataType> {
    match expr {
        expr if is_condition(expr) => Ok(DataType::Boolean),
        Expr::ScalarFunction(_) => Ok(field_of(expr, schema)?.data_type().clone()),
        _ => expr.get_type(schema),
    }
}
