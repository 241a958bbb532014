//! TPC-C's five transactions (clause 2) as a client would write them: prepared statements, those
//! that do not wait for each other's answers sent together.
//!
//! Under READ COMMITTED. What is read to be changed is changed by one UPDATE … RETURNING, so no
//! update is lost; rows of one table are updated in one order, so no two transactions wait for each
//! other. What fails was refused by the server for another reason.

use std::time::SystemTime;

use futures::future::try_join_all;
use tokio::try_join;
use tokio_postgres::{Client, Error, Row, Statement};

use super::money::Cents;
use crate::tpcc::db::DISTRICTS;
use crate::tpcc::inputs::{
    Delivery, Kind, NewOrder, OrderStatus, Payment, StockLevel, Terminal, Who,
};

macro_rules! statements {
    ($($name:ident: $sql:expr,)*) => {
        struct Statements { $($name: Statement,)* }

        impl Statements {
            async fn prepare(client: &Client) -> Result<Statements, Error> {
                Ok(Statements { $($name: client.prepare($sql).await?,)* })
            }
        }
    };
}

statements! {
    warehouse_tax: "SELECT w_tax FROM warehouse WHERE w_id = $1",
    next_order: "UPDATE district SET d_next_o_id = d_next_o_id + 1 \
        WHERE d_w_id = $1 AND d_id = $2 RETURNING d_next_o_id - 1, d_tax",
    buyer: "SELECT c_discount, c_last, c_credit FROM customer \
        WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
    insert_order: "INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, \
        o_all_local) VALUES ($1, $2, $3, $4, $5, $6, $7)",
    insert_new_order: "INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES ($1, $2, $3)",
    item: "SELECT i_price, i_name, i_data FROM item WHERE i_id = $1",
    take_stock: "UPDATE stock SET s_quantity = CASE WHEN s_quantity >= $1 + 10 \
        THEN s_quantity - $1 ELSE s_quantity - $1 + 91 END, s_ytd = s_ytd + $1, \
        s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + $2 \
        WHERE s_w_id = $3 AND s_i_id = $4 RETURNING s_dist_01, s_dist_02, s_dist_03, s_dist_04, \
        s_dist_05, s_dist_06, s_dist_07, s_dist_08, s_dist_09, s_dist_10, s_quantity, s_data",
    insert_line: "INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, \
        ol_supply_w_id, ol_quantity, ol_amount, ol_dist_info) \
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
    pay_warehouse: "UPDATE warehouse SET w_ytd = w_ytd + $1 WHERE w_id = $2 \
        RETURNING w_name, w_street_1, w_street_2, w_city, w_state, w_zip",
    pay_district: "UPDATE district SET d_ytd = d_ytd + $1 WHERE d_w_id = $2 AND d_id = $3 \
        RETURNING d_name, d_street_1, d_street_2, d_city, d_state, d_zip",
    by_last_name: "SELECT c_id FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3 \
        ORDER BY c_first",
    charge: "UPDATE customer SET c_balance = c_balance - $1, c_ytd_payment = c_ytd_payment + $1, \
        c_payment_cnt = c_payment_cnt + 1 WHERE c_w_id = $2 AND c_d_id = $3 AND c_id = $4 \
        RETURNING c_credit, c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, \
        c_zip, c_phone, c_since, c_credit_lim, c_discount, c_balance",
    remember: "UPDATE customer SET c_data = substr($1 || c_data, 1, 500) \
        WHERE c_w_id = $2 AND c_d_id = $3 AND c_id = $4 RETURNING substr(c_data, 1, 200)",
    insert_history: "INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, \
        h_amount, h_data) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
    customer: "SELECT c_balance, c_first, c_middle, c_last FROM customer \
        WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
    last_order: "SELECT o_id, o_entry_d, o_carrier_id FROM orders \
        WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = $3 ORDER BY o_id DESC LIMIT 1",
    order_lines: "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d \
        FROM order_line WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3",
    oldest_new_order: "SELECT no_o_id FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 \
        ORDER BY no_o_id LIMIT 1",
    delete_new_order: "DELETE FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 AND no_o_id = $3",
    carry: "UPDATE orders SET o_carrier_id = $1 WHERE o_w_id = $2 AND o_d_id = $3 AND o_id = $4 \
        RETURNING o_c_id",
    deliver_lines: "UPDATE order_line SET ol_delivery_d = $1 \
        WHERE ol_w_id = $2 AND ol_d_id = $3 AND ol_o_id = $4 RETURNING ol_amount",
    credit: "UPDATE customer SET c_balance = c_balance + $1, c_delivery_cnt = c_delivery_cnt + 1 \
        WHERE c_w_id = $2 AND c_d_id = $3 AND c_id = $4",
    district_next: "SELECT d_next_o_id FROM district WHERE d_w_id = $1 AND d_id = $2",
    recent_items: "SELECT ol_i_id FROM order_line WHERE ol_w_id = $1 AND ol_d_id = $2 \
        AND ol_o_id >= $3 AND ol_o_id < $4",
    stock_of: "SELECT s_quantity FROM stock WHERE s_w_id = $1 AND s_i_id = $2",
}

/// A terminal's connection.
pub struct Session {
    client: Client,
    statements: Statements,
    terminal: Terminal,
}

/// How a transaction that did not fail ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Commit,
    /// An unused item number (clause 2.4.1.4).
    Rollback,
}

impl Session {
    /// Prepares every statement.
    pub async fn open(client: Client, terminal: Terminal) -> Result<Session, Error> {
        let statements = Statements::prepare(&client).await?;
        Ok(Session { client, statements, terminal })
    }

    /// One transaction of the mix. After an error it is rolled back.
    pub async fn transaction(&mut self) -> Result<(), Error> {
        let kind = Kind::draw(&mut self.terminal.random);
        let end = match kind {
            Kind::NewOrder => {
                let input = self.terminal.new_order();
                self.new_order(&input).await
            }
            Kind::Payment => {
                let input = self.terminal.payment();
                self.payment(&input).await.map(|()| End::Commit)
            }
            Kind::OrderStatus => {
                let input = self.terminal.order_status();
                self.order_status(&input).await.map(|()| End::Commit)
            }
            Kind::Delivery => {
                let input = self.terminal.delivery();
                self.delivery(&input).await.map(|()| End::Commit)
            }
            Kind::StockLevel => {
                let input = self.terminal.stock_level();
                self.stock_level(&input).await.map(|_| End::Commit)
            }
        };
        let ended = match end {
            Ok(End::Commit) => self.client.batch_execute("COMMIT").await,
            Ok(End::Rollback) => return self.client.batch_execute("ROLLBACK").await,
            Err(e) => Err(e),
        };
        if ended.is_err() {
            self.client.batch_execute("ROLLBACK").await?;
        }
        ended
    }

    async fn begin(&self) -> Result<(), Error> {
        self.client.batch_execute("BEGIN").await
    }

    async fn new_order(&self, input: &NewOrder) -> Result<End, Error> {
        let (client, s) = (&self.client, &self.statements);
        let NewOrder { warehouse: w, district: d, customer: c, ref lines } = *input;
        let (_, _, order, _) = try_join!(
            self.begin(),
            async { client.query_one(&s.warehouse_tax, &[&w]).await },
            async { client.query_one(&s.next_order, &[&w, &d]).await },
            async { client.query_one(&s.buyer, &[&w, &d, &c]).await },
        )?;
        let order: i32 = order.get(0);
        let now = SystemTime::now();
        let count = lines.len() as i32;
        let all_local = i32::from(lines.iter().all(|line| line.supply_warehouse == w));
        // In the order of stock's primary key, so that two orders never wait for each other.
        let mut lines = lines.clone();
        lines.sort_by_key(|line| (line.supply_warehouse, line.item));
        let items =
            lines.iter().map(|line| async move { client.query_opt(&s.item, &[&line.item]).await });
        let stock = lines.iter().map(|line| async move {
            let remote = i32::from(line.supply_warehouse != w);
            let key = (&line.supply_warehouse, &line.item);
            client.query_opt(&s.take_stock, &[&line.quantity, &remote, key.0, key.1]).await
        });
        let (_, _, items, stock) = try_join!(
            async {
                client
                    .execute(&s.insert_order, &[&order, &d, &w, &c, &now, &count, &all_local])
                    .await
            },
            async { client.execute(&s.insert_new_order, &[&order, &d, &w]).await },
            try_join_all(items),
            try_join_all(stock),
        )?;
        let mut rows = Vec::with_capacity(lines.len());
        for ((number, line), found) in (1i32..).zip(&lines).zip(items.iter().zip(&stock)) {
            let (Some(item), Some(stock)) = found else { return Ok(End::Rollback) };
            let Cents(price) = item.get(0);
            let dist_info: &str = stock.get(d as usize - 1);
            rows.push((number, line, Cents(price * i64::from(line.quantity)), dist_info));
        }
        let inserts = rows.iter().map(|(number, line, amount, dist_info)| async move {
            let supply = &line.supply_warehouse;
            let (item, quantity) = (&line.item, &line.quantity);
            client
                .execute(
                    &s.insert_line,
                    &[&order, &d, &w, number, item, supply, quantity, amount, dist_info],
                )
                .await
        });
        try_join_all(inserts).await?;
        Ok(End::Commit)
    }

    /// The number of the customer that a terminal names; of several with one last name the one in
    /// the middle.
    async fn find(&self, w: i32, d: i32, who: &Who) -> Result<i32, Error> {
        match who {
            Who::Number(c) => Ok(*c),
            Who::LastName(name) => {
                let found =
                    self.client.query(&self.statements.by_last_name, &[&w, &d, name]).await?;
                let middle = found.len().saturating_sub(1) / 2;
                // Every name is some customer's; number 0, if not, is nobody's.
                Ok(found.get(middle).map_or(0, |row| row.get(0)))
            }
        }
    }

    async fn payment(&self, input: &Payment) -> Result<(), Error> {
        let (client, s) = (&self.client, &self.statements);
        let (w, d) = (input.warehouse, input.district);
        let (cw, cd) = (input.customer_warehouse, input.customer_district);
        let cents = input.amount_cents as i64;
        let amount = Cents(cents);
        let (_, warehouse, district, c) = try_join!(
            self.begin(),
            async { client.query_one(&s.pay_warehouse, &[&amount, &w]).await },
            async { client.query_one(&s.pay_district, &[&amount, &w, &d]).await },
            self.find(cw, cd, &input.customer),
        )?;
        let data = format!("{}    {}", warehouse.get::<_, &str>(0), district.get::<_, &str>(0));
        let now = SystemTime::now();
        let (charged, _) = try_join!(
            async { client.query_one(&s.charge, &[&amount, &cw, &cd, &c]).await },
            async {
                client
                    .execute(&s.insert_history, &[&c, &cd, &cw, &d, &w, &now, &amount, &data])
                    .await
            },
        )?;
        if charged.get::<_, &str>(0) == "BC" {
            let (whole, rest) = (cents / 100, cents % 100);
            let note = format!("{c} {cd} {cw} {d} {w} {whole}.{rest:02}|");
            client.query_one(&s.remember, &[&note, &cw, &cd, &c]).await?;
        }
        Ok(())
    }

    async fn order_status(&self, input: &OrderStatus) -> Result<(), Error> {
        let (client, s) = (&self.client, &self.statements);
        let (w, d) = (input.warehouse, input.district);
        let (_, c) = try_join!(self.begin(), self.find(w, d, &input.customer))?;
        let (_, order) =
            try_join!(async { client.query_one(&s.customer, &[&w, &d, &c]).await }, async {
                client.query_one(&s.last_order, &[&w, &d, &c]).await
            },)?;
        let order: i32 = order.get(0);
        client.query(&s.order_lines, &[&w, &d, &order]).await?;
        Ok(())
    }

    async fn delivery(&self, input: &Delivery) -> Result<(), Error> {
        let (client, s) = (&self.client, &self.statements);
        let w = input.warehouse;
        let oldest = (1..=DISTRICTS).map(|d| async move {
            let oldest = client.query_opt(&s.oldest_new_order, &[&w, &d]).await?;
            Ok::<_, Error>(oldest.map(|row| (d, row.get::<_, i32>(0))))
        });
        let (_, oldest) = try_join!(self.begin(), try_join_all(oldest))?;
        // Another delivery of this warehouse may have been first: then it is not ours.
        let taken = oldest.into_iter().flatten().map(|(d, order)| async move {
            let deleted = client.execute(&s.delete_new_order, &[&w, &d, &order]).await?;
            Ok::<_, Error>((deleted == 1).then_some((d, order)))
        });
        let taken = try_join_all(taken).await?;
        let now = SystemTime::now();
        let delivered = taken.into_iter().flatten().map(|(d, order)| async move {
            let (carried, lines) = try_join!(
                async { client.query_one(&s.carry, &[&input.carrier, &w, &d, &order]).await },
                async { client.query(&s.deliver_lines, &[&now, &w, &d, &order]).await },
            )?;
            Ok::<_, Error>((d, carried.get::<_, i32>(0), sum(&lines)))
        });
        let delivered = try_join_all(delivered).await?;
        let credited = delivered.into_iter().map(|(d, c, amount)| async move {
            client.execute(&s.credit, &[&amount, &w, &d, &c]).await
        });
        try_join_all(credited).await?;
        Ok(())
    }

    /// How many items of a district's last 20 orders have less stock than the threshold.
    async fn stock_level(&self, input: &StockLevel) -> Result<usize, Error> {
        let (client, s) = (&self.client, &self.statements);
        let (w, d) = (input.warehouse, input.district);
        let (_, next) =
            try_join!(self.begin(), async { client.query_one(&s.district_next, &[&w, &d]).await })?;
        let next: i32 = next.get(0);
        let lines = client.query(&s.recent_items, &[&w, &d, &(next - 20), &next]).await?;
        let mut items: Vec<i32> = lines.iter().map(|row| row.get(0)).collect();
        items.sort_unstable();
        items.dedup();
        let stock = items.iter().map(|item| async move {
            let row = client.query_one(&s.stock_of, &[&w, item]).await?;
            Ok::<_, Error>(row.get::<_, i32>(0))
        });
        let stock = try_join_all(stock).await?;
        Ok(stock.into_iter().filter(|quantity| *quantity < input.threshold).count())
    }
}

fn sum(lines: &[Row]) -> Cents {
    Cents(lines.iter().map(|row| row.get::<_, Cents>(0).0).sum())
}
