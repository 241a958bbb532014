//! Whole rows as values: a table's name where a column's may stand, or `t.*` where no list of columns may.
//!
//! | written | becomes |
//! |---|---|
//! | `SELECT t FROM t`, `t::text` | `row(t.a, t.b)` |
//! | `(t).a` | `t.a` |
//! | `t IS NULL` | `row(t.a, t.b) IS NULL` |
//! | `t = u`, `count(DISTINCT t)`, `ORDER BY t`, `ORDER BY row(a, b)` | the same of `froglet_row_key(t.a, t.b)`: bytes in the order of rows |
//! | `GROUP BY t` | `GROUP BY t.a, t.b` |
//! | `SELECT DISTINCT t, a` | `SELECT t, a … GROUP BY t.a, t.b, a` |
//! | `row_to_json(t)`, `to_json(t)`, `row_to_json(t.*)` | `froglet_json_row('a', t.a, 'b', t.b)` |
//! | `to_jsonb(t)`, `json_agg(t)`, `json_build_object('t', t)`, `to_json(array_agg(t))` | the same of that |
//! | `count(t)` | `count(*)` |
//!
//! A row of the side of an outer join that may be missing is NULL where a column is that a row never has NULL in; a
//! table without one gets one ([`crate::rewrite_missing`]), or it is refused.

use datafusion::sql::sqlparser::ast::{
    self, AccessExpr, BinaryOperator, Distinct, Expr, FunctionArg, FunctionArgExpr, GroupByExpr,
    Ident, OrderBy, OrderByKind, Query, Select, SelectItem, TableFactor, Value,
};

use crate::command::fold;
use crate::error::SqlError;
use crate::rewrite::{call, field_names};
use crate::rewrite_rows::{self, Columns, Parts, Row};
use crate::rewrite_subquery::is_grouped;
use crate::semantics::cast_names;
use crate::semantics::fieldnames::figure_name;
use crate::udf::json::ROW;
use crate::udf::row_key::ROW_KEY;
use crate::udf::strings::ROW_TEXT;
use crate::walk::{self, Flow, GO_ON};
use crate::{rewrite_correlated, rewrite_tuple};

const OF_ROWS: [&str; 6] = ["row_to_json", "to_json", "to_jsonb", "json_agg", "jsonb_agg", "count"];

/// Whether a function is one of those that have a meaning of their own for a row, or makes one.
pub(crate) fn is_of_row(function: &ast::Function) -> bool {
    function_name(function).is_some() || rewrite_tuple::fields_of_call(function).is_some()
}

/// The table whose row a function is given as `t` or `t.*`.
pub(crate) fn table_of(function: &ast::Function) -> Option<String> {
    function_name(function)?;
    let ast::FunctionArguments::List(list) = &function.args else { return None };
    let [FunctionArg::Unnamed(argument)] = &list.args[..] else { return None };
    table_named(argument).map(|(ident, _)| fold(&ident))
}

fn function_name(function: &ast::Function) -> Option<&'static str> {
    let name = function.name.0.last()?.as_ident().map(fold)?;
    let ast::FunctionArguments::List(list) = &function.args else { return None };
    let [FunctionArg::Unnamed(argument)] = &list.args[..] else { return None };
    table_named(argument)?;
    OF_ROWS.into_iter().find(|known| *known == name)
}

/// `t` or `t.*`: a name that may be a table's, and whether it is nothing else.
fn table_named(argument: &FunctionArgExpr) -> Option<(Ident, bool)> {
    match argument {
        FunctionArgExpr::Expr(Expr::Identifier(ident)) => Some((ident.clone(), false)),
        FunctionArgExpr::QualifiedWildcard(name) => {
            Some((name.0.last()?.as_ident()?.clone(), true))
        }
        _ => None,
    }
}

/// A row: its fields, and what is NULL where it is missing.
struct Fields {
    fields: Vec<Expr>,
    witness: Option<Expr>,
}

impl Fields {
    fn made(self, function: &str) -> Expr {
        let made = call(function, self.fields);
        match self.witness {
            Some(witness) => rewrite_correlated::when(Expr::IsNotNull(Box::new(witness)), made),
            None => made,
        }
    }

    /// What rows are the same by.
    fn keys(self) -> impl Iterator<Item = Expr> {
        self.fields.into_iter().chain(self.witness)
    }
}

/// Puts rows in the places of their tables' names.
pub(crate) struct Rows<'a> {
    relations: &'a [Row],
    /// All columns are plain to see.
    is_known: bool,
    /// The columns of the queries around.
    around: &'a [&'a Columns],
    /// Queries within that are being walked over: what they mean by a name is theirs to say.
    depth: usize,
    failed: Option<SqlError>,
}

impl<'a> Rows<'a> {
    pub(crate) fn new(relations: &'a [Row], is_known: bool, around: &'a [&'a Columns]) -> Rows<'a> {
        Rows { relations, is_known, around, depth: 0, failed: None }
    }

    pub(crate) fn rewrite(
        mut self,
        select: &mut Select,
        order_by: Option<&mut OrderBy>,
    ) -> Result<(), SqlError> {
        if let Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }) = order_by {
            for key in keys {
                if let Some(row) = self.row_at(&key.expr, &select.projection, true) {
                    key.expr = row.made(ROW_KEY);
                } else if !is_name_of(&key.expr, &select.projection) {
                    walk::change(&mut key.expr, &mut self);
                }
            }
        }
        self.distinct(select);
        if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
            let given = std::mem::take(keys);
            keys.extend(given.into_iter().flat_map(|key| {
                match (self.row_at(&key, &select.projection, false), key) {
                    (Some(row), _) => row.keys().collect(),
                    (None, Expr::Tuple(keys)) => keys,
                    (None, key) => vec![key],
                }
            }));
        }
        for item in &mut select.projection {
            // A row of a table is called as the table is.
            let name = match item {
                SelectItem::UnnamedExpr(Expr::Identifier(ident)) => Some(fold(ident)),
                SelectItem::UnnamedExpr(expr @ Expr::CompoundFieldAccess { .. }) => {
                    Some(figure_name(expr))
                }
                _ => None,
            };
            walk::change(item, &mut self);
            if let (Some(name), SelectItem::UnnamedExpr(expr)) = (name, &*item)
                && !matches!(expr, Expr::Identifier(_) | Expr::CompoundFieldAccess { .. })
            {
                let (expr, alias) = (expr.clone(), Ident::with_quote('"', name));
                *item = SelectItem::ExprWithAlias { expr, alias };
            }
        }
        for expr in select.selection.iter_mut().chain(&mut select.having) {
            walk::change(expr, &mut self);
        }
        for from in &mut select.from {
            walk::change(from, &mut self);
        }
        self.failed.map_or(Ok(()), Err)
    }

    /// `SELECT DISTINCT` of rows as a grouping by their fields.
    fn distinct(&mut self, select: &mut Select) {
        if !matches!(select.distinct, Some(Distinct::Distinct)) || is_grouped(select) {
            return;
        }
        let mut keys: Vec<Expr> = Vec::new();
        let mut columns = Vec::new();
        for item in &select.projection {
            let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item
            else {
                return;
            };
            match (self.row_of(expr), expr) {
                (Some(row), _) => keys.extend(row.keys()),
                (None, Expr::Identifier(_) | Expr::CompoundIdentifier(_)) => {
                    columns.push(expr.clone());
                }
                _ => return,
            }
        }
        if !keys.is_empty() {
            // A column of a row is one of the keys.
            let is_new = |column: &Expr| !keys.iter().any(|key| are_one_column(key, column));
            columns.retain(is_new);
            keys.extend(columns);
            select.distinct = None;
            select.group_by = GroupByExpr::Expressions(keys, Vec::new());
        }
    }

    /// The row that a key of an order or a grouping means: an item of the select list by its position or its name,
    /// or what is written.
    fn row_at(&mut self, key: &Expr, items: &[SelectItem], is_order: bool) -> Option<Fields> {
        let item = match key {
            Expr::Value(value) => {
                let Value::Number(digits, _) = &value.value else { return None };
                let at = digits.parse::<usize>().ok()?.checked_sub(1)?;
                match items.get(at)? {
                    SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => expr,
                    _ => return None,
                }
            }
            Expr::Identifier(ident) => item_named(items, &fold(ident)).unwrap_or(key),
            // Parentheses around keys of a grouping are no row.
            Expr::Tuple(_) | Expr::Nested(_) if !is_order => return None,
            key => key,
        };
        self.row_of(item)
    }

    /// The row that an expression is.
    fn row_of(&mut self, expr: &Expr) -> Option<Fields> {
        match expr {
            Expr::Nested(inner) => self.row_of(inner),
            Expr::Tuple(fields) => Some(Fields { fields: fields.clone(), witness: None }),
            Expr::Function(function) => {
                let fields = rewrite_tuple::fields_of_call(function)?;
                Some(Fields { fields, witness: None })
            }
            Expr::Identifier(_) | Expr::QualifiedWildcard(..) => self.table_row(expr),
            _ => None,
        }
    }

    /// The row of the table that an expression names.
    fn table_row(&mut self, expr: &Expr) -> Option<Fields> {
        let (ident, is_table) = match expr {
            Expr::Nested(inner) => return self.table_row(inner),
            Expr::Identifier(ident) => (ident, false),
            Expr::QualifiedWildcard(name, _) => (name.0.last()?.as_ident()?, true),
            _ => return None,
        };
        let row = self.meant(ident, is_table)?;
        if row.may_be_missing && row.witness.is_none() {
            let what = format!("the row of \"{}\", which may be missing", row.name);
            self.failed = Some(
                SqlError::unsupported(what).hint("It is told by a column of it that is NOT NULL."),
            );
            return None;
        }
        let column = |name: &String| {
            Expr::CompoundIdentifier(vec![ident.clone(), Ident::with_quote('"', name)])
        };
        let fields = row.columns.iter().map(column).collect();
        Some(Fields { fields, witness: Rows::witness(row, ident) })
    }

    /// The table that a name means where it means no column, be it one of a query around.
    fn meant(&self, ident: &Ident, is_table: bool) -> Option<&'a Row> {
        let row = self.named(ident, is_table).filter(|_| self.is_known && self.depth == 0)?;
        let is_free = |columns: &&Columns| {
            columns.as_ref().is_some_and(|columns| !columns.contains(&row.name))
        };
        self.around.iter().all(is_free).then_some(row)
    }

    fn named(&self, ident: &Ident, is_table: bool) -> Option<&'a Row> {
        let name = fold(ident);
        // A column goes before a table.
        if !is_table && self.relations.iter().any(|row| row.columns.contains(&name)) {
            return None;
        }
        self.relations.iter().find(|row| row.name == name)
    }

    /// The table of a name, whose rows are told from those that are missing.
    fn find(&self, ident: &Ident, is_table: bool) -> Option<&'a Row> {
        self.named(ident, is_table).filter(|row| !row.may_be_missing || row.witness.is_some())
    }

    /// Its row as json, NULL where it is missing.
    fn json(row: &Row, ident: &Ident) -> Expr {
        let quote = |name: &str| Ident::with_quote('"', name);
        let fields = row.columns.iter().zip(&row.members).flat_map(|(column, member)| {
            let text = Value::SingleQuotedString(member.clone());
            let value = Expr::CompoundIdentifier(vec![ident.clone(), quote(column)]);
            [Expr::value(text), value]
        });
        Fields { fields: fields.collect(), witness: Rows::witness(row, ident) }.made(ROW)
    }

    /// What is NULL where the row is missing, if it may be.
    fn witness(row: &Row, ident: &Ident) -> Option<Expr> {
        let column = row.witness.as_ref().filter(|_| row.may_be_missing)?;
        let column = Ident::with_quote('"', column);
        Some(Expr::CompoundIdentifier(vec![ident.clone(), column]))
    }

    /// A function that has a meaning of its own for a row; what it becomes, if that is no call of it.
    fn function(&mut self, function: &mut ast::Function) -> Option<Expr> {
        let name = function_name(function)?;
        let ast::FunctionArguments::List(list) = &mut function.args else { return None };
        let [FunctionArg::Unnamed(argument)] = list.args.as_mut_slice() else { return None };
        let (ident, is_table) = table_named(argument)?;
        let is_distinct = list.duplicate_treatment.is_some();
        let found = self.find(&ident, is_table)?;
        if name == "count" {
            // A row that is there is not NULL.
            *argument = match Rows::witness(found, &ident) {
                _ if is_distinct => {
                    FunctionArgExpr::Expr(self.table_row(&Expr::Identifier(ident))?.made(ROW_KEY))
                }
                Some(witness) => FunctionArgExpr::Expr(witness),
                None => FunctionArgExpr::Wildcard,
            };
            return None;
        }
        let row = Rows::json(found, &ident);
        *argument = FunctionArgExpr::Expr(row.clone());
        match name {
            // Its name tells json_agg of it from that of a row.
            "row_to_json" | "to_json" => {
                let ty = Value::SingleQuotedString("json".to_owned());
                Some(call(cast_names::NAME, vec![row, Expr::value(ty)]))
            }
            "to_jsonb" => Some(Expr::Cast {
                kind: ast::CastKind::DoubleColon,
                expr: Box::new(row),
                data_type: ast::DataType::JSONB,
                array: false,
                format: None,
            }),
            _ => None,
        }
    }

    /// Puts json in the places of the rows that a function of json is given, by themselves or in an array_agg.
    fn in_json(&mut self, function: &mut ast::Function) {
        let name = function.name.0.last().and_then(|part| part.as_ident()).map(fold);
        let Some(name) = name.filter(|_| self.is_known) else { return };
        if !name.contains("json") {
            return;
        }
        let ast::FunctionArguments::List(list) = &mut function.args else { return };
        for arg in &mut list.args {
            let FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)) = arg else { continue };
            let arg = match arg {
                Expr::Function(inner) if inner.name.to_string() == "array_agg" => {
                    let ast::FunctionArguments::List(list) = &mut inner.args else { continue };
                    match list.args.as_mut_slice() {
                        [FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))] => arg,
                        _ => continue,
                    }
                }
                arg => arg,
            };
            if let Expr::Identifier(ident) = &*arg
                && let Some(row) = self.find(ident, false)
            {
                *arg = Rows::json(row, &ident.clone());
            }
        }
    }

    /// A comparison of two rows of tables, as one of what they are compared by.
    fn compared(&mut self, left: &mut Expr, right: &mut Expr) {
        match (self.table_row(left), self.table_row(right)) {
            (Some(l), Some(r)) => {
                *left = l.made(ROW_KEY);
                *right = r.made(ROW_KEY);
            }
            (None, None) => {}
            // PostgreSQL wants the same types of all fields.
            _ => self.failed = Some(SqlError::unsupported("comparing a table's row with another")),
        }
    }
}

/// An item of a select list by its name.
fn item_named<'i>(items: &'i [SelectItem], name: &str) -> Option<&'i Expr> {
    items.iter().find_map(|item| match item {
        SelectItem::ExprWithAlias { expr, alias } if fold(alias) == name => Some(expr),
        SelectItem::UnnamedExpr(expr) if figure_name(expr) == name => Some(expr),
        _ => None,
    })
}

/// Whether a column of a table is what another name says, whose table may be left out.
fn are_one_column(key: &Expr, column: &Expr) -> bool {
    match (key, column) {
        (Expr::CompoundIdentifier(names), Expr::Identifier(name)) => {
            names.last().is_some_and(|last| fold(last) == fold(name))
        }
        (Expr::CompoundIdentifier(one), Expr::CompoundIdentifier(other)) => {
            one.iter().map(fold).eq(other.iter().map(fold))
        }
        _ => key == column,
    }
}

fn is_name_of(key: &Expr, items: &[SelectItem]) -> bool {
    matches!(key, Expr::Identifier(ident) if item_named(items, &fold(ident)).is_some())
}

fn is_comparison(op: &BinaryOperator) -> bool {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq)
}

impl walk::Change for Rows<'_> {
    fn expr(&mut self, expr: &mut Expr) -> Flow {
        if self.depth > 0 {
            return GO_ON;
        }
        match expr {
            Expr::Function(function) => {
                if let Some(other) = self.function(function) {
                    *expr = other;
                } else {
                    self.in_json(function);
                }
            }
            Expr::BinaryOp { left, op, right } if is_comparison(op) => self.compared(left, right),
            Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => {
                self.compared(left, right);
            }
            Expr::IsNull(inner) | Expr::IsNotNull(inner) => {
                // All fields of a row that is missing are NULL.
                if let Some(Fields { fields, .. }) = self.table_row(inner) {
                    **inner = call("row", fields);
                }
            }
            Expr::InSubquery { expr: tested, .. } | Expr::InList { expr: tested, .. }
                if self.table_row(tested).is_some() =>
            {
                self.failed = Some(SqlError::unsupported("IN of a table's row"));
            }
            Expr::CompoundFieldAccess { root, access_chain } => {
                let ident = match &**root {
                    Expr::Identifier(ident) => {
                        Some(ident).filter(|i| self.named(i, true).is_some())
                    }
                    Expr::Nested(row) => match &**row {
                        Expr::Identifier(ident) => {
                            Some(ident).filter(|i| self.meant(i, false).is_some())
                        }
                        _ => None,
                    },
                    _ => None,
                };
                let (Some(ident), [AccessExpr::Dot(Expr::Identifier(field)), rest @ ..]) =
                    (ident, &access_chain[..])
                else {
                    // The name of a field is no table's.
                    field_names(expr);
                    return GO_ON;
                };
                // `(t).a`, and `t.x[1]`: a column, and what is looked for in it.
                let column = Expr::CompoundIdentifier(vec![ident.clone(), field.clone()]);
                if rest.is_empty() {
                    *expr = column;
                } else {
                    **root = column;
                    access_chain.remove(0);
                    field_names(expr);
                }
            }
            Expr::Identifier(_) | Expr::QualifiedWildcard(..) => {
                if let Some(row) = self.table_row(expr) {
                    *expr = row.made("row");
                }
            }
            Expr::Cast { expr: inner, data_type: ast::DataType::Text, .. } => {
                if let Some(row) = self.row_of(inner) {
                    *expr = row.made(ROW_TEXT);
                }
            }
            _ => {}
        }
        GO_ON
    }

    fn query(&mut self, _query: &mut Query) {
        self.depth += 1;
    }

    fn query_end(&mut self, _query: &mut Query) {
        self.depth -= 1;
    }
}

/// The queries that are being walked over, each in the one before.
#[derive(Default)]
pub(crate) struct Levels {
    levels: Vec<Level>,
    /// The next query is a derived table that sees nothing of what stands beside it.
    is_derived: bool,
}

struct Level {
    columns: Columns,
    /// It sees nothing of the tables of the query around.
    is_apart: bool,
    /// Parts of its WITH that are to come, which are apart.
    parts: usize,
}

impl Levels {
    /// Rewrites the rows of a query, and goes into it.
    pub(crate) fn enter(&mut self, query: &mut Query, parts: &Parts) -> Result<(), SqlError> {
        let is_part = self.levels.last_mut().is_some_and(|level| {
            let is_part = level.parts > 0;
            level.parts = level.parts.saturating_sub(1);
            is_part
        });
        let is_apart = std::mem::take(&mut self.is_derived) || is_part;
        let within = self.levels.iter().skip(1).map(|level| level.is_apart).chain([is_apart]);
        let around = self.levels.iter().zip(within).filter(|(_, is_apart)| !is_apart);
        let around: Vec<&Columns> = around.map(|(level, _)| &level.columns).collect();
        let found = rewrite_rows::rewrite(query, parts, &around);
        let parts = query.with.as_ref().map_or(0, |with| with.cte_tables.len());
        let (columns, outcome) = match found {
            Ok(columns) => (columns, Ok(())),
            Err(e) => (None, Err(e)),
        };
        self.levels.push(Level { columns, is_apart, parts });
        outcome
    }

    pub(crate) fn leave(&mut self) {
        self.levels.pop();
    }

    /// A table in FROM that is walked over next.
    pub(crate) fn table_factor(&mut self, factor: &TableFactor) {
        self.is_derived = matches!(factor, TableFactor::Derived { lateral: false, .. });
    }
}
