//! The schema changes that the demonstration makes. TPC-C's mix goes on through all of them, so
//! none of them takes away what it reads and writes.

/// One change: a transaction of one or more statements.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// For people.
    pub title: &'static str,
    /// Between BEGIN and COMMIT.
    pub statements: &'static [&'static str],
}

/// Every change, in the order in which they are made.
pub const CHANGES: [Change; 8] = [
    Change {
        title: "ADD COLUMN ol_tax, computed",
        statements: &["ALTER TABLE order_line ADD COLUMN ol_tax numeric(12,3) \
            GENERATED ALWAYS AS (ol_amount * 0.1) STORED"],
    },
    Change {
        title: "ADD CHECK (ol_quantity > 0)",
        statements: &["ALTER TABLE order_line ADD CONSTRAINT ol_quantity_check \
            CHECK (ol_quantity > 0)"],
    },
    Change {
        title: "CREATE INDEX on order_line",
        statements: &["CREATE INDEX order_line_item_idx ON order_line (ol_supply_w_id, ol_i_id)"],
    },
    Change {
        title: "ALTER TYPE c_payment_cnt bigint",
        statements: &["ALTER TABLE customer ALTER COLUMN c_payment_cnt TYPE bigint"],
    },
    Change {
        title: "CREATE TABLE AS, half of customer",
        statements: &[
            "CREATE TABLE customer_public AS SELECT c_w_id, c_d_id, c_id, c_first, c_middle, \
             c_last, c_city, c_state, c_zip, c_phone, c_since FROM customer",
            "ALTER TABLE customer_public ADD PRIMARY KEY (c_w_id, c_d_id, c_id)",
        ],
    },
    Change {
        title: "CREATE TABLE AS, sum by order",
        statements: &[
            "CREATE TABLE order_total AS SELECT ol_w_id, ol_d_id, ol_o_id, \
             sum(ol_amount) AS ol_total FROM order_line GROUP BY ol_w_id, ol_d_id, ol_o_id",
            "ALTER TABLE order_total ADD PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id)",
        ],
    },
    Change {
        title: "RENAME COLUMN ol_tax TO ol_vat",
        statements: &["ALTER TABLE order_line RENAME COLUMN ol_tax TO ol_vat"],
    },
    Change {
        title: "DROP COLUMN ol_vat",
        statements: &["ALTER TABLE order_line DROP COLUMN ol_vat"],
    },
];
