//! Output lists over one table: RETURNING, and the select list of the short path.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, SelectItem, SelectItemQualifiedWildcardKind,
};
use froglet_engine::{Row, SqlState, Value};
use froglet_schema::{SqlType, TableDef};

use crate::bound::BoundExpr;
use crate::command::fold;
use crate::context::EvalContext;
use crate::error::SqlError;
use crate::expr::{Other, RowExpr, Scope};
use crate::prepared::Field;
use crate::rewrite::call;
use crate::semantics::fieldnames::figure_name;
use crate::semantics::named;
use crate::walk;

/// An output column, before it is bound to places.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) expr: RowExpr,
    pub(crate) field: Field,
}

/// What an output list may say.
pub(crate) enum Item<'a> {
    /// A column of the table.
    Column(usize),
    Expr(&'a Expr, Option<String>),
}

/// Takes an output list apart: stars become columns.
pub(crate) fn items<'a>(
    list: &'a [SelectItem],
    table: &TableDef,
    alias: Option<&str>,
) -> Result<Vec<Item<'a>>, SqlError> {
    let mut items = Vec::new();
    for item in list {
        match item {
            SelectItem::UnnamedExpr(expr) => items.push(Item::Expr(expr, None)),
            SelectItem::ExprWithAlias { expr, alias } => {
                items.push(Item::Expr(expr, Some(fold(alias))));
            }
            SelectItem::Wildcard(options) if options.to_string().is_empty() => {
                items.extend((0..table.columns.len()).map(Item::Column));
            }
            SelectItem::QualifiedWildcard(kind, _) => {
                let SelectItemQualifiedWildcardKind::ObjectName(name) = kind else {
                    return Err(SqlError::unsupported("this form of *"));
                };
                require_qualifier(name, table, alias)?;
                items.extend((0..table.columns.len()).map(Item::Column));
            }
            other => return Err(SqlError::unsupported(format!("the output column {other}"))),
        }
    }
    Ok(items)
}

fn require_qualifier(
    name: &ObjectName,
    table: &TableDef,
    alias: Option<&str>,
) -> Result<(), SqlError> {
    let named = name.0.last().and_then(|part| part.as_ident()).map(fold);
    if named.as_deref() == Some(alias.unwrap_or(&table.name)) {
        return Ok(());
    }
    Err(SqlError::new(
        SqlState::UNDEFINED_TABLE,
        format!("missing FROM-clause entry for table \"{name}\""),
    ))
}

/// The field of a table's column.
pub(crate) fn column_field(table: &TableDef, column: usize) -> Field {
    let def = &table.columns[column];
    Field {
        name: def.name.clone(),
        sql_type: def.sql_type,
        ty: Some(def.ty),
        table: table.id,
        attnum: i16::try_from(column + 1).unwrap_or(0),
        record: None,
    }
}

/// Compiles an output list.
pub(crate) fn compile(
    list: &[SelectItem],
    table: &TableDef,
    alias: Option<&str>,
    scope: &Scope,
    params: &[SqlType],
) -> Result<Vec<Output>, SqlError> {
    let mut outputs = Vec::new();
    for item in items(list, table, alias)? {
        outputs.push(match item {
            Item::Column(column) => {
                let field = column_field(table, column);
                let expr = column_expr(table, column, scope)?;
                Output { expr, field }
            }
            Item::Expr(expr, name) => {
                let name = name.unwrap_or_else(|| figure_name(expr));
                let compiled = RowExpr::compile(scope, expr, params)?;
                let expr = match named::shower(compiled.sql_type().oid) {
                    Some(shower) => {
                        RowExpr::compile(scope, &call(shower, vec![expr.clone()]), params)?
                    }
                    None => compiled,
                };
                let field = match expr.is_column() {
                    true => Field { name, ..column_field(table, expr.inputs()[0]) },
                    false => Field {
                        name,
                        sql_type: expr.sql_type(),
                        ty: expr.column_type(),
                        table: 0,
                        attnum: 0,
                        record: None,
                    },
                };
                Output { expr, field }
            }
        });
    }
    Ok(outputs)
}

/// Compiles an output list over a table and columns of others, which follow the table's.
pub(crate) fn compile_beside(
    list: &[SelectItem],
    table: &TableDef,
    alias: Option<&str>,
    others: &[Other],
    scope: &Scope,
    params: &[SqlType],
) -> Result<Vec<Output>, SqlError> {
    let own = table.columns.len();
    let qualifier = alias.unwrap_or(&table.name);
    let field = |at: usize| match at.checked_sub(own).and_then(|at| others.get(at)) {
        None => column_field(table, at),
        Some(Other { column: (name, ty, sql_type), .. }) => Field {
            name: name.clone(),
            sql_type: *sql_type,
            ty: Some(*ty),
            table: 0,
            attnum: 0,
            record: None,
        },
    };
    let column = |at: usize| {
        let other = at.checked_sub(own).and_then(|at| others.get(at));
        let table = other.map_or(qualifier, |other| &other.qualifier);
        let parts = [table, &field(at).name].map(|part| Ident::with_quote('"', part));
        let expr = RowExpr::compile(scope, &Expr::CompoundIdentifier(parts.to_vec()), &[])?;
        Ok(Output { expr, field: field(at) })
    };
    let mut outputs: Vec<Output> = Vec::new();
    for item in list {
        let (expr, name) = match item {
            SelectItem::UnnamedExpr(expr) => (expr, figure_name(expr)),
            SelectItem::ExprWithAlias { expr, alias } => (expr, fold(alias)),
            SelectItem::Wildcard(options) if options.to_string().is_empty() => {
                let all = (0..own + others.len()).map(column);
                outputs.extend(all.collect::<Result<Vec<_>, SqlError>>()?);
                continue;
            }
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                let named = name.0.last().and_then(|part| part.as_ident()).map(fold);
                let of_other = |at: &usize| Some(&others[at - own].qualifier) == named.as_ref();
                let places: Vec<usize> = match named.as_deref() == Some(qualifier) {
                    true => (0..own).collect(),
                    false => (own..own + others.len()).filter(of_other).collect(),
                };
                if places.is_empty() {
                    require_qualifier(name, table, alias)?;
                }
                let all = places.into_iter().map(column);
                outputs.extend(all.collect::<Result<Vec<_>, SqlError>>()?);
                continue;
            }
            other => return Err(SqlError::unsupported(format!("the output column {other}"))),
        };
        refuse_ambiguous(expr, (0..own + others.len()).map(|at| field(at).name))?;
        let expr = RowExpr::compile(scope, expr, params)?;
        let field = match expr.is_column() {
            true => Field { name, ..field(expr.inputs()[0]) },
            false => {
                let (sql_type, ty) = (expr.sql_type(), expr.column_type());
                Field { name, sql_type, ty, table: 0, attnum: 0, record: None }
            }
        };
        outputs.push(Output { expr, field });
    }
    Ok(outputs)
}

/// 42702 where a name without a table is that of several columns.
fn refuse_ambiguous(expr: &Expr, names: impl Iterator<Item = String>) -> Result<(), SqlError> {
    let names: Vec<String> = names.collect();
    let mut found = None;
    walk::each_expr(expr, |part| {
        if let Expr::Identifier(ident) = part {
            let name = fold(ident);
            if names.iter().filter(|known| **known == name).count() > 1 {
                found.get_or_insert(name);
            }
        }
    });
    match found {
        None => Ok(()),
        Some(name) => Err(SqlError::new(
            SqlState::AMBIGUOUS_COLUMN,
            format!("column reference \"{name}\" is ambiguous"),
        )),
    }
}

pub(crate) fn column_expr(
    table: &TableDef,
    column: usize,
    scope: &Scope,
) -> Result<RowExpr, SqlError> {
    let ident = Ident::with_quote('"', table.columns[column].name.clone());
    RowExpr::compile(scope, &Expr::Identifier(ident), &[])
}

/// An output list bound to a row.
#[derive(Debug)]
pub(crate) struct OutputList {
    pub(crate) fields: Arc<[Field]>,
    pub(crate) exprs: Vec<BoundExpr>,
    /// The row's places, where every output is a plain column.
    plain: Option<Vec<usize>>,
    /// The row as it is, is the output.
    whole: bool,
}

impl OutputList {
    pub(crate) fn bind(outputs: Vec<Output>, projection: &[usize]) -> OutputList {
        let fields = outputs.iter().map(|o| o.field.clone()).collect();
        let exprs: Vec<BoundExpr> =
            outputs.into_iter().map(|o| BoundExpr::new(o.expr, projection)).collect();
        let plain = exprs
            .iter()
            .map(|e| projection.iter().position(|c| Some(*c) == e.as_column()))
            .collect::<Option<Vec<usize>>>();
        let whole = plain.as_ref().is_some_and(|places| {
            places.len() == projection.len() && places.iter().enumerate().all(|(i, p)| i == *p)
        });
        OutputList { fields, exprs, plain, whole }
    }

    /// As [`OutputList::row`], of a row that is not needed any more.
    pub(crate) fn take(&self, row: &mut Row, context: &EvalContext) -> Result<Row, SqlError> {
        if self.whole { Ok(std::mem::take(row)) } else { self.row(row, context) }
    }

    pub(crate) fn row(&self, row: &[Value], context: &EvalContext) -> Result<Row, SqlError> {
        match &self.plain {
            Some(places) => Ok(places.iter().map(|place| row[*place].clone()).collect()),
            None => self.exprs.iter().map(|e| e.eval(row, context)).collect(),
        }
    }
}
