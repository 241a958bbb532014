//! `ntile(n)`, of PostgreSQL's type: DataFusion's is unsigned.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::function::{PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::{
    PartitionEvaluator, Signature, Volatility, WindowUDF, WindowUDFImpl,
};
use datafusion::physical_expr::expressions::Literal;
use froglet_engine::SqlState;

use crate::error::SqlError;

/// The function.
pub fn function() -> Arc<WindowUDF> {
    let types = vec![DataType::Int64, DataType::Int32, DataType::Int16];
    let signature = Signature::uniform(1, types, Volatility::Immutable);
    Arc::new(WindowUDF::new_from_impl(Ntile { signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Ntile {
    signature: Signature,
}

impl WindowUDFImpl for Ntile {
    fn name(&self) -> &str {
        "ntile"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn partition_evaluator(
        &self,
        args: PartitionEvaluatorArgs,
    ) -> Result<Box<dyn PartitionEvaluator>> {
        let literal = args.input_exprs().first().and_then(|expr| expr.downcast_ref::<Literal>());
        let count = literal.and_then(|literal| literal.value().cast_to(&DataType::Int64).ok());
        match count {
            Some(ScalarValue::Int64(Some(count))) => match usize::try_from(count) {
                Ok(buckets @ 1..) => Ok(Box::new(Buckets { count: Some(buckets) })),
                _ => Err(SqlError::new(
                    SqlState::new("22014"),
                    "argument of ntile must be greater than zero",
                )
                .into()),
            },
            Some(_) => Ok(Box::new(Buckets { count: None })),
            None => Err(SqlError::unsupported("ntile of what is no constant").into()),
        }
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(args.name(), DataType::Int32, true)))
    }
}

#[derive(Debug)]
struct Buckets {
    /// NULL makes NULLs.
    count: Option<usize>,
}

impl PartitionEvaluator for Buckets {
    fn evaluate_all(&mut self, _values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let Some(count) = self.count else {
            return Ok(Arc::new(Int32Array::new_null(rows)));
        };
        // The first buckets have a row more where the rows do not go round.
        let (least, more) = (rows / count, rows % count);
        let sizes = (0..count.min(rows)).map(|at| least + usize::from(at < more));
        let numbers = sizes.zip(1..).flat_map(|(size, number)| std::iter::repeat_n(number, size));
        Ok(Arc::new(numbers.collect::<Int32Array>()))
    }
}
