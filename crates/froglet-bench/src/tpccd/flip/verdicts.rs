//! All approaches of a change in one table, and what issue 4 asks of Lazy.
//!
//! ```text
//!   both          COMMIT to first answer           < 10 ms
//!   moderate      least in a second / offered      ≥ 0.97
//!                 p99, Lazy / NoDDL                ≤ 2
//!   saturated     transactions, Lazy / best other  > 1
//!   tracking      what it costs                    < 3 %
//! ```

use super::super::summary::{Bound, Limit, add_limits};
use super::Loop;
use super::figures::{BEST_OTHER, FIRST_ANSWER, LEAST, P99, TRANSACTIONS};
use super::{sizes, tracking};
use crate::report::{Report, number};

const FIRST: Limit = Limit {
    title: "first answer",
    approach: "Lazy",
    metric: FIRST_ANSWER,
    unit: "ms",
    bound: Bound::Below(10.0),
};
const NO_DIP: Limit = Limit {
    title: "each second",
    approach: "Lazy",
    metric: LEAST,
    unit: "x",
    bound: Bound::AtLeast(0.97),
};
const P99_OVER_NONE: Limit = Limit {
    title: "p99",
    approach: "Lazy / NoDDL",
    metric: P99,
    unit: "x",
    bound: Bound::AtMost(2.0),
};
const MOST_WORK: Limit = Limit {
    title: "work, Lazy / best other",
    approach: BEST_OTHER,
    metric: TRANSACTIONS,
    unit: "x",
    bound: Bound::Above(1.0),
};
const TRACKING: Limit = Limit {
    title: "tracking",
    approach: tracking::NAME,
    metric: tracking::OVERHEAD,
    unit: "%",
    bound: Bound::Below(3.0),
};

/// A column of the table: what it shows, and its head.
const COLUMNS: [(&str, &str); 12] = [
    (TRANSACTIONS, "txns"),
    ("least in a second", "least/s"),
    ("p50 from the flip on", "p50 ms"),
    (P99, "p99 ms"),
    ("max from the flip on", "max ms"),
    ("COMMIT", "COMMIT ms"),
    (FIRST_ANSWER, "first ms"),
    ("migration ended after", "ended s"),
    ("rows migrated on access", "on access"),
    ("rows migrated in the background", "background"),
    ("retries", "retries"),
    ("failed transactions", "failed"),
];

/// Adds the table of one change in one loop, or of one sweep. Of transactions and p99 it shows the ratios, too.
pub fn add_table<'a>(report: &mut Report, name: &str, ran: impl Iterator<Item = &'a str> + Clone) {
    let wide = ran.clone().map(|who| who.chars().count()).max().unwrap_or(0).max(18);
    let mut table = format!("{name}\n{:wide$}", "approach");
    for (_, head) in COLUMNS {
        table += &format!(" {head:>10}");
    }
    table += &format!(" {:>6} {:>7} {:>6}\n", "wrong", "txns, x", "p99, x");
    for who in ran {
        table += &format!("{who:wide$}");
        let shown = |value: Option<f64>| value.map_or("-".to_owned(), number);
        for (metric, _) in COLUMNS {
            table += &format!(" {:>10}", shown(report.value(who, name, metric)));
        }
        let over = format!("{who} / NoDDL");
        table += &format!(
            " {:>6} {:>7} {:>6}\n",
            shown(report.value(who, name, "rows wrong")),
            shown(report.value(&over, name, TRANSACTIONS)),
            shown(report.value(&over, name, P99)),
        );
    }
    table.push('\n');
    report.summary += &table;
}

/// Adds what is asked, of everything that was measured.
pub(super) fn add(report: &mut Report, names: &[(String, Loop)]) {
    let of = |wanted: fn(&Loop) -> bool| -> Vec<String> {
        names.iter().filter(|(_, way)| wanted(way)).map(|(name, _)| name.clone()).collect()
    };
    let lazy = |name: &String| report.value("Lazy", name, TRANSACTIONS).is_some();
    let open: Vec<_> = of(|way| *way != Loop::Closed).into_iter().filter(&lazy).collect();
    let closed: Vec<_> = of(|way| *way == Loop::Closed).into_iter().filter(&lazy).collect();
    let named = |approach: &str| -> Vec<String> {
        let rows = report.rows.iter().filter(|row| row.approach == approach);
        let mut names: Vec<String> = rows.map(|row| row.operation.clone()).collect();
        names.dedup();
        names
    };
    let sizes = named(sizes::NAME);
    let tracked = named(tracking::NAME);
    if !open.is_empty() {
        let limits = [&FIRST, &NO_DIP, &P99_OVER_NONE];
        add_limits(report, "moderate rate", &limits, &open);
    }
    if !closed.is_empty() {
        add_limits(report, "saturated", &[&FIRST, &MOST_WORK], &closed);
    }
    if !sizes.is_empty() {
        let limit = Limit { approach: sizes::NAME, ..FIRST };
        add_limits(report, "rows", &[&limit], &sizes);
    }
    if !tracked.is_empty() {
        add_limits(report, "tracking", &[&TRACKING], &tracked);
    }
}

#[cfg(test)]
mod tests {
    use super::super::figures;
    use super::super::figures::tests::outcome;
    use super::*;
    use crate::tpccd::flip::approach::Approach;

    #[test]
    fn every_approach_has_a_line_and_every_limit_a_verdict() {
        let mut report = Report::new("figure 4.3");
        let ran = [Approach::NoDdl, Approach::Tesseract, Approach::Lazy];
        let name = "SplitTable, load 0.65".to_owned();
        for approach in ran {
            let outcome = outcome(approach == Approach::Tesseract);
            figures::add(&mut report, approach.name(), &name, &outcome, Some(100.0));
        }
        figures::add_ratios(&mut report, &name, &ran);
        add_table(&mut report, &name, ran.iter().map(|a| a.name()));
        add(&mut report, &[(name.clone(), Loop::Open(0.65)), ("Join".to_owned(), Loop::Closed)]);
        let verdict = |metric: &str| {
            let row = report.rows.iter().rev().find(|row| row.metric.starts_with(metric));
            row.map(|row| row.approach.clone())
        };
        assert_eq!(verdict(FIRST_ANSWER).as_deref(), Some("met"));
        assert_eq!(verdict(P99).as_deref(), Some("met"));
        assert!(!report.summary.contains("saturated"), "{}", report.summary);
    }
}
