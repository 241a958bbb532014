//! COPY … TO 'file'.
//!
//! ```text
//!   session            batches ─▶ │ channel of two │ ─▶  a thread: format, write, … sync
//!     all batches sent, synced ◀──────────────────────  the file is complete, without its name
//!     what it rests on is durable
//!     rename ──────────────────────────────────────▶  the file has its name
//! ```
//! Whoever reads the file after a crash may find no row in it that the database has lost: it gets its name when
//! the newest commit that the query saw is durable.

use std::sync::Arc;

use arrow::array::RecordBatch;
use compact_str::format_compact;
use tokio::sync::mpsc;

use super::columnar::FileColumns;
use super::directory::{Place, Unfinished};
use super::options::CopyOptions;
use super::progress::Progress;
use super::read::Reading;
use super::rows::RowFormat;
use super::sink::Encoder;
use super::threads::{CHANNEL_BATCHES, given_up, unless, working};
use crate::error::SqlError;
use crate::session::Session;
use crate::stream::Tag;

/// What the thread is told. If the channel ends without an end, nobody wants the file.
enum Message {
    Batch(RecordBatch),
    End,
}

pub(super) async fn run(
    session: &mut Session,
    mut reading: Reading,
    options: CopyOptions,
    place: Place,
) -> Result<Tag, SqlError> {
    let limits = reading.limits.clone();
    let columns = match options.format.is_of_rows() {
        true => None,
        false => Some(FileColumns::new(&reading.fields, &reading.schema, options.format)?),
    };
    let format = RowFormat::new(reading.fields.clone(), options.clone());
    let progress = reading.progress.share();
    let (sender, receiver) = mpsc::channel(CHANNEL_BATCHES);
    let writing = working(move || write(place, format, columns, &options, progress, receiver));
    let sent = send(&mut reading, sender).await;
    // Whatever has happened: when the client hears of it, no unfinished file is there.
    let written = writing.await;
    sent?;
    let file = written?;
    let settled = unless(&limits, session.settle()).await;
    working(move || settled.and_then(|()| file.publish())).await?;
    Ok(format_compact!("COPY {}", reading.progress.rows()))
}

/// Sends all batches, and that this is all. If the thread is gone, it knows why.
async fn send(reading: &mut Reading, sender: mpsc::Sender<Message>) -> Result<(), SqlError> {
    let limits = reading.limits.clone();
    loop {
        let message = reading.next().await?.map_or(Message::End, Message::Batch);
        let last = matches!(message, Message::End);
        let taken = unless(&limits, async { Ok(sender.send(message).await.is_ok()) }).await?;
        if last || !taken {
            return Ok(());
        }
    }
}

fn write(
    place: Place,
    format: RowFormat,
    columns: Option<FileColumns>,
    options: &CopyOptions,
    progress: Arc<Progress>,
    mut batches: mpsc::Receiver<Message>,
) -> Result<Unfinished, SqlError> {
    let file = place.write()?;
    let mut encoder = Encoder::begin(&file, format, columns, options, progress)?;
    loop {
        match batches.blocking_recv() {
            Some(Message::Batch(batch)) => encoder.batch(&batch)?,
            Some(Message::End) => break,
            None => return Err(given_up()),
        }
    }
    encoder.finish()?;
    file.sync()?;
    Ok(file)
}
