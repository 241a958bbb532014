//! DataFusion's and Arrow's errors as PostgreSQL's.

use datafusion::error::DataFusionError;
use froglet_engine::SqlState;

use crate::error::SqlError;

/// An error of planning or execution.
pub fn map_df_error(e: DataFusionError) -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, e.to_string())
}
