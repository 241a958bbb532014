//! Foreign keys, from both sides.
//!
//! ```text
//!   child inserted                         parent deleted, or its key changed
//!   ──────────────                         ──────────────────────────────────
//!   find the parent (now)                  write it                (done by the statement)
//!   hold it shared                         somebody holds it shared? wait
//!   somebody is deleting it? wait,         children (now)? an unfinished change of one: wait
//!     find again                             NO ACTION, RESTRICT  23503
//!   still there                              CASCADE, SET …       write them, and so on
//! ```
//!
//! F1: the child enters its shared lock before it looks for a deleter; the parent's writer links
//!     its write before it looks for shared locks. Both are sequentially consistent, so of two
//!     racing transactions one waits for the other (froglet-txn, R1).
//! F2: a look is at one registered timestamp, taken when it begins. So a row that is moved meanwhile, or a key
//!     that one row passes on to another, is met once, and what the look has not met was not there at that time.
//!
//! Checks run after the statement has written all its rows, so that rows of one statement may
//! refer to each other, and see what is committed by then and the transaction's own writes.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use froglet_engine::{ColumnId, Home, KeyPart, Row, RowId, Snapshot, SqlState, Value, key};
use froglet_schema::def::ForeignKeyDef;
use froglet_schema::{
    CatalogVersion, ConstraintDef, ConstraintKind, ForeignKeyAction, ObjectId, SqlType, TableDef,
    TableVersion,
};
use froglet_txn::{Isolation, Strength};

use crate::apply::{Kind, OnBusy, Stop, Targets, Writer};
use crate::error::SqlError;
use crate::find::Lookup;
use crate::key::{Fit, fit};
use crate::types::{oids, plain, type_name};
use crate::violation;

/// Cascades within cascades.
const MAX_DEPTH: usize = 64;

/// One foreign key, bound to both tables.
pub(crate) struct Key {
    /// The constraint.
    pub(crate) id: ObjectId,
    pub(crate) name: String,
    pub(crate) def: ForeignKeyDef,
    pub(crate) child: Arc<TableVersion>,
    pub(crate) parent: Arc<TableVersion>,
    pub(super) child_lookup: Lookup,
    pub(super) parent_lookup: Lookup,
}

impl Key {
    fn bind(
        constraint: &ConstraintDef,
        def: &ForeignKeyDef,
        child: &Arc<TableVersion>,
        catalog: &CatalogVersion,
    ) -> Option<Key> {
        let parent = catalog.tables.get(&def.parent)?.clone();
        let child_lookup = Lookup::new(child, positions(&child.def, &def.columns)?);
        let parent_lookup = Lookup::new(&parent, positions(&parent.def, &def.parent_columns)?);
        Some(Key {
            id: constraint.id,
            name: constraint.name.clone(),
            def: def.clone(),
            child: child.clone(),
            parent,
            child_lookup,
            parent_lookup,
        })
    }

    /// The foreign keys of a table; XX001 if one is to a table that cannot be read.
    pub(crate) fn of_child(
        child: &Arc<TableVersion>,
        catalog: &CatalogVersion,
    ) -> Result<Vec<Key>, SqlError> {
        for (_, key) in child.def.foreign_keys() {
            catalog.readable(key.parent)?;
        }
        let bound = |constraint: &ConstraintDef| match &constraint.kind {
            ConstraintKind::ForeignKey(def) => Key::bind(constraint, def, child, catalog),
            _ => None,
        };
        Ok(child.def.constraints.iter().filter_map(bound).collect())
    }

    /// The foreign keys that point to a table; XX001 if one is that of a table that cannot be read.
    pub(crate) fn of_parent(
        parent: &TableDef,
        catalog: &CatalogVersion,
    ) -> Result<Vec<Key>, SqlError> {
        let mut children = parent.referenced_by.clone();
        children.sort_unstable();
        children.dedup();
        let mut keys = Vec::new();
        for id in children {
            catalog.readable(id)?;
            let Some(child) = catalog.tables.get(&id) else { continue };
            let of_child = Key::of_child(child, catalog)?;
            keys.extend(of_child.into_iter().filter(|key| key.def.parent == parent.id));
        }
        Ok(keys)
    }

    /// Whether a table's rows refer to others of it.
    pub(crate) fn is_to_itself(&self) -> bool {
        self.child.def.id == self.parent.def.id
    }

    /// Whether other servers write its tables, too.
    pub(super) fn is_shared(&self) -> bool {
        self.parent.def.space.home() == Home::Cluster
    }

    /// Values of the parent's columns as they are in its index at a layout position.
    pub(super) fn encode(&self, index: usize, values: &[Value]) -> Vec<u8> {
        let parts = &self.parent.table.layout().indexes[index].key;
        let of_part = |part: &KeyPart| {
            let at = self.def.parent_columns.iter().position(|column| *column == part.column);
            &values[at.expect("a foreign key is to the columns of its index")]
        };
        key::encode(parts.iter().map(of_part), parts)
    }

    /// 23503 of a child's values.
    pub(super) fn no_parent(&self, values: &[Value]) -> SqlError {
        violation::no_parent(&self.child.def, &self.name, &self.def, &self.parent.def, values)
    }

    /// Layout positions of the child's columns.
    pub(crate) fn child_columns(&self) -> &[usize] {
        &self.child_lookup.columns
    }

    /// Layout positions of the parent's columns.
    pub(crate) fn parent_columns(&self) -> &[usize] {
        &self.parent_lookup.columns
    }

    /// The child's values as the parent stores them; `None` if the parent cannot have them.
    pub(super) fn as_parent(&self, values: &[Value]) -> Option<Vec<Value>> {
        self.convert(values, &self.child, self.child_columns(), &self.parent, self.parent_columns())
    }

    /// The parent's values as the child stores them.
    fn as_child(&self, values: &[Value]) -> Option<Vec<Value>> {
        self.convert(values, &self.parent, self.parent_columns(), &self.child, self.child_columns())
    }

    /// 22003 of a parent's values that the child's columns cannot have.
    fn out_of_range(&self, values: &[Value]) -> SqlError {
        let sides = self.parent_columns().iter().zip(self.child_columns());
        let misfit = values.iter().zip(sides).find_map(|(value, (parent, child))| {
            let from = self.parent.def.columns[*parent].ty;
            let to = &self.child.def.columns[*child];
            let fits = matches!(fit(value.clone(), from, to.ty), Fit::Exact(_));
            (!fits).then_some(to.sql_type)
        });
        let message = match misfit {
            Some(SqlType { oid: oids::NUMERIC, .. }) => "numeric field overflow".to_owned(),
            Some(ty) => format!("{} out of range", type_name(plain(ty.oid))),
            None => "the new key is out of range".to_owned(),
        };
        SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message)
    }

    fn convert(
        &self,
        values: &[Value],
        from: &TableVersion,
        from_columns: &[usize],
        to: &TableVersion,
        to_columns: &[usize],
    ) -> Option<Vec<Value>> {
        let columns = from_columns.iter().zip(to_columns);
        values
            .iter()
            .zip(columns)
            .map(|(value, (a, b))| {
                let (from, to) = (from.def.columns[*a].ty, to.def.columns[*b].ty);
                match fit(value.clone(), from, to) {
                    Fit::Exact(value) => Some(value),
                    Fit::Below | Fit::Above | Fit::Unusable => None,
                }
            })
            .collect()
    }
}

fn positions(table: &TableDef, columns: &[ColumnId]) -> Option<Vec<usize>> {
    columns.iter().map(|id| table.columns.iter().position(|c| c.id == *id)).collect()
}

/// A parent row as it was, and as it is now if it still is.
pub(crate) struct ChangedParent {
    pub(crate) rid: RowId,
    /// In layout order.
    pub(crate) old: Row,
    /// In layout order; `None` if it was deleted.
    pub(crate) new: Option<Row>,
}

type Boxed<'f> = Pin<Box<dyn Future<Output = Result<(), Stop>> + Send + 'f>>;

impl Writer<'_> {
    /// A view of what is committed now, and of this transaction's writes: for one look, however many rows it takes.
    pub(crate) fn now(&self) -> Arc<Snapshot> {
        self.txn.manager().engine().fresh(self.txn.id())
    }

    /// Whether a row has these values in the key's columns.
    pub(crate) fn has_child(&self, key: &Key, values: &[Value]) -> Result<bool, Stop> {
        let view = self.now();
        Ok(!key.child_lookup.rows(&key.child, &view, values, 1, self.limits)?.is_empty())
    }

    /// Nobody refers to these values, which no parent has any more, or one has them again.
    pub(crate) async fn no_children_of(&mut self, key: &Key, old: &[Value]) -> Result<(), Stop> {
        let Some(wanted) = key.as_child(old) else { return Ok(()) };
        self.no_children(key, old, &wanted, ForeignKeyAction::NoAction).await
    }

    /// Parent rows were deleted or changed: their children's say.
    pub(crate) fn parents_changed<'f>(
        &'f mut self,
        table: &'f Arc<TableVersion>,
        keys: &'f [Key],
        rows: &'f [ChangedParent],
        depth: usize,
    ) -> Boxed<'f> {
        Box::pin(async move {
            if depth > MAX_DEPTH {
                return Err(SqlError::new(
                    SqlState::STATEMENT_TOO_COMPLEX,
                    format!("foreign key cascades are nested more than {MAX_DEPTH} deep"),
                )
                .into());
            }
            for key in keys {
                for row in rows {
                    self.parent_changed(table, key, row, depth).await?;
                }
            }
            Ok(())
        })
    }

    async fn parent_changed(
        &mut self,
        table: &Arc<TableVersion>,
        key: &Key,
        row: &ChangedParent,
        depth: usize,
    ) -> Result<(), Stop> {
        let pick = |row: &Row| -> Vec<Value> {
            key.parent_columns().iter().map(|c| row[*c].clone()).collect()
        };
        let old = pick(&row.old);
        let new = row.new.as_ref().map(pick);
        if old.iter().any(Value::is_null) || new.as_ref() == Some(&old) {
            return Ok(());
        }
        let place = (table.def.space, row.rid);
        let manager = self.txn.manager().clone();
        let me = self.txn.id();
        while let Some(holder) = manager.row_locks().other_holder(place, me, Strength::KeyShare) {
            self.wait_for(holder).await?;
        }
        let Some(wanted) = key.as_child(&old) else { return Ok(()) };
        let action = if new.is_some() { key.def.on_update } else { key.def.on_delete };
        if self.deferred.parent(key, action, &old) {
            return Ok(());
        }
        match action {
            ForeignKeyAction::NoAction | ForeignKeyAction::Restrict => {
                self.no_children(key, &old, &wanted, action).await
            }
            ForeignKeyAction::Cascade
            | ForeignKeyAction::SetNull
            | ForeignKeyAction::SetDefault => {
                self.cascade(key, action, &wanted, new.as_deref(), depth).await
            }
        }
    }

    async fn no_children(
        &mut self,
        key: &Key,
        old: &[Value],
        wanted: &[Value],
        action: ForeignKeyAction,
    ) -> Result<(), Stop> {
        loop {
            let view = self.now();
            let children = key.child_lookup.rows(&key.child, &view, wanted, 1, self.limits)?;
            let Some(&child) = children.first() else { return Ok(()) };
            if key.is_shared() {
                if !self.lock_as_seen(&key.child, &view, child).await? {
                    continue;
                }
            } else {
                let me = self.txn.id();
                if let Some(holder) = key.child.table.changer(child, key.child_columns(), me) {
                    self.wait_for(holder).await?;
                    continue;
                }
            }
            // NO ACTION is content when another row has the key by now.
            if action == ForeignKeyAction::NoAction
                && !key.parent_lookup.rows(&key.parent, &view, old, 1, self.limits)?.is_empty()
            {
                return Ok(());
            }
            let error = violation::still_referenced(
                &key.parent.def,
                &key.def,
                &key.child.def,
                &key.name,
                old,
            );
            return Err(error.into());
        }
    }

    async fn cascade(
        &mut self,
        key: &Key,
        action: ForeignKeyAction,
        wanted: &[Value],
        new: Option<&[Value]>,
        depth: usize,
    ) -> Result<(), Stop> {
        let child = &key.child;
        let base = self.fresh_view().await?;
        let view = match self.isolation() {
            Isolation::ReadCommitted => base.clone(),
            Isolation::RepeatableRead | Isolation::Serializable => self.now(),
        };
        let rids = key.child_lookup.rows(child, &view, wanted, usize::MAX, self.limits)?;
        if rids.is_empty() {
            return Ok(());
        }
        let all: Vec<usize> = (0..child.def.columns.len()).collect();
        let mut targets = Targets::new();
        for rid in rids {
            let mut old = Row::new();
            if child.table.read_row(&view, rid, &all, &mut old) {
                targets.rids.push(rid);
                targets.olds.push(old);
            }
        }
        self.note(child);
        let grandchildren = Key::of_parent(&child.def, &self.version)?;
        if action == ForeignKeyAction::Cascade && new.is_none() {
            let mut recheck = |view: &Snapshot, rid: RowId| {
                let mut row = Row::new();
                let there = child.table.read_row(view, rid, &all, &mut row);
                Ok((there && matches(key, &row, wanted)).then_some((Vec::new(), row)))
            };
            self.modify(
                child,
                Kind::Delete,
                base.ts,
                &mut targets,
                OnBusy::Wait,
                Some(&mut recheck),
            )
            .await?;
            let rows: Vec<ChangedParent> = std::mem::take(&mut targets.rids)
                .into_iter()
                .zip(std::mem::take(&mut targets.olds))
                .map(|(rid, old)| ChangedParent { rid, old, new: None })
                .collect();
            return self.parents_changed(child, &grandchildren, &rows, depth + 1).await;
        }
        self.cascade_update(key, action, wanted, new, base, targets, &grandchildren, depth).await
    }

    /// ON … SET NULL, SET DEFAULT, and ON UPDATE CASCADE.
    #[allow(clippy::too_many_arguments)]
    async fn cascade_update(
        &mut self,
        key: &Key,
        action: ForeignKeyAction,
        wanted: &[Value],
        new: Option<&[Value]>,
        base: Arc<Snapshot>,
        mut targets: Targets,
        grandchildren: &[Key],
        depth: usize,
    ) -> Result<(), Stop> {
        let child = &key.child;
        let values = self.cascaded_values(key, action, new)?;
        // Layout positions ascend; the key's columns need not.
        let mut pairs: Vec<(usize, Value)> =
            key.child_columns().iter().copied().zip(values.iter().cloned()).collect();
        pairs.sort_by_key(|(column, _)| *column);
        let compiled = self.eval.enter(|| crate::table::compiled(child))?;
        let set: Vec<usize> = pairs.iter().map(|(column, _)| *column).collect();
        let columns = compiled.with_generated(&child.def, &set);
        let eval = self.eval;
        // The row, and the values of the columns that are set.
        let renew = |old: &Row| {
            let mut row = old.clone();
            row.resize(child.def.width(), Value::Null);
            for (column, value) in &pairs {
                row[*column] = value.clone();
            }
            compiled.generate(&mut row, eval)?;
            let values: Vec<Value> = columns.iter().map(|column| row[*column].clone()).collect();
            row.truncate(child.def.columns.len());
            Ok::<_, SqlError>((row, values))
        };
        for old in &targets.olds {
            let (row, values) = renew(old)?;
            compiled.check(&child.def, &row, self.eval)?;
            targets.values.push(values);
        }
        let all: Vec<usize> = (0..child.def.columns.len()).collect();
        let mut recheck = |view: &Snapshot, rid: RowId| {
            let mut row = Row::new();
            let there = child.table.read_row(view, rid, &all, &mut row);
            if !there || !matches(key, &row, wanted) {
                return Ok(None);
            }
            Ok(Some((renew(&row)?.1, row)))
        };
        let kind = Kind::Update(&columns);
        self.modify(child, kind, base.ts, &mut targets, OnBusy::Wait, Some(&mut recheck)).await?;
        if action == ForeignKeyAction::SetDefault {
            self.hold_parent(key, &values).await?;
        }
        // A column may be in another of the child's foreign keys, too.
        for other in Key::of_child(child, &self.version)? {
            let is_its = |column: &usize| columns.contains(column);
            if other.id == key.id || !other.child_columns().iter().any(is_its) {
                continue;
            }
            let mut changed = Vec::new();
            for old in &targets.olds {
                let new = renew(old)?.0;
                let pick = |row: &Row| -> Vec<Value> {
                    other.child_columns().iter().map(|column| row[*column].clone()).collect()
                };
                changed.extend((pick(old) != pick(&new)).then(|| pick(&new)));
            }
            self.hold_parents(&other, changed.into_iter()).await?;
        }
        let rows: Vec<ChangedParent> = targets
            .rids
            .iter()
            .zip(&targets.olds)
            .map(|(rid, old)| {
                let new = Some(renew(old)?.0);
                Ok(ChangedParent { rid: *rid, old: old.clone(), new })
            })
            .collect::<Result<_, SqlError>>()?;
        self.parents_changed(child, grandchildren, &rows, depth + 1).await
    }

    /// What the child's columns become, in the key's order.
    fn cascaded_values(
        &mut self,
        key: &Key,
        action: ForeignKeyAction,
        new: Option<&[Value]>,
    ) -> Result<Vec<Value>, Stop> {
        match (action, new) {
            (ForeignKeyAction::Cascade, Some(new)) => {
                key.as_child(new).ok_or_else(|| key.out_of_range(new).into())
            }
            (ForeignKeyAction::SetDefault, _) => {
                let compiled = self.eval.enter(|| crate::table::compiled(&key.child))?;
                key.child_columns()
                    .iter()
                    .map(|column| compiled.default(*column, self.eval).map_err(Stop::from))
                    .collect()
            }
            _ => Ok(vec![Value::Null; key.child_columns().len()]),
        }
    }
}

fn matches(of: &Key, row: &Row, wanted: &[Value]) -> bool {
    of.child_columns().iter().zip(wanted).all(|(column, value)| key::equal(&row[*column], value))
}
