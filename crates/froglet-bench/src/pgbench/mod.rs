//! pgbench against PostgreSQL 15 and froglet (issue 2, "Speed and memory").
//!
//! Both serve on loopback TCP of this machine, with their data in directories side by side; the
//! same pgbench asks both, in interleaved rounds (A B C A B C …), so that whatever else goes on here
//! hits both. The median of the rounds counts. Targets with `synchronous_commit` off: SELECT-only
//! at least 1.5 times PostgreSQL, TPC-B-like at least 2 times; with it on: at least as fast with
//! one client, faster with 16.
//!
//! ```text
//!   pgbench ──TCP──▶ postgres (shared_buffers 2 GB)      round 1: A B C   round 2: A B C   …
//!           ──TCP──▶ froglet serve
//!           ──TCP──▶ canned answers: what the client and the kernel cost alone
//! ```

mod limit;
mod server;

use anyhow::{Context, Result, ensure};

use self::limit::Limit;
use self::server::Server;
use crate::postgres::{Postgres, asked};
use crate::report::Report;
use crate::server::Froglet;
use crate::stats::{self, median};
use crate::tpccd::processor::family_time;
use crate::{Args, progress};

/// For `froglet bench list`.
pub const ABOUT: &str = "pgbench against PostgreSQL 15 and froglet, in interleaved rounds";

const POSTGRES: &str = "PostgreSQL 15";
const FROGLET: &str = "froglet";
const LIMIT: &str = "canned answers";
const PROCESSOR: &str = "server's processor time for a transaction";
/// Whoever is measured, in this order.
const NAMES: [&str; 3] = [POSTGRES, FROGLET, LIMIT];

/// One thing that is measured.
struct Experiment {
    name: &'static str,
    /// pgbench's script and protocol.
    arguments: &'static [&'static str],
    clients: u16,
    durable: bool,
    /// What the issue demands of the ratio.
    target: Option<f64>,
}

const EXPERIMENTS: [Experiment; 6] = [
    Experiment {
        name: "select-only, prepared, 4 clients, async commit",
        arguments: &["-S", "-M", "prepared"],
        clients: 4,
        durable: false,
        target: Some(1.5),
    },
    Experiment {
        name: "TPC-B-like, prepared, 4 clients, async commit",
        arguments: &["-M", "prepared"],
        clients: 4,
        durable: false,
        target: Some(2.0),
    },
    Experiment {
        name: "TPC-B-like, prepared, 1 client, durable",
        arguments: &["-M", "prepared"],
        clients: 1,
        durable: true,
        target: Some(1.0),
    },
    Experiment {
        name: "TPC-B-like, prepared, 16 clients, durable",
        arguments: &["-M", "prepared"],
        clients: 16,
        durable: true,
        target: Some(1.0),
    },
    Experiment {
        name: "select-only, simple, 4 clients, async commit",
        arguments: &["-S", "-M", "simple"],
        clients: 4,
        durable: false,
        target: None,
    },
    Experiment {
        name: "select-only, extended, 4 clients, async commit",
        arguments: &["-S", "-M", "extended"],
        clients: 4,
        durable: false,
        target: None,
    },
];

/// Runs it.
pub fn run(args: &Args) -> Result<Report> {
    let mut report = Report::new("pgbench (issue 2)");
    let scale = args.scale.unwrap_or(10);
    let seconds = args.seconds.unwrap_or(10.0).ceil().max(1.0) as u64;
    let postgres = Postgres::start(&args.postgres, &args.dir, &[])?;
    let froglet = Froglet::start(&args.binary()?, &args.dir, &[])?;
    let limit = Limit::start()?;
    let rounds = args.rounds.unwrap_or(3);
    let servers: [&dyn Server; 3] = [&postgres, &froglet, &limit];
    let pgbench = args.postgres.join("pgbench");
    for (name, server) in NAMES.into_iter().zip(servers) {
        if let Some(mut prepare) = server.prepare(&pgbench, scale) {
            progress::phase(&format!("{name}: pgbench -i -s {scale}"));
            asked(&mut prepare).with_context(|| format!("filling {name}"))?;
        }
    }
    for experiment in EXPERIMENTS.iter().filter(|e| args.wants(e.name)) {
        let mut results = [Vec::new(), Vec::new(), Vec::new()];
        for round in 1..=rounds {
            for (at, (name, server)) in NAMES.into_iter().zip(servers).enumerate() {
                let phase = format!("{}: {name}, round {round} of {rounds}", experiment.name);
                progress::phase(&phase);
                let got = measure(&pgbench, server, experiment, seconds)
                    .with_context(|| format!("{name}, {}", experiment.name))?;
                results[at].push(got);
            }
        }
        add(&mut report, experiment, &results);
    }
    check(&mut report, &args.postgres.join("psql"), &servers[..2])?;
    froglet.stop()?;
    postgres.stop()?;
    Ok(report)
}

/// What pgbench says of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Run {
    per_second: f64,
    latency_ms: f64,
    transactions: f64,
    /// The server's processor time for a transaction, in microseconds.
    processor_us: Option<f64>,
}

fn measure(
    pgbench: &std::path::Path,
    server: &dyn Server,
    experiment: &Experiment,
    seconds: u64,
) -> Result<Run> {
    let threads = experiment.clients.min(2);
    let commit = if experiment.durable { "on" } else { "off" };
    let mut command = server.client(pgbench);
    command.env("PGOPTIONS", format!("-c synchronous_commit={commit}"));
    command.args(["-n", "-T", &seconds.to_string()]);
    command.args(["-c", &experiment.clients.to_string(), "-j", &threads.to_string()]);
    let spent = || server.pid().map(family_time).transpose();
    let before = spent()?;
    let output = asked(command.args(experiment.arguments))?;
    let after = spent()?;
    let mut run = parse(&String::from_utf8_lossy(&output.stdout))?;
    run.processor_us = before
        .zip(after)
        .map(|(before, after)| (after - before).as_secs_f64() * 1e6 / run.transactions);
    Ok(run)
}

fn parse(text: &str) -> Result<Run> {
    let field = |name: &str| -> Result<f64> {
        let line = text.lines().find(|line| line.starts_with(name));
        let value = line
            .and_then(|l| l[name.len()..].trim_matches([' ', '=', ':']).split([' ', '/']).next());
        value
            .and_then(|v| v.parse().ok())
            .with_context(|| format!("pgbench printed no {name:?} but:\n{text}"))
    };
    let failed = text.lines().find(|line| line.starts_with("number of failed transactions: "));
    if let Some(line) = failed {
        ensure!(line.contains(": 0 "), "pgbench says: {line}");
    }
    Ok(Run {
        per_second: field("tps")?,
        latency_ms: field("latency average")?,
        transactions: field("number of transactions actually processed")?,
        processor_us: None,
    })
}

fn add(report: &mut Report, experiment: &Experiment, results: &[Vec<Run>; 3]) {
    for (name, runs) in NAMES.into_iter().zip(results) {
        let tps: Vec<f64> = runs.iter().map(|run| run.per_second).collect();
        let latency: Vec<f64> = runs.iter().map(|run| run.latency_ms * 1000.0).collect();
        report.add(name, experiment.name, "throughput", median(&tps), "1/s");
        report.add(name, experiment.name, "latency", median(&latency), "µs");
        let processor: Vec<f64> = runs.iter().filter_map(|run| run.processor_us).collect();
        if !processor.is_empty() {
            report.add(name, experiment.name, PROCESSOR, median(&processor), "µs");
        }
        // How much else went on: the rounds' range against their median.
        let spread = stats::range(&tps) / median(&tps).max(f64::MIN_POSITIVE) * 100.0;
        report.add(name, experiment.name, "range of the rounds", spread, "%");
    }
    report.add_ratio(FROGLET, POSTGRES, experiment.name, "throughput");
    report.add_ratio(LIMIT, POSTGRES, experiment.name, "throughput");
    report.add_ratio(FROGLET, POSTGRES, experiment.name, PROCESSOR);
    if let Some(target) = experiment.target {
        report.add("target", experiment.name, "throughput", target, "x");
    }
}

/// TPC-B's own condition: every sum is the sum of the deltas.
fn check(report: &mut Report, psql: &std::path::Path, servers: &[&dyn Server]) -> Result<()> {
    const SUMS: &str = "SELECT (SELECT sum(abalance) FROM pgbench_accounts), \
         (SELECT sum(tbalance) FROM pgbench_tellers), \
         (SELECT sum(bbalance) FROM pgbench_branches), \
         (SELECT coalesce(sum(delta), 0) FROM pgbench_history)";
    for (name, server) in NAMES.into_iter().zip(servers) {
        let output = asked(server.client(psql).args(["-X", "-A", "-t", "-c", SUMS]))?;
        let line = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let sums: Vec<&str> = line.split('|').collect();
        if sums.len() != 4 || sums.iter().any(|sum| *sum != sums[0]) {
            report.fail(format!("{name}: accounts|tellers|branches|history sum to {line}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "pgbench (15.14)\nscaling factor: 10\n\
        number of transactions actually processed: 21731\n\
        number of failed transactions: 0 (0.000%)\n\
        latency average = 0.184 ms\ninitial connection time = 3.1 ms\n\
        tps = 21731.530411 (without initial connection time)\n";

    #[test]
    fn pgbench_output_is_read_and_failures_are_not_overlooked() {
        let run = parse(OUTPUT).unwrap();
        let expected = Run {
            per_second: 21731.530411,
            latency_ms: 0.184,
            transactions: 21731.0,
            processor_us: None,
        };
        assert_eq!(run, expected);
        assert!(parse(&OUTPUT.replace(": 0 (", ": 3 (")).is_err());
        assert!(parse("pgbench: error: connection refused").is_err());
    }

    #[test]
    fn medians_and_ratios_become_rows() {
        let run = |per_second| Run {
            per_second,
            latency_ms: 0.1,
            transactions: 10.0,
            processor_us: Some(per_second * 2.0),
        };
        let mut report = Report::new("pgbench");
        let results = [
            vec![run(10.0), run(30.0), run(20.0)],
            vec![run(40.0), run(39.0), run(41.0)],
            vec![run(80.0)],
        ];
        add(&mut report, &EXPERIMENTS[0], &results);
        let name = EXPERIMENTS[0].name;
        assert_eq!(report.value("froglet / PostgreSQL 15", name, "throughput"), Some(2.0));
        assert_eq!(report.value("froglet / PostgreSQL 15", name, PROCESSOR), Some(2.0));
    }
}
