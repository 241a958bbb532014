//! What the clients do: TPC-C's mix, or the microbenchmark.

use anyhow::{Context, Result};
use tokio_postgres::{Client, Config, Error, NoTls};

use super::statements::Version;
use super::transactions::Mix;
use super::{load, micro, transactions};
use crate::tpcc::db::Scale;
use crate::tpcc::inputs::Terminal;

/// A population, and transactions on it.
#[derive(Clone, Copy, Debug)]
pub enum Workload {
    /// The standard mix.
    Tpcc(Scale),
    /// Ten statements on one table.
    Micro {
        /// Of the table.
        rows: u64,
        /// How many in a hundred of the statements read; the others update.
        reads_percent: u32,
        /// Columns besides the paper's three, which no client uses.
        unused: u16,
    },
}

/// Connects to a server on the loopback interface.
pub async fn connect(port: u16) -> Result<Client> {
    let mut config = Config::new();
    config.host("127.0.0.1").port(port).user("postgres").dbname("postgres");
    let connected = config.connect(NoTls).await;
    let (client, connection) =
        connected.with_context(|| format!("no connection to the server on port {port}"))?;
    // Its errors reach the client, too.
    tokio::spawn(connection);
    Ok(client)
}

impl Workload {
    /// Fills an empty database.
    pub async fn load(self, client: &Client) -> Result<()> {
        self.load_indexed(client, &[]).await
    }

    /// The same with more indexes than TPC-C's.
    pub async fn load_indexed(self, client: &Client, indexes: &[&str]) -> Result<()> {
        match self {
            Workload::Tpcc(scale) => load::load_indexed(client, scale, indexes).await,
            Workload::Micro { rows, unused, .. } => micro::load(client, rows, unused).await,
        }
    }

    /// Makes a connection that of client `n` (0, 1, …).
    pub async fn session(self, client: Client, n: u16) -> Result<Session> {
        let seed = 1000 + u64::from(n);
        Ok(match self {
            Workload::Tpcc(scale) => {
                let home = i32::from(n) % scale.warehouses + 1;
                let terminal = Terminal::new(home, scale, seed);
                let mix = Mix::default();
                Session::Tpcc(Box::new(transactions::Session::open(client, terminal, mix).await?))
            }
            Workload::Micro { rows, reads_percent, .. } => {
                let session = micro::Session::open(client, rows, reads_percent, seed).await?;
                Session::Micro(Box::new(session))
            }
        })
    }
}

/// A client's connection.
pub enum Session {
    /// See [`transactions`].
    Tpcc(Box<transactions::Session>),
    /// See [`micro`].
    Micro(Box<micro::Session>),
}

impl Session {
    /// Runs a transaction. After an error it is rolled back.
    pub async fn transaction(&mut self) -> Result<(), Error> {
        match self {
            Session::Tpcc(session) => session.transaction().await.map(drop),
            Session::Micro(session) => session.transaction().await,
        }
    }

    /// Runs the transaction that failed once more.
    pub async fn again(&mut self) -> Result<(), Error> {
        match self {
            Session::Tpcc(session) => session.again().await.map(drop),
            Session::Micro(session) => session.transaction().await,
        }
    }

    /// Goes on with statements for another schema; the microbenchmark has but one.
    pub async fn follow(&mut self, version: Version) -> Result<(), Error> {
        match self {
            Session::Tpcc(session) => session.follow(version).await,
            Session::Micro(_) => Ok(()),
        }
    }
}
