//! Functions of intervals and times of day.

use std::sync::Arc;

use datafusion::logical_expr::ScalarUDF;
use froglet_engine::Interval;

use super::simple::{Out, Simple};
use crate::error::SqlError;
use crate::types::cell::Cell;
use crate::types::interval;
use crate::types::oids::INTERVAL;

/// The functions.
pub fn functions() -> Vec<Arc<ScalarUDF>> {
    vec![
        Simple::new("justify_hours", &[INTERVAL], INTERVAL, |_, cells| {
            of(cells, interval::justify_hours)
        })
        .build(),
        Simple::new("justify_days", &[INTERVAL], INTERVAL, |_, cells| {
            of(cells, interval::justify_days)
        })
        .build(),
        Simple::new("justify_interval", &[INTERVAL], INTERVAL, |_, cells| {
            of(cells, interval::justify)
        })
        .build(),
    ]
}

fn of(
    cells: &[Cell<'_>],
    change: fn(Interval) -> Result<Interval, SqlError>,
) -> Result<Out, SqlError> {
    match cells[0] {
        Cell::Interval(months, days, us) => {
            let changed = change(Interval { months, days, us })?;
            Ok(Out::Interval(changed.months, changed.days, changed.us))
        }
        _ => Ok(Out::Null),
    }
}
