//! The tokens of a path.

use froglet_engine::SqlState;

use crate::error::SqlError;

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// A character, or several that mean something together: `&&`, `**`, `<=`.
    Mark(&'static str),
    /// A name without quotes, which may be a keyword.
    Name(String),
    /// A string in quotes.
    String(String),
    /// `$name`, `$"name"`
    Variable(String),
    /// A number with a point or an exponent.
    Numeric(String),
    Integer(String),
}

/// A token, and the bytes where it stands.
pub(super) struct Lexeme {
    pub token: Token,
    pub start: usize,
    pub end: usize,
}

/// The longer ones before those that they begin with.
const MARKS: [&str; 29] = [
    "&&", "||", "**", "==", "<=", "<>", "!=", ">=", "<", ">", "!", "?", "%", "$", ".", "[", "]",
    "{", "}", "(", ")", "|", "&", "=", "@", "#", ",", "*", ":",
];
const SIGNS: [&str; 3] = ["-", "+", "/"];

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{c}')
}

/// Whether a character may stand in a name.
fn is_plain(c: char) -> bool {
    !is_blank(c) && !"?%$.[]{}()|&!=<>@#,*:-+/\\\"".contains(c)
}

/// 42601, near a token or at the end.
pub(super) fn error(message: &str, near: Option<&str>) -> SqlError {
    let place = match near {
        Some(near) => format!("at or near \"{near}\""),
        None => "at end".to_owned(),
    };
    SqlError::new(SqlState::SYNTAX_ERROR, format!("{message} {place} of jsonpath input"))
}

/// 22P02
fn invalid(detail: &str) -> SqlError {
    let state = SqlState::INVALID_TEXT_REPRESENTATION;
    SqlError::new(state, "invalid input syntax for type jsonpath").detail(detail)
}

/// The tokens of a text.
pub(super) fn tokens(text: &str) -> Result<Vec<Lexeme>, SqlError> {
    let mut lexer = Lexer { text, at: 0 };
    let mut all = Vec::new();
    loop {
        lexer.blanks()?;
        let start = lexer.at;
        let Some(first) = lexer.peek() else { return Ok(all) };
        let token = lexer.token(first)?;
        all.push(Lexeme { token, start, end: lexer.at });
    }
}

struct Lexer<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Lexer<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Passes blanks and comments.
    fn blanks(&mut self) -> Result<(), SqlError> {
        loop {
            let rest = self.rest().trim_start_matches(is_blank);
            self.at = self.text.len() - rest.len();
            if !rest.starts_with("/*") {
                return Ok(());
            }
            let end =
                rest[2..].find("*/").ok_or_else(|| error("unexpected end of comment", None))?;
            self.at += end + 4;
        }
    }

    fn token(&mut self, first: char) -> Result<Token, SqlError> {
        let rest = self.rest();
        let after = rest[first.len_utf8()..].chars().next();
        match first {
            '"' => return self.string().map(Token::String),
            '$' if after == Some('"') => {
                self.at += 1;
                return self.string().map(Token::Variable);
            }
            '$' if after.is_some_and(is_plain) => {
                let end = rest[1..].find(|c| !is_plain(c)).map_or(rest.len(), |end| end + 1);
                self.at += end;
                return Ok(Token::Variable(rest[1..end].to_owned()));
            }
            _ => {}
        }
        let is_number =
            first.is_ascii_digit() || first == '.' && after.is_some_and(|c| c.is_ascii_digit());
        if is_number && let Some(number) = self.number()? {
            return Ok(number);
        }
        if let Some(mark) = MARKS.iter().chain(&SIGNS).find(|mark| rest.starts_with(**mark)) {
            self.at += mark.len();
            return Ok(Token::Mark(mark));
        }
        self.name().map(Token::Name)
    }

    /// A number; `None` if more of the text is a name.
    fn number(&mut self) -> Result<Option<Token>, SqlError> {
        let rest = self.rest();
        let bytes = rest.as_bytes();
        let digits = |from: usize| {
            bytes.get(from..).unwrap_or_default().iter().take_while(|b| b.is_ascii_digit()).count()
        };
        let whole = if bytes[0] == b'0' { 1 } else { digits(0) };
        let mut end = whole;
        let mut is_integer = true;
        if bytes.get(end) == Some(&b'.') {
            end += 1 + digits(end + 1);
            is_integer = false;
        }
        if let Some(b'e' | b'E') = bytes.get(end) {
            let signed = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
            match digits(end + 1 + signed) {
                0 if signed > 0 => {
                    return Err(error("invalid numeric literal", Some(&rest[..end + 2])));
                }
                0 => {}
                exponent => {
                    end += 1 + signed + exponent;
                    is_integer = false;
                }
            }
        }
        if let Some(junk) = rest[end..].chars().next().filter(|c| is_plain(*c)) {
            let junk = end + junk.len_utf8();
            let name = rest.find(|c| !is_plain(c)).unwrap_or(rest.len());
            if name > junk {
                return Ok(None);
            }
            return Err(error("trailing junk after numeric literal", Some(&rest[..junk])));
        }
        self.at += end;
        let number = rest[..end].to_owned();
        Ok(Some(if is_integer { Token::Integer(number) } else { Token::Numeric(number) }))
    }

    fn name(&mut self) -> Result<String, SqlError> {
        let mut name = String::new();
        while let Some(c) = self.peek() {
            match c {
                '\\' => self.escape(&mut name)?,
                // PostgreSQL loses the name before such a comment.
                '/' if self.rest().starts_with("/*") => {
                    return Err(error("syntax error", Some(&name)));
                }
                c if is_plain(c) => {
                    name.push(c);
                    self.at += c.len_utf8();
                }
                _ => break,
            }
        }
        Ok(name)
    }

    /// A string, from its first quote to behind its last.
    fn string(&mut self) -> Result<String, SqlError> {
        let mut out = String::new();
        self.at += 1;
        loop {
            match self.peek() {
                None => return Err(error("unexpected end of quoted string", None)),
                Some('"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some('\\') => self.escape(&mut out)?,
                Some(c) => {
                    out.push(c);
                    self.at += c.len_utf8();
                }
            }
        }
    }

    /// What follows a backslash.
    fn escape(&mut self, out: &mut String) -> Result<(), SqlError> {
        self.at += 1;
        let Some(c) = self.peek() else {
            return Err(error("unexpected end after backslash", None));
        };
        self.at += c.len_utf8();
        out.push(match c {
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            'x' => {
                let code = self.hex(2, "invalid hex character sequence")?;
                self.at += 2;
                self.character(code)?
            }
            'u' => self.unicode()?,
            c => c,
        });
        Ok(())
    }

    /// So many hexadecimal digits at this place.
    fn hex(&self, digits: usize, message: &str) -> Result<u32, SqlError> {
        let hex = self.rest().get(..digits);
        hex.filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()))
            .and_then(|hex| u32::from_str_radix(hex, 16).ok())
            .ok_or_else(|| error(message, Some(&self.text[self.at.saturating_sub(2)..self.at])))
    }

    /// `\u0041`, `\u{41}`, and pairs of surrogates.
    fn unicode(&mut self) -> Result<char, SqlError> {
        let code = self.code()?;
        match code {
            0xD800..=0xDBFF => {
                let low_missing = || invalid("Unicode low surrogate must follow a high surrogate.");
                if !self.rest().starts_with("\\u") {
                    return Err(low_missing());
                }
                self.at += 2;
                match self.code()? {
                    low @ 0xDC00..=0xDFFF => {
                        self.character(0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00))
                    }
                    0xD800..=0xDBFF => {
                        Err(invalid("Unicode high surrogate must not follow a high surrogate."))
                    }
                    _ => Err(low_missing()),
                }
            }
            0xDC00..=0xDFFF => Err(invalid("Unicode low surrogate must follow a high surrogate.")),
            code => self.character(code),
        }
    }

    fn code(&mut self) -> Result<u32, SqlError> {
        const MESSAGE: &str = "invalid Unicode escape sequence";
        if !self.rest().starts_with('{') {
            let code = self.hex(4, MESSAGE)?;
            self.at += 4;
            return Ok(code);
        }
        self.at += 1;
        let digits = self.rest().find('}').filter(|digits| (1..=6).contains(digits));
        let code = self.hex(digits.unwrap_or(usize::MAX), MESSAGE)?;
        self.at += digits.unwrap_or(0) + 1;
        Ok(code)
    }

    fn character(&self, code: u32) -> Result<char, SqlError> {
        if code == 0 {
            let state = SqlState::new("22P05");
            return Err(SqlError::new(state, "unsupported Unicode escape sequence")
                .detail("\\u0000 cannot be converted to text."));
        }
        char::from_u32(code)
            .ok_or_else(|| SqlError::new(SqlState::SYNTAX_ERROR, "invalid Unicode code point"))
    }
}
