//! What can go wrong with exact numerics, in PostgreSQL's words.

use super::Modifier;

/// An error of exact numerics; nothing is worth a retry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NumericError {
    /// The text is no number.
    Syntax(String),
    /// A divisor is zero.
    DivisionByZero,
    /// More than 131072 digits before the point, or more than 16383 after it.
    Overflow,
    /// The number has too many digits for numeric(precision, scale).
    FieldOverflow(Modifier),
    /// An infinity for numeric(precision, scale).
    InfiniteField(Modifier),
    /// NaN for a decimal of Arrow's, which has none.
    NanField(Modifier),
    /// The number is beyond the integer type named.
    IntegerOutOfRange(&'static str),
    /// `value`, "NaN" or "infinity", has no counterpart in the integer type `target`.
    NoInteger {
        /// What was to be converted.
        value: &'static str,
        /// The integer type's SQL name.
        target: &'static str,
    },
    /// The number is beyond the binary floating-point type `target`.
    FloatOutOfRange {
        /// The number.
        text: String,
        /// The type's SQL name.
        target: &'static str,
    },
    /// ln, log of zero.
    LogarithmOfZero,
    /// ln, log of less than zero.
    LogarithmOfNegative,
    /// sqrt of less than zero.
    SquareRootOfNegative,
    /// power(0, less than zero).
    ZeroToNegativePower,
    /// power(less than zero, not an integer).
    ComplexPower,
    /// factorial of less than zero.
    FactorialOfNegative,
    /// An argument that width_bucket has no answer for; the message.
    WidthBucket(&'static str),
    /// Bytes of a client that end before the numeric does.
    Short,
    /// Bytes of a client that are no numeric in PostgreSQL's binary format; the message.
    Binary(&'static str),
    /// Stored bytes that are no exact numeric.
    Corrupt,
}

impl NumericError {
    /// The five characters of the SQLSTATE.
    pub fn sqlstate(&self) -> &'static str {
        match self {
            Self::Syntax(_) => "22P02",
            Self::DivisionByZero => "22012",
            Self::Overflow
            | Self::FieldOverflow(_)
            | Self::InfiniteField(_)
            | Self::IntegerOutOfRange(_)
            | Self::FloatOutOfRange { .. }
            | Self::FactorialOfNegative => "22003",
            Self::NoInteger { .. } | Self::NanField(_) => "0A000",
            Self::LogarithmOfZero | Self::LogarithmOfNegative => "2201E",
            Self::SquareRootOfNegative | Self::ZeroToNegativePower | Self::ComplexPower => "2201F",
            Self::WidthBucket(_) => "2201G",
            Self::Short => "08P01",
            Self::Binary(_) => "22P03",
            Self::Corrupt => "XX001",
        }
    }

    /// PostgreSQL's message.
    pub fn message(&self) -> String {
        let text = match self {
            Self::Syntax(text) => {
                return format!("invalid input syntax for type numeric: \"{text}\"");
            }
            Self::IntegerOutOfRange(target) => return format!("{target} out of range"),
            Self::NoInteger { value, target } => {
                return format!("cannot convert {value} to {target}");
            }
            Self::FloatOutOfRange { text, target } => {
                return format!("\"{text}\" is out of range for type {target}");
            }
            Self::NanField(Modifier { precision, scale }) => {
                return format!("cannot convert NaN to a decimal({precision},{scale})");
            }
            Self::DivisionByZero => "division by zero",
            Self::Overflow => "value overflows numeric format",
            Self::FieldOverflow(_) | Self::InfiniteField(_) => "numeric field overflow",
            Self::LogarithmOfZero => "cannot take logarithm of zero",
            Self::LogarithmOfNegative => "cannot take logarithm of a negative number",
            Self::SquareRootOfNegative => "cannot take square root of a negative number",
            Self::ZeroToNegativePower => "zero raised to a negative power is undefined",
            Self::ComplexPower => {
                "a negative number raised to a non-integer power yields a complex result"
            }
            Self::FactorialOfNegative => "factorial of a negative number is undefined",
            Self::WidthBucket(message) | Self::Binary(message) => message,
            Self::Short => "insufficient data left in message",
            Self::Corrupt => "stored numeric is damaged",
        };
        text.to_owned()
    }

    /// PostgreSQL's detail, if it gives one.
    pub fn detail(&self) -> Option<String> {
        match self {
            Self::FieldOverflow(Modifier { precision, scale }) => {
                let bound = match precision - scale {
                    0 => "1".to_owned(),
                    whole => format!("10^{whole}"),
                };
                Some(format!(
                    "A field with precision {precision}, scale {scale} must round to an absolute value less than {bound}."
                ))
            }
            Self::InfiniteField(Modifier { precision, scale }) => Some(format!(
                "A field with precision {precision}, scale {scale} cannot hold an infinite value."
            )),
            _ => None,
        }
    }
}

impl std::fmt::Display for NumericError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message())
    }
}

impl std::error::Error for NumericError {}
