//! What the figures were measured on.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Processor, cores, memory and kernel of this machine, in one line.
pub fn describe() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = field(&cpuinfo, "model name").unwrap_or("unknown processor");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory_gib = kib(&meminfo, "MemTotal") as f64 / (1 << 20) as f64;
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let kernel = if kernel.trim().is_empty() { std::env::consts::OS } else { kernel.trim() };
    format!("{model}, {cores} cores, {memory_gib:.0} GiB, kernel {kernel}")
}

/// The commit of the source tree this was built from, with `-dirty` if there are changes;
/// `unknown` where there is no such tree.
pub fn commit() -> String {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR"));
    if !tree.is_dir() {
        return "unknown".to_owned();
    }
    let asked = Command::new("git")
        .arg("-C")
        .arg(tree)
        .args(["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"])
        .output();
    match asked {
        Ok(out) if out.status.success() => String::from_utf8_lossy(&out.stdout).trim().to_owned(),
        _ => "unknown".to_owned(),
    }
}

/// Bytes of this process that are in memory and belong to it alone (RssAnon).
pub fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    kib(&status, "RssAnon") << 10
}

/// Time that the calling thread has had a processor; `None` where the kernel does not say. On a
/// machine that others use too, this is steadier than the clock.
pub fn thread_cpu_time() -> Option<Duration> {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(stat.split(' ').next()?.parse().ok()?))
}

/// Keeps the calling thread, and threads it starts from now on, on one core. False where that
/// cannot be done.
pub fn pin_to_core(core: usize) -> bool {
    let Ok(thread) = fs::read_link("/proc/thread-self") else { return false };
    let Some(id) = thread.file_name() else { return false };
    let pinned = Command::new("taskset").arg("-pc").arg(core.to_string()).arg(id).output();
    pinned.is_ok_and(|out| out.status.success())
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim())
}

fn kib(text: &str, name: &str) -> u64 {
    field(text, name).and_then(|v| v.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_proc_files_are_found() {
        let text = "MemTotal:       1024 kB\nMemFree:  7 kB\n";
        assert_eq!(kib(text, "MemFree"), 7);
        assert_eq!(kib(text, "SwapFree"), 0);
        assert!(describe().contains("cores"));
    }
}
