//! Merging sorted runs with a tournament tree (Knuth, TAOCP 3, section 5.4.1).
//!
//! ```text
//!               winner
//!                 │
//!            loser of the final          an inner place holds who lost there,
//!           ╱                 ╲          so the next winner is found by one
//!        loser               loser       comparison for each level
//!       ╱     ╲             ╱     ╲
//!    run 0   run 1       run 2   run 3
//! ```

use super::run::{HEAD_BYTES, Run};

/// Runs that are read together, in the order of their entries.
pub(super) struct Merge {
    runs: Vec<Run>,
    /// The head of each run's entry; of a run at its end, none.
    heads: Vec<Option<u128>>,
    /// Place 0: the winner. Places 1..: the losers.
    places: Vec<usize>,
}

impl Merge {
    pub fn new(mut runs: Vec<Run>) -> Merge {
        let heads = runs.iter_mut().map(|run| run.advance().then(|| run.head())).collect();
        let mut merge = Merge { places: vec![0; runs.len()], runs, heads };
        if !merge.runs.is_empty() {
            merge.places[0] = merge.play(1);
        }
        merge
    }

    /// Plays the games below a place; returns their winner.
    fn play(&mut self, place: usize) -> usize {
        let runs = self.runs.len();
        if place >= runs {
            return place - runs;
        }
        let (left, right) = (self.play(2 * place), self.play(2 * place + 1));
        let (winner, loser) =
            if self.is_before(left, right) { (left, right) } else { (right, left) };
        self.places[place] = loser;
        winner
    }

    /// Whether the entry of run `a` comes before that of run `b`.
    #[inline]
    fn is_before(&self, a: usize, b: usize) -> bool {
        match (self.heads[a], self.heads[b]) {
            (Some(x), Some(y)) if x != y => x < y,
            (Some(_), Some(_)) => {
                let (a, b) = (&self.runs[a], &self.runs[b]);
                if a.key.len().max(b.key.len()) <= HEAD_BYTES {
                    return (a.key.len(), a.rid) < (b.key.len(), b.rid);
                }
                (&a.key, a.rid) < (&b.key, b.rid)
            }
            (here, _) => here.is_some(),
        }
    }

    /// The run whose entry is the next one, if there is one.
    pub fn peek(&self) -> Option<&Run> {
        let winner = *self.places.first()?;
        self.heads[winner].map(|_| &self.runs[winner])
    }

    /// Steps over the entry that `peek` shows.
    pub fn advance(&mut self) {
        let mut winner = self.places[0];
        let run = &mut self.runs[winner];
        self.heads[winner] = run.advance().then(|| run.head());
        let mut place = (winner + self.runs.len()) / 2;
        while place > 0 {
            if self.is_before(self.places[place], winner) {
                std::mem::swap(&mut self.places[place], &mut winner);
            }
            place /= 2;
        }
        self.places[0] = winner;
    }
}
