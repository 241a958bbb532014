//! SQL/JSON paths (ISO/IEC 9075-2, 2016; PostgreSQL 15's manual, 8.14.7 and 9.16.2).
//!
//! ```text
//!   'strict $.a[*] ? (@.b > $min).c'
//!        │ lex, parse
//!   Path { is_strict, expr }      expr: a head and the steps from it
//!        │                          $  .a  [*]  ?(@.b > $min)  .c
//!        ├ write    the text that is kept, $."a"[*]?(@."b" > $"min")."c"
//!        └ eval     items of a jsonb value, one after the other
//! ```
//! A value of type jsonpath is its canonical text. That is PostgreSQL's but where PostgreSQL's own means something
//! else than what was written: of an operation with steps behind it, it leaves out the parentheses.
//!
//! Left out: `datetime()`, which is read and written, and not computed (0A000).

mod eval;
mod layout;
mod lex;
mod parse;
mod predicate;
mod write;

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::rc::Rc;

pub use eval::Question;

use crate::error::SqlError;
use crate::udf::pattern::Pattern;

/// A path.
pub struct Path {
    is_strict: bool,
    expr: Expr,
    /// keyvalue() tells where an object stands in the bytes that PostgreSQL would store.
    has_keyvalue: bool,
}

/// A head, and steps from what it gives.
#[derive(Debug)]
struct Expr {
    head: Head,
    steps: Vec<Step>,
}

#[derive(Debug)]
enum Head {
    Null,
    Bool(bool),
    /// As numeric prints it.
    Number(String),
    String(String),
    Variable(String),
    /// `$`
    Root,
    /// `@`
    Current,
    /// `last`
    Last,
    Arithmetic(Arithmetic, Box<[Expr; 2]>),
    /// A sign, `+` or `-`.
    Signed(Arithmetic, Box<Expr>),
    Compare(Comparison, Box<[Expr; 2]>),
    StartsWith(Box<[Expr; 2]>),
    And(Box<[Expr; 2]>),
    Or(Box<[Expr; 2]>),
    Not(Box<Expr>),
    IsUnknown(Box<Expr>),
    Exists(Box<Expr>),
    LikeRegex(Box<Expr>, Regex),
}

impl Head {
    /// Whether it is true, false or unknown.
    fn is_predicate(&self) -> bool {
        use Head::*;
        matches!(
            self,
            Compare(..)
                | StartsWith(_)
                | And(_)
                | Or(_)
                | Not(_)
                | IsUnknown(_)
                | Exists(_)
                | LikeRegex(..)
        )
    }
}

impl Expr {
    fn is_predicate(&self) -> bool {
        self.steps.is_empty() && self.head.is_predicate()
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Arithmetic {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
}

impl Arithmetic {
    fn sign(self) -> char {
        match self {
            Arithmetic::Add => '+',
            Arithmetic::Sub => '-',
            Arithmetic::Mul => '*',
            Arithmetic::Div => '/',
            Arithmetic::Mod => '%',
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

struct Regex {
    pattern: String,
    flags: Vec<char>,
    compiled: Pattern,
}

impl std::fmt::Debug for Regex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.pattern)
    }
}

#[derive(Debug)]
enum Step {
    Key(String),
    /// `.*`
    AnyKey,
    /// `[*]`
    AnyArray,
    /// `[from to to, …]`
    Index(Vec<(Expr, Option<Expr>)>),
    /// `.**{first to last}`
    Any {
        first: u32,
        last: u32,
    },
    Filter(Box<Expr>),
    Method(Method),
    Datetime(Option<String>),
}

/// `last` of `.**{…}`.
const LAST_LEVEL: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Method {
    Abs,
    Size,
    Type,
    Floor,
    Double,
    Ceiling,
    KeyValue,
}

/// The methods that have no arguments.
const METHODS: [(&str, Method); 7] = [
    ("abs", Method::Abs),
    ("size", Method::Size),
    ("type", Method::Type),
    ("floor", Method::Floor),
    ("double", Method::Double),
    ("ceiling", Method::Ceiling),
    ("keyvalue", Method::KeyValue),
];

impl Method {
    fn name(self) -> &'static str {
        METHODS.iter().find(|(_, method)| *method == self).map_or("", |(name, _)| name)
    }
}

/// Paths that a thread keeps.
const KEPT: usize = 16;

thread_local! {
    static RECENT: RefCell<Vec<(String, Rc<Path>)>> = const { RefCell::new(Vec::new()) };
}

impl Path {
    /// Reads a path, or takes it from those read lately.
    pub fn of(text: &str) -> Result<Rc<Path>, SqlError> {
        let find = |recent: &Vec<(String, Rc<Path>)>| {
            recent.iter().find(|(known, _)| known == text).map(|(_, path)| path.clone())
        };
        if let Some(path) = RECENT.with_borrow(find) {
            return Ok(path);
        }
        let path = Rc::new(parse::parse(text)?);
        RECENT.with_borrow_mut(|recent| {
            if recent.len() >= KEPT {
                recent.remove(0);
            }
            recent.push((text.to_owned(), path.clone()));
        });
        Ok(path)
    }
}

/// What is kept of a path's text; `None` if that is the text itself.
pub fn fit(text: &str) -> Result<Option<String>, SqlError> {
    let kept = write::canonical(&*Path::of(text)?);
    Ok((kept != text).then_some(kept))
}
