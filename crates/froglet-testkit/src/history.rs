//! What happens in a history. Operations name transactions, views and rows by numbers that are
//! taken modulo how many there are, so that every part of a history is a history too: that is what
//! lets proptest shrink it.

use std::fmt;

use proptest::prelude::*;

use crate::tables::COLUMNS_MAX;

/// A generated history.
#[derive(Debug, Clone)]
pub struct History {
    /// What decides which unsynced bytes a crash leaves.
    pub env_seed: u64,
    /// Whether the first table begins a few rows before the end of its first block.
    pub straddles: bool,
    /// What happens.
    pub ops: Vec<Op>,
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  env_seed {}, straddles {}", self.env_seed, self.straddles)?;
        self.ops.iter().enumerate().try_for_each(|(n, op)| writeln!(f, "  {n:3} {op:?}"))
    }
}

/// Codes of a row's values.
pub type Codes = [u8; COLUMNS_MAX];

/// A range of an index.
#[derive(Debug, Clone, Copy)]
pub enum RangeOp {
    /// Everything.
    All,
    /// What starts with the first parts of a key.
    Prefix(u8, Codes),
    /// From and to; the numbers say: unbounded, included or excluded.
    Between(u8, Codes, u8, Codes),
}

/// What kind of read view is opened.
#[derive(Debug, Clone, Copy)]
pub enum ViewOp {
    /// At the present, nobody's.
    Snapshot,
    /// At the present, and what a transaction writes.
    Fresh,
    /// A transaction's own view, kept beyond its end.
    Kept,
}

/// How the engine goes down.
#[derive(Debug, Clone, Copy)]
pub enum CrashOp {
    /// In order.
    Stop,
    /// Power off.
    Now,
    /// Power off at the n-th change on disk while the log is flushed.
    InFlush(u8),
    /// Power off at the n-th change on disk of a checkpoint.
    InCheckpoint(u8),
    /// Power off, and again at the n-th change on disk of the recovery.
    Twice(u8),
}

/// One operation of a history.
#[allow(missing_docs)]
#[derive(Debug, Clone, Copy)]
pub enum Op {
    Begin,
    Refresh {
        txn: u8,
    },
    Insert {
        txn: u8,
        table: u8,
        wide: bool,
        rows: u8,
        codes: Codes,
    },
    Update {
        txn: u8,
        table: u8,
        wide: bool,
        row: u8,
        columns: u8,
        codes: Codes,
    },
    Delete {
        txn: u8,
        table: u8,
        row: u8,
    },
    Lock {
        txn: u8,
        table: u8,
        row: u8,
    },
    Mark {
        txn: u8,
    },
    RollBack {
        txn: u8,
        mark: u8,
    },
    Commit {
        txn: u8,
        retreats: bool,
    },
    /// Two commits: the second's timestamp is later, its verdict and its record are earlier.
    CommitCrossed {
        txn: u8,
        other: u8,
    },
    Abort {
        txn: u8,
        drops: bool,
    },
    /// A transaction keeps the tables whose bits are set.
    Keep {
        txn: u8,
        tables: u8,
    },
    Release {
        keeper: u8,
    },
    Note {
        key: u8,
        value: u8,
    },
    OpenView {
        kind: ViewOp,
        txn: u8,
    },
    CloseView {
        view: u8,
    },
    ReadRow {
        view: u8,
        table: u8,
        wide: bool,
        row: u8,
        columns: u8,
    },
    Scan {
        view: u8,
        table: u8,
        wide: bool,
        columns: u8,
    },
    Seek {
        view: u8,
        table: u8,
        wide: bool,
        index: u8,
        range: RangeOp,
        backward: bool,
        limit: Option<u8>,
    },
    Changer {
        txn: u8,
        table: u8,
        row: u8,
        columns: u8,
    },
    OpenFeed {
        table: u8,
    },
    CloseFeed {
        feed: u8,
    },
    Collect,
    Sync,
    Checkpoint,
    /// A checkpoint whose n-th write finds the disk full.
    FullCheckpoint {
        nth: u8,
    },
    /// The log finds the disk full; afterwards the engine goes down.
    FullLog {
        crash: CrashOp,
    },
    Crash {
        kind: CrashOp,
    },
}

fn codes() -> impl Strategy<Value = Codes> {
    any::<Codes>()
}

fn ranges() -> impl Strategy<Value = RangeOp> {
    prop_oneof![
        2 => Just(RangeOp::All),
        3 => (1u8..4, codes()).prop_map(|(parts, codes)| RangeOp::Prefix(parts, codes)),
        3 => (0u8..12, codes(), 0u8..12, codes())
            .prop_map(|(lower, from, upper, to)| RangeOp::Between(lower, from, upper, to)),
    ]
}

fn views() -> impl Strategy<Value = ViewOp> {
    prop_oneof![
        3 => Just(ViewOp::Snapshot),
        2 => Just(ViewOp::Fresh),
        2 => Just(ViewOp::Kept),
    ]
}

fn crashes() -> impl Strategy<Value = CrashOp> {
    prop_oneof![
        1 => Just(CrashOp::Stop),
        2 => Just(CrashOp::Now),
        2 => (1u8..6).prop_map(CrashOp::InFlush),
        2 => (1u8..30).prop_map(CrashOp::InCheckpoint),
        1 => (1u8..8).prop_map(CrashOp::Twice),
    ]
}

fn writes() -> impl Strategy<Value = Op> {
    let (n, b) = (any::<u8>, any::<bool>);
    prop_oneof![
        6 => (n(), n(), b(), 1u8..4, codes()).prop_map(|(txn, table, wide, rows, codes)| {
            Op::Insert { txn, table, wide, rows, codes }
        }),
        8 => (n(), n(), b(), n(), 1u8..32, codes()).prop_map(
            |(txn, table, wide, row, columns, codes)| {
                Op::Update { txn, table, wide, row, columns, codes }
            }
        ),
        4 => (n(), n(), n()).prop_map(|(txn, table, row)| Op::Delete { txn, table, row }),
        1 => (n(), n(), n()).prop_map(|(txn, table, row)| Op::Lock { txn, table, row }),
    ]
}

fn transactions() -> impl Strategy<Value = Op> {
    let (n, b) = (any::<u8>, any::<bool>);
    prop_oneof![
        5 => Just(Op::Begin),
        2 => n().prop_map(|txn| Op::Refresh { txn }),
        3 => n().prop_map(|txn| Op::Mark { txn }),
        3 => (n(), n()).prop_map(|(txn, mark)| Op::RollBack { txn, mark }),
        6 => (n(), b()).prop_map(|(txn, retreats)| Op::Commit { txn, retreats }),
        1 => (n(), n()).prop_map(|(txn, other)| Op::CommitCrossed { txn, other }),
        2 => (n(), b()).prop_map(|(txn, drops)| Op::Abort { txn, drops }),
        2 => (n(), n()).prop_map(|(txn, tables)| Op::Keep { txn, tables }),
        1 => n().prop_map(|keeper| Op::Release { keeper }),
    ]
}

fn reads() -> impl Strategy<Value = Op> {
    let (n, b) = (any::<u8>, any::<bool>);
    prop_oneof![
        3 => (views(), n()).prop_map(|(kind, txn)| Op::OpenView { kind, txn }),
        1 => n().prop_map(|view| Op::CloseView { view }),
        4 => (n(), n(), b(), n(), n()).prop_map(|(view, table, wide, row, columns)| {
            Op::ReadRow { view, table, wide, row, columns }
        }),
        3 => (n(), n(), b(), n())
            .prop_map(|(view, table, wide, columns)| Op::Scan { view, table, wide, columns }),
        8 => ((n(), n(), b(), n()), ranges(), b(), proptest::option::of(0u8..5)).prop_map(
            |((view, table, wide, index), range, backward, limit)| {
                Op::Seek { view, table, wide, index, range, backward, limit }
            }
        ),
        2 => (n(), n(), n(), n())
            .prop_map(|(txn, table, row, columns)| Op::Changer { txn, table, row, columns }),
    ]
}

fn upkeep() -> impl Strategy<Value = Op> {
    let n = any::<u8>;
    prop_oneof![
        8 => Just(Op::Collect),
        4 => Just(Op::Sync),
        2 => (n(), n()).prop_map(|(key, value)| Op::Note { key, value }),
        2 => Just(Op::Checkpoint),
        1 => (1u8..4).prop_map(|nth| Op::FullCheckpoint { nth }),
        1 => n().prop_map(|table| Op::OpenFeed { table }),
        1 => n().prop_map(|feed| Op::CloseFeed { feed }),
        2 => crashes().prop_map(|kind| Op::Crash { kind }),
        1 => crashes().prop_map(|crash| Op::FullLog { crash }),
    ]
}

/// Histories of up to this many operations.
pub(crate) fn histories(operations: usize) -> impl Strategy<Value = History> {
    let op = prop_oneof![8 => writes(), 5 => transactions(), 6 => reads(), 2 => upkeep()];
    let ops = proptest::collection::vec(op, operations / 4..operations);
    (any::<u64>(), prop::bool::weighted(0.04), ops).prop_map(|(env_seed, straddles, ops)| History {
        env_seed,
        straddles,
        ops,
    })
}
