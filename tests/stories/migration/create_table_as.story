# CREATE TABLE AS over one table, while others write to that: at the commit the new table has what its query
# makes of the rows that are committed then. Nobody waits for it, but for a moment at the flip.

== what others commit before it commits is in it
setup> create table t (id int primary key, v int, s text); insert into t values (1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c')
M> begin
M> create table c as select id, v * 2 as w from t where v < 100
    SELECT 3
W> update t set v = 11 where id = 1
W> update t set v = 200 where id = 2
W> delete from t where id = 3
W> insert into t values (4, 40, 'd'), (5, 500, 'e')
M> select * from c order by id
    1|22, 4|80
W> update t set v = 50 where id = 5
M> commit
W> update t set v = 0
    UPDATE 4
M> select * from c order by id
    (id, w)
    1|22, 4|80, 5|100

== a table is split in two, and goes: no row is torn, none is lost
setup> create table t (id int primary key, v int, s text); insert into t values (1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c')
M> begin
M> create table left_half as select id, v from t
M> alter table left_half add primary key (id)
W> update t set v = 21, s = 'bb' where id = 2
M> create table right_half as select id, s from t
W> update t set v = 31, s = 'cc' where id = 3
M> alter table right_half add primary key (id), add constraint short check (length(s) < 5)
W> insert into t values (4, 41, 'dd')
M> drop table t
M> commit
    COMMIT
W> select l.id, v, s from left_half l join right_half r on l.id = r.id order by 1
    1|10|a, 2|21|bb, 3|31|cc, 4|41|dd
W> update t set v = 1
    ERROR 42P01
W> insert into left_half values (4, 5)
    ERROR 23505
W> insert into right_half values (5, 'too long')
    ERROR 23514

== a writer that is open at the commit of a copy is in the source, and not in the copy
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20)
W> begin
W> update t set v = 11 where id = 1
M> create table c as select * from t
    SELECT 2
W> commit
    COMMIT
M> select c.v, t.v from c join t on c.id = t.id where c.id = 1
    10|11

== a writer that is open when its table goes has its rows in those that were made of it
setup> create table t (id int primary key, v int, s text); insert into t values (1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c')
W> begin
W> update t set v = 11, s = 'aa' where id = 1
W> delete from t where id = 2
W> insert into t values (4, 40, 'd')
M> begin
M> create table c as select id, v from t
M> alter table c add primary key (id), add column d bigint generated always as (v * 2) stored
M> create table e as select id, s || '!' as s from t where v <> 30
M> drop table t
M> commit
    COMMIT
M> select * from c order by id
    1|10|20, 2|20|40, 3|30|60
W> select s from e where id = 1
    aa!
W> update c set v = v + 1 where id = 1
    UPDATE 1
W> commit
    COMMIT
M> select * from c order by id
    (id, v, d)
    1|12|24, 3|30|60, 4|40|80
M> select * from e order by id
    1|aa!, 4|d!
M> insert into c values (4, 1)
    ERROR 23505

== unless somebody has written to them there
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20)
W> begin
W> update t set v = 11 where id = 1
M> begin
M> create table c as select * from t
M> drop table t
M> commit
X> begin
X> update c set v = v + 1 where id = 1
W> commit
    waits
X> commit
    COMMIT
W> ...
    ERROR 40001
M> select * from c order by id
    1|11, 2|20

== with no copy, it has to run again
setup> create table t (id int primary key, v int); insert into t values (1, 10)
W> begin
W> update t set v = 11 where id = 1
M> begin
M> create table c as select * from t
M> drop table c
M> drop table t
M> commit
W> commit
    ERROR 40001

== at repeatable read it is read as of the snapshot, and committed as of the commit
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
M> begin isolation level repeatable read
M> select count(*) from t
    3
W> update t set v = 11 where id = 1
M> create table c as select id, v from t
    SELECT 3
W> delete from t where id = 2
W> insert into t values (4, 40)
M> select * from c order by id
    1|10, 2|20, 3|30
M> commit
M> select * from c order by id
    1|11, 3|30, 4|40

== rows that the transaction changes in its new table are its own
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
M> begin
M> create table c as select id, v from t
M> update c set v = v + 1 where id = 1
    UPDATE 1
M> delete from c where id = 2
M> insert into c values (9, 90)
W> update t set v = 12 where id = 1
    waits
X> update t set v = 33 where id = 3
    UPDATE 1
M> commit
W> ...
    UPDATE 1
M> select * from c order by id
    1|11, 3|33, 9|90
M> select * from t order by id
    1|12, 2|20, 3|33

== a violation by what others write takes all of it back
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20)
M> begin
M> create table c as select id, v from t
M> create unique index once on c (v)
W> update t set v = 10 where id = 2
M> commit
    ERROR 23505
M> select * from c
    ERROR 42P01
W> select * from t order by id
    1|10, 2|10

== two at once: the second waits for the first, and each has its rows
setup> create table t (id int primary key, v int); insert into t values (1, 10)
M> begin
M> create table c as select id from t
N> create table d as select id from t
    waits
W> insert into t values (2, 20)
M> commit
N> ...
    SELECT 2
W> select count(*) from c
    2

== rolled back, to a savepoint and whole
setup> create table t (id int primary key, v int); insert into t values (1, 10)
M> begin
M> create table c as select id, v from t
M> savepoint here
M> create table d as select id, v from t
M> rollback to here
W> update t set v = 11
M> select * from c
    1|11
M> select * from d
    ERROR 42P01
M> rollback
M> select * from c
    ERROR 42P01
W> create table c as select id, v from t
    SELECT 1

== kill -9 in the middle
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
M> begin
M> create table c as select id, v from t
M> alter table c add primary key (id)
W> update t set v = 11 where id = 1
server> \kill
W> select * from c
    ERROR 42P01
W> create table c as select id, v from t
    SELECT 3

== kill -9 after the commit
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
M> begin
M> create table c as select id, v from t
M> alter table c add primary key (id), add column d bigint generated always as (v * 2) stored
W> update t set v = 11 where id = 1
W> delete from t where id = 2
W> insert into t values (4, 40)
M> drop table t
M> commit
server> \kill
W> select * from c order by id
    (id, v, d)
    1|11|22, 3|30|60, 4|40|80
W> insert into c (id, v) values (3, 1)
    ERROR 23505
W> select * from t
    ERROR 42P01

== the owner waits for a writer, and writes to the row as that has left it
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20)
W> begin
W> update t set v = 11 where id = 1
M> begin
M> create table c as select id, v from t
M> update c set v = v + 1 where id = 1
    waits
W> commit
M> ...
    UPDATE 1
M> commit
    COMMIT
M> select * from c order by id
    1|12, 2|20

== what the owner takes back of the source is no matter of the copy
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
M> begin
M> update t set v = 11 where id = 1
M> insert into t values (4, 40)
M> create table c as select id, v from t
M> update c set v = -2 where id = 2
M> savepoint s
M> update t set v = 12
M> rollback to s
M> select * from c order by id
    1|11, 2|-2, 3|30, 4|40
M> commit
    COMMIT
M> select * from c order by id
    1|11, 2|-2, 3|30, 4|40
M> select * from t order by id
    1|11, 2|20, 3|30, 4|40

== a copy of a copy: the owner's row is its own through both
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20), (3, 30)
M> begin
M> create table a as select id, v from t
M> create table b as select id, v from a
M> update b set v = 0 where id = 1
    UPDATE 1
W> update t set v = 11 where id = 1
    waits
X> update t set v = 21 where id = 2
M> select * from b order by id
    1|0, 2|21, 3|30
M> commit
    COMMIT
W> ...
    UPDATE 1
M> select * from a order by id
    1|10, 2|21, 3|30
M> select * from b order by id
    1|0, 2|21, 3|30

== the same at repeatable read
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20)
M> begin isolation level repeatable read
M> create table a as select id, v from t
M> create table b as select id, v from a
M> update b set v = 0 where id = 1
    UPDATE 1
M> commit
    COMMIT
M> select * from b order by id
    1|0, 2|20

== a writer of a table that goes, and of which a filled column is copied
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20)
W> begin
W> update t set v = 11 where id = 1
W> insert into t values (3, 30)
M> begin
M> alter table t add column d int generated always as (v * 2) stored
M> create table c as select id, v, d from t
M> drop table t
M> commit
    COMMIT
W> commit
    COMMIT
M> select * from c order by id
    1|11|22, 2|20|40, 3|30|60

== a writer of a table that goes after it was emptied, or in a chain of copies, has to run again
setup> create table t (id int primary key, v int); insert into t values (1, 10)
W> begin
W> update t set v = 11 where id = 1
M> begin
M> create table c as select id, v from t
M> truncate t
M> create table d as select id, v from t
M> drop table t
M> commit
    COMMIT
W> commit
    ERROR 40001
setup> create table u (id int primary key, v int); insert into u values (1, 10)
W> begin
W> update u set v = 11 where id = 1
M> begin
M> create table e as select id, v from u
M> create table f as select id, v from e
M> drop table u
M> commit
    COMMIT
W> commit
    ERROR 40001

== a row that others refer to by now is not taken from under them
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20)
W> begin
W> delete from t where id = 1
M> begin
M> create table c as select id from t
M> alter table c add primary key (id)
M> drop table t
M> commit
X> create table child (id int references c); insert into child values (1)
W> commit
    ERROR 40001
X> select * from c order by id
    1, 2

== a foreign key to it waits for its commit
setup> create table t (id int primary key, v int); insert into t values (1, 10)
M> begin
M> create table c as select id from t
M> alter table c add primary key (id)
M> savepoint s
M> create table child (id int references c)
    ERROR 0A000
M> rollback to s
M> commit
M> create table child (id int references c)
    CREATE TABLE

== an error of a row that others have changed, and a way back to before it
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20)
M> begin
M> create table c as select id, v from t
M> savepoint s
M> create table q as select id, 100 / v as q from t
W> update t set v = 0 where id = 1
M> select * from c order by id
    ERROR 22012
M> rollback to s
M> commit
    COMMIT
M> select * from c order by id
    1|0, 2|20

== a key that another has taken in the copy since: it has to run again
setup> create table t (id int primary key, v text); insert into t values (1, 'a')
W> begin
W> insert into t values (2, 'w') on conflict (id) do update set v = t.v || excluded.v
M> begin
M> create table copy as select * from t
M> alter table copy add primary key (id)
M> drop table t
M> alter table copy rename to t
M> commit
O> insert into t values (2, 'o')
W> commit
    ERROR 40001
W> insert into t values (2, 'w') on conflict (id) do update set v = t.v || excluded.v
    INSERT 0 1
W> select * from t order by id
    1|a, 2|ow

== who waited for a row of which the owner has changed the copy looks at the copy
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20)
M> begin
M> create table c as select id, v from t
M> update c set v = -2 where id = 2
M> drop table t
M> alter table c rename to t
W> update t set v = v + 1 where id = 2
    waits
X> begin
X> update t set v = v + 1 where id = 1
M> commit
    COMMIT
W> ...
    UPDATE 1
X> commit
    COMMIT
W> select * from t order by id
    1|11, 2|-1

== and so does who would delete it
setup> create table t (id int primary key, v int); insert into t values (1, 10), (2, 20)
M> begin
M> create table c as select id, v from t
M> update c set id = 12 where id = 2
M> drop table t
M> alter table c rename to t
W> begin
W> delete from t where id < 7
    waits
M> commit
    COMMIT
W> ...
W> commit
    COMMIT
W> select * from t order by id
    12|20
