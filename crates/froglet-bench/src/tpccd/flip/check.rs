//! What must hold when the clients have stopped, as queries that count rows that are wrong: TPC-C's
//! consistency conditions (clause 3.3.2) on whatever schema there is, and every row of a new table
//! against what its sources had at the start and what the transactions did since.
//!
//! ```text
//!   before    customer_before, order_line_before, stock_before: copies made before the clients began
//!   since     history, orders, order lines: each transaction that changes a row leaves one of these
//! ```
//!
//! Not known of each row is c_data where payments were made, and which of two orders took its stock
//! first: quantities are compared modulo 91, by which stock is filled up.

use super::change::Change;
use crate::tpcc::db::Scale;

/// Copies the rows that a change is compared with.
pub fn remember(change: &Change) -> impl Iterator<Item = String> {
    let copy = |table: &&str| {
        format!("CREATE TABLE {table}_before WITH (migration = eager) AS SELECT * FROM {table}")
    };
    change.sources.iter().map(copy).collect::<Vec<_>>().into_iter()
}

/// What is checked, and the query of each: a count. `new` if the schema is the new one.
pub fn queries(change: &Change, new: bool, scale: Scale) -> Vec<(&'static str, String)> {
    let customer = if new && change.name == "SplitTable" { "customer_private" } else { "customer" };
    let line = if new && change.name == "JoinTable" { "orderline_stock" } else { "order_line" };
    let mut all = conditions(customer, line);
    if new {
        all.extend(match change.name {
            "SplitTable" => split(scale),
            "Preaggregate" => totals(),
            _ => joined(scale),
        });
    }
    all
}

fn conditions(customer: &str, line: &str) -> Vec<(&'static str, String)> {
    vec![
        (
            "W_YTD is the sum of D_YTD (condition 1)",
            "SELECT count(*) FROM warehouse JOIN (SELECT d_w_id, sum(d_ytd) AS ytd FROM district \
             GROUP BY d_w_id) AS d ON d_w_id = w_id WHERE w_ytd <> ytd"
                .to_owned(),
        ),
        (
            "D_NEXT_O_ID is the last order's (condition 2)",
            "SELECT count(*) FROM district JOIN (SELECT o_w_id, o_d_id, max(o_id) AS last, \
             count(*) AS orders FROM orders GROUP BY o_w_id, o_d_id) AS o \
             ON o_w_id = d_w_id AND o_d_id = d_id \
             WHERE d_next_o_id - 1 <> last OR last <> orders"
                .to_owned(),
        ),
        (
            "orders have their lines (condition 6)",
            format!(
                "SELECT count(*) FROM orders FULL JOIN (SELECT ol_w_id, ol_d_id, ol_o_id, \
                 count(*) AS lines, count(ol_delivery_d) AS delivered FROM {line} \
                 GROUP BY ol_w_id, ol_d_id, ol_o_id) AS l \
                 ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id \
                 WHERE lines IS DISTINCT FROM o_ol_cnt \
                 OR delivered <> CASE WHEN o_carrier_id IS NULL THEN 0 ELSE lines END"
            ),
        ),
        (
            "customers have paid and got what their rows say (conditions 10 and 12)",
            format!(
                "SELECT count(*) FROM {customer} \
                 LEFT JOIN (SELECT h_c_w_id, h_c_d_id, h_c_id, sum(h_amount) AS paid, \
                 count(*) AS payments FROM history GROUP BY h_c_w_id, h_c_d_id, h_c_id) AS h \
                 ON h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND h_c_id = c_id \
                 LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, sum(ol_amount) AS got \
                 FROM orders JOIN {line} ON ol_w_id = o_w_id AND ol_d_id = o_d_id \
                 AND ol_o_id = o_id WHERE ol_delivery_d IS NOT NULL \
                 GROUP BY o_w_id, o_d_id, o_c_id) AS o \
                 ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id \
                 WHERE c_balance <> coalesce(got, 0) - coalesce(paid, 0) \
                 OR c_ytd_payment <> coalesce(paid, 0) OR c_payment_cnt <> coalesce(payments, 0)"
            ),
        ),
    ]
}

fn split(scale: Scale) -> Vec<(&'static str, String)> {
    let public = "c_w_id, c_d_id, c_id, c_first, c_middle, c_last, c_street_1, c_street_2, \
        c_city, c_state, c_zip, c_phone, c_since";
    let constant = "c_w_id, c_d_id, c_id, c_credit, c_credit_lim, c_discount";
    let delivered = scale.delivered();
    vec![
        ("customer_public", difference(public, "customer_public", "customer_before")),
        (
            "customer_private, columns that nobody writes",
            difference(constant, "customer_private", "customer_before"),
        ),
        (
            "customer_private, data of who has not paid since",
            "SELECT count(*) FROM customer_private AS n JOIN customer_before AS b \
             ON n.c_w_id = b.c_w_id AND n.c_d_id = b.c_d_id AND n.c_id = b.c_id \
             WHERE n.c_payment_cnt = b.c_payment_cnt AND n.c_data <> b.c_data"
                .to_owned(),
        ),
        (
            "customer_private, deliveries since",
            format!(
                "SELECT count(*) FROM customer_private AS n JOIN customer_before AS b \
                 ON n.c_w_id = b.c_w_id AND n.c_d_id = b.c_d_id AND n.c_id = b.c_id \
                 LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, count(*) AS got FROM orders \
                 WHERE o_carrier_id IS NOT NULL AND o_id > {delivered} \
                 GROUP BY o_w_id, o_d_id, o_c_id) AS o \
                 ON o_w_id = n.c_w_id AND o_d_id = n.c_d_id AND o_c_id = n.c_id \
                 WHERE n.c_delivery_cnt - b.c_delivery_cnt <> coalesce(got, 0)"
            ),
        ),
    ]
}

fn totals() -> Vec<(&'static str, String)> {
    let sums = "(SELECT ol_w_id, ol_d_id, ol_o_id, sum(ol_amount) AS ol_total FROM order_line \
        GROUP BY ol_w_id, ol_d_id, ol_o_id) AS sums";
    vec![("order_total", difference("ol_w_id, ol_d_id, ol_o_id, ol_total", "order_total", sums))]
}

fn joined(scale: Scale) -> Vec<(&'static str, String)> {
    // Orders of the population have these numbers.
    let loaded = scale.customers;
    let line = "ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, \
        ol_amount, ol_dist_info";
    let of_population = format!("(SELECT * FROM orderline_stock WHERE ol_o_id <= {loaded}) AS n");
    let b = format!("(SELECT * FROM order_line_before WHERE ol_o_id <= {loaded}) AS b");
    let dists = (1..=10).map(|n| format!("n.s_dist_{n:02} <> b.s_dist_{n:02}"));
    let dists = dists.collect::<Vec<_>>().join(" OR ");
    vec![
        ("orderline_stock, lines of the population", difference(line, &of_population, &b)),
        (
            "orderline_stock, one stock in all rows",
            "SELECT count(*) FROM (SELECT s_w_id, s_i_id FROM orderline_stock \
             GROUP BY s_w_id, s_i_id HAVING min(s_quantity) <> max(s_quantity) \
             OR min(s_ytd) <> max(s_ytd) OR min(s_order_cnt) <> max(s_order_cnt) \
             OR min(s_remote_cnt) <> max(s_remote_cnt)) AS wrong"
                .to_owned(),
        ),
        (
            "orderline_stock, stock since the start",
            format!(
                "SELECT count(*) FROM orderline_stock AS n LEFT JOIN stock_before AS b \
                 ON n.s_w_id = b.s_w_id AND n.s_i_id = b.s_i_id WHERE b.s_w_id IS NULL \
                 OR n.ol_supply_w_id <> n.s_w_id OR n.ol_i_id <> n.s_i_id \
                 OR n.s_data <> b.s_data OR {dists} \
                 OR (b.s_quantity - n.s_quantity - (n.s_ytd - b.s_ytd)) % 91 <> 0"
            ),
        ),
        (
            "orderline_stock, what was ordered since",
            format!(
                "SELECT count(*) FROM (SELECT s_w_id, s_i_id FROM orderline_stock \
                 GROUP BY s_w_id, s_i_id HAVING max(s_ytd) <> \
                 sum(CASE WHEN ol_o_id > {loaded} THEN ol_quantity ELSE 0 END) \
                 OR max(s_order_cnt) <> sum(CASE WHEN ol_o_id > {loaded} THEN 1 ELSE 0 END)) \
                 AS wrong"
            ),
        ),
    ]
}

/// Rows of one that are not the other's.
fn difference(columns: &str, a: &str, b: &str) -> String {
    let select = |from: &str| format!("SELECT {columns} FROM {from}");
    let (a, b) = (select(a), select(b));
    format!(
        "SELECT count(*) FROM (({a} EXCEPT ALL {b}) UNION ALL ({b} EXCEPT ALL {a})) AS difference"
    )
}

#[cfg(test)]
mod tests {
    use super::super::change::CHANGES;
    use super::*;

    #[test]
    fn the_old_schema_is_checked_by_the_conditions_and_each_new_table_by_more() {
        let scale = Scale::small(1);
        for change in &CHANGES {
            let old = queries(change, false, scale);
            let new = queries(change, true, scale);
            assert_eq!(old.len(), 4);
            for table in change.tables {
                let about = |(_, sql): &&(&str, String)| sql.contains(table.name);
                assert!(new.iter().any(|query| about(&query)), "{}", table.name);
                assert!(!old.iter().any(|query| about(&query)), "{}", table.name);
            }
        }
        assert_eq!(remember(&CHANGES[2]).count(), 2);
    }
}
