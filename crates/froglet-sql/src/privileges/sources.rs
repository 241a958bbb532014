//! What stands in FROM, and what its columns are read from [N3 of `needs`].
//!
//! ```text
//!   t (a, secret)                       a: t.a            secret: t.secret
//!   t AS q (secret, a)                  secret: t.a       a: t.secret
//!   (t JOIN u USING (a)) AS j (x, y)    x, y: all columns of t and u
//! ```

use datafusion::sql::sqlparser::ast::TableAlias;

use crate::command::fold;

/// Something in FROM: its name there, its columns, and what is needed on it.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) schema: Option<String>,
    pub(super) name: String,
    pub(super) columns: Vec<SourceColumn>,
    pub(super) needs: Vec<usize>,
}

/// A column of something in FROM.
#[derive(Clone, Debug)]
pub(super) struct SourceColumn {
    /// As the statement calls it.
    pub(super) name: String,
    /// What it is read from: a column of a relation, or whole relations. Columns of subqueries have been looked at.
    pub(super) of: Of,
}

/// What a column is read from.
#[derive(Clone, Debug)]
pub(super) enum Of {
    Column(usize, String),
    Whole(Vec<usize>),
    Query,
}

/// The columns of a query.
pub(super) fn of_query(names: Vec<String>) -> Vec<SourceColumn> {
    names.into_iter().map(|name| SourceColumn { name, of: Of::Query }).collect()
}

impl Source {
    pub(super) fn has(&self, name: &str) -> bool {
        self.columns.iter().any(|column| column.name == name)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.columns.iter().map(|column| &column.name)
    }

    /// What the columns of a name are read from.
    pub(super) fn of(&self, name: &str) -> impl Iterator<Item = Of> {
        self.columns.iter().filter(move |column| column.name == name).map(|c| c.of.clone())
    }

    /// Columns that an alias names are found by that name alone. What is found as several relations has the columns of
    /// each one after the other.
    pub(super) fn aliased(mut self, alias: Option<&TableAlias>) -> Source {
        let Some(alias) = alias else { return self };
        self.name = fold(&alias.name);
        self.schema = None;
        let mut place = 0;
        let mut last = None;
        for column in &mut self.columns {
            let need = match &column.of {
                Of::Column(need, _) => Some(*need),
                Of::Whole(_) | Of::Query => None,
            };
            if need != last {
                (place, last) = (0, need);
            }
            if let Some(named) = alias.columns.get(place) {
                column.name = fold(&named.name);
            }
            place += 1;
        }
        // Of rows of which it is not known what columns they have.
        let of = match self.needs.is_empty() {
            true => Of::Query,
            false => Of::Whole(self.needs.clone()),
        };
        let more = alias.columns.iter().skip(self.columns.len());
        let more: Vec<SourceColumn> =
            more.map(|column| SourceColumn { name: fold(&column.name), of: of.clone() }).collect();
        self.columns.extend(more);
        self
    }
}

/// Names of columns, some of which an alias names otherwise.
pub(super) fn renamed(mut columns: Vec<String>, alias: &TableAlias) -> Vec<String> {
    for (at, column) in alias.columns.iter().enumerate() {
        let name = fold(&column.name);
        match columns.get_mut(at) {
            Some(known) => *known = name,
            None => columns.push(name),
        }
    }
    columns
}
