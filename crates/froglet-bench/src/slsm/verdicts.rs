//! What issue 26 asks, and whether it is so.
//!
//! ```text
//!   requests, RTT 11.8 ms   SLSM / BullFrog         ≤ 1 / 1.6     60 % faster
//!                           SLSM / Upperbound       ≤ 1.15
//!                           first answer            ≤ 3 RTT + 10 ms
//!   TPC-B                   round trips / what TiKV's protocol needs  ≤ 1.3
//!                           two gateways / one      ≥ 1.8, twice but for what two cores do
//!   tpcc                    least in a second / offered  ≥ 0.95   SLSM
//!                           migration ended after   < BullFrog's
//! ```

use super::{FIRST_ANSWER, MEAN, MIDDLE, RTTS, requests_name, timeline, tpcb};
use crate::report::Report;
use crate::tpccd::flip::figures::LEAST;
use crate::tpccd::summary::{Bound, Limit, add_limits};

const RTT: f64 = RTTS[MIDDLE].0;

const REQUESTS: [Limit; 3] = [
    Limit {
        title: "over BullFrog",
        approach: "SLSM / BullFrog",
        metric: MEAN,
        unit: "x",
        bound: Bound::AtMost(0.625),
    },
    Limit {
        title: "over Upperbound",
        approach: "SLSM / Upperbound",
        metric: MEAN,
        unit: "x",
        bound: Bound::AtMost(1.15),
    },
    Limit {
        title: "first answer",
        approach: "SLSM",
        metric: FIRST_ANSWER,
        unit: "ms",
        bound: Bound::AtMost(3.0 * RTT + 10.0),
    },
];
const TPCB: [Limit; 2] = [
    Limit {
        title: "round trips",
        approach: "froglet",
        metric: tpcb::NEEDED,
        unit: "x",
        bound: Bound::AtMost(1.3),
    },
    Limit {
        title: "two gateways",
        approach: "froglet",
        metric: tpcb::LINEAR,
        unit: "x",
        bound: Bound::AtLeast(1.8),
    },
];
const TPCC: [Limit; 2] = [
    Limit {
        title: "each second",
        approach: "SLSM",
        metric: LEAST,
        unit: "x",
        bound: Bound::AtLeast(0.95),
    },
    Limit {
        title: "time window",
        approach: "SLSM / BullFrog",
        metric: "migration ended after",
        unit: "x",
        bound: Bound::Below(1.0),
    },
];

/// Adds it, of what was measured.
pub fn add(report: &mut Report) {
    let is_there = |name: &String| report.rows.iter().any(|row| row.operation == *name);
    let requests: Vec<String> = [requests_name(RTT)].into_iter().filter(is_there).collect();
    let tpcc: Vec<String> = timeline::CHANGES.iter().map(timeline::name).filter(is_there).collect();
    let tpcb: Vec<String> = [tpcb::NAME.to_owned()].into_iter().filter(is_there).collect();
    if !requests.is_empty() {
        add_limits(report, "requests on the new schema", &REQUESTS.each_ref(), &requests);
    }
    if !tpcb.is_empty() {
        add_limits(report, "two gateways", &TPCB.each_ref(), &tpcb);
    }
    if !tpcc.is_empty() {
        add_limits(report, "TPC-C", &TPCC.each_ref(), &tpcc);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_is_not_judged() {
        let mut report = Report::new("figure 10");
        report.add("SLSM / BullFrog", &requests_name(RTT), MEAN, 0.5, "x");
        report.add("SLSM / Upperbound", &requests_name(RTT), MEAN, 1.2, "x");
        add(&mut report);
        let verdicts = |who: &str| report.rows.iter().filter(|row| row.approach == who).count();
        assert_eq!((verdicts("met"), verdicts("MISSED")), (1, 2));
        assert!(!report.summary.contains("TPC-C"), "{}", report.summary);
    }
}
