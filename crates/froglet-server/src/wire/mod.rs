//! PostgreSQL's wire protocol, version 3.0: bytes on one side, messages on the other.
//!
//! ```text
//!   socket ─▶ frame    one message's type and body, the length checked before a byte is kept
//!               │
//!               ├─▶ startup    before the connection has a type byte: SSL, GSS, cancel, startup
//!               └─▶ frontend   every other message, borrowed from its frame
//!   socket ◀─ backend   answers, appended to the connection's write buffer
//! ```
//!
//! W1: a frame's length is checked before anything of its body is waited for, and a decoder sees
//!     exactly one body, so that a wrong count inside a message cannot reach into the next one.
//! W2: a decoder never panics: whatever the bytes, it returns a message or a [`WireError`].
//! W3: a malformed *frame* ends the connection, because nobody knows where the next message begins;
//!     a malformed *body* is an error like any other.
//!
//! The messages are decoded here and not by pgwire, whose decoder panics on a body shorter than
//! its counts, reads past the end of a frame, and replaces invalid UTF-8 silently. What goes out
//! is pgwire's wherever it is not hot.

pub mod backend;
mod error;
pub mod frame;
pub mod frontend;
pub mod startup;

pub use error::{WireError, utf8};

#[cfg(test)]
mod tests {
    //! What the fuzz target `fuzz/fuzz_targets/wire.rs` does for hours, for a moment: messages with
    //! bytes changed, cut and added are decoded or refused, and nothing panics.

    use super::frame::Frame;
    use super::{frame, frontend, startup};
    use bytes::BytesMut;

    const SEEDS: [&[u8]; 6] = [
        b"Q\0\0\0\x0dselect 1\0",
        b"P\0\0\0\x1as\0select $1, $2\0\0\x02\0\0\0\x17\0\0\0\x19",
        b"B\0\0\0\x1ap\0s\0\0\x01\0\x01\0\x02\0\0\0\x02hi\xff\xff\xff\xff\0\0",
        b"D\0\0\0\x06S\0E\0\0\0\x09\0\0\0\0\0S\0\0\0\x04",
        b"d\0\0\0\x061\tf\0\0\0\x07no\0c\0\0\0\x04X\0\0\0\x04",
        b"\0\0\0\x29\0\x03\0\0user\0a\0options\0-c a=b --c=d\0\0",
    ];

    #[test]
    fn damaged_messages_are_decoded_or_refused() {
        let mut state = 0x9E37_79B9_7F4A_7C15u64;
        let mut random = move |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % below as u64) as usize
        };
        for round in 0..40_000 {
            let mut bytes = SEEDS[round % SEEDS.len()].to_vec();
            for _ in 0..random(4) {
                let at = random(bytes.len());
                match random(3) {
                    0 => bytes[at] = random(256) as u8,
                    1 => bytes.truncate(at.max(1)),
                    _ => bytes.insert(at, [0, 1, 0xff, 0x80][random(4)]),
                }
            }
            let mut input = BytesMut::from(&bytes[..]);
            if let Ok(Frame::Whole(_, body)) =
                frame::take_startup(&mut input.clone(), &mut BytesMut::new())
            {
                let _ = startup::decode(&body);
            }
            while let Ok(Frame::Whole(kind, body)) = frame::take(&mut input, &mut BytesMut::new()) {
                if let Ok(frontend::Frontend::Bind(bind)) = frontend::decode(kind, &body) {
                    assert_eq!(bind.parameters.iter().count(), bind.parameters.len());
                }
            }
        }
    }
}
