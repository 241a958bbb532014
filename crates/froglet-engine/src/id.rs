//! Identifiers. Each is a newtype, so that two integers in one signature cannot be swapped.

use std::collections::{HashMap, HashSet};
use std::fmt;

use foldhash::fast::RandomState;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($int:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[derive(serde::Serialize, serde::Deserialize)]
        pub struct $name(pub $int);

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

id!(
    /// A row space: the rows of one table, numbered 0, 1, 2, …  Space 0 is the catalog.
    SpaceId(u32)
);
id!(
    /// A column of a row space. Unique in its space for ever; never reused.
    ColumnId(u32)
);
id!(
    /// An index. Unique in the database for ever; never reused.
    IndexId(u32)
);
id!(
    /// A row's place in its space: block = rid >> 13, slot = rid & 8191.
    RowId(u64)
);
id!(
    /// A transaction, unique since the server started. 0 is nobody.
    TxnId(u64)
);
id!(
    /// A commit timestamp or snapshot of one engine's timeline. A snapshot `s` sees every version
    /// committed at or below `s`.
    Ts(u64)
);
id!(
    /// A position in an engine's endless log, in bytes. Whoever is given the end of what it has logged either waits
    /// until the log is durable up to there, hands the position on, or says why nobody has to wait
    /// ([`Lsn::waits_for_nothing`]).
    #[must_use = "what was logged is not durable yet"]
    Lsn(u64)
);

/// A map that statements look into, keyed by ids or by names that one session gives itself. The
/// standard library's hash protects from keys that strangers choose, and costs several times more.
pub type IdMap<K, V> = HashMap<K, V, RandomState>;

/// As [`IdMap`].
pub type IdSet<K> = HashSet<K, RandomState>;

impl Lsn {
    /// Nobody is told anything that rests on what was logged up to here, because of this.
    pub fn waits_for_nothing(self, _because: &str) {}
}

impl Ts {
    /// Above every commit: the base of a write that nothing committed is newer than.
    pub const LATEST: Ts = Ts((1 << 61) - 1);
}

/// Where a row space's rows are: a bits of its id say so, for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Home {
    /// In memory, the anchor.
    #[default]
    Memory,
    /// On disk.
    Disk,
    /// In a store that other servers have, too.
    Cluster,
}

impl Home {
    /// Every one.
    pub const ALL: [Home; 3] = [Home::Memory, Home::Disk, Home::Cluster];
    const DISK_BIT: u32 = 1 << 31;
    const CLUSTER_BIT: u32 = 1 << 30;

    /// The word after USING.
    pub fn name(self) -> &'static str {
        match self {
            Home::Memory => "memory",
            Home::Disk => "disk",
            Home::Cluster => "cluster",
        }
    }

    /// Of the word after USING.
    pub fn named(name: &str) -> Option<Home> {
        Home::ALL.into_iter().find(|home| home.name() == name)
    }

    /// The longest key of an index there, in bytes.
    pub fn longest_key(self) -> Option<usize> {
        match self {
            Home::Memory => None,
            Home::Disk => Some(32 << 10),
            Home::Cluster => Some(8 << 10),
        }
    }

    /// The row space of this number there.
    pub fn space(self, number: u32) -> SpaceId {
        assert!(number < Home::CLUSTER_BIT, "row spaces have numbers below 2^30");
        match self {
            Home::Memory => SpaceId(number),
            Home::Disk => SpaceId(number | Home::DISK_BIT),
            Home::Cluster => SpaceId(number | Home::CLUSTER_BIT),
        }
    }
}

impl SpaceId {
    /// Where its rows are.
    pub fn home(self) -> Home {
        match (self.0 & Home::DISK_BIT != 0, self.0 & Home::CLUSTER_BIT != 0) {
            (true, _) => Home::Disk,
            (false, true) => Home::Cluster,
            (false, false) => Home::Memory,
        }
    }

    /// Its number, wherever it is.
    pub fn number(self) -> u32 {
        self.0 & !(Home::DISK_BIT | Home::CLUSTER_BIT)
    }
}

/// Rows in one block, for every engine that hands out blocks.
pub const ROWS_PER_BLOCK: usize = 8192;

impl RowId {
    /// The block this row lives in.
    pub fn block(self) -> u32 {
        u32::try_from(self.0 >> 13).expect("a space has at most 2^32 blocks")
    }

    /// The slot in that block, below [`ROWS_PER_BLOCK`].
    pub fn slot(self) -> usize {
        (self.0 & 8191) as usize
    }

    /// The row at `slot` of `block`.
    pub fn of(block: u32, slot: usize) -> RowId {
        debug_assert!(slot < ROWS_PER_BLOCK, "slot {slot} is past the end of a block");
        RowId((u64::from(block) << 13) | slot as u64)
    }
}
