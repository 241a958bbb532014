//! What is compiled once per version of a table: defaults, generated columns, checks; and the
//! rules that every new row of it obeys.

use std::any::Any;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::Expr;
use froglet_engine::{ColumnId, SqlState, Value};
use froglet_schema::{ColumnDef, TableDef, TableVersion};

use crate::bound::BoundExpr;
use crate::context::EvalContext;
use crate::error::SqlError;
use crate::expr::{RowExpr, Scope};
use crate::semantics::enums;
use crate::stored::{self, DefaultKind};
use crate::types::{self, Zone};
use crate::violation;

/// Where a column's value comes from when a statement does not give it.
#[derive(Debug)]
pub(crate) enum ColumnSource {
    Constant(Value),
    /// now(), nextval(), random(), …
    Computed(RowExpr),
    /// Over the row's other columns.
    Generated(BoundExpr),
}

/// A table version's compiled part.
#[derive(Debug)]
pub(crate) struct Compiled {
    /// For each column of the layout.
    pub(crate) sources: Vec<ColumnSource>,
    /// For each column of the layout: what statements may say of it.
    pub(crate) kinds: Vec<DefaultKind>,
    /// Positions of generated columns, hidden ones among them.
    pub(crate) generated: Vec<usize>,
    /// By name.
    pub(crate) checks: Vec<(String, BoundExpr, Vec<usize>)>,
    /// Positions of NOT NULL columns.
    pub(crate) not_null: Vec<usize>,
    /// Positions of columns of enum types.
    pub(crate) labelled: Vec<usize>,
}

/// The compiled part of a table version; compiled now, if nobody has yet.
pub(crate) fn compiled(table: &TableVersion) -> Result<Arc<Compiled>, SqlError> {
    let known = match table.compiled.get() {
        Some(known) => known.clone(),
        None => {
            // Whichever session comes first compiles for all of them.
            let new: Arc<dyn Any + Send + Sync> =
                Arc::new(Zone::UTC.run(|| Compiled::new(&table.def))?);
            table.compiled.get_or_init(|| new).clone()
        }
    };
    known.downcast::<Compiled>().map_err(|_| {
        SqlError::new(SqlState::INTERNAL_ERROR, "a table version holds a foreign compiled part")
    })
}

impl Compiled {
    fn new(def: &TableDef) -> Result<Compiled, SqlError> {
        let scope = Scope::table(def, None);
        let mut sources = Vec::with_capacity(def.columns.len());
        let mut kinds = Vec::with_capacity(def.columns.len());
        for column in &def.columns {
            let (kind, source) = source_of(def, column, &scope)?;
            kinds.push(kind);
            sources.push(source);
        }
        for hidden in &def.hidden {
            let (kind, source) = source_of(def, &hidden.column, &scope)?;
            kinds.push(kind);
            sources.push(source);
        }
        let checks = def
            .checks()
            .map(|(name, check)| {
                let expr = stored::check_expression(check, def)?;
                let expr = RowExpr::compile_condition(&scope, &expr, &[], "CHECK")?;
                let inputs = expr.inputs().to_vec();
                Ok((name.to_owned(), BoundExpr::whole(expr), inputs))
            })
            .collect::<Result<_, SqlError>>()?;
        let generated = (0..kinds.len()).filter(|i| kinds[*i] == DefaultKind::Generated).collect();
        let not_null =
            def.columns.iter().enumerate().filter(|(_, c)| c.not_null).map(|(i, _)| i).collect();
        let labelled = def.columns.iter().enumerate().filter(|(_, c)| !c.labels.is_empty());
        let labelled = labelled.map(|(i, _)| i).collect();
        Ok(Compiled { sources, kinds, generated, checks, not_null, labelled })
    }

    /// The value of a column that the statement does not give; NULL for generated ones, which
    /// come last.
    pub(crate) fn default(&self, column: usize, context: &EvalContext) -> Result<Value, SqlError> {
        match &self.sources[column] {
            ColumnSource::Constant(value) => Ok(value.clone()),
            ColumnSource::Computed(expr) => expr.eval_row(&[], context),
            ColumnSource::Generated(_) => Ok(Value::Null),
        }
    }

    /// Computes the generated columns of a row in layout order.
    pub(crate) fn generate(
        &self,
        row: &mut [Value],
        context: &EvalContext,
    ) -> Result<(), SqlError> {
        for column in &self.generated {
            if let ColumnSource::Generated(expr) = &self.sources[*column] {
                row[*column] = expr.eval(row, context)?;
            }
        }
        Ok(())
    }

    /// Columns that are set, and those that are computed anew with them; ascending.
    pub(crate) fn with_generated(&self, def: &TableDef, set: &[usize]) -> Vec<usize> {
        let visible = def.columns.len();
        let computed = self.generated.iter().copied().filter(|at| *at < visible);
        let mut columns: Vec<usize> = set.iter().copied().chain(computed).collect();
        let is_set = |id: &ColumnId| columns.iter().any(|at| def.columns[*at].id == *id);
        let hidden: Vec<usize> = (visible..)
            .zip(&def.hidden)
            .filter(|(_, hidden)| hidden.inputs.iter().any(is_set))
            .map(|(at, _)| at)
            .collect();
        columns.extend(hidden);
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// 23502, 23514, 22P02 where a row in layout order breaks a rule of its own.
    pub(crate) fn check(
        &self,
        def: &TableDef,
        row: &[Value],
        context: &EvalContext,
    ) -> Result<(), SqlError> {
        if let Some(column) = self.not_null.iter().find(|column| row[**column].is_null()) {
            return Err(violation::not_null(def, *column, row));
        }
        for column in self.labelled.iter().map(|at| (&def.columns[*at], &row[*at])) {
            if let (of, Value::Text(text)) = column
                && !of.labels.iter().any(|label| label.as_str() == &**text)
            {
                return Err(enums::not_a_label(&types::type_name(of.sql_type), text));
            }
        }
        for (name, check, _) in &self.checks {
            if check.eval(row, context)? == Value::Bool(false) {
                return Err(violation::check(def, name, row));
            }
        }
        Ok(())
    }
}

fn source_of(
    def: &TableDef,
    column: &ColumnDef,
    scope: &Scope,
) -> Result<(DefaultKind, ColumnSource), SqlError> {
    let Some((kind, expr)) = stored::default_expression(column, def)? else {
        return Ok((DefaultKind::None, ColumnSource::Constant(Value::Null)));
    };
    let compile = |scope: &Scope| {
        RowExpr::compile_for(scope, &expr, &[], &column.name, column.ty, column.sql_type)
    };
    let source = match kind {
        DefaultKind::Generated => ColumnSource::Generated(BoundExpr::whole(compile(scope)?)),
        _ => {
            let compiled = compile(&Scope::empty())?;
            match compiled.constant_value() {
                Some(value) => ColumnSource::Constant(value),
                None => ColumnSource::Computed(compiled),
            }
        }
    };
    Ok((kind, source))
}

/// Generated columns that read a column: their positions and names.
pub(crate) fn generated_from(
    def: &TableDef,
    column: usize,
) -> Result<Vec<(usize, String)>, SqlError> {
    let mut found = Vec::new();
    for (at, candidate) in def.columns.iter().enumerate() {
        if stored::default_kind(candidate) != DefaultKind::Generated {
            continue;
        }
        let Some((_, expr)) = stored::default_expression(candidate, def)? else { continue };
        if reads(&expr, def, &def.columns[column].name)? {
            found.push((at, candidate.name.clone()));
        }
    }
    Ok(found)
}

fn reads(expr: &Expr, def: &TableDef, column: &str) -> Result<bool, SqlError> {
    let exists = |name: &str| def.column(name).is_some();
    Ok(stored::columns_of(expr, &def.name, &exists)?.iter().any(|name| name == column))
}
