# LOCK TABLE: who waits for whom, in PostgreSQL's eight modes.

== access exclusive: readers wait, too
setup> create table t (a int); insert into t values (1)
T1> begin
T1> lock table t
T2> select * from t
    waits
T1> insert into t values (2)
T1> commit
T2> ...
    1, 2

== exclusive: readers go on, writers and those that lock rows wait
setup> create table t (a int); insert into t values (1)
T1> begin
T1> lock table t in exclusive mode
T2> select * from t
    1
T2> select * from t for update
    waits
T3> delete from t where a = 0
    waits
T1> rollback
T2> ...
    1
T3> ...

== share: readers, and those that lock rows, go on; writers wait
setup> create table t (a int); insert into t values (1)
T1> begin
T1> lock table t in share mode
T2> select * from t for update
    1
T3> begin
T3> lock t in share mode
T3> commit
T2> update t set a = 5
    waits
T1> commit
T2> ...
    UPDATE 1

== share row exclusive: one at a time, and no writers
setup> create table t (a int); insert into t values (1)
T1> begin
T1> lock t in share row exclusive mode
T2> begin
T2> lock t in share mode
    waits
T3> delete from t
    waits
T1> update t set a = 2
T1> commit
T2> ...
T2> rollback
T3> ...
    DELETE 1

== share update exclusive: writers go on
setup> create table t (a int)
T1> begin
T1> lock t in share update exclusive mode
T2> insert into t values (1)
    INSERT 0 1
T2> begin
T2> lock t in share update exclusive mode nowait
    ERROR 55P03: could not obtain lock on relation "t"
T2> rollback
T1> commit

== row exclusive, row share
setup> create table t (a int)
T1> begin
T1> lock t in row exclusive mode
T2> begin
T2> lock t in row exclusive mode nowait
T2> rollback
T2> begin
T2> lock t in share mode nowait
    ERROR 55P03
T2> rollback
T2> begin
T2> lock t in row share mode nowait
T1> rollback
T1> begin
T1> lock t in share row exclusive mode nowait
T1> rollback
T1> begin
T1> lock t in exclusive mode nowait
    ERROR 55P03
T1> rollback
T2> rollback

== access share meets access exclusive alone
setup> create table t (a int)
T1> begin
T1> lock t in access share mode
T2> begin
T2> lock t in exclusive mode nowait
T2> commit
T2> begin
T2> lock t in access exclusive mode nowait
    ERROR 55P03: could not obtain lock on relation "t"
T2> rollback
T1> commit

== a writer is waited for to the end of its transaction
setup> create table t (a int)
T1> begin
T1> insert into t values (1)
T2> begin
T2> lock t in share mode
    waits
T1> insert into t values (2)
T1> commit
T2> ...
T2> select * from t
    1, 2
T2> commit

== a reader is waited for to the end of its transaction
setup> create table t (a int)
T1> begin
T1> select * from t
    no rows
T2> begin
T2> lock t
    waits
T1> commit
T2> ...
T2> commit

== a writer that has written goes on
setup> create table t (a int); create table u (a int)
T1> begin
T1> insert into t values (1)
T2> begin
T2> lock t in share mode
    waits
T1> insert into t values (2)
T1> commit
T2> ...
T2> commit

== several tables, in order
setup> create table t (a int); create table u (a int)
T1> begin
T1> lock table t, only u in share mode
T2> insert into t values (1)
    waits
T3> insert into u values (1)
    waits
T1> commit
T2> ...
T3> ...

== each waits for the other
setup> create table t (a int); create table u (a int)
T1> begin
T1> lock t in exclusive mode
T2> begin
T2> lock u in exclusive mode
T1> lock u in exclusive mode
    waits
T2> lock t in exclusive mode
    ERROR 40P01
T2> rollback
T1> ...
T1> commit

== a reader that waits is in a circle, too
setup> create table t (a int); create table u (a int)
T1> begin
T1> select * from t
T2> begin
T2> lock u
T1> select * from u
    waits
T2> lock t
    ERROR 40P01
T2> rollback
T1> ...
    no rows
T1> commit

== a savepoint
setup> create table t (a int)
T1> begin
T1> savepoint s
T1> lock t
T2> insert into t values (1)
    waits
T1> rollback to s
T2> ...
T1> commit

== an error
setup> create table t (a int)
T1> begin
T1> lock t
T2> insert into t values (1)
    waits
T1> select 1 / 0
    ERROR 22012
T2> ...
T1> rollback

== the client is gone
setup> create table t (a int)
T1> begin
T1> lock t
T2> insert into t values (1)
    waits
T1> \gone
T2> ...
    INSERT 0 1

== a schema change waits, and is waited for
setup> create table t (a int)
T1> begin
T1> lock t in access share mode
T2> alter table t add column b int
    waits
T1> commit
T2> ...
T2> begin
T2> alter table t add column c int
T1> begin
T1> lock t in access share mode nowait
    ERROR 55P03
T1> rollback
T2> commit

== an index is made beside a share lock
setup> create table t (a int)
T1> begin
T1> lock t in share mode
T2> create index on t (a)
T1> lock t in row exclusive mode
T3> create index on t (a)
    waits
T1> commit
T3> ...

== the other side of a foreign key
setup> create table p (a int primary key); create table c (a int references p on delete cascade); insert into p values (1)
T1> begin
T1> lock p in exclusive mode
T2> insert into c values (1)
    waits
T1> commit
T2> ...
T1> begin
T1> lock c in share mode
T2> delete from p
    waits
T1> commit
T2> ...

== through a view
setup> create table t (a int); create view v as select * from t
T1> begin
T1> lock v in exclusive mode
T2> insert into t values (1)
    waits
T1> rollback
T2> ...
T1> begin
T1> lock t in share mode
T2> insert into v values (1)
    waits
T1> rollback
T2> ...

== the table is gone by then
setup> create table t (a int)
T1> begin
T1> lock t
T1> drop table t
T2> begin
T2> lock t
    waits
T3> select * from t
    waits
T1> commit
T2> ...
    ERROR 42P01
T3> ...
    ERROR 42P01
T2> rollback

== repeatable read: the view is that of the first query after the lock
setup> create table t (a int); insert into t values (1)
T1> begin isolation level repeatable read
T1> lock t in share mode
T2> insert into t values (2)
    waits
T1> select * from t
    1
T1> commit
T2> ...

== lock_timeout
setup> create table t (a int)
T1> begin
T1> lock t
T2> set lock_timeout = '50ms'
T2> insert into t values (1)
    ERROR 55P03: canceling statement due to lock timeout
T2> begin
T2> lock t in row share mode
    ERROR 55P03: canceling statement due to lock timeout
T2> rollback
T1> commit
T2> insert into t values (1)

== what may be locked, and where
setup> create table t (a int); create sequence s; create view v as select * from t; create materialized view m as select * from t; create index i on t (a)
T> lock t
    ERROR 25P01: LOCK TABLE can only be used in transaction blocks
T> begin; lock t; rollback
T> begin
T> lock s
    ERROR 42809: cannot lock relation "s"
T> rollback
T> begin
T> lock m
    ERROR 42809: cannot lock relation "m"
T> rollback
T> begin
T> lock i
    ERROR 42809: cannot lock relation "i"
T> rollback
T> begin
T> lock nothing
    ERROR 42P01: relation "nothing" does not exist
T> rollback
T> begin
T> lock nowhere.nothing
    ERROR 3F000: schema "nowhere" does not exist
T> rollback
T> begin
T> lock t in silly mode
    ERROR 42601: syntax error at or near "silly"
T> rollback
T> begin
T> lock t in share
    ERROR 42601
T> rollback
T> begin read only
T> lock t in access exclusive mode
    LOCK TABLE
T> lock only (t) in row share mode nowait
T> lock table t * in share update exclusive mode
T> lock pg_catalog.pg_class in access share mode
T> rollback

== pg_locks
setup> create table t (a int)
T> begin
T> lock t in share row exclusive mode
T> insert into t values (1)
T> select locktype, mode, granted from pg_locks where relation = 't'::regclass and pid = pg_backend_pid() order by mode
    relation|RowExclusiveLock|t, relation|ShareRowExclusiveLock|t
T> commit
T> select count(*) from pg_locks where relation = 't'::regclass
    0
