//! Calls of functions, and what the grammar has words for.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, AccessExpr, CeilFloorKind, Expr, FunctionArg, FunctionArgExpr, FunctionArguments,
    Subscript, TrimWhereField, visit_expressions,
};

use super::value::{self, HIDDEN, Printed};
use super::{Printer, layout, stripped};
use crate::catalogs::overloads;
use crate::types::{oids, plain};
use crate::udf::lookup::quote_ident;

/// A function that is called without parentheses: how it is written, and its type.
pub(super) fn niladic(name: &str) -> Option<(&'static str, u32)> {
    Some(match name {
        "current_date" => ("CURRENT_DATE", oids::DATE),
        "current_time" => ("CURRENT_TIME", HIDDEN),
        "current_timestamp" => ("CURRENT_TIMESTAMP", oids::TIMESTAMPTZ),
        "localtime" => ("LOCALTIME", oids::TIME),
        "localtimestamp" => ("LOCALTIMESTAMP", oids::TIMESTAMP),
        "current_role" => ("CURRENT_ROLE", oids::NAME),
        "current_user" => ("CURRENT_USER", oids::NAME),
        "session_user" => ("SESSION_USER", oids::NAME),
        "user" => ("USER", oids::NAME),
        "current_catalog" => ("CURRENT_CATALOG", oids::NAME),
        "current_schema" => ("CURRENT_SCHEMA", oids::NAME),
        _ => return None,
    })
}

/// Whether an expression reads a column.
pub(super) fn has_columns(expr: &Expr) -> bool {
    let found = visit_expressions(expr, |e| match e {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

impl Printer<'_> {
    /// What is neither an operator nor an ordinary call.
    pub(super) fn form(&self, expr: &Expr) -> Printed {
        let text = |e: &Expr| self.coerced(&self.print(e), oids::TEXT, false);
        match expr {
            Expr::Array(array) => self.array(&array.elem, None),
            Expr::Interval(interval) => {
                let literal = match stripped(&interval.value) {
                    Expr::Value(v) => value::literal(&v.value),
                    _ => return self.unknown(expr.to_string()),
                };
                let is_plain = literal.is_literal()
                    && interval.leading_field.is_none()
                    && interval.leading_precision.is_none()
                    && interval.fractional_seconds_precision.is_none();
                match is_plain {
                    true => self.constant(&literal, plain(oids::INTERVAL)),
                    false => self.unknown(expr.to_string()),
                }
            }
            Expr::AtTimeZone { timestamp, time_zone } => {
                let (value, zone) = (self.print(timestamp), self.print(time_zone));
                let oid = match value.oid {
                    oids::TIMESTAMPTZ => oids::TIMESTAMP,
                    oids::TIMESTAMP => oids::TIMESTAMPTZ,
                    _ => HIDDEN,
                };
                self.guessed.set(self.guessed.get() || oid == HIDDEN);
                let zone = match zone.oid {
                    oids::INTERVAL => zone,
                    _ => self.coerced(&zone, oids::TEXT, false),
                };
                let text = format!("{} AT TIME ZONE {}", value.grouped(), zone.grouped());
                Printed::tight(format!("({text})"), oid)
            }
            Expr::Extract { field, expr, .. } => {
                let field = field.to_string().to_lowercase();
                let value = self.print(expr);
                Printed::tight(format!("EXTRACT({field} FROM {})", value.text), oids::NUMERIC)
            }
            Expr::Ceil { expr, field: CeilFloorKind::DateTimeField(_) } => {
                self.call("ceil", &[self.print(expr)])
            }
            Expr::Floor { expr, field: CeilFloorKind::DateTimeField(_) } => {
                self.call("floor", &[self.print(expr)])
            }
            Expr::Position { expr, r#in } => {
                let (what, within) = (text(expr), text(r#in));
                let text = format!("POSITION(({}) IN ({}))", what.text, within.text);
                Printed::tight(text, oids::INT4)
            }
            Expr::Substring { expr, substring_from, substring_for, special, shorthand } => {
                let value = self.print(expr);
                let from = substring_from.as_deref().map(|e| self.print(e));
                let length = substring_for.as_deref().map(|e| self.print(e));
                if *special {
                    let name = if *shorthand { "substr" } else { "substring" };
                    let arguments: Vec<Printed> =
                        std::iter::once(value).chain(from).chain(length).collect();
                    return self.call(name, &arguments);
                }
                let result = if value.oid == oids::BYTEA { oids::BYTEA } else { oids::TEXT };
                let mut text = self.coerced(&value, result, false).text;
                for (word, part) in [("FROM", from), ("FOR", length)] {
                    if let Some(part) = part {
                        let part = self.coerced(&part, oids::TEXT, !part.is_literal());
                        text.push_str(&format!(" {word} {}", part.text));
                    }
                }
                Printed::tight(format!("SUBSTRING({text})"), result)
            }
            Expr::Trim { trim_where, trim_what, expr, trim_characters } => {
                let place = match trim_where {
                    None | Some(TrimWhereField::Both) => "BOTH",
                    Some(TrimWhereField::Leading) => "LEADING",
                    Some(TrimWhereField::Trailing) => "TRAILING",
                };
                let listed = trim_characters.as_ref().and_then(|list| list.first());
                let what = trim_what.as_deref().or(listed);
                let what = what.map_or_else(String::new, |e| format!(" {}", text(e).text));
                let inner = format!("TRIM({place}{what} FROM {})", text(expr).text);
                Printed::tight(inner, oids::TEXT)
            }
            Expr::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
                let length = overlay_for.as_deref();
                let length =
                    length.map_or_else(String::new, |e| format!(" FOR {}", self.print(e).text));
                let (value, what) = (text(expr).text, text(overlay_what).text);
                let from = self.print(overlay_from).text;
                let inner = format!("OVERLAY({value} PLACING {what} FROM {from}{length})");
                Printed::tight(inner, oids::TEXT)
            }
            Expr::Collate { expr, collation } => {
                let value = self.coerced(&self.print(expr), oids::TEXT, true);
                let text = format!("{} COLLATE {collation}", value.grouped());
                self.wrap(text, value.oid)
            }
            Expr::CompoundFieldAccess { root, access_chain } => self.access(root, access_chain),
            Expr::Tuple(values) => {
                let texts: Vec<String> = values.iter().map(|e| self.print(e).text).collect();
                self.unknown(format!("ROW({})", texts.join(", "))).held()
            }
            other => self.unknown(other.to_string()),
        }
    }

    /// Elements of arrays.
    fn access(&self, root: &Expr, chain: &[AccessExpr]) -> Printed {
        let value = self.print(root);
        let mut text = match stripped(root) {
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => value.text.clone(),
            _ => format!("({})", value.text),
        };
        let mut oid = overloads::element_of(value.oid).unwrap_or(HIDDEN);
        for step in chain {
            match step {
                AccessExpr::Subscript(Subscript::Index { index }) => {
                    text.push_str(&format!("[{}]", self.print(index).text));
                }
                AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, .. }) => {
                    let bound = |bound: &Option<Expr>| {
                        bound.as_ref().map_or_else(String::new, |e| self.print(e).text)
                    };
                    text.push_str(&format!("[{}:{}]", bound(lower_bound), bound(upper_bound)));
                    oid = value.oid;
                }
                AccessExpr::Dot(field) => {
                    text.push_str(&format!(".{field}"));
                    oid = HIDDEN;
                }
            }
        }
        self.guessed.set(self.guessed.get() || oid == HIDDEN);
        Printed::tight(text, oid)
    }

    pub(super) fn like(
        &self,
        value: &Expr,
        op: &str,
        pattern: &Expr,
        escape: Option<&ast::ValueWithSpan>,
    ) -> Printed {
        let pattern = self.print(pattern);
        let pattern = match escape {
            Some(escape) => self.call("like_escape", &[pattern, value::literal(&escape.value)]),
            None => pattern,
        };
        self.operator(&self.print(value), op, &pattern)
    }

    pub(super) fn similar(
        &self,
        value: &Expr,
        negated: bool,
        pattern: &Expr,
        escape: Option<&ast::ValueWithSpan>,
    ) -> Printed {
        let escape = escape.map(|escape| value::literal(&escape.value));
        let arguments: Vec<Printed> = std::iter::once(self.print(pattern)).chain(escape).collect();
        let pattern = self.call("similar_to_escape", &arguments);
        self.operator(&self.print(value), if negated { "!~" } else { "~" }, &pattern)
    }

    /// On lines of its own, as PostgreSQL writes it.
    pub(super) fn case(
        &self,
        operand: Option<&Expr>,
        conditions: &[ast::CaseWhen],
        otherwise: Option<&Expr>,
    ) -> Printed {
        let mut text = String::from(layout::CASE);
        let operand = operand.map(|operand| self.print(operand));
        if let Some(operand) = &operand {
            text.push_str(&format!(" {}", operand.text));
        }
        let results: Vec<Printed> = conditions
            .iter()
            .map(|when| &when.result)
            .chain(otherwise)
            .map(|e| self.print(e))
            .collect();
        let types: Vec<u32> = results.iter().map(|result| result.oid).collect();
        let known = overloads::common(&types).filter(|_| !types.contains(&HIDDEN));
        let oid = known.unwrap_or(HIDDEN);
        self.guessed.set(self.guessed.get() || known.is_none());
        for (when, result) in conditions.iter().zip(&results) {
            let condition = self.print(&when.condition);
            let condition = match &operand {
                Some(operand) => match overloads::operator("=", Some(operand.oid), condition.oid) {
                    Some(chosen) => self.coerced(&condition, chosen.arguments[1], false),
                    None => condition,
                },
                None => condition,
            };
            let result = self.coerced(result, oid, false);
            let (line, condition, result) = (layout::LINE, condition.text, result.text);
            text.push_str(&format!("{line}WHEN {condition} THEN {result}"));
        }
        let null = || value::literal(&ast::Value::Null);
        let result = otherwise.and_then(|_| results.last().cloned()).unwrap_or_else(null);
        let result = self.coerced(&result, oid, false);
        text.push_str(&format!("{}ELSE {}{}", layout::LINE, result.text, layout::END));
        Printed::tight(text, oid)
    }

    pub(super) fn function(&self, function: &ast::Function) -> Printed {
        let name = function.name.to_string().to_lowercase();
        let name = name.strip_prefix("pg_catalog.").unwrap_or(&name);
        let FunctionArguments::List(list) = &function.args else {
            return match niladic(name) {
                Some((word, oid)) => Printed::tight(word, oid),
                None => self.unknown(function.to_string()).held(),
            };
        };
        if let Some((word, oid)) = niladic(name).filter(|_| name != "current_schema") {
            // LOCALTIMESTAMP(3)
            let texts: Vec<String> = list.args.iter().map(|arg| arg.to_string()).collect();
            let precision =
                if texts.is_empty() { String::new() } else { format!("({})", texts.join(", ")) };
            return Printed::tight(format!("{word}{precision}"), oid);
        }
        let mut arguments = Vec::new();
        for arg in &list.args {
            match expression_of(arg) {
                Some(e) => arguments.push(self.print(e)),
                None if list.args.len() == 1 && name == "count" => {
                    arguments.clear();
                }
                // The only one whose arguments have names that anybody uses.
                None if name == "make_interval" => {
                    return Printed::tight(function.to_string(), oids::INTERVAL);
                }
                None => return self.unknown(function.to_string()).held(),
            }
        }
        let is_plain = function.over.is_none()
            && function.filter.is_none()
            && function.null_treatment.is_none()
            && function.within_group.is_empty()
            && list.clauses.is_empty()
            && list.duplicate_treatment.is_none();
        if !is_plain {
            self.guessed.set(true);
            return Printed::tight(function.to_string(), HIDDEN);
        }
        match name {
            "coalesce" | "greatest" | "least" => {
                let types: Vec<u32> = arguments.iter().map(|argument| argument.oid).collect();
                let known = overloads::common(&types).filter(|_| !types.contains(&HIDDEN));
                let oid = known.unwrap_or(HIDDEN);
                self.guessed.set(self.guessed.get() || known.is_none());
                let texts =
                    arguments.iter().map(|argument| self.coerced(argument, oid, false).text);
                let texts: Vec<String> = texts.collect();
                Printed::tight(format!("{}({})", name.to_uppercase(), texts.join(", ")), oid)
            }
            "nullif" if arguments.len() == 2 => {
                let chosen = overloads::operator("=", Some(arguments[0].oid), arguments[1].oid);
                let oid = arguments[0].oid;
                let texts: Vec<String> = match chosen {
                    Some(chosen) => arguments
                        .iter()
                        .zip(chosen.arguments)
                        .map(|(argument, ty)| self.coerced(argument, ty, false).text)
                        .collect(),
                    None => arguments.iter().map(|argument| argument.text.clone()).collect(),
                };
                let oid = if oid == oids::UNKNOWN { oids::TEXT } else { oid };
                Printed::tight(format!("NULLIF({})", texts.join(", ")), oid)
            }
            "count" if arguments.is_empty() => {
                Printed::tight(format!("{}(*)", quote_ident(name)), oids::INT8)
            }
            "nextval" | "currval" | "setval" => {
                if let Some(first) = arguments.first_mut() {
                    *first = self.coerced(&self.relation(first), oids::REGCLASS, false);
                }
                let texts: Vec<String> = arguments.into_iter().map(|a| a.text).collect();
                Printed::tight(format!("{}({})", quote_ident(name), texts.join(", ")), oids::INT8)
            }
            _ => self.call(name, &arguments),
        }
    }

    /// A call whose arguments are brought to the types it takes.
    pub(super) fn call(&self, name: &str, arguments: &[Printed]) -> Printed {
        let types: Vec<u32> = arguments.iter().map(|argument| argument.oid).collect();
        let called = match name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            true => quote_ident(name),
            false => name.to_owned(),
        };
        let chosen = overloads::function(name, &types);
        let texts: Vec<String> = match &chosen {
            Some(chosen) => arguments
                .iter()
                .zip(&chosen.arguments)
                .map(|(argument, ty)| self.coerced(argument, *ty, false).text)
                .collect(),
            None => arguments.iter().map(|argument| argument.text.clone()).collect(),
        };
        self.guessed.set(self.guessed.get() || chosen.is_none());
        let oid = chosen.map_or(HIDDEN, |chosen| chosen.result);
        Printed::tight(format!("{called}({})", texts.join(", ")), oid)
    }
}

fn expression_of(arg: &FunctionArg) -> Option<&Expr> {
    match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(e)) => Some(e),
        _ => None,
    }
}
