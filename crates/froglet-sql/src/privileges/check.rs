//! Whether a statement may run, for the user that runs it.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::Query;
use froglet_engine::ColumnId;
use froglet_schema::access::{AccessDef, PG_CLASS};
use froglet_schema::plain::ViewDef;
use froglet_schema::{CatalogVersion, ObjectId};

use super::needs::{Marked, Need, Walk};
use super::{Who, bits, called, kind_of, no_privilege};
use crate::command::Command;
use crate::context::SessionFunctions;
use crate::ddl_view::column_ids;
use crate::error::SqlError;
use crate::functions::SessionState;
use crate::pgcatalog;
use crate::resolve::{Names, no_relation};
use crate::session::Session;
use crate::stack;

/// Views within views.
const MAX_DEPTH: usize = 64;

impl Session {
    /// Why the user may not run a statement that is planned under a catalog; `None` if he may.
    pub(crate) fn refusal(
        &self,
        command: &Command,
        catalog: &Arc<CatalogVersion>,
    ) -> Option<Box<SqlError>> {
        let path = self.settings.hot().search_path.clone();
        let names = Names { catalog, path: &path };
        refusal(&self.state, &names, |walk| command_needs(walk, command)).err().map(Box::new)
    }
}

fn command_needs(walk: &mut Walk<'_>, command: &Command) -> Result<(), SqlError> {
    match command {
        Command::Query(query) | Command::With(query) | Command::Merge(query) => {
            _ = walk.query(query);
        }
        Command::Insert(insert) => _ = walk.insert(insert),
        Command::Update(update) => _ = walk.update(update),
        Command::Delete(delete) => _ = walk.delete(delete),
        // Whoever adds a statement is to say what it needs.
        _ => return Err(SqlError::unsupported("this statement, but for superusers,")),
    }
    Ok(())
}

/// The relations that a statement mentions, each with what it does there, as far as that can be told.
pub(crate) fn mentioned(names: &Names<'_>, command: &Command) -> Vec<(ObjectId, u16)> {
    let mut walk = Walk::new(Names { catalog: names.catalog, path: names.path });
    // What cannot be told is refused elsewhere.
    _ = stack::with_room(|| command_needs(&mut walk, command));
    walk.needs.iter().map(|need| (need.relation, need.required)).collect()
}

/// 42501 if the user may not run a query.
pub(crate) fn check_query(
    state: &SessionState,
    names: &Names<'_>,
    query: &Query,
) -> Result<(), SqlError> {
    refusal(state, names, |walk| {
        walk.query(query);
        Ok(())
    })
}

/// 42501 if the user may not do something with columns of a relation, or with all of it.
pub(crate) fn check_columns(
    state: &SessionState,
    catalog: &CatalogVersion,
    relation: ObjectId,
    privilege: u16,
    columns: &[ColumnId],
) -> Result<(), SqlError> {
    if is_superuser(state, catalog) {
        return Ok(());
    }
    let newest = judge(state, catalog, relation);
    let judge = newest.as_deref().unwrap_or(catalog);
    let who = Who::named(judge, &state.user());
    if let Some(table) = catalog.tables.get(&relation)
        && !who.may_in_schema(&table.def.schema, bits::USAGE)
    {
        return Err(no_privilege("schema", &table.def.schema));
    }
    let access = judge.access(PG_CLASS, relation);
    let given = |column: &ColumnId| who.on_column(access, *column) & privilege != 0;
    match who.on_relation(relation) & privilege != 0
        || (!columns.is_empty() && columns.iter().all(given))
    {
        true => Ok(()),
        false => {
            let (what, name) = called(catalog, relation);
            Err(no_privilege(what, &name))
        }
    }
}

/// Whether the user is a superuser under a catalog version.
pub(crate) fn is_superuser(state: &SessionState, catalog: &CatalogVersion) -> bool {
    catalog.role(&state.user()).is_some_and(|role| role.superuser)
}

/// Of the past, that of now is asked [W1], unless the object is there no more.
fn judge(
    state: &SessionState,
    catalog: &CatalogVersion,
    relation: ObjectId,
) -> Option<Arc<CatalogVersion>> {
    if !state.reads_past() {
        return None;
    }
    let newest = state.database().catalog().latest();
    let is_there = newest.tables.contains_key(&relation)
        || newest.plain.contains_key(&relation)
        || newest.sequences.contains_key(&relation)
        || !catalog.tables.contains_key(&relation);
    is_there.then_some(newest)
}

fn refusal(
    state: &SessionState,
    names: &Names<'_>,
    find: impl FnOnce(&mut Walk<'_>) -> Result<(), SqlError>,
) -> Result<(), SqlError> {
    let now = state.reads_past().then(|| state.database().catalog().latest());
    let roles = now.as_deref().unwrap_or(names.catalog);
    let superuser = is_superuser(state, roles);
    // What a view reads is asked of its owner, whoever reads it: of a superuser's nothing is asked.
    if superuser && roles.all_access().is_empty() {
        return Ok(());
    }
    let mut walk = Walk::new(Names { catalog: names.catalog, path: names.path });
    let found = stack::with_room(|| find(&mut walk));
    if superuser && (found.is_err() || walk.unknown) {
        return Ok(());
    }
    found?;
    if walk.unknown {
        return Err(SqlError::unsupported("this statement, but for superusers,"));
    }
    let user = state.user();
    let who = Who::named(roles, &user);
    walk.needs.sort_by_key(|need| need.depth);
    for need in &walk.needs {
        check_schema(&who, names, need)?;
    }
    for need in &walk.needs {
        let newest = judge(state, names.catalog, need.relation);
        let judge = newest.as_deref().unwrap_or(names.catalog);
        check(names.catalog, judge, &Who::named(judge, &user), need, 0)?;
    }
    Ok(())
}

fn check_schema(who: &Who<'_>, names: &Names<'_>, need: &Need) -> Result<(), SqlError> {
    if who.may_in_schema(&need.schema, bits::USAGE) {
        return Ok(());
    }
    match need.qualified {
        true => Err(no_privilege("schema", &need.schema)),
        false => Err(no_relation(&called(names.catalog, need.relation).1)),
    }
}

/// Checks one need. `catalog` has the objects, `judge` the grants.
fn check(
    catalog: &CatalogVersion,
    judge: &CatalogVersion,
    who: &Who<'_>,
    need: &Need,
    depth: usize,
) -> Result<(), SqlError> {
    if !who.superuser && !may(catalog, judge, who, need) {
        let (what, name) = called(catalog, need.relation);
        return Err(no_privilege(what, &name));
    }
    // What a view reads is read by its owner.
    let Some(view) = catalog.view(need.relation).filter(|_| depth < MAX_DEPTH) else {
        return Ok(());
    };
    let written = need.required & (bits::INSERT | bits::UPDATE | bits::DELETE);
    check_sources(catalog, judge, (view, view.id), written, depth)
}

/// 42501 if the owner of a relation may not read what a query reads that is its own, nor write
/// what is written through it: the one table in its FROM, which is what is read first.
pub(super) fn check_sources(
    catalog: &CatalogVersion,
    judge: &CatalogVersion,
    (view, relation): (&ViewDef, ObjectId),
    mut written: u16,
    depth: usize,
) -> Result<(), SqlError> {
    let owner = Who::of_id(judge, judge.owner(PG_CLASS, relation));
    for source in &view.sources {
        let columns = columns_of(catalog, source.relation);
        let used = columns.iter().filter(|(_, id)| source.used.contains(id));
        let names = used.map(|(name, _)| name.clone()).collect();
        let below = Need {
            relation: source.relation,
            depth: 0,
            schema: String::new(),
            qualified: false,
            required: bits::SELECT | std::mem::take(&mut written),
            selected: Marked { whole: false, names },
            inserted: Marked { whole: true, ..Marked::default() },
            updated: Marked { whole: true, ..Marked::default() },
        };
        check(catalog, judge, &owner, &below, depth + 1)?;
    }
    Ok(())
}

fn may(catalog: &CatalogVersion, judge: &CatalogVersion, who: &Who<'_>, need: &Need) -> bool {
    let has = who.privileges(kind_of(catalog, need.relation), need.relation);
    let missing = need.required & !has;
    if missing == 0 {
        return true;
    }
    let by_column = [
        (bits::SELECT, &need.selected),
        (bits::INSERT, &need.inserted),
        (bits::UPDATE, &need.updated),
    ];
    let of_columns = by_column.iter().fold(0, |all, (privilege, _)| all | privilege);
    if missing & !of_columns != 0 {
        return false;
    }
    let columns = columns_of(catalog, need.relation);
    let access = judge.access(PG_CLASS, need.relation);
    by_column
        .iter()
        .filter(|(privilege, _)| missing & privilege != 0)
        .all(|(privilege, marked)| on_columns(who, access, &columns, marked, *privilege))
}

fn on_columns(
    who: &Who<'_>,
    access: Option<&AccessDef>,
    columns: &[(String, ColumnId)],
    marked: &Marked,
    privilege: u16,
) -> bool {
    let may = |id: ColumnId| who.on_column(access, id) & privilege != 0;
    if marked.whole {
        return !columns.is_empty() && columns.iter().all(|(_, id)| may(*id));
    }
    if marked.names.is_empty() {
        return columns.iter().any(|(_, id)| may(*id));
    }
    // Names that it has not are names of an alias: they could be any.
    marked.names.iter().all(|name| match columns.iter().find(|(known, _)| known == name) {
        Some((_, id)) => may(*id),
        None => columns.iter().all(|(_, id)| may(*id)),
    })
}

/// The names of a relation's columns, and which they are.
fn columns_of(catalog: &CatalogVersion, relation: ObjectId) -> Vec<(String, ColumnId)> {
    if let Some(table) = catalog.tables.get(&relation) {
        return table.def.columns.iter().map(|c| (c.name.clone(), c.id)).collect();
    }
    if let Some(view) = catalog.view(relation) {
        return column_ids(view);
    }
    let columns = match catalog.sequences.contains_key(&relation) {
        true => vec!["last_value".to_owned(), "log_cnt".to_owned(), "is_called".to_owned()],
        false => {
            let name = pgcatalog::system_relation_name(relation);
            let spec = name.and_then(|(schema, name)| pgcatalog::spec_of(schema, name));
            let schema = spec.map(|spec| pgcatalog::Columns::parse(spec.columns).schema());
            let fields = schema.iter().flat_map(|schema| schema.fields().iter());
            fields.map(|field| field.name().clone()).collect()
        }
    };
    columns.into_iter().zip((1..).map(ColumnId)).collect()
}
