//! TPC-CD: TPC-C over SQL while one schema change runs, and the paper's microbenchmark the same way
//! (Tesseract, paper 000, section 6, figures 4 to 10). Issue 3, "Measure".
//!
//! ```text
//!   workload ── transactions   TPC-C's mix, prepared statements     schema, load: its tables
//!            └─ micro          the microbenchmark                   money: numeric on the wire
//!   operations                 the schema changes
//!   arrivals ─▶ clients ─▶ recording      closed or open loop, and what was seen
//!   system ─▶ experiment       one run, and a short one to verify   processor: who had the cores
//!   metrics ─▶ rounds ─▶ summary          figures, medians, what the issue asks
//!   sweep ─▶ chart             size and threads                     plot: throughput over time
//! ```
//!
//! Four approaches for every change, in interleaved rounds on this machine, each on a server with
//! the same population: **Tesseract** is the change as anybody makes it. **NoDDL** is the same time
//! without it (at least a calm). **Blocking** is the same change while a lock keeps everybody out; the lock is a gate
//! in the benchmark's clients, because the server has none that readers would respect, so it costs
//! the clients less than a lock manager's would. Clients pay for the gate under each approach.
//! **PostgreSQL** is PostgreSQL 15 with the same statements and clients; rows that are wrong there
//! are what it loses where tables are made of others while somebody writes (an insert counts once, an
//! update twice: as the row that is there and the one that should be), and fail nothing.
//!
//! Clients follow one another's transactions (closed loop), or transactions arrive at a part of the
//! rate that the same clients reach on the same system without a change (`--load`, open loop).
//! `--figures DIR` measures both and the sweeps, and writes all of it into DIR.
//!
//! With `--approach` the clients go on with the new schema instead: see [`flip`], which uses the same
//! clients ([`cutover`]) with other statements (`statements.rs`).
//!
//! Differences from the paper: two cores instead of 40, so clients, server and migration share
//! what there is; SQL by TCP instead of stored procedures; ADD COLUMN is computed (a constant
//! default takes no migration); lazy approaches are in [`flip`]. `synchronous_commit` is off, as the paper's
//! commits are pipelined. Latencies begin before the gate. What is verified (every Tesseract run,
//! see [`experiment`]) fails the benchmark, how fast it was does not.

pub mod arrivals;
pub(crate) mod chart;
pub mod clients;
mod cutover;
pub(crate) mod draw;
pub mod experiment;
pub(crate) mod flip;
pub(crate) mod load;
mod metrics;
pub mod micro;
pub(crate) mod money;
pub mod operations;
pub mod options;
mod plot;
pub mod processor;
pub mod recording;
pub(crate) mod rounds;
pub(crate) mod schema;
pub(crate) mod statements;
pub(crate) mod summary;
mod svg;
mod sweep;
pub(crate) mod system;
pub(crate) mod transactions;
pub mod workload;

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use self::arrivals::Arrivals;
use self::experiment::{Approach, Experiment};
use self::operations::{Load, Operation};
use self::system::Systems;
use self::workload::Workload;
use crate::report::Report;
use crate::tpcc::db::Scale;
use crate::{Args, progress};

/// For `froglet bench list`.
pub const ABOUT: &str =
    "TPC-C over SQL while one schema change runs: online, blocking, none, PostgreSQL";

/// The width of a point in time of a plot.
const WINDOW: Duration = Duration::from_millis(100);
/// In the order of the first round. The first says how long NoDDL is watched.
const APPROACHES: [Approach; 4] =
    [Approach::Tesseract, Approach::NoDdl, Approach::Blocking, Approach::Postgres];
/// A change is given up after so many calms, and not before [`PATIENCE`].
const PATIENCE_CALMS: u32 = 10;
const PATIENCE: Duration = Duration::from_secs(5);

/// What all measurements have in common.
struct Bench<'a> {
    args: &'a Args,
    clients: u16,
    rounds: u16,
    warm_up: Duration,
    calm: Duration,
    plots: Option<&'a Path>,
}

/// Runs it.
pub fn run(args: &Args) -> Result<Report> {
    if !args.tpccd.approach.is_empty() {
        return flip::run(args);
    }
    if let Some(sweep) = args.tpccd.sweep.iter().find(|sweep| sweep.is_of_flips()) {
        bail!("--sweep {sweep:?} is of big flips: give --approach lazy, too");
    }
    let mut report = Report::new("TPC-CD and microbenchmark (Tesseract, figures 4 to 10)");
    let figures = args.tpccd.figures.as_deref();
    if let Some(dir) = figures {
        fs::create_dir_all(dir).with_context(|| format!("{} cannot be made", dir.display()))?;
    }
    let bench = Bench::new(args);
    let systems = Systems::new(args)?;
    for load in args.tpccd.loops() {
        bench.compare(&systems, load, &mut report)?;
    }
    sweep::run(&bench, &systems, &mut report)?;
    systems.stop()?;
    if let Some(dir) = figures {
        report.write(&dir.join("tpccd.json"))?;
        fs::write(dir.join("tpccd.txt"), report.text())?;
    }
    Ok(report)
}

impl Bench<'_> {
    fn new(args: &Args) -> Bench<'_> {
        let calm = if args.small { 0.2 } else { 5.0 };
        let calm = Duration::from_secs_f64(args.seconds.unwrap_or(calm));
        Bench {
            args,
            clients: args.workers.last().copied().unwrap_or(2),
            rounds: args.rounds.unwrap_or(1),
            warm_up: calm.div_f64(2.5).min(Duration::from_secs(2)),
            calm,
            plots: args.plots.as_deref().or(args.tpccd.figures.as_deref()),
        }
    }

    /// Every change under every approach, in a closed loop, or in an open one at a part of the
    /// clients' rate.
    fn compare(&self, systems: &Systems<'_>, load: Option<f64>, report: &mut Report) -> Result<()> {
        let mut names = Vec::new();
        let mut rates = load.map(Rates::new);
        for (under, operation) in operations::all() {
            let mut name = under.label(operation);
            if !self.args.wants(&name) {
                continue;
            }
            if let Some(rates) = &mut rates {
                name += &format!(", load {}", rates.part);
                rates.measure(self, systems, under, operation, report)?;
            }
            self.change(systems, (under, operation), &name, rates.as_ref(), report)?;
            names.push(name);
        }
        summary::add(report, &names, load);
        summary::add_stalls(report, &names);
        Ok(())
    }

    /// One change under every approach, in all rounds.
    fn change(
        &self,
        systems: &Systems<'_>,
        (under, operation): (Load, &Operation),
        name: &str,
        rates: Option<&Rates>,
        report: &mut Report,
    ) -> Result<()> {
        let approaches: Vec<_> = APPROACHES.into_iter().filter(|a| systems.has(*a)).collect();
        let offered = |approach| rates.and_then(|rates| rates.offered(under, approach));
        let mut instead = Duration::ZERO;
        let mut measures = Vec::new();
        for round in 0..self.rounds {
            let mut outcomes = Vec::new();
            for approach in rounds::rotated(&approaches, round.into()) {
                let number = round + 1;
                let phase =
                    format!("{name}: {}, round {number} of {}", approach.name(), self.rounds);
                progress::phase(&phase);
                let experiment = self.experiment(under, operation, offered(approach));
                let outcome = experiment.run(systems, approach, instead).context(phase)?;
                if approach == Approach::Tesseract {
                    instead = outcome.change.length();
                }
                outcomes.push((approach, outcome));
            }
            outcomes.sort_by_key(|(a, _)| APPROACHES.iter().position(|b| a == b));
            let mut figures = report.empty();
            for (approach, outcome) in &outcomes {
                metrics::add(&mut figures, *approach, name, outcome, offered(*approach));
                if let (Approach::Tesseract, Some(wrong @ 1..)) = (approach, outcome.wrong) {
                    report.fail(format!("{name}: {wrong} rows are wrong after the change"));
                }
            }
            metrics::add_ratios(&mut figures, name, &outcomes, rates.is_some());
            measures.push(figures.rows);
            if let (0, Some(dir)) = (round, self.plots) {
                let experiment = self.experiment(under, operation, None);
                let plot = draw::plot(name, &experiment, &outcomes);
                draw::write(dir, &format!("{} {name}", operation.figure), &plot.svg())?;
            }
        }
        report.rows.extend(rounds::medians(&measures));
        Ok(())
    }

    fn experiment<'o>(
        &self,
        under: Load,
        operation: &'o Operation,
        offered: Option<f64>,
    ) -> Experiment<'o> {
        let even = |per_second| Arrivals::Even { per_second };
        Experiment {
            workload: workload(under, self.args, self.clients),
            operation,
            clients: self.clients,
            arrivals: offered.map_or(Arrivals::BackToBack, even),
            warm_up: self.warm_up,
            calm: self.calm,
            patience: PATIENCE.max(self.calm * PATIENCE_CALMS),
        }
    }
}

/// What clients reach without a change, measured once for each load and system.
struct Rates {
    /// The part of it that is offered.
    part: f64,
    /// In transactions a second; on PostgreSQL or not.
    reached: Vec<(Load, bool, f64)>,
}

impl Rates {
    fn new(part: f64) -> Rates {
        Rates { part, reached: Vec::new() }
    }

    /// Measures what is not known yet, by a run of three calms without a change.
    fn measure(
        &mut self,
        bench: &Bench<'_>,
        systems: &Systems<'_>,
        under: Load,
        operation: &Operation,
        report: &mut Report,
    ) -> Result<()> {
        for approach in [Approach::NoDdl, Approach::Postgres] {
            if !systems.has(approach) || self.reached(under, approach).is_some() {
                continue;
            }
            let phase = format!("{}: what the clients reach on {}", under.name(), approach.name());
            progress::phase(&phase);
            let experiment = bench.experiment(under, operation, None);
            let per_second = experiment.saturate(systems, approach).context(phase)?;
            report.add(approach.name(), &under.name(), "saturated throughput", per_second, "1/s");
            self.reached.push((under, approach == Approach::Postgres, per_second));
        }
        Ok(())
    }

    fn reached(&self, under: Load, approach: Approach) -> Option<f64> {
        let is_postgres = approach == Approach::Postgres;
        let same = |(load, on, _): &&(Load, bool, f64)| (*load, *on) == (under, is_postgres);
        self.reached.iter().find(same).map(|(_, _, per_second)| *per_second)
    }

    /// Transactions a second that an approach is offered.
    fn offered(&self, under: Load, approach: Approach) -> Option<f64> {
        Some(self.reached(under, approach)? * self.part)
    }
}

fn workload(load: Load, args: &Args, clients: u16) -> Workload {
    match load {
        Load::Tpcc => {
            let warehouses = i32::from(args.scale.unwrap_or(0).max(clients));
            let scale = if args.small { Scale::small } else { Scale::full };
            Workload::Tpcc(scale(warehouses))
        }
        Load::Micro(reads_percent) => {
            let rows = args.rows.unwrap_or(if args.small { 10_000 } else { 1_000_000 });
            Workload::Micro { rows, reads_percent, unused: 0 }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_system_is_offered_a_part_of_what_its_clients_reach() {
        let reached = vec![
            (Load::Tpcc, false, 1000.0),
            (Load::Tpcc, true, 400.0),
            (Load::Micro(20), false, 9.0),
        ];
        let rates = Rates { part: 0.5, reached };
        assert_eq!(rates.offered(Load::Tpcc, Approach::Tesseract), Some(500.0));
        assert_eq!(rates.offered(Load::Tpcc, Approach::NoDdl), Some(500.0));
        assert_eq!(rates.offered(Load::Tpcc, Approach::Postgres), Some(200.0));
        assert_eq!(rates.offered(Load::Micro(80), Approach::Blocking), None);
    }
}
