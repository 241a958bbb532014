//! An exchange that has arrived as a whole and has nothing to wait for.
//!
//! ```text
//!   input    [Bind "" of a statement][Describe ""]?[Execute "", all rows][Sync]?
//!                │
//!                ├─ run at once ──▶ BindComplete, rows, CommandComplete, ReadyForQuery
//!                └─ otherwise ────▶ nothing is taken: message by message, `extended.rs`
//! ```
//!
//! This is what libpq and most drivers send for a prepared statement. The messages stay in the
//! input until the statement has run, so whatever is out of the ordinary (a wrong value, a row
//! that somebody holds, an error) is found and told by the ordinary way.

use froglet_sql::{Outcome, TransactionStatus};

use super::extended::parameters;
use super::portal::{Portal, State};
use super::rows::{Formats, describe, write_row};
use super::{Connection, End, Stop};
use crate::wire::frame;
use crate::wire::frontend::{self, Bind, Frontend};

/// How far [`Connection::at_once`] has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Nothing was taken.
    None,
    /// The statement has run; Sync is not there, or has something to wait for.
    Executed,
    /// ReadyForQuery is written.
    Ready,
}

/// The messages of one statement, unnamed portal and all rows.
struct Exchange<'a> {
    bind: Bind<'a>,
    describe: bool,
    /// Without Sync.
    bytes: usize,
    sync: bool,
}

/// The message as it is sent.
pub(super) const SYNC: &[u8] = b"S\0\0\0\x04";

impl<'a> Exchange<'a> {
    fn at_front(input: &'a [u8]) -> Option<Exchange<'a>> {
        let (b'B', body, mut rest) = frame::peek(input)? else { return None };
        let describe = match frame::peek(rest)? {
            (b'D', b"P\0", after) => {
                rest = after;
                true
            }
            _ => false,
        };
        let (b'E', b"\0\0\0\0\0", rest) = frame::peek(rest)? else { return None };
        let Ok(Frontend::Bind(bind)) = frontend::decode(b'B', body) else { return None };
        let bytes = input.len() - rest.len();
        let unnamed = bind.portal.is_empty();
        unnamed.then(|| Exchange { bind, describe, bytes, sync: rest.starts_with(SYNC) })
    }
}

impl Connection {
    /// Answers an exchange, as far as that is possible without waiting. An error is one of its
    /// Execute.
    pub(super) fn at_once(&mut self) -> Result<Progress, Stop> {
        if self.skipping {
            return Ok(Progress::None);
        }
        let Some(exchange) = Exchange::at_front(self.channel.input()) else {
            return Ok(Progress::None);
        };
        let bind = &exchange.bind;
        let prepared = match bind.statement {
            "" => self.unnamed.as_ref(),
            name => self.session.statement_to_run(name),
        };
        let Some(prepared) = prepared.cloned() else { return Ok(Progress::None) };
        let columns = prepared.fields().map_or(0, |fields| fields.len());
        let Ok(formats) = Formats::of(bind, columns) else { return Ok(Progress::None) };
        let zone = self.session.zone();
        let Ok(mut values) = zone.run(|| parameters(bind, &prepared)) else {
            return Ok(Progress::None);
        };
        let before = self.session.status();
        let Some(outcome) = self.session.run_at_once(&prepared, &mut values) else {
            self.declined = true;
            return Ok(Progress::None);
        };
        let Exchange { describe: described, bytes, sync, .. } = exchange;
        self.channel.consume(bytes);
        let output = &mut self.channel.output;
        output.bind_complete();
        if described {
            match prepared.fields() {
                Some(fields) => describe(output, fields, &formats),
                None => output.no_data(),
            }
        }
        let (state, tag) = match outcome? {
            Outcome::Done(tag) => (State::Spent, tag),
            Outcome::Rows(mut stream) => {
                let rows = stream.take_ready().expect("what ran at once is complete");
                let written = zone.run(|| {
                    (0..rows.len()).try_for_each(|row| {
                        write_row(output, &rows, row, stream.fields(), &formats)
                    })
                });
                written.map_err(|e| self.session.failed(e))?;
                (State::Exhausted(stream.tag(0)), stream.tag(rows.len() as u64))
            }
            _ => unreachable!("nothing else runs at once"),
        };
        self.complete(&tag);
        let ended = self.session.status() == TransactionStatus::Idle;
        if before != TransactionStatus::Idle {
            self.drop_portals_when_idle();
        }
        if !(ended && (sync || before != TransactionStatus::Idle)) {
            self.portals.insert("", Portal { prepared, formats, state });
        }
        if sync && self.sync_at_once()? {
            return Ok(Progress::Ready);
        }
        Ok(Progress::Executed)
    }

    /// Sync, if the end of the implicit transaction has nothing to wait for.
    fn sync_at_once(&mut self) -> Result<bool, End> {
        self.drop_portals_when_idle();
        let Some(ended) = self.session.finish_implicit_at_once() else { return Ok(false) };
        self.channel.consume(SYNC.len());
        self.tell_end(ended)?;
        self.write_ready();
        Ok(true)
    }
}
