//! From a statement with literals to one with parameters in their places.
//!
//! | where | what is lifted | its type |
//! |---|---|---|
//! | WHERE made of AND, OR, NOT and comparisons of a column with literals | numbers beside integer columns and double precision, strings beside text and varchar | its own |
//! | `SET c = 5`, `VALUES (5, 'x')` | numbers and strings alone in their place | the column's |
//! | `SET c = c + 5` | numbers under `+`, `-`, `*` beside something that is no literal | its own |
//!
//! Every other literal is fixed: another value of it is another statement. A place is in the table
//! only if neither the plan nor an error can depend on the value. So a WHERE with anything that
//! may fail is left alone (a planner that sees `a = 1 AND a = 2` does not look at the rest), and
//! so is what could be folded (`1 + 2`). A value that its column does not take (a string of the
//! wrong form, a number out of range) is refused before anything runs, and the statement goes the
//! ordinary way, with the ordinary error.

use datafusion::sql::sqlparser::ast::{
    self, Assignment, AssignmentTarget, BinaryOperator, Expr, SetExpr, UnaryOperator, VisitMut,
};
use datafusion::sql::sqlparser::tokenizer::Location;
use froglet_engine::{ColumnType, Value};
use froglet_schema::{ColumnDef, SqlType, TableDef};

use crate::command::{Command, fold};
use crate::literals::{Class, Literal};
use crate::plan::Plan;
use crate::types::{self, oids, plain};
use crate::walk::{self, Change, Flow, GO_ON};

/// What becomes of one literal.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Slot {
    /// It must be written like this.
    Fixed(Box<str>),
    /// A parameter of the literal's own type.
    Own { negative: bool },
    /// A parameter of a column's type.
    Assigned { negative: bool, column: ColumnType, ty: SqlType },
}

impl Slot {
    /// The value of a literal here, negated where the statement says so. `None` if it has none of
    /// this type.
    pub(crate) fn value(&self, literal: &Literal, text: &str) -> Option<Value> {
        match (self, literal.class) {
            (Slot::Fixed(_), _) => None,
            (Slot::Own { .. }, Class::Text) => Some(Value::text(literal.text(text))),
            (Slot::Own { negative }, class) => {
                let ty = if class == Class::Int4 { ColumnType::Int32 } else { ColumnType::Int64 };
                Value::of_integer(signed(literal.number, *negative), ty)
            }
            (Slot::Assigned { column, ty, .. }, Class::Text) => {
                types::from_text(*ty, *column, &literal.text(text)).ok()
            }
            (Slot::Assigned { negative, column: ColumnType::Float64, .. }, Class::Int4) => {
                Some(Value::Float64(signed(literal.number, *negative) as f64))
            }
            (Slot::Assigned { negative, column, .. }, _) => {
                Value::of_integer(signed(literal.number, *negative), *column)
            }
        }
    }

    /// The type of the parameter.
    fn param(&self, class: Class) -> Option<SqlType> {
        match self {
            Slot::Fixed(_) => None,
            Slot::Own { .. } => Some(plain(match class {
                Class::Int4 => oids::INT4,
                Class::Int8 => oids::INT8,
                Class::Text => oids::TEXT,
            })),
            Slot::Assigned { ty, .. } => Some(*ty),
        }
    }
}

fn signed(number: i64, negative: bool) -> i64 {
    // A literal without its sign is not negative, so this cannot overflow.
    if negative { -number } else { number }
}

/// A statement with parameters.
pub(crate) struct Lifted {
    pub(crate) command: Command,
    /// One for each literal of the text.
    pub(crate) slots: Vec<Slot>,
    /// The types of the parameters, in the order of the slots that are not fixed.
    pub(crate) params: Vec<SqlType>,
}

/// Lifts what may be lifted of a statement that has a short plan; `None` if that is nothing.
pub(crate) fn lift(
    command: &Command,
    plan: &Plan,
    text: &str,
    literals: &[Literal],
) -> Option<Lifted> {
    let table = plan.short_table()?;
    let places = locate(text, literals);
    let slots = vec![None; literals.len()];
    let mut finder = Finder { table, text, literals, places: &places, slots };
    match (command, plan) {
        (Command::Query(query), Plan::Select(_)) => {
            let SetExpr::Select(select) = query.body.as_ref() else { return None };
            finder.condition(select.selection.as_ref());
        }
        (Command::Insert(insert), Plan::Insert(plan)) => {
            let SetExpr::Values(values) = insert.source.as_ref()?.body.as_ref() else {
                return None;
            };
            for row in &values.rows {
                for (expr, column) in row.content.iter().zip(&plan.inserter.columns) {
                    finder.assigned(expr, &table.columns[*column]);
                }
            }
        }
        (Command::Update(update), Plan::Update(_)) => {
            finder.assignments(&update.assignments);
            finder.condition(update.selection.as_ref());
        }
        (Command::Delete(delete), Plan::Delete(_)) => finder.condition(delete.selection.as_ref()),
        _ => return None,
    }
    finder.finish(command)
}

/// Where literals stand in the parser's count: lines and columns from 1, in characters.
fn locate(text: &str, literals: &[Literal]) -> Vec<Location> {
    let mut places = Vec::with_capacity(literals.len());
    let (mut from, mut line, mut column) = (0, 1, 1);
    for literal in literals {
        for c in text[from..literal.start].chars() {
            (line, column) = if c == '\n' { (line + 1, 1) } else { (line, column + 1) };
        }
        from = literal.start;
        places.push(Location { line, column });
    }
    places
}

/// Decides what becomes of the literals of a statement.
struct Finder<'a> {
    table: &'a TableDef,
    text: &'a str,
    literals: &'a [Literal],
    places: &'a [Location],
    slots: Vec<Option<Slot>>,
}

impl Finder<'_> {
    /// The literal that an expression is, with its sign.
    fn literal(&self, expr: &Expr) -> Option<(usize, bool)> {
        let (value, negative) = match expr {
            Expr::Value(value) => (value, false),
            Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match &**expr {
                Expr::Value(value) if matches!(value.value, ast::Value::Number(..)) => {
                    (value, true)
                }
                _ => return None,
            },
            _ => return None,
        };
        let at = self.places.iter().position(|place| *place == value.span.start)?;
        let literal = &self.literals[at];
        let same = match (&value.value, literal.class) {
            (ast::Value::Number(digits, false), Class::Int4 | Class::Int8) => {
                *digits == self.text[literal.start..literal.end]
            }
            (ast::Value::SingleQuotedString(string), Class::Text) => {
                *string == literal.text(self.text)
            }
            _ => false,
        };
        same.then_some((at, negative))
    }

    fn column(&self, expr: &Expr) -> Option<&ColumnDef> {
        let name = match expr {
            Expr::Nested(inner) => return self.column(inner),
            Expr::Identifier(ident) => fold(ident),
            Expr::CompoundIdentifier(parts) => fold(parts.last()?),
            _ => return None,
        };
        self.table.columns.iter().find(|column| column.name == name)
    }

    /// The literals of a condition, if there is nothing in it but comparisons that cannot fail.
    fn condition(&mut self, condition: Option<&Expr>) {
        let mut found = Vec::new();
        if condition.is_some_and(|expr| self.predicate(expr, &mut found)) {
            self.settle(found);
        }
    }

    fn settle(&mut self, found: Vec<(usize, Slot)>) {
        for (at, slot) in found {
            self.slots[at] = Some(slot);
        }
    }

    fn predicate(&self, expr: &Expr, found: &mut Vec<(usize, Slot)>) -> bool {
        match expr {
            Expr::Nested(inner) | Expr::UnaryOp { op: UnaryOperator::Not, expr: inner } => {
                self.predicate(inner, found)
            }
            Expr::BinaryOp { left, op: BinaryOperator::And | BinaryOperator::Or, right } => {
                self.predicate(left, found) && self.predicate(right, found)
            }
            Expr::BinaryOp { left, op, right } if is_comparison(op) => {
                let (column, value) = match self.column(left) {
                    Some(column) => (Some(column), right),
                    None => (self.column(right), left),
                };
                column.is_some_and(|column| self.compared(column, value, found))
            }
            Expr::Between { expr, low, high, .. } => self.column(expr).is_some_and(|column| {
                self.compared(column, low, found) && self.compared(column, high, found)
            }),
            Expr::InList { expr, list, .. } => self
                .column(expr)
                .is_some_and(|column| list.iter().all(|value| self.compared(column, value, found))),
            Expr::IsNull(inner) | Expr::IsNotNull(inner) => self.column(inner).is_some(),
            other => self.column(other).is_some_and(|column| column.ty == ColumnType::Bool),
        }
    }

    /// Whether a column is compared with a literal of a kind that it is compared with as it is.
    fn compared(&self, column: &ColumnDef, value: &Expr, found: &mut Vec<(usize, Slot)>) -> bool {
        let Some((at, negative)) = self.literal(value) else { return false };
        if crate::index_expr::in_predicate(self.table, column.id) {
            // Whether the predicate of an index is implied depends on the value.
            return true;
        }
        let fits = match self.literals[at].class {
            Class::Int4 | Class::Int8 => is_integer(column) || column.sql_type.oid == oids::FLOAT8,
            Class::Text => matches!(column.sql_type.oid, oids::TEXT | oids::VARCHAR),
        };
        found.push((at, Slot::Own { negative }));
        fits
    }

    fn assignments(&mut self, assignments: &[Assignment]) {
        for assignment in assignments {
            let AssignmentTarget::ColumnName(name) = &assignment.target else { continue };
            let ident = name.0.last().and_then(|part| part.as_ident());
            let table = self.table;
            let column = ident
                .map(fold)
                .and_then(|name| table.columns.iter().find(|column| column.name == name));
            let Some(column) = column else { continue };
            self.assigned(&assignment.value, column);
            let mut found = Vec::new();
            if is_integer(column) && self.arithmetic(&assignment.value, &mut found) == Some(true) {
                self.settle(found);
            }
        }
    }

    /// A literal that is all of what a column is given.
    fn assigned(&mut self, expr: &Expr, column: &ColumnDef) {
        let Some((at, negative)) = self.literal(expr) else { return };
        let SqlType { oid, modifier } = column.sql_type;
        let fits = match self.literals[at].class {
            Class::Int4 => is_integer(column) || oid == oids::FLOAT8,
            Class::Int8 => is_integer(column),
            Class::Text => match oid {
                oids::TEXT | oids::VARCHAR => true,
                oids::UUID | oids::DATE | oids::TIMESTAMP | oids::TIMESTAMPTZ => modifier == -1,
                _ => false,
            },
        };
        if fits {
            let (column, ty) = (column.ty, column.sql_type);
            self.slots[at] = Some(Slot::Assigned { negative, column, ty });
        }
    }

    /// Whether an expression of integers reads a column; `None` if it is something else, or if a
    /// part of it is known without the row.
    fn arithmetic(&self, expr: &Expr, found: &mut Vec<(usize, Slot)>) -> Option<bool> {
        if let Some((at, negative)) = self.literal(expr) {
            found.push((at, Slot::Own { negative }));
            return (self.literals[at].class != Class::Text).then_some(false);
        }
        match expr {
            Expr::Nested(inner) => self.arithmetic(inner, found),
            Expr::BinaryOp {
                left,
                op: BinaryOperator::Plus | BinaryOperator::Minus | BinaryOperator::Multiply,
                right,
            } => {
                let left = self.arithmetic(left, found)?;
                let right = self.arithmetic(right, found)?;
                (left || right).then_some(true)
            }
            other => self.column(other).is_some_and(is_integer).then_some(true),
        }
    }

    /// The statement with its parameters.
    fn finish(self, command: &Command) -> Option<Lifted> {
        let mut params = Vec::new();
        let mut rewriter = Rewriter { lifted: Vec::new(), replaced: 0, refused: false };
        let mut slots = Vec::with_capacity(self.slots.len());
        for ((slot, literal), place) in self.slots.into_iter().zip(self.literals).zip(self.places) {
            let written = &self.text[literal.start..literal.end];
            let slot = slot.unwrap_or_else(|| Slot::Fixed(written.into()));
            match slot.param(literal.class) {
                Some(ty) => {
                    params.push(ty);
                    let negative = matches!(
                        slot,
                        Slot::Own { negative: true } | Slot::Assigned { negative: true, .. }
                    );
                    rewriter.lifted.push((*place, negative));
                }
                // Read when the statement is planned, not when it runs.
                None if names_moment(written) => return None,
                None => {}
            }
            slots.push(slot);
        }
        let command = rewriter.rewrite(command)?;
        let all = !params.is_empty() && rewriter.replaced == params.len() && !rewriter.refused;
        all.then_some(Lifted { command, slots, params })
    }
}

fn is_integer(column: &ColumnDef) -> bool {
    matches!(column.sql_type.oid, oids::INT2 | oids::INT4 | oids::INT8)
}

fn is_comparison(op: &BinaryOperator) -> bool {
    use BinaryOperator::*;
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq)
}

/// Whether a text may have a string that means another time whenever it is read.
pub(crate) fn names_moment(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let quoted = |at: usize| lower[..at].trim_end().ends_with(['\'', '$']);
    let words = ["now", "today", "tomorrow", "yesterday"];
    words.iter().any(|word| lower.match_indices(word).any(|(at, _)| quoted(at)))
}

/// Puts parameters in the places of literals, from `$1` on in the order of the text.
struct Rewriter {
    /// Where a literal stands, and whether its sign belongs to it.
    lifted: Vec<(Location, bool)>,
    replaced: usize,
    /// The statement has a parameter of its own.
    refused: bool,
}

impl Rewriter {
    fn rewrite(&mut self, command: &Command) -> Option<Command> {
        fn with<T: VisitMut + Clone>(node: &T, rewriter: &mut Rewriter) -> Box<T> {
            let mut node = Box::new(node.clone());
            walk::change(&mut *node, rewriter);
            node
        }
        Some(match command {
            Command::Query(query) => Command::Query(with(&**query, self)),
            Command::Insert(insert) => Command::Insert(with(&**insert, self)),
            Command::Update(update) => Command::Update(with(&**update, self)),
            Command::Delete(delete) => Command::Delete(with(&**delete, self)),
            _ => return None,
        })
    }

    /// The number of the literal at a place.
    fn at(&self, value: &ast::ValueWithSpan, negative: bool) -> Option<usize> {
        self.lifted.iter().position(|lifted| *lifted == (value.span.start, negative))
    }
}

impl Change for Rewriter {
    fn expr(&mut self, expr: &mut Expr) -> Flow {
        let found = match expr {
            Expr::Value(value) => {
                self.refused |= matches!(value.value, ast::Value::Placeholder(_));
                self.at(value, false)
            }
            Expr::UnaryOp { op: UnaryOperator::Minus, expr: inner } => match &**inner {
                Expr::Value(value) => self.at(value, true),
                _ => None,
            },
            _ => None,
        };
        if let Some(number) = found {
            let name = format!("${}", number + 1);
            *expr = Expr::Value(ast::Value::Placeholder(name).with_empty_span());
            self.replaced += 1;
        }
        GO_ON
    }
}
