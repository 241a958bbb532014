# The four strengths of row locks, and what each is in the way of. A foreign key's check takes the weakest.

== for key share is in the way of whoever deletes the row or changes its key, and of no other
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin
T1> select * from test where id = 1 for key share
    1|10
T2> update test set value = 11 where id = 1
    UPDATE 1
T2> select value from test where id = 1 for no key update nowait
    11
T2> select value from test where id = 1 for share nowait
    11
T2> select value from test where id = 1 for key share nowait
    11
T2> select value from test where id = 1 for update nowait
    ERROR 55P03
T2> select id from test order by id for update skip locked
    2
T2> update test set id = 1, value = 12 where id = 1
    UPDATE 1
T2> update test set id = 3 where id = 1
    waits
T3> delete from test where id = 2
    DELETE 1
T1> commit
T2> ...
    UPDATE 1

== for key share, then a delete
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin
T1> select * from test where id = 1 for key share
T2> delete from test
    waits
T1> rollback
T2> ...
    DELETE 2

== for share is in the way of every write
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin
T1> select * from test where id = 1 for share
T2> select id from test where id = 1 for key share nowait
    1
T2> select id from test where id = 1 for share nowait
    1
T2> select id from test where id = 1 for no key update nowait
    ERROR 55P03
T2> select id from test where id = 1 for update nowait
    ERROR 55P03
T2> update test set value = 11 where id = 1
    waits
T1> rollback
T2> ...
    UPDATE 1

== for no key update lets keys be shared
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin
T1> select * from test where id = 1 for no key update
    1|10
T2> select id from test where id = 1 for key share nowait
    1
T2> select id from test where id = 1 for share nowait
    ERROR 55P03
T2> select id from test where id = 1 for no key update nowait
    ERROR 55P03
T2> select id from test where id = 1 for update nowait
    ERROR 55P03
T2> select id from test order by id for share skip locked
    2
T1> rollback

== for update lets nothing be held
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin
T1> select * from test where id = 1 for update
    1|10
T2> select id from test where id = 1 for key share nowait
    ERROR 55P03
T2> select id from test order by id for key share skip locked
    2
T2> select id from test where id = 1 for share nowait
    ERROR 55P03
T2> select id from test where id = 1 for key share
    waits
T1> commit
T2> ...
    1

== a write of other columns lets keys be shared; a delete, and another key, does not
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20), (3, 30)
T1> begin
T1> update test set value = 11 where id = 1
T1> update test set id = 4 where id = 2
T1> delete from test where id = 3
T2> select * from test where id = 1 for key share nowait
    1|10
T2> select * from test where id = 1 for share nowait
    ERROR 55P03
T2> select * from test where id = 2 for key share nowait
    ERROR 55P03
T2> select * from test where id = 3 for key share nowait
    ERROR 55P03
T2> select * from test order by id for key share skip locked
    1|10
T2> select * from test where id = 3 for key share
    waits
T1> commit
T2> ...
    no rows

== a foreign key's check waits for who holds its parent for update, and for no weaker lock
setup> create table parent (id int primary key, note text); create table child (id int primary key, parent int references parent)
setup> insert into parent values (1, 'a'), (2, 'b')
T1> begin
T1> select * from parent where id = 1 for no key update
T2> insert into child values (10, 1)
    INSERT 0 1
T1> commit
T1> begin
T1> select * from parent where id = 1 for update
T2> insert into child values (11, 1)
    waits
T1> commit
T2> ...
    INSERT 0 1

== a parent that a child holds can be held for anything but update
setup> create table parent (id int primary key, note text); create table child (id int primary key, parent int references parent)
setup> insert into parent values (1, 'a'), (2, 'b')
T1> begin
T1> insert into child values (10, 1)
T2> select id from parent where id = 1 for no key update nowait
    1
T2> select id from parent where id = 1 for share nowait
    1
T2> select id from parent where id = 1 for update nowait
    ERROR 55P03
T1> commit

== the strongest lock stays
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin
T1> select * from test where id = 1 for share
T1> select * from test where id = 1 for key share
T2> select * from test where id = 1 for no key update nowait
    ERROR 55P03
T1> rollback

== a rollback to a savepoint lets go of for update, and of no more
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin
T1> select * from test where id = 2 for update
T1> savepoint s
T1> select * from test where id = 1 for update
T1> rollback to s
T2> select id from test where id = 1 for key share nowait
    1
T2> select id from test where id = 2 for key share nowait
    ERROR 55P03
T1> rollback

== an insert that waits for the deleter of its parent keeps what its transaction held before
setup> create table parent (id int primary key); create table child (id int primary key, parent int references parent)
setup> insert into parent values (1), (2)
T1> begin
T1> insert into child values (10, 1)
T2> delete from parent where id = 1
    waits
T1> insert into child values (11, 1)
    INSERT 0 1
T1> commit
T2> ...
    ERROR 23503
T3> select * from child order by id
    10|1, 11|1

== the same after a lock of its own
setup> create table parent (id int primary key, note text); create table child (id int primary key, parent int references parent)
setup> insert into parent values (1, 'a'), (2, 'b')
T1> begin
T1> select * from parent where id = 1 for share
T2> delete from parent where id = 1
    waits
T1> insert into child values (11, 1)
    INSERT 0 1
T3> update parent set note = 'c' where id = 1
    waits
T1> commit
T2> ...
    ERROR 23503
T3> ...
    UPDATE 1

== locks of two tables of one query
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
setup> create table other (id int primary key); insert into other values (1), (2)
T1> begin
T1> select test.id from test join other using (id) where other.id = 1 for key share of test for update of other
    1
T2> select id from test where id = 1 for no key update nowait
    1
T2> select id from other where id = 1 for key share nowait
    ERROR 55P03
T1> rollback
T1> begin
T1> select test.id from test join other using (id) where other.id = 1 for no key update of test, other
    1
T2> select id from other where id = 1 for key share nowait
    1
T2> select id from other where id = 1 for share nowait
    ERROR 55P03
T1> rollback
T1> select test.id from test for key share of nothing
    ERROR 42P01: FOR KEY SHARE
