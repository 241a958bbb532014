//! What goes wrong between a gateway and those it asks.
//!
//! ```text
//!   gateway ──────▶ request ──────▶ done ──────▶ answer ──────▶ gateway
//!            lost: not done              lost: done, and nobody knows
//!            late: done when nobody waits for it any more
//! ```
//! By chance, from a seed: each request takes its numbers from the seed in the order in which requests are made. Or as
//! the test says, for the next request of a kind.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use froglet_cluster::wire::kv::RegionError;

/// What happens to one request.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// Nothing: it passes, whatever chance would have made of it.
    None,
    /// It is not done.
    LoseRequest,
    /// It is done, but not answered.
    LoseAnswer,
    /// It is not answered, and done only after this.
    Late(Duration),
    /// It takes so much longer on its way.
    Delay(Duration),
    /// A store refuses it.
    Refuse(Box<RegionError>),
}

/// What happens by chance; each a share of all requests, of stores and of the placement driver.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// What it follows from.
    pub seed: u64,
    /// Requests that are lost.
    pub lose_request: f64,
    /// Answers that are lost.
    pub lose_answer: f64,
    /// Requests that come late.
    pub late: f64,
    /// How late those come at most.
    pub late_by: Duration,
}

/// SplitMix64 (Steele et al., OOPSLA 2014): a test that is replayed next year finds the same numbers.
#[derive(Debug, Default)]
struct Chance(u64);

impl Chance {
    fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to 1.
    fn share(&mut self) -> f64 {
        (self.number() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// The faults of one gateway.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    faults: Faults,
    chance: Chance,
    /// By method.
    scripted: BTreeMap<&'static str, VecDeque<Fault>>,
}

impl Trouble {
    pub fn set(&mut self, faults: Faults) {
        self.chance = Chance(faults.seed);
        self.faults = faults;
    }

    pub fn script(&mut self, method: &'static str, fault: Fault) {
        self.scripted.entry(method).or_default().push_back(fault);
    }

    /// What becomes of the next request.
    pub fn next(&mut self, method: &str) -> Fault {
        if let Some(fault) = self.scripted.get_mut(method).and_then(VecDeque::pop_front) {
            return fault;
        }
        // Each request takes as many numbers, so that one fault more does not change all that follows.
        let (share, lateness) = (self.chance.share(), self.chance.share());
        let faults = &self.faults;
        let answers = faults.lose_request + faults.lose_answer;
        if share < faults.lose_request {
            Fault::LoseRequest
        } else if share < answers {
            Fault::LoseAnswer
        } else if share < answers + faults.late {
            Fault::Late(faults.late_by.mul_f64(lateness))
        } else {
            Fault::None
        }
    }
}
