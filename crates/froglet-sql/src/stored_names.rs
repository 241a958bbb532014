//! Names of types and relations in stored expressions: their numbers, as PostgreSQL stores them, so that
//! a rename or another schema changes nothing.
//!
//! ```text
//!   written    'ok'::mood                 nextval('sq')                     't'::regclass
//!   stored     'ok'::froglet."16384"      nextval('16390')                  '16385'::regclass
//!   shown      'ok'::feeling              nextval('s.sq2'::regclass)        't2'::regclass
//! ```
//! A text is a name where it is cast to regclass or regtype, and where a function takes a regclass. Texts that were
//! stored under names are read as they are.

use std::collections::BTreeSet;

use datafusion::sql::sqlparser::ast::{
    self, ArrayElemTypeDef, DataType, Expr, Ident, ObjectName, TableAlias, TableFactor, VisitMut,
};
use froglet_schema::ObjectId;

use crate::command::fold;
use crate::context::{SessionFunctions, session_here};
use crate::error::SqlError;
use crate::pgcatalog::procs;
use crate::resolve::{Names, Relation};
use crate::semantics::enums;
use crate::types::names::type_by_name;
use crate::types::oids;
use crate::udf::lookup;
use crate::walk::{self, Change, Flow, GO_ON};

/// The schema of numbered types, which is nobody's.
const SCHEMA: &str = "froglet";

/// Puts numbers in the place of names.
pub(crate) fn to_numbers(node: &mut impl VisitMut, names: &Names<'_>) {
    let of_type = |name: &ObjectName| {
        let builtin = matches!(&name.0[..], [one] if one.as_ident().is_some_and(|i| {
            type_by_name(&i.value).is_some()
        }));
        let def = names.enum_type(name).ok().flatten().filter(|_| !builtin)?;
        Some(def.id)
    };
    let of_text = |kind, text: &str| match kind {
        Named::Relation => {
            let mut parts = lookup::split_name(text).ok()?;
            let name = parts.pop()?;
            let id = match names.find(parts.pop().as_deref(), &name)? {
                Relation::Sequence(sequence) => sequence.id,
                Relation::Table(table) => table.def.id,
                Relation::View(view) => view.id,
                Relation::Index(table, at) => table.def.indexes[at].id,
            };
            Some(id.to_string())
        }
        Named::Type => {
            let parts =
                lookup::split_name(text).ok()?.into_iter().map(|p| Ident::with_quote('"', p));
            let name = ObjectName::from(parts.collect::<Vec<_>>());
            of_type(&name).map(|id| id.to_string())
        }
    };
    change(node, &mut |name| of_type(name).map(numbered), &mut { of_text });
}

/// 42P01 or 42704 for a text that is the name of nothing: PostgreSQL reads it when the expression is stored.
pub(crate) fn check_names<T: VisitMut + Clone>(
    node: &T,
    session: &dyn SessionFunctions,
) -> Result<(), SqlError> {
    let mut missing = None;
    let mut of_text = |kind, text: &str| {
        let found = match kind {
            Named::Relation => lookup::relation_oid(session, text),
            Named::Type => lookup::type_oid(session, text),
        };
        missing = missing.take().or(found.err());
        None
    };
    change(&mut node.clone(), &mut |_| None, &mut of_text);
    missing.map_or(Ok(()), Err)
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
        &mut |kind, text| {
            let oid = text.parse::<u32>().ok()?;
            match kind {
                Named::Relation => {
                    lookup::relation_of(&session.catalog(), oid)?;
                    Some(lookup::relation_text(session.as_ref(), oid))
                }
                Named::Type => enums::type_name(oid),
            }
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

/// What a text refers to by number: types, and relations.
pub(crate) fn numbers_in<T: VisitMut + Clone>(node: &T) -> BTreeSet<ObjectId> {
    let found = std::cell::RefCell::new(BTreeSet::new());
    let mut of_type = |name: &ObjectName| {
        found.borrow_mut().extend(number_of(name));
        None
    };
    let mut of_text = |_, text: &str| {
        found.borrow_mut().extend(text.parse::<ObjectId>().ok());
        None
    };
    change(&mut node.clone(), &mut of_type, &mut of_text);
    found.into_inner()
}

/// What a text in the place of a name is the name of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Named {
    Relation,
    Type,
}

type OfType<'a> = &'a mut dyn FnMut(&ObjectName) -> Option<ObjectName>;
type OfText<'a> = &'a mut dyn FnMut(Named, &str) -> Option<String>;

fn change(node: &mut impl VisitMut, of_type: OfType<'_>, of_text: OfText<'_>) {
    walk::change(node, &mut Changing { of_type, of_text });
}

struct Changing<'a> {
    of_type: OfType<'a>,
    of_text: OfText<'a>,
}

impl Change for Changing<'_> {
    fn expr_end(&mut self, expr: &mut Expr) -> Flow {
        match expr {
            Expr::Cast { expr, data_type, .. } => {
                if let Some(kind) = named(data_type) {
                    self.text(kind, expr);
                }
                self.data_type(data_type);
            }
            Expr::TypedString(typed) => {
                let kind = named(&typed.data_type);
                if let (Some(kind), ast::Value::SingleQuotedString(text)) =
                    (kind, &mut typed.value.value)
                    && let Some(found) = (self.of_text)(kind, text)
                {
                    *text = found;
                }
                self.data_type(&mut typed.data_type);
            }
            Expr::Function(function) => {
                let name = function.name.0.last().and_then(|part| part.as_ident()).map(fold);
                if let (Some(name), ast::FunctionArguments::List(list)) = (name, &mut function.args)
                {
                    let count = list.args.len();
                    for (at, arg) in list.args.iter_mut().enumerate() {
                        if let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(arg)) = arg
                            && takes_relation(&name, count, at)
                        {
                            self.text(Named::Relation, arg);
                        }
                    }
                }
            }
            _ => {}
        }
        GO_ON
    }

    fn table_factor_end(&mut self, factor: &mut TableFactor) {
        let alias = match factor {
            TableFactor::Table { alias, .. }
            | TableFactor::Function { alias, .. }
            | TableFactor::TableFunction { alias, .. }
            | TableFactor::UNNEST { alias, .. }
            | TableFactor::Derived { alias, .. } => alias,
            _ => return,
        };
        let Some(TableAlias { columns, .. }) = alias else { return };
        for ty in columns.iter_mut().filter_map(|column| column.data_type.as_mut()) {
            self.data_type(ty);
        }
    }
}

impl Changing<'_> {
    fn data_type(&mut self, ty: &mut DataType) {
        match ty {
            DataType::Custom(name, _) => {
                if let Some(found) = (self.of_type)(name) {
                    *name = found;
                }
            }
            DataType::Array(
                ArrayElemTypeDef::SquareBracket(element, _)
                | ArrayElemTypeDef::AngleBracket(element),
            ) => self.data_type(element),
            _ => {}
        }
    }

    fn text(&mut self, kind: Named, arg: &mut Expr) {
        match arg {
            Expr::Cast { expr, data_type, .. } if named(data_type) == Some(kind) => {
                self.text(kind, expr);
            }
            Expr::Nested(inner) => self.text(kind, inner),
            Expr::Value(value) => {
                if let ast::Value::SingleQuotedString(text) = &mut value.value
                    && let Some(found) = (self.of_text)(kind, text)
                {
                    *text = found;
                }
            }
            _ => {}
        }
    }
}

/// What texts are names of that are cast to a type.
fn named(ty: &DataType) -> Option<Named> {
    match ty {
        DataType::Regclass => Some(Named::Relation),
        DataType::Custom(name, _) => match fold(name.0.last()?.as_ident()?).as_str() {
            "regclass" => Some(Named::Relation),
            "regtype" => Some(Named::Type),
            _ => None,
        },
        _ => None,
    }
}

/// Whether a function of so many arguments takes a relation's name in one place.
fn takes_relation(name: &str, count: usize, at: usize) -> bool {
    let mut known = procs::named(name).filter(|proc| proc.takes_count(count)).peekable();
    let is_relation =
        |proc: &procs::Proc| proc.arguments().get(at) == Some(&i64::from(oids::REGCLASS));
    known.peek().is_some() && known.all(is_relation)
}
