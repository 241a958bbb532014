# A schema change that does not commit never was, wherever it stopped.

== after the scan
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
M> begin
M> alter table t add column d bigint generated always as (v * 2) stored
M> select * from t order by id
    1|10|20, 2|20|40, 3|30|60
M> rollback
M> select * from t order by id
    (id, v)
    1|10, 2|20, 3|30
M> alter table t add column d text default 'again'
    ALTER TABLE
M> select * from t where id = 1
    1|10|again

== while others write
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
M> begin
M> alter table t alter column v type text using 'v' || v
M> create index by_v on t (v)
W> update t set v = 11 where id = 1
M> rollback
W> insert into t values (4, 40)
W> select * from t order by v
    1|11, 2|20, 3|30, 4|40

== to a savepoint, and on from there
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
M> begin
M> alter table t add column a int default 1
M> savepoint s
M> alter table t add column b bigint generated always as (v * 2) stored
M> update t set a = 2
M> rollback to s
M> select * from t order by id
    (id, v, a)
    1|10|1, 2|20|1, 3|30|1
W> insert into t values (4, 40)
M> alter table t add column c bigint generated always as (v + 1) stored
M> commit
W> select * from t order by id
    (id, v, a, c)
    1|10|1|11, 2|20|1|21, 3|30|1|31, 4|40|1|41

== to a savepoint before the first change
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
M> begin
M> update t set v = 11 where id = 1
M> savepoint s
M> alter table t drop column v
M> rollback to s
M> select * from t where id = 1
    1|11
M> commit
W> select * from t where id = 1
    1|11

== the change itself fails
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
M> begin
M> alter table t add column a int default 1
M> alter table t add check (v < 30)
    ERROR 23514
M> select * from t
    ERROR 25P02
M> commit
    ROLLBACK
W> select * from t order by id
    (id, v)
    1|10, 2|20, 3|30

== a change that failed is taken back to a savepoint
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
M> begin
M> alter table t add column a int default 1
M> savepoint s
M> create unique index once on t (a)
    ERROR 23505
M> rollback to s
M> create unique index once on t (v)
M> commit
    COMMIT
W> insert into t values (4, 30)
    ERROR 23505

== at its commit: a captured row violates the check
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
M> begin
M> alter table t add constraint small check (v < 100)
W> insert into t values (4, 400)
    INSERT 0 1
M> commit
    ERROR 23514: small
M> insert into t values (5, 500)
    INSERT 0 1
M> select count(*) from t
    5

== at its commit: a violation that has gone again is none
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
M> begin
M> alter table t add constraint small check (v < 100)
W> insert into t values (4, 400)
W> update t set v = 40 where id = 4
M> commit
    COMMIT
W> insert into t values (5, 500)
    ERROR 23514

== at its commit: captured NULLs, duplicates, orphans
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
setup> create table u (id int primary key, t int); insert into u values (1, 1)
M> begin
M> alter table t alter column v set not null
W> insert into t values (4, null)
M> commit
    ERROR 23502
M> begin
M> create unique index once on t (v)
W> insert into t values (5, 10)
M> commit
    ERROR 23505
M> begin
M> alter table u add foreign key (t) references t
W> insert into u values (2, 99)
M> commit
    ERROR 23503
M> begin
M> alter table u add foreign key (t) references t
    ERROR 23503
M> rollback
W> delete from u where id = 2
M> begin
M> alter table u add foreign key (t) references t
W> delete from t where id = 1
    DELETE 1
M> commit
    ERROR 23503
W> select * from t order by id
    (id, v)
    2|20, 3|30, 4|NULL, 5|10

== its client vanishes
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
M> begin
M> alter table t add column d bigint generated always as (v * 2) stored
M> \gone
W> alter table t add column e int default 1
    ALTER TABLE
W> select * from t order by id
    (id, v, e)
    1|10|1, 2|20|1, 3|30|1
