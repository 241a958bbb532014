//! Expressions as PostgreSQL prints them (ruleutils): types of literals spelled out, operators in
//! their own names, parentheses either where they are needed (`pretty`) or around every operator.
//!
//! ```text
//!   written                    pretty                                    not pretty
//!   v > 0      v numeric       v > 0::numeric                            (v > (0)::numeric)
//!   name <> '' name varchar    name::text <> ''::text                    ((name)::text <> ''::text)
//!   s in ('a', 'b')  s text    s = ANY (ARRAY['a'::text, 'b'::text])     …
//! ```
//!
//! What is not known here is printed as sqlparser prints it.

use std::cell::Cell;

use datafusion::sql::sqlparser::ast::{self, BinaryOperator as Op, Expr, UnaryOperator};
use froglet_engine::ColumnId;
use froglet_schema::{CheckDef, ColumnDef, IndexDef, TableDef};

use crate::context::SessionFunctions;
use crate::index_expr;
use crate::rewrite::folded;
use crate::semantics::enums;
use crate::stored;
use crate::types::{names, oids, plain};
use crate::udf::lookup::{find_relation, quote_ident, relation_text};

/// A column's default, as pg_get_expr prints it for a session.
pub fn default_text(
    session: &dyn SessionFunctions,
    column: &ColumnDef,
    table: &TableDef,
) -> Option<String> {
    let text = stored::default_text(column, table)?;
    let Some(expr) = parse(&text) else { return Some(text) };
    let is_null = matches!(&expr, Expr::Value(value) if value.value == ast::Value::Null);
    // A default of NULL is none; a generated column that is always NULL is generated all the same.
    if is_null && stored::default_kind(column) != stored::DefaultKind::Generated {
        return None;
    }
    let printer = Printer::new(Columns::Of(table), false, Some(session));
    Some(printer.default(&expr, column))
}

/// What was printed with parentheses around every operator, with those alone that it needs.
pub fn pretty_text(text: &str, table: &TableDef) -> Option<String> {
    let expr = parse(text)?;
    let printer = Printer::new(Columns::Of(table), true, None);
    let text = printer.text(&expr);
    (!printer.guessed.get()).then_some(text)
}

/// A check's condition.
pub fn check_text(check: &CheckDef, table: &TableDef, pretty: bool) -> String {
    let text = stored::check_text(check, table);
    match parse(&text) {
        Some(expr) => Printer::new(Columns::Of(table), pretty, None).print(&expr).trimmed(pretty),
        None => text,
    }
}

/// A column of an index's key: its name, or the expression that a hidden one has, in parentheses unless it is
/// a function's call.
pub fn key_text(table: &TableDef, column: ColumnId, pretty: bool) -> String {
    let Some(hidden) = table.hidden_column(column) else {
        return table.column_by_id(column).map_or_else(String::new, |c| quote_ident(&c.name));
    };
    let Ok(expr) = index_expr::expression(table, hidden) else { return String::new() };
    expression_text(table, &expr, pretty)
}

/// The expression of a part of a key.
pub fn expression_text(table: &TableDef, expr: &Expr, pretty: bool) -> String {
    let text = expr_text(table, expr, pretty);
    match stripped(expr) {
        Expr::Function(_)
        | Expr::Trim { .. }
        | Expr::Substring { .. }
        | Expr::Extract { .. }
        | Expr::Position { .. }
        | Expr::Overlay { .. }
        | Expr::Ceil { .. }
        | Expr::Floor { .. } => text,
        _ => format!("({text})"),
    }
}

fn stripped(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => stripped(inner),
        other => other,
    }
}

/// The expressions of an index, as pg_get_expr prints them.
pub fn index_expressions(table: &TableDef, index: &IndexDef) -> Option<String> {
    let hidden = index.written_parts().iter().filter_map(|p| table.hidden_column(p.column));
    let texts: Vec<String> = hidden
        .filter_map(|hidden| index_expr::expression(table, hidden).ok())
        .map(|expr| expr_text(table, &expr, false))
        .collect();
    (!texts.is_empty()).then(|| texts.join(", "))
}

/// The predicate of a partial index.
pub fn predicate_text(table: &TableDef, index: &IndexDef, pretty: bool) -> Option<String> {
    Some(expr_text(table, &index_expr::predicate(table, index)?, pretty))
}

fn expr_text(table: &TableDef, expr: &Expr, pretty: bool) -> String {
    let mut expr = expr.clone();
    crate::stored_names::to_names(&mut expr);
    Printer::new(Columns::Of(table), pretty, None).print(&expr).trimmed(pretty)
}

fn parse(text: &str) -> Option<Expr> {
    let dialect = crate::dialect::Postgres;
    let mut parser =
        datafusion::sql::sqlparser::parser::Parser::new(&dialect).try_with_sql(text).ok()?;
    parser.parse_expr().ok()
}

/// A printed expression: its type, and how tightly it binds.
struct Printed {
    text: String,
    oid: u32,
    tight: bool,
}

impl Printed {
    fn tight(text: impl Into<String>, oid: u32) -> Printed {
        Printed { text: text.into(), oid, tight: true }
    }

    fn loose(text: String, oid: u32) -> Printed {
        Printed { text, oid, tight: false }
    }

    /// In parentheses unless it binds tightly.
    fn grouped(&self) -> String {
        if self.tight { self.text.clone() } else { format!("({})", self.text) }
    }

    /// Without the outermost parentheses, which constraints print themselves.
    fn trimmed(self, _pretty: bool) -> String {
        self.text
    }
}

/// What names mean in an expression.
#[derive(Clone, Copy)]
pub(super) enum Columns<'a> {
    /// Columns of a table, which are written alone.
    Of(&'a TableDef),
    /// Columns of what is in FROM, each written with the name of its relation.
    From(&'a [Source]),
}

/// A relation in FROM: the name it goes under, and its columns' names and types.
pub(super) struct Source {
    pub(super) name: String,
    pub(super) columns: Vec<(String, u32)>,
}

pub(super) struct Printer<'a> {
    columns: Columns<'a>,
    pretty: bool,
    /// Whose search path says which names are written with their schemas.
    session: Option<&'a dyn SessionFunctions>,
    /// Something was printed that PostgreSQL may print otherwise.
    pub(super) guessed: Cell<bool>,
}

impl<'a> Printer<'a> {
    pub(super) fn new(
        columns: Columns<'a>,
        pretty: bool,
        session: Option<&'a dyn SessionFunctions>,
    ) -> Printer<'a> {
        Printer { columns, pretty, session, guessed: Cell::new(false) }
    }

    /// An expression's text, and whether it stands for one value without parentheses.
    pub(super) fn text(&self, expr: &Expr) -> String {
        self.print(expr).text
    }

    fn guess(&self, printed: Printed) -> Printed {
        self.guessed.set(true);
        printed
    }

    /// A default: a bare literal has the column's type.
    fn default(&self, expr: &Expr, column: &ColumnDef) -> String {
        let printed = self.print(expr);
        let plain_type = plain(column.sql_type.oid);
        match expr {
            Expr::Value(v) if string_of(&v.value).is_some() => {
                self.cast_text(&printed, plain_type.oid)
            }
            Expr::UnaryOp { op: UnaryOperator::Minus, expr: inner } => match &**inner {
                Expr::Value(v) => match &v.value {
                    ast::Value::Number(digits, _) => {
                        let oid =
                            if printed.oid == oids::UNKNOWN { oids::INT4 } else { printed.oid };
                        format!("'-{digits}'::{}", names::shown_type_name(plain(oid)))
                    }
                    _ => printed.text,
                },
                _ => printed.text,
            },
            _ => printed.text,
        }
    }

    fn cast_text(&self, printed: &Printed, oid: u32) -> String {
        let name = match oid {
            oids::BPCHAR => quote_ident("bpchar"),
            oid => self.type_name(oid),
        };
        let constant = printed.text.starts_with('\'');
        if self.pretty || constant {
            format!("{}::{name}", printed.grouped())
        } else {
            format!("({})::{name}", printed.text)
        }
    }

    fn cast(&self, printed: &Printed, oid: u32) -> Printed {
        Printed::tight(self.cast_text(printed, oid), oid)
    }

    fn print(&self, expr: &Expr) -> Printed {
        match expr {
            Expr::Identifier(ident) => self.column(ident),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [.., relation, ident] => self.column_of(Some(relation), ident),
                _ => Printed::tight(expr.to_string(), oids::UNKNOWN),
            },
            Expr::Value(value) => value_text(&value.value),
            Expr::Nested(inner) => self.print(inner),
            Expr::Cast { expr: inner, data_type, .. } => self.explicit_cast(inner, data_type),
            Expr::BinaryOp { left, op, right } => self.binary(left, op, right),
            Expr::UnaryOp { op, expr: inner } => self.unary(op, inner),
            Expr::IsNull(inner) => self.postfix(inner, "IS NULL"),
            Expr::IsNotNull(inner) => self.postfix(inner, "IS NOT NULL"),
            Expr::IsTrue(inner) => self.postfix(inner, "IS TRUE"),
            Expr::IsFalse(inner) => self.postfix(inner, "IS FALSE"),
            Expr::Between { expr: inner, negated, low, high } => {
                self.between(inner, *negated, low, high)
            }
            Expr::InList { expr: inner, list, negated } => self.in_list(inner, list, *negated),
            Expr::Like { negated, expr: inner, pattern, .. } => {
                let op = if *negated { "!~~" } else { "~~" };
                self.operator(&self.print(inner), op, &self.print(pattern))
            }
            Expr::ILike { negated, expr: inner, pattern, .. } => {
                let op = if *negated { "!~~*" } else { "~~*" };
                self.operator(&self.print(inner), op, &self.print(pattern))
            }
            Expr::Function(function) => self.function(function),
            Expr::Case { operand, conditions, else_result, .. } => {
                self.case(operand.as_deref(), conditions, else_result.as_deref())
            }
            other => self.guess(Printed::loose(other.to_string(), oids::UNKNOWN)),
        }
    }

    fn column(&self, ident: &ast::Ident) -> Printed {
        self.column_of(None, ident)
    }

    fn column_of(&self, relation: Option<&ast::Ident>, ident: &ast::Ident) -> Printed {
        let name = folded(ident);
        match self.columns {
            Columns::Of(table) => {
                let oid = table.column(&name).map_or(oids::UNKNOWN, |c| c.sql_type.oid);
                Printed::tight(quote_ident(&name), oid)
            }
            Columns::From(sources) => {
                let relation = relation.map(folded);
                let found = sources
                    .iter()
                    .filter(|source| relation.as_ref().is_none_or(|r| *r == source.name))
                    .find_map(|source| {
                        let (_, oid) = source.columns.iter().find(|(known, _)| *known == name)?;
                        Some((source, *oid))
                    });
                match found {
                    Some((source, oid)) => {
                        let text = format!("{}.{}", quote_ident(&source.name), quote_ident(&name));
                        Printed::tight(text, oid)
                    }
                    None => self.guess(Printed::tight(quote_ident(&name), oids::UNKNOWN)),
                }
            }
        }
    }

    fn explicit_cast(&self, inner: &Expr, ty: &ast::DataType) -> Printed {
        let Ok(ty) = names::parse_sql_type(ty) else {
            return Printed::tight(format!("{inner}::{ty}"), oids::UNKNOWN);
        };
        let printed = self.print(inner);
        let name = names::shown_type_name(ty);
        let constant = printed.text.starts_with('\'');
        let text = if self.pretty || constant {
            format!("{}::{name}", printed.grouped())
        } else {
            format!("({})::{name}", printed.text)
        };
        Printed::tight(text, ty.oid)
    }

    fn unary(&self, op: &UnaryOperator, inner: &Expr) -> Printed {
        let printed = self.print(inner);
        match op {
            UnaryOperator::Not => self.wrap(format!("NOT {}", printed.grouped()), oids::BOOL),
            UnaryOperator::Minus if printed.text.starts_with(|c: char| c.is_ascii_digit()) => {
                Printed::tight(
                    format!("'-{}'::{}", printed.text, names::shown_type_name(plain(printed.oid))),
                    printed.oid,
                )
            }
            _ => self.wrap(format!("{op} {}", printed.grouped()), printed.oid),
        }
    }

    fn postfix(&self, inner: &Expr, words: &str) -> Printed {
        self.wrap(format!("{} {words}", self.print(inner).grouped()), oids::BOOL)
    }

    fn wrap(&self, text: String, oid: u32) -> Printed {
        if self.pretty {
            Printed::loose(text, oid)
        } else {
            Printed::tight(format!("({text})"), oid)
        }
    }

    fn binary(&self, left: &Expr, op: &Op, right: &Expr) -> Printed {
        let (l, r) = (self.print(left), self.print(right));
        match op {
            Op::And | Op::Or => {
                let same = |e: &Expr| matches!(e, Expr::BinaryOp { op: inner, .. } if inner == op);
                let part = |e: &Expr, p: &Printed| {
                    let needs = matches!(e, Expr::BinaryOp { op: Op::Or, .. }) && *op == Op::And;
                    // Chains of one operator are flat; comparisons bind tighter than AND and OR.
                    let flat = p.text.strip_prefix('(').and_then(|t| t.strip_suffix(')'));
                    let is_list = matches!(stripped(e), Expr::InList { .. });
                    match (self.pretty, same(e), flat) {
                        (true, _, _) if needs || is_list => format!("({})", p.text),
                        (false, true, Some(inner)) => inner.to_owned(),
                        _ => p.text.clone(),
                    }
                };
                self.wrap(format!("{} {op} {}", part(left, &l), part(right, &r)), oids::BOOL)
            }
            Op::NotEq => self.operator(&l, "<>", &r),
            Op::Eq | Op::Lt | Op::LtEq | Op::Gt | Op::GtEq => {
                self.operator(&l, &op.to_string(), &r)
            }
            _ => {
                if *op == Op::StringConcat {
                    let text = |p: &Printed| match p.oid {
                        oids::VARCHAR | oids::UNKNOWN => self.cast(p, oids::TEXT),
                        oid => Printed { text: p.text.clone(), oid, tight: p.tight },
                    };
                    let mut printed = self.operator(&text(&l), "||", &text(&r));
                    printed.oid = oids::TEXT;
                    return printed;
                }
                let mut printed = self.operator(&l, &op.to_string(), &r);
                printed.oid = if l.oid == oids::UNKNOWN { r.oid } else { l.oid };
                printed
            }
        }
    }

    /// An operator whose operands are brought to one type.
    fn operator(&self, left: &Printed, op: &str, right: &Printed) -> Printed {
        let (l, r) = self.unify(left, right);
        self.wrap(format!("{} {op} {}", l.grouped(), r.grouped()), oids::BOOL)
    }

    fn unify(&self, left: &Printed, right: &Printed) -> (Printed, Printed) {
        let copy = |p: &Printed| Printed { text: p.text.clone(), oid: p.oid, tight: p.tight };
        let common = common_type(left.oid, right.oid);
        let bring = |p: &Printed| match common {
            Some(oid) if p.oid != oid => self.cast(p, oid),
            _ => copy(p),
        };
        (bring(left), bring(right))
    }

    fn between(&self, inner: &Expr, negated: bool, low: &Expr, high: &Expr) -> Printed {
        let value = self.print(inner);
        let (first, second, word) = if negated { ("<", ">", "OR") } else { (">=", "<=", "AND") };
        let a = self.operator(&value, first, &self.print(low));
        let b = self.operator(&value, second, &self.print(high));
        self.wrap(format!("{} {word} {}", a.text, b.text), oids::BOOL)
    }

    fn in_list(&self, inner: &Expr, list: &[Expr], negated: bool) -> Printed {
        let value = self.print(inner);
        let items: Vec<Printed> = list.iter().map(|e| self.print(e)).collect();
        let varchar = value.oid == oids::VARCHAR;
        let texts: Vec<String> = items
            .iter()
            .map(|item| match item.oid {
                oids::UNKNOWN => self.cast_text(item, value.oid),
                _ => self.unify(&value, item).1.text,
            })
            .collect();
        let (op, quantifier) = if negated { ("<>", "ALL") } else { ("=", "ANY") };
        let array = format!("ARRAY[{}]", texts.join(", "));
        let (shown, array) = match varchar {
            true if self.pretty => {
                (self.cast_text(&value, oids::TEXT), format!("{array}::{}[]", quote_ident("text")))
            }
            true => (
                self.cast_text(&value, oids::TEXT),
                format!("({array})::{}[]", quote_ident("text")),
            ),
            false => (value.grouped(), array),
        };
        self.wrap(format!("{shown} {op} {quantifier} ({array})"), oids::BOOL)
    }

    /// On lines of its own if it is pretty, as PostgreSQL does.
    fn case(
        &self,
        operand: Option<&Expr>,
        conditions: &[ast::CaseWhen],
        otherwise: Option<&Expr>,
    ) -> Printed {
        let mut text = String::from("\nCASE");
        let mut oid = oids::UNKNOWN;
        if let Some(operand) = operand {
            text.push_str(&format!(" {}", self.print(operand).text));
        }
        for when in conditions {
            let (condition, result) = (self.print(&when.condition), self.print(&when.result));
            oid = if oid == oids::UNKNOWN { result.oid } else { oid };
            text.push_str(&format!("\n    WHEN {} THEN {}", condition.text, result.text));
        }
        let otherwise = otherwise.map(|expr| self.print(expr));
        if let Some(result) = &otherwise {
            oid = if oid == oids::UNKNOWN { result.oid } else { oid };
        }
        let null = || format!("NULL::{}", names::type_name(plain(oid)));
        let result = otherwise.map_or_else(null, |result| result.text);
        text.push_str(&format!("\n    ELSE {result}\nEND"));
        Printed::tight(text, oid)
    }

    fn function(&self, function: &ast::Function) -> Printed {
        let name = function.name.to_string().to_lowercase();
        let ast::FunctionArguments::List(list) = &function.args else {
            return Printed::tight(name.to_uppercase(), oids::UNKNOWN);
        };
        if function.over.is_some() || function.filter.is_some() || !list.clauses.is_empty() {
            self.guessed.set(true);
        }
        let mut common = oids::UNKNOWN;
        if matches!(name.as_str(), "coalesce" | "nullif" | "greatest" | "least") {
            let mut known = list.args.iter().filter_map(expression_of).map(|e| self.print(e).oid);
            common = known.find(|oid| *oid != oids::UNKNOWN).unwrap_or(common);
        }
        let args: Vec<String> = list
            .args
            .iter()
            .map(|arg| match expression_of(arg) {
                Some(e) if common != oids::UNKNOWN => {
                    let printed = self.print(e);
                    if printed.oid == oids::UNKNOWN && printed.text.starts_with('\'') {
                        self.cast(&printed, common).text
                    } else {
                        printed.text
                    }
                }
                Some(e) => self.argument(&name, e),
                None => arg.to_string(),
            })
            .collect();
        if common != oids::UNKNOWN {
            let name = if name == "nullif" { "NULLIF" } else { &name.to_uppercase() };
            return Printed::tight(format!("{name}({})", args.join(", ")), common);
        }
        let oid = match name.as_str() {
            "length" | "char_length" => oids::INT4,
            "lower" | "upper" | "btrim" | "trim" => oids::TEXT,
            "count" => oids::INT8,
            "now" => oids::TIMESTAMPTZ,
            "nextval" | "currval" => oids::INT8,
            _ => {
                self.guessed.set(true);
                oids::UNKNOWN
            }
        };
        let called = match name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            true => quote_ident(&name),
            false => name,
        };
        Printed::tight(format!("{called}({})", args.join(", ")), oid)
    }

    fn argument(&self, function: &str, expr: &Expr) -> String {
        let printed = self.print(expr);
        let sequence = matches!(function, "nextval" | "currval" | "setval");
        match (sequence, printed.oid) {
            (true, oids::UNKNOWN) if printed.text.starts_with('\'') => {
                format!("{}::{}", self.visible(&printed.text), quote_ident("regclass"))
            }
            (true, oids::REGCLASS) => self.visible(&printed.text),
            (false, oids::UNKNOWN) if printed.text.starts_with('\'') => {
                self.cast_text(&printed, oids::TEXT)
            }
            (false, oids::VARCHAR) => self.cast_text(&printed, oids::TEXT),
            _ => printed.text,
        }
    }

    /// A regclass constant prints without the schema that the search path finds anyway.
    fn visible(&self, text: &str) -> String {
        let quoted = text.strip_prefix('\'').and_then(|rest| rest.rsplit_once('\''));
        let (Some(session), Some((name, rest))) = (self.session, quoted) else {
            return text.to_owned();
        };
        match find_relation(session, &name.replace("''", "'")) {
            Ok(Some(oid)) => {
                format!("'{}'{rest}", relation_text(session, oid).replace('\'', "''"))
            }
            _ => text.to_owned(),
        }
    }

    /// A type's name; that of a user's with its schema where it is not found without.
    fn type_name(&self, oid: u32) -> String {
        let users = self.session.and_then(|session| enums::name_in(session, oid));
        users.unwrap_or_else(|| names::shown_type_name(plain(oid)))
    }
}

fn expression_of(arg: &ast::FunctionArg) -> Option<&Expr> {
    match arg {
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(e)) => Some(e),
        _ => None,
    }
}

fn string_of(value: &ast::Value) -> Option<&str> {
    match value {
        ast::Value::SingleQuotedString(s) | ast::Value::EscapedStringLiteral(s) => Some(s),
        _ => None,
    }
}

fn value_text(value: &ast::Value) -> Printed {
    match value {
        ast::Value::Number(digits, _) => {
            let oid = match digits {
                d if d.parse::<i32>().is_ok() => oids::INT4,
                d if d.parse::<i64>().is_ok() => oids::INT8,
                _ => oids::NUMERIC,
            };
            Printed::tight(digits.clone(), oid)
        }
        ast::Value::Boolean(v) => Printed::tight(v.to_string(), oids::BOOL),
        ast::Value::Null => Printed::tight("NULL", oids::UNKNOWN),
        other => match string_of(other) {
            Some(s) => Printed::tight(format!("'{}'", s.replace('\'', "''")), oids::UNKNOWN),
            None => Printed::tight(other.to_string(), oids::UNKNOWN),
        },
    }
}

/// The type PostgreSQL brings both operands to, if it has to change one.
fn common_type(left: u32, right: u32) -> Option<u32> {
    use oids::*;
    let (known, other) = match (left, right) {
        (UNKNOWN, UNKNOWN) => return Some(TEXT),
        (UNKNOWN, known) => (known, UNKNOWN),
        (known, other) => (known, other),
    };
    let integer = |oid| matches!(oid, INT2 | INT4 | INT8);
    match (known, other) {
        (VARCHAR, UNKNOWN | VARCHAR | TEXT) | (TEXT, VARCHAR) => Some(TEXT),
        (known, UNKNOWN) => Some(known),
        (NUMERIC, other) if integer(other) => Some(NUMERIC),
        (other, NUMERIC) if integer(other) => Some(NUMERIC),
        (FLOAT8 | FLOAT4, other) if integer(other) || other == NUMERIC => Some(FLOAT8),
        (other, FLOAT8 | FLOAT4) if integer(other) || other == NUMERIC => Some(FLOAT8),
        (DATE, TIMESTAMP | TIMESTAMPTZ) => None,
        _ => None,
    }
}
