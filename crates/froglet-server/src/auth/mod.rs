//! Who may connect, and how they prove it.
//!
//! ```text
//!   address, database, user ──▶ rules.rs ──▶ the first rule that fits
//!                                              ├─ trust           they are who they say
//!                                              ├─ reject, none    they may not
//!                                              └─ scram-sha-256   scram.rs on the PostgreSQL port,
//!                                                                 a password by Basic authorization on Flight's
//! ```
//! What a password is checked against is the catalog's ([`froglet_sql::roles::login`]).
//!
//! A1: whether a user exists, may log in or has a password makes no difference that the client could see before
//!     it has proved a password.
//! A2: a server that can be reached from elsewhere trusts nobody from there ([`rules::Rules::far_trust`]).

pub mod rules;
pub mod scram;
