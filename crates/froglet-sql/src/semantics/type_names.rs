//! Type names in casts, as PostgreSQL writes them. The SQL type goes into the field's metadata.

use arrow::datatypes::FieldRef;
use datafusion::error::Result;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::sqlparser::ast::DataType as Ast;

use crate::error::SqlError;
use crate::types;

/// Plans every type name.
#[derive(Debug)]
pub struct TypeNames;

impl TypePlanner for TypeNames {
    fn plan_type_field(&self, ast: &Ast) -> Result<Option<FieldRef>> {
        let ty = types::names::parse_sql_type(ast)?;
        let arrow = types::arrow_of(ty)
            .ok_or_else(|| SqlError::unsupported(format!("a cast to {}", types::type_name(ty))))?;
        Ok(Some(types::sql_field("", ty, arrow, true)))
    }
}
