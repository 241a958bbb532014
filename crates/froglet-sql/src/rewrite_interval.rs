//! `interval '1' day` as a cast of its text to a type of these fields.

use datafusion::sql::sqlparser::ast::{self, DataType, DateTimeField, Expr, IntervalFields};

use crate::error::SqlError;

/// The cast.
pub(crate) fn cast(interval: ast::Interval) -> Result<Expr, SqlError> {
    let precision = interval.fractional_seconds_precision.or(interval.leading_precision);
    let fields = match (&interval.leading_field, &interval.last_field) {
        (None, _) => None,
        (Some(from), to) => Some(fields(from, to.as_ref().unwrap_or(from)).ok_or_else(|| {
            SqlError::new(
                froglet_engine::SqlState::SYNTAX_ERROR,
                format!("syntax error at or near \"{from}\""),
            )
        })?),
    };
    Ok(Expr::Cast {
        kind: ast::CastKind::DoubleColon,
        expr: interval.value,
        data_type: DataType::Interval { fields, precision },
        array: false,
        format: None,
    })
}

fn fields(from: &DateTimeField, to: &DateTimeField) -> Option<IntervalFields> {
    use DateTimeField as F;
    Some(match (from, to) {
        (F::Year, F::Year) => IntervalFields::Year,
        (F::Month, F::Month) => IntervalFields::Month,
        (F::Day, F::Day) => IntervalFields::Day,
        (F::Hour, F::Hour) => IntervalFields::Hour,
        (F::Minute, F::Minute) => IntervalFields::Minute,
        (F::Second, F::Second) => IntervalFields::Second,
        (F::Year, F::Month) => IntervalFields::YearToMonth,
        (F::Day, F::Hour) => IntervalFields::DayToHour,
        (F::Day, F::Minute) => IntervalFields::DayToMinute,
        (F::Day, F::Second) => IntervalFields::DayToSecond,
        (F::Hour, F::Minute) => IntervalFields::HourToMinute,
        (F::Hour, F::Second) => IntervalFields::HourToSecond,
        (F::Minute, F::Second) => IntervalFields::MinuteToSecond,
        _ => return None,
    })
}

/// A cast back to the keyword's form, in which DataFusion reads offsets of frames.
pub(crate) fn written(expr: &Expr) -> Option<Expr> {
    let Expr::Cast { expr, data_type: DataType::Interval { fields, .. }, .. } = expr else {
        return None;
    };
    let Expr::Value(value) = &**expr else { return None };
    let ast::Value::SingleQuotedString(text) = &value.value else { return None };
    let text = fields.as_ref().map_or_else(|| text.clone(), |field| format!("{text} {field}"));
    let value = Expr::Value(ast::Value::SingleQuotedString(text).with_empty_span());
    Some(Expr::Interval(ast::Interval {
        value: Box::new(value),
        leading_field: None,
        leading_precision: None,
        last_field: None,
        fractional_seconds_precision: None,
    }))
}
