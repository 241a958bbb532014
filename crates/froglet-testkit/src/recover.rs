//! Going down and coming up again: what was durable is there, and nothing is there by halves.

use std::collections::BTreeMap;
use std::sync::Arc;

use froglet_engine::batch::value_at;
use froglet_engine::env::{Fault, FaultKind, FaultPoint, MemEnv};
use froglet_engine::{Loaded, Lsn, Row, Snapshot, Table, TxnId};

use crate::Host;
use crate::check::{Outcome, ensure};
use crate::history::CrashOp;
use crate::model::{Kept, Model, Place, State};
use crate::replay::{Run, Up};

/// Opens the engine and its tables, and fills their indexes.
pub(crate) fn open(host: &dyn Host, env: &MemEnv, model: &Model) -> Result<Up, String> {
    let engine = host.open(env).map_err(|error| format!("it does not open: {error}"))?;
    let mut tables = Vec::new();
    for spec in &model.specs {
        engine.create_space(spec.space).map_err(|error| error.to_string())?;
        let open = |wide| engine.open(spec.space, Arc::clone(spec.layout(wide)));
        let narrow = open(false).map_err(|error| error.to_string())?;
        let wide = open(true).map_err(|error| error.to_string())?;
        fill_indexes(&wide)?;
        tables.push([narrow, wide]);
    }
    let tables = tables.try_into().map_err(|_| "there are as many tables as specs".to_owned())?;
    Ok(Up { engine, tables })
}

/// As a catalog does it: at once where the engine can, else block by block.
fn fill_indexes(table: &Arc<dyn Table>) -> Outcome {
    for index in 0..table.layout().indexes.len() {
        let mut duplicates = Vec::new();
        let build = Arc::clone(table).build_index(index);
        for block in 0..table.block_count() {
            let filled = match &build {
                Some(build) => build.scan_block(TxnId(0), block),
                None => table.index_block(TxnId(0), index, block, &mut duplicates),
            };
            filled.map_err(|error| error.to_string())?;
        }
        if let Some(build) = build {
            match build.load(&mut |_| true).map_err(|error| error.to_string())? {
                Loaded::Whole(loading) => duplicates = loading.duplicates,
                Loaded::Stopped => return Err("a build stopped by itself".into()),
            }
        }
        ensure!(duplicates.is_empty(), "recovered rows share keys: {duplicates:?}");
    }
    Ok(())
}

/// Takes the engine down in one of several ways, brings it up again, and compares.
pub(crate) fn crash(run: &mut Run<'_>, kind: CrashOp) -> Outcome {
    run.views.clear();
    run.feeds.clear();
    run.txns.clear();
    let change =
        |nth: u8| Fault { point: FaultPoint::Change, nth: u64::from(nth), kind: FaultKind::Io };
    let env = run.env.clone();
    match kind {
        CrashOp::InFlush(nth) => {
            env.inject(change(nth));
            // Whether it came that far or not is what the durable position says.
            let _ = run.sync();
        }
        CrashOp::InCheckpoint(nth) => {
            env.inject(change(nth));
            let _ = run.engine().checkpoint();
        }
        CrashOp::Stop | CrashOp::Now | CrashOp::Twice(_) => {}
    }
    let durable = run.engine().durable();
    let down = run.up.take();
    if matches!(kind, CrashOp::Stop) {
        drop(down);
    } else {
        env.crash();
        drop(down);
    }
    run.host.closed();
    if let CrashOp::Twice(nth) = kind {
        env.inject(change(nth));
        let half = run.host.open(&env);
        env.crash();
        drop(half);
        run.host.closed();
    }
    let at_least = match kind {
        // In order means that what was appended is flushed.
        CrashOp::Stop if !run.log_failed => Lsn(u64::MAX),
        _ => durable,
    };
    run.log_failed = false;
    let up = open(run.host, &env, &run.model)?;
    let recovered = read(&up, &run.keepers)?;
    run.up = Some(up);
    let state = matching_prefix(&run.model, &recovered, at_least)?;
    run.model.recovered(state);
    run.check_views()
}

/// Everything in the tables, read without the model.
fn read(up: &Up, keepers: &[Vec<usize>]) -> Result<State, String> {
    let all: Vec<usize> = (0..up.tables.len()).collect();
    let rows = read_rows(up, &up.engine.snapshot(), &all)?;
    let notes = up.engine.notes().into_iter().collect();
    let mut state = State { rows, notes, ..State::default() };
    for (keeper, tables) in (0..).zip(keepers) {
        if let Some(view) = up.engine.kept(keeper) {
            let (ts, tables, rows) = (view.ts, tables.clone(), read_rows(up, &view, tables)?);
            state.kept.insert(keeper, Kept { ts, tables, rows });
        }
    }
    Ok(state)
}

fn read_rows(up: &Up, view: &Snapshot, tables: &[usize]) -> Result<BTreeMap<Place, Row>, String> {
    let mut rows = BTreeMap::new();
    for &at in tables {
        let [_, table] = &up.tables[at];
        let columns = &table.layout().columns;
        let all: Vec<usize> = (0..columns.len()).collect();
        for block in 0..table.block_count() {
            let read = table.read_block(view, block, &all).map_err(|error| error.to_string())?;
            for (i, &rid) in read.rids.iter().enumerate() {
                let cells = columns.iter().enumerate();
                let row = cells.map(|(c, spec)| value_at(read.batch.column(c), i, spec.ty));
                rows.insert((at, rid), row.collect());
            }
        }
    }
    Ok(rows)
}

/// The model's state that was recovered: after all that was durable, and perhaps more.
fn matching_prefix(model: &Model, recovered: &State, durable: Lsn) -> Result<State, String> {
    let mut state = model.base.clone();
    let events = &model.events;
    let must = events.iter().take_while(|(end, _)| *end <= durable).count();
    events[..must].iter().for_each(|(_, event)| state.apply(event));
    let at_least = state.clone();
    let mut rest = events[must..].iter();
    loop {
        if state.same(recovered) {
            return Ok(state);
        }
        match rest.next() {
            Some((_, event)) => state.apply(event),
            None => break,
        }
    }
    Err(format!(
        "recovered is\n{recovered:?}\nwhich is no state of the log; durable were {must} of {} records, up to\n{at_least:?}\nand all of them make\n{state:?}",
        events.len()
    ))
}
