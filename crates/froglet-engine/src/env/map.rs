//! A file in memory, as the operating system lends it page by page.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_buffer::Buffer;
use libc::{MADV_WILLNEED, MAP_FAILED, MAP_PRIVATE, PROT_READ, madvise, mmap, munmap};

/// Pages of a file; given back when nobody has a buffer of them any more.
struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: pages that are only read; unmapped once, by whoever drops the mapping last.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `map` with this length; no buffer refers to it any more. What cannot be
        // unmapped stays mapped, which harms nobody.
        unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// The whole of a file. Whoever cuts it while it is mapped ends this process with SIGBUS: files that are
/// mapped are in a data directory that is locked, and are not written to after they were synced.
pub(super) fn map(file: &File) -> io::Result<Buffer> {
    let bytes = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
    if bytes == 0 {
        return Ok(Buffer::default());
    }
    // SAFETY: a new mapping at an address that the system chooses.
    let start =
        unsafe { mmap(std::ptr::null_mut(), bytes, PROT_READ, MAP_PRIVATE, file.as_raw_fd(), 0) };
    if start == MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let start = NonNull::new(start.cast::<u8>()).ok_or_else(|| io::Error::other("mapped at 0"))?;
    let mapping = Arc::new(Mapping { start, bytes });
    // SAFETY: the pages just mapped. The advice is to read ahead; without, they come when touched.
    unsafe { madvise(start.as_ptr().cast(), bytes, MADV_WILLNEED) };
    // SAFETY: the bytes are there, do not change (see above), and are kept by their owner.
    Ok(unsafe { Buffer::from_custom_allocation(start, bytes, mapping) })
}
