//! Paths as text, as PostgreSQL prints them.

use super::{Comparison, Expr, Head, LAST_LEVEL, Path, Step};
use crate::types::json::{deeper, escape};

/// The text of a path.
pub(super) fn canonical(path: &Path) -> String {
    let mut out = String::new();
    out.push_str(if path.is_strict { "strict " } else { "" });
    write(&path.expr, true, &mut out);
    out
}

/// How strongly an operator binds; what binds no more strongly than what it is in stands in parentheses.
fn strength(head: &Head) -> u8 {
    use super::Arithmetic::{Add, Sub};
    match head {
        Head::Or(_) => 0,
        Head::And(_) => 1,
        Head::Compare(..) | Head::StartsWith(_) => 2,
        Head::Arithmetic(Add | Sub, _) => 3,
        Head::Arithmetic(..) => 4,
        Head::Signed(..) => 5,
        _ => 6,
    }
}

fn write(expr: &Expr, in_parentheses: bool, out: &mut String) {
    let has_operator = strength(&expr.head) < 6 || matches!(expr.head, Head::LikeRegex(..));
    let encloses = match expr.steps.is_empty() {
        true => in_parentheses && has_operator,
        // A number's point would be one with that of a step.
        false => has_operator || expr.head.is_predicate() || matches!(expr.head, Head::Number(_)),
    };
    out.push_str(if encloses { "(" } else { "" });
    deeper(|| write_head(&expr.head, out));
    out.push_str(if encloses { ")" } else { "" });
    expr.steps.iter().for_each(|step| write_step(step, out));
}

fn write_head(head: &Head, out: &mut String) {
    let within = |part: &Expr, out: &mut String| {
        write(part, strength(&part.head) <= strength(head), out);
    };
    let binary = |[left, right]: &[Expr; 2], sign: &str, out: &mut String| {
        within(left, out);
        out.extend([" ", sign, " "]);
        within(right, out);
    };
    match head {
        Head::Null => out.push_str("null"),
        Head::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Head::Number(text) => out.push_str(text),
        Head::String(text) => escape(text, out),
        Head::Variable(name) => {
            out.push('$');
            escape(name, out);
        }
        Head::Root => out.push('$'),
        Head::Current => out.push('@'),
        Head::Last => out.push_str("last"),
        Head::Arithmetic(op, pair) => binary(pair, op.sign().encode_utf8(&mut [0; 4]), out),
        Head::Signed(op, inner) => {
            out.push(op.sign());
            within(inner, out);
        }
        Head::Compare(op, pair) => binary(pair, sign(*op), out),
        Head::StartsWith(pair) => binary(pair, "starts with", out),
        Head::And(pair) => binary(pair, "&&", out),
        Head::Or(pair) => binary(pair, "||", out),
        Head::Not(inner) => enclosed("!(", inner, ")", out),
        Head::IsUnknown(inner) => enclosed("(", inner, ") is unknown", out),
        Head::Exists(inner) => enclosed("exists (", inner, ")", out),
        Head::LikeRegex(inner, regex) => {
            within(inner, out);
            out.push_str(" like_regex ");
            escape(&regex.pattern, out);
            if !regex.flags.is_empty() {
                out.push_str(" flag \"");
                out.extend(&regex.flags);
                out.push('"');
            }
        }
    }
}

fn enclosed(open: &str, inner: &Expr, close: &str, out: &mut String) {
    out.push_str(open);
    write(inner, false, out);
    out.push_str(close);
}

fn sign(op: Comparison) -> &'static str {
    match op {
        Comparison::Equal => "==",
        Comparison::NotEqual => "!=",
        Comparison::Less => "<",
        Comparison::LessOrEqual => "<=",
        Comparison::Greater => ">",
        Comparison::GreaterOrEqual => ">=",
    }
}

fn write_step(step: &Step, out: &mut String) {
    match step {
        Step::Key(key) => {
            out.push('.');
            escape(key, out);
        }
        Step::AnyKey => out.push_str(".*"),
        Step::AnyArray => out.push_str("[*]"),
        Step::Index(all) => {
            out.push('[');
            for (at, (from, to)) in all.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                write(from, false, out);
                if let Some(to) = to {
                    out.push_str(" to ");
                    write(to, false, out);
                }
            }
            out.push(']');
        }
        Step::Any { first, last } => {
            let level = |level: u32| match level {
                LAST_LEVEL => "last".to_owned(),
                level => level.to_string(),
            };
            out.push_str(".**");
            match (*first, *last) {
                (0, LAST_LEVEL) => {}
                (first, last) if first == last => out.push_str(&format!("{{{}}}", level(first))),
                (first, last) => {
                    out.push_str(&format!("{{{} to {}}}", level(first), level(last)));
                }
            }
        }
        Step::Filter(filter) => enclosed("?(", filter, ")", out),
        Step::Method(method) => out.extend([".", method.name(), "()"]),
        Step::Datetime(template) => {
            out.push_str(".datetime(");
            if let Some(template) = template {
                escape(template, out);
            }
            out.push(')');
        }
    }
}
