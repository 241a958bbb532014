//! `froglet migrations`: the view `froglet.migrations` of a running server, as text and as bars.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Subcommand;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage, SimpleQueryRow};

/// List, follow, pause, slow down or cancel schema changes of a running server.
#[derive(clap::Args)]
#[command(after_help = "\
Without a subcommand the schema changes are listed.

Examples:
  froglet migrations
  froglet migrations watch
  froglet migrations throttle 3 100000
  froglet migrations cancel 3
  froglet migrations list --port 5433")]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    /// The server's host
    #[arg(long, default_value = "127.0.0.1", global = true)]
    host: String,
    /// The server's port
    #[arg(long, default_value_t = 5432, global = true)]
    port: u16,
    /// The server's host and port in one, as for `froglet serve`
    #[arg(long, value_name = "HOST:PORT", global = true)]
    listen: Option<String>,
}

#[derive(Subcommand)]
enum Action {
    /// List the schema changes that run, and the last that ended
    #[command(after_help = "Examples:\n  froglet migrations list")]
    List,
    /// Show a progress bar for each schema change that runs, until interrupted
    #[command(after_help = "Examples:\n  froglet migrations watch --every-ms 200")]
    Watch {
        /// Look again after so many milliseconds
        #[arg(long, value_name = "MS", default_value_t = 500)]
        every_ms: u64,
    },
    /// Stop the scan of a schema change for now; what changes meanwhile is captured
    #[command(after_help = "Examples:\n  froglet migrations pause 3")]
    Pause {
        /// Its number in the list
        id: u64,
    },
    /// Let the scan of a paused schema change go on
    #[command(after_help = "Examples:\n  froglet migrations resume 3")]
    Resume {
        /// Its number in the list
        id: u64,
    },
    /// Let the scan of a schema change read so many rows a second at most; 0 for any number
    #[command(after_help = "Examples:\n  froglet migrations throttle 3 100000")]
    Throttle {
        /// Its number in the list
        id: u64,
        /// Rows a second
        rows_per_second: u64,
    },
    /// Cancel a schema change that runs: its transaction aborts
    #[command(after_help = "Examples:\n  froglet migrations cancel 3")]
    Cancel {
        /// Its number in the list
        id: u64,
    },
}

/// Runs the subcommand.
pub fn main(args: Args) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = connect(&args).await?;
        match args.action.unwrap_or(Action::List) {
            Action::List => list(&client).await,
            Action::Watch { every_ms } => watch(&client, Duration::from_millis(every_ms)).await,
            Action::Pause { id } => {
                tell(&client, id, format!("pause_migration({id})"), "is paused").await
            }
            Action::Resume { id } => {
                tell(&client, id, format!("resume_migration({id})"), "goes on").await
            }
            Action::Throttle { id, rows_per_second } => {
                let call = format!("throttle_migration({id}, {rows_per_second})");
                let said = match rows_per_second {
                    0 => "scans as fast as it can".to_owned(),
                    n => format!("scans at most {n} rows a second"),
                };
                tell(&client, id, call, &said).await
            }
            Action::Cancel { id } => {
                tell(&client, id, format!("cancel_migration({id})"), "is cancelled").await
            }
        }
    })
}

async fn connect(args: &Args) -> anyhow::Result<Client> {
    let (host, port) = match args.listen.as_deref().map(|listen| listen.rsplit_once(':')) {
        None => (args.host.clone(), args.port),
        Some(Some((host, port))) => (
            host.trim_matches(['[', ']']).to_owned(),
            port.parse().context("--listen needs HOST:PORT")?,
        ),
        Some(None) => bail!("--listen needs HOST:PORT"),
    };
    let mut config = tokio_postgres::Config::new();
    config.host(&host).port(port).user("postgres").dbname("postgres");
    config.application_name("froglet migrations");
    let (client, connection) = config.connect(NoTls).await.with_context(|| {
        format!("no server answers on {host}:{port}; --host and --port choose another")
    })?;
    // Its errors reach the client, too.
    tokio::spawn(connection);
    Ok(client)
}

async fn rows(client: &Client) -> anyhow::Result<Vec<SimpleQueryRow>> {
    let messages = client.simple_query("SELECT * FROM froglet.migrations ORDER BY id").await?;
    let row = |message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    };
    Ok(messages.into_iter().filter_map(row).collect())
}

async fn list(client: &Client) -> anyhow::Result<()> {
    let rows = rows(client).await?;
    let Some(first) = rows.first() else {
        println!("no schema change has run since the server started");
        return Ok(());
    };
    let names: Vec<&str> = first.columns().iter().map(|c| c.name()).collect();
    let cells = |row: &SimpleQueryRow| -> Vec<String> {
        (0..names.len()).map(|i| row.get(i).unwrap_or("").replace('\n', " ")).collect()
    };
    let header = names.iter().map(|n| (*n).to_owned()).collect();
    let table: Vec<Vec<String>> = std::iter::once(header).chain(rows.iter().map(cells)).collect();
    let widths: Vec<usize> = (0..names.len())
        .map(|i| table.iter().map(|row| row[i].chars().count()).max().unwrap_or(0))
        .collect();
    for row in &table {
        let padded = row.iter().zip(&widths).map(|(cell, w)| format!("{cell:w$}"));
        println!("{}", padded.collect::<Vec<_>>().join("  ").trim_end());
    }
    Ok(())
}

async fn watch(client: &Client, every: Duration) -> anyhow::Result<()> {
    let bars = MultiProgress::new();
    let style = ProgressStyle::with_template(
        "{prefix:>4} [{bar:30}] {percent:>3}% {msg} {elapsed}, {eta} left",
    )?
    .progress_chars("=> ");
    let mut shown: HashMap<String, ProgressBar> = HashMap::new();
    let mut idle = bars.add(ProgressBar::new_spinner().with_message("no schema change is running"));
    idle.enable_steady_tick(every);
    loop {
        let mut running = 0;
        for row in rows(client).await? {
            let get = |name| row.try_get(name).ok().flatten().unwrap_or("");
            let ended = !get("ended").is_empty() || matches!(get("phase"), "done" | "aborted");
            let id = get("id").to_owned();
            running += usize::from(!ended);
            if ended && !shown.contains_key(&id) {
                continue;
            }
            let bar = shown.entry(id.clone()).or_insert_with(|| {
                let bar = bars.add(ProgressBar::new(1)).with_style(style.clone());
                bar.with_prefix(id)
            });
            let percent = get("percent").parse().unwrap_or(0.0_f64);
            bar.set_length(1000);
            bar.set_position((percent * 10.0).round() as u64);
            bar.set_message(format!(
                "{} {}: {} scanned, {} captured, {} waiting,",
                if get("paused") == "t" { "paused" } else { get("phase") },
                get("statement"),
                get("rows_scanned"),
                get("rows_captured"),
                get("backlog"),
            ));
            if ended && !bar.is_finished() {
                bar.abandon();
            }
        }
        if running == 0 && idle.is_finished() {
            idle = bars.add(ProgressBar::new_spinner().with_message("no schema change is running"));
            idle.enable_steady_tick(every);
        } else if running > 0 {
            idle.finish_and_clear();
        }
        tokio::time::sleep(every).await;
    }
}

/// Calls a function of schema `froglet` that does something to a schema change under way.
async fn tell(client: &Client, id: u64, call: String, said: &str) -> anyhow::Result<()> {
    let messages = client.simple_query(&format!("SELECT froglet.{call}")).await?;
    let is_done = messages
        .iter()
        .any(|m| matches!(m, SimpleQueryMessage::Row(row) if row.get(0) == Some("t")));
    if !is_done {
        bail!("no schema change {id} is running; `froglet migrations list` shows which are");
    }
    println!("schema change {id} {said}");
    Ok(())
}
