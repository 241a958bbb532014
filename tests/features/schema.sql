-- feature: CREATE TABLE, IF NOT EXISTS, LIKE
create table t (a int primary key, b text not null default 'x');
create table if not exists t (z int);
create table u (like t including all);
insert into u values (1);
insert into u values (1);
create table t (a int);
drop table nothing;
drop table if exists nothing;
drop table t, u;
-- feature: CREATE TABLE AS
create table s as select 1 as a, 'x'::text as b;
create table t as select a + 1 as n from s with no data;
select * from t;
create table if not exists s as select 2;
select * from s;
-- feature: ALTER TABLE ADD, DROP, RENAME COLUMN
create table t (a int primary key);
insert into t values (1);
alter table t add column b text not null default 'x', add c int;
alter table t rename column b to bb;
alter table t drop column c;
alter table t drop column if exists c;
alter table t add column if not exists a int;
select * from t;
alter table t add column a int;
alter table t drop column nothing;
-- feature: ALTER COLUMN TYPE, SET DEFAULT, SET NOT NULL
create table t (a int, b text);
insert into t values (1, '5');
alter table t alter column a type bigint, alter column b type int using b::int;
alter table t alter a set default 7, alter b set not null;
insert into t (b) values (1) returning a;
insert into t (b) values (null);
alter table t alter b drop not null, alter a drop default;
alter table t alter column a type date using null;
select * from t order by b;
-- feature: ADD and DROP CONSTRAINT
create table t (a int, b int);
insert into t values (1, 1), (2, 1);
alter table t add constraint pk primary key (a);
alter table t add constraint u unique (b);
alter table t add constraint c check (b > 0);
alter table t add constraint c2 check (b > 1);
alter table t add constraint c3 check (b > 1) not valid;
alter table t validate constraint c3;
alter table t rename constraint c to cc;
alter table t drop constraint cc;
insert into t values (1, 5);
-- feature: ALTER TABLE RENAME, SET SCHEMA
create table t (a int);
alter table t rename to u;
create schema s;
alter table u set schema s;
select * from s.u;
-- feature: indexes
create table t (a int, b text, c int);
insert into t values (1, 'x', 1), (2, 'Y', 2);
create index i on t (a);
create unique index on t (b, c);
create index concurrently k on t (c desc nulls last);
create index if not exists i on t (b);
alter index i rename to j;
drop index j;
select indexname, indexdef from pg_indexes where tablename = 't' order by 1;
reindex table t;
-- feature: expression indexes
create table t (a int, b text);
insert into t values (1, 'x'), (2, 'Y');
create unique index on t (lower(b));
insert into t values (3, 'X');
select a from t where lower(b) = 'y';
create index on t ((a + 1));
-- feature: partial indexes
create table t (a int, gone bool not null default false);
create unique index on t (a) where not gone;
insert into t values (1, false), (1, true), (1, true);
insert into t values (1, false);
update t set gone = false;
-- feature: INCLUDE columns, index methods
create table t (a int, b int, c jsonb);
create index on t using btree (a) include (b);
create index on t using hash (a);
create index on t using gin (c);
-- feature: schemas and search_path
create schema app;
create table app.t (a int primary key);
insert into app.t values (1);
select * from app.t;
create table t (a int);
set search_path = app, public;
select * from t;
show search_path;
select current_schema(), current_schemas(false);
create table made (x int);
select table_schema from information_schema.tables where table_name = 'made';
drop schema app;
drop schema app cascade;
select * from t;
create schema if not exists public;
create schema authorization postgres;
alter schema postgres rename to other;
drop schema other;
-- feature: views
create table t (a int primary key, b text);
insert into t values (1, 'x'), (2, 'y');
create view v as select a, upper(b) as u from t where a > 0;
select * from v order by a;
create or replace view v as select a, upper(b) as u, 1 as one from t;
select * from v where a = 2;
create view w (n) as select count(*) from v;
select * from w;
drop table t;
drop view v;
drop view w, v;
drop view if exists v;
-- feature: updatable views
create table t (a int primary key, b text);
create view v as select a, b from t where a > 0;
insert into v values (1, 'x');
update v set b = 'y' where a = 1;
delete from v where a = 1 returning *;
create view w as select * from t where a > 5 with check option;
insert into w values (1, 'x');
-- feature: schema changes beneath views
create table t (a int primary key, b int);
create view v as select a, b from t;
alter table t add column c int;
alter table t drop column b;
alter table t rename column a to aa;
select * from v;
alter table t drop column b cascade;
select * from v;
-- feature: materialized views
create table t (a int);
insert into t values (1), (2);
create materialized view m as select sum(a) as s from t;
insert into t values (3);
select * from m;
refresh materialized view m;
select * from m;
create unique index on m (s);
refresh materialized view concurrently m;
create materialized view e as select * from t with no data;
select * from e;
drop materialized view m;
-- feature: temporary tables
create temp table t (a int primary key);
insert into t values (1);
select * from t;
create temporary table d (a int) on commit drop;
begin;
create temp table k (a int) on commit delete rows;
insert into k values (1);
commit;
select count(*) from k;
create table t (a int);
drop table t;
-- feature: unlogged tables
create unlogged table t (a int);
insert into t values (1);
-- feature: sequences
create sequence s start 5 increment 2 maxvalue 8 cycle;
select nextval('s'), nextval('s'), nextval('s');
select setval('s', 7), currval('s'), lastval();
alter sequence s restart with 6;
select nextval('s');
alter sequence s rename to r;
select last_value, is_called from r;
drop sequence r;
create table t (a int default nextval('nothing'));
-- feature: COMMENT ON
create table t (a int);
comment on table t is 'a table';
comment on column t.a is 'a column';
select obj_description('t'::regclass), col_description('t'::regclass, 1);
comment on table t is null;
select obj_description('t'::regclass);
-- feature: partitioned tables
create table t (a int, b int) partition by range (a);
create table t1 partition of t for values from (0) to (10);
insert into t values (5, 1);
select tableoid::regclass, * from t;
-- feature: inheritance
create table p (a int);
create table c (b int) inherits (p);
-- feature: schema changes roll back
create table t (a int);
begin;
alter table t add b int;
create table u (a int);
drop table t;
rollback;
select * from t;
select * from u;
-- feature: dependencies, CASCADE and RESTRICT
create table p (a int primary key);
create table c (a int references p);
drop table p restrict;
drop table p cascade;
insert into c values (1);
-- feature: statistics objects and ANALYZE
create table t (a int);
analyze t;
analyze;
vacuum t;
vacuum analyze;
-- feature: event triggers, rules
create rule r as on insert to t do nothing;
-- feature: extensions
create extension if not exists plpgsql;
create extension nothing;
-- feature: OWNER TO of tables, views, sequences, schemas
create table t (a int);
create view v as select 1 as a;
create sequence s;
create schema app;
alter table t owner to postgres;
alter table v owner to postgres;
alter view v owner to current_user;
alter table s owner to postgres;
alter sequence s owner to postgres;
alter schema app owner to postgres;
alter table t owner to nobody;
alter view if exists nothing owner to postgres;
alter sequence nothing owner to postgres;
drop schema app;
-- feature: ALTER SEQUENCE … AS
create sequence s as smallint;
alter sequence s as int;
select seqtypid::regtype, seqmin, seqmax from pg_sequence where seqrelid = 's'::regclass;
alter sequence s maxvalue 40000;
alter sequence s as smallint;
alter sequence s as text;
alter sequence s as bigint maxvalue 7;
select seqtypid::regtype, seqmax from pg_sequence where seqrelid = 's'::regclass;
drop sequence s;
-- feature: ADD GENERATED … AS IDENTITY (SEQUENCE NAME …)
create table t (id int not null);
alter table t alter column id add generated by default as identity (sequence name t_numbers start with 5 increment by 2 no minvalue no maxvalue cache 1);
insert into t default values;
insert into t default values;
select * from t;
select pg_get_serial_sequence('t', 'id');
create table u (id int not null);
alter table u alter id add generated always as identity (sequence name t_numbers);
-- feature: SET STATISTICS, SET STORAGE
create table t (a int, b text);
alter table t alter b set storage external, alter column a set statistics 50;
alter table t alter a set statistics -1;
alter table t alter nothing set statistics 5;
alter table t alter b set storage nowhere;
-- feature: ALTER COLUMN TYPE … COLLATE "C"
create table t (a text collate "C", b text collate pg_catalog."C");
alter table t alter a type varchar(20) collate "C", alter b type varchar(5) collate "C" using left(b, 5);
-- feature: renamed sequences of columns
create table t (id serial, k int generated by default as identity);
create schema app;
alter sequence t_id_seq rename to "t's numbers";
alter sequence t_k_seq rename to k_numbers;
insert into t default values;
alter sequence "t's numbers" set schema app;
insert into t default values;
select * from t;
select column_default from information_schema.columns where table_name = 't' and column_name = 'id';
drop table t;
drop schema app;
-- feature: materialized views
create table t (id int primary key, v int, s text);
insert into t values (1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c');
create materialized view m as select s, sum(v) as total from t group by s;
create materialized view m as select 1;
create materialized view if not exists m as select 1;
insert into t values (4, 5, 'a');
select * from m order by 1;
refresh materialized view m;
select * from m order by 1;
create materialized view e (a, b) as select id, v from t with no data;
select * from e;
create view ve as select a from e;
select * from ve;
refresh materialized view e;
select * from ve order by 1;
refresh materialized view e with no data;
select count(*) from e;
refresh materialized view concurrently m;
create unique index m_s on m (s);
insert into t values (5, 1, 'z');
refresh materialized view concurrently m;
select * from m where s = 'z';
select schemaname, matviewname, matviewowner, hasindexes, ispopulated from pg_matviews order by 2;
select relname, relkind, relispopulated, relhasrules, relhasindex from pg_class where relname in ('m', 'e', 'm_s', 've') order by 1;
select table_name, table_type from information_schema.tables where table_schema = 'public' order by 1;
select count(*) from information_schema.columns where table_schema = 'public';
select tablename from pg_tables where schemaname = 'public';
comment on materialized view m is 'sums';
select obj_description('m'::regclass);
-- feature: materialized views: what is refused
create table t (id int primary key, v int, s text);
create materialized view m as select * from t;
insert into m values (1, 1, 'x');
update m set v = 1;
delete from m;
truncate m;
drop table m;
drop view m;
alter table m add column x int;
alter table m add primary key (id);
select * from m for update;
merge into m using t on true when matched then delete;
refresh materialized view t;
refresh materialized view nope;
refresh materialized view concurrently m;
drop materialized view t;
drop materialized view nope;
drop materialized view if exists nope;
create materialized view bad (a, b, c, d) as select * from t;
create materialized view bad (a, a) as select 1, 2;
drop table t;
alter table t drop column v;
alter table t alter column v type bigint;
-- feature: ALTER and DROP MATERIALIZED VIEW
create table t (id int, v int);
insert into t values (1, 10), (2, 20);
create materialized view m as select * from t;
create schema sc;
alter materialized view m rename to mm;
alter materialized view mm rename column v to w;
alter materialized view mm set schema sc;
alter table t rename to tt;
alter table tt rename column v to vv;
insert into tt values (3, 30);
refresh materialized view sc.mm;
select * from sc.mm order by id;
begin;
insert into tt values (4, 40);
refresh materialized view sc.mm;
select count(*) from sc.mm;
savepoint s;
drop materialized view sc.mm;
rollback to s;
select count(*) from sc.mm;
rollback;
select count(*) from sc.mm;
create materialized view q as select count(*) from sc.mm;
drop materialized view sc.mm;
drop materialized view sc.mm, q;
create materialized view m as select * from tt;
drop table tt cascade;
select count(*) from pg_matviews;
-- feature: CREATE RECURSIVE VIEW
create recursive view nums (n) as values (1) union all select n + 1 from nums where n < 5;
select * from nums order by n;
create or replace recursive view nums (n) as values (1) union all select n + 1 from nums where n < 3;
select sum(n) from nums;
create recursive view bad as select 1;
-- feature: ALTER VIEW … RENAME COLUMN
create view v as select 1 as a, 2 as b;
create view over_v as select a from v;
alter view v rename column a to aa;
alter view v rename b to bb;
alter view v rename zz to bb;
alter view v rename aa to bb;
select * from v;
select * from over_v;
