//! A worker's commits on a time line of 10 ms windows, and its gaps.

use std::time::{Duration, Instant};

use crate::machine;

/// The width of a window.
pub const WINDOW: Duration = Duration::from_millis(10);
/// Gaps shorter than this are not remembered one by one.
const SHORT: Duration = Duration::from_micros(500);

/// When one worker committed. Written by the worker alone.
pub struct Timeline {
    start: Instant,
    windows: Vec<u32>,
    /// The processor time of the worker's thread at the first commit of each window, or before.
    busy: Vec<Duration>,
    last: Instant,
    /// Ends and lengths of gaps, ascending.
    gaps: Vec<(Instant, Duration)>,
}

impl Timeline {
    /// From now on.
    pub fn new() -> Timeline {
        let now = Instant::now();
        Timeline { start: now, windows: vec![], busy: vec![], last: now, gaps: vec![] }
    }

    /// A commit, now.
    pub fn commit(&mut self) {
        self.commit_at(Instant::now());
    }

    fn commit_at(&mut self, now: Instant) {
        let window = self.window(now);
        if window >= self.windows.len() {
            self.windows.resize(window + 1, 0);
            self.busy.resize(window + 1, machine::thread_cpu_time().unwrap_or_default());
        }
        self.windows[window] += 1;
        let gap = now - self.last;
        if gap >= SHORT {
            self.gaps.push((now, gap));
        }
        self.last = now;
    }

    fn window(&self, at: Instant) -> usize {
        let since = at.saturating_duration_since(self.start);
        (since.as_nanos() / WINDOW.as_nanos()) as usize
    }

    /// Commits a second in the windows that lie wholly in `from..to`; `None` if there are none.
    pub fn per_second(&self, from: Instant, to: Instant) -> Option<f64> {
        let counts = self.whole(from, to)?;
        let commits: u64 = counts.iter().map(|n| u64::from(*n)).sum();
        Some(commits as f64 / (counts.len() as f64 * WINDOW.as_secs_f64()))
    }

    /// Commits for each second of the worker's processor time in `from..to`: what is left of the
    /// throughput's loss if other processes, and our own threads, take no processor away.
    pub fn per_busy_second(&self, from: Instant, to: Instant) -> Option<f64> {
        let (_, counts) = self.whole(from, to)?.split_last()?;
        let first = self.window(from) + usize::from(from > self.start);
        let busy = self.busy[first + counts.len()].saturating_sub(self.busy[first]);
        let commits: u64 = counts.iter().map(|n| u64::from(*n)).sum();
        (!busy.is_zero()).then(|| commits as f64 / busy.as_secs_f64())
    }

    /// The slowest window in `from..to`, in commits a second.
    pub fn slowest(&self, from: Instant, to: Instant) -> Option<f64> {
        let counts = self.whole(from, to)?;
        counts.iter().min().map(|n| f64::from(*n) / WINDOW.as_secs_f64())
    }

    fn whole(&self, from: Instant, to: Instant) -> Option<&[u32]> {
        let first = self.window(from) + usize::from(from > self.start);
        let end = self.window(to).min(self.windows.len());
        self.windows.get(first..end).filter(|counts| !counts.is_empty())
    }

    /// The longest time without a commit that touches `from..to`.
    pub fn longest_gap(&self, from: Instant, to: Instant) -> Duration {
        let touches = |(end, gap): &&(Instant, Duration)| *end >= from && *end - *gap <= to;
        let longest = self.gaps.iter().filter(touches).map(|(_, gap)| *gap).max();
        longest.unwrap_or_default().max(if to > self.last {
            to - self.last
        } else {
            Duration::ZERO
        })
    }
}

impl Default for Timeline {
    fn default() -> Timeline {
        Timeline::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_counted_by_window_and_gaps_are_found() {
        let mut line = Timeline::new();
        let start = line.start;
        let ms = Duration::from_millis;
        (1..4).for_each(|at| line.commit_at(start + ms(at)));
        let end = start + ms(28);
        line.commit_at(end);
        assert!(line.longest_gap(start, end) >= ms(25));
        assert!(line.longest_gap(start + ms(200), start + ms(300)) > ms(100), "silent since then");
        assert_eq!(line.per_second(start, start + WINDOW), Some(300.0));
        assert_eq!(line.slowest(start, start + 2 * WINDOW), Some(0.0));
        assert_eq!(line.per_second(end, end + ms(100)), None);
    }
}
