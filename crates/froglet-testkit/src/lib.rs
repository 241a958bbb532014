//! Model-based histories: an engine does what a slow, obviously right model says it does.
//!
//! ```text
//!   proptest ─▶ history: begin, write, roll back, commit, read, collect, checkpoint, crash, …
//!                  │ one operation after the other
//!          ┌───────┴────────┐
//!          ▼                ▼
//!       Model           dyn Engine on a MemEnv        every answer compared: rows, index order,
//!   BTreeMap of        (what is tested)               conflicts, timestamps, what a crash leaves
//!   all versions
//! ```
//!
//! A history runs on one thread, so the model can say exactly what each call must answer; several
//! transactions and read views are open in it at once. Threads that race are the business of the
//! engines' own tests and of their schedules.
//!
//! [`ranges`] is of another kind: it stands in for the distributed store that `froglet_cluster` keeps tables in.
//!
//! The crate knows the contract (`froglet_engine::engine`) and no engine: who tests an engine
//! implements [`Host`] and calls [`run_histories`].
//!
//! **After a crash** the engine must hold the model's state after some prefix of what was
//! appended to the log, in the order of the log, at least as long as what the engine had called
//! durable. Everything else of the engine's state must follow from that prefix.
//!
//! Left out on purpose: columns that migrations fill and indexes that they build (`migrate_block`,
//! `index_block` on live data): the schema crate's tests run those against their writers.

mod check;
mod history;
mod model;
pub mod mutate;
pub mod ranges;
mod recover;
mod replay;
mod tables;
pub mod tokens;
mod writes;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use froglet_engine::env::MemEnv;
use froglet_engine::{Engine, EngineError, Home, Table};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

pub use history::{History, Op};
pub use tables::TABLES;

/// What the histories need from an engine's crate beyond the engine contract.
pub trait Host {
    /// Opens the engine in `/data` of an environment, recovering what is there. It must do
    /// nothing on its own account: no collector thread, no flush before somebody asks.
    fn open(&self, env: &MemEnv) -> Result<Arc<dyn Engine>, EngineError>;

    /// Where the tables are.
    fn homes(&self) -> [Home; TABLES] {
        [Home::Memory; TABLES]
    }

    /// Whether there is one engine with one log: then a full disk stops all of it, and two transactions may have commit
    /// timestamps and no verdict at the same time.
    fn is_one(&self) -> bool {
        true
    }

    /// Makes everything durable that is logged, whether somebody waits for it or not.
    fn settle(&self, _engine: &dyn Engine) {}

    /// Collects the garbage there is now.
    fn collect(&self, engine: &dyn Engine);

    /// The engine that was opened last is down, by a crash or not: whatever else has it lets go.
    fn closed(&self) {}

    /// Called when nothing is open and everything is durable and collected: is there more left
    /// of a table than its rows?
    fn check_rest(&self, table: &dyn Table, rows: usize) -> Result<(), String>;
}

/// How many histories run, and which.
#[derive(Debug, Clone, Copy)]
pub struct Amount {
    /// Histories.
    pub cases: u32,
    /// Operations in the longest of them.
    pub operations: usize,
    /// What they follow from.
    pub seed: u64,
}

impl Amount {
    /// A few seconds; with `FROGLET_TEST_LONG` some minutes of longer histories, each time
    /// others. `FROGLET_TEST_SEED` repeats a run.
    pub fn from_environment() -> Amount {
        let (cases, operations) = if is_long() { (2_000, 300) } else { (150, 150) };
        Amount { cases, operations, seed: seed() }
    }
}

/// Whether tests take the time that `cargo xtask sim` gives them.
pub fn is_long() -> bool {
    std::env::var_os("FROGLET_TEST_LONG").is_some()
}

/// `FROGLET_TEST_SEED`; else always the same in a short run, and always another in a long one.
pub fn seed() -> u64 {
    let given = std::env::var("FROGLET_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    given.unwrap_or_else(|| if is_long() { u64::from(std::process::id()) } else { 1 })
}

/// Runs generated histories; panics with the shortest one found that fails.
pub fn run_histories(host: &dyn Host, amount: Amount) {
    let config = Config {
        cases: amount.cases,
        // Operations are taken out below: more and faster than values shrink one by one.
        max_shrink_iters: 0,
        failure_persistence: None,
        ..Config::default()
    };
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&amount.seed.to_le_bytes());
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let mut runner = TestRunner::new_with_rng(config, random);
    let outcome = runner.run(&history::histories(amount.operations), |history| {
        judged(host, &history).map_err(TestCaseError::fail)
    });
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(reason, history)) => {
            let (history, reason) = shortened(host, history, reason.to_string());
            panic!(
                "{reason}\nin the history\n{history}(FROGLET_TEST_SEED={} finds it again)",
                amount.seed
            )
        }
        Err(TestError::Abort(reason)) => panic!("the histories were given up: {reason}"),
    }
}

/// Runs one history; a panic is a verdict like any other.
fn judged(host: &dyn Host, history: &History) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| run_history(host, history))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(format!("panic: {}", text.unwrap_or_default()))
    })
}

/// Takes operations out, many at once and then one by one, for as long as it still fails.
fn shortened(host: &dyn Host, mut history: History, mut reason: String) -> (History, String) {
    let mut chunk = history.ops.len() / 2;
    while chunk > 0 {
        let mut at = 0;
        while at < history.ops.len() {
            let mut shorter = history.clone();
            shorter.ops.drain(at..(at + chunk).min(shorter.ops.len()));
            match judged(host, &shorter) {
                Ok(()) => at += chunk,
                Err(why) => (history, reason) = (shorter, why),
            }
        }
        chunk /= 2;
    }
    (history, reason)
}

/// Runs one history; what went wrong, and after which operation.
pub fn run_history(host: &dyn Host, history: &History) -> Result<(), String> {
    replay::run(host, history)
}
