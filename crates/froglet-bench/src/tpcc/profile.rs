//! Where a worker's time goes, by kind of operation. Counting is always on; the clock only runs
//! with `--profile`, since reading it twice costs as much as a short operation.

use std::time::Instant;

/// A kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Op {
    Begin,
    Get,
    Scan,
    Insert,
    Update,
    Delete,
    Commit,
}

/// Every kind, in the order of [`Op`].
pub const OPS: [Op; 7] =
    [Op::Begin, Op::Get, Op::Scan, Op::Insert, Op::Update, Op::Delete, Op::Commit];

/// What one worker did.
#[derive(Clone, Debug, Default)]
pub struct Ops {
    /// Whether the clock runs.
    pub timed: bool,
    /// Rows that scans visited.
    pub rows_scanned: u64,
    /// Rows inserted.
    pub rows_inserted: u64,
    /// Rows updated and deleted.
    pub rows_written: u64,
    calls: [u64; OPS.len()],
    ns: [u64; OPS.len()],
}

impl Ops {
    /// An operation starts.
    #[inline]
    pub fn start(&self) -> Option<Instant> {
        self.timed.then(Instant::now)
    }

    /// It has ended.
    #[inline]
    pub fn end(&mut self, op: Op, started: Option<Instant>) {
        self.calls[op as usize] += 1;
        if let Some(started) = started {
            self.ns[op as usize] += started.elapsed().as_nanos() as u64;
        }
    }

    /// How often.
    pub fn calls(&self, op: Op) -> u64 {
        self.calls[op as usize]
    }

    /// For how long, in microseconds.
    pub fn us(&self, op: Op) -> f64 {
        self.ns[op as usize] as f64 / 1000.0
    }

    /// For how long in all operations, in microseconds.
    pub fn all_us(&self) -> f64 {
        OPS.iter().map(|op| self.us(*op)).sum()
    }

    /// Adds what another worker did.
    pub fn merge(&mut self, other: &Ops) {
        self.timed |= other.timed;
        self.rows_scanned += other.rows_scanned;
        self.rows_inserted += other.rows_inserted;
        self.rows_written += other.rows_written;
        for op in OPS {
            self.calls[op as usize] += other.calls[op as usize];
            self.ns[op as usize] += other.ns[op as usize];
        }
    }

    /// Forgets everything but whether the clock runs.
    pub fn reset(&mut self) {
        *self = Ops { timed: self.timed, ..Ops::default() };
    }
}
