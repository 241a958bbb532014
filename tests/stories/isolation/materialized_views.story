# REFRESH MATERIALIZED VIEW makes new rows in its transaction; others read those there were until it commits.

== who reads meanwhile sees the old rows
setup> create table t (a int); insert into t values (1), (2)
setup> create materialized view m as select sum(a) as s from t
setup> create unique index on m (s)
setup> insert into t values (3)
T1> begin
T1> refresh materialized view concurrently m
    REFRESH MATERIALIZED VIEW
T1> select s from m
    6
T2> select s from m
    3
T1> commit
T2> select s from m
    6

== of two that refresh, the second waits for the first
setup> create table t (a int); insert into t values (1), (2)
setup> create materialized view m as select sum(a) as s from t
T1> begin
T1> refresh materialized view m
    REFRESH MATERIALIZED VIEW
T2> refresh materialized view m
    waits
T1> commit
T2> ...
    REFRESH MATERIALIZED VIEW
T2> select s from m
    3

== what is rolled back leaves the rows there were, and the index
setup> create table t (a int primary key); insert into t values (1), (2)
setup> create materialized view m as select * from t
setup> create index on m (a)
setup> insert into t values (3)
T1> begin
T1> refresh materialized view m
    REFRESH MATERIALIZED VIEW
T1> select a from m where a = 3
    3
T1> rollback
T1> select a from m order by a
    1, 2
