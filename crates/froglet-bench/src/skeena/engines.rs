//! What a froglet says of its engines (view `froglet.engines`).

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use froglet_engine::Home;
use tokio_postgres::Client;

/// The longest that files may be compacted after a load.
const PATIENCE: Duration = Duration::from_secs(300);

/// Of one engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    /// What its tables take in memory.
    pub memory_bytes: u64,
    /// Files and their bytes; none in memory.
    pub files: u64,
    /// See there.
    pub file_bytes: u64,
    /// Versions beside the newest ones.
    pub versions: u64,
    /// Written, and in no file but the log's.
    pub unwritten_bytes: u64,
}

impl Figures {
    /// Asks for them.
    pub async fn read(client: &Client, home: Home) -> Result<Figures> {
        let sql = "SELECT memory_bytes::bigint, files::bigint, file_bytes::bigint, versions::bigint, \
                   unwritten_bytes::bigint FROM froglet.engines WHERE engine = $1";
        let row = client.query_one(sql, &[&home.name()]).await.context(sql)?;
        let figure = |at: usize| {
            let value: Option<i64> = row.get(at);
            u64::try_from(value.unwrap_or(0)).unwrap_or(0)
        };
        Ok(Figures {
            memory_bytes: figure(0),
            files: figure(1),
            file_bytes: figure(2),
            versions: figure(3),
            unwritten_bytes: figure(4),
        })
    }
}

/// Writes everything to files, and waits until these have not changed for so long; returns what there is then.
pub async fn settle(client: &Client, still: Duration) -> Result<Figures> {
    let begun = Instant::now();
    client.batch_execute("CHECKPOINT").await?;
    let mut last = Figures::read(client, Home::Disk).await?;
    loop {
        tokio::time::sleep(still).await;
        let now = Figures::read(client, Home::Disk).await?;
        if now == last || begun.elapsed() > PATIENCE {
            return Ok(now);
        }
        last = now;
    }
}
