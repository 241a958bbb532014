//! The update-heavy load: Tesseract's microbenchmark (paper 000, section 6.2).
//!
//! A transaction reads two random rows and updates eight; every tenth also inserts a row and
//! deletes one that was inserted before, so that captures of all three kinds happen. It runs as a
//! stored procedure, under the schema version that its snapshot sees, and is carried over by its
//! commit like any writer if the schema has moved on meanwhile.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::{Result, anyhow};
use froglet_engine::{ColumnType, RowId, RowWrite, Snapshot, Value, WriteStop, key};
use froglet_schema::{Catalog, TableVersion};
use froglet_txn::{Isolation, Limits, Transaction, TxnError};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::table::{NAME, amount, new_row, schema_use};
use super::timeline::Timeline;

const READS: usize = 2;
const UPDATES: usize = 8;
/// One transaction in so many inserts and deletes.
const CHURN: u64 = 10;
/// Rows inserted and not deleted yet.
const KEPT: usize = 100;

/// What the worker and who watches it tell each other.
#[derive(Default)]
pub struct Signals {
    /// The worker is to end.
    pub stop: AtomicBool,
    /// Its commits so far.
    pub commits: AtomicU64,
    /// It has ended.
    pub ended: AtomicBool,
}

/// What the worker did.
pub struct Done {
    /// Its commits.
    pub timeline: Timeline,
    /// Transactions that failed, with the first one's reason.
    pub aborts: u64,
    /// Why the first of them failed.
    pub first_abort: Option<String>,
    /// Rows in the table when it ended.
    pub rows: u64,
    /// The next unused id.
    pub next_id: u64,
}

/// Positions of a schema version that updates need.
struct Shape {
    stamp: u64,
    table: Arc<TableVersion>,
    /// Written by every update, ascending.
    columns: Vec<usize>,
    names: Vec<Role>,
    amount_type: ColumnType,
}

/// What an updated column holds.
#[derive(Clone, Copy)]
enum Role {
    Amount,
    Balance,
    Doubled,
}

/// A worker.
pub struct Worker<'a> {
    catalog: &'a Catalog,
    /// Ids below this were there from the start.
    loaded: u64,
    next_id: u64,
    own: VecDeque<u64>,
    shape: Option<Shape>,
    rng: SmallRng,
    row: Vec<Value>,
    limits: Limits,
}

/// Why a transaction did not commit.
enum Stop {
    /// A conflict, or a schema change that could not carry it over.
    Abort(String),
    /// The benchmark is wrong.
    Wrong(anyhow::Error),
}

impl From<TxnError> for Stop {
    fn from(e: TxnError) -> Stop {
        Stop::Abort(e.to_string())
    }
}

impl<'a> Worker<'a> {
    /// On a table of `loaded` rows; new rows are numbered from `next_id`.
    pub fn new(catalog: &'a Catalog, loaded: u64, next_id: u64) -> Worker<'a> {
        Worker {
            catalog,
            loaded,
            next_id,
            own: VecDeque::new(),
            shape: None,
            rng: SmallRng::seed_from_u64(next_id),
            row: Vec::new(),
            limits: Limits::none(),
        }
    }

    /// Runs until told to stop; then deletes what it has inserted.
    pub async fn work(mut self, signals: &Signals) -> Result<Done> {
        let mut timeline = Timeline::new();
        let (mut aborts, mut first_abort, mut turn) = (0, None, 0u64);
        while !signals.stop.load(Ordering::Relaxed) {
            turn += 1;
            let churn = turn.is_multiple_of(CHURN);
            match self.transaction(churn).await {
                Ok(()) => {
                    timeline.commit();
                    signals.commits.fetch_add(1, Ordering::Relaxed);
                }
                Err(Stop::Abort(why)) => {
                    aborts += 1;
                    first_abort.get_or_insert(why);
                }
                Err(Stop::Wrong(e)) => return Err(e),
            }
        }
        while let Some(id) = self.own.pop_front() {
            if let Err(stop) = self.delete_own(id).await {
                return Err(match stop {
                    Stop::Abort(why) => anyhow!("row {id} cannot be deleted: {why}"),
                    Stop::Wrong(e) => e,
                });
            }
        }
        Ok(Done { timeline, aborts, first_abort, rows: self.loaded, next_id: self.next_id })
    }

    async fn begin(&mut self) -> Result<(Transaction, Arc<Snapshot>), Stop> {
        let mut txn = self.catalog.manager().begin(Isolation::ReadCommitted);
        let begun = self.catalog.begin_statement(&mut txn, true, &self.limits).await;
        let view = begun.map_err(|e| Stop::Abort(e.to_string()))?;
        if self.shape.as_ref().is_none_or(|shape| shape.stamp != view.stamp) {
            let table = view.table("public", NAME).cloned();
            let table = table.ok_or_else(|| Stop::Wrong(anyhow!("the table is gone")))?;
            self.shape = Some(Shape::of(table, view.stamp));
        }
        let snapshot = txn.snapshot();
        Ok((txn, snapshot))
    }

    async fn commit(&self, mut txn: Transaction) -> Result<(), Stop> {
        txn.note_schema(schema_use(&self.shape().table));
        self.catalog.end_statement(&mut txn);
        self.catalog.manager().commit(txn, &self.limits).await?;
        Ok(())
    }

    fn shape(&self) -> &Shape {
        self.shape.as_ref().expect("set when a transaction begins")
    }

    async fn transaction(&mut self, churn: bool) -> Result<(), Stop> {
        let (mut txn, snapshot) = self.begin().await?;
        for _ in 0..READS {
            let id = self.rng.random_range(0..self.loaded);
            self.find(&snapshot, id)?;
        }
        for _ in 0..UPDATES {
            let id = self.rng.random_range(0..self.loaded);
            let rid = self.find(&snapshot, id)?;
            let sum = self.rng.random_range(-1_000_000..1_000_000);
            self.update(&mut txn, &snapshot, rid, sum)?;
        }
        if !churn {
            return self.commit(txn).await;
        }
        let id = self.next_id;
        let row = new_row(&self.shape().table.def, id);
        let table = &self.shape().table.table;
        let inserted = table.insert(txn.part(), &[row], &mut Vec::with_capacity(1));
        inserted.map_err(|(_, stop)| stopped(stop))?;
        if self.own.len() >= KEPT {
            let rid = self.find(&snapshot, self.own[0])?;
            let write = [RowWrite::Delete { rid }];
            let table = &self.shape().table.table;
            table.write(txn.part(), snapshot.ts, &write).map_err(|(_, stop)| stopped(stop))?;
        }
        self.commit(txn).await?;
        self.next_id += 1;
        self.own.push_back(id);
        if self.own.len() > KEPT {
            self.own.pop_front();
        }
        Ok(())
    }

    async fn delete_own(&mut self, id: u64) -> Result<(), Stop> {
        let (mut txn, snapshot) = self.begin().await?;
        let rid = self.find(&snapshot, id)?;
        let table = &self.shape().table.table;
        let outcome = table.write(txn.part(), snapshot.ts, &[RowWrite::Delete { rid }]);
        outcome.map_err(|(_, stop)| stopped(stop))?;
        self.commit(txn).await
    }

    /// Finds a row by its primary key and reads what updates look at.
    fn find(&mut self, snapshot: &Snapshot, id: u64) -> Result<RowId, Stop> {
        let shape = self.shape.as_ref().expect("set when a transaction begins");
        let mut encoded = Vec::with_capacity(16);
        let part = &shape.table.def.indexes[0].spec.key[0];
        key::encode_part(&mut encoded, &Value::Int64(id as i64), part);
        self.row.clear();
        let table = &*shape.table.table;
        table
            .get_by_key(snapshot, 0, &encoded, &shape.columns, &mut self.row)
            .ok_or_else(|| Stop::Wrong(anyhow!("row {id} has gone")))
    }

    fn update(
        &self,
        txn: &mut Transaction,
        snapshot: &Snapshot,
        rid: RowId,
        sum: i64,
    ) -> Result<(), Stop> {
        let shape = self.shape();
        let value = |role: &Role| match role {
            Role::Amount => amount(shape.amount_type, sum),
            Role::Balance => Value::Int64(sum),
            Role::Doubled => Value::Int64(sum * 2),
        };
        let values: Vec<Value> = shape.names.iter().map(value).collect();
        let write = [RowWrite::Update { rid, columns: &shape.columns, values: &values }];
        let written = shape.table.table.write(txn.part(), snapshot.ts, &write);
        written.map_err(|(_, stop)| stopped(stop))
    }
}

impl Shape {
    fn of(table: Arc<TableVersion>, stamp: u64) -> Shape {
        let role = |name: &str| match name {
            "amount" => Some(Role::Amount),
            "balance" => Some(Role::Balance),
            "doubled" => Some(Role::Doubled),
            _ => None,
        };
        let updated = table.def.columns.iter().enumerate();
        let (columns, names) = updated.filter_map(|(at, c)| Some((at, role(&c.name)?))).unzip();
        let amount_type = table.def.column("amount").map_or(ColumnType::Int64, |c| c.ty);
        Shape { stamp, table, columns, names, amount_type }
    }
}

/// One worker never meets another's row, but it may meet its own: the same row twice in one
/// transaction is no conflict, so whatever stops it is an abort.
fn stopped(stop: WriteStop) -> Stop {
    match stop {
        WriteStop::Engine(e) => Stop::Wrong(e.into()),
        other => Stop::Abort(format!("{other:?}")),
    }
}
