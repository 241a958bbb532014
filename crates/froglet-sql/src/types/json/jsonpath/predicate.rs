//! Predicates: true, false or unknown. An error in an operand is unknown.

use std::cmp::Ordering;

use super::eval::{Item, Outcome, Run};
use super::{Comparison, Expr, Head, Regex};
use crate::error::SqlError;
use crate::types::exact::Exact;
use crate::types::json::{Json, deeper};

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Truth {
    True,
    False,
    Unknown,
}

impl From<bool> for Truth {
    fn from(is_true: bool) -> Truth {
        if is_true { Truth::True } else { Truth::False }
    }
}

impl<'a> Run<'a> {
    pub(super) fn truth(&mut self, predicate: &Head, item: &Item<'a>) -> Result<Truth, SqlError> {
        deeper(|| match predicate {
            Head::And(pair) => self.both(pair, item, Truth::False),
            Head::Or(pair) => self.both(pair, item, Truth::True),
            Head::Not(inner) => Ok(match self.truth(&inner.head, item)? {
                Truth::True => Truth::False,
                Truth::False => Truth::True,
                Truth::Unknown => Truth::Unknown,
            }),
            Head::IsUnknown(inner) => Ok((self.truth(&inner.head, item)? == Truth::Unknown).into()),
            Head::Exists(inner) => self.exists(inner, item),
            Head::Compare(op, pair) => {
                self.of_items(&pair[0], Some((&pair[1], true)), item, |left, right| {
                    Ok(right.map_or(Truth::Unknown, |right| compare(*op, &left.json, &right.json)))
                })
            }
            Head::StartsWith(pair) => {
                self.of_items(&pair[0], Some((&pair[1], false)), item, |whole, initial| {
                    Ok(match (&*whole.json, initial.map(|initial| &*initial.json)) {
                        (Json::String(whole), Some(Json::String(initial))) => {
                            whole.starts_with(initial.as_str()).into()
                        }
                        _ => Truth::Unknown,
                    })
                })
            }
            Head::LikeRegex(inner, regex) => {
                self.of_items(inner, None, item, |text, _| match &*text.json {
                    Json::String(text) => regex.matches(text).map(Truth::from),
                    _ => Ok(Truth::Unknown),
                })
            }
            _ => Ok(Truth::Unknown),
        })
    }

    /// `&&` and `||`, which one value decides.
    fn both(
        &mut self,
        [left, right]: &[Expr; 2],
        item: &Item<'a>,
        decides: Truth,
    ) -> Result<Truth, SqlError> {
        let left = self.truth(&left.head, item)?;
        if left == decides {
            return Ok(left);
        }
        let right = self.truth(&right.head, item)?;
        let is_neutral = right != decides && right != Truth::Unknown;
        Ok(if is_neutral { left } else { right })
    }

    /// Does something whose errors are not raised.
    fn quietly<T>(&mut self, f: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.raises, false);
        let done = f(self);
        self.raises = before;
        done
    }

    fn exists(&mut self, expr: &Expr, item: &Item<'a>) -> Result<Truth, SqlError> {
        if self.is_lax {
            return Ok(match self.quietly(|run| run.all(expr, item, None))? {
                Outcome::Ok => Truth::True,
                Outcome::NotFound => Truth::False,
                Outcome::Error => Truth::Unknown,
            });
        }
        let found = self.quietly(|run| run.operand(expr, item, false))?;
        Ok(found.map_or(Truth::Unknown, |found| (!found.is_empty()).into()))
    }

    /// A predicate of items: in lax mode the first pair of which it is true decides, in strict mode the first of
    /// which it is unknown.
    fn of_items(
        &mut self,
        left: &Expr,
        right: Option<(&Expr, bool)>,
        item: &Item<'a>,
        test: impl Fn(&Item<'a>, Option<&Item<'a>>) -> Result<Truth, SqlError>,
    ) -> Result<Truth, SqlError> {
        let Some(left) = self.quietly(|run| run.operand(left, item, true))? else {
            return Ok(Truth::Unknown);
        };
        let right: Vec<Option<Item<'a>>> = match right {
            Some((right, unwraps)) => {
                match self.quietly(|run| run.operand(right, item, unwraps))? {
                    Some(items) => items.into_iter().map(Some).collect(),
                    None => return Ok(Truth::Unknown),
                }
            }
            None => vec![None],
        };
        let (mut is_unknown, mut is_true) = (false, false);
        for left in &left {
            for right in &right {
                match test(left, right.as_ref())? {
                    Truth::Unknown if !self.is_lax => return Ok(Truth::Unknown),
                    Truth::Unknown => is_unknown = true,
                    Truth::True if self.is_lax => return Ok(Truth::True),
                    Truth::True => is_true = true,
                    Truth::False => {}
                }
            }
        }
        Ok(match (is_true, is_unknown) {
            (true, _) => Truth::True,
            (_, true) => Truth::Unknown,
            _ => Truth::False,
        })
    }
}

impl Regex {
    fn matches(&self, text: &str) -> Result<bool, SqlError> {
        let has = |flag| self.flags.contains(&flag);
        // Without `s` no bracket matches a new line, which the engine of regular expressions does not know.
        if self.pattern.contains("[^") && text.contains('\n') && !has('s') && !has('q') {
            return Err(SqlError::unsupported(
                "a negated bracket of like_regex, of a text of several lines",
            ));
        }
        Ok(self.compiled.is_match(text))
    }
}

/// Values of different types cannot be compared, but null, which is different from all others.
fn compare(op: Comparison, left: &Json, right: &Json) -> Truth {
    let order = match (left, right) {
        (Json::Null, Json::Null) => Ordering::Equal,
        (Json::Null, _) | (_, Json::Null) => return (op == Comparison::NotEqual).into(),
        (Json::Bool(left), Json::Bool(right)) => left.cmp(right),
        (Json::String(left), Json::String(right)) => left.cmp(right),
        (Json::Number(left), Json::Number(right)) => {
            match (Exact::parse(left), Exact::parse(right)) {
                (Ok(left), Ok(right)) => left.cmp(&right),
                _ => return Truth::Unknown,
            }
        }
        _ => return Truth::Unknown,
    };
    match op {
        Comparison::Equal => order.is_eq(),
        Comparison::NotEqual => order.is_ne(),
        Comparison::Less => order.is_lt(),
        Comparison::LessOrEqual => order.is_le(),
        Comparison::Greater => order.is_gt(),
        Comparison::GreaterOrEqual => order.is_ge(),
    }
    .into()
}
