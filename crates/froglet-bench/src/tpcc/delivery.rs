//! The Delivery transaction (clause 2.7.4): the oldest undelivered order of each district.

use std::ops::ControlFlow;

use froglet_engine::{Direction, RowId, RowWrite, Value};

use super::db::{DISTRICTS, Stop, Tx, as_decimal, as_int, int};
use super::inputs::Delivery;
use super::profile::Op;
use super::schema::{Index, TableName, customer, new_order, order, order_line};

/// Delivers. Returns how many districts had something to deliver.
pub fn delivery(tx: &mut Tx<'_>, input: &Delivery, now_us: i64) -> Result<u32, Stop> {
    let mut delivered = 0;
    for d in 1..=DISTRICTS {
        let mut oldest = None;
        let key = [int(input.warehouse), int(d)];
        let columns = [new_order::NO_O_ID];
        tx.scan(Index::NewOrder, &key, None, Direction::Forward, &columns, |rid, row| {
            oldest = Some((rid, as_int(&row[0])));
            ControlFlow::Break(())
        });
        if let Some((rid, number)) = oldest {
            tx.delete(TableName::NewOrder, rid)?;
            deliver(tx, input, d, number, now_us)?;
            delivered += 1;
        }
    }
    Ok(delivered)
}

fn deliver(tx: &mut Tx<'_>, input: &Delivery, d: i32, number: i32, now: i64) -> Result<(), Stop> {
    let w = input.warehouse;
    let key = [int(w), int(d), int(number)];
    let rid = tx.get(Index::Order, &key, &[order::O_C_ID])?;
    let c = as_int(&tx.desk.row[0]);
    tx.update(TableName::Order, rid, &[order::O_CARRIER_ID], &[int(input.carrier)])?;

    let mut lines: Vec<RowId> = Vec::with_capacity(15);
    let mut sum = 0;
    let columns = [order_line::OL_AMOUNT];
    tx.scan(Index::OrderLine, &key, None, Direction::Forward, &columns, |rid, row| {
        lines.push(rid);
        sum += as_decimal(&row[0]);
        ControlFlow::Continue(())
    });
    let values = [Value::Timestamp(now)];
    let columns = [order_line::OL_DELIVERY_D];
    let writes: Vec<RowWrite<'_>> = lines
        .iter()
        .map(|&rid| RowWrite::Update { rid, columns: &columns, values: &values })
        .collect();
    tx.write(TableName::OrderLine, Op::Update, &writes)?;

    let columns = [customer::C_BALANCE, customer::C_DELIVERY_CNT];
    let rid = tx.get(Index::Customer, &[int(w), int(d), int(c)], &columns)?;
    let balance = as_decimal(&tx.desk.row[0]) + sum;
    let values = [Value::Decimal(balance), int(as_int(&tx.desk.row[1]) + 1)];
    tx.update(TableName::Customer, rid, &columns, &values)
}
