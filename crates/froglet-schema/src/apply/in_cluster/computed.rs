//! Columns that are computed of rows that are there, while all servers write: the table moves to a new row space, where its
//! rows have them, as a table that is made lazily does (`lazy/moved.rs`).
//!
//! ```text
//!   statement   of every row, and of those that change: it can be made, and is as demanded          (online check)
//!   commit      the old space is closed; the table is in the new one, its rows follow
//!   ALTER again, in the same transaction       from the same old space into another new one
//! ```
//! A1: the table stays the object that it is. Columns, indexes and constraints keep their numbers, but for those of which
//!     the type has changed.
//! A2: what the new space demands of rows the old one did already; what is new is looked at before the commit, until the
//!     old space is closed. So no row is left for which nothing can be made, but for one that becomes too long.

use super::row_checks::{Makes, QueryRecipe};
use super::*;
use crate::catalog::TableVersion;
use crate::change::{LazyFill, LazyQuery, RowQuery, Transform};
use crate::def::ObjectId;
use crate::edit::not_null_violation;
use crate::lazy::rewritten::{Compiled, Computed, Rewritten};
use crate::lazy::{LazyDef, LazySource};
use crate::lazy_driver::Recompile;
use crate::lazy_verify::may_be_null;
use crate::local::{Remains, local_mut};

/// What a change computes of a table's rows, and demands of what it computes.
#[derive(Default)]
struct Computes {
    computed: Vec<Compiled>,
    /// Columns that may turn out to be NULL, and must not.
    not_null: Vec<ColumnId>,
    checks: Vec<Arc<dyn Check>>,
    /// Indexes with other keys than they had.
    indexes: Vec<IndexId>,
    /// Computing these may fail for some row.
    may_fail: Vec<ColumnId>,
}

impl Computes {
    /// From the work of an edit of a table, which reads it as it was before its statement.
    fn of(
        base: &TableDef,
        before: &TableDef,
        edited: &Edited,
        recompile: &dyn Recompile,
    ) -> Result<Computes, SchemaError> {
        let mut computes = Computes::default();
        let is_equal = |part: &KeyPart| edited.new_ids.is_equal(part.column);
        for work in &edited.work {
            match work {
                Work::Fill { target, transform, lazily, .. } => {
                    let lazily = lazily.as_ref().filter(|_| !transform.is_volatile());
                    let lazily = match lazily {
                        Some(lazily) => lazily,
                        None if edited.def.hidden_column(*target).is_some() => {
                            return Err(unsupported("an index of an expression, or of some rows,"));
                        }
                        None if transform.is_volatile() => return Err(drawn()),
                        // Only of what others have it was asked whether it can move.
                        None => return Err(unsupported(OF_OWN_ROWS)),
                    };
                    let of = (*target, transform);
                    computes.add((base, before), edited, of, lazily, recompile);
                }
                Work::Verify(check, _) => computes.checks.push(check.clone()),
                Work::Index(id) => {
                    let index = edited.def.index_by_id(*id).expect("the edit has it");
                    if index.spec.unique && !index.spec.key.iter().all(is_equal) {
                        let name = &index.name;
                        let what =
                            format!("a conversion that may make keys of \"{name}\" the same");
                        return Err(unsupported(&what).with_hint(
                            "Drop the constraint, and add it again when froglet.migrations says that the table is whole.",
                        ));
                    }
                    computes.indexes.push(*id);
                }
                Work::ForeignKey(_) => return Err(unsupported(OF_FOREIGN_KEY)),
                // Who does not know of the new columns is kept from where the rows were.
                Work::KeptForeignKey(_) => {}
            }
        }
        Ok(computes)
    }

    fn add(
        &mut self,
        (base, before): (&TableDef, &TableDef),
        edited: &Edited,
        (target, transform): (ColumnId, &Arc<dyn Transform>),
        lazily: &LazyFill,
        recompile: &dyn Recompile,
    ) {
        let new_ids = &edited.new_ids;
        let was = new_ids.columns.iter().find(|(_, new)| *new == target).map(|(old, _)| *old);
        let converts = was.filter(|_| new_ids.exact.contains(&target));
        let was_not_null = |id| base.column_by_id(id).is_some_and(|column| column.not_null);
        if lazily.not_null && !converts.is_some_and(was_not_null) {
            self.not_null.push(target);
        }
        self.may_fail.extend(lazily.may_fail.then_some(target));
        let recipe = lazily.recipe.clone();
        let compile = |table: &TableDef| recompile.column(&recipe, table).ok();
        let table = Box::new(before.of_inputs(transform.inputs(), compile));
        let computed = Computed { column: target, recipe, table, converts };
        self.computed.push((computed, transform.clone()));
    }

    /// Columns that are to be looked at.
    fn looked_at(&self, def: &TableDef) -> Vec<ColumnId> {
        let checked = self.checks.iter().flat_map(|check| check.inputs());
        let indexes = self.indexes.iter().filter_map(|id| def.index_by_id(*id));
        let keys = indexes.flat_map(|index| index.spec.key.iter().map(|part| &part.column));
        self.may_fail.iter().chain(&self.not_null).chain(checked).chain(keys).copied().collect()
    }

    /// Looks at all rows for what is demanded, if something is.
    fn demands(&self, def: &TableDef, makes: &mut Makes) -> Result<bool, SchemaError> {
        for id in &self.not_null {
            demand_not_null(makes, def, *id)?;
        }
        for check in &self.checks {
            evaluated(makes.demand(check))?;
        }
        for index in self.indexes.iter().filter_map(|id| def.index_by_id(*id)) {
            evaluated(makes.demand_keys_fit(def, index))?;
        }
        Ok(!self.may_fail.is_empty() || makes.has_demands())
    }
}

/// What makes some columns of a table's rows, and nothing else.
fn made_of(query: &Rewritten, source: &TableDef, def: &TableDef, wanted: &[ColumnId]) -> Makes {
    let (part, source) = query.only(source, wanted);
    let (how, outputs) = (QueryRecipe::Computed(part.computed()), part.outputs());
    let mut makes = Makes::new(Arc::new(part), &source, how, outputs);
    makes.add_constants(def, wanted);
    makes
}

fn demand_not_null(makes: &mut Makes, def: &TableDef, id: ColumnId) -> Result<(), SchemaError> {
    let column = def.column_by_id(id).expect("the edit has it");
    evaluated(makes.demand_not_null(id, not_null_violation(&def.name, &column.name)))
}

/// Whether what is demanded can be looked at everywhere.
fn evaluated(everywhere: bool) -> Result<(), SchemaError> {
    match everywhere {
        true => Ok(()),
        false => Err(unsupported("a constraint that other servers cannot evaluate")),
    }
}

pub(super) const OF_OWN_ROWS: &str =
    "computing a column of rows that the same transaction has made";

const OF_FOREIGN_KEY: &str = "changing the values of a foreign key's columns with their type";

fn drawn() -> SchemaError {
    unsupported("a value that is drawn for each row that is there").with_hint(
        "Add the column without it, then set the default, which new rows get, and update those that are there.",
    )
}

impl Catalog {
    /// Whether a change computes something of rows that somebody has.
    pub(in crate::apply) fn computes_in_cluster(
        &self,
        txn: &Transaction,
        base: &TableDef,
        edited: &Edited,
    ) -> bool {
        let is_fill = |work: &Work| matches!(work, Work::Fill { .. });
        if !is_in_cluster(base) || !edited.work.iter().any(is_fill) {
            return false;
        }
        match self.lazy_of(base).filter(|lazy| !lazy.is_live()) {
            Some(lazy) => lazy.state().is_move(),
            None => !self.is_empty_own(txn, base),
        }
    }

    /// Moves a table's rows to where they have the columns that a change computes.
    pub(in crate::apply) async fn compute_in_cluster(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        (base, before): (&TableVersion, &TableVersion),
        edited: Edited,
    ) -> Result<(), SchemaError> {
        self.check_own_keys(scope, &base.def)?;
        let recompile = &**self.recompile();
        let mut computes = Computes::of(&base.def, &before.def, &edited, recompile)?;
        check(&edited.def)?;
        let (source, was, mut computed) = self.source_of_move(txn, scope, before)?;
        computed.append(&mut computes.computed);
        let recipes: Vec<Computed> = computed.iter().map(|(one, _)| one.clone()).collect();
        let query = Rewritten::of(&was, computed);
        let mut makes = made_of(&query, &was, &edited.def, &computes.looked_at(&edited.def));
        if computes.demands(&edited.def, &mut makes)? {
            let of = BuildOf::Made(self.next_id()?);
            self.makes_online(txn, scope, &was, (of, makes)).await?;
        }
        let (outputs, query) = (query.outputs(), Arc::new(query));

        let mut def = edited.def;
        def.space = Home::Cluster.space(self.next_id()?);
        let origin = |id| query.plain(outputs.iter().position(|output| *output == id)?);
        let host = scope.options.colocates.then(|| host_of(&def, &was, &origin)).flatten();
        let lazily = LazyDef {
            begun: self.begin_lazy(scope.options),
            recipe: String::new(),
            computed: recipes,
            source: Box::new(was),
            lookups: Vec::new(),
            outputs,
            blocks: 0,
            granule_rows: scope.options.granule_rows,
            detection: scope.options.detection,
            is_fused: scope.options.is_fused,
            colocates: scope.options.colocates,
        };
        def.lazy = Some(Box::new(lazily));
        self.engine().create_space(def.space)?;
        local_mut(txn).created.push(Remains::Space(def.space));
        place_rows(&mut def)?;
        if let (Some(row_key), Some(within)) = (&mut def.row_key, host) {
            self.engine().place_within(def.space, within.space)?;
            row_key.within = Some(within);
        }
        self.label_columns(txn, scope, &mut def).await?;
        self.hold_drawn(txn, scope, Some(&base.def), &def).await?;
        self.sync_index_rows(txn, scope, Some(&base.def), Some(&def)).await?;
        let query = LazyQuery::Rows(def.id, query);
        self.set_lazy_table(txn, scope, def, vec![source], query).await?;
        local_mut(txn).changes.replaced.push(Remains::Space(base.def.space));
        Ok(())
    }

    fn recompile(&self) -> &Arc<dyn Recompile> {
        self.recompile.get().expect("the database of a cluster is open")
    }

    /// Where the rows are that others have, the definition that they have there, and what is computed of them already.
    fn source_of_move(
        &self,
        txn: &Transaction,
        scope: &Scope<'_>,
        before: &TableVersion,
    ) -> Result<(LazySource, TableDef, Vec<Compiled>), SchemaError> {
        let Some(earlier) = self.lazy_of(&before.def).filter(|lazy| !lazy.is_live()) else {
            self.can_move_all(txn, &before.def)?;
            let (source, was) = self.lazy_source(before, scope.limits)?;
            return Ok((source, was, Vec::new()));
        };
        let def = &earlier.state().def;
        let source = earlier.moved_source().expect("it is a move").clone();
        let query = Rewritten::compile(&def.source, &def.computed, &**self.recompile())?;
        Ok((source, (*def.source).clone(), query.into_compiled()))
    }

    /// Looks at all rows of which a table of the transaction's own is made, for what a change demands of what is made. False: it
    /// is no such table, or nothing can be looked at.
    pub(in crate::apply) async fn verify_moved(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        base: &TableDef,
        edited: &Edited,
    ) -> Result<bool, SchemaError> {
        let Some(lazy) = self.lazy_of(base).filter(|lazy| !lazy.is_live()) else {
            return Ok(false);
        };
        let Some(query) = lazy.moved_rows() else { return Ok(false) };
        if edited.work.iter().any(|work| matches!(work, Work::Fill { .. })) {
            return Ok(false);
        }
        if edited.work.is_empty() {
            return Ok(true);
        }
        let LazyDef { source, computed, recipe, outputs, .. } = &lazy.state().def;
        let moves = match lazy.state().is_move() {
            true => Some(Rewritten::compile(source, computed, &**self.recompile())?),
            false => None,
        };
        let makes_of = |wanted: &[ColumnId]| match &moves {
            Some(moves) => made_of(moves, source, &edited.def, wanted),
            None => {
                let how = QueryRecipe::Query(recipe.clone());
                let mut makes = Makes::new(query.clone(), source, how, outputs.clone());
                makes.add_constants(&edited.def, wanted);
                makes
            }
        };
        // Each by itself: it may be dropped again before the commit.
        let mut looks = Vec::new();
        for column in may_be_null(&*lazy, base, edited) {
            let mut makes = makes_of(&[column.id]);
            demand_not_null(&mut makes, &edited.def, column.id)?;
            looks.push((BuildOf::NotNull(column.id), makes));
        }
        for work in &edited.work {
            match work {
                Work::Verify(check, Demand::Constraint(id)) => {
                    let mut makes = makes_of(check.inputs());
                    evaluated(makes.demand(check))?;
                    looks.push((BuildOf::Constraint(*id), makes));
                }
                Work::Index(id) => {
                    let index = edited.def.index_by_id(*id).expect("the edit has it");
                    let key: Vec<ColumnId> = index.spec.key.iter().map(|p| p.column).collect();
                    let mut makes = makes_of(&key);
                    evaluated(makes.demand_keys_fit(&edited.def, index))?;
                    looks.push((BuildOf::Made(self.next_id()?), makes));
                }
                // Columns that are not to be NULL were looked at.
                Work::Verify(_, Demand::NotNull(_) | Demand::Change)
                | Work::Fill { .. }
                | Work::ForeignKey(_)
                | Work::KeptForeignKey(_) => {}
            }
        }
        for (of, makes) in looks.into_iter().filter(|(_, makes)| makes.has_demands()) {
            self.makes_online(txn, scope, source, (of, makes)).await?;
        }
        Ok(true)
    }

    /// Looks at all rows of which a table is to be made: the query does not fail for any.
    pub(crate) async fn verify_query_online(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        source: ObjectId,
        query: &Arc<dyn RowQuery>,
        recipe: &str,
    ) -> Result<(), SchemaError> {
        self.store.lock(txn, source, scope.limits).await?;
        let source = scope.table(source)?.def.clone();
        self.can_move_all(txn, &source)?;
        self.make_all_of(&source, scope.limits)?;
        let how = QueryRecipe::Query(recipe.to_owned());
        let makes = Makes::new(query.clone(), &source, how, Vec::new());
        let of = BuildOf::Made(self.next_id()?);
        self.makes_online(txn, scope, &source, (of, makes)).await
    }

    /// Looks at all rows of a table, and sees to it that others do at what they write: rows can be made of them.
    async fn makes_online(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        source: &TableDef,
        (of, makes): (BuildOf, Makes),
    ) -> Result<(), SchemaError> {
        let rows = self.engine().open(source.space, Arc::new(source.layout()))?;
        let columns = positions(&*rows, makes.inputs());
        let (recipe, makes) = (makes.recipe().text(), Arc::new(makes));
        let message = format!(
            "the schema change cannot be made of rows of table \"{}\" that were written meanwhile",
            source.name
        );
        let wanted = OnlineCheck {
            of,
            columns,
            check: makes.clone(),
            recipe: Some(recipe),
            violated: EngineError::Refused { state: SqlState::DATA_EXCEPTION, message },
        };
        let online = || rows.online_indexes().expect("tables in a cluster are verified so");
        let building = online().verify_online(txn.part(), wanted)?;
        match until_built(building, scope).await? {
            Built::Violated(row) => Err(makes.error_of(&row).unwrap_or(SchemaError::Stale)),
            Built::Whole | Built::Duplicate(_) => Ok(()),
        }
    }
}
