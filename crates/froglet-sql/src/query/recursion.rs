//! Which recursive queries there are: PostgreSQL's rules for WITH RECURSIVE, kept before anything is planned.
//!
//! ```text
//!   r AS (first UNION [ALL] term)     no ORDER BY, LIMIT, OFFSET, FOR UPDATE around both       0A000
//!   first                             does not read r
//!   term                              reads r once: not in a subquery of an expression, not
//!                                     where an outer join adds rows, not under INTERSECT or
//!                                     EXCEPT; it has no aggregates                             42P19
//! ```
//!
//! What breaks a rule has no end, or no meaning: each step sees the rows of the step before, and nothing else.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, Cte, Expr, JoinOperator, LimitClause, Query, Select, SetExpr, SetOperator, TableFactor,
    TableWithJoins,
};
use froglet_engine::SqlState;

use crate::command::fold;
use crate::error::SqlError;
use crate::planning::registry;
use crate::walk::{self, Flow, GO_ON, Look, STOP};

/// Refuses a query with a recursive part that is none of the above.
pub(crate) fn check(query: &Query) -> Result<(), SqlError> {
    struct Parts {
        failed: Option<SqlError>,
    }
    impl Look for Parts {
        fn query(&mut self, query: &Query) -> Flow {
            let parts = query.with.iter().filter(|with| with.recursive);
            let checked = parts.flat_map(|with| &with.cte_tables).try_for_each(check_part);
            self.failed = checked.err();
            if self.failed.is_some() { STOP } else { GO_ON }
        }
    }
    let mut parts = Parts { failed: None };
    walk::look(query, &mut parts);
    parts.failed.map_or(Ok(()), Err)
}

/// Takes recursive parts out of parentheses around all of them, in which DataFusion does not look for them.
pub(crate) fn without_parentheses(query: &mut Query) {
    struct Parts;
    impl walk::Change for Parts {
        fn query(&mut self, query: &mut Query) {
            let recursive = query.with.iter_mut().filter(|with| with.recursive);
            for part in recursive.flat_map(|with| &mut with.cte_tables) {
                if !std::ptr::eq(bare(&part.query), &*part.query) {
                    *part.query = bare(&part.query).clone();
                }
            }
        }
    }
    if query.with.is_some() {
        walk::change(query, &mut Parts);
    }
}

fn invalid(message: String) -> SqlError {
    SqlError::new(SqlState::new("42P19"), message)
}

fn check_part(part: &Cte) -> Result<(), SqlError> {
    let name = fold(&part.alias.name);
    if !reads(&*part.query, &name) {
        return Ok(());
    }
    let query = bare(&part.query);
    let SetExpr::SetOperation { op: SetOperator::Union, left, right, .. } = &*query.body else {
        return Err(invalid(format!(
            "recursive query \"{name}\" does not have the form non-recursive-term UNION [ALL] recursive-term"
        )));
    };
    refuse_around(query)?;
    let mut term = Term { name: &name, read: 0 };
    term.none(reads(&**left, &name), "its non-recursive term")?;
    term.set(right)?;
    match term.read {
        0 | 1 => Ok(()),
        _ => Err(invalid(format!(
            "recursive reference to query \"{name}\" must not appear more than once"
        ))),
    }
}

/// The query within parentheses.
fn bare(query: &Query) -> &Query {
    match &*query.body {
        SetExpr::Query(inner)
            if query.with.is_none() && query.order_by.is_none() && query.limit_clause.is_none() =>
        {
            bare(inner)
        }
        _ => query,
    }
}

fn refuse_around(query: &Query) -> Result<(), SqlError> {
    let (limit, offset) = match &query.limit_clause {
        Some(LimitClause::LimitOffset { limit, offset, .. }) => (limit.is_some(), offset.is_some()),
        Some(_) => (true, true),
        None => (query.fetch.is_some(), false),
    };
    let clauses = [
        (query.order_by.is_some(), "ORDER BY"),
        (offset, "OFFSET"),
        (limit, "LIMIT"),
        (!query.locks.is_empty(), "FOR UPDATE/SHARE"),
    ];
    match clauses.iter().find(|(is_there, _)| *is_there) {
        None => Ok(()),
        Some((_, clause)) => Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!("{clause} in a recursive query is not implemented"),
        )
        .hint("Put it on the query that reads the recursive one.")),
    }
}

/// Whether anything below reads from a name that it does not give to a part of its own.
fn reads(node: &impl ast::Visit, name: &str) -> bool {
    let found = ast::visit_relations(node, |relation| match &relation.0[..] {
        [ast::ObjectNamePart::Identifier(one)] if fold(one) == name => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// The recursive term.
struct Term<'a> {
    name: &'a str,
    read: usize,
}

impl Term<'_> {
    fn none(&self, found: bool, place: &str) -> Result<(), SqlError> {
        match found {
            false => Ok(()),
            true => Err(invalid(format!(
                "recursive reference to query \"{}\" must not appear within {place}",
                self.name
            ))),
        }
    }

    fn query(&mut self, query: &Query) -> Result<(), SqlError> {
        let parts = query.with.iter().flat_map(|with| &with.cte_tables);
        if parts.clone().any(|part| fold(&part.alias.name) == self.name) {
            return Ok(());
        }
        for part in parts {
            self.query(&part.query)?;
        }
        self.set(&query.body)
    }

    fn set(&mut self, body: &SetExpr) -> Result<(), SqlError> {
        match body {
            SetExpr::Select(select) => self.select(select),
            SetExpr::Query(query) => self.query(query),
            SetExpr::SetOperation { op, set_quantifier, left, right } => {
                let all = *set_quantifier == ast::SetQuantifier::All;
                match op {
                    SetOperator::Union => {}
                    SetOperator::Intersect => {
                        let found =
                            all && (reads(&**left, self.name) || reads(&**right, self.name));
                        self.none(found, "INTERSECT")?;
                    }
                    _ => {
                        let found = reads(&**right, self.name) || all && reads(&**left, self.name);
                        self.none(found, "EXCEPT")?;
                    }
                }
                self.set(left)?;
                self.set(right)
            }
            other => self.none(reads(other, self.name), "a subquery"),
        }
    }

    fn select(&mut self, select: &Select) -> Result<(), SqlError> {
        let before = self.read;
        for from in &select.from {
            self.joined(from)?;
        }
        let mut rest = select.clone();
        rest.from.clear();
        self.none(reads(&rest, self.name), "a subquery")?;
        if self.read > before && has_aggregate(&rest) {
            return Err(invalid(
                "aggregate functions are not allowed in a recursive query's recursive term"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    fn joined(&mut self, from: &TableWithJoins) -> Result<(), SqlError> {
        self.factor(&from.relation)?;
        for join in &from.joins {
            let (mut left, mut right) = (false, false);
            match &join.join_operator {
                JoinOperator::Left(_) | JoinOperator::LeftOuter(_) => right = true,
                JoinOperator::Right(_) | JoinOperator::RightOuter(_) => left = true,
                JoinOperator::FullOuter(_) => (left, right) = (true, true),
                _ => {}
            }
            self.none(left && self.read > 0, "an outer join")?;
            self.none(right && reads(&join.relation, self.name), "an outer join")?;
            self.factor(&join.relation)?;
        }
        Ok(())
    }

    fn factor(&mut self, factor: &TableFactor) -> Result<(), SqlError> {
        match factor {
            TableFactor::Table { name, args: None, .. } => {
                if let [ast::ObjectNamePart::Identifier(one)] = &name.0[..]
                    && fold(one) == self.name
                {
                    self.read += 1;
                }
                Ok(())
            }
            TableFactor::Derived { subquery, .. } => self.query(subquery),
            TableFactor::NestedJoin { table_with_joins, .. } => self.joined(table_with_joins),
            other => self.none(reads(other, self.name), "a subquery"),
        }
    }
}

/// Whether a select has an aggregate that is its own.
fn has_aggregate(select: &Select) -> bool {
    struct Own {
        depth: usize,
        any: bool,
    }
    impl Look for Own {
        fn query(&mut self, _: &Query) -> Flow {
            self.depth += 1;
            GO_ON
        }
        fn query_end(&mut self) {
            self.depth -= 1;
        }
        fn expr(&mut self, expr: &Expr) -> Flow {
            if let Expr::Function(function) = expr
                && function.over.is_none()
                && let Some(name) = function.name.0.last().and_then(|part| part.as_ident())
            {
                self.any |= self.depth == 0 && registry().is_aggregate(&fold(name));
            }
            GO_ON
        }
    }
    let mut own = Own { depth: 0, any: false };
    walk::look(select, &mut own);
    own.any
}
