//! Schema changes as pure functions: a table's definition before, and after, and what the data
//! needs. Nothing here touches a row, a transaction or an engine.

use std::sync::Arc;

use froglet_engine::{
    ColumnId, Dictionary, IndexId, IndexSpec, KeyPart, NullKeys, SqlState, Value,
};

use crate::change::{
    Check, Fill, LazyFill, NewColumn, NewConstraint, NewForeignKey, NewHidden, NewIndex, NewKey,
    NewKeyPart, NewType, Transform,
};
use crate::def::{
    CheckDef, ColumnDef, ConstraintDef, ConstraintKind, Expression, ForeignKeyDef, HiddenColumn,
    IndexDef, ObjectId, TableDef, Timing,
};
use crate::error::SchemaError;
use crate::pairing;

/// What the data needs for a change, by ids.
pub enum Work {
    /// Compute a column.
    Fill {
        /// The new column.
        target: ColumnId,
        /// How.
        transform: Arc<dyn Transform>,
        /// It must not be NULL.
        not_null: bool,
        /// It is computed after the commit.
        lazily: Option<LazyFill>,
    },
    /// Check a condition, as long as it is demanded.
    Verify(Arc<dyn Check>, Demand),
    /// Fill an index.
    Index(IndexId),
    /// Verify a foreign key of the new definition, by its constraint's name.
    ForeignKey(String),
    /// The same, of one that holds for all rows as it did: only writers under the older schema are asked.
    KeptForeignKey(String),
}

/// What of a definition demands that a condition holds.
#[derive(Clone, Copy, Debug)]
pub enum Demand {
    /// The change itself.
    Change,
    /// A constraint.
    Constraint(ObjectId),
    /// NOT NULL
    NotNull(ColumnId),
}

impl Demand {
    /// Whether a definition demands it still.
    pub fn is_in(self, def: &TableDef) -> bool {
        match self {
            Demand::Change => true,
            Demand::Constraint(id) => def.constraints.iter().any(|c| c.id == id && !c.not_valid),
            Demand::NotNull(id) => def.column_by_id(id).is_some_and(|column| column.not_null),
        }
    }
}

impl Work {
    /// Whether every row is looked at.
    pub fn is_of_rows(&self) -> bool {
        !matches!(self, Work::KeptForeignKey(_))
    }
}

/// What has got another number.
#[derive(Clone, Debug, Default)]
pub struct NewIds {
    /// Columns: before, and after.
    pub columns: Vec<(ColumnId, ColumnId)>,
    /// Those, as they are now, whose values are equal to what they were ([`NewType::is_exact`]).
    pub exact: Vec<ColumnId>,
    /// Indexes: before, and after.
    pub indexes: Vec<(IndexId, IndexId)>,
}

impl NewIds {
    /// The numbers that columns have now.
    fn renumber(&self, columns: &mut [ColumnId]) {
        for column in columns {
            if let Some((_, new)) = self.columns.iter().find(|(old, _)| old == column) {
                *column = *new;
            }
        }
    }

    /// The number that an index has now.
    fn index(&self, id: IndexId) -> IndexId {
        self.indexes.iter().find(|(old, _)| *old == id).map_or(id, |(_, new)| *new)
    }

    /// The parent's side of a foreign key to the table.
    pub fn follow(&self, key: &mut ForeignKeyDef) {
        self.renumber(&mut key.parent_columns);
        key.parent_index = self.index(key.parent_index);
    }

    /// Whether a column of the table has the values that it had.
    pub fn is_equal(&self, id: ColumnId) -> bool {
        self.exact.contains(&id) || self.columns.iter().all(|(_, new)| *new != id)
    }
}

/// A changed definition.
pub struct Edited {
    /// After.
    pub def: TableDef,
    /// What the data needs, in order.
    pub work: Vec<Work>,
    /// Indexes that only the old versions have.
    pub old_indexes: Vec<IndexDef>,
    /// What others know by another number.
    pub new_ids: NewIds,
}

impl Edited {
    pub(crate) fn of(def: &TableDef) -> Edited {
        Edited { def: def.clone(), work: vec![], old_indexes: vec![], new_ids: NewIds::default() }
    }
}

/// Gives out object ids.
pub type NextId<'a> = &'a mut dyn FnMut() -> Result<ObjectId, SchemaError>;

fn undefined_column(def: &TableDef, column: &str) -> SchemaError {
    SchemaError::refused(
        SqlState::UNDEFINED_COLUMN,
        format!("column \"{column}\" of relation \"{}\" does not exist", def.name),
    )
}

fn column_mut<'a>(def: &'a mut TableDef, column: &str) -> Result<&'a mut ColumnDef, SchemaError> {
    match def.columns.iter().position(|c| c.name == column) {
        Some(i) => Ok(&mut def.columns[i]),
        None => Err(undefined_column(def, column)),
    }
}

fn fresh_column_name(def: &TableDef, name: &str) -> Result<(), SchemaError> {
    if def.column(name).is_some() {
        return Err(SchemaError::refused(
            SqlState::DUPLICATE_COLUMN,
            format!("column \"{name}\" of relation \"{}\" already exists", def.name),
        ));
    }
    Ok(())
}

/// The most columns of a table, as in PostgreSQL.
const MAX_COLUMNS: usize = 1600;

fn place_for_one_more(def: &TableDef) -> Result<(), SchemaError> {
    if def.columns.len() >= MAX_COLUMNS {
        return Err(SchemaError::refused(
            SqlState::TOO_MANY_COLUMNS,
            format!("tables can have at most {MAX_COLUMNS} columns"),
        ));
    }
    Ok(())
}

/// ADD COLUMN, under an id that the table never had.
pub fn add_column(
    def: &TableDef,
    id: ColumnId,
    new: NewColumn,
    fill: Fill,
) -> Result<Edited, SchemaError> {
    fresh_column_name(def, &new.name)?;
    place_for_one_more(def)?;
    let mut edited = Edited::of(def);
    let missing = match &fill {
        Fill::Constant(value) => value.clone(),
        Fill::Compute(..) => Value::Null,
    };
    if let (Fill::Constant(Value::Null), true) = (&fill, new.not_null) {
        let name = new.name.clone();
        let error = not_null_violation(&def.name, &name);
        edited.work.push(Work::Verify(Arc::new(NoRows(error)), Demand::NotNull(id)));
    }
    if let Fill::Compute(transform, lazily) = fill {
        edited.work.push(Work::Fill { target: id, transform, not_null: new.not_null, lazily });
    }
    edited.def.columns.push(ColumnDef {
        id,
        name: new.name,
        ty: new.ty,
        sql_type: new.sql_type,
        not_null: new.not_null,
        default: new.default,
        missing,
        dictionary: None,
        labels: Vec::new(),
    });
    Ok(edited)
}

/// A check that no row passes: a NOT NULL column without a value needs an empty table.
struct NoRows(Arc<dyn Fn() -> SchemaError + Send + Sync>);

impl Check for NoRows {
    fn inputs(&self) -> &[ColumnId] {
        &[]
    }

    fn eval(
        &self,
        batch: &arrow_array::RecordBatch,
    ) -> Result<arrow_array::BooleanArray, SchemaError> {
        Ok(vec![false; batch.num_rows()].into())
    }

    fn violation(&self, _row: &[Value]) -> SchemaError {
        (self.0)()
    }
}

/// 23502 for a column that holds NULLs.
pub fn not_null_violation(table: &str, column: &str) -> Arc<dyn Fn() -> SchemaError + Send + Sync> {
    let message = format!("column \"{column}\" of relation \"{table}\" contains null values");
    Arc::new(move || SchemaError::refused(SqlState::NOT_NULL_VIOLATION, message.clone()))
}

/// DROP COLUMN: indexes and constraints over it go too; foreign keys of other tables that point
/// to it do not let it.
pub fn drop_column(def: &TableDef, column: &str) -> Result<Edited, SchemaError> {
    let mut edited = Edited::of(def);
    let id = column_mut(&mut edited.def, column)?.id;
    let gone: Vec<IndexId> =
        def.indexes.iter().filter(|i| uses(def, i, id)).map(|i| i.spec.id).collect();
    edited.def.constraints.retain(|c| match &c.kind {
        ConstraintKind::PrimaryKey(i) | ConstraintKind::Unique(i) => !gone.contains(i),
        ConstraintKind::Check(check) => !check.columns.contains(&id),
        ConstraintKind::ForeignKey(fk) => !fk.columns.contains(&id),
    });
    edited.def.columns.retain(|c| c.id != id);
    drop_indexes(&mut edited, &gone);
    Ok(edited)
}

/// Whether an index is over a column, includes it, or is computed from it.
pub fn uses(def: &TableDef, index: &IndexDef, column: ColumnId) -> bool {
    index.notes.include.contains(&column)
        || index.spec.key.iter().any(|part| {
            let hidden = def.hidden_column(part.column);
            part.column == column || hidden.is_some_and(|h| h.inputs.contains(&column))
        })
}

fn drop_indexes(edited: &mut Edited, gone: &[IndexId]) {
    let (old, kept) =
        edited.def.indexes.drain(..).partition(|i: &IndexDef| gone.contains(&i.spec.id));
    edited.def.indexes = kept;
    let TableDef { hidden, indexes, .. } = &mut edited.def;
    let is_used = |id| indexes.iter().any(|i| i.spec.key.iter().any(|part| part.column == id));
    hidden.retain(|hidden| is_used(hidden.column.id));
    edited.old_indexes.extend::<Vec<_>>(old);
}

/// UNDROP COLUMN: the column under its old id. Rows have its values, or its missing value.
pub fn restore_column(def: &TableDef, column: ColumnDef, at: usize) -> Result<Edited, SchemaError> {
    fresh_column_name(def, &column.name)?;
    place_for_one_more(def)?;
    debug_assert!(def.column_by_id(column.id).is_none(), "a column that is there is not restored");
    let mut edited = Edited::of(def);
    edited.def.columns.insert(at.min(def.columns.len()), column);
    Ok(edited)
}

/// RENAME COLUMN
pub fn rename_column(def: &TableDef, column: &str, name: &str) -> Result<Edited, SchemaError> {
    let mut edited = Edited::of(def);
    column_mut(&mut edited.def, column)?;
    fresh_column_name(def, name)?;
    column_mut(&mut edited.def, column)?.name = name.to_owned();
    Ok(edited)
}

/// A check of a column that has got another id.
struct Renumbered {
    check: Arc<dyn Check>,
    inputs: Vec<ColumnId>,
}

impl Check for Renumbered {
    fn inputs(&self) -> &[ColumnId] {
        &self.inputs
    }

    fn eval(
        &self,
        batch: &arrow_array::RecordBatch,
    ) -> Result<arrow_array::BooleanArray, SchemaError> {
        self.check.eval(batch)
    }

    fn violation(&self, row: &[Value]) -> SchemaError {
        self.check.violation(row)
    }

    fn recipe(&self) -> Option<&str> {
        self.check.recipe()
    }
}

/// ALTER COLUMN TYPE: new column ids in the old ones' places; indexes over them are built anew, when all are filled.
pub fn alter_types(
    def: &TableDef,
    columns: Vec<NewType>,
    checks: Vec<Arc<dyn Check>>,
    next_id: NextId<'_>,
) -> Result<Edited, SchemaError> {
    let mut edited = Edited::of(def);
    let mut new_ids = NewIds::default();
    for new in columns {
        let new_id = ColumnId(next_id()?);
        let target = column_mut(&mut edited.def, &new.column)?;
        target.sql_type = new.sql_type;
        target.labels.clear();
        target.default = new.default;
        let Some(transform) = new.using else {
            debug_assert_eq!(target.ty, new.ty, "without a transform the stored type stays");
            continue;
        };
        new_ids.columns.push((target.id, new_id));
        new_ids.exact.extend(new.is_exact.then_some(new_id));
        target.ty = new.ty;
        target.id = new_id;
        target.missing = Value::Null;
        let (not_null, lazily) = (target.not_null, new.lazily);
        edited.work.push(Work::Fill { target: new_id, transform, not_null, lazily });
    }
    if new_ids.columns.is_empty() {
        return Ok(edited);
    }
    for check in checks {
        let mut inputs = check.inputs().to_vec();
        new_ids.renumber(&mut inputs);
        let check = Arc::new(Renumbered { check, inputs });
        edited.work.push(Work::Verify(check, Demand::Change));
    }
    for index in &mut edited.def.indexes {
        new_ids.renumber(&mut index.notes.include);
        let is_over = |part: &KeyPart| new_ids.columns.iter().any(|(old, _)| *old == part.column);
        if !index.spec.key.iter().any(is_over) {
            continue;
        }
        edited.old_indexes.push(index.clone());
        let old_index = index.spec.id;
        index.spec.id = IndexId(next_id()?);
        for part in &mut index.spec.key {
            new_ids.renumber(std::slice::from_mut(&mut part.column));
        }
        new_ids.indexes.push((old_index, index.spec.id));
        edited.work.push(Work::Index(index.spec.id));
    }
    for constraint in &mut edited.def.constraints {
        match &mut constraint.kind {
            ConstraintKind::Check(check) => new_ids.renumber(&mut check.columns),
            ConstraintKind::ForeignKey(fk) => {
                new_ids.renumber(&mut fk.columns);
                if fk.parent == def.id {
                    new_ids.follow(fk);
                }
            }
            ConstraintKind::PrimaryKey(i) | ConstraintKind::Unique(i) => *i = new_ids.index(*i),
        }
    }
    edited.new_ids = new_ids;
    Ok(edited)
}

/// SET NOT NULL, DROP NOT NULL
pub fn set_not_null(
    def: &TableDef,
    column: &str,
    not_null: bool,
    check: Option<Arc<dyn Check>>,
) -> Result<Edited, SchemaError> {
    let mut edited = Edited::of(def);
    let target = column_mut(&mut edited.def, column)?;
    let was = std::mem::replace(&mut target.not_null, not_null);
    let id = target.id;
    let in_key = def.primary_key().is_some_and(|i| i.spec.key.iter().any(|p| p.column == id));
    if !not_null && in_key {
        return Err(SchemaError::refused(
            SqlState::INVALID_TABLE_DEFINITION,
            format!("column \"{column}\" is in a primary key"),
        ));
    }
    if let (false, Some(check)) = (was, check) {
        edited.work.push(Work::Verify(check, Demand::NotNull(id)));
    }
    Ok(edited)
}

/// SET DEFAULT, DROP DEFAULT
pub fn set_default(
    def: &TableDef,
    column: &str,
    default: Option<Expression>,
) -> Result<Edited, SchemaError> {
    let mut edited = Edited::of(def);
    column_mut(&mut edited.def, column)?.default = default;
    Ok(edited)
}

/// The option `dictionary` of a table, or of one of its columns.
pub fn set_dictionary(
    def: &TableDef,
    column: Option<&str>,
    dictionary: Option<Dictionary>,
) -> Result<Edited, SchemaError> {
    let mut edited = Edited::of(def);
    match column {
        Some(column) => column_mut(&mut edited.def, column)?.dictionary = dictionary,
        None => edited.def.dictionary = dictionary,
    }
    Ok(edited)
}

fn bind_columns(def: &TableDef, columns: &[String]) -> Result<Vec<ColumnId>, SchemaError> {
    let missing = |name: &String| {
        SchemaError::refused(
            SqlState::UNDEFINED_COLUMN,
            format!("column \"{name}\" named in key does not exist"),
        )
    };
    columns.iter().map(|name| def.column(name).map(|c| c.id).ok_or_else(|| missing(name))).collect()
}

/// CREATE INDEX. Returns the engine's id of it beside the edit.
pub fn create_index(
    def: &TableDef,
    new: &NewIndex,
    taken: &dyn Fn(&str) -> bool,
    next_id: NextId<'_>,
) -> Result<(Edited, IndexId), SchemaError> {
    let mut edited = Edited::of(def);
    let id = add_index(&mut edited, new, "idx", taken, next_id)?;
    Ok((edited, id))
}

fn add_index(
    edited: &mut Edited,
    new: &NewIndex,
    suffix: &str,
    taken: &dyn Fn(&str) -> bool,
    next_id: NextId<'_>,
) -> Result<IndexId, SchemaError> {
    let hidden = add_hidden(edited, &new.hidden, next_id)?;
    let is_hidden = |name: &String| new.hidden.iter().position(|h| h.column.name == *name);
    let mut key = Vec::with_capacity(new.columns.len());
    for part in &new.columns {
        let id = match is_hidden(&part.column) {
            Some(at) => hidden[at],
            None => bind_columns(&edited.def, std::slice::from_ref(&part.column))?[0],
        };
        key.push(part.bound(id));
    }
    let names: Vec<String> = match new.name_parts.is_empty() {
        true => new.columns.iter().map(|part| part.column.clone()).collect(),
        false => new.name_parts.clone(),
    };
    let nulls = match (new.nulls_equal, new.notes.partial) {
        (false, _) => NullKeys::Distinct,
        (true, false) => NullKeys::Equal,
        (true, true) => NullKeys::EqualButFirst,
    };
    let object = next_id()?;
    let id = IndexId(object);
    let name = match &new.name {
        Some(name) => name.clone(),
        None if suffix == "pkey" => choose_name(&edited.def.name, &[], suffix, taken),
        None => choose_name(&edited.def.name, &names, suffix, taken),
    };
    let notes = new.notes.clone();
    edited.def.indexes.push(IndexDef {
        id: object,
        name,
        spec: IndexSpec {
            id,
            key,
            unique: new.unique,
            unique_at_commit: new.unique_at_commit,
            nulls,
        },
        notes,
    });
    edited.work.push(Work::Index(id));
    Ok(id)
}

/// Hidden columns of a new index, computed for every row before it is built.
fn add_hidden(
    edited: &mut Edited,
    new: &[NewHidden],
    next_id: NextId<'_>,
) -> Result<Vec<ColumnId>, SchemaError> {
    let mut ids = Vec::with_capacity(new.len());
    for NewHidden { column, transform, shown } in new {
        let id = ColumnId(next_id()?);
        ids.push(id);
        let inputs = transform.inputs().to_vec();
        let transform = transform.clone();
        edited.work.push(Work::Fill { target: id, transform, not_null: false, lazily: None });
        let column = ColumnDef {
            id,
            name: column.name.clone(),
            ty: column.ty,
            sql_type: column.sql_type,
            not_null: false,
            default: column.default.clone(),
            missing: Value::Null,
            dictionary: None,
            labels: Vec::new(),
        };
        edited.def.hidden.push(HiddenColumn { column, inputs, shown: shown.clone() });
    }
    Ok(ids)
}

/// The longest name, in bytes.
const MAX_NAME_BYTES: usize = 63;

/// PostgreSQL's way of naming: table_column_suffix, then a number.
pub fn choose_name(
    table: &str,
    columns: &[String],
    suffix: &str,
    taken: &dyn Fn(&str) -> bool,
) -> String {
    let columns = columns.join("_");
    let numbered = |n: u64| match n {
        0 => joined(table, &columns, suffix),
        n => joined(table, &columns, &format!("{suffix}{n}")),
    };
    (0..).map(numbered).find(|name| !taken(name)).expect("numbers do not run out")
}

/// Three parts, of which the longer of the first two is cut until all fit into a name (makeObjectName).
fn joined(table: &str, columns: &str, suffix: &str) -> String {
    let separators = if columns.is_empty() { 1 } else { 2 };
    let room = MAX_NAME_BYTES.saturating_sub(suffix.len() + separators);
    let (mut first, mut second) = (table.len(), columns.len());
    while first + second > room {
        *if first > second { &mut first } else { &mut second } -= 1;
    }
    let cut = |text: &str, mut length: usize| {
        while !text.is_char_boundary(length) {
            length -= 1;
        }
        text[..length].to_owned()
    };
    match columns {
        "" => format!("{}_{suffix}", cut(table, first)),
        columns => format!("{}_{}_{suffix}", cut(table, first), cut(columns, second)),
    }
}

/// What ADD CONSTRAINT needs to know of the rest of the catalog.
pub struct Surroundings<'a> {
    /// Whether a relation has this name.
    pub taken: &'a dyn Fn(&str) -> bool,
    /// The definition of another table.
    pub table: &'a dyn Fn(ObjectId) -> Option<TableDef>,
}

/// ADD CONSTRAINT
pub fn add_constraint(
    def: &TableDef,
    new: NewConstraint,
    around: &Surroundings<'_>,
    next_id: NextId<'_>,
) -> Result<Edited, SchemaError> {
    let mut edited = Edited::of(def);
    let id = next_id()?;
    let mut timing = Timing::NotDeferrable;
    let (name, kind) = match new {
        NewConstraint::PrimaryKey(key) => {
            if def.primary_key().is_some() {
                return Err(SchemaError::refused(
                    SqlState::INVALID_TABLE_DEFINITION,
                    format!("multiple primary keys for table \"{}\" are not allowed", def.name),
                ));
            }
            for column in &key.columns {
                column_mut(&mut edited.def, column)?;
            }
            timing = key.timing;
            let index = key_index(&mut edited, &key, "pkey", around, next_id)?;
            for column in &key.columns {
                set_key_not_null(&mut edited, column)?;
            }
            (
                edited.def.index_by_id(index).expect("just added").name.clone(),
                ConstraintKind::PrimaryKey(index),
            )
        }
        NewConstraint::Unique(key) => {
            timing = key.timing;
            let index = key_index(&mut edited, &key, "key", around, next_id)?;
            (
                edited.def.index_by_id(index).expect("just added").name.clone(),
                ConstraintKind::Unique(index),
            )
        }
        NewConstraint::Check { name, expression, columns, check } => {
            let ids = bind_columns(def, &columns)?;
            let taken = |n: &str| def.constraint(n).is_some();
            let one: Vec<String> = if columns.len() == 1 { columns } else { vec![] };
            let name = name.unwrap_or_else(|| choose_name(&def.name, &one, "check", &taken));
            if let Some(check) = check {
                edited.work.push(Work::Verify(check, Demand::Constraint(id)));
            }
            (name, ConstraintKind::Check(CheckDef { expression, columns: ids }))
        }
        NewConstraint::ForeignKey { name, key } => {
            let taken = |n: &str| def.constraint(n).is_some();
            let chosen =
                name.unwrap_or_else(|| choose_name(&def.name, &key.columns, "fkey", &taken));
            let fk = bind_foreign_key(def, &chosen, &key, around)?;
            edited.work.push(Work::ForeignKey(chosen.clone()));
            (chosen, ConstraintKind::ForeignKey(fk))
        }
    };
    if def.constraint(&name).is_some() {
        return Err(SchemaError::refused(
            SqlState::DUPLICATE_OBJECT,
            format!("constraint \"{name}\" for relation \"{}\" already exists", def.name),
        ));
    }
    edited.def.constraints.push(ConstraintDef { id, name, kind, not_valid: false, timing });
    Ok(edited)
}

fn key_index(
    edited: &mut Edited,
    key: &NewKey,
    suffix: &str,
    around: &Surroundings<'_>,
    next_id: NextId<'_>,
) -> Result<IndexId, SchemaError> {
    let is_deferrable = key.timing != Timing::NotDeferrable;
    let new = NewIndex {
        name: key.name.clone(),
        columns: key.columns.iter().map(NewKeyPart::plain).collect(),
        unique: !is_deferrable,
        unique_at_commit: is_deferrable,
        nulls_equal: key.nulls_equal,
        ..NewIndex::default()
    };
    add_index(edited, &new, suffix, around.taken, next_id)
}

/// A primary key's columns become NOT NULL; those that were not are verified.
pub(crate) fn set_key_not_null(edited: &mut Edited, column: &str) -> Result<(), SchemaError> {
    let table = edited.def.name.clone();
    let target = column_mut(&mut edited.def, column)?;
    if !std::mem::replace(&mut target.not_null, true) {
        let id = target.id;
        let check = NotNull { column: [id], error: not_null_violation(&table, column) };
        edited.work.push(Work::Verify(Arc::new(check), Demand::NotNull(id)));
    }
    Ok(())
}

struct NotNull {
    column: [ColumnId; 1],
    error: Arc<dyn Fn() -> SchemaError + Send + Sync>,
}

impl Check for NotNull {
    fn inputs(&self) -> &[ColumnId] {
        &self.column
    }

    fn eval(
        &self,
        batch: &arrow_array::RecordBatch,
    ) -> Result<arrow_array::BooleanArray, SchemaError> {
        let column = batch.column(0);
        Ok((0..column.len()).map(|i| Some(column.is_valid(i))).collect())
    }

    fn violation(&self, _row: &[Value]) -> SchemaError {
        (self.error)()
    }
}

fn bind_foreign_key(
    def: &TableDef,
    name: &str,
    key: &NewForeignKey,
    around: &Surroundings<'_>,
) -> Result<ForeignKeyDef, SchemaError> {
    let parent = match key.parent {
        None => def.clone(),
        Some(id) if id == def.id => def.clone(),
        Some(id) => (around.table)(id).ok_or(SchemaError::Stale)?,
    };
    let parent_columns = if key.parent_columns.is_empty() {
        let index = parent.primary_key().ok_or_else(|| {
            SchemaError::refused(
                SqlState::UNDEFINED_OBJECT,
                format!("there is no primary key for referenced table \"{}\"", parent.name),
            )
        })?;
        index.spec.key.iter().map(|part| part.column).collect()
    } else {
        bind_columns(&parent, &key.parent_columns)?
    };
    let columns = bind_columns(def, &key.columns)?;
    if columns.len() != parent_columns.len() {
        return Err(SchemaError::refused(
            SqlState::INVALID_FOREIGN_KEY,
            "number of referencing and referenced columns for foreign key disagree",
        ));
    }
    let keys = parent.indexes.iter().filter(|i| {
        i.spec.key.len() == parent_columns.len()
            && i.spec.key.iter().all(|part| parent_columns.contains(&part.column))
    });
    let index = keys.clone().find(|i| i.spec.unique).ok_or_else(|| {
        let (state, what) = match keys.clone().any(|i| i.spec.unique_at_commit) {
            true => (
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                match key.parent_columns.is_empty() {
                    true => "cannot use a deferrable primary key",
                    false => "cannot use a deferrable unique constraint",
                },
            ),
            false => {
                (SqlState::INVALID_FOREIGN_KEY, "there is no unique constraint matching given keys")
            }
        };
        SchemaError::refused(state, format!("{what} for referenced table \"{}\"", parent.name))
    })?;
    let (mut ordered, mut places) = (Vec::new(), Vec::new());
    for part in &index.spec.key {
        let i = parent_columns.iter().position(|c| *c == part.column).expect("checked above");
        ordered.push((columns[i], part.column));
        places.push(i);
    }
    let place =
        |written| places.iter().position(|i| *i == written).and_then(|at| u16::try_from(at).ok());
    let mut declared: Vec<u16> = (0..places.len()).filter_map(place).collect();
    if places.is_sorted() {
        declared.clear();
    }
    for (child, parent_column) in &ordered {
        let (c, p) = (def.column_by_id(*child), parent.column_by_id(*parent_column));
        if let (Some(c), Some(p)) = (c, p) {
            pairing::comparable(name, c, p)?;
        }
    }
    let (columns, parent_columns) = ordered.into_iter().unzip();
    Ok(ForeignKeyDef {
        columns,
        parent: parent.id,
        parent_columns,
        parent_index: index.spec.id,
        on_delete: key.on_delete,
        on_update: key.on_update,
        timing: key.timing,
        declared,
    })
}

/// DROP CONSTRAINT. A key's index goes with it.
pub fn drop_constraint(def: &TableDef, name: &str) -> Result<Edited, SchemaError> {
    let mut edited = Edited::of(def);
    let i = def.constraints.iter().position(|c| c.name == name).ok_or_else(|| {
        SchemaError::refused(
            SqlState::UNDEFINED_OBJECT,
            format!("constraint \"{name}\" of relation \"{}\" does not exist", def.name),
        )
    })?;
    let constraint = edited.def.constraints.remove(i);
    if let ConstraintKind::PrimaryKey(index) | ConstraintKind::Unique(index) = constraint.kind {
        drop_indexes(&mut edited, &[index]);
    }
    Ok(edited)
}

/// DROP INDEX, by its object id.
pub fn drop_index(def: &TableDef, index: ObjectId) -> Result<Edited, SchemaError> {
    let mut edited = Edited::of(def);
    let found = def.indexes.iter().find(|i| i.id == index).ok_or(SchemaError::Stale)?;
    if let Some(constraint) = def.constraint_of_index(found.spec.id) {
        return Err(SchemaError::refused(
            SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
            format!(
                "cannot drop index {} because constraint {} on table {} requires it",
                found.name, constraint.name, def.name
            ),
        )
        .with_hint(format!(
            "You can drop constraint {} on table {} instead.",
            constraint.name, def.name
        )));
    }
    drop_indexes(&mut edited, &[found.spec.id]);
    Ok(edited)
}
