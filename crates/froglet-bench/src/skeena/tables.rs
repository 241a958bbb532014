//! The microbenchmark's tables (section 6.2): records of two integers and one text, 232 bytes, spread over ten tables of
//! each engine.
//!
//! The texts are letters at random, so that no engine compresses them away. `k` counts the updates of a row.

use std::fmt::Write;

use anyhow::{Context, Result};
use froglet_engine::Home;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tokio_postgres::Client;

use crate::progress;
use crate::tpccd::load::copy;

/// Tables of an engine; the paper has 250.
pub const TABLES: usize = 10;
/// Bytes of a record, as the paper counts them.
pub const RECORD_BYTES: u64 = 232;
/// Of the text.
const PAD_BYTES: usize = RECORD_BYTES as usize - 2 * size_of::<i32>();
/// Rows of one COPY.
const BATCH: u64 = 10_000;

/// A table's name, and the words behind its definition.
pub fn name(home: Home, table: usize) -> String {
    format!("on_{}_{table}", home.name())
}

/// Makes an engine's tables and fills them with `rows` rows in all. `using`: whether the server has engines to choose.
pub async fn load(client: &Client, home: Home, rows: u64, using: bool) -> Result<()> {
    let bar = progress::bar(&format!("loading rows, {}", home.name()), rows);
    let letters = letters();
    let of_table = rows / TABLES as u64;
    for table in 0..TABLES {
        let name = name(home, table);
        let using = if using { format!(" USING {}", home.name()) } else { String::new() };
        let sql = format!(
            "CREATE TABLE {name} (id integer PRIMARY KEY, k integer NOT NULL, pad varchar({PAD_BYTES}) NOT NULL){using}"
        );
        client.batch_execute(&sql).await.context(sql)?;
        for start in (0..of_table).step_by(BATCH as usize) {
            let end = of_table.min(start + BATCH);
            let mut lines = String::new();
            for id in start..end {
                writeln!(lines, "{id}\t0\t{}", pad(&letters, id + table as u64 * of_table))?;
            }
            copy(client, &name, lines).await.with_context(|| format!("COPY {name}"))?;
            bar.inc(end - start);
        }
    }
    bar.finish_and_clear();
    Ok(())
}

/// Rows and updates of an engine's tables.
pub async fn count(client: &Client, home: Home) -> Result<(i64, i64)> {
    let mut all = (0, 0);
    for table in 0..TABLES {
        let sql = format!("SELECT count(*), sum(k)::bigint FROM {}", name(home, table));
        let row = client.query_one(&sql, &[]).await.context(sql)?;
        all = (all.0 + row.get::<_, i64>(0), all.1 + row.get::<_, i64>(1));
    }
    Ok(all)
}

/// Many more than a block of a file has, so that it holds hardly any of them twice.
fn letters() -> String {
    let mut rng = SmallRng::seed_from_u64(1);
    (0..1 << 20).map(|_| char::from(rng.random_range(b'a'..=b'z'))).collect()
}

/// The text of a row: a part of the letters that begins at its own place.
fn pad(letters: &str, row: u64) -> &str {
    let places = (letters.len() - PAD_BYTES) as u64;
    let at = (row.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20) % places;
    &letters[at as usize..at as usize + PAD_BYTES]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_follow_each_other_have_different_texts_of_the_length_that_is_said() {
        let letters = letters();
        let texts: Vec<&str> = (0..100).map(|row| pad(&letters, row)).collect();
        assert!(texts.iter().all(|text| text.len() == PAD_BYTES));
        assert!(texts.windows(2).all(|pair| pair[0][..8] != pair[1][..8]));
    }
}
