//! Automation: `cargo xtask ci`, and its parts one by one.
//!
//! A check prints what it found as `path:line: what`, and fails if anything must change.

mod deps;
mod source;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, bail};
use clap::{Parser, Subcommand};

/// Froglet's automation.
#[derive(Parser)]
#[command(arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Everything a change must pass: fmt, clippy, deps, tidy, the tests
    Ci,
    /// Crates depend only on the crates below them, and `unsafe` stands only where it may
    Deps,
    /// File lengths, module essays, paths named in documents, leftovers
    Tidy,
    /// Build the release binary and run benchmarks with their peers: `cargo xtask bench NAME`
    Bench {
        /// Handed to `froglet bench`; without any, the benchmarks are listed
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Random histories, crashes and schedules, longer than `ci` runs them
    Sim,
    /// The client tests with their long loads: pgbench for minutes, kill -9 in loops
    Soak,
}

fn main() -> ExitCode {
    match perform(Cli::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn perform(task: Task) -> anyhow::Result<()> {
    let root = root()?;
    match task {
        Task::Ci => ci(&root),
        Task::Deps => report("deps", deps::check(&root)?),
        Task::Tidy => report("tidy", tidy::check(&root)?),
        Task::Bench { args } => bench(&root, args),
        Task::Sim => {
            let mut test = cargo(&root, &["test", "--workspace", "--exclude", "xtask"]);
            run(test.args(["--", "--include-ignored"]).env(LONG, "1"))
        }
        Task::Soak => run(Command::new(root.join("test"))
            .args(["--only", "clients"])
            .env(LONG, "1")
            .current_dir(&root)),
    }
}

/// Tests that look at it run longer.
const LONG: &str = "FROGLET_TEST_LONG";

fn ci(root: &Path) -> anyhow::Result<()> {
    run(&mut cargo(root, &["fmt", "--all", "--check"]))?;
    let clippy = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
    run(&mut cargo(root, &clippy))?;
    report("deps", deps::check(root)?)?;
    report("tidy", tidy::check(root)?)?;
    run(&mut cargo(root, &["test", "--workspace"]))
}

fn bench(root: &Path, mut args: Vec<String>) -> anyhow::Result<()> {
    if args.is_empty() {
        args.push("list".to_owned());
    }
    let mut command = cargo(root, &["run", "--release", "-p", "froglet", "--", "bench"]);
    run(command.args(args))
}

fn report(name: &str, findings: Vec<source::Finding>) -> anyhow::Result<()> {
    let mut wrong = 0;
    for finding in &findings {
        println!("{finding}");
        wrong += usize::from(finding.fails);
    }
    if wrong > 0 {
        bail!("{name}: {wrong} to put right");
    }
    println!("{name}: well ({} remarks)", findings.len());
    Ok(())
}

fn cargo(root: &Path, args: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(args).current_dir(root);
    command
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let status = command
        .status()
        .with_context(|| format!("{:?} cannot be started", command.get_program()))?;
    if !status.success() {
        bail!("{command:?} failed: {status}");
    }
    Ok(())
}

fn root() -> anyhow::Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.parent().context("xtask lies in the workspace")?;
    Ok(root.to_owned())
}
