//! Server processes for as long as a benchmark runs: a data directory of their own, a free port,
//! stopped by their own process id, nothing left behind.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::store::temporary;

/// The longest a server may take to begin or to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// A froglet server with a data directory of its own, empty at first.
pub struct Froglet {
    process: Process,
    port: u16,
    binary: PathBuf,
    options: Vec<String>,
    began: Instant,
    dir: TempDir,
}

impl Froglet {
    /// Starts it, with its data in a new directory in `parent`.
    pub fn start(binary: &Path, parent: &Path, options: &[&str]) -> Result<Froglet> {
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        Froglet::serve(binary.to_owned(), options, temporary(parent)?)
    }

    fn serve(binary: PathBuf, options: Vec<String>, dir: TempDir) -> Result<Froglet> {
        let port = free_port()?;
        let log = dir.path().join("froglet.log");
        let mut command = Command::new(&binary);
        command.arg("serve").arg("--data").arg(dir.path().join("data"));
        command.args(["--listen", &format!("127.0.0.1:{port}")]).args(&options);
        let began = Instant::now();
        let child = spawn(&mut command, &log)?;
        let mut process = Process::new(child, log, "-TERM", "froglet");
        // It listens once it has recovered.
        process.wait_until(|| Ok(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()))?;
        Ok(Froglet { process, port, binary, options, began, dir })
    }

    /// Ends it, and starts it again with the same data; it listens then.
    pub fn again(self, end: End) -> Result<Froglet> {
        let Froglet { mut process, binary, options, dir, .. } = self;
        match end {
            End::Asked => process.stop()?,
            End::Killed => process.kill()?,
        }
        Froglet::serve(binary, options, dir)
    }

    /// Where it listens on the loopback interface.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// When its process was started.
    pub fn began(&self) -> Instant {
        self.began
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Stops it.
    pub fn stop(mut self) -> Result<()> {
        self.process.stop()
    }
}

/// How a server comes to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It is asked to, and writes what it wants to.
    Asked,
    /// kill -9.
    Killed,
}

/// A child process that is stopped however the benchmark ends.
pub struct Process {
    child: Child,
    log: PathBuf,
    signal: &'static str,
    name: &'static str,
}

impl Process {
    /// A child that `signal` asks to end, and that writes what it has to say to `log`.
    pub fn new(child: Child, log: PathBuf, signal: &'static str, name: &'static str) -> Process {
        Process { child, log, signal, name }
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it answers.
    pub fn wait_until(&mut self, mut answers: impl FnMut() -> Result<bool>) -> Result<()> {
        let started = Instant::now();
        while !answers()? {
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended at once ({status}): {}", self.name, self.log_tail());
            }
            if started.elapsed() > PATIENCE {
                bail!("{} does not answer: {}", self.name, self.log_tail());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn log_tail(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(10)..].join("\n")
    }

    /// Ends it with kill -9.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Asks it to end, and waits until it has.
    pub fn stop(&mut self) -> Result<()> {
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

/// A port of the loopback interface that nobody listens on.
pub fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Starts a child whose output goes to `log`.
pub fn spawn(command: &mut Command, log: &Path) -> Result<Child> {
    let output = File::create(log).with_context(|| format!("{} cannot be made", log.display()))?;
    let errors = output.try_clone()?;
    command.stdin(Stdio::null()).stdout(output).stderr(errors);
    command.spawn().with_context(|| format!("{command:?} cannot be run"))
}
