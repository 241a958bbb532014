# GRANT, REVOKE and OWNER TO beside other transactions: they are seen with their commit, and go with a rollback.

== a grant is seen when it is committed, and not before
setup> create role story_app; create table t (id int primary key, v int); insert into t values (1, 10)
T1> begin
T1> grant select on t to story_app
T2> set role story_app
T2> select * from t
    ERROR 42501: permission denied for table t
T1> commit
T2> select * from t
    1|10
T1> begin
T1> revoke select on t from story_app
T2> select * from t
    1|10
T1> commit
T2> select * from t
    ERROR 42501
T2> reset role
setup> drop owned by story_app; drop role story_app

== a rollback, and one to a savepoint
setup> create role story_app; create table t (id int primary key, v int); insert into t values (1, 10)
T1> begin
T1> grant select on t to story_app
T1> savepoint s
T1> grant update, delete on t to story_app
T1> rollback to s
T1> set local role story_app
T1> select * from t
    1|10
T1> savepoint s2
T1> update t set v = 11
    ERROR 42501
T1> rollback
T1> select has_table_privilege('story_app', 't', 'select')
    f
setup> drop role story_app

== who has begun to write before a REVOKE goes on, and is refused what comes after it
setup> create role story_app; create table t (id int primary key, v int); insert into t values (1, 10)
setup> grant select, update on t to story_app
T1> set role story_app
T1> begin
T1> update t set v = 11 where id = 1
    UPDATE 1
T2> revoke update on t from story_app
T1> update t set v = 12 where id = 1
    ERROR 42501
T1> rollback
T1> select v from t
    10
T1> reset role
setup> drop owned by story_app; drop role story_app

== a role that something was granted to meanwhile is not dropped
setup> create role story_app; create table t (id int)
T1> begin
T1> grant select on t to story_app
T2> drop role story_app
    waits
T1> commit
T2> ...
    ERROR 2BP01: cannot be dropped
setup> drop owned by story_app; drop role story_app

== an owner, and what he owns, of a transaction of its own
setup> create role story_app; create table t (id int)
T1> begin
T1> alter table t owner to story_app
T1> set local role story_app
T1> alter table t add v int
T1> rollback
T2> set role story_app
T2> alter table t add v int
    ERROR 42501: must be owner of table t
T2> reset role
setup> drop role story_app
