//! The population at the start (clause 4.3.3): made row by row, for whoever takes rows.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use froglet_engine::{Row, Value};

use super::db::{DISTRICTS, Scale, Tpcc, int};
use super::random::Random;
use super::schema::{TABLES, TableName};
use crate::progress;

/// Rows inserted by one transaction.
const BATCH: usize = 1024;

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
    let mut batches: [Vec<Row>; TABLES.len()] = Default::default();
    populate(db.scale, &mut |table, row| {
        let batch = &mut batches[table as usize];
        batch.push(row);
        if batch.len() == BATCH {
            db.load(table, batch)?;
            batch.clear();
        }
        Ok(())
    })?;
    for table in TABLES {
        db.load(table, &batches[table as usize])?;
    }
    Ok(())
}

/// Makes every row of the population, the same ones each time but for the date.
pub fn populate(scale: Scale, put: &mut dyn FnMut(TableName, Row) -> Result<()>) -> Result<()> {
    let districts = (scale.warehouses * DISTRICTS) as u64;
    let bar = progress::bar("loading districts", districts);
    let mut population = Population { scale, now_us: now_us(), random: Random::new(7), put };
    population.items()?;
    for w in 1..=scale.warehouses {
        population.warehouse(w)?;
        population.stock(w)?;
        for d in 1..=DISTRICTS {
            population.customers(w, d)?;
            population.orders(w, d)?;
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(())
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

struct Population<'a> {
    scale: Scale,
    now_us: i64,
    random: Random,
    put: &'a mut dyn FnMut(TableName, Row) -> Result<()>,
}

impl Population<'_> {
    fn items(&mut self) -> Result<()> {
        let random = &mut self.random;
        for i in 1..=self.scale.items {
            let row = vec![
                int(i),
                int(random.uniform(1, 10_000)),
                text(random.letters(14, 24)),
                money(random.cents(100, 10_000)),
                text(random.data()),
            ];
            (self.put)(TableName::Item, row)?;
        }
        Ok(())
    }

    /// What a district has been paid at the start: 10.00 by each customer.
    fn paid_cents(&self) -> i128 {
        i128::from(self.scale.customers) * 1000
    }

    fn warehouse(&mut self, w: i32) -> Result<()> {
        let paid_cents = self.paid_cents();
        let random = &mut self.random;
        let mut row = vec![int(w), text(random.letters(6, 10))];
        row.extend(address(random));
        row.push(Value::Decimal(random.cents(0, 2000)));
        row.push(money(paid_cents * i128::from(DISTRICTS)));
        (self.put)(TableName::Warehouse, row)?;
        for d in 1..=DISTRICTS {
            let mut row = vec![int(d), int(w), text(random.letters(6, 10))];
            row.extend(address(random));
            row.push(Value::Decimal(random.cents(0, 2000)));
            row.push(money(paid_cents));
            row.push(int(self.scale.customers + 1));
            (self.put)(TableName::District, row)?;
        }
        Ok(())
    }

    fn stock(&mut self, w: i32) -> Result<()> {
        let random = &mut self.random;
        for i in 1..=self.scale.items {
            let mut row = vec![int(i), int(w), int(random.uniform(10, 100))];
            row.extend((0..DISTRICTS).map(|_| text(random.letters(24, 24))));
            row.extend([int(0), int(0), int(0), text(random.data())]);
            (self.put)(TableName::Stock, row)?;
        }
        Ok(())
    }

    fn customers(&mut self, w: i32, d: i32) -> Result<()> {
        let random = &mut self.random;
        for c in 1..=self.scale.customers {
            let mut row = vec![
                int(c),
                int(d),
                int(w),
                text(random.letters(8, 16)),
                text("OE"),
                text(random.last_name_at_load(c, self.scale.customers)),
            ];
            row.extend(address(random));
            row.extend([
                text(random.digits(16, 16)),
                Value::Timestamp(self.now_us),
                text(if random.percent(10) { "BC" } else { "GC" }),
                money(5_000_000),
                Value::Decimal(random.cents(0, 5000)),
                money(-1000),
                money(1000),
                int(1),
                int(0),
                text(random.letters(300, 500)),
            ]);
            (self.put)(TableName::Customer, row)?;
            let payment = vec![
                int(c),
                int(d),
                int(w),
                int(d),
                int(w),
                Value::Timestamp(self.now_us),
                money(1000),
                text(random.letters(12, 24)),
            ];
            (self.put)(TableName::History, payment)?;
        }
        Ok(())
    }

    fn orders(&mut self, w: i32, d: i32) -> Result<()> {
        let now = Value::Timestamp(self.now_us);
        let random = &mut self.random;
        let customers = random.permutation(self.scale.customers);
        for (o, c) in (1..).zip(customers) {
            let delivered = o <= self.scale.delivered();
            let count = random.uniform(5, 15);
            let order = vec![
                int(o),
                int(d),
                int(w),
                int(c),
                now.clone(),
                if delivered { int(random.uniform(1, 10)) } else { Value::Null },
                int(count),
                int(1),
            ];
            (self.put)(TableName::Order, order)?;
            if !delivered {
                (self.put)(TableName::NewOrder, vec![int(o), int(d), int(w)])?;
            }
            for number in 1..=count {
                let line = vec![
                    int(o),
                    int(d),
                    int(w),
                    int(number),
                    int(random.uniform(1, self.scale.items)),
                    int(w),
                    if delivered { now.clone() } else { Value::Null },
                    int(5),
                    money(if delivered { 0 } else { random.cents(1, 999_999) }),
                    text(random.letters(24, 24)),
                ];
                (self.put)(TableName::OrderLine, line)?;
            }
        }
        Ok(())
    }
}
