//! What statements write, and hold.

pub(crate) mod foreignkey;
mod parents;
pub(crate) mod row_locks;
pub(crate) mod table_locks;
