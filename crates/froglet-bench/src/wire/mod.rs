//! TPC-C over the wire beside PostgreSQL 15 (issue 6, "Measure").
//!
//! ```text
//!   clients ──TCP, prepared statements──▶ postgres (shared_buffers 2 GB)   round 1: A B  round 2: B A  …
//!           ──TCP, prepared statements──▶ froglet serve
//!                                          afterwards: the twelve conditions, asked of each in SQL
//! ```
//!
//! The clients are `tpccd`'s: the standard mix without think times, each on its home warehouse, the
//! next transaction when the last has ended ([`closed`]); statements that do not wait for each other's answers
//! are sent together, to both servers alike. Target: with `synchronous_commit` off, at least twice PostgreSQL's
//! throughput.

pub(crate) mod conditions;

use std::time::Duration;

use anyhow::{Context, Result};

use crate::closed::{self, Round};
use crate::postgres::Postgres;
use crate::report::Report;
use crate::server::Froglet;
use crate::stats::{median, range};
use crate::tpcc::db::Scale;
use crate::tpcc::inputs::{KINDS, Kind, Terminal};
use crate::tpccd::load::load;
use crate::tpccd::rounds::rotated;
use crate::tpccd::transactions::{Mix, Session};
use crate::tpccd::workload::connect;
use crate::{Args, progress};

/// For `froglet bench list`.
pub const ABOUT: &str = "TPC-C over the wire beside PostgreSQL 15, with the twelve conditions";

const POSTGRES: &str = "PostgreSQL 15";
const FROGLET: &str = "froglet";
/// What issue 6 demands of the ratio with asynchronous commit.
const TARGET: f64 = 2.0;

/// One thing that is measured.
struct Experiment {
    name: &'static str,
    clients: u16,
    synchronous_commit: &'static str,
    isolation: &'static str,
    target: Option<f64>,
}

const EXPERIMENTS: [Experiment; 5] = [
    Experiment {
        name: "4 clients, async commit",
        clients: 4,
        synchronous_commit: "off",
        isolation: "read committed",
        target: Some(TARGET),
    },
    Experiment {
        name: "1 client, async commit",
        clients: 1,
        synchronous_commit: "off",
        isolation: "read committed",
        target: Some(TARGET),
    },
    Experiment {
        name: "16 clients, async commit",
        clients: 16,
        synchronous_commit: "off",
        isolation: "read committed",
        target: Some(TARGET),
    },
    Experiment {
        name: "4 clients, async commit, serializable",
        clients: 4,
        synchronous_commit: "off",
        isolation: "serializable",
        target: None,
    },
    Experiment {
        name: "4 clients, durable",
        clients: 4,
        synchronous_commit: "on",
        isolation: "read committed",
        target: None,
    },
];

/// Runs it.
pub fn run(args: &Args) -> Result<Report> {
    let mut report = Report::new("TPC-C over the wire (issue 6)");
    let warehouses = i32::from(args.scale.unwrap_or(4));
    let scale = if args.small { Scale::small } else { Scale::full }(warehouses);
    let postgres = Postgres::start(&args.postgres, &args.dir, &[])?;
    let froglet = Froglet::start(&args.binary()?, &args.dir, &[])?;
    let servers = [(POSTGRES, postgres.port()), (FROGLET, froglet.port())];
    tokio::runtime::Runtime::new()?.block_on(async {
        for (name, port) in servers {
            progress::phase(&format!("{name}: loading {warehouses} warehouses"));
            let client = connect(port).await?;
            load(&client, scale).await.with_context(|| format!("filling {name}"))?;
            if name == POSTGRES {
                client.batch_execute("VACUUM (ANALYZE)").await?;
                client.batch_execute("CHECKPOINT").await?;
            }
        }
        for experiment in EXPERIMENTS.iter().filter(|e| args.wants(e.name)) {
            measure_all(args, experiment, scale, &servers, &mut report).await?;
        }
        for (name, port) in servers {
            progress::phase(&format!("{name}: the twelve conditions"));
            let client = connect(port).await?;
            for wrong in conditions::violated(&client).await.context(name)? {
                report.fail(format!("{name}: {wrong}"));
            }
        }
        anyhow::Ok(())
    })?;
    froglet.stop()?;
    postgres.stop()?;
    Ok(report)
}

/// Rounds of one experiment on both servers, each first in turn.
async fn measure_all(
    args: &Args,
    experiment: &Experiment,
    scale: Scale,
    servers: &[(&'static str, u16); 2],
    report: &mut Report,
) -> Result<()> {
    let seconds = args.seconds.unwrap_or(10.0);
    let rounds = usize::from(args.rounds.unwrap_or(3));
    let mut results = [Vec::new(), Vec::new()];
    for round in 0..rounds {
        for at in rotated(&[0, 1], round) {
            let (name, port) = servers[at];
            let phase = format!("{}: {name}, round {} of {rounds}", experiment.name, round + 1);
            progress::phase(&phase);
            let seed = 1 + (round as u64) * 1000;
            let measure = Duration::from_secs_f64(seconds);
            results[at]
                .push(run_once(port, experiment, scale, seed, measure).await.context(phase)?);
        }
    }
    for ((name, _), rounds) in servers.iter().zip(&results) {
        add(report, name, experiment.name, rounds);
    }
    report.add_ratio(FROGLET, POSTGRES, experiment.name, "throughput");
    if let Some(target) = experiment.target {
        report.add("target", experiment.name, "throughput", target, "x");
    }
    Ok(())
}

async fn run_once(
    port: u16,
    experiment: &Experiment,
    scale: Scale,
    seed: u64,
    measure: Duration,
) -> Result<Round> {
    let mut sessions = Vec::new();
    for n in 0..experiment.clients {
        let client = connect(port).await?;
        let settings = format!(
            "SET synchronous_commit = {}; SET default_transaction_isolation = '{}'",
            experiment.synchronous_commit, experiment.isolation
        );
        client.batch_execute(&settings).await?;
        let home = i32::from(n) % scale.warehouses + 1;
        let terminal = Terminal::new(home, scale, seed + u64::from(n));
        sessions.push(Session::open(client, terminal, Mix::default()).await?);
    }
    closed::run(&mut sessions, experiment.clients, measure).await
}

/// Medians of the rounds.
fn add(report: &mut Report, name: &str, experiment: &str, rounds: &[Round]) {
    let of = |figure: &dyn Fn(&Round) -> f64| rounds.iter().map(figure).collect::<Vec<f64>>();
    let all = of(&Round::per_second);
    report.add(name, experiment, "throughput", median(&all), "1/s");
    let spread = range(&all) / median(&all).max(f64::MIN_POSITIVE) * 100.0;
    report.add(name, experiment, "range of the rounds", spread, "%");
    let new_orders = |r: &Round| r.of(Kind::NewOrder).count() as f64 / r.seconds;
    report.add(name, experiment, "new orders", median(&of(&new_orders)) * 60.0, "1/min");
    let again = of(&|r| r.again as f64 / r.seconds);
    report.add(name, experiment, "refused and run again", median(&again), "1/s");
    for kind in KINDS {
        for (percentile, quantile) in [("p50", 0.5), ("p99", 0.99)] {
            let us = of(&|r| r.of(kind).quantile_us(quantile));
            let metric = format!("{} {percentile}", kind.name());
            report.add(name, experiment, &metric, median(&us), "µs");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_become_medians_and_ratios() {
        let round = |count: u64| {
            let mut round = Round::default();
            (round.seconds, round.again) = (2.0, 4);
            let class = Kind::NewOrder as usize;
            (0..count).for_each(|_| round.record(class, Duration::from_micros(1)));
            round
        };
        let mut report = Report::new("wire");
        add(&mut report, POSTGRES, "x", &[round(10), round(30), round(20)]);
        add(&mut report, FROGLET, "x", &[round(50)]);
        report.add_ratio(FROGLET, POSTGRES, "x", "throughput");
        assert_eq!(report.value(POSTGRES, "x", "throughput"), Some(10.0));
        assert_eq!(report.value(POSTGRES, "x", "new orders"), Some(600.0));
        assert_eq!(report.value(FROGLET, "x", "refused and run again"), Some(2.0));
        assert_eq!(report.value("froglet / PostgreSQL 15", "x", "throughput"), Some(2.5));
    }
}
