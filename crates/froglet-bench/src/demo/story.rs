//! What has happened so far: all that the screen draws and the summary says.
//!
//! ```text
//!   change:   waiting ──▶ running (phase, per cent) ──▶ done (figures)
//!                                    └────────────────▶ failed (why)
//! ```

use std::time::Duration;

use super::changes::Change;
use crate::report::Report;
use crate::tpccd::recording::{Recording, Span, Transaction};

/// Who is measured, in the JSON.
const APPROACH: &str = "froglet";
/// Throughput of a shorter time means nothing.
pub const SHORTEST: Duration = Duration::from_millis(100);
/// Transactions are kept for so long, or for as long as a change that runs needs them.
const KEPT: Duration = Duration::from_secs(60);

/// The whole story. Times are since the clients began.
pub struct Story {
    /// What is shown.
    pub title: String,
    /// When it was last added to.
    pub now: Duration,
    /// The clients' transactions of late.
    pub recording: Recording,
    /// In the order in which they are made.
    pub chapters: Vec<Chapter>,
    calm: Duration,
}

/// One change.
pub struct Chapter {
    /// What is changed.
    pub change: Change,
    /// How far it is.
    pub state: State,
}

/// How far a change is.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// It has not begun.
    Waiting,
    /// It has begun.
    Running {
        /// When.
        begun: Duration,
        /// What the server says of it.
        progress: Progress,
    },
    /// It was committed.
    Done(Figures),
    /// The server refused it.
    Failed {
        /// From BEGIN to the error.
        span: Span,
        /// What it said.
        why: String,
    },
}

/// A migration as `froglet.migrations` shows it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// What it does.
    pub phase: String,
    /// How much of the scan is done.
    pub percent: f64,
    /// Rows that the scan has seen.
    pub scanned: u64,
    /// Rows that changed meanwhile and were taken care of.
    pub captured: u64,
    /// Rows that changed meanwhile and wait.
    pub backlog: u64,
}

/// What a change cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// From BEGIN to the answer to COMMIT.
    pub span: Span,
    /// Transactions a second in the calm before.
    pub before_per_second: f64,
    /// And while it was made.
    pub during_per_second: f64,
    /// The longest time without a commit.
    pub longest_gap: Duration,
    /// Transactions that failed.
    pub failed: u64,
}

impl Figures {
    /// Throughput while it was made as a share of that before; 0 if there was none.
    pub fn ratio(&self) -> f64 {
        if self.before_per_second == 0.0 {
            return 0.0;
        }
        self.during_per_second / self.before_per_second
    }
}

/// News of the changes.
#[derive(Debug)]
pub enum News {
    /// The next change begins.
    Begun(Duration),
    /// It has ended, well or not, at least [`SHORTEST`] ago.
    Ended(Span, Result<(), String>),
}

impl Story {
    /// At its beginning. `calm` is the time before each change.
    pub fn new(title: String, changes: &[Change], calm: Duration) -> Story {
        let chapter = |change: &Change| Chapter { change: *change, state: State::Waiting };
        Story {
            title,
            now: Duration::ZERO,
            recording: Recording::default(),
            chapters: changes.iter().map(chapter).collect(),
            calm,
        }
    }

    /// Adds what clients did up to now.
    pub fn add(&mut self, now: Duration, transactions: Vec<Transaction>) {
        self.now = now;
        self.recording.extend(transactions);
        let kept = now.saturating_sub(KEPT);
        let needed = match self.running() {
            Some(Chapter { state: State::Running { begun, .. }, .. }) => {
                begun.saturating_sub(self.calm)
            }
            _ => now.saturating_sub(self.calm),
        };
        self.recording.forget_before(kept.min(needed));
    }

    /// Adds news.
    pub fn tell(&mut self, news: News) {
        match news {
            News::Begun(begun) => {
                let waiting = self.chapters.iter_mut().find(|c| c.state == State::Waiting);
                if let Some(chapter) = waiting {
                    chapter.state = State::Running { begun, progress: Progress::default() };
                }
            }
            News::Ended(span, outcome) => {
                let state = match outcome {
                    Ok(()) => State::Done(self.figures(span)),
                    Err(why) => State::Failed { span, why },
                };
                if let Some(chapter) = self.running_mut() {
                    chapter.state = state;
                }
            }
        }
    }

    /// Adds what the server says of the change that runs.
    pub fn progress(&mut self, now: Progress) {
        if let Some(Chapter { state: State::Running { progress, .. }, .. }) = self.running_mut() {
            *progress = now;
        }
    }

    /// The change that runs.
    pub fn running(&self) -> Option<&Chapter> {
        self.chapters.iter().find(|c| matches!(c.state, State::Running { .. }))
    }

    fn running_mut(&mut self) -> Option<&mut Chapter> {
        self.chapters.iter_mut().find(|c| matches!(c.state, State::Running { .. }))
    }

    /// Whether every change has ended.
    pub fn is_over(&self) -> bool {
        self.chapters.iter().all(|c| matches!(c.state, State::Done(_) | State::Failed { .. }))
    }

    /// Whether a change was under way at some time in `span`.
    pub fn changing_in(&self, span: Span) -> bool {
        self.chapters.iter().any(|chapter| {
            let change = match &chapter.state {
                State::Waiting => return false,
                State::Running { begun, .. } => Span { start: *begun, end: self.now },
                State::Done(figures) => figures.span,
                State::Failed { span, .. } => *span,
            };
            change.start < span.end && change.end >= span.start
        })
    }

    fn figures(&self, span: Span) -> Figures {
        let during = Span { end: span.end.max(span.start + SHORTEST), ..span };
        let before = Span { start: span.start.saturating_sub(self.calm), end: span.start };
        Figures {
            span,
            before_per_second: self.recording.per_second(before),
            during_per_second: self.recording.per_second(during),
            longest_gap: self.recording.longest_gap(during),
            failed: self.recording.failures(during).values().sum(),
        }
    }

    /// The figures of every change that was committed, in the shape of a benchmark's.
    pub fn report(&self) -> Report {
        let mut report = Report::new("demo: schema changes under TPC-C");
        for chapter in &self.chapters {
            let title = chapter.change.title;
            match &chapter.state {
                State::Done(figures) => {
                    let mut add = |metric, value, unit| {
                        report.add(APPROACH, title, metric, value, unit);
                    };
                    add("migration", figures.span.length().as_secs_f64() * 1000.0, "ms");
                    add("throughput before", figures.before_per_second, "1/s");
                    add("throughput during", figures.during_per_second, "1/s");
                    add("throughput during / before", figures.ratio(), "x");
                    let gap_ms = figures.longest_gap.as_secs_f64() * 1000.0;
                    add("longest time at zero during", gap_ms, "ms");
                    add("failed transactions", figures.failed as f64, "");
                }
                State::Failed { why, .. } => report.fail(format!("{title}: {why}")),
                State::Waiting | State::Running { .. } => {}
            }
        }
        report
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::demo::changes::CHANGES;

    /// A second of 100 commits each, a change of 300 ms in the middle of which 100 ms are silent,
    /// and another that runs.
    pub fn story() -> Story {
        let ms = Duration::from_millis;
        let mut story = Story::new("Froglet, TPC-C".to_owned(), &CHANGES, ms(500));
        let commit = |n| Transaction { client: 0, begun: ms(n), ended: ms(n + 4), failure: None };
        let silent = |n: &u64| !(610..=700).contains(n);
        story.add(ms(1000), (0..1000).step_by(10).filter(silent).map(commit).collect());
        story.tell(News::Begun(ms(500)));
        story.tell(News::Ended(Span { start: ms(500), end: ms(800) }, Ok(())));
        story.tell(News::Begun(ms(900)));
        let phase = "capture".to_owned();
        story.progress(Progress {
            phase,
            percent: 70.0,
            scanned: 210_000,
            captured: 1234,
            backlog: 5,
        });
        story
    }

    #[test]
    fn a_change_is_compared_with_the_calm_before_it() {
        let story = story();
        let State::Done(figures) = &story.chapters[0].state else { panic!("it was committed") };
        assert_eq!(figures.before_per_second, 100.0);
        assert!((figures.ratio() - 2.0 / 3.0).abs() < 0.04, "{figures:?}");
        assert_eq!(figures.longest_gap, Duration::from_millis(110));
        assert_eq!(story.running().unwrap().change.title, CHANGES[1].title);
        assert!(!story.is_over());
        assert_eq!(story.report().rows.len(), 6);
    }

    #[test]
    fn what_nobody_needs_any_more_is_forgotten() {
        let mut story = story();
        story.add(Duration::from_secs(70), vec![]);
        let early = Span { start: Duration::ZERO, end: Duration::from_millis(300) };
        assert_eq!(story.recording.per_second(early), 0.0);
        let needed = Span { start: Duration::from_millis(500), end: Duration::from_millis(600) };
        assert_eq!(story.recording.per_second(needed), 100.0, "the second change still runs");
    }

    #[test]
    fn a_change_that_was_refused_is_a_wrong_answer() {
        let mut story = story();
        let span = Span { start: Duration::from_millis(900), end: Duration::from_secs(1) };
        story.tell(News::Ended(span, Err("check is violated".to_owned())));
        assert!(story.report().verdict().is_err());
        assert!(story.changing_in(Span { start: Duration::from_millis(950), end: span.end }));
    }
}
