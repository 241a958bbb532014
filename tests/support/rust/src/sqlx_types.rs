//! sqlx: types in the binary format, there and back, and those that a user declares.

use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, Utc};
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};
use sqlx::postgres::types::{PgInterval, PgTimeTz};
use sqlx::types::Json;
use sqlx::{AssertSqlSafe, Connection, Decode, Encode, PgConnection, Postgres, Row, Type};
use uuid::Uuid;

use crate::{Fails, checks, same};

checks! { basic_types numerics times intervals documents arrays enums enum_arrays enum_unprepared transparent composites ranges nulls }

async fn there_and_back<T>(connection: &mut PgConnection, of: &str, value: T) -> Fails
where
    T: Type<Postgres> + PartialEq + std::fmt::Debug + Clone + Send + Unpin + 'static,
    T: for<'q> Encode<'q, Postgres> + for<'r> Decode<'r, Postgres>,
{
    let sql = AssertSqlSafe(format!("select $1::{of}"));
    let seen: T = sqlx::query_scalar(sql).bind(value.clone()).fetch_one(&mut *connection).await?;
    same!(value, seen);
    let sql = AssertSqlSafe(format!("create temporary table v (x {of})"));
    sqlx::query(sql).execute(&mut *connection).await?;
    // The table is another for each type, and a statement that is kept is of the first one's.
    sqlx::query("insert into v values ($1), ($2)")
        .persistent(false)
        .bind(value.clone())
        .bind(None::<T>)
        .execute(&mut *connection)
        .await?;
    let seen: Vec<Option<T>> =
        sqlx::query_scalar("select x from v").persistent(false).fetch_all(&mut *connection).await?;
    same!(vec![Some(value), None], seen);
    sqlx::query("drop table v").execute(&mut *connection).await?;
    Ok(())
}

async fn basic_types(url: String) -> Fails {
    let mut c = PgConnection::connect(&url).await?;
    there_and_back(&mut c, "bool", true).await?;
    there_and_back(&mut c, "int2", i16::MIN).await?;
    there_and_back(&mut c, "int4", i32::MIN).await?;
    there_and_back(&mut c, "int8", i64::MIN).await?;
    there_and_back(&mut c, "float4", 1.5f32).await?;
    there_and_back(&mut c, "float8", 0.1f64).await?;
    there_and_back(&mut c, "text", "Größe 🐸".to_owned()).await?;
    there_and_back(&mut c, "varchar(10)", "x".to_owned()).await?;
    there_and_back(&mut c, "bytea", vec![0u8, 255]).await?;
    there_and_back(&mut c, "uuid", Uuid::from_u128(7)).await
}

async fn numerics(url: String) -> Fails {
    let mut c = PgConnection::connect(&url).await?;
    for text in ["0", "-1.5", "12345678901234567890.123456789", "0.00001"] {
        there_and_back(&mut c, "numeric", text.parse::<Decimal>()?).await?;
    }
    there_and_back(&mut c, "numeric(10,2)", "12.34".parse::<Decimal>()?).await
}

async fn times(url: String) -> Fails {
    let mut c = PgConnection::connect(&url).await?;
    let date = NaiveDate::from_ymd_opt(2024, 2, 29).ok_or("no date")?;
    let time = NaiveTime::from_hms_micro_opt(23, 59, 59, 999_999).ok_or("no time")?;
    there_and_back(&mut c, "date", date).await?;
    there_and_back(&mut c, "time", time).await?;
    there_and_back(&mut c, "timestamp", NaiveDateTime::new(date, time)).await?;
    there_and_back(&mut c, "timestamptz", NaiveDateTime::new(date, time).and_utc()).await?;
    same!(
        DateTime::<Utc>::UNIX_EPOCH,
        sqlx::query_scalar::<_, DateTime<Utc>>("select '1970-01-01 02:00+02'::timestamptz")
            .fetch_one(&mut c)
            .await?
    );
    Ok(())
}

async fn intervals(url: String) -> Fails {
    let mut c = PgConnection::connect(&url).await?;
    there_and_back(&mut c, "interval", PgInterval { months: 1, days: -2, microseconds: 3_000_000 })
        .await?;
    let hours: PgTimeTz<NaiveTime, chrono::FixedOffset> =
        sqlx::query_scalar("select '12:00+02'::timetz").fetch_one(&mut c).await?;
    same!(7200, hours.offset.local_minus_utc());
    Ok(())
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Frog {
    name: String,
    legs: Vec<i32>,
}

async fn documents(url: String) -> Fails {
    let mut c = PgConnection::connect(&url).await?;
    let frog = Frog { name: "Kermit".to_owned(), legs: vec![1, 2] };
    there_and_back(&mut c, "jsonb", Json(frog.clone())).await?;
    let seen: Json<Frog> =
        sqlx::query_scalar("select $1::json").bind(Json(frog.clone())).fetch_one(&mut c).await?;
    same!(frog, seen.0);
    there_and_back(&mut c, "jsonb", serde_json::json!({"a": null})).await?;
    let name: String =
        sqlx::query_scalar("select $1 ->> 'name'").bind(Json(frog)).fetch_one(&mut c).await?;
    same!("Kermit", name);
    Ok(())
}

async fn arrays(url: String) -> Fails {
    let mut c = PgConnection::connect(&url).await?;
    there_and_back(&mut c, "int[]", vec![Some(1), None, Some(3)]).await?;
    there_and_back(&mut c, "int[]", Vec::<i32>::new()).await?;
    there_and_back(&mut c, "bigint[]", vec![1i64]).await?;
    there_and_back(&mut c, "text[]", vec!["a \"b\", c".to_owned(), String::new()]).await?;
    there_and_back(&mut c, "bool[]", vec![true, false]).await?;
    there_and_back(&mut c, "float8[]", vec![0.5f64]).await?;
    there_and_back(&mut c, "uuid[]", vec![Uuid::from_u128(7)]).await?;
    there_and_back(&mut c, "numeric[]", vec![Decimal::new(15, 1)]).await?;
    there_and_back(&mut c, "timestamptz[]", vec![DateTime::<Utc>::UNIX_EPOCH]).await?;
    there_and_back(&mut c, "jsonb[]", vec![Json(vec![1, 2])]).await
}

#[derive(Debug, Clone, Copy, PartialEq, Type)]
#[sqlx(type_name = "mood", rename_all = "lowercase")]
enum Mood {
    Sad,
    Happy,
}

async fn enums(url: String) -> Fails {
    let mut c = PgConnection::connect(&url).await?;
    sqlx::query("create type mood as enum ('sad', 'happy')").execute(&mut c).await?;
    there_and_back(&mut c, "mood", Mood::Happy).await?;
    same!(
        Mood::Happy,
        sqlx::query_scalar::<_, Mood>("select max(m) from unnest(enum_range(null::mood)) m")
            .fetch_one(&mut c)
            .await?
    );
    Ok(())
}

async fn enum_arrays(url: String) -> Fails {
    let mut c = PgConnection::connect(&url).await?;
    sqlx::query("create type mood as enum ('sad', 'happy')").execute(&mut c).await?;
    let seen: Vec<Mood> = sqlx::query_scalar("select $1::mood[]")
        .bind(vec![Mood::Happy, Mood::Sad])
        .fetch_one(&mut c)
        .await?;
    same!(vec![Mood::Happy, Mood::Sad], seen);
    Ok(())
}

/// Statements that are not kept are named nothing.
async fn enum_unprepared(url: String) -> Fails {
    let mut c = PgConnection::connect(&url).await?;
    sqlx::query("create type mood as enum ('sad', 'happy')")
        .persistent(false)
        .execute(&mut c)
        .await?;
    let row =
        sqlx::query("select $1, 1").bind(Mood::Sad).persistent(false).fetch_one(&mut c).await?;
    same!((Mood::Sad, 1), (row.get::<Mood, _>(0), row.get::<i32, _>(1)));
    Ok(())
}

#[derive(Debug, Clone, PartialEq, Type)]
#[sqlx(transparent)]
struct FrogId(i64);

#[derive(Debug, Clone, Copy, PartialEq, Type)]
#[repr(i32)]
enum Legs {
    Two = 2,
    Four = 4,
}

async fn transparent(url: String) -> Fails {
    let mut c = PgConnection::connect(&url).await?;
    there_and_back(&mut c, "bigint", FrogId(7)).await?;
    there_and_back(&mut c, "int", Legs::Two).await?;
    there_and_back(&mut c, "int", Legs::Four).await
}

#[derive(Debug, Clone, PartialEq, Type)]
#[sqlx(type_name = "place")]
struct Place {
    pond: String,
    depth: i32,
}

async fn composites(url: String) -> Fails {
    let mut c = PgConnection::connect(&url).await?;
    sqlx::query("create type place as (pond text, depth int)").execute(&mut c).await?;
    there_and_back(&mut c, "place", Place { pond: "big".to_owned(), depth: 3 }).await
}

async fn ranges(url: String) -> Fails {
    let mut c = PgConnection::connect(&url).await?;
    there_and_back(&mut c, "int4range", sqlx::postgres::types::PgRange::from(1..5)).await
}

async fn nulls(url: String) -> Fails {
    let mut c = PgConnection::connect(&url).await?;
    let row = sqlx::query("select $1, $2, null")
        .bind(None::<i32>)
        .bind(Some("x"))
        .fetch_one(&mut c)
        .await?;
    same!(
        (None, Some("x".to_owned())),
        (row.get::<Option<i32>, _>(0), row.get::<Option<String>, _>(1))
    );
    same!(None, row.get::<Option<String>, _>(2));
    same!(true, row.try_get::<i32, _>(0).is_err());
    Ok(())
}
