//! What has been printed, and literals.

use datafusion::sql::sqlparser::ast::{self, Expr};
use froglet_schema::SqlType;

use super::stripped;
use crate::types::{column_type_of, input, oids, plain, value_text};

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
    Printed {
        literal: Some(Some(text.to_owned())),
        ..Printed::tight(quoted_text(text), oids::UNKNOWN)
    }
}

fn quoted_text(text: &str) -> String {
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
    quoted_text(&shown.unwrap_or_else(|| text.to_owned()))
}

/// A literal.
pub(super) fn literal(value: &ast::Value) -> Printed {
    match value {
        ast::Value::Number(digits, _) => {
            let oid = match digits {
                d if d.parse::<i32>().is_ok() => oids::INT4,
                d if d.parse::<i64>().is_ok() => oids::INT8,
                _ => oids::NUMERIC,
            };
            let is_plain = digits.contains('.') && !digits.contains(['e', 'E']);
            match oid {
                oids::INT4 => Printed::tight(digits.clone(), oid),
                oids::INT8 => Printed::tight(format!("'{digits}'::bigint"), oid),
                _ if is_plain => Printed::tight(digits.clone(), oid),
                _ => {
                    let shown = normal(digits, plain(oid));
                    let bare = shown.trim_matches('\'');
                    let text = if bare.contains('.') {
                        bare.to_owned()
                    } else {
                        format!("{shown}::numeric")
                    };
                    Printed::tight(text, oid)
                }
            }
        }
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

/// A constant that PostgreSQL prints without its type, which its form tells.
pub(super) fn bare(text: &str, oid: u32) -> Option<String> {
    let all_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match oid {
        oids::INT4 => {
            text.trim().parse::<u32>().ok().filter(|n| *n <= i32::MAX as u32).map(|n| n.to_string())
        }
        oids::NUMERIC => {
            let (whole, fraction) = text.split_once('.')?;
            (all_digits(whole) && all_digits(fraction)).then(|| text.to_owned())
        }
        oids::BOOL => match text.trim().to_ascii_lowercase().as_str() {
            "t" | "true" | "on" | "yes" | "y" | "1" => Some("true".to_owned()),
            "f" | "false" | "off" | "no" | "n" | "0" => Some("false".to_owned()),
            _ => None,
        },
        _ => None,
    }
}

/// The digits of a number's literal.
pub(super) fn digits(expr: &Expr) -> Option<&str> {
    match stripped(expr) {
        Expr::Value(v) => match &v.value {
            ast::Value::Number(digits, _) => Some(digits),
            _ => None,
        },
        _ => None,
    }
}
