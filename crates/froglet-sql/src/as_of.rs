//! `SET froglet.as_of`: statements that read the data of a time gone by, under the schema of that time.
//!
//! ```text
//!   SET froglet.as_of = '5min'                       so long ago, at the begin of each transaction
//!   SET froglet.as_of = '2026-11-22 08:00:00+00'     then
//!   SET froglet.as_of = ''                           the present again
//! ```
//!
//! What may be asked for, the server keeps for `froglet.retention` (froglet-txn, `past.rs`), to the tenth
//! of a second.

use std::time::{Duration, SystemTime};

use froglet_engine::SqlState;
use froglet_txn::Transaction;

use crate::database::Database;
use crate::error::SqlError;
use crate::settings::parse_time_ms;
use crate::types::Zone;
use crate::types::datetime::{parse_timestamp, write_timestamptz};

/// A time, or how long ago it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AsOf {
    Ago(Duration),
    /// Microseconds since 1970 UTC.
    At(i64),
}

impl AsOf {
    /// Reads a setting; `None` of an empty one.
    pub(crate) fn parse(text: &str, zone: Zone) -> Result<Option<AsOf>, SqlError> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(None);
        }
        let ago = text.strip_prefix('-').unwrap_or(text);
        // A number alone may be a date.
        let has_unit = ago.ends_with(|c: char| c.is_ascii_alphabetic());
        if has_unit
            && let Some(ms) = parse_time_ms(ago).or_else(|| parse_time_ms(&short_unit(ago)?))
        {
            return Ok(Some(AsOf::Ago(Duration::from_millis(ms))));
        }
        zone.run(|| parse_timestamp(text, true)).map(AsOf::At).map(Some).map_err(|e| {
            let hint = "It is a timestamp, or how long ago (\"30s\", \"5 minutes\"), or empty.";
            SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("invalid value for parameter \"froglet.as_of\": \"{text}\""),
            )
            .detail(e.message)
            .hint(hint)
        })
    }

    fn time(self) -> SystemTime {
        match self {
            AsOf::Ago(ago) => SystemTime::now().checked_sub(ago).unwrap_or(SystemTime::UNIX_EPOCH),
            AsOf::At(us) => {
                let us = u64::try_from(us).unwrap_or(0);
                let since = Duration::from_micros(us);
                SystemTime::UNIX_EPOCH.checked_add(since).unwrap_or(SystemTime::UNIX_EPOCH)
            }
        }
    }

    /// Makes a transaction that has read nothing yet read as of this.
    pub(crate) fn begin(self, db: &Database, txn: &mut Transaction) -> Result<(), SqlError> {
        let (time, past) = (self.time(), db.catalog().past());
        if time > SystemTime::now() {
            return Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("froglet.as_of is a time to come: {}", shown(time)),
            ));
        }
        let Some(view) = past.at(time, txn.id()) else {
            let error = SqlError::new(
                SqlState::SNAPSHOT_TOO_OLD,
                format!("what was at {} is not kept", shown(time)),
            );
            return Err(match past.oldest() {
                Some(oldest) => error.detail(format!("It is kept from {} on.", shown(oldest))),
                None => error.hint(
                    "The server keeps the past if it is started with --set froglet.retention=5min, say.",
                ),
            });
        };
        txn.stay_at(view);
        Ok(())
    }
}

/// `5 minutes` as `5min`.
fn short_unit(text: &str) -> Option<String> {
    let (number, unit) = text.split_once(' ')?;
    let unit = match unit.trim().trim_end_matches('s') {
        "millisecond" => "ms",
        "second" | "sec" => "s",
        "minute" => "min",
        "hour" => "h",
        "day" => "d",
        _ => return None,
    };
    Some(format!("{number}{unit}"))
}

fn shown(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let (us, mut text) = (i64::try_from(since.as_micros()).unwrap_or(i64::MAX), Vec::new());
    write_timestamptz(us, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_or_how_long_ago() {
        let parse = |text| AsOf::parse(text, Zone::UTC);
        let ago = |seconds| Some(AsOf::Ago(Duration::from_secs(seconds)));
        assert_eq!(parse("").unwrap(), None);
        assert_eq!(parse("30s").unwrap(), ago(30));
        assert_eq!(parse("-5min").unwrap(), ago(300));
        assert_eq!(parse(" 2 hours ").unwrap(), ago(7200));
        let at = parse("2026-11-22 08:00:00+01").unwrap();
        assert_eq!(at, Some(AsOf::At(1_795_330_800_000_000)));
        assert!(matches!(parse("20261122").unwrap(), Some(AsOf::At(_))));
        let error = parse("yesterday or so").unwrap_err();
        assert_eq!(error.state, SqlState::INVALID_PARAMETER_VALUE);
    }
}
