//! Expressions as PostgreSQL prints them (its ruleutils): types of literals spelled out, casts that it makes by itself
//! written down, operators in their own names, parentheses either where they are needed (`pretty`) or around every
//! operator.
//!
//! ```text
//!   written                    pretty                                    not pretty
//!   v > 0      v numeric       v > 0::numeric                            (v > (0)::numeric)
//!   name <> '' name varchar    name::text <> ''::text                    ((name)::text <> ''::text)
//!   s in ('a', 'b')  s text    s = ANY (ARRAY['a'::text, 'b'::text])     …
//! ```
//!
//! Nothing is guessed: where it is not known which function or operator is meant, no cast is added, and what was
//! written stays as it was. PostgreSQL resolves it again as it did when it was written.

mod forms;
mod layout;
mod value;

use std::cell::Cell;

use datafusion::sql::sqlparser::ast::{self, BinaryOperator as Op, Expr, UnaryOperator};
use froglet_schema::{SqlType, TableDef};

use super::overloads::{self, Chosen};
use crate::context::{SessionFunctions, session_here};
use crate::rewrite::folded;
use crate::semantics::enums;
use crate::types::{names, oids, plain};
use crate::udf::lookup::{find_relation, quote_ident, relation_text};
use value::HIDDEN;
pub(crate) use value::Printed;

/// What names mean in an expression.
#[derive(Clone, Copy)]
pub(crate) enum Columns<'a> {
    /// Columns of a table, which are written alone.
    Of(&'a TableDef),
    /// Columns of what is in FROM, each written with the name of its relation.
    From(&'a [Source]),
}

/// A relation in FROM: the name it goes under, and its columns' names and types.
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) columns: Vec<(String, u32)>,
}

/// Prints expressions over some columns.
pub(crate) struct Printer<'a> {
    columns: Columns<'a>,
    pretty: bool,
    /// Whose search path says which names are written with their schemas.
    session: Option<&'a dyn SessionFunctions>,
    /// How many blanks a CASE is from the left.
    indent: usize,
    /// What is read is what was printed: `(ARRAY[…])::text[]` stays, which as it was written is a cast of each element.
    reprints: bool,
    /// Something was printed that PostgreSQL may print otherwise.
    pub(crate) guessed: Cell<bool>,
}

impl<'a> Printer<'a> {
    pub(crate) fn new(
        columns: Columns<'a>,
        pretty: bool,
        session: Option<&'a dyn SessionFunctions>,
    ) -> Printer<'a> {
        let (indent, reprints) = (0, false);
        Printer { columns, pretty, session, indent, reprints, guessed: Cell::new(false) }
    }

    /// Within a clause of a query.
    pub(crate) fn in_clause(self) -> Printer<'a> {
        Printer { indent: 8, ..self }
    }

    /// Of what was printed without `pretty`.
    pub(crate) fn of_printed(self) -> Printer<'a> {
        Printer { reprints: true, ..self }
    }

    pub(crate) fn text(&self, expr: &Expr) -> String {
        self.laid_out(self.print(expr))
    }

    /// The same where nothing says what a literal is: it is a text.
    pub(crate) fn output(&self, expr: &Expr) -> String {
        self.laid_out(self.coerced(&self.print(expr), oids::TEXT, true))
    }

    /// A value of a type: a literal is of that type, and casts that assignment makes are not written.
    pub(crate) fn assigned(&self, expr: &Expr, ty: u32) -> String {
        self.laid_out(self.coerced(&self.print(expr), ty, true))
    }

    fn laid_out(&self, printed: Printed) -> String {
        layout::laid_out(&printed.text, self.indent)
    }

    fn unknown(&self, text: String) -> Printed {
        self.guessed.set(true);
        Printed::loose(text, HIDDEN)
    }

    fn print(&self, expr: &Expr) -> Printed {
        match expr {
            Expr::Identifier(ident) => self.column(None, ident),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [.., relation, ident] => self.column(Some(relation), ident),
                _ => Printed::tight(expr.to_string(), HIDDEN),
            },
            Expr::Value(value) => value::literal(&value.value),
            Expr::Nested(inner) => self.print(inner),
            Expr::Cast { expr: inner, data_type, .. } => self.cast(inner, data_type),
            Expr::TypedString(typed) => match names::parse_sql_type(&typed.data_type) {
                Ok(ty) => self.constant(&value::literal(&typed.value.value), ty),
                Err(_) => self.unknown(expr.to_string()),
            },
            Expr::BinaryOp { left, op, right } => self.binary(left, op, right),
            Expr::UnaryOp { op, expr: inner } => self.unary(op, inner),
            Expr::IsNull(inner) => self.postfix(inner, "IS NULL"),
            Expr::IsNotNull(inner) => self.postfix(inner, "IS NOT NULL"),
            Expr::IsTrue(inner) => self.postfix(inner, "IS TRUE"),
            Expr::IsNotTrue(inner) => self.postfix(inner, "IS NOT TRUE"),
            Expr::IsFalse(inner) => self.postfix(inner, "IS FALSE"),
            Expr::IsNotFalse(inner) => self.postfix(inner, "IS NOT FALSE"),
            Expr::IsUnknown(inner) => self.postfix(inner, "IS UNKNOWN"),
            Expr::IsNotUnknown(inner) => self.postfix(inner, "IS NOT UNKNOWN"),
            Expr::IsDistinctFrom(left, right) => self.distinct(left, right, false),
            Expr::IsNotDistinctFrom(left, right) => self.distinct(left, right, true),
            Expr::Between { expr: inner, negated, low, high } => {
                self.between(inner, *negated, low, high)
            }
            Expr::InList { expr: inner, list, negated } => self.in_list(inner, list, *negated),
            Expr::Like { negated, expr: inner, pattern, escape_char, any: false } => {
                let op = if *negated { "!~~" } else { "~~" };
                self.like(inner, op, pattern, escape_char.as_ref())
            }
            Expr::ILike { negated, expr: inner, pattern, escape_char, any: false } => {
                let op = if *negated { "!~~*" } else { "~~*" };
                self.like(inner, op, pattern, escape_char.as_ref())
            }
            Expr::SimilarTo { negated, expr: inner, pattern, escape_char } => {
                self.similar(inner, *negated, pattern, escape_char.as_ref())
            }
            Expr::AnyOp { left, compare_op, right, .. } => {
                self.quantified(left, compare_op, "ANY", right)
            }
            Expr::AllOp { left, compare_op, right } => {
                self.quantified(left, compare_op, "ALL", right)
            }
            Expr::Function(function) => self.function(function),
            Expr::Case { operand, conditions, else_result, .. } => {
                self.case(operand.as_deref(), conditions, else_result.as_deref())
            }
            other => self.form(other),
        }
    }

    fn column(&self, relation: Option<&ast::Ident>, ident: &ast::Ident) -> Printed {
        let name = folded(ident);
        match self.columns {
            Columns::Of(table) => match table.column(&name) {
                Some(column) => Printed::tight(quote_ident(&name), column.sql_type.oid),
                None => match forms::niladic(&name) {
                    Some((word, oid)) if ident.quote_style.is_none() => Printed::tight(word, oid),
                    _ => self.unknown(quote_ident(&name)),
                },
            },
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
                    None => self.unknown(quote_ident(&name)),
                }
            }
        }
    }

    /// A type's name; that of a user's with its schema where it is not found without.
    fn type_name(&self, ty: SqlType) -> String {
        let users = match self.session {
            Some(session) => enums::name_in(session, ty.oid),
            None => session_here().and_then(|session| enums::name_in(&*session, ty.oid)),
        };
        match ty.oid {
            oids::BPCHAR if ty.modifier < 0 => quote_ident("bpchar"),
            _ => users.unwrap_or_else(|| names::shown_type_name(ty)),
        }
    }

    /// A literal of a type.
    fn constant(&self, printed: &Printed, ty: SqlType) -> Printed {
        let (literal, bare) = match &printed.literal {
            Some(Some(text)) => {
                // A modifier is another step, but for how an interval is read.
                let of = if ty.oid == oids::INTERVAL { ty } else { plain(ty.oid) };
                let shown = value::normal(text, of);
                match value::bare(&shown, ty.oid) {
                    Some(bare) if ty.modifier >= 0 => (bare, None),
                    bare => (value::quoted(&shown), bare),
                }
            }
            _ => (printed.text.clone(), None),
        };
        let labelled = || format!("{literal}::{}", self.type_name(ty));
        Printed::tight(bare.unwrap_or_else(labelled), ty.oid)
    }

    /// A value made into a type.
    fn as_type(&self, printed: &Printed, ty: SqlType) -> Printed {
        if printed.is_literal() {
            return self.constant(printed, ty);
        }
        let name = self.type_name(ty);
        let text = match self.pretty {
            _ if printed.oid == ty.oid && value::is_number(&printed.text) => {
                format!("{}::{name}", printed.text)
            }
            true => format!("{}::{name}", printed.grouped()),
            false => format!("({})::{name}", printed.text),
        };
        Printed::tight(text, ty.oid)
    }

    /// What PostgreSQL makes of a value where one of a type is wanted; `quietly`: without writing it down.
    fn coerced(&self, printed: &Printed, ty: u32, quietly: bool) -> Printed {
        match () {
            () if printed.is_literal() && is_concrete(ty) => self.constant(printed, plain(ty)),
            () if quietly || printed.oid == ty || printed.oid == HIDDEN || !is_concrete(ty) => {
                printed.clone()
            }
            () => self.as_type(printed, plain(ty)),
        }
    }

    fn cast(&self, inner: &Expr, to: &ast::DataType) -> Printed {
        let Ok(ty) = names::parse_sql_type(to) else {
            let printed = self.print(inner);
            return self.unknown(format!("{}::{to}", printed.grouped()));
        };
        // Parentheses do not keep a list of elements from the cast.
        let list = if self.reprints { inner } else { stripped(inner) };
        if let (Expr::Array(array), Some(element)) = (list, overloads::element_of(ty.oid)) {
            let element = SqlType { oid: element, modifier: ty.modifier };
            return self.array(&array.elem, Some((element, ty)));
        }
        let printed = match ty.oid {
            oids::REGCLASS => self.relation(&self.print(inner)),
            _ => self.print(inner),
        };
        if printed.oid == ty.oid && ty.modifier < 0 { printed } else { self.as_type(&printed, ty) }
    }

    /// A relation's name as a constant, without the schema that the search path finds anyway.
    fn relation(&self, printed: &Printed) -> Printed {
        let (Some(session), Some(Some(name))) = (self.session, &printed.literal) else {
            return printed.clone();
        };
        match find_relation(session, name) {
            Ok(Some(oid)) => value::string(&relation_text(session, oid)),
            _ => printed.clone(),
        }
    }

    fn unary(&self, op: &UnaryOperator, inner: &Expr) -> Printed {
        if let Some(digits) = value::digits(inner).filter(|_| *op == UnaryOperator::Minus) {
            return value::number(&value::negative(&digits));
        }
        let printed = self.print(inner);
        match op {
            UnaryOperator::Not => self.wrap(format!("NOT {}", printed.grouped()), oids::BOOL),
            _ => {
                let op = op.to_string();
                match overloads::operator(&op, None, printed.oid) {
                    Some(chosen) => {
                        let operand = self.coerced(&printed, chosen.arguments[0], false);
                        self.wrap(format!("{op} {}", operand.grouped()), chosen.result)
                    }
                    None => self.unknown(format!("{op} {}", printed.grouped())),
                }
            }
        }
    }

    fn postfix(&self, inner: &Expr, words: &str) -> Printed {
        self.wrap(format!("{} {words}", self.print(inner).grouped()), oids::BOOL)
    }

    fn wrap(&self, text: String, oid: u32) -> Printed {
        match self.pretty {
            true => Printed::loose(text, oid),
            false => Printed::tight(format!("({text})"), oid),
        }
    }

    fn binary(&self, left: &Expr, op: &Op, right: &Expr) -> Printed {
        let (l, r) = (self.print(left), self.print(right));
        match op {
            Op::And | Op::Or => {
                // Chains of one operator are flat, whatever parentheses their beginning has.
                let begins = stripped(left);
                let is_chain = matches!(begins, Expr::BinaryOp { op: inner, .. } if inner == op);
                let part = |e: &Expr, p: &Printed, is_chain: bool| {
                    let flat = p.text.strip_prefix('(').and_then(|t| t.strip_suffix(')'));
                    match (self.pretty, Listed::of(e), flat) {
                        (true, Listed::Array, _) => format!("({})", p.text),
                        (true, Listed::Or, _) if *op == Op::And => format!("({})", p.text),
                        (true, ..) if p.oid == HIDDEN => p.grouped(),
                        (false, _, Some(inner)) if is_chain => inner.to_owned(),
                        (false, ..) => p.grouped(),
                        // Comparisons bind tighter than AND and OR.
                        _ => p.text.clone(),
                    }
                };
                let (l, r) = (part(left, &l, is_chain), part(right, &r, false));
                self.wrap(format!("{l} {op} {r}"), oids::BOOL)
            }
            Op::PGCustomBinaryOperator(_) => {
                self.unknown(format!("{} {op} {}", l.grouped(), r.grouped()))
            }
            Op::NotEq => self.operator(&l, "<>", &r),
            _ => self.operator(&l, &op.to_string(), &r),
        }
    }

    /// An operator whose operands are brought to the types it takes.
    fn operator(&self, left: &Printed, op: &str, right: &Printed) -> Printed {
        match overloads::operator(op, Some(left.oid), right.oid) {
            Some(Chosen { arguments, result }) => {
                let l = self.coerced(left, arguments[0], false);
                let r = self.coerced(right, arguments[1], false);
                self.wrap(format!("{} {op} {}", l.grouped(), r.grouped()), result)
            }
            None => {
                self.guessed.set(true);
                self.wrap(format!("{} {op} {}", left.grouped(), right.grouped()), HIDDEN)
            }
        }
    }

    fn distinct(&self, left: &Expr, right: &Expr, negated: bool) -> Printed {
        let (l, r) = (self.print(left), self.print(right));
        let (l, r) = match overloads::operator("=", Some(l.oid), r.oid) {
            Some(chosen) => (
                self.coerced(&l, chosen.arguments[0], false),
                self.coerced(&r, chosen.arguments[1], false),
            ),
            None => (l, r),
        };
        let (l, r) = (l.grouped(), r.grouped());
        // A NOT around it is how PostgreSQL keeps the other one.
        match negated {
            true => self.wrap(format!("NOT ({l} IS DISTINCT FROM {r})"), oids::BOOL),
            false => self.wrap(format!("{l} IS DISTINCT FROM {r}"), oids::BOOL),
        }
    }

    fn between(&self, inner: &Expr, negated: bool, low: &Expr, high: &Expr) -> Printed {
        let value = self.print(inner);
        let (first, second, word) = if negated { ("<", ">", "OR") } else { (">=", "<=", "AND") };
        let a = self.operator(&value, first, &self.print(low));
        let b = self.operator(&value, second, &self.print(high));
        self.wrap(format!("{} {word} {}", a.text, b.text), oids::BOOL)
    }

    /// A list of constants is an array; what has columns in it is compared one by one.
    fn in_list(&self, inner: &Expr, list: &[Expr], negated: bool) -> Printed {
        let value = self.print(inner);
        let (op, quantifier, word) = match negated {
            true => ("<>", "ALL", "AND"),
            false => ("=", "ANY", "OR"),
        };
        let (of_columns, constants): (Vec<&Expr>, Vec<&Expr>) =
            list.iter().partition(|item| forms::has_columns(item));
        // One constant is no list: it is compared in its place.
        let (of_columns, constants) = match constants.len() {
            0 | 1 => (list.iter().collect(), Vec::new()),
            _ => (of_columns, constants),
        };
        let items: Vec<Printed> = constants.iter().map(|e| self.print(e)).collect();
        let types: Vec<u32> =
            std::iter::once(value.oid).chain(items.iter().map(|i| i.oid)).collect();
        let element = overloads::common(&types).filter(|_| !types.contains(&HIDDEN));
        let array_type = element.and_then(overloads::array_of);
        let Some((element, array_type)) = element.zip(array_type) else {
            let not = if negated { "NOT " } else { "" };
            let texts: Vec<String> = list.iter().map(|item| self.print(item).text).collect();
            self.guessed.set(true);
            return self
                .wrap(format!("{} {not}IN ({})", value.grouped(), texts.join(", ")), HIDDEN);
        };
        let mut parts = Vec::new();
        if !items.is_empty() {
            let items = items.iter().map(|item| self.coerced(item, element, false).text);
            let array = format!("ARRAY[{}]", items.collect::<Vec<_>>().join(", "));
            let array = Printed::tight(array, array_type);
            parts.push(self.over_array(&value, op, quantifier, &array));
        }
        parts.extend(of_columns.iter().map(|item| self.operator(&value, op, &self.print(item))));
        match &parts[..] {
            [one] => one.clone(),
            _ => {
                let part = |(at, part): (usize, Printed)| match at {
                    0 if !items.is_empty() => part.grouped(),
                    _ => part.text,
                };
                let texts: Vec<String> = parts.into_iter().enumerate().map(part).collect();
                self.wrap(texts.join(&format!(" {word} ")), oids::BOOL)
            }
        }
    }

    /// `value op ANY (array)`
    fn over_array(&self, value: &Printed, op: &str, quantifier: &str, array: &Printed) -> Printed {
        let element = match array.oid {
            oids::UNKNOWN => Some(value.oid),
            oid => overloads::element_of(oid),
        };
        let chosen = element.and_then(|element| overloads::operator(op, Some(value.oid), element));
        let (value, array) = match chosen {
            Some(chosen) => {
                let wanted = overloads::array_of(chosen.arguments[1]).unwrap_or(HIDDEN);
                (
                    self.coerced(value, chosen.arguments[0], false),
                    self.coerced(array, wanted, false),
                )
            }
            None => {
                self.guessed.set(true);
                (value.clone(), array.clone())
            }
        };
        self.wrap(format!("{} {op} {quantifier} ({})", value.grouped(), array.text), oids::BOOL)
    }

    fn quantified(&self, left: &Expr, op: &Op, quantifier: &str, right: &Expr) -> Printed {
        let op = if *op == Op::NotEq { "<>".to_owned() } else { op.to_string() };
        if matches!(stripped(right), Expr::Subquery(_)) {
            return self
                .unknown(format!("{} {op} {quantifier} {right}", self.print(left).grouped()));
        }
        self.over_array(&self.print(left), &op, quantifier, &self.print(right))
    }

    /// `ARRAY[…]`; with a cast, of that type and its elements.
    fn array(&self, elements: &[Expr], cast: Option<(SqlType, SqlType)>) -> Printed {
        let printed: Vec<Printed> = elements.iter().map(|e| self.print(e)).collect();
        if let Some((element, array)) = cast {
            let made = printed.iter().map(|item| match item.oid == element.oid {
                true => item.text.clone(),
                false => self.as_type(item, element).text,
            });
            let text = format!("ARRAY[{}]", made.collect::<Vec<_>>().join(", "));
            return match printed.is_empty() {
                true => Printed::tight(format!("{text}::{}", self.type_name(array)), array.oid),
                false => Printed::tight(text, array.oid),
            };
        }
        let types: Vec<u32> = printed.iter().map(|item| item.oid).collect();
        let nested = types.iter().all(|oid| overloads::element_of(*oid).is_some());
        let element = overloads::common(&types).filter(|_| !types.contains(&HIDDEN));
        let array = match element {
            Some(element) if nested => Some(element),
            Some(element) => overloads::array_of(element),
            None => None,
        };
        let Some((element, array)) = element.zip(array) else {
            let texts: Vec<String> = printed.into_iter().map(|item| item.text).collect();
            return self.unknown(format!("ARRAY[{}]", texts.join(", "))).held();
        };
        let texts = printed.iter().map(|item| self.coerced(item, element, false).text);
        Printed::tight(format!("ARRAY[{}]", texts.collect::<Vec<_>>().join(", ")), array)
    }
}

/// What a part of AND and OR is printed as.
enum Listed {
    /// A comparison with the elements of an array.
    Array,
    Or,
    Other,
}

impl Listed {
    fn of(expr: &Expr) -> Listed {
        match stripped(expr) {
            Expr::AnyOp { .. } | Expr::AllOp { .. } => Listed::Array,
            Expr::InList { list, negated, .. } => {
                let constants = list.iter().filter(|item| !forms::has_columns(item)).count();
                match constants > 1 && constants == list.len() {
                    true => Listed::Array,
                    false if list.len() > 1 && !negated => Listed::Or,
                    false => Listed::Other,
                }
            }
            Expr::BinaryOp { op: Op::Or, .. } | Expr::Between { negated: true, .. } => Listed::Or,
            _ => Listed::Other,
        }
    }
}

/// Whether a value can be made into it: it is no placeholder for one.
fn is_concrete(oid: u32) -> bool {
    oid != HIDDEN && oid != oids::UNKNOWN && oid != overloads::ANY
}

/// Without parentheses around it.
pub(crate) fn stripped(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => stripped(inner),
        other => other,
    }
}
