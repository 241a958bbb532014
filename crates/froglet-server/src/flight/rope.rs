//! Bytes in pieces, sent as they are.
//!
//! A message's pieces are the buffers of its arrays. HTTP/2 cuts frames out of them and gives the
//! pieces to the socket by a vectored write: between the table and the kernel nothing copies them.

use std::collections::VecDeque;
use std::io::IoSlice;

use arrow::buffer::Buffer;
use bytes::{Buf, Bytes, BytesMut};

/// Pieces shorter than this are copied together: a piece more costs more than these bytes.
const SMALL_BYTES: usize = 512;

/// Bytes in pieces.
#[derive(Debug, Default)]
pub(super) struct Rope {
    pieces: VecDeque<Bytes>,
    small: BytesMut,
    bytes: usize,
}

/// An Arrow buffer as bytes with an owner.
struct Owned(Buffer);

impl AsRef<[u8]> for Owned {
    fn as_ref(&self) -> &[u8] {
        self.0.as_slice()
    }
}

impl Rope {
    pub(super) fn push(&mut self, piece: &[u8]) {
        self.small.extend_from_slice(piece);
        self.bytes += piece.len();
    }

    pub(super) fn push_buffer(&mut self, buffer: Buffer) {
        if buffer.len() < SMALL_BYTES {
            return self.push(buffer.as_slice());
        }
        self.bytes += buffer.len();
        self.cut();
        self.pieces.push_back(Bytes::from_owner(Owned(buffer)));
    }

    fn cut(&mut self) {
        if !self.small.is_empty() {
            self.pieces.push_back(self.small.split().freeze());
        }
    }

    /// Nothing more comes: now it may be read.
    pub(super) fn finish(mut self) -> Rope {
        self.cut();
        self
    }
}

impl From<Bytes> for Rope {
    fn from(bytes: Bytes) -> Rope {
        let length = bytes.len();
        let pieces = VecDeque::from_iter((length > 0).then_some(bytes));
        Rope { pieces, small: BytesMut::new(), bytes: length }
    }
}

impl Buf for Rope {
    fn remaining(&self) -> usize {
        self.bytes
    }

    fn chunk(&self) -> &[u8] {
        self.pieces.front().map_or(&[], |piece| piece)
    }

    fn advance(&mut self, mut count: usize) {
        assert!(count <= self.bytes, "no more is taken than there is");
        self.bytes -= count;
        while count > 0 {
            let piece = self.pieces.front_mut().expect("the pieces have all the bytes");
            if count < piece.len() {
                return piece.advance(count);
            }
            count -= piece.len();
            self.pieces.pop_front();
        }
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut filled = 0;
        for (slice, piece) in slices.iter_mut().zip(&self.pieces) {
            *slice = IoSlice::new(piece);
            filled += 1;
        }
        filled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_come_in_their_order_and_large_buffers_where_they_are() {
        let large = Buffer::from_vec((0..2000).map(|i| i as u8).collect::<Vec<u8>>());
        let at = large.as_ptr();
        let mut rope = Rope::default();
        rope.push(b"head");
        rope.push_buffer(large.clone());
        rope.push_buffer(Buffer::from(b"tail"));
        rope.push(b"!");
        let mut rope = rope.finish();
        assert_eq!(rope.remaining(), 4 + 2000 + 5);
        let mut slices = [IoSlice::new(&[]); 8];
        assert_eq!(rope.chunks_vectored(&mut slices), 3);
        assert_eq!(slices[1].as_ptr(), at, "it is not copied");
        rope.advance(3);
        assert_eq!(rope.chunk(), b"d");
        rope.advance(1 + 1990);
        assert_eq!(rope.chunk(), &large.as_slice()[1990..]);
        rope.advance(10);
        assert_eq!(rope.copy_to_bytes(5), "tail!");
        assert!(!rope.has_remaining());
    }
}
