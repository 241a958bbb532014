//! Running a prepared statement.

use std::sync::Arc;

use froglet_engine::Value;

use crate::error::SqlError;
use crate::prepared::Prepared;
use crate::session::Session;
use crate::stream::Outcome;

pub(crate) async fn run(
    session: &mut Session,
    prepared: &Arc<Prepared>,
    params: Vec<Value>,
) -> Result<Outcome, SqlError> {
    let _ = (session, prepared, params);
    unimplemented!()
}
