//! The workloads behind `froglet bench NAME`: one per paper figure or target of an issue.
//!
//! ```text
//!   name      what it measures                                   where it comes from
//!   tpcc      stored procedures straight on the engine           mainlining (paper 004), figure 8
//!   pgbench   PostgreSQL 15 and froglet, the same pgbench        issue 2, "Speed and memory"
//!   copy      COPY TO STDOUT beside PostgreSQL 15, files       issue 5, "Export and import of files"
//!   ddl       a worker's throughput while a schema changes, and  Tesseract (paper 000), figure 4;
//!             the longest gaps beside PostgreSQL 15               issue 24, "Stalls"
//!   tpccd     TPC-C over SQL while one schema change runs        Tesseract, figures 4 to 10
//!             --approach: clients that use the new schema         BullFrog (paper 002), 4.3 to 4.12
//!   wire      TPC-C over SQL beside PostgreSQL 15                issue 6, "Measure"
//!   mainlining  transformation to Arrow: what it costs, how    mainlining, figures 8 to 15
//!             fast it is, what it gives
//!   memory    bytes of 10 million rows against their raw size    issue 2, "Speed and memory"
//!   skeena    tables in memory and on disk in one transaction,   Skeena (paper 003), figures
//!             beside PostgreSQL 15                                6.1 to 6.6, table 6.1
//!   slsm      a table is split in a cluster with delayed links,   SLSM (paper 001), figures
//!             beside BullFrog's way and F1's                      8 to 11, table 1
//! ```
//!
//! Every benchmark prints a table and, with `--json FILE`, writes the same numbers in one shape
//! ([`report::Report`]); ratios between approaches are rows like any other. Approaches that are
//! compared run in the same process or in interleaved rounds, on the same machine. None of this
//! is a timed test: what a benchmark asserts is that the answers are right (TPC-C's consistency
//! conditions), never that they were fast.
//!
//! `froglet demo` ([`demo`]) is here because it shows what the clients of `tpccd` see.
//!
//! Left out on purpose: the index has its own bench beside its code (`froglet-memory/benches`).

pub mod closed;
pub mod copy;
pub mod ddl;
pub mod demo;
pub mod figures;
pub mod histogram;
pub mod limits;
pub mod machine;
pub mod mainlining;
pub mod memory;
pub mod pgbench;
pub mod postgres;
pub mod progress;
pub mod report;
pub mod server;
pub mod skeena;
pub mod slsm;
pub mod stats;
pub mod store;
pub mod tpcc;
pub mod tpccd;
pub mod wire;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::builder::PossibleValuesParser;

use crate::report::Report;

/// A benchmark by name.
struct Benchmark {
    name: &'static str,
    about: &'static str,
    run: fn(&Args) -> Result<Report>,
}

const BENCHMARKS: &[Benchmark] = &[
    Benchmark { name: "tpcc", about: tpcc::ABOUT, run: tpcc::run },
    Benchmark { name: "pgbench", about: pgbench::ABOUT, run: pgbench::run },
    Benchmark { name: "copy", about: copy::ABOUT, run: copy::run },
    Benchmark { name: "ddl", about: ddl::ABOUT, run: ddl::run },
    Benchmark { name: "tpccd", about: tpccd::ABOUT, run: tpccd::run },
    Benchmark { name: "wire", about: wire::ABOUT, run: wire::run },
    Benchmark { name: "mainlining", about: mainlining::ABOUT, run: mainlining::run },
    Benchmark { name: "memory", about: memory::ABOUT, run: memory::run },
    Benchmark { name: "skeena", about: skeena::ABOUT, run: skeena::run },
    Benchmark { name: "slsm", about: slsm::ABOUT, run: slsm::run },
];

fn names() -> PossibleValuesParser {
    let known = BENCHMARKS
        .iter()
        .map(|b| clap::builder::PossibleValue::new(b.name).help(b.about))
        .chain([clap::builder::PossibleValue::new("list").help("Print the names and stop")]);
    PossibleValuesParser::new(known)
}

/// Arguments of `froglet bench`.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// Which benchmark
    #[arg(value_parser = names())]
    pub name: String,

    /// Write the results to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Seconds of each measurement
    #[arg(long, value_name = "N", value_parser = positive_seconds)]
    pub seconds: Option<f64>,

    /// Numbers of workers to measure, one after the other (tpcc); tpccd takes the last as its
    /// number of clients
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_value = "1,2",
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub workers: Vec<u16>,

    /// Scale: warehouses (tpcc, tpccd; at least the workers; wire: 4, skeena: 8), pgbench's -s (pgbench, 10)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub scale: Option<u16>,

    /// Rows of the table (memory, ddl in process, skeena's move: 10 million; skeena: 4; ddl, copy, tpccd's micro: 1)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1_000..))]
    pub rows: Option<u64>,

    /// Interleaved rounds, whose median counts (pgbench, wire, skeena, slsm: 3, copy: 5, tpccd: 1)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub rounds: Option<u16>,

    /// Only the approaches, experiments, operations or changes that have this in their names
    #[arg(long, value_name = "TEXT")]
    pub only: Option<String>,

    /// A population that loads in no time, for trying out (tpcc, tpccd, wire, mainlining, skeena,
    /// slsm)
    #[arg(long)]
    pub small: bool,

    /// Show where the time goes, by transaction type and kind of operation (tpcc)
    #[arg(long)]
    pub profile: bool,

    /// Where data goes that belongs on a disk; a directory in it is made and removed again
    #[arg(long, value_name = "DIR", default_value_os_t = std::env::temp_dir())]
    pub dir: PathBuf,

    /// Draw one SVG for each schema change and sweep into this directory, made if it is not there
    /// (tpccd)
    #[arg(long, value_name = "DIR")]
    pub plots: Option<PathBuf>,

    /// The froglet binary to serve with (all that have a server; this one if not given)
    #[arg(long, value_name = "PATH")]
    pub froglet: Option<PathBuf>,

    /// PostgreSQL's bin directory (pgbench, copy, ddl, tpccd, wire, mainlining, skeena)
    #[arg(long, value_name = "DIR", default_value = "/usr/lib/postgresql/15/bin")]
    pub postgres: PathBuf,

    /// What only tpccd has.
    #[command(flatten)]
    pub tpccd: tpccd::options::Options,

    /// What only mainlining has.
    #[command(flatten)]
    pub mainlining: mainlining::options::Options,

    /// What only slsm has.
    #[command(flatten)]
    pub slsm: slsm::Options,
}

pub(crate) fn positive_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds.is_finite() && seconds > 0.0 => Ok(seconds),
        _ => Err(format!("{text:?} is not a number of seconds above 0")),
    }
}

impl Args {
    /// Whether `--only` lets something of this name through.
    pub fn wants(&self, name: &str) -> bool {
        self.only.as_deref().is_none_or(|only| name.contains(only))
    }

    /// The binary to serve with.
    pub fn binary(&self) -> Result<PathBuf> {
        match &self.froglet {
            Some(path) => Ok(path.clone()),
            None => std::env::current_exe().context("this binary's own path is unknown"),
        }
    }

    /// Whether something else than the whole benchmark was asked for.
    pub fn partial(&self) -> bool {
        self.only.is_some()
    }
}

/// Runs a benchmark: prints its table, writes its JSON.
pub fn main(args: Args) -> Result<()> {
    let Some(benchmark) = BENCHMARKS.iter().find(|b| b.name == args.name) else {
        for benchmark in BENCHMARKS {
            println!("{:<12}{}", benchmark.name, benchmark.about);
        }
        return Ok(());
    };
    if cfg!(debug_assertions) {
        eprintln!("note: this binary is built without optimisation; its figures mean nothing");
    }
    let report = (benchmark.run)(&args)?;
    report.print();
    if let Some(file) = &args.json {
        report.write(file).with_context(|| format!("{} cannot be written", file.display()))?;
        println!("\nwritten to {}", file.display());
    }
    report.verdict()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(clap::Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    /// The arguments of a line.
    pub(crate) fn parse(line: &str) -> Result<Args, clap::Error> {
        Command::try_parse_from(line.split(' ')).map(|command| command.args)
    }

    #[test]
    fn arguments_are_checked_before_anything_runs() {
        let args = parse("bench tpcc --workers 1,2 --seconds 0.5").unwrap();
        assert_eq!((args.workers.as_slice(), args.seconds), ([1, 2].as_slice(), Some(0.5)));
        assert!(parse("bench list").is_ok());
        for wrong in ["bench tpcd", "bench ddl --seconds 0", "bench ddl --rows 9", "bench"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
