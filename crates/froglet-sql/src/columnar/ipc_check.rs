//! What a message of Arrow's IPC claims, before anybody believes it.
//!
//! ```text
//!   batch   nodes: rows and NULLs of each column │ buffers: offset, length │ compression
//!   body    … buffer … [ length when unpacked (i64) ‖ LZ4 frame or zstd ] …
//! ```
//! The decoder takes for granted that the buffers lie in the body, and allocates what a compressed one
//! says that it will be. An allocation that fails ends the process, so all of that is looked at here.
//! zstd is never unpacked beyond what the length says. An LZ4 frame is, so its blocks are counted: each
//! is at most as long as the frame's header allows.
//!
//! Left out: what the values are, which the decoder looks at itself (offsets, UTF-8).

use arrow::ipc::{CompressionType, Message, RecordBatch as IpcBatch};

/// A column of NULLs alone has no buffers, but nobody sends more of them than this.
const ROWS_MAX: i64 = u32::MAX as i64;
const LZ4_MAGIC: u32 = 0x184D_2204;

/// Why a message is not decoded.
#[derive(Debug, PartialEq)]
pub enum Refused {
    /// It contradicts itself.
    Malformed(String),
    /// It is compressed, and its reader wants none of that.
    Compressed,
    /// Unpacked it would have so many bytes, more than its reader allows.
    TooLong(u64),
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refused::Malformed(why) => f.write_str(why),
            Refused::Compressed => f.write_str("it is compressed"),
            Refused::TooLong(bytes) => write!(f, "it has {bytes} bytes when it is unpacked"),
        }
    }
}

/// The batch in a message, of rows or of a dictionary.
pub fn batch_in(message: Message<'_>) -> Option<IpcBatch<'_>> {
    let dictionary = || message.header_as_dictionary_batch().and_then(|batch| batch.data());
    message.header_as_record_batch().or_else(dictionary)
}

/// Whether a batch can be decoded from its body. Its compressed buffers may have so many bytes when they
/// are unpacked; `None`: there may be no compression.
pub fn check_batch(
    batch: IpcBatch<'_>,
    body: &[u8],
    unpacked_bytes_max: Option<u64>,
) -> Result<(), Refused> {
    let compression = batch.compression().map(|compression| compression.codec());
    if compression.is_some() && unpacked_bytes_max.is_none() {
        return Err(Refused::Compressed);
    }
    for node in batch.nodes().iter().flatten() {
        let (rows, nulls) = (node.length(), node.null_count());
        if !(0..=ROWS_MAX).contains(&rows) || !(0..=rows).contains(&nulls) {
            let why = format!("a column of {rows} rows, of which {nulls} are NULL");
            return Err(Refused::Malformed(why));
        }
    }
    let mut unpacked_bytes = 0_u64;
    for buffer in batch.buffers().iter().flatten() {
        let bytes = buffer_in(body, buffer.offset(), buffer.length())?;
        if let Some(codec) = compression {
            unpacked_bytes = unpacked_bytes.saturating_add(most_unpacked(bytes, codec)?);
        }
    }
    match unpacked_bytes_max {
        Some(most) if unpacked_bytes > most => Err(Refused::TooLong(unpacked_bytes)),
        _ => Ok(()),
    }
}

fn buffer_in(body: &[u8], offset: i64, length: i64) -> Result<&[u8], Refused> {
    let found = usize::try_from(offset).ok().zip(usize::try_from(length).ok());
    let found = found.and_then(|(offset, length)| body.get(offset..offset.checked_add(length)?));
    found.ok_or_else(|| {
        let body_bytes = body.len();
        Refused::Malformed(format!("a buffer of {length} bytes at {offset} of {body_bytes}"))
    })
}

/// How long a compressed buffer will be at most, but for one block of LZ4.
fn most_unpacked(buffer: &[u8], codec: CompressionType) -> Result<u64, Refused> {
    if buffer.is_empty() {
        return Ok(0);
    }
    let Some((claimed, packed)) = buffer.split_first_chunk::<8>() else {
        let why = format!("a compressed buffer of {} bytes", buffer.len());
        return Err(Refused::Malformed(why));
    };
    // -1 says that the buffer is not compressed, 0 that it is empty.
    let claimed = i64::from_le_bytes(*claimed).max(0).unsigned_abs();
    if claimed == 0 || codec != CompressionType::LZ4_FRAME {
        return Ok(claimed);
    }
    let in_blocks = lz4_most_unpacked(packed)
        .ok_or_else(|| Refused::Malformed("a buffer that is no frame of LZ4".to_owned()))?;
    Ok(claimed.max(in_blocks))
}

/// How long the content of an LZ4 frame is at most, but for one block. Nothing is unpacked.
///
/// ```text
///   magic ‖ flags, block size ‖ [content size] ‖ [dictionary] ‖ checksum │ block … │ 0
///   block   length, top bit: not compressed ‖ bytes ‖ [checksum]
/// ```
/// All blocks but the last are full wherever a writer has all the bytes at hand; so the last one does not
/// count, lest a batch of many short buffers is thought to be long.
fn lz4_most_unpacked(frame: &[u8]) -> Option<u64> {
    let (magic, rest) = frame.split_first_chunk::<4>()?;
    let (&[flags, sizes], mut rest) = rest.split_first_chunk::<2>()?;
    if u32::from_le_bytes(*magic) != LZ4_MAGIC {
        return None;
    }
    // 4: 64 KB … 7: 4 MB.
    let block_bytes_max = match (sizes >> 4) & 7 {
        size @ 4..=7 => 1_u64 << (8 + 2 * size),
        _ => return None,
    };
    let has = |flag: u8| usize::from(flags & flag != 0);
    rest = rest.get(8 * has(0x08) + 4 * has(0x01) + 1..)?;
    let mut bytes = 0_u64;
    let mut last = 0_u64;
    while let Some((head, after)) = rest.split_first_chunk::<4>() {
        let head = u32::from_le_bytes(*head);
        let packed = (head & 0x7FFF_FFFF) as usize;
        if packed == 0 {
            break;
        }
        // A byte of an LZ4 block stands for 255 at most.
        last = block_bytes_max.min(packed as u64 * 255);
        bytes += last;
        rest = after.get(packed + 4 * has(0x10)..).unwrap_or_default();
    }
    Some(bytes - last)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame of blocks of 4 MB, each of zeros alone.
    fn frame(blocks: usize) -> Vec<u8> {
        let mut frame = vec![0x04, 0x22, 0x4D, 0x18, 0x60, 0x70, 0x73];
        let mut block = vec![0x1F, 0, 1, 0];
        block.extend(std::iter::repeat_n(0xFF, 16_448));
        block.extend([0, 0x50, 0, 0, 0, 0, 0]);
        for _ in 0..blocks {
            frame.extend((block.len() as u32).to_le_bytes());
            frame.extend(&block);
        }
        frame.extend([0; 4]);
        frame
    }

    fn buffer(claimed: i64, packed: &[u8]) -> Vec<u8> {
        [&claimed.to_le_bytes()[..], packed].concat()
    }

    #[test]
    fn a_frame_of_lz4_is_as_long_as_its_blocks_whatever_is_claimed() {
        let most = |claimed, blocks| {
            most_unpacked(&buffer(claimed, &frame(blocks)), CompressionType::LZ4_FRAME)
        };
        assert_eq!(most(8, 1), Ok(8), "the last block does not count");
        assert_eq!(most(8, 301), Ok(300 << 22));
        assert_eq!(most(1 << 50, 3), Ok(1 << 50));
        assert_eq!(most(-1, 3), Ok(0), "it is not compressed");
        assert_eq!(most_unpacked(&[], CompressionType::LZ4_FRAME), Ok(0));
    }

    #[test]
    fn what_is_no_frame_of_lz4_is_refused_at_every_length() {
        let whole = buffer(8, &frame(2));
        for end in 1..whole.len().min(40) {
            let outcome = most_unpacked(&whole[..end], CompressionType::LZ4_FRAME);
            assert_eq!(outcome.is_ok(), end >= 8 + 7, "{end} bytes: {outcome:?}");
        }
        for (at, byte) in [(8, 5), (13, 0x30)] {
            let mut wrong = whole.clone();
            wrong[at] = byte;
            let outcome = most_unpacked(&wrong, CompressionType::LZ4_FRAME);
            assert!(matches!(outcome, Err(Refused::Malformed(_))), "{outcome:?}");
        }
    }

    #[test]
    fn zstd_is_believed_for_its_reader_goes_no_further() {
        let claimed = most_unpacked(&buffer(1 << 40, b"anything"), CompressionType::ZSTD);
        assert_eq!(claimed, Ok(1 << 40));
    }
}
