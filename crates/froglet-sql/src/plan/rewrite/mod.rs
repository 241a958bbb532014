//! What a statement's tree becomes before it is planned.

pub(crate) mod alike_in_sets;
pub(crate) mod beside_sets;
pub(crate) mod exists;
pub(crate) mod hidden_tables;
pub(crate) mod numbers;
pub(crate) mod stars;
pub(crate) mod table_calls;
