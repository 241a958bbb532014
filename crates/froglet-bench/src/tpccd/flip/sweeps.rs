//! Lazy splits of the customers' table while something varies (figures 4.10 to 4.12).
//!
//! ```text
//!   hot        clients name 1, 10 or 100 % of the customers, uniformly          saturated
//!   granules   1, 64, 128 or 256 rows at once, for few and for all customers    both loops
//!   keys       0, 1 or 2 foreign keys; whole mix, and who knows a customer      saturated
//! ```

use anyhow::{Context, Result};

use super::super::chart::COLOURS;
use super::super::options::Sweep;
use super::approach::Approach;
use super::change::SPLIT;
use super::run::{Outcome, Run};
use super::{Bench, Loop, fail, figures, pictures, verdicts};
use crate::progress;
use crate::report::Report;

const HOT_PERCENT: [i32; 3] = [1, 10, 100];
const GRANULE_ROWS: [u32; 4] = [1, 64, 128, 256];
const KEYS: [usize; 3] = [0, 1, 2];

/// What is run, and its line's name.
type Point = (String, Run<'static>);

/// Makes the sweeps that are wanted.
pub fn run(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let wants = |sweep| bench.args.tpccd.sweeps(sweep);
    if wants(Sweep::Hot) {
        let point = |percent: i32| (format!("{percent} % hot"), hot(bench, percent, Loop::Closed));
        let points = HOT_PERCENT.map(point).into();
        measure(bench, "figure 4.10", "hot sets, saturated", Loop::Closed, points, report)?;
    }
    if wants(Sweep::Granules) {
        for way in bench.loops() {
            for percent in [HOT_PERCENT[0], HOT_PERCENT[2]] {
                let point = |rows: u32| {
                    let mut run = hot(bench, percent, way);
                    run.settings = vec![format!("SET froglet.migration_granule_rows = {rows}")];
                    (format!("{rows} rows at once"), run)
                };
                let name = way.name(&format!("granules, {percent} % hot"));
                let points = GRANULE_ROWS.map(point).into();
                measure(bench, "figure 4.11", &name, way, points, report)?;
            }
        }
    }
    if wants(Sweep::Keys) {
        for only_customers in [false, true] {
            let point = |keys: usize| {
                let run = bench.run(&SPLIT, Loop::Closed);
                (format!("{keys} foreign keys"), Run { foreign_keys: keys, only_customers, ..run })
            };
            let name = if only_customers { "foreign keys, partial mix" } else { "foreign keys" };
            let points = KEYS.map(point).into();
            measure(bench, "figure 4.12", name, Loop::Closed, points, report)?;
        }
    }
    Ok(())
}

fn hot(bench: &Bench<'_>, percent: i32, way: Loop) -> Run<'static> {
    let customers = (bench.scale.customers * percent / 100).max(1);
    Run { hot_customers: Some(customers), ..bench.run(&SPLIT, way) }
}

fn measure(
    bench: &Bench<'_>,
    figure: &str,
    name: &str,
    way: Loop,
    points: Vec<Point>,
    report: &mut Report,
) -> Result<()> {
    let mut outcomes: Vec<(String, Outcome)> = Vec::new();
    for (line, run) in points {
        let phase = format!("{name}: {line}");
        progress::phase(&phase);
        let outcome = run.on(&bench.systems, Approach::Lazy).context(phase.clone())?;
        figures::add(report, &format!("Lazy, {line}"), name, &outcome, bench.offered(way));
        fail(report, &phase, &outcome);
        outcomes.push((line, outcome));
    }
    let lines: Vec<String> = outcomes.iter().map(|(line, _)| format!("Lazy, {line}")).collect();
    verdicts::add_table(report, name, lines.iter().map(String::as_str));
    let Some(dir) = bench.plots else { return Ok(()) };
    let colours = COLOURS.into_iter().cycle();
    let lines: Vec<_> =
        outcomes.iter().zip(colours).map(|((line, o), colour)| (line.clone(), colour, o)).collect();
    pictures::draw(dir, [figure, &format!("{figure} latency")], name, &lines)
}
