//! CREATE TYPE … AS ENUM and what ALTER TYPE does to one.

use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use froglet_engine::SqlState;
use froglet_schema::plain::{EnumDef, PlainDef};
use froglet_schema::{Change, ObjectId};

use crate::apply::Stop;
use crate::ddl::Ddl;
use crate::ddl_schema::no_type;
use crate::error::SqlError;
use crate::object_ddl::Place;
use crate::resolve::Names;

/// The longest label, in bytes, as in PostgreSQL.
const MAX_LABEL_BYTES: usize = 63;

impl Ddl<'_> {
    pub(crate) async fn create_enum(
        &mut self,
        name: &ObjectName,
        labels: &[String],
    ) -> Result<String, Stop> {
        let (schema, name) = Names::parts(name)?;
        let schema = self.names().creation_schema(schema)?;
        crate::ddl_column::check_name(&name)?;
        let place = (schema.clone(), name.clone());
        if self.version.types.contains_key(&place) || self.version.names.contains_key(&place) {
            let message = format!("type \"{name}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message).into());
        }
        for (at, label) in labels.iter().enumerate() {
            check_label(label)?;
            if labels[..at].contains(label) {
                let message = format!("enum label \"{label}\" is used more than once");
                return Err(SqlError::new(SqlState::new("22023"), message).into());
            }
        }
        let labels = labels.iter().map(|label| (0, label.clone())).collect();
        let def = EnumDef { id: 0, array: 0, schema, name, labels };
        self.apply(Change::CreatePlain(PlainDef::Enum(def))).await?;
        Ok("CREATE TYPE".to_owned())
    }

    pub(crate) async fn add_label(
        &mut self,
        name: &ObjectName,
        if_not_exists: bool,
        label: &str,
        place: &Place,
    ) -> Result<String, Stop> {
        let mut def = self.enum_named(name)?;
        check_label(label)?;
        if def.labels.iter().any(|(_, known)| known == label) {
            let message = format!("enum label \"{label}\" already exists");
            if !if_not_exists {
                return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message).into());
            }
            self.notice(SqlState::DUPLICATE_OBJECT, format!("{message}, skipping"));
            return Ok("ALTER TYPE".to_owned());
        }
        let at = match place {
            Place::Last => def.labels.len(),
            Place::Before(neighbour) => position(&def, neighbour)?,
            Place::After(neighbour) => position(&def, neighbour)? + 1,
        };
        def.labels.insert(at, (0, label.to_owned()));
        self.apply(Change::ReplacePlain(PlainDef::Enum(def))).await?;
        Ok("ALTER TYPE".to_owned())
    }

    fn enum_named(&self, name: &ObjectName) -> Result<EnumDef, SqlError> {
        match self.names().enum_type(name)? {
            Some(def) => Ok(def.clone()),
            None => Err(no_type(&Names::parts(name)?.1)),
        }
    }

    pub(crate) async fn drop_types(
        &mut self,
        names: &[ObjectName],
        if_exists: bool,
        cascade: bool,
    ) -> Result<String, Stop> {
        for name in names {
            let (schema, bare) = Names::parts(name)?;
            let schemas = schema.map_or_else(|| self.path.to_vec(), |schema| vec![schema]);
            let id = schemas
                .into_iter()
                .find_map(|schema| self.version.types.get(&(schema, bare.clone())).copied());
            if let Some(object) = id.filter(|id| self.version.unreadable(*id).is_some()) {
                self.apply(Change::DropUnreadable { object, cascade }).await?;
                continue;
            }
            match self.names().enum_type(name)?.map(|def| def.id) {
                Some(object) => self.drop_type(object, cascade).await?,
                None if if_exists => self.skip("type", name)?,
                None => return Err(no_type(&bare).into()),
            }
        }
        Ok("DROP TYPE".to_owned())
    }

    /// A type goes; with CASCADE, columns of it as well.
    pub(crate) async fn drop_type(&mut self, object: ObjectId, cascade: bool) -> Result<(), Stop> {
        let def = self.version.enum_type(object).ok_or(Stop::Restart)?.clone();
        let of_it = |oid: u32| oid == def.id || oid == def.array;
        let mut columns = Vec::new();
        for table in self.version.tables.values() {
            let own = table.def.columns.iter().filter(|c| of_it(c.sql_type.oid));
            columns.extend(own.map(|c| (table.def.id, table.def.name.clone(), c.name.clone())));
        }
        columns.sort();
        if let (Some((_, table, column)), false) = (columns.first(), cascade) {
            return Err(SqlError::new(
                SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                format!("cannot drop type {} because other objects depend on it", def.name),
            )
            .detail(format!("column {column} of table {table} depends on type {}", def.name))
            .hint("Use DROP ... CASCADE to drop the dependent objects too.")
            .into());
        }
        // What goes with a column of it, or with what is computed from that, needs no more.
        for (table, _, column) in columns {
            let table = self.table_by_id(table)?;
            if table.def.column(&column).is_some() {
                let name = Ident::with_quote('"', column);
                Box::pin(self.drop_columns_cascading(&table, &[name])).await?;
            }
        }
        self.release(object, &format!("type {}", def.name), None, cascade).await?;
        self.apply(Change::DropPlain { object }).await?;
        Ok(())
    }
}

fn check_label(label: &str) -> Result<(), SqlError> {
    if label.len() <= MAX_LABEL_BYTES {
        return Ok(());
    }
    Err(SqlError::new(SqlState::new("42602"), format!("invalid enum label \"{label}\""))
        .detail(format!("Labels must be {MAX_LABEL_BYTES} bytes or less.")))
}

fn position(def: &EnumDef, label: &str) -> Result<usize, SqlError> {
    def.labels.iter().position(|(_, known)| known == label).ok_or_else(|| {
        SqlError::new(SqlState::new("22023"), format!("\"{label}\" is not an existing enum label"))
    })
}
