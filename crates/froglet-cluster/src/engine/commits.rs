//! Commits under way: who waits for which, and how it ended.

use std::collections::BTreeMap;

use froglet_engine::{EngineError, Lsn};
use parking_lot::Mutex;

type Done = Box<dyn FnOnce(Result<(), EngineError>) + Send>;

enum Commit {
    UnderWay(Vec<Done>),
    /// Nobody was told yet.
    Failed(EngineError),
}

#[derive(Default)]
struct State {
    last: u64,
    /// Those that have not succeeded.
    open: BTreeMap<u64, Commit>,
}

/// See the module. Positions are numbers of commits.
#[derive(Default)]
pub(super) struct Commits(Mutex<State>);

impl Commits {
    /// One begins.
    pub fn begin(&self) -> Lsn {
        let mut state = self.0.lock();
        state.last += 1;
        let number = state.last;
        state.open.insert(number, Commit::UnderWay(Vec::new()));
        Lsn(number)
    }

    /// It has ended.
    pub fn end(&self, commit: Lsn, outcome: Result<(), EngineError>) {
        let mut state = self.0.lock();
        let Some(Commit::UnderWay(waiting)) = state.open.remove(&commit.0) else {
            unreachable!("a commit ends once");
        };
        if let (Err(error), true) = (&outcome, waiting.is_empty()) {
            state.open.insert(commit.0, Commit::Failed(error.clone()));
        }
        drop(state);
        for done in waiting {
            done(outcome.clone());
        }
    }

    pub fn appended(&self) -> Lsn {
        Lsn(self.0.lock().last)
    }

    /// All up to there have succeeded.
    pub fn durable(&self) -> Lsn {
        let state = self.0.lock();
        Lsn(state.open.keys().next().map_or(state.last, |first| first - 1))
    }

    /// Calls back when a commit has ended.
    pub fn when_durable(&self, commit: Lsn, done: Done) {
        let mut state = self.0.lock();
        let outcome = match state.open.remove(&commit.0) {
            None => Ok(()),
            Some(Commit::Failed(error)) => Err(error),
            Some(Commit::UnderWay(mut waiting)) => {
                waiting.push(done);
                state.open.insert(commit.0, Commit::UnderWay(waiting));
                return;
            }
        };
        drop(state);
        done(outcome);
    }
}
