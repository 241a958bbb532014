//! Record batches into gRPC messages of Flight, their buffers as they are.
//!
//! ```text
//!   gRPC      0 ‖ length (4, big-endian) ‖ FlightData
//!   FlightData  0x12 length data_header        the Arrow IPC message, without its frame
//!               0xC2 0x3E length data_body     the arrays' buffers, each padded to 64 bytes
//! ```
//! arrow-ipc gives an IPC message as a list of buffers that it shares with the arrays. They go on as
//! the pieces of a [`Rope`]; the encoder of arrow-flight copies them into one, and tonic copies that.

use std::collections::VecDeque;

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::Schema;
use arrow::error::ArrowError;
use arrow_ipc::MessageHeader;
use arrow_ipc::writer::StreamEncoder;

use super::rope::Rope;

/// Larger batches are sent in halves: a client of gRPC refuses messages above 4 MiB unless it was told.
const MESSAGE_BYTES: usize = 4_000_000;
const DATA_HEADER: &[u8] = &[0x12];
const DATA_BODY: &[u8] = &[0xC2, 0x3E];
/// Before each IPC message: a mark and the length of its header.
const IPC_PREFIX_BYTES: usize = 8;

/// The messages of one stream of batches.
pub(super) struct Encoder(StreamEncoder);

impl Encoder {
    /// Of batches of a schema; with the first message, which tells it.
    pub(super) fn new(schema: &Schema) -> Result<(Encoder, Rope), ArrowError> {
        let mut first = Rope::default();
        messages(StreamEncoder::try_new(schema)?.finish()?, &mut first, |_| true)?;
        Ok((Encoder(StreamEncoder::try_new(schema)?), first.finish()))
    }

    /// Messages of all rows of a batch.
    pub(super) fn batch(&mut self, batch: &RecordBatch) -> Result<VecDeque<Rope>, ArrowError> {
        let mut ropes = VecDeque::new();
        self.append(batch, &mut ropes)?;
        Ok(ropes)
    }

    fn append(
        &mut self,
        batch: &RecordBatch,
        ropes: &mut VecDeque<Rope>,
    ) -> Result<(), ArrowError> {
        let rows = batch.num_rows();
        // Nothing is copied yet, and a message of more than 4 GB could not be written down.
        let buffers = self.0.encode(batch)?;
        let bytes: usize = buffers.iter().map(Buffer::len).sum();
        if bytes <= MESSAGE_BYTES || rows < 2 {
            let mut rope = Rope::default();
            messages(buffers, &mut rope, |kind| kind != MessageHeader::Schema)?;
            ropes.push_back(rope.finish());
            return Ok(());
        }
        for (offset, length) in [(0, rows / 2), (rows / 2, rows - rows / 2)] {
            let half = froglet_sql::columnar::compacted(&batch.slice(offset, length));
            self.append(&half, ropes)?;
        }
        Ok(())
    }
}

/// Appends those IPC messages in a list of buffers that are wanted.
fn messages(
    buffers: Vec<Buffer>,
    rope: &mut Rope,
    wanted: impl Fn(MessageHeader) -> bool,
) -> Result<(), ArrowError> {
    let mut rest = Buffers(buffers.into());
    while let Some(prefix) = rest.take_whole(IPC_PREFIX_BYTES) {
        let length: [u8; 4] = prefix[4..8].try_into().expect("it is of eight bytes");
        let header_bytes = u32::from_le_bytes(length) as usize;
        // The mark alone is the end of the stream.
        let Some(header) = rest.take_whole(header_bytes).filter(|_| header_bytes > 0) else {
            break;
        };
        let message = arrow_ipc::root_as_message(&header)
            .map_err(|e| ArrowError::IpcError(format!("our own message: {e:?}")))?;
        let body_bytes = usize::try_from(message.bodyLength()).unwrap_or(0);
        let wanted = wanted(message.header_type());
        if wanted {
            open_message(rope, &header, body_bytes)?;
        }
        let mut left = body_bytes;
        while left > 0
            && let Some(piece) = rest.take_up_to(left)
        {
            left -= piece.len();
            if wanted {
                rope.push_buffer(piece);
            }
        }
        if left > 0 {
            return Err(ArrowError::IpcError("our own message ends early".to_owned()));
        }
    }
    Ok(())
}

/// Everything of a message but its body.
fn open_message(rope: &mut Rope, header: &[u8], body_bytes: usize) -> Result<(), ArrowError> {
    let mut data = Vec::with_capacity(header.len() + 16);
    data.extend_from_slice(DATA_HEADER);
    varint(&mut data, header.len());
    data.extend_from_slice(header);
    if body_bytes > 0 {
        data.extend_from_slice(DATA_BODY);
        varint(&mut data, body_bytes);
    }
    let length = u32::try_from(data.len() + body_bytes).map_err(|_| {
        ArrowError::IpcError(format!("a row of {body_bytes} bytes is too long for a message"))
    })?;
    rope.push(&[0]);
    rope.push(&length.to_be_bytes());
    rope.push(&data);
    Ok(())
}

fn varint(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

struct Buffers(VecDeque<Buffer>);

impl Buffers {
    /// So many bytes in one piece, copied; `None` where there are not as many.
    fn take_whole(&mut self, bytes: usize) -> Option<Vec<u8>> {
        let mut whole = Vec::with_capacity(bytes);
        while whole.len() < bytes {
            whole.extend_from_slice(&self.take_up_to(bytes - whole.len())?);
        }
        Some(whole)
    }

    /// The next piece, of at most so many bytes.
    fn take_up_to(&mut self, bytes: usize) -> Option<Buffer> {
        loop {
            let front = self.0.front_mut()?;
            if front.len() > bytes {
                let piece = front.slice_with_length(0, bytes);
                front.advance(bytes);
                return Some(piece);
            }
            let piece = self.0.pop_front()?;
            if !piece.is_empty() {
                return Some(piece);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, BooleanArray, ByteView, Int64Array, StringViewArray};
    use arrow::buffer::ScalarBuffer;
    use arrow_flight::FlightData;
    use arrow_flight::decode::FlightRecordBatchStream;
    use bytes::Buf;
    use futures::TryStreamExt;
    use prost::Message;

    use super::*;

    fn batch(rows: i64) -> RecordBatch {
        let text = |i: i64| (i % 3 > 0).then(|| format!("a text that is not inline, {i}"));
        RecordBatch::try_from_iter_with_nullable([
            ("a", Arc::new(Int64Array::from_iter_values(0..rows)) as ArrayRef, true),
            ("b", Arc::new(StringViewArray::from_iter((0..rows).map(text))) as ArrayRef, true),
            ("c", Arc::new(BooleanArray::from_iter((0..rows).map(|i| Some(i % 2 == 0)))), true),
        ])
        .expect("columns of one length")
    }

    /// What a client makes of the messages.
    fn decoded(ropes: Vec<Rope>) -> Vec<RecordBatch> {
        let mut messages = Vec::new();
        for mut rope in ropes {
            let mut bytes = rope.copy_to_bytes(rope.remaining());
            while bytes.has_remaining() {
                assert_eq!(bytes.get_u8(), 0, "not compressed");
                let length = bytes.get_u32() as usize;
                let message = FlightData::decode(bytes.copy_to_bytes(length));
                messages.push(Ok(message.expect("a message of Flight")));
            }
        }
        let stream = FlightRecordBatchStream::new_from_flight_data(futures::stream::iter(messages));
        futures::executor::block_on(stream.try_collect()).expect("batches")
    }

    #[test]
    fn a_client_reads_what_was_sent() {
        let sent = [batch(0), batch(1), batch(1000), batch(3).slice(1, 2)];
        let (mut encoder, first) = Encoder::new(&sent[0].schema()).expect("encodable");
        let mut ropes = vec![first];
        for batch in &sent {
            ropes.extend(encoder.batch(batch).expect("encoded"));
        }
        assert_eq!(decoded(ropes), sent);
    }

    #[test]
    fn no_message_is_longer_than_clients_take() {
        let sent = batch(200_000);
        let (mut encoder, first) = Encoder::new(&sent.schema()).expect("encodable");
        let ropes = encoder.batch(&sent).expect("encoded");
        assert!(ropes.len() > 1, "it is large");
        assert!(ropes.iter().all(|rope| rope.remaining() <= MESSAGE_BYTES));
        let halves = decoded([first].into_iter().chain(ropes).collect());
        let whole = arrow::compute::concat_batches(&sent.schema(), &halves).expect("one schema");
        assert_eq!(whole, sent);
    }

    /// Two rows whose texts lie in a heap of five thousand chunks: what goes out is the two texts.
    #[test]
    fn a_batch_of_more_bytes_than_a_message_can_say_is_sent_in_halves() {
        let chunk = Buffer::from_vec(vec![b'x'; 1 << 20]);
        let chunks = vec![chunk; 5000];
        let view = |chunk| u128::from(ByteView::new(100, b"xxxx").with_buffer_index(chunk));
        let views = ScalarBuffer::from(vec![view(0), view(4999)]);
        let texts = StringViewArray::try_new(views, chunks, None).expect("they are there");
        let sent = RecordBatch::try_from_iter([("s", Arc::new(texts) as ArrayRef)]).expect("one");
        let (mut encoder, first) = Encoder::new(&sent.schema()).expect("encodable");
        let ropes = encoder.batch(&sent).expect("encoded");
        assert!(ropes.iter().all(|rope| rope.remaining() <= MESSAGE_BYTES));
        let halves = decoded([first].into_iter().chain(ropes).collect());
        let whole = arrow::compute::concat_batches(&sent.schema(), &halves).expect("one schema");
        assert_eq!(whole, sent);
    }

    #[test]
    fn buffers_are_not_copied() {
        let sent = batch(8192);
        let numbers = sent.column(0).to_data().buffers()[0].as_ptr();
        let (mut encoder, _) = Encoder::new(&sent.schema()).expect("encodable");
        let ropes = encoder.batch(&sent).expect("encoded");
        let mut slices = [std::io::IoSlice::new(&[]); 64];
        let filled = ropes[0].chunks_vectored(&mut slices);
        assert!(slices[..filled].iter().any(|slice| slice.as_ptr() == numbers));
    }
}
