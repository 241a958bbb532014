//! Sizes and durations as PostgreSQL writes them: `512MB`, `5min`.

use std::time::Duration;

const SIZES: [(&str, u64); 5] =
    [("TB", 1 << 40), ("GB", 1 << 30), ("MB", 1 << 20), ("kB", 1 << 10), ("B", 1)];

const TIMES_MS: [(&str, u64); 5] =
    [("min", 60_000), ("ms", 1), ("s", 1_000), ("h", 3_600_000), ("d", 86_400_000)];

/// A size with its unit; a bare number is bytes.
pub fn bytes(text: &str) -> Result<u64, String> {
    measure(text, &SIZES, 1).ok_or_else(|| "a size is needed, 512MB or 8GB for example".to_owned())
}

/// A duration with its unit; a bare number is seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let ms = measure(text, &TIMES_MS, 1_000);
    ms.map(Duration::from_millis)
        .ok_or_else(|| "a duration is needed, 30s or 5min for example".to_owned())
}

fn measure(text: &str, units: &[(&str, u64)], bare: u64) -> Option<u64> {
    let text = text.trim();
    let unit = |(unit, factor): &(&str, u64)| {
        let split = text.len().checked_sub(unit.len())?;
        let (number, suffix) = text.split_at_checked(split)?;
        suffix.eq_ignore_ascii_case(unit).then_some((number.trim_end(), *factor))
    };
    let (number, factor) = units.iter().find_map(unit).unwrap_or((text, bare));
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// So many per cent of this machine's memory.
pub fn share_of_memory(percent: &str) -> Result<u64, String> {
    match percent.parse::<u64>() {
        Ok(percent @ 1..=100) => Ok(physical_memory_bytes() / 100 * percent),
        _ => Err("1% to 100% is possible".to_owned()),
    }
}

/// Three quarters of the memory.
pub fn default_memory_limit_bytes() -> u64 {
    physical_memory_bytes() / 100 * 75
}

/// What this machine has, or this control group may use of it.
fn physical_memory_bytes() -> u64 {
    let machine = std::fs::read_to_string("/proc/meminfo")
        .ok()
        .as_deref()
        .and_then(mem_total_bytes)
        .or_else(mac_memory_bytes);
    let group = std::fs::read_to_string("/sys/fs/cgroup/memory.max")
        .ok()
        .and_then(|text| text.trim().parse().ok());
    // A machine that does not say is taken for a small one.
    let machine = machine.unwrap_or(4 << 30);
    group.map_or(machine, |group: u64| machine.min(group))
}

fn mem_total_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|l| l.strip_prefix("MemTotal:"))?;
    bytes(line).ok()
}

fn mac_memory_bytes() -> Option<u64> {
    if !cfg!(target_os = "macos") {
        return None;
    }
    let mut command = std::process::Command::new("sysctl");
    let output = command.args(["-n", "hw.memsize"]).output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_durations() {
        assert_eq!(bytes("512MB"), Ok(512 << 20));
        assert_eq!(bytes(" 8 gb "), Ok(8 << 30));
        assert_eq!(bytes("4096"), Ok(4096));
        assert_eq!(bytes("64kB"), Ok(64 << 10));
        for bad in ["", "GB", "-1GB", "1.5GB", "1 parsec", "99999999999TB", "ü"] {
            assert!(bytes(bad).is_err(), "{bad}");
        }
        assert_eq!(duration("5min"), Ok(Duration::from_secs(300)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("30"), Ok(Duration::from_secs(30)));
        assert!(duration("soon").is_err());
        assert_eq!(mem_total_bytes("MemTotal:  16 kB\nMemFree: 1 kB"), Some(16 << 10));
        assert!(physical_memory_bytes() > 64 << 20);
    }
}
