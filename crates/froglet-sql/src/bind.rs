//! Binding: from a parsed statement to a [`Prepared`].

use crate::error::SqlError;
use crate::parse::ParsedStatement;
use crate::prepared::Prepared;
use crate::session::Session;

pub(crate) async fn prepare(
    session: &mut Session,
    statement: &ParsedStatement,
    param_oids: &[u32],
) -> Result<Prepared, SqlError> {
    let _ = (session, statement, param_oids);
    unimplemented!()
}
