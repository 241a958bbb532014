# What keys say about rows that a snapshot does not see: nothing is done silently on the strength of such a row.

== on conflict do nothing over a row that the snapshot does not see
setup> create table test (id int primary key, k int unique, value int); insert into test values (1, 1, 10)
T1> begin isolation level repeatable read
T1> select count(*) from test
    1
T2> insert into test values (50, 50, 1)
T1> insert into test values (50, 51, 2) on conflict do nothing
    ERROR 40001
T1> rollback
T1> begin isolation level serializable
T1> select count(*) from test
    2
T2> insert into test values (60, 60, 1)
T1> insert into test values (61, 60, 2) on conflict (k) do nothing
    ERROR 40001
T1> rollback
T1> begin isolation level repeatable read
T1> select count(*) from test
    3
T2> insert into test values (70, 70, 1)
T1> insert into test values (70, 71, 2) on conflict (id) do update set value = 3
    ERROR 40001
T1> rollback

== the same over a row that has changed since, and one that has not
setup> create table test (id int primary key, k int unique, value int); insert into test values (1, 1, 10), (2, 2, 20)
T1> begin isolation level repeatable read
T1> select count(*) from test
    2
T2> update test set value = 21 where id = 2
T1> insert into test values (1, 100, 0) on conflict do nothing
    INSERT 0 0
T1> insert into test values (3, 3, 30)
T1> insert into test values (3, 4, 40) on conflict do nothing
    INSERT 0 0
T1> savepoint s
T1> insert into test values (2, 100, 0) on conflict do nothing
    ERROR 40001
T1> rollback to s
T1> insert into test values (2, 100, 0) on conflict (id) do update set value = 0 where false
    ERROR 40001
T1> rollback

== read committed sees it, and does nothing
setup> create table test (id int primary key, value int)
T1> begin
T1> select count(*) from test
    0
T2> insert into test values (50, 1)
T1> insert into test values (50, 2) on conflict do nothing
    INSERT 0 0
T1> commit

== a unique key of a row that the snapshot does not see is a duplicate
setup> create table test (id int primary key, value int)
T1> begin isolation level repeatable read
T1> select count(*) from test
    0
T2> insert into test values (50, 1)
T1> insert into test values (50, 2)
    ERROR 23505
T1> rollback

== merge at repeatable read
setup> create table test (id int primary key, value int); insert into test values (1, 10)
T1> begin isolation level repeatable read
T1> select count(*) from test
    1
T2> update test set value = 11 where id = 1
T1> merge into test using (values (1)) s (id) on test.id = s.id when matched then update set value = 0
    ERROR 40001
T1> rollback
T1> begin isolation level repeatable read
T1> select count(*) from test
    1
T2> insert into test values (2, 20)
T1> merge into test using (values (2)) s (id) on test.id = s.id when matched then update set value = 0 when not matched then insert values (2, 0)
    ERROR 23505
T1> rollback

== for update skip locked at repeatable read
setup> create table test (id int primary key, value int); insert into test values (1, 10), (2, 20)
T1> begin isolation level repeatable read
T1> select count(*) from test
    2
T2> update test set value = 11 where id = 1
T1> select * from test order by id for update skip locked
    ERROR 40001
T1> rollback
T1> begin isolation level repeatable read
T1> select count(*) from test
    2
T2> update test set value = 12 where id = 1
T1> select * from test order by id for key share
    1|11, 2|20
T2> update test set id = 3 where id = 2
    waits
T1> rollback
T2> ...
    UPDATE 1
T1> begin isolation level repeatable read
T1> select count(*) from test
    2
T2> update test set id = 2 where id = 3
T1> select * from test order by id for key share
    ERROR 40001
T1> rollback

== a cascade at repeatable read meets a child that the snapshot does not see
setup> create table parent (id int primary key); create table child (id int primary key, parent int references parent on delete cascade)
setup> insert into parent values (1), (2)
T1> begin isolation level repeatable read
T1> select count(*) from child
    0
T2> insert into child values (10, 1)
T1> delete from parent where id = 1
    ERROR 40001
T1> rollback
T1> select * from child
    10|1

== set null at repeatable read meets a child that has changed since
setup> create table parent (id int primary key); create table child (id int primary key, parent int references parent on delete set null, note text)
setup> insert into parent values (1), (2); insert into child values (10, 1, 'a')
T1> begin isolation level repeatable read
T1> select count(*) from child
    1
T2> update child set note = 'b'
T1> delete from parent where id = 1
    ERROR 40001
T1> rollback
T1> begin isolation level serializable
T1> select count(*) from child
    1
T2> update child set parent = 2
T1> delete from parent where id = 1
    DELETE 1
T1> commit
T1> select * from child
    10|2|b

== on delete cascade beside a child that comes
setup> create table parent (id int primary key); create table child (id int primary key, parent int references parent on delete cascade)
setup> insert into parent values (1), (2)
T1> begin
T1> delete from parent where id = 1
T2> insert into child values (10, 1)
    waits
T1> commit
T2> ...
    ERROR 23503
T1> select * from child
    no rows
