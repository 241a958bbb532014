//! The server's allocator, told to give back what is free: an operator sees the memory of the process, and
//! `memory_limit` is to be what it says.
//!
//! mimalloc keeps freed pages for a second, in which statements that make and drop large values free their size again;
//! and it asks for huge pages, of which a few small things keep 2 MB. See docs/notes/2026-11-26-allocator.md.

use std::ffi::c_int;

/// `mi_option_purge_delay` of mimalloc.h, which the bindings do not name.
const PURGE_DELAY: c_int = 15;
const PURGE_DELAY_MS: i64 = 10;

/// Once, before there are threads. A variable `MIMALLOC_PURGE_DELAY` has the last word on that.
pub fn configure() {
    // SAFETY: nobody else reads or sets options meanwhile; the library looks whether it has one of that number.
    unsafe { libmimalloc_sys::mi_option_set_default(PURGE_DELAY, PURGE_DELAY_MS) };
    #[cfg(target_os = "linux")]
    // SAFETY: it reads its arguments only. An old kernel refuses, and memory is as large as it was.
    unsafe {
        libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0)
    };
}

#[cfg(test)]
mod tests {
    use super::PURGE_DELAY;

    #[test]
    fn the_option_is_the_delay() {
        // SAFETY: as above.
        let before = unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) };
        assert_eq!(before, 1_000, "mimalloc's own choice, without MIMALLOC_PURGE_DELAY");
        super::configure();
        // SAFETY: as above.
        assert_eq!(unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) }, super::PURGE_DELAY_MS);
    }
}
