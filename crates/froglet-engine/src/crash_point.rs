//! Named points at which the process can be made to die, as of `kill -9`.
//!
//! ```text
//!   FROGLET_CRASH_AT="flip: tables pending"      the first time that the point is reached
//!   FROGLET_CRASH_AT="scan: block done:3"        the third time
//!   FROGLET_CRASH_AT="?"                         no such point: prints all names, and exits with 2
//!   FROGLET_PAUSE_AT="flip: logged, not flushed:400"     milliseconds that whoever comes there stays, each time
//! ```
//!
//! Nothing is flushed or unwound: what is in the files at that moment is what a restart finds.
//! `tests/test_crash_points.py` visits every point. Builds without debug assertions have none of this.

#[cfg(debug_assertions)]
use std::sync::LazyLock;
#[cfg(debug_assertions)]
use std::sync::atomic::{AtomicU64, Ordering};
#[cfg(debug_assertions)]
use std::time::Duration;

macro_rules! crash_points {
    ($($point:ident = $name:literal,)*) => {
        /// A point.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum CrashPoint {
            $(#[doc = $name] $point,)*
        }

        impl CrashPoint {
            /// Every point.
            pub const ALL: &[CrashPoint] = &[$(CrashPoint::$point,)*];

            /// What `FROGLET_CRASH_AT` calls it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(CrashPoint::$point => $name,)*
                }
            }
        }
    };
}

crash_points! {
    SpaceLogged = "disk: space logged",
    HalfLogged = "commit: half logged beside the anchor",
    HalvesLogged = "commit: both halves logged",
    HalfApplied = "commit: a row in the store",
    DiskRotated = "disk checkpoint: rotated",
    DiskFlushed = "disk checkpoint: flushed, not in the manifest",
    DiskManifest = "disk checkpoint: in the manifest, log not cut",
    HalvesCut = "recovery: one log cut",
    CatalogLocked = "catalog: row locked",
    CatalogWritten = "catalog: row written",
    MigrationStarted = "migration: started",
    ScanBlockDone = "scan: block done",
    ScanDone = "scan: done",
    CaptureStepDone = "capture: one step done",
    CaptureRoundDone = "capture: round done",
    CopyWritten = "copy: rows written",
    LineageNoted = "units: lineage noted",
    UnitsMade = "units: made again",
    IndexScanned = "index: scanned",
    IndexLoaded = "index: loaded, not published",
    IndexPublished = "index: published",
    IndexCaughtUp = "index: waiting rows entered",
    ConstraintScanned = "constraint: scanned",
    TablesPending = "flip: tables pending",
    WriterParked = "flip: a writer parked",
    WritersStill = "flip: writers stand still",
    LastCaptureDone = "flip: last capture done",
    FlipVerified = "flip: verified",
    FlipTimestamp = "flip: commit timestamp taken",
    FlipLogged = "flip: logged, not flushed",
    FlipFlushed = "flip: flushed, not published",
    FlipPublished = "flip: published",
    WritersReleased = "flip: writers released",
    FlipDurable = "flip: durable, not answered",
    CarriedStep = "carry-over: one step done",
    CarriedToCopy = "carry-over: one row in a copy",
    LazyMade = "lazy: rows made, not logged",
    InstallLogged = "lazy: rows logged, not in place",
    LazyInstalled = "lazy: rows in place",
    LazyEnding = "lazy: all rows in place, not ended",
    GarbageFreed = "garbage: one freed",
    CommitLogged = "commit: logged, not visible",
    LogWritten = "log: written, not synced",
    LogSynced = "log: synced, nobody told",
    CompactionMoved = "compaction: rows moved, not committed",
    CompactionCommitted = "compaction: committed",
    CheckpointBegun = "checkpoint: begun",
    CheckpointFile = "checkpoint: file written",
    CheckpointIndex = "checkpoint: index saved",
    CheckpointRenamed = "checkpoint: manifest renamed",
    CheckpointLogCut = "checkpoint: log cut",
    RecoveryLoaded = "recovery: checkpoint loaded",
    RecoveryRecord = "recovery: record replayed",
    RecoveryCatalog = "recovery: catalog read",
    RecoveryIndex = "recovery: index rebuilt",
}

impl CrashPoint {
    /// The process dies here if it was told to.
    #[inline(always)]
    pub fn reached(self) {
        self.reached_after(|| ());
    }

    /// The same, after what makes the point what its name says.
    #[inline(always)]
    pub fn reached_after(self, prepare: impl FnOnce()) {
        #[cfg(debug_assertions)]
        if let Some((point, pause)) = &*PAUSED
            && *point == self
        {
            std::thread::sleep(*pause);
        }
        #[cfg(debug_assertions)]
        if let Some(armed) = &*ARMED
            && armed.point == self
            && armed.left.fetch_sub(1, Ordering::SeqCst) == 1
        {
            prepare();
            die();
        }
        #[cfg(not(debug_assertions))]
        let _ = prepare;
    }
}

/// The point to die at.
#[cfg(debug_assertions)]
struct Armed {
    point: CrashPoint,
    /// How often it is still to be reached.
    left: AtomicU64,
}

#[cfg(debug_assertions)]
static ARMED: LazyLock<Option<Armed>> = LazyLock::new(|| {
    let wanted = std::env::var("FROGLET_CRASH_AT").ok()?;
    let Some((point, times)) = parse(&wanted) else {
        eprintln!("FROGLET_CRASH_AT: there is no point {wanted:?}; there are");
        CrashPoint::ALL.iter().for_each(|point| eprintln!("  {}", point.name()));
        std::process::exit(2);
    };
    Some(Armed { point, left: AtomicU64::new(times) })
});

/// Whoever comes to the point stays there for so long, each time: what others do meanwhile is seen.
#[cfg(debug_assertions)]
static PAUSED: LazyLock<Option<(CrashPoint, Duration)>> = LazyLock::new(|| {
    let wanted = std::env::var("FROGLET_PAUSE_AT").ok()?;
    let Some((point, ms)) = parse(&wanted) else {
        eprintln!("FROGLET_PAUSE_AT: there is no point {wanted:?}, with milliseconds behind it");
        std::process::exit(2);
    };
    Some((point, Duration::from_millis(ms)))
});

/// A point, and the how manieth time.
#[cfg(debug_assertions)]
fn parse(wanted: &str) -> Option<(CrashPoint, u64)> {
    let named = |name: &str| CrashPoint::ALL.iter().copied().find(|point| point.name() == name);
    if let Some(point) = named(wanted) {
        return Some((point, 1));
    }
    let (name, times) = wanted.rsplit_once(':')?;
    Some((named(name)?, times.parse().ok().filter(|times| *times > 0)?))
}

#[cfg(debug_assertions)]
fn die() -> ! {
    use rustix::process::{Signal, getpid, kill_process};
    kill_process(getpid(), Signal::KILL).expect("a process may kill itself");
    loop {
        std::thread::park();
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;

    #[test]
    fn points_are_found_by_name_and_number() {
        assert_eq!(parse("scan: done"), Some((CrashPoint::ScanDone, 1)));
        assert_eq!(parse("scan: block done:3"), Some((CrashPoint::ScanBlockDone, 3)));
        for wrong in ["?", "scan", "scan: done:", "scan: done:0", "scan: done:x"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn names_are_unique() {
        for (at, point) in CrashPoint::ALL.iter().enumerate() {
            let others = &CrashPoint::ALL[at + 1..];
            assert!(others.iter().all(|other| other.name() != point.name()), "{point:?}");
        }
    }
}
