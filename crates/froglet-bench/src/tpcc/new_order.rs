//! The New-Order transaction (clause 2.4.2).

use froglet_engine::{Row, RowId, RowWrite, Value};

use super::db::{Stop, Tx, as_decimal, as_int, as_text, int};
use super::inputs::{Line, NewOrder};
use super::profile::Op;
use super::schema::{Index, TableName, customer, district, item, stock, warehouse};

/// What the terminal shows. Built because a real client would get it; read by nobody here.
#[derive(Debug, Default)]
#[expect(dead_code)]
pub struct Shown {
    /// The order's number.
    pub order: i32,
    /// The amount to pay in cents, after discount and taxes.
    pub total_cents: i128,
    /// The customer's name and credit.
    pub customer: (String, String),
    /// Of each line: item name, stock left, brand or generic, price, amount.
    pub lines: Vec<(String, i32, char, i128, i128)>,
}

const STOCK_WRITTEN: [usize; 4] =
    [stock::S_QUANTITY, stock::S_YTD, stock::S_ORDER_CNT, stock::S_REMOTE_CNT];

/// Rates have four digits after the point.
const ONE: i128 = 10_000;

/// Enters an order.
pub fn new_order(tx: &mut Tx<'_>, input: &NewOrder, now_us: i64) -> Result<Shown, Stop> {
    let NewOrder { warehouse: w, district: d, customer: c, ref lines } = *input;
    tx.get(Index::Warehouse, &[int(w)], &[warehouse::W_TAX])?;
    let w_tax = as_decimal(&tx.desk.row[0]);
    let columns = [district::D_TAX, district::D_NEXT_O_ID];
    let rid = tx.get(Index::District, &[int(w), int(d)], &columns)?;
    let (d_tax, order) = (as_decimal(&tx.desk.row[0]), as_int(&tx.desk.row[1]));
    tx.update(TableName::District, rid, &[district::D_NEXT_O_ID], &[int(order + 1)])?;
    let columns = [customer::C_DISCOUNT, customer::C_LAST, customer::C_CREDIT];
    tx.get(Index::Customer, &[int(w), int(d), int(c)], &columns)?;
    let discount = as_decimal(&tx.desk.row[0]);
    let shown_customer = (as_text(&tx.desk.row[1]).to_owned(), as_text(&tx.desk.row[2]).to_owned());

    let mut shown = Shown { order, customer: shown_customer, ..Shown::default() };
    shown.lines.reserve(lines.len());
    enter(tx, input, order, now_us)?;
    let mut stock_writes: Vec<(RowId, [Value; 4])> = Vec::with_capacity(lines.len());
    let mut line_rows: Vec<Row> = Vec::with_capacity(lines.len());
    for (number, line) in (1..).zip(lines) {
        let row = enter_line(tx, input, order, number, line, &mut stock_writes, &mut shown)?;
        line_rows.push(row);
    }
    let writes: Vec<RowWrite<'_>> = stock_writes
        .iter()
        .map(|(rid, values)| RowWrite::Update { rid: *rid, columns: &STOCK_WRITTEN, values })
        .collect();
    tx.write(TableName::Stock, Op::Update, &writes)?;
    tx.insert(TableName::OrderLine, &line_rows)?;
    let sum: i128 = shown.lines.iter().map(|line| line.4).sum();
    shown.total_cents = sum * (ONE - discount) * (ONE + w_tax + d_tax) / (ONE * ONE);
    Ok(shown)
}

/// Inserts the order and its note that it is undelivered.
fn enter(tx: &mut Tx<'_>, input: &NewOrder, order: i32, now_us: i64) -> Result<(), Stop> {
    let NewOrder { warehouse: w, district: d, customer: c, ref lines } = *input;
    let all_local = lines.iter().all(|line| line.supply_warehouse == w);
    let row = vec![
        int(order),
        int(d),
        int(w),
        int(c),
        Value::Timestamp(now_us),
        Value::Null,
        int(lines.len() as i32),
        int(i32::from(all_local)),
    ];
    tx.insert(TableName::Order, &[row])?;
    tx.insert(TableName::NewOrder, &[vec![int(order), int(d), int(w)]])
}

/// Takes one line's items from stock; returns its row.
fn enter_line(
    tx: &mut Tx<'_>,
    input: &NewOrder,
    order: i32,
    number: i32,
    line: &Line,
    stock_writes: &mut Vec<(RowId, [Value; 4])>,
    shown: &mut Shown,
) -> Result<Row, Stop> {
    let columns = [item::I_PRICE, item::I_NAME, item::I_DATA];
    if tx.find(Index::Item, &[int(line.item)], &columns).is_none() {
        return Err(Stop::Rollback);
    }
    let price = as_decimal(&tx.desk.row[0]);
    let name = as_text(&tx.desk.row[1]).to_owned();
    let original_item = as_text(&tx.desk.row[2]).contains("ORIGINAL");

    let district_text = stock::S_DIST_01 + input.district as usize - 1;
    let columns = [
        stock::S_QUANTITY,
        stock::S_YTD,
        stock::S_ORDER_CNT,
        stock::S_REMOTE_CNT,
        district_text,
        stock::S_DATA,
    ];
    let key = [int(line.supply_warehouse), int(line.item)];
    let rid = tx.get(Index::Stock, &key, &columns)?;
    let brand = original_item && as_text(&tx.desk.row[5]).contains("ORIGINAL");
    let dist_info = std::mem::replace(&mut tx.desk.row[4], Value::Null);

    // An order may name an item twice: the second line goes on from the first.
    let before = stock_writes.iter().position(|(r, _)| *r == rid);
    let known = before.map_or(&tx.desk.row[..4], |at| &stock_writes[at].1[..]);
    let [quantity, ytd, order_cnt, remote_cnt] = [0, 1, 2, 3].map(|i| as_int(&known[i]));
    let enough = quantity >= line.quantity + 10;
    let quantity = quantity - line.quantity + if enough { 0 } else { 91 };
    let remote = i32::from(line.supply_warehouse != input.warehouse);
    let values =
        [int(quantity), int(ytd + line.quantity), int(order_cnt + 1), int(remote_cnt + remote)];
    match before {
        Some(at) => stock_writes[at].1 = values,
        None => stock_writes.push((rid, values)),
    }

    let amount = price * i128::from(line.quantity);
    shown.lines.push((name, quantity, if brand { 'B' } else { 'G' }, price, amount));
    Ok(vec![
        int(order),
        int(input.district),
        int(input.warehouse),
        int(number),
        int(line.item),
        int(line.supply_warehouse),
        Value::Null,
        int(line.quantity),
        Value::Decimal(amount),
        dist_info,
    ])
}
