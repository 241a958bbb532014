//! Sizes as people read them.

use super::decimal::exact;
use super::overload::Overload;
use super::simple::{Out, int};
use crate::error::SqlError;
use crate::types::exact::Exact;
use crate::types::oids::{INT8, NUMERIC, TEXT};

/// The functions.
pub static ALL: &[Overload] = &[
    Overload::new("pg_size_pretty", &[INT8], TEXT, |_, c| {
        Ok(int(c, 0).map(|bytes| pretty(bytes.into(), None)).into())
    }),
    Overload::new("pg_size_pretty", &[NUMERIC], TEXT, |_, c| {
        let size = exact(c, 0);
        let mut text = Vec::new();
        size.write(&mut text);
        let text = String::from_utf8_lossy(&text).into_owned();
        let whole = text.split('.').next().and_then(|digits| digits.parse().ok());
        let whole = whole.filter(|_| size.is_finite());
        let too_large = || SqlError::unsupported("pg_size_pretty of a number of this size");
        Ok(Out::Text(pretty(
            whole.ok_or_else(too_large)?,
            Some(text.as_str()).filter(|_| is_small(&size)),
        )))
    }),
];

fn is_small(size: &Exact) -> bool {
    let limit = Exact::from(10 * 1024_i64);
    *size < limit && size.neg() < limit
}

/// Of bytes, which are shown with their digits after the point if they are few. Each unit is rounded half away from
/// zero, from twice as many as there are of it.
fn pretty(bytes: i128, digits: Option<&str>) -> String {
    if let Some(digits) = digits {
        return format!("{digits} bytes");
    }
    if bytes.abs() < 10 * 1024 {
        return format!("{bytes} bytes");
    }
    let units = ["kB", "MB", "GB", "TB", "PB"];
    let mut halves = bytes / 512;
    for (at, unit) in units.iter().enumerate() {
        if halves.abs() < 20 * 1024 - 1 || at + 1 == units.len() {
            return format!("{} {unit}", (halves + halves.signum()) / 2);
        }
        halves /= 1024;
    }
    unreachable!("the last unit takes all")
}
