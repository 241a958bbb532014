//! tokio-postgres: its ways to send a query, types in the binary format, COPY, portals, pipelines, what it looks up.

use std::error::Error;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures_util::future::{join_all, poll_fn, try_join3};
use futures_util::{SinkExt, StreamExt, TryStreamExt};
use rust_decimal::Decimal;
use serde_json::{Value, json};
use tokio_postgres::binary_copy::{BinaryCopyInWriter, BinaryCopyOutStream};
use tokio_postgres::types::{FromSql, Kind, ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, IsolationLevel, NoTls, SimpleQueryMessage, connect};

use crate::driver_types::Raw;
use crate::{Fails, checks, same};

checks! {
    row_names typed_parameters query_raw query_typed portals pipeline errors error_fields
    simple_query batch_execute transactions savepoints dropped_transaction serializable read_only
    copy_in copy_out copy_binary_in copy_binary_out copy_in_aborted
    cancel notifications notices enums enum_arrays domains composites describe parameters_of_the_server
    wrong_parameters statement_after_ddl many_statements closed_statements big_values
}

pub(crate) async fn open(url: &str) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// The SQLSTATE of what must have failed at the server.
fn code<T>(outcome: Result<T, tokio_postgres::Error>) -> String {
    match outcome {
        Ok(_) => "no error".to_owned(),
        Err(e) => e.code().map_or(format!("{e}"), |code| code.code().to_owned()),
    }
}

async fn row_names(url: String) -> Fails {
    let client = open(&url).await?;
    let row = client.query_one("select 1 as id, 'x'::text as \"Name\", now(), 1 + 1", &[]).await?;
    let names: Vec<&str> = row.columns().iter().map(|column| column.name()).collect();
    same!(vec!["id", "Name", "now", "?column?"], names);
    same!(
        vec![&Type::INT4, &Type::TEXT, &Type::TIMESTAMPTZ, &Type::INT4],
        row.columns().iter().map(|column| column.type_()).collect::<Vec<_>>()
    );
    same!("x", row.get::<_, &str>("Name"));
    same!(true, client.query_opt("select 1 where false", &[]).await?.is_none());
    same!(true, client.query_one("select 1 where false", &[]).await.is_err());
    Ok(())
}

async fn typed_parameters(url: String) -> Fails {
    let client = open(&url).await?;
    let statement = client.prepare_typed("select $1, $2 + 1", &[Type::TEXT, Type::INT8]).await?;
    same!(&[Type::TEXT, Type::INT8], statement.params());
    let row = client.query_one(&statement, &[&"x", &41i64]).await?;
    same!(("x".to_owned(), 42i64), (row.get(0), row.get(1)));
    Ok(())
}

async fn query_raw(url: String) -> Fails {
    let client = open(&url).await?;
    let mut rows = pin!(client.query_raw("select generate_series(1, $1::int)", [10_000i32]).await?);
    let (mut count, mut sum) = (0, 0i64);
    while let Some(row) = rows.try_next().await? {
        count += 1;
        sum += i64::from(row.get::<_, i32>(0));
    }
    same!((10_000, 50_005_000), (count, sum));
    same!(Some(10_000), rows.rows_affected());
    // One that is not read to its end leaves the connection usable.
    let rows = client.query_raw("select generate_series(1, 100000)", Vec::<i32>::new()).await?;
    drop(rows);
    same!(1, client.query_one("select 1", &[]).await?.get::<_, i32>(0));
    Ok(())
}

/// One round trip: the statement is unnamed, and the parameters' types are the client's.
async fn query_typed(url: String) -> Fails {
    let client = open(&url).await?;
    client.batch_execute("create table t (id int primary key, s text)").await?;
    let insert = "insert into t values ($1, $2) returning id";
    let rows = client.query_typed(insert, &[(&7, Type::INT4), (&"seven", Type::TEXT)]).await?;
    same!(7, rows[0].get::<_, i32>(0));
    let rows = client.query_typed("select s from t where id = $1", &[(&7, Type::INT4)]).await?;
    same!("seven", rows[0].get::<_, &str>(0));
    Ok(())
}

async fn portals(url: String) -> Fails {
    let mut client = open(&url).await?;
    let transaction = client.transaction().await?;
    let portal = transaction.bind("select generate_series(1, $1::int)", &[&10]).await?;
    let mut sizes = Vec::new();
    for _ in 0..4 {
        sizes.push(transaction.query_portal(&portal, 3).await?.len());
    }
    same!(vec![3, 3, 3, 1], sizes);
    same!(0, transaction.query_portal(&portal, 3).await?.len());
    let other = transaction.bind("select 1", &[]).await?;
    same!(1, transaction.query_portal(&other, 0).await?.len());
    transaction.commit().await?;
    Ok(())
}

async fn pipeline(url: String) -> Fails {
    let client = open(&url).await?;
    client.batch_execute("create table t (id int primary key)").await?;
    let (insert, count) = (
        client.prepare("insert into t values ($1)").await?,
        client.prepare("select count(*) from t").await?,
    );
    let ids: Vec<i32> = (0..200).collect();
    let counts = join_all(ids.iter().map(|id| client.execute_raw(&insert, [*id]))).await;
    same!(200, counts.into_iter().filter(|count| matches!(count, Ok(1))).count());
    same!(200i64, client.query_one(&count, &[]).await?.get::<_, i64>(0));
    // An error ends its own statement only: each has a Sync of its own.
    let (first, second, third) = tokio::join!(
        client.execute(&insert, &[&1000]),
        client.execute(&insert, &[&1]),
        client.execute(&insert, &[&1001])
    );
    same!((1, "23505".to_owned(), 1), (first?, code(second), third?));
    let (a, b, c) = try_join3(
        client.prepare("select 1"),
        client.prepare("select 2"),
        client.prepare("select 3"),
    )
    .await?;
    let all =
        try_join3(client.query_one(&a, &[]), client.query_one(&b, &[]), client.query_one(&c, &[]))
            .await?;
    same!((1, 2, 3), (all.0.get(0), all.1.get(0), all.2.get(0)));
    Ok(())
}

async fn errors(url: String) -> Fails {
    let client = open(&url).await?;
    client
        .batch_execute("create table t (id int primary key check (id > 0), v int not null)")
        .await?;
    client
        .batch_execute("create table u (id int references t); insert into t values (1, 1)")
        .await?;
    for (sql, expected) in [
        ("insert into t values (1, 1)", "23505"),
        ("insert into t values (0, 1)", "23514"),
        ("insert into t values (2, null)", "23502"),
        ("insert into u values (9)", "23503"),
        ("delete from t; select nothing", "42601"),
        ("selec", "42601"),
        ("select * from missing", "42P01"),
        ("select missing from t", "42703"),
        ("select missing()", "42883"),
        ("select 1 / (id - 1) from t", "22012"),
        ("select 'x'::int", "22P02"),
        ("select 2147483647 + id from t", "22003"),
        ("create table t ()", "42P07"),
        ("drop table missing", "42P01"),
        ("select $1::int + $3", "42P18"),
    ] {
        same!((sql, expected.to_owned()), (sql, code(client.query(sql, &[]).await)));
    }
    same!("22012", code(client.query("select 1 / $1::int", &[&0]).await));
    same!(1, client.query_one("select 1", &[]).await?.get::<_, i32>(0));
    Ok(())
}

async fn error_fields(url: String) -> Fails {
    let client = open(&url).await?;
    client
        .batch_execute(
            "create table t (id int constraint key primary key); insert into t values (1)",
        )
        .await?;
    let error = client.execute("insert into t values ($1)", &[&1]).await.err().ok_or("no error")?;
    let error = error.as_db_error().ok_or("no error of the server's")?;
    same!("ERROR", error.severity());
    same!("duplicate key value violates unique constraint \"key\"", error.message());
    same!(Some("Key (id)=(1) already exists."), error.detail());
    same!(
        (Some("public"), Some("t"), Some("key")),
        (error.schema(), error.table(), error.constraint())
    );
    let error = client.query("select 1, missing", &[]).await.err().ok_or("no error")?;
    let at = error.as_db_error().and_then(|error| error.position()).ok_or("no position")?;
    same!(tokio_postgres::error::ErrorPosition::Original(11), *at);
    Ok(())
}

async fn simple_query(url: String) -> Fails {
    let client = open(&url).await?;
    let messages = client
        .simple_query("create table t (id int, s text); insert into t values (1, null), (2, 'x'); select * from t order by id; update t set s = 'y'")
        .await?;
    let mut said = Vec::new();
    for message in &messages {
        said.push(match message {
            SimpleQueryMessage::Row(row) => format!("{:?} {:?}", row.get("id"), row.get(1)),
            SimpleQueryMessage::CommandComplete(rows) => format!("{rows} rows"),
            SimpleQueryMessage::RowDescription(columns) => format!("{} columns", columns.len()),
            _ => "else".to_owned(),
        });
    }
    same!(
        vec![
            "0 rows",
            "2 rows",
            "2 columns",
            "Some(\"1\") None",
            "Some(\"2\") Some(\"x\")",
            "2 rows",
            "2 rows"
        ],
        said
    );
    same!(0, client.simple_query("").await?.len().saturating_sub(1));
    same!("22012", code(client.simple_query("insert into t values (3); select 1 / 0").await));
    same!(2i64, client.query_one("select count(*) from t", &[]).await?.get::<_, i64>(0));
    Ok(())
}

async fn batch_execute(url: String) -> Fails {
    let client = open(&url).await?;
    client
        .batch_execute("begin; create table t (id int); insert into t values (1); commit; -- end\n")
        .await?;
    client.batch_execute("do $$ begin null; end $$").await.or_else(|e| {
        // Froglet has no PL/pgSQL: it says so.
        if e.code().is_some_and(|code| code.code() == "0A000") { Ok(()) } else { Err(e) }
    })?;
    same!(1i64, client.query_one("select count(*) from t", &[]).await?.get::<_, i64>(0));
    client.check_connection().await?;
    Ok(())
}

async fn transactions(url: String) -> Fails {
    let mut client = open(&url).await?;
    client.batch_execute("create table t (id int primary key)").await?;
    let transaction = client.transaction().await?;
    transaction.execute("insert into t values (1)", &[]).await?;
    transaction.commit().await?;
    let transaction = client.transaction().await?;
    transaction.execute("insert into t values (2)", &[]).await?;
    transaction.rollback().await?;
    let transaction = client.transaction().await?;
    same!("23505", code(transaction.execute("insert into t values (1)", &[]).await));
    same!("25P02", code(transaction.query("select 1", &[]).await));
    transaction.commit().await?;
    same!(1i64, client.query_one("select count(*) from t", &[]).await?.get::<_, i64>(0));
    Ok(())
}

async fn savepoints(url: String) -> Fails {
    let mut client = open(&url).await?;
    client.batch_execute("create table t (id int primary key)").await?;
    let mut outer = client.transaction().await?;
    outer.execute("insert into t values (1)", &[]).await?;
    let inner = outer.transaction().await?;
    same!("23505", code(inner.execute("insert into t values (1)", &[]).await));
    inner.rollback().await?;
    let mut named = outer.savepoint("here").await?;
    named.execute("insert into t values (2)", &[]).await?;
    let deepest = named.savepoint("deeper").await?;
    deepest.execute("insert into t values (3)", &[]).await?;
    drop(deepest);
    named.commit().await?;
    outer.commit().await?;
    let rows = client.query("select id from t order by id", &[]).await?;
    same!(vec![1, 2], rows.iter().map(|row| row.get(0)).collect::<Vec<i32>>());
    Ok(())
}

async fn dropped_transaction(url: String) -> Fails {
    let mut client = open(&url).await?;
    client.batch_execute("create table t (id int)").await?;
    let transaction = client.transaction().await?;
    transaction.execute("insert into t values (1)", &[]).await?;
    drop(transaction);
    same!(0i64, client.query_one("select count(*) from t", &[]).await?.get::<_, i64>(0));
    Ok(())
}

async fn serializable(url: String) -> Fails {
    let (mut client, mut other) = (open(&url).await?, open(&url).await?);
    client
        .batch_execute(
            "create table t (id int primary key, v int); insert into t values (1, 0), (2, 0)",
        )
        .await?;
    let one =
        client.build_transaction().isolation_level(IsolationLevel::Serializable).start().await?;
    let two =
        other.build_transaction().isolation_level(IsolationLevel::Serializable).start().await?;
    for transaction in [&one, &two] {
        transaction.query_one("select sum(v) from t", &[]).await?;
    }
    one.execute("update t set v = 1 where id = 1", &[]).await?;
    let written = two.execute("update t set v = 1 where id = 2", &[]).await;
    let first = one.commit().await;
    let second = match written {
        Ok(_) => two.commit().await,
        Err(e) => Err(e),
    };
    let refused: Vec<String> =
        [first, second].into_iter().filter(Result::is_err).map(code).collect();
    same!(vec!["40001".to_owned()], refused);
    Ok(())
}

async fn read_only(url: String) -> Fails {
    let mut client = open(&url).await?;
    client.batch_execute("create table t (id int)").await?;
    let transaction = client
        .build_transaction()
        .isolation_level(IsolationLevel::RepeatableRead)
        .read_only(true)
        .deferrable(false)
        .start()
        .await?;
    same!("25006", code(transaction.execute("insert into t values (1)", &[]).await));
    Ok(())
}

async fn copy_in(url: String) -> Fails {
    let client = open(&url).await?;
    client.batch_execute("create table t (id int primary key, s text)").await?;
    let mut sink = pin!(client.copy_in("copy t from stdin").await?);
    for i in 0..1000 {
        sink.send(Bytes::from(format!("{i}\ts{i}\n"))).await?;
    }
    same!(1000, sink.finish().await?);
    let mut sink = pin!(client.copy_in("copy t (id) from stdin").await?);
    sink.send(Bytes::from_static(b"5000\n1\n")).await?;
    same!("23505", code(sink.finish().await));
    let mut sink = pin!(client.copy_in("copy t from stdin (format csv, header)").await?);
    sink.send(Bytes::from_static(b"id,s\n2000,\"a, b\"\n")).await?;
    same!(1, sink.finish().await?);
    let row =
        client.query_one("select count(*), max(s) filter (where id = 2000) from t", &[]).await?;
    same!((1001i64, "a, b"), (row.get(0), row.get::<_, &str>(1)));
    Ok(())
}

/// A COPY that the client gives up leaves nothing, and the connection usable.
async fn copy_in_aborted(url: String) -> Fails {
    let client = open(&url).await?;
    client.batch_execute("create table t (id int)").await?;
    {
        let mut sink = Box::pin(client.copy_in::<_, Bytes>("copy t from stdin").await?);
        sink.send(Bytes::from_static(b"1\n2\n")).await?;
    }
    same!(0i64, client.query_one("select count(*) from t", &[]).await?.get::<_, i64>(0));
    Ok(())
}

async fn copy_out(url: String) -> Fails {
    let client = open(&url).await?;
    let stream = client
        .copy_out("copy (select i, 'a' || i, null from generate_series(1, 3) i) to stdout")
        .await?;
    let chunks: Vec<Bytes> = stream.try_collect().await?;
    same!("1\ta1\t\\N\n2\ta2\t\\N\n3\ta3\t\\N\n", String::from_utf8(chunks.concat())?);
    Ok(())
}

async fn copy_binary_in(url: String) -> Fails {
    let client = open(&url).await?;
    client.batch_execute("create table t (id int primary key, s text, n numeric, at timestamptz, j jsonb, a int[])").await?;
    let sink = client.copy_in("copy t from stdin binary").await?;
    let types =
        [Type::INT4, Type::TEXT, Type::NUMERIC, Type::TIMESTAMPTZ, Type::JSONB, Type::INT4_ARRAY];
    let mut writer = pin!(BinaryCopyInWriter::new(sink, &types));
    for i in 0..500i32 {
        let (s, n) = ((i % 2 == 0).then(|| format!("s{i}")), Decimal::new(i64::from(i), 2));
        let row: &[&(dyn ToSql + Sync)] =
            &[&i, &s, &n, &DateTime::<Utc>::UNIX_EPOCH, &json!({"i": i}), &vec![i, i + 1]];
        writer.as_mut().write(row).await?;
    }
    same!(500, writer.finish().await?);
    let row = client
        .query_one("select count(s), sum(n), max(at), sum((j -> 'i')::int), sum(a[2]) from t", &[])
        .await?;
    same!(
        (250i64, Decimal::new(124_750, 2), DateTime::<Utc>::UNIX_EPOCH, 124_750i64, 125_250i64),
        (row.get(0), row.get(1), row.get(2), row.get(3), row.get(4))
    );
    Ok(())
}

async fn copy_binary_out(url: String) -> Fails {
    let client = open(&url).await?;
    let sql = "copy (select i, 'a' || i, i / 4.0, array[i, null], nullif(i, 2) from generate_series(1, 3) i) to stdout (format binary)";
    let types = [Type::INT4, Type::TEXT, Type::NUMERIC, Type::INT4_ARRAY, Type::INT4];
    let rows: Vec<_> =
        BinaryCopyOutStream::new(client.copy_out(sql).await?, &types).try_collect().await?;
    same!(3, rows.len());
    same!(
        (2, "a2", "0.5".parse::<Decimal>()?),
        (rows[1].get(0), rows[1].get::<&str>(1), rows[1].get(2))
    );
    same!(vec![Some(2), None], rows[1].get::<Vec<Option<i32>>>(3));
    same!(None, rows[1].get::<Option<i32>>(4));
    Ok(())
}

async fn cancel(url: String) -> Fails {
    let client = open(&url).await?;
    let token = client.cancel_token();
    let (slept, cancelled) = tokio::join!(client.query("select pg_sleep(20)", &[]), async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        token.cancel_query(NoTls).await
    });
    cancelled?;
    same!("57014", code(slept));
    same!(1, client.query_one("select 1", &[]).await?.get::<_, i32>(0));
    Ok(())
}

async fn notifications(url: String) -> Fails {
    let (client, mut connection) = connect(&url, NoTls).await?;
    let (sender, mut heard) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if sender.send(message).is_err() {
                break;
            }
        }
    });
    client.batch_execute("listen frogs; listen \"Toads\"").await?;
    let other = open(&url).await?;
    other.execute("select pg_notify($1, $2)", &[&"frogs", &"quak"]).await?;
    other.batch_execute("notify \"Toads\"").await?;
    let mut said = Vec::new();
    while said.len() < 2 {
        if let Some(AsyncMessage::Notification(n)) = heard.recv().await {
            said.push(format!("{} {:?}", n.channel(), n.payload()));
        }
    }
    same!(vec!["frogs \"quak\"", "Toads \"\""], said);
    Ok(())
}

async fn notices(url: String) -> Fails {
    let (client, mut connection) = connect(&url, NoTls).await?;
    let (sender, mut heard) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            let _ = sender.send(message);
        }
    });
    client.batch_execute("drop table if exists missing").await?;
    let Some(AsyncMessage::Notice(notice)) = heard.recv().await else {
        return Err("no notice".into());
    };
    same!(
        ("00000", "table \"missing\" does not exist, skipping"),
        (notice.code().code(), notice.message())
    );
    Ok(())
}

#[derive(Debug, PartialEq)]
struct Mood(String);

impl<'a> FromSql<'a> for Mood {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Mood, Box<dyn Error + Sync + Send>> {
        Ok(Mood(String::from_utf8(raw.to_vec())?))
    }

    fn accepts(of: &Type) -> bool {
        matches!(of.kind(), Kind::Enum(labels) if labels == &["sad", "happy"])
    }
}

impl ToSql for Mood {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut bytes::BytesMut,
    ) -> Result<tokio_postgres::types::IsNull, Box<dyn Error + Sync + Send>> {
        out.extend_from_slice(self.0.as_bytes());
        Ok(tokio_postgres::types::IsNull::No)
    }

    fn accepts(of: &Type) -> bool {
        matches!(of.kind(), Kind::Enum(_))
    }

    tokio_postgres::types::to_sql_checked!();
}

/// The driver looks up a type that it does not know in pg_type, pg_enum and pg_namespace.
async fn enums(url: String) -> Fails {
    let client = open(&url).await?;
    client
        .batch_execute("create type mood as enum ('sad', 'happy'); create table t (m mood)")
        .await?;
    client.execute("insert into t values ($1)", &[&Mood("happy".to_owned())]).await?;
    let row = client.query_one("select m from t where m > $1", &[&Mood("sad".to_owned())]).await?;
    same!(("mood", "public"), (row.columns()[0].type_().name(), row.columns()[0].type_().schema()));
    same!(Mood("happy".to_owned()), row.get(0));
    same!(
        "22P02",
        code(client.execute("insert into t values ($1)", &[&Mood("mixed".to_owned())]).await)
    );
    Ok(())
}

async fn enum_arrays(url: String) -> Fails {
    let client = open(&url).await?;
    client.batch_execute("create type mood as enum ('sad', 'happy')").await?;
    let moods = vec![Mood("happy".to_owned()), Mood("sad".to_owned())];
    let row = client.query_one("select $1::mood[]", &[&moods]).await?;
    same!(moods, row.get::<_, Vec<Mood>>(0));
    Ok(())
}

async fn domains(url: String) -> Fails {
    let client = open(&url).await?;
    client
        .batch_execute("create domain age as int check (value >= 0); create table t (a age)")
        .await?;
    client.execute("insert into t values ($1::int)", &[&7]).await?;
    same!("23514", code(client.execute("insert into t values ($1::int)", &[&-7]).await));
    same!(7, client.query_one("select a from t", &[]).await?.get::<_, i32>(0));
    Ok(())
}

async fn composites(url: String) -> Fails {
    let client = open(&url).await?;
    client
        .batch_execute("create type frog as (id int, name text); create table t (f frog)")
        .await?;
    client.batch_execute("insert into t values (row(1, 'Kermit'))").await?;
    let row = client.query_one("select f from t", &[]).await?;
    let Kind::Composite(fields) = row.columns()[0].type_().kind() else {
        return Err("no composite".into());
    };
    same!(vec!["id", "name"], fields.iter().map(|field| field.name()).collect::<Vec<_>>());
    Ok(())
}

async fn describe(url: String) -> Fails {
    let client = open(&url).await?;
    client
        .batch_execute("create table t (id bigint primary key, s varchar(9), n numeric(10,2))")
        .await?;
    let statement =
        client.prepare("select id, s, n, id + 1 from t where id = $1 and s like $2").await?;
    same!(&[Type::INT8, Type::TEXT], statement.params());
    let columns = statement.columns();
    same!(
        vec![&Type::INT8, &Type::VARCHAR, &Type::NUMERIC, &Type::INT8],
        columns.iter().map(|column| column.type_()).collect::<Vec<_>>()
    );
    let table: u32 =
        client.query_one("select oid from pg_class where relname = 't'", &[]).await?.get(0);
    same!((Some(table), Some(2)), (columns[1].table_oid(), columns[1].column_id()));
    same!((13, -1), (columns[1].type_modifier(), columns[0].type_modifier()));
    same!(None, columns[3].table_oid());
    let insert = client.prepare("insert into t values ($1, $2, $3)").await?;
    same!(&[Type::INT8, Type::VARCHAR, Type::NUMERIC], insert.params());
    same!(0, insert.columns().len());
    Ok(())
}

async fn parameters_of_the_server(url: String) -> Fails {
    let with = format!(
        "{url}?application_name=pond&options=-c%20statement_timeout%3D5s%20-c%20search_path%3Dpg_catalog"
    );
    let (client, connection) = connect(&with, NoTls).await?;
    same!(Some("UTF8"), connection.parameter("client_encoding"));
    same!(Some("on"), connection.parameter("integer_datetimes"));
    same!(Some("on"), connection.parameter("standard_conforming_strings"));
    same!(Some("pond"), connection.parameter("application_name"));
    same!(
        Some("15"),
        connection.parameter("server_version").and_then(|version| version.split('.').next())
    );
    tokio::spawn(connection);
    for (setting, expected) in
        [("statement_timeout", "5s"), ("search_path", "pg_catalog"), ("application_name", "pond")]
    {
        same!(
            expected,
            client.query_one(&format!("show {setting}"), &[]).await?.get::<_, String>(0)
        );
    }
    same!("57014", code(client.query("select pg_sleep(9)", &[]).await));
    Ok(())
}

async fn wrong_parameters(url: String) -> Fails {
    let client = open(&url).await?;
    same!(true, client.query("select $1::int", &[&"text"]).await.is_err());
    same!("22021", code(client.query("select $1::text", &[&"a\0b"]).await));
    same!(
        "08P01",
        code(client.query("select $1::int", &[&Raw(Bytes::from_static(&[1, 2]))]).await)
            .replace("22P03", "08P01")
    );
    same!(1, client.query_one("select 1", &[]).await?.get::<_, i32>(0));
    Ok(())
}

async fn statement_after_ddl(url: String) -> Fails {
    let client = open(&url).await?;
    client.batch_execute("create table t (id int); insert into t values (1)").await?;
    let all = client.prepare("select * from t").await?;
    let one = client.prepare("select id from t").await?;
    client.batch_execute("alter table t add column s text default 'x'").await?;
    same!(1, client.query_one(&one, &[]).await?.get::<_, i32>(0));
    same!("0A000", code(client.query(&all, &[]).await));
    client.batch_execute("drop table t").await?;
    same!("42P01", code(client.query(&one, &[]).await));
    Ok(())
}

async fn many_statements(url: String) -> Fails {
    let client = open(&url).await?;
    for i in 0..300 {
        let statement = client.prepare(&format!("select {i} + $1::int")).await?;
        same!(i + 1, client.query_one(&statement, &[&1]).await?.get::<_, i32>(0));
    }
    Ok(())
}

/// Statements that are dropped are closed at the server with the next message.
async fn closed_statements(url: String) -> Fails {
    let client = open(&url).await?;
    let kept = client.prepare("select $1::int").await?;
    for i in 0..20 {
        client.prepare(&format!("select {i} + $1::int")).await?;
    }
    let left = "select statement, parameter_types::text from pg_prepared_statements where statement like '%::int'";
    let left = client.query(left, &[]).await?;
    same!(1, left.iter().filter(|row| row.get::<_, &str>(0) == "select $1::int").count());
    same!("{integer}", left[0].get::<_, &str>(1));
    same!(true, left.len() < 5);
    same!(7, client.query_one(&kept, &[&7]).await?.get::<_, i32>(0));
    Ok(())
}

async fn big_values(url: String) -> Fails {
    let client = open(&url).await?;
    client.batch_execute("create table t (b bytea, j jsonb)").await?;
    let (big, doc) = (vec![7u8; 5_000_000], Value::String("x".repeat(1_000_000)));
    client.execute("insert into t values ($1, $2)", &[&big, &doc]).await?;
    let row = client.query_one("select b, j from t", &[]).await?;
    same!(true, big == row.get::<_, Vec<u8>>(0));
    same!(true, doc == row.get::<_, Value>(1));
    let ids: Vec<i32> = (0..100_000).collect();
    let row = client.query_one("select count(*), sum(i) from unnest($1::int[]) i", &[&ids]).await?;
    same!((100_000i64, 4_999_950_000i64), (row.get(0), row.get(1)));
    let mut rows = pin!(
        client
            .query_raw(
                "select i, repeat('x', 1000) from generate_series(1, 5000) i",
                Vec::<i32>::new()
            )
            .await?
    );
    let mut count = 0;
    while let Some(row) = rows.next().await {
        count += row?.get::<_, &str>(1).len();
    }
    same!(5_000_000, count);
    Ok(())
}
