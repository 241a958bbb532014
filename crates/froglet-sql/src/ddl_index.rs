//! CREATE, ALTER and DROP INDEX.

use datafusion::sql::sqlparser::ast::{
    AlterIndexOperation, CreateIndex, Expr, IndexType, ObjectName, OrderByExpr,
};
use froglet_engine::SqlState;
use froglet_schema::change::NewKeyPart;
use froglet_schema::{Change, NewIndex, TableVersion};

use crate::apply::Stop;
use crate::command::fold;
use crate::ddl::Ddl;
use crate::error::SqlError;
use crate::resolve::{self, Names, Relation};

impl Ddl<'_> {
    /// CONCURRENTLY is accepted: no index here blocks anybody.
    pub(crate) async fn create_index(&mut self, create: &CreateIndex) -> Result<String, Stop> {
        refuse_forms(create)?;
        let table = self.table(&create.table_name)?;
        let name = match &create.name {
            Some(name) => Some(Names::parts(name)?.1),
            None => None,
        };
        if let Some(name) = &name
            && self.names().find(Some(&table.def.schema), name).is_some()
        {
            let message = format!("relation \"{name}\" already exists");
            if create.if_not_exists {
                self.notice(SqlState::DUPLICATE_TABLE, format!("{message}, skipping"));
                return Ok("CREATE INDEX".to_owned());
            }
            return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message).into());
        }
        let columns = key_parts(&create.columns.iter().map(|c| &c.column).collect::<Vec<_>>())?;
        for part in &columns {
            if table.def.column(&part.column).is_none() {
                return Err(SqlError::new(
                    SqlState::UNDEFINED_COLUMN,
                    format!("column \"{}\" does not exist", part.column),
                )
                .into());
            }
        }
        let index = NewIndex { name, columns, unique: create.unique };
        self.apply(Change::CreateIndex { table: table.def.id, index }).await?;
        Ok("CREATE INDEX".to_owned())
    }

    pub(crate) async fn alter_index(
        &mut self,
        name: &ObjectName,
        operation: &AlterIndexOperation,
    ) -> Result<String, Stop> {
        let AlterIndexOperation::RenameIndex { index_name } = operation;
        let (table, at) = self.index(name)?.ok_or_else(|| missing(name))?;
        let new = Names::parts(index_name)?.1;
        self.refuse_taken(&table.def.schema, &new)?;
        let index = &table.def.indexes[at];
        let change = match table.def.constraint_of_index(index.spec.id) {
            Some(constraint) => Change::RenameConstraint {
                table: table.def.id,
                constraint: constraint.name.clone(),
                name: new,
            },
            None => Change::RenameIndex { table: table.def.id, index: index.id, name: new },
        };
        self.apply(change).await?;
        Ok("ALTER INDEX".to_owned())
    }

    pub(crate) async fn drop_indexes(
        &mut self,
        names: &[ObjectName],
        if_exists: bool,
        cascade: bool,
    ) -> Result<String, Stop> {
        for name in names {
            let Some((table, at)) = self.index(name)? else {
                if if_exists {
                    self.skip("index", name)?;
                    continue;
                }
                return Err(missing(name).into());
            };
            let index = &table.def.indexes[at];
            if let Some(constraint) = table.def.constraint_of_index(index.spec.id) {
                return Err(SqlError::new(
                    SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                    format!(
                        "cannot drop index {} because constraint {} on table {} requires it",
                        index.name, constraint.name, table.def.name
                    ),
                )
                .hint(format!(
                    "You can drop constraint {} on table {} instead.",
                    constraint.name, table.def.name
                ))
                .into());
            }
            let _ = cascade;
            self.apply(Change::DropIndex { table: table.def.id, index: index.id }).await?;
        }
        Ok("DROP INDEX".to_owned())
    }

    fn index(
        &self,
        name: &ObjectName,
    ) -> Result<Option<(std::sync::Arc<TableVersion>, usize)>, SqlError> {
        match self.names().relation(name)? {
            Some(Relation::Index(table, at)) => Ok(Some((table.clone(), at))),
            Some(_) => Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("\"{}\" is not an index", Names::parts(name)?.1),
            )),
            None => Ok(None),
        }
    }

    /// 42P07 where a relation has the name.
    pub(crate) fn refuse_taken(&self, schema: &str, name: &str) -> Result<(), SqlError> {
        match self.names().find(Some(schema), name) {
            Some(_) => Err(SqlError::new(
                SqlState::DUPLICATE_TABLE,
                format!("relation \"{name}\" already exists"),
            )),
            None => Ok(()),
        }
    }
}

fn missing(name: &ObjectName) -> SqlError {
    match Names::parts(name) {
        Ok((_, index)) => {
            SqlError::new(SqlState::UNDEFINED_OBJECT, format!("index \"{index}\" does not exist"))
        }
        Err(_) => resolve::no_relation(&name.to_string()),
    }
}

/// Operator classes of the order that every index has: values by PostgreSQL's comparison, texts by their bytes.
const DEFAULT_CLASSES: &[&str] = &[
    "bool_ops",
    "bpchar_ops",
    "bpchar_pattern_ops",
    "bytea_ops",
    "date_ops",
    "float4_ops",
    "float8_ops",
    "int2_ops",
    "int4_ops",
    "int8_ops",
    "numeric_ops",
    "text_ops",
    "text_pattern_ops",
    "timestamp_ops",
    "timestamptz_ops",
    "uuid_ops",
    "varchar_ops",
    "varchar_pattern_ops",
];

fn refuse_forms(create: &CreateIndex) -> Result<(), SqlError> {
    match &create.using {
        None | Some(IndexType::BTree) => {}
        Some(other) => return Err(SqlError::unsupported(format!("index method {other}"))),
    }
    if create.predicate.is_some() {
        return Err(SqlError::unsupported("a partial index"));
    }
    if !create.include.is_empty() {
        return Err(SqlError::unsupported("INCLUDE"));
    }
    if create.nulls_distinct == Some(false) {
        return Err(SqlError::unsupported("NULLS NOT DISTINCT"));
    }
    for class in create.columns.iter().filter_map(|c| c.operator_class.as_ref()) {
        let (_, name) = Names::parts(class)?;
        if !DEFAULT_CLASSES.contains(&name.as_str()) {
            return Err(SqlError::unsupported(format!("operator class {name}")));
        }
    }
    Ok(())
}

/// Columns with their order, as keys and indexes list them.
pub(crate) fn key_parts(columns: &[&OrderByExpr]) -> Result<Vec<NewKeyPart>, SqlError> {
    columns
        .iter()
        .map(|column| {
            let Expr::Identifier(ident) = &column.expr else {
                return Err(SqlError::unsupported("an index on an expression"));
            };
            let descending = column.options.asc == Some(false);
            Ok(NewKeyPart {
                column: fold(ident),
                descending,
                nulls_first: column.options.nulls_first.unwrap_or(descending),
            })
        })
        .collect()
}
