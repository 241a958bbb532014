//! What the snapshot registry costs, in process: TPC-C as stored procedures on both engines (section 6.5, and "registry
//! off" of figure 6.1).
//!
//! ```text
//!   on and off   the memory engine alone ── joined with the disk engine, all tables in memory     who has one engine
//!                registry off ── on, all tables on disk; CUSTOMER in memory, the others on disk    who has both
//!   capacity     pairs in a partition x partitions past which pairs go, CUSTOMER in memory         figure 6.5
//! ```
//! Logs are on tmpfs, so that no device is in the way. By our design (docs/notes/2026-11-27-halves.md) the registry
//! aborts nobody: it is asked, and never refuses. So Figure 6.5's abort rate is that of conflicts. With the
//! registry off a view of the disk is of when it first asks, and a writer is held against another time: balances of
//! remote customers go wrong, which is what the registry is for. Only its speed is looked at. (What would go wrong
//! with a worker's own warehouse cannot: nobody else is there.)

use anyhow::{Context, Result};
use froglet_engine::Home;
use froglet_txn::RegistryOptions;

use super::Bench;
use super::placement::Placement;
use crate::figures::{self, Words, lines};
use crate::progress;
use crate::report::Report;
use crate::store::{Durability, Store};
use crate::tpcc::db::{Access, Scale, Tpcc};
use crate::tpcc::driver::{self, Run, Stats};
use crate::tpcc::{consistency, load};
use crate::tpccd::rounds::{self, rotated};

/// For reports: what is compared.
pub const ALONE: &str = "memory engine alone";
/// See there.
pub const JOINED: &str = "memory engine, joined";
/// See there.
pub const ON: &str = "registry on";
/// See there.
pub const OFF: &str = "registry off";
/// Ways in, and how they are called.
pub const DOORS: [(Access, &str); 2] =
    [(Access::Engine, "the engine's calls"), (Access::Contract, "froglet-txn")];
/// Those that the registry is switched for.
const SWITCHED: [Placement; 2] = [Placement::Disk, Placement::OptimizePayment];
/// Pairs of a partition.
const CAPACITY: [usize; 4] = [1, 50, 500, 4096];
/// Partitions.
const PARTITIONS: [usize; 3] = [1, 64, 5000];
/// One for each core of a small machine, each with a warehouse.
const WORKERS: u16 = 2;
/// Of every database.
const DURABILITY: Durability = Durability::Tmpfs;

/// One of the databases that are compared.
struct Variant {
    name: String,
    operation: String,
    db: Tpcc,
    /// Whether what it leaves must be right.
    is_checked: bool,
}

/// What one engine's transactions pay for the other one, and those of both for the registry.
pub fn on_and_off(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    for (access, door) in DOORS {
        let operation = single(door);
        let alone = Store::open(DURABILITY, &bench.args.dir)?;
        let joined = Store::open_joined(DURABILITY, &bench.args.dir, RegistryOptions::default())?;
        let in_memory = |_| Home::Memory;
        let mut variants = Vec::new();
        for (name, store) in [(ALONE, alone), (JOINED, joined)] {
            let db = Tpcc::create_placed(store, scale(bench), access, in_memory)?;
            let (name, operation) = (name.to_owned(), operation.clone());
            variants.push(Variant { name, operation, db, is_checked: true });
        }
        compare(bench, report, &operation, &variants, Some((JOINED, ALONE)))?;
    }
    for placement in SWITCHED {
        let operation = switched(placement);
        let mut variants = Vec::new();
        for (is_on, name) in [(false, OFF), (true, ON)] {
            let options = RegistryOptions { is_on, ..RegistryOptions::default() };
            let store = Store::open_joined(DURABILITY, &bench.args.dir, options)?;
            let home = |table| placement.home(table);
            let db = Tpcc::create_placed(store, scale(bench), Access::Contract, home)?;
            let (name, operation) = (name.to_owned(), operation.clone());
            variants.push(Variant { name, operation, db, is_checked: is_on });
        }
        compare(bench, report, &operation, &variants, Some((ON, OFF)))?;
    }
    Ok(())
}

/// As reports have it.
pub fn single(door: &str) -> String {
    format!("registry: TPC-C in memory by {door}")
}

/// As reports have it.
pub fn switched(placement: Placement) -> String {
    let name = placement.name().trim_start_matches("froglet, ");
    format!("registry: TPC-C, {name}")
}

/// Figure 6.5.
pub fn capacity(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let mut variants = Vec::new();
    for partitions in PARTITIONS {
        for capacity in CAPACITY {
            let options = RegistryOptions { capacity, partitions, ..RegistryOptions::default() };
            let store = Store::open_joined(DURABILITY, &bench.args.dir, options)?;
            let home = |table| Placement::OptimizePayment.home(table);
            let db = Tpcc::create_placed(store, scale(bench), Access::Contract, home)?;
            let (name, operation) = (of_partitions(partitions), of_capacity(capacity));
            variants.push(Variant { name, operation, db, is_checked: true });
        }
    }
    compare(bench, report, "6.5", &variants, None)?;
    let x = CAPACITY.map(|capacity| (of_capacity(capacity), capacity as f64));
    let names = PARTITIONS.map(of_partitions);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for (metric, y_label) in
        [("throughput", "throughput (transactions/s)"), ("aborts", "aborts (%)")]
    {
        let title = format!("6.5: the registry under Optimize-payment, {metric}");
        let words = Words { title: &title, x_label: "pairs in a partition", y_label };
        let lines = lines(report, &names, metric, &x);
        figures::draw(bench.pictures, &format!("figure 6.5 {metric}"), words, lines, false)?;
    }
    Ok(())
}

fn of_partitions(partitions: usize) -> String {
    let s = if partitions == 1 { "" } else { "s" };
    format!("{partitions} partition{s}")
}

fn of_capacity(capacity: usize) -> String {
    let s = if capacity == 1 { "" } else { "s" };
    format!("6.5: Optimize-payment, {capacity} pair{s} in a partition")
}

fn scale(bench: &Bench<'_>) -> Scale {
    let warehouses = i32::from(WORKERS);
    if bench.args.small { Scale::small(warehouses) } else { Scale::full(warehouses) }
}

/// Loads every database, runs them in rounds, and checks what they leave.
fn compare(
    bench: &Bench<'_>,
    report: &mut Report,
    what: &str,
    variants: &[Variant],
    ratio: Option<(&str, &str)>,
) -> Result<()> {
    for variant in variants {
        progress::phase(&format!("{}, {}: loading", variant.operation, variant.name));
        load::load(&variant.db)?;
    }
    let how = Run {
        workers: WORKERS,
        warm_up: bench.measure.div_f64(5.0),
        measure: bench.measure,
        profile: false,
        logged: true,
    };
    let all: Vec<&Variant> = variants.iter().collect();
    rounds::run(bench.rounds, what, report, |round, figures| {
        for variant in rotated(&all, round) {
            let stats = driver::run(&variant.db, how);
            add(figures, variant, &stats.with_context(|| variant.name.clone())?);
        }
        if let Some((over, under)) = ratio {
            figures.add_ratio(over, under, what, "throughput");
        }
        Ok(())
    })?;
    for variant in variants.iter().filter(|variant| variant.is_checked) {
        if let Err(error) = consistency::check(&variant.db) {
            report.fail(format!("{}, {}: {error:#}", variant.operation, variant.name));
        }
    }
    Ok(())
}

fn add(report: &mut Report, variant: &Variant, stats: &Stats) {
    let (name, operation) = (&variant.name, &variant.operation);
    let transactions = stats.transactions() as f64;
    let conflicts: u64 = stats.kinds.iter().map(|kind| kind.conflicts).sum();
    report.add(name, operation, "throughput", transactions / stats.seconds, "1/s");
    let tries = transactions + conflicts as f64;
    report.add(name, operation, "aborts", conflicts as f64 / tries.max(1.0) * 100.0, "%");
    let pairs = registry_pairs(&variant.db);
    report.add(name, operation, "pairs at the end", pairs, "pairs");
}

fn registry_pairs(db: &Tpcc) -> f64 {
    let figures = db.engine().figures();
    figures.iter().filter_map(|figures| figures.registry_entries).sum::<u64>() as f64
}
