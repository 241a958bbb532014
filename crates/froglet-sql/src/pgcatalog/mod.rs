//! pg_catalog
/// .
pub fn system_relation(schema: &str, name: &str) -> Option<u32> { let _ = (schema,name); None }
/// .
pub fn system_relation_name(oid: u32) -> Option<(&'static str, &'static str)> { let _ = oid; None }
/// .
pub fn schema_oid(name: &str) -> Option<u32> { let _ = name; None }
/// .
pub fn schema_name(oid: u32) -> Option<&'static str> { let _ = oid; None }
use std::sync::Arc;
use arrow::datatypes::DataType;
use datafusion::datasource::TableProvider;
/// .
pub fn system_table(schema: &str, name: &str) -> Option<Arc<dyn TableProvider>> { let _ = (schema,name); None }
/// .
pub fn virtual_table(columns: &[(&'static str, DataType)], rows: impl Fn(&crate::provider::QueryScope) -> Vec<Vec<datafusion::common::ScalarValue>> + Send + Sync + 'static) -> Arc<dyn TableProvider> { let _ = (columns, rows); unimplemented!() }
