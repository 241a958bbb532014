//! Figure 15: a table into Python.
//!
//! The paper exports ORDER_LINE (7 GB) over a 10 Gbit/s network with 0 to 100 % of its blocks hot, by RDMA, Flight, a
//! vectorized protocol and PostgreSQL's: Flight of frozen blocks uses 80 % of the network, and falls to the
//! vectorized protocol's speed when every block has to be materialised.
//!
//! Ours is over loopback, into pyarrow and pandas: Flight SQL by ADBC, COPY in both formats, and psycopg's rows;
//! PostgreSQL 15 has the latter three. The limits are a bare socket and a memcpy of the same bytes. A block is heated by one
//! update, which thaws the column that is updated: the others stay frozen. `export.py` is the client. Flight is left
//! out where the server has none.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::{Bench, files};
use crate::limits::{self, Bound};
use crate::postgres::Postgres;
use crate::progress;
use crate::report::Report;
use crate::server::{Froglet, free_port};
use crate::store::temporary;
use crate::tpcc::db::Scale;
use crate::tpcc::schema::TableName;

const CLIENT: &str = include_str!("export.py");
/// About what the rows of a warehouse at the start take as Arrow.
const WAREHOUSE_MB: u32 = 25;
const DEFAULT_MB: u32 = 64;
const OPERATION: &str = "15: order_line into Python";
const FLIGHT: &str = "Flight, 0 % hot";
const SOCKET: &str = "bare socket";
const POSTGRES_ROWS: &str = "PostgreSQL psycopg rows";

/// A line that the client prints.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Line {
    Wrong { wrong: String },
    Way { way: String, seconds: f64, bytes: Option<u64>, rows: u64, blocks: Option<States> },
}

#[derive(Debug, Deserialize)]
struct States {
    hot: u64,
    cooling: u64,
    frozen: u64,
}

pub fn run(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let args = bench.args;
    let Some(python) = bench.python(report, "figure 15") else { return Ok(()) };
    let dir = temporary(&args.dir)?;
    progress::phase("15: making order_line");
    files::write(scale(bench), &[TableName::OrderLine], dir.path())?;
    let binary = args.binary()?;
    let flight_port = has_flight(&binary)?.then(free_port).transpose()?;
    let mut options = vec!["--freeze-after".to_owned(), "off".to_owned()];
    if let Some(port) = flight_port {
        options.extend(["--flight-listen".to_owned(), format!("127.0.0.1:{port}")]);
    }
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let froglet = Froglet::start(&binary, &args.dir, &options)?;
    let start = || Postgres::start(&args.postgres, &args.dir, &[]);
    let postgres = (!args.tpccd.no_postgres).then(start).transpose()?;
    let mut client = Command::new(python);
    client.args(["-c", CLIENT, "--rounds", &bench.rounds.to_string()]);
    client.arg("--dir").arg(dir.path()).args(["--froglet", &froglet.port().to_string()]);
    for (name, port) in
        [("--flight", flight_port), ("--postgres", postgres.as_ref().map(Postgres::port))]
    {
        if let Some(port) = port {
            client.args([name, &port.to_string()]);
        }
    }
    progress::phase("15: order_line into Python");
    let printed = files::printed(&mut client)?;
    postgres.map(Postgres::stop).transpose()?;
    froglet.stop()?;
    for line in printed.lines() {
        let line = serde_json::from_str(line).with_context(|| format!("not understood: {line}"))?;
        add(report, line);
    }
    add_ratios(report);
    Ok(())
}

fn scale(bench: &Bench<'_>) -> Scale {
    let mb = bench.args.mainlining.export_mb.unwrap_or(DEFAULT_MB);
    match bench.args.small {
        true => Scale::small(10),
        // Nobody reads the other tables: few items make little stock.
        false => Scale { items: 1000, ..Scale::full(mb.div_ceil(WAREHOUSE_MB) as i32) },
    }
}

fn has_flight(binary: &Path) -> Result<bool> {
    let output = Command::new(binary).args(["serve", "--help"]).output();
    let output = output.with_context(|| format!("{} cannot be run", binary.display()))?;
    Ok(String::from_utf8_lossy(&output.stdout).contains("--flight-listen"))
}

fn add(report: &mut Report, line: Line) {
    let (way, seconds, bytes, rows, blocks) = match line {
        Line::Wrong { wrong } => return report.fail(wrong),
        Line::Way { way, seconds, bytes, rows, blocks } => (way, seconds, bytes, rows, blocks),
    };
    report.add(&way, OPERATION, "time", seconds * 1000.0, "ms");
    report.add(&way, OPERATION, "rows", rows as f64 / seconds, "1/s");
    if let Some(bytes) = bytes {
        report.add(&way, OPERATION, "Arrow bytes", bytes as f64, "B");
        report.add(&way, OPERATION, "speed", bytes as f64 / seconds / 1e6, "MB/s");
    }
    if let Some(States { hot, cooling, frozen }) = blocks {
        for (state, blocks) in [("hot", hot), ("cooling", cooling), ("frozen", frozen)] {
            report.add(&way, OPERATION, &format!("{state} blocks"), blocks as f64, "blocks");
        }
    }
}

/// How many times as fast each way is as a bare socket and as PostgreSQL's rows.
fn add_ratios(report: &mut Report) {
    let timed = report.rows.iter().filter(|m| (&*m.operation, &*m.metric) == (OPERATION, "time"));
    let ways: Vec<(String, f64)> = timed.map(|m| (m.approach.clone(), m.value)).collect();
    for (base, metric) in [(SOCKET, "speed, of a bare socket's"), (POSTGRES_ROWS, "speed, of its")]
    {
        let Some(of_base) = report.value(base, OPERATION, "time") else { continue };
        for (way, ms) in ways.iter().filter(|(way, _)| way != base) {
            report.add(&format!("{way} / {base}"), OPERATION, metric, of_base / ms, "x");
        }
    }
    let ratio = |report: &Report, way: &str, base: &str| {
        Some(report.value(base, OPERATION, "time")? / report.value(way, OPERATION, "time")?)
    };
    if let Some(ratio) = ratio(report, FLIGHT, SOCKET) {
        let what = "Flight of frozen data, of a bare socket's speed";
        limits::add(report, what, ratio * 100.0, Bound::AtLeast(80.0), "%");
    }
    let to_pandas = ["to pandas on Arrow", "to pandas"].map(|what| format!("{FLIGHT}, {what}"));
    let ways = [
        (FLIGHT, "Flight to pyarrow"),
        (&*to_pandas[0], "Flight to pandas on Arrow"),
        (&*to_pandas[1], "Flight to pandas"),
    ];
    for (way, what) in ways {
        if let Some(ratio) = ratio(report, way, POSTGRES_ROWS) {
            let what = format!("{what} / PostgreSQL's psycopg to pandas");
            limits::add(report, &what, ratio, Bound::AtLeast(50.0), "x");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_client_become_rows_and_limits() {
        let mut report = Report::new("15");
        for line in [
            r#"{"way": "Flight, 0 % hot", "seconds": 0.5, "bytes": 1000000, "rows": 10,
                "blocks": {"hot": 0, "cooling": 1, "frozen": 2}}"#,
            r#"{"way": "bare socket", "seconds": 0.25, "bytes": 1000000, "rows": 10}"#,
            r#"{"way": "PostgreSQL psycopg rows", "seconds": 30.0, "bytes": null, "rows": 10}"#,
        ] {
            add(&mut report, serde_json::from_str(line).unwrap());
        }
        add_ratios(&mut report);
        assert_eq!(report.value(FLIGHT, OPERATION, "speed"), Some(2.0));
        assert_eq!(report.value(FLIGHT, OPERATION, "cooling blocks"), Some(1.0));
        let verdicts: Vec<_> = report.summary.lines().map(|l| &l[..6]).collect();
        assert_eq!(verdicts, ["MISSED", "met   "], "half a socket's speed; 60 times psycopg's");
        add(&mut report, serde_json::from_str(r#"{"wrong": "rows"}"#).unwrap());
        assert!(report.verdict().is_err());
    }
}
