//! Changes made online while something grows: the tables (the paper's figure 5) or the threads of
//! scan and capture (figure 6).
//!
//! ```text
//!   for each size:   one server, one population
//!     for each change, each round:   clients ── calm ── change ── calm ──▶ stop, undo
//! ```
//!
//! Throughput is compared with that before the change, of the same clients on the same server. A
//! change of the catalog alone must take as long at any size; one of a column's type, as long with
//! 30 other columns as with 3. Wide tables stop where they would be larger than [`WIDE_VALUES`].

use std::time::Duration;

use anyhow::{Context, Result};
use tokio_postgres::Client;

use super::arrivals::Arrivals;
use super::chart::{Chart, Line};
use super::experiment::{Approach, Experiment};
use super::operations::{self, Operation};
use super::options::Sweep;
use super::system::{System, Systems};
use super::workload::{Workload, connect};
use super::{Bench, draw, metrics, rounds};
use crate::report::Report;
use crate::tpcc::db::Scale;

/// Values of the largest wide table: 10 million rows of 32 columns, 2.6 GB.
const WIDE_VALUES: u64 = 320_000_000;
/// A table has this many columns more than its unused ones.
const USED: u64 = 3;
/// The paper's microbenchmark writes with 8 statements of 10.
const READS_PERCENT: u32 = 20;
/// A change is given up after so long.
const PATIENCE: Duration = Duration::from_secs(300);
const NAME: &str = "Tesseract";

/// A server with clients, changed again and again.
struct Subject<'a> {
    bench: &'a Bench<'a>,
    system: System<'a>,
    ddl: Client,
    workload: Workload,
}

/// Makes the sweeps that are wanted.
pub fn run(bench: &Bench<'_>, systems: &Systems<'_>, report: &mut Report) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let options = &bench.args.tpccd;
    runtime.block_on(async {
        if options.sweeps(Sweep::Rows) {
            rows(bench, systems, report).await.context("sweep over the table's rows")?;
            warehouses(bench, systems, report).await.context("sweep over the warehouses")?;
        }
        if options.sweeps(Sweep::Threads) {
            threads(bench, systems, report).await.context("sweep over threads")?;
        }
        Ok(())
    })
}

/// The microbenchmark's table from small to large.
async fn rows(bench: &Bench<'_>, systems: &Systems<'_>, report: &mut Report) -> Result<()> {
    let sizes = match (&bench.args.tpccd.sizes, bench.args.small) {
        (given, _) if !given.is_empty() => given.clone(),
        (_, true) => vec![2_000, 20_000],
        (_, false) => vec![1_000_000, 10_000_000, 50_000_000],
    };
    let mut lines = Lines::default();
    let mut widths: Vec<u16> = operations::by_size().map(|(unused, _)| unused).collect();
    widths.dedup();
    for rows in sizes {
        for &unused in &widths {
            let values = rows * (USED + u64::from(unused));
            let wanted = |(width, o): &(u16, &'static Operation)| {
                *width == unused && bench.args.wants(o.name)
            };
            let changes: Vec<_> = operations::by_size().filter(wanted).map(|(_, o)| o).collect();
            if changes.is_empty() || unused > 1 && values > WIDE_VALUES {
                continue;
            }
            let workload = Workload::Micro { rows, reads_percent: READS_PERCENT, unused };
            let subject = Subject::new(bench, systems, workload).await?;
            for operation in changes {
                let name = format!("sweep {}, {rows} rows", operation.name);
                let made = subject.change(operation, &name, report).await?;
                lines.add(operation.name, rows as f64, made);
            }
            subject.system.stop()?;
        }
    }
    lines.add_growth(report);
    lines.add_width(report);
    let title = "the size of the microbenchmark's table (figure 5)";
    lines.draw(bench, "sweep rows microbenchmark", title, "rows")
}

/// TPC-C's tables from small to large.
async fn warehouses(bench: &Bench<'_>, systems: &Systems<'_>, report: &mut Report) -> Result<()> {
    let sizes = match (&bench.args.tpccd.warehouses, bench.args.small) {
        (given, _) if !given.is_empty() => given.clone(),
        (_, true) => vec![1, 2],
        (_, false) => vec![1, 2, 4, 8],
    };
    let mut lines = Lines::default();
    let scale = if bench.args.small { Scale::small } else { Scale::full };
    let wanted: Vec<_> = operations::tpcc().iter().filter(|o| bench.args.wants(o.name)).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    for warehouses in sizes {
        let workload = Workload::Tpcc(scale(warehouses.into()));
        let subject = Subject::new(bench, systems, workload).await?;
        for &operation in &wanted {
            let name = format!("sweep {}, {warehouses} warehouses", operation.name);
            let made = subject.change(operation, &name, report).await?;
            lines.add(operation.name, warehouses.into(), made);
        }
        subject.system.stop()?;
    }
    lines.add_growth(report);
    let title = "TPC-C's warehouses";
    lines.draw(bench, "sweep rows tpcc", title, "warehouses")
}

/// Threads of scan and capture for the paper's AddColumn.
async fn threads(bench: &Bench<'_>, systems: &Systems<'_>, report: &mut Report) -> Result<()> {
    let operation = operations::by_threads();
    if !bench.args.wants(operation.name) {
        return Ok(());
    }
    let rows = bench.args.rows.unwrap_or(if bench.args.small { 10_000 } else { 10_000_000 });
    let workload = Workload::Micro { rows, reads_percent: READS_PERCENT, unused: 0 };
    let subject = Subject::new(bench, systems, workload).await?;
    let mut lines = Lines::default();
    for capture in [1u16, 2] {
        for scan in [1u16, 2, 4] {
            let set = format!(
                "SET froglet.migration_scan_threads = {scan}; \
                 SET froglet.migration_cdc_threads = {capture}"
            );
            subject.ddl.batch_execute(&set).await.context(set)?;
            let name = format!("sweep {}, scan {scan}, capture {capture}", operation.name);
            let made = subject.change(operation, &name, report).await?;
            lines.add(&format!("{capture} for capture"), scan.into(), made);
        }
    }
    subject.system.stop()?;
    let title = "the threads of AddColumn (figure 6)";
    lines.draw(bench, "sweep threads", title, "threads of the scan")
}

impl<'a> Subject<'a> {
    async fn new(
        bench: &'a Bench<'a>,
        systems: &'a Systems<'a>,
        workload: Workload,
    ) -> Result<Subject<'a>> {
        let system = systems.start(Approach::Tesseract)?;
        let ddl = connect(system.port()).await?;
        system.load(&ddl, workload).await?;
        Ok(Subject { bench, system, ddl, workload })
    }

    /// Makes and undoes a change in every round, and adds the medians. Returns the median of the
    /// migration's time and throughput; `None` if it was given up.
    async fn change(
        &self,
        operation: &'static Operation,
        name: &str,
        report: &mut Report,
    ) -> Result<Option<Made>> {
        let Bench { clients, warm_up, calm, .. } = *self.bench;
        crate::progress::phase(name);
        let experiment = Experiment {
            workload: self.workload,
            operation,
            clients,
            arrivals: Arrivals::BackToBack,
            warm_up,
            calm,
            patience: PATIENCE,
        };
        let mut measures = Vec::new();
        for _ in 0..self.bench.rounds {
            let approach = Approach::Tesseract;
            let outcome = experiment.measure(&self.ddl, &self.system, approach, Duration::ZERO);
            let outcome = outcome.await.with_context(|| name.to_owned())?;
            let mut round = report.empty();
            metrics::add(&mut round, approach, name, &outcome, None);
            measures.push(round.rows);
            if outcome.committed {
                self.check(operation, name, report).await?;
                let undo = operation.undo;
                self.ddl.batch_execute(undo).await.context(undo)?;
            }
        }
        report.rows.extend(rounds::medians(&measures));
        let value = |metric| report.value(NAME, name, metric);
        let figures = value("migration").zip(value("throughput during / before"));
        Ok(figures.map(|(ms, throughput)| Made { ms, throughput }))
    }

    /// What clients wrote since the change does not make the microbenchmark's rows wrong.
    async fn check(&self, operation: &Operation, name: &str, report: &mut Report) -> Result<()> {
        if let Workload::Micro { .. } = self.workload {
            let sql = operation.count_wrong;
            let wrong: i64 = self.ddl.query_one(sql, &[]).await.context(sql)?.get(0);
            if wrong != 0 {
                report.fail(format!("{name}: {wrong} rows are wrong after the change"));
            }
        }
        Ok(())
    }
}

/// A change that was made.
#[derive(Clone, Copy)]
struct Made {
    /// From BEGIN to the answer to COMMIT.
    ms: f64,
    /// During the change, over that before it.
    throughput: f64,
}

/// What was found: a line for each change, over the sizes.
#[derive(Default)]
struct Lines {
    ms: Vec<Line>,
    throughput: Vec<Line>,
}

impl Lines {
    /// Adds a point, unless the change was given up.
    fn add(&mut self, name: &str, at: f64, made: Option<Made>) {
        let Some(Made { ms, throughput }) = made else { return };
        push(&mut self.ms, name, (at, ms));
        // There is no place for nothing on a logarithmic axis.
        if throughput > 0.0 {
            push(&mut self.throughput, name, (at, throughput));
        }
    }

    /// How much longer each change took at the largest size than at the smallest.
    fn add_growth(&self, report: &mut Report) {
        for (name, points) in &self.ms {
            if let (Some(first), Some(last)) = (points.first(), points.last())
                && last.0 > first.0
            {
                let name = format!("sweep {name}");
                report.add(NAME, &name, "size, largest / smallest", last.0 / first.0, "x");
                report.add(NAME, &name, "migration, largest / smallest", last.1 / first.1, "x");
            }
        }
    }

    /// How much longer a column's type takes beside 30 other columns than beside 3.
    fn add_width(&self, report: &mut Report) {
        let points = |name: &str| self.ms.iter().find(|(known, _)| known == name).map(|(_, p)| p);
        let [narrow, wide] = operations::TYPE_BESIDE.map(|(_, name)| points(name));
        let (Some(narrow), Some(wide)) = (narrow, wide) else { return };
        for (rows, ms) in wide {
            if let Some((_, narrow_ms)) = narrow.iter().find(|(size, _)| size == rows) {
                let name = format!("sweep AlterType, {rows} rows");
                report.add(NAME, &name, "migration, 30 / 3 other columns", ms / narrow_ms, "x");
            }
        }
    }

    /// Two pictures: the time, and the throughput meanwhile.
    fn draw(self, bench: &Bench<'_>, file: &str, title: &str, x_label: &str) -> Result<()> {
        let Some(dir) = bench.plots.filter(|_| !self.ms.is_empty()) else { return Ok(()) };
        let draw = |file: &str, what: &str, y_label: &str, lines| {
            let chart = Chart {
                title: format!("{what} {title}"),
                subtitle: format!("{} clients, online, closed loop", bench.clients),
                x_label: x_label.to_owned(),
                y_label: y_label.to_owned(),
                lines,
                marks: true,
                is_linear: false,
            };
            draw::write(dir, file, &chart.svg())
        };
        draw(file, "Migration time over", "migration (ms)", self.ms)?;
        let during = "throughput during / before";
        draw(&format!("{file} throughput"), "Throughput over", during, self.throughput)
    }
}

fn push(lines: &mut Vec<Line>, name: &str, point: (f64, f64)) {
    match lines.iter_mut().find(|(known, _)| known == name) {
        Some((_, points)) => points.push(point),
        None => lines.push((name.to_owned(), vec![point])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(ms: f64) -> Option<Made> {
        Some(Made { ms, throughput: 0.9 })
    }

    #[test]
    fn growth_is_that_from_the_smallest_to_the_largest() {
        let mut lines = Lines::default();
        lines.add("AddColumn", 1e6, made(100.0));
        lines.add("AddColumn", 1e7, None);
        lines.add("AddColumn", 5e7, made(4000.0));
        lines.add("DropColumn", 1e6, made(1.0));
        let mut report = Report::new("figure 5");
        lines.add_growth(&mut report);
        let value = |metric| report.value(NAME, "sweep AddColumn", metric);
        assert_eq!(value("size, largest / smallest"), Some(50.0));
        assert_eq!(value("migration, largest / smallest"), Some(40.0));
        assert_eq!(report.rows.len(), 2, "one size has no growth");
    }

    #[test]
    fn width_is_told_where_both_widths_were_measured() {
        let mut lines = Lines::default();
        let [(_, narrow), (_, wide)] = operations::TYPE_BESIDE;
        lines.add(narrow, 1e6, made(100.0));
        lines.add(narrow, 5e7, made(5000.0));
        lines.add(wide, 1e6, made(110.0));
        let mut report = Report::new("figure 5");
        lines.add_width(&mut report);
        let values: Vec<f64> = report.rows.iter().map(|row| row.value).collect();
        assert_eq!(values, [1.1]);
    }
}
