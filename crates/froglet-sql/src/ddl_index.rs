//! CREATE, ALTER and DROP INDEX.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    AlterIndexOperation, BinaryOperator, CreateIndex, DataType, Expr, Ident, IndexColumn,
    IndexType, ObjectName, Value,
};
use froglet_engine::{ColumnId, ColumnType, SqlState};
use froglet_schema::change::{NewHidden, NewKeyPart};
use froglet_schema::{
    Change, IndexDef, IndexNotes, NewColumn, NewIndex, SqlType, TableDef, TableVersion,
};

use crate::apply::Stop;
use crate::command::fold;
use crate::ddl::Ddl;
use crate::error::SqlError;
use crate::expr::{RowExpr, Scope, has_subquery, is_immutable};
use crate::index_expr;
use crate::lazy_column::{self, From};
use crate::pgcatalog::deparse;
use crate::resolve::{self, Names, Relation};
use crate::semantics::fieldnames::figure_name;
use crate::types::oids;
use crate::{stored, stored_names, types};

/// An expression or a predicate of an index is not what may be one.
const INVALID_OBJECT_DEFINITION: SqlState = SqlState::new("42P17");

impl Ddl<'_> {
    /// CONCURRENTLY is accepted: no index here blocks anybody.
    pub(crate) async fn create_index(&mut self, create: &CreateIndex) -> Result<String, Stop> {
        let method = method(create)?;
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
        let mut index = self.index_of(&table, create)?;
        index.name = name;
        index.notes.method = method;
        self.apply(Change::CreateIndex { table: table.def.id, index }).await?;
        Ok("CREATE INDEX".to_owned())
    }

    /// What is to be made of the columns and clauses of CREATE INDEX.
    fn index_of(
        &self,
        table: &Arc<TableVersion>,
        create: &CreateIndex,
    ) -> Result<NewIndex, SqlError> {
        let mut index = NewIndex {
            unique: create.unique,
            nulls_equal: create.nulls_distinct == Some(false),
            ..NewIndex::default()
        };
        // Of every row it is no condition.
        if let Some(predicate) = create.predicate.as_ref().filter(|p| !is_true(p)) {
            index.hidden.push(self.hidden_predicate(table, predicate)?);
            index.notes.partial = true;
            index.columns.push(NewKeyPart::plain(index.hidden[0].column.name.clone()));
            index.notes.classes.push(None);
        }
        for column in &create.columns {
            self.add_part(table, column, &mut index)?;
        }
        for ident in &create.include {
            index.notes.include.push(key_column(&table.def, ident)?);
            index.name_parts.push(fold(ident));
        }
        if index.notes.classes.iter().all(Option::is_none) {
            index.notes.classes.clear();
        }
        index.notes.options = options(&create.with)?;
        Ok(index)
    }

    fn add_part(
        &self,
        table: &Arc<TableVersion>,
        part: &IndexColumn,
        index: &mut NewIndex,
    ) -> Result<(), SqlError> {
        let order = &part.column.options;
        let descending = order.asc == Some(false);
        let nulls_first = order.nulls_first.unwrap_or(descending);
        let mut bare = &part.column.expr;
        while let Expr::Nested(inner) = bare {
            bare = inner;
        }
        if let Expr::Collate { expr, collation } = bare {
            let name = collation.to_string();
            if !crate::token_forms::is_known_collation(&name) {
                return Err(SqlError::unsupported(format!("collation {name}")));
            }
            bare = expr;
        }
        let (column, oid) = match bare {
            Expr::Identifier(ident) => {
                key_column(&table.def, ident)?;
                let name = fold(ident);
                index.name_parts.push(name.clone());
                let oid = table.def.column(&name).map_or(0, |c| c.sql_type.oid);
                (name, oid)
            }
            expr => {
                let name = match figure_name(expr) {
                    name if name == "?column?" => "expr".to_owned(),
                    name => name,
                };
                let name = free(name, &index.name_parts);
                index.name_parts.push(name.clone());
                let hidden = self.hidden(table, expr, format!("\0{name}"))?;
                let found = (hidden.column.name.clone(), hidden.column.sql_type.oid);
                index.hidden.push(hidden);
                found
            }
        };
        index.columns.push(NewKeyPart { column, descending, nulls_first });
        index.notes.classes.push(operator_class(part, oid)?);
        Ok(())
    }

    /// The hidden column of an expression of an index.
    fn hidden(
        &self,
        table: &Arc<TableVersion>,
        expr: &Expr,
        name: String,
    ) -> Result<NewHidden, SqlError> {
        if has_subquery(expr) {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "cannot use subquery in index expression",
            ));
        }
        let scope = Scope::table(&table.def, None);
        let compiled =
            RowExpr::compile(&scope, expr, &[]).map_err(|e| in_words(e, "index expressions"))?;
        if !is_immutable(&scope, expr)? {
            return Err(not_immutable("expression"));
        }
        let (ty, sql_type) = match compiled.column_type() {
            Some(ty) if compiled.sql_type().oid != oids::UNKNOWN => (ty, compiled.sql_type()),
            _ => (ColumnType::Text, types::plain(oids::TEXT)),
        };
        self.new_hidden(table, expr, name, ty, sql_type)
    }

    fn hidden_predicate(
        &self,
        table: &Arc<TableVersion>,
        predicate: &Expr,
    ) -> Result<NewHidden, SqlError> {
        if has_subquery(predicate) {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "cannot use subquery in index predicate",
            ));
        }
        let scope = Scope::table(&table.def, None);
        RowExpr::compile_condition(&scope, predicate, &[], "WHERE")
            .map_err(|e| in_words(e, "index predicates"))?;
        if !is_immutable(&scope, predicate)? {
            return Err(not_immutable("predicate"));
        }
        let expr = index_expr::of_predicate(predicate.clone());
        let ty = (ColumnType::Bool, types::plain(oids::BOOL));
        self.new_hidden(table, &expr, "\0".to_owned(), ty.0, ty.1)
    }

    fn new_hidden(
        &self,
        table: &Arc<TableVersion>,
        expr: &Expr,
        name: String,
        ty: ColumnType,
        sql_type: SqlType,
    ) -> Result<NewHidden, SqlError> {
        let mut numbered = expr.clone();
        stored_names::to_numbers(&mut numbered, &self.names());
        let id_of = |name: &str| table.def.column(name).map(|c| c.id);
        let default = Some(stored::store_generated(&numbered, &table.def.name, &id_of)?);
        let column = NewColumn { name, ty, sql_type, not_null: false, default };
        let from = From::Expression(expr);
        let computed = lazy_column::computation(self.session, from, &table.def, &column)?;
        let shown = deparse::expression_text(&table.def, expr, true);
        Ok(NewHidden { column, transform: computed.transform, shown })
    }

    /// The index of a definition, to be made again over a table that has its columns: `named` says by which names.
    pub(crate) fn index_again(
        &self,
        of: &TableDef,
        index: &IndexDef,
        table: &Arc<TableVersion>,
    ) -> Result<NewIndex, SqlError> {
        let name_of = |id: ColumnId| of.column_by_id(id).map(|c| c.name.clone());
        let mut again = NewIndex {
            name: Some(index.name.clone()),
            unique: index.spec.unique,
            nulls_equal: index.spec.nulls != froglet_engine::NullKeys::Distinct,
            notes: IndexNotes { include: Vec::new(), ..index.notes.clone() },
            ..NewIndex::default()
        };
        for part in &index.spec.key {
            let mut column = name_of(part.column).ok_or_else(lost)?;
            if let Some(hidden) = of.hidden_column(part.column) {
                let expr = index_expr::expression(of, hidden)?;
                let new = match index_expr::predicate(of, index) {
                    Some(predicate) if again.hidden.is_empty() && column == "\0" => {
                        self.hidden_predicate(table, &predicate)?
                    }
                    _ => self.hidden(table, &expr, column)?,
                };
                column = new.column.name.clone();
                again.hidden.push(new);
            }
            let (descending, nulls_first) = (part.descending, part.nulls_first);
            again.columns.push(NewKeyPart { column, descending, nulls_first });
        }
        for id in &index.notes.include {
            let column = name_of(*id).and_then(|name| table.def.column(&name).map(|c| c.id));
            again.notes.include.push(column.ok_or_else(lost)?);
        }
        Ok(again)
    }

    pub(crate) async fn alter_index(
        &mut self,
        name: &ObjectName,
        operation: &AlterIndexOperation,
    ) -> Result<String, Stop> {
        let AlterIndexOperation::RenameIndex { index_name } = operation;
        self.rename_index(name, &Names::parts(index_name)?.1, false).await
    }

    /// ALTER INDEX … RENAME TO
    pub(crate) async fn rename_index(
        &mut self,
        name: &ObjectName,
        new: &str,
        if_exists: bool,
    ) -> Result<String, Stop> {
        let Some((table, at)) = self.index(name)? else {
            if if_exists {
                self.skip("relation", name)?;
                return Ok("ALTER INDEX".to_owned());
            }
            return Err(crate::resolve::no_relation(&Names::parts(name)?.1).into());
        };
        self.refuse_taken(&table.def.schema, new)?;
        let name = new.to_owned();
        let index = &table.def.indexes[at];
        let change = match table.def.constraint_of_index(index.spec.id) {
            Some(constraint) => Change::RenameConstraint {
                table: table.def.id,
                constraint: constraint.name.clone(),
                name,
            },
            None => Change::RenameIndex { table: table.def.id, index: index.id, name },
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

fn lost() -> SqlError {
    SqlError::new(SqlState::DATA_CORRUPTED, "a column of an index is not in its table")
}

fn key_column(def: &TableDef, ident: &Ident) -> Result<ColumnId, SqlError> {
    let name = fold(ident);
    def.column(&name).map(|column| column.id).ok_or_else(|| {
        SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{name}\" does not exist"))
    })
}

/// A name that no other part has: `expr`, `expr1`, …
fn free(name: String, taken: &[String]) -> String {
    if !taken.contains(&name) {
        return name;
    }
    let numbered = (1..).map(|n| format!("{name}{n}")).find(|name| !taken.contains(name));
    numbered.expect("numbers do not run out")
}

/// An error of an expression, said of indexes.
fn in_words(e: SqlError, place: &str) -> SqlError {
    if e.state == SqlState::GROUPING_ERROR {
        let message = format!("aggregate functions are not allowed in {place}");
        return SqlError::new(SqlState::GROUPING_ERROR, message);
    }
    e
}

fn not_immutable(what: &str) -> SqlError {
    SqlError::new(
        INVALID_OBJECT_DEFINITION,
        format!("functions in index {what} must be marked IMMUTABLE"),
    )
}

/// Operator classes of the order that every index has: values by PostgreSQL's comparison, texts by their bytes.
/// With the types that take them; the first of a type is its own.
const CLASSES: &[(&str, &[u32])] = &[
    ("bool_ops", &[oids::BOOL]),
    ("bpchar_ops", &[oids::BPCHAR]),
    ("bpchar_pattern_ops", &[oids::BPCHAR]),
    ("bytea_ops", &[oids::BYTEA]),
    ("date_ops", &[oids::DATE]),
    ("float4_ops", &[oids::FLOAT4]),
    ("float8_ops", &[oids::FLOAT8]),
    ("int2_ops", &[oids::INT2]),
    ("int4_ops", &[oids::INT4]),
    ("int8_ops", &[oids::INT8]),
    ("interval_ops", &[oids::INTERVAL]),
    ("numeric_ops", &[oids::NUMERIC]),
    ("text_ops", &[oids::TEXT, oids::VARCHAR]),
    ("text_pattern_ops", &[oids::TEXT, oids::VARCHAR]),
    ("time_ops", &[oids::TIME]),
    ("timestamp_ops", &[oids::TIMESTAMP]),
    ("timestamptz_ops", &[oids::TIMESTAMPTZ]),
    ("uuid_ops", &[oids::UUID]),
    ("varchar_ops", &[oids::TEXT, oids::VARCHAR]),
    ("varchar_pattern_ops", &[oids::TEXT, oids::VARCHAR]),
];

/// The operator class that was given to a part, if it is not its type's own.
fn operator_class(part: &IndexColumn, oid: u32) -> Result<Option<String>, SqlError> {
    let Some(class) = &part.operator_class else { return Ok(None) };
    let (_, name) = Names::parts(class)?;
    let Some((_, takes)) = CLASSES.iter().find(|(known, _)| *known == name) else {
        return Err(SqlError::new(
            SqlState::UNDEFINED_OBJECT,
            format!("operator class \"{name}\" does not exist for access method \"btree\""),
        ));
    };
    if !takes.contains(&oid) {
        let ty = types::type_name(types::plain(oid));
        return Err(SqlError::new(
            SqlState::DATATYPE_MISMATCH,
            format!("operator class \"{name}\" does not accept data type {ty}"),
        ));
    }
    let own = CLASSES.iter().find(|(_, takes)| takes.contains(&oid)).map(|(own, _)| *own);
    Ok((own != Some(name.as_str())).then_some(name))
}

/// The access method, if it is not btree. A hash index is kept as the one structure that there is.
fn method(create: &CreateIndex) -> Result<Option<String>, SqlError> {
    let said = match &create.using {
        None | Some(IndexType::BTree) => return Ok(None),
        Some(IndexType::Custom(name)) => fold(name),
        Some(other) => other.to_string().to_ascii_lowercase(),
    };
    match said.as_str() {
        "btree" => return Ok(None),
        "hash" => {}
        "gin" | "gist" | "spgist" | "brin" => {
            return Err(SqlError::unsupported(format!("index method {said}")));
        }
        _ => {
            return Err(SqlError::new(
                SqlState::UNDEFINED_OBJECT,
                format!("access method \"{said}\" does not exist"),
            ));
        }
    }
    let has = |what: fn(&IndexColumn) -> bool| create.columns.iter().any(what);
    let lacks = [
        (create.unique, "unique indexes"),
        (!create.include.is_empty(), "included columns"),
        (create.columns.len() > 1, "multicolumn indexes"),
        (has(|c| c.column.options.asc.is_some()), "ASC/DESC options"),
        (has(|c| c.column.options.nulls_first.is_some()), "NULLS FIRST/LAST options"),
    ];
    match lacks.iter().find(|(said, _)| *said) {
        Some((_, what)) => Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!("access method \"{said}\" does not support {what}"),
        )),
        None => Ok(Some(said)),
    }
}

/// What WITH says, as pg_class.reloptions has it. Nothing of it has an effect.
fn options(with: &[Expr]) -> Result<Vec<String>, SqlError> {
    let invalid = |message: String| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
    let mut kept = Vec::new();
    for option in with {
        let (name, value) = match option {
            Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => (&**left, right.to_string()),
            name => (name, "true".to_owned()),
        };
        let name = name.to_string().to_ascii_lowercase();
        let value = value.trim_matches('\'').to_ascii_lowercase();
        match name.as_str() {
            "fillfactor" => match value.parse::<i64>() {
                Ok(10..=100) => {}
                Ok(_) => {
                    let message = format!("value {value} out of bounds for option \"fillfactor\"");
                    let error = invalid(message);
                    return Err(error.detail("Valid values are between \"10\" and \"100\"."));
                }
                Err(_) => {
                    let message =
                        format!("invalid value for integer option \"fillfactor\": {value}");
                    return Err(invalid(message));
                }
            },
            "deduplicate_items" => {
                if !matches!(value.as_str(), "on" | "off" | "true" | "false" | "1" | "0") {
                    let message =
                        format!("invalid value for boolean option \"deduplicate_items\": {value}");
                    return Err(invalid(message));
                }
            }
            _ => return Err(invalid(format!("unrecognized parameter \"{name}\""))),
        }
        kept.push(format!("{name}={value}"));
    }
    Ok(kept)
}

/// Whether it is the constant.
fn is_true(predicate: &Expr) -> bool {
    match predicate {
        Expr::Nested(inner) => is_true(inner),
        Expr::Cast { expr, data_type: DataType::Bool | DataType::Boolean, .. } => is_true(expr),
        Expr::Value(value) => value.value == Value::Boolean(true),
        _ => false,
    }
}
