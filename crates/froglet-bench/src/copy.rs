//! COPY TO STDOUT against PostgreSQL 15, and COPY of files (issue 5).
//!
//! The table is TPC-C's order_line: eight integers, a timestamp, numeric(6,2), char(24). psql asks for all of it and
//! writes to /dev/null, in interleaved rounds (PostgreSQL, froglet, PostgreSQL, …); the median counts. Both must
//! give the same bytes in every format.
//!
//! ```text
//!   postgres      ─▶ COPY order_line TO STDOUT (text | csv | binary) ─▶ psql ─▶ /dev/null
//!   froglet serve ─▶ the same
//!                 ─▶ COPY order_line TO, FROM 'file' (parquet | arrow | csv | binary)
//! ```
//! What psql itself takes is in all figures of the first kind: it is the same for both.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::postgres::{self, Postgres, asked};
use crate::report::Report;
use crate::server::Froglet;
use crate::stats::{self, median};
use crate::store::temporary;
use crate::{Args, progress};

/// For `froglet bench list`.
pub const ABOUT: &str = "COPY TO STDOUT against PostgreSQL 15, and COPY of files";

const POSTGRES: &str = "PostgreSQL 15";
const FROGLET: &str = "froglet";
const NAMES: [&str; 2] = [POSTGRES, FROGLET];
const FORMATS: [&str; 3] = ["text", "csv", "binary"];
const FILES: [&str; 4] = ["parquet", "arrow", "csv", "binary"];

const TABLE: &str = "CREATE TABLE order_line (ol_o_id int, ol_d_id int, ol_w_id int, ol_number int, \
     ol_i_id int, ol_supply_w_id int, ol_delivery_d timestamp, ol_quantity int, \
     ol_amount numeric(6,2), ol_dist_info char(24))";

/// Runs it.
pub fn run(args: &Args) -> Result<Report> {
    let mut report = Report::new("COPY (issue 5)");
    let rows = args.rows.unwrap_or(1_000_000);
    let rounds = args.rounds.unwrap_or(5);
    let files = temporary(&args.dir)?;
    let directory = files.path().display().to_string();
    let postgres = Postgres::start(&args.postgres, &args.dir, &["fsync=off"])?;
    let froglet = Froglet::start(&args.binary()?, &args.dir, &["--copy-directory", &directory])?;
    let psql = args.postgres.join("psql");
    let ports = [postgres.port(), froglet.port()];
    for (name, port) in NAMES.into_iter().zip(ports) {
        progress::phase(&format!("{name}: {rows} rows"));
        ask(&psql, port, TABLE)?;
        ask(&psql, port, &fill(rows)).with_context(|| format!("filling {name}"))?;
    }
    for format in FORMATS {
        let operation = format!("COPY TO STDOUT, {format}");
        if args.wants(&operation) {
            to_stdout(&mut report, &psql, ports, format, rows, rounds)?;
        }
    }
    for format in FILES {
        let operation = format!("file, {format}");
        if args.wants(&operation) {
            of_files(&mut report, &psql, froglet.port(), files.path(), format, rows, rounds)?;
        }
    }
    froglet.stop()?;
    postgres.stop()?;
    Ok(report)
}

/// Ten lines of an order; every seventh order is not delivered.
fn fill(rows: u64) -> String {
    format!(
        "INSERT INTO order_line SELECT g / 10, g % 10 + 1, g % 7 + 1, g % 10 + 1, \
         g * 7919 % 100000 + 1, g % 7 + 1, \
         CASE WHEN g / 10 % 7 > 0 THEN ('2024-01-01'::date + (g / 50000)::int)::timestamp END, 5, \
         (g * 7907 % 999900) / 100.0, left(md5(g::text), 24) \
         FROM (SELECT x::bigint AS g FROM generate_series(1, {rows}) x) s"
    )
}

fn ask(psql: &Path, port: u16, sql: &str) -> Result<String> {
    let output = asked(postgres::client(psql, port).args(["-X", "-A", "-t", "-c", sql]))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn to_stdout(
    report: &mut Report,
    psql: &Path,
    ports: [u16; 2],
    format: &str,
    rows: u64,
    rounds: u16,
) -> Result<()> {
    let operation = format!("COPY TO STDOUT, {format}");
    let sql = format!("COPY order_line TO STDOUT (FORMAT {format})");
    let mut per_second = [Vec::new(), Vec::new()];
    for round in 1..=rounds {
        for (at, (name, port)) in NAMES.into_iter().zip(ports).enumerate() {
            progress::phase(&format!("{operation}: {name}, round {round} of {rounds}"));
            let seconds = discarded(postgres::client(psql, port).args(["-X", "-q", "-c", &sql]))?;
            per_second[at].push(rows as f64 / seconds);
        }
    }
    for (name, rates) in NAMES.into_iter().zip(&per_second) {
        add(report, name, &operation, rates);
    }
    report.add_ratio(FROGLET, POSTGRES, &operation, "throughput");
    compare(report, psql, ports, format)
}

fn add(report: &mut Report, name: &str, operation: &str, rates: &[f64]) {
    let middle = median(rates);
    report.add(name, operation, "throughput", middle, "rows/s");
    let spread = stats::range(rates) / middle.max(f64::MIN_POSITIVE) * 100.0;
    report.add(name, operation, "range of the rounds", spread, "%");
}

/// How long a client takes whose output nobody wants.
fn discarded(command: &mut Command) -> Result<f64> {
    let started = Instant::now();
    let status = command.stdout(Stdio::null()).status().context("psql cannot be run")?;
    ensure!(status.success(), "{command:?} failed");
    Ok(started.elapsed().as_secs_f64())
}

/// Both give the same bytes.
fn compare(report: &mut Report, psql: &Path, ports: [u16; 2], format: &str) -> Result<()> {
    // In one order: neither promises any.
    let sql = format!(
        "COPY (SELECT * FROM order_line ORDER BY ol_o_id, ol_number LIMIT 100000) TO STDOUT (FORMAT {format})"
    );
    let mut answers = Vec::new();
    for port in ports {
        answers.push(asked(postgres::client(psql, port).args(["-X", "-q", "-c", &sql]))?.stdout);
    }
    if answers[0] != answers[1] || answers[0].is_empty() {
        report.fail(format!("COPY TO STDOUT in {format} is not what PostgreSQL gives"));
    }
    Ok(())
}

fn of_files(
    report: &mut Report,
    psql: &Path,
    port: u16,
    directory: &Path,
    format: &str,
    rows: u64,
    rounds: u16,
) -> Result<()> {
    let (to, from) = (format!("COPY TO file, {format}"), format!("COPY FROM file, {format}"));
    let export = format!("COPY order_line TO 'file' (FORMAT {format})");
    let import = format!("COPY copied FROM 'file' (FORMAT {format})");
    let (mut written, mut read) = (Vec::new(), Vec::new());
    for round in 1..=rounds {
        progress::phase(&format!("files, {format}: round {round} of {rounds}"));
        ask(psql, port, &TABLE.replace("order_line", "copied"))?;
        for (sql, rates) in [(&export, &mut written), (&import, &mut read)] {
            let started = Instant::now();
            ask(psql, port, sql)?;
            rates.push(rows as f64 / started.elapsed().as_secs_f64());
        }
        let different =
            "SELECT count(*) FROM (SELECT * FROM order_line EXCEPT SELECT * FROM copied) s";
        if round == 1 && ask(psql, port, different)? != "0" {
            report.fail(format!("rows that went through a {format} file are not the same"));
        }
        ask(psql, port, "DROP TABLE copied")?;
    }
    add(report, FROGLET, &to, &written);
    add(report, FROGLET, &from, &read);
    let bytes = std::fs::metadata(directory.join("file"))?.len();
    report.add(FROGLET, &to, "size", bytes as f64 / rows as f64, "B/row");
    Ok(())
}
