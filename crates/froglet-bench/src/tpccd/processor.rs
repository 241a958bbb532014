//! Processor time that a migration takes, from /proc.
//!
//! ```text
//!   server = sessions, log, collector, catalog, listener  +  everything else: the background
//!            threads that last: each one's own account       scan, capture, load, queries' threads
//! ```
//!
//! A migration's threads may live for some milliseconds only, so they are not looked for. What they
//! took is the process's time (which keeps that of threads that have ended) less that of the threads
//! that last. The kernel accounts a process in ticks of 10 ms, in user and in system time, so it is
//! good to 20 ms; use rounds for short changes. NoDDL's background (queries of the mix that run on
//! the queries' threads) is to be taken off. Not in it: what the session of the change and those of
//! the clients do for it (the flip, rows that writers migrate, the log of both).

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

/// Of Linux's accounts, in user space: 100 a second.
const TICK: Duration = Duration::from_millis(10);
/// Threads of the server that do no migration, as the kernel has their names (15 bytes).
const LASTING: [&str; 6] = [
    "froglet",
    "tokio-rt-worker",
    "froglet-session",
    "froglet-log",
    "froglet-collect",
    "froglet-catalog",
];

/// Accounts at one time.
#[derive(Debug, Default)]
pub struct Accounts {
    process: Duration,
    /// By thread id.
    lasting: HashMap<u32, Duration>,
    machine: Duration,
}

/// Between two times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// By the server's threads that do not last.
    pub background: Duration,
    /// By everybody on all cores.
    pub machine: Duration,
}

impl Accounts {
    /// Of a server's process, and of the machine, now.
    pub fn read(pid: u32) -> Result<Accounts> {
        let directory = format!("/proc/{pid}");
        let directory = Path::new(&directory);
        let mut lasting = HashMap::new();
        for entry in fs::read_dir(directory.join("task"))? {
            let task = entry?.path();
            // A thread may end while it is looked at.
            let Ok(name) = fs::read_to_string(task.join("comm")) else { continue };
            let id = task.file_name().and_then(|id| id.to_str()?.parse().ok());
            if let (Some(id), true, Some(time)) = (id, lasts(name.trim()), thread_time(&task)) {
                lasting.insert(id, time);
            }
        }
        let stat = fs::read_to_string(directory.join("stat"))?;
        let process = user_and_system(&stat).context("/proc/PID/stat has no times")?;
        let stat = fs::read_to_string("/proc/stat")?;
        let machine = busy(&stat).context("/proc/stat has no times")?;
        Ok(Accounts { process, lasting, machine })
    }

    /// What was spent since.
    pub fn since(&self, before: &Accounts) -> Spent {
        // A thread that has ended since, or has begun, has what can be known of it.
        let lasting = self.lasting.iter().map(|(id, time)| {
            time.saturating_sub(before.lasting.get(id).copied().unwrap_or_default())
        });
        let process = self.process.saturating_sub(before.process);
        Spent {
            background: process.saturating_sub(lasting.sum()),
            machine: self.machine.saturating_sub(before.machine),
        }
    }
}

/// What a process, its children and those of them that have ended have taken so far. A server of one process, or
/// PostgreSQL's, whose sessions are children.
pub fn family_time(pid: u32) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, mut time) = parent_and_times(&stat).context("/proc/PID/stat has no times")?;
    for entry in fs::read_dir("/proc")? {
        // A process may end while it is looked at; then its parent has its time.
        let Ok(stat) = fs::read_to_string(entry?.path().join("stat")) else { continue };
        time += match parent_and_times(&stat) {
            Some((parent, time)) if parent == pid => time,
            _ => Duration::ZERO,
        };
    }
    Ok(time)
}

/// Field 4 of a stat file, and 14 to 17: its own time, and that of its children that have ended.
fn parent_and_times(stat: &str) -> Option<(u32, Duration)> {
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let ticks = fields.get(11..15)?.iter().map(|n| n.parse::<u32>().ok()).sum::<Option<u32>>()?;
    Some((fields.get(1)?.parse().ok()?, TICK * ticks))
}

/// The part of a machine's cores that `time` of them is in `during`; at most 1.
pub fn share(time: Duration, cores: usize, during: Duration) -> f64 {
    let all = during.as_secs_f64() * cores as f64;
    if all == 0.0 { 0.0 } else { (time.as_secs_f64() / all).min(1.0) }
}

fn lasts(name: &str) -> bool {
    LASTING.contains(&name)
}

/// To the nanosecond where the scheduler tells, otherwise in ticks.
fn thread_time(task: &Path) -> Option<Duration> {
    let sched = fs::read_to_string(task.join("sched")).ok();
    sched.as_deref().and_then(run_time).or_else(|| {
        let stat = fs::read_to_string(task.join("stat")).ok()?;
        user_and_system(&stat)
    })
}

fn run_time(sched: &str) -> Option<Duration> {
    let line = sched.lines().find(|line| line.starts_with("se.sum_exec_runtime"))?;
    let ms: f64 = line.split_once(':')?.1.trim().parse().ok()?;
    Duration::try_from_secs_f64(ms / 1000.0).ok()
}

/// Fields 14 and 15 of a stat file. Field 2, in parentheses, may have blanks.
fn user_and_system(stat: &str) -> Option<Duration> {
    let mut fields = stat.rsplit_once(") ")?.1.split(' ').skip(11);
    let ticks: u32 = fields.next()?.parse::<u32>().ok()? + fields.next()?.parse::<u32>().ok()?;
    Some(TICK * ticks)
}

/// The machine's time but for that in which its cores are idle or wait for a disk.
fn busy(stat: &str) -> Option<Duration> {
    let all = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let fields: Vec<u64> = all.split_whitespace().map_while(|n| n.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal guest guest_nice; guests are users, too.
    let ticks: u64 = fields.get(..3)?.iter().chain(fields.get(5..8)?).sum();
    Some(Duration::from_millis(10 * ticks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_read() {
        let stat = "42 (a (b) c) S 1 1 1 0 -1 4194304 102 0 0 0 17 4 9 9 20 0 1 0 3 3 4 1";
        assert_eq!(user_and_system(stat), Some(TICK * 21));
        assert_eq!(user_and_system("42 (a) S"), None);
        assert_eq!(parent_and_times(stat), Some((1, TICK * 39)));
        assert_eq!(parent_and_times("42 (a) S 1"), None);
        let stat = "cpu  10 20 30 1000 1000 1 2 3 9 9\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        assert_eq!(busy(stat), Some(TICK * 66));
        let sched =
            "a (1, #threads: 1)\n---\nse.vruntime  :  9.0\nse.sum_exec_runtime :  1500.25\n";
        assert_eq!(run_time(sched), Some(Duration::from_micros(1_500_250)));
    }

    #[test]
    fn what_does_not_last_is_the_background() {
        let ms = Duration::from_millis;
        let lasting = |times: &[(u32, u64)]| times.iter().map(|(id, n)| (*id, ms(*n))).collect();
        let before =
            Accounts { process: ms(1000), lasting: lasting(&[(1, 600), (2, 300)]), machine: ms(0) };
        // Thread 2 has ended, and thread 3 has begun.
        let after = Accounts {
            process: ms(1500),
            lasting: lasting(&[(1, 700), (3, 50)]),
            machine: ms(900),
        };
        let spent = after.since(&before);
        assert_eq!(spent, Spent { background: ms(350), machine: ms(900) });
    }

    #[test]
    fn shares_are_of_all_cores() {
        let ms = Duration::from_millis;
        assert_eq!(share(ms(50), 2, ms(100)), 0.25);
        assert_eq!(share(ms(500), 2, ms(100)), 1.0);
        assert_eq!(share(ms(500), 2, ms(0)), 0.0);
    }

    #[test]
    fn a_child_is_of_the_family_even_when_it_has_ended() {
        let began = family_time(std::process::id()).unwrap();
        let mut child = std::process::Command::new("sh");
        child.args(["-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"]);
        assert!(child.status().unwrap().success());
        assert!(family_time(std::process::id()).unwrap() >= began + TICK);
    }

    #[test]
    fn this_process_has_accounts() {
        let before = Accounts::read(std::process::id()).unwrap();
        let after = Accounts::read(std::process::id()).unwrap();
        assert!(after.process >= before.process && after.machine >= before.machine);
    }
}
