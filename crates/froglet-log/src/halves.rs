//! Two logs with transactions in common: where they agree (Skeena, section 4.5).
//!
//! ```text
//!   anchor   │ 7 │ a │ 8 │ b │ 9 │ c ┊            a, b, c: transactions of one engine, in one log
//!   beside   │ 7 │ 8 ┊ torn                       7, 8, 9: halves
//!                    └── 9 has no other half: both logs are cut before it, and c goes with it
//! ```
//! Halves are logged in the same order in both ([H1] of `froglet_engine::crossing`), so the first number that one log
//! has and the other has not is where both end: what is before it is whole, and nobody was told of what is behind it, as
//! that is durable only when all before it is durable in both logs. Of what a checkpoint has, both logs once had both halves:
//! numbers up to it are not looked for.
//!
//! Done before either log is opened, as an open log is appended to. A crash in the midst of the cuts leaves logs that
//! are cut at the same number again: the other log still has it.

use super::disk::Disk;
use super::reader::{self, Recovered};
use super::redo;
use super::segment::{self, Segment};
use super::{LogError, Lsn};
use froglet_engine::CrashPoint;
use froglet_engine::env::{Env, OpenMode};
use std::collections::BTreeMap;
use std::path::Path;

/// One of the two logs.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
    /// Its directory.
    pub dir: &'a Path,
    /// Where its replay begins.
    pub from: Lsn,
    /// The newest half in its checkpoint, 0 for none: both logs had it, and all before it.
    pub kept: u64,
}

/// Cuts two logs before the first half that has no other one; which that is, if any.
pub fn agree(env: &dyn Env, anchor: Side<'_>, beside: Side<'_>) -> Result<Option<u64>, LogError> {
    let sides = [anchor, beside];
    let [(a, ends_a), (b, ends_b)] = [halves(env, anchor)?, halves(env, beside)?];
    let found = [a, b];
    let newest = |n: usize| found[n].last_key_value().map_or(0, |(n, _)| *n).max(sides[n].kept);
    for (n, other) in [(0, 1), (1, 0)] {
        if sides[n].kept > newest(other) {
            return Err(LogError::HalvesLost {
                dir: sides[n].dir.to_owned(),
                other: sides[other].dir.to_owned(),
                half: sides[n].kept,
                found: newest(other),
            });
        }
    }
    // What was found is there for good: a replay may put it into files before the log is opened.
    for (side, recovered) in sides.iter().zip([ends_a, ends_b]) {
        if let Some(recovered) = recovered {
            Disk::resume(env, side.dir, &recovered, 0, 0)?;
        }
    }
    let kept = anchor.kept.max(beside.kept);
    let alone = |n: usize| {
        let other = &found[1 - n];
        let is_alone = |number: &&u64| **number > kept && !other.contains_key(number);
        found[n].keys().find(is_alone).copied()
    };
    let Some(first) = alone(0).into_iter().chain(alone(1)).min() else { return Ok(None) };
    for (side, halves) in sides.iter().zip(&found) {
        if let Some((_, at)) = halves.range(first..).next() {
            tracing::warn!(dir = %side.dir.display(), %at, half = first, "cutting the log before a half without another");
            cut(env, side.dir, *at)?;
            CrashPoint::HalvesCut.reached();
        }
    }
    Ok(Some(first))
}

/// The halves behind a checkpoint, and where the last frame of each begins. None in a directory without a log.
fn halves(
    env: &dyn Env,
    side: Side<'_>,
) -> Result<(BTreeMap<u64, Lsn>, Option<Recovered>), LogError> {
    let mut halves = BTreeMap::new();
    env.create_dir_all(side.dir)?;
    let segments = reader::list(env, side.dir)?;
    if segments.is_empty() && side.from == Lsn(0) {
        return Ok((halves, None));
    }
    let recovered =
        reader::recover(env, side.dir, segments, side.from, None, &mut |at, lsn, record| {
            let half = redo::half_of(record).map_err(|malformed| LogError::Malformed {
                lsn,
                offset: malformed.offset,
                what: malformed.what,
            })?;
            halves.extend(half.map(|number| (number, at)));
            Ok(())
        })?;
    Ok((halves, Some(recovered)))
}

/// Takes away the frame that begins at a position, and everything behind it.
fn cut(env: &dyn Env, dir: &Path, at: Lsn) -> Result<(), LogError> {
    let segments = reader::list(env, dir)?;
    let is_later = |segment: &&Segment| segment.first > at;
    // The newest first: what is left is a log at every moment.
    for segment in segments.iter().rev().take_while(is_later) {
        env.remove(&segment::path(dir, segment.first))?;
        env.sync_dir(dir)?;
    }
    let last = segments.iter().rev().find(|segment| segment.first <= at);
    let last = last.expect("a frame is in a segment");
    let file = env.open(&segment::path(dir, last.first), OpenMode::Write)?;
    file.truncate(at.0 - last.first.0)?;
    file.sync_all()?;
    Ok(())
}
