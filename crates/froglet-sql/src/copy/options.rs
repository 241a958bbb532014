//! COPY's options: which of them each format has, and what they mean.
//!
//! | format | options beside FORMAT and FREEZE |
//! |---|---|
//! | text | DELIMITER, NULL, HEADER, ENCODING |
//! | csv | those, QUOTE, ESCAPE, FORCE_QUOTE, FORCE_NOT_NULL, FORCE_NULL |
//! | binary | ENCODING |
//! | parquet | COMPRESSION (zstd, snappy, none), ROW_GROUP_SIZE in rows |
//! | arrow | COMPRESSION (none, lz4, zstd) |
//!
//! The first three are PostgreSQL's, with its defaults and complaints. Without FORMAT a file's name decides.

use froglet_engine::SqlState;
use froglet_schema::TableDef;

use super::parse::{Argument, Copy, End, GivenOption};
use crate::bulk::twice;
use crate::error::SqlError;

/// How the data is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Csv,
    Binary,
    Parquet,
    Arrow,
}

/// What the first line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    No,
    Yes,
    /// Names that must be those of the columns.
    Match,
}

/// How a columnar file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Codec {
    None,
    Snappy,
    Lz4,
    Zstd,
}

/// COPY's options.
#[derive(Clone, Debug)]
pub(crate) struct CopyOptions {
    pub(crate) format: Format,
    pub(crate) delimiter: u8,
    pub(crate) null: String,
    pub(crate) header: Header,
    pub(crate) quote: u8,
    pub(crate) escape: u8,
    pub(crate) force_quote: Columns,
    pub(crate) force_not_null: Columns,
    pub(crate) force_null: Columns,
    pub(crate) codec: Codec,
    pub(crate) row_group_rows: usize,
}

/// Columns that an option is about.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Columns {
    All,
    Named(Vec<String>),
}

impl Columns {
    pub(crate) fn has(&self, name: &str) -> bool {
        match self {
            Columns::All => true,
            Columns::Named(names) => names.iter().any(|known| known == name),
        }
    }

    fn is_none(&self) -> bool {
        matches!(self, Columns::Named(names) if names.is_empty())
    }

    /// Whether all of them are copied: `copied` are, of the columns of a table that may have more.
    /// `option` is named where not.
    pub(crate) fn check<'a>(
        &self,
        option: &str,
        table: Option<&TableDef>,
        copied: impl Iterator<Item = &'a str> + Clone,
    ) -> Result<(), SqlError> {
        let Columns::Named(names) = self else { return Ok(()) };
        for (at, name) in names.iter().enumerate() {
            if names[..at].contains(name) {
                return Err(twice(name));
            }
            if copied.clone().any(|copied| copied == name) {
                continue;
            }
            let known = table.is_some_and(|table| table.columns.iter().any(|c| c.name == *name));
            let of =
                table.map_or(String::new(), |table| format!(" of relation \"{}\"", table.name));
            let (state, message) = match known {
                true => (
                    SqlState::INVALID_COLUMN_REFERENCE,
                    format!("{option} column \"{name}\" not referenced by COPY"),
                ),
                false => {
                    (SqlState::UNDEFINED_COLUMN, format!("column \"{name}\"{of} does not exist"))
                }
            };
            return Err(SqlError::new(state, message));
        }
        Ok(())
    }
}

impl Default for Columns {
    fn default() -> Columns {
        Columns::Named(Vec::new())
    }
}

/// Rows of a row group at most, where nobody says how many.
const ROW_GROUP_ROWS: usize = 1 << 20;
const ROW_GROUP_ROWS_MAX: usize = 1 << 24;

impl Format {
    const ALL: [Format; 5] =
        [Format::Text, Format::Csv, Format::Binary, Format::Parquet, Format::Arrow];

    fn name(self) -> &'static str {
        match self {
            Format::Text => "text",
            Format::Csv => "csv",
            Format::Binary => "binary",
            Format::Parquet => "parquet",
            Format::Arrow => "arrow",
        }
    }

    fn options(self) -> &'static [&'static str] {
        match self {
            Format::Text => &["format", "freeze", "delimiter", "null", "header", "encoding"],
            Format::Csv => &[
                "format",
                "freeze",
                "delimiter",
                "null",
                "header",
                "encoding",
                "quote",
                "escape",
                "force_quote",
                "force_not_null",
                "force_null",
            ],
            Format::Binary => &["format", "freeze", "encoding"],
            Format::Parquet => &["format", "freeze", "compression", "row_group_size"],
            Format::Arrow => &["format", "freeze", "compression"],
        }
    }

    fn of_file(name: &str) -> Format {
        let extension = name.rsplit('/').next().and_then(|base| base.rsplit_once('.'));
        match extension.map_or("", |(_, e)| e).to_ascii_lowercase().as_str() {
            "parquet" => Format::Parquet,
            "arrow" | "feather" | "ipc" => Format::Arrow,
            "csv" => Format::Csv,
            _ => Format::Text,
        }
    }

    /// Whether it is lines or tuples, PostgreSQL's own.
    pub(crate) fn is_of_rows(self) -> bool {
        matches!(self, Format::Text | Format::Csv | Format::Binary)
    }

    fn parse(name: &str) -> Result<Format, SqlError> {
        Format::ALL.into_iter().find(|format| format.name() == name).ok_or_else(|| {
            let known = Format::ALL.map(Format::name).join(", ");
            invalid(format!("COPY format \"{name}\" not recognized"))
                .hint(format!("Known formats are {known}."))
        })
    }
}

impl CopyOptions {
    /// The options of a statement.
    pub(crate) fn of(copy: &Copy) -> Result<CopyOptions, SqlError> {
        let mut format = match &copy.end {
            End::File(name) => Format::of_file(name),
            End::Client | End::Program => Format::Text,
        };
        for (at, given) in copy.options.iter().enumerate() {
            if copy.options[..at].iter().any(|before| before.name == given.name) {
                return Err(syntax("conflicting or redundant options"));
            }
            if given.name == "format" {
                format = Format::parse(given.text()?)?;
            }
        }
        if !format.is_of_rows() && !matches!(copy.end, End::File(_)) {
            let name = format.name();
            return Err(SqlError::unsupported(format!("COPY of format {name} through the client"))
                .hint("Name a file of the server, as in COPY t TO 'file.parquet'."));
        }
        let mut values = Values::default();
        for given in &copy.options {
            if !format.options().contains(&given.name.as_str()) {
                return Err(not_an_option(format, &given.name));
            }
            values.take(format, given)?;
        }
        values.check_direction(copy.to)?;
        values.finish(format, copy.to)
    }
}

fn not_an_option(format: Format, name: &str) -> SqlError {
    if let Some(e) = format.is_of_rows().then(|| not_an_option_of_rows(format, name)).flatten() {
        return e;
    }
    let known = format.options().join(", ").to_ascii_uppercase();
    let message = match Format::ALL.iter().any(|other| other.options().contains(&name)) {
        true => format!("COPY format {} has no option \"{name}\"", format.name()),
        false => format!("option \"{name}\" not recognized"),
    };
    syntax(message).hint(format!("Options of COPY in format {} are {known}.", format.name()))
}

/// In PostgreSQL's words, for what PostgreSQL has.
fn not_an_option_of_rows(format: Format, name: &str) -> Option<SqlError> {
    let message = match name {
        "quote" | "escape" | "force_quote" | "force_not_null" | "force_null" => {
            format!("COPY {} available only in CSV mode", name.replace('_', " "))
        }
        "header" if format == Format::Binary => "cannot specify HEADER in BINARY mode".to_owned(),
        "delimiter" | "null" if format == Format::Binary => {
            let name = name.to_ascii_uppercase();
            return Some(syntax(format!("cannot specify {name} in BINARY mode")));
        }
        _ => return None,
    };
    Some(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
}

/// What the statement says, before defaults.
#[derive(Default)]
struct Values {
    delimiter: Option<u8>,
    null: Option<String>,
    header: Option<Header>,
    quote: Option<u8>,
    escape: Option<u8>,
    force_quote: Columns,
    force_not_null: Columns,
    force_null: Columns,
    codec: Option<Codec>,
    row_group_rows: Option<usize>,
}

impl Values {
    fn take(&mut self, format: Format, given: &GivenOption) -> Result<(), SqlError> {
        match given.name.as_str() {
            "freeze" => drop(given.boolean()?),
            "delimiter" => self.delimiter = Some(given.byte()?),
            "null" => self.null = Some(given.text()?.to_owned()),
            "header" => {
                self.header = Some(match given.text() {
                    Ok(word) if word.eq_ignore_ascii_case("match") => Header::Match,
                    _ if given.boolean()? => Header::Yes,
                    _ => Header::No,
                });
            }
            "quote" => self.quote = Some(given.byte()?),
            "escape" => self.escape = Some(given.byte()?),
            "force_quote" => self.force_quote = given.columns()?,
            "force_not_null" => self.force_not_null = given.named_columns()?,
            "force_null" => self.force_null = given.named_columns()?,
            "encoding" => {
                let name = given.text()?;
                if !["utf8", "utf-8", "unicode"].contains(&name.to_ascii_lowercase().as_str()) {
                    return Err(SqlError::unsupported(format!("encoding {name}")));
                }
            }
            "compression" => self.codec = Some(codec(format, given.text()?)?),
            "row_group_size" => {
                let text = given.text()?;
                let rows = text.parse().ok().filter(|n| (1..=ROW_GROUP_ROWS_MAX).contains(n));
                self.row_group_rows = Some(rows.ok_or_else(|| {
                    invalid(format!(
                        "ROW_GROUP_SIZE is {text}, and must be between 1 and {ROW_GROUP_ROWS_MAX} rows"
                    ))
                })?);
            }
            _ => {}
        }
        Ok(())
    }

    fn check_direction(&self, to: bool) -> Result<(), SqlError> {
        let wrong = match to {
            false if !self.force_quote.is_none() => "force quote only available using COPY TO",
            true if !self.force_not_null.is_none() => {
                "force not null only available using COPY FROM"
            }
            true if !self.force_null.is_none() => "force null only available using COPY FROM",
            _ => return Ok(()),
        };
        Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("COPY {wrong}")))
    }

    fn finish(self, format: Format, to: bool) -> Result<CopyOptions, SqlError> {
        let csv = format == Format::Csv;
        let quote = self.quote.unwrap_or(b'"');
        let delimiter = self.delimiter.unwrap_or(if csv { b',' } else { b'\t' });
        if matches!(delimiter, b'\n' | b'\r') {
            return Err(invalid("COPY delimiter cannot be newline or carriage return"));
        }
        // What may stand behind a backslash, or makes `\.` a row.
        if format == Format::Text && matches!(delimiter, b'\\' | b'.' | b'a'..=b'z' | b'0'..=b'9') {
            let delimiter = char::from(delimiter);
            return Err(invalid(format!("COPY delimiter cannot be \"{delimiter}\"")));
        }
        if csv && delimiter == quote {
            return Err(invalid("COPY delimiter and quote must be different"));
        }
        let null = self.null.unwrap_or_else(|| if csv { "" } else { "\\N" }.to_owned());
        if null.contains(['\n', '\r']) {
            return Err(invalid("COPY null representation cannot use newline or carriage return"));
        }
        let in_null = |what| {
            let message = format!("{what} must not appear in the NULL specification");
            SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
        };
        if null.as_bytes().contains(&delimiter) {
            return Err(in_null("COPY delimiter"));
        }
        if csv && null.as_bytes().contains(&quote) {
            return Err(in_null("CSV quote character"));
        }
        let header = self.header.unwrap_or(Header::No);
        if to && header == Header::Match {
            let what = "cannot use \"match\" with HEADER in COPY TO";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, what));
        }
        let codec = match format {
            Format::Parquet => Codec::Zstd,
            _ => Codec::None,
        };
        Ok(CopyOptions {
            format,
            delimiter,
            null,
            header,
            quote,
            escape: self.escape.unwrap_or(quote),
            force_quote: self.force_quote,
            force_not_null: self.force_not_null,
            force_null: self.force_null,
            codec: self.codec.unwrap_or(codec),
            row_group_rows: self.row_group_rows.unwrap_or(ROW_GROUP_ROWS),
        })
    }
}

fn codec(format: Format, name: &str) -> Result<Codec, SqlError> {
    let known: &[(&str, Codec)] = match format {
        Format::Parquet => {
            &[("zstd", Codec::Zstd), ("snappy", Codec::Snappy), ("none", Codec::None)]
        }
        _ => &[("none", Codec::None), ("lz4", Codec::Lz4), ("zstd", Codec::Zstd)],
    };
    let found = known.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map(|(_, codec)| *codec).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(known, _)| *known).collect();
        invalid(format!("COPY compression \"{name}\" not recognized")).hint(format!(
            "Format {} has {}.",
            format.name(),
            names.join(", ")
        ))
    })
}

impl GivenOption {
    fn text(&self) -> Result<&str, SqlError> {
        match &self.value {
            Argument::Text(text) => Ok(text),
            _ => Err(syntax(format!("COPY option \"{}\" requires a parameter", self.name))),
        }
    }

    fn boolean(&self) -> Result<bool, SqlError> {
        let Argument::Text(text) = &self.value else {
            let alone = self.value == Argument::Nothing;
            return if alone { Ok(true) } else { Err(self.not_boolean()) };
        };
        match text.to_ascii_lowercase().as_str() {
            "true" | "on" | "1" => Ok(true),
            "false" | "off" | "0" => Ok(false),
            _ => Err(self.not_boolean()),
        }
    }

    fn not_boolean(&self) -> SqlError {
        syntax(format!("{} requires a Boolean value", self.name))
    }

    fn byte(&self) -> Result<u8, SqlError> {
        match self.text()?.as_bytes() {
            [byte] if byte.is_ascii() => Ok(*byte),
            _ => {
                let message = format!("COPY {} must be a single one-byte character", self.name);
                Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
            }
        }
    }

    fn columns(&self) -> Result<Columns, SqlError> {
        match &self.value {
            Argument::Star => Ok(Columns::All),
            Argument::Names(names) => Ok(Columns::Named(names.clone())),
            _ => Err(self.no_names()),
        }
    }

    fn named_columns(&self) -> Result<Columns, SqlError> {
        match self.value {
            Argument::Star => Err(self.no_names()),
            _ => self.columns(),
        }
    }

    fn no_names(&self) -> SqlError {
        let name = &self.name;
        invalid(format!("argument to option \"{name}\" must be a list of column names"))
    }
}

fn syntax(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, message)
}

fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}
