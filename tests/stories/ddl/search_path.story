# The schema of temporary tables: first in the path where it is not named there, and in its place where it is.

== pg_temp listed last
T> create table t (a int); insert into t values (1)
T> create temporary table t (a int); insert into t values (2)
T> select a from t
    2
T> set search_path = public, pg_temp
T> select a from t
    1
T> select 't'::regclass::oid = 'public.t'::regclass::oid
    t
T> insert into t values (3)
T> select a from pg_temp.t
    2
T> select a from t order by a
    1, 3
T> drop table t
T> select a from t
    2

== pg_temp listed first, and not at all
T> create table t (a int); insert into t values (1)
T> create temporary table t (a int); insert into t values (2)
T> set search_path = pg_temp, public
T> select a from t
    2
T> set search_path = public
T> select a from t
    2

== listed before there is one
T> set search_path = public, pg_temp
T> create table t (a int); insert into t values (1)
T> create temporary table t (a int); insert into t values (2)
T> select a from t order by a
    1, 2
T> create temporary table u as select 7 as a
T> select a from u
    7
