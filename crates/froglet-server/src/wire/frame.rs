//! Where one message ends and the next begins.
//!
//! ```text
//!   byte   0        1..5              5..1+length
//!        [type] [length, big-endian] [body: length − 4 bytes]
//! ```
//! Before startup there is no type byte.

use bytes::{Buf, BytesMut};

use super::WireError;

/// The longest message taken: a GiB less one, as in PostgreSQL.
pub const LONG_LIMIT_BYTES: u32 = 0x3fff_ffff;
/// The longest message of the kinds that carry no data.
pub const SHORT_LIMIT_BYTES: u32 = 10_000;
/// The longest startup packet.
pub const STARTUP_LIMIT_BYTES: u32 = 10_000;

/// Messages up to this long are copied: the input buffer then stays one piece and is used again.
const COPIED_BYTES: usize = 4 << 10;

/// Whether a body that [`take`] returned is a copy, and its memory nobody else's.
pub fn is_copy(body: &BytesMut) -> bool {
    5 + body.len() <= COPIED_BYTES
}

/// What the beginning of the input says.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame {
    /// A whole message: its type and body.
    Whole(u8, BytesMut),
    /// More bytes are needed.
    Partial {
        /// Bytes of the whole frame; `None` while even the header is incomplete.
        total_bytes: Option<usize>,
    },
}

/// The longest message of a type, or an error if there is no such type.
fn limit(kind: u8) -> Result<u32, WireError> {
    match kind {
        b'Q' | b'P' | b'B' | b'd' | b'F' => Ok(LONG_LIMIT_BYTES),
        b'D' | b'E' | b'C' | b'S' | b'H' | b'X' | b'c' | b'f' | b'p' => Ok(SHORT_LIMIT_BYTES),
        other => Err(WireError::UnknownType(other)),
    }
}

/// Takes one message off the front of `input`, if it is all there. A short one leaves in `spare`'s
/// memory, which may come back with the next.
pub fn take(input: &mut BytesMut, spare: &mut BytesMut) -> Result<Frame, WireError> {
    let Some(&kind) = input.first() else {
        return Ok(Frame::Partial { total_bytes: None });
    };
    let limit = limit(kind)?;
    let Some(header) = input.get(1..5) else {
        return Ok(Frame::Partial { total_bytes: None });
    };
    let length = u32::from_be_bytes(header.try_into().expect("four bytes were asked for"));
    let total_bytes = 1 + checked(kind, length, limit)?;
    if input.len() < total_bytes {
        return Ok(Frame::Partial { total_bytes: Some(total_bytes) });
    }
    if total_bytes <= COPIED_BYTES {
        let mut body = std::mem::take(spare);
        body.clear();
        body.extend_from_slice(&input[5..total_bytes]);
        input.advance(total_bytes);
        return Ok(Frame::Whole(kind, body));
    }
    let mut frame = input.split_to(total_bytes);
    frame.advance(5);
    Ok(Frame::Whole(kind, frame))
}

/// The same before the client has proved who it is: nothing but a password's message is taken, nor waited for.
pub fn take_password(input: &mut BytesMut, spare: &mut BytesMut) -> Result<Frame, WireError> {
    match input.first() {
        Some(&kind) if kind != b'p' => Err(WireError::NoPassword(kind)),
        _ => take(input, spare),
    }
}

/// The message at the front of `input` and what follows it, if all of it is there and a message.
pub fn peek(input: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[kind, a, b, c, d], _) = input.split_first_chunk()?;
    let length = u32::from_be_bytes([a, b, c, d]);
    let total_bytes = 1 + checked(kind, length, limit(kind).ok()?).ok()?;
    let (frame, rest) = input.split_at_checked(total_bytes)?;
    Some((kind, &frame[5..], rest))
}

/// Takes one packet without a type byte off the front of `input`, if it is all there.
pub fn take_startup(input: &mut BytesMut, _spare: &mut BytesMut) -> Result<Frame, WireError> {
    let Some(header) = input.get(0..4) else {
        return Ok(Frame::Partial { total_bytes: None });
    };
    let length = u32::from_be_bytes(header.try_into().expect("four bytes were asked for"));
    let total_bytes = checked(0, length, STARTUP_LIMIT_BYTES)?;
    if length < 8 {
        return Err(WireError::Length { kind: '\0', length });
    }
    if input.len() < total_bytes {
        return Ok(Frame::Partial { total_bytes: Some(total_bytes) });
    }
    let mut frame = input.split_to(total_bytes);
    frame.advance(4);
    Ok(Frame::Whole(0, frame))
}

/// The length as a number of bytes that may be waited for.
fn checked(kind: u8, length: u32, limit: u32) -> Result<usize, WireError> {
    let kind = char::from(kind);
    if length < 4 || length > i32::MAX as u32 {
        return Err(WireError::Length { kind, length });
    }
    if length > limit {
        return Err(match limit {
            LONG_LIMIT_BYTES => WireError::TooLong { length, limit },
            _ => WireError::Length { kind, length },
        });
    }
    Ok(length as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(input: &mut BytesMut) -> Result<Frame, WireError> {
        super::take(input, &mut BytesMut::new())
    }

    fn input(bytes: &[u8]) -> BytesMut {
        BytesMut::from(bytes)
    }

    #[test]
    fn messages_come_off_one_by_one() {
        let mut buffer = input(b"S\0\0\0\x04H\0\0\0\x04E\0\0");
        assert_eq!(take(&mut buffer), Ok(Frame::Whole(b'S', BytesMut::new())));
        assert_eq!(take(&mut buffer), Ok(Frame::Whole(b'H', BytesMut::new())));
        assert_eq!(
            take(&mut buffer),
            Ok(Frame::Partial { total_bytes: None }),
            "a header cut short"
        );
        buffer.extend_from_slice(b"\0\x0a");
        let partial = Frame::Partial { total_bytes: Some(11) };
        assert_eq!(take(&mut buffer), Ok(partial));
        buffer.extend_from_slice(b"\0\0\0\0\x07");
        assert!(matches!(take(&mut buffer), Ok(Frame::Partial { .. })));
        buffer.extend_from_slice(b"!");
        let Ok(Frame::Whole(b'E', body)) = take(&mut buffer) else {
            panic!("a whole message was not taken");
        };
        assert_eq!(&body[..], b"\0\0\0\0\x07!");
        assert!(buffer.is_empty());
    }

    #[test]
    fn a_wrong_length_is_refused_before_its_body_is_waited_for() {
        let cases: [(&[u8], WireError); 6] = [
            (b"!", WireError::UnknownType(b'!')),
            (b"S\0\0\0\x03", WireError::Length { kind: 'S', length: 3 }),
            (b"S\0\0\xff\xff", WireError::Length { kind: 'S', length: 0xffff }),
            (b"Q\x00\x00\x00\x00", WireError::Length { kind: 'Q', length: 0 }),
            (b"Q\xff\xff\xff\xff", WireError::Length { kind: 'Q', length: u32::MAX }),
            (b"Q\x40\x00\x00\x00", WireError::TooLong { length: 1 << 30, limit: LONG_LIMIT_BYTES }),
        ];
        for (bytes, error) in cases {
            assert_eq!(take(&mut input(bytes)), Err(error), "{bytes:?}");
        }
        for bytes in [b"\0\0\0\0", b"\0\0\0\x07", b"\0\0\x27\x11", b"\xff\xff\xff\xff"] {
            let mut spare = BytesMut::new();
            assert!(take_startup(&mut input(bytes), &mut spare).is_err(), "{bytes:?}");
        }
    }
}
