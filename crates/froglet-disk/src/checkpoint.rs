//! Checkpoints: what has gathered in memory goes into files, so that the log before it can go.
//!
//! ```text
//!   where replays begin ─▶ newest half ─▶ what is not in the maps ─▶ rotate ─▶ durable in both logs ─▶ flush ─▶ manifest ─▶ cut
//! ```
//! **[P1]** What is not wholly in the store when `lsn` is taken is logged behind it (`Core::not_applied`); what is logged
//! later is anyway. Such things may be in the files, too: a replay finds them there, and leaves them.
//! **[P2]** What is in a file was logged before the rotation, and is durable, with its other half, before the flush: a
//! recovery that cuts the logs takes nothing away that the files have.
//! **[P3]** The numbers of halves above the manifest's are logged behind `lsn`: it is taken first.

use std::sync::atomic::Ordering;

use froglet_engine::{CrashPoint, EngineError};
use froglet_log::redo;

use crate::engine::Core;
use crate::manifest::{ColumnEntry, FORMAT, KeeperEntry, Manifest, SpaceEntry};
use crate::space::Space;
use crate::store::Store;

impl Core {
    /// Writes a checkpoint and cuts the log before it. One at a time.
    pub fn write_checkpoint(&self) -> Result<(), EngineError> {
        let _one = self.checkpointing.lock();
        let lsn = self.not_applied();
        let half = self.crossings().newest();
        let manifest = Manifest {
            format: FORMAT,
            database_id: self.log.database_id(),
            lsn: lsn.0,
            half,
            ts: 0,
            keepers: self.keeper_entries(),
            spaces: self.space_entries(),
            purges: self.purge_entries(),
        };
        self.store.rotate();
        let ts = self.clock.load(Ordering::SeqCst);
        CrashPoint::DiskRotated.reached();
        self.crossings().settle_durable()?;
        self.log.wait_durable(self.log.appended())?;
        self.store.flush()?;
        CrashPoint::DiskFlushed.reached();
        Manifest { ts, ..manifest }.write(&*self.env, &self.dir)?;
        CrashPoint::DiskManifest.reached();
        self.log.truncate_before(lsn)?;
        Ok(())
    }

    fn keeper_entries(&self) -> Vec<KeeperEntry> {
        let keepers = self.keepers.lock();
        let entry = |(keeper, pin): (&u64, &std::sync::Arc<crate::engine::Pin>)| KeeperEntry {
            keeper: *keeper,
            ts: pin.ts,
            spaces: pin.spaces.clone(),
        };
        keepers.iter().map(entry).collect()
    }

    /// What waits to be removed, and the spaces that somebody still has open.
    fn purge_entries(&self) -> Vec<(froglet_engine::SpaceId, Option<froglet_engine::IndexId>)> {
        // What is dropped first: from there it goes to what waits.
        let dropped = self.purges.dropped.lock().clone();
        let mut purges = self.purges.waiting.lock().clone();
        purges.extend(dropped.into_iter().map(|space| (space, None)));
        purges
    }

    fn space_entries(&self) -> Vec<SpaceEntry> {
        let spaces: Vec<_> = self.spaces.read().values().cloned().collect();
        spaces.iter().map(|space| space_entry(space)).collect()
    }
}

fn space_entry(space: &Space) -> SpaceEntry {
    // An install that is logged before is done, and in the note.
    drop(space.installing.write());
    let columns = space.columns.read();
    let column = |column: &froglet_engine::ColumnSpec| {
        let mut missing = Vec::new();
        redo::put_value(&mut missing, &column.missing);
        ColumnEntry { id: column.id, ty: column.ty, missing }
    };
    SpaceEntry {
        id: space.id,
        next: space.next.load(Ordering::SeqCst),
        rows: space.rows.load(Ordering::Relaxed),
        bytes: space.bytes.load(Ordering::Relaxed),
        newest_end: space.newest_end.load(Ordering::SeqCst),
        columns: columns.values().map(column).collect(),
        indexes: space.indexes.read().iter().map(|index| index.spec.clone()).collect(),
        notes: space.notes.lock().kept(),
    }
}
