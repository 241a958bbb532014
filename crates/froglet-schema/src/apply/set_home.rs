//! SET ACCESS METHOD: a table's rows go elsewhere, while it is written to.
//!
//! ```text
//!   old space   writers ──▶ rows ─────── feed ──┐                writers under the older schema ──┐
//!                             │ scan            │ capture                                          │ carry-over
//!                             ▼                 ▼                                                  ▼
//!   new space               rows, one of each (`copy.rs`) ─ indexes ─ foreign keys ──── flip ── everybody
//! ```
//!
//! The table stays the object that it is: columns, indexes and constraints keep their numbers. Its indexes are built
//! over the new rows as for any new index, so a key that two rows have for a moment on the way is no error.
//!
//! G1: a foreign key is between rows of two spaces. Where one of its tables moves, both get a new version, so that who
//!     writes under the older one follows: children hold their parents where these are now, and who has deleted a
//!     parent, or changed its key, has asked children where they are no more, and runs again.
//! G2: what other statements of the transaction demanded of the old rows before they moved is demanded of the new ones.
//! G3: lazily, the table is elsewhere at once and its rows follow (`lazy_rows.rs`): the source is the table itself, under
//!     the definition that it had. What the new space demands of rows the old one did already, but for the length of
//!     keys, which is looked at; what else the transaction asked of them keeps it from moving them so
//!     ([`Catalog::move_hindrance`]).

use super::*;
use crate::change::{LazyQuery, Made, RowQuery};
use crate::def::{ConstraintDef, ConstraintKind, ForeignKeyDef};
use crate::eager::copy::Copy;
use crate::lazy::LazyDef;
use crate::lazy_verify::KeysFit;
use arrow_array::RecordBatch;
use froglet_engine::Home;

/// Every row as it is.
pub(crate) struct Whole {
    columns: Vec<ColumnId>,
    places: Vec<usize>,
}

impl Whole {
    fn new(def: &TableDef) -> Whole {
        let columns: Vec<ColumnId> = def.all_columns().map(|column| column.id).collect();
        Whole { places: (0..columns.len()).collect(), columns }
    }

    /// Of a table.
    pub fn of(def: &TableDef) -> LazyQuery {
        LazyQuery::Rows(def.id, Arc::new(Whole::new(def)))
    }
}

impl RowQuery for Whole {
    fn inputs(&self) -> &[ColumnId] {
        &self.columns
    }

    fn eval(&self, batch: &RecordBatch) -> Result<Made, SchemaError> {
        Ok(Made { rows: (0..batch.num_rows()).collect(), columns: batch.columns().to_vec() })
    }

    fn plain(&self, output: usize) -> Option<ColumnId> {
        self.columns.get(output).copied()
    }

    fn copies(&self) -> Option<&[usize]> {
        Some(&self.places)
    }
}

impl Catalog {
    /// Moves a table's rows, unless they are there already. Returns how many there were.
    pub(super) async fn set_home(
        &self,
        txn: &mut Transaction,
        mut scope: Scope<'_>,
        id: ObjectId,
        (home, lazily): (Home, bool),
    ) -> Result<Applied, SchemaError> {
        if scope.table(id)?.def.space.home() == home {
            return Ok(Applied::default());
        }
        self.fill_own_columns(txn, &mut scope, &[id]).await?;
        let base = scope.table(id)?.clone();
        let lazily = lazily && self.has_rows(&base.def);
        if let Some(lazy) = self.lazy_of(&base.def).filter(|lazy| !lazy.is_live()) {
            lazy.state().outgrow();
            return Err(SchemaError::refused(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("table \"{}\" cannot be moved before its rows are there", base.def.name),
            )
            .with_detail("The same transaction moves it, or makes it, lazily.")
            .with_hint("Commit first, or set froglet.migration to eager before."));
        }
        let locked = self.store.lock(txn, id, scope.limits).await?;
        let children = self.children_of(txn, &scope, &base.def).await?;
        let mut def = base.def.clone();
        (def.engine, def.space) = (home.name().to_owned(), home.space(self.next_id()?));
        def.lazy = None;
        def.lazy_columns.clear();
        self.engine().create_space(def.space)?;
        local_mut(txn).created.push(Remains::Space(def.space));
        self.engine().set_dictionaries(def.space, def.dictionaries());

        let rows = match lazily {
            true => self.move_lazily(txn, &mut scope, &base, &def).await?,
            false => self.move_eagerly(txn, &scope, (&base.def, locked), &def).await?,
        };
        let changes = &mut local_mut(txn).changes;
        changes.replaced.push(Remains::Space(base.def.space));
        changes.moved.entry(id).or_default().push(base.def.space);
        let mut work = Vec::new();
        if !lazily {
            work.extend(def.indexes.iter().map(|index| Work::Index(index.spec.id)));
            let left = local(txn).map(|own| own.changes.steps_of(base.def.space).to_vec());
            work.extend(left.iter().flatten().filter_map(|step| match &step.kind {
                StepKind::Verify { check, demand, .. } if demand.is_in(&def) => {
                    Some(Work::Verify(check.clone(), *demand))
                }
                _ => None,
            }));
        }
        work.extend(self.asked_keys(&def, |_| true));
        for parent in asked_parents(&base.def, &def, &work) {
            scope.view = self.view(txn);
            self.refer_to(txn, &scope, parent, id).await?;
        }
        scope.view = self.view(txn);
        let moved = scope.table(id)?.def.clone();
        self.migrate(txn, &scope, (&base, &base), &moved, work).await?;
        for (child, locked, edited) in children {
            scope.view = self.view(txn);
            self.alter(txn, &scope, (&child, &child), locked, edited).await?;
        }
        self.note_told(txn);
        Ok(Applied { object: None, rows })
    }

    /// Before the commit: the rows are copied.
    async fn move_eagerly(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        (base, locked): (&TableDef, crate::store::Locked),
        def: &TableDef,
    ) -> Result<u64, SchemaError> {
        let source = self.source(txn, scope, def.id).await?;
        let bare = Layout { indexes: Vec::new(), ..def.layout() };
        let target = self.engine().open(def.space, Arc::new(bare))?;
        let rows = source.table.clone();
        let copy = Copy::new(txn, source, Arc::new(Whole::new(def)), target).into_moved();
        let copy = Arc::new(copy);
        let kind = StepKind::Copy(copy.clone());
        let step = Step::new(kind, rows, txn.savepoint(), self.engine().clone());
        self.run_step(txn, scope, base, step).await?;
        let table = self.open_table(def)?;
        self.store.update(txn, locked, &ObjectDef::Table(def.clone()), scope.limits).await?;
        let local = local_mut(txn);
        local.set_table(TableVersion::new(def.clone(), Ts(0), table));
        local.set_maker(def.id, copy.clone());
        Ok(copy.rows())
    }

    /// After it: each row when somebody touches it, and the rest in the background. The rows keep their numbers [G3].
    async fn move_lazily(
        &self,
        txn: &mut Transaction,
        scope: &mut Scope<'_>,
        base: &TableVersion,
        def: &TableDef,
    ) -> Result<u64, SchemaError> {
        if let Some(check) = KeysFit::of(&base.def, def.space.home()) {
            self.verify_rows(txn, scope, def.id, Arc::new(check)).await?;
        }
        let (source, was) = self.lazy_source(base, scope.limits)?;
        let query = Whole::of(&was);
        let lazily = LazyDef {
            begun: self.begin_lazy(scope.options),
            recipe: String::new(),
            computed: Vec::new(),
            outputs: was.all_columns().map(|column| column.id).collect(),
            source: Box::new(was),
            lookups: Vec::new(),
            blocks: 0,
            granule_rows: scope.options.granule_rows,
            detection: scope.options.detection,
            is_fused: true,
            colocates: false,
        };
        let def = TableDef { lazy: Some(Box::new(lazily)), ..def.clone() };
        self.set_lazy_table(txn, scope, def, vec![source], query).await?;
        Ok(0)
    }

    /// Why a transaction cannot move a table's rows after its commit, if so. Its own are moved before it, whatever is said.
    pub fn move_hindrance(&self, txn: &Transaction, table: &TableDef) -> Option<&'static str> {
        let own = &local(txn)?.changes;
        let is_of_keys =
            |step: &Arc<Step>| matches!(step.kind, StepKind::Child(_) | StepKind::Parent(_));
        let has_work = !own.steps_of(table.space).iter().all(is_of_keys)
            || own.lazy_columns.contains_key(&table.id);
        has_work
            .then_some("the same transaction has changed its rows, or demands something of them")
    }

    /// Whether everybody has a table's rows where a definition has them: nobody else has those of the transaction's own.
    pub fn has_rows(&self, def: &TableDef) -> bool {
        self.latest().tables.get(&def.id).is_some_and(|known| known.def.space == def.space)
    }

    /// Tables with foreign keys to one, that are to follow it [G1]. They are held, so that nobody changes them meanwhile.
    async fn children_of(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        parent: &TableDef,
    ) -> Result<Vec<(Arc<TableVersion>, crate::store::Locked, Edited)>, SchemaError> {
        let mut found = Vec::new();
        let ids: BTreeSet<ObjectId> = parent.referenced_by.iter().copied().collect();
        for id in ids.into_iter().filter(|id| *id != parent.id) {
            let Some(child) = scope.view.tables.get(&id).cloned() else { continue };
            let locked = self.store.lock(txn, id, scope.limits).await?;
            let mut edited = Edited::of(&child.def);
            edited.work.extend(self.asked_keys(&child.def, |key| key.parent == parent.id));
            if !edited.work.is_empty() {
                found.push((child, locked, edited));
            }
        }
        Ok(found)
    }

    /// How some foreign keys of a table are looked after from now on [G1]: of those that everybody obeys only writers
    /// under the older schema are asked.
    fn asked_keys(&self, child: &TableDef, is_it: impl Fn(&ForeignKeyDef) -> bool) -> Vec<Work> {
        let latest = self.latest();
        let known = latest.tables.get(&child.id).map(|known| &known.def);
        let holds = |constraint: &ConstraintDef| {
            let mut known = known.iter().flat_map(|known| &known.constraints);
            constraint.not_valid || known.any(|k| k.id == constraint.id && !k.not_valid)
        };
        let keys = child.constraints.iter().filter_map(|constraint| match &constraint.kind {
            ConstraintKind::ForeignKey(key) if is_it(key) => Some(match holds(constraint) {
                true => Work::KeptForeignKey(constraint.name.clone()),
                false => Work::ForeignKey(constraint.name.clone()),
            }),
            _ => None,
        });
        keys.collect()
    }
}
