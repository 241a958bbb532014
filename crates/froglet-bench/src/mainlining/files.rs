//! Tables of TPC-C as files, for a client in Python to load.
//!
//! ```text
//!   schema.sql       CREATE TABLE, as `tpccd` has it
//!   NAME.rows        lines of COPY
//!   order_line.keys  of every 8,192nd line, the key: one row of each block, as they are loaded in order
//! ```

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use froglet_engine::id::ROWS_PER_BLOCK;
use froglet_engine::{Row, Value};

use crate::tpcc::db::Scale;
use crate::tpcc::load::populate;
use crate::tpcc::schema::{TableName, order_line};
use crate::tpccd::load::line;
use crate::tpccd::schema::TABLES;

/// Writes some tables of the population.
pub fn write(scale: Scale, tables: &[TableName], dir: &Path) -> Result<()> {
    let mut rows = vec![String::new(); tables.len()];
    let (mut keys, mut count) = (String::new(), 0);
    populate(scale, &mut |table, row| {
        let Some(at) = tables.iter().position(|wanted| *wanted == table) else { return Ok(()) };
        if table == TableName::OrderLine {
            if count % ROWS_PER_BLOCK == 0 {
                keys += &key(&row)?;
            }
            count += 1;
        }
        line(&mut rows[at], &row, table.types())
    })?;
    let mut schema = String::new();
    for (table, rows) in tables.iter().zip(rows) {
        let (name, definition) = TABLES[*table as usize];
        writeln!(schema, "CREATE TABLE {name} ({definition});")?;
        fs::write(dir.join(format!("{name}.rows")), rows)?;
    }
    fs::write(dir.join("schema.sql"), schema)?;
    fs::write(dir.join("order_line.keys"), keys)?;
    Ok(())
}

fn key(row: &Row) -> Result<String> {
    use order_line::{OL_D_ID, OL_NUMBER, OL_O_ID, OL_W_ID};
    let mut key = String::new();
    for at in [OL_W_ID, OL_D_ID, OL_O_ID, OL_NUMBER] {
        let Value::Int32(part) = row[at] else { bail!("{:?} is no part of a key", row[at]) };
        write!(key, "{part} ")?;
    }
    key.push('\n');
    Ok(key)
}

/// What a client printed.
pub fn printed(client: &mut Command) -> Result<String> {
    let output = client.output().with_context(|| format!("{client:?} cannot be run"))?;
    if !output.status.success() {
        bail!("the client failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_key_for_each_block_and_a_line_for_each_row() {
        let dir = tempfile::tempdir().unwrap();
        let tables = [TableName::Item, TableName::OrderLine];
        write(Scale::small(4), &tables, dir.path()).unwrap();
        let lines = |name: &str| -> Vec<String> {
            let text = fs::read_to_string(dir.path().join(name)).unwrap();
            text.lines().map(str::to_owned).collect()
        };
        let (rows, keys) = (lines("order_line.rows"), lines("order_line.keys"));
        assert_eq!(keys.len(), rows.len().div_ceil(ROWS_PER_BLOCK));
        assert!(keys.len() > 1, "more than one block");
        let second: Vec<&str> = rows[ROWS_PER_BLOCK].split('\t').collect();
        let key = [second[2], second[1], second[0], second[3]].join(" ");
        assert_eq!(keys[1].trim_end(), key);
        assert_eq!(lines("item.rows").len(), 1000);
        assert_eq!(lines("schema.sql").len(), 2);
    }
}
