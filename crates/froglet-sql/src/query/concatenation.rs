//! `a || b` of texts on the account: a long constant beside many rows makes many long values.
//!
//! DataFusion's operator is replaced when nothing looks at the expression any more but who runs it.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewBuilder};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::account::Room;
use crate::context::current_session;
use crate::udf::arguments;

/// The plan, with its texts put together on the account.
pub(crate) fn metered_plan(plan: Cow<'_, LogicalPlan>) -> Result<Cow<'_, LogicalPlan>> {
    let has_any = plan.exists(|node| {
        let mut found = false;
        node.apply_expressions(|expr| {
            found |= expr.exists(|expr| Ok(is_concatenation(expr)))?;
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        Ok(found)
    })?;
    if !has_any {
        return Ok(plan);
    }
    let metered = plan.into_owned().transform_down(|node| {
        let names = NamePreserver::new(&node);
        let schema = merge_schema(&node.inputs());
        node.map_expressions(|expr| {
            let name = names.save(&expr);
            Ok(metered(expr, &schema)?.update_data(|expr| name.restore(expr)))
        })
    });
    Ok(Cow::Owned(metered?.data))
}

fn is_concatenation(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryExpr(binary) if binary.op == Operator::StringConcat)
}

/// The expression, likewise.
pub(crate) fn metered(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    expr.transform_up(|expr| {
        let returns = is_concatenation(&expr).then(|| expr.get_type(schema)).transpose()?;
        Ok(match (expr, returns) {
            (Expr::BinaryExpr(BinaryExpr { left, right, .. }), Some(returns)) => {
                let signature = Signature::any(2, Volatility::Immutable);
                let function = ScalarUDF::new_from_impl(Concatenation { returns, signature });
                let call = ScalarFunction::new_udf(Arc::new(function), vec![*left, *right]);
                Transformed::yes(Expr::ScalarFunction(call))
            }
            (expr, _) => Transformed::no(expr),
        })
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Concatenation {
    returns: DataType,
    signature: Signature,
}

impl ScalarUDFImpl for Concatenation {
    fn name(&self) -> &str {
        "||"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _given: &[DataType]) -> Result<DataType> {
        Ok(self.returns.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let session = current_session(&args.config_options);
        let mut room = Room::new(session.as_ref());
        let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let views =
            |arg| cast(&arguments::array_once(arg)?, &DataType::Utf8View).map_err(Into::into);
        let views = args.args.iter().map(views).collect::<Result<Vec<ArrayRef>>>()?;
        let [left, right] = &views[..] else {
            return Err(crate::planning::internal("two operands"));
        };
        let mut made = StringViewBuilder::with_capacity(rows);
        let mut text = String::new();
        for row in 0..rows {
            let parts = (arguments::row_of(left, row), arguments::row_of(right, row));
            if left.is_null(parts.0) || right.is_null(parts.1) {
                made.append_null();
                continue;
            }
            text.clear();
            text.push_str(left.as_string_view().value(parts.0));
            let right = right.as_string_view().value(parts.1);
            room.grow(text.len() + right.len())?;
            text.push_str(right);
            made.append_value(&text);
        }
        let made: ArrayRef = Arc::new(made.finish());
        room.made(&made);
        let made = cast(&made, &self.returns)?;
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?),
            false => ColumnarValue::Array(made),
        })
    }
}
