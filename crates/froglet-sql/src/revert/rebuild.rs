//! Tables that a change has dropped are made again, of those that it made of them.
//!
//! ```text
//!   split   s ─▶ a (k, x), b (k, y)     SELECT … FROM a FULL JOIN b ON a.k = b.k
//!   copy    s ─▶ t                      SELECT … FROM t
//!   join    a, b ─▶ j                   SELECT … FROM j;  SELECT DISTINCT … FROM j
//! ```
//!
//! A row that one half of a split has and the other has not is a row all the same, with NULLs: nothing is lost that
//! somebody has written, and if there may be no NULLs, the revert fails. Under `froglet.migration = lazy` it is
//! an inner join, which can be made lazily, and two foreign keys verify until the commit that both halves
//! have the same keys.

use froglet_engine::ColumnId;
use froglet_schema::{ColumnDef, MadeOf, MadeRows, ObjectChange, TableDef};

use super::{Phase, Planner, Step, changed_since, in_place, probe, refused, table, text};
use crate::error::SqlError;
use crate::lazy_query::Mode;
use crate::stored::{self, DefaultKind};
use crate::types::type_name;
use crate::udf::lookup::quote_ident;

/// A table that the change has made.
struct Made<'a> {
    object: &'a ObjectChange,
    after: &'a TableDef,
    /// What it is called when others are made of it.
    name: String,
    /// Its columns of which some table is made again.
    used: Vec<ColumnId>,
}

impl Made<'_> {
    fn of(&self) -> Option<&MadeOf> {
        self.object.made_of.as_ref()
    }

    /// The column that a column of a source has become.
    fn column(&self, source: u32, column: ColumnId) -> Option<&ColumnDef> {
        let of = self.of()?;
        let at = of.sources.iter().position(|id| *id == source)?;
        let place = |id| of.columns.iter().position(|made| *made == Some((at, id)));
        // The other side of a join has the same value.
        let partner = || match &of.rows {
            MadeRows::Pairs { columns: pairs, .. } => {
                let (from, to) = (at, 1 - at);
                let side = |pair: &(ColumnId, ColumnId), at| if at == 0 { pair.0 } else { pair.1 };
                let pair = pairs.iter().find(|pair| side(pair, from) == column)?;
                let other = Some((to, side(pair, to)));
                of.columns.iter().position(|made| *made == other)
            }
            _ => None,
        };
        let place = place(column).or_else(partner)?;
        // Columns of a new table are numbered from 1.
        let id = ColumnId(u32::try_from(place + 1).ok()?);
        let (id, is_computed) = in_place::image(self.object, id);
        self.after.column_by_id(id).filter(|_| !is_computed)
    }
}

/// Tables of which another is made by a join on its key.
struct Halves<'m, 'a> {
    def: &'a TableDef,
    made: &'m [Made<'a>],
    /// Those that are joined, by their places.
    taken: Vec<usize>,
    key: Vec<ColumnId>,
    /// Rows that not all of them have are left out.
    is_inner: bool,
}

impl<'m, 'a> Halves<'m, 'a> {
    /// One that has every column, or those with the key that have one which those before have not.
    fn choose(def: &'a TableDef, made: &'m [Made<'a>], halves: &[usize]) -> Halves<'m, 'a> {
        let key = key_of(def).unwrap_or_default();
        let mut join = Halves { def, made, taken: Vec::new(), key, is_inner: false };
        let has_all = |at: &usize| join.columns().all(|c| join.has(*at, c.id));
        if let Some(whole) = halves.iter().copied().find(has_all) {
            join.taken.push(whole);
            return join;
        }
        for at in halves.iter().copied() {
            let has_key = !join.key.is_empty() && join.key.iter().all(|id| join.has(at, *id));
            let is_new = |c: &ColumnDef| {
                join.has(at, c.id) && !join.taken.iter().any(|before| join.has(*before, c.id))
            };
            if has_key && join.columns().any(is_new) {
                join.taken.push(at);
            }
        }
        if join.taken.is_empty() {
            join.taken.push(halves[0]);
        }
        join
    }

    /// Whether foreign keys can say that all have the same rows.
    fn are_keyed(&self) -> bool {
        let is_keyed = |at: &usize| {
            let made = &self.made[*at];
            let own = self.key.iter().map(|id| made.column(self.def.id, *id));
            let Some(own) = own.collect::<Option<Vec<_>>>() else { return false };
            let is_over = |key: &froglet_schema::IndexDef| {
                let parts = &key.spec.key;
                key.spec.unique
                    && parts.len() == own.len()
                    && parts.iter().all(|part| own.iter().any(|column| column.id == part.column))
            };
            own.iter().all(|column| column.not_null) && made.after.indexes.iter().any(is_over)
        };
        self.taken.iter().all(is_keyed)
    }

    /// The columns that are not computed from others.
    fn columns(&self) -> impl Iterator<Item = &'a ColumnDef> + use<'a> {
        let is_stored = |c: &&ColumnDef| stored::default_kind(c) != DefaultKind::Generated;
        self.def.columns.iter().filter(is_stored)
    }

    fn has(&self, at: usize, column: ColumnId) -> bool {
        self.made[at].column(self.def.id, column).is_some()
    }

    /// A column in the n-th of the join.
    fn reference(&self, n: usize, column: ColumnId) -> Option<String> {
        let column = self.made[self.taken[n]].column(self.def.id, column)?;
        Some(format!("t{n}.{}", quote_ident(&column.name)))
    }

    /// A column of the key, of a row of the first so many.
    fn merged(&self, upto: usize, column: ColumnId) -> String {
        let all: Vec<_> = (0..upto).filter_map(|n| self.reference(n, column)).collect();
        match all.as_slice() {
            [one] => one.clone(),
            [first, ..] if self.is_inner => first.clone(),
            all => format!("coalesce({})", all.join(", ")),
        }
    }

    /// The select list, and what it has not.
    fn list(&self) -> (String, Vec<String>) {
        let (mut list, mut losses) = (Vec::new(), Vec::new());
        for column in self.columns() {
            let own = quote_ident(&column.name);
            let ty = type_name(column.sql_type);
            let from = (0..self.taken.len()).find(|n| self.has(self.taken[*n], column.id));
            let Some(n) = from else {
                losses.push(format!(
                    "the values of column \"{}\" of \"{}\", which no new table has",
                    column.name, self.def.name
                ));
                list.push(format!("NULL::{ty} AS {own}"));
                continue;
            };
            let text = match self.key.contains(&column.id) {
                true => self.merged(self.taken.len(), column.id),
                false => self.reference(n, column.id).expect("just found"),
            };
            let is = self.made[self.taken[n]].column(self.def.id, column.id).map(|c| c.sql_type);
            let cast = if is == Some(column.sql_type) { String::new() } else { format!("::{ty}") };
            list.push(format!("{text}{cast} AS {own}"));
        }
        (list.join(", "), losses)
    }

    fn from(&self) -> String {
        let name = |n: usize| &self.made[self.taken[n]].name;
        let mut from = format!("{} AS t0", name(0));
        let join = if self.is_inner { "JOIN" } else { "FULL JOIN" };
        for n in 1..self.taken.len() {
            let on = self.key.iter().map(|column| {
                let right = self.reference(n, *column).unwrap_or_default();
                format!("{} = {right}", self.merged(n, *column))
            });
            let on = on.collect::<Vec<_>>().join(" AND ");
            from.push_str(&format!(" {join} {} AS t{n} ON {on}", name(n)));
        }
        from
    }

    /// Which columns of which tables it reads. Of a column that several have it reads the first, but for keys.
    fn used(&self) -> Vec<(usize, ColumnId)> {
        let mut used = Vec::new();
        for column in self.columns() {
            let all = if self.key.contains(&column.id) { self.taken.len() } else { 1 };
            let of = |at: &usize| Some((*at, self.made[*at].column(self.def.id, column.id)?.id));
            used.extend(self.taken.iter().filter_map(of).take(all));
        }
        used
    }
}

impl<'a> Planner<'a> {
    /// The steps for all tables that the change has dropped or made.
    pub(super) fn rebuild(&mut self) -> Result<(), SqlError> {
        let change = self.change;
        let dropped: Vec<&TableDef> = change
            .objects
            .iter()
            .filter(|object| object.after.is_none())
            .filter_map(|object| table(&object.before))
            .collect();
        let mut made = Vec::new();
        for object in change.objects.iter().filter(|object| object.before.is_none()) {
            if let Some(after) = table(&object.after) {
                let name = self.name(after);
                made.push(Made { object, after, name, used: Vec::new() });
            }
        }
        self.put_aside(&mut made)?;
        for def in &dropped {
            self.refuse_if_taken(def, &made)?;
            self.make_again(def, &mut made)?;
        }
        self.drop_made(&made, &dropped)
    }

    /// Made tables have no name that an old one had, and nobody else refers to them.
    fn put_aside(&mut self, made: &mut [Made<'a>]) -> Result<(), SqlError> {
        let ids: Vec<u32> = made.iter().map(|made| made.after.id).collect();
        for one in made {
            let now = self.now(one.after)?;
            let strangers = now.def.referenced_by.iter().filter(|child| !ids.contains(child));
            for child in strangers {
                let child = self.around.catalog.tables.get(child).map(|child| &child.def);
                let refers = child.is_some_and(|child| {
                    child.foreign_keys().any(|(_, key)| key.parent == now.def.id)
                });
                if let Some(child) = child.filter(|_| refers)
                    && let Some(later) = self.around.newest_of(child.id)
                {
                    return Err(changed_since(self.change, (child.name.clone(), later)));
                }
            }
            for (name, key) in one.after.foreign_keys() {
                if key.parent != one.after.id && ids.contains(&key.parent) {
                    let name = quote_ident(name);
                    self.sql(
                        Phase::Keys,
                        format!("ALTER TABLE {} DROP CONSTRAINT {name}", one.name),
                    );
                }
            }
            let is_taken = self.change.objects.iter().any(|object| {
                let before = table(&object.before);
                before.is_some_and(|def| {
                    (&def.schema, &def.name) == (&one.after.schema, &one.after.name)
                })
            });
            if is_taken {
                let aside = self.aside(one.after.id);
                self.sql(Phase::Aside, format!("ALTER TABLE {} RENAME TO {aside}", one.name));
                one.name = self.relation(&one.after.schema, &aside);
            }
        }
        Ok(())
    }

    /// A name that somebody else has taken since.
    fn refuse_if_taken(&self, def: &TableDef, made: &[Made<'_>]) -> Result<(), SqlError> {
        let holder = self.around.catalog.names.get(&(def.schema.clone(), def.name.clone()));
        let is_ours = |id: &u32| {
            made.iter().any(|made| made.after.id == *id) || self.change.object(*id).is_some()
        };
        match holder {
            Some(id) if !is_ours(id) => {
                Err(refused(format!("schema change {} cannot be reverted", self.change.id))
                    .detail(format!("Relation \"{}\" exists.", def.name))
                    .hint("Rename it first."))
            }
            _ => Ok(()),
        }
    }

    fn make_again(&mut self, def: &'a TableDef, made: &mut [Made<'a>]) -> Result<(), SqlError> {
        let name = self.name(def);
        match self.query(def, made) {
            Ok((query, losses)) => {
                let mut step = Step::of(format!("CREATE TABLE {name} AS {query}"));
                step.loss = (!losses.is_empty()).then(|| losses.join("; "));
                let is_outer = step.sql.as_ref().is_some_and(|sql| sql.contains(" FULL JOIN "));
                step.note = is_outer.then(|| {
                    "a row that only one of them has gets NULLs for the columns of the other"
                        .to_owned()
                });
                self.push(Phase::Make, step);
            }
            Err(why) => {
                let is_stored = |c: &&ColumnDef| stored::default_kind(c) != DefaultKind::Generated;
                let columns = def.columns.iter().filter(is_stored).map(|c| text::column(c, def));
                let columns = columns.collect::<Vec<_>>().join(", ");
                let step = Step::of(format!("CREATE TABLE {name} ({columns})"));
                let loss = format!("the rows of \"{}\": {why}", def.name);
                self.push(Phase::Make, step.losing(loss));
            }
        }
        self.restore_columns(def, &name);
        self.restore_constraints(def.constraints.iter(), def);
        self.restore_indexes(def.indexes.iter(), def);
        Ok(())
    }

    /// What CREATE TABLE AS does not bring.
    fn restore_columns(&mut self, def: &TableDef, name: &str) {
        let in_key = |id| {
            def.primary_key().is_some_and(|key| key.spec.key.iter().any(|part| part.column == id))
        };
        for column in &def.columns {
            let own = quote_ident(&column.name);
            let alter = format!("ALTER TABLE {name} ALTER COLUMN {own}");
            let kind = stored::default_kind(column);
            if kind == DefaultKind::Generated {
                let sql = format!("ALTER TABLE {name} ADD COLUMN {}", text::column(column, def));
                let note = "it is computed again, and comes last";
                self.push(Phase::Columns, Step::of(sql).noting(note));
            }
            if column.not_null && (!in_key(column.id) || kind.is_identity()) {
                self.sql(Phase::Columns, format!("{alter} SET NOT NULL"));
            }
            match kind {
                DefaultKind::Plain => {
                    let default = self.default_text(column, def).unwrap_or_default();
                    self.sql(Phase::Columns, format!("{alter} SET DEFAULT {default}"));
                }
                DefaultKind::IdentityAlways | DefaultKind::IdentityByDefault => {
                    self.identity_again(column, def, &alter);
                }
                DefaultKind::None | DefaultKind::Generated => {}
            }
        }
    }

    /// The query that makes a table again, and what it does not bring; or why there is none.
    fn query(
        &mut self,
        def: &'a TableDef,
        made: &mut [Made<'a>],
    ) -> Result<(String, Vec<String>), String> {
        let is_source = |m: &Made<'_>| m.of().is_some_and(|of| of.sources.contains(&def.id));
        let rows_of = |m: &Made<'_>| m.of().map(|of| of.rows.clone());
        let (mut halves, mut joined, mut why) = (Vec::new(), None, None);
        for (at, one) in made.iter().enumerate().filter(|(_, one)| is_source(one)) {
            match rows_of(one) {
                Some(MadeRows::Each) => halves.push(at),
                Some(MadeRows::Pairs { columns, keeps }) => {
                    joined = joined.or(Some((at, columns, keeps)));
                }
                Some(MadeRows::Otherwise(reason)) => why = why.or(Some(reason)),
                None => {}
            }
        }
        if !halves.is_empty() {
            return Ok(self.of_halves(def, made, &halves));
        }
        if let Some((at, pairs, keeps)) = joined {
            return Ok(self.of_join(def, &mut made[at], &pairs, keeps));
        }
        Err(why.unwrap_or_else(|| "they are no longer stored".to_owned()))
    }

    fn of_halves(
        &mut self,
        def: &'a TableDef,
        made: &mut [Made<'a>],
        halves: &[usize],
    ) -> (String, Vec<String>) {
        let mut join = Halves::choose(def, made, halves);
        join.is_inner = join.taken.len() > 1 && join.are_keyed() && self.is_lazy();
        let (list, losses) = join.list();
        let query = format!("SELECT {list} FROM {}", join.from());
        let used = join.used();
        let Halves { taken, key, is_inner, .. } = join;
        if is_inner {
            self.guard_halves(def, made, &taken, &key);
        }
        for (at, column) in used {
            made[at].used.push(column);
        }
        (query, losses)
    }

    /// Both halves have the same keys, until the commit.
    fn guard_halves(
        &mut self,
        def: &TableDef,
        made: &[Made<'a>],
        taken: &[usize],
        key: &[ColumnId],
    ) {
        for (n, at) in taken.iter().enumerate() {
            let next = taken[(n + 1) % taken.len()];
            let columns = |at: usize| {
                let names = key.iter().filter_map(|c| made[at].column(def.id, *c));
                text::list(names.map(|c| c.name.as_str()))
            };
            let guard = quote_ident(&format!("revert_{}_key{n}", self.change.id));
            let sql = format!(
                "ALTER TABLE {} ADD CONSTRAINT {guard} FOREIGN KEY ({}) REFERENCES {} ({})",
                made[*at].name,
                columns(*at),
                made[next].name,
                columns(next)
            );
            let note = "verifies until the commit that both have the same keys";
            self.push(Phase::Aside, Step::of(sql).noting(note));
        }
    }

    fn is_lazy(&self) -> bool {
        let mode = self.around.session.setting("froglet.migration");
        let mode = mode.and_then(|mode| Mode::parse(&mode).ok());
        matches!(mode, Some(Mode::Lazy | Mode::Hybrid))
    }

    fn of_join(
        &mut self,
        def: &'a TableDef,
        made: &mut Made<'a>,
        pairs: &[(ColumnId, ColumnId)],
        keeps: [bool; 2],
    ) -> (String, Vec<String>) {
        let mut losses = Vec::new();
        let of = made.of().expect("it is a source").clone();
        let side = of.sources.iter().position(|id| *id == def.id).unwrap_or(0);
        let other_id = of.sources[1 - side];
        let other = self.change.object(other_id).and_then(|object| table(&object.before));
        let other = other.or_else(|| self.around.catalog.tables.get(&other_id).map(|t| &t.def));
        let theirs: Vec<ColumnId> =
            pairs.iter().map(|pair| if side == 0 { pair.1 } else { pair.0 }).collect();
        let is_unique = |def: &TableDef, columns: &[ColumnId]| {
            def.indexes.iter().any(|index| {
                let is_in = |part: &froglet_engine::KeyPart| columns.contains(&part.column);
                index.spec.unique && index.spec.key.iter().all(is_in)
            })
        };
        // The key by which they were joined is one of the new table, or of the other.
        let joined = theirs.iter().filter_map(|id| Some(made.column(other_id, *id)?.id));
        let joined: Vec<ColumnId> = joined.collect();
        let is_once =
            other.is_some_and(|other| is_unique(other, &theirs)) || is_unique(made.after, &joined);
        if !is_once && key_of(def).is_none() {
            losses.push(format!("rows of \"{}\" of which there are several alike", def.name));
        }
        if !keeps[side] {
            let other = other.map_or("the other table", |other| other.name.as_str());
            losses.push(format!(
                "rows of \"{}\" for which \"{other}\" had none: \"{}\" has been made without them",
                def.name, made.after.name
            ));
        }
        let mut list = Vec::new();
        for column in &def.columns {
            if stored::default_kind(column) == DefaultKind::Generated {
                continue;
            }
            let own = quote_ident(&column.name);
            let ty = type_name(column.sql_type);
            match made.column(def.id, column.id) {
                Some(from) => {
                    let cast = if from.sql_type == column.sql_type {
                        String::new()
                    } else {
                        format!("::{ty}")
                    };
                    list.push(format!("{}{cast} AS {own}", quote_ident(&from.name)));
                    let id = from.id;
                    made.used.push(id);
                }
                None => {
                    losses.push(format!(
                        "the values of column \"{}\" of \"{}\", which \"{}\" has not",
                        column.name, def.name, made.after.name
                    ));
                    list.push(format!("NULL::{ty} AS {own}"));
                }
            }
        }
        let distinct = if is_once { "" } else { "DISTINCT " };
        (format!("SELECT {distinct}{} FROM {}", list.join(", "), made.name), losses)
    }

    /// Tables that the change has made go, with what is in none of those that are made again.
    fn drop_made(&mut self, made: &[Made<'a>], dropped: &[&TableDef]) -> Result<(), SqlError> {
        if made.is_empty() {
            return Ok(());
        }
        let mut losses = Vec::new();
        for one in made {
            let name = &one.after.name;
            if one.used.is_empty() {
                let now = self.now(one.after)?;
                if probe::has_rows(now, self.around.snapshot)? {
                    let is_copy = one.of().is_some_and(|of| {
                        of.sources.iter().all(|id| dropped.iter().all(|def| def.id != *id))
                    });
                    losses.push(match is_copy {
                        true => format!("what has been written to \"{name}\" since it was made"),
                        false => format!("the rows of \"{name}\""),
                    });
                } else {
                    let guard = quote_ident(&format!("revert_{}_{}", self.change.id, one.after.id));
                    let sql =
                        format!("ALTER TABLE {} ADD CONSTRAINT {guard} CHECK (false)", one.name);
                    let note = "verifies until the commit that the table is empty";
                    self.push(Phase::Drop, Step::of(sql).noting(note));
                }
                continue;
            }
            for column in &one.after.columns {
                let is_generated = stored::default_kind(column) == DefaultKind::Generated;
                if !is_generated && !one.used.contains(&column.id) {
                    losses.push(format!("the values of column \"{}\" of \"{name}\"", column.name));
                }
            }
        }
        let names: Vec<&str> = made.iter().map(|made| made.name.as_str()).collect();
        let mut step = Step::of(format!("DROP TABLE {}", names.join(", ")));
        step.loss = (!losses.is_empty()).then(|| losses.join("; "));
        self.push(Phase::Drop, step);
        Ok(())
    }
}

/// The columns of a key that no two rows share: the primary key, or another that has no NULLs.
fn key_of(def: &TableDef) -> Option<Vec<ColumnId>> {
    let is_key = |index: &&froglet_schema::IndexDef| {
        let not_null = |id| def.column_by_id(id).is_some_and(|column| column.not_null);
        index.spec.unique && index.spec.key.iter().all(|part| not_null(part.column))
    };
    let key = def.primary_key().or_else(|| def.indexes.iter().find(is_key))?;
    Some(key.spec.key.iter().map(|part| part.column).collect())
}
