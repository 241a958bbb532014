//! pg_notify and what is listened to.

use std::sync::Arc;

use datafusion::logical_expr::ScalarUDF;

use super::VOID;
use super::simple::{Out, Simple, text};
use crate::types::oids::*;

/// The channels as an array: pg_listening_channels() is a set.
pub const LISTENING: &str = "froglet_listening_channels";

/// The functions.
pub fn functions() -> Vec<Arc<ScalarUDF>> {
    vec![
        Simple::new("pg_notify", &[TEXT, TEXT], VOID, |s, cells| {
            s.notify(text(cells, 0), text(cells, 1))?;
            Ok(Out::Text(String::new()))
        })
        .not_strict()
        .changing()
        .build(),
        Simple::new(LISTENING, &[], TEXT_ARRAY, |s, _| Ok(Out::Texts(s.listening_channels())))
            .volatile()
            .build(),
        Simple::new("pg_notification_queue_usage", &[], FLOAT8, |_, _| Ok(Out::Float(0.0)))
            .volatile()
            .build(),
    ]
}
