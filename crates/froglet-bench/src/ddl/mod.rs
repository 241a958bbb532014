//! A worker's throughput while the schema of its table changes (Tesseract, paper 000, figure 4;
//! issue 2, "Speed and memory").
//!
//! ```text
//!   worker   ───── before ─────┬──────── during ────────┬───── after ─────▶   core 0
//!   DDL                        begin ─ apply ─ commit                         core 1, with its
//!                                                                             scan and capture
//! ```
//!
//! Targets: no 100 ms without a commit; throughput during the change at least 90 % of that before
//! it, where the migration has a core of its own; ADD COLUMN with a constant and DROP COLUMN in
//! under 5 ms at any table size. A change of a few milliseconds is over before throughput means
//! anything, so "during" lasts at least 100 ms. In process, without a log: the engine's and the
//! schema crate's cost, not a client's. After each change the table is checked while nobody
//! writes; what it checks fails the benchmark, how fast it was does not. For comparison, the same
//! with a thread that reads the table and changes nothing: what any second busy core costs. Then
//! [`served`]: statements of SQL beside clients of a server, and of PostgreSQL.

pub mod changes;
pub mod served;
pub mod table;
pub mod timeline;
pub mod worker;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use froglet_engine::Engine;
use froglet_schema::{Catalog, ObjectId};
use froglet_txn::{Isolation, Limits};

use self::changes::{CASES, Case};
use self::timeline::WINDOW;
use self::worker::{Done, Signals, Worker};
use crate::report::Report;
use crate::store::{Durability, Store};
use crate::{Args, machine, progress};

/// For `froglet bench list`.
pub const ABOUT: &str = "a worker's throughput before, during and after each schema change";

const APPROACH: &str = "froglet, eager";
/// What a second busy core costs on this machine, where two share memory, and perhaps more.
const LIMIT: &str = "a scan instead";
const SCAN: &str = "read the table";
const WORKER_CORE: usize = 0;
const MIGRATION_CORE: usize = 1;
/// "During" lasts at least this long.
const SHORTEST: Duration = Duration::from_millis(100);

/// Runs it.
pub fn run(args: &Args) -> Result<Report> {
    let rows = args.rows.unwrap_or(10_000_000);
    let calm = Duration::from_secs_f64(args.seconds.unwrap_or(3.0));
    let mut report = measure(rows, calm, &args.dir, |name| args.wants(name))?;
    served::measure(args, args.rows.unwrap_or(1_000_000), calm, &mut report)?;
    Ok(report)
}

fn measure(rows: u64, calm: Duration, dir: &Path, wanted: impl Fn(&str) -> bool) -> Result<Report> {
    let mut report = Report::new("Schema changes under load (Tesseract, figure 4)");
    let store = Store::open(Durability::Off, dir)?;
    let runtime = runtime()?;
    let catalog = runtime.block_on(Catalog::open(store.manager.clone()))?;
    progress::phase(&format!("loading {rows} rows"));
    runtime.block_on(table::create(&catalog, rows))?;
    report.add(APPROACH, "table", "rows", rows as f64, "");

    let mut next_id = rows;
    if wanted(SCAN) {
        progress::phase("a scan, for comparison");
        let scan = |start| scan(&*store.engine, &catalog, start, calm);
        let (scan, done) = under_load(&catalog, calm, rows, next_id, scan)?;
        next_id = done.next_id;
        add_throughput(&mut report, LIMIT, SCAN, &scan, &done);
    }
    for case in &CASES {
        if !wanted(case.name) && !needed_later(case) {
            continue;
        }
        progress::phase(case.sql);
        let calm = if wanted(case.name) { calm } else { Duration::ZERO };
        let change = |start| self::runtime()?.block_on(alter(&catalog, case, start));
        let (change, done) = under_load(&catalog, calm, rows, next_id, change).context(case.sql)?;
        next_id = done.next_id;
        if wanted(case.name) {
            add(&mut report, case, &change, &done);
        }
        let now = table::latest(&catalog, table::NAME)?;
        if let Err(e) = table::check(&*store.engine, &now, rows) {
            report.fail(format!("{}: {e:#}", case.name));
        }
        if let Some(undo) = case.undo {
            let undo = undo(&now.def, change.made);
            runtime.block_on(table::change(&catalog, undo, "undo"))?;
        }
    }
    Ok(report)
}

/// Whether a later change works on what this one makes.
fn needed_later(case: &Case) -> bool {
    case.name == "add column, constant"
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_time().build()?)
}

/// When a change began, when its statement returned, when it was committed; and until when the
/// worker went on.
struct Changed {
    calm_start: Instant,
    start: Instant,
    applied: Instant,
    committed: Instant,
    calm_end: Instant,
    made: Option<ObjectId>,
}

/// Makes one change while a worker runs, with `calm` before and after it; longer, if the worker
/// does not get to commit in that time. `change` is told when the calm began.
fn under_load(
    catalog: &Arc<Catalog>,
    calm: Duration,
    rows: u64,
    next_id: u64,
    change: impl FnOnce(Instant) -> Result<Changed> + Send,
) -> Result<(Changed, Done)> {
    let signals = Signals::default();
    thread::scope(|scope| {
        let work = || {
            machine::pin_to_core(WORKER_CORE);
            let outcome = runtime()?.block_on(Worker::new(catalog, rows, next_id).work(&signals));
            signals.ended.store(true, Ordering::Relaxed);
            outcome
        };
        let worker = thread::Builder::new().name("worker".to_owned()).spawn_scoped(scope, work)?;
        // A thread of its own, so that the migration's threads inherit its core and nobody else.
        let ddl = scope.spawn(|| {
            machine::pin_to_core(MIGRATION_CORE);
            // Warm the worker up.
            thread::sleep(calm / 3);
            let calm_start = Instant::now();
            thread::sleep(calm);
            let changed = change(calm_start);
            thread::sleep(SHORTEST);
            let commits = signals.commits.load(Ordering::Relaxed);
            thread::sleep(calm);
            while signals.commits.load(Ordering::Relaxed) == commits
                && !signals.ended.load(Ordering::Relaxed)
            {
                thread::sleep(WINDOW);
            }
            // The window of that commit ends.
            thread::sleep(WINDOW);
            changed.map(|changed| Changed { calm_end: Instant::now(), ..changed })
        });
        let changed = ddl.join().map_err(|_| anyhow!("the schema change panicked"));
        signals.stop.store(true, Ordering::Relaxed);
        let done = worker.join().map_err(|_| anyhow!("the worker panicked"))?;
        Ok((changed??, done.context("the worker")?))
    })
}

/// Reads the table for `lasting`, and changes nothing.
fn scan(
    engine: &dyn Engine,
    catalog: &Catalog,
    calm_start: Instant,
    lasting: Duration,
) -> Result<Changed> {
    let table = table::latest(catalog, table::NAME)?.table.clone();
    let column = table.layout().columns.len() - 1;
    let start = Instant::now();
    let mut block = 0;
    while start.elapsed() < lasting {
        table.read_block(&engine.snapshot(), block % table.block_count(), &[column])?;
        block += 1;
    }
    let end = Instant::now();
    Ok(Changed { calm_start, start, applied: end, committed: end, calm_end: end, made: None })
}

async fn alter(catalog: &Catalog, case: &Case, calm_start: Instant) -> Result<Changed> {
    let limits = Limits::none();
    let groups = table::latest(catalog, table::GROUPS)?.def.id;
    let start = Instant::now();
    let mut txn = catalog.manager().begin(Isolation::ReadCommitted);
    let view = catalog.begin_statement(&mut txn, true, &limits).await?;
    let version = view.table("public", table::NAME).context("the table is not there")?;
    let change = (case.change)(&version.def, groups);
    let applied = catalog.apply(&mut txn, change, &table::options(case.sql), &limits).await;
    catalog.end_statement(&mut txn);
    let made = applied?.object;
    let applied = Instant::now();
    catalog.manager().commit(txn, &limits).await?;
    let committed = Instant::now();
    Ok(Changed { calm_start, start, applied, committed, calm_end: committed, made })
}

fn ms(d: Duration) -> f64 {
    d.as_secs_f64() * 1000.0
}

fn add(report: &mut Report, case: &Case, change: &Changed, done: &Done) {
    let name = case.name;
    let all = change.committed - change.start;
    report.add(APPROACH, name, "statement", ms(change.applied - change.start), "ms");
    report.add(APPROACH, name, "commit", ms(change.committed - change.applied), "ms");
    if let Some(limit_ms) = case.limit_ms {
        report.add(
            "froglet, eager / target",
            name,
            "statement and commit",
            ms(all) / limit_ms,
            "x",
        );
    }
    add_throughput(report, APPROACH, name, change, done);
    report.add(APPROACH, name, "worker's aborts", done.aborts as f64, "");
    if let Some(why) = &done.first_abort {
        eprintln!("{name}: a transaction of the worker was aborted: {why}");
    }
}

/// The worker's throughput before, during and after a change.
fn add_throughput(report: &mut Report, approach: &str, name: &str, change: &Changed, done: &Done) {
    let line = &done.timeline;
    let end = change.committed.max(change.start + SHORTEST);
    let before = line.per_second(change.calm_start, change.start);
    let during = line.per_second(change.start, end);
    let after = line.per_second(end, change.calm_end);
    for (metric, value) in [("before", before), ("during", during), ("after", after)] {
        if let Some(value) = value {
            report.add(approach, name, &format!("throughput {metric}"), value, "1/s");
        }
    }
    if let Some(slowest) = line.slowest(change.start, end) {
        report.add(approach, name, "slowest 10 ms during", slowest, "1/s");
    }
    let calm_gap = line.longest_gap(change.calm_start, change.start);
    report.add(approach, name, "longest gap before", ms(calm_gap), "ms");
    report.add(approach, name, "longest gap during", ms(line.longest_gap(change.start, end)), "ms");
    if let (Some(before), Some(during)) = (before, during) {
        let ratio = if before > 0.0 { during / before } else { 0.0 };
        report.add("during / before", name, "throughput", ratio, "x");
    }
    let busy = |from, to| line.per_busy_second(from, to);
    if let (Some(before), Some(during)) =
        (busy(change.calm_start, change.start), busy(change.start, end))
    {
        let ratio = during / before;
        report.add("during / before", name, "commits per processor second", ratio, "x");
    }
    if let (Some(before), Some(after)) = (before, after) {
        let ratio = if before > 0.0 { after / before } else { 0.0 };
        report.add("after / before", name, "throughput", ratio, "x");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_runs_under_load_and_the_table_stays_right() {
        let dir = std::env::temp_dir();
        let report = measure(20_000, Duration::from_millis(60), &dir, |_| true).unwrap();
        report.verdict().unwrap();
        for case in &CASES {
            let commits = report.value(APPROACH, case.name, "throughput after");
            assert!(commits.is_some_and(|n| n > 0.0), "{}: {commits:?}", case.name);
            assert_eq!(report.value(APPROACH, case.name, "worker's aborts"), Some(0.0));
        }
    }
}
