//! Simple and extended queries, types, transactions, errors.

use tokio_postgres::types::Type;

use crate::support::{code, kinds, rows, start, start_with};

#[tokio::test]
async fn several_statements_in_one_message_are_one_transaction() {
    let server = start().await;
    let client = server.connect().await;
    let sql = "CREATE TABLE t (id int PRIMARY KEY, name text);\
               INSERT INTO t VALUES (1, 'one'), (2, NULL); SELECT * FROM t ORDER BY id";
    let messages = client.simple_query(sql).await.expect("runs");
    assert_eq!(rows(&messages), ["1|one", "2|NULL"]);

    let failing = "INSERT INTO t VALUES (3, 'three'); INSERT INTO t VALUES (1, 'again')";
    assert_eq!(code(client.simple_query(failing).await), "23505");
    let messages = client.simple_query("SELECT count(*) FROM t").await.expect("runs");
    assert_eq!(rows(&messages), ["2"]);

    let mut raw = server.raw().await;
    let messages = raw.query("  ; ").await;
    assert_eq!(kinds(&messages), "IZ");
    let messages = raw.query("SELECT 1; SELECT 'a' AS x; CREATE TABLE u (i int)").await;
    assert_eq!(kinds(&messages), "TDCTDCCZ");
    assert_eq!(messages[2].text(), "SELECT 1");
    assert_eq!(messages[6].text(), "CREATE TABLE");
}

#[tokio::test]
async fn parameters_and_results_in_binary() {
    let server = start().await;
    let client = server.connect().await;
    let create = "CREATE TABLE v (b bool, i2 int2, i4 int4, i8 int8, f4 float4, f8 float8, \
                  t text, y bytea, d text)";
    client.batch_execute(create).await.expect("runs");
    let insert = "INSERT INTO v VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING *";
    let bytes: &[u8] = &[0, 1, 255];
    let row = client
        .query_one(
            insert,
            &[
                &true,
                &-2i16,
                &4i32,
                &i64::MIN,
                &1.5f32,
                &-0.25f64,
                &"žluťoučký",
                &bytes,
                &None::<String>,
            ],
        )
        .await
        .expect("runs");
    assert!(row.get::<_, bool>("b"));
    assert_eq!(row.get::<_, i16>("i2"), -2);
    assert_eq!(row.get::<_, i32>("i4"), 4);
    assert_eq!(row.get::<_, i64>("i8"), i64::MIN);
    assert_eq!(row.get::<_, f32>("f4"), 1.5);
    assert_eq!(row.get::<_, f64>("f8"), -0.25);
    assert_eq!(row.get::<_, &str>("t"), "žluťoučký");
    assert_eq!(row.get::<_, &[u8]>("y"), bytes);
    assert_eq!(row.get::<_, Option<&str>>("d"), None);

    let statement = client.prepare("SELECT i8, t FROM v WHERE i4 = $1").await.expect("prepares");
    assert_eq!(statement.params(), [Type::INT4]);
    let columns: Vec<_> = statement.columns().iter().map(|c| (c.name(), c.type_())).collect();
    assert_eq!(columns, [("i8", &Type::INT8), ("t", &Type::TEXT)]);
    for _ in 0..3 {
        let found = client.query(&statement, &[&4i32]).await.expect("runs");
        assert_eq!(found.len(), 1);
    }
    assert!(client.query(&statement, &[&5i32]).await.expect("runs").is_empty());
}

#[tokio::test]
async fn portals_are_read_in_pieces() {
    let server = start().await;
    let mut client = server.connect().await;
    client.batch_execute("CREATE TABLE n (i int PRIMARY KEY)").await.expect("runs");
    for i in 0..10 {
        client.execute("INSERT INTO n VALUES ($1)", &[&i]).await.expect("runs");
    }
    let transaction = client.transaction().await.expect("begins");
    let portal = transaction.bind("SELECT i FROM n ORDER BY i", &[]).await.expect("binds");
    let other = transaction.bind("SELECT i FROM n ORDER BY i DESC", &[]).await.expect("binds");
    let mut got: Vec<Vec<i32>> = Vec::new();
    for (portal, rows) in [(&portal, 4), (&other, 1), (&portal, 4), (&portal, 4), (&portal, 4)] {
        let piece = transaction.query_portal(portal, rows).await.expect("fetches");
        got.push(piece.iter().map(|row| row.get(0)).collect());
    }
    assert_eq!(got, [&[0, 1, 2, 3][..], &[9], &[4, 5, 6, 7], &[8, 9], &[]]);
    transaction.commit().await.expect("commits");
}

#[tokio::test]
async fn transactions_commit_roll_back_and_say_so() {
    let server = start().await;
    let mut raw = server.raw().await;
    let status =
        |messages: &[crate::support::Message]| messages.last().expect("ReadyForQuery").body[0];
    raw.query("CREATE TABLE t (id int PRIMARY KEY)").await;
    assert_eq!(status(&raw.query("BEGIN").await), b'T');
    assert_eq!(status(&raw.query("INSERT INTO t VALUES (1)").await), b'T');
    let failed = raw.query("SELECT 1/0").await;
    let error = failed.iter().find(|m| m.kind == b'E').expect("an error");
    assert_eq!((error.code(), status(&failed)), ("22012", b'E'));
    let refused = raw.query("SELECT 1").await;
    assert_eq!((refused[0].code(), status(&refused)), ("25P02", b'E'));
    let rolled_back = raw.query("COMMIT").await;
    assert_eq!((rolled_back[0].text(), status(&rolled_back)), ("ROLLBACK", b'I'));
    let messages = raw.query("BEGIN; INSERT INTO t VALUES (2); COMMIT").await;
    assert_eq!((kinds(&messages).as_str(), status(&messages)), ("CCCZ", b'I'));
    let messages = raw.query("SELECT id FROM t").await;
    assert_eq!(kinds(&messages), "TDCZ");
    assert_eq!(&messages[1].body, b"\0\x01\0\0\0\x012");
    let warned = raw.query("ROLLBACK").await;
    assert_eq!(kinds(&warned), "NCZ");
    assert_eq!((warned[0].code(), warned[0].field(b'S')), ("25P01", Some("WARNING")));
}

#[tokio::test]
async fn errors_have_their_fields() {
    let server = start().await;
    let client = server.connect().await;
    let create = "CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL CHECK (n > 0))";
    client.batch_execute(create).await.expect("runs");
    client.execute("INSERT INTO t VALUES (1, 1)", &[]).await.expect("runs");
    let error = |e: tokio_postgres::Error| e.as_db_error().expect("the server's").clone();

    let duplicate = client.execute("INSERT INTO t VALUES (1, 2)", &[]).await;
    let duplicate = error(duplicate.expect_err("a duplicate"));
    assert_eq!(duplicate.code().code(), "23505");
    assert_eq!(duplicate.severity(), "ERROR");
    assert_eq!(duplicate.constraint(), Some("t_pkey"));
    assert_eq!(duplicate.table(), Some("t"));
    assert_eq!(duplicate.schema(), Some("public"));
    assert_eq!(duplicate.detail(), Some("Key (id)=(1) already exists."));

    let null = client.execute("INSERT INTO t VALUES (2, NULL)", &[]).await;
    let null = error(null.expect_err("a NULL"));
    assert_eq!((null.code().code(), null.column()), ("23502", Some("n")));
    let check = client.execute("INSERT INTO t VALUES (2, 0)", &[]).await;
    let check = error(check.expect_err("a violation"));
    assert_eq!((check.code().code(), check.constraint()), ("23514", Some("t_n_check")));

    let unknown = error(client.prepare("SELECT nope FROM t").await.expect_err("no such column"));
    assert_eq!(unknown.code().code(), "42703");
    let position = tokio_postgres::error::ErrorPosition::Original(8);
    assert_eq!(unknown.position(), Some(&position));
    assert_eq!(code(client.prepare("SELEC 1").await), "42601");
    assert_eq!(code(client.prepare("SELECT 1; SELECT 2").await), "42601");
    assert_eq!(code(client.prepare("SELECT * FROM nowhere").await), "42P01");
}

#[tokio::test]
async fn settings_come_from_the_configuration_and_the_connection() {
    let server = start_with(|config| {
        let setting = |name: &str, value: &str| froglet_server::config::Setting {
            name: name.to_owned(),
            value: value.to_owned(),
            place: "test".to_owned(),
        };
        config.settings = vec![setting("lock_timeout", "4s"), setting("statement_timeout", "9s")];
    })
    .await;
    let client = server
        .connect_with(|c| {
            c.options("-c lock_timeout=123ms --application_name=two\\ words");
        })
        .await
        .expect("connects");
    for (name, value) in
        [("lock_timeout", "123ms"), ("statement_timeout", "9s"), ("application_name", "two words")]
    {
        let shown = client.simple_query(&format!("SHOW {name}")).await.expect("runs");
        assert_eq!(rows(&shown), [value], "{name}");
    }
    let refused = server.connect_with(|c| {
        c.options("-c no_such_setting=1");
    });
    assert_eq!(code(refused.await.map(drop)), "42704");

    let mut raw = server.raw().await;
    let changed = raw.query("SET application_name = 'renamed'").await;
    assert_eq!(kinds(&changed), "CSZ");
    assert_eq!(changed[1].body, b"application_name\0renamed\0");
}

#[tokio::test]
async fn notices_come_before_the_tag() {
    let server = start().await;
    let mut raw = server.raw().await;
    let messages = raw.query("DROP TABLE IF EXISTS nowhere").await;
    assert_eq!(kinds(&messages), "NCZ");
    assert_eq!(messages[0].field(b'S'), Some("NOTICE"));
    assert_eq!(messages[0].code(), "00000");
}
