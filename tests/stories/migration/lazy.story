# A table that is made lazily is there at once; its rows are made when somebody wants them. Nobody can tell: not
# a reader whose snapshot is from before a row was moved, not a writer that began before the flip, and not a row
# that was deleted before it was moved.

== a row deleted before it was moved does not come back
setup> create table s (id int primary key, v int); insert into s values (1, 10), (2, 20), (3, 30)
M> set froglet.migration_delay = '1h'
M> set froglet.migration_granule_rows = 1
M> begin
M> create table t with (migration = lazy) as select id, v * 2 as v from s
M> alter table t add primary key (id)
M> drop table s
M> commit
W> delete from t where id = 2
    DELETE 1
M> select * from t order by id
    1|20, 3|60
server> \kill
M> select * from t order by id
    1|20, 3|60
M> select * from t where id = 2
    no rows
W> insert into t values (2, 7)
server> \kill
M> select * from t order by id
    1|20, 2|7, 3|60

== a delete that is rolled back deletes nothing, though it has moved the row
setup> create table s (id int primary key, v int); insert into s values (1, 10), (2, 20), (3, 30)
M> set froglet.migration_delay = '1h'
M> begin
M> create table t with (migration = lazy) as select id, v * 2 as v from s
M> alter table t add primary key (id)
M> drop table s
M> commit
W> begin
W> delete from t where id = 2
    DELETE 1
M> select * from t where id = 2
    2|40
W> rollback
M> select * from t order by id
    1|20, 2|40, 3|60

== a writer that began before the flip: its rows follow
setup> create table s (id int primary key, v int); insert into s values (1, 10), (2, 20), (3, 30), (4, 40)
W> begin
W> update s set v = 11 where id = 1
W> delete from s where id = 2
W> insert into s values (5, 50), (100, 1000)
M> set froglet.migration_delay = '1h'
M> set froglet.migration_granule_rows = 1
M> begin
M> create table t with (migration = lazy) as select id, v * 2 as v from s where v < 500
M> alter table t add primary key (id)
M> drop table s
M> commit
    COMMIT
M> select * from t order by id
    1|20, 2|40, 3|60, 4|80
W> commit
    COMMIT
M> select * from t order by id
    1|22, 3|60, 4|80, 5|100
server> \kill
M> select * from t order by id
    1|22, 3|60, 4|80, 5|100
M> insert into t values (100, 0), (2, 0)
M> select * from t order by id
    1|22, 2|0, 3|60, 4|80, 5|100, 100|0

== two keys swapped by a writer that began before the flip
setup> create table s (id int primary key, v int); insert into s values (1, 10), (2, 20), (3, 30)
W> begin
W> update s set id = -1 where id = 1
W> update s set id = 1 where id = 2
W> update s set id = 2 where id = -1
W> delete from s where id = 3
W> insert into s values (3, 33)
M> set froglet.migration_delay = '1h'
M> begin
M> create table t with (migration = lazy) as select id, v from s
M> alter table t add primary key (id)
M> drop table s
M> commit
W> commit
    COMMIT
M> select * from t order by id
    1|20, 2|10, 3|33
server> \kill
M> select * from t order by id
    1|20, 2|10, 3|33

== a writer that began before the flip meets one that came after it
setup> create table s (id int primary key, v int); insert into s values (1, 10), (2, 20), (3, 30)
W> begin
W> update s set v = 11 where id = 1
V> begin
V> insert into s values (9, 90)
M> set froglet.migration_delay = '1h'
M> begin
M> create table t with (migration = lazy) as select id, v from s
M> alter table t add primary key (id)
M> drop table s
M> commit
M> update t set v = 12 where id = 1
    UPDATE 1
M> insert into t values (9, 91)
W> commit
    ERROR 40001
V> commit
    ERROR 40001
M> select * from t order by id
    1|12, 2|20, 3|30, 9|91

== a row that only writers from before the flip have held is nobody's change
setup> create table s (id int primary key, v int, w int); insert into s values (1, 10, 0), (2, 20, 0)
W> begin
W> select * from s where id = 1 for update
    1|10|0
W> update s set w = 5 where id = 2
M> set froglet.migration_delay = '1h'
M> begin
M> create table t with (migration = lazy) as select id, v from s
M> alter table t add primary key (id)
M> drop table s
M> commit
M> update t set v = v + 1
    UPDATE 2
W> commit
    COMMIT
M> select * from t order by id
    1|11, 2|21

== a kept source is another table from the flip on
setup> create table s (id int primary key, v int); insert into s values (1, 10), (2, 20), (3, 30)
W> begin
W> update s set v = 11 where id = 1
M> set froglet.migration_delay = '1h'
M> begin
M> create table t with (migration = lazy) as select id, v from s
M> alter table t add primary key (id)
M> commit
W> commit
    COMMIT
W> update s set v = 21 where id = 2
W> delete from s where id = 3
M> select * from t where id = 3
    3|30
server> \kill
M> select * from t order by id
    1|10, 2|20, 3|30
M> select * from s order by id
    1|11, 2|21

== a reader from before a row was moved
setup> create table s (id int primary key, v int); insert into s values (1, 10), (2, 20), (3, 30)
M> set froglet.migration_delay = '1h'
M> set froglet.migration_granule_rows = 1
M> begin
M> create table t with (migration = lazy) as select id, v from s
M> alter table t add primary key (id)
M> drop table s
M> commit
R> begin isolation level repeatable read
R> select * from t where id = 1
    1|10
W> update t set v = 21 where id = 2
W> delete from t where id = 3
W> insert into t values (4, 40)
R> select * from t order by id
    1|10, 2|20, 3|30
R> select * from t where id = 3
    3|30
W> drop table t
R> select * from t order by id
    1|10, 2|20, 3|30
R> commit
R> select * from t
    ERROR 42P01

== two wait for one row that neither has moved
setup> create table s (id int primary key, v int); insert into s values (1, 10), (2, 20)
M> set froglet.migration_delay = '1h'
M> begin
M> create table t with (migration = lazy) as select id, v from s
M> alter table t add primary key (id)
M> drop table s
M> commit
W> begin
W> update t set v = v + 1 where id = 1
V> update t set v = v + 1 where id = 1
    waits
W> rollback
V> ...
    UPDATE 1
M> select * from t order by id
    1|11, 2|20

== a key of a row that is not moved is taken
setup> create table s (id int primary key, v int unique); insert into s values (1, 10), (2, 20)
M> set froglet.migration_delay = '1h'
M> set froglet.migration_granule_rows = 1
M> begin
M> create table t with (migration = lazy) as select id, v from s
M> alter table t add primary key (id)
M> alter table t add unique (v)
M> drop table s
M> commit
W> insert into t values (1, 50)
    ERROR 23505
W> insert into t values (5, 20)
    ERROR 23505
W> update t set v = 20 where id = 1
    ERROR 23505
W> begin
W> delete from t where id = 2
V> insert into t values (6, 20)
    waits
W> commit
V> ...
    INSERT 0 1
M> select * from t order by id
    1|10, 6|20
