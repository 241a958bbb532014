//! The schema changes of TPC-CD and of the microbenchmark (paper 000, section 6.2), as SQL.

/// What a change is made under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// TPC-C's mix.
    Tpcc,
    /// The microbenchmark; so many statements in a hundred read.
    Micro(u32),
}

/// One schema change: a transaction of one or more statements.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// The paper's name for it.
    pub name: &'static str,
    /// The paper's figure.
    pub figure: &'static str,
    /// Between BEGIN and COMMIT.
    pub statements: &'static [&'static str],
    /// Takes it back.
    pub undo: &'static str,
    /// A query that counts what is wrong after the change if nobody has written since its commit.
    pub count_wrong: &'static str,
}

/// Every change with what it is made under.
pub fn all() -> impl Iterator<Item = (Load, &'static Operation)> {
    let tpcc = TPCC.iter().map(|operation| (Load::Tpcc, operation));
    let micro = [20, 80]
        .into_iter()
        .flat_map(|reads| MICRO.iter().map(move |operation| (Load::Micro(reads), operation)));
    tpcc.chain(micro)
}

/// Changes of the microbenchmark's table for the sweep over its size, each with how many columns
/// the table has that the clients do not use: first `t`, an integer, then bigints.
pub fn by_size() -> impl Iterator<Item = (u16, &'static Operation)> {
    MICRO[..2].iter().map(|o| (0, o)).chain(BY_SIZE.iter().map(|(unused, o)| (*unused, o)))
}

/// The changes of TPC-CD.
pub fn tpcc() -> &'static [Operation] {
    &TPCC
}

/// What the sweep over threads makes (the paper's figure 6).
pub fn by_threads() -> &'static Operation {
    &MICRO[0]
}

/// The rows of two queries that are not the other's.
macro_rules! difference {
    ($a:expr, $b:expr) => {
        concat!(
            "SELECT count(*) FROM ((",
            $a,
            " EXCEPT ALL ",
            $b,
            ") UNION ALL (",
            $b,
            " EXCEPT ALL ",
            $a,
            ")) AS difference"
        )
    };
}

macro_rules! customer_private {
    () => {
        "SELECT c_w_id, c_d_id, c_id, c_credit, c_credit_lim, c_discount, c_balance, \
         c_ytd_payment, c_payment_cnt, c_delivery_cnt, c_data FROM customer"
    };
}

macro_rules! customer_public {
    () => {
        "SELECT c_w_id, c_d_id, c_id, c_first, c_middle, c_last, c_street_1, c_street_2, c_city, \
         c_state, c_zip, c_phone, c_since FROM customer"
    };
}

pub(super) use {customer_private, customer_public};

macro_rules! order_total {
    () => {
        "SELECT ol_w_id, ol_d_id, ol_o_id, sum(ol_amount) AS ol_total FROM order_line \
         GROUP BY ol_w_id, ol_d_id, ol_o_id"
    };
}

macro_rules! order_line_stock {
    () => {
        "SELECT ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_quantity, s_w_id, s_quantity \
         FROM order_line JOIN stock ON ol_supply_w_id = s_w_id AND ol_i_id = s_i_id"
    };
}

/// TPC-CD. Each leaves what the mix reads and writes as it is, so the mix goes on unchanged.
const TPCC: [Operation; 7] = [
    Operation {
        name: "AddColumn",
        figure: "figure 7a",
        // The paper's constant default of 0.1 is but a catalog entry here; this one is computed.
        statements: &["ALTER TABLE order_line ADD COLUMN ol_tax numeric(12,3) \
            GENERATED ALWAYS AS (ol_amount * 0.1) STORED"],
        undo: "ALTER TABLE order_line DROP COLUMN ol_tax",
        count_wrong: "SELECT count(*) FROM order_line \
            WHERE ol_tax IS DISTINCT FROM ol_amount * 0.1",
    },
    Operation {
        name: "SplitTable",
        figure: "figure 7",
        statements: &[
            concat!("CREATE TABLE customer_private AS ", customer_private!()),
            "ALTER TABLE customer_private ADD PRIMARY KEY (c_w_id, c_d_id, c_id)",
            concat!("CREATE TABLE customer_public AS ", customer_public!()),
            "ALTER TABLE customer_public ADD PRIMARY KEY (c_w_id, c_d_id, c_id)",
        ],
        undo: "DROP TABLE customer_private, customer_public",
        count_wrong: concat!(
            "SELECT (",
            difference!("SELECT * FROM customer_private", customer_private!()),
            ") + (",
            difference!("SELECT * FROM customer_public", customer_public!()),
            ")"
        ),
    },
    Operation {
        name: "Preaggregate",
        figure: "figure 7",
        statements: &[
            concat!("CREATE TABLE order_total AS ", order_total!()),
            "ALTER TABLE order_total ADD PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id)",
        ],
        undo: "DROP TABLE order_total",
        count_wrong: difference!("SELECT * FROM order_total", order_total!()),
    },
    Operation {
        name: "JoinTable",
        figure: "figure 7",
        statements: &[concat!("CREATE TABLE order_line_stock AS ", order_line_stock!())],
        undo: "DROP TABLE order_line_stock",
        count_wrong: difference!("SELECT * FROM order_line_stock", order_line_stock!()),
    },
    Operation {
        name: "CreateIndex",
        figure: "figure 8",
        // The paper makes the primary index, without which its mix crawls. Here the mix has what it
        // needs from the start.
        statements: &["CREATE INDEX order_line_item_idx ON order_line (ol_supply_w_id, ol_i_id)"],
        undo: "DROP INDEX order_line_item_idx",
        // The first is looked up in the index, the second, a condition on no column, is not.
        count_wrong: difference!(
            "SELECT ol_w_id, ol_d_id, ol_o_id, ol_number FROM order_line WHERE ol_supply_w_id > 0",
            "SELECT ol_w_id, ol_d_id, ol_o_id, ol_number FROM order_line WHERE ol_supply_w_id + 0 > 0"
        ),
    },
    Operation {
        name: "AddConstraint",
        figure: "figure 9",
        // The paper's upper bound is the order's o_ol_cnt, which no CHECK of a line can see.
        statements: &["ALTER TABLE order_line ADD CONSTRAINT ol_number_check \
            CHECK (ol_number BETWEEN 1 AND 15)"],
        undo: "ALTER TABLE order_line DROP CONSTRAINT ol_number_check",
        count_wrong: "SELECT count(*) FROM order_line WHERE ol_number NOT BETWEEN 1 AND 15",
    },
    Operation {
        name: "AddColumnWithConstraint",
        figure: "figure 10",
        statements: &["ALTER TABLE order_line ADD COLUMN ol_tax numeric(12,3) \
            GENERATED ALWAYS AS (ol_amount * 0.1) STORED, \
            ADD CONSTRAINT ol_amount_check CHECK (ol_amount >= 0)"],
        undo: "ALTER TABLE order_line DROP CONSTRAINT ol_amount_check, DROP COLUMN ol_tax",
        count_wrong: "SELECT count(*) FROM order_line \
            WHERE (ol_tax IS DISTINCT FROM ol_amount * 0.1) OR ol_amount < 0",
    },
];

const MICRO: [Operation; 3] = [
    Operation {
        name: "AddColumn",
        figure: "figure 4 top",
        statements: &["ALTER TABLE usertable ADD COLUMN c bigint \
            GENERATED ALWAYS AS (a + b) STORED"],
        undo: "ALTER TABLE usertable DROP COLUMN c",
        count_wrong: "SELECT count(*) FROM usertable WHERE c IS DISTINCT FROM a + b",
    },
    Operation {
        name: "AddConstraint",
        figure: "figure 4 middle",
        statements: &["ALTER TABLE usertable ADD CONSTRAINT b_check CHECK (b < 1000000)"],
        undo: "ALTER TABLE usertable DROP CONSTRAINT b_check",
        count_wrong: "SELECT count(*) FROM usertable WHERE b >= 1000000",
    },
    Operation {
        name: "AddColumnWithConstraint",
        figure: "figure 4 bottom",
        statements: &["ALTER TABLE usertable ADD COLUMN c bigint \
            GENERATED ALWAYS AS (a + b) STORED, \
            ADD CONSTRAINT b_check CHECK (b < 1000000)"],
        undo: "ALTER TABLE usertable DROP CONSTRAINT b_check, DROP COLUMN c",
        count_wrong: "SELECT count(*) FROM usertable \
            WHERE (c IS DISTINCT FROM a + b) OR b >= 1000000",
    },
];

/// The type of one column beside few and beside many: how many unused ones, and the names.
pub const TYPE_BESIDE: [(u16, &str); 2] =
    [(1, "AlterType, 3 other columns"), (28, "AlterType, 30 other columns")];

/// A constant and a drop are changes of the catalog alone. The type's cost is the column's, however many
/// there are beside it.
const BY_SIZE: [(u16, Operation); 5] = [
    (
        0,
        Operation {
            name: "AddColumn, constant",
            figure: "figure 5",
            statements: &["ALTER TABLE usertable ADD COLUMN c bigint DEFAULT 7"],
            undo: "ALTER TABLE usertable DROP COLUMN c",
            count_wrong: "SELECT count(*) FROM usertable WHERE c IS DISTINCT FROM 7",
        },
    ),
    (
        0,
        Operation {
            name: "CreateIndex",
            figure: "figure 5",
            statements: &["CREATE INDEX usertable_a_idx ON usertable (a)"],
            undo: "DROP INDEX usertable_a_idx",
            count_wrong: "SELECT (SELECT count(*) FROM usertable WHERE a + 0 = 7) \
                - (SELECT count(*) FROM usertable WHERE a = 7)",
        },
    ),
    (
        1,
        Operation {
            name: "DropColumn",
            figure: "figure 5",
            statements: &["ALTER TABLE usertable DROP COLUMN t"],
            undo: "ALTER TABLE usertable ADD COLUMN t integer DEFAULT 7",
            count_wrong: "SELECT count(*) FROM information_schema.columns \
                WHERE table_name = 'usertable' AND column_name = 't'",
        },
    ),
    (TYPE_BESIDE[0].0, alter_type(TYPE_BESIDE[0].1)),
    (TYPE_BESIDE[1].0, alter_type(TYPE_BESIDE[1].1)),
];

const fn alter_type(name: &'static str) -> Operation {
    Operation {
        name,
        figure: "figure 5",
        statements: &["ALTER TABLE usertable ALTER COLUMN t TYPE bigint USING t * 2"],
        undo: "ALTER TABLE usertable ALTER COLUMN t TYPE integer USING t / 2",
        count_wrong: "SELECT count(*) FROM usertable WHERE t IS DISTINCT FROM 14",
    }
}

impl Operation {
    /// Whether it makes tables of others.
    pub fn makes_tables(&self) -> bool {
        self.statements.iter().any(|statement| statement.starts_with("CREATE TABLE"))
    }
}

impl Load {
    /// What it is called.
    pub fn name(self) -> String {
        match self {
            Load::Tpcc => "TPC-C".to_owned(),
            Load::Micro(reads) => format!("micro, {reads} % reads"),
        }
    }

    /// The operation's name under this load.
    pub fn label(self, operation: &Operation) -> String {
        match self {
            Load::Tpcc => operation.name.to_owned(),
            Load::Micro(reads) => format!("micro {}, {reads} % reads", operation.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_a_name_of_its_own() {
        let mut labels: Vec<String> = all().map(|(load, o)| load.label(o)).collect();
        assert_eq!(labels.len(), 13);
        labels.sort();
        labels.dedup();
        assert_eq!(labels.len(), 13);
    }

    #[test]
    fn what_postgres_loses_it_loses_where_tables_are_made() {
        let made = all().filter(|(_, o)| o.makes_tables()).map(|(_, o)| o.name);
        assert!(made.eq(["SplitTable", "Preaggregate", "JoinTable"]));
    }
}
