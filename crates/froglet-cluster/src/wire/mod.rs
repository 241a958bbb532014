//! The messages that stores and placement drivers understand: those parts of TiKV's `kvproto` and of etcd's API that
//! are used here, field by field as they are numbered there. What others say beyond that is skipped.

pub mod etcd;
pub mod kv;
pub mod pd;
