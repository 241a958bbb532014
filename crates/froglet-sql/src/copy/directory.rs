//! The directory that COPY reads and writes files in, and names within it.
//!
//! ```text
//!   'sub/orders.parquet'   copy_directory ─openat─▶ sub ─openat─▶ orders.parquet
//!   '/srv/copy/…'            the same, if copy_directory is /srv/copy
//!   '../x', '/etc/passwd', a symbolic link on the way: 42501
//! ```
//!
//! The server opens the directory once, when it starts, and every name is walked from that handle, one
//! component at a time, with O_NOFOLLOW. So nothing outside can be reached: there is no `..` among the
//! components, no link is followed, and who renames a directory meanwhile changes nothing, for the walk holds
//! directories and not their names.
//!
//! D1: a file has its name only when all of it is there and on disk. What is written has a name of its own
//!     (`.froglet-copy-…`) in the same directory, is synced, and is renamed; dropped before, it is removed.
//!     A server that is killed in between leaves it there.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use froglet_engine::SqlState;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};

use crate::error::SqlError;

/// Where COPY's files are.
#[derive(Debug)]
pub struct CopyDirectory {
    path: PathBuf,
    /// As it was configured, if that is another name.
    alias: PathBuf,
    handle: OwnedFd,
}

const WALK: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

impl CopyDirectory {
    /// Opens the directory, which must be there.
    pub fn open(path: &Path) -> io::Result<CopyDirectory> {
        let handle = rustix::fs::open(path, WALK, Mode::empty())?;
        Ok(CopyDirectory { path: path.canonicalize()?, alias: std::path::absolute(path)?, handle })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where a file of this name is or would be.
    pub(crate) fn place(&self, name: &str) -> Result<Place, SqlError> {
        let refused = |why: &str| {
            denied(name, why)
                .detail(format!("COPY reads and writes files in \"{}\".", self.path.display()))
        };
        let given = Path::new(name);
        if given.components().any(|part| part == Component::ParentDir) {
            return Err(refused("\"..\" is not allowed in a file's name"));
        }
        let inside = match given.is_absolute() {
            false => Some(given),
            true => {
                given.strip_prefix(&self.path).or_else(|_| given.strip_prefix(&self.alias)).ok()
            }
        };
        let inside = inside.ok_or_else(|| refused("it is outside of copy_directory"))?;
        let parts = inside.components().filter_map(|part| match part {
            Component::Normal(part) => Some(part),
            _ => None,
        });
        let parts: Vec<&OsStr> = parts.collect();
        let Some((last, way)) = parts.split_last() else { return Err(is_a_directory(name)) };
        if name.ends_with('/') {
            return Err(is_a_directory(name));
        }
        let mut directory = self.handle.try_clone().map_err(|e| file_error("open", name, &e))?;
        for part in way {
            directory = step(&directory, part, name)?;
        }
        Ok(Place { directory, base: last.to_os_string(), name: name.to_owned() })
    }
}

fn step(directory: &OwnedFd, part: &OsStr, name: &str) -> Result<OwnedFd, SqlError> {
    let flags = WALK.union(OFlags::NOFOLLOW);
    rustix::fs::openat(directory, part, flags, Mode::empty()).map_err(|e| {
        match kind(directory, part) {
            Some(FileType::Symlink) => is_a_link(name),
            _ => file_error("open", name, &e.into()),
        }
    })
}

fn kind(directory: &OwnedFd, part: &OsStr) -> Option<FileType> {
    let stat = rustix::fs::statat(directory, part, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some(FileType::from_raw_mode(stat.st_mode))
}

/// A file's name in a directory that is open.
#[derive(Debug)]
pub(crate) struct Place {
    directory: OwnedFd,
    base: std::ffi::OsString,
    /// As the statement has it.
    pub(crate) name: String,
}

impl Place {
    /// Opens it for reading.
    pub(crate) fn read(&self) -> Result<File, SqlError> {
        // A named pipe would keep who opens it waiting.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let opened = rustix::fs::openat(&self.directory, &self.base, flags, Mode::empty());
        let file = opened.map(File::from).map_err(|e| match self.kind() {
            Some(FileType::Symlink) => is_a_link(&self.name),
            _ => file_error("open", &self.name, &e.into()),
        })?;
        match file.metadata() {
            Ok(known) if known.is_dir() => Err(is_a_directory(&self.name)),
            Ok(known) if !known.is_file() => Err(is_no_file(&self.name)),
            Ok(_) => Ok(file),
            Err(e) => Err(file_error("open", &self.name, &e)),
        }
    }

    /// Begins a file that will have this name.
    pub(crate) fn write(self) -> Result<Unfinished, SqlError> {
        match self.kind() {
            Some(FileType::Directory) => return Err(is_a_directory(&self.name)),
            Some(FileType::Symlink) => return Err(is_a_link(&self.name)),
            Some(FileType::RegularFile) | None => {}
            Some(_) => return Err(is_no_file(&self.name)),
        }
        let temporary = format!(".froglet-copy-{:016x}", rand::random::<u64>());
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mode = Mode::from_raw_mode(0o644);
        let file = rustix::fs::openat(&self.directory, temporary.as_str(), flags, mode)
            .map_err(|e| file_error("write", &self.name, &e.into()))?;
        Ok(Unfinished { place: self, temporary: Some(temporary), file: File::from(file) })
    }

    fn kind(&self) -> Option<FileType> {
        kind(&self.directory, &self.base)
    }
}

/// A file that does not have its name yet. Dropped, it is removed.
#[derive(Debug)]
pub(crate) struct Unfinished {
    place: Place,
    temporary: Option<String>,
    pub(crate) file: File,
}

impl Unfinished {
    /// What it will be called.
    pub(crate) fn name(&self) -> &str {
        &self.place.name
    }

    /// Everything is on disk.
    pub(crate) fn sync(&self) -> Result<(), SqlError> {
        self.file.sync_all().map_err(|e| file_error("write", self.name(), &e))
    }

    /// It gets its name, whoever had that before. Sync it first.
    pub(crate) fn publish(mut self) -> Result<(), SqlError> {
        let place = &self.place;
        let temporary = self.temporary.as_deref().unwrap_or_default();
        let renamed =
            rustix::fs::renameat(&place.directory, temporary, &place.directory, &place.base);
        renamed.map_err(|e| file_error("write", &place.name, &e.into()))?;
        self.temporary = None;
        let synced = rustix::fs::fsync(&self.place.directory);
        synced.map_err(|e| file_error("write", self.name(), &e.into()))
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(temporary) = self.temporary.take() {
            let removed = rustix::fs::unlinkat(&self.place.directory, &temporary, AtFlags::empty());
            if let Err(error) = removed {
                tracing::warn!(%error, temporary, "an unfinished file of COPY stays");
            }
        }
    }
}

/// What an error of the operating system means to who named the file.
pub(crate) fn file_error(doing: &str, name: &str, e: &io::Error) -> SqlError {
    use rustix::io::Errno;
    let state = match e.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOENT | Errno::NOTDIR) => SqlState::UNDEFINED_FILE,
        Some(Errno::ACCESS | Errno::PERM | Errno::ROFS) => SqlState::INSUFFICIENT_PRIVILEGE,
        // A quota and a limit of the process are full disks, too.
        Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => SqlState::DISK_FULL,
        Some(Errno::ISDIR) => return is_a_directory(name),
        Some(Errno::NAMETOOLONG) => SqlState::NAME_TOO_LONG,
        _ => SqlState::IO_ERROR,
    };
    let text = e.to_string();
    let why = text.split(" (os error").next().unwrap_or_default();
    let error = SqlError::new(state, format!("could not {doing} file \"{name}\": {why}"));
    if state == SqlState::DISK_FULL {
        return error.hint("Free some space, or let copy_directory be on a larger disk.");
    }
    error
}

fn denied(name: &str, why: &str) -> SqlError {
    SqlError::new(
        SqlState::INSUFFICIENT_PRIVILEGE,
        format!("COPY may not use file \"{name}\": {why}"),
    )
}

fn is_a_link(name: &str) -> SqlError {
    denied(name, "symbolic links are not followed")
}

fn is_a_directory(name: &str) -> SqlError {
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{name}\" is a directory"))
}

fn is_no_file(name: &str) -> SqlError {
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{name}\" is not a regular file"))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::symlink;

    use super::*;

    fn code(outcome: Result<Place, SqlError>) -> String {
        outcome
            .and_then(|place| place.read())
            .map_or_else(|e| e.state.to_string(), |_| "00000".to_owned())
    }

    #[test]
    fn names_stay_inside() {
        let outside = tempfile::tempdir().expect("a directory");
        std::fs::write(outside.path().join("secret"), "x").expect("written");
        let inside = tempfile::tempdir().expect("a directory");
        let at = |name: &str| inside.path().join(name);
        std::fs::create_dir_all(at("sub/deep")).expect("made");
        std::fs::write(at("sub/deep/f"), "x").expect("written");
        symlink(outside.path(), at("way")).expect("linked");
        symlink(outside.path().join("secret"), at("link")).expect("linked");
        symlink(at("sub"), at("within")).expect("linked");
        let directory = CopyDirectory::open(inside.path()).expect("opened");
        let absolute = at("sub/deep/f").display().to_string();
        let secret = outside.path().join("secret").display().to_string();
        for (name, expected) in [
            ("sub/deep/f", "00000"),
            ("./sub//deep/./f", "00000"),
            (absolute.as_str(), "00000"),
            ("missing", "58P01"),
            ("nowhere/f", "58P01"),
            ("sub/deep/f/g", "58P01"),
            ("sub", "42809"),
            ("sub/", "42809"),
            ("", "42809"),
            (".", "42809"),
            ("..", "42501"),
            ("sub/../sub/deep/f", "42501"),
            ("../x", "42501"),
            (secret.as_str(), "42501"),
            ("/etc/passwd", "42501"),
            ("way/secret", "42501"),
            ("link", "42501"),
            ("within/deep/f", "42501"),
        ] {
            assert_eq!(code(directory.place(name)), expected, "{name:?}");
        }
    }

    #[test]
    fn a_file_has_its_name_when_it_is_complete() {
        let inside = tempfile::tempdir().expect("a directory");
        let directory = CopyDirectory::open(inside.path()).expect("opened");
        let names = || {
            let entries = std::fs::read_dir(inside.path()).expect("listed");
            entries
                .map(|e| e.expect("an entry").file_name().into_string().expect("UTF-8"))
                .collect()
        };
        let begin = || {
            let mut file = directory.place("f").and_then(Place::write).expect("begun");
            file.file.write_all(b"new").expect("written");
            file
        };
        let given_up = begin();
        let [temporary]: [String; 1] = Vec::try_into(names()).expect("one file");
        assert!(temporary.starts_with(".froglet-copy-"), "{temporary}");
        drop(given_up);
        assert_eq!(names(), Vec::<String>::new());
        std::fs::write(inside.path().join("f"), "old").expect("written");
        let file = begin();
        file.sync().expect("synced");
        file.publish().expect("renamed");
        assert_eq!(names(), ["f"]);
        assert_eq!(std::fs::read(inside.path().join("f")).expect("read"), b"new");
    }
}
