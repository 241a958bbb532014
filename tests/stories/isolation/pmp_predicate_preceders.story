# PMP, predicate-many-preceders: the same predicate, asked twice, is answered differently because rows
# that match it were committed in between. READ COMMITTED allows it, REPEATABLE READ does not.

== read committed
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin isolation level read committed
T2> begin isolation level read committed
T1> select * from test where value = 30
    no rows
T2> insert into test values (3, 30)
T2> commit
T1> select * from test where value % 3 = 0
    3|30
T1> commit

== repeatable read
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin isolation level repeatable read
T2> begin isolation level repeatable read
T1> select * from test where value = 30
    no rows
T2> insert into test values (3, 30)
T2> commit
T1> select * from test where value % 3 = 0
    no rows
T1> commit

== write predicate, read committed: the row read again no longer matches, the one that now does was not seen
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin isolation level read committed
T2> begin isolation level read committed
T1> update test set value = value + 10
    UPDATE 2
T2> select * from test where value = 20
    2|20
T2> delete from test where value = 20
    waits
T1> commit
T2> ...
    DELETE 0
T2> select * from test where value = 20
    1|20
T2> commit

== write predicate, repeatable read
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin isolation level repeatable read
T2> begin isolation level repeatable read
T1> update test set value = value + 10
T2> select * from test where value = 20
    2|20
T2> delete from test where value = 20
    waits
T1> commit
T2> ...
    ERROR 40001
T2> rollback
