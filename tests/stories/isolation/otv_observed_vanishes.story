# OTV, observed transaction vanishes: T3 sees T2's effect on one row and then, on another, that T2 had
# never been. T3 reads either nothing of a transaction or what it committed.

== read committed
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin isolation level read committed
T2> begin isolation level read committed
T3> begin isolation level read committed
T1> update test set value = 11 where id = 1
T1> update test set value = 19 where id = 2
T2> update test set value = 12 where id = 1
    waits
T1> commit
T2> ...
    UPDATE 1
T3> select value from test where id = 1
    11
T2> update test set value = 18 where id = 2
T3> select value from test where id = 2
    19
T2> commit
T3> select value from test where id = 2
    18
T3> select value from test where id = 1
    12
T3> commit

== repeatable read
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin isolation level repeatable read
T2> begin isolation level read committed
T3> begin isolation level repeatable read
T1> update test set value = 11 where id = 1
T1> update test set value = 19 where id = 2
T2> update test set value = 12 where id = 1
    waits
T1> commit
T2> ...
    UPDATE 1
T3> select value from test where id = 1
    11
T2> update test set value = 18 where id = 2
T3> select value from test where id = 2
    19
T2> commit
T3> select value from test order by id
    11, 19
T3> commit
