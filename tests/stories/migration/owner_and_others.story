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

# A statement of the owner waits for a row, and another has changed what its new column is computed from: the row
# was as capture had left it at the statement's start, for good. (Found by test_random_changes.py.)

== it waits for a row that another changes
setup> create table t (id int primary key, v int, s text); insert into t values (5, 4, 'c'), (6, 4, 'c')
W> begin
W> update t set s = null, v = v + 100 where id = 5
M> begin
M> alter table t alter column v type integer using v * 2 + 1
M> update t set id = 11 where id = 5 returning *
    waits
W> commit
    COMMIT
M> ...
    (id, v, s)
    11|209|NULL
M> commit
    COMMIT
M> select * from t order by id
    (id, v, s)
    6|9|c
    11|209|NULL

== it holds a row that another has changed
setup> create table t (id int primary key, v int, s text); insert into t values (5, 4, 'c')
W> begin
W> update t set v = v + 100 where id = 5
M> begin
M> alter table t alter column v type text using 'v' || v
M> select * from t where id = 5 for update
    waits
W> commit
    COMMIT
M> ...
    (id, v, s)
    5|v104|c
M> update t set s = 'd' where v = 'v104' returning *
    (id, v, s)
    5|v104|d
M> commit
    COMMIT

== another has put the row that it would insert
setup> create table t (id int primary key, v int); insert into t values (5, 4)
W> begin
W> insert into t values (7, 1)
M> begin
M> alter table t alter column v type int using v * 10
M> insert into t values (7, 5) on conflict (id) do update set v = t.v + excluded.v returning *
    waits
W> commit
    COMMIT
M> ...
    (id, v)
    7|15
M> commit
    COMMIT
M> select * from t order by id
    (id, v)
    5|40
    7|15
