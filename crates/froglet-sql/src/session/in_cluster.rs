//! What servers of a cluster would have to agree on beyond the rows: refused, rather than kept by each for itself.

use froglet_txn::TxnManager;

use crate::error::SqlError;

/// 0A000 on a server that shares its database with others.
pub(crate) fn refuse(manager: &TxnManager, what: &str) -> Result<(), SqlError> {
    match manager.engine().is_shared() {
        true => Err(SqlError::unsupported(format!("{what} on a server of a cluster"))),
        false => Ok(()),
    }
}
