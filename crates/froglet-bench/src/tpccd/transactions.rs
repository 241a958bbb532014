//! TPC-C's five transactions (clause 2) as a client would write them: prepared statements, those
//! that do not wait for each other's answers sent together. They are the same on every schema that
//! `statements.rs` has statements for.
//!
//! Under READ COMMITTED. What is read to be changed is changed by one UPDATE … RETURNING, so no
//! update is lost; rows of one table are updated in one order, so no two transactions wait for each
//! other. What fails was refused by the server for another reason.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::SystemTime;

use futures::future::try_join_all;
use tokio::try_join;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Row, Statement};

use super::money::Cents;
use super::statements::{Statements, Version};
use crate::tpcc::db::DISTRICTS;
use crate::tpcc::inputs::{
    Delivery, Kind, Line, NewOrder, OrderStatus, Payment, StockLevel, Terminal, Who,
};

/// A terminal's connection.
pub struct Session {
    client: Client,
    statements: Statements,
    terminal: Terminal,
    mix: Mix,
    /// What has not come to its end.
    unfinished: Option<Input>,
}

/// What of TPC-C's mix is left out, and where the terminal stands.
#[derive(Clone, Debug, Default)]
pub struct Mix {
    /// Nothing but transactions of this type.
    pub only: Option<Kind>,
    /// Each transaction is entered at one of these warehouses, picked at random; without any, at the terminal's own.
    pub homes: Vec<i32>,
    /// Transactions that read or write no customer.
    pub only_customers: bool,
    /// Warehouse and item of stock that nobody orders.
    pub never_ordered: Arc<HashSet<(i32, i32)>>,
}

/// What a terminal has entered.
enum Input {
    NewOrder(NewOrder),
    Payment(Payment),
    OrderStatus(OrderStatus),
    Delivery(Delivery),
    StockLevel(StockLevel),
}

impl Input {
    fn kind(&self) -> Kind {
        match self {
            Input::NewOrder(_) => Kind::NewOrder,
            Input::Payment(_) => Kind::Payment,
            Input::OrderStatus(_) => Kind::OrderStatus,
            Input::Delivery(_) => Kind::Delivery,
            Input::StockLevel(_) => Kind::StockLevel,
        }
    }
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
    pub async fn open(client: Client, terminal: Terminal, mix: Mix) -> Result<Session, Error> {
        let statements = Statements::prepare(&client, Version::TPCC).await?;
        Ok(Session { client, statements, terminal, mix, unfinished: None })
    }

    /// Goes on with statements for another schema.
    pub async fn follow(&mut self, version: Version) -> Result<(), Error> {
        self.statements.follow(&self.client, version).await
    }

    /// Goes on with another mix.
    pub fn set_mix(&mut self, mix: Mix) {
        self.mix = mix;
    }

    /// One transaction of the mix; returns of which type. After an error it is rolled back.
    pub async fn transaction(&mut self) -> Result<Kind, Error> {
        let input = self.enter();
        self.attempt(input).await
    }

    /// Runs the transaction that failed once more; a new one if none has.
    pub async fn again(&mut self) -> Result<Kind, Error> {
        match self.unfinished.take() {
            Some(input) => self.attempt(input).await,
            None => self.transaction().await,
        }
    }

    async fn attempt(&mut self, input: Input) -> Result<Kind, Error> {
        let ended = self.run(&input).await;
        let kind = input.kind();
        if ended.is_err() {
            self.unfinished = Some(input);
        }
        ended.map(|()| kind)
    }

    /// What the terminal enters next.
    fn enter(&mut self) -> Input {
        let terminal = &mut self.terminal;
        if !self.mix.homes.is_empty() {
            terminal.move_to_one_of(&self.mix.homes);
        }
        let kind = loop {
            let kind = self.mix.only.unwrap_or_else(|| Kind::draw(&mut terminal.random));
            if !(self.mix.only_customers && kind == Kind::StockLevel) {
                break kind;
            }
        };
        match kind {
            Kind::NewOrder => {
                let mut input = terminal.new_order();
                let items = terminal.items();
                let never = &self.mix.never_ordered;
                for line in &mut input.lines {
                    while never.contains(&(line.supply_warehouse, line.item)) {
                        line.item = line.item % items + 1;
                    }
                }
                Input::NewOrder(input)
            }
            Kind::Payment => Input::Payment(terminal.payment()),
            Kind::OrderStatus => Input::OrderStatus(terminal.order_status()),
            Kind::Delivery => Input::Delivery(terminal.delivery()),
            Kind::StockLevel => Input::StockLevel(terminal.stock_level()),
        }
    }

    async fn run(&self, input: &Input) -> Result<(), Error> {
        let end = match input {
            Input::NewOrder(input) => self.new_order(input).await,
            Input::Payment(input) => self.payment(input).await.map(|()| End::Commit),
            Input::OrderStatus(input) => self.order_status(input).await.map(|()| End::Commit),
            Input::Delivery(input) => self.delivery(input).await.map(|()| End::Commit),
            Input::StockLevel(input) => self.stock_level(input).await.map(|_| End::Commit),
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
            async { client.query_one(&s.common.warehouse_tax, &[&w]).await },
            async { client.query_one(&s.common.next_order, &[&w, &d]).await },
            async { each(client, &s.customers.buyer, &[&w, &d, &c]).await },
        )?;
        let order: i32 = order.get(0);
        let now = SystemTime::now();
        let count = lines.len() as i32;
        let all_local = i32::from(lines.iter().all(|line| line.supply_warehouse == w));
        // In the order of stock's primary key, so that two orders never wait for each other.
        let mut lines = lines.clone();
        lines.sort_by_key(|line| (line.supply_warehouse, line.item));
        let items = lines
            .iter()
            .map(|line| async move { client.query_opt(&s.common.item, &[&line.item]).await });
        let stock = lines.iter().map(|line| self.take_stock(w, line));
        let (_, _, items, stock) = try_join!(
            async {
                client
                    .execute(
                        &s.common.insert_order,
                        &[&order, &d, &w, &c, &now, &count, &all_local],
                    )
                    .await
            },
            async { client.execute(&s.common.insert_new_order, &[&order, &d, &w]).await },
            try_join_all(items),
            try_join_all(stock),
        )?;
        let mut rows = Vec::with_capacity(lines.len());
        let mut left = HashMap::new();
        let mut total = 0;
        for ((number, line), found) in (1i32..).zip(&lines).zip(items.iter().zip(&stock)) {
            let (Some(item), Some(stock)) = found else { return Ok(End::Rollback) };
            let Cents(price) = item.get(0);
            let cents = price * i64::from(line.quantity);
            total += cents;
            rows.push((number, line, Cents(cents)));
            // Of two lines of one item the last leaves what is left.
            left.insert((line.supply_warehouse, line.item), stock);
        }
        self.follow_stock(&left).await?;
        let left = &left;
        let inserts = rows.iter().map(|(number, line, amount)| async move {
            let (supply, item) = (&line.supply_warehouse, &line.item);
            let stock = left[&(*supply, *item)];
            let dist_info: &str = stock.get(d as usize - 1);
            let quantity = &line.quantity;
            let values: [&(dyn ToSql + Sync); 9] =
                [&order, &d, &w, number, item, supply, quantity, amount, &dist_info];
            if let Some(insert) = &s.lines.insert {
                client.execute(insert, &values).await?;
            }
            if let Some(insert) = &s.lines.insert_joined {
                let stock = joined(stock);
                let mut all = values.to_vec();
                all.extend(stock.0.iter().map(|text| text as &(dyn ToSql + Sync)));
                all.extend(stock.1.iter().map(|number| number as &(dyn ToSql + Sync)));
                client.execute(insert, &all).await?;
            }
            Ok::<_, Error>(())
        });
        let totals = async {
            if let Some(insert) = &s.totals.insert {
                client.execute(insert, &[&w, &d, &order, &Cents(total)]).await?;
            }
            Ok(())
        };
        try_join!(try_join_all(inserts), totals)?;
        Ok(End::Commit)
    }

    /// Takes a line's quantity from the stock; `None` if there is no such item.
    async fn take_stock(&self, w: i32, line: &Line) -> Result<Option<Row>, Error> {
        let (client, s) = (&self.client, &self.statements);
        let remote = i32::from(line.supply_warehouse != w);
        let key = (&line.supply_warehouse, &line.item);
        let lock = async {
            match &s.lines.lock {
                Some(lock) => client.query(lock, &[key.0, key.1]).await.map(|_| ()),
                None => Ok(()),
            }
        };
        let take =
            async { client.query(&s.lines.take, &[&line.quantity, &remote, key.0, key.1]).await };
        let read = async {
            match &s.lines.taken {
                Some(taken) => client.query(taken, &[key.0, key.1]).await,
                None => Ok(Vec::new()),
            }
        };
        let (_, taken, read) = try_join!(lock, take, read)?;
        Ok(taken.into_iter().chain(read).next())
    }

    /// Writes what is left of the stock into rows that are joined with it already.
    async fn follow_stock(&self, left: &HashMap<(i32, i32), &Row>) -> Result<(), Error> {
        let Some(follow) = &self.statements.lines.follow else { return Ok(()) };
        let mut left: Vec<_> = left.iter().collect();
        left.sort_by_key(|(key, _)| **key);
        let updates = left.into_iter().map(|((w, item), row)| async move {
            let (_, [quantity, ytd, orders, remote]) = joined(row);
            let values: [&(dyn ToSql + Sync); 6] = [&quantity, &ytd, &orders, &remote, w, item];
            self.client.execute(follow, &values).await
        });
        try_join_all(updates).await.map(|_| ())
    }

    /// The number of the customer that a terminal names; of several with one last name the one in
    /// the middle.
    async fn find(&self, w: i32, d: i32, who: &Who) -> Result<i32, Error> {
        match who {
            Who::Number(c) => Ok(*c),
            Who::LastName(name) => {
                let by_name = &self.statements.customers.by_last_name;
                let found = self.client.query(by_name, &[&w, &d, name]).await?;
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
            async { client.query_one(&s.common.pay_warehouse, &[&amount, &w]).await },
            async { client.query_one(&s.common.pay_district, &[&amount, &w, &d]).await },
            self.find(cw, cd, &input.customer),
        )?;
        let data = format!("{}    {}", warehouse.get::<_, &str>(0), district.get::<_, &str>(0));
        let now = SystemTime::now();
        let (charged, _, _) = try_join!(
            async { each(client, &s.customers.charge, &[&amount, &cw, &cd, &c]).await },
            async { each(client, &s.customers.names, &[&cw, &cd, &c]).await },
            async {
                client
                    .execute(
                        &s.common.insert_history,
                        &[&c, &cd, &cw, &d, &w, &now, &amount, &data],
                    )
                    .await
            },
        )?;
        if charged.is_some_and(|row| row.get::<_, &str>(0) == "BC") {
            let (whole, rest) = (cents / 100, cents % 100);
            let note = format!("{c} {cd} {cw} {d} {w} {whole}.{rest:02}|");
            each(client, &s.customers.remember, &[&note, &cw, &cd, &c]).await?;
        }
        Ok(())
    }

    async fn order_status(&self, input: &OrderStatus) -> Result<(), Error> {
        let (client, s) = (&self.client, &self.statements);
        let (w, d) = (input.warehouse, input.district);
        let (_, c) = try_join!(self.begin(), self.find(w, d, &input.customer))?;
        let (_, order) =
            try_join!(async { each(client, &s.customers.status, &[&w, &d, &c]).await }, async {
                client.query_one(&s.common.last_order, &[&w, &d, &c]).await
            })?;
        let order: i32 = order.get(0);
        client.query(&s.lines.of_order, &[&w, &d, &order]).await?;
        Ok(())
    }

    async fn delivery(&self, input: &Delivery) -> Result<(), Error> {
        let (client, s) = (&self.client, &self.statements);
        let w = input.warehouse;
        let oldest = (1..=DISTRICTS).map(|d| async move {
            let oldest = client.query_opt(&s.common.oldest_new_order, &[&w, &d]).await?;
            Ok::<_, Error>(oldest.map(|row| (d, row.get::<_, i32>(0))))
        });
        let (_, oldest) = try_join!(self.begin(), try_join_all(oldest))?;
        // Another delivery of this warehouse may have been first: then it is not ours.
        let taken = oldest.into_iter().flatten().map(|(d, order)| async move {
            let deleted = client.execute(&s.common.delete_new_order, &[&w, &d, &order]).await?;
            Ok::<_, Error>((deleted == 1).then_some((d, order)))
        });
        let taken = try_join_all(taken).await?;
        let now = SystemTime::now();
        let delivered = taken.into_iter().flatten().map(|(d, order)| async move {
            let key: [&(dyn ToSql + Sync); 4] = [&now, &w, &d, &order];
            let lines = async {
                let lines = client.query(&s.lines.deliver, &key).await?;
                if let Some(follow) = &s.lines.deliver_joined {
                    client.execute(follow, &key).await?;
                }
                Ok(lines)
            };
            let (carried, lines, total) = try_join!(
                async {
                    client.query_one(&s.common.carry, &[&input.carrier, &w, &d, &order]).await
                },
                lines,
                async { each(client, &s.totals.read, &[&w, &d, &order]).await },
            )?;
            let amount = total.map_or_else(|| sum(&lines), |row| row.get(0));
            Ok::<_, Error>((d, carried.get::<_, i32>(0), amount))
        });
        let delivered = try_join_all(delivered).await?;
        let credited = delivered.into_iter().map(|(d, c, amount)| async move {
            each(client, &s.customers.credit, &[&amount, &w, &d, &c]).await
        });
        try_join_all(credited).await?;
        Ok(())
    }

    /// How many items of a district's last 20 orders have less stock than the threshold.
    async fn stock_level(&self, input: &StockLevel) -> Result<usize, Error> {
        let (client, s) = (&self.client, &self.statements);
        let (w, d) = (input.warehouse, input.district);
        let (_, next) = try_join!(self.begin(), async {
            client.query_one(&s.common.district_next, &[&w, &d]).await
        })?;
        let next: i32 = next.get(0);
        let lines = client.query(&s.lines.recent, &[&w, &d, &(next - 20), &next]).await?;
        let Some(stock_of) = &s.lines.stock_of else {
            // Lines that are joined with their stock say it themselves.
            let low = lines.iter().filter(|row| row.get::<_, i32>(1) < input.threshold);
            return Ok(low.map(|row| row.get::<_, i32>(0)).collect::<HashSet<_>>().len());
        };
        let mut items: Vec<i32> = lines.iter().map(|row| row.get(0)).collect();
        items.sort_unstable();
        items.dedup();
        let stock = items.iter().map(|item| async move {
            let row = client.query_one(stock_of, &[&w, item]).await?;
            Ok::<_, Error>(row.get::<_, i32>(0))
        });
        let stock = try_join_all(stock).await?;
        Ok(stock.into_iter().filter(|quantity| *quantity < input.threshold).count())
    }
}

/// Runs statements with the same values, one after the other; returns the first's row, if any.
pub(crate) async fn each(
    client: &Client,
    statements: &[Statement],
    values: &[&(dyn ToSql + Sync)],
) -> Result<Option<Row>, Error> {
    let all = statements.iter().map(|statement| client.query(statement, values));
    let mut answers = try_join_all(all).await?.into_iter();
    Ok(answers.next().and_then(|rows| rows.into_iter().next()))
}

/// What a row of stock leaves in the rows that are joined with it: texts, and then quantity,
/// ordered, orders, and orders from elsewhere.
fn joined(stock: &Row) -> ([&str; 11], [i32; 4]) {
    const TEXTS: usize = 11;
    (std::array::from_fn(|at| stock.get(at)), std::array::from_fn(|at| stock.get(TEXTS + at)))
}

fn sum(lines: &[Row]) -> Cents {
    Cents(lines.iter().map(|row| row.get::<_, Cents>(0).0).sum())
}
