//! The inverse of what a change has made of a table that was there before, and is still: the same rows.

use std::collections::BTreeSet;

use froglet_engine::{ColumnId, Dictionary, Value};
use froglet_schema::{
    ColumnDef, ConstraintDef, ConstraintKind, IndexDef, KeptColumn, ObjectChange, ObjectDef,
    ObjectId, SequenceDef, SqlType, TableDef, TableVersion,
};

use super::{Phase, Planner, Step, probe, table, text};
use crate::error::SqlError;
use crate::pgcatalog::constraints::timing_text;
use crate::stored::{self, DefaultKind};
use crate::table::{ColumnSource, compiled};
use crate::types::{numeric, oids, type_name};
use crate::udf::lookup::quote_ident;

/// Whether a table is as a change has left it, whatever its rows are.
pub(super) fn is_as_left(now: &TableDef, after: &TableDef) -> bool {
    let column = |column: &ColumnDef, def: &TableDef| {
        let default = stored::default_text(column, def);
        (
            column.name.clone(),
            column.sql_type.oid,
            column.sql_type.modifier,
            column.not_null,
            default,
        )
    };
    let columns =
        |def: &TableDef| def.columns.iter().map(|c| column(c, def)).collect::<BTreeSet<_>>();
    let names = |def: &TableDef| {
        let constraints = def.constraints.iter().map(|c| c.name.clone());
        constraints.chain(def.indexes.iter().map(|i| i.name.clone())).collect::<BTreeSet<_>>()
    };
    (&now.schema, &now.name) == (&after.schema, &after.name)
        && columns(now) == columns(after)
        && names(now) == names(after)
}

/// A column before a change, and after it.
struct Pair<'a> {
    before: &'a ColumnDef,
    after: &'a ColumnDef,
    /// Its values were computed by an expression of the user's.
    is_computed: bool,
}

impl<'a> Planner<'a> {
    /// The steps for one table.
    pub(super) fn in_place(
        &mut self,
        object: &'a ObjectChange,
        before: &'a TableDef,
        after: &'a TableDef,
    ) -> Result<(), SqlError> {
        let now = self.now(after)?;
        self.take_constraints_back(before, after);
        let (pairs, dropped, added) = columns(object, before, after);
        self.rename_back(before, after);
        let name = self.name(before);
        for column in added {
            self.drop_added(now, after, column, &name)?;
        }
        self.rename_columns_back(&pairs, &name);
        for pair in &pairs {
            self.retype(pair, before, after, &name);
        }
        for column in dropped {
            self.restore_column(column, before, &now.def, &name);
        }
        self.options_back(before.dictionary, after.dictionary, &format!("ALTER TABLE {name}"));
        if before.engine != after.engine {
            let method = &before.engine;
            self.sql(Phase::Columns, format!("ALTER TABLE {name} SET ACCESS METHOD {method}"));
        }
        for pair in &pairs {
            let column = quote_ident(&pair.before.name);
            let alter = format!("ALTER TABLE {name} ALTER COLUMN {column}");
            self.options_back(pair.before.dictionary, pair.after.dictionary, &alter);
            let set = match (pair.before.not_null, pair.after.not_null) {
                (true, false) => "SET",
                (false, true) => "DROP",
                _ => continue,
            };
            self.sql(Phase::Columns, format!("{alter} {set} NOT NULL"));
        }
        let kept: Vec<_> = after.constraints.iter().map(|c| c.id).collect();
        let gone = before.constraints.iter().filter(|c| !kept.contains(&c.id));
        self.restore_constraints(gone, before);
        let kept: Vec<_> = after.indexes.iter().map(|index| index.id).collect();
        let gone = before.indexes.iter().filter(|index| !kept.contains(&index.id));
        self.restore_indexes(gone, before);
        Ok(())
    }

    /// The option of a table or column.
    fn options_back(&mut self, was: Option<Dictionary>, is: Option<Dictionary>, alter: &str) {
        if was != is {
            self.sql(
                Phase::Columns,
                match was {
                    Some(was) => format!("{alter} SET (dictionary = {})", was.name()),
                    None => format!("{alter} RESET (dictionary)"),
                },
            );
        }
    }

    /// Constraints and indexes that the change has added go, those that it has renamed get their names back.
    fn take_constraints_back(&mut self, before: &TableDef, after: &TableDef) {
        let name = self.name(after);
        for constraint in &after.constraints {
            let own = quote_ident(&constraint.name);
            let was = before.constraints.iter().find(|was| was.id == constraint.id);
            if let Some(was) = was.filter(|was| was.checked() != constraint.checked()) {
                let timing = timing_text(was.checked());
                let sql = format!("ALTER TABLE {name} ALTER CONSTRAINT {own}{timing}");
                self.sql(Phase::Constraints, sql);
            }
            match before.constraints.iter().find(|was| was.id == constraint.id) {
                None => {
                    let phase = match constraint.kind {
                        ConstraintKind::ForeignKey(_) => Phase::Keys,
                        _ => Phase::Constraints,
                    };
                    self.sql(phase, format!("ALTER TABLE {name} DROP CONSTRAINT {own}"));
                }
                Some(was) if was.name != constraint.name => {
                    let was = quote_ident(&was.name);
                    let sql = format!("ALTER TABLE {name} RENAME CONSTRAINT {own} TO {was}");
                    self.sql(Phase::Constraints, sql);
                }
                Some(_) => {}
            }
        }
        for index in &after.indexes {
            if after.constraint_of_index(index.spec.id).is_some() {
                continue;
            }
            let own = self.relation(&after.schema, &index.name);
            match before.indexes.iter().find(|was| was.id == index.id) {
                None => self.sql(Phase::Constraints, format!("DROP INDEX {own}")),
                Some(was) if was.name != index.name => {
                    let was = quote_ident(&was.name);
                    self.sql(Phase::Constraints, format!("ALTER INDEX {own} RENAME TO {was}"));
                }
                Some(_) => {}
            }
        }
    }

    /// The table's own name. One that another of the change's tables still has is waited for.
    fn rename_back(&mut self, before: &TableDef, after: &TableDef) {
        if before.name == after.name {
            return;
        }
        let (from, to) = (self.name(after), quote_ident(&before.name));
        let holder = self.around.catalog.names.get(&(before.schema.clone(), before.name.clone()));
        if holder.is_none_or(|holder| self.change.object(*holder).is_none()) {
            // A dropped table may have had the name that becomes free.
            return self.sql(Phase::Aside, format!("ALTER TABLE {from} RENAME TO {to}"));
        }
        let aside = self.aside(before.id);
        self.sql(Phase::Aside, format!("ALTER TABLE {from} RENAME TO {aside}"));
        let from = self.relation(&before.schema, &aside);
        self.sql(Phase::Rename, format!("ALTER TABLE {from} RENAME TO {to}"));
    }

    /// A name for the time being.
    pub(super) fn aside(&self, object: u32) -> String {
        format!("revert_{}_{object}", self.change.id)
    }

    /// A column that the change has added goes. If all that is in it is its default, that is verified.
    fn drop_added(
        &mut self,
        now: &TableVersion,
        after: &TableDef,
        column: &ColumnDef,
        name: &str,
    ) -> Result<(), SqlError> {
        let own = quote_ident(&column.name);
        let drop = Step::of(format!("ALTER TABLE {name} DROP COLUMN {own}"));
        if stored::default_kind(column) == DefaultKind::Generated {
            // Others may be computed from what goes after it.
            self.phases[Phase::Columns as usize].insert(0, drop.noting("the column is generated"));
            return Ok(());
        }
        let at = now.def.columns.iter().position(|c| c.name == column.name);
        let at = at.ok_or_else(|| self.is_otherwise(after))?;
        let mut expected = Vec::new();
        let mut conditions = Vec::new();
        if let ColumnSource::Constant(value) = &compiled(now)?.sources[at] {
            let text = self.default_text(column, after);
            if let (false, Some(text)) = (value.is_null(), text) {
                conditions.push(format!("{own} IS NOT DISTINCT FROM {text}"));
                expected.push(value.clone());
            }
            // Of the rows that were there before it.
            if conditions.is_empty() || column.missing.is_null() && !column.not_null {
                conditions.push(format!("{own} IS NULL"));
                expected.push(Value::Null);
            }
        }
        let is_plain =
            !expected.is_empty() && !probe::has_others(now, self.around.snapshot, at, &expected)?;
        if !is_plain {
            let loss = format!("the values of column \"{}\" of \"{}\"", column.name, after.name);
            self.push(Phase::Columns, drop.losing(loss));
            return Ok(());
        }
        let guard = quote_ident(&format!("revert_{}_{}", self.change.id, column.id.0));
        let condition = conditions.join(" OR ");
        let sql = format!("ALTER TABLE {name} ADD CONSTRAINT {guard} CHECK ({condition})");
        let note = "verifies until the commit that nothing but the default is in the column";
        self.push(Phase::Columns, Step::of(sql).noting(note));
        self.push(Phase::Columns, drop);
        Ok(())
    }

    fn rename_columns_back(&mut self, pairs: &[Pair<'a>], name: &str) {
        let renamed: Vec<_> = pairs.iter().filter(|p| p.before.name != p.after.name).collect();
        let mut later = Vec::new();
        for pair in &renamed {
            let mut from = quote_ident(&pair.after.name);
            let to = quote_ident(&pair.before.name);
            if renamed.iter().any(|other| other.after.name == pair.before.name) {
                let aside = format!("revert_{}_{}", self.change.id, pair.after.id.0);
                let sql = format!("ALTER TABLE {name} RENAME COLUMN {from} TO {aside}");
                self.sql(Phase::Columns, sql);
                from = aside;
            }
            later.push(format!("ALTER TABLE {name} RENAME COLUMN {from} TO {to}"));
        }
        later.into_iter().for_each(|sql| self.sql(Phase::Columns, sql));
    }

    /// A column's type and default.
    fn retype(&mut self, pair: &Pair<'_>, before: &TableDef, after: &TableDef, name: &str) {
        let (was, is) = (pair.before, pair.after);
        let column = quote_ident(&was.name);
        let alter = format!("ALTER TABLE {name} ALTER COLUMN {column}");
        let defaults = [(was, before), (is, after)].map(|(c, def)| self.default_text(c, def));
        let kinds = [was, is].map(stored::default_kind);
        let is_plain = |kind| matches!(kind, DefaultKind::None | DefaultKind::Plain);
        let has_other_default = defaults[0] != defaults[1] && is_plain(kinds[1]);
        if !kinds[0].is_identity() && kinds[1].is_identity() {
            self.sql(Phase::Columns, format!("{alter} DROP IDENTITY"));
        }
        if has_other_default && defaults[1].is_some() {
            self.sql(Phase::Columns, format!("{alter} DROP DEFAULT"));
        }
        let ty = type_name(was.sql_type);
        let is_exact = converts_back(was.sql_type, is.sql_type);
        if was.sql_type != is.sql_type {
            let step = match is_exact || kinds[0] == DefaultKind::Generated {
                true => Step::of(format!("{alter} TYPE {ty}"))
                    .noting("fails if a value has no place in the type"),
                false => {
                    let step = Step::of(format!("{alter} TYPE {ty} USING {column}::{ty}"));
                    step.losing(format!(
                        "what values of column \"{}\" of \"{}\" lose between types {} and {ty}",
                        was.name,
                        before.name,
                        type_name(is.sql_type)
                    ))
                }
            };
            self.push(Phase::Columns, step);
        }
        if pair.is_computed {
            let loss = format!(
                "what values column \"{}\" of \"{}\" had before USING",
                was.name, before.name
            );
            self.push(Phase::Columns, Step::default().losing(loss));
        }
        if kinds[0].is_identity() && !kinds[1].is_identity() {
            self.identity_again(was, before, &alter);
        } else if has_other_default && let Some(default) = &defaults[0] {
            self.sql(Phase::Columns, format!("{alter} SET DEFAULT {default}"));
        }
    }

    /// A column whose identity went is one again, and its numbers go on where they were.
    pub(super) fn identity_again(&mut self, column: &ColumnDef, def: &TableDef, alter: &str) {
        let sequence = self.change.objects.iter().find_map(|o| of_column(o, def, column));
        let last = sequence.and_then(|s| self.around.session.last_of_sequence(s));
        let always = stored::default_kind(column) == DefaultKind::IdentityAlways;
        let word = if always { "ALWAYS" } else { "BY DEFAULT" };
        let start = match (sequence, last) {
            (Some(def), Some(last)) => last.saturating_add(def.increment),
            (Some(def), None) => def.start,
            (None, _) => 1,
        };
        let sql = format!("{alter} ADD GENERATED {word} AS IDENTITY (START WITH {start})");
        self.sql(Phase::Columns, sql);
    }

    /// Whether a table's rows have gone elsewhere with the change, or since; what was kept beside them has not.
    fn has_moved(&self, table: ObjectId) -> bool {
        let since = self.around.changes.iter().skip_while(|change| change.id < self.change.id);
        let engine = |def: &Option<ObjectDef>| match def {
            Some(ObjectDef::Table(def)) => Some(def.engine.clone()),
            _ => None,
        };
        let mut objects = since.filter_map(|change| change.object(table));
        objects.any(|object| engine(&object.before) != engine(&object.after))
    }

    /// A column that the change has dropped comes back.
    fn restore_column(
        &mut self,
        column: &ColumnDef,
        before: &TableDef,
        now: &TableDef,
        name: &str,
    ) {
        let kind = stored::default_kind(column);
        let own = quote_ident(&column.name);
        let alter = format!("ALTER TABLE {name} ALTER COLUMN {own}");
        let default = self.default_text(column, before);
        if kind == DefaultKind::Generated {
            let text = text::column(column, before);
            let sql = format!("ALTER TABLE {name} ADD COLUMN {text}");
            self.push(Phase::Columns, Step::of(sql).noting("it is computed again"));
        } else if now.space == before.space
            && self.change.kept.contains(&KeptColumn { space: before.space, column: column.id })
        {
            let step = Step::of(format!("ALTER TABLE {name} UNDROP COLUMN {own}"));
            let note = "rows that were written since have no value in it";
            self.push(Phase::Columns, step.noting(note));
            // It comes back with the number of a sequence that is made again.
            if default != stored::default_text(column, before)
                && let Some(default) = &default
            {
                self.sql(Phase::Columns, format!("{alter} SET DEFAULT {default}"));
            }
            if column.not_null
                && kind == DefaultKind::Plain
                && is_constant(column)
                && let Some(default) = &default
            {
                let ty = type_name(column.sql_type);
                let sql = format!("{alter} TYPE {ty} USING coalesce({own}, {default})");
                let note = "rows that were written since get its default";
                self.push(Phase::Columns, Step::of(sql).noting(note));
            }
        } else {
            let text = text::column(column, before);
            let step = Step::of(format!("ALTER TABLE {name} ADD COLUMN {text}"));
            // Its rows have all been written since: it was emptied.
            let is_emptied = now.id == before.id && now.space != before.space;
            let step = match is_emptied && !self.has_moved(before.id) {
                true => step,
                false => step.losing(format!(
                    "the values of dropped column \"{}\" of \"{}\", which are no longer stored",
                    column.name, before.name
                )),
            };
            self.push(Phase::Columns, step);
            if let Some(default) = &default {
                self.sql(Phase::Columns, format!("{alter} SET DEFAULT {default}"));
            }
            // What is lost cannot be without NULLs.
            return;
        }
        if column.not_null {
            let step = Step::of(format!("{alter} SET NOT NULL"));
            self.push(Phase::Columns, step.noting("fails if a row has no value in it"));
        }
    }

    /// Constraints of a table that is as before again: keys before what refers to them.
    pub(super) fn restore_constraints<'c>(
        &mut self,
        constraints: impl Iterator<Item = &'c ConstraintDef>,
        def: &TableDef,
    ) {
        let name = self.name(def);
        for constraint in constraints {
            let Some(text) = text::constraint(constraint, def, |key| self.parent(key)) else {
                let loss = format!("foreign key \"{}\": its parent is gone", constraint.name);
                self.push(Phase::RestoreKeys, Step::default().losing(loss));
                continue;
            };
            let sql = format!("ALTER TABLE {name} ADD {text}");
            match &constraint.kind {
                ConstraintKind::ForeignKey(key) if self.is_made_again(key.parent, def.id) => {
                    let note = format!("{sql}: after the commit");
                    let loss = format!(
                        "foreign key \"{}\" of \"{}\", which cannot refer to a table that the same \
                         transaction makes",
                        constraint.name, def.name
                    );
                    self.push(Phase::RestoreKeys, Step::default().losing(loss).noting(note));
                }
                ConstraintKind::ForeignKey(_) => self.sql(Phase::RestoreKeys, sql),
                ConstraintKind::PrimaryKey(_) => {
                    self.phases[Phase::Restore as usize].insert(0, Step::of(sql));
                }
                _ => self.sql(Phase::Restore, sql),
            }
        }
    }

    /// Whether a table is made of others by the revert.
    fn is_made_again(&self, parent: u32, child: u32) -> bool {
        parent != child
            && self
                .change
                .object(parent)
                .is_some_and(|object| table(&object.before).is_some() && object.after.is_none())
    }

    /// Indexes that are no constraint's.
    pub(super) fn restore_indexes<'c>(
        &mut self,
        indexes: impl Iterator<Item = &'c IndexDef>,
        def: &TableDef,
    ) {
        let name = self.name(def);
        for index in indexes.filter(|index| def.constraint_of_index(index.spec.id).is_none()) {
            self.sql(Phase::Restore, text::index(index, def, &name));
        }
    }
}

/// Columns that are there before and after, those that are gone, and those that came.
fn columns<'a>(
    object: &ObjectChange,
    before: &'a TableDef,
    after: &'a TableDef,
) -> (Vec<Pair<'a>>, Vec<&'a ColumnDef>, Vec<&'a ColumnDef>) {
    let (mut pairs, mut dropped): (Vec<Pair<'a>>, Vec<&ColumnDef>) = (Vec::new(), Vec::new());
    for column in &before.columns {
        let (id, is_computed) = image(object, column.id);
        match after.column_by_id(id) {
            Some(after) => pairs.push(Pair { before: column, after, is_computed }),
            None => dropped.push(column),
        }
    }
    let came = |column: &&ColumnDef| pairs.iter().all(|pair| pair.after.id != column.id);
    let added = after.columns.iter().filter(came).collect();
    (pairs, dropped, added)
}

/// What a column has become, and whether an expression of the user's was in it.
pub(super) fn image(object: &ObjectChange, id: ColumnId) -> (ColumnId, bool) {
    object.retyped.iter().fold((id, false), |(id, is_computed), retyped| {
        if retyped.from == id {
            (retyped.to, is_computed | retyped.is_computed)
        } else {
            (id, is_computed)
        }
    })
}

/// Whether a default is the same for every row.
fn is_constant(column: &ColumnDef) -> bool {
    let text = column.default.as_ref().map_or("", |default| default.0.as_str());
    let Ok(expr) = crate::parse::parse_expression(text) else { return false };
    let scope = crate::expr::Scope::empty();
    let compiled = crate::expr::RowExpr::compile_for(
        &scope,
        &expr,
        &[],
        &column.name,
        column.ty,
        column.sql_type,
    );
    compiled.is_ok_and(|compiled| compiled.constant_value().is_some_and(|value| !value.is_null()))
}

/// Whether the assignment of a value of type `is` to a column of type `was` gives it exactly or fails, and
/// the assignment the other way round has lost nothing.
fn converts_back(was: SqlType, is: SqlType) -> bool {
    let is_integer = |ty: SqlType| matches!(ty.oid, oids::INT2 | oids::INT4 | oids::INT8);
    let is_text = |ty: SqlType| matches!(ty.oid, oids::TEXT | oids::VARCHAR);
    let scale = |ty: SqlType| {
        let is_scaled = ty.oid == oids::NUMERIC && ty.modifier >= 4;
        is_scaled.then(|| numeric::precision_scale(ty.modifier).1)
    };
    is_integer(was) && is_integer(is)
        || is_text(was) && is_text(is)
        || scale(was).is_some() && scale(was) == scale(is)
}

/// The sequence of a column that went with it.
fn of_column<'o>(
    object: &'o ObjectChange,
    def: &TableDef,
    column: &ColumnDef,
) -> Option<&'o SequenceDef> {
    match (&object.before, &object.after) {
        (Some(ObjectDef::Sequence(sequence)), None) => {
            Some(sequence).filter(|s| s.owned_by == Some((def.id, column.id)))
        }
        _ => None,
    }
}
