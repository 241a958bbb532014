//! `froglet demo`: TPC-C's mix runs on a server of its own while its schema changes, change after
//! change, on the screen.
//!
//! ```text
//!   clients ──▶ server ◀── changes (one after the other, a calm before each)
//!      │          │  froglet.migrations        │
//!      └──────────┴──────▶ story ◀─────────────┘      what has happened
//!                            ├─▶ screen               a terminal
//!                            ├─▶ lines                standard output is none
//!                            └─▶ summary, JSON        at the end
//! ```
//!
//! A demonstration, not a benchmark: `bench tpccd` has the comparisons and the verification. The
//! server's data is in a temporary directory, and gone when this ends.

mod changes;
mod screen;
mod story;

use std::io::{IsTerminal, stdout};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{interval, sleep};
use tokio_postgres::{Client, SimpleQueryMessage};

use self::changes::{CHANGES, Change};
use self::story::{News, Progress, SHORTEST, State, Story};
use crate::progress;
use crate::server::Froglet;
use crate::tpcc::db::Scale;
use crate::tpccd::arrivals::Arrivals;
use crate::tpccd::clients::Clients;
use crate::tpccd::recording::Span;
use crate::tpccd::workload::{Workload, connect};

/// Between two pictures.
const TICK: Duration = Duration::from_millis(200);

/// Arguments of `froglet demo`.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// Warehouses of TPC-C, some 100 MB each
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    warehouses: u16,

    /// Clients that run TPC-C's mix
    #[arg(long, value_name = "N", default_value_t = 2,
          value_parser = clap::value_parser!(u16).range(1..=500))]
    clients: u16,

    /// Seconds before each change
    #[arg(long, value_name = "N", default_value_t = 3.0, value_parser = crate::positive_seconds)]
    seconds: f64,

    /// A population that loads in no time
    #[arg(long)]
    small: bool,

    /// Write the figures of the summary to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Where the server's data goes; a directory in it is made and removed again
    #[arg(long, value_name = "DIR", default_value_os_t = std::env::temp_dir())]
    dir: PathBuf,
}

/// Runs it.
pub fn main(args: Args) -> Result<()> {
    let binary = std::env::current_exe().context("this binary's own path is unknown")?;
    let server = Froglet::start(&binary, &args.dir, &["--set", "synchronous_commit=off"])?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let shown = runtime.block_on(show(&args, server.port()));
    drop(runtime);
    let story = shown?;
    server.stop()?;
    summarise(&story);
    let report = story.report();
    if let Some(file) = &args.json {
        report.write(file).with_context(|| format!("{} cannot be written", file.display()))?;
        println!("\nwritten to {}", file.display());
    }
    report.verdict()
}

/// Where the story is told.
enum Stage {
    Terminal(Screen),
    /// One line for whatever ends, and one a second.
    Lines {
        said: Duration,
        ended: usize,
    },
}

/// A terminal in raw mode. Dropped, it is as it was; so it is after a panic.
struct Screen(DefaultTerminal);

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

async fn show(args: &Args, port: u16) -> Result<Story> {
    let warehouses = i32::from(args.warehouses);
    let scale = if args.small { Scale::small } else { Scale::full }(warehouses);
    let workload = Workload::Tpcc(scale);
    let calm = Duration::from_secs_f64(args.seconds);
    let (ddl, watch) = (connect(port).await?, connect(port).await?);
    progress::phase(&format!("loading {warehouses} of TPC-C's warehouses"));
    workload.load(&ddl).await?;
    let clients = Clients::start(port, workload, args.clients, Arrivals::BackToBack).await?;
    let (tell, mut news) = mpsc::unbounded_channel();
    let changes = tokio::spawn(make_changes(ddl, calm, clients.began(), tell));
    let title = format!(
        "Froglet, TPC-C, {} clients · psql -h 127.0.0.1 -p {port} -U postgres postgres",
        args.clients
    );
    let mut story = Story::new(title, &CHANGES, calm);
    let mut stage = if stdout().is_terminal() {
        Stage::Terminal(Screen(ratatui::try_init().context("the terminal cannot be drawn on")?))
    } else {
        Stage::Lines { said: Duration::ZERO, ended: 0 }
    };
    let mut terminate = signal(SignalKind::terminate())?;
    let mut ticks = interval(TICK);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            _ = terminate.recv() => break,
        }
        story.add(clients.began().elapsed(), clients.ended());
        while let Ok(news) = news.try_recv() {
            story.tell(news);
        }
        if story.running().is_some()
            && let Some(progress) = migration(&watch).await?
        {
            story.progress(progress);
        }
        if stage.show(&story)? || clients.any_gone() {
            break;
        }
    }
    // The terminal is as it was before anything else is printed.
    drop(stage);
    // If a change is under way, its connection ends and with it the change.
    changes.abort();
    clients.stop().await?;
    Ok(story)
}

/// Makes every change, with a calm before each.
async fn make_changes(
    ddl: Client,
    calm: Duration,
    began: Instant,
    tell: mpsc::UnboundedSender<News>,
) {
    for change in &CHANGES {
        sleep(calm).await;
        let start = began.elapsed();
        // Nobody listens any more if the demonstration is being ended.
        let _ = tell.send(News::Begun(start));
        let outcome = make(&ddl, change).await;
        let end = began.elapsed();
        sleep(SHORTEST).await;
        let outcome = outcome.map_err(|e| format!("{e:#}"));
        let _ = tell.send(News::Ended(Span { start, end }, outcome));
    }
}

async fn make(ddl: &Client, change: &Change) -> Result<()> {
    ddl.batch_execute("BEGIN").await?;
    for &statement in change.statements {
        if let Err(e) = ddl.batch_execute(statement).await {
            ddl.batch_execute("ROLLBACK").await?;
            return Err(e).context(statement);
        }
    }
    ddl.batch_execute("COMMIT").await.context("COMMIT")
}

/// The migration that runs.
async fn migration(watch: &Client) -> Result<Option<Progress>> {
    const SQL: &str = "SELECT phase, percent, rows_scanned, rows_captured, backlog \
        FROM froglet.migrations WHERE ended IS NULL ORDER BY id DESC LIMIT 1";
    let messages = watch.simple_query(SQL).await.context(SQL)?;
    Ok(messages.iter().find_map(|message| {
        let SimpleQueryMessage::Row(row) = message else { return None };
        let text = |at| row.get(at).unwrap_or_default();
        let count = |at| text(at).parse().unwrap_or_default();
        Some(Progress {
            phase: text(0).to_owned(),
            percent: text(1).parse().unwrap_or_default(),
            scanned: count(2),
            captured: count(3),
            backlog: count(4),
        })
    }))
}

impl Stage {
    /// Shows the story so far. True if that was all.
    fn show(&mut self, story: &Story) -> Result<bool> {
        match self {
            Stage::Terminal(screen) => {
                screen.0.draw(|frame| screen::draw(frame, story))?;
                wants_to_quit()
            }
            Stage::Lines { said, ended } => {
                if story.now >= *said + Duration::from_secs(1) {
                    let span = Span { start: *said, end: story.now };
                    *said = story.now;
                    let per_second = story.recording.per_second(span);
                    println!("{:6.1} s  {per_second:.0} transactions/s", story.now.as_secs_f64());
                }
                for chapter in &story.chapters[*ended..] {
                    match &chapter.state {
                        State::Done(figures) => {
                            let [time, ratio, gap, failed] = screen::cells(figures);
                            println!(
                                "{}: {time}, throughput during / before {ratio}, longest gap {gap}, \
                                 {failed} failed",
                                chapter.change.title
                            );
                        }
                        State::Failed { why, .. } => println!("{}: {why}", chapter.change.title),
                        State::Waiting | State::Running { .. } => break,
                    }
                    *ended += 1;
                }
                Ok(story.is_over())
            }
        }
    }
}

/// Whether one of the keys that end it was pressed: in raw mode Ctrl-C is a key, too.
fn wants_to_quit() -> Result<bool> {
    while event::poll(Duration::ZERO)? {
        if let Event::Key(key) = event::read()?
            && key.kind == KeyEventKind::Press
        {
            let interrupt = key.modifiers.contains(KeyModifiers::CONTROL);
            match key.code {
                KeyCode::Char('q' | 'Q') | KeyCode::Esc => return Ok(true),
                KeyCode::Char('c') if interrupt => return Ok(true),
                _ => {}
            }
        }
    }
    Ok(false)
}

fn summarise(story: &Story) {
    let wide = story.chapters.iter().map(|c| c.change.title.chars().count()).max().unwrap_or(0);
    let line = |title: &str, [time, ratio, gap, failed]: [String; 4]| {
        println!("{title:wide$}  {time:>10}  {ratio:>16}  {gap:>11}  {failed:>6}");
    };
    println!();
    let head = ["time", "during / before", "longest gap", "failed"].map(str::to_owned);
    line("schema change", head);
    for chapter in &story.chapters {
        let title = chapter.change.title;
        match &chapter.state {
            State::Done(figures) => line(title, screen::cells(figures)),
            State::Failed { why, .. } => println!("{title:wide$}  {why}"),
            State::Waiting | State::Running { .. } => println!("{title:wide$}  not made"),
        }
    }
}
