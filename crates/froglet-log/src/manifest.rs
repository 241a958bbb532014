//! The file that says what a checkpoint is: one line of JSON, one line with its checksum.

use std::path::Path;

use froglet_engine::EngineError;
use froglet_engine::env::{Env, OpenMode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// What every format's manifest says of itself.
#[derive(Deserialize)]
struct Formatted {
    format: u32,
}

/// Reads a manifest of a format; none if there is no such file.
pub fn read<T: DeserializeOwned>(
    env: &dyn Env,
    path: &Path,
    format: u32,
) -> Result<Option<T>, EngineError> {
    let corrupt = |offset: u64, what: String| EngineError::Corrupt {
        file: path.display().to_string(),
        offset,
        what,
    };
    let file = match env.open(path, OpenMode::Read) {
        Ok(file) => file,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let bytes = file.map()?;
    let text = std::str::from_utf8(&bytes).map_err(|e| corrupt(0, e.to_string()))?;
    let (body, crc) = text.split_once('\n').ok_or_else(|| corrupt(0, "no checksum line".into()))?;
    let at = body.len() as u64;
    let stored = u32::from_str_radix(crc.trim(), 16).map_err(|e| corrupt(at, e.to_string()))?;
    let computed = crc32fast::hash(body.as_bytes());
    if stored != computed {
        return Err(corrupt(at, format!("checksum {stored:08x}, computed {computed:08x}")));
    }
    let json = |e: serde_json::Error| corrupt(e.column() as u64, e.to_string());
    let Formatted { format: found } = serde_json::from_str(body).map_err(json)?;
    if found != format {
        let what = format!(
            "format {found}, this program reads {format}; copy the tables out with the program that wrote it"
        );
        return Err(corrupt(0, what));
    }
    serde_json::from_str(body).map(Some).map_err(json)
}

/// What is written of a manifest.
pub fn text<T: Serialize>(manifest: &T) -> serde_json::Result<String> {
    let body = serde_json::to_string(manifest)?;
    let crc = crc32fast::hash(body.as_bytes());
    Ok(format!("{body}\n{crc:08x}\n"))
}
