//! A parameter in a compiled expression: reads the value that is in place when it is evaluated.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;

use crate::context::current_param;

/// `$n` as a physical expression.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ParamExpr {
    /// From 0.
    pub index: usize,
    /// What its value will be.
    pub field: FieldRef,
}

impl fmt::Display for ParamExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "${}", self.index + 1)
    }
}

impl PhysicalExpr for ParamExpr {
    fn data_type(&self, _schema: &Schema) -> Result<DataType> {
        Ok(self.field.data_type().clone())
    }

    fn nullable(&self, _schema: &Schema) -> Result<bool> {
        Ok(true)
    }

    fn evaluate(&self, _batch: &RecordBatch) -> Result<ColumnarValue> {
        current_param(self.index).map(ColumnarValue::Scalar)
    }

    fn return_field(&self, _schema: &Schema) -> Result<FieldRef> {
        Ok(self.field.clone())
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        Vec::new()
    }

    fn with_new_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(self)
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
