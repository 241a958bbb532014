//! See `entries/log.rs`.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../entries/log.rs"]
mod log;

fuzz_target!(|bytes: &[u8]| log::run(bytes));
