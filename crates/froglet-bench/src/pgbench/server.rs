//! Servers for as long as a benchmark runs: a data directory of their own, a free port, stopped by
//! their own process id, nothing left behind.

use std::fs::{self, File};

use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use tempfile::TempDir;

use crate::store::temporary;

/// The longest a server may take to begin or to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that clients can be pointed at.
pub trait Server {
    /// Where it listens.
    fn port(&self) -> u16;

    /// The command that fills it, if there is anything to fill.
    fn prepare(&self, pgbench: &Path, scale: u16) -> Option<Command> {
        let mut command = self.client(pgbench);
        command.args(["-i", "-q", "-s", &scale.to_string()]);
        Some(command)
    }

    /// A client program of PostgreSQL's, pointed at this server.
    fn client(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        for variable in ["PGPASSWORD", "PGSERVICE", "PGOPTIONS", "PGSSLMODE"] {
            command.env_remove(variable);
        }
        command
            .env("PGHOST", "127.0.0.1")
            .env("PGPORT", self.port().to_string())
            .env("PGUSER", "postgres")
            .env("PGDATABASE", "postgres")
            .stdin(Stdio::null());
        command
    }
}

/// A child process that is stopped however the benchmark ends.
struct Process {
    child: Child,
    log: PathBuf,
    signal: &'static str,
    name: &'static str,
}

impl Process {
    /// Waits until it answers a question of `psql`.
    fn wait_for(&mut self, mut psql: Command) -> Result<()> {
        let started = Instant::now();
        psql.args(["-X", "-A", "-t", "-c", "SELECT 1"]);
        loop {
            let asked = psql.output().with_context(|| format!("{psql:?} cannot be run"))?;
            if asked.status.success() {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended at once ({status}): {}", self.name, self.log_tail());
            }
            if started.elapsed() > PATIENCE {
                let said = String::from_utf8_lossy(&asked.stderr).trim().to_owned();
                bail!("{} does not answer: {said}\n{}", self.name, self.log_tail());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn log_tail(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(10)..].join("\n")
    }

    /// Asks it to end, and waits until it has.
    fn stop(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("{} ended by itself ({status}): {}", self.name, self.log_tail());
        }
        let pid = self.child.id().to_string();
        let asked = Command::new("kill").args([self.signal, &pid]).status();
        let started = Instant::now();
        while asked.as_ref().is_ok_and(|s| s.success()) && started.elapsed() < PATIENCE {
            if self.child.try_wait()?.is_some() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.child.kill()?;
        self.child.wait()?;
        bail!("{} (process {pid}) did not end when asked to and was killed", self.name)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // After a failure elsewhere: the process may have ended, and nobody listens to how.
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.stop();
        }
    }
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// PostgreSQL with a new cluster.
pub struct Postgres {
    process: Process,
    port: u16,
    _dir: TempDir,
}

impl Postgres {
    /// Makes a cluster under `parent` and starts it. As root it runs as user postgres, because
    /// PostgreSQL refuses to run as root.
    pub fn start(bin: &Path, parent: &Path) -> Result<Postgres> {
        let server = bin.join("postgres");
        if !server.is_file() {
            bail!(
                "{} is not there: install PostgreSQL 15 (Debian: apt install postgresql-15) or \
                 give its bin directory with --postgres",
                server.display()
            );
        }
        let dir = temporary(parent)?;
        let user = unprivileged(dir.path())?;
        let data = dir.path().join("data");
        let mut initdb = Command::new(bin.join("initdb"));
        initdb.args([
            "--auth=trust",
            "--username=postgres",
            "--encoding=UTF8",
            "--no-locale",
            "-D",
        ]);
        super::asked(become_user(&mut initdb, user).arg(&data)).context("initdb")?;
        let port = free_port()?;
        let log = dir.path().join("postgres.log");
        let mut command = Command::new(server);
        command.arg("-D").arg(&data).args(["-p", &port.to_string()]);
        for setting in [
            "listen_addresses=127.0.0.1".to_owned(),
            format!("unix_socket_directories={}", dir.path().display()),
            "shared_buffers=2GB".to_owned(),
            "max_wal_size=4GB".to_owned(),
        ] {
            command.args(["-c", &setting]);
        }
        let child = spawn(become_user(&mut command, user), &log)?;
        // SIGINT is its fast shutdown.
        let process = Process { child, log, signal: "-INT", name: "PostgreSQL" };
        let mut postgres = Postgres { process, port, _dir: dir };
        let psql = postgres.client(&bin.join("psql"));
        postgres.process.wait_for(psql)?;
        Ok(postgres)
    }

    /// Stops it.
    pub fn stop(mut self) -> Result<()> {
        self.process.stop()
    }
}

impl Server for Postgres {
    fn port(&self) -> u16 {
        self.port
    }
}

/// A froglet server with an empty data directory.
pub struct Froglet {
    process: Process,
    port: u16,
    _dir: TempDir,
}

impl Froglet {
    /// Starts it; `bin` has PostgreSQL's clients.
    pub fn start(binary: &Path, bin: &Path, parent: &Path) -> Result<Froglet> {
        let dir = temporary(parent)?;
        let port = free_port()?;
        let log = dir.path().join("froglet.log");
        let mut command = Command::new(binary);
        command.arg("serve").arg("--data").arg(dir.path().join("data"));
        command.args(["--listen", &format!("127.0.0.1:{port}")]);
        let child = spawn(&mut command, &log)?;
        let process = Process { child, log, signal: "-TERM", name: "froglet" };
        let mut froglet = Froglet { process, port, _dir: dir };
        let psql = froglet.client(&bin.join("psql"));
        froglet.process.wait_for(psql)?;
        Ok(froglet)
    }

    /// Stops it.
    pub fn stop(mut self) -> Result<()> {
        self.process.stop()
    }
}

impl Server for Froglet {
    fn port(&self) -> u16 {
        self.port
    }
}

fn spawn(command: &mut Command, log: &Path) -> Result<Child> {
    let output = File::create(log).with_context(|| format!("{} cannot be made", log.display()))?;
    let errors = output.try_clone()?;
    command.stdin(Stdio::null()).stdout(output).stderr(errors);
    command.spawn().with_context(|| format!("{command:?} cannot be run"))
}

/// User and group ids.
type User = (u32, u32);

/// As root: the user that PostgreSQL runs as, who is given the directory. Otherwise nobody else.
fn unprivileged(dir: &Path) -> Result<Option<User>> {
    use std::os::unix::fs::MetadataExt;
    if fs::metadata("/proc/self")?.uid() != 0 {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd")?;
    let user = ["postgres", "nobody"]
        .iter()
        .find_map(|name| user_of(&users, name))
        .ok_or_else(|| anyhow!("PostgreSQL does not run as root, and there is no user postgres"))?;
    chown(dir, Some(user.0), Some(user.1))?;
    Ok(Some(user))
}

fn user_of(users: &str, name: &str) -> Option<User> {
    let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut fields = line.split(':').skip(2);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

fn become_user(command: &mut Command, user: Option<User>) -> &mut Command {
    match user {
        // The working directory may be closed to that user.
        Some((uid, gid)) => command.uid(uid).gid(gid).current_dir("/"),
        None => command,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_their_whole_name() {
        let users = "root:x:0:0::/root:/bin/sh\npostgresql:x:9:9\npostgres:x:105:110:,:/:/bin/sh\n";
        assert_eq!(user_of(users, "postgres"), Some((105, 110)));
        assert_eq!(user_of(users, "nobody"), None);
    }

    #[test]
    fn postgres_starts_answers_and_stops() {
        let bin = Path::new("/usr/lib/postgresql/15/bin");
        if !bin.join("postgres").is_file() {
            eprintln!("not tested: {} has no PostgreSQL", bin.display());
            return;
        }
        let postgres = Postgres::start(bin, &std::env::temp_dir()).unwrap();
        let mut psql = postgres.client(&bin.join("psql"));
        let answer = super::super::asked(psql.args(["-XAtc", "SHOW shared_buffers"])).unwrap();
        assert_eq!(String::from_utf8_lossy(&answer.stdout).trim(), "2GB");
        postgres.stop().unwrap();
    }
}
