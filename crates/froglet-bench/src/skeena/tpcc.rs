//! Figures 6.2 to 6.4 and table 6.1: TPC-C by where its tables are.
//!
//! | | data | commit | the paper's |
//! |---|---|---|---|
//! | 6.2 | in cache | asynchronous | memory-resident |
//! | 6.3 | ten times the cache | asynchronous | storage-resident, tmpfs |
//! | 6.4 | ten times the cache | durable | storage-resident, ext4 |
//!
//! The full mix by the number of clients, with latencies by type; each type alone at one number of clients. A client's
//! warehouses are its own, as far as there are enough, and each of its transactions is entered at one of them picked at
//! random: the whole database is used, and nobody waits for anybody but at remote warehouses. Aborts (table 6.1) are of
//! the full mix in cache. Afterwards every server is asked TPC-C's twelve conditions.

use std::fs;

use anyhow::{Context, Result};

use super::micro::REFUSED;
use super::placement::Placement;
use super::servers::{self, Cache, Commit, POSTGRES, Server};
use super::{Bench, clients};
use crate::closed::{self, Round};
use crate::figures::{self, Words, lines};
use crate::progress;
use crate::report::{Report, number};
use crate::tpcc::db::Scale;
use crate::tpcc::inputs::{KINDS, Kind, Terminal};
use crate::tpcc::schema::{TABLES, TableName};
use crate::tpccd::load::load_placed;
use crate::tpccd::rounds::{self, rotated};
use crate::tpccd::transactions::{Mix, Session};
use crate::wire::conditions;

/// Table 6.1, as reports have it.
const ABORTS: &str = "table 6.1: full mix, in cache";
/// Types that are also run alone.
const ALONE: [Kind; 4] = [Kind::NewOrder, Kind::Payment, Kind::OrderStatus, Kind::StockLevel];
/// Bytes of a warehouse as it is loaded, with its indexes, and of items; a hundredth of it where it is small.
const WAREHOUSE_BYTES: u64 = 100 << 20;
/// Of CUSTOMER's and ITEM's rows among them.
const CUSTOMER_BYTES: u64 = 20 << 20;

/// A server, its clients, and where its tables are; PostgreSQL's are where it has them.
struct Side {
    server: Server,
    placement: Option<Placement>,
    sessions: Vec<Session>,
}

/// Measures one cache.
pub fn run(bench: &Bench<'_>, report: &mut Report, cache: Cache) -> Result<()> {
    let figure = match cache {
        Cache::Holds => "6.2",
        Cache::Tenth => "6.3",
    };
    let setup = format!("{figure}: {}", cache.name());
    let mut sides = start(bench, cache, report, &setup)?;
    report.add("TPC-C", &setup, "warehouses", f64::from(scale(bench).warehouses), "");
    connect(bench, &mut sides, Commit::Asynchronous)?;
    let most = bench.most();
    bench.runtime.block_on(async {
        for side in &mut sides {
            // Nothing of it counts: caches fill.
            side.round(bench, None, most).await?;
        }
        anyhow::Ok(())
    })?;
    for &count in bench.clients {
        measure(bench, report, &mut sides, &mix(figure, cache, count), None, count)?;
    }
    for kind in ALONE {
        let count = bench.few();
        let operation =
            format!("{figure}: {} alone, {}, {}", kind.name(), cache.name(), clients(count));
        measure(bench, report, &mut sides, &operation, Some(kind), count)?;
    }
    draw(bench, report, figure, cache)?;
    match cache {
        Cache::Holds => add_aborts(bench, report)?,
        Cache::Tenth => {
            connect(bench, &mut sides, Commit::Durable)?;
            for &count in bench.clients {
                measure(bench, report, &mut sides, &mix("6.4", cache, count), None, count)?;
            }
            draw(bench, report, "6.4", cache)?;
        }
    }
    for side in sides {
        side.server.release()?;
        progress::phase(&format!("{}: the twelve conditions", side.server.name()));
        bench.runtime.block_on(side.check(report))?;
        side.server.stop()?;
    }
    Ok(())
}

/// The full mix, as reports have it.
pub fn mix(figure: &str, cache: Cache, count: u16) -> String {
    let durable = if figure == "6.4" { ", durable" } else { "" };
    format!("{figure}: full mix, {}{durable}, {}", cache.name(), clients(count))
}

fn scale(bench: &Bench<'_>) -> Scale {
    let warehouses = i32::from(bench.args.scale.unwrap_or(if bench.args.small { 2 } else { 8 }));
    if bench.args.small { Scale::small(warehouses) } else { Scale::full(warehouses) }
}

fn start(bench: &Bench<'_>, cache: Cache, report: &mut Report, setup: &str) -> Result<Vec<Side>> {
    let scale = scale(bench);
    let of = |full: u64| full * scale.warehouses as u64 / if bench.args.small { 100 } else { 1 };
    let cache_bytes = cache.bytes(of(WAREHOUSE_BYTES));
    let mut servers = Vec::new();
    for placement in Placement::ALL {
        let full = match placement {
            Placement::Disk => 0,
            placement if placement.grows_in_memory() => 4 * WAREHOUSE_BYTES,
            _ => CUSTOMER_BYTES,
        };
        let memory_bytes = of(full);
        servers.push(Server::froglet(bench, placement.name(), cache_bytes, memory_bytes)?);
    }
    servers.push(Server::postgres(bench, cache_bytes)?);
    let placements: Vec<Option<Placement>> =
        Placement::ALL.into_iter().map(Some).chain([None]).collect();
    if cache == Cache::Tenth {
        let limited = servers.iter_mut().zip(&placements).filter(|(_, placement)| {
            placement.is_none_or(|placement| !placement.grows_in_memory())
        });
        servers::join_groups(limited.map(|(server, _)| server), report);
    }
    bench.runtime.block_on(async {
        for (server, placement) in servers.iter().zip(&placements) {
            let warehouses = scale.warehouses;
            progress::phase(&format!("{}: loading {warehouses} warehouses", server.name()));
            let using = |table: TableName| placement.map_or("", |placement| placement.using(table));
            let client = server.client(Commit::Asynchronous).await?;
            let loaded = load_placed(&client, scale, using).await;
            loaded.with_context(|| format!("filling {}", server.name()))?;
        }
        servers::ready(&servers, cache, report, setup).await
    })?;
    let side = |(server, placement)| Side { server, placement, sessions: Vec::new() };
    Ok(servers.into_iter().zip(placements).map(side).collect())
}

/// Gives every server new clients.
fn connect(bench: &Bench<'_>, sides: &mut [Side], commit: Commit) -> Result<()> {
    let scale = scale(bench);
    bench.runtime.block_on(async {
        for side in sides {
            side.sessions.clear();
            for n in 0..bench.most() {
                let home = i32::from(n) % scale.warehouses + 1;
                let terminal = Terminal::new(home, scale, 1 + u64::from(n));
                let client = side.server.client(commit).await?;
                side.sessions.push(Session::open(client, terminal, Mix::default()).await?);
            }
        }
        Ok(())
    })
}

/// One operation on every server, in rounds.
fn measure(
    bench: &Bench<'_>,
    report: &mut Report,
    sides: &mut [Side],
    operation: &str,
    only: Option<Kind>,
    count: u16,
) -> Result<()> {
    let order: Vec<usize> = (0..sides.len()).collect();
    rounds::run(bench.rounds, operation, report, |round, figures| {
        for at in rotated(&order, round) {
            let side = &mut sides[at];
            let name = side.server.name().to_owned();
            let round = bench.runtime.block_on(side.round(bench, only, count));
            add(figures, &name, operation, only, &round.with_context(|| name.clone())?);
        }
        for placement in Placement::ALL {
            figures.add_ratio(placement.name(), POSTGRES, operation, "throughput");
        }
        Ok(())
    })
}

fn add(report: &mut Report, name: &str, operation: &str, only: Option<Kind>, round: &Round) {
    report.add(name, operation, "throughput", round.per_second(), "1/s");
    report.add(name, operation, "p95", round.all().quantile_us(0.95), "µs");
    report.add(name, operation, REFUSED, round.refused_percent(), "%");
    if only.is_none() {
        for kind in KINDS {
            let of_kind = round.of(kind);
            let per_second = of_kind.count() as f64 / round.seconds;
            report.add(name, operation, &format!("{} throughput", kind.name()), per_second, "1/s");
            let p95 = of_kind.quantile_us(0.95);
            report.add(name, operation, &format!("{} p95", kind.name()), p95, "µs");
        }
    }
}

impl Side {
    async fn round(&mut self, bench: &Bench<'_>, only: Option<Kind>, count: u16) -> Result<Round> {
        let warehouses = scale(bench).warehouses;
        for (n, session) in (0..i32::from(count)).zip(&mut self.sessions) {
            let homes = homes(n, i32::from(count), warehouses);
            session.set_mix(Mix { only, homes, ..Mix::default() });
        }
        closed::run(&mut self.sessions, count, bench.measure).await
    }

    async fn check(&self, report: &mut Report) -> Result<()> {
        let client = self.server.client(Commit::Asynchronous).await?;
        let name = self.server.name();
        for wrong in conditions::violated(&client).await.with_context(|| name.to_owned())? {
            report.fail(format!("{name}: {wrong}"));
        }
        let Some(placement) = self.placement else { return Ok(()) };
        let sql = "SELECT count(*) FROM pg_class c JOIN pg_am a ON a.oid = c.relam \
                   WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace AND a.amname = 'disk'";
        let on_disk: i64 = client.query_one(sql, &[]).await?.get(0);
        let expected = TABLES.into_iter().filter(|t| placement.using(*t) == " USING disk").count();
        if on_disk != expected as i64 {
            report.fail(format!("{name}: {on_disk} tables are on disk, not {expected}"));
        }
        Ok(())
    }
}

/// The warehouses of client `n` of `count`: every `count`th, or one if there are not enough.
fn homes(n: i32, count: i32, warehouses: i32) -> Vec<i32> {
    let first = n % warehouses + 1;
    (first..=warehouses).step_by(count.max(1) as usize).collect()
}

/// Table 6.1: what was aborted in the full mix in cache, of all tries.
fn add_aborts(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let operation = mix("6.2", Cache::Holds, bench.few());
    let mut table = format!("Table 6.1: aborts of all tries, {operation}\n\n");
    for placement in Placement::ALL {
        let name = placement.name();
        let Some(percent) = report.value(name, &operation, REFUSED) else {
            continue;
        };
        report.add(name, ABORTS, "aborts", percent, "%");
        let engines = if placement.is_over_both() { "cross-engine" } else { "single-engine" };
        table += &format!("{engines:<14}{name:<28}{:>8} %\n", number(percent));
    }
    let Some(dir) = bench.pictures else { return Ok(()) };
    fs::create_dir_all(dir).with_context(|| format!("{} cannot be made", dir.display()))?;
    fs::write(dir.join("table-6-1.txt"), table)?;
    Ok(())
}

fn draw(bench: &Bench<'_>, report: &Report, figure: &str, cache: Cache) -> Result<()> {
    let x: Vec<(String, f64)> =
        bench.clients.iter().map(|n| (mix(figure, cache, *n), f64::from(*n))).collect();
    let mut names: Vec<&str> = Placement::ALL.map(Placement::name).to_vec();
    names.push(POSTGRES);
    let of_mix = KINDS.map(|kind| (kind.name(), format!("{} throughput", kind.name())));
    for (what, metric) in [("full mix", "throughput".to_owned())].into_iter().chain(of_mix) {
        let commit = if figure == "6.4" { ", durable" } else { "" };
        let title = format!("{figure}: TPC-C, {what}, {}{commit}", cache.name());
        let words =
            Words { title: &title, x_label: "clients", y_label: "throughput (transactions/s)" };
        let file = format!("figure {figure} {what}");
        figures::draw(bench.pictures, &file, words, lines(report, &names, &metric, &x), false)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_share_all_warehouses_and_each_has_one() {
        let mut all: Vec<i32> = (0..3).flat_map(|n| homes(n, 3, 8)).collect();
        all.sort_unstable();
        assert_eq!(all, [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!((homes(0, 1, 2), homes(3, 4, 2)), (vec![1, 2], vec![2]));
    }
}
