# Schema changes and rows in one transaction. Its own writes to a table it is migrating hold the rows as
# any update does: capture does not overwrite them, no other writer slips in between.

== write, change, write, read
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
M> begin
M> insert into t values (4, 40)
M> alter table t add column d bigint generated always as (v * 2) stored
M> select * from t order by id
    1|10|20, 2|20|40, 3|30|60, 4|40|80
M> update t set v = 11 where id = 1
M> insert into t (id, v) values (5, 50)
M> delete from t where id = 2
M> select * from t order by id
    1|11|22, 3|30|60, 4|40|80, 5|50|100
R> select * from t order by id
    (id, v)
    1|10, 2|20, 3|30
M> commit
R> select * from t order by id
    1|11|22, 3|30|60, 4|40|80, 5|50|100

== fill the new column by hand
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
M> begin
M> alter table t add column s text
M> update t set s = 'row ' || id
    UPDATE 3
M> alter table t alter column s set not null
M> create unique index by_s on t (s)
M> commit
R> select id from t where s = 'row 2'
    2
R> insert into t values (4, 40, 'row 2')
    ERROR 23505
R> insert into t values (4, 40, null)
    ERROR 23502

== its rows are held
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
M> begin
M> alter table t add column d bigint generated always as (v * 2) stored
M> update t set v = 11 where id = 1
W> update t set v = v + 100 where id = 1
    waits
X> update t set v = v + 100 where id = 2
    UPDATE 1
M> commit
W> ...
    UPDATE 1
W> select * from t order by id
    1|111|222, 2|120|240, 3|30|60

== its rows are held, and it is rolled back
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
M> begin
M> alter table t alter column v type text using 'v' || v
M> update t set v = 'mine' where id = 1
W> update t set v = v + 100 where id = 1
    waits
M> rollback
W> ...
    UPDATE 1
W> select * from t order by id
    1|110, 2|20, 3|30

== others write the row first: it waits for them, and reads what they wrote
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
W> begin
W> update t set v = 11 where id = 1
M> begin
M> alter table t add column d bigint generated always as (v * 2) stored
    ALTER TABLE
M> update t set v = v + 100 where id = 1
    waits
W> commit
    COMMIT
M> ...
    UPDATE 1
M> commit
R> select * from t order by id
    1|111|222, 2|20|40, 3|30|60

== it reads its new column as of its own statement
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
M> begin
M> alter table t add column d bigint generated always as (v * 2) stored
W> update t set v = 11 where id = 1
M> select * from t where id = 1
    1|11|22
W> update t set v = 12 where id = 1
M> select * from t where id = 1
    1|12|24
M> commit

== under repeatable read, as of its own snapshot
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
M> begin isolation level repeatable read
M> select * from t where id = 1
    1|10
W> update t set v = 11 where id = 1
M> alter table t add column d bigint generated always as (v * 2) stored
M> select * from t where id = 1
    1|10|20
M> commit
M> select * from t where id = 1
    1|11|22

== a table made and changed in one transaction
M> begin
M> create table fresh (id int primary key)
M> insert into fresh values (1), (2)
M> alter table fresh add column d int generated always as (id * 2) stored
M> insert into fresh (id) values (3)
M> alter table fresh add check (d < 7)
M> create index on fresh (d)
M> commit
R> select id from fresh where d = 6
    3
R> insert into fresh (id) values (4)
    ERROR 23514

== several tables flip at one moment
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
setup> create table u (id int primary key, v int); insert into u values (1, 1)
M> begin
M> alter table t rename column v to w
M> alter table u rename column v to w
R> select t.v, u.v from t join u on t.id = u.id
    10|1
M> commit
R> select t.w, u.w from t join u on t.id = u.id
    10|1
