//! Identity columns of tables that are there: ADD GENERATED … AS IDENTITY, DROP IDENTITY, and their sequences' types.

use std::sync::Arc;

use froglet_engine::{ColumnId, SqlState};
use froglet_schema::{Change, ColumnDef, SequenceDef, TableDef, TableVersion};

use crate::apply::Stop;
use crate::ddl::Ddl;
use crate::ddl_alter::new_column;
use crate::ddl_column::Serial;
use crate::ddl_sequence;
use crate::error::SqlError;
use crate::sequence_ddl;
use crate::stored;
use crate::types::oids;

impl Ddl<'_> {
    /// The sequences that go with a column.
    pub(crate) fn sequences_of(&self, table: &TableDef, column: ColumnId) -> Vec<Arc<SequenceDef>> {
        let owned = self.version.sequences.values();
        owned.filter(|s| s.owned_by == Some((table.id, column))).cloned().collect()
    }

    pub(crate) async fn add_identity(
        &mut self,
        table: &Arc<TableVersion>,
        column: &str,
        serial: Serial,
    ) -> Result<(), Stop> {
        let def = table.def.column(column).expect("found by the caller");
        let refusal = if def.default.is_some() {
            Some("already has a default value")
        } else if !def.not_null {
            Some("must be declared NOT NULL before identity can be added")
        } else {
            None
        };
        if let Some(why) = refusal {
            return Err(SqlError::new(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("column \"{column}\" of relation \"{}\" {why}", table.def.name),
            )
            .into());
        }
        let new = new_column(def);
        let (sequence, nextval) = self.column_sequence(&table.def, &new, &serial.options).await?;
        let always = serial.identity.unwrap_or(true);
        let default = Some(stored::store_identity(always, &nextval));
        self.apply(Change::SetDefault { table: table.def.id, column: column.to_owned(), default })
            .await?;
        self.own_sequences(table.def.id, vec![(sequence, column.to_owned())]).await
    }

    pub(crate) async fn drop_identity(
        &mut self,
        table: &TableVersion,
        column: &ColumnDef,
        if_exists: bool,
    ) -> Result<(), Stop> {
        if !stored::default_kind(column).is_identity() {
            let message = format!(
                "column \"{}\" of relation \"{}\" is not an identity column",
                column.name, table.def.name
            );
            if if_exists {
                self.notice(SqlState::SUCCESSFUL_COMPLETION, format!("{message}, skipping"));
                return Ok(());
            }
            return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message).into());
        }
        let (id, name) = (table.def.id, column.name.clone());
        let owned = self.sequences_of(&table.def, column.id);
        self.apply(Change::SetDefault { table: id, column: name, default: None }).await?;
        for sequence in owned {
            self.apply(Change::DropSequence { sequence: sequence.id }).await?;
        }
        Ok(())
    }

    /// A generated column becomes an ordinary one, and keeps its values.
    pub(crate) async fn drop_expression(
        &mut self,
        table: &TableVersion,
        column: &ColumnDef,
        if_exists: bool,
    ) -> Result<(), Stop> {
        if stored::default_kind(column) != stored::DefaultKind::Generated {
            let message = format!(
                "column \"{}\" of relation \"{}\" is not a stored generated column",
                column.name, table.def.name
            );
            if if_exists {
                self.notice(SqlState::SUCCESSFUL_COMPLETION, format!("{message}, skipping"));
                return Ok(());
            }
            return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message).into());
        }
        let (table, column) = (table.def.id, column.name.clone());
        self.apply(Change::SetDefault { table, column, default: None }).await?;
        Ok(())
    }

    /// SET GENERATED …, SET with an option of its sequence, RESTART: `written` has them all.
    pub(crate) async fn set_identity(
        &mut self,
        table: &TableVersion,
        column: &ColumnDef,
        written: &str,
    ) -> Result<(), Stop> {
        let (always, options) = sequence_ddl::parse_identity(written)?;
        let Some(nextval) = stored::identity_text(column) else {
            let message = format!(
                "column \"{}\" of relation \"{}\" is not an identity column",
                column.name, table.def.name
            );
            return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message).into());
        };
        if let Some(always) = always {
            let default = Some(stored::store_identity(always, nextval));
            let (table, column) = (table.def.id, column.name.clone());
            self.apply(Change::SetDefault { table, column, default }).await?;
        }
        for sequence in self.sequences_of(&table.def, column.id) {
            self.set_sequence_options(&sequence, &options).await?;
        }
        Ok(())
    }

    /// The sequence of an identity column is of the column's type.
    pub(crate) async fn retype_identity(
        &mut self,
        table: &TableDef,
        column: &ColumnDef,
        oid: u32,
    ) -> Result<(), Stop> {
        if !stored::default_kind(column).is_identity() {
            return Ok(());
        }
        if !matches!(oid, oids::INT2 | oids::INT4 | oids::INT8) {
            return Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                "identity column type must be smallint, integer, or bigint",
            )
            .into());
        }
        for sequence in self.sequences_of(table, column.id) {
            let mut def = (*sequence).clone();
            ddl_sequence::retype(&mut def, oid)?;
            ddl_sequence::check(&def)?;
            ddl_sequence::check_place(&def, self.catalog.sequence_state(&sequence).value)?;
            if def != *sequence {
                self.apply(Change::AlterSequence(def)).await?;
            }
        }
        Ok(())
    }
}
