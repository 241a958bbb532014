//! Customers are split while clients use them, in a cluster whose machines are apart (SLSM, paper 001, section 5; docs/cluster.md).
//!
//! ```text
//!   tpcc        figure 8, above   TPC-C while the table is split: Upperbound, OSC, BullFrog, SLSM
//!   requests    8, below; 9; 10   requests on the new schema alone, by RTT: these, and each optimisation by itself
//!   one node    11                the same without a network
//!   placement   table 1           latency in round trips by where gateway, old and new table are; requests counted
//!   TPC-B                         round trips of pgbench's transaction; one gateway and two
//!
//!   cluster ── servers, delay, regions    modes ── settings    requests ── clients    verdicts ── what is to be reached
//! ```
//! Placement driver and stores are PD and unistore (TiKV's protocol): real TiKV was not to be had. Delays are made in user space. `--only
//! TEXT` picks what has the text in its name. What is to be reached is a row and a line below the table, `met` or `MISSED`; wrong
//! rows alone fail the benchmark.
//!
//! Differences from the paper: one machine with two cores; one warehouse and not 50; Froglet in place of CockroachDB; reads
//! that meet a row which is left move nothing, where transactions are fused. Requests of 9 to 11 name each customer once, so that
//! nearly all of them meet rows that are left.
//!
//! Left out: Preaggregate, which is not there yet in a cluster.

pub(crate) mod cluster;
mod modes;
mod placement;
mod requests;
mod timeline;
mod tpcb;
mod verdicts;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::runtime::Runtime;

use self::cluster::{APART, Cluster};
use self::modes::Mode;
use self::requests::{KINDS, Split};
use crate::closed::Round;
use crate::histogram::Histogram;
use crate::report::Report;
use crate::stats::median;
use crate::tpcc::db::Scale;
use crate::tpccd::rounds::rotated;
use crate::{Args, figures, progress};

/// For `froglet bench list`.
pub const ABOUT: &str =
    "a table is split in a cluster with delayed links, beside BullFrog's way and F1's";

/// The paper's round trips, in milliseconds, with the delay of a packet that makes each here.
const RTTS: [(f64, f64); 3] = [(1.15, 0.48), (11.8, 5.78), (22.3, 10.95)];
/// The one that most is measured at.
const MIDDLE: usize = 1;

/// Those of the requests on the new schema, and of a trial.
const MODES: [Mode; 5] =
    [Mode::Upperbound, Mode::BullFrog, Mode::CoLocated, Mode::Fused, Mode::Slsm];
const FEW: [Mode; 3] = [Mode::Upperbound, Mode::BullFrog, Mode::Slsm];
const ONE_NODE: &str = "requests, one node";

/// Options of slsm.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// The directory with the scripts that make a cluster (slsm)
    #[arg(long, value_name = "DIR", default_value = "cluster")]
    pub cluster: PathBuf,
}

/// What all experiments have in common.
struct Bench<'a> {
    args: &'a Args,
    scale: Scale,
    clients: u16,
    rounds: usize,
    measure: Duration,
    pictures: Option<&'a Path>,
    runtime: Runtime,
}

/// Runs it.
pub fn run(args: &Args) -> Result<Report> {
    let bench = Bench {
        args,
        scale: if args.small { Scale::small } else { Scale::full }(1),
        clients: args.workers.last().copied().unwrap_or(2).max(4),
        rounds: args.rounds.unwrap_or(if args.small { 1 } else { 3 }).into(),
        measure: Duration::from_secs_f64(args.seconds.unwrap_or(if args.small {
            1.5
        } else {
            10.0
        })),
        pictures: args.tpccd.figures.as_deref(),
        runtime: Runtime::new()?,
    };
    let mut report =
        Report::new("A split in a cluster, PD and unistore (SLSM, figures 8 to 11, table 1)");
    bench.apart(&mut report)?;
    if args.wants(ONE_NODE) && !args.small {
        progress::phase("one node");
        let cluster = Cluster::start(args, 1)?;
        let modes = [Mode::Upperbound, Mode::BullFrog, Mode::Fused, Mode::Slsm];
        bench.requests(&cluster, &modes, ONE_NODE, 0.0, &mut report).context(ONE_NODE)?;
    }
    verdicts::add(&mut report);
    bench.draw(&report)?;
    figures::write(bench.pictures, "slsm", &report)?;
    Ok(report)
}

/// What has failed fails the benchmark, and does not take away what else was measured.
fn attempted(report: &mut Report, done: Result<()>) {
    if let Err(error) = done {
        progress::phase(&format!("failed: {error:#}"));
        report.fail(format!("{error:#}"));
    }
}

/// What the experiment at a round trip is called.
fn requests_name(rtt_ms: f64) -> String {
    format!("requests, RTT {rtt_ms} ms")
}

impl Bench<'_> {
    /// What is measured on three machines.
    fn apart(&self, report: &mut Report) -> Result<()> {
        let (args, is_small) = (self.args, self.args.small);
        let rtts = if is_small { &RTTS[MIDDLE..=MIDDLE] } else { &RTTS[..] };
        let named = rtts.iter().map(|(rtt, delay_ms)| (requests_name(*rtt), *delay_ms));
        let requests: Vec<_> = named.filter(|(name, _)| args.wants(name)).collect();
        let (placement, tpcc) = (args.wants("placement"), timeline::is_wanted(args));
        let tpcb = args.wants(tpcb::NAME);
        if requests.is_empty() && !placement && !tpcc && !tpcb {
            return Ok(());
        }
        progress::phase("three machines");
        let cluster = Cluster::start(args, 3)?;
        let modes = if is_small { &FEW[..] } else { &MODES[..] };
        for (name, delay_ms) in requests {
            let done = self.requests(&cluster, modes, &name, delay_ms, report);
            attempted(report, done.context(name));
        }
        if placement {
            let done = placement::run(self, &cluster, report);
            attempted(report, done.context("placement"));
        }
        if tpcb {
            let done = tpcb::run(self, &cluster, report);
            attempted(report, done.context(tpcb::NAME));
        }
        if tpcc {
            let done = timeline::run(self, &cluster, report);
            attempted(report, done);
        }
        Ok(())
    }

    /// Requests on the new schema in some modes, in interleaved rounds.
    fn requests(
        &self,
        cluster: &Cluster,
        modes: &[Mode],
        name: &str,
        delay_ms: f64,
        report: &mut Report,
    ) -> Result<()> {
        let mut seen: Vec<Vec<(Times, Round)>> = modes.iter().map(|_| Vec::new()).collect();
        for round in 0..self.rounds {
            for at in rotated(&(0..modes.len()).collect::<Vec<_>>(), round) {
                let mode = modes[at];
                progress::phase(&format!(
                    "{name}: {}, round {} of {}",
                    mode.name(),
                    round + 1,
                    self.rounds
                ));
                let measured = self.runtime.block_on(async {
                    let split =
                        Split::make(self.args, cluster, mode, APART, self.scale, delay_ms).await?;
                    let round = split.measure(self.clients, self.measure).await?;
                    let times = Times { commit: split.commit, first_answer: split.first_answer };
                    split.stop()?;
                    anyhow::Ok((times, round))
                });
                seen[at].push(measured.context(mode.name())?);
            }
        }
        for (mode, rounds) in modes.iter().zip(&seen) {
            add(report, mode.name(), name, rounds);
        }
        for over in [Mode::BullFrog, Mode::Upperbound].map(Mode::name) {
            for mode in modes.iter().map(|mode| mode.name()).filter(|mode| *mode != over) {
                report.add_ratio(mode, over, name, MEAN);
            }
        }
        Ok(())
    }

    /// Latency over the round trip.
    fn draw(&self, report: &Report) -> Result<()> {
        let x: Vec<(String, f64)> = RTTS.map(|(rtt, _)| (requests_name(rtt), rtt)).to_vec();
        let words = figures::Words {
            title: "Requests on the new schema (figures 9 and 10)",
            x_label: "round trip, milliseconds",
            y_label: "mean latency, milliseconds",
        };
        let lines = figures::lines(report, &MODES.map(Mode::name), MEAN, &x);
        figures::draw(self.pictures, "figure 10 requests", words, lines, false)
    }
}

/// How a split went.
struct Times {
    commit: Option<Duration>,
    first_answer: Duration,
}

const MEAN: &str = "mean of the types";
const COMMIT: &str = "COMMIT";
const FIRST_ANSWER: &str = "first answer after COMMIT";

/// Medians of the rounds. A type counts as much as another, however many of it there were.
fn add(report: &mut Report, who: &str, name: &str, rounds: &[(Times, Round)]) {
    let of = |figure: &dyn Fn(&(Times, Round)) -> f64| {
        median(&rounds.iter().map(figure).collect::<Vec<f64>>())
    };
    let ms = |histogram: Histogram, quantile| histogram.quantile_us(quantile) / 1000.0;
    if rounds.iter().all(|(split, _)| split.commit.is_some()) {
        let commit = |(split, _): &(Times, Round)| split.commit.unwrap_or_default().as_secs_f64();
        report.add(who, name, COMMIT, of(&commit) * 1000.0, "ms");
    }
    report.add(
        who,
        name,
        FIRST_ANSWER,
        of(&|(split, _)| split.first_answer.as_secs_f64() * 1000.0),
        "ms",
    );
    for kind in KINDS {
        for (metric, quantile) in [("p50", 0.5), ("p99", 0.99)] {
            let value = of(&|(_, round)| ms(round.of(kind), quantile));
            report.add(who, name, &format!("{} {metric}", kind.name()), value, "ms");
        }
    }
    let mean = |round: &Round| {
        let sum: f64 = KINDS.iter().map(|kind| round.of(*kind).mean_us() / 1000.0).sum();
        sum / KINDS.len() as f64
    };
    report.add(who, name, MEAN, of(&|(_, round)| mean(round)), "ms");
    report.add(who, name, "requests", of(&|(_, round)| round.per_second()), "1/s");
    report.add(who, name, "refused and run again", of(&|(_, round)| round.again as f64), "");
}
