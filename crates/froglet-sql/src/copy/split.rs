//! Records out of bytes that arrive in pieces, in PostgreSQL's three formats.
//!
//! ```text
//!   text    a<TAB>b\n        \N is NULL, \t \n \\ … are escapes, \. ends the data
//!   csv     a,"b ""c"""\n    quoted fields may hold line ends; an empty unquoted field is NULL
//!   binary  PGCOPY\n\377\r\n\0 flags extension { count { length bytes } } -1
//! ```
//!
//! [`Splitter`] keeps what is not yet a whole record and hands out fields as ranges of one
//! scratch buffer, so that a million rows cost no allocation per field.

use std::ops::Range;

use froglet_engine::SqlState;

use super::options::{CopyOptions, Format, Header};
use crate::error::SqlError;

/// The longest record, so that a missing quote cannot eat the memory.
const MAX_RECORD_BYTES: usize = 256 << 20;
const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";

/// 22P04
pub(crate) fn bad(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, message)
}

/// A field: where it is in the scratch buffer, or NULL.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FieldRange {
    pub(crate) bytes: Option<Range<usize>>,
}

/// One record's fields.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) scratch: Vec<u8>,
    pub(crate) fields: Vec<FieldRange>,
}

impl Record {
    fn clear(&mut self) {
        self.scratch.clear();
        self.fields.clear();
    }

    /// The bytes of a field; `None` for NULL.
    pub(crate) fn field(&self, at: usize) -> Option<&[u8]> {
        self.fields[at].bytes.clone().map(|range| &self.scratch[range])
    }
}

/// Cuts arriving bytes into records.
pub(crate) struct Splitter {
    options: CopyOptions,
    buffer: Vec<u8>,
    /// Of `buffer`: consumed.
    start: usize,
    /// Of `buffer`: searched for the end of the record, and whether inside quotes there.
    searched: usize,
    in_quotes: bool,
    /// Lines (text, csv) or tuples (binary) begun so far.
    line: u64,
    /// Of `buffer`: the line of the record handed out last.
    current: Range<usize>,
    begun: bool,
    ended: bool,
    /// How many fields a binary tuple must have.
    columns: usize,
    /// The field of a binary tuple that could not be read.
    failed: Option<usize>,
    /// The record handed out last is the header.
    header: bool,
}

impl Splitter {
    pub(crate) fn new(options: CopyOptions, columns: usize) -> Splitter {
        Splitter {
            options,
            columns,
            failed: None,
            header: false,
            buffer: Vec::new(),
            start: 0,
            searched: 0,
            in_quotes: false,
            line: 0,
            current: 0..0,
            begun: false,
            ended: false,
        }
    }

    pub(crate) fn options(&self) -> &CopyOptions {
        &self.options
    }

    /// The number of the line on which the record handed out last ends, from 1.
    pub(crate) fn line(&self) -> u64 {
        self.line
    }

    /// Whether the binary format's header has yet to come.
    pub(crate) fn in_header(&self) -> bool {
        self.options.format == Format::Binary && !self.begun
    }

    /// Whether the record handed out last is the header, which is only where it is to be looked at.
    pub(crate) fn at_header(&self) -> bool {
        self.header
    }

    /// The field of a binary tuple that could not be read.
    pub(crate) fn failed_field(&self) -> Option<usize> {
        self.failed
    }

    /// That line, until more data is pushed.
    pub(crate) fn line_text(&self) -> &[u8] {
        &self.buffer[self.current.clone()]
    }

    pub(crate) fn push(&mut self, data: &[u8]) -> Result<(), SqlError> {
        self.current = 0..0;
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
        }
        if self.buffer.len() + data.len() > MAX_RECORD_BYTES {
            return Err(SqlError::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                format!(
                    "COPY record of line {} is longer than {MAX_RECORD_BYTES} bytes",
                    self.line + 1
                ),
            ));
        }
        self.buffer.extend_from_slice(data);
        Ok(())
    }

    /// The next whole record; false if more bytes are needed. At the end (`last`) what is left is
    /// a record, too.
    pub(crate) fn next(&mut self, record: &mut Record, last: bool) -> Result<bool, SqlError> {
        if self.ended {
            self.start = self.buffer.len();
            self.searched = self.start;
            return Ok(false);
        }
        match self.options.format {
            Format::Binary => self.next_binary(record, last),
            _ => self.next_line(record, last),
        }
    }

    fn next_line(&mut self, record: &mut Record, last: bool) -> Result<bool, SqlError> {
        loop {
            // Where nothing comes at all, a header that is to be looked at is an empty line.
            let missing = last && self.line == 0 && self.options.header == Header::Match;
            let end = self.buffer.len();
            let Some((end, next)) = self.line_end(last).or(missing.then_some((end, end))) else {
                return Ok(false);
            };
            let range = self.start..end;
            self.start = next;
            self.searched = next;
            let first = self.line == 0;
            self.line += 1;
            self.current = range.clone();
            let line = &self.buffer[range];
            if self.options.format == Format::Csv && !first {
                // Line ends within quotes; PostgreSQL does not know them yet in the first line.
                self.line += line.iter().filter(|byte| **byte == b'\n').count() as u64;
            }
            self.header = first && self.options.header == Header::Match;
            if first && self.options.header == Header::Yes {
                continue;
            }
            if line == b"\\." {
                self.ended = true;
                return Ok(false);
            }
            record.clear();
            if self.options.format == Format::Csv {
                split_csv(line, &self.options, record)?;
            } else {
                split_text(line, &self.options, record)?;
            }
            return Ok(true);
        }
    }

    /// Where the record at `start` ends, and where the next begins.
    fn line_end(&mut self, last: bool) -> Option<(usize, usize)> {
        let csv = self.options.format == Format::Csv;
        while self.searched < self.buffer.len() {
            let at = self.searched;
            let byte = self.buffer[at];
            if csv && byte == self.options.quote {
                self.in_quotes = !self.in_quotes;
            } else if csv && self.in_quotes && byte == self.options.escape {
                // An escape that is not the quote itself: the next byte is data.
                if at + 1 >= self.buffer.len() && !last {
                    return None;
                }
                self.searched += 1;
            } else if !csv && byte == b'\\' {
                if at + 1 >= self.buffer.len() && !last {
                    return None;
                }
                self.searched += 1;
            } else if byte == b'\n' && !self.in_quotes {
                let end = match at > self.start && self.buffer[at - 1] == b'\r' {
                    true => at - 1,
                    false => at,
                };
                return Some((end, at + 1));
            }
            self.searched += 1;
        }
        if last && self.start < self.buffer.len() {
            let mut end = self.buffer.len();
            if self.buffer[end - 1] == b'\r' {
                end -= 1;
            }
            return Some((end, self.buffer.len()));
        }
        None
    }

    fn next_binary(&mut self, record: &mut Record, last: bool) -> Result<bool, SqlError> {
        if !self.begun && !self.binary_header(last)? {
            return Ok(false);
        }
        let short = |last| match last {
            true => Err(bad("unexpected EOF in COPY data")),
            false => Ok(false),
        };
        let data = &self.buffer[self.start..];
        let Some(count) = read_i16(data, 0) else {
            return if data.is_empty() && last { Ok(false) } else { short(last) };
        };
        if count == -1 {
            self.ended = true;
            return Ok(false);
        }
        if usize::try_from(count) != Ok(self.columns) {
            return Err(bad(format!("row field count is {count}, expected {}", self.columns)));
        }
        record.clear();
        let mut at = 2;
        for field in 0..self.columns {
            self.failed = Some(field);
            let Some(length) = read_i32(data, at) else { return short(last) };
            at += 4;
            if length == -1 {
                record.fields.push(FieldRange { bytes: None });
                continue;
            }
            let Ok(length) = usize::try_from(length) else {
                return Err(bad("invalid field size"));
            };
            let Some(bytes) = data.get(at..at.saturating_add(length)) else { return short(last) };
            let begin = record.scratch.len();
            record.scratch.extend_from_slice(bytes);
            record.fields.push(FieldRange { bytes: Some(begin..record.scratch.len()) });
            at += length;
        }
        self.failed = None;
        self.start += at;
        self.searched = self.start;
        self.line += 1;
        Ok(true)
    }

    fn binary_header(&mut self, last: bool) -> Result<bool, SqlError> {
        let data = &self.buffer[self.start..];
        let known = data.len().min(SIGNATURE.len());
        if data[..known] != SIGNATURE[..known] {
            return Err(bad("COPY file signature not recognized"));
        }
        let header = (read_i32(data, SIGNATURE.len()), read_i32(data, SIGNATURE.len() + 4));
        let (Some(flags), Some(extension)) = header else {
            return if last {
                Err(bad("invalid COPY file header (missing flags)"))
            } else {
                Ok(false)
            };
        };
        if flags & !0xFFFF != 0 {
            return Err(bad("unrecognized critical flags in COPY file header"));
        }
        let Ok(extension) = usize::try_from(extension) else {
            return Err(bad("invalid COPY file header (wrong length)"));
        };
        let header = SIGNATURE.len() + 8 + extension;
        if data.len() < header {
            return if last {
                Err(bad("invalid COPY file header (wrong length)"))
            } else {
                Ok(false)
            };
        }
        self.start += header;
        self.searched = self.start;
        self.begun = true;
        Ok(true)
    }
}

fn read_i16(data: &[u8], at: usize) -> Option<i16> {
    Some(i16::from_be_bytes(data.get(at..at + 2)?.try_into().ok()?))
}

fn read_i32(data: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_be_bytes(data.get(at..at + 4)?.try_into().ok()?))
}

fn split_text(line: &[u8], options: &CopyOptions, record: &mut Record) -> Result<(), SqlError> {
    let mut at = 0;
    loop {
        let begin = record.scratch.len();
        let raw = at;
        while at < line.len() && line[at] != options.delimiter {
            if line[at] == b'\\' && at + 1 < line.len() {
                at = unescape(line, at + 1, &mut record.scratch);
            } else {
                record.scratch.push(line[at]);
                at += 1;
            }
        }
        let null = line[raw..at] == *options.null.as_bytes();
        let bytes = (!null).then_some(begin..record.scratch.len());
        record.fields.push(FieldRange { bytes });
        if at >= line.len() {
            return Ok(());
        }
        at += 1;
    }
}

/// Takes the escape whose letter is at `at`; where the text goes on.
fn unescape(line: &[u8], at: usize, out: &mut Vec<u8>) -> usize {
    let digits = |at: usize, radix: u32, most: usize| {
        let mut value: u32 = 0;
        let mut n = 0;
        while n < most
            && let Some(digit) = line.get(at + n).and_then(|b| char::from(*b).to_digit(radix))
        {
            value = value * radix + digit;
            n += 1;
        }
        ((value & 0xFF) as u8, n)
    };
    match line[at] {
        b'b' => out.push(8),
        b'f' => out.push(12),
        b'n' => out.push(b'\n'),
        b'r' => out.push(b'\r'),
        b't' => out.push(b'\t'),
        b'v' => out.push(11),
        b'0'..=b'7' => {
            let (byte, n) = digits(at, 8, 3);
            out.push(byte);
            return at + n;
        }
        b'x' => {
            let (byte, n) = digits(at + 1, 16, 2);
            if n > 0 {
                out.push(byte);
                return at + 1 + n;
            }
            out.push(b'x');
        }
        other => out.push(other),
    }
    at + 1
}

fn split_csv(line: &[u8], options: &CopyOptions, record: &mut Record) -> Result<(), SqlError> {
    let mut at = 0;
    loop {
        let begin = record.scratch.len();
        let mut quoted = false;
        let mut inside = false;
        while at < line.len() && (inside || line[at] != options.delimiter) {
            let byte = line[at];
            at += 1;
            if !inside && byte == options.quote {
                (inside, quoted) = (true, true);
            } else if inside
                && byte == options.escape
                && line
                    .get(at)
                    .is_some_and(|next| *next == options.quote || *next == options.escape)
            {
                record.scratch.push(line[at]);
                at += 1;
            } else if inside && byte == options.quote {
                inside = false;
            } else {
                record.scratch.push(byte);
            }
        }
        if inside {
            return Err(bad("unterminated CSV quoted field"));
        }
        let null = !quoted && record.scratch[begin..] == *options.null.as_bytes();
        let bytes = (!null).then_some(begin..record.scratch.len());
        record.fields.push(FieldRange { bytes });
        if at >= line.len() {
            return Ok(());
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(format: &str, header: bool) -> CopyOptions {
        let text = format!("(format {format}, header {header})");
        let text = if header { text } else { format!("(format {format})") };
        CopyOptions::of(&crate::copy::tests::parsed(&format!("copy t from stdin {text}"))).unwrap()
    }

    fn split(options: CopyOptions, pieces: &[&[u8]]) -> Vec<Vec<Option<String>>> {
        let mut splitter = Splitter::new(options, 2);
        let mut record = Record::default();
        let mut rows = Vec::new();
        let mut take = |splitter: &mut Splitter, last| {
            while splitter.next(&mut record, last).unwrap() {
                let fields = (0..record.fields.len())
                    .map(|i| record.field(i).map(|b| String::from_utf8_lossy(b).into_owned()))
                    .collect();
                rows.push(fields);
            }
        };
        for piece in pieces {
            splitter.push(piece).unwrap();
            take(&mut splitter, false);
        }
        take(&mut splitter, true);
        rows
    }

    fn row(fields: &[Option<&str>]) -> Vec<Option<String>> {
        fields.iter().map(|f| f.map(str::to_owned)).collect()
    }

    #[test]
    fn text_arrives_in_any_pieces() {
        let data = b"1\t\\N\tx\\ty\r\n2\t\\\\N\t\\x41\\101\n\\.\nignored\n";
        let options = options("text", false);
        let expected =
            vec![row(&[Some("1"), None, Some("x\ty")]), row(&[Some("2"), Some("\\N"), Some("AA")])];
        for size in 1..data.len() {
            let pieces: Vec<&[u8]> = data.chunks(size).collect();
            assert_eq!(split(options.clone(), &pieces), expected, "pieces of {size}");
        }
    }

    #[test]
    fn csv_quotes_hold_delimiters_line_ends_and_quotes() {
        let data = b"h1,h2,h3\na,\"b,\nc\",\"say \"\"hi\"\"\"\n,\"\",x";
        let options = options("csv", true);
        let expected = vec![
            row(&[Some("a"), Some("b,\nc"), Some("say \"hi\"")]),
            row(&[None, Some(""), Some("x")]),
        ];
        for size in 1..data.len() {
            let pieces: Vec<&[u8]> = data.chunks(size).collect();
            assert_eq!(split(options.clone(), &pieces), expected, "pieces of {size}");
        }
    }

    #[test]
    fn binary_tuples_end_with_the_trailer() {
        let mut data = SIGNATURE.to_vec();
        data.extend_from_slice(&[0; 8]);
        data.extend_from_slice(&2_i16.to_be_bytes());
        data.extend_from_slice(&1_i32.to_be_bytes());
        data.push(b'a');
        data.extend_from_slice(&(-1_i32).to_be_bytes());
        data.extend_from_slice(&(-1_i16).to_be_bytes());
        let options = options("binary", false);
        for size in 1..data.len() {
            let pieces: Vec<&[u8]> = data.chunks(size).collect();
            assert_eq!(split(options.clone(), &pieces), vec![row(&[Some("a"), None])]);
        }
        let mut splitter = Splitter::new(options, 2);
        splitter.push(b"not a copy").unwrap();
        assert!(splitter.next(&mut Record::default(), true).is_err());
    }
}
