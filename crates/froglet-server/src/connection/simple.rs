//! The simple protocol: a text with any number of statements, in one implicit transaction unless
//! they say otherwise.

use std::pin::pin;

use froglet_sql::{Outcome, ParsedStatement, RowStream, Tag};

use super::rows::{Formats, describe, write_row};
use super::{Connection, Stop};

impl Connection {
    /// A Query message.
    pub(super) async fn query(&mut self, text: &str) -> Result<(), Stop> {
        #[cfg(test)]
        assert_ne!(text, super::tests::PANIC, "a panic was asked for");
        self.unnamed = None;
        self.portals.remove("");
        if let Some((prepared, values)) = self.session.recall(text) {
            self.session.set_last(true);
            let outcome = self.run_statement(&prepared, values).await?;
            self.answer(outcome, true).await?;
            self.end_implicit(true).await?;
            return Ok(self.ready().await?);
        }
        let statements = match self.session.split(text) {
            Ok(statements) => statements,
            Err(error) => {
                self.session.note_failure();
                return Err(error.into());
            }
        };
        if statements.is_empty() {
            self.channel.output.empty_query();
        }
        let last = statements.len().saturating_sub(1);
        for (i, statement) in statements.iter().enumerate() {
            self.session.set_last(i == last);
            self.simple_statement(statement, i == last).await?;
        }
        self.end_implicit(true).await?;
        Ok(self.ready().await?)
    }

    async fn simple_statement(
        &mut self,
        statement: &ParsedStatement,
        last: bool,
    ) -> Result<(), Stop> {
        if let Some((name, count)) = statement.moves_forward()
            && self.portals.get(name).is_some()
        {
            let moved = self.move_portal(name, count).await?;
            return self.answer(Outcome::Done(moved), last).await;
        }
        let outcome = self.channel.watch(&self.cancel, pin!(self.session.simple(statement))).await;
        self.answer(outcome?, last).await
    }

    /// Sends what a statement came to.
    async fn answer(&mut self, outcome: Outcome, last: bool) -> Result<(), Stop> {
        let tag = match outcome {
            Outcome::Rows(stream) => self.all_rows(stream).await?,
            Outcome::Done(tag) => tag,
            Outcome::CopyIn(copy) => self.copy_in(*copy).await?,
            Outcome::CopyOut(copy) => self.copy_out(*copy).await?,
            Outcome::Empty => {
                self.channel.output.empty_query();
                return Ok(());
            }
        };
        if last {
            // The client may not read of success before the commit.
            self.drop_portals_when_idle();
            pin!(self.session.finish_implicit(true)).await?;
        }
        self.complete(&tag);
        Ok(())
    }

    /// Describes and sends a whole result. Returns its tag.
    async fn all_rows(&mut self, mut stream: RowStream) -> Result<Tag, Stop> {
        let fields = stream.fields().clone();
        let formats = Formats::all(stream.binary());
        let zone = self.session.zone();
        describe(&mut self.channel.output, &fields, &formats);
        let mut sent = 0;
        while let Some(rows) = self.next_rows(&mut stream).await? {
            for row in 0..rows.len() {
                let output = &mut self.channel.output;
                let written = zone.run(|| write_row(output, &rows, row, &fields, &formats));
                written.map_err(|e| self.session.failed(e))?;
                if output.is_large() {
                    self.flush().await?;
                }
            }
            sent += rows.len() as u64;
        }
        Ok(stream.tag(sent))
    }
}
