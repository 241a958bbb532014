//! Mutated files: COPY reads what is right and refuses the rest, it never panics its way through to the session
//! and never asks for memory that is not there. Valid files of every format are mutated and spliced; what reads
//! them is what the fuzz target `copy` runs under libFuzzer.

use std::path::Path;

use froglet_testkit::mutate::{self, Random};

#[path = "../../../../fuzz/entries/copy.rs"]
mod copy_entry;

const ROWS: &str =
    "insert into t select g, g % 100, g % 2 = 0, g / 8.0, g / 3.0::float8, g / 100.0,
    'text ' || (g % 20), 'c' || (g % 10), decode(md5(g::text), 'hex'), '2000-01-01'::date + g,
    ('2000-01-01'::date + g)::timestamp, now(), md5(g::text)::uuid
    from (select x::int as g from generate_series(1, 500) x) n;
    insert into t (id) values (0)";

/// Options under which the same rows make another file.
const KINDS: [(&str, &str); 10] = [
    ("parquet", ""),
    ("parquet", ", compression snappy"),
    ("parquet", ", compression none, row_group_size 100"),
    ("arrow", ""),
    ("arrow", ", compression lz4"),
    ("arrow", ", compression zstd"),
    ("csv", ""),
    ("csv", ", header match"),
    ("text", ""),
    ("binary", ""),
];

/// Valid files, each with its format.
async fn valid(db: &std::sync::Arc<froglet_sql::Database>, dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for (format, options) in KINDS {
        let written = options.replace("match", "true");
        let sql = format!("copy t to 'valid' (format {format}{written})");
        copy_entry::run(db, &sql).await.expect(&sql);
        let bytes = std::fs::read(dir.join("valid")).expect("the file is there");
        let format = match options.contains("match") {
            true => format!("{format}, header match"),
            false => format.to_owned(),
        };
        files.push((format, bytes));
    }
    files
}

#[tokio::test(flavor = "multi_thread")]
async fn every_mutated_file_is_read_or_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let dir = directory.path();
    let db = copy_entry::database(dir).await;
    copy_entry::run(&db, copy_entry::TABLE).await.expect("the table is made");
    copy_entry::run(&db, ROWS).await.expect("the rows are made");
    let files = valid(&db, dir).await;
    for (format, bytes) in &files {
        copy_entry::read(&db, dir, format, bytes).await.expect(format);
    }
    let mut random = Random(froglet_testkit::seed());
    let rounds = if froglet_testkit::is_long() { 50_000 } else { 600 };
    let (mut read, mut refused, mut unclear) = (0, 0, Vec::new());
    for _ in 0..rounds {
        let (format, bytes) = random.pick(&files);
        let other = &random.pick(&files).1;
        // What is at the end of a columnar file is believed first.
        let from = match random.below(2) {
            0 => 0,
            _ => bytes.len().saturating_sub(3000),
        };
        let mut suspect = bytes[..from].to_vec();
        suspect.extend(mutate::bytes(&mut random, &bytes[from..], other));
        match copy_entry::read(&db, dir, format, &suspect).await {
            Ok(()) => read += 1,
            Err(error) => {
                let state = error.state.to_string();
                // As PostgreSQL says of a binary value that is too short.
                let is_short = format == "binary" && state == "08P01";
                if !is_short && !["22", "42", "0A", "53", "54"].contains(&&state[..2]) {
                    unclear.push(format!("{format}: {state} {}", error.message));
                }
                refused += 1;
            }
        }
    }
    assert!(unclear.is_empty(), "{} unclear errors\n{}", unclear.len(), unclear.join("\n"));
    assert!(read > 10 && refused > 10, "{read} read, {refused} refused");
}

/// Lengths that nobody has memory for: an allocation of that size would end the process.
#[tokio::test(flavor = "multi_thread")]
async fn lengths_are_not_believed() {
    let directory = tempfile::tempdir().expect("a directory");
    let dir = directory.path();
    let db = copy_entry::database(dir).await;
    copy_entry::run(&db, copy_entry::TABLE).await.expect("the table is made");
    // A footer whose schema is a list of 2^31 - 1 structs.
    let footer = [0x29, 0xFC, 0xFF, 0xFF, 0xFF, 0xFF, 0x07, 0, 0];
    let mut file = b"PAR1".to_vec();
    file.extend_from_slice(&footer);
    file.extend_from_slice(&(footer.len() as u32).to_le_bytes());
    file.extend_from_slice(b"PAR1");
    let error = copy_entry::read(&db, dir, "parquet", &file).await.expect_err("refused");
    assert_eq!(error.state.to_string(), "22P04");
    assert!(error.message.contains("its footer is damaged"), "{error}");
    // Footers that are longer than their files.
    for (format, magic, length) in [("parquet", "PAR1", 4), ("arrow", "ARROW1", 4)] {
        let mut file = magic.as_bytes().to_vec();
        file.extend_from_slice(&[0; 100]);
        file.extend_from_slice(&i32::MAX.to_le_bytes()[..length]);
        file.extend_from_slice(magic.as_bytes());
        let error = copy_entry::read(&db, dir, format, &file).await.expect_err("refused");
        assert!(error.message.contains("cannot have 2147483647 bytes"), "{error}");
    }
}
