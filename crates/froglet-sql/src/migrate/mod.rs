//! Migrations of tables and columns: what they ask of their queries.

pub(crate) mod may_fail;
pub(crate) mod whole;
