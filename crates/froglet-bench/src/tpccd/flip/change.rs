//! The three changes of the thesis' evaluation (BullFrog, sections 4.4.1 to 4.4.3) as SQL, each one
//! transaction, after which the clients use the new tables only.
//!
//! ```text
//!   SplitTable     customer             ─▶ customer_private, customer_public     1:n   dropped
//!   Preaggregate   order_line           ─▶ order_total                           n:1   kept
//!   JoinTable      order_line ⋈ stock   ─▶ orderline_stock                       n:1   dropped
//! ```
//!
//! Stock that nobody ever ordered is in no row of a join; clients do not order it, under any
//! approach. The join has the indexes of both tables; order lines are indexed by item from the start.

use super::super::operations::{customer_private, customer_public};
use super::super::statements::{Place, Version};

/// A big flip.
#[derive(Debug)]
pub struct Change {
    /// The thesis' name for it.
    pub name: &'static str,
    /// Its figures: of throughput, of latency.
    pub figures: [&'static str; 2],
    /// Tables whose rows are remembered as of the start, to compare with.
    pub sources: &'static [&'static str],
    /// Indexes of the old tables, besides TPC-C's.
    pub indexes: &'static [&'static str],
    /// Each new table: its name, its query, and what follows in the same transaction.
    pub tables: &'static [NewTable],
    /// Removes what is not used any more.
    pub drop: Option<&'static str>,
    /// How a client of the database fills the new tables, part by part.
    pub fill: Fill,
    place: fn(Place) -> Version,
}

/// A new table.
#[derive(Debug)]
pub struct NewTable {
    /// Its name.
    pub name: &'static str,
    /// What it is made of.
    pub query: &'static str,
    /// Keys and indexes.
    pub then: &'static [&'static str],
}

/// Transactions of a client that fills the new tables while others write to both.
#[derive(Debug)]
pub struct Fill {
    /// What a part is a range of.
    pub range: Range,
    /// With `{w}`, `{d}`, `{from}` and `{to}`. Rows are locked before they are read to be copied.
    pub statements: &'static [&'static str],
}

/// What a part of the new tables is a range of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range {
    /// A district's customers.
    Customers,
    /// A district's orders, of those that were there when the clients began to write to both.
    Orders,
    /// A warehouse's items.
    Items,
}

macro_rules! totals {
    ($condition:expr) => {
        concat!(
            "SELECT ol_w_id, ol_d_id, ol_o_id, sum(ol_amount) AS ol_total FROM order_line ",
            $condition,
            "GROUP BY ol_w_id, ol_d_id, ol_o_id"
        )
    };
}

macro_rules! joined {
    () => {
        "SELECT ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d, \
         ol_quantity, ol_amount, ol_dist_info, s_i_id, s_w_id, s_quantity, s_dist_01, s_dist_02, \
         s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07, s_dist_08, s_dist_09, s_dist_10, \
         s_ytd, s_order_cnt, s_remote_cnt, s_data \
         FROM order_line JOIN stock ON ol_supply_w_id = s_w_id AND ol_i_id = s_i_id"
    };
}

macro_rules! customers_of_part {
    () => {
        " WHERE c_w_id = {w} AND c_d_id = {d} AND c_id BETWEEN {from} AND {to}"
    };
}

/// All of them.
pub const CHANGES: [Change; 3] = [SPLIT, PREAGGREGATE, JOIN];

/// The one that the thesis' other experiments are made with.
pub const SPLIT: Change = Change {
    name: "SplitTable",
    figures: ["figure 4.3", "figure 4.4"],
    sources: &["customer"],
    indexes: &[],
    tables: &[
        NewTable {
            name: "customer_private",
            query: customer_private!(),
            then: &["ALTER TABLE customer_private ADD PRIMARY KEY (c_w_id, c_d_id, c_id)"],
        },
        NewTable {
            name: "customer_public",
            query: customer_public!(),
            then: &[
                "ALTER TABLE customer_public ADD PRIMARY KEY (c_w_id, c_d_id, c_id)",
                "CREATE INDEX customer_public_name_idx \
                 ON customer_public (c_w_id, c_d_id, c_last, c_first)",
            ],
        },
    ],
    drop: Some("DROP TABLE customer"),
    fill: Fill {
        range: Range::Customers,
        statements: &[
            concat!("SELECT c_id FROM customer", customers_of_part!(), " FOR UPDATE"),
            concat!("INSERT INTO customer_private ", customer_private!(), customers_of_part!()),
            concat!("INSERT INTO customer_public ", customer_public!(), customers_of_part!()),
        ],
    },
    place: |place| Version { customers: place, ..Version::TPCC },
};

const PREAGGREGATE: Change = Change {
    name: "Preaggregate",
    figures: ["figure 4.5", "figure 4.6"],
    sources: &[],
    indexes: &[],
    tables: &[NewTable {
        name: "order_total",
        query: totals!(""),
        then: &["ALTER TABLE order_total ADD PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id)"],
    }],
    drop: None,
    fill: Fill {
        range: Range::Orders,
        // What an order amounts to does not change, so nothing is locked.
        statements: &[concat!(
            "INSERT INTO order_total ",
            totals!("WHERE ol_w_id = {w} AND ol_d_id = {d} AND ol_o_id BETWEEN {from} AND {to} ")
        )],
    },
    place: |place| Version { totals: place, ..Version::TPCC },
};

/// Rows with what they refer to.
pub const JOIN: Change = Change {
    name: "JoinTable",
    figures: ["figure 4.7", "figure 4.8"],
    sources: &["order_line", "stock"],
    indexes: &["CREATE INDEX order_line_item_idx ON order_line (ol_supply_w_id, ol_i_id)"],
    tables: &[NewTable {
        name: "orderline_stock",
        query: joined!(),
        then: &[
            "ALTER TABLE orderline_stock ADD PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number)",
            "CREATE INDEX orderline_stock_item_idx ON orderline_stock (s_w_id, s_i_id)",
        ],
    }],
    drop: Some("DROP TABLE order_line, stock"),
    fill: Fill {
        range: Range::Items,
        statements: &[
            "SELECT s_i_id FROM stock WHERE s_w_id = {w} AND s_i_id BETWEEN {from} AND {to} \
             FOR UPDATE",
            "SELECT ol_number FROM order_line \
             WHERE ol_supply_w_id = {w} AND ol_i_id BETWEEN {from} AND {to} FOR UPDATE",
            // Lines that were written to both tables are there.
            concat!(
                "INSERT INTO orderline_stock (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, \
                 ol_supply_w_id, ol_delivery_d, ol_quantity, ol_amount, ol_dist_info, s_i_id, \
                 s_w_id, s_quantity, s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, \
                 s_dist_06, s_dist_07, s_dist_08, s_dist_09, s_dist_10, s_ytd, s_order_cnt, \
                 s_remote_cnt, s_data) ",
                joined!(),
                " WHERE s_w_id = {w} AND s_i_id BETWEEN {from} AND {to} AND ol_supply_w_id = {w} \
                 AND ol_i_id BETWEEN {from} AND {to} ON CONFLICT DO NOTHING"
            ),
        ],
    },
    place: |place| Version { lines: place, ..Version::TPCC },
};

impl Change {
    /// The schema that clients use.
    pub fn version(&self, place: Place) -> Version {
        (self.place)(place)
    }

    /// Whether a client that does not know of the change is refused after it: what it uses is gone.
    pub fn refuses_the_old(&self) -> bool {
        self.drop.is_some()
    }

    /// The whole change, between BEGIN and COMMIT.
    pub fn statements(&self, keys: &[&'static str]) -> Vec<String> {
        let mut all = Vec::new();
        for table in self.tables {
            all.push(format!("CREATE TABLE {} AS {}", table.name, table.query));
            all.extend(table.then.iter().map(|&sql| sql.to_owned()));
            let own = |key: &&&str| key.starts_with(&format!("ALTER TABLE {} ", table.name));
            all.extend(keys.iter().filter(own).map(|&sql| sql.to_owned()));
        }
        all.extend(self.drop.map(str::to_owned));
        all
    }

    /// The new tables with nothing in them.
    pub fn empty(&self) -> Vec<String> {
        let mut all = Vec::new();
        for table in self.tables {
            all.push(format!("CREATE TABLE {} AS {} WITH NO DATA", table.name, table.query));
            all.extend(table.then.iter().map(|&sql| sql.to_owned()));
        }
        all
    }
}

/// Foreign keys of the split table, and of what it is made of: a table that is made lazily may have
/// those that its source has, and no table may refer to it in the transaction that makes it. So the
/// second is not that of orders, as in the thesis, but to the warehouse.
pub const FOREIGN_KEYS: [[&str; 2]; 2] = [
    [
        "ALTER TABLE customer ADD FOREIGN KEY (c_w_id, c_d_id) REFERENCES district (d_w_id, d_id)",
        "ALTER TABLE customer_private ADD FOREIGN KEY (c_w_id, c_d_id) \
         REFERENCES district (d_w_id, d_id)",
    ],
    [
        "ALTER TABLE customer ADD FOREIGN KEY (c_w_id) REFERENCES warehouse (w_id)",
        "ALTER TABLE customer_private ADD FOREIGN KEY (c_w_id) REFERENCES warehouse (w_id)",
    ],
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_makes_its_tables_and_drops_their_sources_last() {
        let sql = SPLIT.statements(&[FOREIGN_KEYS[0][1]]);
        assert_eq!(sql.len(), 7);
        assert!(sql[2].contains("REFERENCES district"), "{}", sql[2]);
        assert_eq!(sql.last().map(String::as_str), SPLIT.drop);
        assert!(CHANGES[1].statements(&[]).iter().all(|sql| !sql.starts_with("DROP")));
        assert!(SPLIT.empty().iter().all(|sql| !sql.starts_with("DROP")));
    }

    #[test]
    fn a_part_is_of_ranges() {
        for change in CHANGES {
            let by_district = change.fill.range != Range::Items;
            for sql in change.fill.statements {
                assert!(sql.contains("{w}") && sql.contains("BETWEEN {from} AND {to}"), "{sql}");
                assert_eq!(sql.contains("{d}"), by_district, "{sql}");
            }
        }
    }
}
