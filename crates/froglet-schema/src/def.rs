//! What the catalog says of an object: one JSON document per object, in row space 0.

use std::sync::Arc;

use crate::change::Transform;
use crate::error::SchemaError;
use crate::lazy::LazyDef;
use crate::lazy_columns::LazyColumnDef;
use crate::plain::{PlainDef, TEMPORARY_PREFIX};
use crate::role::{ROLE_NAMES, RoleDef};
use froglet_engine::{
    ColumnId, ColumnSpec, ColumnType, Dictionary, IndexId, IndexSpec, KeyPart, Layout, RowKey,
    SpaceId, SqlState, Value,
};
use serde::{Deserialize, Serialize};

/// An object's id; PostgreSQL's oid. Never reused.
pub type ObjectId = u32;

/// The first id of an object that a user makes, as in PostgreSQL.
pub const FIRST_USER_ID: ObjectId = 16_384;

/// SQL text of an expression. Opaque to this crate, but for the numbers of objects in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expression(pub String);

impl Expression {
    /// Whether it may take values from a sequence, which it has as a constant: `nextval('16390')`. A text that
    /// looks like one counts, too.
    fn mentions(&self, sequence: ObjectId) -> bool {
        self.0.contains(&format!("'{sequence}'"))
    }
}

/// The type a column was declared with, as PostgreSQL's catalog has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SqlType {
    /// pg_type.oid
    pub oid: u32,
    /// atttypmod; -1 for none
    pub modifier: i32,
}

/// One column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ColumnDef {
    /// Unique in the table for ever: 1, 2, … as created, object ids for what is added later, so
    /// that a rolled-back or crashed ADD COLUMN does not leave its id to the next one.
    pub id: ColumnId,
    /// Its name.
    pub name: String,
    /// As stored.
    pub ty: ColumnType,
    /// As declared.
    pub sql_type: SqlType,
    /// NOT NULL
    pub not_null: bool,
    /// DEFAULT
    pub default: Option<Expression>,
    /// The value of rows that were there before the column was.
    pub missing: Value,
    /// Its option `dictionary`.
    #[serde(default)]
    pub dictionary: Option<Dictionary>,
    /// The labels of its enum type, in order: those of the catalog's definition of the type, which every change
    /// of it writes here as well. A row has one of them, or NULL.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
}

/// A column that nobody sees, for indexes: an expression of theirs, or the predicate of a partial one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HiddenColumn {
    /// A generated column. Its name begins with a NUL, which no user's name has.
    pub column: ColumnDef,
    /// The columns that it is computed from.
    pub inputs: Vec<ColumnId>,
    /// Its expression as it was when the index was made, for the errors of that.
    pub shown: String,
}

/// What was said of an index that its key does not have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IndexNotes {
    /// The first part of its key is a hidden column that is NULL in rows which the index is not to have.
    pub partial: bool,
    /// The access method, if it is not btree.
    pub method: Option<String>,
    /// INCLUDE
    pub include: Vec<ColumnId>,
    /// Operator classes that are not their types' own, by part of the key.
    pub classes: Vec<Option<String>>,
    /// WITH
    pub options: Vec<String>,
}

impl IndexNotes {
    /// The operator class of a part of the key, if it is not its type's own.
    pub fn class(&self, part: usize) -> Option<&str> {
        self.classes.get(part)?.as_deref()
    }
}

/// One index.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IndexDef {
    /// Its own object id (pg_class.oid).
    pub id: ObjectId,
    /// Its name, in the table's schema.
    pub name: String,
    /// What the engine keeps.
    pub spec: IndexSpec,
    /// What else was said of it.
    #[serde(default)]
    pub notes: IndexNotes,
}

impl IndexDef {
    /// The parts of its key that were written.
    pub fn written_parts(&self) -> &[KeyPart] {
        &self.spec.key[usize::from(self.notes.partial)..]
    }
}

/// What a foreign key does when its parent goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum ForeignKeyAction {
    /// 23503
    #[default]
    NoAction,
    /// 23503
    Restrict,
    /// Children go too.
    Cascade,
    /// Children's columns become NULL.
    SetNull,
    /// Children's columns take their defaults.
    SetDefault,
}

/// A foreign key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForeignKeyDef {
    /// The child's columns.
    pub columns: Vec<ColumnId>,
    /// The parent table.
    pub parent: ObjectId,
    /// The parent's columns, in the order of the parent's index.
    pub parent_columns: Vec<ColumnId>,
    /// The parent's unique index over exactly these columns.
    pub parent_index: IndexId,
    /// ON DELETE
    pub on_delete: ForeignKeyAction,
    /// ON UPDATE
    pub on_update: ForeignKeyAction,
    /// When it is checked.
    #[serde(default)]
    pub timing: Timing,
    /// In which order the columns were written: places in `columns`. Empty: in theirs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub declared: Vec<u16>,
}

impl ForeignKeyDef {
    /// What there is for each of its columns, in the order in which they were written.
    pub fn as_declared<T: Clone>(&self, of_columns: &[T]) -> Vec<T> {
        let place = |at: &u16| of_columns.get(usize::from(*at)).cloned();
        let found: Vec<T> = self.declared.iter().filter_map(place).collect();
        if found.len() == of_columns.len() { found } else { of_columns.to_vec() }
    }
}

/// When a constraint is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Timing {
    /// With the statement.
    #[default]
    NotDeferrable,
    /// With the statement, unless SET CONSTRAINTS says otherwise.
    InitiallyImmediate,
    /// With the commit, unless SET CONSTRAINTS says otherwise.
    InitiallyDeferred,
}

/// A check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckDef {
    /// The condition.
    pub expression: Expression,
    /// The columns it reads.
    pub columns: Vec<ColumnId>,
}

/// What a constraint demands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConstraintKind {
    /// PRIMARY KEY, by this index.
    PrimaryKey(IndexId),
    /// UNIQUE, by this index.
    Unique(IndexId),
    /// CHECK
    Check(CheckDef),
    /// FOREIGN KEY
    ForeignKey(ForeignKeyDef),
}

/// One constraint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConstraintDef {
    /// Its object id.
    pub id: ObjectId,
    /// Unique in the table.
    pub name: String,
    /// What it demands.
    pub kind: ConstraintKind,
    /// Rows that were there before it need not obey it (NOT VALID).
    #[serde(default)]
    pub not_valid: bool,
    /// When a key is checked; a foreign key has its own.
    #[serde(default)]
    pub timing: Timing,
}

impl ConstraintDef {
    /// When it is checked.
    pub fn checked(&self) -> Timing {
        match &self.kind {
            ConstraintKind::ForeignKey(key) => key.timing,
            _ => self.timing,
        }
    }
}

impl Timing {
    /// Whether SET CONSTRAINTS may say when.
    pub fn is_deferrable(self) -> bool {
        self != Timing::NotDeferrable
    }
}

/// A table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableDef {
    /// Its id.
    pub id: ObjectId,
    /// Its schema (namespace).
    pub schema: String,
    /// Its name.
    pub name: String,
    /// The engine that has its rows.
    pub engine: String,
    /// Its row space there.
    pub space: SpaceId,
    /// In order.
    pub columns: Vec<ColumnDef>,
    /// What indexes are made over beside them; behind them in the layout.
    #[serde(default)]
    pub hidden: Vec<HiddenColumn>,
    /// All of them, those of constraints too.
    pub indexes: Vec<IndexDef>,
    /// By which key its rows are kept, of a table in a cluster that was made with a primary key.
    #[serde(default)]
    pub row_key: Option<RowKey>,
    /// In order of creation.
    pub constraints: Vec<ConstraintDef>,
    /// Tables whose foreign keys point here (with this one if it points to itself).
    pub referenced_by: Vec<ObjectId>,
    /// Its option `dictionary`, for columns without their own.
    #[serde(default)]
    pub dictionary: Option<Dictionary>,
    /// How its rows are being made, while they are.
    #[serde(default)]
    pub lazy: Option<Box<LazyDef>>,
    /// Columns of which not every row has its value yet, in the order in which they came.
    #[serde(default)]
    pub lazy_columns: Vec<LazyColumnDef>,
}

impl TableDef {
    /// The column of a name.
    pub fn column(&self, name: &str) -> Option<&ColumnDef> {
        self.columns.iter().find(|c| c.name == name)
    }

    /// Whether a default may take its values from a sequence.
    pub(crate) fn draws_from(&self, sequence: ObjectId) -> bool {
        let mut defaults = self.columns.iter().filter_map(|column| column.default.as_ref());
        defaults.any(|default| default.mentions(sequence))
    }

    /// The column of an id, a hidden one too.
    pub fn column_by_id(&self, id: ColumnId) -> Option<&ColumnDef> {
        self.all_columns().find(|c| c.id == id)
    }

    /// Whether rows of it are made lazily, or values of a column.
    pub fn is_being_made(&self) -> bool {
        self.lazy.is_some() || !self.lazy_columns.is_empty()
    }

    /// The columns of the layout.
    pub fn all_columns(&self) -> impl Iterator<Item = &ColumnDef> {
        self.columns.iter().chain(self.hidden.iter().map(|hidden| &hidden.column))
    }

    /// How many columns the layout has.
    pub fn width(&self) -> usize {
        self.columns.len() + self.hidden.len()
    }

    /// The column at a position of the layout.
    pub fn column_at(&self, position: usize) -> &ColumnDef {
        match position.checked_sub(self.columns.len()) {
            None => &self.columns[position],
            Some(at) => &self.hidden[at].column,
        }
    }

    /// The position of a column in the layout.
    pub fn position_of(&self, id: ColumnId) -> Option<usize> {
        self.all_columns().position(|c| c.id == id)
    }

    /// The hidden column of an id.
    pub fn hidden_column(&self, id: ColumnId) -> Option<&HiddenColumn> {
        self.hidden.iter().find(|hidden| hidden.column.id == id)
    }

    /// The constraint of a name.
    pub fn constraint(&self, name: &str) -> Option<&ConstraintDef> {
        self.constraints.iter().find(|c| c.name == name)
    }

    /// The index of an engine id.
    pub fn index_by_id(&self, id: IndexId) -> Option<&IndexDef> {
        self.indexes.iter().find(|i| i.spec.id == id)
    }

    /// The columns and expressions of an index's key, as errors show them.
    pub fn key_shown(&self, index: &IndexDef) -> String {
        let shown = index.written_parts().iter().filter_map(|part| {
            let hidden = self.hidden_column(part.column).map(|hidden| hidden.shown.as_str());
            hidden.or_else(|| Some(&self.column_by_id(part.column)?.name))
        });
        shown.collect::<Vec<&str>>().join(", ")
    }

    /// The constraint that an index serves.
    pub fn constraint_of_index(&self, id: IndexId) -> Option<&ConstraintDef> {
        self.constraints.iter().find(|c| match c.kind {
            ConstraintKind::PrimaryKey(i) | ConstraintKind::Unique(i) => i == id,
            ConstraintKind::Check(_) | ConstraintKind::ForeignKey(_) => false,
        })
    }

    /// Without what is said of how its rows are made.
    pub(crate) fn without_migrations(&self) -> TableDef {
        TableDef { lazy: None, lazy_columns: Vec::new(), ..self.clone() }
    }

    /// Some of its columns, and nothing else: what an expression of these is compiled over.
    pub fn of_columns(&self, is_wanted: impl Fn(ColumnId) -> bool) -> TableDef {
        let columns = self.columns.iter().filter(|column| is_wanted(column.id)).cloned().collect();
        let hidden = self.hidden.iter().filter(|hidden| is_wanted(hidden.column.id)).cloned();
        TableDef {
            id: self.id,
            schema: self.schema.clone(),
            name: self.name.clone(),
            engine: self.engine.clone(),
            space: self.space,
            columns,
            hidden: hidden.collect(),
            dictionary: self.dictionary,
            row_key: None,
            indexes: Vec::new(),
            constraints: Vec::new(),
            referenced_by: Vec::new(),
            lazy: None,
            lazy_columns: Vec::new(),
        }
    }

    /// The columns that an expression reads, if its text can be compiled over these alone: it may name others that are of no
    /// concern, and needs them all then.
    pub fn of_inputs(
        &self,
        inputs: &[ColumnId],
        compile: impl Fn(&TableDef) -> Option<Arc<dyn Transform>>,
    ) -> TableDef {
        let few = self.of_columns(|id| inputs.contains(&id));
        match compile(&few).is_some_and(|again| again.inputs() == inputs) {
            true => few,
            false => self.of_columns(|_| true),
        }
    }

    /// Whether a unique index says that no two rows have the same values in these columns.
    pub fn is_unique_by(&self, columns: &[ColumnId]) -> bool {
        let mut unique = self.indexes.iter().filter(|index| index.spec.unique);
        unique.any(|index| index.spec.key.iter().all(|part| columns.contains(&part.column)))
    }

    /// The primary key's index.
    pub fn primary_key(&self) -> Option<&IndexDef> {
        self.constraints.iter().find_map(|c| match c.kind {
            ConstraintKind::PrimaryKey(i) => self.index_by_id(i),
            _ => None,
        })
    }

    /// Its checks.
    pub fn checks(&self) -> impl Iterator<Item = (&str, &CheckDef)> {
        self.constraints.iter().filter_map(|c| match &c.kind {
            ConstraintKind::Check(check) => Some((c.name.as_str(), check)),
            _ => None,
        })
    }

    /// Its foreign keys.
    pub fn foreign_keys(&self) -> impl Iterator<Item = (&str, &ForeignKeyDef)> {
        self.constraints.iter().filter_map(|c| match &c.kind {
            ConstraintKind::ForeignKey(fk) => Some((c.name.as_str(), fk)),
            _ => None,
        })
    }

    /// Whether one of its foreign keys is to itself.
    pub(crate) fn refers_to_itself(&self) -> bool {
        self.foreign_keys().any(|(_, key)| key.parent == self.id)
    }

    /// Columns and indexes as the engine sees them.
    pub fn layout(&self) -> Layout {
        let columns = self
            .all_columns()
            .map(|c| ColumnSpec { id: c.id, ty: c.ty, missing: c.missing.clone() })
            .collect();
        let indexes = self.indexes.iter().map(|i| i.spec.clone()).collect();
        Layout { columns, indexes, row_key: self.row_key }
    }

    /// What is said of its columns' dictionaries; of all others the server decides.
    pub fn dictionaries(&self) -> Vec<(ColumnId, Dictionary)> {
        let said = |c: &ColumnDef| Some((c.id, c.dictionary.or(self.dictionary)?));
        self.columns.iter().filter_map(said).collect()
    }
}

/// A sequence. Its value is not here: it is a note in the log, outside transactions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequenceDef {
    /// Its id.
    pub id: ObjectId,
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// Its declared type's oid (int2, int4, int8).
    pub type_oid: u32,
    /// START
    pub start: i64,
    /// INCREMENT, not 0
    pub increment: i64,
    /// MINVALUE
    pub min: i64,
    /// MAXVALUE
    pub max: i64,
    /// CYCLE
    pub cycle: bool,
    /// The column it goes with (serial).
    pub owned_by: Option<(ObjectId, ColumnId)>,
}

/// Any object, as stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ObjectDef {
    /// A table.
    Table(TableDef),
    /// A sequence.
    Sequence(SequenceDef),
    /// An index's name; what it is stands with its table.
    Index(IndexName),
    /// One without rows.
    Plain(PlainDef),
    /// A role.
    Role(RoleDef),
}

/// An index's own row in the catalog: keeps its name unique among relations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexName {
    /// The index's object id.
    pub id: ObjectId,
    /// Its table's schema.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// Its table.
    pub table: ObjectId,
}

impl ObjectDef {
    /// Its id.
    pub fn id(&self) -> ObjectId {
        match self {
            ObjectDef::Table(t) => t.id,
            ObjectDef::Sequence(s) => s.id,
            ObjectDef::Index(i) => i.id,
            ObjectDef::Plain(p) => p.id(),
            ObjectDef::Role(r) => r.id,
        }
    }

    /// What users call it; a comment has no name.
    pub fn name(&self) -> &str {
        match self {
            ObjectDef::Table(t) => &t.name,
            ObjectDef::Sequence(s) => &s.name,
            ObjectDef::Index(i) => &i.name,
            ObjectDef::Plain(p) => p.name(),
            ObjectDef::Role(r) => &r.name,
        }
    }

    /// Whether it goes with a session.
    pub(crate) fn is_temporary(&self) -> bool {
        let schema = match self {
            ObjectDef::Table(t) => &t.schema,
            ObjectDef::Sequence(s) => &s.schema,
            ObjectDef::Index(i) => &i.schema,
            ObjectDef::Plain(PlainDef::Schema(s)) => &s.name,
            ObjectDef::Plain(p) => {
                return p.schema().is_some_and(|s| s.starts_with(TEMPORARY_PREFIX));
            }
            ObjectDef::Role(_) => return false,
        };
        schema.starts_with(TEMPORARY_PREFIX)
    }

    /// No two objects have the same: of relations schema and name.
    pub(crate) fn key(&self) -> String {
        match self {
            ObjectDef::Table(t) => format!("{}.{}", t.schema, t.name),
            ObjectDef::Sequence(s) => format!("{}.{}", s.schema, s.name),
            ObjectDef::Index(i) => format!("{}.{}", i.schema, i.name),
            ObjectDef::Plain(p) => p.key(),
            ObjectDef::Role(r) => format!("{ROLE_NAMES}.{}", r.name),
        }
    }

    /// The error where another object has the key.
    pub(crate) fn already_exists(&self) -> SchemaError {
        if let ObjectDef::Plain(p) = self {
            return p.already_exists();
        }
        let name = self.name();
        SchemaError::refused(
            SqlState::DUPLICATE_TABLE,
            format!("relation \"{name}\" already exists"),
        )
    }
}
