# G1a, aborted read; G1b, intermediate read; G1c, circular information flow: nobody reads what was not
# committed, and a transaction reads only its own uncommitted rows. None is possible at any level.

== g1a, read committed
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin isolation level read committed
T2> begin isolation level read committed
T1> update test set value = 101 where id = 1
T2> select * from test order by id
    1|10, 2|20
T1> rollback
T2> select * from test order by id
    1|10, 2|20
T2> commit

== g1a, repeatable read
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin isolation level repeatable read
T2> begin isolation level repeatable read
T1> update test set value = 101 where id = 1
T2> select * from test order by id
    1|10, 2|20
T1> rollback
T2> select * from test order by id
    1|10, 2|20
T2> commit

== g1b, read committed
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin isolation level read committed
T2> begin isolation level read committed
T1> update test set value = 101 where id = 1
T2> select * from test order by id
    1|10, 2|20
T1> update test set value = 11 where id = 1
T1> commit
T2> select * from test order by id
    1|11, 2|20
T2> commit

== g1b, repeatable read
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin isolation level repeatable read
T2> begin isolation level repeatable read
T1> update test set value = 101 where id = 1
T2> select * from test order by id
    1|10, 2|20
T1> update test set value = 11 where id = 1
T1> commit
T2> select * from test order by id
    1|10, 2|20
T2> commit

== g1c, read committed
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin isolation level read committed
T2> begin isolation level read committed
T1> update test set value = 11 where id = 1
T2> update test set value = 22 where id = 2
T1> select value from test where id = 2
    20
T2> select value from test where id = 1
    10
T1> commit
T2> commit

== g1c, repeatable read
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin isolation level repeatable read
T2> begin isolation level repeatable read
T1> update test set value = 11 where id = 1
T2> update test set value = 22 where id = 2
T1> select value from test where id = 2
    20
T2> select value from test where id = 1
    10
T1> commit
T2> commit
