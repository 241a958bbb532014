//! Any bytes at all, as a client's first packet and as its messages: decoded or refused.
//!
//! The decoder's files are compiled in by path, so that building this target does not build the
//! server and all that is below it.

#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;

#[path = "../../crates/froglet-server/src/wire/error.rs"]
mod error;
#[path = "../../crates/froglet-server/src/wire/frame.rs"]
mod frame;
#[allow(dead_code)]
#[path = "../../crates/froglet-server/src/wire/frontend.rs"]
mod frontend;
#[path = "../../crates/froglet-server/src/wire/startup.rs"]
mod startup;

use error::{WireError, utf8};
use frame::Frame;

fuzz_target!(|bytes: &[u8]| {
    let mut input = BytesMut::from(bytes);
    if let Ok(Frame::Whole(_, body)) = frame::take_startup(&mut input.clone(), &mut BytesMut::new()) {
        let _ = startup::decode(&body);
    }
    loop {
        let before = input.len();
        match frame::take(&mut input, &mut BytesMut::new()) {
            Ok(Frame::Whole(kind, body)) => {
                assert!(input.len() < before, "a message takes bytes");
                if let Ok(frontend::Frontend::Bind(bind)) = frontend::decode(kind, &body) {
                    assert_eq!(bind.parameters.iter().count(), bind.parameters.len());
                }
            }
            Ok(Frame::Partial { total_bytes }) => {
                assert!(total_bytes.is_none_or(|total| total > before), "it was all there");
                break;
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                let _ = (error.sqlstate(), error.fatal());
                break;
            }
        }
    }
});
