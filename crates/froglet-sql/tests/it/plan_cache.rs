//! `froglet.plan_cache`, and running at once what it knows, change nothing that a client can see. Two
//! databases with the same contents are sent the same random texts, one with both and one without:
//! results, types, names, tags, notices, and all of an error must be the same, and the contents at
//! the end.

use std::sync::Arc;

use froglet_sql::{Field, Notice, Outcome, SqlError, TransactionStatus};
use froglet_testkit::mutate::Random;

use crate::support::{Answer, Client, database};

/// All that a client is told.
#[derive(Debug, PartialEq)]
struct Told {
    fields: Vec<Field>,
    answer: Result<Answer, String>,
    notices: Vec<String>,
}

/// How a statement came to its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Planned,
    Recalled,
    /// Recalled, and run at once.
    AtOnce,
}

/// A Query message, and the way its last statement went.
async fn tell(client: &mut Client, text: &str) -> (Told, Way) {
    let mut fields = Vec::new();
    let mut way = Way::Planned;
    let outcome = message(client, text, &mut fields, &mut way).await;
    let finished = client.session.finish_implicit(outcome.is_ok()).await;
    let answer = outcome.and_then(|answer| finished.map(|()| answer));
    let answer = answer.map_err(|e| format!("{e:?}"));
    let notice = |n: Notice| format!("{} {} {}", n.severity, n.state, n.message);
    let notices = client.session.take_notices().into_iter().map(notice).collect();
    (Told { fields, answer, notices }, way)
}

async fn message(
    client: &mut Client,
    text: &str,
    fields: &mut Vec<Field>,
    way: &mut Way,
) -> Result<Answer, SqlError> {
    let mut last = Answer::Done(String::new());
    if let Some((prepared, mut values)) = client.session.recall(text) {
        *way = Way::Recalled;
        let outcome = match client.session.run_at_once(&prepared, &mut values) {
            Some(outcome) => {
                *way = Way::AtOnce;
                outcome?
            }
            None => client.session.run(&prepared, values).await?,
        };
        return answer(client, outcome, fields).await;
    }
    let statements = match client.session.split(text) {
        Ok(statements) => statements,
        Err(e) => {
            client.session.note_failure();
            return Err(e);
        }
    };
    for statement in statements {
        let outcome = client.session.simple(&statement).await?;
        last = answer(client, outcome, fields).await?;
    }
    Ok(last)
}

async fn answer(
    client: &mut Client,
    outcome: Outcome,
    fields: &mut Vec<Field>,
) -> Result<Answer, SqlError> {
    match outcome {
        Outcome::Rows(stream) => {
            fields.extend_from_slice(stream.fields());
            client.drain(stream).await
        }
        Outcome::Done(tag) => Ok(Answer::Done(tag.into())),
        _ => Ok(Answer::Done(String::new())),
    }
}

/// The same client twice, with the cache and without.
struct Pair {
    cached: Client,
    plain: Client,
    /// They read, so that no row id is used again: when a deleted row's is depends on the clock, and
    /// on it the order of rows that no ORDER BY sorts.
    _readers: Vec<Client>,
    recalled: usize,
    at_once: usize,
}

impl Pair {
    async fn new() -> Pair {
        let (mut clients, mut readers) = (Vec::new(), Vec::new());
        for setting in ["on", "off"] {
            let db = database().await;
            let mut reader = Client::connect(&db);
            reader.ok("BEGIN ISOLATION LEVEL REPEATABLE READ").await;
            reader.ok("SELECT count(*) FROM pg_class").await;
            readers.push(reader);
            let mut client = Client::connect(&db);
            client.ok(&format!("SET froglet.plan_cache = {setting}")).await;
            clients.push(client);
        }
        let plain = clients.pop().expect("there are two");
        let cached = clients.pop().expect("there are two");
        Pair { cached, plain, _readers: readers, recalled: 0, at_once: 0 }
    }

    /// What both are told.
    async fn tell(&mut self, text: &str) -> Told {
        let (with, way) = tell(&mut self.cached, text).await;
        let (without, never) = tell(&mut self.plain, text).await;
        assert_eq!(never, Way::Planned, "the setting turns the cache off");
        let shown: String = text.chars().take(500).collect();
        assert_eq!(with, without, "{way:?}\n{shown}");
        assert_eq!(self.cached.session.status(), self.plain.session.status(), "{shown}");
        self.recalled += usize::from(way != Way::Planned);
        self.at_once += usize::from(way == Way::AtOnce);
        with
    }

    async fn ok(&mut self, text: &str) {
        let told = self.tell(text).await;
        assert!(told.answer.is_ok(), "{text}: {told:?}");
    }

    /// Sends texts until the last was recalled.
    async fn recall(&mut self, texts: &[&str]) -> Told {
        let before = self.recalled;
        let mut last = None;
        for text in texts {
            last = Some(self.tell(text).await);
        }
        assert!(self.recalled > before, "none was recalled: {texts:?}");
        last.expect("there are texts")
    }
}

const TABLE: &str = "CREATE TABLE t (id int PRIMARY KEY, s smallint, b bigint CHECK (b <> 13), \
    f double precision, n numeric(10, 2), v varchar(5), x text, c char(4), d date, ts timestamp, \
    tz timestamptz, u uuid, ok boolean, r real)";
const INDEXES: [&str; 6] = [
    "CREATE INDEX t_b ON t (b)",
    "CREATE INDEX t_x ON t (x)",
    "CREATE INDEX t_sb ON t (s, b DESC)",
    "CREATE INDEX t_v ON t (v)",
    "CREATE INDEX t_f ON t (f)",
    "CREATE UNIQUE INDEX t_n ON t (n)",
];

const TEMPLATES: &[&str] = &[
    "SELECT * FROM t WHERE id = {}",
    "select id, x from t where id={}",
    "SELECT id, b AS \"b 5\", {} FROM t WHERE id = {}",
    "SELECT b + {}, s * 2 FROM t WHERE id = {};",
    "SELECT id FROM t WHERE {} = id",
    "SELECT id FROM t AS q WHERE q.id = {} OR q.id = {}",
    "SELECT id, b FROM t WHERE b = {} ORDER BY id",
    "SELECT id, s, b FROM t WHERE s = {} AND b > {}",
    "SELECT id FROM t WHERE id IN ({}, {}, {})",
    "SELECT id FROM t WHERE id BETWEEN {} AND {} ORDER BY id",
    "SELECT id FROM t WHERE id NOT BETWEEN {} AND {} AND id > {}",
    "SELECT id FROM t WHERE id = {} AND NOT (b = {} OR b IS NULL)",
    "SELECT id, x FROM t WHERE x = {}",
    "SELECT id, v FROM t WHERE v = {} AND ok",
    "SELECT id, x FROM t WHERE x >= {} AND x < {} ORDER BY x, id LIMIT {}",
    "SELECT id FROM t WHERE id = {} AND x LIKE {}",
    "SELECT id FROM t WHERE id = {} AND id = {}",
    "SELECT id FROM t WHERE id = {} AND id = {} AND 10 / s > {}",
    "SELECT id, f FROM t WHERE f = {}",
    "SELECT id, f FROM t WHERE f > {} AND f <= {}",
    "SELECT id FROM t WHERE n = {}",
    "SELECT id FROM t WHERE id > {} AND n = {}",
    "SELECT id FROM t WHERE id = {} AND d = {}",
    "SELECT id FROM t WHERE id = {} AND c = {}",
    "SELECT id FROM t WHERE id = {} AND r = {}",
    "SELECT id FROM t WHERE id = {} AND ok = {}",
    "SELECT id FROM t WHERE id = {} AND u = {}",
    "SELECT id FROM t WHERE id = {} ORDER BY {}",
    "SELECT id FROM t WHERE id >= {} ORDER BY id LIMIT 3 OFFSET {}",
    "SELECT id FROM t WHERE id = {} FOR UPDATE",
    "SELECT id FROM t WHERE id = (SELECT {})",
    "SELECT count(*), {} FROM t WHERE id < {}",
    "SELECT {}",
    "SELECT nothing FROM t WHERE id = {}",
    "SELECT id FROM t WHERE x = {} AND nothing = {}",
    "SELECT * FROM missing WHERE id = {}",
    "SELECT id FROM t WHERE id = {} /* {} */",
    "SELECT id FROM t WHERE id = {}; SELECT id FROM t WHERE id = {}",
    "INSERT INTO t (id, s) VALUES ({}, {})",
    "INSERT INTO t VALUES ({}, {}, {}, {}, {}, {}, {})",
    "INSERT INTO t (id, b, f) VALUES ({}, {}, {}), ({}, {}, {}) RETURNING *",
    "INSERT INTO t (id, n, v, x) VALUES ({}, {}, {}, {})",
    "INSERT INTO t (id, c, d, ts) VALUES ({}, {}, {}, {})",
    "INSERT INTO t (id, tz, u, ok) VALUES ({}, {}, {}, {}) ON CONFLICT DO NOTHING",
    "INSERT INTO t (id, x) VALUES ({}, {}) ON CONFLICT (id) DO UPDATE SET x = excluded.x || {}",
    "INSERT INTO t (id, x, b) VALUES ({}, lower({}), {} + {}) RETURNING id, b + {}",
    "INSERT INTO t (id, s) SELECT {}, {}",
    "UPDATE t SET s = {} WHERE id = {}",
    "UPDATE t SET s = s + {} WHERE id = {}",
    "UPDATE t SET s = s -{}, b = {} WHERE id = {} RETURNING id, s, b",
    "UPDATE t SET b = b * {} + {} WHERE id = {}",
    "UPDATE t SET b = {} - (b + {}) WHERE s = {}",
    "UPDATE t SET b = id + {} WHERE id = {} AND b = {}",
    "UPDATE t SET b = {} + {} WHERE id = {}",
    "UPDATE t SET b = b / {} WHERE id = {}",
    "UPDATE t SET f = {}, n = n + {} WHERE id = {}",
    "UPDATE t SET v = {}, x = {} WHERE id = {}",
    "UPDATE t SET x = x || {} WHERE id = {}",
    "UPDATE t SET d = {}, ts = {} WHERE id = {}",
    "UPDATE t SET u = {}, ok = {}, c = {} WHERE id = {}",
    "UPDATE t SET tz = {}, r = {} WHERE id = {}",
    "UPDATE t SET (s, b) = ({}, {}) WHERE id = {}",
    "UPDATE t SET id = {} WHERE id = {}",
    "UPDATE t SET nothing = {} WHERE id = {}",
    "DELETE FROM t WHERE id = {}",
    "DELETE FROM t WHERE x = {} AND id > {}",
    "DELETE FROM t WHERE b > {} AND b < {}",
];

const NUMBERS: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "5",
    "7",
    "13",
    "007",
    "127",
    "32767",
    "32768",
    "2147483647",
    "2147483648",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "99999999999999999999999999",
];
const STRINGS: &[&str] = &[
    "''",
    "'x'",
    "'abc'",
    "'it''s'",
    "''''",
    "'5'",
    "' 5 '",
    "'abc  '",
    "'abcdefgh'",
    "'NaN'",
    "'t'",
    "'ünï'",
    "'-7'",
    "'2020-01-01'",
    "'2020-02-30'",
    "'2020-01-01 10:00:00'",
    "'infinity'",
    "'%'",
    "'2020-01-01 10:00:00+02'",
    "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",
    "'NULL'",
    "'today'",
];
const OTHERS: &[&str] = &[
    "NULL",
    "TRUE",
    "false",
    "1.5",
    "-0.5",
    "100.00",
    "1e3",
    "1.5e300",
    "E'x'",
    "$$x$$",
    "5::bigint",
    "'5'::int",
    "(5)",
    "- 5",
    "+5",
    "- -5",
    "5+6",
    "DATE '2020-01-01'",
    "DEFAULT",
    "id",
    "x",
    "CURRENT_DATE",
    "'x' 'y'",
    "INTERVAL '1 day'",
    "1.",
    ".5",
    "1..2",
    "$1",
    "\"x\"",
    "5 -- five\n",
    "0x1f",
    "'x",
];

/// A literal of a kind; most of a kind have one class.
fn literal(random: &mut Random, kind: usize) -> String {
    match kind {
        0..6 => random.below(40).to_string(),
        6..8 => format!("-{}", random.below(40)),
        8..10 => (*random.pick(NUMBERS)).to_owned(),
        10 => format!("-{}", random.pick(NUMBERS)),
        11..13 => format!("'{}'", random.below(20)),
        13..16 => (*random.pick(STRINGS)).to_owned(),
        16 if random.below(4) == 0 => format!("'{}'", "long ''".repeat(2000)),
        16 => format!("'{}'", random.next_u64() as i64),
        _ => (*random.pick(OTHERS)).to_owned(),
    }
}

const KINDS: usize = 20;

/// A statement of a client that sends it again and again with other literals of the same kinds.
struct Habit {
    template: &'static str,
    kinds: Vec<usize>,
}

impl Habit {
    fn new(random: &mut Random) -> Habit {
        let template = TEMPLATES[random.below(TEMPLATES.len())];
        let holes = template.matches("{}").count();
        Habit { template, kinds: (0..holes).map(|_| random.below(KINDS)).collect() }
    }

    fn statement(&self, random: &mut Random) -> String {
        let mut parts = self.template.split("{}");
        let mut text = parts.next().expect("a template is not empty").to_owned();
        for (part, kind) in parts.zip(&self.kinds) {
            // Now and then something that does not belong there.
            let kind = if random.below(30) == 0 { random.below(KINDS) } else { *kind };
            text.push_str(&literal(random, kind));
            text.push_str(part);
        }
        text
    }
}

/// What comes between statements: transactions, settings, schema changes.
const EVENTS: &[&str] = &[
    "BEGIN",
    "BEGIN ISOLATION LEVEL REPEATABLE READ",
    "BEGIN READ ONLY",
    "COMMIT",
    "COMMIT",
    "ROLLBACK",
    "SAVEPOINT a",
    "ROLLBACK TO a",
    "SET timezone = 'Europe/Berlin'",
    "SET LOCAL timezone = 'Asia/Tokyo'",
    "RESET timezone",
    "SET search_path = nowhere",
    "SET search_path = public",
    "SET search_path = public",
    "SET froglet.fast_path = off",
    "SET froglet.fast_path = on",
    "SET froglet.fast_path = on",
    "ALTER TABLE t ADD COLUMN extra int DEFAULT 5",
    "ALTER TABLE t DROP COLUMN IF EXISTS extra",
    "ALTER TABLE t ALTER COLUMN s TYPE int",
    "ALTER TABLE t ALTER COLUMN s TYPE smallint",
    "ALTER TABLE t ALTER COLUMN x TYPE varchar(10)",
    "ALTER TABLE t ALTER COLUMN x TYPE text",
    "DROP INDEX IF EXISTS t_b",
    "CREATE INDEX IF NOT EXISTS t_b ON t (b)",
    "DISCARD PLANS",
];

#[tokio::test(flavor = "multi_thread")]
async fn with_and_without_the_cache_a_client_is_told_the_same() {
    let mut random = Random(froglet_testkit::seed());
    let rounds = if froglet_testkit::is_long() { 100_000 } else { 4_000 };
    let mut pair = Pair::new().await;
    pair.ok(TABLE).await;
    for index in INDEXES {
        pair.ok(index).await;
    }
    for id in 0..40 {
        let (s, b) = (id % 5, id % 7);
        pair.ok(&format!("INSERT INTO t (id, s, b, f, x) VALUES ({id}, {s}, {b}, {b}, '{s}')"))
            .await;
    }
    let mut failed = 0;
    let mut habits: Vec<Habit> = (0..4).map(|_| Habit::new(&mut random)).collect();
    for round in 0..rounds {
        if round % 15 == 0 {
            habits.remove(0);
            habits.push(Habit::new(&mut random));
        }
        let text = match random.below(50) {
            0 => (*random.pick(EVENTS)).to_owned(),
            _ => habits[random.below(habits.len())].statement(&mut random),
        };
        failed += usize::from(pair.tell(&text).await.answer.is_err());
        // Nothing is learnt in a failed transaction, nor where no table is found.
        if pair.cached.session.status() == TransactionStatus::Failed && random.below(3) == 0 {
            pair.tell("ROLLBACK").await;
        }
        if round % 40 == 0 {
            pair.tell("COMMIT").await;
            pair.ok("SET search_path = public").await;
            pair.ok("SET froglet.fast_path = on").await;
        }
    }
    pair.tell("ROLLBACK").await;
    pair.ok("RESET ALL").await;
    pair.ok("SET timezone = 'UTC'").await;
    let contents = "SELECT * FROM t ORDER BY id";
    let (with, without) = (pair.cached.lines(contents).await, pair.plain.lines(contents).await);
    assert_eq!(with, without, "the contents");
    let Pair { recalled, at_once, .. } = pair;
    assert!(at_once > rounds / 20, "{at_once} of {rounds} at once");
    assert!(recalled > rounds / 20, "{recalled} of {rounds} recalled");
    assert!(failed > rounds / 10 && failed < rounds, "{failed} of {rounds} failed");
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_of_pgbench_are_recalled_at_third_sight() {
    let mut pair = Pair::new().await;
    pair.ok("CREATE TABLE a (aid int PRIMARY KEY, bal int)").await;
    pair.ok("CREATE TABLE h (tid int, bid int, aid int, delta int, mtime timestamp)").await;
    pair.ok("INSERT INTO a VALUES (1, 10), (2, 20), (300, 30)").await;
    let cases = [
        [
            "SELECT bal FROM a WHERE aid = 1;",
            "SELECT bal FROM a WHERE aid = 2;",
            "SELECT bal FROM a WHERE aid = 300;",
        ],
        [
            "UPDATE a SET bal = bal + -3456 WHERE aid = 1;",
            "UPDATE a SET bal = bal + -1 WHERE aid = 2;",
            "UPDATE a SET bal = bal + -99 WHERE aid = 300;",
        ],
        [
            "INSERT INTO h (tid, bid, aid, delta, mtime) VALUES (1, 2, 3, -4, CURRENT_TIMESTAMP);",
            "INSERT INTO h (tid, bid, aid, delta, mtime) VALUES (5, 6, 7, -8, CURRENT_TIMESTAMP);",
            "INSERT INTO h (tid, bid, aid, delta, mtime) VALUES (9, 8, 7, -6, CURRENT_TIMESTAMP);",
        ],
    ];
    for texts in &cases {
        let told = pair.recall(texts).await;
        assert!(told.answer.is_ok(), "{told:?}");
    }
    pair.ok("SELECT * FROM a ORDER BY aid").await;
    pair.ok("SELECT tid, bid, aid, delta FROM h ORDER BY tid").await;
}

/// The same text again is what the client has now, not what it had when the plan was made.
#[tokio::test(flavor = "multi_thread")]
async fn a_schema_change_is_seen_at_once() {
    let mut pair = Pair::new().await;
    pair.ok("CREATE TABLE t (id int PRIMARY KEY, v smallint)").await;
    pair.ok("INSERT INTO t VALUES (1, 1), (2, 2)").await;
    let update = [
        "UPDATE t SET v = 7 WHERE id = 1",
        "UPDATE t SET v = 8 WHERE id = 2",
        "UPDATE t SET v = 9 WHERE id = 1",
    ];
    pair.recall(&update).await;
    let select = [
        "SELECT * FROM t WHERE id = 1",
        "SELECT * FROM t WHERE id = 2",
        "SELECT * FROM t WHERE id = 1",
    ];
    pair.recall(&select).await;
    let changes = [
        "ALTER TABLE t ALTER COLUMN v TYPE text",
        "ALTER TABLE t RENAME COLUMN v TO w",
        "ALTER TABLE t ADD COLUMN v numeric(4, 1)",
        "DROP TABLE t",
        "CREATE TABLE t (id text PRIMARY KEY, v text)",
    ];
    for change in changes {
        pair.ok(change).await;
        for _ in 0..4 {
            pair.tell(update[0]).await;
            pair.tell(select[0]).await;
        }
    }
}

/// What other sessions see of a statement, and where its error points to, is its own text.
#[tokio::test(flavor = "multi_thread")]
async fn a_recalled_statement_shows_its_own_text() {
    let mut pair = Pair::new().await;
    pair.ok("CREATE TABLE t (id int PRIMARY KEY, q text)").await;
    let insert = |n: usize| format!("INSERT INTO t VALUES ({n}, 'x')");
    for n in 1..5 {
        pair.ok(&insert(n)).await;
    }
    assert!(pair.recalled > 0);
    let mut other = Client::connect(&Arc::clone(pair.cached.session.database()));
    let pid = pair.cached.session.pid();
    let seen = other.lines(&format!("SELECT query FROM pg_stat_activity WHERE pid = {pid}")).await;
    assert_eq!(seen, [insert(4)]);
    let told = pair.tell(&insert(4)).await;
    assert!(told.answer.is_err(), "{told:?}");
}

/// A range that grows beyond a lookup is answered by the analytical planner, from the text.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_range_is_planned_as_it_is_written() {
    let mut pair = Pair::new().await;
    pair.ok("CREATE TABLE t (id int PRIMARY KEY, v int)").await;
    pair.ok("INSERT INTO t SELECT n, n % 10 FROM generate_series(1, 20000) AS n").await;
    let ranges = [
        "SELECT id, v FROM t WHERE id > 19990 AND v = 3",
        "SELECT id, v FROM t WHERE id > 19980 AND v = 4",
        "SELECT id, v FROM t WHERE id > 10 AND v = 5",
    ];
    let told = pair.recall(&ranges).await;
    assert_eq!(told.answer.map(|answer| answer.rows().len()), Ok(1999));
}

/// Not even the time at which a statement was planned stays in its plan.
#[tokio::test(flavor = "multi_thread")]
async fn a_moment_is_the_moment_of_the_statement() {
    let mut client = Client::connect(&database().await);
    client.ok("CREATE TABLE t (id int PRIMARY KEY, at timestamptz)").await;
    for id in 0..5 {
        client.ok(&format!("INSERT INTO t VALUES ({id}, 'now')")).await;
        client.ok(&format!("INSERT INTO t VALUES ({}, 'now'::timestamptz)", id + 100)).await;
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    let mut same = Vec::new();
    for _ in 0..4 {
        same.extend(client.rows("SELECT ' now '::timestamptz").await);
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    assert!(same.windows(2).all(|pair| pair[0] != pair[1]), "{same:?}");
    let times = client.rows("SELECT count(DISTINCT at) > 8 FROM t").await;
    assert_eq!(times, [[Some("t".to_owned())]]);
}
