//! ALTER TABLE.
//!
//! The actions of one statement run in PostgreSQL's order whatever the order they are written in:
//! first what goes, then types, then new columns, then the rest.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    AlterColumnOperation, AlterTable, AlterTableOperation, DropBehavior, Expr, Ident, Owner,
    RenameTableNameKind, TableConstraint,
};
use froglet_engine::SqlState;
use froglet_schema::access::PG_CLASS;
use froglet_schema::{Change, Fill, ObjectId, SqlType, TableDef, TableVersion};

use crate::apply::Stop;
use crate::command::fold;
use crate::ddl::Ddl;
use crate::ddl_column::{self, Serial, Source};
use crate::error::SqlError;
use crate::lazy_column::{self, From, constrained, depends_on};
use crate::object_ddl::Kind;
use crate::resolve::{self, Names, Relation};
use crate::sequence_ddl::AlterSequence;
use crate::storage_options;
use crate::stored::{self, DefaultKind};
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
        let id = self.table(&alter.name)?.def.id;
        let mut operations: Vec<&AlterTableOperation> = alter.operations.iter().collect();
        operations.sort_by_key(|operation| pass(operation));
        if self.version.materialized(id).is_some() {
            operations.iter().try_for_each(|operation| self.refuse_of_view(id, operation))?;
        }
        for operation in operations {
            self.alter(id, operation).await?;
        }
        Ok("ALTER TABLE".to_owned())
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
            Op::AddColumn { if_not_exists, column_def, column_position, .. } => {
                if column_position.is_some() {
                    return Err(SqlError::unsupported("a column position").into());
                }
                return self.add_column(&table, column_def, *if_not_exists).await;
            }
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
                Change::DropConstraint { table: id, name, cascade: cascades(*drop_behavior) }
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

    async fn add_column(
        &mut self,
        table: &Arc<TableVersion>,
        def: &datafusion::sql::sqlparser::ast::ColumnDef,
        if_not_exists: bool,
    ) -> Result<(), Stop> {
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
                return Ok(());
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
        for constraint in &plan.constraints {
            let table = self.table_by_id(id)?;
            let constraint = self.constraint(constraint, &table.def, Some(&table), &[])?;
            self.apply(Change::AddConstraint { table: id, constraint }).await?;
        }
        Ok(())
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
            let owned = self.sequences_of(&table.def, table.def.columns[at].id);
            let change = Change::DropColumn { table: table.def.id, column, cascade };
            self.apply(change).await?;
            for sequence in owned {
                self.apply(Change::DropSequence { sequence: sequence.id }).await?;
            }
        }
        Ok(())
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
            AlterColumnOperation::SetDataType { data_type, using, .. } => {
                let again = self.drop_computed_from(table, def.id).await?;
                let changed = self.table_by_id(id)?;
                self.alter_type(&changed, &column, data_type, using.as_ref()).await?;
                for index in &again {
                    let new = self.index_again(&table.def, index, &self.table_by_id(id)?)?;
                    self.apply(Change::CreateIndex { table: id, index: new }).await?;
                }
                return Ok(());
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

    /// Drops the indexes with expressions and predicates that read a column; its type makes them others.
    async fn drop_computed_from(
        &mut self,
        table: &Arc<TableVersion>,
        column: froglet_engine::ColumnId,
    ) -> Result<Vec<froglet_schema::IndexDef>, Stop> {
        let reads = |id| table.def.hidden_column(id).is_some_and(|h| h.inputs.contains(&column));
        let indexes = table.def.indexes.iter();
        let dropped: Vec<froglet_schema::IndexDef> =
            indexes.filter(|i| i.spec.key.iter().any(|part| reads(part.column))).cloned().collect();
        for index in &dropped {
            self.apply(Change::DropIndex { table: table.def.id, index: index.id }).await?;
        }
        Ok(dropped)
    }

    async fn alter_type(
        &mut self,
        table: &Arc<TableVersion>,
        column: &str,
        data_type: &datafusion::sql::sqlparser::ast::DataType,
        given: Option<&Expr>,
    ) -> Result<(), Stop> {
        let def = table.def.column(column).expect("found by the caller");
        let at = table.def.columns.iter().position(|c| c.id == def.id).expect("just found");
        let (ty, sql_type) = types::parse_type(data_type)?;
        self.check_type(sql_type.oid)?;
        if let Some((_, generated)) =
            crate::table::generated_from(&table.def, at)?.into_iter().find(|(g, _)| *g != at)
        {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "cannot alter type of a column used by a generated column",
            )
            .detail(format!("Column \"{column}\" is used by generated column \"{generated}\"."))
            .into());
        }
        if given.is_some() && stored::default_kind(def) == DefaultKind::Generated {
            let message = "cannot specify USING when altering type of generated column";
            return Err(SqlError::new(SqlState::new("42611"), message)
                .detail(format!("Column \"{column}\" is a generated column."))
                .into());
        }
        self.retype_identity(&table.def, def, sql_type.oid).await?;
        let mut new = new_column(def);
        (new.ty, new.sql_type) = (ty, sql_type);
        self.recheck_default(&table.def, def, &new)?;
        let checks = self.recheck_constraints(&table.def, at, &new)?;
        let from = match given {
            Some(expr) => Some(From::Expression(expr)),
            None if crate::ddl_compile::keeps_cells(def, &new) => None,
            None => Some(From::Column(def.id)),
        };
        let (mut using, mut lazily) = (None, None);
        if let Some(from) = from {
            let computed = lazy_column::computation(self.session, from, &table.def, &new)?;
            let computed = computed.but_for(depends_on(&table.def, def.id));
            using = Some(computed.transform.clone());
            lazily = self.lazily(&table.def, computed, &new)?;
        }
        if using.is_some() && given.is_some_and(|expr| !converts_alone(expr, column, sql_type)) {
            self.catalog.note_computed(self.txn, table.def.id, def.id);
        }
        let change = Change::AlterType {
            table: table.def.id,
            column: column.to_owned(),
            ty,
            sql_type,
            using,
            lazily,
            default: def.default.clone(),
            checks,
        };
        self.apply(change).await?;
        Ok(())
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

/// When an action runs (PostgreSQL's AT_PASS_…).
fn pass(operation: &AlterTableOperation) -> u8 {
    use AlterTableOperation as Op;
    match operation {
        Op::DropColumn { .. } | Op::DropConstraint { .. } => 0,
        Op::AlterColumn { op, .. } => match op {
            AlterColumnOperation::DropDefault | AlterColumnOperation::DropNotNull => 0,
            AlterColumnOperation::SetDefault { value }
                if matches!(
                    column_action(value),
                    Some(ColumnAction::DropIdentity { .. } | ColumnAction::DropExpression { .. })
                ) =>
            {
                0
            }
            AlterColumnOperation::SetDataType { .. } => 1,
            _ => 4,
        },
        Op::AddColumn { .. } => 2,
        Op::AddConstraint { .. } => 5,
        _ => 3,
    }
}
