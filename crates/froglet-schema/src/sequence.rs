//! Sequences: values given outside transactions, never twice.
//!
//! A sequence's state is a note in the log, under its object id. As PostgreSQL does, the note runs
//! ahead: it is written once for every [`AHEAD`] values, so a crash may skip some and repeats none.
//! S1: a value is given only below the logged mark, and the mark is in the log before any commit
//!     record of a transaction that was given the value.
//! S2: whoever is given a value, or told where a sequence stands, is told so when the mark is durable: the position
//!     of its note comes with every value below it.

use std::collections::HashMap;
use std::sync::Arc;

use froglet_engine::{Engine, Lsn, SqlState};
use parking_lot::Mutex;

use crate::def::{ObjectId, SequenceDef};
use crate::error::SchemaError;

/// Values logged ahead.
const AHEAD: i64 = 32;

#[derive(Clone, Copy, Default)]
struct State {
    /// The last value given; `None` before the first.
    last: Option<i64>,
    /// Values that may still be given before the next note.
    logged_ahead: i64,
    /// setval(…, false): `next` is given next.
    next: Option<i64>,
    /// Where the newest note is durable.
    noted: Lsn,
}

/// Where a sequence stands.
#[derive(Clone, Copy, Debug)]
pub struct SequenceState {
    /// PostgreSQL's `last_value`.
    pub value: i64,
    /// PostgreSQL's `is_called`.
    pub is_called: bool,
    /// Where the log must be durable before anybody is told [S2].
    pub noted: Lsn,
}

/// The sequences of one database.
pub struct Sequences {
    engine: Arc<dyn Engine>,
    states: Mutex<HashMap<ObjectId, State>>,
}

impl Sequences {
    /// With the notes that recovery found.
    pub fn recover(engine: Arc<dyn Engine>) -> Sequences {
        let mut states = HashMap::new();
        for (key, value) in engine.notes() {
            if let (Ok(id), Ok(bytes)) = (ObjectId::try_from(key), <[u8; 9]>::try_from(&value[..]))
            {
                let value = i64::from_le_bytes(bytes[..8].try_into().expect("eight of nine bytes"));
                let called = bytes[8] != 0;
                let state = State {
                    last: called.then_some(value),
                    next: (!called).then_some(value),
                    logged_ahead: 0,
                    noted: Lsn(0),
                };
                states.insert(id, state);
            }
        }
        Sequences { engine, states: Mutex::new(states) }
    }

    fn note(&self, id: ObjectId, value: i64, called: bool) -> Result<Lsn, SchemaError> {
        let mut bytes = [0; 9];
        bytes[..8].copy_from_slice(&value.to_le_bytes());
        bytes[8] = u8::from(called);
        Ok(self.engine.put_note(u64::from(id), &bytes)?)
    }

    /// nextval, and where the log must be durable before anybody is told of the value [S2].
    pub fn next(&self, def: &SequenceDef) -> Result<(i64, Lsn), SchemaError> {
        let mut states = self.states.lock();
        let state = states.entry(def.id).or_default();
        let value = match (state.next, state.last) {
            (Some(next), _) => next,
            (None, None) => def.start,
            (None, Some(last)) => step(def, last)?,
        };
        if state.logged_ahead == 0 {
            let mut mark = value;
            let mut ahead = 0;
            while ahead < AHEAD {
                match step(def, mark) {
                    Ok(next) if !def.cycle => mark = next,
                    _ => break,
                }
                ahead += 1;
            }
            state.noted = self.note(def.id, mark, true)?;
            state.logged_ahead = ahead + 1;
        }
        state.logged_ahead -= 1;
        state.last = Some(value);
        state.next = None;
        Ok((value, state.noted))
    }

    /// setval; where it is durable.
    pub fn set(&self, def: &SequenceDef, value: i64, called: bool) -> Result<Lsn, SchemaError> {
        if value < def.min || value > def.max {
            return Err(SchemaError::refused(
                SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                format!(
                    "setval: value {value} is out of bounds for sequence \"{}\" ({}..{})",
                    def.name, def.min, def.max
                ),
            ));
        }
        let mut states = self.states.lock();
        let noted = self.note(def.id, value, called)?;
        let state = State {
            last: called.then_some(value),
            next: (!called).then_some(value),
            logged_ahead: 0,
            noted,
        };
        states.insert(def.id, state);
        Ok(noted)
    }

    /// last_value and is_called.
    pub fn state(&self, def: &SequenceDef) -> SequenceState {
        let state = self.states.lock().get(&def.id).copied().unwrap_or_default();
        let (value, is_called) = match state {
            State { next: Some(next), .. } => (next, false),
            State { last: Some(last), .. } => (last, true),
            _ => (def.start, false),
        };
        SequenceState { value, is_called, noted: state.noted }
    }
}

fn step(def: &SequenceDef, last: i64) -> Result<i64, SchemaError> {
    let next = last.checked_add(def.increment).filter(|v| (def.min..=def.max).contains(v));
    match next {
        Some(next) => Ok(next),
        None if def.cycle && def.increment > 0 => Ok(def.min),
        None if def.cycle => Ok(def.max),
        None => Err(SchemaError::refused(
            SqlState::SEQUENCE_LIMIT_EXCEEDED,
            format!(
                "nextval: reached {} value of sequence \"{}\" ({})",
                if def.increment > 0 { "maximum" } else { "minimum" },
                def.name,
                if def.increment > 0 { def.max } else { def.min }
            ),
        )),
    }
}
