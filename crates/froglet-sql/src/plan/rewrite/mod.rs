//! What a statement's tree becomes before it is planned.

pub(crate) mod exists;
pub(crate) mod table_calls;
