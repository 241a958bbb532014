//! The population at the start (clause 4.3.3).

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use froglet_engine::{Row, Value};

use super::db::{DISTRICTS, Tpcc, int};
use super::random::Random;
use super::schema::TableName;
use crate::progress;

/// Rows inserted by one transaction.
const BATCH: usize = 1024;

/// Gathers rows of a table and inserts them batch by batch.
struct Batch<'a> {
    db: &'a Tpcc,
    table: TableName,
    rows: Vec<Row>,
}

impl<'a> Batch<'a> {
    fn new(db: &'a Tpcc, table: TableName) -> Batch<'a> {
        Batch { db, table, rows: Vec::with_capacity(BATCH) }
    }

    fn push(&mut self, row: Row) -> Result<()> {
        self.rows.push(row);
        if self.rows.len() == BATCH { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        self.db.load(self.table, &self.rows)?;
        self.rows.clear();
        Ok(())
    }
}

/// Microseconds since 1970.
pub fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

fn money(cents: i128) -> Value {
    Value::Decimal(cents)
}

fn text(s: impl AsRef<str>) -> Value {
    Value::text(s)
}

/// Fills an empty database.
pub fn load(db: &Tpcc) -> Result<()> {
    let scale = db.scale;
    let districts = (scale.warehouses * DISTRICTS) as u64;
    let bar = progress::bar("loading districts", districts);
    let mut random = Random::new(7);
    items(db, &mut random)?;
    for w in 1..=scale.warehouses {
        warehouse(db, w, &mut random)?;
        stock(db, w, &mut random)?;
        for d in 1..=DISTRICTS {
            customers(db, w, d, &mut random)?;
            orders(db, w, d, &mut random)?;
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(())
}

fn items(db: &Tpcc, random: &mut Random) -> Result<()> {
    let mut batch = Batch::new(db, TableName::Item);
    for i in 1..=db.scale.items {
        batch.push(vec![
            int(i),
            int(random.uniform(1, 10_000)),
            text(random.letters(14, 24)),
            money(random.cents(100, 10_000)),
            text(random.data()),
        ])?;
    }
    batch.flush()
}

/// Street, street, city, state, ZIP.
fn address(random: &mut Random) -> [Value; 5] {
    [
        text(random.letters(10, 20)),
        text(random.letters(10, 20)),
        text(random.letters(10, 20)),
        text(random.letters(2, 2)),
        text(random.zip()),
    ]
}

/// What a district has been paid at the start: 10.00 by each customer.
fn paid_cents(db: &Tpcc) -> i128 {
    i128::from(db.scale.customers) * 1000
}

fn warehouse(db: &Tpcc, w: i32, random: &mut Random) -> Result<()> {
    let mut row = vec![int(w), text(random.letters(6, 10))];
    row.extend(address(random));
    row.push(Value::Decimal(random.cents(0, 2000)));
    row.push(money(paid_cents(db) * i128::from(DISTRICTS)));
    db.load(TableName::Warehouse, &[row])?;
    for d in 1..=DISTRICTS {
        let mut row = vec![int(d), int(w), text(random.letters(6, 10))];
        row.extend(address(random));
        row.push(Value::Decimal(random.cents(0, 2000)));
        row.push(money(paid_cents(db)));
        row.push(int(db.scale.customers + 1));
        db.load(TableName::District, &[row])?;
    }
    Ok(())
}

fn stock(db: &Tpcc, w: i32, random: &mut Random) -> Result<()> {
    let mut batch = Batch::new(db, TableName::Stock);
    for i in 1..=db.scale.items {
        let mut row = vec![int(i), int(w), int(random.uniform(10, 100))];
        row.extend((0..DISTRICTS).map(|_| text(random.letters(24, 24))));
        row.extend([int(0), int(0), int(0), text(random.data())]);
        batch.push(row)?;
    }
    batch.flush()
}

fn customers(db: &Tpcc, w: i32, d: i32, random: &mut Random) -> Result<()> {
    let now = now_us();
    let mut batch = Batch::new(db, TableName::Customer);
    let mut payments = Batch::new(db, TableName::History);
    for c in 1..=db.scale.customers {
        let mut row = vec![
            int(c),
            int(d),
            int(w),
            text(random.letters(8, 16)),
            text("OE"),
            text(random.last_name_at_load(c, db.scale.customers)),
        ];
        row.extend(address(random));
        row.extend([
            text(random.digits(16, 16)),
            Value::Timestamp(now),
            text(if random.percent(10) { "BC" } else { "GC" }),
            money(5_000_000),
            Value::Decimal(random.cents(0, 5000)),
            money(-1000),
            money(1000),
            int(1),
            int(0),
            text(random.letters(300, 500)),
        ]);
        batch.push(row)?;
        payments.push(vec![
            int(c),
            int(d),
            int(w),
            int(d),
            int(w),
            Value::Timestamp(now),
            money(1000),
            text(random.letters(12, 24)),
        ])?;
    }
    batch.flush()?;
    payments.flush()
}

fn orders(db: &Tpcc, w: i32, d: i32, random: &mut Random) -> Result<()> {
    let now = now_us();
    let mut orders = Batch::new(db, TableName::Order);
    let mut undelivered = Batch::new(db, TableName::NewOrder);
    let mut lines = Batch::new(db, TableName::OrderLine);
    let customers = random.permutation(db.scale.customers);
    for (o, c) in (1..).zip(customers) {
        let delivered = o <= db.scale.delivered();
        let count = random.uniform(5, 15);
        orders.push(vec![
            int(o),
            int(d),
            int(w),
            int(c),
            Value::Timestamp(now),
            if delivered { int(random.uniform(1, 10)) } else { Value::Null },
            int(count),
            int(1),
        ])?;
        if !delivered {
            undelivered.push(vec![int(o), int(d), int(w)])?;
        }
        for number in 1..=count {
            lines.push(vec![
                int(o),
                int(d),
                int(w),
                int(number),
                int(random.uniform(1, db.scale.items)),
                int(w),
                if delivered { Value::Timestamp(now) } else { Value::Null },
                int(5),
                money(if delivered { 0 } else { random.cents(1, 999_999) }),
                text(random.letters(24, 24)),
            ])?;
        }
    }
    orders.flush()?;
    undelivered.flush()?;
    lines.flush()
}
