//! Long statements are planned in time that grows with their length, and no faster: each of these took minutes
//! where something looked at all of a statement for each of its parts.

use std::time::{Duration, Instant};

use crate::support::{Client, database};

/// As long as any may take in a debug build on a busy machine. What is quadratic takes ten times that.
const PATIENCE: Duration = Duration::from_secs(60);

fn joined(count: usize, by: &str, part: impl Fn(usize) -> String) -> String {
    (0..count).map(part).collect::<Vec<String>>().join(by)
}

/// Statements, and how many parameters they have.
fn statements() -> Vec<(&'static str, String, usize)> {
    let row = |at: usize| format!("(${}, ${}, ${})", at * 3 + 1, at * 3 + 2, at * 3 + 3);
    let computed =
        |at: usize| format!("(${} + 1, upper(${}), now()::date)", at * 2 + 1, at * 2 + 2);
    let number = |at: usize| at.to_string();
    let param = |at: usize| format!("${}", at + 1);
    vec![
        ("rows of parameters", format!("INSERT INTO t VALUES {}", joined(2_000, ", ", row)), 6_000),
        ("computed rows", format!("INSERT INTO t VALUES {}", joined(500, ", ", computed)), 1_000),
        (
            "rows of literals",
            format!(
                "INSERT INTO t (a, b) VALUES {}",
                joined(5_000, ", ", |at| format!("({at}, 'x')"))
            ),
            0,
        ),
        (
            "an IN list",
            format!("SELECT count(*) FROM t WHERE a IN ({})", joined(5_000, ", ", number)),
            0,
        ),
        (
            "an IN list of parameters",
            format!("SELECT count(*) FROM t WHERE a IN ({})", joined(3_000, ", ", param)),
            3_000,
        ),
        (
            "a join of VALUES",
            format!(
                "SELECT count(*) FROM t JOIN (VALUES {}) v (x, y) ON a = x",
                joined(2_000, ", ", |at| format!("({at}, 'y')"))
            ),
            0,
        ),
        ("a union", joined(300, " UNION ALL ", |at| format!("SELECT {at} AS n, 'x' AS t")), 0),
        (
            "a select list",
            format!("SELECT {} FROM t", joined(1_000, ", ", |at| format!("a + {at} AS c{at}"))),
            0,
        ),
        (
            "cases",
            format!(
                "SELECT CASE {} ELSE 0 END FROM t",
                joined(400, " ", |at| format!("WHEN a = {at} THEN {at}"))
            ),
            0,
        ),
        ("an array", format!("SELECT array_length(ARRAY[{}], 1)", joined(20_000, ", ", number)), 0),
        ("parentheses", format!("SELECT {}1{}", "(".repeat(150), ")".repeat(150)), 0),
        (
            "conditions",
            format!(
                "SELECT count(*) FROM t WHERE {}",
                joined(450, " OR ", |at| format!("a = {at}"))
            ),
            0,
        ),
        (
            "subqueries",
            format!(
                "SELECT {}",
                joined(60, ", ", |at| format!("(SELECT max(a) FROM t WHERE a < {at})"))
            ),
            0,
        ),
        (
            "joins",
            format!(
                "SELECT count(*) FROM t t0 {}",
                joined(30, " ", |at| format!("JOIN t t{} ON t{}.a = t{at}.a", at + 1, at + 1))
            ),
            0,
        ),
        (
            "parts of WITH",
            format!(
                "WITH w0 AS (SELECT 1 AS n) {} SELECT * FROM w60",
                joined(60, " ", |at| format!(", w{} AS (SELECT n + 1 AS n FROM w{at})", at + 1))
            ),
            0,
        ),
        ("a text", format!("SELECT length('{}')", "x".repeat(2_000_000)), 0),
    ]
}

/// On a stack as the server's loops have it.
#[test]
fn are_planned_in_time_that_grows_with_their_length() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_stack_size(froglet_sql::STACK_BYTES)
        .enable_all()
        .build()
        .expect("threads start");
    runtime.block_on(async { tokio::spawn(all()).await.expect("no panic") });
}

async fn all() {
    let mut late = Vec::new();
    for (what, text, params) in statements() {
        let mut client = Client::connect(&database().await);
        client.ok("CREATE TABLE t (a int, b text, c date)").await;
        let began = Instant::now();
        let answer = match params {
            0 => client.run(&text).await.map(drop),
            _ => match client.prepare(&text).await {
                Ok(prepared) => {
                    assert_eq!(prepared.params().len(), params, "{what}");
                    let rows_of_three = params == 6_000;
                    let value =
                        |at: usize| if rows_of_three && at % 3 == 2 { "2024-01-01" } else { "7" };
                    let values: Vec<&str> = (0..params).map(value).collect();
                    client.execute(&prepared, &values).await.map(drop)
                }
                Err(e) => Err(e),
            },
        };
        let took = began.elapsed();
        eprintln!("{what}: {took:?}");
        if let Err(e) = answer {
            panic!("{what}: {} {}", e.state, e.message);
        }
        if took > PATIENCE {
            late.push(format!("{what}: {took:?}"));
        }
    }
    assert!(late.is_empty(), "{}", late.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_statements_of_one_text_are_split_in_one_pass() {
    let mut client = Client::connect(&database().await);
    let began = Instant::now();
    let text = joined(20_000, " ", |at| format!("SELECT {at};"));
    assert_eq!(client.session.split(&text).map(|all| all.len()).ok(), Some(20_000));
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
}
