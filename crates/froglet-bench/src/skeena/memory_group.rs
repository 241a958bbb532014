//! A memory limit for a server's processes and the pages of files that they have read: a memory cgroup (version 1)
//! inside the benchmark's own, removed when it is dropped.
//!
//! Left out: version 2, where a group with processes in it (the benchmark's) cannot give its children a limit.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

/// Version 1's memory controller, where it is mounted.
const CONTROLLER: &str = "/sys/fs/cgroup/memory";
/// A limit below what is used makes the kernel write pages out first, which may take more than one try.
const TRIES: u32 = 50;

static MADE: AtomicU32 = AtomicU32::new(0);

/// See the module.
pub struct MemoryGroup {
    dir: PathBuf,
}

impl MemoryGroup {
    /// One without a limit; an error says why this machine has none.
    pub fn create() -> Result<MemoryGroup> {
        let groups = fs::read_to_string("/proc/self/cgroup")?;
        let own = own_group(&groups).context("there is no memory cgroup of version 1")?;
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("froglet-bench-{}-{number}", std::process::id());
        let dir = Path::new(CONTROLLER).join(own.trim_start_matches('/')).join(name);
        fs::create_dir(&dir).with_context(|| format!("{} cannot be made", dir.display()))?;
        Ok(MemoryGroup { dir })
    }

    /// Puts a process into it, and its children from now on.
    pub fn add(&self, pid: u32) -> Result<()> {
        let file = self.dir.join("cgroup.procs");
        fs::write(&file, pid.to_string()).with_context(|| format!("{} to {}", pid, file.display()))
    }

    /// Limits it to so many bytes; pages of files beyond that go at once.
    pub fn limit(&self, bytes: u64) -> Result<()> {
        let file = self.dir.join("memory.limit_in_bytes");
        let mut tries = 1;
        while let Err(error) = fs::write(&file, bytes.to_string()) {
            if tries == TRIES {
                return Err(error).with_context(|| format!("a memory limit of {bytes} bytes"));
            }
            tries += 1;
            thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// Takes the limit away.
    pub fn lift(&self) -> Result<()> {
        fs::write(self.dir.join("memory.limit_in_bytes"), "-1").context("a memory limit stays")
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // A process that has just been waited for may still be in it for a moment.
        for _ in 0..TRIES {
            if fs::remove_dir(&self.dir).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
        eprintln!("{} is left behind", self.dir.display());
    }
}

/// The path of a process's group, from lines `4:memory:/a/b`.
fn own_group(groups: &str) -> Option<&str> {
    groups.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        controllers.split(',').any(|controller| controller == "memory").then_some(path)
    })
}

/// Makes the kernel forget pages of files that are written. False where that is not allowed.
pub fn drop_page_cache() -> bool {
    let written = std::process::Command::new("sync").status();
    written.is_ok_and(|status| status.success())
        && fs::write("/proc/sys/vm/drop_caches", "1").is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_group_is_found_among_others() {
        let groups = "9:name=systemd:/\n4:memory,x:/a/b\n0::/\n";
        assert_eq!(own_group(groups), Some("/a/b"));
        assert_eq!(own_group("0::/user.slice\n"), None);
    }
}
