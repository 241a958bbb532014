# MERGE beside others who write the rows that it matches: which clause a row belongs to is decided by what it is
# when the statement writes it.

== a row that has changed meanwhile is looked at again
setup> create table t (id int primary key, v int)
setup> insert into t values (1, 10)
T1> begin
T1> update t set v = 100 where id = 1
T2> merge into t using (values (1)) s (id) on t.id = s.id when matched and v < 50 then delete when matched then update set v = v + 1 when not matched then insert values (s.id, 0)
    waits
T1> commit
T2> ...
    MERGE 1
T2> select id, v from t
    1|101

== a row that has gone meanwhile is one that does not match
setup> create table t (id int primary key, v int)
setup> insert into t values (1, 10)
T1> begin
T1> delete from t where id = 1
T2> merge into t using (values (1)) s (id) on t.id = s.id when matched then update set v = v + 1 when not matched then insert values (s.id, 0)
    waits
T1> commit
T2> ...
    MERGE 1
T2> select id, v from t
    1|0

== a row that has come meanwhile is a duplicate
setup> create table t (id int primary key, v int)
T1> begin
T1> insert into t values (1, 10)
T2> merge into t using (values (1)) s (id) on t.id = s.id when matched then update set v = v + 1 when not matched then insert values (s.id, 0)
    waits
T1> commit
T2> ...
    ERROR 23505

== under REPEATABLE READ a row that has changed is an error
setup> create table t (id int primary key, v int)
setup> insert into t values (1, 10)
T1> begin
T1> update t set v = 100 where id = 1
T2> begin isolation level repeatable read
T2> merge into t using (values (1)) s (id) on t.id = s.id when matched then delete
    waits
T1> commit
T2> ...
    ERROR 40001
