//! The types of a recursive query's columns.
//!
//! ```text
//!   WITH RECURSIVE r (n) AS (A UNION ALL B)
//!
//!   A has a type for each column, and r has it in B        numerics without a scale: of any
//!   what A UNION B comes to is the same type               42804 if not
//! ```
//!
//! DataFusion casts what B finds to the storage of A's columns, so that a 1.0 in A rounds every row of B to one
//! digit. Terms whose columns are stored differently are therefore planned once by themselves, and written
//! anew with casts.

use datafusion::sql::sqlparser::ast::{self, Cte, Ident, Query, SetExpr, SetOperator};
use froglet_engine::SqlState;
use froglet_schema::SqlType;

use arrow::datatypes::FieldRef;

use crate::error::SqlError;
use crate::parse::parse_query;
use crate::rewrite::folded;
use crate::types::{names, oids, plain, sql_type_of_field};
use crate::walk::{self, Look};

/// Gives the terms of a query's recursive parts, which is rewritten already, the types that they come to.
/// `columns`: those of a query.
pub(crate) fn type_terms(query: &mut Query, columns: Columns<'_>) -> Result<(), SqlError> {
    let mut terms = Terms { columns, around: Vec::new(), failed: None };
    if walk::look(&*query, &mut AnyRecursive) {
        walk::change(query, &mut terms);
    }
    terms.failed.map_or(Ok(()), Err)
}

/// Stops at a WITH RECURSIVE.
struct AnyRecursive;

impl Look for AnyRecursive {
    fn query(&mut self, query: &Query) -> walk::Flow {
        match &query.with {
            Some(with) if with.recursive => walk::STOP,
            _ => walk::GO_ON,
        }
    }
}

type Columns<'a> = &'a dyn Fn(&Query) -> Result<Vec<FieldRef>, SqlError>;

struct Terms<'a> {
    columns: Columns<'a>,
    /// The parts of WITH around, for each query that is being walked over.
    around: Vec<Vec<Cte>>,
    failed: Option<SqlError>,
}

impl walk::Change for Terms<'_> {
    fn query(&mut self, query: &mut Query) {
        let mut known = self.around.last().cloned().unwrap_or_default();
        if let Some(with) = &mut query.with {
            for part in &mut with.cte_tables {
                if with.recursive
                    && self.failed.is_none()
                    && let Err(e) = self.type_part(part, &known)
                {
                    self.failed = Some(e);
                }
                known.retain(|other| folded(&other.alias.name) != folded(&part.alias.name));
                known.push(part.clone());
            }
        }
        self.around.push(known);
    }

    fn query_end(&mut self, _: &mut Query) {
        self.around.pop();
    }
}

impl Terms<'_> {
    fn type_part(&self, part: &mut Cte, known: &[Cte]) -> Result<(), SqlError> {
        let name = part.alias.name.clone();
        let SetExpr::SetOperation { op: SetOperator::Union, left, right, .. } =
            &mut *part.query.body
        else {
            return Ok(());
        };
        if !reads(right, &folded(&name)) {
            return Ok(());
        }
        let mut known = known.to_vec();
        known.retain(|other| folded(&other.alias.name) != folded(&name));
        // What reads the query around it, or is wrong, is said when all is planned.
        let Ok(first) = self.fields(&known, left) else { return Ok(()) };
        let columns = columns_of(part.alias.columns.iter().map(|column| &column.name), &first);
        // DataFusion wants a name for each column, or for none.
        let declared = part.alias.columns.len();
        if (1..columns.len()).contains(&declared) {
            let rest = columns[declared..].iter().cloned();
            let named = |name| ast::TableAliasColumnDef { name, data_type: None };
            part.alias.columns.extend(rest.map(named));
        }
        let types: Vec<SqlType> = first.iter().map(first_type).collect();
        let is_null = |field: &FieldRef| field.data_type().is_null();
        let open = types.iter().zip(&first).map(|(ty, field)| is_open(*ty) || is_null(field));
        let open: Vec<bool> = open.collect();
        if open.contains(&true)
            && let Some(cast) = cast(left, &columns, &types, &open)
        {
            **left = cast;
        }
        let mut seen = part.clone();
        let SetExpr::SetOperation { left, right, .. } = &mut *part.query.body else {
            return Ok(());
        };
        *seen.query = query_of(Vec::new(), left);
        known.push(seen);
        let (Ok(first), Ok(second)) = (self.fields(&known, left), self.fields(&known, right))
        else {
            return Ok(());
        };
        if first.len() != second.len() {
            let message = "each UNION query must have the same number of columns";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        self.check(&folded(&name), &known, (&first, &second), (left, right))?;
        let differs = |(a, b): (&FieldRef, &FieldRef)| {
            a.data_type() != b.data_type() || a.metadata() != b.metadata()
        };
        let differ: Vec<bool> = first.iter().zip(&second).map(differs).collect();
        if differ.contains(&true)
            && let Some(cast) = cast(right, &columns, &types, &differ)
        {
            **right = cast;
        }
        Ok(())
    }

    fn fields(&self, known: &[Cte], term: &SetExpr) -> Result<Vec<FieldRef>, SqlError> {
        (self.columns)(&query_of(known.to_vec(), term))
    }

    /// 42804 where both terms together come to another type than the first.
    fn check(
        &self,
        name: &str,
        known: &[Cte],
        (first, second): (&[FieldRef], &[FieldRef]),
        (left, right): (&SetExpr, &SetExpr),
    ) -> Result<(), SqlError> {
        let both = SetExpr::SetOperation {
            op: SetOperator::Union,
            set_quantifier: ast::SetQuantifier::All,
            left: Box::new(left.clone()),
            right: Box::new(right.clone()),
        };
        let overall = self.fields(known, &both)?;
        for (at, field) in overall.iter().enumerate() {
            let (own, other) = (first_type(&first[at]), sql_type_of_field(&second[at]));
            let mut overall = SqlType { modifier: -1, ..first_type(field) };
            if own.oid == other.oid && own.modifier == other.modifier {
                overall = own;
            }
            // A literal without a type of its own takes the first term's.
            if own == overall || second[at].data_type().is_null() || other.oid == oids::UNKNOWN {
                continue;
            }
            let message = format!(
                "recursive query \"{name}\" column {} has type {} in non-recursive term but type {} overall",
                at + 1,
                names::type_name(own),
                names::type_name(overall),
            );
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message)
                .hint("Cast the output of the non-recursive term to the correct type."));
        }
        Ok(())
    }
}

fn first_type(field: &FieldRef) -> SqlType {
    match sql_type_of_field(field) {
        ty if ty.oid == oids::UNKNOWN || field.data_type().is_null() => plain(oids::TEXT),
        ty => ty,
    }
}

/// A numeric of any scale.
fn is_open(ty: SqlType) -> bool {
    ty.oid == oids::NUMERIC && ty.modifier < 4
}

fn columns_of<'a>(declared: impl Iterator<Item = &'a Ident>, fields: &[FieldRef]) -> Vec<Ident> {
    let mut columns: Vec<Ident> = declared.cloned().collect();
    let rest = fields.iter().skip(columns.len());
    columns.extend(rest.map(|field| Ident::with_quote('"', field.name())));
    columns
}

fn query_of(parts: Vec<Cte>, term: &SetExpr) -> Query {
    let with = (!parts.is_empty()).then(|| ast::With {
        with_token: ast::helpers::attached_token::AttachedToken::empty(),
        recursive: true,
        cte_tables: parts,
    });
    Query {
        with,
        body: Box::new(term.clone()),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: Vec::new(),
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: Vec::new(),
    }
}

/// Whether a term reads from a name.
fn reads(term: &SetExpr, name: &str) -> bool {
    struct Reads<'a> {
        name: &'a str,
        any: bool,
    }
    impl walk::Change for Reads<'_> {
        fn table_factor(&mut self, factor: &mut ast::TableFactor) {
            if let ast::TableFactor::Table { name, .. } = factor
                && let [ast::ObjectNamePart::Identifier(one)] = &name.0[..]
            {
                self.any |= folded(one) == self.name;
            }
        }
    }
    let mut reads = Reads { name, any: false };
    walk::change(&mut term.clone(), &mut reads);
    reads.any
}

/// A term with other types for some of its columns.
fn cast(term: &SetExpr, columns: &[Ident], types: &[SqlType], which: &[bool]) -> Option<SetExpr> {
    let items = columns.iter().zip(types).zip(which).map(|((column, ty), cast)| match cast {
        // By way of text a numeric keeps every digit, and has no scale of its own.
        true if is_open(*ty) => format!("froglet.{column}::text::numeric AS {column}"),
        true => format!("froglet.{column}::{} AS {column}", names::type_name(*ty)),
        false => format!("froglet.{column} AS {column}"),
    });
    let items: Vec<String> = items.collect();
    let list: Vec<String> = columns.iter().map(Ident::to_string).collect();
    let (items, list) = (items.join(", "), list.join(", "));
    let text = format!("SELECT {items} FROM (SELECT 1) froglet ({list})");
    let mut outer = parse_query(&text).ok()?;
    let SetExpr::Select(select) = &mut *outer.body else { return None };
    if let ast::TableFactor::Derived { subquery, .. } = &mut select.from.first_mut()?.relation {
        **subquery = query_of(Vec::new(), term);
    }
    Some(*outer.body)
}
