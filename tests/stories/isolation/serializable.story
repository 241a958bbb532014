# SERIALIZABLE where it looks at nothing. The anomalies themselves: `test_hermitage.py`.

== a table without a row was read, too
setup> create table a (v int); create table b (v int)
T1> begin isolation level serializable
T2> begin isolation level serializable
T1> select count(*) from a
    0
T2> select count(*) from b
    0
T1> insert into b values (1)
T2> insert into a values (1)
T1> commit
    COMMIT
T2> commit
    ERROR 40001

== who only reads is never refused
setup> create table t (id int primary key, v int); insert into t values (1, 10)
T1> begin isolation level serializable
T1> select v from t
    10
T2> begin isolation level serializable
T2> update t set v = 11
T2> commit
    COMMIT
T1> select v from t
    10
T1> commit
    COMMIT

== what other levels write does not count, as in PostgreSQL
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20)
T1> begin isolation level serializable
T1> select v from t where id = 1
    10
T2> update t set v = 11 where id = 1
T1> update t set v = 21 where id = 2
T1> commit
    COMMIT
