# G-single, read skew: T1 reads one row before and another after T2 changed both. READ COMMITTED allows
# it; a snapshot does not, neither for rows nor for predicates, and not through a write either.

== read committed
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin isolation level read committed
T2> begin isolation level read committed
T1> select value from test where id = 1
    10
T2> update test set value = 12 where id = 1
T2> update test set value = 18 where id = 2
T2> commit
T1> select value from test where id = 2
    18
T1> commit

== repeatable read
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin isolation level repeatable read
T2> begin isolation level repeatable read
T1> select value from test where id = 1
    10
T2> update test set value = 12 where id = 1
T2> update test set value = 18 where id = 2
T2> commit
T1> select value from test where id = 2
    20
T1> commit

== predicates, repeatable read
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin isolation level repeatable read
T2> begin isolation level repeatable read
T1> select * from test where value % 5 = 0 order by id
    1|10, 2|20
T2> update test set value = 12 where value = 10
T2> commit
T1> select * from test where value % 3 = 0
    no rows
T1> commit

== write predicate, read committed
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin isolation level read committed
T2> begin isolation level read committed
T1> select value from test where id = 1
    10
T2> update test set value = 12 where id = 1
T2> update test set value = 18 where id = 2
T2> commit
T1> delete from test where value = 20
    DELETE 0
T1> commit

== write predicate, repeatable read
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin isolation level repeatable read
T2> begin isolation level repeatable read
T1> select value from test where id = 1
    10
T2> update test set value = 12 where id = 1
T2> update test set value = 18 where id = 2
T2> commit
T1> delete from test where value = 20
    ERROR 40001
T1> rollback
