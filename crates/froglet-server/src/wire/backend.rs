//! Answers, appended to a connection's write buffer.
//!
//! Messages that a busy connection sends by the thousand are written in place, their length filled
//! in at the end; the others are pgwire's.
//!
//! ```text
//!   sent │ settled, may be sent │ written, rests on commits that may not be durable │ half a message
//!        0                   settled                                              whole
//! ```
//! **[O1]** Bytes leave a connection only if everything they rest on is durable. Nobody but this buffer gives
//! bytes to a socket, and it gives those below the settled mark only; the mark moves when whoever wrote
//! them has waited, and never back. What lies above it when the log fails is cut off.

use bytes::{BufMut, BytesMut};
use froglet_engine::SqlState;
use froglet_sql::{Notice, SqlError, TransactionStatus};
use pgwire::messages::Message;
use pgwire::messages::data::ParameterDescription;
use pgwire::messages::response::{ErrorResponse, NoticeResponse};
use pgwire::messages::startup::{Authentication, NegotiateProtocolVersion, ParameterStatus};

/// Beyond this much the buffer is sent even in the middle of an answer.
pub const FLUSH_BYTES: usize = 64 << 10;
/// A buffer that has grown beyond this is given back once it is empty.
const KEEP_BYTES: usize = 256 << 10;

/// What waits to be sent.
#[derive(Debug, Default)]
pub struct Output {
    buffer: Vec<u8>,
    /// Up to here the buffer holds whole messages.
    whole: usize,
    /// Up to here they may be sent [O1].
    settled: usize,
}

impl Output {
    /// The bytes that may be sent [O1].
    pub fn to_send(&self) -> &[u8] {
        &self.buffer[..self.settled]
    }

    /// How many bytes wait, whether they may be sent or not.
    pub fn waiting(&self) -> usize {
        self.buffer.len()
    }

    /// Everything that the first `n` bytes rest on is durable.
    pub fn settle(&mut self, n: usize) {
        assert!(n <= self.whole, "half a message is sent");
        self.settled = self.settled.max(n);
    }

    /// The same of all that is written: it rests on nothing that could be lost, or that is durable by now.
    pub fn settle_all(&mut self) {
        self.settle(self.buffer.len());
    }

    /// Drops what rests on commits that may never become durable.
    pub fn cut_to_settled(&mut self) {
        self.buffer.truncate(self.settled);
        self.whole = self.settled;
    }

    /// Whether it is time to send although the answer is not complete.
    pub fn is_large(&self) -> bool {
        self.buffer.len() >= FLUSH_BYTES
    }

    fn clear(&mut self) {
        if self.buffer.capacity() > KEEP_BYTES {
            self.buffer = Vec::new();
        }
        self.buffer.clear();
        self.whole = 0;
        self.settled = 0;
    }

    /// The first `n` bytes were sent.
    pub fn sent(&mut self, n: usize) {
        assert!(n <= self.settled, "bytes were sent that rest on what is not durable");
        if n == self.buffer.len() {
            return self.clear();
        }
        self.buffer.drain(..n);
        self.whole -= n;
        self.settled -= n;
    }

    /// Whether all that is written may be sent.
    pub fn is_settled(&self) -> bool {
        self.settled == self.buffer.len()
    }

    /// Drops a message that was not finished.
    pub fn cut_to_whole(&mut self) {
        self.buffer.truncate(self.whole);
    }

    /// Writes one message: `body` appends to the buffer.
    pub fn message<E>(
        &mut self,
        kind: u8,
        body: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let start = self.buffer.len();
        self.buffer.put_slice(&[kind, 0, 0, 0, 0]);
        if let Err(e) = body(&mut self.buffer) {
            self.buffer.truncate(start);
            return Err(e);
        }
        let length = self.buffer.len() - start - 1;
        let length = u32::try_from(length).expect("a message is far shorter than 4 GiB");
        self.buffer[start + 1..start + 5].copy_from_slice(&length.to_be_bytes());
        self.whole = self.buffer.len();
        Ok(())
    }

    fn bare(&mut self, kind: u8) {
        self.buffer.put_slice(&[kind, 0, 0, 0, 4]);
        self.whole = self.buffer.len();
    }

    fn put(&mut self, message: &impl Message) {
        let mut bytes = BytesMut::new();
        match message.encode(&mut bytes) {
            Ok(()) => self.buffer.put_slice(&bytes),
            // Longer than the protocol lets such a message be.
            Err(e) => debug_assert!(false, "a message of the server's own: {e}"),
        }
        self.whole = self.buffer.len();
    }

    /// ParseComplete.
    pub fn parse_complete(&mut self) {
        self.bare(b'1');
    }

    /// BindComplete.
    pub fn bind_complete(&mut self) {
        self.bare(b'2');
    }

    /// CloseComplete.
    pub fn close_complete(&mut self) {
        self.bare(b'3');
    }

    /// NoData.
    pub fn no_data(&mut self) {
        self.bare(b'n');
    }

    /// PortalSuspended.
    pub fn portal_suspended(&mut self) {
        self.bare(b's');
    }

    /// EmptyQueryResponse.
    pub fn empty_query(&mut self) {
        self.bare(b'I');
    }

    /// CopyDone.
    pub fn copy_done(&mut self) {
        self.bare(b'c');
    }

    /// CommandComplete.
    pub fn command_complete(&mut self, tag: &str) {
        self.infallible(b'C', |body| {
            body.put_slice(tag.as_bytes());
            body.put_u8(0);
        });
    }

    /// ReadyForQuery.
    pub fn ready_for_query(&mut self, status: TransactionStatus) {
        let status = match status {
            TransactionStatus::Idle => b'I',
            TransactionStatus::InTransaction => b'T',
            TransactionStatus::Failed => b'E',
        };
        self.infallible(b'Z', |body| body.put_u8(status));
    }

    /// CopyData.
    pub fn copy_data(&mut self, data: &[u8]) {
        self.infallible(b'd', |body| body.put_slice(data));
    }

    /// CopyInResponse (`G`) or CopyOutResponse (`H`).
    pub fn copy_response(&mut self, kind: u8, binary: bool, columns: usize) {
        let columns = u16::try_from(columns).expect("a table has at most 1600 columns");
        self.infallible(kind, |body| {
            body.put_u8(u8::from(binary));
            body.put_u16(columns);
            for _ in 0..columns {
                body.put_u16(u16::from(binary));
            }
        });
    }

    /// Writes one message that cannot fail.
    pub fn infallible(&mut self, kind: u8, body: impl FnOnce(&mut Vec<u8>)) {
        let result: Result<(), std::convert::Infallible> = self.message(kind, |buffer| {
            body(buffer);
            Ok(())
        });
        let Ok(()) = result;
    }

    /// ParameterDescription.
    pub fn parameter_description(&mut self, oids: Vec<u32>) {
        self.put(&ParameterDescription::new(oids));
    }

    /// AuthenticationOk.
    pub fn authentication_ok(&mut self) {
        self.put(&Authentication::Ok);
    }

    /// AuthenticationSASL: these mechanisms, the best one first.
    pub fn sasl(&mut self, mechanisms: &[&str]) {
        self.infallible(b'R', |body| {
            body.put_i32(10);
            for mechanism in mechanisms {
                body.put_slice(mechanism.as_bytes());
                body.put_u8(0);
            }
            body.put_u8(0);
        });
    }

    /// AuthenticationSASLContinue (11) and AuthenticationSASLFinal (12).
    pub fn sasl_step(&mut self, kind: i32, data: &str) {
        self.infallible(b'R', |body| {
            body.put_i32(kind);
            body.put_slice(data.as_bytes());
        });
    }

    /// The one-byte answer to an encryption request: yes, by TLS.
    pub fn encryption_accepted(&mut self) {
        self.buffer.put_u8(b'S');
        self.whole = self.buffer.len();
    }

    /// ParameterStatus.
    pub fn parameter_status(&mut self, name: &str, value: &str) {
        self.put(&ParameterStatus::new(name.to_owned(), value.to_owned()));
    }

    /// BackendKeyData.
    pub fn backend_key_data(&mut self, process: i32, secret: i32) {
        self.infallible(b'K', |body| {
            body.put_i32(process);
            body.put_i32(secret);
        });
    }

    /// NegotiateProtocolVersion: 3.0 is what there is, and these options are not known.
    pub fn negotiate_protocol_version(&mut self, unknown_options: Vec<String>) {
        self.put(&NegotiateProtocolVersion::new(3 << 16, unknown_options));
    }

    /// The one-byte answer to an encryption request: no.
    pub fn encryption_declined(&mut self) {
        self.buffer.put_u8(b'N');
        self.whole = self.buffer.len();
    }

    /// ErrorResponse.
    pub fn error(&mut self, error: &SqlError) {
        self.put(&ErrorResponse::new(error_fields(error)));
    }

    /// NotificationResponse.
    pub fn notification(&mut self, process: i32, channel: &str, payload: &str) {
        self.infallible(b'A', |body| {
            body.put_i32(process);
            for text in [channel, payload] {
                body.put_slice(text.as_bytes());
                body.put_u8(0);
            }
        });
    }

    /// NoticeResponse.
    pub fn notice(&mut self, notice: &Notice) {
        let mut fields = head(notice.severity, notice.state, &notice.message);
        optional(&mut fields, b'D', notice.detail.as_deref());
        optional(&mut fields, b'H', notice.hint.as_deref());
        self.put(&NoticeResponse::new(fields));
    }
}

fn error_fields(error: &SqlError) -> Vec<(u8, String)> {
    let severity = if error.fatal { "FATAL" } else { "ERROR" };
    let mut fields = head(severity, error.state, &error.message);
    optional(&mut fields, b'D', error.detail.as_deref());
    optional(&mut fields, b'H', error.hint.as_deref());
    optional(&mut fields, b'W', error.context.as_deref());
    if let Some(position) = error.position {
        fields.push((b'P', position.to_string()));
    }
    if let Some(inner) = &error.inner
        && let Some(position) = inner.position
    {
        fields.push((b'p', position.to_string()));
        optional(&mut fields, b'q', Some(&inner.text));
    }
    if let Some(table) = &error.table {
        let (schema, table) = table.split_once('.').unwrap_or(("public", table));
        optional(&mut fields, b's', Some(schema));
        optional(&mut fields, b't', Some(table));
    }
    optional(&mut fields, b'c', error.column.as_deref());
    optional(&mut fields, b'n', error.constraint.as_deref());
    // By the name of PostgreSQL's routine drivers know that they may prepare the statement again.
    let is_stale = error.message == "cached plan must not change result type";
    optional(&mut fields, b'R', is_stale.then_some("RevalidateCachedQuery"));
    fields
}

fn head(severity: &str, state: SqlState, message: &str) -> Vec<(u8, String)> {
    let mut fields = Vec::with_capacity(8);
    optional(&mut fields, b'S', Some(severity));
    optional(&mut fields, b'V', Some(severity));
    optional(&mut fields, b'C', Some(state.as_str()));
    optional(&mut fields, b'M', Some(message));
    fields
}

/// Fields are zero-terminated: a zero inside (of a value quoted, say) would end the field early.
fn optional(fields: &mut Vec<(u8, String)>, code: u8, text: Option<&str>) {
    if let Some(text) = text {
        fields.push((code, text.replace('\0', "\\0")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_given_up_leaves_no_trace() {
        let mut output = Output::default();
        output.command_complete("SELECT 1");
        let before = output.buffer.clone();
        assert_eq!(before, b"C\0\0\0\x0dSELECT 1\0");
        let result = output.message(b'D', |body| {
            body.put_u16(3);
            Err("no")
        });
        assert_eq!(result, Err("no"));
        assert_eq!(output.buffer, before);
    }

    #[test]
    fn nothing_above_the_settled_mark_is_given_away() {
        let mut output = Output::default();
        output.parse_complete();
        assert_eq!(output.to_send(), b"");
        output.settle_all();
        output.command_complete("INSERT 0 1");
        assert_eq!(output.to_send(), b"1\0\0\0\x04");
        output.sent(2);
        assert_eq!(output.to_send(), b"\0\0\x04");
        output.cut_to_settled();
        assert_eq!(output.buffer, b"\0\0\x04");
        output.bind_complete();
        output.settle_all();
        output.sent(8);
        assert_eq!((output.waiting(), output.to_send()), (0, &b""[..]));
    }

    #[test]
    #[should_panic(expected = "not durable")]
    fn what_is_not_settled_cannot_have_been_sent() {
        let mut output = Output::default();
        output.parse_complete();
        output.sent(1);
    }

    #[test]
    fn an_error_has_its_fields_in_order() {
        let mut error = SqlError::new(SqlState::UNIQUE_VIOLATION, "dup\0licate").detail("d").at(7);
        error.table = Some("t".to_owned());
        error.constraint = Some("t_pkey".to_owned());
        let mut output = Output::default();
        output.error(&error);
        assert_eq!(
            &output.buffer[5..],
            b"SERROR\0VERROR\0C23505\0Mdup\\0licate\0Dd\0P7\0spublic\0tt\0nt_pkey\0\0"
        );
    }
}
