//! Intervals, which only results have: months, days and a time.

use super::datetime::write_fraction;

/// Appends an interval in PostgreSQL's default style: `1 year 2 mons 3 days 04:05:06.789`.
pub fn write(months: i32, days: i32, us: i64, out: &mut Vec<u8>) {
    let mut text = String::new();
    let mut negative_before = false;
    let mut part = |n: i64, unit: &str| {
        if n == 0 {
            return;
        }
        if !text.is_empty() {
            text.push(' ');
        }
        let plus = if negative_before && n > 0 { "+" } else { "" };
        negative_before = n < 0;
        let plural = if n == 1 { "" } else { "s" };
        text.push_str(&format!("{plus}{n} {unit}{plural}"));
    };
    part(i64::from(months / 12), "year");
    part(i64::from(months % 12), "mon");
    part(i64::from(days), "day");
    let empty = text.is_empty();
    out.extend_from_slice(text.as_bytes());
    if us == 0 && !empty {
        return;
    }
    if !empty {
        out.push(b' ');
    }
    if us < 0 {
        out.push(b'-');
    } else if negative_before {
        out.push(b'+');
    }
    let seconds = us.unsigned_abs() / 1_000_000;
    let clock = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    out.extend_from_slice(clock.as_bytes());
    write_fraction((us.unsigned_abs() % 1_000_000) as i64, out);
}
