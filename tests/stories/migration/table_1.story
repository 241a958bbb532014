# Every cell of the paper's table 1 (000, section 3.1): a schema change goes through beside a writer that is open
# and a reader that has a snapshot, and neither waits or loses anything.

== copy and verify: MODIFY COLUMN
setup> create table t (id int primary key, v text); insert into t values (1, '10'), (2, '20')
W> begin
W> update t set v = '11' where id = 1
R> begin isolation level repeatable read
R> select v from t where id = 1
    10
M> alter table t alter column v type int using v::int
    ALTER TABLE
R> select v || '!' from t where id = 1
    10!
R> commit
W> commit
    COMMIT
M> select id, v + 1 from t order by id
    1|12, 2|21

== copy and verify: MODIFY COLUMN, of what does not fit
setup> create table t (id int primary key, v text); insert into t values (1, '10'), (2, 'twenty')
W> begin
W> update t set v = '11' where id = 1
M> alter table t alter column v type int using v::int
    ERROR 22P02
W> commit
    COMMIT
M> select * from t order by id
    1|11, 2|twenty

== copy and verify: CREATE UNIQUE INDEX
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20)
W> begin
W> update t set v = 11 where id = 1
M> create unique index t_v on t (v)
    CREATE INDEX
W> commit
    COMMIT
M> insert into t values (3, 11)
    ERROR 23505
M> select id from t where v = 11
    1

== verify alone: ADD CONSTRAINT
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20)
W> begin
W> update t set v = 11 where id = 1
M> alter table t add constraint small check (v < 100)
    ALTER TABLE
W> commit
    COMMIT
M> update t set v = 100 where id = 1
    ERROR 23514
M> alter table t add constraint smaller check (v < 20)
    ERROR 23514

== verify alone: SET NOT NULL
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, null)
M> alter table t alter column v set not null
    ERROR 23502
W> begin
W> update t set v = 20 where id = 2
M> begin
M> delete from t where id = 1
W> commit
    COMMIT
M> alter table t alter column v set not null
M> commit
    COMMIT
M> update t set v = null
    ERROR 23502
M> select * from t
    2|20

== copy alone: CREATE TABLE AS SELECT
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 20)
W> begin
W> update t set v = 10 where id = 3
M> create table c as select v, count(*) as n from t group by v
    SELECT 2
W> commit
    COMMIT
M> select * from c order by v
    10|1, 20|2

== copy alone: CREATE INDEX
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20)
W> begin
W> update t set v = 20 where id = 1
M> create index t_v on t (v)
    CREATE INDEX
W> commit
    COMMIT
M> select id from t where v = 20 order by id
    1, 2

== neither: CREATE and DROP TABLE
setup> create table t (id int primary key, v int); insert into t values (1, 10)
R> begin isolation level repeatable read
R> select count(*) from t
    1
M> create table u (id int)
    CREATE TABLE
M> drop table t
    DROP TABLE
R> select * from t
    1|10
R> commit
R> select * from t
    ERROR 42P01

== neither: ADD and DROP COLUMN
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20)
W> begin
W> update t set v = 11 where id = 1
R> begin isolation level repeatable read
R> select * from t order by id
    1|10, 2|20
M> alter table t add column w int default 7
    ALTER TABLE
M> alter table t drop column v
    ALTER TABLE
R> select * from t order by id
    1|10, 2|20
R> commit
W> commit
    COMMIT
R> select * from t order by id
    1|7, 2|7
