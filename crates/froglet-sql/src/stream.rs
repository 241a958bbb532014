//! What a statement hands back.
//!
//! A [`RowStream`] owns all that it needs (its read view above all), so that a portal may be
//! suspended and the session used for something else meanwhile.

use std::sync::Arc;

use arrow::array::RecordBatch;
use compact_str::{CompactString, ToCompactString};
use froglet_engine::{Row, Snapshot, Ts};
use froglet_txn::Limits;
use futures::StreamExt;
use futures::stream::BoxStream;

use crate::columnar::Unstarted;
use crate::copy::{CopyIn, CopyOut};
use crate::error::SqlError;
use crate::prepared::Field;

/// The outcome of a statement.
pub enum Outcome {
    /// A result.
    Rows(RowStream),
    /// A command tag.
    Done(Tag),
    /// COPY … FROM STDIN: feed it.
    CopyIn(Box<CopyIn>),
    /// COPY … TO STDOUT: drain it.
    CopyOut(Box<CopyOut>),
    /// There was no statement.
    Empty,
}

/// A command tag, as `UPDATE 3`. Short as these are, it takes no memory of its own.
pub type Tag = CompactString;

/// Some rows of a result.
#[derive(Debug)]
pub enum Rows {
    /// One by one, each in the order of the fields.
    Values(Vec<Row>),
    /// In columns, of the Arrow types of the fields.
    Batch(RecordBatch),
}

impl Rows {
    /// How many.
    pub fn len(&self) -> usize {
        match self {
            Rows::Values(rows) => rows.len(),
            Rows::Batch(batch) => batch.num_rows(),
        }
    }

    /// Some of them.
    pub(crate) fn slice(&self, offset: usize, length: usize) -> Rows {
        match self {
            Rows::Values(rows) => Rows::Values(rows[offset..offset + length].to_vec()),
            Rows::Batch(batch) => Rows::Batch(batch.slice(offset, length)),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The words before the number in a command tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TagKind {
    Select,
    Insert,
    Update,
    Delete,
    Merge,
    Fetch,
    /// SHOW, EXPLAIN: the word alone.
    Word(&'static str),
}

impl TagKind {
    pub(crate) fn with(self, rows: u64) -> Tag {
        let words = match self {
            TagKind::Select => "SELECT ",
            TagKind::Insert => "INSERT 0 ",
            TagKind::Update => "UPDATE ",
            TagKind::Delete => "DELETE ",
            TagKind::Merge => "MERGE ",
            TagKind::Fetch => "FETCH ",
            TagKind::Word(word) => return word.into(),
        };
        let mut tag = CompactString::const_new(words);
        match u8::try_from(rows) {
            // Formatting takes longer than the rest of many a statement.
            Ok(digit @ 0..10) => tag.push(char::from(b'0' + digit)),
            _ => tag.push_str(&rows.to_compact_string()),
        }
        tag
    }
}

enum Source {
    Ready(Option<Vec<Row>>),
    Chunks(std::vec::IntoIter<Rows>),
    Batches {
        stream: BoxStream<'static, Result<RecordBatch, SqlError>>,
        limits: Limits,
    },
    /// A query that nobody has asked for its rows yet.
    Unstarted(Box<Unstarted>),
    Failed,
}

/// A result under way.
pub struct RowStream {
    fields: Arc<[Field]>,
    source: Source,
    /// What a result still being computed reads under.
    view: Option<Arc<Snapshot>>,
    tag: TagKind,
    binary: bool,
}

impl RowStream {
    /// A result that is complete.
    pub(crate) fn ready(fields: Arc<[Field]>, rows: Vec<Row>, tag: TagKind) -> RowStream {
        let source = Source::Ready(Some(rows));
        RowStream { fields, source, view: None, tag, binary: false }
    }

    /// The rows of a result that is complete, once.
    pub fn take_ready(&mut self) -> Option<Rows> {
        match &mut self.source {
            Source::Ready(rows) => rows.take().map(Rows::Values),
            _ => None,
        }
    }

    /// A query as it is about to run.
    pub(crate) fn pinned(fields: Arc<[Field]>, query: Unstarted) -> RowStream {
        let view = Some(query.snapshot.clone());
        let source = Source::Unstarted(Box::new(query));
        RowStream { fields, source, view, tag: TagKind::Select, binary: false }
    }

    /// That query, if it has not begun to run.
    pub(crate) fn unstarted(mut self) -> Result<Unstarted, RowStream> {
        match std::mem::replace(&mut self.source, Source::Failed) {
            Source::Unstarted(query) => Ok(*query),
            source => Err(RowStream { source, ..self }),
        }
    }

    /// A result that is still being computed.
    pub(crate) fn batches(
        fields: Arc<[Field]>,
        stream: BoxStream<'static, Result<RecordBatch, SqlError>>,
        view: Arc<Snapshot>,
        limits: Limits,
    ) -> RowStream {
        let source = Source::Batches { stream, limits };
        RowStream { fields, source, view: Some(view), tag: TagKind::Select, binary: false }
    }

    /// The same under another tag.
    pub(crate) fn tagged(self, tag: TagKind) -> RowStream {
        RowStream { tag, ..self }
    }

    /// The newest possibly undurable commit that it has seen so far, if it is still being computed.
    pub(crate) fn seen(&self) -> Ts {
        self.view.as_ref().map_or(Ts(0), |view| view.newest_seen())
    }

    /// Rows that were fetched; of a BINARY cursor, perhaps.
    pub(crate) fn chunks(
        fields: Arc<[Field]>,
        rows: Vec<Rows>,
        tag: TagKind,
        binary: bool,
    ) -> RowStream {
        let source = Source::Chunks(rows.into_iter());
        RowStream { fields, source, view: None, tag, binary }
    }

    /// Whether a simple query shows them in the binary format.
    pub fn binary(&self) -> bool {
        self.binary
    }

    /// The columns.
    pub fn fields(&self) -> &Arc<[Field]> {
        &self.fields
    }

    /// The next rows; `None` after the last, and after an error.
    pub async fn next(&mut self) -> Option<Result<Rows, SqlError>> {
        if let Source::Unstarted(query) = &self.source {
            let limits = query.time.begin();
            match query.start(&limits) {
                Ok(stream) => self.source = Source::Batches { stream, limits },
                Err(e) => {
                    self.source = Source::Failed;
                    return Some(Err(e));
                }
            }
        }
        let outcome = match &mut self.source {
            Source::Ready(rows) => {
                return rows
                    .take()
                    .filter(|rows| !rows.is_empty())
                    .map(|rows| Ok(Rows::Values(rows)));
            }
            Source::Chunks(rows) => return rows.next().map(Ok),
            Source::Unstarted(_) | Source::Failed => return None,
            Source::Batches { stream, limits } => tokio::select! {
                biased;
                e = limits.exceeded() => Err(e.into()),
                batch = stream.next() => batch?,
            },
        };
        if outcome.is_err() {
            self.source = Source::Failed;
        }
        Some(outcome.map(Rows::Batch))
    }

    /// The command tag after `rows` rows were handed out.
    pub fn tag(&self, rows: u64) -> Tag {
        self.tag.with(rows)
    }
}

impl std::fmt::Debug for RowStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RowStream({} columns)", self.fields.len())
    }
}
