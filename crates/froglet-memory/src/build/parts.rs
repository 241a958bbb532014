//! Loading a saved index on all cores.
//!
//! ```text
//!   saved    │ batch │ batch ┊ batch │ batch ┊ batch │ …       a part begins with the first entry of a batch
//!   runs     ─ merged, and dealt out by key ─┊──────────
//!            merged, loaded  ┊ merged, loaded ┊ …               a part at a time, by whoever is free
//!   tree     part ────────── + part ───────── + …               appended in order
//! ```
//!
//! The batches of a file are in order and can be read from anywhere; runs can be read once and from the front. So
//! the runs, of the few blocks that have changed since, are cut where parts begin.
//!
//! Saved entries are there at a start only, when nobody waits for anything else: so it is asked whether to go on
//! when all parts are loaded, and not before.
//!
//! Equal keys may stand on both sides of such a cut: whether they are duplicates is asked when parts are appended.

// Not a model checker's: saved indexes are loaded while nobody else is there.
use std::sync::Mutex;

use froglet_engine::{EngineError, Loading, RowId};

use super::merge::Merge;
use super::run::{Collector, Run};
use super::{Build, Merged};
use crate::index::Loader;
use crate::index_snapshot::IndexSnapshot;
use crate::load::in_parallel;
use crate::memory::Charge;

/// So that who is done early has something left to do.
const PARTS_PER_CORE: usize = 4;

const POISONED: &str = "nobody panics with it";

/// The first entry of a part.
type Start = (Vec<u8>, u64);

/// A part that is loaded.
type Part = (Merged, Loading);

impl Build {
    /// The entries of a snapshot and of runs.
    pub(super) fn load_saved(
        &self,
        saved: &IndexSnapshot,
        runs: Vec<Run>,
        loading: &mut Loading,
        go_on: &mut dyn FnMut(&mut Loading) -> bool,
    ) -> Result<Merged, EngineError> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let parts = match saved.parts(PARTS_PER_CORE * cores) {
            Ok(parts) => parts,
            Err(what) => return Ok(Merged::Broken(what)),
        };
        let starts = parts[1..].iter().map(|part| saved.first_of(part.start));
        let starts: Vec<Start> = match starts.collect() {
            Ok(starts) => starts,
            Err(what) => return Ok(Merged::Broken(what)),
        };
        let runs = self.deal(runs, starts)?;
        let runs: Vec<Mutex<Vec<Run>>> = runs.into_iter().map(Mutex::new).collect();
        let loaded: Vec<Mutex<Option<Part>>> = parts.iter().map(|_| Mutex::default()).collect();
        in_parallel(parts.len(), |at| {
            let runs = std::mem::take(&mut *runs[at].lock().expect(POISONED));
            let (saved, mut of_part) = (saved.read(parts[at].clone()), Loading::default());
            let merged = self.merge(runs, Some(saved), &mut of_part, &mut |_| true)?;
            *loaded[at].lock().expect(POISONED) = Some((merged, of_part));
            Ok::<(), EngineError>(())
        })?;
        let loaded = loaded.into_iter().filter_map(|part| part.into_inner().expect(POISONED));
        let merged = self.append_parts(loaded.collect(), loading)?;
        Ok(match merged {
            Merged::Whole(..) if !go_on(loading) => Merged::Stopped,
            merged => merged,
        })
    }

    /// The entries of runs by the part that they belong to.
    fn deal(&self, runs: Vec<Run>, starts: Vec<Start>) -> Result<Vec<Vec<Run>>, EngineError> {
        if starts.is_empty() {
            return Ok(vec![runs]);
        }
        let mut merge = Merge::new(runs);
        let mut collector = Collector::new(&self.table.core.budget);
        let mut ends = starts.into_iter().peekable();
        let mut dealt = vec![Vec::new()];
        let put = |collector: &mut Collector, dealt: &mut Vec<Vec<Run>>| {
            if !collector.is_empty() {
                let run = collector.take_run()?;
                dealt.last_mut().expect("there is a first part").push(run);
            }
            Ok::<(), EngineError>(())
        };
        while let Some(run) = merge.peek() {
            while ends.next_if(|(key, rid)| (&*run.key, run.rid) >= (&**key, *rid)).is_some() {
                put(&mut collector, &mut dealt)?;
                dealt.push(Vec::new());
            }
            collector.push(&run.key, run.has_null, run.rid)?;
            if collector.is_full() {
                put(&mut collector, &mut dealt)?;
            }
            merge.advance();
        }
        put(&mut collector, &mut dealt)?;
        dealt.extend(ends.map(|_| Vec::new()));
        Ok(dealt)
    }

    /// One tree of all parts.
    fn append_parts(&self, parts: Vec<Part>, loading: &mut Loading) -> Result<Merged, EngineError> {
        let (mut whole, mut charge) = (Loader::new(), Charge::new(&self.table.core.budget));
        let (mut charges, mut broken) = (Vec::new(), None);
        for (merged, of_part) in parts {
            loading.entries += of_part.entries;
            loading.duplicates.extend(of_part.duplicates);
            match merged {
                Merged::Whole(part, of_part) => {
                    self.meet_neighbours(&whole, &part, loading);
                    if !whole.try_append(part) {
                        broken = broken.or(Some("entries are out of order".to_owned()));
                    }
                    charges.push(of_part);
                }
                Merged::Stopped => unreachable!("a part is told to go on"),
                Merged::Broken(what) => broken = broken.or(Some(what)),
            }
        }
        drop(charges);
        charge.set(whole.bytes())?;
        Ok(match broken {
            Some(what) => Merged::Broken(what),
            None => Merged::Whole(whole, charge),
        })
    }

    /// The last entry of what is there and the first of what is appended may share a key.
    fn meet_neighbours(&self, whole: &Loader, part: &Loader, loading: &mut Loading) {
        if let (Some((last_key, last)), Some((key, rid))) = (whole.last(), part.first())
            && self.index().spec.keeps_apart()
            && last_key == key
            && self.is_without_null(RowId(rid))
        {
            loading.duplicates.push((RowId(last), RowId(rid)));
        }
    }
}
