//! sqlx: what its users do: queries into structs, migrations, pools, transactions, listeners, bulk inserts, and what
//! its macros ask of a database while they are compiled.

use std::time::Duration;

use futures_util::{TryStreamExt, future::try_join_all};
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions, PgRow};
use sqlx::{
    ConnectOptions, Connection, Either, Executor, FromRow, PgConnection, Postgres, QueryBuilder,
    Row,
};

use crate::{Fails, checks, same};

checks! {
    query query_as query_scalar from_row fetch_streams fetch_many raw_sql any_of_an_array
    transactions nested_transactions dropped_transaction begin_with errors error_kinds
    pool pool_timeout statement_cache options
    listener listener_of_a_pool push_values push_values_on_conflict push_bind separated unnest unnest_on_conflict
    copy_in copy_out advisory_lock
    cancelled_future timeout
}

pub(crate) async fn open(url: &str) -> Result<PgConnection, sqlx::Error> {
    PgConnection::connect(url).await
}

/// The SQLSTATE of what must have failed at the server.
pub(crate) fn code<T>(outcome: Result<T, sqlx::Error>) -> String {
    match outcome {
        Ok(_) => "no error".to_owned(),
        Err(sqlx::Error::Database(e)) => {
            e.code().map_or("no code".to_owned(), |code| code.into_owned())
        }
        Err(e) => e.to_string(),
    }
}

#[derive(Debug, PartialEq, FromRow)]
struct Frog {
    id: i64,
    #[sqlx(rename = "called")]
    name: String,
    weight: Option<f64>,
    #[sqlx(default)]
    legs: i32,
    #[sqlx(skip)]
    seen: bool,
}

pub(crate) async fn with_frogs(url: &str) -> Result<PgConnection, sqlx::Error> {
    let mut c = open(url).await?;
    c.execute("create table frogs (id bigserial primary key, called text not null, weight float8)")
        .await?;
    c.execute("insert into frogs (called, weight) values ('Kermit', 1.5), ('Robin', null)").await?;
    Ok(c)
}

async fn query(url: String) -> Fails {
    let mut c = with_frogs(&url).await?;
    let done = sqlx::query("update frogs set weight = $1 where id > $2")
        .bind(2.5)
        .bind(0i64)
        .execute(&mut c)
        .await?;
    same!(2, done.rows_affected());
    let row = sqlx::query("insert into frogs (called) values ($1) returning id, called")
        .bind("Jeremy")
        .fetch_one(&mut c)
        .await?;
    same!((3i64, "Jeremy"), (row.get("id"), row.get::<&str, _>("called")));
    same!(true, sqlx::query("select 1 where false").fetch_optional(&mut c).await?.is_none());
    same!(
        true,
        matches!(
            sqlx::query("select 1 where false").fetch_one(&mut c).await,
            Err(sqlx::Error::RowNotFound)
        )
    );
    Ok(())
}

async fn query_as(url: String) -> Fails {
    let mut c = with_frogs(&url).await?;
    let rows: Vec<(i64, String, Option<f64>)> =
        sqlx::query_as("select * from frogs order by id").fetch_all(&mut c).await?;
    same!(vec![(1, "Kermit".to_owned(), Some(1.5)), (2, "Robin".to_owned(), None)], rows);
    Ok(())
}

async fn query_scalar(url: String) -> Fails {
    let mut c = with_frogs(&url).await?;
    same!(
        2i64,
        sqlx::query_scalar::<_, i64>("select count(*) from frogs").fetch_one(&mut c).await?
    );
    same!(
        Some(Some(1.5)),
        sqlx::query_scalar::<_, Option<f64>>("select weight from frogs where id = $1")
            .bind(1i64)
            .fetch_optional(&mut c)
            .await?
    );
    same!(
        true,
        sqlx::query_scalar::<_, bool>("select exists (select 1 from frogs where called = $1)")
            .bind("Robin")
            .fetch_one(&mut c)
            .await?
    );
    Ok(())
}

async fn from_row(url: String) -> Fails {
    let mut c = with_frogs(&url).await?;
    let frog: Frog = sqlx::query_as("select called, weight, id from frogs where id = $1")
        .bind(1i64)
        .fetch_one(&mut c)
        .await?;
    same!(Frog { id: 1, name: "Kermit".to_owned(), weight: Some(1.5), legs: 0, seen: false }, frog);
    let frog: Frog =
        sqlx::query_as("select *, 4 as legs from frogs where id = 2").fetch_one(&mut c).await?;
    same!((None, 4), (frog.weight, frog.legs));
    Ok(())
}

async fn fetch_streams(url: String) -> Fails {
    let mut c = open(&url).await?;
    let mut sum = 0;
    {
        let mut rows = sqlx::query_scalar::<_, i32>("select generate_series(1, $1)")
            .bind(10_000)
            .fetch(&mut c);
        while let Some(i) = rows.try_next().await? {
            sum += i;
            if i == 5000 {
                break;
            }
        }
    }
    same!(12_502_500, sum);
    same!(1, sqlx::query_scalar::<_, i32>("select 1").fetch_one(&mut c).await?);
    Ok(())
}

async fn fetch_many(url: String) -> Fails {
    let mut c = open(&url).await?;
    let said: Vec<Either<u64, i32>> = c
        .fetch_many("create table t (id int); insert into t values (1), (2); select id from t; delete from t")
        .map_ok(|step| step.map_either(|done| done.rows_affected(), |row: PgRow| row.get(0)))
        .try_collect()
        .await?;
    same!(
        vec![
            Either::Left(0),
            Either::Left(2),
            Either::Right(1),
            Either::Right(2),
            Either::Left(2),
            Either::Left(2)
        ],
        said
    );
    Ok(())
}

async fn raw_sql(url: String) -> Fails {
    let mut c = open(&url).await?;
    sqlx::raw_sql("begin; create table t (id int); insert into t values (1); commit;")
        .execute(&mut c)
        .await?;
    let row = sqlx::raw_sql("select id, '2024-02-29'::date as d, 'x' as s from t")
        .fetch_one(&mut c)
        .await?;
    same!(1, row.get::<i32, _>("id"));
    same!("x", row.get::<String, _>("s"));
    same!("2024-02-29", row.get::<chrono::NaiveDate, _>("d").to_string());
    Ok(())
}

async fn any_of_an_array(url: String) -> Fails {
    let mut c = with_frogs(&url).await?;
    let found: Vec<i64> = sqlx::query_scalar("select id from frogs where id = any($1)")
        .bind(&[2i64, 9][..])
        .fetch_all(&mut c)
        .await?;
    same!(vec![2], found);
    let found: Vec<String> = sqlx::query_scalar("select called from frogs where called <> all($1)")
        .bind(vec!["Robin"])
        .fetch_all(&mut c)
        .await?;
    same!(vec!["Kermit"], found);
    Ok(())
}

pub(crate) async fn count(c: &mut PgConnection) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("select count(*) from frogs").fetch_one(c).await
}

async fn transactions(url: String) -> Fails {
    let mut c = with_frogs(&url).await?;
    let mut tx = c.begin().await?;
    sqlx::query("delete from frogs").execute(&mut *tx).await?;
    tx.rollback().await?;
    same!(2, count(&mut c).await?);
    let mut tx = c.begin().await?;
    sqlx::query("delete from frogs where id = 1").execute(&mut *tx).await?;
    tx.commit().await?;
    same!(1, count(&mut c).await?);
    Ok(())
}

async fn nested_transactions(url: String) -> Fails {
    let mut c = with_frogs(&url).await?;
    let mut tx = c.begin().await?;
    let mut inner = tx.begin().await?;
    same!(
        "23505",
        code(sqlx::query("insert into frogs values (1, 'x')").execute(&mut *inner).await)
    );
    inner.rollback().await?;
    let mut inner = tx.begin().await?;
    sqlx::query("insert into frogs values (3, 'x')").execute(&mut *inner).await?;
    inner.commit().await?;
    let mut inner = tx.begin().await?;
    sqlx::query("insert into frogs values (4, 'x')").execute(&mut *inner).await?;
    drop(inner);
    tx.commit().await?;
    same!(3, count(&mut c).await?);
    Ok(())
}

async fn dropped_transaction(url: String) -> Fails {
    let mut c = with_frogs(&url).await?;
    let mut tx = c.begin().await?;
    sqlx::query("delete from frogs").execute(&mut *tx).await?;
    drop(tx);
    same!(2, count(&mut c).await?);
    Ok(())
}

async fn begin_with(url: String) -> Fails {
    let mut c = with_frogs(&url).await?;
    let mut tx = c.begin_with("begin isolation level serializable read only").await?;
    same!(
        "serializable",
        sqlx::query_scalar::<_, String>("show transaction_isolation").fetch_one(&mut *tx).await?
    );
    same!("25006", code(sqlx::query("delete from frogs").execute(&mut *tx).await));
    Ok(())
}

async fn errors(url: String) -> Fails {
    let mut c = with_frogs(&url).await?;
    for (sql, expected) in [
        ("selec", "42601"),
        ("select * from missing", "42P01"),
        ("select missing from frogs", "42703"),
        ("insert into frogs values (1, 'x')", "23505"),
        ("select 1 / (id - id) from frogs", "22012"),
    ] {
        same!((sql, expected.to_owned()), (sql, code(sqlx::query(sql).fetch_all(&mut c).await)));
    }
    same!(2, count(&mut c).await?);
    Ok(())
}

async fn error_kinds(url: String) -> Fails {
    let mut c = open(&url).await?;
    c.execute("create table p (id int constraint the_key primary key, n int not null constraint positive check (n > 0))").await?;
    c.execute("create table q (id int constraint of_p references p); insert into p values (1, 1)")
        .await?;
    for (sql, constraint, kind) in [
        ("insert into p values (1, 1)", Some("the_key"), sqlx::error::ErrorKind::UniqueViolation),
        ("insert into p values (2, 0)", Some("positive"), sqlx::error::ErrorKind::CheckViolation),
        ("insert into p values (2, null)", None, sqlx::error::ErrorKind::NotNullViolation),
        ("insert into q values (2)", Some("of_p"), sqlx::error::ErrorKind::ForeignKeyViolation),
    ] {
        let Err(sqlx::Error::Database(e)) = sqlx::query(sql).execute(&mut c).await else {
            return Err(sql.into());
        };
        same!((constraint, format!("{kind:?}")), (e.constraint(), format!("{:?}", e.kind())));
        same!(Some(if sql.contains('q') { "q" } else { "p" }), e.table());
    }
    Ok(())
}

async fn pool(url: String) -> Fails {
    let pool = PgPoolOptions::new()
        .max_connections(5)
        .after_connect(|c, _| {
            Box::pin(async move { c.execute("set application_name = 'pond'").await.map(|_| ()) })
        })
        .connect(&url)
        .await?;
    sqlx::query("create table t (id int primary key, v int)").execute(&pool).await?;
    sqlx::query("insert into t values (1, 0)").execute(&pool).await?;
    try_join_all(
        (0..100)
            .map(|_| sqlx::query("update t set v = v + 1 where id = $1").bind(1).execute(&pool)),
    )
    .await?;
    same!(100, sqlx::query_scalar::<_, i32>("select v from t").fetch_one(&pool).await?);
    same!("pond", sqlx::query_scalar::<_, String>("show application_name").fetch_one(&pool).await?);
    pool.close().await;
    same!(true, sqlx::query("select 1").execute(&pool).await.is_err());
    Ok(())
}

async fn pool_timeout(url: String) -> Fails {
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .acquire_timeout(Duration::from_millis(200))
        .connect(&url)
        .await?;
    let mut tx = pool.begin().await?;
    same!(true, matches!(pool.acquire().await, Err(sqlx::Error::PoolTimedOut)));
    sqlx::query("select 1").execute(&mut *tx).await?;
    drop(tx);
    pool.acquire().await?.ping().await?;
    Ok(())
}

async fn statement_cache(url: String) -> Fails {
    let options: PgConnectOptions = url.parse()?;
    let mut c = options.statement_cache_capacity(4).connect().await?;
    for i in 0..20 {
        let sql = sqlx::AssertSqlSafe(format!("select $1 + {i}"));
        same!(1 + i, sqlx::query_scalar::<_, i32>(sql).bind(1).fetch_one(&mut c).await?);
    }
    same!(
        true,
        sqlx::query_scalar::<_, i64>("select count(*) from pg_prepared_statements")
            .fetch_one(&mut c)
            .await?
            <= 5
    );
    c.clear_cached_statements().await?;
    same!(0, c.cached_statements_size());
    Ok(())
}

async fn options(url: String) -> Fails {
    let options: PgConnectOptions = url.parse()?;
    let mut c = options
        .application_name("pond")
        .options([("statement_timeout", "100ms"), ("search_path", "pg_catalog")])
        .connect()
        .await?;
    same!(
        "pond",
        sqlx::query_scalar::<_, String>("select current_setting('application_name')")
            .fetch_one(&mut c)
            .await?
    );
    same!(
        "pg_catalog",
        sqlx::query_scalar::<_, String>("show search_path").fetch_one(&mut c).await?
    );
    same!("57014", code(sqlx::query("select pg_sleep(5)").execute(&mut c).await));
    same!(Some(15), c.server_version_num().map(|version| version / 10_000));
    c.close().await?;
    Ok(())
}

async fn listener(url: String) -> Fails {
    let mut listener = PgListener::connect(&url).await?;
    listener.listen_all(["frogs", "Toads"]).await?;
    let mut c = open(&url).await?;
    sqlx::query("select pg_notify('frogs', $1)").bind("quak").execute(&mut c).await?;
    let heard = listener.recv().await?;
    same!(("frogs", "quak"), (heard.channel(), heard.payload()));
    listener.unlisten("frogs").await?;
    c.execute("notify frogs; notify \"Toads\", 'x'").await?;
    same!("Toads", listener.recv().await?.channel().to_owned());
    Ok(())
}

async fn listener_of_a_pool(url: String) -> Fails {
    let pool = PgPoolOptions::new().connect(&url).await?;
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.listen("frogs").await?;
    // It comes back after its connection was ended.
    let pid: i32 = sqlx::query_scalar("select pg_backend_pid()").fetch_one(&mut listener).await?;
    same!(
        true,
        sqlx::query_scalar::<_, bool>("select pg_terminate_backend($1)")
            .bind(pid)
            .fetch_one(&pool)
            .await?
    );
    same!(true, listener.try_recv().await?.is_none());
    let mut tx = pool.begin().await?;
    sqlx::query("notify frogs, 'committed'").execute(&mut *tx).await?;
    let (heard, committed) = tokio::join!(listener.recv(), async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        tx.commit().await
    });
    committed?;
    same!("committed", heard?.payload().to_owned());
    Ok(())
}

async fn push_values(url: String) -> Fails {
    let mut c = with_frogs(&url).await?;
    let mut builder = QueryBuilder::new("insert into frogs (called, weight) ");
    builder.push_values(
        (0..1000).map(|i| (format!("frog {i}"), (i % 2 == 0).then_some(f64::from(i)))),
        |mut row, (name, weight)| {
            row.push_bind(name).push_bind(weight);
        },
    );
    same!(1000, builder.build().execute(&mut c).await?.rows_affected());
    same!(1002, count(&mut c).await?);
    Ok(())
}

async fn push_values_on_conflict(url: String) -> Fails {
    let mut c = with_frogs(&url).await?;
    let mut builder = QueryBuilder::<Postgres>::new("insert into frogs (id, called) ");
    builder.push_values([(1i64, "new"), (7, "seven")], |mut row, (id, name)| {
        row.push_bind(id).push_bind(name);
    });
    builder.push(" on conflict (id) do update set called = excluded.called returning id, called");
    let rows: Vec<(i64, String)> = builder.build_query_as().fetch_all(&mut c).await?;
    same!(vec![(1, "new".to_owned()), (7, "seven".to_owned())], rows);
    Ok(())
}

async fn push_bind(url: String) -> Fails {
    let mut c = with_frogs(&url).await?;
    let mut builder = QueryBuilder::<Postgres>::new("select count(*) from frogs where called = ");
    builder.push_bind("Kermit").push(" and weight > ").push_bind(1.0);
    same!(1i64, builder.build_query_scalar::<i64>().fetch_one(&mut c).await?);
    let mut builder = QueryBuilder::<Postgres>::new("select id from frogs where (id, called) in ");
    builder.push_tuples([(1i64, "Kermit"), (2, "nobody")], |mut row, (id, name)| {
        row.push_bind(id).push_bind(name);
    });
    same!(vec![1i64], builder.build_query_scalar::<i64>().fetch_all(&mut c).await?);
    Ok(())
}

async fn separated(url: String) -> Fails {
    let mut c = with_frogs(&url).await?;
    let mut builder = QueryBuilder::<Postgres>::new("select id from frogs where id in (");
    let mut list = builder.separated(", ");
    for id in 2i64..5 {
        list.push_bind(id);
    }
    list.push_unseparated(")");
    same!(vec![2i64], builder.build_query_scalar::<i64>().fetch_all(&mut c).await?);
    Ok(())
}

const UNNEST: &str = "insert into frogs (id, called, weight) select * from unnest($1::bigint[], $2::text[], $3::float8[])";

async fn unnest(url: String) -> Fails {
    let mut c = with_frogs(&url).await?;
    let done = sqlx::query(UNNEST)
        .bind(vec![10i64, 11])
        .bind(vec!["a", "b"])
        .bind(vec![Some(1.5), None])
        .execute(&mut c)
        .await?;
    same!(2, done.rows_affected());
    let rows: Vec<(i32, String)> =
        sqlx::query_as("select * from unnest($1::int[], $2::text[]) as t (i, s) order by i desc")
            .bind(vec![1, 2])
            .bind(vec!["x", "y"])
            .fetch_all(&mut c)
            .await?;
    same!(vec![(2, "y".to_owned()), (1, "x".to_owned())], rows);
    Ok(())
}

async fn unnest_on_conflict(url: String) -> Fails {
    let mut c = with_frogs(&url).await?;
    let sql = sqlx::AssertSqlSafe(format!(
        "{UNNEST} on conflict (id) do update set weight = excluded.weight where frogs.weight is null"
    ));
    let done = sqlx::query(sql)
        .bind(vec![1i64, 2, 3])
        .bind(vec!["a", "b", "c"])
        .bind(vec![9.0, 9.0, 9.0])
        .execute(&mut c)
        .await?;
    same!(2, done.rows_affected());
    let sql = "update frogs set called = new.called from unnest($1::bigint[], $2::text[]) as new (id, called) where frogs.id = new.id";
    same!(
        2,
        sqlx::query(sql)
            .bind(vec![1i64, 2])
            .bind(vec!["x", "y"])
            .execute(&mut c)
            .await?
            .rows_affected()
    );
    Ok(())
}

async fn copy_in(url: String) -> Fails {
    let mut c = with_frogs(&url).await?;
    let mut sink = c.copy_in_raw("copy frogs (id, called) from stdin (format csv)").await?;
    sink.send(&b"10,\"a, b\"\n"[..]).await?;
    sink.send(&b"11,c\n"[..]).await?;
    same!(2, sink.finish().await?);
    let sink = c.copy_in_raw("copy frogs (id) from stdin").await?;
    sink.abort("no more").await?;
    same!(4, count(&mut c).await?);
    Ok(())
}

async fn copy_out(url: String) -> Fails {
    let mut c = with_frogs(&url).await?;
    let chunks: Vec<_> =
        c.copy_out_raw("copy frogs to stdout (format csv, header)").await?.try_collect().await?;
    same!("id,called,weight\n1,Kermit,1.5\n2,Robin,\n", String::from_utf8(chunks.concat())?);
    Ok(())
}

async fn advisory_lock(url: String) -> Fails {
    let (mut a, mut b) = (open(&url).await?, open(&url).await?);
    let lock = sqlx::postgres::PgAdvisoryLock::new("frogs");
    let held = lock.acquire(&mut a).await?;
    same!(true, lock.try_acquire(&mut b).await?.is_right());
    held.release_now().await?;
    let Either::Left(held) = lock.try_acquire(&mut b).await? else {
        return Err("the lock is not free".into());
    };
    held.release_now().await?;
    Ok(())
}

/// A future that is dropped leaves its connection usable, after what it had sent.
async fn cancelled_future(url: String) -> Fails {
    let pool = PgPoolOptions::new().max_connections(1).connect(&url).await?;
    let slept = tokio::time::timeout(
        Duration::from_millis(50),
        sqlx::query("select pg_sleep(0.3)").execute(&pool),
    )
    .await;
    same!(true, slept.is_err());
    same!(1, sqlx::query_scalar::<_, i32>("select 1").fetch_one(&pool).await?);
    Ok(())
}

async fn timeout(url: String) -> Fails {
    let mut c = with_frogs(&url).await?;
    c.execute("set lock_timeout = '100ms'").await?;
    let mut other = open(&url).await?;
    let mut tx = other.begin().await?;
    sqlx::query("select * from frogs where id = 1 for update").execute(&mut *tx).await?;
    same!(
        "55P03",
        code(sqlx::query("update frogs set weight = 1 where id = 1").execute(&mut c).await)
    );
    same!(
        0,
        sqlx::query("select id from frogs where id = 1 for update skip locked")
            .fetch_all(&mut c)
            .await?
            .len()
    );
    Ok(())
}
