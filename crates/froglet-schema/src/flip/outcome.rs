//! What writers under the older schema do when a transaction's changes are everybody's: one [`Flip`] for each table.
//!
//! ```text
//!   the table            has a newer version    its rows are elsewhere       is gone
//!   writers' rows        take the steps         go where they are copied     go where they were copied, if at all
//! ```

use std::sync::Arc;

use froglet_engine::Ts;

use crate::catalog::CatalogVersion;
use crate::def::TableDef;
use crate::flip::carry::{CopyTo, Flip};
use crate::flip::made_by::MadeBy;
use crate::local::{Changed, Changes};
use crate::step::{Step, StepKind};
use crate::target::Maker;

/// The flips of the tables that there were.
pub(crate) fn flips<'a>(
    changes: &'a Changes,
    before: &'a CatalogVersion,
    ts: Ts,
) -> impl Iterator<Item = Flip> + 'a {
    let existed = |(id, changed)| Some((&before.tables.get(id)?.def, changed));
    changes.objects.iter().filter_map(existed).map(move |(was, changed)| {
        let (id, is) = (&was.id, changed.as_ref().and_then(Changed::table));
        let (refuses, copies) = match is {
            None => (Some("was dropped"), changes.copies_of(was).unwrap_or_default()),
            Some(_) if changes.truncated.contains(id) => (Some("was truncated"), Vec::new()),
            Some(is) if is.def.space != was.space => {
                (Some("was moved"), changes.moved_copy(was, &is.def).into_iter().collect())
            }
            Some(_) => (None, Vec::new()),
        };
        let mut steps = changes.steps_of(was.space).to_vec();
        if let Some(is) = is {
            steps.retain(|step| step.is_demanded_by(&is.def) && !changes.have_left(step));
        }
        let lazy_columns = changes.lazy_columns.get(id).cloned().unwrap_or_default();
        Flip { table: *id, ts, steps, lazy_columns, refuses, copies }
    })
}

impl Changes {
    /// The tables that were made of one, row by row; `None` where others were made of one of those, of
    /// other rows of the same table, or of several rows: a writer is not carried over to them.
    fn copies_of(&self, source: &TableDef) -> Option<Vec<CopyTo>> {
        if self.truncated.contains(&source.id) || self.moved.contains_key(&source.id) {
            return None;
        }
        let lazily = self.lazies.iter().filter(|(table, lazy)| {
            lazy.state().def.sources().any(|read| read.id == source.id)
                && self.keep(**table, lazy.course().space)
        });
        let lazily = lazily.map(|(table, lazy)| {
            let rows = lazy.clone().by_rows().filter(|rows| rows.takes_writers());
            let made = MadeBy::Lazy(rows?);
            Some(CopyTo { made, table: *table, steps: Vec::new() })
        });
        let mut found = lazily.collect::<Option<Vec<CopyTo>>>()?;
        for step in self.steps_of(source.space) {
            let copy = match &step.kind {
                StepKind::Copy(copy) => copy,
                StepKind::Derive(_) => return None,
                _ => continue,
            };
            let is_its = |known: &Arc<dyn Maker>| known.target().space() == copy.target_space();
            let (table, _) = self.makers.iter().find(|(_, known)| is_its(known))?;
            let made = self.objects.get(table)?.as_ref().and_then(Changed::table);
            let steps = self.steps_of(copy.target_space()).to_vec();
            if steps.iter().any(|step| step.kind_name() == "table") {
                return None;
            }
            if made.is_some_and(|made| made.def.space == copy.target_space()) {
                let made = MadeBy::Copy(copy.clone());
                found.push(CopyTo { made, table: *table, steps });
            }
        }
        Some(found)
    }

    /// The rows of a table that has moved, where they are now; `None` if it has done so more than once.
    fn moved_copy(&self, was: &TableDef, is: &TableDef) -> Option<CopyTo> {
        let made = self.move_out_of(was.space, is)?;
        let demanded = |step: &&Arc<Step>| step.is_demanded_by(is) && !self.have_left(step);
        let steps = self.steps_of(is.space).iter().filter(demanded).cloned().collect();
        Some(CopyTo { made, table: is.id, steps })
    }
}
