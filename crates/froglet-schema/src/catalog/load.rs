//! What the first catalog is after a start, and what is in use of a catalog.

use super::*;

/// Decodes the objects that recovery found and binds their tables; what they do not name of the
/// engine's spaces is garbage.
pub(super) fn load(
    engine: &dyn Engine,
    objects: Vec<Result<ObjectDef, Unreadable>>,
) -> (CatalogVersion, Vec<(Ts, Remains)>) {
    let mut catalog = CatalogVersion { ts: Ts(0), stamp: 1, ..CatalogVersion::default() };
    let mut tables = Vec::new();
    let mut index_names: Vec<IndexName> = Vec::new();
    for object in objects {
        let object = match object {
            Ok(object) => object,
            Err(found) => {
                catalog.set_unreadable(found);
                continue;
            }
        };
        match object {
            ObjectDef::Table(mut def) => {
                // One that was added to the table by ALTER TABLE was not written there at first.
                if def.refers_to_itself() && !def.referenced_by.contains(&def.id) {
                    def.referenced_by.push(def.id);
                }
                let table = match engine.open(def.space, Arc::new(def.layout())) {
                    Ok(table) => table,
                    Err(e) => {
                        catalog.set_unreadable(Unreadable::of_table(&def, e.to_string()));
                        continue;
                    }
                };
                let indexes: Vec<_> = def.indexes.iter().map(|index| index.spec.id).collect();
                engine.retain_indexes(def.space, &indexes);
                tables.push(Arc::clone(&table));
                engine.set_dictionaries(def.space, def.dictionaries());
                let version = TableVersion::new(def, Ts(1), table);
                catalog.tables.insert(version.def.id, Arc::new(version));
            }
            ObjectDef::Sequence(def) => {
                catalog.sequences.insert(def.id, Arc::new(def));
            }
            ObjectDef::Plain(def) => {
                catalog.plain.insert(def.id(), Arc::new(def));
            }
            ObjectDef::Role(def) => {
                catalog.roles.insert(def.id, Arc::new(def));
            }
            ObjectDef::Index(name) => index_names.push(name),
        }
    }
    for (space, error) in rebuild_indexes(&tables) {
        let of_it = catalog.tables.values().find(|table| table.def.space == space);
        if let Some(table) = of_it.cloned() {
            catalog.set_unreadable(Unreadable::of_table(&table.def, error.to_string()));
        }
    }
    for name in index_names {
        if catalog.unreadable.get(&name.table).is_some_and(|found| found.def.is_none()) {
            let unreadable = Arc::make_mut(&mut catalog.unreadable);
            let found = unreadable.get_mut(&name.table).expect("just found");
            Arc::make_mut(found).indexes.push(name);
        }
    }
    catalog.rename();
    catalog.observe();
    let lazies = catalog.tables.values().filter_map(|t| t.def.lazy.as_ref());
    let read = lazies.flat_map(|lazy| lazy.spaces_read());
    let unreadable = catalog.unreadable.values().flat_map(|found| found.spaces());
    let used = catalog.tables.values().map(|t| t.def.space).chain(read).chain(unreadable);
    let used: Vec<_> = used.collect();
    // Of what has no definition nobody knows which space it has [X1].
    let all_known = catalog.unreadable.values().all(|found| found.def.is_some());
    let garbage = engine
        .spaces()
        .into_iter()
        .filter(|_| all_known)
        .filter(|s| !CATALOG_SPACES.contains(s) && !used.contains(s))
        .map(|s| (Ts(0), Remains::Space(s)))
        .collect();
    (catalog, garbage)
}

pub(super) fn recover_ids(engine: &dyn Engine, catalog: &CatalogVersion) -> Ids {
    let noted = engine.notes().into_iter().find(|(key, _)| *key == NEXT_ID_NOTE);
    let noted = noted.and_then(|(_, v)| Some(u32::from_le_bytes(v.try_into().ok()?)));
    let spaces = engine.spaces().into_iter().map(SpaceId::number);
    let unreadable = catalog.unreadable.keys().filter(|id| **id < ObjectId::MAX / 2);
    let objects = catalog.names.values().chain(catalog.plain.keys()).chain(unreadable).copied();
    let objects = objects.filter(|id| *id < ObjectId::MAX / 2);
    let ids = objects.chain(spaces).max().unwrap_or(0);
    let next = noted.unwrap_or(FIRST_USER_ID).max(ids + 1).max(FIRST_USER_ID);
    Ids { next, logged: next }
}

pub(crate) fn in_use(catalog: &CatalogVersion, remains: &Remains) -> bool {
    let mut tables = catalog.tables.values().map(|table| &table.def);
    match *remains {
        Remains::Column(space, column) => tables.any(|t| t.space == space && t.stores(column)),
        Remains::Index(space, index) => {
            tables.any(|t| t.space == space && t.index_by_id(index).is_some())
        }
        Remains::Space(space) => tables.any(|t| t.space == space),
        Remains::Sequence(id) => catalog.sequences.contains_key(&id),
    }
}
