//! What PostgreSQL's catalog says of itself in every database, as data, and what follows from it.
//!
//! ```text
//!   keywords.rs         the words of SQL, and which of them are no names
//!   operators.rs        pg_operator, pg_cast
//!   overloads.rs        which function or operator PostgreSQL chooses for arguments of some types
//!   placement.rs        froglet.placement
//!   print/             expressions as PostgreSQL prints them
//!   regions.rs         froglet.regions
//!   table_functions.rs  functions in FROM whose rows are a system table
//! ```

pub(crate) mod keywords;
pub(crate) mod operators;
pub(crate) mod overloads;
pub(crate) mod placement;
pub(crate) mod print;
pub(crate) mod regions;
pub(crate) mod table_functions;
