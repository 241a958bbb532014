//! What the issue wants to be reached, from the rows of the report; what was not measured is left out.

use super::moving::{self, MOVES};
use super::placement::Placement;
use super::registry::{ALONE, DOORS, JOINED, OFF, ON, single, switched};
use super::restart::{ASKED, KILLED};
use super::servers::{Cache, POSTGRES};
use super::{restart, space, tpcc};
use crate::limits::{self, Bound};
use crate::report::Report;

/// Not slower, but for the noise of a machine of two cores that share memory.
const NOT_SLOWER: f64 = 0.97;

/// A limit: what it is of, the value if it was measured, how far it may go, and its unit.
type Limit = (String, Option<f64>, Bound, &'static str);

/// Adds a row for each, and a line below the table. `clients`: as many as types of TPC-C run alone with.
pub fn add(report: &mut Report, clients: u16) {
    let mut all = registry(report);
    all.extend(tpcc_over_the_wire(report, clients));
    all.extend(of_files(report));
    for (what, value, bound, unit) in all {
        if let Some(value) = value {
            limits::add(report, &what, value, bound, unit);
        }
    }
}

fn registry(report: &Report) -> Vec<Limit> {
    let ratio = |over: &str, under: &str, operation: &str| {
        report.value(&format!("{over} / {under}"), operation, "throughput")
    };
    let mut all = Vec::new();
    for (_, door) in DOORS {
        let what = format!("memory alone, with the registry / without, {door}");
        let value = ratio(JOINED, ALONE, &single(door));
        all.push((what, value, Bound::AtLeast(NOT_SLOWER), "x"));
    }
    let value = ratio(ON, OFF, &switched(Placement::OptimizePayment));
    let cost_percent = value.map(|ratio| (1.0 / ratio - 1.0) * 100.0);
    let what = "what the registry costs a transaction over both".to_owned();
    all.push((what, cost_percent, Bound::AtMost(2.0), "%"));
    all.push((
        "aborts over both, above those of one engine".to_owned(),
        more_aborts(report),
        Bound::AtMost(0.1),
        "%",
    ));
    all
}

/// Table 6.1: how much more is aborted where transactions are over both engines, in percent of all tries.
fn more_aborts(report: &Report) -> Option<f64> {
    let most = |is_over_both| {
        let placements = Placement::ALL.into_iter().filter(|p| p.is_over_both() == is_over_both);
        let aborts = placements.filter_map(|p| report.value(p.name(), tpcc::ABORTS, "aborts"));
        aborts.reduce(f64::max)
    };
    Some((most(true)? - most(false)?).max(0.0))
}

fn tpcc_over_the_wire(report: &Report, clients: u16) -> Vec<Limit> {
    let disk = format!("{} / {POSTGRES}", Placement::Disk.name());
    let ratio =
        |figure, cache| report.value(&disk, &tpcc::mix(figure, cache, clients), "throughput");
    let what = |cache: Cache| format!("TPC-C, all disk / {POSTGRES}, {}", cache.name());
    vec![
        (what(Cache::Holds), ratio("6.2", Cache::Holds), Bound::AtLeast(1.5), "x"),
        (what(Cache::Tenth), ratio("6.3", Cache::Tenth), Bound::AtLeast(1.0), "x"),
    ]
}

fn of_files(report: &Report) -> Vec<Limit> {
    let mut all = Vec::new();
    for case in &MOVES {
        let of = |metric| report.value(moving::FROGLET, case.name, metric);
        let gap = format!("{}, longest gap", case.name);
        all.push((gap, of("longest gap during"), Bound::AtMost(100.0), "ms"));
        all.push((format!("{}, COMMIT", case.name), of("commit"), Bound::AtMost(50.0), "ms"));
    }
    for operation in [ASKED, KILLED] {
        let seconds = report.value(restart::FROGLET, operation, restart::METRIC);
        all.push((operation.to_owned(), seconds, Bound::AtMost(2.0), "s"));
    }
    let space = report.value(space::FROGLET, space::OPERATION, space::METRIC);
    all.push((format!("{}, files / as loaded", space::OPERATION), space, Bound::AtMost(1.3), "x"));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_has_a_verdict() {
        let mut report = Report::new("skeena");
        add(&mut report, 4);
        assert!(report.rows.is_empty());
        let operation = switched(Placement::OptimizePayment);
        report.add(&format!("{ON} / {OFF}"), &operation, "throughput", 0.99, "x");
        report.add(Placement::Memory.name(), tpcc::ABORTS, "aborts", 0.5, "%");
        report.add(Placement::ArchiveOnly.name(), tpcc::ABORTS, "aborts", 0.7, "%");
        add(&mut report, 4);
        let verdicts: Vec<&str> =
            report.summary.lines().filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(verdicts, ["met", "MISSED"], "{}", report.summary);
    }
}
