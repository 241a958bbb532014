# Savepoints: part of a transaction is taken back, the rest stays. A failed statement can be taken back
# too. Locks taken after the savepoint are given up with it.

== rows come and go
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin
T1> update test set value = 11 where id = 1
T1> savepoint a
T1> update test set value = 12 where id = 1
T1> insert into test values (3, 30)
T1> savepoint b
T1> delete from test where id = 2
T1> select * from test order by id
    1|12, 3|30
T1> rollback to b
T1> select * from test order by id
    1|12, 2|20, 3|30
T1> rollback to savepoint a
T1> select * from test order by id
    1|11, 2|20
T1> insert into test values (3, 33)
T1> release a
T1> rollback to a
    ERROR 3B001
T1> commit
    ROLLBACK
T1> select * from test order by id
    1|10, 2|20

== an error inside
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin
T1> update test set value = 11 where id = 1
T1> savepoint a
T1> insert into test values (1, 99)
    ERROR 23505
T1> select * from test
    ERROR 25P02
T1> rollback to a
T1> update test set value = 22 where id = 2
T1> commit
    COMMIT
T1> select * from test order by id
    1|11, 2|22

== the same name twice
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin
T1> savepoint a
T1> update test set value = 11 where id = 1
T1> savepoint a
T1> update test set value = 12 where id = 1
T1> rollback to a
T1> release a
T1> select value from test where id = 1
    11
T1> rollback to a
T1> select value from test where id = 1
    10
T1> commit

== a lock taken after the savepoint is given up
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin
T1> savepoint a
T1> update test set value = 11 where id = 1
T1> rollback to a
T2> update test set value = 12 where id = 1
    UPDATE 1
T1> commit

== outside a transaction
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> savepoint a
    ERROR 25P01
T1> rollback to a
    ERROR 25P01
