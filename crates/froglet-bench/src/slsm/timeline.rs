//! Figure 8: TPC-C while customers are split, at a moderate rate, and what each second saw.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::cluster::Cluster;
use super::modes::Mode;
use super::{Bench, MIDDLE, RTTS, attempted};
use crate::report::Report;
use crate::tpccd::arrivals::Arrivals;
use crate::tpccd::flip::change::{Change, JOIN, SPLIT};
use crate::tpccd::flip::run::{Outcome, Run};
use crate::tpccd::flip::{WINDOW_CALMS, fail, figures, pictures};
use crate::tpccd::system::Systems;
use crate::{Args, progress};

/// What the experiment with a change is called.
pub fn name(change: &Change) -> String {
    format!("tpcc, {}", change.name)
}

/// The part of what the clients reach that they are offered.
const MODERATE: f64 = 0.65;
/// An order total is beside the rows that it sums up: sources that stay are not there yet in a cluster.
pub static CHANGES: [Change; 2] = [SPLIT, JOIN];
/// Whether OSC is among them: it takes minutes.
const WITH_OSC: &str = "tpcc beside OSC";
/// OSC last.
const MODES: [Mode; 4] = [Mode::Upperbound, Mode::BullFrog, Mode::Slsm, Mode::Osc];
/// Clients wait for the network most of the time.
const CLIENTS: u16 = 16;

fn wanted(args: &Args) -> impl Iterator<Item = &'static Change> {
    let changes = if args.small { &CHANGES[..1] } else { &CHANGES };
    changes.iter().filter(|change| args.wants(&name(change)))
}

/// Whether any of it is.
pub fn is_wanted(args: &Args) -> bool {
    wanted(args).next().is_some()
}

/// Measures the changes that there are in a cluster.
pub fn run(bench: &Bench<'_>, cluster: &Cluster, report: &mut Report) -> Result<()> {
    for change in wanted(bench.args) {
        measure(bench, cluster, change, report).with_context(|| name(change))?;
    }
    Ok(())
}

fn measure(
    bench: &Bench<'_>,
    cluster: &Cluster,
    change: &Change,
    report: &mut Report,
) -> Result<()> {
    let (name, (_, delay_ms)) = (&*name(change), RTTS[MIDDLE]);
    let systems = Systems::of_cluster(bench.args, cluster, delay_ms);
    let calm = bench.measure;
    let made = |mode: Mode, arrivals| Run {
        change,
        scale: bench.scale,
        clients: if bench.args.small { bench.clients } else { CLIENTS },
        arrivals,
        warm_up: calm.div_f64(2.5).min(Duration::from_secs(2)),
        calm,
        window: calm * WINDOW_CALMS,
        hot_customers: None,
        only_customers: false,
        foreign_keys: 0,
        touch_all: false,
        settings: mode.settings(),
    };
    let run = |mode: Mode, arrivals| -> Result<Outcome> {
        progress::phase(&format!("{name}: {}", mode.name()));
        made(mode, arrivals).on(&systems, mode.approach()).context(mode.name())
    };
    let saturated = run(Mode::Upperbound, Arrivals::BackToBack)?;
    let reached = saturated.recording.per_second(saturated.window);
    ensure!(reached > 0.0, "no client committed anything");
    report.add(Mode::Upperbound.name(), name, "saturated throughput", reached, "1/s");
    let per_second = reached * MODERATE;
    let with_osc = bench.args.wants(WITH_OSC);
    let modes = if bench.args.small { &[Mode::Slsm][..] } else { &MODES };
    let modes: Vec<Mode> =
        modes.iter().copied().filter(|mode| with_osc || *mode != Mode::Osc).collect();
    let mut outcomes = Vec::new();
    for mode in &modes {
        let outcome = match run(*mode, Arrivals::Even { per_second }) {
            Ok(outcome) => outcome,
            Err(error) => {
                attempted(report, Err(error.context(name.to_owned())));
                continue;
            }
        };
        let served = outcome.recording.per_second(outcome.window);
        progress::phase(&format!("{name}: {}: {served:.1} of {per_second:.1}/s", mode.name()));
        figures::add(report, mode.name(), name, &outcome, Some(per_second));
        fail(report, &format!("{name}: {}", mode.name()), &outcome);
        outcomes.push((*mode, outcome));
    }
    for mode in modes.iter().filter(|mode| **mode != Mode::Upperbound) {
        for metric in [figures::TRANSACTIONS, "p50 from the flip on", figures::P99] {
            report.add_ratio(mode.name(), Mode::Upperbound.name(), name, metric);
        }
    }
    report.add_ratio(Mode::Slsm.name(), Mode::BullFrog.name(), name, "migration ended after");
    if let Some(dir) = bench.pictures {
        let lines: Vec<_> = outcomes
            .iter()
            .map(|(mode, outcome)| (mode.name().to_owned(), mode.colour(), outcome))
            .collect();
        pictures::draw(dir, ["figure 8 throughput", "figure 8 latency"], change.name, &lines)?;
    }
    Ok(())
}
