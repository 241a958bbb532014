//! What no compiler checks: lengths, essays, documents that name files, leftovers.

use std::path::Path;
use std::process::Command;

use anyhow::ensure;

use crate::source::{Finding, Source, files, has_word};

/// Files longer than this are remarked upon.
const LONG_LINES: usize = 500;
/// Files longer than this are wrong.
const TOO_LONG_LINES: usize = 900;
/// Functions longer than this are remarked upon.
const LONG_FUNCTION_LINES: usize = 100;
/// Files that may be longer, each with its reason.
const MAY_BE_LONG: &[(&str, &str)] = &[];

/// Files that git keeps are at most this large, in bytes: a binary that slipped in stays in history.
const TOO_LARGE: u64 = 256 << 10;

/// Split, so that this file does not find itself.
const LEFTOVERS: [&str; 6] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("db", "g!"),
    concat!("to", "do!"),
    concat!("unimple", "mented!"),
];

/// Everything untidy.
pub fn check(root: &Path) -> anyhow::Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for source in files(root, &[".rs"])? {
        length(&source, &mut findings);
        essay(&source, &mut findings);
        leftovers(&source, &mut findings);
        functions(&source, &mut findings);
    }
    for source in files(root, &[".md"])? {
        named_paths(root, &source, &mut findings);
    }
    for source in files(root, &["Cargo.lock", ".toml"])? {
        registries(&source, &mut findings);
    }
    large(root, &mut findings)?;
    Ok(findings)
}

fn large(root: &Path, findings: &mut Vec<Finding>) -> anyhow::Result<()> {
    let listed = Command::new("git").current_dir(root).args(["ls-files", "-z"]).output()?;
    ensure!(listed.status.success(), "git ls-files: {}", String::from_utf8_lossy(&listed.stderr));
    for path in String::from_utf8(listed.stdout)?.split_terminator('\0').map(Path::new) {
        // A file that is to be deleted is listed still.
        let bytes = root.join(path).symlink_metadata().map_or(0, |file| file.len());
        if bytes > TOO_LARGE {
            let what = format!("{bytes} bytes (at most {TOO_LARGE}): does git have to keep it?");
            findings.push(Finding::wrong(path, 0, what));
        }
    }
    Ok(())
}

fn length(source: &Source, findings: &mut Vec<Finding>) {
    let lines = source.text.lines().count();
    let excused = MAY_BE_LONG.iter().any(|(path, _)| source.path == Path::new(path));
    if lines > TOO_LONG_LINES && !excused {
        let what = format!("{lines} lines: split it (at most {TOO_LONG_LINES})");
        findings.push(Finding::wrong(&source.path, 0, what));
    } else if lines > LONG_LINES && !source.is_test() {
        findings.push(Finding::remark(&source.path, 0, format!("{lines} lines")));
    }
}

fn essay(source: &Source, findings: &mut Vec<Finding>) {
    let first = source.text.lines().find(|line| !line.is_empty() && !line.starts_with("#!"));
    if !first.is_some_and(|line| line.starts_with("//!")) {
        let what = "the module does not open with `//!`, saying what it is for";
        findings.push(Finding::wrong(&source.path, 1, what));
    }
}

fn leftovers(source: &Source, findings: &mut Vec<Finding>) {
    for (n, line) in source.lines() {
        for word in LEFTOVERS.iter().filter(|word| has_word(line, word)) {
            findings.push(Finding::wrong(&source.path, n, format!("{word} was left")));
        }
    }
}

/// Functions end, as rustfmt has it, at the first closing brace as far in as they began.
fn functions(source: &Source, findings: &mut Vec<Finding>) {
    let mut begun: Option<(usize, &str, &str)> = None;
    for (n, line) in source.lines() {
        let code = line.trim_start();
        let indent = &line[..line.len() - code.len()];
        match begun {
            Some((start, name, far_in)) if line.starts_with(far_in) && indent == far_in => {
                if code == "}" {
                    let lines = n - start + 1;
                    if lines > LONG_FUNCTION_LINES {
                        let what = format!("fn {name} has {lines} lines");
                        findings.push(Finding::remark(&source.path, start, what));
                    }
                    begun = None;
                } else if code.ends_with(';') || code.ends_with("{}") {
                    begun = None;
                }
            }
            Some(_) => {}
            None => begun = function_name(code).map(|name| (n, name, indent)),
        }
        if begun.is_some_and(|(start, ..)| start == n)
            && (code.ends_with('}') || code.ends_with(';'))
        {
            begun = None;
        }
    }
}

fn function_name(code: &str) -> Option<&str> {
    let (before, after) = code.split_once("fn ")?;
    let modifiers = |word: &str| {
        word.starts_with("pub")
            || matches!(word, "const" | "async" | "extern" | "\"C\"")
            || word == concat!("un", "safe")
    };
    if !before.split_whitespace().all(modifiers) {
        return None;
    }
    after.split(['(', '<']).next()
}

/// Directories whose files documents name.
const NAMED: [&str; 7] = ["crates/", "docs/", "tests/", "xtask/", "fuzz/", ".cargo/", ".ci/"];

fn named_paths(root: &Path, source: &Source, findings: &mut Vec<Finding>) {
    let part = |c: char| c.is_alphanumeric() || matches!(c, '/' | '_' | '-' | '.');
    for (n, line) in source.lines() {
        for word in line.split(|c| !part(c)).map(|word| word.trim_end_matches(['.', '/'])) {
            if !NAMED.iter().any(|place| word.starts_with(place)) {
                continue;
            }
            // A pattern (`tests/*.sql`, `src/{a,b}.rs`) was cut: what is left is its directory.
            let whole = line.contains(word) && !followed_by_pattern(line, word);
            if whole && !root.join(word).exists() {
                findings.push(Finding::wrong(&source.path, n, format!("{word} does not exist")));
            }
        }
    }
}

fn followed_by_pattern(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let rest = line[at + word.len()..].trim_start_matches(['/', '_', '-', '.']);
        rest.starts_with(['*', '{', '<'])
    })
}

/// Only the public registry: a mirror's name would be of no use to anybody else.
fn registries(source: &Source, findings: &mut Vec<Finding>) {
    const PUBLIC: &str = "registry+https://github.com/rust-lang/crates.io-index";
    for (n, line) in source.lines() {
        let line = line.trim();
        let foreign = line.starts_with("source = \"registry") && !line.contains(PUBLIC);
        let mirror = ["[source.", "[registries.", "replace-with", "registry = "];
        if foreign || mirror.iter().any(|start| line.starts_with(start)) {
            let what = format!("names a registry of somebody's own: {line}");
            findings.push(Finding::wrong(&source.path, n, what));
        }
    }
}
