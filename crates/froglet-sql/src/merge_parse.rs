//! MERGE, read by sqlparser's parts: of the whole it does not know DO NOTHING, DEFAULT VALUES, OVERRIDING, nor a
//! WITH in front of all that.
//!
//! In sqlparser's tree DO NOTHING is an UPDATE that sets nothing, DEFAULT VALUES a list of no values, and what an
//! INSERT overrides its condition.

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Merge, MergeAction, MergeClause, MergeClauseKind, MergeInsertExpr,
    MergeInsertKind, MergeUpdateExpr, Parens, Query, SetExpr, Statement, TableFactor, Values, With,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{IsOptional, Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::command::Command;
use crate::dialect::Postgres;

/// Parses a statement, if it is MERGE.
pub(crate) fn parse(tokens: &[TokenWithSpan]) -> Option<Result<Command, ParserError>> {
    if !is_merge(tokens) {
        return None;
    }
    let mut parser = Parser::new(&Postgres)
        .with_recursion_limit(512)
        .with_tokens_with_locations(tokens.to_vec());
    Some(statement(&mut parser).map(|query| Command::Merge(Box::new(query))))
}

/// Takes the MERGE behind PREPARE … AS, if there is one; in its place stands something that sqlparser reads.
pub(crate) fn take(tokens: &mut Vec<TokenWithSpan>) -> Option<Result<Query, ParserError>> {
    let is_as = |token: &TokenWithSpan| matches!(&token.token, Token::Word(w) if w.quote_style.is_none() && w.keyword == Keyword::AS);
    let at = tokens.iter().position(is_as)? + 1;
    if !is_merge(tokens.get(at..)?) {
        return None;
    }
    let merge = tokens.split_off(at);
    let span = merge.first()?.span;
    let stand_in = [Token::make_keyword("SELECT"), Token::Number("1".to_owned(), false)];
    tokens.extend(stand_in.map(|token| TokenWithSpan { token, span }));
    let mut parser =
        Parser::new(&Postgres).with_recursion_limit(512).with_tokens_with_locations(merge);
    Some(statement(&mut parser))
}

/// Whether it begins with MERGE, or with WITH and MERGE behind it.
fn is_merge(tokens: &[TokenWithSpan]) -> bool {
    let is = |token: &Token, keyword: Keyword| matches!(token, Token::Word(w) if w.quote_style.is_none() && w.keyword == keyword);
    let Some(first) = tokens.first() else { return false };
    if !is(&first.token, Keyword::WITH) {
        return is(&first.token, Keyword::MERGE);
    }
    let mut depth = 0_usize;
    tokens.windows(3).any(|three| {
        match &three[0].token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0
            && three[0].token == Token::RParen
            && is(&three[1].token, Keyword::MERGE)
            && is(&three[2].token, Keyword::INTO)
    })
}

fn statement(parser: &mut Parser) -> Result<Query, ParserError> {
    let with = match parser.parse_keyword(Keyword::WITH) {
        true => Some(With {
            with_token: AttachedToken::empty(),
            recursive: parser.parse_keyword(Keyword::RECURSIVE),
            cte_tables: parser.parse_comma_separated(Parser::parse_cte)?,
        }),
        false => None,
    };
    parser.expect_keyword(Keyword::MERGE)?;
    parser.expect_keyword(Keyword::INTO)?;
    let table = parser.parse_table_factor()?;
    parser.expect_keyword(Keyword::USING)?;
    let source = parser.parse_table_and_joins()?;
    let source = match source.joins.is_empty() {
        true => source.relation,
        false => TableFactor::NestedJoin { table_with_joins: Box::new(source), alias: None },
    };
    parser.expect_keyword(Keyword::ON)?;
    let on = Box::new(parser.parse_expr()?);
    let mut clauses = Vec::new();
    while clauses.is_empty() || parser.peek_keyword(Keyword::WHEN) {
        clauses.push(clause(parser)?);
    }
    if parser.peek_token_ref().token != Token::EOF {
        return parser.expected("end of statement", parser.peek_token());
    }
    let merge = Merge {
        merge_token: AttachedToken::empty(),
        optimizer_hints: Vec::new(),
        into: true,
        table,
        source,
        on,
        clauses,
        output: None,
    };
    query_of(Statement::Merge(merge), with).map(|query| *query)
}

/// The query whose body a MERGE is.
pub(crate) fn query_of(merge: Statement, with: Option<With>) -> Result<Box<Query>, ParserError> {
    let mut query = Parser::new(&Postgres).try_with_sql("SELECT 1")?.parse_query()?;
    query.with = with;
    *query.body = SetExpr::Merge(merge);
    Ok(query)
}

/// `WHEN [NOT] MATCHED [AND condition] THEN …`
fn clause(parser: &mut Parser) -> Result<MergeClause, ParserError> {
    parser.expect_keyword(Keyword::WHEN)?;
    let clause_kind = match parser.parse_keyword(Keyword::NOT) {
        true => MergeClauseKind::NotMatched,
        false => MergeClauseKind::Matched,
    };
    parser.expect_keyword(Keyword::MATCHED)?;
    let predicate = match parser.parse_keyword(Keyword::AND) {
        true => Some(parser.parse_expr()?),
        false => None,
    };
    parser.expect_keyword(Keyword::THEN)?;
    let matched = clause_kind == MergeClauseKind::Matched;
    let action = if parser.parse_keyword(Keyword::DO) {
        parser.expect_keyword(Keyword::NOTHING)?;
        update(Vec::new())
    } else if matched && parser.parse_keyword(Keyword::UPDATE) {
        parser.expect_keyword(Keyword::SET)?;
        update(parser.parse_comma_separated(Parser::parse_assignment)?)
    } else if matched && parser.parse_keyword(Keyword::DELETE) {
        MergeAction::Delete { delete_token: AttachedToken::empty() }
    } else if !matched && parser.parse_keyword(Keyword::INSERT) {
        MergeAction::Insert(insert(parser)?)
    } else {
        let expected = match matched {
            true => "UPDATE, DELETE or DO NOTHING",
            false => "INSERT or DO NOTHING",
        };
        return parser.expected(expected, parser.peek_token());
    };
    Ok(MergeClause { when_token: AttachedToken::empty(), clause_kind, predicate, action })
}

fn update(assignments: Vec<datafusion::sql::sqlparser::ast::Assignment>) -> MergeAction {
    MergeAction::Update(MergeUpdateExpr {
        update_token: AttachedToken::empty(),
        assignments,
        update_predicate: None,
        delete_predicate: None,
    })
}

/// After INSERT.
fn insert(parser: &mut Parser) -> Result<MergeInsertExpr, ParserError> {
    let columns = parser.parse_parenthesized_qualified_column_list(IsOptional::Optional, false)?;
    let mut overriding = None;
    // Not one of sqlparser's keywords.
    let is_next = matches!(&parser.peek_token_ref().token, Token::Word(w)
        if w.quote_style.is_none() && w.value.eq_ignore_ascii_case("overriding"));
    if is_next {
        parser.advance_token();
        let value = match parser.parse_keyword(Keyword::USER) {
            true => "user",
            false => {
                parser.expect_keyword(Keyword::SYSTEM)?;
                "system"
            }
        };
        parser.expect_keyword(Keyword::VALUE)?;
        overriding = Some(Expr::Identifier(Ident::new(value)));
    }
    let values = if parser.parse_keyword(Keyword::DEFAULT) {
        parser.expect_keyword(Keyword::VALUES)?;
        Vec::new()
    } else {
        parser.expect_keyword(Keyword::VALUES)?;
        parser.expect_token(&Token::LParen)?;
        let values = parser.parse_comma_separated(Parser::parse_expr)?;
        parser.expect_token(&Token::RParen)?;
        values
    };
    Ok(MergeInsertExpr {
        insert_token: AttachedToken::empty(),
        columns,
        kind_token: AttachedToken::empty(),
        kind: MergeInsertKind::Values(Values {
            explicit_row: false,
            value_keyword: false,
            rows: vec![Parens::with_empty_span(values)],
        }),
        insert_predicate: overriding,
    })
}
