//! CREATE TABLE, DROP TABLE, TRUNCATE.

use datafusion::sql::sqlparser::ast::{
    self, CascadeOption, CreateTable, ObjectName, TableConstraint, Truncate, TruncateIdentityOption,
};
use froglet_engine::SqlState;
use froglet_schema::{Change, NewColumn, NewTable, ObjectId, TableDef};

use crate::apply::Stop;
use crate::ddl::Ddl;
use crate::ddl_column::{self, ColumnPlan, Source};
use crate::error::SqlError;
use crate::resolve::{self, Names};
use crate::table_like::Like;
use crate::temporary::{AtCommit, is_temporary};
use crate::{storage_options, stored, stored_names};

/// The most columns of a table, as in PostgreSQL.
const MAX_COLUMNS: usize = 1600;

impl Ddl<'_> {
    pub(crate) async fn create_table(&mut self, create: &CreateTable) -> Result<String, Stop> {
        let options = storage_options::of_new_table(&create.table_options)?;
        let (dictionary, home) = (options.dictionary, self.home(options.method)?);
        let Some((schema, name)) = self.free_name(create).await? else {
            return Ok("CREATE TABLE".to_owned());
        };
        let mut plans = Vec::with_capacity(create.columns.len());
        let mut likes = Vec::new();
        for column in &create.columns {
            match self.like(column)? {
                Some((like, columns)) => {
                    plans.extend(columns);
                    likes.push(like);
                }
                None => {
                    let plan = ddl_column::plan(column)?;
                    self.check_type(plan.column.sql_type.oid)?;
                    plans.push(plan);
                }
            }
        }
        refuse_duplicates(plans.iter().map(|plan| plan.column.name.as_str()))?;
        let owned = self.compile_sources(&schema, &name, &mut plans).await?;
        let columns: Vec<NewColumn> = plans.iter().map(|plan| plan.column.clone()).collect();
        let draft = ddl_column::draft(&schema, &name, &columns);
        let mut constraints: Vec<_> = likes.iter().flat_map(Like::constraints).collect();
        for constraint in written(&plans, &create.constraints) {
            constraints.push(self.constraint(constraint, &draft, None, &constraints)?);
        }
        let new = NewTable { schema, name, columns, constraints, dictionary, home };
        let id = self.apply(Change::CreateTable(new)).await?.ok_or(Stop::Restart)?;
        self.on_commit.extend(AtCommit::of(id, create.on_commit));
        self.own_sequences(id, owned).await?;
        for like in &likes {
            self.indexes_like(like, id).await?;
        }
        Ok("CREATE TABLE".to_owned())
    }

    /// The schema and name of a table to be made; `None` where it is there and may be.
    pub(crate) async fn free_name(
        &mut self,
        create: &CreateTable,
    ) -> Result<Option<(String, String)>, Stop> {
        refuse_forms(create)?;
        let (schema, name) = Names::parts(&create.name)?;
        let schema = match create.temporary {
            true => self.temporary_schema_of(schema).await?,
            false => self.names().creation_schema(schema)?,
        };
        if self.names().find(Some(&schema), &name).is_none() {
            return Ok(Some((schema, name)));
        }
        let message = format!("relation \"{name}\" already exists");
        if !create.if_not_exists {
            return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message).into());
        }
        self.notice(SqlState::DUPLICATE_TABLE, format!("{message}, skipping"));
        Ok(None)
    }

    /// Makes the sequences of serial columns and writes every column's default. Returns which
    /// sequence goes with which column.
    async fn compile_sources(
        &mut self,
        schema: &str,
        table: &str,
        plans: &mut [ColumnPlan],
    ) -> Result<Vec<(ObjectId, String)>, Stop> {
        // Others look whether a column is generated before it is known how.
        let column = |plan: &ColumnPlan| match plan.source {
            Source::Generated(_) => {
                NewColumn { default: Some(stored::of_generated("NULL")), ..plan.column.clone() }
            }
            _ => plan.column.clone(),
        };
        let columns: Vec<NewColumn> = plans.iter().map(column).collect();
        let draft = ddl_column::draft(schema, table, &columns);
        let mut owned = Vec::new();
        for plan in plans {
            if let Some(sequence) = self.compile_source(&draft, plan).await? {
                owned.push((sequence, plan.column.name.clone()));
            }
        }
        Ok(owned)
    }

    /// A default as it is stored.
    pub(crate) fn default_of(&self, expr: &ast::Expr) -> froglet_schema::Expression {
        let mut expr = expr.clone();
        stored_names::to_numbers(&mut expr, &self.names());
        froglet_schema::Expression(stored::text_of(&expr))
    }

    /// Writes one column's default. A serial column's sequence is made, and returned.
    pub(crate) async fn compile_source(
        &mut self,
        draft: &TableDef,
        plan: &mut ColumnPlan,
    ) -> Result<Option<ObjectId>, Stop> {
        match plan.source.clone() {
            Source::Nothing => Ok(None),
            Source::Default(expr) => {
                self.check_default(&expr, &plan.column)?;
                plan.column.default = Some(self.default_of(&expr));
                Ok(None)
            }
            Source::Sequence(serial) => {
                let (id, nextval) =
                    self.column_sequence(draft, &plan.column, &serial.options).await?;
                plan.column.default = Some(match serial.identity {
                    Some(always) => stored::store_identity(always, &nextval),
                    None => froglet_schema::Expression(nextval),
                });
                Ok(Some(id))
            }
            Source::Generated(expr) => {
                self.check_generated(&expr, draft, &plan.column)?;
                let mut expr = expr;
                stored_names::to_numbers(&mut expr, &self.names());
                let id_of = |name: &str| draft.column(name).map(|c| c.id);
                plan.column.default = Some(stored::store_generated(&expr, &draft.name, &id_of)?);
                Ok(None)
            }
        }
    }

    /// Sequences of serial columns go with them.
    pub(crate) async fn own_sequences(
        &mut self,
        table: ObjectId,
        owned: Vec<(ObjectId, String)>,
    ) -> Result<(), Stop> {
        for (sequence, column) in owned {
            let table = self.table_by_id(table)?;
            let column = table.def.column(&column).ok_or(Stop::Restart)?.id;
            let def = self.version.sequences.get(&sequence).ok_or(Stop::Restart)?;
            let mut def = (**def).clone();
            def.owned_by = Some((table.def.id, column));
            self.apply(Change::AlterSequence(def)).await?;
        }
        Ok(())
    }

    pub(crate) async fn drop_tables(
        &mut self,
        names: &[ObjectName],
        if_exists: bool,
        cascade: bool,
    ) -> Result<String, Stop> {
        let mut tables = Vec::new();
        for name in names {
            if self.drop_unreadable(name, cascade).await? {
                continue;
            }
            match self.names().relation(name)? {
                Some(_) => {
                    let found = self.names().plain_table(name);
                    let hint = self.how_to_drop(name)?;
                    tables.push(found.map_err(|e| e.hint(hint))?.def.id);
                }
                None if if_exists => self.skip("table", name)?,
                None => {
                    let (_, table) = Names::parts(name)?;
                    return Err(SqlError::new(
                        SqlState::UNDEFINED_TABLE,
                        format!("table \"{table}\" does not exist"),
                    )
                    .into());
                }
            }
        }
        tables.sort_unstable();
        tables.dedup();
        let going = tables.clone();
        // A table whose children go in the same statement needs no CASCADE: children first.
        while !tables.is_empty() {
            let free = tables.iter().position(|id| {
                self.version.tables.get(id).is_none_or(|t| {
                    t.def.referenced_by.iter().all(|child| child == id || !tables.contains(child))
                })
            });
            let id = tables.swap_remove(free.unwrap_or(0));
            let in_circle = free.is_none();
            let name = self.table_by_id(id)?.def.name.clone();
            self.release(id, &format!("table {name}"), &going, cascade).await?;
            self.release_sequences(id, None, &going, cascade).await?;
            self.apply(Change::DropTable { table: id, cascade: cascade || in_circle }).await?;
        }
        Ok("DROP TABLE".to_owned())
    }

    pub(crate) async fn truncate(&mut self, truncate: &Truncate) -> Result<String, Stop> {
        if truncate.partitions.is_some() {
            return Err(SqlError::unsupported("TRUNCATE of partitions").into());
        }
        let cascade = truncate.cascade == Some(CascadeOption::Cascade);
        let mut tables: Vec<ObjectId> = Vec::new();
        for target in &truncate.table_names {
            let id = self.names().plain_table(&target.name)?.def.id;
            if !tables.contains(&id) {
                tables.push(id);
            }
        }
        let mut at = 0;
        while at < tables.len() {
            let table = self.table_by_id(tables[at])?;
            for child in &table.def.referenced_by {
                if tables.contains(child) {
                    continue;
                }
                if !cascade {
                    return Err(self.referenced(&table.def, *child).into());
                }
                let name = self.table_by_id(*child)?.def.name.clone();
                self.notice(
                    SqlState::SUCCESSFUL_COMPLETION,
                    format!("truncate cascades to table \"{name}\""),
                );
                tables.push(*child);
            }
            at += 1;
        }
        let restart = truncate.identity == Some(TruncateIdentityOption::Restart);
        for table in tables {
            if restart {
                self.restart_owned(table)?;
            }
            self.apply(Change::Truncate { table }).await?;
        }
        Ok("TRUNCATE TABLE".to_owned())
    }

    fn referenced(&self, table: &TableDef, child: ObjectId) -> SqlError {
        let child = self.version.tables.get(&child);
        let key = child.and_then(|c| c.def.foreign_keys().find(|(_, fk)| fk.parent == table.id));
        let error = SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "cannot truncate a table referenced in a foreign key constraint",
        )
        .hint("Truncate the referencing table at the same time, or use TRUNCATE ... CASCADE.");
        match (child, key) {
            (Some(child), Some((name, _))) => error.detail(format!(
                "Table \"{}\" references \"{}\" via foreign key constraint \"{name}\".",
                child.def.name, table.name
            )),
            _ => error,
        }
    }
}

/// Constraints in the order in which they are made: keys before what may refer to them.
fn written<'a>(plans: &'a [ColumnPlan], table: &'a [TableConstraint]) -> Vec<&'a TableConstraint> {
    let mut all: Vec<&TableConstraint> =
        plans.iter().flat_map(|plan| &plan.constraints).chain(table).collect();
    all.sort_by_key(|constraint| match constraint {
        TableConstraint::PrimaryKey(_) => 0,
        TableConstraint::Unique(_) => 1,
        TableConstraint::ForeignKey(_) => 3,
        _ => 2,
    });
    all
}

pub(crate) fn refuse_duplicates<'a>(
    mut columns: impl ExactSizeIterator<Item = &'a str>,
) -> Result<(), SqlError> {
    if columns.len() > MAX_COLUMNS {
        return Err(SqlError::new(
            SqlState::new("54011"),
            format!("tables can have at most {MAX_COLUMNS} columns"),
        ));
    }
    let mut names = std::collections::HashSet::new();
    match columns.find(|name| !names.insert(*name)) {
        Some(name) => Err(SqlError::new(
            SqlState::DUPLICATE_COLUMN,
            format!("column \"{name}\" specified more than once"),
        )),
        None => Ok(()),
    }
}

fn refuse_forms(create: &CreateTable) -> Result<(), SqlError> {
    let forms = [
        (create.like.is_some(), "CREATE TABLE (LIKE …)"),
        (create.inherits.is_some(), "INHERITS"),
        (create.partition_by.is_some() || create.partition_of.is_some(), "partitioning"),
        (create.external || create.or_replace, "this form of CREATE TABLE"),
        (create.clone.is_some(), "CLONE"),
        (create.on_commit.is_some() && !create.temporary, "ON COMMIT of a table that stays"),
    ];
    if let Some((_, what)) = forms.iter().find(|(present, _)| *present) {
        return Err(SqlError::unsupported(what));
    }
    Ok(())
}

impl Ddl<'_> {
    /// The id of a foreign key's parent; `None` for the table itself.
    pub(crate) fn parent(
        &self,
        name: &ObjectName,
        child: &TableDef,
    ) -> Result<Option<ObjectId>, SqlError> {
        let (schema, parent) = Names::parts(name)?;
        let same_schema = schema.as_ref().is_none_or(|schema| *schema == child.schema);
        if same_schema && parent == child.name {
            return Ok(None);
        }
        match self.names().relation(name)? {
            Some(resolve::Relation::Table(table))
                if is_temporary(&table.def.schema) != is_temporary(&child.schema) =>
            {
                let kind = if is_temporary(&child.schema) { "temporary" } else { "permanent" };
                Err(SqlError::new(
                    SqlState::new("42P16"),
                    format!("constraints on {kind} tables may reference only {kind} tables"),
                ))
            }
            Some(resolve::Relation::Table(table)) => Ok(Some(table.def.id)),
            Some(_) => Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("referenced relation \"{parent}\" is not a table"),
            )),
            None => Err(resolve::no_relation(&parent)),
        }
    }
}
