//! COPY … FROM 'file'.
//!
//! ```text
//!   a thread: read, decode, cast ─▶ │ channel of two pieces │ ─▶ session: defaults, checks, insert
//! ```
//! A file of lines or tuples is what a client would have sent. A columnar file says itself which columns it has:
//! its rows come as values of the table's types already.

use std::fs::File;
use std::io::Read;

use arrow::array::{ArrayRef, RecordBatch};
use froglet_engine::{Row, SqlState, Value};
use tokio::sync::mpsc;

use super::columnar::{self, Matched};
use super::directory::{Place, file_error};
use super::ipc::IpcFile;
use super::options::{CopyOptions, Format};
use super::parquet::ParquetFile;
use super::progress::Progress;
use super::stdin::CopyIn;
use super::target::Target;
use super::threads::{CHANNEL_BATCHES, given_up, reading, unless};
use crate::bulk::BATCH_ROWS;
use crate::error::SqlError;
use crate::session::Session;
use crate::stream::Tag;
use crate::types::value_at;

/// What is read at once of a file of lines: so much is parsed before others of the session's loop have a turn.
const READ_BYTES: usize = 64 << 10;
/// Values of one piece take no more than this, or are one row.
const PIECE_BYTES: usize = 4 << 20;

pub(super) async fn run(
    session: &mut Session,
    target: Target,
    options: CopyOptions,
    place: Place,
    all: bool,
) -> Result<Tag, SqlError> {
    match options.format.is_of_rows() {
        true => lines(session, target, options, place).await,
        false => columns(session, target, options.format, place, all).await,
    }
}

async fn lines(
    session: &mut Session,
    target: Target,
    options: CopyOptions,
    place: Place,
) -> Result<Tag, SqlError> {
    let limits = target.limits().clone();
    let progress = target.progress.share();
    let (sender, mut receiver) = mpsc::channel(CHANNEL_BATCHES);
    let reader_ends = reading(move || read_bytes(&place, &progress, &sender));
    let mut copy = CopyIn::new(target, options);
    while let Some(piece) = unless(&limits, async { Ok(receiver.recv().await) }).await? {
        let piece: Vec<u8> = piece;
        copy.take(session, &piece, false).await?;
        tokio::task::yield_now().await;
    }
    reader_ends.await?;
    copy.take(session, &[], true).await?;
    Ok(copy.tag())
}

fn read_bytes(
    place: &Place,
    progress: &Progress,
    sender: &mpsc::Sender<Vec<u8>>,
) -> Result<(), SqlError> {
    let mut file = open(place, progress)?;
    loop {
        let mut piece = vec![0; READ_BYTES];
        let got = file.read(&mut piece).map_err(|e| file_error("read", &place.name, &e))?;
        if got == 0 {
            return Ok(());
        }
        piece.truncate(got);
        sender.blocking_send(piece).map_err(|_| given_up())?;
    }
}

fn open(place: &Place, progress: &Progress) -> Result<File, SqlError> {
    let file = place.read()?;
    let known = file.metadata().map_err(|e| file_error("read", &place.name, &e))?;
    progress.set_bytes_total(known.len());
    Ok(file)
}

/// A columnar file whose columns are known.
pub(super) enum Opened {
    Parquet(ParquetFile),
    Arrow(IpcFile),
}

/// Rows of a columnar file, in the table's types.
struct Piece {
    /// The number of the first, from 1.
    first: u64,
    rows: Vec<Row>,
}

async fn columns(
    session: &mut Session,
    mut target: Target,
    format: Format,
    place: Place,
    all: bool,
) -> Result<Tag, SqlError> {
    let limits = target.limits().clone();
    let progress = target.progress.share();
    let name = place.name.clone();
    let opened = unless(
        &limits,
        reading(move || {
            let file = open(&place, &progress)?;
            Ok(match format {
                Format::Parquet => Opened::Parquet(ParquetFile::open(file, place.name, progress)?),
                _ => Opened::Arrow(IpcFile::open(file, place.name, progress)?),
            })
        }),
    )
    .await?;
    let schema = match &opened {
        Opened::Parquet(file) => file.schema(),
        Opened::Arrow(file) => file.schema(),
    };
    let matched = columnar::match_columns(&name, schema, target.columns(), all)?;
    target.narrow(&matched.iter().map(|column| column.target).collect::<Vec<usize>>())?;
    let (sender, mut receiver) = mpsc::channel(CHANNEL_BATCHES);
    let reader = Reader { file: name.clone(), table: target.table().to_owned(), matched, sender };
    let reader_ends = reading(move || reader.run(opened));
    let place = |table: &str, row: u64| place_of(table, &name, row);
    while let Some(piece) = unless(&limits, async { Ok(receiver.recv().await) }).await? {
        let piece: Piece = piece;
        for (row, number) in piece.rows.into_iter().zip(piece.first..) {
            let completed = target.complete(row.into_iter().map(Ok));
            target.push(completed.map_err(|e| e.context(place(target.table(), number)))?, number);
        }
        target.flush(session, place).await?;
        tokio::task::yield_now().await;
    }
    reader_ends.await?;
    Ok(target.tag())
}

fn place_of(table: &str, file: &str, row: u64) -> String {
    format!("COPY {table}, file \"{file}\", row {row}")
}

/// The thread's side.
struct Reader {
    file: String,
    table: String,
    matched: Vec<Matched>,
    sender: mpsc::Sender<Piece>,
}

impl Reader {
    fn run(&self, opened: Opened) -> Result<(), SqlError> {
        let mut number = 1;
        let mut sources: Vec<usize> = self.matched.iter().map(|column| column.source).collect();
        sources.sort_unstable();
        let mut each = |batch: RecordBatch| {
            // In parts: casts make copies, and a batch of a file may have any number of rows.
            for start in (0..batch.num_rows()).step_by(BATCH_ROWS) {
                let length = BATCH_ROWS.min(batch.num_rows() - start);
                self.part(&batch.slice(start, length), &sources, number)?;
                number += length as u64;
            }
            Ok(())
        };
        match opened {
            Opened::Parquet(file) => file.batches(&sources, &mut each),
            Opened::Arrow(file) => file.batches(&sources, &mut each),
        }
    }

    /// Sends a part of a batch, whose first row has this number. Its columns are the `sources` of the file.
    fn part(&self, part: &RecordBatch, sources: &[usize], number: u64) -> Result<(), SqlError> {
        let mut arrays = Vec::with_capacity(self.matched.len());
        for column in &self.matched {
            let at = sources.binary_search(&column.source).expect("it is one of them");
            let array = part.column(at);
            let converted = column.convert(array);
            arrays.push(converted.map_err(|e| self.located(e, column, array, number))?);
        }
        let (mut first, mut rows, mut bytes) = (number, Vec::new(), 0);
        for at in 0..part.num_rows() {
            let values = arrays.iter().zip(&self.matched);
            let row: Row = values
                .map(|(array, column)| value_at(array.as_ref(), at, column.column_type()))
                .collect();
            bytes += row.iter().map(size).sum::<usize>();
            rows.push(row);
            if bytes >= PIECE_BYTES {
                let sent = rows.len() as u64;
                self.send(Piece { first, rows: std::mem::take(&mut rows) })?;
                (first, bytes) = (first + sent, 0);
            }
        }
        if rows.is_empty() { Ok(()) } else { self.send(Piece { first, rows }) }
    }

    fn send(&self, piece: Piece) -> Result<(), SqlError> {
        self.sender.blocking_send(piece).map_err(|_| given_up())
    }

    /// Says in which row a value is that cannot be cast.
    fn located(&self, e: SqlError, column: &Matched, array: &ArrayRef, number: u64) -> SqlError {
        let failing = |at: &usize| column.convert(&array.slice(*at, 1)).is_err();
        match (0..array.len()).find(failing) {
            Some(at) => {
                let place = place_of(&self.table, &self.file, number + at as u64);
                e.context(format!("{place}, column {}", column.name))
            }
            None => e,
        }
    }
}

fn size(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::Text(text) => text.len(),
            Value::Bytes(bytes) | Value::Numeric(bytes) => bytes.len(),
            _ => 0,
        }
}

/// 22P04: bytes that are no such file.
pub(super) fn malformed(file: &str, format: &str, why: impl std::fmt::Display) -> SqlError {
    SqlError::new(
        SqlState::BAD_COPY_FILE_FORMAT,
        format!("file \"{file}\" cannot be read as {format}: {why}"),
    )
}
