//! The prohibitions between crates (ARCHITECTURE.md, "Prohibitions"), checked.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::metadata::{self, list, text};
use crate::source::{Finding, files, has_word};

/// For each crate the crates of ours that it may use outside its tests.
const MAY_USE: &[(&str, &[&str])] = &[
    ("froglet-engine", &[]),
    ("froglet-log", &["froglet-engine"]),
    ("froglet-memory", &["froglet-engine", "froglet-log"]),
    ("froglet-disk", &["froglet-engine", "froglet-log"]),
    ("froglet-cluster", &["froglet-engine", "froglet-log"]),
    ("froglet-txn", &["froglet-engine"]),
    ("froglet-schema", &["froglet-txn", "froglet-engine"]),
    ("froglet-sql", &["froglet-schema", "froglet-txn", "froglet-engine"]),
    (
        "froglet-server",
        &[
            "froglet-sql",
            "froglet-schema",
            "froglet-txn",
            "froglet-engine",
            "froglet-log",
            "froglet-memory",
            "froglet-disk",
            "froglet-cluster",
        ],
    ),
    ("froglet", &["froglet-server", "froglet-bench"]),
    ("xtask", &[]),
];

/// Beside the floors: they may use anything, and only these may use them.
const BESIDE: &[(&str, &[&str])] = &[("froglet-bench", &["froglet"]), ("froglet-testkit", &[])];

/// Other people's crates that a crate must not reach, directly or through others.
const MUST_NOT_REACH: &[(&str, &[&str])] = &[
    ("froglet-engine", &["sqlparser", "datafusion", "pgwire", "tokio"]),
    ("froglet-log", &["sqlparser", "datafusion", "pgwire", "tokio"]),
    ("froglet-memory", &["sqlparser", "datafusion", "pgwire", "tokio"]),
    ("froglet-disk", &["sqlparser", "datafusion", "pgwire", "tokio"]),
    ("froglet-cluster", &["sqlparser", "datafusion", "pgwire"]),
    ("froglet-txn", &["sqlparser", "datafusion", "pgwire"]),
    ("froglet-schema", &["sqlparser", "datafusion", "pgwire"]),
    ("froglet-sql", &["pgwire"]),
];

/// A crate's name that only some files of another crate may have.
const NAMED_ONLY_IN: &[(&str, &str, &[&str])] = &[
    ("crates/froglet-server/src", "froglet_memory", &["open.rs"]),
    ("crates/froglet-server/src", "froglet_disk", &["open.rs"]),
    ("crates/froglet-server/src", "froglet_cluster", &["gateway.rs"]),
    ("crates/froglet-sql/src", "froglet_cluster", &[]),
    ("crates/froglet-schema/src", "froglet_cluster", &[]),
    ("crates/froglet-server/src", "froglet_log", &["open.rs"]),
    ("crates/froglet-sql/src", "froglet_memory", &[]),
    ("crates/froglet-schema/src", "froglet_memory", &[]),
    ("crates/froglet-txn/src", "froglet_memory", &[]),
];

/// Files that may have `unsafe` in them; a directory stands for all that is in it.
const UNSAFE_IN: &[&str] = &[
    "crates/froglet-memory/src/arrow.rs",
    "crates/froglet-memory/src/block.rs",
    "crates/froglet-memory/src/column.rs",
    "crates/froglet-memory/src/column",
    "crates/froglet-memory/src/heap.rs",
    "crates/froglet-memory/src/memory.rs",
    "crates/froglet-memory/src/cells.rs",
    "crates/froglet-memory/src/undo.rs",
    "crates/froglet-memory/src/index",
    "crates/froglet-engine/src/env.rs",
    "crates/froglet-engine/src/env",
    "crates/froglet/src/allocator.rs",
];

/// Everything that breaks a prohibition.
pub fn check(root: &Path) -> anyhow::Result<Vec<Finding>> {
    let graph = Graph::read(root)?;
    let mut findings = Vec::new();
    graph.floors(&mut findings);
    graph.reached(&mut findings);
    let sources = files(root, &[".rs"])?;
    for source in sources.iter().filter(|s| !s.is_test()) {
        let names = NAMED_ONLY_IN.iter().filter(|(dir, _, _)| source.path.starts_with(dir));
        for (dir, name, only) in names {
            if only.iter().any(|file| source.path == Path::new(dir).join(file)) {
                continue;
            }
            for (line, code) in source.code().filter(|(_, code)| has_word(code, name)) {
                let what = format!("{name} may not be named here: {}", code.trim());
                findings.push(Finding::wrong(&source.path, line, what));
            }
        }
        if UNSAFE_IN.iter().any(|place| source.path.starts_with(place)) {
            continue;
        }
        for (line, _) in source.code().filter(|(_, code)| has_word(code, UNSAFE)) {
            let what = format!("`{UNSAFE}` may not stand in this file");
            findings.push(Finding::wrong(&source.path, line, what));
        }
    }
    Ok(findings)
}

/// Split, so that this file does not find itself.
const UNSAFE: &str = concat!("un", "safe");

struct Graph {
    /// Package id → name.
    names: HashMap<String, String>,
    /// Package id → ids it uses when it is built for use, not for its tests.
    uses: HashMap<String, Vec<String>>,
    /// Our packages: id → manifest, relative to the root.
    ours: HashMap<String, PathBuf>,
}

impl Graph {
    fn read(root: &Path) -> anyhow::Result<Graph> {
        let metadata = metadata::read(root)?;
        let mut graph = Graph { names: HashMap::new(), uses: HashMap::new(), ours: HashMap::new() };
        let members: HashSet<&str> =
            list(&metadata["workspace_members"]).filter_map(Value::as_str).collect();
        for package in list(&metadata["packages"]) {
            let id = text(&package["id"])?;
            graph.names.insert(id.to_owned(), text(&package["name"])?.to_owned());
            if members.contains(id) {
                let manifest = Path::new(text(&package["manifest_path"])?);
                let manifest = manifest.strip_prefix(root).unwrap_or(manifest);
                graph.ours.insert(id.to_owned(), manifest.to_owned());
            }
        }
        for node in list(&metadata["resolve"]["nodes"]) {
            let used = list(&node["deps"]).filter(|dep| {
                // A kind of null is a plain dependency; the others are "dev" and "build".
                list(&dep["dep_kinds"]).any(|kind| kind["kind"].is_null())
            });
            let used = used.map(|dep| Ok(text(&dep["pkg"])?.to_owned()));
            let used: anyhow::Result<Vec<String>> = used.collect();
            graph.uses.insert(text(&node["id"])?.to_owned(), used?);
        }
        Ok(graph)
    }

    fn floors(&self, findings: &mut Vec<Finding>) {
        for (id, manifest) in &self.ours {
            let name = &self.names[id];
            if BESIDE.iter().any(|(beside, _)| beside == name) {
                continue;
            }
            let Some((_, may)) = MAY_USE.iter().find(|(known, _)| known == name) else {
                findings.push(Finding::wrong(manifest, 0, format!("{name} is on no floor")));
                continue;
            };
            for used in self.uses[id].iter().filter(|used| self.ours.contains_key(*used)) {
                let used = self.names[used].as_str();
                let from = BESIDE.iter().find(|(beside, _)| *beside == used);
                let invited = from.is_some_and(|(_, users)| users.contains(&name.as_str()));
                if !may.contains(&used) && !invited {
                    let what = format!("{name} must not use {used}");
                    findings.push(Finding::wrong(manifest, 0, what));
                }
            }
        }
    }

    fn reached(&self, findings: &mut Vec<Finding>) {
        for (id, manifest) in &self.ours {
            let name = &self.names[id];
            let Some((_, forbidden)) = MUST_NOT_REACH.iter().find(|(known, _)| known == name)
            else {
                continue;
            };
            let mut reached = HashSet::from([id]);
            let mut ahead = vec![id];
            while let Some(next) = ahead.pop() {
                ahead.extend(self.uses[next].iter().filter(|used| reached.insert(used)));
            }
            for other in reached {
                let other = self.names[other].as_str();
                if forbidden.contains(&other) {
                    let what =
                        format!("{name} must not depend on {other}, not even through others");
                    findings.push(Finding::wrong(manifest, 0, what));
                }
            }
        }
    }
}
