//! `tableoid`: the relation that a row is of.
//!
//! It is the same for all rows of a relation, so `t.tableoid` is put in place as a number where the relation
//! behind `t` is plain to see: a table, a system catalog or a view in FROM of the same query, or of one around.

use datafusion::sql::sqlparser::ast::{
    self, DataType, Expr, Ident, Select, SelectItem, TableFactor, TableWithJoins,
};

use crate::command::fold;
use crate::context::{SessionFunctions, session_here};
use crate::resolve::Names;
use crate::walk::{self, Change, Flow, GO_ON};
use crate::{pgcatalog, udf};

const NAME: &str = "tableoid";

/// Puts it in place in a query's select, before its columns get names.
pub(crate) fn resolve(select: &mut Select) {
    let mut mentions = Mentions::default();
    walk::look(&*select, &mut mentions);
    let Some(session) = session_here().filter(|_| mentions.any) else { return };
    let mut relations = Vec::new();
    for from in &select.from {
        each_relation(from, &mut |name, alias| {
            if let Some(oid) = oid_of(&*session, name) {
                relations.push((alias, oid));
            }
        });
    }
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) = item
            && is_tableoid(uncast(expr))
        {
            let alias = Ident::new(NAME);
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
    }
    walk::change(select, &mut Replace { relations });
}

#[derive(Default)]
struct Mentions {
    any: bool,
}

impl walk::Look for Mentions {
    fn expr(&mut self, expr: &Expr) -> Flow {
        self.any |= is_tableoid(expr);
        GO_ON
    }
}

fn uncast(expr: &Expr) -> &Expr {
    match expr {
        Expr::Cast { expr, .. } => uncast(expr),
        other => other,
    }
}

fn is_tableoid(expr: &Expr) -> bool {
    match expr {
        Expr::Identifier(ident) => fold(ident) == NAME,
        Expr::CompoundIdentifier(parts) => is_last(parts),
        _ => false,
    }
}

fn each_relation(from: &TableWithJoins, f: &mut impl FnMut(&ast::ObjectName, String)) {
    let factors = std::iter::once(&from.relation).chain(from.joins.iter().map(|j| &j.relation));
    for factor in factors {
        match factor {
            TableFactor::Table { name, alias, args: None, .. } => {
                let shown = match alias {
                    Some(alias) => fold(&alias.name),
                    None => Names::parts(name).map(|(_, bare)| bare).unwrap_or_default(),
                };
                f(name, shown);
            }
            TableFactor::NestedJoin { table_with_joins, .. } => each_relation(table_with_joins, f),
            _ => {}
        }
    }
}

fn oid_of(session: &dyn SessionFunctions, name: &ast::ObjectName) -> Option<u32> {
    let (schema, bare) = Names::parts(name).ok()?;
    let system = pgcatalog::system_relation(schema.as_deref().unwrap_or("pg_catalog"), &bare);
    let users = || {
        let text = match &schema {
            Some(schema) => {
                format!("{}.{}", udf::lookup::quoted(schema), udf::lookup::quoted(&bare))
            }
            None => udf::lookup::quoted(&bare),
        };
        udf::lookup::find_relation(session, &text).ok().flatten()
    };
    system.or_else(users)
}

struct Replace {
    /// What stands in FROM, and its relation.
    relations: Vec<(String, u32)>,
}

impl Change for Replace {
    fn expr_end(&mut self, expr: &mut Expr) -> Flow {
        let oid = match expr {
            Expr::Identifier(ident) if fold(ident) == NAME => match self.relations.as_slice() {
                [(_, oid)] => Some(*oid),
                _ => None,
            },
            Expr::CompoundIdentifier(parts) if parts.len() >= 2 && is_last(parts) => {
                let of = fold(&parts[parts.len() - 2]);
                self.relations.iter().find(|(name, _)| *name == of).map(|(_, oid)| *oid)
            }
            _ => None,
        };
        if let Some(oid) = oid {
            *expr = Expr::Cast {
                kind: ast::CastKind::DoubleColon,
                expr: Box::new(Expr::value(ast::Value::SingleQuotedString(oid.to_string()))),
                data_type: DataType::Custom(ast::ObjectName::from(vec![Ident::new("oid")]), vec![]),
                array: false,
                format: None,
            };
        }
        GO_ON
    }
}

fn is_last(parts: &[Ident]) -> bool {
    parts.last().is_some_and(|last| fold(last) == NAME)
}
