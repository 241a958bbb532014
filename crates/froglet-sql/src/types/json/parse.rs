//! JSON text, read as PostgreSQL reads it, with its messages.

use froglet_engine::SqlState;

use super::{Json, Node, deeper};
use crate::error::SqlError;

/// Deeper values are refused rather than take the stack.
const MAX_DEPTH: usize = 512;
/// Digits before and after the point that PostgreSQL's numeric has.
const MAX_WHOLE_DIGITS: usize = 131_072;
const MAX_FRACTION_DIGITS: usize = 16_383;

/// Reads a value. Of `binary` ones numbers are brought into numeric's form, and no string holds a zero.
pub fn parse(text: &str, binary: bool) -> Result<Node, SqlError> {
    let mut parser = Parser { text, at: 0, depth: 0, binary };
    let node = parser.value()?;
    parser.blanks();
    match parser.at == text.len() {
        true => Ok(node),
        false => Err(parser.expected("end of input")),
    }
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
    binary: bool,
}

type Parsed<T> = Result<T, SqlError>;

impl Parser<'_> {
    fn blanks(&mut self) {
        let rest = &self.text.as_bytes()[self.at..];
        let blank = |b: &u8| matches!(b, b' ' | b'\t' | b'\n' | b'\r');
        self.at += rest.iter().take_while(|b| blank(b)).count();
    }

    fn peek(&mut self) -> Option<u8> {
        self.blanks();
        self.text.as_bytes().get(self.at).copied()
    }

    fn invalid(&self, detail: String) -> SqlError {
        let state = SqlState::INVALID_TEXT_REPRESENTATION;
        SqlError::new(state, "invalid input syntax for type json").detail(detail)
    }

    /// The token at this place, for messages.
    fn token(&self) -> &str {
        let rest = &self.text[self.at..];
        let part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '+' | '-');
        match rest.find(|c| !part(c)) {
            Some(0) => rest.chars().next().map_or("", |c| &rest[..c.len_utf8()]),
            Some(end) => &rest[..end],
            None => rest,
        }
    }

    fn expected(&mut self, what: &str) -> SqlError {
        let Some(first) = self.peek() else {
            return self.invalid("The input string ended unexpectedly.".to_owned());
        };
        let mut lexer = Parser { text: self.text, at: self.at, depth: self.depth, binary: false };
        let found = match first {
            b'{' | b'}' | b'[' | b']' | b':' | b',' => self.token().to_owned(),
            b'"' => match lexer.string() {
                Ok(_) => self.text[self.at..lexer.at].to_owned(),
                Err(e) => return e,
            },
            b'-' | b'0'..=b'9' => match lexer.number() {
                Ok(_) => self.text[self.at..lexer.at].to_owned(),
                Err(e) => return e,
            },
            _ if matches!(self.token(), "true" | "false" | "null") => self.token().to_owned(),
            _ => return self.invalid(format!("Token \"{}\" is invalid.", self.token())),
        };
        self.invalid(format!("Expected {what}, but found \"{found}\"."))
    }

    fn value(&mut self) -> Parsed<Node> {
        let first = self.peek();
        let start = self.at;
        let json = match first {
            Some(b'{') => self.nested(Parser::object)?,
            Some(b'[') => self.nested(Parser::array)?,
            Some(b'"') => Json::String(self.string()?),
            Some(b'-' | b'0'..=b'9') => Json::Number(self.number()?),
            _ => {
                let json = match self.token() {
                    "true" => Json::Bool(true),
                    "false" => Json::Bool(false),
                    "null" => Json::Null,
                    _ => return Err(self.expected("JSON value")),
                };
                self.at += self.token().len();
                json
            }
        };
        Ok(Node { span: start..self.at, json })
    }

    fn nested(&mut self, read: fn(&mut Self) -> Parsed<Json>) -> Parsed<Json> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(SqlError::new(SqlState::new("54001"), "stack depth limit exceeded")
                .detail(format!("JSON is nested at most {MAX_DEPTH} deep.")));
        }
        self.at += 1;
        let json = deeper(|| read(self))?;
        self.depth -= 1;
        Ok(json)
    }

    fn array(&mut self) -> Parsed<Json> {
        let mut items = Vec::new();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Json::Array(items));
        }
        loop {
            items.push(self.value()?);
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => break,
                _ => return Err(self.expected("\",\" or \"]\"")),
            }
        }
        self.at += 1;
        Ok(Json::Array(items))
    }

    fn object(&mut self) -> Parsed<Json> {
        let mut members = Vec::new();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Json::Object(members));
        }
        loop {
            if self.peek() != Some(b'"') {
                let what = if members.is_empty() { "string or \"}\"" } else { "string" };
                return Err(self.expected(what));
            }
            let name = self.string()?;
            if self.peek() != Some(b':') {
                return Err(self.expected("\":\""));
            }
            self.at += 1;
            members.push((name, self.value()?));
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => break,
                _ => return Err(self.expected("\",\" or \"}\"")),
            }
        }
        self.at += 1;
        Ok(Json::Object(members))
    }

    fn number(&mut self) -> Parsed<String> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        let digits = |at: usize| bytes[at..].iter().take_while(|b| b.is_ascii_digit()).count();
        let mut at = start + usize::from(bytes[start] == b'-');
        let whole = digits(at);
        let mut sound = whole == 1 || whole > 1 && bytes[at] != b'0';
        at += whole;
        if bytes.get(at) == Some(&b'.') {
            let fraction = digits(at + 1);
            sound &= fraction > 0;
            at += 1 + fraction;
        }
        if let Some(b'e' | b'E') = bytes.get(at) {
            at += 1 + usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
            let exponent = digits(at);
            sound &= exponent > 0;
            at += exponent;
        }
        let token = self.token();
        if !sound || start + token.len() != at {
            return Err(self.invalid(format!("Token \"{token}\" is invalid.")));
        }
        self.at = at;
        let text = &self.text[start..at];
        if self.binary { plain_number(text) } else { Ok(text.to_owned()) }
    }

    /// A string, from its first quote to behind its last.
    fn string(&mut self) -> Parsed<String> {
        let mut out = String::new();
        self.at += 1;
        loop {
            let rest = &self.text[self.at..];
            let Some(end) = rest.find(|c: char| matches!(c, '"' | '\\') || c < ' ') else {
                let token = format!("\"{out}{rest}");
                return Err(self.invalid(format!("Token \"{token}\" is invalid.")));
            };
            out.push_str(&rest[..end]);
            self.at += end + 1;
            match rest.as_bytes()[end] {
                b'"' => return Ok(out),
                b'\\' => out.push(self.escaped()?),
                control => {
                    return Err(self.invalid(format!(
                        "Character with value 0x{control:02x} must be escaped."
                    )));
                }
            }
        }
    }

    fn escaped(&mut self) -> Parsed<char> {
        let Some(c) = self.text[self.at..].chars().next() else {
            return Err(self.invalid("The input string ended unexpectedly.".to_owned()));
        };
        self.at += c.len_utf8();
        Ok(match c {
            '"' | '\\' | '/' => c,
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => return self.unicode(),
            _ => return Err(self.invalid(format!("Escape sequence \"\\{c}\" is invalid."))),
        })
    }

    fn hex(&mut self) -> Parsed<u32> {
        let digits = self.text.get(self.at..self.at + 4);
        let code = digits
            .filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()))
            .and_then(|d| u32::from_str_radix(d, 16).ok());
        self.at += 4;
        code.ok_or_else(|| {
            self.invalid("\"\\u\" must be followed by four hexadecimal digits.".to_owned())
        })
    }

    fn unicode(&mut self) -> Parsed<char> {
        let first = self.hex()?;
        let code = match first {
            0 if self.binary => {
                let state = SqlState::new("22P05");
                return Err(SqlError::new(state, "unsupported Unicode escape sequence")
                    .detail("\\u0000 cannot be converted to text."));
            }
            0xD800..=0xDBFF => {
                let low = match self.text[self.at..].starts_with("\\u") {
                    true => {
                        self.at += 2;
                        self.hex()?
                    }
                    false => 0,
                };
                if !(0xDC00..=0xDFFF).contains(&low) {
                    let detail = "Unicode low surrogate must follow a high surrogate.";
                    return Err(self.invalid(detail.to_owned()));
                }
                0x10000 + ((first - 0xD800) << 10) + (low - 0xDC00)
            }
            other => other,
        };
        char::from_u32(code).ok_or_else(|| {
            self.invalid("Unicode low surrogate must follow a high surrogate.".to_owned())
        })
    }
}

/// A number as numeric prints it: without exponent, and zero without a sign.
pub fn plain_number(text: &str) -> Result<String, SqlError> {
    let overflow =
        || SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value overflows numeric format");
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().map_err(|_| overflow())?),
        None => (text, 0),
    };
    let (negative, digits) = match mantissa.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, mantissa),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if exponent == 0 && !(negative && digits.bytes().all(|b| matches!(b, b'0' | b'.'))) {
        return Ok(text.split(['e', 'E']).next().unwrap_or(text).to_owned());
    }
    let all = format!("{whole}{fraction}");
    let point = whole.len() as i64 + exponent;
    if exponent.unsigned_abs() > (MAX_WHOLE_DIGITS + MAX_FRACTION_DIGITS) as u64
        || point > MAX_WHOLE_DIGITS as i64
        || all.len() as i64 - point > MAX_FRACTION_DIGITS as i64
    {
        return Err(overflow());
    }
    let (mut whole, fraction) = match usize::try_from(point) {
        Ok(point) if point >= all.len() => (format!("{all:0<point$}"), String::new()),
        Ok(point) => (all[..point].to_owned(), all[point..].to_owned()),
        Err(_) => (String::new(), format!("{}{all}", "0".repeat(point.unsigned_abs() as usize))),
    };
    whole = match whole.trim_start_matches('0') {
        "" => "0".to_owned(),
        digits => digits.to_owned(),
    };
    let zero = whole == "0" && fraction.bytes().all(|b| b == b'0');
    let sign = if negative && !zero { "-" } else { "" };
    let point = if fraction.is_empty() { "" } else { "." };
    Ok(format!("{sign}{whole}{point}{fraction}"))
}
