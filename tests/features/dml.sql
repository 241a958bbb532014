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
-- feature: FOR UPDATE and FOR SHARE of joins, OF, subqueries, any order
create table a (id int primary key, x int, s text);
create table b (id int primary key, aid int references a);
insert into a select g, g * 10, 's' || g from generate_series(1, 4) g;
insert into b select g, (g % 4) + 1 from generate_series(1, 6) g;
begin;
select a.id, b.id from a join b on b.aid = a.id where a.x > 10 order by b.id for update of a;
select a.*, b.id as bid from a join b on b.aid = a.id where a.x > 10 order by b.id limit 2 for update;
select * from a, b where b.aid = a.id and a.id = 2 order by b.id for share of b skip locked;
select * from a join b on b.aid = a.id where a.id = 2 order by b.id limit 1 for update of a, b nowait;
select * from a where id in (select aid from b where id < 3) order by id for update;
select * from a where exists (select 1 from b where b.aid = a.id) order by x % 3, id for update skip locked;
select s || 'x' from a order by lower(s) desc limit 2 for update skip locked;
select a.id from a left join b on b.aid = a.id order by 1, b.id for update of a;
with q as (select 2 as k) select a.id, q.k from a join q on q.k = a.id for update;
commit;
select a.id from a left join b on b.aid = a.id for update;
select a.id from a join b on true for update of c;
select count(*) from a for update;
select x from a group by x for update;
select distinct x from a for update;
select row_number() over () from a for update;
-- feature: FOR UPDATE in subqueries and WITH: a queue by SKIP LOCKED
create table jobs (id int primary key, state text default 'new', n int);
insert into jobs select g, 'new', 0 from generate_series(1, 10) g;
create table log (id int, what text);
update jobs set state = 'run' where id = (select id from jobs where state = 'new' order by id for update skip
    locked limit 1) returning *;
delete from jobs where id in (select id from jobs where state = 'new' order by id limit 2 for update skip
    locked) returning id;
with next as (select id from jobs where state = 'new' order by id limit 1 for update skip locked) update jobs
    j set state = 'run', n = n + 1 from next where j.id = next.id returning j.*;
with next as materialized (select id, n from jobs where state = 'new' order by id limit 2 for no key update
    nowait) select * from next;
insert into log select id, 'seen' from jobs where state = 'run' order by id for share limit 1 returning *;
with d as (delete from jobs where id in (select id from jobs where state = 'new' order by id limit 1 for
    update skip locked) returning *) insert into log select id, 'gone' from d returning *;
select * from (select id from jobs order by id limit 2 for update) s;
select * from (select id from jobs where n = 7 for update) s;
select * from (select nope from jobs for update) s;
select count(*) from (select id from jobs for update) s(x) where x > 5;
select id from jobs order by id for update of jobs limit 1 offset 1;
with n as (select id from jobs order by id limit 2 for update), m as (select l.id from log l, n where l.id >=
    n.id order by 1 for update of l) select count(*) from m;
with n as (select count(*) from jobs for update) select * from n;
with n as (select id from jobs order by id limit 1 for update) select j.* from jobs j, n where j.id = n.id
    for update of j;
with n(a, b) as (select id, state from jobs order by id limit 1 for update) insert into log select a, b from
    n on conflict do nothing returning *;
select array(select id from jobs order by id limit 3 for update), (select max(id) from jobs), (select n from
    jobs order by id limit 1 for share);
select * from jobs order by id;
select * from log order by id, what;
-- feature: exported snapshots
begin isolation level repeatable read;
select pg_export_snapshot() ~ '^[0-9A-F-]+$';
commit;
begin;
set transaction snapshot '00000003-00000001-1';
rollback;
begin isolation level repeatable read read only;
set transaction snapshot 'none';
rollback;
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
-- feature: MERGE: every clause
create table t (id int primary key, v int, note text default 'd');
create table s (id int, v int);
insert into t values (1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c');
insert into s values (2, 200), (3, 300), (4, 400);
merge into t using s on t.id = s.id when matched then update set v = s.v when not matched then insert values (s.id, s.v);
select * from t order by id;
merge into t using s on t.id = s.id when matched and s.v > 250 then delete when matched then do nothing when not matched then do nothing;
merge into t as x using (values (1, 5), (7, 70), (8, 0)) as q (id, w) on x.id = q.id when matched and v > 100 then update set v = 0 when matched then update set (v, note) = (w + v, 'u') when not matched and w > 0 then insert (id, v) values (id, w) when not matched then insert (id) values (id);
select * from t order by id;
with w as (select 100 as a, 5 as b) merge into t using w on t.id = w.a when not matched then insert values (a, b);
merge into t using s on t.id = s.id when not matched and exists (select 1 from t where id = s.id) then do nothing when not matched then insert values (s.id + 1000, (select max(v) from t), default);
merge into t using (select 2 as x) q on t.id = q.x when matched then update set note = default;
select * from t order by id;
insert into s values (2, 1), (2, 2);
merge into t using s on t.id = s.id when matched then update set v = s.v;
merge into t using s on t.id = s.id when matched then do nothing;
-- feature: MERGE of generated columns, and of types
create table i (id int generated always as identity, g int generated always as (x * 2) stored, x int);
merge into i using (select 5 as x) q on i.x = q.x when not matched then insert (x) values (x) when matched then delete;
merge into i using (select 6 as x) q on i.x = q.x when not matched then insert (id, x) overriding system value values (10, x);
merge into i using (select 6 as x) q on i.x = q.x when not matched then insert default values when matched then update set x = i.x + 1;
merge into i using (select 6 as x) q on i.x = q.x when not matched then insert default values;
merge into i using (select 6 as x) q on i.x = q.x when matched then update set g = 1;
select * from i order by 1;
create type mood as enum ('a', 'b');
create table e (id int, m mood, j jsonb, n numeric(5, 2), ts timestamptz, arr int[]);
merge into e using (values (1)) q (x) on id = x when not matched then insert values (x, 'a', '{"a":1}', 1.239, '2020-01-01', '{1,2}');
merge into e using (values (1)) q (x) on id = x when matched then update set m = 'b', j = j || '{"b":2}', n = n * 2, arr = arr || 3;
select * from e;
prepare m as merge into i using (select 6 as x) q on i.x = q.x when matched then do nothing when not matched then insert (x) values ($1);
execute m (60);
select count(*) from i where x = 60;
-- feature: MERGE and foreign keys
create table p (id int primary key);
create table c (id int references p on delete cascade);
insert into p values (1), (2);
insert into c values (1);
merge into p using (values (1), (3)) as q (id) on p.id = q.id when matched then delete when not matched then insert values (q.id);
select * from p order by 1;
select * from c;
merge into c using (values (9)) as q (id) on c.id = q.id when not matched then insert values (q.id);
-- feature: MERGE that is refused
create table t (id int primary key, v int, note text);
create table s (id int, v int);
create view vw as select * from t;
insert into s values (1, 1);
merge into t using s on t.id = s.id when matched then delete when matched then do nothing;
merge into t using s on t.id = s.id when not matched then insert values (t.id, s.v);
merge into t using s on t.id = s.id when not matched then insert values (note, s.v);
merge into t using s on t.id = s.id when not matched then insert values (nope, s.v);
merge into t using s on t.id = s.id when not matched then delete;
merge into t using s on t.id = s.id when matched then insert values (1);
merge into t using t on t.id = t.id when matched then delete;
merge into t using s on t.id = s.id when not matched then insert (id, id) values (1, 2);
merge into t using s on t.id = s.id when not matched then insert (id, v) values (1);
merge into t using s on t.id = s.id when not matched then insert (id) values (null);
merge into t using nope on true when matched then delete;
merge into t using s on t.id = s.id when matched then delete returning *;
merge into vw using s on vw.id = s.id when matched then delete;
with m as (merge into t using s on t.id = s.id when matched then delete) select 1;
-- feature: rows written through views
create table t (id int primary key, v int, s text default 'd');
insert into t values (1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c');
create view vw as select id, v, s from t where v > 5;
insert into vw values (4, 40);
insert into vw (id, v, s) values (5, 50, 'e') returning *;
insert into vw values (6, 1, 'hidden');
update vw set v = v + 1 where id = 1 returning *;
update vw x set s = x.s || '!' where x.id = 2 returning x.id, s;
update vw set v = 100 where id = 6;
delete from vw where id = 3 returning id;
delete from vw where id = 6;
insert into vw values (1, 99, 'dup') on conflict (id) do update set v = excluded.v returning *;
insert into vw select id + 200, v, s from t where id < 3;
with x as (update vw set v = 1000 where id = 1 returning id) select * from x;
prepare p as update vw set v = $1 where id = $2 returning *;
execute p (5000, 2);
select * from t order by 1;
-- feature: views of other names, expressions and views, written through
create table t (id int primary key, v int, s text default 'd');
insert into t values (1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c');
create view rn (i, w, twice) as select id, v, v * 2 from t;
insert into rn (i, w) values (10, 7);
update rn set w = w + twice where i = 10 returning *;
delete from rn where twice = 42 returning i;
create view vw as select * from t where v > 5;
update rn set w = o.v from vw o where o.id = rn.i and rn.i = 1 returning rn.i, w, o.s;
create view nn as select * from vw where id < 100;
insert into nn values (20, 200, 'nested');
update nn set s = 'upd' where id = 20 returning *;
delete from nn where id = 20;
create view wr as select t.*, s || '!' as loud from t;
insert into wr (id, v) values (70, 70) returning loud;
update wr set v = 71 where loud = 'd!' and id = 70 returning *;
alter table t rename column v to vv;
update nn set v = v + 1 where v = 20 returning *;
insert into rn (i, w, twice) values (11, 7, 1);
update rn set twice = 1;
update vw set nope = 1;
insert into vw (nope) values (1);
select table_name, is_updatable, is_insertable_into, check_option from information_schema.views where table_schema = 'public' order by 1;
-- feature: WITH CHECK OPTION
create table t (id int primary key, v int, s text default 'd');
create view ck as select * from t where v > 0 with check option;
insert into ck values (30, -1, 'x');
insert into ck values (30, 1, 'x');
update ck set v = -5 where id = 30;
create view lc as select * from ck where id < 50 with local check option;
insert into lc values (60, 5, 'x');
insert into lc values (40, -5, 'x');
create view nn as select * from t where id < 100;
create view cc as select * from nn where v < 1000 with cascaded check option;
insert into cc values (150, 7, 'x');
insert into cc values (50, 2, 'x');
insert into nn values (150, 7, 'x');
select * from t order by 1;
-- feature: views that cannot be written through
create table t (id int primary key, v int);
create view agg as select count(*) from t;
insert into agg values (1);
update agg set count = 1;
delete from agg;
create view jn as select t.id from t join t u using (id);
insert into jn values (1);
create view di as select distinct v from t;
delete from di;
create view gr as select v from t group by v;
delete from gr;
create view un as select 1 as a union all select 2;
delete from un;
create view li as select v from t limit 1;
delete from li;
create view wi as with q as (select 1) select t.id from t;
delete from wi;
create view no as select 1 as a;
insert into no values (1);
select table_name, is_updatable from information_schema.views where table_schema = 'public' order by 1;
