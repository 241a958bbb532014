//! Floats as PostgreSQL prints them: the shortest digits that read back to the same value,
//! in positional notation from 1e-4 up to below the type's exponent limit.

use super::zone::Zone;

/// The decimal exponent from which float8 is printed with an exponent.
const LIMIT_64: i32 = 15;
/// The decimal exponent from which float4 is printed with an exponent.
const LIMIT_32: i32 = 6;

/// Appends a double precision.
pub fn write_f64(v: f64, out: &mut Vec<u8>) {
    if !special(v, out) {
        match digits(LIMIT_64) {
            None => write_shortest(&format!("{v:e}"), LIMIT_64, out),
            Some(digits) => write_rounded(v, digits, out),
        }
    }
}

/// Appends a real.
pub fn write_f32(v: f32, out: &mut Vec<u8>) {
    if !special(f64::from(v), out) {
        match digits(LIMIT_32) {
            None => write_shortest(&format!("{v:e}"), LIMIT_32, out),
            Some(digits) => write_rounded(v.into(), digits, out),
        }
    }
}

/// How many digits the session wants of a type that always has so many; `None`: all that tell a value from others.
fn digits(type_has: i32) -> Option<i32> {
    let extra = i32::from(Zone::current().style().float_digits);
    (extra <= 0).then(|| (type_has + extra).max(1))
}

/// As C's `%.*g`.
fn write_rounded(v: f64, digits: i32, out: &mut Vec<u8>) {
    let text = format!("{v:.*e}", (digits - 1) as usize);
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let mantissa = match mantissa.contains('.') {
        true => mantissa.trim_end_matches('0').trim_end_matches('.'),
        false => mantissa,
    };
    write_shortest(&format!("{mantissa}e{exponent}"), digits, out);
}

fn special(v: f64, out: &mut Vec<u8>) -> bool {
    let text: &[u8] = match v {
        _ if v.is_nan() => b"NaN",
        f64::INFINITY => b"Infinity",
        f64::NEG_INFINITY => b"-Infinity",
        _ => return false,
    };
    out.extend_from_slice(text);
    true
}

/// `scientific` is Rust's shortest form: `-1.2345e17`.
fn write_shortest(scientific: &str, limit: i32, out: &mut Vec<u8>) {
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let unsigned = match mantissa.strip_prefix('-') {
        Some(rest) => {
            out.push(b'-');
            rest
        }
        None => mantissa,
    };
    if !(-4..limit).contains(&exponent) {
        out.extend_from_slice(unsigned.as_bytes());
        let sign = if exponent < 0 { '-' } else { '+' };
        out.extend_from_slice(format!("e{sign}{:02}", exponent.abs()).as_bytes());
        return;
    }
    let digits: Vec<u8> = unsigned.bytes().filter(|b| *b != b'.').collect();
    if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.extend(std::iter::repeat_n(b'0', (-exponent - 1) as usize));
        out.extend_from_slice(&digits);
        return;
    }
    let whole = exponent as usize + 1;
    if digits.len() <= whole {
        out.extend_from_slice(&digits);
        out.extend(std::iter::repeat_n(b'0', whole - digits.len()));
    } else {
        out.extend_from_slice(&digits[..whole]);
        out.push(b'.');
        out.extend_from_slice(&digits[whole..]);
    }
}

/// Why a float could not be read.
#[derive(Debug, PartialEq, Eq)]
pub enum FloatError {
    /// Not a number.
    Syntax,
    /// Too large, or too small and not zero.
    Range,
}

/// Reads a float in PostgreSQL's spellings.
pub fn parse_f64(text: &str) -> Result<f64, FloatError> {
    let trimmed = text.trim_matches(|c: char| c.is_ascii_whitespace());
    let v: f64 = checked(trimmed)?;
    range(trimmed, v.is_infinite(), v == 0.0)?;
    Ok(v)
}

/// Reads a real in PostgreSQL's spellings.
pub fn parse_f32(text: &str) -> Result<f32, FloatError> {
    let trimmed = text.trim_matches(|c: char| c.is_ascii_whitespace());
    let v: f32 = checked(trimmed)?;
    range(trimmed, v.is_infinite(), v == 0.0)?;
    Ok(v)
}

fn checked<T: std::str::FromStr>(text: &str) -> Result<T, FloatError> {
    // Rust and PostgreSQL accept the same words (nan, inf, infinity, any case); only "+nan" is
    // Rust's alone.
    text.parse().map_err(|_| FloatError::Syntax)
}

fn range(text: &str, infinite: bool, zero: bool) -> Result<(), FloatError> {
    let word = text.trim_start_matches(['+', '-']);
    let says_infinity = word.to_ascii_lowercase().starts_with("inf");
    let mantissa = word.split(['e', 'E']).next().unwrap_or("");
    let says_zero = mantissa.bytes().all(|b| b == b'0' || b == b'.');
    if (infinite && !says_infinity) || (zero && !says_zero) {
        return Err(FloatError::Range);
    }
    Ok(())
}
