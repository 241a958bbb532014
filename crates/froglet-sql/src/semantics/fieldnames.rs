//! The name PostgreSQL gives to a column of a select list without AS (FigureColname).

use datafusion::sql::sqlparser::ast::{self, Expr};

use crate::rewrite::folded;
use crate::types;

/// The name; `?column?` where PostgreSQL knows none.
pub fn figure_name(expr: &Expr) -> String {
    weak_name(expr).map_or_else(|| "?column?".to_owned(), |(name, _)| name)
}

/// A name and whether it is a strong one: a cast takes its operand's strong name before its type's.
fn weak_name(expr: &Expr) -> Option<(String, bool)> {
    let strong = |name: &str| Some((name.to_owned(), true));
    match expr {
        Expr::Identifier(ident) => Some((folded(ident), true)),
        Expr::CompoundIdentifier(parts) => parts.last().map(|p| (folded(p), true)),
        Expr::Nested(inner) => weak_name(inner),
        Expr::Collate { expr, .. } => weak_name(expr),
        // The last field that is named: `t.a[1]` is one of `a`.
        Expr::CompoundFieldAccess { root, access_chain } => {
            let field = access_chain.iter().rev().find_map(|access| match access {
                ast::AccessExpr::Dot(field) => Some(field),
                ast::AccessExpr::Subscript(_) => None,
            });
            weak_name(field.unwrap_or(root))
        }
        Expr::Function(function) => {
            let name = function.name.0.last().and_then(|p| p.as_ident()).map(folded)?;
            (name != crate::semantics::arith::NEGATIVE).then_some((name, true))
        }
        Expr::Cast { expr, data_type, .. } => match weak_name(expr) {
            Some((name, true)) => Some((name, true)),
            // A literal that rewrite.rs has typed is still a literal.
            _ if *data_type == ast::DataType::Int4(None) && is_number(expr) => None,
            _ => type_name(data_type).map(|name| (name, false)),
        },
        Expr::TypedString(typed) => type_name(&typed.data_type).map(|name| (name, false)),
        Expr::Interval(_) => Some(("interval".to_owned(), false)),
        Expr::Case { else_result, .. } => match else_result.as_deref().and_then(weak_name) {
            Some((name, true)) => Some((name, true)),
            _ => Some(("case".to_owned(), false)),
        },
        Expr::IsNormalized { negated: false, .. } => strong("is_normalized"),
        Expr::Exists { negated: false, .. } => strong("exists"),
        Expr::Array(_) => strong("array"),
        Expr::Subquery(query) => subquery_name(query).map(|name| (name, true)),
        Expr::Extract { .. } => strong("extract"),
        Expr::Substring { shorthand: true, .. } => strong("substr"),
        Expr::Substring { .. } => strong("substring"),
        Expr::Position { .. } => strong("position"),
        Expr::Overlay { .. } => strong("overlay"),
        Expr::Ceil { .. } => strong("ceil"),
        Expr::Floor { .. } => strong("floor"),
        Expr::Trim { trim_where, .. } => match trim_where {
            Some(ast::TrimWhereField::Leading) => strong("ltrim"),
            Some(ast::TrimWhereField::Trailing) => strong("rtrim"),
            _ => strong("btrim"),
        },
        Expr::Tuple(_) => strong("row"),
        Expr::AtTimeZone { .. } => strong("timezone"),
        Expr::BinaryOp { op: ast::BinaryOperator::Overlaps, .. } => strong("overlaps"),
        _ => None,
    }
}

fn is_number(expr: &Expr) -> bool {
    match expr {
        Expr::Value(v) => matches!(v.value, ast::Value::Number(..)),
        Expr::UnaryOp { expr, .. } => is_number(expr),
        _ => false,
    }
}

fn type_name(ty: &ast::DataType) -> Option<String> {
    let oid = types::names::parse_sql_type(ty).ok()?.oid;
    // An array's is that of its elements.
    let named = matches!(ty, ast::DataType::Array(_)).then(|| types::element_oid(oid)).flatten();
    match types::names::type_row(named.unwrap_or(oid)) {
        Some(row) => Some(row.name.to_owned()),
        None => crate::semantics::enums::bare_name(oid),
    }
}

fn subquery_name(query: &ast::Query) -> Option<String> {
    let ast::SetExpr::Select(select) = &*query.body else { return None };
    match select.projection.first()? {
        ast::SelectItem::UnnamedExpr(expr) => weak_name(expr).map(|(name, _)| name),
        ast::SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
        _ => None,
    }
}
