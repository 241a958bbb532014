//! Which of three ways a lazily made join is taken (BullFrog, section 4.3.6).
//!
//! ```text
//!   1  all rows of a key at once     any join by equal keys
//!   2  row by row                    each row is made of one of the driver: unique keys lead to the others
//!   3  pair by pair                  inner, of two tables; where some key has many pairs
//! ```
//!
//! The second is the cheapest, and taken where it can be. Of the others the first makes fewer units, and remembers
//! less; but whoever looks up a row waits for all pairs of its key. So the largest of some keys decides: keys of
//! rows here and there in the driver, which meets large ones as often as their rows are looked up.

use std::ops::ControlFlow;
use std::sync::Arc;

use froglet_engine::{Direction, KeyRange, Row, RowId, Snapshot, Value, batch, key};
use froglet_schema::TableVersion;
use serde::{Deserialize, Serialize};

/// With more pairs than this a key is not made at once: they take about as long as a commit.
const MANY_PAIRS: u64 = 1024;
/// Blocks of the driver that are looked at, and rows of each.
const SAMPLED: (u32, usize) = (4, 8);

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum JoinWay {
    /// The first.
    Keys,
    /// The second.
    Rows,
    /// The third.
    Pairs,
    /// None of them: the whole query at once, join or not.
    Whole,
}

/// What `froglet.migration_join` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Auto,
    Keys,
    Pairs,
}

impl Wanted {
    /// Of the setting's value.
    pub(crate) fn of(setting: Option<&str>) -> Wanted {
        match setting {
            Some("key") => Wanted::Keys,
            Some("pair") => Wanted::Pairs,
            _ => Wanted::Auto,
        }
    }
}

/// A way, and why it is taken.
#[derive(Clone, Debug)]
pub(crate) struct Join {
    pub(crate) way: JoinWay,
    pub(crate) why: String,
}

impl Join {
    pub(crate) fn new(way: JoinWay, why: impl Into<String>) -> Join {
        Join { way, why: why.into() }
    }

    /// For a reader of EXPLAIN.
    pub(crate) fn text(&self) -> String {
        let Join { way, why } = self;
        match way {
            JoinWay::Keys => format!("all rows of a key at once, {why}"),
            JoinWay::Rows => {
                "each row by itself, as unique keys lead to the others; of those nothing is tracked"
                    .to_owned()
            }
            JoinWay::Pairs => format!("pair by pair, {why}"),
            JoinWay::Whole => "all rows at once".to_owned(),
        }
    }
}

/// A side of a join by equal columns: a table, and the positions of those.
pub(crate) struct JoinSide {
    pub(crate) table: Arc<TableVersion>,
    pub(crate) key: Vec<usize>,
}

/// Whether a join, the driver first, is made by keys or by pairs.
pub(crate) fn by_pairs(sides: &[JoinSide; 2], snapshot: &Snapshot) -> Join {
    let [driver, _] = sides;
    if sides.iter().any(|side| side.table.def.lazy.is_some()) {
        return Join::new(JoinWay::Keys, "as its tables are themselves being made");
    }
    let (mut keys, mut most) = (0, 0);
    let blocks = driver.table.table.block_count();
    let step = blocks.div_ceil(SAMPLED.0).max(1);
    for block in (0..blocks).step_by(step as usize) {
        let Ok(read) = driver.table.table.read_block(snapshot, block, &driver.key) else { break };
        let step = read.rids.len().div_ceil(SAMPLED.1).max(1);
        for at in (0..read.rids.len()).step_by(step) {
            let types = driver.key.iter().map(|at| driver.table.def.columns[*at].ty);
            let cells = read.batch.columns().iter().zip(types);
            let key: Row = cells.map(|(column, ty)| batch::value_at(column, at, ty)).collect();
            if key.iter().any(Value::is_null) {
                continue;
            }
            let [here, there] = [0, 1].map(|side: usize| sides[side].rows_with(&key, snapshot));
            keys += 1;
            most = most.max(here * there);
            if most > MANY_PAIRS {
                let why = format!("as a key has {most} pairs of rows, or more: over {MANY_PAIRS}");
                return Join::new(JoinWay::Pairs, why);
            }
        }
    }
    let why = format!("as none of {keys} keys has over {MANY_PAIRS} pairs of rows: {most} at most");
    Join::new(JoinWay::Keys, why)
}

impl JoinSide {
    /// Whether an index begins with a column of the key.
    pub(crate) fn has_index(&self) -> bool {
        self.index().is_some()
    }

    /// The index that begins with most columns of the key: its layout position, and the place of each of them
    /// in the key.
    fn index(&self) -> Option<(usize, Vec<usize>)> {
        let layout = self.table.table.layout();
        let indexes = layout.indexes.iter().enumerate().map(|(at, index)| {
            let place = |at: usize| self.key.iter().position(|key| *key == at);
            (at, layout.key_positions(index).map_while(place).collect::<Vec<usize>>())
        });
        let best = indexes.max_by_key(|(_, places)| places.len());
        best.filter(|(_, places)| !places.is_empty())
    }

    /// How many rows have these values, as far as that matters.
    fn rows_with(&self, values: &[Value], snapshot: &Snapshot) -> u64 {
        let Some((index, places)) = self.index() else { return 0 };
        let table = &self.table.table;
        let leading = places.iter().map(|place| &values[*place]);
        let prefix = key::encode(leading, &table.layout().indexes[index].key);
        let (mut rows, range) = (0, KeyRange::prefix(prefix));
        let mut visit = |_: RowId, row: &mut Row| {
            let is_one = row.iter().zip(values).all(|(own, value)| key::equal(own, value));
            rows += u64::from(is_one);
            if rows > MANY_PAIRS { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        table.seek(snapshot, index, &range, Direction::Forward, &self.key, &mut visit);
        rows
    }
}
