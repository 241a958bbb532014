//! Walks over syntax trees.
//!
//! sqlparser's visitors are generic, and every visitor is a copy of the walk over all that SQL can
//! say: about a thousand functions. Sixteen of them were a third of this crate's machine code
//! (docs/notes/2026-11-21-build-profile.md), so there are two, which ask whoever walks through a
//! trait object.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, ObjectName, Query, Select, TableFactor, Visit, VisitMut, Visitor, VisitorMut,
};

use crate::command::fold;

/// Stops the walk, or not.
pub(crate) type Flow = ControlFlow<()>;

pub(crate) const GO_ON: Flow = ControlFlow::Continue(());
pub(crate) const STOP: Flow = ControlFlow::Break(());

/// Looks at the parts of a tree, parents before children.
pub(crate) trait Look {
    fn expr(&mut self, _expr: &Expr) -> Flow {
        GO_ON
    }
    fn select(&mut self, _select: &Select) -> Flow {
        GO_ON
    }
    fn query(&mut self, _query: &Query) -> Flow {
        GO_ON
    }
    /// All of it has been looked at.
    fn query_end(&mut self) {}
    /// A table that is read or written.
    fn relation(&mut self, _name: &ObjectName) {}
}

/// Changes the parts of a tree: before their children are walked over, or `_end` after that.
pub(crate) trait Change {
    fn expr(&mut self, _expr: &mut Expr) -> Flow {
        GO_ON
    }
    fn expr_end(&mut self, _expr: &mut Expr) -> Flow {
        GO_ON
    }
    fn table_factor(&mut self, _factor: &mut TableFactor) {}
    fn table_factor_end(&mut self, _factor: &mut TableFactor) {}
    fn select(&mut self, _select: &mut Select) {}
    fn select_end(&mut self, _select: &mut Select) {}
    fn query(&mut self, _query: &mut Query) {}
    fn query_end(&mut self, _query: &mut Query) {}
}

/// Whether `look` has stopped.
pub(crate) fn look(node: &impl Visit, look: &mut dyn Look) -> bool {
    node.visit(&mut Looking(look)).is_break()
}

/// Whether `change` has stopped.
pub(crate) fn change(node: &mut impl VisitMut, change: &mut dyn Change) -> bool {
    node.visit(&mut Changing(change)).is_break()
}

/// Whether `found` is true of an expression of the tree, parents before children.
pub(crate) fn any_expr(node: &impl Visit, found: impl FnMut(&Expr) -> bool) -> bool {
    struct Any<F>(F);
    impl<F: FnMut(&Expr) -> bool> Look for Any<F> {
        fn expr(&mut self, expr: &Expr) -> Flow {
            if self.0(expr) { STOP } else { GO_ON }
        }
    }
    look(node, &mut Any(found))
}

/// How often a table is named, whatever schema is named with it.
pub(crate) fn relations(node: &impl Visit, table: &str) -> usize {
    struct Count<'t>(&'t str, usize);
    impl Look for Count<'_> {
        fn relation(&mut self, name: &ObjectName) {
            let last = name.0.last().and_then(|part| part.as_ident());
            self.1 += usize::from(last.is_some_and(|last| fold(last) == self.0));
        }
    }
    let mut count = Count(table, 0);
    look(node, &mut count);
    count.1
}

/// Every expression of the tree, parents before children.
pub(crate) fn each_expr(node: &impl Visit, mut each: impl FnMut(&Expr)) {
    any_expr(node, |expr| {
        each(expr);
        false
    });
}

/// Changes every expression of the tree, children before parents; whether `change` has stopped.
pub(crate) fn change_exprs(
    node: &mut impl VisitMut,
    change_one: impl FnMut(&mut Expr) -> Flow,
) -> bool {
    struct Each<F>(F);
    impl<F: FnMut(&mut Expr) -> Flow> Change for Each<F> {
        fn expr_end(&mut self, expr: &mut Expr) -> Flow {
            self.0(expr)
        }
    }
    change(node, &mut Each(change_one))
}

struct Looking<'a>(&'a mut dyn Look);

impl Visitor for Looking<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> Flow {
        self.0.expr(expr)
    }

    fn pre_visit_select(&mut self, select: &Select) -> Flow {
        self.0.select(select)
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> Flow {
        self.0.relation(relation);
        GO_ON
    }

    fn pre_visit_query(&mut self, query: &Query) -> Flow {
        self.0.query(query)
    }

    fn post_visit_query(&mut self, _query: &Query) -> Flow {
        self.0.query_end();
        GO_ON
    }
}

struct Changing<'a>(&'a mut dyn Change);

impl VisitorMut for Changing<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> Flow {
        self.0.expr(expr)
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> Flow {
        self.0.expr_end(expr)
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> Flow {
        self.0.table_factor(factor);
        GO_ON
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> Flow {
        self.0.table_factor_end(factor);
        GO_ON
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> Flow {
        self.0.select(select);
        GO_ON
    }

    fn post_visit_select(&mut self, select: &mut Select) -> Flow {
        self.0.select_end(select);
        GO_ON
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> Flow {
        self.0.query(query);
        GO_ON
    }

    fn post_visit_query(&mut self, query: &mut Query) -> Flow {
        self.0.query_end(query);
        GO_ON
    }
}
