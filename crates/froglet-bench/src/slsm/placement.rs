//! Table 1: what a transaction costs by which of gateway, old and new table are on one machine.
//!
//! ```text
//!   {gateway, old, new}   {gateway, old}   {gateway, new}   {old, new}   ∅
//! ```

use anyhow::Result;

use super::cluster::{Cluster, Leaders};
use super::modes::Mode;
use super::requests::Split;
use super::{Bench, MIDDLE, RTTS};
use crate::progress;
use crate::report::Report;
use crate::tpcc::db::Scale;
use crate::tpcc::inputs::Kind;

/// The gateway is on the first machine.
const PLACEMENTS: [(&str, Leaders); 5] = [
    ("{gateway, old, new}", Leaders { old: 1, new: 1 }),
    ("{gateway, old}", Leaders { old: 1, new: 3 }),
    ("{gateway, new}", Leaders { old: 2, new: 1 }),
    ("{old, new}", Leaders { old: 2, new: 2 }),
    ("∅", Leaders { old: 2, new: 3 }),
];
const MODES: [Mode; 4] = [Mode::Upperbound, Mode::BullFrog, Mode::CoLocated, Mode::Slsm];
const TRANSACTIONS: u32 = 20;
const FEW_TRANSACTIONS: u32 = 3;

/// Measures all of it.
pub fn run(bench: &Bench<'_>, cluster: &Cluster, report: &mut Report) -> Result<()> {
    let (rtt, delay_ms) = RTTS[MIDDLE];
    let (placements, transactions) = match bench.args.small {
        true => (&PLACEMENTS[4..], FEW_TRANSACTIONS),
        false => (&PLACEMENTS[..], TRANSACTIONS),
    };
    // Each transaction names one or ten that nobody has named.
    let scale = Scale { customers: 100, ..bench.scale };
    for (name, leaders) in placements {
        for mode in MODES {
            progress::phase(&format!("placement {name}: {}", mode.name()));
            let costs = bench.runtime.block_on(async {
                let split =
                    Split::make(bench.args, cluster, mode, *leaders, scale, delay_ms).await?;
                let mut costs = Vec::new();
                for kind in [Kind::NewOrder, Kind::Payment, Kind::Delivery] {
                    costs.push((kind, split.cost(kind, transactions).await?));
                }
                split.stop()?;
                anyhow::Ok(costs)
            })?;
            let name = format!("placement {name}");
            for (kind, cost) in costs {
                let kind = kind.name();
                report.add(mode.name(), &name, &format!("{kind}, requests"), cost.requests, "");
                report.add(
                    mode.name(),
                    &name,
                    &format!("{kind}, round trips"),
                    cost.round_trips,
                    "",
                );
                report.add(mode.name(), &name, &format!("{kind} p50"), cost.p50_ms, "ms");
                report.add(
                    mode.name(),
                    &name,
                    &format!("{kind} p50 / RTT"),
                    cost.p50_ms / rtt,
                    "x",
                );
            }
        }
    }
    Ok(())
}
