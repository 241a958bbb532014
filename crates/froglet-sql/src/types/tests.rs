//! Expectations were printed by PostgreSQL 15.
