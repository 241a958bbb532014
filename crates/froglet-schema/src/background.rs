//! The background of lazy migrations: block after block what nobody has touched, while others are at work a
//! little at a time; then the migration's end, in a transaction of its own.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use froglet_engine::{CrashPoint, ReadFailed, SqlState, Ts};
use froglet_txn::{Isolation, Limits, aside};

use crate::apply::Scope;
use crate::catalog::Catalog;
use crate::course::{Course, Who};
use crate::def::TableDef;
use crate::error::SchemaError;
use crate::migration::spawn_in_background;

/// How long a migration waits for the end of what keeps it from being ended, before it tries again.
const TRY_AGAIN: Duration = Duration::from_millis(20);
/// While statements are run, the background rests so many times as long as it has worked.
const REST: u32 = 2;
/// It tries again after so long where there is no memory.
const NO_MEMORY: Duration = Duration::from_millis(500);
/// It tries again after so long where rows could not be made.
const FAILED_AGAIN: Duration = Duration::from_secs(10);
/// After so long without a commit nobody else is at work.
const ALONE_AFTER: Duration = Duration::from_millis(50);
/// It looks so often whether there is anything left to begin with.
const LOOK_WHETHER_TO_BEGIN: Duration = Duration::from_millis(20);
/// It takes no shorter rests.
const SHORTEST_REST: Duration = Duration::from_millis(2);

/// A lazy migration, as the background works at it.
pub(crate) trait Background: Send + Sync {
    /// How it is getting on.
    fn course(&self) -> &Course;
    /// Blocks in which something may be left.
    fn blocks(&self) -> u32;
    /// Whether everything is migrated.
    fn is_complete(&self) -> bool;
    /// Makes sure that a block is migrated: a little at a time, for as long as `goes_on`, which is asked
    /// while nobody can be waiting.
    fn migrate_block(
        &self,
        block: u32,
        who: Who,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), SchemaError>;
    /// All blocks have been migrated, one after the other.
    fn passed(&self) {}
    /// A table's definition without it; `None` if it is none of the definition's.
    fn struck_from(&self, def: &TableDef) -> Option<TableDef>;

    /// Makes sure that everything is migrated.
    fn migrate_all(&self, limits: &Limits) -> Result<(), SchemaError> {
        aside(|| {
            (0..self.blocks()).try_for_each(|block| {
                self.migrate_block(block, Who::Access, &mut || limits.check().is_ok())?;
                limits.check().map_err(SchemaError::from)
            })
        })?;
        self.passed();
        Ok(())
    }
}

impl Catalog {
    /// Ends a migration with nothing left: the table is an ordinary one from then on. False if somebody is
    /// changing it.
    async fn end_lazy(&self, lazy: &dyn Background) -> Result<bool, SchemaError> {
        let limits = Limits::none();
        let mut txn = self.manager().begin(Isolation::ReadCommitted);
        let view = self.begin_statement(&mut txn, true, &limits).await?;
        let Some(base) = view.tables.get(&lazy.course().table).cloned() else { return Ok(true) };
        let Some(def) = lazy.struck_from(&base.def) else { return Ok(true) };
        let scope = Scope { view, options: &Default::default(), limits: &limits, then: &[] };
        match self.rewrite(&mut txn, &scope, &base, def).await {
            Err(SchemaError::Stale) => return Ok(false),
            written => written?,
        }
        CrashPoint::LazyEnding.reached();
        self.manager().commit(txn, &limits).await?;
        Ok(true)
    }
}

/// Begins with the rest, on a thread of its own.
pub(crate) fn spawn(catalog: Weak<Catalog>, lazy: Arc<dyn Background>) {
    spawn_in_background(format!("froglet-lazy-{}", lazy.course().begun.migration), move || {
        if let Err(error) = run(&catalog, &*lazy) {
            tracing::error!(migration = lazy.course().begun.migration, %error, "a lazy migration has stopped");
            lazy.course().fail(Some(&error));
        }
    });
}

/// Runs on a thread of its own.
fn run(catalog: &Weak<Catalog>, lazy: &dyn Background) -> Result<(), SchemaError> {
    let goes_on = || lazy.course().goes_on() && catalog.strong_count() > 0;
    let (begun, delay) = (Instant::now(), Duration::from_millis(lazy.course().delay_ms()));
    while goes_on() && !lazy.is_complete() && begun.elapsed() < delay {
        thread::sleep(LOOK_WHETHER_TO_BEGIN.min(delay));
    }
    lazy.course().pace.keep(0, goes_on);
    lazy.course().set_in_background();
    let mut rests = None;
    while !pass(catalog, lazy, &goes_on, &mut rests) {
        // Rows cannot be made that were to be. Whoever asks for one is told, and so is the operator; the others
        // are made, and these once they can be.
        let tried = Instant::now();
        while goes_on() && tried.elapsed() < FAILED_AGAIN {
            thread::sleep(LOOK_WHETHER_TO_BEGIN);
        }
    }
    if !goes_on() {
        return Ok(());
    }
    lazy.passed();
    debug_assert!(lazy.is_complete(), "each block was made sure of");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("a runtime of one thread can be made");
    while lazy.course().goes_on() {
        let Some(catalog) = catalog.upgrade() else { return Ok(()) };
        if runtime.block_on(catalog.end_lazy(lazy))? {
            return Ok(());
        }
        drop(catalog);
        thread::sleep(TRY_AGAIN);
    }
    Ok(())
}

/// Migrates block after block. False if rows are left that could not be made; true, too, if nobody needs it any
/// more.
fn pass(
    catalog: &Weak<Catalog>,
    lazy: &dyn Background,
    goes_on: &dyn Fn() -> bool,
    rests: &mut Option<Rests>,
) -> bool {
    let mut failed = None;
    for block in 0..lazy.blocks() {
        let Some(engine) = catalog.upgrade().map(|catalog| catalog.engine().clone()) else {
            return true;
        };
        // Its sources are kept for snapshots from before its end, and so for this block.
        let view = engine.snapshot();
        if !goes_on() {
            return true;
        }
        let mut rows = lazy.course().rows_in_background();
        let mut pause = || {
            let now = lazy.course().rows_in_background();
            lazy.course().pace.keep(now - std::mem::replace(&mut rows, now), goes_on);
            if !lazy.course().begun.is_hybrid {
                let now = engine.now();
                rests.get_or_insert_with(|| Rests::new(now)).after_work(now);
            }
            goes_on()
        };
        let mut migrate = || {
            // What is read for it may have to be made, too.
            let migrated = std::panic::catch_unwind(AssertUnwindSafe(|| {
                lazy.migrate_block(block, Who::Background, &mut pause)
            }));
            migrated.unwrap_or_else(|panic| Err(ReadFailed::caught(panic).into()))
        };
        while let Err(error) = migrate() {
            lazy.course().fail(Some(&error));
            if error.sqlstate() != SqlState::OUT_OF_MEMORY {
                if failed.is_none() {
                    let migration = lazy.course().begun.migration;
                    tracing::error!(migration, block, %error, "rows of a lazy migration cannot be made");
                }
                failed = Some(error);
                break;
            }
            // There may be more of it later.
            thread::sleep(NO_MEMORY);
            if !goes_on() {
                return true;
            }
        }
        lazy.course().fail(failed.as_ref());
        drop((view, engine));
        if !goes_on() {
            return true;
        }
    }
    failed.is_none()
}

/// How the background makes way for others. It cannot tell who waits for what; but while somebody commits it
/// rests for longer than it has worked, and the more so where it was itself kept waiting for a core.
struct Rests {
    /// It has worked since.
    since: Instant,
    /// Rest that was too short to be taken.
    owed: Duration,
    /// The newest commit, and until when somebody counts as at work.
    seen: (Ts, Instant),
}

impl Rests {
    fn new(now: Ts) -> Rests {
        let since = Instant::now();
        Rests { since, owed: Duration::ZERO, seen: (now, since) }
    }

    /// Rests, if others are at work; `now` is the newest commit.
    fn after_work(&mut self, now: Ts) {
        if self.seen.0 != now {
            self.seen = (now, Instant::now() + ALONE_AFTER);
        }
        self.owed += self.since.elapsed() * REST;
        if self.seen.1 < Instant::now() {
            self.owed = Duration::ZERO;
        } else if self.owed >= SHORTEST_REST {
            thread::sleep(std::mem::take(&mut self.owed));
        }
        self.since = Instant::now();
    }
}
