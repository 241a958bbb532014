//! From what texts say to what they mean: names, numbers, and what depends on what.

pub(crate) mod closed;
pub(crate) mod depends;
pub(crate) mod uses;
pub(crate) mod volatility;
