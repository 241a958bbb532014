//! Drives tokio-postgres and sqlx: checks by their names, each on a server and database of its own. See
//! support/checks.py.

mod driver;
mod driver_types;
mod sqlx_catalog;
mod sqlx_types;
mod sqlx_ways;

use std::io::{BufRead, Write};
use std::pin::Pin;
use std::time::Duration;

/// What a check fails with.
type Fails = Result<(), Box<dyn std::error::Error + Send + Sync>>;
type Check = fn(String) -> Pin<Box<dyn Future<Output = Fails>>>;

/// Fails unless both are equal.
macro_rules! same {
    ($expected:expr, $seen:expr) => {{
        let (expected, seen) = (&$expected, &$seen);
        if expected != seen {
            return Err(format!("line {}: expected {expected:?}, saw {seen:?}", line!()).into());
        }
    }};
}
pub(crate) use same;

/// The checks of a module by their names.
macro_rules! checks {
    ($($name:ident)*) => {
        /// Each check's name, and what it runs on a database's URL.
        pub(crate) const CHECKS: &[(&str, crate::Check)] = &[$((stringify!($name), |url| Box::pin($name(url)))),*];
    };
}
pub(crate) use checks;

fn outcome(runtime: &tokio::runtime::Runtime, address: &str, name: &str) -> String {
    let known = [
        ("tokio_postgres", driver::CHECKS),
        ("tokio_postgres", driver_types::CHECKS),
        ("sqlx", sqlx_catalog::CHECKS),
        ("sqlx", sqlx_types::CHECKS),
        ("sqlx", sqlx_ways::CHECKS),
    ];
    let found = known.into_iter().find_map(|(driver, checks)| {
        let wanted = name.strip_prefix(driver)?.strip_prefix('.')?;
        checks.iter().find(|(name, _)| *name == wanted)
    });
    let Some((_, check)) = found else { return format!("failed: no check is called {name}") };
    let work = check(format!("postgres://postgres@{address}"));
    match runtime.block_on(async { tokio::time::timeout(Duration::from_secs(30), work).await }) {
        Ok(Ok(())) => "passed".to_owned(),
        Ok(Err(e)) => {
            // What a driver says of the server's errors is in their sources.
            let mut said = format!("failed {e}");
            let mut source = e.source();
            while let Some(inner) = source {
                said.push_str(&format!(": {inner}"));
                source = inner.source();
            }
            said
        }
        Err(_) => "failed: no answer for 30 s".to_owned(),
    }
}

fn main() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("a line");
        let (address, name) = line.split_once(' ').expect("HOST:PORT/DATABASE CHECK");
        println!("{}", outcome(&runtime, address, name).replace('\n', " "));
        std::io::stdout().flush().expect("someone listens");
    }
}
