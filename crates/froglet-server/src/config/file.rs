//! The configuration file.

use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::{ConfigError, Entry};

/// The entries of a file that must be there.
pub fn read(path: &Path) -> Result<Vec<Entry>, ConfigError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
    entries(&path.display().to_string(), &text)
}

/// The entries of a file that may be there.
pub fn read_if_there(path: &Path) -> Result<Vec<Entry>, ConfigError> {
    match read(path) {
        Err(ConfigError::Read { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            Ok(Vec::new())
        }
        other => other,
    }
}

/// The entries of a text; `file` names it in messages.
pub fn entries(file: &str, text: &str) -> Result<Vec<Entry>, ConfigError> {
    let at = |offset: usize| {
        let before = &text.as_bytes()[..offset.min(text.len())];
        let line = 1 + before.iter().filter(|&&b| b == b'\n').count();
        format!("{file}:{line}")
    };
    let table = DeTable::parse(text).map_err(|e| ConfigError::Syntax {
        place: at(e.span().map_or(0, |span| span.start)),
        message: e.message().to_owned(),
    })?;
    let mut entries = Vec::new();
    for (key, value) in table.into_inner() {
        let place = at(key.span().start);
        let name = key.into_inner().into_owned();
        match value.into_inner() {
            DeValue::Table(settings) if name == "settings" => {
                for (key, value) in settings {
                    let place = at(key.span().start);
                    let name = format!("settings.{}", key.into_inner());
                    entries.push(entry(name, value.into_inner(), place)?);
                }
            }
            DeValue::Array(rules) if name == super::authentication::KEY && !rules.is_empty() => {
                for rule in rules {
                    let place = at(rule.span().start);
                    entries.push(entry(name.clone(), rule.into_inner(), place)?);
                }
            }
            value => entries.push(entry(name, value, place)?),
        }
    }
    Ok(entries)
}

fn entry(name: String, value: DeValue<'_>, place: String) -> Result<Entry, ConfigError> {
    let value = match value {
        DeValue::String(text) => text.into_owned(),
        DeValue::Integer(number) => number.as_str().replace('_', ""),
        DeValue::Float(number) => number.as_str().replace('_', ""),
        DeValue::Boolean(true) => "on".to_owned(),
        DeValue::Boolean(false) => "off".to_owned(),
        // A setting with a dot in its name: `froglet.fast_path = "off"` under [settings].
        DeValue::Table(inner) if name.starts_with("settings.") && inner.len() == 1 => {
            let (key, value) = inner.into_iter().next().expect("there is one");
            let name = format!("{name}.{}", key.into_inner());
            return entry(name, value.into_inner(), place);
        }
        other => {
            return Err(ConfigError::Value {
                place,
                name,
                value: other.type_str().to_owned(),
                why: "a string, a number, true or false is needed".to_owned(),
            });
        }
    };
    Ok(Entry { name, value, place })
}
