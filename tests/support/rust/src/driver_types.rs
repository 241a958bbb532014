//! tokio-postgres: types in the binary format, there and back.

use std::error::Error;

use bytes::Bytes;
use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, Utc};
use rust_decimal::Decimal;
use serde_json::json;
use tokio_postgres::Client;
use tokio_postgres::types::{FromSql, Json, ToSql, Type};
use uuid::Uuid;

use crate::driver::open;
use crate::{Fails, checks, same};

checks! { numbers texts times documents arrays nulls numerics numeric_scale infinities }

/// Sends a value as a parameter and as a column's, and reads it back, each in the binary format.
async fn there_and_back<T>(client: &Client, of: &str, value: T) -> Fails
where
    T: ToSql + Sync + PartialEq + std::fmt::Debug + for<'a> FromSql<'a>,
{
    let seen: T = client.query_one(&format!("select $1::{of}"), &[&value]).await?.get(0);
    same!(value, seen);
    client.batch_execute(&format!("drop table if exists v; create table v (x {of})")).await?;
    client.execute("insert into v values ($1)", &[&value]).await?;
    let row = client.query_one("select x, x = $1 from v", &[&value]).await;
    match row {
        Ok(row) => {
            same!(value, row.get::<_, T>(0));
            same!(Some(true), row.get::<_, Option<bool>>(1));
        }
        // json has no equality.
        Err(e) if of.starts_with("json") => {
            same!(Some("42883"), e.code().map(|code| code.code()));
            same!(value, client.query_one("select x from v", &[]).await?.get::<_, T>(0));
        }
        Err(e) => return Err(e.into()),
    }
    let nothing: Option<T> = None;
    client.execute("insert into v values ($1)", &[&nothing]).await?;
    let seen: Option<T> = client.query_one("select x from v where x is null", &[]).await?.get(0);
    same!(nothing, seen);
    Ok(())
}

async fn numbers(url: String) -> Fails {
    let client = open(&url).await?;
    there_and_back(&client, "bool", true).await?;
    there_and_back(&client, "smallint", i16::MIN).await?;
    there_and_back(&client, "int", i32::MIN).await?;
    there_and_back(&client, "bigint", i64::MIN).await?;
    there_and_back(&client, "real", 1.5f32).await?;
    there_and_back(&client, "float8", 0.1f64).await?;
    let oid: u32 = client.query_one("select $1::oid", &[&4_000_000_000u32]).await?.get(0);
    same!(4_000_000_000, oid);
    Ok(())
}

async fn texts(url: String) -> Fails {
    let client = open(&url).await?;
    there_and_back(&client, "text", "Größe 🐸 it's \\".to_owned()).await?;
    there_and_back(&client, "text", String::new()).await?;
    there_and_back(&client, "varchar(9)", "v".to_owned()).await?;
    there_and_back(&client, "char(3)", "abc".to_owned()).await?;
    there_and_back(&client, "bytea", vec![0u8, 255, 92]).await?;
    there_and_back(&client, "uuid", Uuid::from_u128(7)).await?;
    let name: String = client.query_one("select current_user", &[]).await?.get(0);
    same!("postgres", name);
    let kind: i8 = client
        .query_one("select relkind from pg_class where relname = 'pg_type'", &[])
        .await?
        .get(0);
    same!(b'r' as i8, kind);
    Ok(())
}

async fn times(url: String) -> Fails {
    let client = open(&url).await?;
    let date = NaiveDate::from_ymd_opt(2024, 2, 29).ok_or("no date")?;
    let time = NaiveTime::from_hms_micro_opt(23, 59, 59, 999_999).ok_or("no time")?;
    there_and_back(&client, "date", date).await?;
    there_and_back(&client, "date", NaiveDate::from_ymd_opt(1, 1, 1).ok_or("no date")?).await?;
    there_and_back(&client, "time", time).await?;
    there_and_back(&client, "timestamp", NaiveDateTime::new(date, time)).await?;
    there_and_back(&client, "timestamptz", NaiveDateTime::new(date, time).and_utc()).await?;
    let row = client.query_one("select $1::text::interval", &[&"1 mon 2 days 00:00:03"]).await?;
    same!(
        Bytes::from_static(&[0, 0, 0, 0, 0, 45, 198, 192, 0, 0, 0, 2, 0, 0, 0, 1]),
        row.get::<_, Raw>(0).0
    );
    let text: String = client
        .query_one("select ($1::interval)::text", &[&Raw(row.get::<_, Raw>(0).0)])
        .await?
        .get(0);
    same!("1 mon 2 days 00:00:03", text);
    Ok(())
}

/// A value's bytes, whatever its type.
#[derive(Debug)]
pub(crate) struct Raw(pub(crate) Bytes);

impl<'a> FromSql<'a> for Raw {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Raw, Box<dyn Error + Sync + Send>> {
        Ok(Raw(Bytes::copy_from_slice(raw)))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

impl ToSql for Raw {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut bytes::BytesMut,
    ) -> Result<tokio_postgres::types::IsNull, Box<dyn Error + Sync + Send>> {
        out.extend_from_slice(&self.0);
        Ok(tokio_postgres::types::IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    tokio_postgres::types::to_sql_checked!();
}

async fn documents(url: String) -> Fails {
    let client = open(&url).await?;
    there_and_back(&client, "json", json!({"a": [1, 2.5, null, "x"], "b": {}})).await?;
    there_and_back(&client, "jsonb", json!({"a": [1, 2.5, null, "x"], "b": {}})).await?;
    let typed: Json<Vec<i32>> =
        client.query_one("select $1::jsonb -> 'a'", &[&json!({"a": [1, 2]})]).await?.get(0);
    same!(vec![1, 2], typed.0);
    Ok(())
}

async fn arrays(url: String) -> Fails {
    let client = open(&url).await?;
    there_and_back(&client, "bool[]", vec![true, false]).await?;
    there_and_back(&client, "int2[]", vec![1i16, 2]).await?;
    there_and_back(&client, "int[]", vec![Some(1i32), None, Some(3)]).await?;
    there_and_back(&client, "int[]", Vec::<i32>::new()).await?;
    there_and_back(&client, "bigint[]", vec![i64::MAX]).await?;
    there_and_back(&client, "real[]", vec![1.5f32]).await?;
    there_and_back(&client, "float8[]", vec![0.1f64]).await?;
    there_and_back(&client, "numeric[]", vec![Decimal::new(15, 1)]).await?;
    there_and_back(
        &client,
        "text[]",
        vec!["x".to_owned(), "a \"quoted\", one".to_owned(), "NULL".to_owned()],
    )
    .await?;
    there_and_back(&client, "bytea[]", vec![vec![0u8, 1], vec![]]).await?;
    there_and_back(&client, "uuid[]", vec![Uuid::from_u128(7)]).await?;
    there_and_back(&client, "date[]", vec![NaiveDate::from_ymd_opt(2024, 2, 29).ok_or("no date")?])
        .await?;
    there_and_back(&client, "timestamptz[]", vec![DateTime::<Utc>::UNIX_EPOCH]).await?;
    there_and_back(&client, "jsonb[]", vec![json!({"a": 1})]).await?;
    let rows = client
        .query("select i from generate_series(1, 5) i where i = any ($1)", &[&vec![2i32, 4, 9]])
        .await?;
    same!(vec![2, 4], rows.iter().map(|row| row.get(0)).collect::<Vec<i32>>());
    Ok(())
}

async fn nulls(url: String) -> Fails {
    let client = open(&url).await?;
    let row =
        client.query_one("select null, null::int, $1::text is null, 1", &[&None::<String>]).await?;
    same!(None, row.get::<_, Option<String>>(0));
    same!(None, row.get::<_, Option<i32>>(1));
    same!(true, row.get::<_, bool>(2));
    same!(true, row.try_get::<_, i32>(1).is_err());
    Ok(())
}

async fn numerics(url: String) -> Fails {
    let client = open(&url).await?;
    for text in [
        "0",
        "-1.5",
        "12345678901234567890.123456789",
        "0.0000000001",
        "10000",
        "0.0001",
        "100000000",
    ] {
        there_and_back(&client, "numeric", text.parse::<Decimal>()?).await?;
        let back: String = client
            .query_one("select ($1::numeric)::text", &[&text.parse::<Decimal>()?])
            .await?
            .get(0);
        same!(text, back);
    }
    there_and_back(&client, "numeric(10,2)", "12.34".parse::<Decimal>()?).await?;
    Ok(())
}

/// Zeros at the end are part of a numeric.
async fn numeric_scale(url: String) -> Fails {
    let client = open(&url).await?;
    let n = "1.00".parse::<Decimal>()?;
    same!("1.00", client.query_one("select ($1::numeric)::text", &[&n]).await?.get::<_, String>(0));
    Ok(())
}

async fn infinities(url: String) -> Fails {
    let client = open(&url).await?;
    use tokio_postgres::types::{Date, Timestamp};
    let row = client
        .query_one(
            "select 'infinity'::timestamptz, '-infinity'::date, 'NaN'::float8, '-Infinity'::real, 'infinity'::timestamp",
            &[],
        )
        .await?;
    same!(Timestamp::<DateTime<Utc>>::PosInfinity, row.get(0));
    same!(Date::<NaiveDate>::NegInfinity, row.get(1));
    same!(true, row.get::<_, f64>(2).is_nan());
    same!(f32::NEG_INFINITY, row.get::<_, f32>(3));
    same!(Timestamp::<NaiveDateTime>::PosInfinity, row.get(4));
    Ok(())
}
