//! CREATE TABLE … (LIKE t INCLUDING …).
//!
//! sqlparser does not read it, so `LIKE t INCLUDING ALL` becomes a column whose name has all of it behind a NUL,
//! which no user's name has.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{self, ObjectName};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use froglet_engine::NullKeys;
use froglet_schema::change::NewKeyPart;
use froglet_schema::{
    Change, ConstraintKind, NewColumn, NewConstraint, NewIndex, NewKey, ObjectId, TableVersion,
};

use crate::apply::Stop;
use crate::ddl::Ddl;
use crate::ddl_column::{ColumnPlan, Serial, Source};
use crate::error::SqlError;
use crate::sequence_ddl::Options;
use crate::storage_options::is_keyword;
use crate::stored::{self, DefaultKind};
use crate::token_forms::text_of;

/// What INCLUDING may name, and what ALL means of it.
const KINDS: [&str; 9] = [
    "comments",
    "compression",
    "constraints",
    "defaults",
    "generated",
    "identity",
    "indexes",
    "statistics",
    "storage",
];

/// Puts LIKE among the columns of CREATE TABLE as one column.
pub(crate) fn as_columns(tokens: &mut Vec<TokenWithSpan>) {
    let is = |at: usize, word| tokens.get(at).is_some_and(|t| is_keyword(t, word));
    if !is(0, Keyword::CREATE) || !(1..5).any(|at| is(at, Keyword::TABLE)) {
        return;
    }
    let (mut at, mut depth) = (0, 0);
    while at < tokens.len() {
        let opens_element = matches!(tokens[at].token, Token::LParen | Token::Comma);
        match tokens[at].token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        let is_like = depth == 1
            && opens_element
            && tokens.get(at + 1).is_some_and(|t| is_keyword(t, Keyword::LIKE))
            && matches!(tokens.get(at + 2), Some(TokenWithSpan { token: Token::Word(_), .. }));
        if is_like {
            let ends = |t: &TokenWithSpan| matches!(t.token, Token::Comma | Token::RParen);
            let Some(length) = tokens[at + 1..].iter().position(ends) else { return };
            let end = at + 1 + length;
            let named = |t: &TokenWithSpan| {
                matches!(&t.token, Token::Word(w)
                if w.quote_style.is_none() && matches!(&*w.value.to_ascii_lowercase(), "including" | "excluding"))
            };
            let options = at + 2 + tokens[at + 2..end].iter().position(named).unwrap_or(length - 1);
            let text = format!(
                "\0{}\0{}",
                text_of(&tokens[at + 2..options]),
                text_of(&tokens[options..end])
            );
            let span = tokens[at + 1].span;
            let words = [Token::make_word(&text, Some('"')), Token::make_word("int", None)];
            tokens.splice(at + 1..end, words.map(|token| TokenWithSpan::new(token, span)));
        }
        at += 1;
    }
}

/// A table that another is to be like.
pub(crate) struct Like {
    source: Arc<TableVersion>,
    included: Vec<&'static str>,
}

impl Like {
    fn includes(&self, kind: &str) -> bool {
        self.included.contains(&kind)
    }

    /// Its keys and checks, of those that are included.
    pub(crate) fn constraints(&self) -> Vec<NewConstraint> {
        let def = &self.source.def;
        let name_of = |id| def.column_by_id(id).map(|c| c.name.clone());
        let mut made = Vec::new();
        for constraint in &def.constraints {
            let key = |id| {
                let spec = &def.index_by_id(id)?.spec;
                let columns: Option<_> = spec.key.iter().map(|part| name_of(part.column)).collect();
                Some(NewKey {
                    name: None,
                    columns: columns?,
                    nulls_equal: spec.nulls != NullKeys::Distinct,
                    timing: constraint.timing,
                })
            };
            let new = match &constraint.kind {
                ConstraintKind::PrimaryKey(id) if self.includes("indexes") => {
                    key(*id).map(NewConstraint::PrimaryKey)
                }
                ConstraintKind::Unique(id) if self.includes("indexes") => {
                    key(*id).map(NewConstraint::Unique)
                }
                ConstraintKind::Check(check) if self.includes("constraints") => {
                    let columns = check.columns.iter().map(|id| name_of(*id)).collect();
                    let columns: Option<Vec<String>> = columns;
                    columns.map(|columns| NewConstraint::Check {
                        name: Some(constraint.name.clone()),
                        expression: check.expression.clone(),
                        columns,
                        check: None,
                    })
                }
                _ => None,
            };
            made.extend(new);
        }
        made
    }
}

impl Ddl<'_> {
    /// What a column of CREATE TABLE is made of that is LIKE; `None` for any other.
    pub(crate) fn like(
        &self,
        column: &ast::ColumnDef,
    ) -> Result<Option<(Like, Vec<ColumnPlan>)>, SqlError> {
        let said = column.name.value.strip_prefix('\0').and_then(|said| said.split_once('\0'));
        let Some((name, options)) = said else { return Ok(None) };
        let source = self.names().table(&parsed_name(name)?)?.clone();
        let like = Like { included: included(options)?, source };
        let plans = like.source.def.columns.iter().map(|c| self.column_like(&like, c));
        let plans = plans.collect::<Result<_, SqlError>>()?;
        Ok(Some((like, plans)))
    }

    fn column_like(
        &self,
        like: &Like,
        column: &froglet_schema::ColumnDef,
    ) -> Result<ColumnPlan, SqlError> {
        let def = &like.source.def;
        let text = || stored::default_text(column, def).unwrap_or_default();
        let parse = |text: &str| crate::parse::parse_expression(text);
        let source = match stored::default_kind(column) {
            DefaultKind::Plain if like.includes("defaults") => Source::Default(parse(&text())?),
            DefaultKind::Generated if like.includes("generated") => {
                Source::Generated(parse(&text())?)
            }
            kind @ (DefaultKind::IdentityAlways | DefaultKind::IdentityByDefault)
                if like.includes("identity") =>
            {
                let owner = Some((def.id, column.id));
                let of = self.version.sequences.values().find(|s| s.owned_by == owner);
                let options = of.map_or_else(Options::default, |s| Options {
                    increment: Some(s.increment),
                    min: Some(Some(s.min)),
                    max: Some(Some(s.max)),
                    start: Some(s.start),
                    cycle: Some(s.cycle),
                    ..Options::default()
                });
                let identity = Some(kind == DefaultKind::IdentityAlways);
                Source::Sequence(Box::new(Serial { identity, options }))
            }
            _ => Source::Nothing,
        };
        let column = NewColumn {
            name: column.name.clone(),
            ty: column.ty,
            sql_type: column.sql_type,
            not_null: column.not_null,
            default: None,
        };
        Ok(ColumnPlan { column, source, constraints: Vec::new() })
    }

    /// The indexes that are no constraints'.
    pub(crate) async fn indexes_like(&mut self, like: &Like, id: ObjectId) -> Result<(), Stop> {
        if !like.includes("indexes") {
            return Ok(());
        }
        let def = &like.source.def;
        for index in &def.indexes {
            if def.constraint_of_index(index.spec.id).is_some() {
                continue;
            }
            let columns =
                index.written_parts().iter().map(|part: &froglet_engine::KeyPart| part.column);
            let columns = columns.chain(index.notes.include.iter().copied());
            let names = columns.filter_map(|id| def.column_by_id(id));
            let name_parts = names.map(|c| c.name.trim_start_matches('\0').to_owned()).collect();
            let again = self.index_again(def, index, &self.table_by_id(id)?)?;
            let new = NewIndex { name: None, name_parts, ..again };
            debug_assert!(new.columns.iter().all(|part: &NewKeyPart| !part.column.is_empty()));
            self.apply(Change::CreateIndex { table: id, index: new }).await?;
        }
        Ok(())
    }
}

fn parsed_name(text: &str) -> Result<ObjectName, SqlError> {
    let query = crate::parse::parse_query(&format!("SELECT 1 FROM {text}"))?;
    if let ast::SetExpr::Select(select) = *query.body
        && let [ast::TableWithJoins { relation: ast::TableFactor::Table { name, .. }, .. }] =
            &select.from[..]
    {
        return Ok(name.clone());
    }
    Err(SqlError::unsupported(format!("LIKE {text}")))
}

/// `INCLUDING ALL EXCLUDING …`, in the order in which it was written.
fn included(options: &str) -> Result<Vec<&'static str>, SqlError> {
    let mut found: Vec<&'static str> = Vec::new();
    let words: Vec<String> = options.split_whitespace().map(str::to_ascii_lowercase).collect();
    for pair in words.chunks(2) {
        let [way, kind] = pair else { return Err(syntax(options)) };
        let named: Vec<&'static str> =
            KINDS.iter().copied().filter(|known| kind == "all" || known == kind).collect();
        if named.is_empty() {
            return Err(syntax(kind));
        }
        match way.as_str() {
            "including" => found.extend(named),
            "excluding" => found.retain(|kind| !named.contains(kind)),
            _ => return Err(syntax(way)),
        }
    }
    Ok(found)
}

fn syntax(near: &str) -> SqlError {
    SqlError::new(
        froglet_engine::SqlState::SYNTAX_ERROR,
        format!("syntax error at or near \"{near}\""),
    )
}
