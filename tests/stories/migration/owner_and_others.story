# A transaction that changes schemas is at READ COMMITTED like any other: its statements see the schemas that
# others have committed before them, beside its own. (Found by test_random_changes.py: they were planned
# under the catalog of the statement before.)

== a column is gone
setup> create table t (id int primary key, k int, v int); insert into t values (1, 10, 100)
setup> create table u (id int primary key, v int)
M> begin
M> alter table u alter column v type text using 'x' || v
N> alter table t drop column v
M> update t set k = 11 where id = 1 returning *
    (id, k)
    1|11
M> select * from t
    (id, k)
    1|11
M> commit
    COMMIT

== a column has come
setup> create table t (id int primary key, v int); insert into t values (1, 10)
setup> create table u (id int primary key, v int)
M> begin
M> create unique index once on u (v)
N> alter table t add column c int default 7
M> update t set c = c + 1 where c = 7 returning *
    (id, v, c)
    1|10|8
N> create table s (id int)
M> select * from s
    no rows
M> commit
    COMMIT

== nothing of its own has to be migrated
setup> create table t (id int primary key, v int); insert into t values (1, 10)
setup> create table u (id int primary key, v int)
M> begin
M> alter table u drop constraint u_pkey
N> alter table t rename column v to w
M> update t set w = w + 1 where id = 1 returning *
    (id, w)
    1|11
M> commit
    COMMIT

== its own change stays in sight
setup> create table t (id int primary key, v int); insert into t values (1, 10)
setup> create table u (id int primary key, v int); insert into u values (1, 10)
M> begin
M> alter table u add column c int default 1
N> alter table t add column c int default 2
M> select * from u join t on t.id = u.id
    (id, v, c, id, v, c)
    1|10|1|1|10|2
M> rollback
M> select * from u
    (id, v)
    1|10
