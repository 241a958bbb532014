//! pg_catalog
/// .
pub fn system_relation(schema: &str, name: &str) -> Option<u32> { let _ = (schema,name); None }
/// .
pub fn system_relation_name(oid: u32) -> Option<(&'static str, &'static str)> { let _ = oid; None }
/// .
pub fn schema_oid(name: &str) -> Option<u32> { let _ = name; None }
/// .
pub fn schema_name(oid: u32) -> Option<&'static str> { let _ = oid; None }
