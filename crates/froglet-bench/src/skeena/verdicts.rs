//! What the issue wants to be reached, from the rows of the report; what was not measured is left out.

use super::accesses::{ACCESSES, Workload};
use super::moving::{self, MOVES};
use super::placement::Placement;
use super::registry::{ALONE, DOORS, JOINED, OFF, ON, single, switched};
use super::restart::{ASKED, KILLED};
use super::servers::{Cache, POSTGRES};
use super::{micro, restart, space, tpcc};
use crate::limits::{self, Bound};
use crate::report::Report;

/// Not slower, but for the noise of a machine of two cores that share memory.
const NOT_SLOWER: f64 = 0.97;

/// A limit: what it is of, the value if it was measured, how far it may go, and its unit.
type Limit = (String, Option<f64>, Bound, &'static str);

/// Adds a row for each, and a line below the table. Of TPC-C it is what `few` clients get, of aborts what the most do.
pub fn add(report: &mut Report, few: u16, most: u16) {
    let mut all = registry(report);
    all.push(aborts(report, most));
    all.extend(tpcc_over_the_wire(report, few));
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
    all
}

/// What is aborted of transactions over both engines where hardly anybody conflicts: a few rows of millions.
fn aborts(report: &Report, most_clients: u16) -> Limit {
    let operation = micro::operation(Workload::ReadWrite, Cache::Holds, most_clients);
    let both = micro::ON_DISK.into_iter().filter(|on_disk| (1..ACCESSES).contains(on_disk));
    let aborts = both
        .filter_map(|on_disk| report.value(&micro::approach(on_disk), &operation, micro::REFUSED));
    let what = "aborts of transactions over both".to_owned();
    (what, aborts.reduce(f64::max), Bound::AtMost(0.1), "%")
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
        add(&mut report, 4, 32);
        assert!(report.rows.is_empty());
        let operation = switched(Placement::OptimizePayment);
        report.add(&format!("{ON} / {OFF}"), &operation, "throughput", 0.99, "x");
        let operation = micro::operation(Workload::ReadWrite, Cache::Holds, 32);
        for (on_disk, percent) in [(0, 9.0), (3, 0.01), (8, 0.2)] {
            report.add(&micro::approach(on_disk), &operation, micro::REFUSED, percent, "%");
        }
        add(&mut report, 4, 32);
        let verdicts: Vec<&str> =
            report.summary.lines().filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(verdicts, ["met", "MISSED"], "{}", report.summary);
    }
}
