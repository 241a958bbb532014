-- feature: INSERT, several rows, column lists, DEFAULT
create table t (a int primary key, b text default 'd', c int);
insert into t values (1, 'x', 1), (2, default, null);
insert into t (c, a) values (5, 3);
insert into t (a) select 10 union all select 11;
insert into t values (1, 'again', 0);
insert into t (a, a) values (1, 2);
insert into t (nothing) values (1);
insert into t values (1, 2, 3, 4);
select * from t order by a;
-- feature: INSERT … SELECT with NULL and generate_series
create table t (a int, b timestamp, c text);
insert into t select 1, null, null;
insert into t select generate_series(1, 3), null, 'x';
insert into t select g, now(), g from generate_series(1, 2) g;
select count(*) from t;
-- feature: RETURNING
create table t (a int primary key, b int);
insert into t values (1, 2) returning *;
insert into t values (2, 3) returning a + b as s, 'x';
update t set b = b * 10 where a = 1 returning a, b;
delete from t where a = 2 returning t.*;
-- feature: INSERT … ON CONFLICT DO NOTHING
create table t (a int primary key, b int unique);
insert into t values (1, 1);
insert into t values (1, 2), (2, 2) on conflict do nothing;
insert into t values (3, 2) on conflict (b) do nothing returning a;
insert into t values (1, 9) on conflict (b) do nothing;
select * from t order by a;
-- feature: INSERT … ON CONFLICT DO UPDATE
create table t (a int primary key, b int, c text);
insert into t values (1, 1, 'x');
insert into t values (1, 5, 'y'), (2, 6, 'z') on conflict (a) do update set b = excluded.b + t.b, c = t.c || excluded.c returning *;
insert into t values (1, 100, 'n') on conflict (a) do update set b = excluded.b where t.b > 100;
insert into t values (3, 1, 'a'), (3, 2, 'b') on conflict (a) do update set b = excluded.b;
insert into t values (1, 7, 'k') on conflict on constraint t_pkey do update set (b, c) = (excluded.b, excluded.c);
select * from t order by a;
insert into t values (1, 1, 'x') on conflict (b) do nothing;
-- feature: UPDATE, expressions, subqueries, tuples
create table t (a int primary key, b int, c int default 9);
insert into t values (1, 1, 1), (2, 2, 2);
update t set b = b + 1, c = b;
update t set (b, c) = (7, 8) where a = 1;
update t set b = (select max(c) from t) where a = 2;
update t set c = default where a = 1;
update t x set b = 0 where x.a = 1;
update t set (b, c) = (select 1, 2) where a = 2;
select * from t order by a;
update t set nothing = 1;
update t set a = 2;
-- feature: UPDATE … FROM
create table t (a int primary key, b int);
create table s (a int primary key, v int);
insert into t values (1, 0), (2, 0), (3, 0);
insert into s values (1, 10), (2, 20);
update t set b = s.v from s where s.a = t.a returning t.a, b, s.v;
update t set b = x.total from (select sum(v) as total from s) x where t.a = 3;
select * from t order by a;
-- feature: DELETE … USING
create table t (a int primary key);
create table s (a int);
insert into t values (1), (2), (3);
insert into s values (2);
delete from t using s where t.a = s.a returning t.a;
delete from t where a in (select a + 1 from s);
select * from t;
-- feature: MERGE
create table t (a int primary key, b int);
create table s (a int primary key, v int);
insert into t values (1, 1), (2, 2);
insert into s values (2, 20), (3, 30);
merge into t using s on t.a = s.a when matched and s.v > 100 then delete when matched then update set b = s.v when not matched then insert values (s.a, s.v);
select * from t order by a;
merge into t using s on t.a = s.a when matched then delete when not matched then do nothing;
select * from t order by a;
-- feature: TRUNCATE
create table t (a serial primary key, b int);
insert into t (b) values (1), (2);
truncate t restart identity;
insert into t (b) values (5) returning a;
create table c (a int references t);
truncate t;
truncate t cascade;
select count(*) from t;
-- feature: transactions, savepoints
create table t (a int);
begin;
insert into t values (1);
savepoint s;
insert into t values (2);
rollback to savepoint s;
release savepoint s;
commit;
select * from t;
begin;
select 1 / 0;
select 1;
rollback;
start transaction isolation level repeatable read read only;
insert into t values (1);
rollback;
commit;
-- feature: NOT NULL, CHECK
create table t (a int not null, b int check (b > 0), constraint small check (a < 100));
insert into t values (null, 1);
insert into t values (1, 0);
insert into t values (1, null);
insert into t values (100, 1);
-- feature: UNIQUE constraints, composite, NULLS DISTINCT
create table t (a int, b int, unique (a, b));
insert into t values (1, null), (1, null), (1, 2);
insert into t values (1, 2);
create table u (a int unique nulls not distinct);
insert into u values (null);
insert into u values (null);
-- feature: foreign keys: NO ACTION and RESTRICT
create table p (a int primary key);
create table c (a int references p, b int references p (a) on delete restrict);
insert into p values (1), (2);
insert into c values (1, 2), (null, null);
insert into c values (9, 1);
delete from p where a = 1;
delete from p where a = 2;
update p set a = 5 where a = 1;
drop table p;
-- feature: foreign keys: CASCADE, SET NULL, SET DEFAULT
create table p (a int primary key);
create table c (a int references p on delete cascade on update cascade);
create table n (a int references p on delete set null on update set null);
create table d (a int default 0 references p on delete set default);
insert into p values (0), (1), (2);
insert into c values (1), (2);
insert into n values (1), (2);
insert into d values (1);
update p set a = 20 where a = 2;
delete from p where a = 1;
select * from c order by a;
select * from n order by a;
select * from d;
-- feature: foreign keys: several columns, to itself, MATCH FULL
create table p (a int, b int, up_a int, up_b int, primary key (a, b), foreign key (up_a, up_b) references p);
insert into p values (1, 1, null, null), (1, 2, 1, 1);
insert into p values (1, 3, 9, 9);
create table f (a int, b int, foreign key (a, b) references p match full);
insert into f values (1, null);
-- feature: deferrable foreign keys
create table p (a int primary key);
create table c (a int references p deferrable initially deferred);
begin;
insert into c values (1);
insert into p values (1);
commit;
begin;
insert into c values (2);
commit;
begin;
set constraints all immediate;
insert into c values (3);
rollback;
-- feature: deferred foreign keys under schema changes and savepoints
create table p (a int primary key);
create table c (a int primary key, b int constraint fk references p deferrable initially deferred);
insert into p values (1), (2);
begin;
insert into c values (1, 9);
alter table p rename to pp;
commit;
begin;
insert into c values (1, 9);
savepoint s;
insert into p values (9);
set constraints all immediate;
rollback to s;
commit;
begin;
insert into c values (1, 9);
savepoint s;
set constraints fk immediate;
rollback to s;
insert into p values (9);
commit;
begin;
savepoint s;
set constraints fk immediate;
rollback to s;
insert into c values (2, 99);
delete from c where a = 2;
commit;
begin;
set constraints all immediate;
set constraints fk deferred;
insert into c values (3, 99);
set constraints all immediate;
rollback;
begin;
update p set a = 10 where a = 9;
update c set b = 10;
commit;
select * from c;
-- feature: deferrable unique constraints
create table t (a int unique deferrable initially deferred);
insert into t values (1), (2);
update t set a = a + 1;
begin;
insert into t values (2);
commit;
-- feature: updates of a primary key in one statement
create table t (a int primary key);
insert into t values (1), (2), (3);
update t set a = a - 1;
select * from t order by a;
-- feature: exclusion constraints
create table t (a int, exclude using gist (a with =));
-- feature: COPY FROM and TO, text and csv
create table t (a int, b text);
insert into t values (1, 'x'), (2, null);
copy t to stdout;
copy t (b) to stdout with (format csv, header);
copy (select a * 2 from t order by a) to stdout (delimiter '|');
-- feature: SELECT … FOR UPDATE, FOR SHARE, NOWAIT, SKIP LOCKED
create table t (a int primary key);
insert into t values (1), (2);
begin;
select * from t where a = 1 for update;
select * from t for share;
select * from t for update nowait;
select * from t order by a for no key update skip locked;
select * from t for key share of t;
commit;
-- feature: LOCK TABLE
create table t (a int);
begin;
lock table t in share mode;
lock t;
commit;
lock table t;
-- feature: triggers
create table t (a int);
create trigger g before insert on t for each row execute function nothing();
-- feature: SQL functions
create function twice(x int) returns int language sql as $$ select x * 2 $$;
select twice(21);
-- feature: PL/pgSQL functions, DO
do $$ begin raise notice 'x'; end $$;
-- feature: deferrable foreign keys: circles, names, parents, savepoints
create table p (a int primary key);
create table c (a int constraint c_p references p deferrable initially deferred, b int constraint c_b references p deferrable);
create table x (a int primary key, b int);
alter table x add constraint x_x foreign key (b) references x deferrable initially deferred;
begin;
insert into x values (1, 2);
insert into x values (2, 1);
commit;
insert into x values (3, 4);
insert into c (b) values (1);
insert into p values (1), (2);
insert into c values (1, 2);
begin;
delete from p where a = 1;
insert into p values (1);
commit;
begin;
delete from p where a = 1;
commit;
begin;
set constraints c_b deferred;
delete from p where a = 2;
savepoint s;
set constraints c_b immediate;
rollback to savepoint s;
delete from c;
commit;
begin;
insert into c values (9, null);
savepoint s;
insert into c values (8, null);
rollback to savepoint s;
insert into p values (9);
set constraints c_p immediate;
insert into c values (7, null);
rollback;
set constraints nothing immediate;
begin;
set constraints nothing immediate;
rollback;
select * from p order by a;
select conname, condeferrable, condeferred, pg_get_constraintdef(oid) from pg_constraint where conrelid = 'c'::regclass order by 1;
alter table c add constraint bad foreign key (a) references p not deferrable initially deferred;
-- feature: UPDATE … SET (…) = (SELECT …), ROW (…)
create table t (a int primary key, b int, c text);
insert into t values (1, 10, 'x'), (2, 20, 'y');
update t set (a, b) = (select 500, 501) where a = 1 returning *;
update t set (b, c) = (select max(x), string_agg(x::text, ',') from generate_series(1, 3) x where x <= t.a) where a = 2 returning *;
update t set (a, b) = row (b, a) where a = 500 returning *;
update t set (b, c) = (b + 1, 'z') where a = 2 returning a, b, c;
update t set (b, c) = (select g, 'many' from generate_series(1, 2) g);
update t set (b, c) = (select g, 'none' from generate_series(1, 0) g) returning b, c;
insert into t values (2, 7) on conflict (a) do update set (b, c) = row (excluded.b + 1, 'u') returning *;
-- feature: RETURNING columns of other tables
create table t (a int primary key, b int);
create table s (a int, v int, w text[], n numeric(6, 2));
insert into t values (1, 1), (2, 2), (3, 3);
insert into s values (1, 100, '{x,y}', 1.50), (3, 300, null, 2);
update t set b = s.v from s where s.a = t.a returning t.a, b, s.v, w, n, s.v + t.b as sum;
update t set b = 0 from s as o where o.a = t.a and o.a = 1 returning *;
update t x set b = 7 from s o join s p on p.a = o.a where o.a = x.a and o.a = 3 returning x.*, p.v, o.w;
delete from t using s where s.a = t.a and s.a = 3 returning t.*, s.*;
delete from t using (values (1, 'one')) v (id, name) where v.id = t.a returning name, a;
update t set b = g from generate_series(5, 5) g where a = 2 returning a, b, g;
update t set b = 1 from s where s.a = t.a returning nothing;
update t set b = 1 from s where s.a = t.a returning a;
-- feature: INSERT … OVERRIDING
create table g (id int generated always as identity primary key, k int generated by default as identity, v text);
insert into g (id, v) overriding system value values (7, 'x') returning id, k;
insert into g (id, v) overriding user value values (70, 'y') returning id, k;
insert into g (id, k, v) overriding user value values (70, 80, 'z') returning id, k;
insert into g (id, v) overriding system value select 9, 'q' returning id;
insert into g (id, v) values (10, 'r');
