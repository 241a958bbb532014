//! The command line: `froglet serve`, `froglet migrations`, `froglet bench`, `froglet demo`.
//!
//! It reads arguments and calls the crates that do the work; errors end it with one message on
//! standard error and exit code 1.

mod allocator;
mod migrations;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use froglet_server::Config;
use froglet_server::config::Entry;
use tracing_subscriber::EnvFilter;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A PostgreSQL-compatible database whose schema changes while it runs at full speed.
#[derive(Parser)]
#[command(
    version,
    arg_required_else_help = true,
    max_term_width = 100,
    after_help = "Examples:\n  \
        froglet serve                              serve ./froglet-data on 127.0.0.1:5432\n  \
        psql -h 127.0.0.1 -U postgres postgres     connect\n  \
        froglet migrations watch                   follow schema changes as they run\n  \
        froglet demo                               watch the schema change under load\n\n\
        FROGLET_LOG sets what is logged to standard error: error, warn, info (the default), debug,\n\
        trace, or by module, as in FROGLET_LOG=info,froglet_memory=debug"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve a data directory to PostgreSQL clients.
    Serve(Box<Serve>),
    /// List, follow or cancel schema changes of a running server.
    Migrations(migrations::Args),
    /// Run a benchmark.
    #[command(after_help = "\
Examples:
  froglet bench list
  froglet bench tpcc --workers 1,2 --json tpcc.json
  froglet bench pgbench --only tpcb
  froglet bench copy --only csv
  froglet bench tpccd --figures figures --rounds 3
  froglet bench mainlining --figure 8,11 --figures figures
  froglet bench skeena --only micro --figures figures")]
    Bench(Box<froglet_bench::Args>),
    /// Watch TPC-C run while the schema changes, on a server of its own.
    #[command(after_help = "\
The server's data is in a temporary directory and gone at the end. Where standard output is no
terminal, lines are printed instead.

Examples:
  froglet demo
  froglet demo --clients 8 --seconds 5
  froglet demo --json demo.json | cat")]
    Demo(froglet_bench::demo::Args),
}

#[derive(Args)]
#[command(
    next_line_help = true,
    after_help = "\
Each option may also stand in the configuration file under its name with underscores, and in the
environment as FROGLET_ and its name in capitals: --max-connections is max_connections = 1000 in
the file and FROGLET_MAX_CONNECTIONS. Options beat the environment, which beats the file.

Any setting of a session can be given a default: --set lock_timeout=5s, or in the file

  [settings]
  lock_timeout = \"5s\"

or FROGLET_SETTING_LOCK_TIMEOUT=5s in the environment.

Who may connect is said in the file, in the form of pg_hba.conf, the first rule that fits deciding:

  authentication = [
    \"host    all all 127.0.0.1/32 trust\",
    \"hostssl all all 10.0.0.0/8   scram-sha-256\",
  ]

The password of postgres is superuser_password there, or FROGLET_SUPERUSER_PASSWORD, until ALTER ROLE
sets another. Without rules whoever can connect to a loopback address may.

Examples:
  froglet serve --data /var/lib/froglet
  froglet serve --listen 127.0.0.1:5433 --memory-limit 4GB
  froglet serve --config /etc/froglet.toml --set synchronous_commit=off"
)]
struct Serve {
    /// Keep everything in this directory, made if it is not there [default: ./froglet-data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Keep nothing here: be one of the servers over a store that speaks TiKV's protocol, by its placement drivers
    #[arg(long, value_name = "tikv://HOST:PORT[,…][/NAME]")]
    store: Option<String>,
    /// Let the store keep so long what nobody reads any more [default: 5min]
    #[arg(long, value_name = "DURATION", requires = "store")]
    store_history: Option<String>,
    /// Listen on this address, beyond loopback only with rules of authentication [default: 127.0.0.1:5432]
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// Serve Arrow Flight SQL on this address, 127.0.0.1:32010 for example [default: off]
    #[arg(long, value_name = "HOST:PORT")]
    flight_listen: Option<String>,
    /// Serve by TLS, with the certificate in this PEM file: who asks for it, and all of Flight's clients
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<String>,
    /// The key of that certificate, a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<String>,
    /// Serve Flight by TLS, with the certificate in this PEM file
    #[arg(long, value_name = "FILE", requires = "flight_tls_key")]
    flight_tls_cert: Option<String>,
    /// The key of that certificate, a PEM file
    #[arg(long, value_name = "FILE", requires = "flight_tls_cert")]
    flight_tls_key: Option<String>,
    /// Keep the result of a Flight client so long for it to be fetched [default: 5min]
    #[arg(long, value_name = "DURATION")]
    flight_result_timeout: Option<String>,
    /// Read this configuration file [default: froglet.toml in DIR]
    #[arg(long, value_name = "FILE", env = "FROGLET_CONFIG", hide_env_values = true)]
    config: Option<PathBuf>,
    /// Let rows, indexes and undo records take so much memory: 4GB, or 50% [default: 75%]
    #[arg(long, value_name = "SIZE")]
    memory_limit: Option<String>,
    /// Serve so many sessions at one time [default: 1000]
    #[arg(long, value_name = "N")]
    max_connections: Option<String>,
    /// Write a checkpoint at least so often [default: 5min]
    #[arg(long, value_name = "DURATION")]
    checkpoint_timeout: Option<String>,
    /// Write a checkpoint after so much log [default: 1GB]
    #[arg(long, value_name = "SIZE")]
    max_wal_size: Option<String>,
    /// Freeze a block that nobody has written to for so long; off for never [default: 5s]
    #[arg(long, value_name = "DURATION")]
    freeze_after: Option<String>,
    /// Freeze with so many threads [default: 1]
    #[arg(long, value_name = "N")]
    freeze_threads: Option<String>,
    /// Keep equal strings of a frozen block once: auto, on or off [default: auto]
    #[arg(long, value_name = "CHOICE")]
    freeze_dictionary: Option<String>,
    /// Run sessions on so many threads; 0 for as many as there are cores [default: 0]
    #[arg(long, value_name = "N")]
    worker_threads: Option<String>,
    /// Let COPY read and write files in this directory, which must be there [default: no files]
    #[arg(long, value_name = "DIR")]
    copy_directory: Option<PathBuf>,
    /// Give a session setting a default; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    set: Vec<(String, String)>,
}

impl Serve {
    fn entries(self) -> Vec<Entry> {
        let data = self.data.map(|path| path.display().to_string());
        let copy_directory = self.copy_directory.map(|path| path.display().to_string());
        let options = [
            ("data", data),
            ("store", self.store),
            ("store_history", self.store_history),
            ("listen", self.listen),
            ("flight_listen", self.flight_listen),
            ("tls_cert", self.tls_cert),
            ("tls_key", self.tls_key),
            ("flight_tls_cert", self.flight_tls_cert),
            ("flight_tls_key", self.flight_tls_key),
            ("flight_result_timeout", self.flight_result_timeout),
            ("memory_limit", self.memory_limit),
            ("max_connections", self.max_connections),
            ("checkpoint_timeout", self.checkpoint_timeout),
            ("max_wal_size", self.max_wal_size),
            ("freeze_after", self.freeze_after),
            ("freeze_threads", self.freeze_threads),
            ("freeze_dictionary", self.freeze_dictionary),
            ("worker_threads", self.worker_threads),
            ("copy_directory", copy_directory),
        ];
        let given =
            options.into_iter().filter_map(|(name, value)| Some(Entry::switch(name, value?)));
        let settings = self
            .set
            .into_iter()
            .map(|(name, value)| Entry::switch(&format!("settings.{name}"), value));
        given.chain(settings).collect()
    }
}

fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("NAME=VALUE is needed, lock_timeout=5s for example".to_owned()),
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    log_to_stderr();
    let outcome = match cli.command {
        Command::Serve(serve) => serve_data(*serve),
        Command::Migrations(args) => migrations::main(args),
        Command::Bench(args) => froglet_bench::main(*args),
        Command::Demo(args) => froglet_bench::demo::main(args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("froglet: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn serve_data(mut serve: Serve) -> anyhow::Result<()> {
    allocator::configure();
    let file = serve.config.take();
    // A variable that is not UTF-8 is none of ours.
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let config = Config::load(file.as_deref(), &serve.entries(), variables)?;
    Ok(froglet_server::run(config)?)
}

fn log_to_stderr() {
    let default = EnvFilter::new("info");
    let filter = EnvFilter::try_from_env("FROGLET_LOG").unwrap_or(default);
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        .init();
}
