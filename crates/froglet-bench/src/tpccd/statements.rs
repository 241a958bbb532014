//! The statements of TPC-C's transactions, for the schema of the specification and for those that
//! TPC-CD's changes make of it (BullFrog, sections 4.4.1 to 4.4.3).
//!
//! ```text
//!                 Old                   Both (double writing)            New
//!   customers     customer              + customer_private, _public      customer_private, _public
//!   totals        sums of order_line    + order_total                    order_total
//!   lines         order_line, stock     + orderline_stock                orderline_stock
//! ```
//!
//! What is read stands in the old tables until [`Place::New`]. Where both are written, the old rows
//! are first, so whoever has locked them writes alone; rows that are not in the new tables yet are
//! not updated there.

use futures::future::try_join_all;
use tokio_postgres::{Client, Error, Statement};

/// Where something stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the specification's tables.
    Old,
    /// Read there, written there and in the new tables.
    Both,
    /// In the new tables.
    New,
}

/// A schema, as clients use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// What is known of customers.
    pub customers: Place,
    /// What orders amount to.
    pub totals: Place,
    /// Order lines and stock.
    pub lines: Place,
}

impl Version {
    /// The specification's.
    pub const TPCC: Version =
        Version { customers: Place::Old, totals: Place::Old, lines: Place::Old };
}

macro_rules! statements {
    ($($name:ident: $sql:expr,)*) => {
        /// What is the same on every schema.
        #[allow(missing_docs)]
        pub struct Common { $(pub $name: Statement,)* }

        impl Common {
            async fn prepare(client: &Client) -> Result<Common, Error> {
                let mut made = Prepared::of(client, vec![$($sql.to_owned()),*]).await?;
                Ok(Common { $($name: made.one(),)* })
            }
        }
    };
}

statements! {
    warehouse_tax: "SELECT w_tax FROM warehouse WHERE w_id = $1",
    next_order: "UPDATE district SET d_next_o_id = d_next_o_id + 1 \
        WHERE d_w_id = $1 AND d_id = $2 RETURNING d_next_o_id - 1, d_tax",
    insert_order: "INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, \
        o_all_local) VALUES ($1, $2, $3, $4, $5, $6, $7)",
    insert_new_order: "INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES ($1, $2, $3)",
    item: "SELECT i_price, i_name, i_data FROM item WHERE i_id = $1",
    pay_warehouse: "UPDATE warehouse SET w_ytd = w_ytd + $1 WHERE w_id = $2 \
        RETURNING w_name, w_street_1, w_street_2, w_city, w_state, w_zip",
    pay_district: "UPDATE district SET d_ytd = d_ytd + $1 WHERE d_w_id = $2 AND d_id = $3 \
        RETURNING d_name, d_street_1, d_street_2, d_city, d_state, d_zip",
    insert_history: "INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, \
        h_amount, h_data) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
    last_order: "SELECT o_id, o_entry_d, o_carrier_id FROM orders \
        WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = $3 ORDER BY o_id DESC LIMIT 1",
    oldest_new_order: "SELECT no_o_id FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 \
        ORDER BY no_o_id LIMIT 1",
    delete_new_order: "DELETE FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 AND no_o_id = $3",
    carry: "UPDATE orders SET o_carrier_id = $1 WHERE o_w_id = $2 AND o_d_id = $3 AND o_id = $4 \
        RETURNING o_c_id",
    district_next: "SELECT d_next_o_id FROM district WHERE d_w_id = $1 AND d_id = $2",
}

/// On customers. Of several statements the first answers.
#[allow(missing_docs)]
pub struct Customers {
    pub buyer: Vec<Statement>,
    pub by_last_name: Statement,
    pub charge: Vec<Statement>,
    pub names: Vec<Statement>,
    pub remember: Vec<Statement>,
    pub status: Vec<Statement>,
    pub credit: Vec<Statement>,
}

const NAMES: &str = "c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, \
    c_phone, c_since";

impl Customers {
    pub(crate) async fn prepare(client: &Client, place: Place) -> Result<Customers, Error> {
        let key = "WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3";
        let key_2 = "WHERE c_w_id = $2 AND c_d_id = $3 AND c_id = $4";
        let select = |columns: &str, table: &str| format!("SELECT {columns} FROM {table} {key}");
        let (written, named): (&[&str], _) = match place {
            Place::Old => (&["customer"], "customer"),
            Place::Both => (&["customer", "customer_private"], "customer"),
            Place::New => (&["customer_private"], "customer_public"),
        };
        let is_split = place == Place::New;
        let reads = |private: &str, public: &str| match is_split {
            true => vec![select(private, "customer_private"), select(public, "customer_public")],
            false => vec![select(&format!("{private}, {public}"), "customer")],
        };
        let writes = |set: &str, then: &str| -> Vec<String> {
            written.iter().map(|t| format!("UPDATE {t} SET {set} {key_2} {then}")).collect()
        };
        let by_last_name = format!(
            "SELECT c_id FROM {named} WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3 \
             ORDER BY c_first"
        );
        let mut charge = writes(
            "c_balance = c_balance - $1, c_ytd_payment = c_ytd_payment + $1, \
             c_payment_cnt = c_payment_cnt + 1",
            "RETURNING c_credit, c_credit_lim, c_discount, c_balance",
        );
        if !is_split {
            charge[0] += &format!(", {NAMES}");
        }
        let remember =
            writes("c_data = substr($1 || c_data, 1, 500)", "RETURNING substr(c_data, 1, 200)");
        let credit = writes("c_balance = c_balance + $1, c_delivery_cnt = c_delivery_cnt + 1", "");
        let names = if is_split { vec![select(NAMES, named)] } else { vec![] };
        let groups = [
            reads("c_discount, c_credit", "c_last"),
            vec![by_last_name],
            charge,
            names,
            remember,
            reads("c_balance", "c_first, c_middle, c_last"),
            credit,
        ];
        let counts: Vec<usize> = groups.iter().map(Vec::len).collect();
        let mut made = Prepared::of(client, groups.concat()).await?;
        let mut groups = counts.into_iter().map(|count| made.some(count));
        let mut next = || groups.next().unwrap_or_default();
        Ok(Customers {
            buyer: next(),
            by_last_name: next().remove(0),
            charge: next(),
            names: next(),
            remember: next(),
            status: next(),
            credit: next(),
        })
    }
}

/// On what orders amount to.
#[allow(missing_docs)]
pub struct Totals {
    pub insert: Option<Statement>,
    pub read: Vec<Statement>,
}

impl Totals {
    async fn prepare(client: &Client, place: Place) -> Result<Totals, Error> {
        let insert = "INSERT INTO order_total (ol_w_id, ol_d_id, ol_o_id, ol_total) \
            VALUES ($1, $2, $3, $4)";
        let read = "SELECT ol_total FROM order_total \
            WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3";
        let sql: &[&str] = match place {
            Place::Old => &[],
            Place::Both => &[insert],
            Place::New => &[insert, read],
        };
        let sql: Vec<String> = sql.iter().map(|&text| text.to_owned()).collect();
        let mut made = Prepared::of(client, sql).await?.0;
        Ok(Totals { insert: made.next(), read: made.collect() })
    }
}

/// On order lines and stock.
#[allow(missing_docs)]
pub struct Lines {
    /// Keeps others from a stock's rows, of which they may add some meanwhile.
    pub lock: Option<Statement>,
    /// Answers the stock's values, if `taken` does not.
    pub take: Statement,
    /// Of rows joined with a stock each has its values: one is enough.
    pub taken: Option<Statement>,
    /// Writes the stock's numbers into rows joined with it.
    pub follow: Option<Statement>,
    pub insert: Option<Statement>,
    pub insert_joined: Option<Statement>,
    pub deliver: Statement,
    pub deliver_joined: Option<Statement>,
    pub of_order: Statement,
    /// Items; on joined rows with their quantities.
    pub recent: Statement,
    pub stock_of: Option<Statement>,
}

const TAKEN: &str = "s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07, \
    s_dist_08, s_dist_09, s_dist_10, s_data, s_quantity, s_ytd, s_order_cnt, s_remote_cnt";

impl Lines {
    async fn prepare(client: &Client, place: Place) -> Result<Lines, Error> {
        let is_joined = place == Place::New;
        let both = place == Place::Both;
        let (lines, stock) = if is_joined {
            ("orderline_stock", "orderline_stock")
        } else {
            ("order_line", "stock")
        };
        let order = "ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3";
        let take = format!(
            "UPDATE {stock} SET s_quantity = CASE WHEN s_quantity >= $1 + 10 \
             THEN s_quantity - $1 ELSE s_quantity - $1 + 91 END, s_ytd = s_ytd + $1, \
             s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + $2 \
             WHERE s_w_id = $3 AND s_i_id = $4{}",
            if is_joined { String::new() } else { format!(" RETURNING {TAKEN}") }
        );
        let deliver = |table: &str| {
            format!(
                "UPDATE {table} SET ol_delivery_d = $1 \
                 WHERE ol_w_id = $2 AND ol_d_id = $3 AND ol_o_id = $4 RETURNING ol_amount"
            )
        };
        let columns = "ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, \
            ol_quantity, ol_amount, ol_dist_info";
        let values =
            |count: usize| (1..=count).map(|n| format!("${n}")).collect::<Vec<_>>().join(", ");
        let (own, key) = match is_joined {
            true => ("s_i_id, s_quantity", "ol_w_id = $1 AND s_w_id = $1"),
            false => ("ol_i_id", "ol_w_id = $1"),
        };
        let one = |wanted: bool, sql: String| if wanted { vec![sql] } else { vec![] };
        let groups = [
            vec![take],
            vec![deliver(lines)],
            vec![format!(
                "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d \
                 FROM {lines} WHERE {order}"
            )],
            vec![format!(
                "SELECT {own} FROM {lines} \
                 WHERE {key} AND ol_d_id = $2 AND ol_o_id >= $3 AND ol_o_id < $4"
            )],
            one(
                is_joined,
                "SELECT s_quantity FROM orderline_stock WHERE s_w_id = $1 AND s_i_id = $2 \
                 FOR UPDATE"
                    .to_owned(),
            ),
            one(
                is_joined,
                format!(
                    "SELECT {TAKEN} FROM orderline_stock WHERE s_w_id = $1 AND s_i_id = $2 LIMIT 1"
                ),
            ),
            one(
                both,
                "UPDATE orderline_stock SET s_quantity = $1, s_ytd = $2, s_order_cnt = $3, \
                 s_remote_cnt = $4 WHERE s_w_id = $5 AND s_i_id = $6"
                    .to_owned(),
            ),
            one(!is_joined, format!("INSERT INTO order_line ({columns}) VALUES ({})", values(9))),
            one(
                is_joined || both,
                format!(
                    "INSERT INTO orderline_stock ({columns}, {TAKEN}, s_w_id, s_i_id) \
                     VALUES ({}, $6, $5)",
                    values(24)
                ),
            ),
            one(both, deliver("orderline_stock")),
            one(
                !is_joined,
                "SELECT s_quantity FROM stock WHERE s_w_id = $1 AND s_i_id = $2".to_owned(),
            ),
        ];
        let counts: Vec<usize> = groups.iter().map(Vec::len).collect();
        let mut made = Prepared::of(client, groups.concat()).await?;
        let mut always = || made.one();
        let (take, deliver, of_order, recent) = (always(), always(), always(), always());
        let mut wanted = counts[4..].iter().map(|count| made.some(*count).pop());
        let mut next = || wanted.next().flatten();
        Ok(Lines {
            lock: next(),
            take,
            taken: next(),
            follow: next(),
            insert: next(),
            insert_joined: next(),
            deliver,
            deliver_joined: next(),
            of_order,
            recent,
            stock_of: next(),
        })
    }
}

/// All statements of a session.
pub struct Statements {
    version: Version,
    /// On tables that no change makes of others.
    pub common: Common,
    /// See [`Version::customers`].
    pub customers: Customers,
    /// See [`Version::totals`].
    pub totals: Totals,
    /// See [`Version::lines`].
    pub lines: Lines,
}

impl Statements {
    /// Prepares them all.
    pub async fn prepare(client: &Client, version: Version) -> Result<Statements, Error> {
        Ok(Statements {
            version,
            common: Common::prepare(client).await?,
            customers: Customers::prepare(client, version.customers).await?,
            totals: Totals::prepare(client, version.totals).await?,
            lines: Lines::prepare(client, version.lines).await?,
        })
    }

    /// Prepares those that differ on another schema.
    pub async fn follow(&mut self, client: &Client, version: Version) -> Result<(), Error> {
        if self.version.customers != version.customers {
            self.customers = Customers::prepare(client, version.customers).await?;
            self.version.customers = version.customers;
        }
        if self.version.totals != version.totals {
            self.totals = Totals::prepare(client, version.totals).await?;
            self.version.totals = version.totals;
        }
        if self.version.lines != version.lines {
            self.lines = Lines::prepare(client, version.lines).await?;
            self.version.lines = version.lines;
        }
        Ok(())
    }
}

/// Statements in the order of their texts.
struct Prepared(std::vec::IntoIter<Statement>);

impl Prepared {
    /// Prepares them all at once.
    async fn of(client: &Client, sql: Vec<String>) -> Result<Prepared, Error> {
        let all = try_join_all(sql.iter().map(|sql| client.prepare(sql))).await?;
        Ok(Prepared(all.into_iter()))
    }

    fn one(&mut self) -> Statement {
        self.0.next().expect("as many statements as texts")
    }

    fn some(&mut self, count: usize) -> Vec<Statement> {
        self.0.by_ref().take(count).collect()
    }
}
