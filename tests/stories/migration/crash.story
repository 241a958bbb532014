# kill -9 and a new start. A schema change that had committed is there with all its data; one that had
# not never was.

== in the middle of a migration
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
M> begin
M> alter table t add column d bigint generated always as (v * 2) stored
M> create index by_v on t (v)
W> update t set v = 11 where id = 1
server> \kill
W> select * from t order by id
    (id, v)
    1|11, 2|20, 3|30
W> alter table t add column d text default 'x'
W> create index by_v on t (v)
W> select * from t where v = 11
    1|11|x

== after its commit
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
M> begin
M> alter table t alter column v type bigint using v * 10
M> alter table t add column d text generated always as ('d' || v) stored
M> create unique index by_v on t (v)
M> alter table t add constraint ten check (v % 10 = 0)
M> alter table t add column c int not null default 5
W> update t set v = 11 where id = 1
M> commit
server> \kill
W> select * from t order by id
    (id, v, d, c)
    1|110|d110|5, 2|200|d200|5, 3|300|d300|5
W> select id from t where v = 110
    1
W> insert into t (id, v, c) values (4, 110, 5)
    ERROR 23505
W> insert into t (id, v, c) values (4, 400, null)
    ERROR 23502
W> insert into t (id, v) values (4, 444)
    ERROR 23514: ten

== several times, with writes before and after each change
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
M> alter table t add column a int default 1
M> insert into t values (4, 40, 4)
server> \kill
M> alter table t rename column v to w
M> update t set w = w + 1
M> alter table t drop column a
server> \kill
M> alter table t add column a text default 'new'
M> insert into t values (5, 50, 'five')
server> \kill
M> select * from t order by id
    (id, w, a)
    1|11|new, 2|21|new, 3|31|new, 4|41|new, 5|50|five

== tables dropped and emptied stay so
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
setup> create table u (id int primary key); insert into u values (1)
M> truncate t
M> insert into t values (7, 70)
M> drop table u
M> create table u (name text)
M> insert into u values ('new')
server> \kill
M> select * from t
    7|70
M> select * from u
    (name)
    new

== a checkpoint in between
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
M> alter table t add column d bigint generated always as (v * 2) stored
M> checkpoint
M> update t set v = 11 where id = 1
M> alter table t drop column d
M> alter table t alter column v type text using 'v' || v
M> create index by_v on t (v)
server> \kill
M> select * from t order by id
    1|v11, 2|v20, 3|v30
M> checkpoint
server> \kill
M> select * from t order by id
    1|v11, 2|v20, 3|v30
M> select id from t where v = 'v11'
    1

== rows that a transaction inserts, and then changes the schema of, are whole after it
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20)
M> begin
M> insert into t values (3, 30), (4, 40)
M> alter table t alter column v type bigint using v + 1
M> update t set v = v + 1 where id = 3
M> savepoint s
M> alter table t alter column id type bigint using id * 100
M> rollback to s
M> alter table t alter column id type bigint using id * 10
M> alter table t add column d bigint generated always as (v * 2) stored
M> delete from t where id = 20
M> commit
    COMMIT
W> select * from t order by id
    10|11|22, 30|32|64, 40|41|82
server> \kill
W> select * from t order by id
    10|11|22, 30|32|64, 40|41|82
W> select v from t where id = 40
    41
W> insert into t (id, v) values (30, 1)
    ERROR 23505
