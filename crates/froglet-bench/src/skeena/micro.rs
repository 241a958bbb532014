//! Figures 6.1 and 6.6: transactions of ten accesses, by how many of them are on disk.
//!
//! The paper's Figure 6.1 has throughput over connections for read-only, read-write and write-only transactions; 6.6 has
//! the 95th percentile of the latency at the ends of that range, over the part on disk. Both are of the same runs.
//!
//! ```text
//!   froglet       ten tables in memory, ten on disk, the same rows in each       0 30 50 80 100 % of the accesses on disk
//!   PostgreSQL    ten tables                                                     all
//! ```
//! What a transaction over both costs is told against the sum of its parts: as long as the part of one in memory and
//! the part of one on disk that it has.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use froglet_engine::Home;

use super::accesses::{ACCESSES, Session, Workload};
use super::servers::{self, Cache, Commit, POSTGRES, Server};
use super::tables::{self, RECORD_BYTES};
use super::{Bench, clients};
use crate::closed::{self, Round};
use crate::figures::{self, Words, lines};
use crate::progress;
use crate::report::Report;
use crate::tpccd::rounds::{self, rotated};

/// Of the ten accesses, those on disk.
pub const ON_DISK: [usize; 5] = [0, 3, 5, 8, 10];
/// Before anything counts, caches fill for so many measurements.
const WARM_UP: u32 = 4;
/// Of all tries, as reports have it.
pub const REFUSED: &str = "refused and run again";
/// For reports.
const BOTH: &str = "over both / the sum of its parts";

/// How a part of the accesses on disk is called in reports.
pub fn approach(on_disk: usize) -> String {
    format!("froglet, {} % on disk", on_disk * 100 / ACCESSES)
}

/// What is measured, as reports have it.
pub fn operation(workload: Workload, cache: Cache, count: u16) -> String {
    format!("6.1: {}, {}, {}", workload.name(), cache.name(), clients(count))
}

/// A server, and its clients.
struct Side {
    server: Server,
    homes: &'static [Home],
    sessions: Vec<Session>,
}

/// Measures one cache.
pub fn run(bench: &Bench<'_>, report: &mut Report, cache: Cache) -> Result<()> {
    let rows = bench.rows();
    let data_bytes = rows * RECORD_BYTES;
    let cache_bytes = cache.bytes(data_bytes);
    let setup = format!("6.1: {}", cache.name());
    let mut servers = [
        Server::froglet(bench, "froglet", cache_bytes, data_bytes)?,
        Server::postgres(bench, cache_bytes)?,
    ];
    if cache == Cache::Tenth {
        servers::join_groups(servers.iter_mut(), report);
    }
    let homes: [&'static [Home]; 2] = [&[Home::Disk, Home::Memory], &[Home::Disk]];
    report.add("data of an engine", &setup, "records", data_bytes as f64, "B");
    let mut sides = bench.runtime.block_on(async {
        for (server, homes) in servers.iter().zip(homes) {
            progress::phase(&format!("{}: loading {rows} rows of an engine", server.name()));
            let client = server.client(Commit::Asynchronous).await?;
            for home in homes {
                tables::load(&client, *home, rows, server.is_froglet()).await?;
            }
        }
        servers::ready(&servers, cache, report, &setup).await?;
        let mut sides = Vec::new();
        for (server, homes) in servers.into_iter().zip(homes) {
            let mut sessions = Vec::new();
            for n in 0..bench.most() {
                sessions.push(Session::open(&server, homes, rows, n.into()).await?);
            }
            sides.push(Side { server, homes, sessions });
        }
        anyhow::Ok(sides)
    })?;
    for side in &mut sides {
        let (measure, most) = (bench.measure * WARM_UP, bench.most());
        bench.runtime.block_on(side.round(measure, Workload::ReadWrite, ACCESSES, most))?;
    }
    for workload in Workload::ALL {
        for &count in bench.clients {
            measure(bench, report, &mut sides, workload, cache, count)?;
        }
        draw_throughput(bench, report, workload, cache)?;
    }
    draw_latency(bench, report, cache)?;
    for side in sides {
        side.server.release()?;
        bench.runtime.block_on(side.check(rows, report))?;
        side.server.stop()?;
    }
    Ok(())
}

fn measure(
    bench: &Bench<'_>,
    report: &mut Report,
    sides: &mut [Side],
    workload: Workload,
    cache: Cache,
    count: u16,
) -> Result<()> {
    let operation = operation(workload, cache, count);
    // The last of them is PostgreSQL, where all is on disk.
    let variants = ON_DISK.map(|on_disk| (0, on_disk)).into_iter().chain([(1, ACCESSES)]);
    let variants: Vec<(usize, usize)> = variants.collect();
    rounds::run(bench.rounds, &operation, report, |round, figures| {
        for (side, on_disk) in rotated(&variants, round) {
            let side = &mut sides[side];
            let name =
                if side.server.is_froglet() { approach(on_disk) } else { POSTGRES.to_owned() };
            let round = side.round(bench.measure, workload, on_disk, count);
            let round = bench.runtime.block_on(round).with_context(|| name.clone())?;
            add(figures, &name, &operation, &round);
        }
        figures.add_ratio(&approach(ACCESSES), POSTGRES, &operation, "throughput");
        figures.add_ratio(&approach(ACCESSES), POSTGRES, &operation, "p95");
        for on_disk in ON_DISK {
            add_parts(figures, on_disk, &operation);
        }
        Ok(())
    })
}

fn add(report: &mut Report, name: &str, operation: &str, round: &Round) {
    report.add(name, operation, "throughput", round.per_second(), "1/s");
    report.add(name, operation, "p95", round.all().quantile_us(0.95), "µs");
    report.add(name, operation, REFUSED, round.refused_percent(), "%");
}

/// How long a transaction over both takes, against a part of one in memory and a part of one on disk.
fn add_parts(report: &mut Report, on_disk: usize, operation: &str) {
    let seconds = |on_disk| {
        let throughput = report.value(&approach(on_disk), operation, "throughput");
        throughput.filter(|per_second| *per_second > 0.0).map(|per_second| 1.0 / per_second)
    };
    let all = (seconds(0), seconds(on_disk), seconds(ACCESSES));
    let (Some(memory), Some(both), Some(disk)) = all else { return };
    if (1..ACCESSES).contains(&on_disk) {
        let part = on_disk as f64 / ACCESSES as f64;
        let parts = memory * (1.0 - part) + disk * part;
        report.add(BOTH, operation, &format!("{} % on disk", part * 100.0), both / parts, "x");
    }
}

impl Side {
    async fn round(
        &mut self,
        measure: Duration,
        workload: Workload,
        on_disk: usize,
        count: u16,
    ) -> Result<Round> {
        let on_disk = if self.homes.len() == 1 { ACCESSES } else { on_disk };
        self.sessions.iter_mut().for_each(|session| session.set(workload, on_disk));
        closed::run(&mut self.sessions, count, measure).await
    }

    /// Every row is there, and every update that was committed.
    async fn check(&self, rows: u64, report: &mut Report) -> Result<()> {
        let client = self.server.client(Commit::Asynchronous).await?;
        let mut found = (0, 0);
        for home in self.homes {
            let of_home = tables::count(&client, *home).await?;
            found = (found.0 + of_home.0, found.1 + of_home.1);
        }
        let updated: i64 = self.sessions.iter().map(Session::updated).sum();
        ensure!(updated > 0, "nothing was updated");
        let expected = (rows as i64 * self.homes.len() as i64, updated);
        if found != expected {
            let name = self.server.name();
            report.fail(format!("{name}: rows and updates are {found:?}, not {expected:?}"));
        }
        Ok(())
    }
}

fn draw_throughput(
    bench: &Bench<'_>,
    report: &Report,
    workload: Workload,
    cache: Cache,
) -> Result<()> {
    let x: Vec<(String, f64)> =
        bench.clients.iter().map(|n| (operation(workload, cache, *n), f64::from(*n))).collect();
    let mut names: Vec<String> = ON_DISK.map(approach).to_vec();
    names.push(POSTGRES.to_owned());
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let title = format!("6.1: {} transactions, {}", workload.name(), cache.name());
    let words = Words { title: &title, x_label: "clients", y_label: "throughput (transactions/s)" };
    let file = format!("figure 6.1 {} {}", workload.name(), cache.name());
    figures::draw(bench.pictures, &file, words, lines(report, &names, "throughput", &x), false)
}

/// Figure 6.6: at one client and at the most.
fn draw_latency(bench: &Bench<'_>, report: &Report, cache: Cache) -> Result<()> {
    let ends = [bench.clients[0], bench.most()];
    for count in ends {
        let line = |workload: Workload| {
            let operation = operation(workload, cache, count);
            let point = |on_disk: &usize| {
                let p95 = report.value(&approach(*on_disk), &operation, "p95")?;
                Some((*on_disk as f64 * 100.0 / ACCESSES as f64, p95))
            };
            (workload.name().to_owned(), ON_DISK.iter().filter_map(point).collect())
        };
        let title =
            format!("6.6: 95th percentile of the latency, {}, {}", cache.name(), clients(count));
        let words =
            Words { title: &title, x_label: "accesses on disk (%)", y_label: "latency (µs)" };
        let file = format!("figure 6.6 {} {}", cache.name(), clients(count));
        let lines = Workload::ALL.map(line).to_vec();
        figures::draw(bench.pictures, &file, words, lines, true)?;
    }
    Ok(())
}
