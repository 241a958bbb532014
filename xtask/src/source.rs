//! Files of the repository and what is found in them.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// Something a check has to say.
pub struct Finding {
    /// Where, relative to the root.
    pub path: PathBuf,
    /// The line, from 1; 0 for the whole file.
    pub line: usize,
    /// What.
    pub what: String,
    /// Whether it must change; otherwise it is a remark.
    pub fails: bool,
}

impl Finding {
    /// One that must change.
    pub fn wrong(path: &Path, line: usize, what: impl Into<String>) -> Finding {
        Finding { path: path.to_owned(), line, what: what.into(), fails: true }
    }

    /// A remark.
    pub fn remark(path: &Path, line: usize, what: impl Into<String>) -> Finding {
        Finding { fails: false, ..Finding::wrong(path, line, what) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.fails { "wrong" } else { "remark" };
        write!(f, "{kind}: {}", self.path.display())?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        write!(f, ": {}", self.what)
    }
}

/// A file of text.
pub struct Source {
    /// Relative to the root.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
}

impl Source {
    /// Its lines with their numbers.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(i, line)| (i + 1, line))
    }

    /// Its lines of code, without comments, up to the tests at its end.
    pub fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.lines()
            .take_while(|(_, line)| !line.starts_with("#[cfg(test)]"))
            .map(|(n, line)| (n, line.split("//").next().unwrap_or("")))
    }

    /// Whether it is test code as a whole.
    pub fn is_test(&self) -> bool {
        let mut parts = self.path.components().map(|c| c.as_os_str());
        parts.any(|p| p == "tests" || p == "tests.rs" || p == "benches")
    }
}

const NOT_OURS: [&str; 6] =
    ["target", ".git", "froglet-data", "corpus", "artifacts", "node_modules"];

/// Every file below the root with one of these extensions, in order.
pub fn files(root: &Path, extensions: &[&str]) -> anyhow::Result<Vec<Source>> {
    let mut found = Vec::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|n| n.to_str()).unwrap_or("");
            if path.is_dir() {
                if !NOT_OURS.contains(&name) {
                    directories.push(path);
                }
            } else if extensions.iter().any(|e| name.ends_with(e)) {
                let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
                let path = path.strip_prefix(root)?.to_owned();
                found.push(Source { path, text });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// Whether `text` has `word` with no letter, digit or underscore beside it.
pub fn has_word(text: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(part) && !after.is_some_and(part)
    })
}
