//! From text to commands: what PostgreSQL writes otherwise than sqlparser reads it.

pub(crate) mod type_words;
