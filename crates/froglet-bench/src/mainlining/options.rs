//! What `froglet bench mainlining` alone can be asked.

use std::path::PathBuf;

/// A figure of the paper, or what issue 5 asks for besides.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// TPC-C while blocks are frozen, and their states at the end
    #[value(name = "8")]
    Oltp,
    /// Rows as columns against rows as one wide column
    #[value(name = "9")]
    RowColumn,
    /// Blocks that are not frozen yet, over time
    #[value(name = "10")]
    Backlog,
    /// Blocks a second by what of them is empty
    #[value(name = "11")]
    Transformation,
    /// Rows moved, against the fewest possible (measured with 11)
    #[value(name = "12")]
    Moves,
    /// What of the time is compaction, collection, gathering (measured with 11)
    #[value(name = "13")]
    Phases,
    /// Blocks compacted together
    #[value(name = "14")]
    Groups,
    /// A table into Python
    #[value(name = "15")]
    Export,
    /// Bytes of a frozen TPC-C against Arrow's
    Memory,
    /// The CH-benCHmark's queries over frozen and hot tables
    Queries,
    /// What a writer waits for a reader
    Waits,
}

/// Options of mainlining.
#[derive(clap::Args, Clone, Debug, Default)]
#[group(id = "mainlining")]
pub struct Options {
    /// These figures only (mainlining)
    #[arg(long, value_enum, value_delimiter = ',', value_name = "N,N")]
    pub figure: Vec<Figure>,

    /// Blocks of 8,192 rows of the table that is transformed (mainlining; 500)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub blocks: Option<u32>,

    /// Megabytes of order_line to export (mainlining; 64, the issue has 1000)
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub export_mb: Option<u32>,

    /// A Python with psycopg, pandas, pyarrow; datafusion and duckdb if it has them (mainlining)
    #[arg(long, value_name = "PATH", default_value = "target/test-venv/bin/python")]
    pub python: PathBuf,
}
