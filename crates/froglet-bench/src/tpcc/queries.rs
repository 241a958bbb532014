//! Order-Status (clause 2.6.2) and Stock-Level (2.8.2): the transactions that only read.

use std::ops::ControlFlow;

use anyhow::anyhow;
use froglet_engine::{Direction, Row};

use super::db::{Stop, Tx, as_decimal, as_int, int};
use super::inputs::{OrderStatus, StockLevel};
use super::payment::find_customer;
use super::schema::{Index, customer, district, order, order_line, stock};

/// What Order-Status shows. Built because a real client would get it; read by nobody here.
#[derive(Debug)]
#[expect(dead_code)]
pub struct LastOrder {
    /// The customer's balance in cents.
    pub balance_cents: i128,
    /// The customer's names.
    pub customer: Row,
    /// The order's number, date and carrier.
    pub order: Row,
    /// Its lines: item, supplying warehouse, quantity, amount, delivery date.
    pub lines: Vec<Row>,
}

/// A customer's last order.
pub fn order_status(tx: &mut Tx<'_>, input: &OrderStatus) -> Result<LastOrder, Stop> {
    let (w, d) = (input.warehouse, input.district);
    let columns = [customer::C_BALANCE, customer::C_FIRST, customer::C_MIDDLE, customer::C_LAST];
    let (_, c) = find_customer(tx, (w, d), &input.customer, &columns)?;
    let customer = std::mem::take(&mut tx.desk.row);

    let mut last = Row::new();
    let columns = [order::O_ID, order::O_ENTRY_D, order::O_CARRIER_ID];
    let key = [int(w), int(d), int(c)];
    tx.scan(Index::OrderByCustomer, &key, None, Direction::Backward, &columns, |_, row| {
        last.append(row);
        ControlFlow::Break(())
    });
    let Some(number) = last.first().map(as_int) else {
        return Err(Stop::Wrong(anyhow!("customer {w}/{d}/{c} has never ordered anything")));
    };

    let mut lines = Vec::with_capacity(15);
    let columns = [
        order_line::OL_I_ID,
        order_line::OL_SUPPLY_W_ID,
        order_line::OL_QUANTITY,
        order_line::OL_AMOUNT,
        order_line::OL_DELIVERY_D,
    ];
    let key = [int(w), int(d), int(number)];
    tx.scan(Index::OrderLine, &key, None, Direction::Forward, &columns, |_, row| {
        lines.push(std::mem::take(row));
        ControlFlow::Continue(())
    });
    Ok(LastOrder { balance_cents: as_decimal(&customer[0]), customer, order: last, lines })
}

/// How many items of a district's last 20 orders have less stock than the threshold.
pub fn stock_level(tx: &mut Tx<'_>, input: &StockLevel) -> Result<usize, Stop> {
    let (w, d) = (input.warehouse, input.district);
    tx.get(Index::District, &[int(w), int(d)], &[district::D_NEXT_O_ID])?;
    let next = as_int(&tx.desk.row[0]);
    let mut items = Vec::with_capacity(300);
    let (from, to) = ([int(w), int(d), int(next - 20)], [int(w), int(d), int(next)]);
    let columns = [order_line::OL_I_ID];
    tx.scan(Index::OrderLine, &from, Some(&to), Direction::Forward, &columns, |_, row| {
        items.push(as_int(&row[0]));
        ControlFlow::Continue(())
    });
    items.sort_unstable();
    items.dedup();
    let mut low = 0;
    for item in items {
        tx.get(Index::Stock, &[int(w), int(item)], &[stock::S_QUANTITY])?;
        low += usize::from(as_int(&tx.desk.row[0]) < input.threshold);
    }
    Ok(low)
}
