//! What clients saw: every transaction with its times, and what can be read from them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::histogram::Histogram;

/// A client's transaction. Times are since the clients began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// Whose it was: 0, 1, ….
    pub client: u16,
    /// When it was wanted.
    pub begun: Duration,
    /// When its COMMIT was answered, or its error.
    pub ended: Duration,
    /// The SQLSTATE, if it failed.
    pub failure: Option<String>,
}

/// A stretch of time, since the clients began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its start.
    pub start: Duration,
    /// Its end.
    pub end: Duration,
}

impl Span {
    /// How long it is.
    pub fn length(self) -> Duration {
        self.end.saturating_sub(self.start)
    }
}

/// The transactions of all clients.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// By their ends.
    transactions: Vec<Transaction>,
}

impl Recording {
    /// Of transactions in any order.
    pub fn new(mut transactions: Vec<Transaction>) -> Recording {
        transactions.sort_by_key(|t| t.ended);
        Recording { transactions }
    }

    /// Adds more, in any order.
    pub fn extend(&mut self, transactions: Vec<Transaction>) {
        self.transactions.extend(transactions);
        self.transactions.sort_by_key(|t| t.ended);
    }

    /// Drops what ended before a time.
    pub fn forget_before(&mut self, time: Duration) {
        let kept = self.transactions.partition_point(|t| t.ended < time);
        self.transactions.drain(..kept);
    }

    fn commits(&self) -> impl Iterator<Item = &Transaction> {
        self.transactions.iter().filter(|t| t.failure.is_none())
    }

    /// Commits a second; 0 of no time.
    pub fn per_second(&self, span: Span) -> f64 {
        let within = |t: &&Transaction| t.ended >= span.start && t.ended < span.end;
        let seconds = span.length().as_secs_f64();
        if seconds == 0.0 { 0.0 } else { self.commits().filter(within).count() as f64 / seconds }
    }

    /// Commits a second in each whole window of a span.
    pub fn windows(&self, span: Span, width: Duration) -> Vec<f64> {
        let windows = (span.length().as_nanos() / width.as_nanos()) as usize;
        let mut counts = vec![0u32; windows];
        for t in self.commits().filter(|t| t.ended >= span.start) {
            let window = ((t.ended - span.start).as_nanos() / width.as_nanos()) as usize;
            if let Some(count) = counts.get_mut(window) {
                *count += 1;
            }
        }
        counts.into_iter().map(|n| f64::from(n) / width.as_secs_f64()).collect()
    }

    /// Latencies of the commits in each whole window of a span.
    pub fn latencies(&self, span: Span, width: Duration) -> Vec<Histogram> {
        let windows = (span.length().as_nanos() / width.as_nanos()) as usize;
        let mut latencies = vec![Histogram::default(); windows];
        for t in self.commits().filter(|t| t.ended >= span.start) {
            let window = ((t.ended - span.start).as_nanos() / width.as_nanos()) as usize;
            if let Some(latency) = latencies.get_mut(window) {
                latency.record((t.ended - t.begun).as_nanos() as u64);
            }
        }
        latencies
    }

    /// Latencies of the commits that were under way at some time in `span`.
    pub fn latency_during(&self, span: Span) -> Histogram {
        self.latency(|t| t.begun < span.end && t.ended > span.start)
    }

    /// Latencies of the commits that began and ended before `span`, or after it; all of them from
    /// `warm` on.
    pub fn latency_outside(&self, span: Span, warm: Duration) -> Histogram {
        self.latency(|t| t.begun >= warm && (t.begun >= span.end || t.ended <= span.start))
    }

    fn latency(&self, counts: impl Fn(&Transaction) -> bool) -> Histogram {
        let mut histogram = Histogram::default();
        for t in self.commits().filter(|t| counts(t)) {
            histogram.record((t.ended - t.begun).as_nanos() as u64);
        }
        histogram
    }

    /// The longest time without a commit that touches `span`.
    pub fn longest_gap(&self, span: Span) -> Duration {
        longest_gap(self.commits(), span)
    }

    /// The same for each client alone.
    pub fn longest_gaps(&self, span: Span) -> Vec<Duration> {
        let clients: BTreeSet<u16> = self.commits().map(|t| t.client).collect();
        let gap = |client| longest_gap(self.commits().filter(|t| t.client == client), span);
        clients.into_iter().map(gap).collect()
    }

    /// Transactions that failed in `span`, by SQLSTATE.
    pub fn failures(&self, span: Span) -> BTreeMap<&str, u64> {
        let mut failures = BTreeMap::new();
        let within = |t: &&Transaction| t.ended >= span.start && t.ended < span.end;
        for state in self.transactions.iter().filter(within).filter_map(|t| t.failure.as_deref()) {
            *failures.entry(state).or_insert(0) += 1;
        }
        failures
    }
}

/// The longest time between commits, by their ends, that touches `span`.
fn longest_gap<'a>(commits: impl Iterator<Item = &'a Transaction>, span: Span) -> Duration {
    let mut last = Duration::ZERO;
    let mut longest = Duration::ZERO;
    for t in commits {
        if t.ended >= span.start && last <= span.end {
            longest = longest.max(t.ended - last);
        }
        last = t.ended;
    }
    longest.max(span.end.saturating_sub(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn span(start: u64, end: u64) -> Span {
        Span { start: ms(start), end: ms(end) }
    }

    fn recording(transactions: &[(u64, u64, Option<&str>)]) -> Recording {
        let transaction = |&(begun, ended, failure): &(u64, u64, Option<&str>)| Transaction {
            client: 0,
            begun: ms(begun),
            ended: ms(ended),
            failure: failure.map(str::to_owned),
        };
        Recording::new(transactions.iter().map(transaction).collect())
    }

    #[test]
    fn throughput_counts_commits_by_their_end() {
        let all =
            recording(&[(0, 50, None), (0, 150, None), (140, 160, None), (0, 170, Some("x"))]);
        assert_eq!(all.windows(span(0, 299), ms(100)), [10.0, 20.0]);
        assert_eq!(all.per_second(span(100, 200)), 20.0);
        assert_eq!(all.per_second(span(100, 100)), 0.0);
        assert_eq!(all.failures(span(0, 200)), BTreeMap::from([("x", 1)]));
        assert!(all.failures(span(0, 170)).is_empty());
    }

    #[test]
    fn a_commit_that_waited_for_the_change_is_one_of_those_during_it() {
        let all = recording(&[(0, 90, None), (90, 210, None), (210, 220, None), (100, 101, None)]);
        let change = span(100, 200);
        assert_eq!(all.latency_during(change).count(), 2);
        assert_eq!(all.latency_during(change).max_us(), 120_000.0);
        assert_eq!(all.latency_outside(change, ms(0)).count(), 2);
        assert_eq!(all.latency_outside(change, ms(50)).count(), 1);
    }

    #[test]
    fn windows_of_latencies_and_what_is_forgotten() {
        let mut all = recording(&[(0, 50, None), (110, 150, None)]);
        all.extend(vec![Transaction { client: 0, begun: ms(60), ended: ms(80), failure: None }]);
        let counts = |all: &Recording| -> Vec<u64> {
            all.latencies(span(0, 200), ms(100)).iter().map(Histogram::count).collect()
        };
        assert_eq!(counts(&all), [2, 1]);
        all.forget_before(ms(80));
        assert_eq!(counts(&all), [1, 1]);
    }

    #[test]
    fn gaps_count_if_they_touch_the_span() {
        let all = recording(&[(0, 10, None), (0, 100, None), (0, 110, None), (0, 150, Some("x"))]);
        assert_eq!(all.longest_gap(span(20, 90)), ms(90));
        assert_eq!(all.longest_gap(span(105, 115)), ms(10));
        assert_eq!(all.longest_gap(span(105, 500)), ms(390), "silent since then");
    }

    #[test]
    fn a_client_may_stand_still_while_others_go_on() {
        let commit = |client, ended| Transaction {
            client,
            begun: ms(ended - 1),
            ended: ms(ended),
            failure: None,
        };
        let ends = [10, 20, 30, 40, 50, 60].map(|n| commit(0, n));
        let all = Recording::new([&ends[..], &[commit(1, 15), commit(1, 55)]].concat());
        assert_eq!(all.longest_gap(span(10, 60)), ms(10));
        assert_eq!(all.longest_gaps(span(10, 60)), [ms(10), ms(40)]);
    }
}
