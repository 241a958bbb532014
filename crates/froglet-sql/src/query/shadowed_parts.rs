//! Parts of WITH that have the name of a part further out, which DataFusion refuses, get names of their own.
//!
//! ```text
//!   WITH x AS (…) SELECT … FROM (WITH x AS (SELECT … FROM x) SELECT x.a FROM x) s
//!                                     ^ x 1            ^ the outer   ^ x 1 AS x
//! ```
//! From the innermost outwards: what is left of a name in a query then is the query's own, or of further out.

use std::collections::HashMap;

use datafusion::sql::sqlparser::ast::{self, Cte, Ident, Query, TableFactor};

use crate::command::fold;
use crate::rewrite::different;
use crate::walk::{self, Change, Flow, GO_ON, Look};

/// Renames them.
pub(crate) fn rename(query: &mut Query) {
    struct Names(HashMap<String, usize>);
    impl Look for Names {
        fn query(&mut self, query: &Query) -> Flow {
            for part in query.with.iter().flat_map(|with| &with.cte_tables) {
                *self.0.entry(fold(&part.alias.name)).or_default() += 1;
            }
            GO_ON
        }
    }
    if query.with.is_none() {
        return;
    }
    let mut names = Names(HashMap::new());
    walk::look(&*query, &mut names);
    names.0.retain(|_, count| *count > 1);
    if !names.0.is_empty() {
        walk::change(query, &mut Shadowed { names: names.0, depth: 0 });
    }
}

struct Shadowed {
    /// Names of several parts, and how many numbers they have been given.
    names: HashMap<String, usize>,
    depth: usize,
}

impl Change for Shadowed {
    fn query(&mut self, _: &mut Query) {
        self.depth += 1;
    }

    fn query_end(&mut self, query: &mut Query) {
        self.depth -= 1;
        if self.depth == 0 {
            return;
        }
        let parts = query.with.as_ref().map_or(0, |with| with.cte_tables.len());
        for at in 0..parts {
            let Some(with) = &mut query.with else { return };
            let old = fold(&with.cte_tables[at].alias.name);
            let Some(count) = self.names.get_mut(&old) else { continue };
            *count += 1;
            let new = different(&old, *count);
            let from = if with.recursive { 0 } else { at + 1 };
            for part in &mut with.cte_tables[from..] {
                read_as(part, &old, &new);
            }
            with.cte_tables[at].alias.name = Ident::with_quote('"', &new);
            let with = query.with.take();
            walk::change(query, &mut Readers { old: &old, new: &new });
            query.with = with;
        }
    }
}

fn read_as(part: &mut Cte, old: &str, new: &str) {
    walk::change(&mut *part.query, &mut Readers { old, new });
}

/// Whoever reads a part, which is called as it was before.
struct Readers<'a> {
    old: &'a str,
    new: &'a str,
}

impl Change for Readers<'_> {
    fn table_factor(&mut self, factor: &mut TableFactor) {
        let TableFactor::Table { name, alias, args: None, .. } = factor else { return };
        let [ast::ObjectNamePart::Identifier(one)] = &mut name.0[..] else { return };
        if fold(one) != self.old {
            return;
        }
        let was = std::mem::replace(one, Ident::with_quote('"', self.new));
        alias.get_or_insert_with(|| ast::TableAlias {
            explicit: true,
            name: was,
            columns: Vec::new(),
            at: None,
        });
    }
}
