//! Paths, read by descent.
//!
//! ```text
//!   or    and ('||' and)*                       both sides are predicates
//!   and   not ('&&' not)*
//!   not   '!' '(' predicate ')'  |  '!' exists(…)  |  comparison
//!   comparison   sum [ ==, <>, <, … sum | starts with … | like_regex … ]
//!   sum   product (+, - product)*     product   signed (*, /, % signed)*     signed   +, - signed | path
//!   path  primary step*
//!   primary   a literal | $ | @ | last | $name | exists(…) | '(' or ')' [is unknown]
//! ```
//! What is in parentheses may be a predicate or an expression; where it stands says which it must be.

use super::lex::{self, Lexeme, Token};
use super::{Arithmetic, Comparison, Expr, Head, LAST_LEVEL, METHODS, Method, Path, Regex, Step};
use froglet_engine::SqlState;

use crate::error::SqlError;
use crate::types::exact::Exact;
use crate::types::json::deeper;
use crate::udf::pattern::Pattern;

/// Levels and operators of a path; one of more is refused rather than take the stack.
const MAX_DEPTH: usize = 2_000;

type Parsed<T> = Result<T, SqlError>;

/// Reads a path.
pub(super) fn parse(text: &str) -> Parsed<Path> {
    let tokens = lex::tokens(text)?;
    if tokens.is_empty() {
        return Err(SqlError::new(
            SqlState::INVALID_TEXT_REPRESENTATION,
            format!("invalid input syntax for type jsonpath: \"{text}\""),
        ));
    }
    let mut parser = Parser { text, tokens, at: 0, depth: 0, has_keyvalue: false };
    let is_strict = parser.keyword("strict");
    if !is_strict {
        parser.keyword("lax");
    }
    let expr = parser.or()?.expr;
    if parser.at < parser.tokens.len() {
        return Err(parser.wrong());
    }
    check(&expr, 0, false)?;
    Ok(Path { is_strict, expr, has_keyvalue: parser.has_keyvalue })
}

struct Parser<'t> {
    text: &'t str,
    tokens: Vec<Lexeme>,
    at: usize,
    depth: usize,
    has_keyvalue: bool,
}

/// What was read, and in which form.
struct Part {
    expr: Expr,
    form: Form,
}

#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// `(…)`
    Parentheses,
    /// `exists (…)`
    Exists,
    Other,
}

impl From<Expr> for Part {
    fn from(expr: Expr) -> Part {
        Part { expr, form: Form::Other }
    }
}

fn of(head: Head) -> Expr {
    Expr { head, steps: Vec::new() }
}

impl Parser<'_> {
    fn wrong(&self) -> SqlError {
        let near = self.tokens.get(self.at).map(|token| &self.text[token.start..token.end]);
        lex::error("syntax error", near)
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|lexeme| &lexeme.token)
    }

    fn next(&mut self) -> Parsed<Token> {
        let token = self.peek().cloned().ok_or_else(|| self.wrong())?;
        self.at += 1;
        Ok(token)
    }

    fn is(&self, mark: &str) -> bool {
        matches!(self.peek(), Some(Token::Mark(found)) if *found == mark)
    }

    fn mark(&mut self, mark: &str) -> bool {
        let found = self.is(mark);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, mark: &str) -> Parsed<()> {
        match self.mark(mark) {
            true => Ok(()),
            false => Err(self.wrong()),
        }
    }

    fn is_keyword(&self, word: &str) -> bool {
        match self.peek() {
            // These are keywords in small letters alone.
            Some(Token::Name(name)) if matches!(word, "null" | "true" | "false") => name == word,
            Some(Token::Name(name)) => name.eq_ignore_ascii_case(word),
            _ => false,
        }
    }

    fn keyword(&mut self, word: &str) -> bool {
        let found = self.is_keyword(word);
        self.at += usize::from(found);
        found
    }

    fn expect_keyword(&mut self, word: &str) -> Parsed<()> {
        match self.keyword(word) {
            true => Ok(()),
            false => Err(self.wrong()),
        }
    }

    /// One level further down.
    fn within<T>(&mut self, read: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        self.deepen()?;
        let read = deeper(|| read(self))?;
        self.depth -= 1;
        Ok(read)
    }

    fn deepen(&mut self) -> Parsed<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(SqlError::new(SqlState::new("54001"), "stack depth limit exceeded")
                .detail(format!("A jsonpath has at most {MAX_DEPTH} operators and levels.")));
        }
        Ok(())
    }

    /// `part (op part)*`; each further part is a level of the tree.
    fn chain(
        &mut self,
        part: fn(&mut Self) -> Parsed<Part>,
        marks: &[&str],
        join: fn(&str, Expr, Expr) -> Head,
        is_of_predicates: bool,
    ) -> Parsed<Part> {
        let mut left = part(self)?;
        while let Some(op) = marks.iter().find(|op| self.is(op)) {
            if left.expr.is_predicate() != is_of_predicates {
                return Err(self.wrong());
            }
            self.at += 1;
            self.deepen()?;
            let right = part(self)?;
            if right.expr.is_predicate() != is_of_predicates {
                return Err(self.wrong());
            }
            left = of(join(op, left.expr, right.expr)).into();
        }
        Ok(left)
    }

    fn or(&mut self) -> Parsed<Part> {
        self.chain(Self::and, &["||"], |_, l, r| Head::Or(Box::new([l, r])), true)
    }

    fn and(&mut self) -> Parsed<Part> {
        self.chain(Self::not, &["&&"], |_, l, r| Head::And(Box::new([l, r])), true)
    }

    fn predicate(&mut self) -> Parsed<Expr> {
        let part = self.or()?;
        match part.expr.is_predicate() {
            true => Ok(part.expr),
            false => Err(self.wrong()),
        }
    }

    fn expr(&mut self) -> Parsed<Expr> {
        let part = self.sum()?;
        match part.expr.is_predicate() {
            false => Ok(part.expr),
            true => Err(self.wrong()),
        }
    }

    fn not(&mut self) -> Parsed<Part> {
        if !self.mark("!") {
            return self.comparison();
        }
        let inner = self.within(Self::path)?;
        match inner.form != Form::Other && inner.expr.is_predicate() {
            true => Ok(of(Head::Not(Box::new(inner.expr))).into()),
            false => Err(self.wrong()),
        }
    }

    fn comparison(&mut self) -> Parsed<Part> {
        let left = self.sum()?;
        if left.expr.is_predicate() {
            return Ok(left);
        }
        let left = left.expr;
        let head = if let Some(op) = self.comparison_sign() {
            Head::Compare(op, Box::new([left, self.expr()?]))
        } else if self.keyword("starts") {
            self.expect_keyword("with")?;
            let initial = match self.next()? {
                Token::String(text) => Head::String(text),
                Token::Variable(name) => Head::Variable(name),
                _ => {
                    self.at -= 1;
                    return Err(self.wrong());
                }
            };
            Head::StartsWith(Box::new([left, of(initial)]))
        } else if self.keyword("like_regex") {
            let pattern = self.string()?;
            let flags = if self.keyword("flag") { self.string()? } else { String::new() };
            Head::LikeRegex(Box::new(left), regex(pattern, &flags)?)
        } else {
            return Ok(left.into());
        };
        Ok(of(head).into())
    }

    fn comparison_sign(&mut self) -> Option<Comparison> {
        let Some(Token::Mark(mark)) = self.peek() else { return None };
        let op = match *mark {
            "==" => Comparison::Equal,
            "<>" | "!=" => Comparison::NotEqual,
            "<" => Comparison::Less,
            "<=" => Comparison::LessOrEqual,
            ">" => Comparison::Greater,
            ">=" => Comparison::GreaterOrEqual,
            _ => return None,
        };
        self.at += 1;
        Some(op)
    }

    fn string(&mut self) -> Parsed<String> {
        match self.peek() {
            Some(Token::String(text)) => {
                let text = text.clone();
                self.at += 1;
                Ok(text)
            }
            _ => Err(self.wrong()),
        }
    }

    fn sum(&mut self) -> Parsed<Part> {
        self.chain(Self::product, &["+", "-"], arithmetic, false)
    }

    fn product(&mut self) -> Parsed<Part> {
        self.chain(Self::signed, &["*", "/", "%"], arithmetic, false)
    }

    fn signed(&mut self) -> Parsed<Part> {
        let op = match () {
            () if self.mark("+") => Arithmetic::Add,
            () if self.mark("-") => Arithmetic::Sub,
            () => return self.path(),
        };
        let inner = self.within(Self::signed)?.expr;
        if inner.is_predicate() {
            return Err(self.wrong());
        }
        Ok(match inner {
            Expr { head: Head::Number(text), steps } if steps.is_empty() => of(match op {
                Arithmetic::Sub => Head::Number(Exact::parse(&text)?.neg().to_string()),
                _ => Head::Number(text),
            }),
            inner => of(Head::Signed(op, Box::new(inner))),
        }
        .into())
    }

    fn path(&mut self) -> Parsed<Part> {
        let Part { mut expr, form } = self.primary()?;
        if form == Form::Exists {
            return Ok(Part { expr, form });
        }
        if expr.is_predicate() && self.keyword("is") {
            self.expect_keyword("unknown")?;
            return Ok(of(Head::IsUnknown(Box::new(expr))).into());
        }
        let before = expr.steps.len();
        while let Some(step) = self.step()? {
            expr.steps.push(step);
        }
        let form = if expr.steps.len() == before { form } else { Form::Other };
        Ok(Part { expr, form })
    }

    fn primary(&mut self) -> Parsed<Part> {
        if self.mark("(") {
            let expr = self.within(Self::or)?.expr;
            self.expect(")")?;
            return Ok(Part { expr, form: Form::Parentheses });
        }
        if self.is_keyword("exists") {
            self.at += 1;
            self.expect("(")?;
            let expr = self.within(Self::expr)?;
            self.expect(")")?;
            return Ok(Part { expr: of(Head::Exists(Box::new(expr))), form: Form::Exists });
        }
        let head = match self.peek() {
            Some(Token::String(text)) => Head::String(text.clone()),
            Some(Token::Variable(name)) => Head::Variable(name.clone()),
            Some(Token::Numeric(text) | Token::Integer(text)) => {
                Head::Number(Exact::parse(text)?.to_string())
            }
            _ if self.is("$") => Head::Root,
            _ if self.is("@") => Head::Current,
            _ if self.is_keyword("null") => Head::Null,
            _ if self.is_keyword("true") => Head::Bool(true),
            _ if self.is_keyword("false") => Head::Bool(false),
            _ if self.is_keyword("last") => Head::Last,
            _ => return Err(self.wrong()),
        };
        self.at += 1;
        Ok(of(head).into())
    }

    fn step(&mut self) -> Parsed<Option<Step>> {
        if self.mark("[") {
            return self.subscripts().map(Some);
        }
        if self.mark("?") {
            self.expect("(")?;
            let filter = self.within(Self::predicate)?;
            self.expect(")")?;
            return Ok(Some(Step::Filter(Box::new(filter))));
        }
        if !self.mark(".") {
            return Ok(None);
        }
        if self.mark("*") {
            return Ok(Some(Step::AnyKey));
        }
        if self.mark("**") {
            return self.levels().map(Some);
        }
        let (key, is_name) = match self.peek() {
            Some(Token::Name(name)) => (name.clone(), true),
            Some(Token::String(text)) => (text.clone(), false),
            _ => return Err(self.wrong()),
        };
        self.at += 1;
        if !is_name || !self.is("(") {
            return Ok(Some(Step::Key(key)));
        }
        let name = key.to_ascii_lowercase();
        let method = METHODS.iter().find(|(known, _)| *known == name).map(|(_, method)| *method);
        if method.is_none() && name != "datetime" {
            return Err(self.wrong());
        }
        self.at += 1;
        let step = match method {
            Some(method) => {
                self.has_keyvalue |= method == Method::KeyValue;
                Step::Method(method)
            }
            None => Step::Datetime(self.string().ok()),
        };
        self.expect(")")?;
        Ok(Some(step))
    }

    /// `[…]`
    fn subscripts(&mut self) -> Parsed<Step> {
        if self.mark("*") {
            self.expect("]")?;
            return Ok(Step::AnyArray);
        }
        let mut all = Vec::new();
        loop {
            let from = self.within(Self::expr)?;
            let to = if self.keyword("to") { Some(self.within(Self::expr)?) } else { None };
            all.push((from, to));
            if !self.mark(",") {
                break;
            }
        }
        self.expect("]")?;
        Ok(Step::Index(all))
    }

    /// `.**`, and how deep.
    fn levels(&mut self) -> Parsed<Step> {
        if !self.mark("{") {
            return Ok(Step::Any { first: 0, last: LAST_LEVEL });
        }
        let first = self.level()?;
        let last = if self.keyword("to") { self.level()? } else { first };
        self.expect("}")?;
        Ok(Step::Any { first, last })
    }

    fn level(&mut self) -> Parsed<u32> {
        if self.keyword("last") {
            return Ok(LAST_LEVEL);
        }
        let Some(Token::Integer(text)) = self.peek() else { return Err(self.wrong()) };
        let level: i32 = text.parse().map_err(|_| {
            let message = format!("value \"{text}\" is out of range for type integer");
            SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message)
        })?;
        self.at += 1;
        Ok(level.unsigned_abs())
    }
}

fn arithmetic(sign: &str, left: Expr, right: Expr) -> Head {
    let op = match sign {
        "+" => Arithmetic::Add,
        "-" => Arithmetic::Sub,
        "*" => Arithmetic::Mul,
        "/" => Arithmetic::Div,
        _ => Arithmetic::Mod,
    };
    Head::Arithmetic(op, Box::new([left, right]))
}

/// The expression of like_regex. Without `q` its flags are those of XQuery.
fn regex(pattern: String, given: &str) -> Parsed<Regex> {
    const FLAGS: [char; 5] = ['i', 's', 'm', 'x', 'q'];
    if let Some(unknown) = given.chars().find(|flag| !FLAGS.contains(flag)) {
        return Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            "invalid input syntax for type jsonpath",
        )
        .detail(format!("Unrecognized flag character \"{unknown}\" in LIKE_REGEX predicate.")));
    }
    let has = |flag| given.contains(flag);
    let mut options = String::new();
    if has('i') {
        options.push('i');
    }
    if has('q') {
        options.push('q');
    } else if has('x') {
        return Err(SqlError::unsupported("XQuery \"x\" flag (expanded regular expressions)"));
    } else {
        // What it says of itself is read otherwise by the engine of regular expressions.
        let says = pattern.strip_prefix("(?").is_some_and(|rest| !rest.starts_with(':'));
        if says || pattern.starts_with("***") {
            return Err(SqlError::unsupported("options within a regular expression of jsonpath"));
        }
        options.push(match (has('s'), has('m')) {
            (false, false) => 'p',
            (true, false) => 's',
            (false, true) => 'n',
            (true, true) => 'w',
        });
    }
    let compiled = Pattern::new(&pattern, &options)?;
    let flags = FLAGS.into_iter().filter(|flag| has(*flag)).collect();
    Ok(Regex { pattern, flags, compiled })
}

/// Refuses `@` outside of filters and `last` outside of subscripts.
fn check(expr: &Expr, filters: usize, is_subscript: bool) -> Parsed<()> {
    let misplaced = |message: &str| Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
    let both = |pair: &[Expr; 2]| {
        pair.iter().try_for_each(|part| deeper(|| check(part, filters, is_subscript)))
    };
    match &expr.head {
        Head::Current if filters == 0 => return misplaced("@ is not allowed in root expressions"),
        Head::Last if !is_subscript => {
            return misplaced("LAST is allowed only in array subscripts");
        }
        Head::Arithmetic(_, pair)
        | Head::Compare(_, pair)
        | Head::StartsWith(pair)
        | Head::And(pair)
        | Head::Or(pair) => both(pair)?,
        Head::Signed(_, inner)
        | Head::Not(inner)
        | Head::IsUnknown(inner)
        | Head::Exists(inner)
        | Head::LikeRegex(inner, _) => deeper(|| check(inner, filters, is_subscript))?,
        _ => {}
    }
    for step in &expr.steps {
        match step {
            Step::Filter(filter) => deeper(|| check(filter, filters + 1, is_subscript))?,
            Step::Index(all) => {
                for part in all.iter().flat_map(|(from, to)| std::iter::once(from).chain(to)) {
                    deeper(|| check(part, filters, true))?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}
