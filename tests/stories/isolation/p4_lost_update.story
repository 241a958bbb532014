# P4, lost update: both read 10, both write 11. READ COMMITTED loses one (a program that computes from
# what it read must lock it), REPEATABLE READ refuses the second. An update computed by the statement
# itself (value + 1) loses nothing at either level.

== read committed
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin isolation level read committed
T2> begin isolation level read committed
T1> select * from test where id = 1
    1|10
T2> select * from test where id = 1
    1|10
T1> update test set value = 11 where id = 1
T2> update test set value = 11 where id = 1
    waits
T1> commit
T2> ...
    UPDATE 1
T2> commit

== repeatable read
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin isolation level repeatable read
T2> begin isolation level repeatable read
T1> select * from test where id = 1
    1|10
T2> select * from test where id = 1
    1|10
T1> update test set value = 11 where id = 1
T2> update test set value = 11 where id = 1
    waits
T1> commit
T2> ...
    ERROR 40001
T2> rollback

== repeatable read, the other has committed before
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin isolation level repeatable read
T1> select * from test where id = 1
    1|10
T2> update test set value = 11 where id = 1
T1> update test set value = 12 where id = 1
    ERROR 40001
T1> select 1
    ERROR 25P02
T1> commit
    ROLLBACK
T1> select * from test where id = 1
    1|11

== repeatable read, the other rolls back: its write never was, so the waiter goes on
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin isolation level repeatable read
T2> begin isolation level repeatable read
T1> update test set value = 11 where id = 1
T2> update test set value = 12 where id = 1
    waits
T1> rollback
T2> ...
    UPDATE 1
T2> commit
T1> select * from test order by id
    1|12, 2|20

== computed by the statement, read committed
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin
T2> begin
T1> update test set value = value + 1 where id = 1
T2> update test set value = value + 1 where id = 1
    waits
T1> commit
T2> ...
    UPDATE 1
T2> commit
T1> select * from test where id = 1
    1|12
