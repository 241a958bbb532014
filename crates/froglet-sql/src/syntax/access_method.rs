//! CREATE TABLE … USING method, ALTER TABLE … SET ACCESS METHOD: where the table's rows are.
//!
//! ```text
//!   CREATE TABLE t (…) USING disk WITH (dictionary = on)   becomes   … WITH ("\u{1}using" = disk, dictionary = on)
//!   ALTER TABLE t SET ACCESS METHOD disk                   becomes   … SET ("\u{1}using" = disk)
//! ```
//! sqlparser reads options and no method; the option has a name that nobody has reason to write.

use datafusion::sql::sqlparser::ast::{AlterTableOperation, SqlOption};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};
use froglet_engine::{Home, SqlState};
use froglet_schema::{Change, ObjectId};

use crate::apply::Stop;
use crate::context::SessionFunctions;
use crate::ddl::Ddl;
use crate::error::SqlError;
use crate::lazy_query::{Mode, refused};
use crate::storage_options::is_keyword;
use crate::unsupported_forms::begins;

const OPTION: &str = "\u{1}using";
/// What PostgreSQL calls its tables, and clients ask for.
const HEAP: &str = "heap";

/// The tokens of a statement with the method of a new table as one of its options.
pub(crate) fn as_option(tokens: &mut Vec<TokenWithSpan>) {
    let is = |at: usize, word: Keyword| tokens.get(at).is_some_and(|t| is_keyword(t, word));
    let adverbs =
        [Keyword::GLOBAL, Keyword::LOCAL, Keyword::TEMP, Keyword::TEMPORARY, Keyword::UNLOGGED];
    let mut at = 1;
    while adverbs.iter().any(|word| is(at, *word)) {
        at += 1;
    }
    if !is(0, Keyword::CREATE) || !is(at, Keyword::TABLE) {
        return;
    }
    let mut depth = 0_usize;
    let using = tokens.iter().enumerate().skip(at).find_map(|(at, token)| {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        // A query has others.
        let ends =
            depth == 0 && (is_keyword(token, Keyword::AS) || is_keyword(token, Keyword::WITH));
        if ends {
            return Some(None);
        }
        (depth == 0 && is_keyword(token, Keyword::USING)).then_some(Some(at))
    });
    let Some(Some(using)) = using else { return };
    if !matches!(tokens.get(using + 1).map(|t| &t.token), Some(Token::Word(_))) {
        return;
    }
    let span = tokens[using].span;
    let put = |token: Token| TokenWithSpan { token, span };
    let option = option(&tokens[using + 1]);
    let has_options = tokens.get(using + 2).is_some_and(|t| is_keyword(t, Keyword::WITH))
        && tokens.get(using + 3).is_some_and(|t| t.token == Token::LParen);
    let with = Word { value: "WITH".to_owned(), quote_style: None, keyword: Keyword::WITH };
    let mut known = vec![put(Token::Word(with)), put(Token::LParen)];
    known.extend(option);
    let end = match has_options {
        true => {
            known.push(put(Token::Comma));
            using + 4
        }
        false => {
            known.push(put(Token::RParen));
            using + 2
        }
    };
    tokens.splice(using..end, known);
}

/// The option that says a method, which is a word.
fn option(method: &TokenWithSpan) -> [TokenWithSpan; 3] {
    let span = method.span;
    let mut method = method.clone();
    if let Token::Word(name) = &mut method.token {
        // Read as a name, whatever else the word may be.
        if name.quote_style.is_none() {
            name.value = name.value.to_lowercase();
        }
        name.quote_style = Some('"');
        name.keyword = Keyword::NoKeyword;
    }
    let name =
        Word { value: OPTION.to_owned(), quote_style: Some('"'), keyword: Keyword::NoKeyword };
    let put = |token: Token| TokenWithSpan { token, span };
    [put(Token::Word(name)), put(Token::Eq), method]
}

/// The tokens of ALTER TABLE, or of its EXPLAIN, with each new method as an option.
pub(crate) fn as_new_option(tokens: &mut Vec<TokenWithSpan>) {
    if !begins(tokens, "ALTER TABLE") && !begins(tokens, "EXPLAIN") {
        return;
    }
    let mut at = 1;
    while at + 3 < tokens.len() {
        let is_said = begins(&tokens[at..], "SET ACCESS METHOD");
        if is_said && matches!(tokens[at + 3].token, Token::Word(_)) {
            let put = |token: Token| TokenWithSpan { token, span: tokens[at + 1].span };
            let mut known = vec![put(Token::LParen)];
            known.extend(option(&tokens[at + 3]));
            known.push(put(Token::RParen));
            tokens.splice(at + 1..at + 4, known);
        }
        at += 1;
    }
}

/// Options without the method, and that.
pub(crate) fn taken(options: &[SqlOption]) -> (Vec<SqlOption>, Option<String>) {
    let mut method = None;
    let mut others = Vec::with_capacity(options.len());
    for option in options {
        match option {
            SqlOption::KeyValue { key, value } if key.value == OPTION => {
                method = Some(value.to_string().trim_matches('"').replace("\"\"", "\""));
            }
            other => others.push(other.clone()),
        }
    }
    (others, method)
}

/// Where a method has its rows.
pub(crate) fn named(method: &str) -> Option<Home> {
    match method {
        HEAP => Some(Home::Memory),
        name => Home::named(name),
    }
}

/// The method that an action of ALTER TABLE sets.
pub(crate) fn of(operation: &AlterTableOperation) -> Option<String> {
    match operation {
        AlterTableOperation::SetOptionsParens { options } => taken(options).1,
        _ => None,
    }
}

/// Whether a mode moves a table after the commit: only if it says so.
pub(crate) fn is_lazy(mode: Mode) -> bool {
    matches!(mode, Mode::Lazy | Mode::Hybrid)
}

impl Ddl<'_> {
    /// SET ACCESS METHOD of a table.
    pub(crate) async fn set_access_method(
        &mut self,
        table: ObjectId,
        method: String,
    ) -> Result<(), Stop> {
        let home = self.home(Some(method))?;
        let def = &self.table_by_id(table)?.def;
        let moves_later = is_lazy(self.migration) && self.catalog.has_rows(def);
        let lazily = moves_later && def.space.home() != home;
        if lazily && let Some(why) = self.catalog.move_hindrance(self.txn, def) {
            let message = format!("table \"{}\" cannot be moved lazily", def.name);
            let hint = "Set froglet.migration to auto or eager.";
            return Err(refused(message, why).hint(hint).into());
        }
        let notice = format!("table \"{}\" is moved lazily, usable from the commit on", def.name);
        self.options.is_hybrid = self.migration == Mode::Hybrid;
        self.apply(Change::SetHome { table, home, lazily }).await?;
        if lazily {
            self.notice(SqlState::SUCCESSFUL_COMPLETION, notice);
        }
        Ok(())
    }

    /// Where a new table's rows are to be: as it says, or as the session does.
    pub(crate) fn home(&self, method: Option<String>) -> Result<Home, SqlError> {
        let said = || self.session.setting("default_table_access_method");
        let method = method.or_else(said).unwrap_or_else(|| HEAP.to_owned());
        // Where everything is elsewhere, what clients call a table is there.
        let homes = self.catalog.engine().homes();
        if let (HEAP, [home]) = (method.as_str(), homes) {
            return Ok(*home);
        }
        let home = named(&method).ok_or_else(|| {
            let message = format!("access method \"{method}\" does not exist");
            SqlError::new(SqlState::UNDEFINED_OBJECT, message)
                .hint("Tables are in memory, which heap means here, or on disk.")
        })?;
        if !homes.contains(&home) {
            let server = match homes {
                [Home::Cluster] => "of a cluster",
                _ if home == Home::Cluster => "that is no part of a cluster",
                _ => "without a data directory",
            };
            let what = format!("USING {} in a database {server}", home.name());
            return Err(SqlError::unsupported(&what));
        }
        Ok(home)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;
    use crate::dialect::Postgres;

    fn rewritten(sql: &str) -> String {
        let mut tokens = Tokenizer::new(&Postgres, sql).tokenize_with_location().expect("tokens");
        tokens.retain(|token| !matches!(token.token, Token::Whitespace(_)));
        as_option(&mut tokens);
        as_new_option(&mut tokens);
        let words: Vec<String> = tokens.iter().map(|token| token.token.to_string()).collect();
        words.join(" ").replace('\u{1}', "!")
    }

    #[test]
    fn a_method_becomes_an_option() {
        let cases = [
            (
                "CREATE TABLE t (a int) USING disk",
                "CREATE TABLE t ( a int ) WITH ( \"!using\" = \"disk\" )",
            ),
            (
                "CREATE TEMP TABLE t USING Heap WITH (x = 1) AS SELECT 1",
                "CREATE TEMP TABLE t WITH ( \"!using\" = \"heap\" , x = 1 ) AS SELECT 1",
            ),
            (
                "CREATE TABLE t AS SELECT * FROM a JOIN b USING (c)",
                "CREATE TABLE t AS SELECT * FROM a JOIN b USING ( c )",
            ),
            (
                "ALTER TABLE t ADD c int, SET ACCESS METHOD Disk, RENAME a TO b",
                "ALTER TABLE t ADD c int , SET ( \"!using\" = \"disk\" ) , RENAME a TO b",
            ),
            ("ALTER TABLE t SET ACCESS METHOD", "ALTER TABLE t SET ACCESS METHOD"),
            (
                "EXPLAIN ALTER TABLE t SET ACCESS METHOD disk",
                "EXPLAIN ALTER TABLE t SET ( \"!using\" = \"disk\" )",
            ),
            ("ALTER VIEW t SET ACCESS METHOD a", "ALTER VIEW t SET ACCESS METHOD a"),
            ("CREATE INDEX i ON t USING btree (a)", "CREATE INDEX i ON t USING btree ( a )"),
            (
                "CREATE TABLE t (a int UNIQUE USING INDEX TABLESPACE x)",
                "CREATE TABLE t ( a int UNIQUE USING INDEX TABLESPACE x )",
            ),
        ];
        for (written, expected) in cases {
            assert_eq!(rewritten(written), expected);
        }
    }
}
