//! CREATE, ALTER and DROP SEQUENCE, and the sequences of serial columns.

use datafusion::sql::sqlparser::ast::ObjectName;
use froglet_engine::SqlState;
use froglet_schema::{Change, NewColumn, ObjectId, SequenceDef, TableDef};

use crate::apply::Stop;
use crate::ddl::Ddl;
use crate::error::SqlError;
use crate::names::depends;
use crate::resolve::Names;
use crate::sequence_ddl::{AlterSequence, CreateSequence, Options};
use crate::types::{oids, plain, type_name};
use crate::udf::lookup::{quoted, split_name};

impl Ddl<'_> {
    /// Makes the sequence of a serial column; its id, and the column's default.
    pub(crate) async fn column_sequence(
        &mut self,
        table: &TableDef,
        column: &NewColumn,
        options: &Options,
    ) -> Result<(ObjectId, String), Stop> {
        let name = match &options.name {
            Some(name) => self.sequence_name(table, name)?,
            None => {
                let base = format!("{}_{}_seq", table.name, column.name);
                let mut name = base.clone();
                let mut n = 0;
                while self.names().find(Some(&table.schema), &name).is_some() {
                    n += 1;
                    name = format!("{base}{n}");
                }
                name
            }
        };
        let def = define(&table.schema, &name, column.sql_type.oid, options)?;
        let id = self.apply(Change::CreateSequence(def)).await?.ok_or(Stop::Restart)?;
        Ok((id, format!("nextval('{id}'::regclass)")))
    }

    /// The name that SEQUENCE NAME gives.
    fn sequence_name(&self, table: &TableDef, given: &str) -> Result<String, SqlError> {
        let mut parts = split_name(given)?;
        let name = parts.pop().unwrap_or_default();
        if parts.pop().is_some_and(|schema| schema != table.schema) {
            return Err(SqlError::new(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                "sequence must be in same schema as table it is linked to",
            ));
        }
        self.refuse_taken(&table.schema, &name)?;
        Ok(name)
    }

    pub(crate) async fn create_sequence(
        &mut self,
        create: &CreateSequence,
    ) -> Result<String, Stop> {
        let (schema, sequence) = Names::parts(&create.name)?;
        let schema = self.names().creation_schema(schema)?;
        if self.names().find(Some(&schema), &sequence).is_some() {
            let message = format!("relation \"{sequence}\" already exists");
            if create.if_not_exists {
                self.notice(SqlState::DUPLICATE_TABLE, format!("{message}, skipping"));
                return Ok("CREATE SEQUENCE".to_owned());
            }
            return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message).into());
        }
        let oid = type_of(create.ty.as_deref());
        let mut def = define(&schema, &sequence, oid, &create.options)?;
        if let Some(Some(column)) = &create.options.owned_by {
            def.owned_by = self.owner(column)?;
        }
        self.apply(Change::CreateSequence(def)).await?;
        Ok("CREATE SEQUENCE".to_owned())
    }

    /// OWNED BY table.column; `None` for NONE.
    fn owner(
        &self,
        column: &ObjectName,
    ) -> Result<Option<(ObjectId, froglet_engine::ColumnId)>, Stop> {
        let mut parts = column.0.clone();
        let last = parts.pop();
        let Some(ident) = last.as_ref().and_then(|part| part.as_ident()) else {
            return Err(SqlError::unsupported("this OWNED BY").into());
        };
        if parts.is_empty() {
            if ident.value.eq_ignore_ascii_case("none") {
                return Ok(None);
            }
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "invalid OWNED BY option")
                .hint("Specify OWNED BY table.column or OWNED BY NONE.")
                .into());
        }
        let table = self.table(&ObjectName(parts))?;
        let at = crate::resolve::column(&table.def, ident)?;
        Ok(Some((table.def.id, table.def.columns[at].id)))
    }

    pub(crate) async fn alter_sequence(&mut self, alter: &AlterSequence) -> Result<String, Stop> {
        let Some(sequence) = self.sequence(&alter.name)? else {
            if alter.if_exists {
                self.skip("relation", &alter.name)?;
                return Ok("ALTER SEQUENCE".to_owned());
            }
            let name = Names::parts(&alter.name)?.1;
            return Err(crate::resolve::no_relation(&name).into());
        };
        let mut def = (*sequence).clone();
        if let Some(name) = &alter.rename {
            self.refuse_taken(&def.schema, name)?;
            def.name.clone_from(name);
        }
        if alter.ty.is_some() {
            retype(&mut def, type_of(alter.ty.as_deref()))?;
        }
        match &alter.options.owned_by {
            Some(Some(column)) => def.owned_by = self.owner(column)?,
            Some(None) => def.owned_by = None,
            None => {}
        }
        self.change_sequence(&sequence, def, &alter.options).await?;
        Ok("ALTER SEQUENCE".to_owned())
    }

    /// Gives a sequence some options.
    pub(crate) async fn set_sequence_options(
        &mut self,
        sequence: &SequenceDef,
        options: &Options,
    ) -> Result<(), Stop> {
        self.change_sequence(sequence, sequence.clone(), options).await
    }

    /// Makes a sequence another, with some options.
    async fn change_sequence(
        &mut self,
        sequence: &SequenceDef,
        mut def: SequenceDef,
        options: &Options,
    ) -> Result<(), Stop> {
        if let Some(increment) = options.increment {
            def.increment = increment;
        }
        let (low, high) = bounds(def.type_oid, def.increment)?;
        if let Some(min) = options.min {
            def.min = min.unwrap_or(low);
        }
        if let Some(max) = options.max {
            def.max = max.unwrap_or(high);
        }
        if let Some(start) = options.start {
            def.start = start;
        }
        if let Some(cycle) = options.cycle {
            def.cycle = cycle;
        }
        check(&def)?;
        match options.restart {
            Some(restart) => {
                let value = restart.unwrap_or(def.start);
                check_place(&def, value)?;
                self.session.rest_on(self.catalog.set_value(&def, value, false)?);
            }
            None => check_place(&def, self.catalog.sequence_state(sequence).value)?,
        }
        if def != *sequence {
            self.apply(Change::AlterSequence(def.clone())).await?;
            self.follow_sequence(sequence, &def).await?;
        }
        Ok(())
    }

    /// Defaults that draw from a sequence do so under its new name.
    pub(crate) async fn follow_sequence(
        &mut self,
        old: &SequenceDef,
        new: &SequenceDef,
    ) -> Result<(), Stop> {
        if (&old.schema, &old.name) == (&new.schema, &new.name) {
            return Ok(());
        }
        let quoted = |name: &str| quote(name).replace('\'', "''");
        let now = format!("'{}.{}'", quoted(&new.schema), quoted(&new.name));
        let tables = self.version.tables.values();
        let drawing: Vec<_> = tables
            .flat_map(|table| table.def.columns.iter().map(|column| (table.def.id, column)))
            .filter(|(_, column)| draws_from(column, old))
            .map(|(table, column)| (table, column.clone()))
            .collect();
        for (table, column) in drawing {
            let Some(default) = column.default else { continue };
            let name = quoted(&old.name);
            let qualified = format!("'{}.{name}'", quoted(&old.schema));
            let text = default.0.replace(&qualified, &now).replace(&format!("'{name}'"), &now);
            let default = Some(froglet_schema::Expression(text));
            self.apply(Change::SetDefault { table, column: column.name, default }).await?;
        }
        Ok(())
    }

    pub(crate) async fn drop_sequences(
        &mut self,
        names: &[ObjectName],
        if_exists: bool,
        cascade: bool,
    ) -> Result<String, Stop> {
        for name in names {
            if self.drop_unreadable(name, cascade).await? {
                continue;
            }
            let Some(sequence) = self.sequence(name)? else {
                if if_exists {
                    self.skip("sequence", name)?;
                    continue;
                }
                let name = Names::parts(name)?.1;
                return Err(SqlError::new(
                    SqlState::UNDEFINED_TABLE,
                    format!("sequence \"{name}\" does not exist"),
                )
                .into());
            };
            let what = format!("sequence {}", sequence.name);
            self.release(sequence.id, &what, &[], cascade).await?;
            self.apply(Change::DropSequence { sequence: sequence.id }).await?;
        }
        Ok("DROP SEQUENCE".to_owned())
    }

    /// TRUNCATE … RESTART IDENTITY
    pub(crate) fn restart_owned(&self, table: ObjectId) -> Result<(), SqlError> {
        for sequence in self.version.sequences.values() {
            if sequence.owned_by.is_some_and(|(owner, _)| owner == table) {
                let restarted = self.catalog.set_value(sequence, sequence.start, false)?;
                self.session.rest_on(restarted);
            }
        }
        Ok(())
    }
}

fn define(schema: &str, name: &str, oid: u32, options: &Options) -> Result<SequenceDef, SqlError> {
    let increment = options.increment.unwrap_or(1);
    let (low, high) = bounds(oid, increment)?;
    let (min, max) = (options.min.flatten().unwrap_or(low), options.max.flatten().unwrap_or(high));
    let def = SequenceDef {
        id: 0,
        schema: schema.to_owned(),
        name: name.to_owned(),
        type_oid: oid,
        start: options.start.unwrap_or(if increment > 0 { min } else { max }),
        increment,
        min,
        max,
        cycle: options.cycle.unwrap_or(false),
        owned_by: None,
    };
    check(&def)?;
    Ok(def)
}

/// The type of AS, bigint without; 0 for one that a sequence cannot have.
fn type_of(name: Option<&str>) -> u32 {
    match name {
        None | Some("bigint" | "int8") => oids::INT8,
        Some("integer" | "int" | "int4") => oids::INT4,
        Some("smallint" | "int2") => oids::INT2,
        Some(_) => 0,
    }
}

/// Whether a default takes its values from a sequence.
pub(crate) fn draws_from(column: &froglet_schema::ColumnDef, sequence: &SequenceDef) -> bool {
    depends::default_refers(column, sequence.id, Some(sequence))
}

/// The same of one that was stored under the sequence's name.
pub(crate) fn draws_by_name(column: &froglet_schema::ColumnDef, sequence: &SequenceDef) -> bool {
    let Some(default) = &column.default else { return false };
    let text = &default.0;
    let name = quote(&sequence.name).replace('\'', "''");
    let forms = [format!("'{name}'"), format!("'{}.{name}'", quote(&sequence.schema))];
    text.contains("nextval(") && forms.iter().any(|form| text.contains(form.as_str()))
}

/// Gives a sequence another type; bounds that are the old type's become the new one's.
pub(crate) fn retype(def: &mut SequenceDef, oid: u32) -> Result<(), SqlError> {
    let (low, high) = bounds(def.type_oid, def.increment)?;
    let (new_low, new_high) = bounds(oid, def.increment)?;
    def.type_oid = oid;
    def.min = if def.min == low { new_low } else { def.min };
    def.max = if def.max == high { new_high } else { def.max };
    Ok(())
}

/// The bounds that a sequence has unless it is told others.
fn bounds(oid: u32, increment: i64) -> Result<(i64, i64), SqlError> {
    let (min, max) = match oid {
        oids::INT2 => (i64::from(i16::MIN), i64::from(i16::MAX)),
        oids::INT4 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        oids::INT8 => (i64::MIN, i64::MAX),
        _ => {
            return Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                "sequence type must be smallint, integer, or bigint",
            ));
        }
    };
    Ok(if increment > 0 { (1, max) } else { (min, -1) })
}

pub(crate) fn check(def: &SequenceDef) -> Result<(), SqlError> {
    let wrong = |message: String| Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    let (min, max, start) = (def.min, def.max, def.start);
    if def.increment == 0 {
        return wrong("INCREMENT must not be zero".to_owned());
    }
    let all = match def.type_oid {
        oids::INT2 => i64::from(i16::MIN)..=i64::from(i16::MAX),
        oids::INT4 => i64::from(i32::MIN)..=i64::from(i32::MAX),
        _ => i64::MIN..=i64::MAX,
    };
    for (bound, value) in [("MAXVALUE", max), ("MINVALUE", min)] {
        if !all.contains(&value) {
            let ty = type_name(plain(def.type_oid));
            return wrong(format!("{bound} ({value}) is out of range for sequence data type {ty}"));
        }
    }
    if min >= max {
        return wrong(format!("MINVALUE ({min}) must be less than MAXVALUE ({max})"));
    }
    if start < min {
        return wrong(format!("START value ({start}) cannot be less than MINVALUE ({min})"));
    }
    if start > max {
        return wrong(format!("START value ({start}) cannot be greater than MAXVALUE ({max})"));
    }
    Ok(())
}

/// 22023 if what a sequence has come to, or begins again with, is beyond its bounds.
pub(crate) fn check_place(def: &SequenceDef, value: i64) -> Result<(), SqlError> {
    let beyond = match value {
        low if low < def.min => format!("less than MINVALUE ({})", def.min),
        high if high > def.max => format!("greater than MAXVALUE ({})", def.max),
        _ => return Ok(()),
    };
    let message = format!("RESTART value ({value}) cannot be {beyond}");
    Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
}

/// An identifier as it must be written to be read back.
pub(crate) fn quote(name: &str) -> String {
    let plain = !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c == '_' || c.is_ascii_lowercase() || c.is_ascii_digit());
    if plain { name.to_owned() } else { quoted(name) }
}
