//! Any bytes at all, as one segment of a log and as one frame: decoded, cut or refused.

use std::path::Path;
use std::sync::Arc;

use froglet_engine::env::{Env, MemEnv};
use froglet_log::{Flusher, FrameKey, Log, LogOptions, Lsn, decode_record};

/// The directory that the log is opened in.
const DIR: &str = "/log";

/// Opens a log whose only segment has these bytes.
pub fn run(bytes: &[u8]) {
    for at in [0, 64, 72] {
        let _ = decode_record(bytes, Lsn(at), FrameKey::new(42));
    }
    let env = MemEnv::new(1);
    env.create_dir_all(Path::new(DIR)).expect("a directory of its own");
    env.overwrite(&Path::new(DIR).join("0000000000000000.frlog"), bytes.to_vec());
    let options = LogOptions { flusher: Flusher::Manual, ..LogOptions::default() };
    let mut bytes_seen = 0;
    let opened = Log::open(Arc::new(env), Path::new(DIR), options, Lsn(0), &mut |_, record| {
        bytes_seen += record.len();
        Ok(())
    });
    assert!(bytes_seen <= bytes.len(), "a log holds no more than its bytes");
    if let Err(error) = opened {
        let text = error.to_string();
        assert!(text.contains(".frlog"), "it names no file: {text}");
    }
}
