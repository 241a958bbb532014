//! Names of what a client may come back to. Random, so that nobody finds another's by counting.

use bytes::Bytes;
use tonic::Status;

use super::status;

/// Of a handle.
pub(super) const BYTES: usize = 16;

/// The name of a transaction, a prepared statement or a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Handle([u8; BYTES]);

impl Handle {
    pub(super) fn new() -> Handle {
        Handle(rand::random())
    }

    pub(super) fn bytes(self) -> Bytes {
        Bytes::copy_from_slice(&self.0)
    }

    pub(super) fn read(bytes: &[u8]) -> Result<Handle, Status> {
        let read = <[u8; BYTES]>::try_from(bytes);
        read.map(Handle).map_err(|_| {
            status::malformed(format_args!("a handle of {} bytes, not {BYTES}", bytes.len()))
        })
    }

    /// For a bearer token.
    pub(super) fn hex(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// A part of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PartHandle {
    pub(super) result: Handle,
    pub(super) part: u32,
}

impl PartHandle {
    pub(super) fn bytes(self) -> Bytes {
        [&self.result.0[..], &self.part.to_be_bytes()].concat().into()
    }

    pub(super) fn read(bytes: &[u8]) -> Result<PartHandle, Status> {
        let (result, part) = bytes
            .split_at_checked(BYTES)
            .and_then(|(result, part)| Some((result, <[u8; 4]>::try_from(part).ok()?)))
            .ok_or_else(|| {
                status::malformed(format_args!("a statement handle of {} bytes", bytes.len()))
            })?;
        Ok(PartHandle { result: Handle::read(result)?, part: u32::from_be_bytes(part) })
    }
}
