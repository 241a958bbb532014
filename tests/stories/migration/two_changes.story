# Two schema changes of one table: the second waits for the first, and then builds on what it left.

== one after the other
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
M> begin
M> alter table t add column a int default 1
N> alter table t add column b int default 2
    waits
M> commit
N> ...
    ALTER TABLE
N> select * from t where id = 1
    (id, v, a, b)
    1|10|1|2

== the first is rolled back
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
M> begin
M> alter table t drop column v
N> alter table t add column b bigint generated always as (v + 1) stored
    waits
M> rollback
N> ...
    ALTER TABLE
N> select * from t where id = 1
    (id, v, b)
    1|10|11

== the second finds its column gone
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
M> begin
M> alter table t drop column v
N> alter table t alter column v type bigint
    waits
M> commit
N> ...
    ERROR 42703

== lock_timeout
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
M> begin
M> alter table t add column a int default 1
N> set lock_timeout = '200ms'
N> alter table t add column b int default 2
    ERROR 55P03
N> select * from t where id = 1
    (id, v)
    1|10
M> commit
N> alter table t add column b int default 2
    ALTER TABLE

== two tables crosswise: a deadlock, and not for ever
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
setup> create table u (id int primary key)
M> begin
M> alter table t add column a int default 1
N> begin
N> alter table u add column a int default 1
M> alter table u add column b int default 2
    waits
N> alter table t add column b int default 2
    ERROR 40P01
N> rollback
M> ...
    ALTER TABLE
M> commit
    COMMIT

== two unique indexes at once, and a writer of duplicates
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
M> begin
M> create unique index one on t (v)
N> create unique index two on t (v)
    waits
W> insert into t values (4, 10)
    INSERT 0 1
M> commit
    ERROR 23505
N> ...
    ERROR 23505
W> delete from t where id = 4
N> create unique index two on t (v)
    CREATE INDEX
W> insert into t values (4, 10)
    ERROR 23505

== a table of the same name
M> begin
M> create table same (id int)
N> create table same (id int)
    waits
M> commit
N> ...
    ERROR 42P07

== the second one that does not want to wait is told of the first
setup> create table t (id int primary key, v int); insert into t values (1, 10)
M> begin
M> alter table t add column w bigint generated always as (v * 2) stored
N> set lock_timeout = '50ms'
N> alter table t add column x int
    ERROR 55P03
N> begin isolation level repeatable read
N> select * from t
    1|10
M> commit
N> alter table t add column x int
    ERROR 40001
N> rollback
