//! ALTER TABLE.
//!
//! The actions of one statement run in PostgreSQL's order whatever the order they are written in ([`pass`]): first
//! what goes, then types, all at once, then new columns, then the rest. What is computed of rows is computed of rows
//! as they were before the statement, with the names that columns had then.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    AlterColumnOperation, AlterTable, AlterTableOperation, DropBehavior, Expr, Ident, Owner,
    RenameTableNameKind, TableConstraint,
};
use froglet_engine::SqlState;
use froglet_schema::access::PG_CLASS;
use froglet_schema::{Change, Fill, NewType, ObjectId, SqlType, TableDef, TableVersion};

use crate::apply::Stop;
use crate::command::fold;
use crate::ddl::Ddl;
use crate::ddl_column::{self, Serial, Source};
use crate::ddl_constraint;
use crate::error::SqlError;
use crate::lazy_column::{self, From, constrained, depends_on};
use crate::object_ddl::Kind;
use crate::resolve::{self, Names, Relation};
use crate::sequence_ddl::AlterSequence;
use crate::storage_options;
use crate::stored::{self, DefaultKind};
use crate::syntax::access_method;
use crate::token_forms::{ColumnAction, column_action};
use crate::types::{self, oids};

impl Ddl<'_> {
    pub(crate) async fn alter_table(&mut self, alter: &AlterTable) -> Result<String, Stop> {
        if alter.if_exists && self.names().relation(&alter.name)?.is_none() {
            self.skip("relation", &alter.name)?;
            return Ok("ALTER TABLE".to_owned());
        }
        if let Some(tag) = self.rename_of_another_kind(alter).await? {
            return Ok(tag);
        }
        let before = self.table(&alter.name)?;
        let id = before.def.id;
        let mut operations: Vec<&AlterTableOperation> = alter.operations.iter().collect();
        operations.sort_by_key(|operation| pass(operation));
        if operations.iter().filter_map(|operation| access_method::of(operation)).nth(1).is_some() {
            let message = "cannot have multiple SET ACCESS METHOD subcommands";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).into());
        }
        if self.version.materialized(id).is_some() {
            operations.iter().try_for_each(|operation| self.refuse_of_view(id, operation))?;
        }
        let is_type = |operation: &&AlterTableOperation| pass(operation) == Pass::Types;
        let types: Vec<Retype<'_>> =
            operations.iter().copied().filter(is_type).filter_map(retype).collect();
        let (first, rest): (Vec<_>, Vec<_>) =
            operations.into_iter().partition(|operation| pass(operation) == Pass::Drops);
        for operation in first {
            self.alter(id, operation).await?;
        }
        if !types.is_empty() {
            self.alter_types(&before, &types).await?;
        }
        let mut constraints = Vec::new();
        for operation in rest.into_iter().filter(|operation| !is_type(operation)) {
            if pass(operation) > Pass::Columns {
                // Those that were written with new columns, when all columns are there: keys first.
                self.add_constraints(id, &mut constraints).await?;
            }
            match operation {
                AlterTableOperation::AddColumn {
                    if_not_exists,
                    column_def,
                    column_position,
                    ..
                } => {
                    if column_position.is_some() {
                        return Err(SqlError::unsupported("a column position").into());
                    }
                    let table = self.table_by_id(id)?;
                    constraints.extend(self.add_column(&table, column_def, *if_not_exists).await?);
                }
                other => self.alter(id, other).await?,
            }
        }
        self.add_constraints(id, &mut constraints).await?;
        Ok("ALTER TABLE".to_owned())
    }

    /// Constraints of new columns, keys before those that may rest on them.
    async fn add_constraints(
        &mut self,
        id: ObjectId,
        constraints: &mut Vec<TableConstraint>,
    ) -> Result<(), Stop> {
        let is_key = |constraint: &TableConstraint| {
            matches!(constraint, TableConstraint::PrimaryKey(_) | TableConstraint::Unique(_))
        };
        constraints.sort_by_key(|constraint| !is_key(constraint));
        for constraint in std::mem::take(constraints) {
            let table = self.table_by_id(id)?;
            let constraint = self.constraint(&constraint, &table.def, Some(&table), &[])?;
            self.apply(Change::AddConstraint { table: id, constraint }).await?;
        }
        Ok(())
    }

    /// ALTER TABLE renames views, sequences and indexes, too.
    async fn rename_of_another_kind(&mut self, alter: &AlterTable) -> Result<Option<String>, Stop> {
        use AlterTableOperation as Op;
        let [operation] = &alter.operations[..] else { return Ok(None) };
        match (self.names().relation(&alter.name)?, operation) {
            (Some(Relation::View(_)), Op::RenameTable { table_name }) => {
                let (RenameTableNameKind::To(to) | RenameTableNameKind::As(to)) = table_name;
                let to = Names::parts(to)?.1;
                self.rename_object(Kind::View, false, &alter.name, &to).await?;
            }
            (Some(Relation::View(_)), Op::RenameColumn { old_column_name, new_column_name }) => {
                let (column, to) = (fold(old_column_name), fold(new_column_name));
                self.rename_view_column(Kind::View, false, &alter.name, &column, &to).await?;
            }
            (Some(Relation::Sequence(_)), Op::RenameTable { table_name }) => {
                let (RenameTableNameKind::To(to) | RenameTableNameKind::As(to)) = table_name;
                let (name, rename) = (alter.name.clone(), Some(Names::parts(to)?.1));
                let (ty, options) = (None, Default::default());
                let renamed = AlterSequence { name, if_exists: false, rename, ty, options };
                self.alter_sequence(&renamed).await?;
            }
            _ => return Ok(None),
        }
        Ok(Some("ALTER TABLE".to_owned()))
    }

    /// 42809 of what a materialized view has no part in.
    fn refuse_of_view(&self, id: ObjectId, operation: &AlterTableOperation) -> Result<(), Stop> {
        use AlterTableOperation as Op;
        if access_method::of(operation).is_some() {
            return Ok(());
        }
        let text = operation.to_string();
        if matches!(
            operation,
            Op::RenameTable { .. } | Op::RenameColumn { .. } | Op::OwnerTo { .. }
        ) {
            return Ok(());
        }
        let words = text.split_whitespace();
        let words = words.take_while(|word| word.chars().all(|c| c.is_ascii_uppercase()));
        let action = match operation {
            Op::AddConstraint { .. } => "ADD CONSTRAINT".to_owned(),
            _ => words.take(2).collect::<Vec<_>>().join(" "),
        };
        let name = self.table_by_id(id)?.def.name.clone();
        let message = format!("ALTER action {action} cannot be performed on relation \"{name}\"");
        Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
            .detail("This operation is not supported for materialized views.")
            .into())
    }

    async fn alter(&mut self, id: ObjectId, operation: &AlterTableOperation) -> Result<(), Stop> {
        use AlterTableOperation as Op;
        let table = self.table_by_id(id)?;
        let change = match operation {
            Op::DropColumn { column_names, if_exists, drop_behavior, .. } => {
                return self.drop_columns(&table, column_names, *if_exists, *drop_behavior).await;
            }
            Op::AlterColumn { column_name, op } => {
                return self.alter_column(&table, column_name, op).await;
            }
            Op::AddConstraint { constraint, not_valid } => {
                if let TableConstraint::PrimaryKeyUsingIndex(of)
                | TableConstraint::UniqueUsingIndex(of) = constraint
                {
                    let primary = matches!(constraint, TableConstraint::PrimaryKeyUsingIndex(_));
                    return self.constraint_of_index(&table, of, primary).await;
                }
                let new = self.constraint(constraint, &table.def, Some(&table), &[])?;
                match constraint {
                    TableConstraint::Check(_) | TableConstraint::ForeignKey(_) if *not_valid => {
                        Change::AddNotValid { table: id, constraint: new }
                    }
                    TableConstraint::PrimaryKey(_) | TableConstraint::Unique(_) if *not_valid => {
                        let kind = match constraint {
                            TableConstraint::PrimaryKey(_) => "PRIMARY KEY",
                            _ => "UNIQUE",
                        };
                        return Err(SqlError::new(
                            SqlState::FEATURE_NOT_SUPPORTED,
                            format!("{kind} constraints cannot be marked NOT VALID"),
                        )
                        .into());
                    }
                    _ => Change::AddConstraint { table: id, constraint: new },
                }
            }
            Op::DropConstraint { if_exists, name, drop_behavior } => {
                let name = fold(name);
                if *if_exists && table.def.constraint(&name).is_none() {
                    self.notice(
                        SqlState::SUCCESSFUL_COMPLETION,
                        format!(
                            "constraint \"{name}\" of relation \"{}\" does not exist, skipping",
                            table.def.name
                        ),
                    );
                    return Ok(());
                }
                let cascade = cascades(*drop_behavior);
                let with_it = self.references_to(&table.def, &name);
                match &with_it[..] {
                    _ if !cascade => {}
                    [] => {}
                    [only] => self.notice(
                        SqlState::SUCCESSFUL_COMPLETION,
                        format!("drop cascades to {only}"),
                    ),
                    several => self.notice(
                        SqlState::SUCCESSFUL_COMPLETION,
                        format!("drop cascades to {} other objects", several.len()),
                    ),
                }
                Change::DropConstraint { table: id, name, cascade }
            }
            Op::RenameColumn { old_column_name, new_column_name } => {
                let column = existing(&table, old_column_name)?;
                let name = fold(new_column_name);
                ddl_column::check_name(&name)?;
                Change::RenameColumn { table: id, column, name }
            }
            Op::RenameTable { table_name } => {
                let (RenameTableNameKind::To(name) | RenameTableNameKind::As(name)) = table_name;
                let (_, name) = Names::parts(name)?;
                self.refuse_taken(&table.def.schema, &name)?;
                let schema = table.def.schema.clone();
                Change::RenameTable { table: id, schema, name }
            }
            Op::RenameConstraint { old_name, new_name } => Change::RenameConstraint {
                table: id,
                constraint: fold(old_name),
                name: fold(new_name),
            },
            Op::SetOptionsParens { options } => {
                if let Some(method) = access_method::of(operation) {
                    return self.set_access_method(id, method).await;
                }
                let Some(dictionary) = storage_options::of_table(options)? else { return Ok(()) };
                Change::SetDictionary { table: id, column: None, dictionary }
            }
            Op::SetTblProperties { table_properties } => {
                for (column, chosen) in storage_options::of_columns(table_properties)? {
                    let column = Some(existing(&table, column)?);
                    if let Some(dictionary) = chosen {
                        self.apply(Change::SetDictionary { table: id, column, dictionary }).await?;
                    }
                }
                return Ok(());
            }
            Op::OwnerTo { new_owner } => {
                let role = match new_owner {
                    Owner::Ident(name) => fold(name),
                    Owner::CurrentRole | Owner::CurrentUser => "current_user".to_owned(),
                    Owner::SessionUser => "session_user".to_owned(),
                };
                return self.change_owner(PG_CLASS, id, &role).await;
            }
            Op::ReplicaIdentity { .. } => {
                return Ok(());
            }
            Op::ValidateConstraint { name } => {
                let name = fold(name);
                let Some(check) = self.validation(&table.def, &name)? else { return Ok(()) };
                Change::ValidateConstraint { table: id, name, check }
            }
            other => return Err(SqlError::unsupported(format!("ALTER TABLE … {other}")).into()),
        };
        self.apply(change).await?;
        Ok(())
    }

    /// Adds a column; returns the constraints that were written beside it.
    async fn add_column(
        &mut self,
        table: &Arc<TableVersion>,
        def: &datafusion::sql::sqlparser::ast::ColumnDef,
        if_not_exists: bool,
    ) -> Result<Vec<TableConstraint>, Stop> {
        let id = table.def.id;
        let mut plan = ddl_column::plan(def)?;
        self.check_type(plan.column.sql_type.oid)?;
        if table.def.column(&plan.column.name).is_some() {
            let message = format!(
                "column \"{}\" of relation \"{}\" already exists",
                plan.column.name, table.def.name
            );
            if if_not_exists {
                self.notice(SqlState::DUPLICATE_COLUMN, format!("{message}, skipping"));
                return Ok(Vec::new());
            }
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message).into());
        }
        let mut draft = table.def.clone();
        ddl_column::add_to_draft(&mut draft, &plan.column);
        let sequence = self.compile_source(&draft, &mut plan).await?;
        // The sequence is a change of its own; the table is as it was.
        let fill = self.fill(&table.def, &plan)?;
        let name = plan.column.name.clone();
        self.apply(Change::AddColumn { table: id, column: plan.column, fill }).await?;
        if let Some(sequence) = sequence {
            self.own_sequences(id, vec![(sequence, name)]).await?;
        }
        Ok(plan.constraints)
    }

    /// What the rows that are there get in a new column.
    fn fill(&mut self, table: &TableDef, plan: &ddl_column::ColumnPlan) -> Result<Fill, Stop> {
        match &plan.source {
            Source::Nothing => Ok(Fill::Constant(froglet_engine::Value::Null)),
            Source::Default(expr) => Ok(self.default_fill(expr, &plan.column)?),
            Source::Generated(expr) => {
                let from = From::Expression(expr);
                let computed = lazy_column::computation(self.session, from, table, &plan.column)?;
                let computed = computed.but_for(constrained(&plan.constraints));
                let transform = computed.transform.clone();
                let lazily = self.lazily(table, computed, &plan.column)?;
                Ok(Fill::Compute(transform, lazily))
            }
            Source::Sequence(_) => {
                let text = plan.column.default.as_ref().map_or("", |default| default.0.as_str());
                let expr = crate::parse::parse_expression(text)?;
                Ok(self.default_fill(&expr, &plan.column)?)
            }
        }
    }

    async fn drop_columns(
        &mut self,
        table: &Arc<TableVersion>,
        names: &[Ident],
        if_exists: bool,
        behavior: Option<DropBehavior>,
    ) -> Result<(), Stop> {
        for name in names {
            let column = fold(name);
            if table.def.column(&column).is_none() && if_exists {
                self.notice(
                    SqlState::SUCCESSFUL_COMPLETION,
                    format!(
                        "column \"{column}\" of relation \"{}\" does not exist, skipping",
                        table.def.name
                    ),
                );
                continue;
            }
            let at = resolve::column(&table.def, name)?;
            let cascade = cascades(behavior);
            self.release_generated(table, at, cascade).await?;
            let (id, of) = (table.def.id, table.def.columns[at].id);
            self.release_sequences(id, Some(of), &[id], cascade).await?;
            let owned = self.sequences_of(&table.def, table.def.columns[at].id);
            let change = Change::DropColumn { table: table.def.id, column, cascade };
            self.apply(change).await?;
            for sequence in owned {
                self.apply(Change::DropSequence { sequence: sequence.id }).await?;
            }
        }
        Ok(())
    }

    /// DROP COLUMN … CASCADE
    pub(crate) async fn drop_columns_cascading(
        &mut self,
        table: &Arc<TableVersion>,
        names: &[Ident],
    ) -> Result<(), Stop> {
        self.drop_columns(table, names, false, Some(DropBehavior::Cascade)).await
    }

    /// Generated columns that are computed from a column go before it, or keep it.
    async fn release_generated(
        &mut self,
        table: &Arc<TableVersion>,
        column: usize,
        cascade: bool,
    ) -> Result<(), Stop> {
        for (at, generated) in crate::table::generated_from(&table.def, column)? {
            if at == column {
                continue;
            }
            if !cascade {
                return Err(SqlError::new(
                    SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                    format!(
                        "cannot drop column {} of table {} because other objects depend on it",
                        table.def.columns[column].name, table.def.name
                    ),
                )
                .detail(format!(
                    "column {generated} of table {0} depends on column {1} of table {0}",
                    table.def.name, table.def.columns[column].name
                ))
                .hint("Use DROP ... CASCADE to drop the dependent objects too.")
                .into());
            }
            let change = Change::DropColumn { table: table.def.id, column: generated, cascade };
            self.apply(change).await?;
        }
        Ok(())
    }

    async fn alter_column(
        &mut self,
        table: &Arc<TableVersion>,
        name: &Ident,
        operation: &AlterColumnOperation,
    ) -> Result<(), Stop> {
        let id = table.def.id;
        if let AlterColumnOperation::SetDefault { value } = operation
            && let Some(ColumnAction::AlterConstraint(attributes)) = column_action(value)
        {
            let (name, timing) = (fold(name), ddl_constraint::timing_of(&attributes)?);
            self.apply(Change::AlterConstraint { table: id, name, timing }).await?;
            return Ok(());
        }
        let column = existing(table, name)?;
        let def = table.def.column(&column).expect("just found");
        let kind = stored::default_kind(def);
        if let AlterColumnOperation::SetDefault { value } = operation
            && let Some(action) = column_action(value)
        {
            return match action {
                ColumnAction::DropIdentity { if_exists } => {
                    self.drop_identity(table, def, if_exists).await
                }
                ColumnAction::DropExpression { if_exists } => {
                    self.drop_expression(table, def, if_exists).await
                }
                ColumnAction::SetIdentity(options) => self.set_identity(table, def, &options).await,
                ColumnAction::AlterConstraint(_) => Ok(()),
            };
        }
        let change = match operation {
            AlterColumnOperation::SetNotNull if def.not_null => return Ok(()),
            AlterColumnOperation::SetNotNull => {
                let check = self.not_null_check(&table.def, def);
                Change::SetNotNull { table: id, column, check }
            }
            AlterColumnOperation::DropNotNull => {
                self.refuse_drop_not_null(table, def)?;
                Change::DropNotNull { table: id, column }
            }
            AlterColumnOperation::SetDefault { value } => {
                refuse_default(kind, table, def)?;
                let new = new_column(def);
                self.check_default(value, &new)?;
                let default = Some(self.default_of(value));
                Change::SetDefault { table: id, column, default }
            }
            AlterColumnOperation::DropDefault => {
                refuse_default(kind, table, def)?;
                Change::SetDefault { table: id, column, default: None }
            }
            AlterColumnOperation::SetDataType { .. } => {
                return Err(SqlError::unsupported("this form of SET DATA TYPE").into());
            }
            AlterColumnOperation::AddGenerated { generated_as, sequence_options } => {
                use datafusion::sql::sqlparser::ast::GeneratedAs;
                let always = !matches!(generated_as, Some(GeneratedAs::ByDefault));
                let serial = Serial {
                    identity: Some(always),
                    options: crate::sequence_ddl::of_identity(
                        sequence_options.as_deref().unwrap_or_default(),
                    )?,
                };
                return self.add_identity(table, &column, serial).await;
            }
        };
        self.apply(change).await?;
        Ok(())
    }

    /// Drops the indexes with expressions and predicates that read columns; their types make them others.
    async fn drop_computed_from(
        &mut self,
        table: &Arc<TableVersion>,
        columns: &[froglet_engine::ColumnId],
    ) -> Result<Vec<froglet_schema::IndexDef>, Stop> {
        let reads = |id| {
            let hidden = table.def.hidden_column(id);
            hidden.is_some_and(|h| h.inputs.iter().any(|input| columns.contains(input)))
        };
        let indexes = table.def.indexes.iter();
        let dropped: Vec<froglet_schema::IndexDef> =
            indexes.filter(|i| i.spec.key.iter().any(|part| reads(part.column))).cloned().collect();
        for index in &dropped {
            self.apply(Change::DropIndex { table: table.def.id, index: index.id }).await?;
        }
        Ok(dropped)
    }

    /// Gives columns other types, all at once. They were those of the table `before` the statement.
    async fn alter_types(
        &mut self,
        before: &Arc<TableVersion>,
        types: &[Retype<'_>],
    ) -> Result<(), Stop> {
        let id = before.def.id;
        let table = self.table_by_id(id)?;
        let mut places = Vec::with_capacity(types.len());
        for retype in types {
            places.push(resolve::column(&table.def, retype.column)?);
        }
        let ids: Vec<_> = places.iter().map(|at| table.def.columns[*at].id).collect();
        let again = self.drop_computed_from(&table, &ids).await?;
        let now = self.table_by_id(id)?;
        let (mut columns, mut made) = (Vec::new(), Vec::new());
        for (retype, at) in types.iter().zip(&places) {
            let (new, column) = self.new_type(before, &now, *at, retype).await?;
            columns.push(new);
            made.push((*at, column));
        }
        refuse_twice(types)?;
        let checks = self.recheck_constraints(&now.def, &made)?;
        let (table_id, before) = (id, Some(before.clone()));
        self.apply(Change::AlterTypes { table: table_id, columns, checks, before }).await?;
        for index in &again {
            let new = self.index_again(&table.def, index, &self.table_by_id(id)?)?;
            self.apply(Change::CreateIndex { table: id, index: new }).await?;
        }
        Ok(())
    }

    /// One column's new type, and what converts it from the table `before` the statement.
    async fn new_type(
        &mut self,
        before: &Arc<TableVersion>,
        now: &Arc<TableVersion>,
        at: usize,
        retype: &Retype<'_>,
    ) -> Result<(NewType, froglet_schema::NewColumn), Stop> {
        let def = &now.def.columns[at];
        let column = def.name.as_str();
        let (ty, sql_type) = types::parse_type(retype.data_type)?;
        self.check_type(sql_type.oid)?;
        if let Some((_, generated)) =
            crate::table::generated_from(&now.def, at)?.into_iter().find(|(g, _)| *g != at)
        {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "cannot alter type of a column used by a generated column",
            )
            .detail(format!("Column \"{column}\" is used by generated column \"{generated}\"."))
            .into());
        }
        if retype.using.is_some() && stored::default_kind(def) == DefaultKind::Generated {
            let message = "cannot specify USING when altering type of generated column";
            return Err(SqlError::new(SqlState::new("42611"), message)
                .detail(format!("Column \"{column}\" is a generated column."))
                .into());
        }
        self.retype_identity(&now.def, def, sql_type.oid).await?;
        let mut new = new_column(def);
        (new.ty, new.sql_type) = (ty, sql_type);
        self.recheck_default(&now.def, def, &new)?;
        let from = match retype.using {
            Some(expr) => Some(From::Expression(expr)),
            None if crate::ddl_compile::keeps_cells(def, &new) => None,
            None => Some(From::Column(def.id)),
        };
        let (mut using, mut lazily) = (None, None);
        if let Some(from) = from {
            let computed = lazy_column::computation(self.session, from, &before.def, &new)?;
            let computed = computed.but_for(depends_on(&now.def, def.id));
            using = Some(computed.transform.clone());
            lazily = self.lazily(&now.def, computed, &new)?;
        }
        if using.is_some()
            && retype.using.is_some_and(|expr| !converts_alone(expr, column, sql_type))
        {
            self.catalog.note_computed(self.txn, now.def.id, def.id);
        }
        let is_exact = retype.using.is_none_or(|expr| converts_alone(expr, column, sql_type))
            && is_exact(def.sql_type, sql_type);
        let column = column.to_owned();
        let typed = stored::typed_default(def, &now.def, sql_type.oid)?;
        let default = typed.or_else(|| def.default.clone());
        Ok((NewType { column, ty, sql_type, using, lazily, is_exact, default }, new))
    }

    fn refuse_drop_not_null(
        &self,
        table: &TableVersion,
        column: &froglet_schema::ColumnDef,
    ) -> Result<(), SqlError> {
        let in_key = table
            .def
            .primary_key()
            .is_some_and(|key| key.spec.key.iter().any(|part| part.column == column.id));
        if in_key {
            return Err(SqlError::new(
                SqlState::INVALID_TABLE_DEFINITION,
                format!("column \"{}\" is in a primary key", column.name),
            ));
        }
        if stored::default_kind(column).is_identity() {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                format!(
                    "column \"{}\" of relation \"{}\" is an identity column",
                    column.name, table.def.name
                ),
            ));
        }
        Ok(())
    }
}

/// Whether an expression is a column, or its cast to a type which gives every value exactly or fails as an
/// assignment does.
fn converts_alone(expr: &Expr, column: &str, ty: SqlType) -> bool {
    match expr {
        Expr::Nested(inner) => converts_alone(inner, column, ty),
        Expr::Identifier(ident) => fold(ident) == column,
        // Casts to types of a length cut.
        Expr::Cast { expr, data_type, .. } => {
            types::parse_type(data_type).is_ok_and(|(_, cast)| cast == ty)
                && (ty.modifier < 0 || ty.oid == oids::NUMERIC)
                && converts_alone(expr, column, ty)
        }
        _ => false,
    }
}

/// Whether the assignment of a number to a column of another type gives the same number or fails.
fn is_exact(from: SqlType, to: SqlType) -> bool {
    let is_integer = |ty: SqlType| matches!(ty.oid, oids::INT2 | oids::INT4 | oids::INT8);
    is_integer(from) && (is_integer(to) || to.oid == oids::NUMERIC && to.modifier < 0)
        || (from.oid, to.oid) == (oids::NUMERIC, oids::NUMERIC) && to.modifier < 0
}

/// A column as if it were new.
pub(crate) fn new_column(def: &froglet_schema::ColumnDef) -> froglet_schema::NewColumn {
    froglet_schema::NewColumn {
        name: def.name.clone(),
        ty: def.ty,
        sql_type: def.sql_type,
        not_null: def.not_null,
        default: def.default.clone(),
    }
}

fn existing(table: &TableVersion, name: &Ident) -> Result<String, SqlError> {
    let at = resolve::column(&table.def, name)?;
    Ok(table.def.columns[at].name.clone())
}

fn refuse_default(
    kind: DefaultKind,
    table: &TableVersion,
    column: &froglet_schema::ColumnDef,
) -> Result<(), SqlError> {
    let what = match kind {
        DefaultKind::None | DefaultKind::Plain => return Ok(()),
        DefaultKind::Generated => "a generated column",
        DefaultKind::IdentityAlways | DefaultKind::IdentityByDefault => "an identity column",
    };
    Err(SqlError::new(
        SqlState::SYNTAX_ERROR,
        format!("column \"{}\" of relation \"{}\" is {what}", column.name, table.def.name),
    ))
}

fn cascades(behavior: Option<DropBehavior>) -> bool {
    behavior == Some(DropBehavior::Cascade)
}

/// SET DATA TYPE
struct Retype<'a> {
    column: &'a Ident,
    data_type: &'a datafusion::sql::sqlparser::ast::DataType,
    using: Option<&'a Expr>,
}

fn retype(operation: &AlterTableOperation) -> Option<Retype<'_>> {
    match operation {
        AlterTableOperation::AlterColumn {
            column_name: column,
            op: AlterColumnOperation::SetDataType { data_type, using, .. },
        } => Some(Retype { column, data_type, using: using.as_ref() }),
        _ => None,
    }
}

/// 0A000 of a column that is given two types.
fn refuse_twice(types: &[Retype<'_>]) -> Result<(), SqlError> {
    for (n, retype) in types.iter().enumerate() {
        let column = fold(retype.column);
        if types[..n].iter().any(|earlier| fold(earlier.column) == column) {
            let message = format!("cannot alter type of column \"{column}\" twice");
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
    }
    Ok(())
}

/// When an action runs (PostgreSQL's AT_PASS_…).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Pass {
    Drops,
    Types,
    Columns,
    Attributes,
    Keys,
    Constraints,
    Rest,
}

fn pass(operation: &AlterTableOperation) -> Pass {
    use AlterTableOperation as Op;
    match operation {
        Op::DropColumn { .. } | Op::DropConstraint { .. } => Pass::Drops,
        Op::AlterColumn { op, .. } => match op {
            AlterColumnOperation::DropDefault | AlterColumnOperation::DropNotNull => Pass::Drops,
            AlterColumnOperation::SetDefault { value }
                if matches!(
                    column_action(value),
                    Some(ColumnAction::DropIdentity { .. } | ColumnAction::DropExpression { .. })
                ) =>
            {
                Pass::Drops
            }
            AlterColumnOperation::SetDataType { .. } => Pass::Types,
            AlterColumnOperation::SetNotNull => Pass::Attributes,
            _ => Pass::Constraints,
        },
        Op::AddColumn { .. } => Pass::Columns,
        Op::AddConstraint { constraint, .. } => match constraint {
            TableConstraint::PrimaryKey(_)
            | TableConstraint::Unique(_)
            | TableConstraint::PrimaryKeyUsingIndex(_)
            | TableConstraint::UniqueUsingIndex(_) => Pass::Keys,
            _ => Pass::Constraints,
        },
        _ => Pass::Rest,
    }
}
