//! Other people's crates: their licences, where they come from, which of them must not come back.
//!
//! Looks at `cargo metadata` only, so it needs no network and no tool that is not here; in
//! exchange it knows no advisory that is not in [`BANNED`].

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::metadata::{self, list, text};
use crate::source::Finding;

/// Licences whose terms an Apache-2.0 program can keep by naming them.
const LICENCES: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// The public registry: what cannot be fetched from there, others cannot build.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Crates that must not come, by name and the beginning of a version ("" for all), and why.
const BANNED: &[(&str, &str, &str)] = &[
    ("openssl-sys", "", "needs a C library of the machine"),
    ("native-tls", "", "needs a C library of the machine"),
    ("libgit2-sys", "", "needs a C library of the machine"),
    ("atty", "", "RUSTSEC-2024-0375, unmaintained"),
    ("ansi_term", "", "RUSTSEC-2021-0139, unmaintained"),
    ("failure", "", "RUSTSEC-2020-0036, unmaintained"),
    ("net2", "", "RUSTSEC-2020-0016, unmaintained"),
    ("stdweb", "", "RUSTSEC-2020-0056, unmaintained"),
    ("serde_cbor", "", "RUSTSEC-2021-0127, unmaintained"),
    ("chrono", "0.4.1", "0.4.20 mended RUSTSEC-2020-0159"),
    ("time", "0.1", "RUSTSEC-2020-0071, reads the environment unsafely"),
];

/// Everything that must change, and duplicates as remarks.
pub fn check(root: &Path) -> anyhow::Result<Vec<Finding>> {
    let metadata = metadata::read(root)?;
    let lock = Path::new("Cargo.lock");
    let mut findings = Vec::new();
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in list(&metadata["packages"]) {
        let (name, version) = (text(&package["name"])?, text(&package["version"])?);
        let mut wrong = |what: String| {
            findings.push(Finding::wrong(lock, 0, format!("{name} {version} {what}")))
        };
        match &package["source"] {
            Value::Null => {
                // A path: one of ours.
                let manifest = text(&package["manifest_path"])?;
                if !Path::new(manifest).starts_with(root) {
                    wrong(format!("comes from a directory outside: {manifest}"));
                }
            }
            source if source == REGISTRY => {}
            source => wrong(format!("comes from {source}, not from crates.io")),
        }
        match package["license"].as_str() {
            None => wrong("names no licence".into()),
            Some(licence) if allowed(licence) => {}
            Some(licence) => wrong(format!("has a licence that is not on the list: {licence}")),
        }
        for (banned, beginning, why) in BANNED {
            if *banned == name && version.starts_with(beginning) {
                wrong(format!("must not be used: {why}"));
            }
        }
        versions.entry(name).or_default().push(version);
    }
    for (name, versions) in versions.into_iter().filter(|(_, versions)| versions.len() > 1) {
        let what = format!("{name} is built {} times: {}", versions.len(), versions.join(", "));
        findings.push(Finding::remark(lock, 0, what));
    }
    Ok(findings)
}

/// Whether an SPDX expression can be kept with licences of the list. AND binds closer than OR;
/// the slash is an old OR.
fn allowed(expression: &str) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    any(&mut rest) == Some(true) && rest.is_empty()
}

fn any(rest: &mut &[&str]) -> Option<bool> {
    let mut holds = all(rest)?;
    while take(rest, "OR") {
        holds |= all(rest)?;
    }
    Some(holds)
}

fn all(rest: &mut &[&str]) -> Option<bool> {
    let mut holds = one(rest)?;
    while take(rest, "AND") {
        holds &= one(rest)?;
    }
    Some(holds)
}

fn one(rest: &mut &[&str]) -> Option<bool> {
    if take(rest, "(") {
        let holds = any(rest)?;
        return take(rest, ")").then_some(holds);
    }
    let (name, after) = rest.split_first()?;
    *rest = after;
    let mut licence = (*name).to_owned();
    if take(rest, "WITH") {
        let (exception, after) = rest.split_first()?;
        *rest = after;
        licence = format!("{name} WITH {exception}");
    }
    Some(LICENCES.contains(&licence.as_str()))
}

fn take(rest: &mut &[&str], word: &str) -> bool {
    let is_next = rest.first() == Some(&word);
    if is_next {
        *rest = &rest[1..];
    }
    is_next
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_weighed() {
        for good in [
            "MIT",
            "MIT/Apache-2.0",
            "GPL-3.0-only OR MIT",
            "(MIT OR GPL-2.0-only) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-3.0-only",
        ] {
            assert!(allowed(good), "{good}");
        }
        for bad in [
            "",
            "GPL-3.0-only",
            "MIT AND GPL-3.0-only",
            "MIT OR",
            "(MIT",
            "GPL-2.0-only WITH Classpath-exception-2.0",
            "MIT OR Apache-2.0 )",
        ] {
            assert!(!allowed(bad), "{bad}");
        }
    }
}
