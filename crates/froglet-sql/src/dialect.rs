//! PostgreSQL's SQL as sqlparser reads it, but for the right side of IS [NOT] DISTINCT FROM, of which
//! sqlparser takes an AND or OR that follows for a part, for BETWEEN SYMMETRIC, which it does not know, for
//! prefix operators, which bind otherwise and are printed side by side, for IN of a list that begins with a query,
//! and for comparisons side by side, of which PostgreSQL has none: `1 < 2 = true` is an error of syntax.

use std::any::TypeId;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator};
use datafusion::sql::sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

/// See the module. In all else it is sqlparser's.
#[derive(Debug)]
pub(crate) struct Postgres;

const THEIRS: PostgreSqlDialect = PostgreSqlDialect {};

/// Passes `[NOT] BETWEEN SYMMETRIC`; whether it is negated.
fn symmetric(parser: &mut Parser) -> Option<bool> {
    use Keyword::{BETWEEN, NOT, SYMMETRIC};
    if parser.parse_keywords(&[BETWEEN, SYMMETRIC]) {
        return Some(false);
    }
    parser.parse_keywords(&[NOT, BETWEEN, SYMMETRIC]).then_some(true)
}

impl Postgres {
    /// `x BETWEEN SYMMETRIC a AND b` is `x BETWEEN a AND b OR x BETWEEN b AND a`.
    fn parse_symmetric(
        &self,
        parser: &mut Parser,
        left: &Expr,
        negated: bool,
    ) -> Result<Expr, ParserError> {
        let low = parser.parse_subexpr(self.prec_value(Precedence::Between))?;
        parser.expect_keyword_is(Keyword::AND)?;
        let high = parser.parse_subexpr(self.prec_value(Precedence::Between))?;
        let between = |low: &Expr, high: &Expr| Expr::Between {
            expr: Box::new(left.clone()),
            negated,
            low: Box::new(low.clone()),
            high: Box::new(high.clone()),
        };
        Ok(Expr::Nested(Box::new(Expr::BinaryOp {
            left: Box::new(between(&low, &high)),
            op: if negated { BinaryOperator::And } else { BinaryOperator::Or },
            right: Box::new(between(&high, &low)),
        })))
    }
}

macro_rules! as_theirs {
    ($($method:ident),* $(,)?) => {
        $(fn $method(&self) -> bool {
            THEIRS.$method()
        })*
    };
}

/// A sign binds more tightly than COLLATE, 120, and everything below, and less than a subscript, 130: `-2 ^ 2` is 4.
const SIGN: u8 = 125;

/// The operator of a token that begins an expression.
fn prefix(token: &Token) -> Option<UnaryOperator> {
    Some(match token {
        Token::Minus => UnaryOperator::Minus,
        Token::Plus => UnaryOperator::Plus,
        Token::Tilde => UnaryOperator::BitwiseNot,
        Token::AtSign => UnaryOperator::PGAbs,
        Token::PGSquareRoot => UnaryOperator::PGSquareRoot,
        Token::PGCubeRoot => UnaryOperator::PGCubeRoot,
        _ => return None,
    })
}

/// The operand of a prefix operator, in parentheses where it may begin with another: printed side by side two are a
/// third, or the beginning of a comment.
fn operand(expr: Expr) -> Expr {
    match expr {
        Expr::UnaryOp { .. } | Expr::BinaryOp { .. } => Expr::Nested(Box::new(expr)),
        expr => expr,
    }
}

/// Whether what comes next may not stand behind `left`, without parentheses around it: an operator of the same rank,
/// where `left` ends with an operand of its own. `x IN (…) IN (…)` may, and so may `x IS NULL IS NULL`.
fn is_side_by_side(parser: &Parser, left: &Expr) -> bool {
    use Keyword::{BETWEEN, ILIKE, IN, IS, LIKE, NOT, NOTNULL, SIMILAR};
    use Token::{Eq, Gt, GtEq, Lt, LtEq, Neq};
    let next = &parser.peek_token_ref().token;
    let word = |words: &[Keyword]| match next {
        Token::Word(word) => words.contains(&word.keyword),
        _ => false,
    };
    match left {
        Expr::BinaryOp { op, .. } => {
            use BinaryOperator as Op;
            matches!(op, Op::Eq | Op::NotEq | Op::Lt | Op::LtEq | Op::Gt | Op::GtEq)
                && matches!(next, Eq | Neq | Lt | LtEq | Gt | GtEq)
        }
        Expr::Between { .. } | Expr::Like { .. } | Expr::ILike { .. } | Expr::SimilarTo { .. } => {
            word(&[BETWEEN, ILIKE, IN, LIKE, NOT, SIMILAR])
        }
        Expr::IsDistinctFrom(..) | Expr::IsNotDistinctFrom(..) => word(&[IS, NOTNULL]),
        _ => false,
    }
}

/// What follows IN. `((SELECT 1), 2)` is a list, and `((SELECT 1))` a query. That is told before either is read: reading
/// one as the other first would double the time with each that is within another.
fn parse_in(parser: &mut Parser, left: &Expr, negated: bool) -> Result<Expr, ParserError> {
    parser.expect_token(&Token::LParen)?;
    let expr = Box::new(left.clone());
    let found = if is_query(parser, &mut 0) {
        let subquery = parser.parse_query()?;
        Expr::InSubquery { expr, subquery, negated }
    } else {
        let list = parser.parse_comma_separated(Parser::parse_expr)?;
        Expr::InList { expr, list, negated }
    };
    parser.expect_token(&Token::RParen)?;
    Ok(found)
}

/// Whether a query stands within parentheses, from the token `at` that follows theirs; `at` moves to the first that is
/// behind what has told it.
fn is_query(parser: &Parser, at: &mut usize) -> bool {
    use Keyword::{
        EXCEPT, FETCH, FOR, INTERSECT, LIMIT, OFFSET, ORDER, SELECT, TABLE, UNION, VALUES, WITH,
    };
    let keyword = |token: &Token| match token {
        Token::Word(word) if word.quote_style.is_none() => word.keyword,
        _ => Keyword::NoKeyword,
    };
    let first = next_token(parser, at);
    if matches!(keyword(&first), SELECT | WITH | VALUES | TABLE) {
        // Where it stands in parentheses of its own, what follows them tells.
        pass_parenthesis(parser, at);
        return true;
    }
    if first != Token::LParen || !is_query(parser, at) {
        return false;
    }
    let follows = next_token(parser, at);
    match keyword(&follows) {
        UNION | EXCEPT | INTERSECT | ORDER | LIMIT | OFFSET | FETCH | FOR => {
            pass_parenthesis(parser, at);
            true
        }
        _ => follows == Token::RParen,
    }
}

/// Moves behind the parenthesis that closes here.
fn pass_parenthesis(parser: &Parser, at: &mut usize) {
    let mut depth = 1;
    while depth > 0 {
        match next_token(parser, at) {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            Token::EOF => return,
            _ => {}
        }
    }
}

/// The token there, and the place behind it.
fn next_token(parser: &Parser, at: &mut usize) -> Token {
    loop {
        let token = parser.peek_nth_token_no_skip(*at).token;
        *at += 1;
        if !matches!(token, Token::Whitespace(_)) {
            return token;
        }
    }
}

impl Dialect for Postgres {
    /// The name of an argument is an identifier. Were it any expression, sqlparser would read each
    /// argument twice, and those of calls in it four times.
    fn supports_named_fn_args_with_expr_name(&self) -> bool {
        false
    }

    fn dialect(&self) -> TypeId {
        TypeId::of::<PostgreSqlDialect>()
    }

    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        let op = prefix(&parser.peek_token_ref().token)?;
        parser.advance_token();
        let precedence = match op {
            UnaryOperator::Minus | UnaryOperator::Plus => SIGN,
            _ => self.prec_value(Precedence::PgOther),
        };
        let operand = parser.parse_subexpr(precedence).map(operand);
        Some(operand.map(|operand| Expr::UnaryOp { op, expr: Box::new(operand) }))
    }

    fn parse_infix(
        &self,
        parser: &mut Parser,
        left: &Expr,
        _precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        if is_side_by_side(parser, left) {
            return Some(parser.expected_ref("end of expression", parser.peek_token_ref()));
        }
        // An operator that anybody might make, and nobody has made.
        if parser.consume_token(&Token::DoubleEq) {
            let op = BinaryOperator::PGCustomBinaryOperator(vec!["==".to_owned()]);
            let right = parser.parse_subexpr(self.prec_value(Precedence::PgOther));
            let left = Box::new(left.clone());
            return Some(right.map(|right| Expr::BinaryOp { left, op, right: Box::new(right) }));
        }
        if let Some(negated) = symmetric(parser) {
            return Some(self.parse_symmetric(parser, left, negated));
        }
        for (words, negated) in [(&[Keyword::IN][..], false), (&[Keyword::NOT, Keyword::IN], true)]
        {
            if parser.parse_keywords(words) {
                return Some(parse_in(parser, left, negated));
            }
        }
        // sqlparser knows it after a name or a literal, not after a cast.
        if parser.parse_keyword(Keyword::COLLATE) {
            let collation = parser.parse_object_name(false);
            let expr = Box::new(left.clone());
            return Some(collation.map(|collation| Expr::Collate { expr, collation }));
        }
        let distinct = [Keyword::IS, Keyword::DISTINCT, Keyword::FROM];
        let same = [Keyword::IS, Keyword::NOT, Keyword::DISTINCT, Keyword::FROM];
        let expr: fn(Box<Expr>, Box<Expr>) -> Expr = if parser.parse_keywords(&distinct) {
            Expr::IsDistinctFrom
        } else if parser.parse_keywords(&same) {
            Expr::IsNotDistinctFrom
        } else {
            return None;
        };
        let right = parser.parse_subexpr(self.prec_value(Precedence::Is));
        Some(right.map(|right| expr(Box::new(left.clone()), Box::new(right))))
    }

    fn identifier_quote_style(&self, identifier: &str) -> Option<char> {
        THEIRS.identifier_quote_style(identifier)
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        THEIRS.is_delimited_identifier_start(ch)
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        THEIRS.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        THEIRS.is_identifier_part(ch)
    }

    fn is_reserved_for_identifier(&self, kw: Keyword) -> bool {
        THEIRS.is_reserved_for_identifier(kw)
    }

    /// What is no reserved word in PostgreSQL may name a relation, whatever other dialects make of it.
    fn is_table_alias(&self, kw: &Keyword, parser: &mut Parser) -> bool {
        use Keyword::{
            ANTI, ASOF, CLUSTER, CONNECT, DISTRIBUTE, EXPLAIN, FORMAT, GLOBAL, MATCH_CONDITION,
            MATCH_RECOGNIZE, MINUS, OPEN, OUTPUT, PIVOT, PREWHERE, QUALIFY, SAMPLE, SEMI, SETTINGS,
            SORT, START, TOP, UNPIVOT, VIEW,
        };
        let of_others = matches!(
            kw,
            ANTI | ASOF
                | CLUSTER
                | CONNECT
                | DISTRIBUTE
                | EXPLAIN
                | FORMAT
                | GLOBAL
                | MATCH_CONDITION
                | MATCH_RECOGNIZE
                | MINUS
                | OPEN
                | OUTPUT
                | PIVOT
                | PREWHERE
                | QUALIFY
                | SAMPLE
                | SEMI
                | SETTINGS
                | SORT
                | START
                | TOP
                | UNPIVOT
                | VIEW
        );
        of_others || THEIRS.is_table_alias(kw, parser)
    }

    /// What may be behind a list of columns names none of them without AS.
    fn is_column_alias(&self, kw: &Keyword, parser: &mut Parser) -> bool {
        use Keyword::{
            CLUSTER, DISTRIBUTE, EXCLUDE, EXPLAIN, FOR, MINUS, ON, SORT, TOP, VIEW, WINDOW,
        };
        if matches!(kw, FOR | ON | WINDOW) {
            return false;
        }
        let of_others =
            matches!(kw, CLUSTER | DISTRIBUTE | EXCLUDE | EXPLAIN | MINUS | SORT | TOP | VIEW);
        of_others || THEIRS.is_column_alias(kw, parser)
    }

    fn is_custom_operator_part(&self, ch: char) -> bool {
        THEIRS.is_custom_operator_part(ch)
    }

    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        // sqlparser's is one between those of + and of other operators.
        if matches!(parser.peek_token_ref().token, Token::Sharp | Token::DoubleEq) {
            return Some(Ok(self.prec_value(Precedence::PgOther)));
        }
        THEIRS.get_next_precedence(parser)
    }

    fn prec_value(&self, prec: Precedence) -> u8 {
        THEIRS.prec_value(prec)
    }

    as_theirs! {
        supports_unicode_string_literal,
        supports_filter_during_aggregation,
        supports_group_by_expr,
        allow_extract_custom,
        allow_extract_single_quotes,
        supports_create_index_with_clause,
        supports_explain_with_utility_options,
        supports_listen_notify,
        supports_factorial_operator,
        supports_bitwise_shift_operators,
        supports_comment_on,
        supports_load_extension,
        supports_named_fn_args_with_colon_operator,
        supports_empty_projections,
        supports_nested_comments,
        supports_string_escape_constant,
        supports_numeric_literal_underscores,
        supports_array_typedef_with_brackets,
        supports_geometric_types,
        supports_set_names,
        supports_alter_column_type_using,
        supports_notnull_operator,
        supports_interval_options,
        supports_insert_table_alias,
        supports_create_table_like_parenthesized,
        supports_select_wildcard_with_alias,
        supports_comma_separated_trim,
        supports_xml_expressions,
        supports_comment_optimizer_hint,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Expr, ParserError> {
        let parser = Parser::new(&Postgres).with_recursion_limit(1000);
        parser.try_with_sql(text)?.parse_expr()
    }

    #[test]
    fn what_follows_in_is_told_by_what_follows_its_parentheses() {
        for query in [
            "(select 1)",
            "((select 1))",
            "(((select 1)))",
            "((select 1) union (select 2))",
            "(((select 1) union select 2) limit 1)",
            "(values (1), (2))",
            "(with x as (select 1) select * from x)",
            "((select (1)) order by 1)",
        ] {
            let found = parsed(&format!("1 in {query}")).unwrap();
            assert!(matches!(found, Expr::InSubquery { .. }), "{query}");
        }
        for list in [
            "(1)",
            "((1), 2)",
            "((select 1), 2)",
            "((select 1) + 1)",
            "(((select 1)), ((select 2)))",
            "(((select 1), 2))",
            "(\"select\")",
            "((\"select\"), 1)",
            "((select 1)::int)",
        ] {
            let found = parsed(&format!("1 in {list}")).unwrap();
            assert!(matches!(found, Expr::InList { .. }), "{list}");
        }
        for wrong in ["1 in ((select 1)", "1 in ()", "1 in (", "1 in ((", "1 in (select 1"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn lists_within_lists_are_read_once() {
        let depth = 40;
        let text = format!("{}1{}", "1 in ((select ".repeat(depth), "), 2)".repeat(depth));
        let parsed = stacker::grow(64 << 20, || parsed(&text).map(drop));
        parsed.unwrap();
    }
}
