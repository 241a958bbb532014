//! sqlx: migrations, and what its macros ask of a database while they are compiled.

use futures_util::future::try_join_all;
use sqlx::migrate::{Migrate, MigrateDatabase, Migrator};
use sqlx::postgres::PgPoolOptions;
use sqlx::{Column, Either, Executor, PgConnection, Postgres, TypeInfo};

use crate::sqlx_ways::{code, count, open, with_frogs};
use crate::{Fails, checks, same};

checks! {
    migrations migrations_again_and_back migration_that_fails migration_without_a_transaction migrations_at_once
    create_and_drop_database
    describe describe_outer_join describe_expressions describe_without_rows describe_wrong describe_enum
    describe_parameters
}

/// A folder of migrations that is gone with its value.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(files: &[(&str, &str)]) -> std::io::Result<Folder> {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let n = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("frogs-{}-{n}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        for (name, sql) in files {
            std::fs::write(folder.join(name), sql)?;
        }
        Ok(Folder(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const MIGRATIONS: &[(&str, &str)] = &[
    (
        "1_frogs.up.sql",
        "create table frogs (id bigint generated always as identity primary key, name text not null);\n\
        create index frogs_name on frogs (lower(name));\n-- a comment; with a semicolon\n\
        comment on table frogs is 'green';",
    ),
    ("1_frogs.down.sql", "drop table frogs;"),
    (
        "2_ponds.up.sql",
        "create table ponds (id uuid primary key default gen_random_uuid(), depth numeric(6,2) check (depth > 0));\n\
        alter table frogs add column pond uuid references ponds (id) on delete set null;\n\
        insert into ponds (depth) values (1.5); insert into frogs (name, pond) select 'Kermit', id from ponds;",
    ),
    ("2_ponds.down.sql", "alter table frogs drop column pond; drop table ponds;"),
];

async fn migrations(url: String) -> Fails {
    let pool = PgPoolOptions::new().connect(&url).await?;
    let folder = Folder::new(MIGRATIONS)?;
    let migrator = Migrator::new(folder.0.as_path()).await?;
    migrator.run(&pool).await?;
    let applied: Vec<(i64, String, bool)> = sqlx::query_as(
        "select version, description, success from _sqlx_migrations order by version",
    )
    .fetch_all(&pool)
    .await?;
    same!(vec![(1, "frogs".to_owned(), true), (2, "ponds".to_owned(), true)], applied);
    same!(
        1i64,
        sqlx::query_scalar::<_, i64>("select count(*) from frogs join ponds on ponds.id = pond")
            .fetch_one(&pool)
            .await?
    );
    Ok(())
}

async fn migrations_again_and_back(url: String) -> Fails {
    let pool = PgPoolOptions::new().connect(&url).await?;
    let folder = Folder::new(MIGRATIONS)?;
    let migrator = Migrator::new(folder.0.as_path()).await?;
    migrator.run(&pool).await?;
    migrator.run(&pool).await?;
    migrator.undo(&pool, 1).await?;
    same!(1, pool.acquire().await?.list_applied_migrations("_sqlx_migrations").await?.len());
    same!(
        None,
        sqlx::query_scalar::<_, Option<String>>("select to_regclass('ponds')::text")
            .fetch_one(&pool)
            .await?
    );
    migrator.run(&pool).await?;
    migrator.undo(&pool, 0).await?;
    same!(
        0i64,
        sqlx::query_scalar::<_, i64>("select count(*) from _sqlx_migrations")
            .fetch_one(&pool)
            .await?
    );
    migrator.run(&pool).await?;
    // A migration that was changed is refused.
    let changed = Folder::new(&[
        MIGRATIONS[0],
        ("2_ponds.up.sql", "select 1"),
        MIGRATIONS[1],
        MIGRATIONS[3],
    ])?;
    let refused = Migrator::new(changed.0.as_path()).await?.run(&pool).await;
    same!(true, matches!(refused, Err(sqlx::migrate::MigrateError::VersionMismatch(2))));
    Ok(())
}

async fn migration_that_fails(url: String) -> Fails {
    let pool = PgPoolOptions::new().connect(&url).await?;
    let folder = Folder::new(&[
        ("1_first.sql", "create table t (id int)"),
        ("2_fails.sql", "create table u (id int); select 1 / 0"),
    ])?;
    same!(true, Migrator::new(folder.0.as_path()).await?.run(&pool).await.is_err());
    same!(
        vec!["t"],
        sqlx::query_scalar::<_, String>(
            "select tablename::text from pg_tables where tablename in ('t', 'u')"
        )
        .fetch_all(&pool)
        .await?
    );
    same!(
        vec![1i64],
        sqlx::query_scalar::<_, i64>("select version from _sqlx_migrations")
            .fetch_all(&pool)
            .await?
    );
    Ok(())
}

async fn migration_without_a_transaction(url: String) -> Fails {
    let pool = PgPoolOptions::new().connect(&url).await?;
    let folder = Folder::new(&[
        ("1_table.sql", "create table t (id int)"),
        ("2_index.sql", "-- no-transaction\ncreate index concurrently t_id on t (id)"),
    ])?;
    Migrator::new(folder.0.as_path()).await?.run(&pool).await?;
    same!(
        1i64,
        sqlx::query_scalar::<_, i64>("select count(*) from pg_indexes where indexname = 't_id'")
            .fetch_one(&pool)
            .await?
    );
    Ok(())
}

/// Instances of a service that start together wait for each other by an advisory lock.
async fn migrations_at_once(url: String) -> Fails {
    let folder = Folder::new(MIGRATIONS)?;
    let migrator = Migrator::new(folder.0.as_path()).await?;
    let pool = PgPoolOptions::new().max_connections(4).connect(&url).await?;
    try_join_all((0..4).map(|_| migrator.run(&pool))).await?;
    same!(
        2i64,
        sqlx::query_scalar::<_, i64>("select count(*) from _sqlx_migrations")
            .fetch_one(&pool)
            .await?
    );
    same!(
        0i64,
        sqlx::query_scalar::<_, i64>("select count(*) from pg_locks where locktype = 'advisory'")
            .fetch_one(&pool)
            .await?
    );
    Ok(())
}

async fn create_and_drop_database(url: String) -> Fails {
    let other = format!("{}{}", &url[..=url.rfind('/').ok_or("no database")?], "sqlx_made");
    Postgres::create_database(&other).await?;
    let exists = Postgres::database_exists(&other).await?;
    Postgres::force_drop_database(&other).await?;
    same!((true, false), (exists, Postgres::database_exists(&other).await?));
    Ok(())
}

/// What the macros learn of a query: each column's name, type, and whether it may be NULL.
async fn described(c: &mut PgConnection, sql: &'static str) -> Result<Vec<String>, sqlx::Error> {
    let described = c.describe(sqlx::SqlStr::from_static(sql)).await?;
    let column = |at: usize| {
        let column = described.column(at);
        format!("{} {} {:?}", column.name(), column.type_info().name(), described.nullable(at))
    };
    Ok((0..described.columns().len()).map(column).collect())
}

async fn describe(url: String) -> Fails {
    let mut c = with_frogs(&url).await?;
    same!(
        vec!["id INT8 Some(false)", "called TEXT Some(false)", "weight FLOAT8 Some(true)"],
        described(&mut c, "select * from frogs where id = $1").await?
    );
    same!(
        vec!["id INT8 Some(false)"],
        described(&mut c, "insert into frogs (called) values ($1) returning id").await?
    );
    Ok(())
}

/// That the inner side of an outer join may be NULL is in EXPLAIN's plan only.
async fn describe_outer_join(url: String) -> Fails {
    let mut c = with_frogs(&url).await?;
    c.execute("create table ponds (frog bigint not null, depth int not null)").await?;
    // Of many frogs and few ponds, PostgreSQL hashes the ponds.
    c.execute("insert into frogs (called) select 'x' from generate_series(1, 5000); insert into ponds values (1, 2)").await?;
    c.execute("analyze frogs; analyze ponds").await?;
    same!(
        vec!["called TEXT Some(false)", "depth INT4 Some(true)"],
        described(&mut c, "select called, depth from frogs left join ponds on frog = id").await?
    );
    same!(
        vec!["called TEXT Some(false)", "depth INT4 Some(false)"],
        described(
            &mut c,
            "select called, depth from frogs join ponds on frog = id where depth > $1"
        )
        .await?
    );
    Ok(())
}

async fn describe_expressions(url: String) -> Fails {
    let mut c = with_frogs(&url).await?;
    same!(
        vec!["n INT8 None", "?column? INT4 None", "upper TEXT None"],
        described(&mut c, "select count(*) as n, 1 + 1, upper($1)").await?
    );
    Ok(())
}

async fn describe_without_rows(url: String) -> Fails {
    let mut c = with_frogs(&url).await?;
    for sql in [
        "update frogs set called = $1 where id = $2",
        "create table x (id int)",
        "begin",
        "delete from frogs",
    ] {
        same!(Vec::<String>::new(), described(&mut c, sql).await?);
    }
    same!(2, count(&mut c).await?);
    Ok(())
}

async fn describe_wrong(url: String) -> Fails {
    let mut c = with_frogs(&url).await?;
    same!("42703", code(described(&mut c, "select missing from frogs").await));
    same!("42P01", code(described(&mut c, "select * from missing").await));
    Ok(())
}

async fn describe_enum(url: String) -> Fails {
    let mut c = open(&url).await?;
    c.execute("create type mood as enum ('sad', 'happy'); create table t (m mood not null, d date, n numeric(3,1)[])").await?;
    same!(
        vec!["m mood Some(false)", "d DATE Some(true)", "n NUMERIC[] Some(true)"],
        described(&mut c, "select * from t where m = $1").await?
    );
    Ok(())
}

async fn describe_parameters(url: String) -> Fails {
    let mut c = with_frogs(&url).await?;
    let sql = "select id from frogs where id = any($1) and called like $2 and weight > $3 limit $4";
    let described = c.describe(sqlx::SqlStr::from_static(sql)).await?;
    let Some(Either::Left(parameters)) = described.parameters() else {
        return Err("no parameters' types".into());
    };
    same!(
        vec!["INT8[]", "TEXT", "FLOAT8", "INT8"],
        parameters.iter().map(|of| of.name()).collect::<Vec<_>>()
    );
    Ok(())
}
