//! Placeholder until the log helper's Env lands.
/// An I/O error of the environment.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct EnvError(pub String);
