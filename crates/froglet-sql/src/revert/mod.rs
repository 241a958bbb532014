//! Reverting a schema change: its inverse as statements, each with what it would lose.
//!
//! ```text
//!   froglet.schema_changes        what every committed change had before, and after    (froglet-schema, change_log.rs)
//!        │ froglet.revert_plan(n)
//!        ▼
//!   1  what the change added goes            DROP CONSTRAINT, DROP INDEX
//!   2  tables that it dropped are made       of those that it made of them            (rebuild.rs)
//!   3  tables that it made go
//!   4  names, columns, types                 as before; a dropped column comes back   (in_place.rs)
//!   5  keys, indexes, checks, foreign keys   as before
//!        │ froglet.revert_migration(n)
//!        ▼
//!   the same statements, in the caller's transaction                                   (run.rs)
//! ```
//!
//! R1: what the plan says is what is run: the same text, through the ordinary schema changes.
//! R2: what is called lossless stays so while others write: where it depends on the data, one of the
//!     statements verifies that until the commit (a check, a key), and the revert fails, changing nothing.
//! R3: a change is reverted only while the objects are as it left them: later changes of them go first.
//!
//! The inverse follows from the definitions before and after, not from the statements: what a transaction has
//! done and undone again is none of it.

mod in_place;
pub(crate) mod made_of;
mod probe;
mod rebuild;
pub(crate) mod run;
mod text;
pub(crate) mod view;

use std::sync::Arc;

use froglet_engine::{Snapshot, SqlState};
use froglet_schema::def::ForeignKeyDef;
use froglet_schema::plain::PlainDef;
use froglet_schema::{
    CatalogVersion, ColumnDef, MigrationPhase, MigrationStatus, ObjectChange, ObjectDef, ObjectId,
    SchemaChange, SequenceDef, TableDef, TableVersion,
};

use crate::context::SessionFunctions;
use crate::error::SqlError;
use crate::stored;
use crate::udf::lookup::quote_ident;

/// What has to be done, in order.
pub(crate) struct Plan {
    /// The change that is reverted.
    pub(crate) change: Arc<SchemaChange>,
    /// In order.
    pub(crate) steps: Vec<Step>,
}

/// A statement of a revert.
#[derive(Clone, Debug, Default)]
pub(crate) struct Step {
    /// `None`: something that no statement brings back.
    pub(crate) sql: Option<String>,
    /// What is lost by it.
    pub(crate) loss: Option<String>,
    /// What to know of it.
    pub(crate) note: Option<String>,
}

impl Step {
    fn of(sql: String) -> Step {
        Step { sql: Some(sql), ..Step::default() }
    }

    fn losing(self, loss: impl Into<String>) -> Step {
        Step { loss: Some(loss.into()), ..self }
    }

    fn noting(self, note: impl Into<String>) -> Step {
        Step { note: Some(note.into()), ..self }
    }
}

impl Plan {
    /// What it would lose.
    pub(crate) fn losses(&self) -> Vec<&str> {
        self.steps.iter().filter_map(|step| step.loss.as_deref()).collect()
    }
}

/// What a plan is made under.
pub(crate) struct Around<'a> {
    pub(crate) catalog: &'a CatalogVersion,
    pub(crate) changes: &'a [Arc<SchemaChange>],
    pub(crate) session: &'a dyn SessionFunctions,
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) path: &'a [String],
    /// What the caller's transaction itself reverts.
    pub(crate) own: Option<u64>,
}

/// The change that has reverted another, and has not been reverted itself.
pub(crate) fn reverted_by(changes: &[Arc<SchemaChange>], id: u64) -> Option<u64> {
    let reverts = |c: &&Arc<SchemaChange>| c.reverts == Some(id);
    let standing = |c: &&Arc<SchemaChange>| reverted_by(changes, c.id).is_none();
    changes.iter().filter(reverts).find(standing).map(|c| c.id)
}

/// The steps of the revert of a change, or of that of one of its migrations.
pub(crate) fn plan(around: &Around<'_>, id: i64) -> Result<Plan, SqlError> {
    let change = around.find(id)?;
    if let Some(by) = reverted_by(around.changes, change.id) {
        return Err(refused(format!("schema change {} has already been reverted", change.id))
            .detail(format!("It was reverted by schema change {by}."))
            .hint(format!(
                "To make it again, revert that one: SELECT froglet.revert_migration({by})."
            )));
    }
    if around.own == Some(change.id) {
        let message = format!("schema change {} has already been reverted", change.id);
        return Err(refused(message).detail("This transaction has done it."));
    }
    if let Some(later) = around.blocker(&change) {
        return Err(changed_since(&change, later));
    }
    let mut planner = Planner { around, change: &change, phases: Default::default() };
    planner.plan()?;
    let steps: Vec<Step> = planner.phases.into_iter().flatten().collect();
    if steps.is_empty() {
        return Err(refused(format!("schema change {} cannot be reverted", change.id))
            .detail("It has changed nothing that a statement could change back."));
    }
    Ok(Plan { change, steps })
}

fn refused(message: String) -> SqlError {
    SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
}

fn changed_since(change: &SchemaChange, (name, later): (String, &SchemaChange)) -> SqlError {
    refused(format!("schema change {} cannot be reverted", change.id))
        .detail(format!(
            "Schema change {} has changed \"{name}\" since: {}.",
            later.id,
            later.statements.join("; ")
        ))
        .hint(format!("Revert that one first: SELECT froglet.revert_migration({}).", later.id))
}

impl<'a> Around<'a> {
    fn find(&self, id: i64) -> Result<Arc<SchemaChange>, SqlError> {
        let number = u64::try_from(id).unwrap_or(0);
        let found = self.changes.iter().find(|change| change.has_number(number));
        found.cloned().ok_or_else(|| self.unknown(id, number))
    }

    /// Why there is no change of a number.
    fn unknown(&self, id: i64, number: u64) -> SqlError {
        let migrations = self.session.migrations();
        let known = migrations.iter().find(|migration| migration.id == number);
        let is_over = |m: &MigrationStatus| m.ended_us.is_some();
        match known {
            Some(migration) if !is_over(migration) => {
                refused(format!("migration {id} is not committed"))
                    .detail(format!("Its transaction is under way: {}.", migration.statement))
                    .hint(format!("Cancel it instead: SELECT froglet.cancel_migration({id})."))
            }
            Some(migration) if migration.phase == MigrationPhase::Aborted => {
                refused(format!("migration {id} was not committed"))
                    .detail("There is nothing to revert.")
            }
            _ => SqlError::new(
                SqlState::UNDEFINED_OBJECT,
                format!("schema change {id} does not exist"),
            )
            .hint("Those that are remembered are in froglet.schema_changes."),
        }
    }

    /// A later change of an object of this one, that stands; and what the object is called.
    fn blocker(&self, change: &SchemaChange) -> Option<(String, &'a SchemaChange)> {
        let at = self.changes.iter().position(|other| other.id == change.id)?;
        let later = self.changes[at + 1..].iter().rev();
        let stands = |other: &&Arc<SchemaChange>| {
            // A change and its revert come to nothing.
            let is_pair = other
                .reverts
                .is_some_and(|of| self.changes[at + 1..].iter().any(|between| between.id == of));
            reverted_by(self.changes, other.id).is_none() && !is_pair
        };
        later.filter(stands).find_map(|other| {
            let touched = change.objects.iter().find_map(|object| other.object(object.id()))?;
            Some((name_of(touched), &**other))
        })
    }

    /// The newest change of an object.
    fn newest_of(&self, id: ObjectId) -> Option<&'a SchemaChange> {
        let newest = self.changes.iter().rev().find(|change| change.object(id).is_some());
        newest.map(|change| &**change)
    }
}

fn name_of(object: &ObjectChange) -> String {
    let def = object.after.as_ref().or(object.before.as_ref());
    def.map_or_else(String::new, |def| def.name().to_owned())
}

/// When a statement has its turn.
#[derive(Clone, Copy)]
enum Phase {
    /// Foreign keys that were added.
    Keys = 0,
    /// Other constraints, and indexes, that were added.
    Constraints,
    /// Names that stand in the way.
    Aside,
    /// Tables, of others.
    Make,
    /// Tables that were added.
    Drop,
    /// Names.
    Rename,
    /// Columns, types, defaults.
    Columns,
    /// Keys, checks and indexes that were dropped.
    Restore,
    /// Foreign keys that were dropped.
    RestoreKeys,
}

const PHASES: usize = 9;

/// A plan being made.
struct Planner<'a> {
    around: &'a Around<'a>,
    change: &'a SchemaChange,
    phases: [Vec<Step>; PHASES],
}

/// The tables of a change.
fn table(def: &Option<ObjectDef>) -> Option<&TableDef> {
    match def {
        Some(ObjectDef::Table(def)) => Some(def),
        _ => None,
    }
}

impl<'a> Planner<'a> {
    fn push(&mut self, phase: Phase, step: Step) {
        self.phases[phase as usize].push(step);
    }

    fn sql(&mut self, phase: Phase, sql: String) {
        self.push(phase, Step::of(sql));
    }

    fn relation(&self, schema: &str, name: &str) -> String {
        text::relation(self.around.path, schema, name)
    }

    fn name(&self, def: &TableDef) -> String {
        self.relation(&def.schema, &def.name)
    }

    fn plan(&mut self) -> Result<(), SqlError> {
        let change = self.change;
        self.refuse_plain()?;
        for object in &change.objects {
            if let (Some(before), Some(after)) = (table(&object.before), table(&object.after)) {
                self.in_place(object, before, after)?;
            }
        }
        self.rebuild()?;
        self.sequences();
        Ok(())
    }

    /// Schemas, views and types are not reverted; what is said of objects and granted on them may stay as it is.
    fn refuse_plain(&self) -> Result<(), SqlError> {
        let is_plain = |object: &&ObjectChange| {
            let of = object.after.as_ref().or(object.before.as_ref());
            let stays = |def: &PlainDef| {
                matches!(
                    def,
                    PlainDef::Comment(_) | PlainDef::Access(_) | PlainDef::DefaultAccess(_)
                )
            };
            matches!(of, Some(ObjectDef::Plain(def)) if !stays(def))
        };
        match self.change.objects.iter().find(is_plain) {
            None => Ok(()),
            Some(object) => {
                let message = format!("schema change {} cannot be reverted", self.change.id);
                Err(refused(message).detail(format!(
                    "It has changed \"{}\", and schemas, views and types are not reverted.",
                    name_of(object)
                )))
            }
        }
    }

    /// The table that a change has left like this, as it is now.
    fn now(&self, after: &TableDef) -> Result<&'a Arc<TableVersion>, SqlError> {
        let catalog = self.around.catalog;
        let by_name = || catalog.table(&after.schema, &after.name);
        let found = catalog.tables.get(&after.id).or_else(by_name);
        let found = found.filter(|now| in_place::is_as_left(&now.def, after));
        found.ok_or_else(|| self.is_otherwise(after))
    }

    fn is_otherwise(&self, after: &TableDef) -> SqlError {
        refused(format!("schema change {} cannot be reverted", self.change.id))
            .detail(format!("Table \"{}\" is not as it has left it.", after.name))
    }

    /// What the parent of a foreign key is called when everything is as before, and its columns.
    fn parent(&self, key: &ForeignKeyDef) -> Option<(String, String)> {
        let changed = self.change.object(key.parent).and_then(|object| table(&object.before));
        let now = || self.around.catalog.tables.get(&key.parent).map(|table| &table.def);
        let parent = changed.or_else(now)?;
        Some((self.name(parent), text::parent_columns(key, parent)))
    }

    /// Sequences that go with no table of the change.
    fn sequences(&mut self) {
        for object in &self.change.objects {
            match (&object.before, &object.after) {
                // Those of columns and tables go with them.
                (None, Some(ObjectDef::Sequence(def)))
                    if def.owned_by.is_none()
                        && self.around.catalog.sequences.contains_key(&def.id) =>
                {
                    let name = self.relation(&def.schema, &def.name);
                    let loss = format!("what sequence \"{}\" has come to", def.name);
                    let step = Step::of(format!("DROP SEQUENCE {name}"));
                    self.push(Phase::Drop, step.losing(loss));
                }
                // An identity column of a table that is made again brings its own.
                (Some(ObjectDef::Sequence(def)), None) if !self.is_of_identity(def) => {
                    let last = self.around.session.last_of_sequence(def);
                    let name = self.relation(&def.schema, &def.name);
                    // Defaults name it.
                    self.phases[Phase::Rename as usize]
                        .insert(0, Step::of(text::sequence(def, &name, last)));
                    self.own_again(def, &name);
                }
                (Some(ObjectDef::Sequence(was)), Some(ObjectDef::Sequence(is))) => {
                    self.sequence_back(was, is);
                }
                _ => {}
            }
        }
    }

    /// A sequence that was altered; what it has come to is no matter of it.
    fn sequence_back(&mut self, was: &SequenceDef, is: &SequenceDef) {
        let name = self.relation(&was.schema, &was.name);
        if was.name != is.name {
            let (from, to) = (self.relation(&is.schema, &is.name), quote_ident(&was.name));
            self.sql(Phase::Rename, format!("ALTER SEQUENCE {from} RENAME TO {to}"));
        }
        let options = |def: &SequenceDef| {
            let cycle = if def.cycle { "CYCLE" } else { "NO CYCLE" };
            format!(
                "INCREMENT BY {} MINVALUE {} MAXVALUE {} START WITH {} {cycle}",
                def.increment, def.min, def.max, def.start
            )
        };
        if options(was) != options(is) {
            self.sql(Phase::Columns, format!("ALTER SEQUENCE {name} {}", options(was)));
        }
        match was.owned_by {
            owner if owner == is.owned_by || self.has_followed(was, is) => {}
            None => self.sql(Phase::Restore, format!("ALTER SEQUENCE {name} OWNED BY NONE")),
            Some(_) => self.own_again(was, &name),
        }
    }

    /// Whether a sequence has come along with its column, which got another type.
    fn has_followed(&self, was: &SequenceDef, is: &SequenceDef) -> bool {
        let (Some((owner, before)), Some((now, after))) = (was.owned_by, is.owned_by) else {
            return false;
        };
        let Some(object) = self.change.object(owner).filter(|_| owner == now) else { return false };
        let has = |side, column| table(side).is_some_and(|def| def.column_by_id(column).is_some());
        !has(&object.before, after) && !has(&object.after, before)
    }

    /// A column's default; a sequence that is made again has its name there, for its number is another.
    fn default_text(&self, column: &ColumnDef, table: &TableDef) -> Option<String> {
        let mut text = stored::default_text(column, table)?;
        for object in &self.change.objects {
            if let (Some(ObjectDef::Sequence(def)), None) = (&object.before, &object.after) {
                let name = self.relation(&def.schema, &def.name).replace('\'', "''");
                text = text.replace(&format!("'{}'", def.id), &format!("'{name}'"));
            }
        }
        Some(text)
    }

    /// Whether a sequence is that of an identity column of a table that is gone, or that is no identity any more.
    fn is_of_identity(&self, def: &SequenceDef) -> bool {
        let Some((owner, column)) = def.owned_by else { return false };
        let Some(object) = self.change.object(owner) else { return false };
        let column = table(&object.before).and_then(|before| before.column_by_id(column));
        column.is_some_and(|column| {
            let is_there = |after: &TableDef| after.column(&column.name).is_some();
            stored::default_kind(column).is_identity() && table(&object.after).is_none_or(is_there)
        })
    }

    /// A sequence that was made again belongs to its column.
    fn own_again(&mut self, def: &SequenceDef, name: &str) {
        let Some((owner, column)) = def.owned_by else { return };
        let changed = self.change.object(owner).and_then(|object| table(&object.before));
        let now = || self.around.catalog.tables.get(&owner).map(|table| &table.def);
        let Some(owner) = changed.or_else(now) else { return };
        if let Some(column) = owner.column_by_id(column) {
            let column = quote_ident(&column.name);
            let sql = format!("ALTER SEQUENCE {name} OWNED BY {}.{column}", self.name(owner));
            self.sql(Phase::Restore, sql);
        }
    }
}
