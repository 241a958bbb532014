//! What issue 3 asks of each change, and whether it is so.
//!
//! ```text
//!   throughput during / NoDDL     ≥ 0.95 where the machine has time to spare (open loop); in a
//!                                 closed loop in proportion to what the migration leaves
//!   longest time at zero during   < 100 ms
//!   p99 during / NoDDL            ≤ 2
//!   migration / Blocking          ≤ 1.3
//! ```

use crate::report::{Report, number};

/// One thing that is asked.
#[derive(Clone, Copy)]
pub struct Limit {
    /// Of a column.
    pub title: &'static str,
    /// Whose number it is.
    pub approach: &'static str,
    /// What is measured.
    pub metric: &'static str,
    /// Of what.
    pub unit: &'static str,
    /// What is asked of it.
    pub bound: Bound,
}

/// What is asked of a number.
#[derive(Clone, Copy)]
pub enum Bound {
    /// It is this or more.
    AtLeast(f64),
    /// More.
    Above(f64),
    /// This or less.
    AtMost(f64),
    /// Less.
    Below(f64),
}

impl Bound {
    fn allows(self, value: f64) -> bool {
        match self {
            Bound::AtLeast(bound) => value >= bound,
            Bound::Above(bound) => value > bound,
            Bound::AtMost(bound) => value <= bound,
            Bound::Below(bound) => value < bound,
        }
    }

    fn text(self) -> String {
        match self {
            Bound::AtLeast(bound) => format!("at least {bound}"),
            Bound::Above(bound) => format!("above {bound}"),
            Bound::AtMost(bound) => format!("at most {bound}"),
            Bound::Below(bound) => format!("below {bound}"),
        }
    }
}

const OVER_NONE: &str = "Tesseract / NoDDL";

const OPEN: Limit = Limit {
    title: "throughput",
    approach: OVER_NONE,
    metric: "throughput during",
    unit: "x",
    bound: Bound::AtLeast(0.95),
};
const CLOSED: Limit =
    Limit { title: "in proportion", metric: "throughput during, in proportion", ..OPEN };
const OTHERS: [Limit; 3] = [
    Limit {
        title: "ms at zero",
        approach: "Tesseract",
        metric: "longest time at zero during",
        unit: "ms",
        bound: Bound::Below(100.0),
    },
    Limit {
        title: "p99",
        approach: OVER_NONE,
        metric: "p99 during",
        unit: "x",
        bound: Bound::AtMost(2.0),
    },
    Limit {
        title: "migration",
        approach: "Tesseract / Blocking",
        metric: "migration",
        unit: "x",
        bound: Bound::AtMost(1.3),
    },
];

/// Adds what is asked of each change.
pub fn add(report: &mut Report, changes: &[String], load: Option<f64>) {
    let limits: Vec<&Limit> =
        [if load.is_some() { &OPEN } else { &CLOSED }].into_iter().chain(&OTHERS).collect();
    let title = match load {
        None => "closed loop, throughput in proportion to what the migration leaves".to_owned(),
        Some(load) => format!("open loop at {load} of the clients' rate"),
    };
    add_limits(report, &title, &limits, changes);
}

/// Adds a row for each limit of each change, with `met` or `MISSED` as its approach, and the table
/// of all. What has no figure, as a change that was given up, is missed.
pub fn add_limits(report: &mut Report, title: &str, limits: &[&Limit], changes: &[String]) {
    let name = changes.iter().map(|c| c.chars().count()).max().unwrap_or(0).max(title.len() / 2);
    let heads = limits.iter().map(|l| format!("{}, {}", l.title, l.bound.text()));
    let heads: Vec<String> = heads.collect();
    let mut table = format!("Limits: {title}\n{:name$}", "change");
    heads.iter().for_each(|head| table += &format!("  {head:>26}"));
    table.push('\n');
    for change in changes {
        table += &format!("{change:name$}");
        for limit in limits {
            let value = report.value(limit.approach, change, limit.metric);
            let verdict = match value {
                Some(value) if limit.bound.allows(value) => "met",
                _ => "MISSED",
            };
            let shown = value.map_or("none".to_owned(), number);
            table += &format!("  {:>26}", format!("{shown} {verdict:6}"));
            let metric = format!("{}, {}", limit.metric, limit.bound.text());
            report.add(verdict, change, &metric, value.unwrap_or(0.0), limit.unit);
        }
        table.push('\n');
    }
    if !report.summary.is_empty() {
        report.summary.push('\n');
    }
    report.summary += &table;
}

/// A column of [`add_stalls`]: whose, what, and as what it is shown.
const STALLS: [(&str, &str, &str); 8] = [
    ("Tesseract", "longest stall of a client during", "Tesseract ms"),
    ("Blocking", "longest stall of a client during", "Blocking ms"),
    ("PostgreSQL", "longest stall of a client during", "PostgreSQL ms"),
    ("Tesseract", "throughput during / before", "Tesseract x"),
    ("PostgreSQL", "throughput during / before", "PostgreSQL x"),
    ("Tesseract", "migration", "change, ms"),
    ("PostgreSQL", "migration", "PostgreSQL, ms"),
    ("PostgreSQL", "rows wrong", "its rows wrong"),
];

/// Adds the table of who stands still for how long, beside PostgreSQL's clients if there are any.
pub fn add_stalls(report: &mut Report, changes: &[String]) {
    let name = changes.iter().map(|c| c.chars().count()).max().unwrap_or(0).max("change".len());
    let mut table = format!(
        "\nLongest stall of a client (ms), throughput during / before (x), time of the change\n\
         {:name$}",
        "change"
    );
    STALLS.iter().for_each(|(_, _, head)| table += &format!("  {head:>14}"));
    for change in changes {
        table += &format!("\n{change:name$}");
        for (approach, metric, _) in STALLS {
            let shown = report.value(approach, change, metric).map_or("-".to_owned(), number);
            table += &format!("  {shown:>14}");
        }
    }
    report.summary += &table;
    report.summary.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds() {
        assert!(Bound::AtLeast(0.95).allows(0.95) && !Bound::AtLeast(0.95).allows(0.949));
        assert!(Bound::AtMost(2.0).allows(2.0) && !Bound::AtMost(2.0).allows(2.1));
        assert!(!Bound::Below(100.0).allows(100.0));
    }

    #[test]
    fn each_limit_is_met_or_missed_in_the_table_and_in_the_rows() {
        let mut report = Report::new("figure 0");
        report.add(OVER_NONE, "AddColumn", "throughput during", 0.97, "x");
        report.add(OVER_NONE, "AddColumn", "throughput during, in proportion", 0.9, "x");
        report.add("Tesseract", "AddColumn", "longest time at zero during", 11.0, "ms");
        report.add(OVER_NONE, "AddColumn", "p99 during", 3.0, "x");
        let changes = ["AddColumn".to_owned()];
        add(&mut report, &changes, Some(0.5));
        let verdicts: Vec<&str> = report.rows[4..].iter().map(|m| &*m.approach).collect();
        assert_eq!(verdicts, ["met", "met", "MISSED", "MISSED"]);
        assert!(report.summary.contains("0.970 met") && report.summary.contains("none MISSED"));
        report.add("PostgreSQL", "AddColumn", "rows wrong", 12.0, "");
        add_stalls(&mut report, &changes);
        assert!(report.summary.ends_with("  -              12\n"), "{}", report.summary);
        add(&mut report, &changes, None);
        assert!(report.summary.contains("0.900 MISSED"), "{}", report.summary);
    }
}
