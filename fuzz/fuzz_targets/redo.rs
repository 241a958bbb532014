//! See `entries/redo.rs`.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../entries/redo.rs"]
mod redo;

fuzz_target!(|bytes: &[u8]| {
    let _ = redo::run(&redo::records(bytes));
});
