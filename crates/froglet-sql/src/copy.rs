//! COPY … FROM STDIN.

use crate::error::SqlError;
use crate::session::Session;

/// A COPY that takes rows from the client.
pub struct CopyIn {
    columns: usize,
    binary: bool,
}

impl CopyIn {
    /// How many columns the client sends.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Whether it sends the binary format.
    pub fn binary(&self) -> bool {
        self.binary
    }

    /// CopyData. After an error the server drains the client and feeds no more.
    pub async fn feed(&mut self, session: &mut Session, data: &[u8]) -> Result<(), SqlError> {
        let _ = (session, data);
        unimplemented!()
    }

    /// CopyDone: the command tag.
    pub async fn finish(self, session: &mut Session) -> Result<String, SqlError> {
        let _ = session;
        unimplemented!()
    }

    /// CopyFail, or the client has gone.
    pub fn fail(self, session: &mut Session, message: &str) -> SqlError {
        let _ = (session, message);
        unimplemented!()
    }
}
