//! The catalog of a database that other servers change, too: read again when it has been changed.
//!
//! ```text
//!   the store's catalog, as of s ─▶ tables that are as they were stay; others get a version ─▶ latest, at s
//! ```
//! **[Q1]** A change of this server that committed before s is read with the others: a reader that meets one which is
//! about to commit waits for it. It is published before what was read: that is read again until it is. One that committed
//! later is published after s, or what was read is read again.
//! **[Q2]** Writers under the version before it go on: whatever one server does to a table, rows of the version before it
//! are rows of the next. The entries that they need, the engine adds when they commit (`froglet_engine::OnlineIndexes`); before one
//! goes on under the next version, his are entered.
//! **[Q3]** Who changes an object changes what he knows of it: a statement's view may be newer than that, so the object is
//! compared as of what it is known as of.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

use froglet_engine::ReadFailed;

use super::*;

/// What is about to be published here is so after a few milliseconds.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

impl Catalog {
    /// Before what has met a change is tried again: that of another server may not be known here yet.
    pub fn catch_up(&self) -> Result<(), SchemaError> {
        match self.engine().is_shared() {
            true => self.refresh().map(drop),
            false => Ok(()),
        }
    }

    /// Reads what others have changed; the timestamp that it is as of.
    pub fn refresh(&self) -> Result<Ts, SchemaError> {
        loop {
            match catch_unwind(AssertUnwindSafe(|| self.read_again())) {
                Ok(Some(ts)) => return Ok(ts),
                Ok(None) => thread::sleep(LOOK_AGAIN),
                Err(failed) => return Err(ReadFailed::caught(failed).into()),
            }
        }
    }

    /// None: it has been changed here since.
    fn read_again(&self) -> Option<Ts> {
        let snapshot = self.engine().snapshot();
        let objects = self.store.load(&snapshot);
        let (mut next, _) = load(&**self.engine(), objects);
        let _publishing = self.publishing.lock();
        let before = self.latest.load_full();
        let (ts, deciding) = (snapshot.ts, self.deciding.load(Ordering::SeqCst));
        if before.ts >= ts || (deciding > 0 && deciding < ts.0) {
            return None;
        }
        (next.ts, next.stamp, next.observed) = (ts, self.next_stamp(), before.observed.clone());
        let (mut versions, mut unread, mut begun) = (Vec::new(), Vec::new(), Vec::new());
        for (id, table) in &next.tables {
            if let Some(known) = before.tables.get(id).filter(|known| known.def == table.def) {
                versions.push((*id, Arc::clone(known)));
                continue;
            }
            let def = table.def.clone();
            let rows = match def.lazy {
                None => Arc::clone(&table.table),
                // One that is committed here is published in a moment.
                Some(_) => match self.follow_lazy(&def, &next, &mut begun)? {
                    Ok(rows) => rows,
                    Err(error) => {
                        unread.push(Unreadable::of_table(&def, error.to_string()));
                        continue;
                    }
                },
            };
            versions.push((*id, Arc::new(TableVersion::new(def, ts, rows))));
        }
        next.tables.extend(versions);
        let mut states = self.states.write();
        for id in next.tables.keys() {
            states.entry(*id).or_default();
        }
        drop(states);
        unread.into_iter().for_each(|found| next.set_unreadable(found));
        self.follow_ends(&next);
        next.observe();
        self.history.write().push(before);
        self.latest.store(Arc::new(next));
        self.spawn_lazies(begun);
        Some(ts)
    }
}
