//! [`MemEnv`]: a file system in memory that fails and crashes on demand.
//!
//! ```text
//!   names     now:     what programs see            durable: what a crash is sure to leave
//!             pending: [create a] [rename a→b] …    a crash applies a seeded prefix of these
//!   contents  now:     what programs see            durable: likewise, per file
//!             dirty:   {sector, sector, …}          a crash keeps a seeded choice of these
//! ```
//!
//! Everything random comes from the seed, and the clock is logical, so a single-threaded run
//! repeats itself exactly. Directories are durable as soon as they are created; only files are
//! tormented.

mod disk;

use self::disk::{MemFileState, NameChange, Names, SplitMix64};
use super::{DirLock, Env, EnvError, EnvFile, OpenMode, Operation};
use arrow_buffer::Buffer;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An environment in memory. Clones share one file system.
#[derive(Debug, Clone)]
pub struct MemEnv {
    state: Arc<Mutex<State>>,
    /// The epoch in which the program was started that has this, if one has.
    started: Option<u64>,
}

/// An error to come: the `nth` (from 1, counted from the injection) operation of its kind fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// Which operations are counted.
    pub point: FaultPoint,
    /// Which of them fails.
    pub nth: u64,
    /// With what.
    pub kind: FaultKind,
}

/// The operations a [`Fault`] can hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultPoint {
    /// A write; a seeded prefix of its bytes is written all the same.
    Write,
    /// A sync of a file; a seeded choice of its unsynced sectors is lost, and a later sync succeeds
    /// without them.
    Sync,
    /// A sync of a directory; its names are durable or not, as without it.
    SyncDir,
    /// Any operation that changes something. From there on everything fails until
    /// [`MemEnv::crash`]: the power is off.
    Change,
}

/// The error of a [`Fault`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// `ENOSPC`: no space left on the device.
    DiskFull,
    /// `EIO`: the device failed.
    Io,
}

impl MemEnv {
    /// An empty file system whose randomness follows from `seed`.
    pub fn new(seed: u64) -> MemEnv {
        let state = State {
            random: SplitMix64(seed),
            now_ns: 0,
            epoch: 0,
            handles: 0,
            power_off: false,
            faults: Vec::new(),
            files: Vec::new(),
            names: Names::default(),
            durable_names: Names::default(),
            pending: Vec::new(),
            directories: BTreeSet::new(),
            locked_dirs: BTreeMap::new(),
        };
        MemEnv { state: Arc::new(Mutex::new(state)), started: None }
    }

    /// The same file system for a program that is started now. What is left of it after the next crash, in whatever
    /// threads, can do nothing more.
    pub fn program(&self) -> MemEnv {
        let started = Some(self.state.lock().epoch);
        MemEnv { state: Arc::clone(&self.state), started }
    }

    fn runs(&self, state: &State) -> io::Result<()> {
        match self.started {
            Some(epoch) if epoch != state.epoch => {
                Err(io::Error::other("the program has ended when the machine crashed"))
            }
            _ => state.powered(),
        }
    }

    fn change(&self, state: &mut State, also: Option<FaultPoint>) -> io::Result<()> {
        self.runs(state)?;
        state.change(also)
    }

    /// Schedules an error.
    pub fn inject(&self, fault: Fault) {
        assert!(fault.nth > 0, "the first operation has the number 1");
        self.state.lock().faults.push(fault);
    }

    /// Forgets the errors that are still to come.
    pub fn clear_faults(&self) {
        self.state.lock().faults.clear();
    }

    /// Moves both clocks on by `ns` nanoseconds.
    pub fn advance_ns(&self, ns: u64) {
        self.state.lock().now_ns += ns;
    }

    /// The machine loses power and comes back: what was synced is there, of the rest a seeded
    /// choice. Open files and locks are gone, scheduled faults are forgotten.
    pub fn crash(&self) {
        let state = &mut *self.state.lock();
        state.epoch += 1;
        state.power_off = false;
        state.faults.clear();
        state.locked_dirs.clear();
        let kept = state.random.below(state.pending.len() as u64 + 1) as usize;
        for change in state.pending.drain(..).take(kept) {
            change.apply(&mut state.durable_names);
        }
        state.names = state.durable_names.clone();
        for file in &mut state.files {
            file.crash(&mut state.random);
        }
    }

    /// The contents of the file at `path` as a program would read them now, if there is such a
    /// file.
    pub fn contents(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.state.lock();
        state.names.get(path).map(|&file| state.files[file].now.clone())
    }

    /// Replaces the contents of the file at `path`, durably: a test's way to damage a file.
    pub fn overwrite(&self, path: &Path, contents: Vec<u8>) {
        let state = &mut *self.state.lock();
        let next = state.files.len();
        let file = *state.names.entry(path.to_owned()).or_insert(next);
        if file == next {
            state.files.push(MemFileState::default());
            state.durable_names.insert(path.to_owned(), file);
        }
        state.files[file].replace(contents);
    }
}

impl Env for MemEnv {
    fn now_ns(&self) -> u64 {
        let mut state = self.state.lock();
        state.now_ns += 1;
        state.now_ns
    }

    fn wall_clock_us(&self) -> i64 {
        // 2020-01-01T00:00:00Z, so that a simulated date looks like a date.
        1_577_836_800_000_000 + (self.state.lock().now_ns / 1000) as i64
    }

    fn random_u64(&self) -> u64 {
        self.state.lock().random.next()
    }

    fn open(&self, path: &Path, mode: OpenMode) -> Result<Box<dyn EnvFile>, EnvError> {
        let state = &mut *self.state.lock();
        self.runs(state).map_err(failed(path, Operation::Open))?;
        let file = match (state.names.get(path), mode) {
            (Some(_), OpenMode::CreateNew) => {
                return Err(failed(path, Operation::Create)(io::ErrorKind::AlreadyExists.into()));
            }
            (Some(&file), _) => file,
            (None, OpenMode::Read | OpenMode::Write) => {
                return Err(failed(path, Operation::Open)(io::ErrorKind::NotFound.into()));
            }
            (None, OpenMode::CreateNew | OpenMode::CreateOrOpen) => {
                let has_parent = path.parent().is_some_and(|dir| state.directories.contains(dir));
                if !has_parent {
                    return Err(failed(path, Operation::Create)(io::ErrorKind::NotFound.into()));
                }
                state.change(None).map_err(failed(path, Operation::Create))?;
                state.files.push(MemFileState::default());
                let file = state.files.len() - 1;
                state.change_name(NameChange::Create { path: path.to_owned(), file });
                file
            }
        };
        state.handles += 1;
        let (started, handle) = (Some(state.epoch), state.handles);
        let env = MemEnv { state: Arc::clone(&self.state), started };
        Ok(Box::new(MemFile { env, path: path.to_owned(), file, handle, mode }))
    }

    fn create_dir_all(&self, dir: &Path) -> Result<(), EnvError> {
        let mut state = self.state.lock();
        self.runs(&state).map_err(failed(dir, Operation::Create))?;
        state.directories.extend(dir.ancestors().map(Path::to_owned));
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> Result<(), EnvError> {
        let state = &mut *self.state.lock();
        self.change(state, Some(FaultPoint::SyncDir)).map_err(failed(dir, Operation::SyncDir))?;
        let (done, rest) =
            std::mem::take(&mut state.pending).into_iter().partition(|change| change.is_in(dir));
        state.pending = rest;
        let done: Vec<NameChange> = done;
        for change in done {
            change.apply(&mut state.durable_names);
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), EnvError> {
        let mut state = self.state.lock();
        self.change(&mut state, None).map_err(failed(from, Operation::Rename))?;
        if !state.names.contains_key(from) {
            return Err(failed(from, Operation::Rename)(io::ErrorKind::NotFound.into()));
        }
        state.change_name(NameChange::Rename { from: from.to_owned(), to: to.to_owned() });
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<(), EnvError> {
        let mut state = self.state.lock();
        self.change(&mut state, None).map_err(failed(path, Operation::Remove))?;
        if !state.names.contains_key(path) {
            return Err(failed(path, Operation::Remove)(io::ErrorKind::NotFound.into()));
        }
        state.change_name(NameChange::Remove { path: path.to_owned() });
        Ok(())
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>, EnvError> {
        let state = self.state.lock();
        self.runs(&state).map_err(failed(dir, Operation::List))?;
        if !state.directories.contains(dir) {
            return Err(failed(dir, Operation::List)(io::ErrorKind::NotFound.into()));
        }
        let inside = state.names.keys().filter(|path| path.parent() == Some(dir));
        Ok(inside
            .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
            .collect())
    }

    fn try_lock_dir(&self, dir: &Path) -> Result<Option<Box<dyn DirLock>>, EnvError> {
        let state = &mut *self.state.lock();
        self.runs(state).map_err(failed(dir, Operation::Lock))?;
        if !state.directories.contains(dir) {
            return Err(failed(dir, Operation::Lock)(io::ErrorKind::NotFound.into()));
        }
        if state.locked_dirs.contains_key(dir) {
            return Ok(None);
        }
        state.handles += 1;
        state.locked_dirs.insert(dir.to_owned(), state.handles);
        let (dir, handle) = (dir.to_owned(), state.handles);
        Ok(Some(Box::new(MemDirLock { env: self.clone(), dir, handle })))
    }
}

#[derive(Debug)]
struct MemDirLock {
    env: MemEnv,
    dir: PathBuf,
    handle: u64,
}

impl DirLock for MemDirLock {}

impl Drop for MemDirLock {
    fn drop(&mut self) {
        let locked = &mut self.env.state.lock().locked_dirs;
        if locked.get(&self.dir) == Some(&self.handle) {
            locked.remove(&self.dir);
        }
    }
}

#[derive(Debug)]
struct State {
    random: SplitMix64,
    now_ns: u64,
    /// Counts crashes; a file opened in an earlier epoch is gone.
    epoch: u64,
    /// Counts opened files, to give each a number.
    handles: u64,
    power_off: bool,
    faults: Vec<Fault>,
    files: Vec<MemFileState>,
    names: Names,
    durable_names: Names,
    pending: Vec<NameChange>,
    directories: BTreeSet<PathBuf>,
    /// By which handle.
    locked_dirs: BTreeMap<PathBuf, u64>,
}

impl State {
    fn powered(&self) -> io::Result<()> {
        if self.power_off { Err(io::Error::other("the power is off")) } else { Ok(()) }
    }

    /// Counts a change (and a write or sync, if it is one) and fails it if a fault says so.
    fn change(&mut self, also: Option<FaultPoint>) -> io::Result<()> {
        self.powered()?;
        let mut hit = None;
        self.faults.retain_mut(|fault| {
            if fault.point != FaultPoint::Change && Some(fault.point) != also {
                return true;
            }
            fault.nth -= 1;
            if fault.nth == 0 {
                hit = Some(*fault);
            }
            fault.nth > 0
        });
        let Some(fault) = hit else { return Ok(()) };
        self.power_off |= fault.point == FaultPoint::Change;
        Err(match fault.kind {
            FaultKind::DiskFull => io::ErrorKind::StorageFull.into(),
            FaultKind::Io => io::Error::other("injected EIO"),
        })
    }

    fn change_name(&mut self, change: NameChange) {
        change.clone().apply(&mut self.names);
        self.pending.push(change);
    }
}

#[derive(Debug)]
struct MemFile {
    /// Of whoever has opened it.
    env: MemEnv,
    path: PathBuf,
    file: usize,
    handle: u64,
    mode: OpenMode,
}

impl Drop for MemFile {
    fn drop(&mut self) {
        let file = &mut self.env.state.lock().files[self.file];
        if file.locked_by == Some(self.handle) {
            file.locked_by = None;
        }
    }
}

impl MemFile {
    /// Runs `body` on the file, unless the machine has crashed since it was opened.
    fn with<T>(
        &self,
        operation: Operation,
        offset: Option<u64>,
        body: impl FnOnce(&mut State) -> io::Result<T>,
    ) -> Result<T, EnvError> {
        let state = &mut *self.env.state.lock();
        let result = self.env.runs(state).and_then(|()| body(state));
        result.map_err(|source| EnvError { path: self.path.clone(), offset, operation, source })
    }

    fn writable(&self) -> io::Result<()> {
        if self.mode == OpenMode::Read {
            Err(io::ErrorKind::PermissionDenied.into())
        } else {
            Ok(())
        }
    }
}

impl EnvFile for MemFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, EnvError> {
        self.with(Operation::Read, Some(offset), |state| {
            let contents = &state.files[self.file].now;
            let rest = contents.get(offset as usize..).unwrap_or(&[]);
            let bytes = rest.len().min(buf.len());
            buf[..bytes].copy_from_slice(&rest[..bytes]);
            Ok(bytes)
        })
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), EnvError> {
        self.with(Operation::Write, Some(offset), |state| {
            self.writable()?;
            let result = state.change(Some(FaultPoint::Write));
            let written = match result {
                Ok(()) => bytes.len(),
                Err(_) => state.random.below(bytes.len() as u64 + 1) as usize,
            };
            state.files[self.file].write(&bytes[..written], offset as usize);
            result
        })
    }

    fn len(&self) -> Result<u64, EnvError> {
        self.with(Operation::Len, None, |state| Ok(state.files[self.file].now.len() as u64))
    }

    fn truncate(&self, len_bytes: u64) -> Result<(), EnvError> {
        self.with(Operation::Truncate, Some(len_bytes), |state| {
            self.writable()?;
            state.change(None)?;
            state.files[self.file].truncate(len_bytes as usize);
            Ok(())
        })
    }

    fn sync_data(&self) -> Result<(), EnvError> {
        self.with(Operation::Sync, None, |state| {
            let result = state.change(Some(FaultPoint::Sync));
            match result {
                Ok(()) => state.files[self.file].sync(),
                Err(_) => state.files[self.file].fail_sync(&mut state.random),
            }
            result
        })
    }

    fn sync_all(&self) -> Result<(), EnvError> {
        self.sync_data()
    }

    fn map(&self) -> Result<Buffer, EnvError> {
        self.with(Operation::Map, None, |state| {
            Ok(Buffer::from_slice_ref(&state.files[self.file].now))
        })
    }

    fn try_lock_exclusive(&self) -> Result<bool, EnvError> {
        self.with(Operation::Lock, None, |state| {
            let holder = state.files[self.file].locked_by.get_or_insert(self.handle);
            Ok(*holder == self.handle)
        })
    }
}

fn failed(path: &Path, operation: Operation) -> impl FnOnce(io::Error) -> EnvError + use<> {
    let path = path.to_owned();
    move |source| EnvError { path, offset: None, operation, source }
}
