//! Big flips: TPC-C whose clients use a new schema from one commit on, under every way to get there
//! (BullFrog: the thesis' chapter 4, figures 4.3 to 4.12). Issue 4, "Measure".
//!
//! ```text
//!   approach    NoDDL, Eager-blocking, Multi-step, Tesseract, Lazy, Hybrid
//!   change      the three changes as SQL        multi_step   filled by a client, both are written
//!   run         one run on a server of its own  check        rows that are wrong afterwards
//!   figures ─▶ verdicts   numbers, ratios, what the issue asks        pictures
//!   sweeps ─▶ tracking, sizes   hot sets, granules, foreign keys; what tracking costs; first answers
//! ```
//!
//! Closed loop is saturation: clients follow one another's transactions. The moderate rate is a part
//! (0.65) of what the same clients reach without a change, evenly spaced; latency counts from the
//! arrival. A transaction that is refused at the flip is run again on the new schema
//! ([`cutover`](super::cutover)): that is counted, and in its latency. All else that fails is shown.
//!
//! Differences from the thesis: two cores for clients and server; 2 warehouses if nothing else is
//! said; latencies of all transactions, not of NewOrder alone; the background begins after
//! `froglet.migration_delay`. Wrong rows fail the benchmark, how fast it was does not.

pub mod approach;
pub(crate) mod change;
mod check;
pub(crate) mod figures;
mod multi_step;
pub(crate) mod pictures;
pub(crate) mod run;
mod sizes;
mod sweeps;
mod tracking;
mod verdicts;

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use self::approach::Approach;
use self::change::{CHANGES, Change};
use self::run::{Outcome, Run};
use super::arrivals::Arrivals;
use super::experiment;
use super::rounds;
use super::system::Systems;
use crate::report::Report;
use crate::tpcc::db::Scale;
use crate::{Args, progress};

/// Every approach is Froglet's.
const SERVER: experiment::Approach = experiment::Approach::Tesseract;
/// A window has so many calms.
pub(crate) const WINDOW_CALMS: u32 = 4;
/// The part of saturation that is a moderate rate.
const MODERATE: f64 = 0.65;

/// What all measurements have in common.
struct Bench<'a> {
    args: &'a Args,
    systems: Systems<'a>,
    scale: Scale,
    clients: u16,
    rounds: u16,
    calm: Duration,
    plots: Option<&'a Path>,
    /// What the clients reach without a change, in transactions a second.
    saturated: f64,
}

/// How transactions come.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Loop {
    /// At a part of saturation.
    Open(f64),
    /// At saturation.
    Closed,
}

/// Runs it.
pub fn run(args: &Args) -> Result<Report> {
    let mut report = Report::new("TPC-CD, big flips (BullFrog, figures 4.3 to 4.12)");
    let figures = args.tpccd.figures.as_deref();
    if let Some(dir) = figures {
        fs::create_dir_all(dir).with_context(|| format!("{} cannot be made", dir.display()))?;
    }
    let mut bench = Bench::new(args)?;
    bench.saturate(&mut report)?;
    let mut names = Vec::new();
    let compares = figures.is_some() || args.tpccd.sweep.is_empty();
    for change in CHANGES.iter().filter(|change| compares && args.wants(change.name)) {
        for way in bench.loops() {
            let name = way.name(change.name);
            bench.compare(change, way, &name, &mut report)?;
            names.push((name, way));
        }
    }
    sweeps::run(&bench, &mut report)?;
    tracking::run(&bench, &mut report)?;
    sizes::run(&bench, &mut report)?;
    verdicts::add(&mut report, &names);
    if let Some(dir) = figures {
        report.write(&dir.join("flip.json"))?;
        fs::write(dir.join("flip.txt"), report.text())?;
    }
    Ok(report)
}

impl Bench<'_> {
    fn new(args: &Args) -> Result<Bench<'_>> {
        let calm = args.seconds.unwrap_or(if args.small { 0.3 } else { 5.0 });
        let clients = args.workers.last().copied().unwrap_or(2);
        let warehouses = i32::from(args.scale.unwrap_or(0).max(clients));
        Ok(Bench {
            args,
            systems: Systems::of_froglet(args),
            scale: if args.small { Scale::small } else { Scale::full }(warehouses),
            clients,
            rounds: args.rounds.unwrap_or(1),
            calm: Duration::from_secs_f64(calm),
            plots: args.plots.as_deref().or(args.tpccd.figures.as_deref()),
            saturated: 0.0,
        })
    }

    /// Both loops, unless a rate was asked for.
    fn loops(&self) -> Vec<Loop> {
        match self.args.tpccd.load {
            Some(part) => vec![Loop::Open(part)],
            None => vec![Loop::Open(MODERATE), Loop::Closed],
        }
    }

    /// Measures what the clients reach.
    fn saturate(&mut self, report: &mut Report) -> Result<()> {
        progress::phase("what the clients reach without a change");
        let run = self.run(&CHANGES[0], Loop::Closed);
        let outcome = run.on(&self.systems, Approach::NoDdl)?;
        self.saturated = outcome.recording.per_second(outcome.window);
        ensure!(self.saturated > 0.0, "no client committed anything");
        let name = Approach::NoDdl.name();
        report.add(name, "TPC-C", "saturated throughput", self.saturated, "1/s");
        Ok(())
    }

    /// One change under every approach, in all rounds.
    fn compare(&self, change: &Change, way: Loop, name: &str, report: &mut Report) -> Result<()> {
        let wanted = Approach::wanted(&self.args.tpccd.approach);
        let mut measures = Vec::new();
        for round in 0..self.rounds {
            let mut outcomes = Vec::new();
            for approach in rounds::rotated(&wanted, round.into()) {
                let phase = format!("{name}: {}, round {}", approach.name(), round + 1);
                progress::phase(&phase);
                let run = self.run(change, way);
                let outcome = run.on(&self.systems, approach).context(phase)?;
                outcomes.push((approach, outcome));
            }
            outcomes.sort_by_key(|(a, _)| wanted.iter().position(|b| a == b));
            let mut figures = report.empty();
            for (approach, outcome) in &outcomes {
                figures::add(&mut figures, approach.name(), name, outcome, self.offered(way));
                fail(report, &format!("{name}: {}", approach.name()), outcome);
            }
            figures::add_ratios(&mut figures, name, &wanted);
            measures.push(figures.rows);
            if let (0, Some(dir)) = (round, self.plots) {
                let lines: Vec<_> = outcomes
                    .iter()
                    .map(|(a, outcome)| (a.name().to_owned(), a.colour(), outcome))
                    .collect();
                pictures::draw(dir, change.figures, name, &lines)?;
            }
        }
        report.rows.extend(rounds::medians(&measures));
        verdicts::add_table(report, name, wanted.iter().map(|a| a.name()));
        Ok(())
    }

    fn run<'c>(&self, change: &'c Change, way: Loop) -> Run<'c> {
        let arrivals = match self.offered(way) {
            Some(per_second) => Arrivals::Even { per_second },
            None => Arrivals::BackToBack,
        };
        Run {
            change,
            scale: self.scale,
            clients: self.clients,
            arrivals,
            warm_up: self.calm.div_f64(2.5).min(Duration::from_secs(2)),
            calm: self.calm,
            window: self.calm * WINDOW_CALMS,
            hot_customers: None,
            only_customers: false,
            foreign_keys: 0,
            touch_all: false,
            settings: Vec::new(),
        }
    }

    /// Transactions a second.
    fn offered(&self, way: Loop) -> Option<f64> {
        match way {
            Loop::Open(part) => Some(self.saturated * part),
            Loop::Closed => None,
        }
    }
}

impl Loop {
    /// What something is called in this loop.
    fn name(self, of: &str) -> String {
        match self {
            Loop::Open(part) => format!("{of}, load {part}"),
            Loop::Closed => format!("{of}, saturated"),
        }
    }
}

/// Wrong rows fail the benchmark.
pub(crate) fn fail(report: &mut Report, name: &str, outcome: &Outcome) {
    for (what, wrong) in outcome.wrong.iter().filter(|(_, wrong)| *wrong != 0) {
        report.fail(format!("{name}: {wrong} rows are wrong: {what}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_is_in_the_name_of_what_is_measured_in_it() {
        assert_eq!(Loop::Open(0.65).name("SplitTable"), "SplitTable, load 0.65");
        assert_eq!(Loop::Closed.name("SplitTable"), "SplitTable, saturated");
    }
}
