//! The Payment transaction (clause 2.5.2), and how a customer is found.

use froglet_engine::{Direction, Row, RowId, Value};
use std::fmt::Write;
use std::ops::ControlFlow;

use anyhow::anyhow;

use super::db::{Stop, Tx, as_decimal, as_int, as_text, int};
use super::inputs::{Payment, Who};
use super::schema::{Index, TableName, customer, district, warehouse};

/// What the terminal shows: warehouse, district and customer with their addresses.
#[derive(Debug, Default)]
pub struct Shown {
    /// The rows as read.
    pub rows: [Row; 3],
    /// The customer's balance in cents afterwards.
    pub balance_cents: i128,
}

/// Of a bad customer, at most this much is remembered.
const DATA_BYTES: usize = 500;

/// Finds a customer and reads columns of it into `desk.row`. Returns its row and number.
pub fn find_customer(
    tx: &mut Tx<'_>,
    (w, d): (i32, i32),
    who: &Who,
    columns: &[usize],
) -> Result<(RowId, i32), Stop> {
    let name = match who {
        Who::Number(c) => {
            let rid = tx.get(Index::Customer, &[int(w), int(d), int(*c)], columns)?;
            return Ok((rid, *c));
        }
        Who::LastName(name) => name,
    };
    let mut found = Vec::new();
    let key = [int(w), int(d), Value::text(name)];
    let visit = |rid, row: &mut Row| {
        found.push((rid, as_int(&row[0])));
        ControlFlow::Continue(())
    };
    let id = [customer::C_ID];
    tx.scan(Index::CustomerByName, &key, None, Direction::Forward, &id, visit);
    if found.is_empty() {
        return Err(Stop::Wrong(anyhow!("nobody in district {w}/{d} is called {name}")));
    }
    let middle = found[(found.len() - 1) / 2];
    tx.read(TableName::Customer, middle.0, columns)?;
    Ok(middle)
}

/// Takes a payment.
pub fn payment(tx: &mut Tx<'_>, input: &Payment, now_us: i64) -> Result<Shown, Stop> {
    let (w, d, amount) = (input.warehouse, input.district, input.amount_cents);
    let mut shown = Shown::default();

    let columns = [
        warehouse::W_YTD,
        warehouse::W_NAME,
        warehouse::W_STREET_1,
        warehouse::W_STREET_2,
        warehouse::W_CITY,
        warehouse::W_STATE,
        warehouse::W_ZIP,
    ];
    let rid = tx.get(Index::Warehouse, &[int(w)], &columns)?;
    let ytd = as_decimal(&tx.desk.row[0]) + amount;
    shown.rows[0] = std::mem::take(&mut tx.desk.row);
    tx.update(TableName::Warehouse, rid, &[warehouse::W_YTD], &[Value::Decimal(ytd)])?;

    let columns = [
        district::D_YTD,
        district::D_NAME,
        district::D_STREET_1,
        district::D_STREET_2,
        district::D_CITY,
        district::D_STATE,
        district::D_ZIP,
    ];
    let rid = tx.get(Index::District, &[int(w), int(d)], &columns)?;
    let ytd = as_decimal(&tx.desk.row[0]) + amount;
    shown.rows[1] = std::mem::take(&mut tx.desk.row);
    tx.update(TableName::District, rid, &[district::D_YTD], &[Value::Decimal(ytd)])?;

    let c = charge(tx, input, &mut shown)?;
    let data = [as_text(&shown.rows[0][1]), "    ", as_text(&shown.rows[1][1])].concat();
    let history = vec![
        int(c),
        int(input.customer_district),
        int(input.customer_warehouse),
        int(d),
        int(w),
        Value::Timestamp(now_us),
        Value::Decimal(amount),
        Value::text(data),
    ];
    tx.insert(TableName::History, &[history])?;
    Ok(shown)
}

/// The customer's part. Returns the customer's number.
fn charge(tx: &mut Tx<'_>, input: &Payment, shown: &mut Shown) -> Result<i32, Stop> {
    use customer::*;
    const READ: [usize; 17] = [
        C_BALANCE,
        C_YTD_PAYMENT,
        C_PAYMENT_CNT,
        C_CREDIT,
        C_FIRST,
        C_MIDDLE,
        C_LAST,
        C_STREET_1,
        C_STREET_2,
        C_CITY,
        C_STATE,
        C_ZIP,
        C_PHONE,
        C_SINCE,
        C_CREDIT_LIM,
        C_DISCOUNT,
        C_DATA,
    ];
    let district = (input.customer_warehouse, input.customer_district);
    // C_DATA is wanted of bad customers only, and who is bad is not known before.
    let (rid, c) = find_customer(tx, district, &input.customer, &READ[..16])?;
    let row = &tx.desk.row;
    shown.balance_cents = as_decimal(&row[0]) - input.amount_cents;
    let ytd = as_decimal(&row[1]) + input.amount_cents;
    let mut values =
        vec![Value::Decimal(shown.balance_cents), Value::Decimal(ytd), int(as_int(&row[2]) + 1)];
    let bad = as_text(&row[3]) == "BC";
    shown.rows[2] = std::mem::take(&mut tx.desk.row);
    let columns = [C_BALANCE, C_YTD_PAYMENT, C_PAYMENT_CNT, C_DATA];
    if bad {
        tx.read(TableName::Customer, rid, &READ[16..])?;
        values.push(Value::text(remember(input, c, as_text(&tx.desk.row[0]))));
    }
    tx.update(TableName::Customer, rid, &columns[..values.len()], &values)?;
    Ok(c)
}

/// A bad customer's data with this payment in front.
fn remember(input: &Payment, c: i32, before: &str) -> String {
    let mut data = String::with_capacity(before.len() + 48);
    let Payment { warehouse: w, district: d, .. } = input;
    let (cw, cd, cents) = (input.customer_warehouse, input.customer_district, input.amount_cents);
    let (whole, rest) = (cents / 100, cents % 100);
    write!(data, "{c} {cd} {cw} {d} {w} {whole}.{rest:02}|{before}")
        .expect("a String takes whatever is written");
    let end = data.floor_char_boundary(DATA_BYTES);
    data.truncate(end);
    data
}
