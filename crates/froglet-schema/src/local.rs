//! What a transaction keeps of its own uncommitted schema changes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use froglet_engine::{ColumnId, IndexId, SpaceId};
use froglet_txn::Transaction;

use crate::catalog::{CatalogVersion, TableVersion};
use crate::change_log::{Notes, Recorded};
use crate::def::{ObjectId, SequenceDef, TableDef};
use crate::flip::made_by::MadeBy;
use crate::lazy::LazyMigration;
use crate::lazy_columns::LazyColumns;
use crate::lazy_fallback::Fallback;
use crate::migration::Migration;
use crate::plain::PlainDef;
use crate::role::RoleDef;
use crate::step::{Step, StepKind};
use crate::target::Maker;

/// An object as a transaction changed it; `None` in the map is dropped.
#[derive(Clone)]
pub enum Changed {
    /// A table, under its new version.
    Table(Arc<TableVersion>),
    /// A sequence.
    Sequence(Arc<SequenceDef>),
    /// An object without rows.
    Plain(Arc<PlainDef>),
    /// A role.
    Role(Arc<RoleDef>),
}

/// Physical things that outlive a change of mind: to be freed once no snapshot needs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remains {
    /// A column of a space.
    Column(SpaceId, ColumnId),
    /// An index of a space.
    Index(SpaceId, IndexId),
    /// A space.
    Space(SpaceId),
    /// The note of a sequence.
    Sequence(ObjectId),
}

/// The part that a savepoint saves.
#[derive(Clone, Default)]
pub struct Changes {
    /// By object.
    pub objects: HashMap<ObjectId, Option<Changed>>,
    /// What becomes garbage if this commits.
    pub replaced: Vec<Remains>,
    /// Steps by row space, for the carry-over of other writers.
    pub steps: HashMap<SpaceId, Vec<Arc<Step>>>,
    /// What makes a new table of others, by the new table.
    pub(crate) makers: HashMap<ObjectId, Arc<dyn Maker>>,
    /// What makes the rows of a new table lazily, by the new table.
    pub(crate) lazies: HashMap<ObjectId, Arc<dyn LazyMigration>>,
    /// What can make these before the commit as well, if need be.
    pub(crate) fallbacks: HashMap<ObjectId, Fallback>,
    /// Columns that are added lazily, by their table: each with those that came before it.
    pub(crate) lazy_columns: HashMap<ObjectId, Vec<Arc<LazyColumns>>>,
    /// Tables whose rows were replaced: a writer that wrote to the old ones cannot be carried over.
    pub truncated: HashSet<ObjectId>,
    /// Tables whose rows are in another row space now, with those that they were in before, in order.
    pub moved: HashMap<ObjectId, Vec<SpaceId>>,
    /// What is to be remembered of it.
    pub notes: Notes,
}

impl Changes {
    /// Whether a table still has these rows.
    pub fn keep(&self, table: ObjectId, space: SpaceId) -> bool {
        match self.objects.get(&table) {
            None => true,
            Some(changed) => {
                let changed = changed.as_ref().and_then(Changed::table);
                changed.is_some_and(|version| version.def.space == space)
            }
        }
    }

    /// Whether a table's rows are to follow out of a space after the commit.
    pub fn follow_out_of(&self, table: ObjectId, space: SpaceId) -> bool {
        let lazily = self.lazies.get(&table).filter(|lazy| lazy.state().is_move());
        lazily.is_some_and(|lazy| {
            lazy.state().def.source.space == space && self.keep(table, lazy.course().space)
        })
    }

    /// Whether a foreign key is looked after where its parents have been, and are no more: another step does so where
    /// they are.
    pub(crate) fn have_left(&self, step: &Step) -> bool {
        let (StepKind::Child(watch) | StepKind::Parent(watch)) = &step.kind else { return false };
        self.moved.values().any(|spaces| spaces.contains(&watch.parent.space()))
    }

    /// The steps of the rows of a space.
    pub(crate) fn steps_of(&self, space: SpaceId) -> &[Arc<Step>] {
        self.steps.get(&space).map_or(&[], Vec::as_slice)
    }

    /// How many steps there are, of all spaces.
    pub(crate) fn count_steps(&self) -> usize {
        self.steps.values().map(Vec::len).sum()
    }

    /// What has moved a table's rows out of a space into the one where they are, or are to be.
    pub(crate) fn move_out_of(&self, from: SpaceId, table: &TableDef) -> Option<MadeBy> {
        self.moved.get(&table.id)?;
        let copied = self.steps_of(from).iter().find_map(|step| match &step.kind {
            StepKind::Copy(copy) if copy.target_space() == table.space => Some(copy),
            _ => None,
        });
        let lazily = self.lazies.get(&table.id).filter(|lazy| lazy.state().moves(from, table));
        copied.map(|copy| MadeBy::Copy(copy.clone())).or_else(|| {
            let rows = lazily?.clone().by_rows();
            Some(MadeBy::Lazy(rows.expect("a move is of rows")))
        })
    }
}

/// A transaction's own uncommitted schema changes.
#[derive(Default)]
pub struct Local {
    /// What it changed.
    pub changes: Changes,
    /// Its migrations, one for each table and row space.
    pub migrations: Vec<Arc<Migration>>,
    /// What becomes garbage if this does not commit.
    pub created: Vec<Remains>,
    /// The catalog with its changes, by the base's stamp.
    pub view: Option<(u64, Arc<CatalogVersion>)>,
    /// Its commit has made these tables pending.
    pub pending: Vec<ObjectId>,
    /// It holds the catalog's flip.
    pub flipping: bool,
    /// What is remembered of it if it commits.
    pub recorded: Option<Recorded>,
}

impl Local {
    /// The migration of a table's rows.
    pub fn migration(&self, table: ObjectId, space: SpaceId) -> Option<&Arc<Migration>> {
        self.migrations.iter().find(|m| m.table_id == table && m.space() == space)
    }
}

/// The transaction's own changes, if it has any.
pub fn local(txn: &Transaction) -> Option<&Local> {
    txn.extension.as_ref()?.downcast_ref::<Local>()
}

/// The transaction's own changes; made here if it has none.
pub fn local_mut(txn: &mut Transaction) -> &mut Local {
    txn.extension
        .get_or_insert_with(|| Box::<Local>::default())
        .downcast_mut::<Local>()
        .expect("the schema crate is the only one to extend a transaction")
}
