//! TPC-C's twelve consistency conditions (clause 3.3.2) as SQL, asked of the server that was
//! measured: each query counts what contradicts the condition.
//!
//! Missing groups contradict, too: both sides are joined in full and compared with IS DISTINCT
//! FROM. Condition 11 holds in the specification only of the initial population; here it counts
//! the delivered orders, which is the same there and true for ever (as in
//! [`tpcc::consistency`](crate::tpcc::consistency)).

use anyhow::{Context, Result};
use tokio_postgres::Client;

/// A condition: its number, what it says, and the query that counts contradictions.
type Condition = (u8, &'static str, &'static str);

const CONDITIONS: [Condition; 12] = [
    (
        1,
        "W_YTD is the sum of D_YTD",
        "SELECT count(*) FROM warehouse FULL JOIN \
           (SELECT d_w_id, sum(d_ytd) AS ytd FROM district GROUP BY d_w_id) AS d ON d_w_id = w_id \
         WHERE w_ytd IS DISTINCT FROM ytd",
    ),
    (
        2,
        "D_NEXT_O_ID - 1 is the last order and the last new order",
        "SELECT count(*) FROM district \
           FULL JOIN (SELECT o_w_id, o_d_id, max(o_id) AS o_last FROM orders \
                      GROUP BY o_w_id, o_d_id) AS o ON o_w_id = d_w_id AND o_d_id = d_id \
           LEFT JOIN (SELECT no_w_id, no_d_id, max(no_o_id) AS no_last FROM new_order \
                      GROUP BY no_w_id, no_d_id) AS n ON no_w_id = d_w_id AND no_d_id = d_id \
         WHERE d_next_o_id - 1 IS DISTINCT FROM o_last OR no_last <> o_last",
    ),
    (
        3,
        "new orders have no gap",
        "SELECT count(*) FROM (SELECT max(no_o_id) - min(no_o_id) + 1 AS span, count(*) AS n \
           FROM new_order GROUP BY no_w_id, no_d_id) AS d WHERE span <> n",
    ),
    (
        4,
        "a district has as many lines as its orders promise",
        "SELECT count(*) FROM \
           (SELECT o_w_id, o_d_id, sum(o_ol_cnt) AS promised FROM orders \
            GROUP BY o_w_id, o_d_id) AS o FULL JOIN \
           (SELECT ol_w_id, ol_d_id, count(*) AS n FROM order_line \
            GROUP BY ol_w_id, ol_d_id) AS l ON ol_w_id = o_w_id AND ol_d_id = o_d_id \
         WHERE promised IS DISTINCT FROM n",
    ),
    (
        5,
        "an order has no carrier while it is new",
        "SELECT count(*) FROM orders FULL JOIN new_order \
           ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id \
         WHERE o_id IS NULL OR (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL)",
    ),
    (
        6,
        "an order has as many lines as it promises",
        "SELECT count(*) FROM orders FULL JOIN \
           (SELECT ol_w_id, ol_d_id, ol_o_id, count(*) AS n FROM order_line \
            GROUP BY ol_w_id, ol_d_id, ol_o_id) AS l \
           ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id \
         WHERE o_ol_cnt IS DISTINCT FROM n",
    ),
    (
        7,
        "a line has no delivery date while its order has no carrier",
        "SELECT count(*) FROM order_line LEFT JOIN orders \
           ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id \
         WHERE o_id IS NULL OR (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL)",
    ),
    (
        8,
        "W_YTD is what was paid there",
        "SELECT count(*) FROM warehouse FULL JOIN \
           (SELECT h_w_id, sum(h_amount) AS paid FROM history GROUP BY h_w_id) AS h \
           ON h_w_id = w_id \
         WHERE w_ytd IS DISTINCT FROM paid",
    ),
    (
        9,
        "D_YTD is what was paid there",
        "SELECT count(*) FROM district FULL JOIN \
           (SELECT h_w_id, h_d_id, sum(h_amount) AS paid FROM history GROUP BY h_w_id, h_d_id) \
           AS h ON h_w_id = d_w_id AND h_d_id = d_id \
         WHERE d_ytd IS DISTINCT FROM paid",
    ),
    (
        10,
        "a customer owes what was delivered less what was paid",
        "SELECT count(*) FROM customer \
           LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, sum(ol_amount) AS delivered \
                      FROM orders JOIN order_line \
                        ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id \
                      WHERE ol_delivery_d IS NOT NULL GROUP BY o_w_id, o_d_id, o_c_id) AS d \
             ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id \
           FULL JOIN (SELECT h_c_w_id, h_c_d_id, h_c_id, sum(h_amount) AS paid FROM history \
                      GROUP BY h_c_w_id, h_c_d_id, h_c_id) AS h \
             ON h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND h_c_id = c_id \
         WHERE c_balance IS DISTINCT FROM coalesce(delivered, 0) - coalesce(paid, 0)",
    ),
    (
        11,
        "a district's orders are new or delivered",
        "SELECT count(*) FROM \
           (SELECT o_w_id, o_d_id, count(*) - count(o_carrier_id) AS undelivered FROM orders \
            GROUP BY o_w_id, o_d_id) AS o LEFT JOIN \
           (SELECT no_w_id, no_d_id, count(*) AS n FROM new_order GROUP BY no_w_id, no_d_id) AS n \
           ON no_w_id = o_w_id AND no_d_id = o_d_id \
         WHERE undelivered <> coalesce(n, 0)",
    ),
    (
        12,
        "a customer's balance and payments are what was delivered",
        "SELECT count(*) FROM customer \
           LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, sum(ol_amount) AS delivered \
                      FROM orders JOIN order_line \
                        ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id \
                      WHERE ol_delivery_d IS NOT NULL GROUP BY o_w_id, o_d_id, o_c_id) AS d \
             ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id \
         WHERE c_balance + c_ytd_payment IS DISTINCT FROM coalesce(delivered, 0)",
    ),
];

/// Asks every condition; returns those that do not hold, in words.
pub async fn violated(client: &Client) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for (number, what, sql) in CONDITIONS {
        let row = client.query_one(sql, &[]).await;
        let row = row.with_context(|| format!("TPC-C condition {number} was not answered"))?;
        let contradictions: i64 = row.get(0);
        if contradictions > 0 {
            let text = format!("TPC-C condition {number} ({what}): {contradictions} contradict it");
            wrong.push(text);
        }
    }
    Ok(wrong)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::postgres::Postgres;
    use crate::tpcc::db::Scale;
    use crate::tpccd::load::load;
    use crate::tpccd::workload::connect;

    /// What contradicts which condition, and others with it.
    const MISTAKES: [(&str, &[u8]); 12] = [
        ("UPDATE district SET d_ytd = d_ytd + 1 WHERE d_id = 3", &[1, 9]),
        ("UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_id = 3", &[2]),
        ("DELETE FROM new_order WHERE no_d_id = 3 AND no_o_id = 25", &[3, 5, 11]),
        ("UPDATE orders SET o_ol_cnt = o_ol_cnt + 1 WHERE o_d_id = 3 AND o_id = 5", &[4, 6]),
        ("UPDATE orders SET o_carrier_id = NULL WHERE o_d_id = 3 AND o_id = 5", &[5, 7, 11]),
        ("DELETE FROM order_line WHERE ol_d_id = 3 AND ol_o_id = 5 AND ol_number = 1", &[4, 6]),
        ("UPDATE order_line SET ol_delivery_d = NULL WHERE ol_d_id = 3 AND ol_o_id = 5", &[7]),
        ("UPDATE warehouse SET w_ytd = w_ytd + 1", &[1, 8]),
        ("UPDATE history SET h_amount = 11 WHERE h_c_id = 7 AND h_d_id = 3", &[8, 9, 10]),
        ("UPDATE customer SET c_balance = 0 WHERE c_id = 7 AND c_d_id = 3", &[10, 12]),
        ("UPDATE customer SET c_ytd_payment = 0 WHERE c_id = 7 AND c_d_id = 3", &[12]),
        ("DELETE FROM orders WHERE o_d_id = 3 AND o_id = 5", &[4, 6, 7]),
    ];

    #[tokio::test]
    async fn every_mistake_contradicts_a_condition() {
        let bin = Path::new("/usr/lib/postgresql/15/bin");
        if !bin.join("postgres").is_file() {
            eprintln!("not tested: {} has no PostgreSQL", bin.display());
            return;
        }
        assert!(CONDITIONS.iter().map(|(number, ..)| *number).eq(1..=12));
        let postgres = Postgres::start(bin, &std::env::temp_dir(), &[]).unwrap();
        let client = connect(postgres.port()).await.unwrap();
        load(&client, Scale::small(1)).await.unwrap();
        assert_eq!(violated(&client).await.unwrap(), [""; 0]);
        for (mistake, expected) in MISTAKES {
            client.batch_execute(&format!("BEGIN; {mistake}")).await.unwrap();
            let wrong = violated(&client).await.unwrap();
            client.batch_execute("ROLLBACK").await.unwrap();
            let prefixes = expected.iter().map(|number| format!("TPC-C condition {number} "));
            let expected: Vec<String> = prefixes.collect();
            let same = wrong.iter().zip(&expected).all(|(text, prefix)| text.starts_with(prefix));
            assert!(same && wrong.len() == expected.len(), "{mistake}: {wrong:?}");
        }
        drop(client);
        postgres.stop().unwrap();
    }
}
