//! What a path finds in a value.
//!
//! Each step is done for each item that the steps before it gave, depth first:
//!
//! ```text
//!   item ── head ── step ── step ──► found     Ok, NotFound, or Error
//!                    │ lax: of an array that is no argument of the step, each element
//! ```
//! `found` is `None` where it matters only whether there is anything: the first item then ends the search, and errors
//! behind it stay unknown. That is PostgreSQL's behaviour (jsonpath_exec.c), and so are the errors' texts. Errors of
//! SQL/JSON are [`Outcome::Error`] where they are not to be seen: in predicates, which are unknown then, and in silent
//! calls. What Froglet does not do is an error always.

use std::borrow::Cow;

use froglet_engine::SqlState;

use super::predicate::Truth;
use super::{Arithmetic, Expr, Head, LAST_LEVEL, Method, Path, Step, layout};
use crate::error::SqlError;
use crate::types::exact::{Exact, NumericError};
use crate::types::float::parse_f64;
use crate::types::json::{Json, Node, deeper};

/// Ids of objects in values other than the first are so far from its own.
const BASE: u64 = 10_000_000_000;

const MEMBER_NOT_FOUND: SqlState = SqlState::new("2203A");
const ARRAY_NOT_FOUND: SqlState = SqlState::new("22039");
const OBJECT_NOT_FOUND: SqlState = SqlState::new("2203C");
const INVALID_SUBSCRIPT: SqlState = SqlState::new("22033");
const NON_NUMERIC: SqlState = SqlState::new("22036");
const NUMBER_NOT_FOUND: SqlState = SqlState::new("2203B");
const SINGLETON_REQUIRED: SqlState = SqlState::new("22038");
const INVALID_DATETIME: SqlState = SqlState::new("22031");

/// What is asked of a path.
pub struct Question<'a> {
    /// The path.
    pub path: &'a Path,
    /// The value that `$` is.
    pub json: &'a Json,
    /// The object whose members are the variables.
    pub vars: Option<&'a Json>,
    /// Errors are not raised.
    pub silent: bool,
}

impl<'a> Question<'a> {
    /// Whether there is an item; `None` after an error that is not raised.
    pub fn exists(&self) -> Result<Option<bool>, SqlError> {
        let mut run = self.run()?;
        let root = Item::at(self.json, 0);
        // In strict mode an error behind the first item counts, too.
        let outcome = match run.is_lax {
            true => run.all(&self.path.expr, &root, None)?,
            false => {
                let mut found = Vec::new();
                match run.all(&self.path.expr, &root, Some(&mut found))? {
                    Outcome::Error => Outcome::Error,
                    _ => Outcome::of(!found.is_empty()),
                }
            }
        };
        Ok(match outcome {
            Outcome::Ok => Some(true),
            Outcome::NotFound => Some(false),
            Outcome::Error => None,
        })
    }

    /// The items; after an error that is not raised those before it.
    pub fn items(&self) -> Result<Vec<Cow<'a, Json>>, SqlError> {
        let mut found = Vec::new();
        let root = Item::at(self.json, 0);
        self.run()?.all(&self.path.expr, &root, Some(&mut found))?;
        Ok(found.into_iter().map(|item| item.json).collect())
    }

    /// The only item, which is a boolean; `None` if it is null.
    pub fn matches(&self) -> Result<Option<bool>, SqlError> {
        match &self.items()?[..] {
            [only] if **only == Json::Null => Ok(None),
            [only] if matches!(**only, Json::Bool(_)) => Ok(Some(**only == Json::Bool(true))),
            _ if self.silent => Ok(None),
            _ => Err(SqlError::new(SINGLETON_REQUIRED, "single boolean result is expected")),
        }
    }

    fn run(&self) -> Result<Run<'a>, SqlError> {
        if self.vars.is_some_and(|vars| !matches!(vars, Json::Object(_))) {
            let state = SqlState::INVALID_PARAMETER_VALUE;
            return Err(SqlError::new(state, "\"vars\" argument is not an object").detail(
                "Jsonpath parameters should be encoded as key-value pairs of \"vars\" object.",
            ));
        }
        let is_lax = !self.path.is_strict;
        Ok(Run {
            root: self.json,
            vars: self.vars,
            is_lax,
            ignores_structure: is_lax,
            raises: !self.silent,
            has_keyvalue: self.path.has_keyvalue,
            array_size: None,
            current: Item::at(self.json, 0),
            base: 0,
            next_base: if self.vars.is_some() { 2 } else { 1 },
        })
    }
}

/// A value, and where it stands in that by which objects are told apart ([`layout`]).
#[derive(Clone)]
pub(super) struct Item<'a> {
    pub(super) json: Cow<'a, Json>,
    offset: usize,
}

impl<'a> Item<'a> {
    fn at(json: &'a Json, offset: usize) -> Item<'a> {
        Item { json: Cow::Borrowed(json), offset }
    }

    fn is_array(&self) -> bool {
        matches!(*self.json, Json::Array(_))
    }

    fn is_container(&self) -> bool {
        matches!(*self.json, Json::Array(_) | Json::Object(_))
    }

    /// The element or member at a position.
    fn part(&self, at: usize, has_keyvalue: bool) -> Item<'a> {
        let offset = match has_keyvalue {
            true => self.offset + layout::offsets(&self.json)[at],
            false => 0,
        };
        self.part_at(at, offset)
    }

    fn part_at(&self, at: usize, offset: usize) -> Item<'a> {
        fn inner(json: &Json, at: usize) -> &Json {
            match json {
                Json::Array(items) => &items[at].json,
                Json::Object(members) => &members[at].1.json,
                scalar => scalar,
            }
        }
        let json = match &self.json {
            Cow::Borrowed(json) => Cow::Borrowed(inner(json, at)),
            Cow::Owned(json) => Cow::Owned(inner(json, at).clone()),
        };
        Item { json, offset }
    }

    fn number(&self) -> Option<Exact> {
        match &*self.json {
            Json::Number(text) => Exact::parse(text).ok(),
            _ => None,
        }
    }
}

impl From<Json> for Item<'_> {
    fn from(json: Json) -> Self {
        Item { json: Cow::Owned(json), offset: 0 }
    }
}

impl From<Exact> for Item<'_> {
    fn from(number: Exact) -> Self {
        Json::Number(number.to_string()).into()
    }
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Outcome {
    Ok,
    NotFound,
    Error,
}

impl Outcome {
    fn of(found: bool) -> Outcome {
        if found { Outcome::Ok } else { Outcome::NotFound }
    }

    /// Whether nothing more is to be looked for.
    fn ends(self, found: &Found<'_, '_>) -> bool {
        self == Outcome::Error || self == Outcome::Ok && found.is_none()
    }
}

pub(super) type Found<'f, 'a> = Option<&'f mut Vec<Item<'a>>>;
pub(super) type Done = Result<Outcome, SqlError>;

/// What of `.**{first to last}` is asked for below a container.
#[derive(Clone, Copy)]
struct Levels {
    level: u32,
    first: u32,
    last: u32,
}

const ONE_LEVEL: Levels = Levels { level: 1, first: 1, last: 1 };

/// A search under way.
pub(super) struct Run<'a> {
    root: &'a Json,
    vars: Option<&'a Json>,
    pub(super) is_lax: bool,
    /// Steps to what is not there find nothing.
    ignores_structure: bool,
    pub(super) raises: bool,
    has_keyvalue: bool,
    /// Of the array within whose subscript this is.
    array_size: Option<usize>,
    /// `@`
    current: Item<'a>,
    /// The number of the value that items are parts of.
    base: u64,
    next_base: u64,
}

impl<'a> Run<'a> {
    fn fail(&self, state: SqlState, message: impl Into<String>) -> Done {
        match self.raises {
            true => Err(SqlError::new(state, message)),
            false => Ok(Outcome::Error),
        }
    }

    /// An error of a step to what is not there.
    fn missing(&self, state: SqlState, message: &str) -> Done {
        match self.ignores_structure {
            true => Ok(Outcome::NotFound),
            false => self.fail(state, message),
        }
    }

    /// An expression, all of it.
    pub(super) fn all(&mut self, expr: &Expr, item: &Item<'a>, found: Found<'_, 'a>) -> Done {
        deeper(|| self.head(expr, item, found))
    }

    fn head(&mut self, expr: &Expr, item: &Item<'a>, found: Found<'_, 'a>) -> Done {
        let steps = &expr.steps[..];
        let is_enough = steps.is_empty() && found.is_none();
        let literal = match &expr.head {
            Head::Root => {
                let before = std::mem::replace(&mut self.base, 0);
                let done = self.next(steps, Item::at(self.root, 0), found);
                self.base = before;
                return done;
            }
            Head::Current => {
                let current = self.current.clone();
                return self.next(steps, current, found);
            }
            Head::Arithmetic(op, pair) => return self.arithmetic(*op, pair, steps, item, found),
            Head::Signed(op, inner) => return self.signed(*op, inner, steps, item, found),
            predicate if predicate.is_predicate() => match self.truth(predicate, item)? {
                Truth::Unknown => Json::Null,
                truth => Json::Bool(truth == Truth::True),
            },
            _ if is_enough => return Ok(Outcome::Ok),
            Head::Variable(name) => {
                let before = self.base;
                let value = self.variable(name)?;
                let done = self.next(steps, value, found);
                self.base = before;
                return done;
            }
            Head::Last => {
                let Some(size) = self.array_size else {
                    return Err(SqlError::new(
                        SqlState::INTERNAL_ERROR,
                        "evaluating jsonpath LAST outside of array subscript",
                    ));
                };
                Json::Number((size as i64 - 1).to_string())
            }
            Head::Bool(value) => Json::Bool(*value),
            Head::Number(text) => Json::Number(text.clone()),
            Head::String(text) => Json::String(text.clone()),
            _ => Json::Null,
        };
        if is_enough {
            return Ok(Outcome::Ok);
        }
        self.next(steps, literal.into(), found)
    }

    fn variable(&mut self, name: &str) -> Result<Item<'a>, SqlError> {
        let Some(vars) = self.vars else { return Ok(Json::Null.into()) };
        let Json::Object(members) = vars else { return Ok(Json::Null.into()) };
        let Some(at) = members.iter().position(|(known, _)| known == name) else {
            return Err(SqlError::new(
                SqlState::UNDEFINED_OBJECT,
                format!("could not find jsonpath variable \"{name}\""),
            ));
        };
        self.base = 1;
        Ok(Item::at(vars, 0).part(at, self.has_keyvalue))
    }

    /// The steps that are left.
    fn next(&mut self, steps: &[Step], item: Item<'a>, found: Found<'_, 'a>) -> Done {
        if steps.is_empty() {
            if let Some(found) = found {
                found.push(item);
            }
            return Ok(Outcome::Ok);
        }
        let unwraps = self.is_lax;
        deeper(|| self.step(steps, &item, unwraps, found))
    }

    fn step(
        &mut self,
        steps: &[Step],
        item: &Item<'a>,
        unwraps: bool,
        found: Found<'_, 'a>,
    ) -> Done {
        let (step, rest) = steps.split_first().expect("a step is left");
        let takes_arrays = matches!(
            step,
            Step::AnyArray
                | Step::Index(_)
                | Step::Any { .. }
                | Step::Method(Method::Type | Method::Size)
        );
        if unwraps && !takes_arrays && item.is_array() {
            return self.below(steps, item, found, ONE_LEVEL, false, false);
        }
        match step {
            Step::Key(key) => self.key(key, rest, item, found),
            Step::AnyKey => match &*item.json {
                Json::Object(_) => {
                    let unwraps = self.is_lax;
                    self.below(rest, item, found, ONE_LEVEL, false, unwraps)
                }
                _ => self.missing(
                    OBJECT_NOT_FOUND,
                    "jsonpath wildcard member accessor can only be applied to an object",
                ),
            },
            Step::AnyArray if item.is_array() => {
                let unwraps = self.is_lax;
                self.below(rest, item, found, ONE_LEVEL, false, unwraps)
            }
            Step::AnyArray if self.is_lax => self.next(rest, item.clone(), found),
            Step::AnyArray => self.missing(
                ARRAY_NOT_FOUND,
                "jsonpath wildcard array accessor can only be applied to an array",
            ),
            Step::Index(all) if item.is_array() || self.is_lax => {
                let size = match &*item.json {
                    Json::Array(items) => items.len(),
                    _ => 1,
                };
                let before = self.array_size.replace(size);
                let done = self.subscripts(all, size, rest, item, found);
                self.array_size = before;
                done
            }
            Step::Index(_) => self.missing(
                ARRAY_NOT_FOUND,
                "jsonpath array accessor can only be applied to an array",
            ),
            Step::Any { first, last } => self.any(*first, *last, rest, item, found),
            Step::Filter(filter) => {
                let before = std::mem::replace(&mut self.current, item.clone());
                let truth = self.truth(&filter.head, item);
                self.current = before;
                match truth? {
                    Truth::True => self.next(rest, item.clone(), found),
                    _ => Ok(Outcome::NotFound),
                }
            }
            Step::Method(method) => self.method(*method, rest, item, found),
            Step::Datetime(_) => match &*item.json {
                Json::String(_) => Err(SqlError::unsupported("datetime() of jsonpath")),
                _ => self.fail(
                    INVALID_DATETIME,
                    "jsonpath item method .datetime() can only be applied to a string",
                ),
            },
        }
    }

    fn key(&mut self, key: &str, rest: &[Step], item: &Item<'a>, found: Found<'_, 'a>) -> Done {
        let Json::Object(members) = &*item.json else {
            let message = "jsonpath member accessor can only be applied to an object";
            return self.missing(MEMBER_NOT_FOUND, message);
        };
        match members.iter().position(|(known, _)| known == key) {
            Some(at) => self.next(rest, item.part(at, self.has_keyvalue), found),
            None => {
                let message = format!("JSON object does not contain key \"{key}\"");
                self.missing(MEMBER_NOT_FOUND, &message)
            }
        }
    }

    /// Steps from each value below a container, as deep as is asked for.
    fn below(
        &mut self,
        steps: &[Step],
        container: &Item<'a>,
        mut found: Found<'_, 'a>,
        levels: Levels,
        ignores_structure: bool,
        unwraps: bool,
    ) -> Done {
        let Levels { level, first, last } = levels;
        let mut done = Outcome::NotFound;
        let count = match &*container.json {
            _ if level > last => 0,
            Json::Array(items) => items.len(),
            Json::Object(members) => members.len(),
            _ => 0,
        };
        let offsets = match self.has_keyvalue && count > 0 {
            true => layout::offsets(&container.json),
            false => Vec::new(),
        };
        for at in 0..count {
            let offset = offsets.get(at).map_or(0, |offset| container.offset + offset);
            let part = container.part_at(at, offset);
            let are_leaves = first == LAST_LEVEL && last == LAST_LEVEL;
            if level >= first || are_leaves && !part.is_container() {
                done = match (steps.is_empty(), found.as_deref_mut()) {
                    (true, None) => return Ok(Outcome::Ok),
                    (true, Some(found)) => {
                        found.push(part.clone());
                        Outcome::Ok
                    }
                    (false, found) => {
                        let before = self.ignores_structure;
                        self.ignores_structure |= ignores_structure;
                        let done = deeper(|| self.step(steps, &part, unwraps, found));
                        self.ignores_structure = before;
                        done?
                    }
                };
                if done.ends(&found) {
                    break;
                }
            }
            if level < last && part.is_container() {
                let levels = Levels { level: level + 1, ..levels };
                let found_below = found.as_deref_mut();
                done = deeper(|| {
                    self.below(steps, &part, found_below, levels, ignores_structure, unwraps)
                })?;
                if done.ends(&found) {
                    break;
                }
            }
        }
        Ok(done)
    }

    /// `.**{first to last}`
    fn any(
        &mut self,
        first: u32,
        last: u32,
        rest: &[Step],
        item: &Item<'a>,
        mut found: Found<'_, 'a>,
    ) -> Done {
        let mut done = Outcome::NotFound;
        if first == 0 {
            let before = std::mem::replace(&mut self.ignores_structure, true);
            let here = self.next(rest, item.clone(), found.as_deref_mut());
            self.ignores_structure = before;
            done = here?;
            if done == Outcome::Ok && found.is_none() {
                return Ok(done);
            }
        }
        match item.is_container() {
            true => {
                let (levels, unwraps) = (Levels { level: 1, first, last }, self.is_lax);
                self.below(rest, item, found, levels, true, unwraps)
            }
            false => Ok(done),
        }
    }

    fn subscripts(
        &mut self,
        all: &[(Expr, Option<Expr>)],
        size: usize,
        rest: &[Step],
        item: &Item<'a>,
        mut found: Found<'_, 'a>,
    ) -> Done {
        let mut done = Outcome::NotFound;
        for (from, to) in all {
            let Some(from) = self.subscript(from, item)? else { return Ok(Outcome::Error) };
            let to = match to {
                Some(to) => match self.subscript(to, item)? {
                    Some(to) => to,
                    None => return Ok(Outcome::Error),
                },
                None => from,
            };
            let end = size as i64;
            if !self.ignores_structure && (from < 0 || from > to || to >= end) {
                let message = "jsonpath array subscript is out of bounds";
                return self.fail(INVALID_SUBSCRIPT, message);
            }
            done = Outcome::NotFound;
            for at in from.max(0)..=to.min(end - 1) {
                let part = match item.is_array() {
                    true => item.part(at as usize, self.has_keyvalue),
                    false => item.clone(),
                };
                done = self.next(rest, part, found.as_deref_mut())?;
                if done.ends(&found) {
                    return Ok(done);
                }
            }
        }
        Ok(done)
    }

    /// The position that a subscript means; `None` after an error that is not raised.
    fn subscript(&mut self, expr: &Expr, item: &Item<'a>) -> Result<Option<i64>, SqlError> {
        let mut values = Vec::new();
        if self.all(expr, item, Some(&mut values))? == Outcome::Error {
            return Ok(None);
        }
        let number = match &values[..] {
            [only] => only.number(),
            _ => None,
        };
        let Some(number) = number else {
            let message = "jsonpath array subscript is not a single numeric value";
            return self.fail(INVALID_SUBSCRIPT, message).map(|_| None);
        };
        match number.trunc(0).and_then(|number| number.to_i32()) {
            Ok(position) => Ok(Some(position.into())),
            Err(_) => {
                let message = "jsonpath array subscript is out of integer range";
                self.fail(INVALID_SUBSCRIPT, message).map(|_| None)
            }
        }
    }

    fn method(
        &mut self,
        method: Method,
        rest: &[Step],
        item: &Item<'a>,
        found: Found<'_, 'a>,
    ) -> Done {
        let value = match method {
            Method::Type => Json::String(item.json.type_name().to_owned()).into(),
            Method::Size => match &*item.json {
                Json::Array(items) => Json::Number(items.len().to_string()).into(),
                _ if self.is_lax => Json::Number("1".to_owned()).into(),
                _ => {
                    return self.missing(
                        ARRAY_NOT_FOUND,
                        "jsonpath item method .size() can only be applied to an array",
                    );
                }
            },
            Method::KeyValue => return self.keyvalue(rest, item, found),
            Method::Double => match self.double(item)? {
                Some(value) => value,
                None => return Ok(Outcome::Error),
            },
            Method::Abs | Method::Floor | Method::Ceiling => {
                let Some(number) = item.number() else {
                    let name = method.name();
                    let what = "can only be applied to a numeric value";
                    let message = format!("jsonpath item method .{name}() {what}");
                    return self.fail(NON_NUMERIC, message);
                };
                let computed = match method {
                    Method::Abs => Ok(number.abs()),
                    Method::Floor => number.floor(),
                    _ => number.ceil(),
                };
                match self.computed(computed)? {
                    Some(value) => value,
                    None => return Ok(Outcome::Error),
                }
            }
        };
        self.next(rest, value, found)
    }

    /// A number that is there, or an error: `None` if it is not raised.
    fn computed(&self, number: Result<Exact, NumericError>) -> Result<Option<Item<'a>>, SqlError> {
        match number {
            Ok(number) => Ok(Some(number.into())),
            Err(e) if self.raises => Err(e.into()),
            Err(_) => Ok(None),
        }
    }

    /// `None` after an error that is not raised.
    fn double(&self, item: &Item<'a>) -> Result<Option<Item<'a>>, SqlError> {
        const METHOD: &str = "jsonpath item method .double()";
        let message = match &*item.json {
            Json::Number(text) => match parse_f64(text) {
                Ok(number) if number.is_finite() => return Ok(Some(item.clone())),
                _ => format!(
                    "numeric argument of {METHOD} is out of range for type double precision"
                ),
            },
            Json::String(text) => {
                let digits = text.trim().trim_start_matches(['+', '-']);
                if digits.starts_with("0x") || digits.starts_with("0X") {
                    return Err(SqlError::unsupported("double() of hexadecimal digits"));
                }
                match parse_f64(text) {
                    Ok(number) if number.is_finite() => {
                        return Ok(Some(Exact::from_f64(number).into()));
                    }
                    _ => format!(
                        "string argument of {METHOD} is not a valid representation of a double \
                         precision number"
                    ),
                }
            }
            _ => format!("{METHOD} can only be applied to a string or numeric value"),
        };
        self.fail(NON_NUMERIC, message).map(|_| None)
    }

    fn keyvalue(&mut self, rest: &[Step], item: &Item<'a>, mut found: Found<'_, 'a>) -> Done {
        let Json::Object(members) = &*item.json else {
            let message = "jsonpath item method .keyvalue() can only be applied to an object";
            return self.fail(OBJECT_NOT_FOUND, message);
        };
        let id = item.offset as u64 + self.base * BASE;
        let mut done = Outcome::NotFound;
        for (key, value) in members {
            let member = |key: &str, json: Json| (key.to_owned(), Node::from(json));
            let object = Json::Object(vec![
                member("id", Json::Number(id.to_string())),
                member("key", Json::String(key.clone())),
                member("value", value.json.clone()),
            ]);
            let before = std::mem::replace(&mut self.base, self.next_base);
            self.next_base += 1;
            let next = self.next(rest, object.into(), found.as_deref_mut());
            self.base = before;
            done = next?;
            if done.ends(&found) {
                break;
            }
        }
        Ok(done)
    }

    /// The items of an operand, elements in the place of arrays in lax mode; `None` after an error that is not raised.
    pub(super) fn operand(
        &mut self,
        expr: &Expr,
        item: &Item<'a>,
        unwraps: bool,
    ) -> Result<Option<Vec<Item<'a>>>, SqlError> {
        let mut found = Vec::new();
        if self.all(expr, item, Some(&mut found))? == Outcome::Error {
            return Ok(None);
        }
        if !(unwraps && self.is_lax && found.iter().any(Item::is_array)) {
            return Ok(Some(found));
        }
        let mut all = Vec::new();
        for item in found {
            match item.is_array() {
                true => _ = self.below(&[], &item, Some(&mut all), ONE_LEVEL, false, false)?,
                false => all.push(item),
            }
        }
        Ok(Some(all))
    }

    fn arithmetic(
        &mut self,
        op: Arithmetic,
        [left, right]: &[Expr; 2],
        rest: &[Step],
        item: &Item<'a>,
        found: Found<'_, 'a>,
    ) -> Done {
        let Some(left) = self.operand(left, item, true)? else { return Ok(Outcome::Error) };
        let Some(right) = self.operand(right, item, true)? else { return Ok(Outcome::Error) };
        let only = |items: &[Item<'a>]| match items {
            [only] => only.number(),
            _ => None,
        };
        let not_one = |side: &str| {
            let sign = op.sign();
            format!("{side} operand of jsonpath operator {sign} is not a single numeric value")
        };
        let Some(left) = only(&left) else {
            return self.fail(SINGLETON_REQUIRED, not_one("left"));
        };
        let Some(right) = only(&right) else {
            return self.fail(SINGLETON_REQUIRED, not_one("right"));
        };
        let result = match op {
            Arithmetic::Add => left.add(&right),
            Arithmetic::Sub => left.sub(&right),
            Arithmetic::Mul => left.mul(&right),
            Arithmetic::Div => left.div(&right),
            Arithmetic::Mod => left.rem(&right),
        };
        match self.computed(result)? {
            Some(_) if rest.is_empty() && found.is_none() => Ok(Outcome::Ok),
            Some(value) => self.next(rest, value, found),
            None => Ok(Outcome::Error),
        }
    }

    fn signed(
        &mut self,
        op: Arithmetic,
        inner: &Expr,
        rest: &[Step],
        item: &Item<'a>,
        mut found: Found<'_, 'a>,
    ) -> Done {
        let Some(operands) = self.operand(inner, item, true)? else { return Ok(Outcome::Error) };
        let is_enough = rest.is_empty() && found.is_none();
        let mut any = false;
        for operand in operands {
            let Some(number) = operand.number() else {
                if is_enough {
                    continue;
                }
                let sign = op.sign();
                let what = "is not a numeric value";
                let message = format!("operand of unary jsonpath operator {sign} {what}");
                return self.fail(NUMBER_NOT_FOUND, message);
            };
            if is_enough {
                return Ok(Outcome::Ok);
            }
            let value = match op {
                Arithmetic::Sub => number.neg().into(),
                _ => operand,
            };
            let done = self.next(rest, value, found.as_deref_mut())?;
            if done.ends(&found) {
                return Ok(done);
            }
            any |= done == Outcome::Ok;
        }
        Ok(Outcome::of(any))
    }
}
