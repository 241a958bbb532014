//! What has been printed, and literals.

use datafusion::sql::sqlparser::ast::{self, Expr};
use froglet_schema::SqlType;

use super::stripped;
use crate::types::{column_type_of, input, names, oids, plain, value_text};

/// The type of what is not known here.
pub(super) const HIDDEN: u32 = 0;

/// A printed expression: its type, and how tightly it binds.
#[derive(Clone, Debug)]
pub(crate) struct Printed {
    pub(crate) text: String,
    pub(crate) oid: u32,
    tight: bool,
    /// Of a literal without a type: what is written in it, `None` for NULL.
    pub(super) literal: Option<Option<String>>,
}

impl Printed {
    pub(super) fn tight(text: impl Into<String>, oid: u32) -> Printed {
        Printed { text: text.into(), oid, tight: true, literal: None }
    }

    pub(super) fn loose(text: String, oid: u32) -> Printed {
        Printed { text, oid, tight: false, literal: None }
    }

    /// The same, said to bind tightly.
    pub(super) fn held(self) -> Printed {
        Printed { tight: true, ..self }
    }

    /// Whether it is of no type yet.
    pub(super) fn is_literal(&self) -> bool {
        self.literal.is_some()
    }

    /// In parentheses unless it binds tightly.
    pub(crate) fn grouped(&self) -> String {
        if self.tight { self.text.clone() } else { format!("({})", self.text) }
    }
}

/// A string's literal.
pub(super) fn string(text: &str) -> Printed {
    Printed { literal: Some(Some(text.to_owned())), ..Printed::tight(quoted(text), oids::UNKNOWN) }
}

pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A constant of a type: its text is that of its value, as it was when it was read, whatever the settings are then.
pub(super) fn normal(text: &str, ty: SqlType) -> String {
    let of_time = matches!(ty.oid, oids::DATE | oids::TIME | oids::TIMESTAMP | oids::TIMESTAMPTZ);
    // `today` is another day tomorrow.
    let has_words = of_time && text.bytes().any(|b| b.is_ascii_alphabetic());
    let is_kept =
        matches!(ty.oid, oids::TEXT | oids::VARCHAR | oids::NAME | oids::JSON) || has_words;
    let value = || {
        let column = column_type_of(ty.oid, ty.modifier)?;
        let value = input::try_from_text(ty, column, text)?;
        let mut out = Vec::new();
        value_text(&value, column, ty.oid, &mut out);
        String::from_utf8(out).ok()
    };
    let shown = if is_kept { None } else { value() };
    shown.unwrap_or_else(|| text.to_owned())
}

/// A literal.
pub(super) fn literal(value: &ast::Value) -> Printed {
    match value {
        ast::Value::Number(digits, _) => number(digits),
        ast::Value::Boolean(v) => Printed::tight(v.to_string(), oids::BOOL),
        ast::Value::Null => {
            Printed { literal: Some(None), ..Printed::tight("NULL", oids::UNKNOWN) }
        }
        ast::Value::SingleQuotedString(text)
        | ast::Value::EscapedStringLiteral(text)
        | ast::Value::UnicodeStringLiteral(text)
        | ast::Value::NationalStringLiteral(text) => string(text),
        ast::Value::DollarQuotedString(dollar) => string(&dollar.value),
        other => Printed::tight(other.to_string(), HIDDEN),
    }
}

/// A number that is written without quotes: its type is that of its value.
pub(super) fn number(digits: &str) -> Printed {
    let oid = match digits.parse::<i64>() {
        Ok(value) if i32::try_from(value).is_ok() => oids::INT4,
        Ok(_) => oids::INT8,
        Err(_) => oids::NUMERIC,
    };
    let ty = plain(oid);
    let shown = normal(digits, ty);
    let labelled = || format!("{}::{}", quoted(&shown), names::shown_type_name(ty));
    Printed::tight(bare(&shown, oid).unwrap_or_else(labelled), oid)
}

/// A constant's text where PostgreSQL prints it without its type, which its form tells.
pub(super) fn bare(shown: &str, oid: u32) -> Option<String> {
    let is_unsigned = shown.starts_with(|c: char| c.is_ascii_digit());
    match oid {
        oids::INT4 => is_unsigned.then(|| shown.to_owned()),
        oids::NUMERIC => (is_unsigned && shown.contains('.')).then(|| shown.to_owned()),
        oids::BOOL => match shown {
            "t" => Some("true".to_owned()),
            "f" => Some("false".to_owned()),
            _ => None,
        },
        _ => None,
    }
}

/// Whether a text is a number's that [`bare`] has shown.
pub(super) fn is_number(text: &str) -> bool {
    text.contains('.') && text.bytes().all(|b| b.is_ascii_digit() || b == b'.')
}

/// The digits of a number's constant. A sign before it is part of it.
pub(super) fn digits(expr: &Expr) -> Option<String> {
    match stripped(expr) {
        Expr::Value(v) => match &v.value {
            ast::Value::Number(digits, _) => Some(digits.clone()),
            _ => None,
        },
        Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr } => Some(negative(&digits(expr)?)),
        _ => None,
    }
}

/// The same with the other sign.
pub(super) fn negative(digits: &str) -> String {
    digits.strip_prefix('-').map_or_else(|| format!("-{digits}"), str::to_owned)
}
