# G0, write cycle: two transactions write the same two rows; each row must not end with another's value.
# A write waits for the transaction that wrote the row before, at every level.

== read committed
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin isolation level read committed
T2> begin isolation level read committed
T1> update test set value = 11 where id = 1
    UPDATE 1
T2> update test set value = 12 where id = 1
    waits
T1> update test set value = 21 where id = 2
T1> commit
T2> ...
    UPDATE 1
T1> select * from test order by id
    1|11, 2|21
T2> update test set value = 22 where id = 2
T2> commit
T1> select * from test order by id
    1|12, 2|22

== repeatable read
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin isolation level repeatable read
T2> begin isolation level repeatable read
T1> update test set value = 11 where id = 1
T2> update test set value = 12 where id = 1
    waits
T1> update test set value = 21 where id = 2
T1> commit
T2> ...
    ERROR 40001
T2> rollback
T1> select * from test order by id
    1|11, 2|21
