//! Automation: `cargo xtask ci`, and its parts one by one.
//!
//! A check prints what it found as `path:line: what`, and fails if anything must change.

mod audit;
mod deps;
mod metadata;
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
    /// Everything a change must pass: fmt, clippy, deps, audit, tidy, the tests
    Ci,
    /// Crates depend only on the crates below them, and `unsafe` stands only where it may
    Deps,
    /// Licences, origins and duplicates of other people's crates
    Audit,
    /// File lengths, module essays, paths named in documents, leftovers
    Tidy,
    /// Build the release binary and run benchmarks with their peers: `cargo xtask bench NAME`
    Bench {
        /// Handed to `froglet bench`; without any, the benchmarks are listed
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Random histories, crashes and mutations, longer than `ci` runs them, then schedules
    Sim,
    /// The client tests with their long loads: everything at once for an hour, pgbench for minutes, kill -9 in loops
    Soak,
    /// The modules with `unsafe` under Miri, which needs a nightly toolchain with it
    Miri,
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
        Task::Audit => report("audit", audit::check(&root)?),
        Task::Tidy => report("tidy", tidy::check(&root)?),
        Task::Bench { args } => bench(&root, args),
        Task::Sim => sim(&root),
        Task::Soak => run(Command::new(root.join("test"))
            .args(["--only", "build", "--only", "clients"])
            .env(LONG, "1")
            .envs(SOAK.map(|(name, value)| (name, std::env::var_os(name).unwrap_or(value.into()))))
            .current_dir(&root)),
        Task::Miri => miri(&root),
    }
}

/// Tests that look at it run longer.
const LONG: &str = "FROGLET_TEST_LONG";
/// How often the crash tests kill the server, at any moment and at each named point, how long the
/// histories are that are checked for anomalies, for how long everything is done at once, and how many
/// generated ALTER TABLE statements are compared.
const SOAK: [(&str, &str); 5] = [
    ("FROGLET_TEST_CRASH_ROUNDS", "20"),
    ("FROGLET_TEST_CRASH_POINT_ROUNDS", "10"),
    ("FROGLET_TEST_HISTORY_SECONDS", "120"),
    ("FROGLET_TEST_SOAK_SECONDS", "3600"),
    ("FROGLET_TEST_ALTER_SEEDS", "300"),
];

fn ci(root: &Path) -> anyhow::Result<()> {
    run(&mut cargo(root, &["fmt", "--all", "--check"]))?;
    let clippy = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
    run(&mut cargo(root, &clippy))?;
    report("deps", deps::check(root)?)?;
    report("audit", audit::check(root)?)?;
    report("tidy", tidy::check(root)?)?;
    run(&mut cargo(root, &["test", "--workspace"]))
}

fn sim(root: &Path) -> anyhow::Result<()> {
    let mut test = cargo(root, &["test", "--workspace", "--exclude", "xtask"]);
    run(test.args(["--", "--include-ignored"]).env(LONG, "1"))?;
    // Another configuration, so a directory of its own: neither build undoes the other.
    let packages = ["-p", "froglet-memory", "-p", "froglet-schema", "-p", "froglet-txn"];
    let mut schedules = cargo(root, &["test", "--release", "--lib", "schedules"]);
    schedules.args(packages).args(["--", "--test-threads=1"]);
    schedules.env("RUSTFLAGS", "--cfg shuttle");
    run(schedules.env("CARGO_TARGET_DIR", root.join("target/shuttle")))
}

fn miri(root: &Path) -> anyhow::Result<()> {
    // Through rustup's proxy: the cargo that runs this is of the pinned toolchain.
    let mut command = Command::new("cargo");
    command.args(["+nightly", "miri", "test", "-p", "froglet-memory", "--lib", "--test", "it"]);
    command.arg("--").args(["index::tests", "clock::", "cells::", "small::"]);
    for inherited in ["RUSTUP_TOOLCHAIN", "RUSTC", "CARGO", "RUSTDOC"] {
        command.env_remove(inherited);
    }
    // The environment reads clocks and files. crossbeam-epoch breaks the rules of stacked borrows
    // (crossbeam issue 545) and keeps those of tree borrows; what it has deferred at the end of a
    // process nobody frees.
    command.env("MIRIFLAGS", "-Zmiri-disable-isolation -Zmiri-ignore-leaks -Zmiri-tree-borrows -Zmiri-permissive-provenance");
    command.env("CARGO_TARGET_DIR", root.join("target/miri"));
    run(command.current_dir(root)).context(
        "Miri comes with `rustup toolchain install nightly --component miri --component rust-src`",
    )
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
