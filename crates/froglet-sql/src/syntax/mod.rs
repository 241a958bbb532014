//! From text to commands: what PostgreSQL writes otherwise than sqlparser reads it.

pub(crate) mod access_method;
pub(crate) mod table_mode;
pub(crate) mod table_queries;
pub(crate) mod type_words;
