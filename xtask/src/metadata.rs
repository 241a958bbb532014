//! What cargo knows of the workspace and everything it depends on.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use serde_json::Value;

/// `cargo metadata`, from the lock file as it is.
pub fn read(root: &Path) -> anyhow::Result<Value> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(program)
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(root)
        .output()?;
    if !output.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// The elements of an array.
pub fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// A string.
pub fn text(value: &Value) -> anyhow::Result<&str> {
    value.as_str().context("cargo metadata has another shape than expected")
}
