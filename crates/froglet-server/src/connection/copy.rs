//! COPY between a table and the client.
//!
//! ```text
//!   in    CopyInResponse ▶   ◀ CopyData … ◀ CopyDone       ▶ tag
//!                            ◀ CopyData … ◀ CopyFail       ▶ error
//!   out   CopyOutResponse ▶  CopyData ▶ … CopyDone ▶ tag
//! ```
//! After an error of the server's the client goes on sending for a while: the main loop drops what
//! is left of the copy.

use std::pin::pin;

use bytes::BytesMut;
use froglet_engine::SqlState;
use froglet_sql::{CopyIn, CopyOut, SqlError, Tag};

use super::channel::End;
use super::{Connection, Stop};
use crate::wire::frontend::{self, Frontend};

impl Connection {
    /// COPY … FROM STDIN. Returns the tag.
    pub(super) async fn copy_in(&mut self, mut copy: CopyIn) -> Result<Tag, Stop> {
        let (binary, columns) = (copy.binary(), copy.columns());
        self.channel.output.copy_response(b'G', binary, columns);
        self.flush().await?;
        loop {
            let (kind, body) = match self.next_of_copy(&copy).await {
                Ok(message) => message,
                Err(stop) => {
                    copy.fail(&mut self.session, "the connection ended");
                    return Err(stop);
                }
            };
            match frontend::decode(kind, &body) {
                Ok(Frontend::CopyData(data)) => {
                    let work = pin!(copy.feed(&mut self.session, data));
                    self.channel.watch(&self.cancel, work).await?;
                }
                Ok(Frontend::CopyDone) => {
                    let work = pin!(copy.finish(&mut self.session));
                    return Ok(self.channel.watch(&self.cancel, work).await?);
                }
                Ok(Frontend::CopyFail(reason)) => {
                    return Err(copy.fail(&mut self.session, reason).into());
                }
                // A client that does not look what its Execute does may send these behind it.
                Ok(Frontend::Flush | Frontend::Sync) => {}
                Ok(_) => {
                    copy.fail(&mut self.session, "unexpected message");
                    let kind = char::from(kind);
                    // The message is lost and with it the client's and our common view.
                    return Err(End::fatal(
                        SqlState::PROTOCOL_VIOLATION,
                        format!("unexpected message type {kind:?} during COPY from stdin"),
                    )
                    .into());
                }
                Err(error) => {
                    copy.fail(&mut self.session, "malformed message");
                    return Err(SqlError::from(&error).into());
                }
            }
        }
    }

    /// The client's next message, or the error of a cancel request or a timeout.
    async fn next_of_copy(&mut self, copy: &CopyIn) -> Result<(u8, BytesMut), Stop> {
        tokio::select! {
            biased;
            message = self.channel.receive() => Ok(message?),
            e = copy.exceeded() => Err(e.into()),
        }
    }

    /// COPY … TO STDOUT. Returns the tag.
    pub(super) async fn copy_out(&mut self, mut copy: CopyOut) -> Result<Tag, Stop> {
        let (binary, columns) = (copy.binary(), copy.columns());
        self.channel.output.copy_response(b'H', binary, columns);
        while let Some(rows) = self.channel.watch(&self.cancel, pin!(copy.next())).await {
            let rows = match rows {
                Ok(rows) => rows,
                Err(error) => {
                    self.session.note_failure();
                    return Err(error.into());
                }
            };
            for row in rows.messages() {
                self.channel.output.copy_data(row);
                if self.channel.output.is_large() {
                    self.flush().await?;
                }
            }
        }
        self.channel.output.copy_done();
        Ok(copy.tag())
    }
}
