//! The eager driver's parts: what it makes before the commit, of rows that others write meanwhile.

pub(crate) mod copy;
pub(crate) mod places;
