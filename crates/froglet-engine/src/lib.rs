//! What every engine promises.
//!
//! ```text
//!   froglet-sql ── froglet-schema ── froglet-txn          know only what is in this crate
//!        │               │               │
//!        ▼               ▼               ▼
//!   ┌──────────────── froglet-engine ────────────────┐
//!   │ Engine  ─ open ─▶ Table   (a row space seen    │
//!   │   │                        under one Layout)   │
//!   │   └──── begin ─▶ EngineTxn ─ snapshot ─▶ Snapshot
//!   └────────────────────────────────────────────────┘
//!        ▲                               ▲
//!   froglet-memory                  froglet-disk, see `crossing`
//! ```
//!
//! A type enters here when two crates need it, and only then. Dispatch through these traits is
//! per batch or per statement; what happens per row happens inside an engine.

pub mod batch;
pub mod crash_point;
pub mod crossing;
pub mod engine;
pub mod env;
pub mod error;
pub mod figures;
pub mod id;
pub mod key;
pub mod layout;
pub mod locks;
pub mod moving;
pub mod numeric;
pub mod online;
pub mod range;
pub mod reads;
pub mod snapshot;
pub mod value;

pub use crash_point::CrashPoint;
pub use engine::{
    BlockRows, ColumnFill, ColumnStats, Elsewhere, Engine, EngineTxn, Feed, IndexBuild, Install,
    Installs, Loaded, Loading, LogRoom, MigrateError, RowWrite, Savepoint, Table, UnknownChange,
    Vacuum, WriteStop,
};
pub use error::{EngineError, ReadFailed, SqlState};
pub use figures::{Asked, BlockCounts, EngineFigures, RegionFigures, TableRegions};
pub use id::{ColumnId, Home, IdMap, IdSet, IndexId, Lsn, RowId, SpaceId, Ts, TxnId};
pub use layout::{ColumnSpec, Dictionary, IndexSpec, KeyPart, Layout, NullKeys, RowKey, Within};
pub use moving::{Ask, Found, Moved, Moving, Which};
pub use online::{
    BuildOf, Built, OnlineBuild, OnlineCheck, OnlineForeignKey, OnlineIndexes, Referenced, RowCheck,
};
pub use range::{Direction, KeyRange};
pub use reads::{Reads, SpaceReads};
pub use snapshot::{HeldBack, Holder, Snapshot};
pub use value::{ColumnType, Interval, Row, Value};
