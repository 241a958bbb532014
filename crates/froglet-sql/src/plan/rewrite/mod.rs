//! What a statement's tree becomes before it is planned.

pub(crate) mod table_calls;
