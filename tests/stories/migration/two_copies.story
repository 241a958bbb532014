# A table is copied and dropped, and the copy is copied and dropped, while a writer is open: its rows go through
# both.

== what is written to a row before, between and after
setup> create table t (id int primary key, v int); insert into t values (1, 1), (2, 2), (3, 3)
W> begin
W> update t set v = 10 where id = 1
M> begin
M> create table m1 as select id, v from t
M> alter table m1 add primary key (id)
M> drop table t
M> commit
W> update m1 set v = v + 5 where id = 1
M> begin
M> alter table m1 rename to t4
M> create table m5 as select * from t4
M> alter table m5 add primary key (id)
M> drop table t4
M> alter table m5 rename to t4
M> commit
W> update t4 set v = v * 2 where id = 1
W> commit
    COMMIT
M> select * from t4 order by id
    1|30, 2|2, 3|3

== deletes
setup> create table t (id int primary key, v int); insert into t values (1, 1), (2, 2), (3, 3)
W> begin
W> delete from t where id = 1
M> begin
M> create table m1 as select id, v from t
M> alter table m1 add primary key (id)
M> drop table t
M> commit
W> delete from m1 where id = 2
M> begin
M> alter table m1 rename to t4
M> create table m5 as select * from t4
M> alter table m5 add primary key (id)
M> drop table t4
M> alter table m5 rename to t4
M> commit
W> delete from t4 where id = 3
W> commit
    COMMIT
M> select * from t4 order by id
    no rows

== a row that is inserted, and its key changed
setup> create table t (id int primary key, v int); insert into t values (1, 1), (2, 2), (3, 3)
W> begin
W> insert into t values (7, 7)
M> begin
M> create table m1 as select id, v from t
M> alter table m1 add primary key (id)
M> drop table t
M> commit
W> update m1 set id = 8 where id = 7
M> begin
M> alter table m1 rename to t4
M> create table m5 as select * from t4
M> alter table m5 add primary key (id)
M> drop table t4
M> alter table m5 rename to t4
M> commit
W> update t4 set v = 9 where id = 8
W> commit
    COMMIT
M> select * from t4 order by id
    1|1, 2|2, 3|3, 8|9

== keys of all rows
setup> create table t (id int primary key, v int); insert into t values (1, 1), (2, 2), (3, 3)
W> begin
W> update t set id = id + 10
M> begin
M> create table m1 as select id, v from t
M> alter table m1 add primary key (id)
M> drop table t
M> commit
W> update m1 set id = id + 10
M> begin
M> alter table m1 rename to t4
M> create table m5 as select * from t4
M> alter table m5 add primary key (id)
M> drop table t4
M> alter table m5 rename to t4
M> commit
W> update t4 set id = id + 10
W> commit
    COMMIT
M> select * from t4 order by id
    31|1, 32|2, 33|3

== what a savepoint takes back between
setup> create table t (id int primary key, v int); insert into t values (1, 1), (2, 2), (3, 3)
W> begin
W> savepoint s
W> update t set v = 10 where id = 1
M> begin
M> create table m1 as select id, v from t
M> alter table m1 add primary key (id)
M> drop table t
M> commit
W> savepoint r
W> update m1 set v = v + 5 where id = 2
M> begin
M> alter table m1 rename to t4
M> create table m5 as select * from t4
M> alter table m5 add primary key (id)
M> drop table t4
M> alter table m5 rename to t4
M> commit
W> rollback to r
W> update t4 set v = 4 where id = 3
W> commit
    COMMIT
M> select * from t4 order by id
    1|10, 2|2, 3|4

== what a savepoint takes back before
setup> create table t (id int primary key, v int); insert into t values (1, 1), (2, 2), (3, 3)
W> begin
W> savepoint s
W> update t set v = 10 where id = 1
M> begin
M> create table m1 as select id, v from t
M> alter table m1 add primary key (id)
M> drop table t
M> commit
W> update m1 set v = v + 5 where id = 2
M> begin
M> alter table m1 rename to t4
M> create table m5 as select * from t4
M> alter table m5 add primary key (id)
M> drop table t4
M> alter table m5 rename to t4
M> commit
W> rollback to s
W> update t4 set v = 4 where id = 3
W> commit
    COMMIT
M> select * from t4 order by id
    1|1, 2|2, 3|4

== a key that is free again
setup> create table t (id int primary key, v int); insert into t values (1, 1), (2, 2), (3, 3)
W> begin
W> delete from t where id = 1
M> begin
M> create table m1 as select id, v from t
M> alter table m1 add primary key (id)
M> drop table t
M> commit
W> insert into m1 values (1, 11)
M> begin
M> alter table m1 rename to t4
M> create table m5 as select * from t4
M> alter table m5 add primary key (id)
M> drop table t4
M> alter table m5 rename to t4
M> commit
W> select 1
W> commit
    COMMIT
M> select * from t4 order by id
    1|11, 2|2, 3|3

== both copies are there before the writer looks again
setup> create table t (id int primary key, v int); insert into t values (1, 1), (2, 2), (3, 3)
W> begin
W> update t set v = 10 where id = 1
M> begin
M> create table m1 as select id, v from t
M> alter table m1 add primary key (id)
M> drop table t
M> commit
M> begin
M> create table m5 as select * from m1
M> alter table m5 add primary key (id)
M> drop table m1
M> commit
W> update m5 set v = v + 5 where id = 1 and v = 10 returning *
    1|15
W> commit
    COMMIT
M> select * from m5 order by id
    1|15, 2|2, 3|3

== a copy of a copy, in one transaction: the writer does not go on without what it has written
setup> create table t (id int primary key, v int); insert into t values (1, 1), (2, 2), (3, 3)
W> begin
W> savepoint before
W> update t set v = 10 where id = 1
M> begin
M> create table m1 as select id, v from t
M> alter table m1 add primary key (id)
M> drop table t
M> create table m5 as select * from m1
M> alter table m5 add primary key (id)
M> drop table m1
M> alter table m5 rename to t
M> commit
W> select * from t where id = 1
    ERROR 40001: could not serialize access due to a concurrent schema change
M> create table gone_at_once (); drop table gone_at_once
W> rollback to before
M> create table gone_at_once (); drop table gone_at_once
W> update t set v = v + 1 where id = 1 returning *
    1|2
W> commit
    COMMIT
M> select * from t order by id
    1|2, 2|2, 3|3

== a table that is dropped
setup> create table t (id int primary key); insert into t values (1); create table u (id int primary key)
W> begin
W> savepoint before
W> delete from t where id = 1
M> drop table t
W> select count(*) from u
    ERROR 40001: could not serialize access due to a concurrent schema change
W> rollback to before
W> select count(*) from u
    0
W> select count(*) from t
    ERROR 42P01: relation "t" does not exist
W> rollback
    ROLLBACK
