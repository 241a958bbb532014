# ALTER TYPE of a column that a constraint is over: the constraint holds of the new values, or the change is refused.

== a foreign key is looked at again
T> create table p (id int primary key); insert into p values (1), (2)
T> create table c (id int primary key, k int references p); insert into c values (1, 1), (2, 2)
T> alter table c alter k type int using k + 100
    ERROR 23503
T> alter table c alter k type int using 3 - k
T> select * from c order by id
    1|2, 2|1
T> alter table c alter k type bigint using nullif(k, 2)
T> select * from c order by id
    1|NULL, 2|1
T> delete from p where id = 1
    ERROR 23503
T> delete from p where id = 2
    DELETE 1
T> insert into c values (3, 2)
    ERROR 23503

== one of two columns of a foreign key
T> create table p (a int, b int, primary key (a, b)); insert into p values (1, 10), (2, 20)
T> create table c (x int, y int, foreign key (y, x) references p (b, a)); insert into c values (1, 10), (2, null)
T> alter table c alter x type int using x + 1
    ERROR 23503
T> alter table c alter y type bigint using y
T> insert into c values (2, 10)
    ERROR 23503

== types that do not compare
T> create table p (id int primary key); insert into p values (1), (2)
T> create table c (id int primary key, k int constraint c_fk references p); insert into c values (1, 1), (2, 2)
T> alter table c alter k type text
    ERROR 42804: foreign key constraint "c_fk" cannot be implemented
T> alter table c alter k type boolean using k = 1
    ERROR 42804
T> alter table c alter k type numeric
    ERROR 42804
T> alter table c alter k type date using date '2024-01-01' + k
    ERROR 42804
T> select * from c order by id
    1|1, 2|2
T> create table d (k text references p)
    ERROR 42804
T> create table d (k numeric references p)
    ERROR 42804
T> create table d (k uuid)
T> alter table d add foreign key (k) references p
    ERROR 42804

== an enum is not a text
T> create type mood as enum ('ok', 'sad'); create table p (id text primary key); insert into p values ('ok')
T> create table c (k text references p); insert into c values ('ok')
T> alter table c alter k type mood using k::mood
    ERROR 42804
T> create table d (k mood references p)
    ERROR 42804
T> alter table c alter k type varchar(10)
T> drop table c; drop type mood

== a foreign key to the same table
T> create table t (id int primary key, up int references t); insert into t values (1, null), (2, 1), (3, 2)
T> alter table t alter up type int using up + 10
    ERROR 23503
T> alter table t alter up type int using case up when 2 then 1 else up end
T> select * from t order by id
    1|NULL, 2|1, 3|1
T> delete from t where id = 1
    ERROR 23503

== a foreign key that is not valid is not looked at
T> create table p (id int primary key); insert into p values (1)
T> create table c (k int); insert into c values (1), (7)
T> alter table c add constraint f foreign key (k) references p not valid
T> alter table c alter k type bigint using k + 1
T> alter table c validate constraint f
    ERROR 23503
T> update c set k = 1
T> alter table c validate constraint f
T> alter table c alter k type int using k + 1
    ERROR 23503

== check, unique, primary key, not null, partial index
T> create table t (id int primary key, v int unique check (v > 0), w int not null); insert into t values (1, 1, 1), (2, 2, 2)
T> create unique index part on t (w) where w > 5
T> alter table t alter v type int using v - 1
    ERROR 23514
T> alter table t alter v type int using 1
    ERROR 23505
T> alter table t alter id type int using 1
    ERROR 23505
T> alter table t alter w type int using nullif(w, 1)
    ERROR 23502
T> alter table t alter id type int using nullif(id, 1)
    ERROR 23502
T> alter table t alter w type int using 6
    ERROR 23505
T> alter table t alter w type int using 5
T> insert into t values (3, 3, 6)
T> insert into t values (4, 4, 6)
    ERROR 23505

== a column that is added with a foreign key
T> create table p (id int primary key); insert into p values (1)
T> create table c (id int); insert into c values (1)
T> alter table c add k int default 5 references p
    ERROR 23503
T> alter table c add k int default 1 references p
T> alter table c add l int references p
T> delete from p
    ERROR 23503
T> select * from c
    1|1|NULL

== a column that is generated with a foreign key
T> create table p (id int primary key); insert into p values (2)
T> create table c (id int); insert into c values (1)
T> alter table c add k int generated always as (id * 3) stored references p
    ERROR 23503
T> alter table c add k int generated always as (id * 2) stored references p
T> update c set id = 2
    ERROR 23503
