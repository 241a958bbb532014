//! How soon a table of many rows answers after a lazy change: from COMMIT to the answer to an UPDATE
//! of one row, which is migrated for it. One client, and the microbenchmark's table.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio_postgres::Client;

use super::super::options::Sweep;
use super::super::workload::{Workload, connect};
use super::approach::Approach;
use super::figures::{FIRST_ANSWER, ms};
use super::{Bench, SERVER};
use crate::progress;
use crate::report::Report;

/// For the rows of the report.
pub const NAME: &str = "Lazy, by rows";

const CHANGE: [&str; 4] = [
    "BEGIN",
    "CREATE TABLE user_2 AS SELECT id, a, b, a + b AS c FROM usertable",
    "ALTER TABLE user_2 ADD PRIMARY KEY (id)",
    "DROP TABLE usertable",
];
/// The session's statements are known by then; this one is not.
const FIRST: &str = "UPDATE user_2 SET a = a + 1 WHERE id = 777 RETURNING c";

/// Measures it, if it is wanted.
pub fn run(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let options = &bench.args.tpccd;
    if !options.sweeps(Sweep::Sizes) {
        return Ok(());
    }
    let sizes = match (&options.sizes, bench.args.small) {
        (given, _) if !given.is_empty() => given.clone(),
        (_, true) => vec![2_000, 20_000],
        (_, false) => vec![1_000_000, 10_000_000],
    };
    for rows in sizes {
        let name = format!("{rows} rows");
        progress::phase(&format!("first answer: {name}"));
        let system = bench.systems.start(SERVER)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let [change, commit, first] = runtime
            .block_on(async {
                let ddl = connect(system.port()).await?;
                let table = Workload::Micro { rows, reads_percent: 0, unused: 0 };
                system.load(&ddl, table).await?;
                flip(&ddl).await
            })
            .with_context(|| name.clone())?;
        drop(runtime);
        system.stop()?;
        report.add(NAME, &name, "change, BEGIN to COMMIT", ms(change), "ms");
        report.add(NAME, &name, "COMMIT", ms(commit), "ms");
        report.add(NAME, &name, FIRST_ANSWER, ms(first), "ms");
    }
    Ok(())
}

/// From BEGIN to before COMMIT, COMMIT, and from COMMIT to the first answer.
async fn flip(ddl: &Client) -> Result<[Duration; 3]> {
    for sql in Approach::Lazy.settings() {
        ddl.batch_execute(&sql).await.context(sql)?;
    }
    let begun = Instant::now();
    for sql in CHANGE {
        ddl.batch_execute(sql).await.context(sql)?;
    }
    let committing = Instant::now();
    ddl.batch_execute("COMMIT").await?;
    let committed = Instant::now();
    let answer = ddl.query_one(FIRST, &[]).await.context(FIRST)?;
    let answered = Instant::now();
    // The population's row 777.
    ensure!(answer.get::<_, i64>(0) == 777, "the row is not what it was made of");
    Ok([committing - begun, committed - committing, answered - committing])
}
