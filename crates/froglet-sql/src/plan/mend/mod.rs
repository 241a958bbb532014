//! What DataFusion's optimizer gets wrong, put right beside it.

pub(crate) mod null_keys;
