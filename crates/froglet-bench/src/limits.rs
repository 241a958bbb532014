//! What an issue wants to be reached, and whether it was.

use crate::report::{Report, number};

/// How far a value may go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// Not above.
    AtMost(f64),
    /// Not below.
    AtLeast(f64),
}

impl Bound {
    fn is_met(self, value: f64) -> bool {
        match self {
            Bound::AtMost(most) => value <= most,
            Bound::AtLeast(least) => value >= least,
        }
    }

    fn words(self) -> (&'static str, f64) {
        match self {
            Bound::AtMost(most) => ("at most", most),
            Bound::AtLeast(least) => ("at least", least),
        }
    }
}

/// Says below the table whether a limit was met; the value and the limit are rows of it.
pub fn add(report: &mut Report, what: &str, value: f64, bound: Bound, unit: &str) {
    let (words, limit) = bound.words();
    report.add("limit", what, "value", value, unit);
    report.add("limit", what, words, limit, unit);
    let verdict = if bound.is_met(value) { "met" } else { "MISSED" };
    let (value, limit) = (number(value), number(limit));
    report.summary += &format!("{verdict:<6}  {what}: {value} {unit} ({words} {limit})\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_itself_is_within_the_limit() {
        let mut report = Report::new("limits");
        add(&mut report, "cost", 5.0, Bound::AtMost(5.0), "%");
        add(&mut report, "more cost", 5.1, Bound::AtMost(5.0), "%");
        add(&mut report, "speed", 49.0, Bound::AtLeast(50.0), "x");
        let verdicts: Vec<&str> =
            report.summary.lines().filter_map(|l| l.split_whitespace().next()).collect();
        assert_eq!(verdicts, ["met", "MISSED", "MISSED"]);
        assert_eq!(report.value("limit", "speed", "at least"), Some(50.0));
    }
}
