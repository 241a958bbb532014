# SERIALIZABLE across what moves rows from one place to another, and where PostgreSQL would let one pass.

== write skew in a table of which no row is there yet
setup> create table s (id int primary key, v int); insert into s values (1, 10), (2, 20)
M> set froglet.migration_delay = '1h'
M> set froglet.migration_granule_rows = 1
M> begin
M> create table t with (migration = lazy) as select id, v from s
M> alter table t add primary key (id)
M> drop table s
M> commit
T1> begin isolation level serializable
T2> begin isolation level serializable
T1> select v from t where id = 1
    10
T2> select v from t where id = 2
    20
T1> update t set v = 21 where id = 2
T2> update t set v = 11 where id = 1
T1> commit
    COMMIT
T2> commit
    ERROR 40001: could not serialize access due to read/write dependencies among transactions

== a table is made anew between the read and the write
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20)
T1> begin isolation level serializable
T1> select v from t where id = 1
    10
M> create table n as select id, v from t
M> alter table n add primary key (id)
M> drop table t
M> alter table n rename to t
T2> begin isolation level serializable
T2> update t set v = 11 where id = 1
T2> commit
    COMMIT
T1> create table other (v int)
T1> insert into other values (10)
T1> commit
    ERROR 40001

== a column is added between the read and the write, and nobody is refused for it
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20)
T1> begin isolation level serializable
T1> select v from t where id = 1
    10
M> alter table t add column w int default 5
M> create index on t (v)
T2> begin isolation level serializable
T2> update t set v = 22 where id = 2
T2> commit
    COMMIT
T1> update t set v = 11 where id = 1
T1> commit
    COMMIT

== a read that a savepoint took back was a read
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20)
T1> begin isolation level serializable
T1> savepoint s
T1> select v from t where id = 1
    10
T1> rollback to s
T2> begin isolation level serializable
T2> update t set v = 11 where id = 1
T2> commit
    COMMIT
T1> update t set v = 21 where id = 2
T1> commit
    ERROR 40001
