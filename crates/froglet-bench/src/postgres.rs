//! PostgreSQL for as long as a benchmark compares with it: a cluster of its own, and its clients.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, anyhow, bail};
use tempfile::TempDir;

use crate::server::{Process, free_port, spawn};
use crate::store::temporary;

/// PostgreSQL with a new cluster.
pub struct Postgres {
    process: Process,
    port: u16,
    _dir: TempDir,
}

impl Postgres {
    /// Makes a cluster under `parent` and starts it, with `settings` (`name=value`) besides its own.
    /// As root it runs as user postgres, because PostgreSQL refuses to run as root.
    pub fn start(bin: &Path, parent: &Path, settings: &[&str]) -> Result<Postgres> {
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
            "--no-sync",
            "-D",
        ]);
        asked(become_user(&mut initdb, user).arg(&data)).context("initdb")?;
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
        for setting in settings {
            command.args(["-c", setting]);
        }
        let child = spawn(become_user(&mut command, user), &log)?;
        // SIGINT is its fast shutdown.
        let process = Process::new(child, log, "-INT", "PostgreSQL");
        let mut postgres = Postgres { process, port, _dir: dir };
        let mut psql = client(&bin.join("psql"), port);
        psql.args(["-X", "-A", "-t", "-c", "SELECT 1"]);
        postgres.process.wait_until(|| {
            let asked = psql.output().with_context(|| format!("{psql:?} cannot be run"))?;
            Ok(asked.status.success())
        })?;
        Ok(postgres)
    }

    /// Where it listens on the loopback interface.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The process id of the postmaster, whose children are the sessions.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Stops it.
    pub fn stop(mut self) -> Result<()> {
        self.process.stop()
    }
}

/// A client program of PostgreSQL's, pointed at a server on the loopback interface.
pub fn client(program: &Path, port: u16) -> Command {
    let mut command = Command::new(program);
    for variable in ["PGPASSWORD", "PGSERVICE", "PGOPTIONS", "PGSSLMODE"] {
        command.env_remove(variable);
    }
    command
        .env("PGHOST", "127.0.0.1")
        .env("PGPORT", port.to_string())
        .env("PGUSER", "postgres")
        .env("PGDATABASE", "postgres")
        .stdin(Stdio::null());
    command
}

/// Runs a client; an error says what it printed.
pub fn asked(command: &mut Command) -> Result<Output> {
    let shown = format!("{command:?}");
    let output = command.output().with_context(|| format!("{shown} cannot be run"))?;
    if !output.status.success() {
        bail!("{shown} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(output)
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
        let postgres = Postgres::start(bin, &std::env::temp_dir(), &[]).unwrap();
        let mut psql = client(&bin.join("psql"), postgres.port());
        let answer = asked(psql.args(["-XAtc", "SHOW shared_buffers"])).unwrap();
        assert_eq!(String::from_utf8_lossy(&answer.stdout).trim(), "2GB");
        postgres.stop().unwrap();
    }
}
