//! COMMENT ON: what is said of an object is an object of its own.

use datafusion::sql::sqlparser::ast::ObjectName;
use froglet_engine::{ColumnId, SqlState};
use froglet_schema::plain::{CommentDef, PlainDef};
use froglet_schema::{Change, ObjectId};

use crate::apply::Stop;
use crate::command::fold;
use crate::ddl::Ddl;
use crate::ddl_schema::{no_schema, no_type};
use crate::error::SqlError;
use crate::object_ddl::Commented;
use crate::pgcatalog::relations::PG_CLASS;
use crate::resolve::{Names, Relation, no_relation};
use crate::roles::parse::Name;

/// The oids of pg_type, pg_constraint, pg_namespace, pg_database and pg_authid.
const PG_TYPE: u32 = 1247;
const PG_CONSTRAINT: u32 = 2606;
/// pg_namespace's own oid.
pub(crate) const PG_NAMESPACE: u32 = 2615;
const PG_DATABASE: u32 = 1262;
const PG_AUTHID: u32 = 1260;

/// What a comment is about: the oid of its system catalog, the object, a column of it.
type About = (ObjectId, ObjectId, ColumnId);

impl Ddl<'_> {
    pub(crate) async fn comment(
        &mut self,
        on: Commented,
        name: &ObjectName,
        text: Option<&str>,
    ) -> Result<String, Stop> {
        let (class, object, column) = self.commented(on, name)?;
        let known = self.version.comment(class, object, column).cloned();
        // An empty comment is none, as in PostgreSQL.
        match (known, text.filter(|text| !text.is_empty())) {
            (None, None) => {}
            (Some(known), None) => {
                self.apply(Change::DropPlain { object: known.id }).await?;
            }
            (Some(known), Some(text)) => {
                let def = CommentDef { text: text.to_owned(), ..known };
                self.apply(Change::ReplacePlain(PlainDef::Comment(def))).await?;
            }
            (None, Some(text)) => {
                let def = CommentDef { id: 0, class, object, column, text: text.to_owned() };
                self.apply(Change::CreatePlain(PlainDef::Comment(def))).await?;
            }
        }
        Ok("COMMENT".to_owned())
    }

    fn commented(&self, on: Commented, name: &ObjectName) -> Result<About, Stop> {
        let whole = ColumnId(0);
        Ok(match on {
            Commented::Relation(_) | Commented::Index => {
                let wrong = |what: &str| {
                    let bare = Names::parts(name).map(|(_, bare)| bare).unwrap_or_default();
                    let message = format!("\"{bare}\" is not {what}");
                    SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
                };
                let id = match (on, self.names().relation(name)?) {
                    (_, None) => return Err(no_relation(&Names::parts(name)?.1).into()),
                    (Commented::Index, Some(Relation::Index(table, at))) => {
                        table.def.indexes[at].id
                    }
                    (Commented::Index, Some(_)) => return Err(wrong("an index").into()),
                    (_, Some(Relation::Table(table))) => table.def.id,
                    (_, Some(Relation::View(view))) => view.id,
                    (_, Some(Relation::Sequence(sequence))) => sequence.id,
                    (_, Some(Relation::Index(..))) => return Err(wrong("a table").into()),
                };
                (PG_CLASS, id, whole)
            }
            Commented::Column => {
                let (relation, column) = behind(name)?;
                let missing = || {
                    let message =
                        format!("column \"{column}\" of relation \"{relation}\" does not exist");
                    SqlError::new(SqlState::UNDEFINED_COLUMN, message)
                };
                match self.names().relation(&relation)? {
                    Some(Relation::View(view)) => {
                        let at = view.columns.iter().position(|c| c.name == column);
                        let at = u32::try_from(at.ok_or_else(missing)?).unwrap_or(0);
                        (PG_CLASS, view.id, ColumnId(at + 1))
                    }
                    _ => {
                        let table = self.table(&relation)?;
                        let id = table.def.column(&column).ok_or_else(missing)?.id;
                        (PG_CLASS, table.def.id, id)
                    }
                }
            }
            Commented::Constraint => {
                let (relation, constraint) = behind(name)?;
                let table = self.table(&relation)?;
                let found = table.def.constraint(&constraint).ok_or_else(|| {
                    SqlError::new(
                        SqlState::UNDEFINED_OBJECT,
                        format!(
                            "constraint \"{constraint}\" for table \"{}\" does not exist",
                            table.def.name
                        ),
                    )
                })?;
                (PG_CONSTRAINT, found.id, whole)
            }
            Commented::Schema => {
                let (_, schema) = Names::parts(name)?;
                let def = self.version.schema(&schema).ok_or_else(|| no_schema(&schema))?;
                (PG_NAMESPACE, def.id, whole)
            }
            Commented::Type => {
                let found = self.names().enum_type(name)?;
                let missing = || Names::parts(name).map_or_else(|e| e, |(_, bare)| no_type(&bare));
                (PG_TYPE, found.ok_or_else(missing)?.id, whole)
            }
            Commented::Database => (PG_DATABASE, 5, whole),
            Commented::Role => {
                let role = self.known_role(&Name::Role(Names::parts(name)?.1))?;
                (PG_AUTHID, role.id, whole)
            }
        })
    }
}

/// A name's last part, and what stands before it.
fn behind(name: &ObjectName) -> Result<(ObjectName, String), SqlError> {
    let last = name.0.last().and_then(|part| part.as_ident()).map(fold);
    match (name.0.len(), last) {
        (2.., Some(last)) => Ok((ObjectName(name.0[..name.0.len() - 1].to_vec()), last)),
        _ => Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            format!("a relation must stand before {name}"),
        )),
    }
}
