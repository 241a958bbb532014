//! How a session writes and reads dates, intervals and floating-point numbers: DateStyle's order, IntervalStyle,
//! extra_float_digits. It goes along with the session's time zone ([`super::zone`]), to wherever that is needed.

use froglet_engine::SqlState;

use crate::error::SqlError;

/// In which order the parts of a date such as `1/2/03` stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DateOrder {
    /// Month, day, year.
    #[default]
    Mdy,
    /// Day, month, year.
    Dmy,
    /// Year, month, day.
    Ymd,
}

/// What intervals look like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IntervalStyle {
    /// `1 year 2 mons -3 days 04:05:06`
    #[default]
    Postgres,
    /// `@ 1 year 2 mons -3 days 4 hours 5 mins 6 secs`
    PostgresVerbose,
    /// `+1-2 -3 +4:05:06`
    SqlStandard,
    /// `P1Y2M-3DT4H5M6S`
    Iso8601,
}

/// All of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// DateStyle
    pub order: DateOrder,
    /// IntervalStyle
    pub intervals: IntervalStyle,
    /// extra_float_digits: the shortest exact digits if it is above 0, else so many fewer than the type has.
    pub float_digits: i8,
}

impl Style {
    /// The defaults, which are those of everything that is stored.
    pub const DEFAULT: Style =
        Style { order: DateOrder::Mdy, intervals: IntervalStyle::Postgres, float_digits: 1 };

    /// Of the values of the three settings.
    pub fn of(date_style: &str, interval_style: &str, extra_float_digits: &str) -> Style {
        Style {
            order: match date_style.rsplit(' ').next() {
                Some("DMY") => DateOrder::Dmy,
                Some("YMD") => DateOrder::Ymd,
                _ => DateOrder::Mdy,
            },
            intervals: match interval_style {
                "postgres_verbose" => IntervalStyle::PostgresVerbose,
                "sql_standard" => IntervalStyle::SqlStandard,
                "iso_8601" => IntervalStyle::Iso8601,
                _ => IntervalStyle::Postgres,
            },
            float_digits: extra_float_digits.parse().unwrap_or(1),
        }
    }
}

/// The values that IntervalStyle takes.
pub const INTERVAL_STYLES: &[&str] = &["postgres", "postgres_verbose", "sql_standard", "iso_8601"];

/// DateStyle's value as it is kept. What is not said is as it was, or follows from what is.
pub fn date_style(value: &str, now: &str) -> Result<String, SqlError> {
    let invalid = |detail: &str| {
        let message = format!("invalid value for parameter \"DateStyle\": \"{value}\"");
        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message).detail(detail.to_owned())
    };
    let (mut style, mut order): (Option<&str>, Option<&str>) = (None, None);
    for part in value.split(',') {
        let word = part.trim().trim_matches('"').to_ascii_lowercase();
        let (slot, meant) = match word.as_str() {
            "iso" => (&mut style, "ISO"),
            "sql" => (&mut style, "SQL"),
            word if word.starts_with("postgres") => (&mut style, "Postgres"),
            "german" => (&mut style, "German"),
            "ymd" => (&mut order, "YMD"),
            "dmy" => (&mut order, "DMY"),
            "mdy" | "us" => (&mut order, "MDY"),
            word if word.starts_with("euro") => (&mut order, "DMY"),
            word if word.starts_with("noneuro") => (&mut order, "MDY"),
            "default" => {
                style.get_or_insert("ISO");
                order.get_or_insert("MDY");
                continue;
            }
            _ => return Err(invalid(&format!("Unrecognized key word: \"{}\".", part.trim()))),
        };
        if slot.is_some_and(|before| before != meant) {
            return Err(invalid("Conflicting \"datestyle\" specifications."));
        }
        *slot = Some(meant);
    }
    match style {
        None | Some("ISO") => {
            let before = now.rsplit(' ').next().unwrap_or("MDY");
            Ok(format!("ISO, {}", order.unwrap_or(before)))
        }
        Some(other) => Err(SqlError::unsupported(format!("DateStyle {other}"))
            .hint("Dates are shown in the style ISO; the order in which they are read may be MDY, DMY or YMD.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn date_styles() {
        let of = |value| date_style(value, "ISO, DMY").map_err(|e| e.state.to_string());
        assert_eq!(of("iso").as_deref(), Ok("ISO, DMY"));
        assert_eq!(of("MDY").as_deref(), Ok("ISO, MDY"));
        assert_eq!(of(" ISO , european").as_deref(), Ok("ISO, DMY"));
        assert_eq!(of("ymd, iso").as_deref(), Ok("ISO, YMD"));
        assert_eq!(of("default").as_deref(), Ok("ISO, MDY"));
        assert_eq!(of("DMY, MDY"), Err("22023".to_owned()));
        assert_eq!(of("yesterday"), Err("22023".to_owned()));
        assert_eq!(of("German"), Err("0A000".to_owned()));
        assert_eq!(of("SQL, DMY"), Err("0A000".to_owned()));
    }
}
