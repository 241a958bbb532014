//! Sequences: values given outside transactions, never twice.
//!
//! A sequence's state is a note in the log, under its object id. As PostgreSQL does, the note runs
//! ahead: it is written once for every [`AHEAD`] values, so a crash may skip some and repeats none.
//! The note goes when the sequence has been dropped and nobody can know it any more, not to revert the drop either.
//!
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
        // Where a sequence stands that others give values of is asked when one is.
        let notes = if engine.is_shared() { Vec::new() } else { engine.notes() };
        for (key, value) in notes {
            if let (Ok(id), Some((value, called))) = (ObjectId::try_from(key), of_note(&value)) {
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

    /// Of which something is known.
    pub fn ids(&self) -> Vec<ObjectId> {
        self.states.lock().keys().copied().collect()
    }

    /// Of a sequence that nobody knows any more: what is known of it.
    pub fn forget(&self, id: ObjectId) {
        let mut states = self.states.lock();
        if states.remove(&id).is_some() {
            // What cannot be logged now is found again by the next start.
            let _ = self.engine.drop_note(u64::from(id));
        }
    }

    fn note(&self, id: ObjectId, value: i64, called: bool) -> Result<Lsn, SchemaError> {
        Ok(self.engine.put_note(u64::from(id), &note_of(value, called))?)
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
        if state.logged_ahead == 0 && self.engine.is_shared() {
            *state = self.take_shared(def)?;
            let value = state.next.take().expect("the first of those taken");
            state.logged_ahead -= 1;
            state.last = Some(value);
            return Ok((value, Lsn(0)));
        }
        if state.logged_ahead == 0 {
            let (mark, ahead) = marked_ahead(def, value);
            state.noted = self.note(def.id, mark, true)?;
            state.logged_ahead = ahead + 1;
        }
        state.logged_ahead -= 1;
        state.last = Some(value);
        state.next = None;
        Ok((value, state.noted))
    }

    /// Values that no other server gives, from where the sequence stands in the store.
    fn take_shared(&self, def: &SequenceDef) -> Result<State, SchemaError> {
        let mut taken = Ok((def.start, 0));
        self.engine.change_note(u64::from(def.id), &mut |noted| {
            let before = noted.map(<[u8]>::to_vec).unwrap_or_default();
            let first = match of_note(&before) {
                None => Ok(def.start),
                Some((value, false)) => Ok(value),
                Some((value, true)) => step(def, value),
            };
            match first {
                Ok(first) => {
                    let (mark, ahead) = marked_ahead(def, first);
                    taken = Ok((first, ahead));
                    note_of(mark, true).to_vec()
                }
                Err(error) => {
                    taken = Err(error);
                    before
                }
            }
        })?;
        let (first, ahead) = taken?;
        Ok(State { last: None, logged_ahead: ahead + 1, next: Some(first), noted: Lsn(0) })
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

/// How far values are given before the next note, from one on, and how many more those are.
fn marked_ahead(def: &SequenceDef, first: i64) -> (i64, i64) {
    let (mut mark, mut ahead) = (first, 0);
    while ahead < AHEAD {
        match step(def, mark) {
            Ok(next) if !def.cycle => mark = next,
            _ => break,
        }
        ahead += 1;
    }
    (mark, ahead)
}

fn note_of(value: i64, called: bool) -> [u8; 9] {
    let mut bytes = [0; 9];
    bytes[..8].copy_from_slice(&value.to_le_bytes());
    bytes[8] = u8::from(called);
    bytes
}

fn of_note(note: &[u8]) -> Option<(i64, bool)> {
    let (called, value) = note.split_last().filter(|_| note.len() == 9)?;
    Some((i64::from_le_bytes(value.try_into().expect("eight of nine bytes")), *called != 0))
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
