//! Names of types and sequences in stored expressions: their numbers, as PostgreSQL stores them, so that
//! a rename or another schema changes nothing.
//!
//! ```text
//!   written    'ok'::mood                 nextval('sq')
//!   stored     'ok'::froglet."16384"      nextval('16390')
//!   shown      'ok'::feeling              nextval('s.sq2'::regclass)        under the names of today
//! ```
//! Texts that were stored under names are read as they are.

use datafusion::sql::sqlparser::ast::{
    self, ArrayElemTypeDef, DataType, Expr, Ident, ObjectName, VisitMut,
};
use froglet_schema::{CatalogVersion, ObjectId};

use crate::context::session_here;
use crate::resolve::{Names, Relation};
use crate::semantics::enums;
use crate::types::names::type_by_name;
use crate::udf::lookup;
use crate::walk::{self, GO_ON};

/// The schema of numbered types, which is nobody's.
const SCHEMA: &str = "froglet";
const OF_SEQUENCES: [&str; 4] = ["nextval", "currval", "setval", "pg_sequence_last_value"];

/// Puts numbers in the place of names.
pub(crate) fn to_numbers(node: &mut impl VisitMut, names: &Names<'_>) {
    change(
        node,
        &mut |name| {
            let builtin = matches!(&name.0[..], [one] if one.as_ident().is_some_and(|i| {
                type_by_name(&i.value).is_some()
            }));
            let def = names.enum_type(name).ok().flatten().filter(|_| !builtin)?;
            Some(numbered(def.id))
        },
        &mut |text| {
            let mut parts = lookup::split_name(text).ok()?;
            let name = parts.pop()?;
            match names.find(parts.pop().as_deref(), &name) {
                Some(Relation::Sequence(sequence)) => Some(sequence.id.to_string()),
                _ => None,
            }
        },
    );
}

fn numbered(id: ObjectId) -> ObjectName {
    ObjectName::from(vec![Ident::new(SCHEMA), Ident::with_quote('"', id.to_string())])
}

/// What means the enum type of an oid, whatever its name.
pub(crate) fn enum_named(oid: u32) -> Option<ObjectName> {
    session_here()?.catalog().enum_type(oid).map(|def| numbered(def.id))
}

/// Puts today's names in the place of numbers, as far as there is a session to say them.
pub(crate) fn to_names(node: &mut impl VisitMut) {
    let Some(session) = session_here() else { return };
    change(
        node,
        &mut |name| {
            let shown = enums::type_name(number_of(name)?)?;
            let parts = lookup::split_name(&shown).ok()?;
            let ident = |part: String| match lookup::quote_ident(&part) == part {
                true => Ident::new(part),
                false => Ident::with_quote('"', part),
            };
            Some(ObjectName::from(parts.into_iter().map(ident).collect::<Vec<_>>()))
        },
        &mut |text| {
            let oid = text.parse::<u32>().ok()?;
            let known = session.catalog().sequences.contains_key(&oid);
            known.then(|| lookup::relation_text(session.as_ref(), oid))
        },
    );
}

/// The number that stands for a type's name.
pub(crate) fn number_of(name: &ObjectName) -> Option<ObjectId> {
    match &name.0[..] {
        [schema, number] if schema.as_ident()?.value == SCHEMA => {
            number.as_ident()?.value.parse().ok()
        }
        _ => None,
    }
}

/// Whether a stored text mentions a type or a sequence.
pub(crate) fn mentions(text: &str, catalog: &CatalogVersion, object: ObjectId) -> bool {
    match catalog.sequences.contains_key(&object) {
        true => text.contains(&format!("'{object}'")),
        false => text.contains(&format!("{SCHEMA}.\"{object}\"")),
    }
}

type Other<'a, T, U> = &'a mut dyn FnMut(&T) -> Option<U>;

fn change(
    node: &mut impl VisitMut,
    of_type: Other<'_, ObjectName, ObjectName>,
    of_sequence: Other<'_, str, String>,
) {
    walk::change_exprs(node, |expr| {
        match expr {
            Expr::Cast { data_type, .. } => change_type(data_type, of_type),
            Expr::TypedString(typed) => change_type(&mut typed.data_type, of_type),
            Expr::Function(function) => {
                let name = function.name.0.last().and_then(|part| part.as_ident());
                let known = name.is_some_and(|name| {
                    OF_SEQUENCES.contains(&name.value.to_ascii_lowercase().as_str())
                });
                if let (true, ast::FunctionArguments::List(list)) = (known, &mut function.args)
                    && let Some(ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(arg))) =
                        list.args.first_mut()
                {
                    change_sequence(arg, of_sequence);
                }
            }
            _ => {}
        }
        GO_ON
    });
}

fn change_type(ty: &mut DataType, other: Other<'_, ObjectName, ObjectName>) {
    match ty {
        DataType::Custom(name, _) => {
            if let Some(found) = other(name) {
                *name = found;
            }
        }
        DataType::Array(
            ArrayElemTypeDef::SquareBracket(element, _) | ArrayElemTypeDef::AngleBracket(element),
        ) => change_type(element, other),
        _ => {}
    }
}

fn change_sequence(arg: &mut Expr, other: Other<'_, str, String>) {
    match arg {
        Expr::Cast { expr, .. } => change_sequence(expr, other),
        Expr::Nested(inner) => change_sequence(inner, other),
        Expr::Value(value) => {
            if let ast::Value::SingleQuotedString(text) = &mut value.value
                && let Some(found) = other(text)
            {
                *text = found;
            }
        }
        _ => {}
    }
}
