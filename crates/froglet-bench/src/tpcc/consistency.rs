//! The consistency conditions (clause 3.3.2): what must hold of the data whenever nobody writes.
//!
//! One pass over every table gathers sums per warehouse, district, order and customer; the twelve
//! conditions then compare them. Condition 11 holds in the specification only of the initial
//! population; here it counts the delivered orders, which is the same there and true for ever.

use std::collections::HashMap;

use anyhow::{Result, anyhow};
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int32Type};
use arrow_array::{Array, RecordBatch};
use froglet_engine::Snapshot;

use super::db::Tpcc;
use super::schema::{
    TableName, customer, district, history, new_order, order, order_line, warehouse,
};

/// Warehouse, district.
type District = (i32, i32);
/// Warehouse, district, number of an order or a customer.
type Numbered = (i32, i32, i32);

#[derive(Default)]
struct DistrictSums {
    next_order: i32,
    ytd: i128,
    paid: i128,
    order_max: i32,
    orders: i64,
    delivered_orders: i64,
    lines_promised: i64,
    lines: i64,
    new_min: i32,
    new_max: i32,
    new_orders: i64,
}

#[derive(Default)]
struct OrderSums {
    customer: i32,
    lines_promised: i32,
    lines: i32,
    carrier: bool,
    is_new: bool,
    lines_delivered: i32,
    delivered_amount: i128,
}

#[derive(Default)]
struct CustomerSums {
    balance: i128,
    ytd_payment: i128,
    paid: i128,
    delivered_amount: i128,
}

#[derive(Default)]
struct Sums {
    /// W_YTD and what was paid there.
    warehouses: HashMap<i32, (i128, i128)>,
    districts: HashMap<District, DistrictSums>,
    orders: HashMap<Numbered, OrderSums>,
    customers: HashMap<Numbered, CustomerSums>,
}

/// Checks every condition; returns how many order lines were looked at.
pub fn check(db: &Tpcc) -> Result<u64> {
    let snapshot = db.engine().snapshot();
    let mut sums = Sums::default();
    sums.gather(db, &snapshot)?;
    sums.customers_from_orders()?;
    sums.compare_districts()?;
    sums.compare_orders()?;
    sums.compare_customers()?;
    Ok(sums.orders.values().map(|o| o.lines as u64).sum())
}

/// Visits the rows of a table, some columns of them, block by block.
fn each_block(
    db: &Tpcc,
    snapshot: &Snapshot,
    table: TableName,
    columns: &[usize],
    mut visit: impl FnMut(&Columns<'_>, usize),
) -> Result<()> {
    let rows = db.table(table);
    for block in 0..rows.block_count() {
        let read = rows.read_block(snapshot, block, columns)?;
        let columns = Columns(&read.batch);
        (0..read.batch.num_rows()).for_each(|row| visit(&columns, row));
    }
    Ok(())
}

struct Columns<'a>(&'a RecordBatch);

impl Columns<'_> {
    fn int(&self, column: usize, row: usize) -> i32 {
        self.0.column(column).as_primitive::<Int32Type>().value(row)
    }

    fn decimal(&self, column: usize, row: usize) -> i128 {
        self.0.column(column).as_primitive::<Decimal128Type>().value(row)
    }

    fn is_set(&self, column: usize, row: usize) -> bool {
        self.0.column(column).is_valid(row)
    }
}

impl Sums {
    fn gather(&mut self, db: &Tpcc, at: &Snapshot) -> Result<()> {
        use {customer::*, district::*, history::*, new_order::*, order::*, warehouse::*};
        each_block(db, at, TableName::Warehouse, &[W_ID, W_YTD], |c, row| {
            self.warehouses.entry(c.int(0, row)).or_default().0 = c.decimal(1, row);
        })?;
        each_block(db, at, TableName::District, &[D_W_ID, D_ID, D_NEXT_O_ID, D_YTD], |c, row| {
            let sums = self.districts.entry((c.int(0, row), c.int(1, row))).or_default();
            (sums.next_order, sums.ytd) = (c.int(2, row), c.decimal(3, row));
        })?;
        let columns = [C_W_ID, C_D_ID, C_ID, C_BALANCE, C_YTD_PAYMENT];
        each_block(db, at, TableName::Customer, &columns, |c, row| {
            let id = (c.int(0, row), c.int(1, row), c.int(2, row));
            let sums = self.customers.entry(id).or_default();
            (sums.balance, sums.ytd_payment) = (c.decimal(3, row), c.decimal(4, row));
        })?;
        let columns = [H_W_ID, H_D_ID, H_C_W_ID, H_C_D_ID, H_C_ID, H_AMOUNT];
        each_block(db, at, TableName::History, &columns, |c, row| {
            let (w, d, amount) = (c.int(0, row), c.int(1, row), c.decimal(5, row));
            self.warehouses.entry(w).or_default().1 += amount;
            self.districts.entry((w, d)).or_default().paid += amount;
            let customer = (c.int(2, row), c.int(3, row), c.int(4, row));
            self.customers.entry(customer).or_default().paid += amount;
        })?;
        let columns = [O_W_ID, O_D_ID, O_ID, O_C_ID, O_CARRIER_ID, O_OL_CNT];
        each_block(db, at, TableName::Order, &columns, |c, row| {
            let (w, d, o) = (c.int(0, row), c.int(1, row), c.int(2, row));
            let (carrier, count) = (c.is_set(4, row), c.int(5, row));
            let sums = self.orders.entry((w, d, o)).or_default();
            (sums.customer, sums.carrier, sums.lines_promised) = (c.int(3, row), carrier, count);
            let sums = self.districts.entry((w, d)).or_default();
            sums.orders += 1;
            sums.delivered_orders += i64::from(carrier);
            sums.lines_promised += i64::from(count);
            sums.order_max = sums.order_max.max(o);
        })?;
        each_block(db, at, TableName::NewOrder, &[NO_W_ID, NO_D_ID, NO_O_ID], |c, row| {
            let (w, d, o) = (c.int(0, row), c.int(1, row), c.int(2, row));
            self.orders.entry((w, d, o)).or_default().is_new = true;
            let sums = self.districts.entry((w, d)).or_default();
            sums.new_min = if sums.new_orders == 0 { o } else { sums.new_min.min(o) };
            sums.new_max = sums.new_max.max(o);
            sums.new_orders += 1;
        })?;
        self.gather_lines(db, at)
    }

    fn gather_lines(&mut self, db: &Tpcc, at: &Snapshot) -> Result<()> {
        use order_line::*;
        let columns = [OL_W_ID, OL_D_ID, OL_O_ID, OL_AMOUNT, OL_DELIVERY_D];
        each_block(db, at, TableName::OrderLine, &columns, |c, row| {
            let (w, d, o) = (c.int(0, row), c.int(1, row), c.int(2, row));
            self.districts.entry((w, d)).or_default().lines += 1;
            let sums = self.orders.entry((w, d, o)).or_default();
            sums.lines += 1;
            if c.is_set(4, row) {
                sums.lines_delivered += 1;
                sums.delivered_amount += c.decimal(3, row);
            }
        })
    }

    fn customers_from_orders(&mut self) -> Result<()> {
        for (&(w, d, o), order) in &self.orders {
            let sums = self
                .customers
                .get_mut(&(w, d, order.customer))
                .ok_or_else(|| anyhow!("order {w}/{d}/{o} has no customer {}", order.customer))?;
            sums.delivered_amount += order.delivered_amount;
        }
        Ok(())
    }

    fn compare_districts(&self) -> Result<()> {
        for (w, (ytd, paid)) in &self.warehouses {
            let here = self.districts.iter().filter(|((in_w, _), _)| in_w == w);
            let sum: i128 = here.map(|(_, d)| d.ytd).sum();
            same(1, "W_YTD and the sum of D_YTD", w, *ytd, sum)?;
            same(8, "W_YTD and the sum of H_AMOUNT", w, *ytd, *paid)?;
        }
        for (id, d) in &self.districts {
            same(2, "D_NEXT_O_ID - 1 and max(O_ID)", id, d.next_order - 1, d.order_max)?;
            if d.new_orders > 0 {
                same(2, "max(O_ID) and max(NO_O_ID)", id, d.order_max, d.new_max)?;
                let span = i64::from(d.new_max - d.new_min + 1);
                same(3, "the span and the number of new orders", id, span, d.new_orders)?;
            }
            same(4, "sum(O_OL_CNT) and order lines", id, d.lines_promised, d.lines)?;
            same(9, "D_YTD and the sum of H_AMOUNT", id, d.ytd, d.paid)?;
            let undelivered = d.orders - d.delivered_orders;
            same(11, "undelivered orders and new orders", id, undelivered, d.new_orders)?;
        }
        Ok(())
    }

    fn compare_orders(&self) -> Result<()> {
        for (id, o) in &self.orders {
            same(5, "undelivered and in NEW-ORDER", id, !o.carrier, o.is_new)?;
            same(6, "O_OL_CNT and order lines", id, o.lines_promised, o.lines)?;
            let dated = if o.carrier { o.lines } else { 0 };
            same(7, "lines of a delivered order and dated lines", id, dated, o.lines_delivered)?;
        }
        Ok(())
    }

    fn compare_customers(&self) -> Result<()> {
        for (id, c) in &self.customers {
            let owed = c.delivered_amount - c.paid;
            same(10, "C_BALANCE and delivered less paid", id, c.balance, owed)?;
            let both = c.balance + c.ytd_payment;
            same(12, "C_BALANCE + C_YTD_PAYMENT and delivered", id, both, c.delivered_amount)?;
        }
        Ok(())
    }
}

fn same<T: PartialEq + std::fmt::Debug>(
    condition: u32,
    what: &str,
    id: &impl std::fmt::Debug,
    a: T,
    b: T,
) -> Result<()> {
    if a == b {
        return Ok(());
    }
    Err(anyhow!("TPC-C condition {condition}: {what} of {id:?} differ: {a:?} and {b:?}"))
}
