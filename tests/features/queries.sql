-- feature: WHERE, ORDER BY, LIMIT, OFFSET, FETCH FIRST
create table t (a int primary key, b text, c int);
insert into t values (1, 'x', 10), (2, 'y', null), (3, 'z', 30);
select a from t where c is not null order by c desc limit 1 offset 1;
select a from t order by c nulls first, a fetch first 2 rows only;
select a as n, b "B" from t where b in ('x', 'z') and a between 1 and 3 order by n;
-- feature: joins
create table l (a int, b text);
create table r (a int, c text);
insert into l values (1, 'l1'), (2, 'l2');
insert into r values (2, 'r2'), (3, 'r3');
select * from l join r using (a);
select * from l left join r on l.a = r.a order by l.a;
select * from l right join r on l.a = r.a order by r.a;
select * from l full join r using (a) order by a;
select * from l natural join r;
select count(*) from l cross join r;
-- feature: columns that USING and NATURAL merge
create table t (id int primary key, a text);
create table t2 (id int primary key, b text);
create table t3 (id int primary key, c text);
insert into t values (1,'x'),(5,'y'),(6,'z'); insert into t2 values (5,'q'),(7,'r'); insert into t3 values (5,'c'),(7,'d'),(9,'e');
select id from t right join t2 using (id) order by id;
select id, a, b from t full join t2 using (id) order by id;
select id + 1 from t full join t2 using (id) order by 1;
select id, count(*) from t full join t2 using (id) group by id order by 1;
select id, max(a) from t right join t2 using (id) group by id having id > 1 order by 1;
select sum(id) from t full join t2 using (id);
select id from t join t2 using (id) join t3 using (id);
select id from t right join t2 using (id) right join t3 using (id) order by id;
select id from t full join t2 using (id) full join t3 using (id) order by id;
select * from t join t2 using (id) full join t3 using (id) order by id;
select case when id > 5 then 'b' end from t full join t2 using (id) order by id;
select id, row_number() over (order by id) from t full join t2 using (id) order by id;
select distinct id from t full join t2 using (id) order by id;
select (select max(id) from t3 where t3.id = t.id) from t join t2 using (id);
select 1 from t join t2 using (id) where exists (select 1 from t3 where c = b);
select x.id from t x join t2 y using (id) where x.id = 5 and y.id = 5;
select * from t natural join t2 where id = 5;
select * from t natural full join t2 where id > 5 order by id;
select * from t right join t2 using (id) where id = 7;
select count(*) from t join t2 using (id) join t3 using (id) where id > 1;
select id, count(*) from t join t2 using (id) join t3 using (id) group by id;
select id from t full join t2 using (id) full join t3 using (id) where id > 1 order by id;
select a from t x join (select id, b from t2) y using (id) where id = 5;
select * from (values (1, 'x')) v(id, z) join t using (id) where id = 1;
select * from generate_series(1, 6) id join t using (id) where id > 1 order by id;
with w as (select id from t2) select * from w join t using (id) where id = 5;
select * from t join t2 using (id) where id = 5;
select * from t join t2 using (id) where id > 3;
select * from t join t2 using (id) where id in (5, 6);
select * from t join t2 using (id) where id is not null;
select * from t join t2 using (id) where id between 1 and 5;
select id + 1 from t join t2 using (id);
select id from t join t2 using (id);
select id = 5 from t join t2 using (id);
select abs(id) from t join t2 using (id);
select * from t join t2 using (id) order by -id;
select t.id from t join t2 using (id) where t.id > 3;
-- feature: * of joins by USING, in the order of their tables
create table z (id int primary key, a text);
create table b (id int primary key, b text);
insert into z values (1,'x'),(5,'y'); insert into b values (5,'q'),(7,'r');
select * from z left join b using (id) order by 1;
select * from z join b using (id);
select * from z full join b using (id) order by 1;
select * from z right join b using (id) order by 1;
select * from z natural left join b order by 1;
select id, z.*, b.* from z left join b using (id) order by 1;
select * from z left join b using (id) left join b c using (id) order by 1;
create view v as select * from z left join b using (id);
select * from v order by 1;
select z.*, * from z left join b using (id) order by 1;
-- feature: * beside other columns, and twice
create table z (id int primary key, a text);
insert into z values (1,'x');
select id, id from z;
select id, z.id from z;
select id, * from z;
select *, id from z;
select z.*, z.* from z;
select *, * from z;
select * from (select id, id from z) q;
select 1 as one, * from z order by id;
select *, row_number() over () from z;
select *, id + 1 as a from z order by id;
select z.*, y.*, y.id from z join z y on true;
with w as (select id, 2 as two from z) select *, two from w;
create view v as select *, 1 as one from z;
select *, one from v;
select *, a from (values (1, 2)) t(a, b);
insert into z select *, id from (select 9 as id) q;
select (select count(*) from z), * from z;
-- feature: IN (SELECT …) in a select list
create table a (id int primary key, x int, v text);
create table b (id int primary key, aid int, y int);
insert into a values (1, 1, '10'), (2, null, 'q'), (3, 7, null);
insert into b values (1, 1, 10), (2, 2, null), (3, null, 7);
select x in (select y from b) from a order by id;
select id, x not in (select y from b where y > 5) from a order by id;
select id, x in (select y from b where y is not null) as found, x in (select y from b where y > 100) from a order by id;
select id, x in (select y from b where b.aid = a.id) from a order by id;
select id, case when id in (select aid from b) then 'yes' else 'no' end from a order by id;
select id, v in (select y::text from b where y is not null) and x is not null from a order by id;
select count(*) filter (where id in (select aid from b)) from a;
select (select id in (select aid from b) from a where id = 1);
select id from a group by id having id in (select aid from b) order by 1;
select id = any (select aid from b), id <> all (select aid from b) from a order by id;
select a.id + 1 in (select id from b union select 9) from a order by a.id;
select id, (select count(*) from (select y from b where b.aid = a.id) f(v) where f.v = a.x) from a order by id;
select id, (select count(*) - count(f.v) from (select y from b where b.aid = a.id) f(v)) from a order by id;
select id, (select count(*) from (select y from b where b.aid = a.id) f(v)) from a order by id;
select id, case when (select count(*) from (select y from b where b.aid = a.id) f(v) where f.v = a.x) > 0 then
    true when (select count(*) - count(f.v) from (select y from b where b.aid = a.id) f(v)) > 0 then null else false end from a order by id;
select id, case when (select count(*) - count(f.v) from (select y from b where b.aid = a.id) f(v)) > 0 then true
    when (select count(*) from (select y from b where b.aid = a.id) f(v)) > 0 then null else false end from a order by id;
-- feature: GROUP BY and HAVING
create table t (k text, v int);
insert into t values ('a', 1), ('a', 2), ('b', 3), (null, 4);
select k, count(*), sum(v), avg(v), min(v), max(v) from t group by k having count(*) > 0 order by k nulls last;
select k, v from t group by k;
select count(distinct k), count(k) from t;
-- feature: aggregates with FILTER, ORDER BY, DISTINCT
create table t (k text, v int);
insert into t values ('a', 1), ('b', 2), ('a', 3);
select sum(v) filter (where k = 'a'), string_agg(k, ',' order by v desc), array_agg(distinct k order by k), string_agg(distinct k, '|') from t;
-- feature: statistical aggregates
select stddev(x), variance(x), stddev_pop(x), var_pop(x) from (values (1.0::float8), (2), (4)) v(x);
select corr(x, y), regr_slope(y, x), covar_pop(x, y) from (values (1.0::float8, 2.0::float8), (2, 4), (3, 7)) v(x, y);
select percentile_cont(0.5) within group (order by x), percentile_disc(0.5) within group (order by x), mode() within group (order by x) from (values (1), (2), (2), (9)) v(x);
select bit_and(x), bit_or(x), bool_and(x > 0), bool_or(x > 3), every(x > 0) from (values (1), (3)) v(x);
-- feature: GROUPING SETS, ROLLUP, CUBE
create table t (a text, b text, v int);
insert into t values ('x', 'p', 1), ('x', 'q', 2), ('y', 'p', 3);
select a, b, sum(v), grouping(a, b) from t group by grouping sets ((a, b), (a), ()) order by a nulls last, b nulls last;
select a, sum(v) from t group by rollup (a) order by a nulls last;
select a, b, sum(v) from t group by cube (a, b) order by 1 nulls last, 2 nulls last;
-- feature: DISTINCT and DISTINCT ON
create table t (k text, v int);
insert into t values ('a', 1), ('a', 2), ('b', 3);
select distinct k from t order by k;
select distinct on (k) k, v from t order by k, v desc;
-- feature: UNION, INTERSECT, EXCEPT
select 1 union select 2 union select 1 order by 1;
select 1 union all select 1;
select x from (values (1), (2)) v(x) intersect select 2;
select x from (values (1), (2)) v(x) except select 2;
-- feature: subqueries: scalar, IN, EXISTS, correlated, ANY, ALL
create table t (a int primary key, b int);
insert into t values (1, 1), (2, 1), (3, 2);
select (select max(a) from t), (select b from t where a = 99);
select a from t where b in (select b from t where a = 2) order by a;
select a from t o where exists (select 1 from t i where i.b = o.b and i.a <> o.a) order by a;
select a from t where a > all (select b from t) order by a;
select a, (select count(*) from t i where i.a < o.a) from t o order by a;
select (select a from t);
-- feature: LATERAL
create table t (a int primary key, b int);
insert into t values (1, 3), (2, 1);
select a, x from t, lateral (select b + 1 as x) l order by a;
select a, g from t, generate_series(1, b) g order by a, g;
select a, m from t left join lateral (select max(i.a) as m from t i where i.a < t.a) l on true order by a;
-- feature: subqueries correlated by any condition
create table t (id int primary key, k int);
create table u (id int primary key, t_id int, w int);
insert into t select g, g % 3 from generate_series(1, 6) g;
insert into u select g, g % 4, g * 10 from generate_series(1, 9) g;
select t.id, l.w from t, lateral (select w from u where u.t_id = t.id order by w desc limit 1) l order by 1;
select t.id, l.n, l.s from t cross join lateral (select count(*) as n, sum(w) as s from u where u.t_id < t.id) l order by 1;
select t.id, (select max(w) from u where u.t_id > t.k and u.w < t.id * 20) from t order by 1;
select id, (select u.w from u where u.t_id = t.id) from t;
select t.id, g, n from t left join lateral generate_series(1, t.k) with ordinality as s (g, n) on true order by 1, 2;
select id from t where id > any (select t_id from u) order by id;
select 1 > all (select null::int), 1 > all (select 1 where false), 5 > any (select x from (values (1), (null)) v(x)), 0 > any (select x from (values (1), (null)) v(x));
-- feature: WITH
with x as (select 1 as a), y as (select a + 1 as b from x) select * from x, y;
with x (n) as materialized (select 5) select n from x;
-- feature: WITH RECURSIVE
with recursive n (i) as (select 1 union all select i + 1 from n where i < 5) select sum(i) from n;
create table e (id int primary key, boss int);
insert into e values (1, null), (2, 1), (3, 2), (4, 1);
with recursive r as (select id, 0 as depth from e where boss is null union all select e.id, depth + 1 from e join r on e.boss = r.id) select * from r order by id;
with recursive r (a) as (select 1 union select a % 3 + 1 from r) select a from r order by a;
-- feature: data-modifying WITH
create table t (a int primary key, b int);
create table log (a int);
with i as (insert into t values (1, 10), (2, 20) returning a) insert into log select a from i;
with d as (delete from t where a = 1 returning *) select * from d;
with u as (update t set b = b + 1 returning a, b) select sum(b) from u;
select * from t order by a;
select * from log order by a;
-- feature: window functions
create table t (k text, v int);
insert into t values ('a', 1), ('a', 3), ('b', 2), ('b', 2);
select k, v, row_number() over (order by v, k), rank() over (order by v), dense_rank() over (order by v), sum(v) over (partition by k), lag(v) over (order by v, k), lead(v, 1, 0) over (order by v, k) from t order by v, k;
select v, first_value(v) over w, last_value(v) over w, ntile(2) over w, percent_rank() over w, cume_dist() over w, nth_value(v, 2) over w from t window w as (order by v) order by v;
select v, sum(v) over (order by v rows between 1 preceding and current row), count(*) over (order by v range between unbounded preceding and current row) from t order by v, 2;
-- feature: VALUES and TABLE
values (1, 'a'), (2, 'b');
select * from (values (1, 'a'), (2, 'b')) v (n, s) order by n;
create table t (a int);
insert into t values (1);
table t;
-- feature: CASE, COALESCE, NULLIF, GREATEST, LEAST
select case when 1 = 2 then 'a' else 'b' end, case 3 when 3 then 'x' end, coalesce(null, 2), nullif(1, 1), greatest(1, null, 3), least('b', 'a');
-- feature: IS DISTINCT FROM, BETWEEN SYMMETRIC, IS UNKNOWN
select 1 is distinct from null, null is not distinct from null, 2 between symmetric 3 and 1, null::bool is unknown, true is not false;
-- feature: LIKE, ILIKE, SIMILAR TO, regular expressions
select 'abc' like 'a%', 'ABC' ilike 'a_c', 'a%c' like 'a\%c', 'abc' similar to '(a|b)%', 'abc' ~ '^a.c$', 'ABC' ~* 'b', 'abc' !~ 'z', 'abc' not like 'b%', 'abc' ~~ 'a%', 'axc' like 'a!%c' escape '!';
-- feature: generate_series in FROM and in the select list
select * from generate_series(1, 5, 2);
select generate_series(1, 3);
select d::date from generate_series('2024-01-01'::timestamp, '2024-01-03', '1 day') d;
select x, y from generate_series(1, 2) x, generate_series(1, 2) y order by 1, 2;
select * from generate_series(1, 3) with ordinality as g (v, n);
-- feature: TABLESAMPLE
create table t (a int);
insert into t values (1);
select * from t tablesample bernoulli (100);
-- feature: SELECT INTO
select 1 as a into made;
select * from made;
-- feature: column and table aliases, qualified stars
create table t (a int, b int);
insert into t values (1, 2);
select x.*, x.a + 1 as c from t as x;
select x.p, x.q from t x (p, q);
select t from t;
select count(t) from t;
-- feature: unnamed columns have PostgreSQL's names
select 1, 'a', now() is not null, 1 + 1, upper('a'), 1::int, case when true then 1 end, coalesce(1, 2), (select 5), exists (select 1), array[1], current_user is null;
-- feature: errors of names and types
select nothing from (values (1)) v(a);
select * from nothing;
select nothing(1);
select 1 + 'a';
select 'a' + 1;
select 1 = 'a'::text;
select a from (values (1)) v(a), (values (2)) w(a);
selec 1;
select 1 from;
-- feature: correlated names, ordinals and expressions in ORDER BY and GROUP BY
create table t (a int, b int);
insert into t values (1, 5), (2, 4), (3, 5);
select b, count(*) from t group by 1 order by 2 desc, 1;
select a + b as s from t order by s, a desc;
select b % 2 as odd, sum(a) from t group by odd order by odd;
select a from t order by 5;
-- feature: nested aggregates and windows over groups
create table t (k int, v int);
insert into t values (1, 10), (1, 20), (2, 5);
select k, sum(v), rank() over (order by sum(v) desc) from t group by k order by k;
select sum(count(*)) over () from t;
select sum(sum(v)) from t;
-- feature: PREPARE, EXECUTE, DEALLOCATE
prepare q (int) as select $1 + 1;
execute q (41);
deallocate q;
execute q (1);
-- feature: cursors: DECLARE, FETCH, MOVE, CLOSE
begin;
declare c scroll cursor for select * from generate_series(1, 5);
fetch 2 from c;
fetch all from c;
fetch backward 1 from c;
move absolute 1 in c;
fetch next from c;
close c;
commit;
-- feature: EXPLAIN
create table t (a int primary key);
explain (costs off, format json) select 1;
explain analyze nothing;
-- feature: LATERAL with ORDER BY and LIMIT
create table p (id int primary key, name text);
create table f (id int, pid int, g int);
insert into p values (1, 'a'), (2, 'b'), (3, 'c');
insert into f values (1, 1, 5), (2, 1, 9), (3, 2, 4);
select p.name, h.id from p join lateral (select f.id from f where f.pid = p.id order by f.g desc limit 1) h on true order by 1;
select p.name, h.id from p left join lateral (select f.id from f where f.pid = p.id and g < 9 limit 1) h on true order by 1;
select p.name, (select f.id from f where f.pid = p.id order by f.g desc limit 1) from p order by 1;
select p.name, array(select f.g from f where f.pid = p.id order by f.g desc) from p order by 1;
select * from unnest(array[1, 2], array['a', 'b']) as q (a, b);
select trim(trailing from 'abc  '), trim(leading from '  x'), trim(both from ' c ');
-- feature: GROUP BY a primary key
create table c (id int primary key, name text not null, city text);
create table o (id int primary key, c_id int references c, total numeric(10, 2));
create table i (o_id int, n int, sku text, primary key (o_id, n));
insert into c values (1, 'Ann', 'Oslo'), (2, 'Bob', null), (3, 'Cid', 'Rome');
insert into o values (1, 1, 10.50), (2, 1, 20), (3, 2, 5.25), (4, null, 7);
insert into i values (1, 1, 'x'), (1, 2, 'y'), (3, 1, 'z');
select name from c group by id order by id;
select c.*, count(o.id) from c left join o on o.c_id = c.id group by c.id order by c.id;
select c.name, c.city || '!' as loc, max(o.total) from c, o where o.c_id = c.id group by c.id having count(*) > 0 order by c.name;
select c.name, o.total, count(*) from c join o on o.c_id = c.id join i on i.o_id = o.id group by c.id, o.id order by 1, 2;
select sku, count(*) from i group by o_id, n order by 1;
select sku, count(*) from i group by o_id;
select c.name from c group by rollup (c.id);
select o.id, c.name from c right join o on o.c_id = c.id group by o.id, c.id order by 1;
-- feature: subqueries that find nothing
create table t (id int primary key, v text not null);
insert into t values (1, 'a'), (2, 'b');
select (select 1 where false) is null, (select id from t where id > 9 limit 1) is null, (select id from t where id > 9 group by id) is null, (select distinct id from t where id = 1) is null;
select array(select id from t where false), array(select 1 where false), array(select v from t order by id desc);
select id, array(select x.v from t x where x.id > t.id order by x.v) from t order by id;
select id, (select x.v from t x where x.id > t.id order by x.id limit 1) is null as nothing from t order by id;
-- feature: LATERAL with ORDER BY what is not selected
create table t (id int primary key, k int, v int);
insert into t values (1, 1, 30), (2, 1, 10), (3, 2, 20);
select g, l.id from generate_series(1, 3) g left join lateral (select t.id from t where t.k = g order by t.v desc limit 1) l on true order by g;
select g, l.id from generate_series(1, 3) g, lateral (select t.id from t where t.k <= g order by t.v offset 1 limit 1) l order by g;
-- feature: rows in subqueries
create table t (a int, b int);
insert into t values (1, 1), (2, null), (3, 3);
select a from t where (a, b) in (select b, a from t) order by a;
select a from t where (a, b) not in (select 1, 1) order by a;
select a from t where (a, a) not in (select b, b from t) order by a;
-- feature: UNION of literals and other types
select 1 union select '2' order by 1;
select null union all select 1 order by 1;
select date '2024-01-01' union select '2024-02-01' order by 1;
select 1 union select 'x';
select 'a' union all select null order by 1;
-- feature: WITH ORDINALITY of several lists, and of json
select * from unnest(array['a', 'b'], array[1, 2, 3]) with ordinality as t (a, b, n);
select value, ordinality from jsonb_array_elements('[10, 20]') with ordinality;
select * from jsonb_each_text('{"a": 1, "b": "x"}') with ordinality as e (k, v, n) order by n;
select g, e.v, e.n from generate_series(1, 2) g, jsonb_array_elements('[5, 6]') with ordinality as e (v, n) order by 1, 3;
prepare p as select * from unnest($1::int[], $1::int[]) as t (a, b);
execute p ('{1, 2}');
deallocate p;
-- feature: ORDER BY USING, COLLATE after a cast, an element of an aggregate
select x from generate_series(1, 3) x order by x using >;
select x, y from (values (1, 2), (1, 1), (2, 1)) v (x, y) order by x desc, y using <;
select 'a'::text collate "C" < 'b';
select (array_agg(x order by x desc))[1] from generate_series(1, 3) x;
-- feature: WITH that writes: order, snapshot, main statements
create table t (a int primary key, b int);
create table log (a int, note text);
insert into t values (1, 10), (2, 20);
with i as (insert into t values (3, 30) returning *) select i.*, (select count(*) from t) as seen from i;
with u as (update t set b = b + 1 returning a, b) select t.a, t.b, u.b from t join u using (a) order by 1;
with d as (delete from t where a = 2 returning a, b) insert into t select a, b + 100 from d returning *;
with a as (insert into t values (20, 1) returning a), b as (insert into t select a + 1, 2 from a returning a) select * from a union all select * from b order by 1;
with u as (update t set b = 1 where a = 20 returning a), v as (update t set b = 2 where a = 20 returning a) select count(*) from u;
with x (v) as (insert into log values (7, 'n') returning a), n as (select count(*) as c from x) select v, c from x, n;
with i as (insert into log values (8, 'm')) select count(*) from log;
with moved as (delete from log returning *) select * from moved order by a;
with i as (insert into t values (20, 1) returning a) select 1;
with up as (insert into t values (20, 5), (30, 6) on conflict (a) do update set b = excluded.b returning a, b) select * from up order by a;
select * from t order by a;
prepare p as with i as (insert into t (a, b) values ($1, 1) returning a) insert into log (a, note) select a, $2 from i returning *;
execute p (50, 'z');
deallocate p;
begin read only;
with i as (insert into t values (60, 1) returning a) select * from i;
rollback;
create table p (id int generated by default as identity primary key, n text unique);
create table ch (p_id int not null references p, w int);
with x as (insert into p (n) values ('one') returning id) insert into ch select id, 5 from x returning p_id;
with d as (delete from ch returning p_id) delete from p using d where p.id = d.p_id returning n;
with i as (insert into t values (900, 1) returning a as x, array[1, 2] as l, 1.50 as d, '2024-01-01'::date + 1 as e, b::text) select * from i;
with recursive r as (select 1 as n union all select n + 1 from r where n < 3), i as (insert into log select n, 'r' from r returning a) select sum(a) from i;
select * from (with i as (insert into t values (901, 1) returning a) select * from i) s;
-- feature: WITH before INSERT, UPDATE, DELETE
create table t (a int primary key, b int);
insert into t values (1, 10), (2, 20), (3, 30);
with k as (select 2 as a) delete from t using k where t.a = k.a returning t.a, t.b;
with k as (select 3 as a) update t set b = 0 where a in (select a from k) returning *;
with k as (select 9 as a, 90 as b) insert into t select * from k;
with k as (select 5 as a) insert into t values ((select a from k), 50) returning a, b;
select * from t order by a;
-- feature: window frames of intervals
select x, sum(x) over (order by d range between interval '1' month preceding and current row) from (values (1, date '2024-01-01'), (2, date '2024-01-20'), (3, date '2024-03-01')) v (x, d) order by x;
select x, count(*) over (order by d range between interval '2 hours' preceding and interval '1 hour' following) from (values (1, timestamp '2024-01-01 01:00'), (2, timestamp '2024-01-01 02:30'), (3, timestamp '2024-01-01 09:00')) v (x, d) order by x;
-- feature: fewer column aliases than columns
create table v (a int, b text);
insert into v values (1, 'x'), (2, 'y');
select * from v as q (p) order by 1;
select p, b from v as q (p) order by 1;
select * from (select 1 as a, 2 as b) as q (p);
with w as (select a, b, a + 1 as c from v) select p, b, c from w as q (p) order by 1;
select q.p, r.b from v q (p) join v as r (p) on q.p = r.p order by 1;
-- feature: json of whole rows
create table v (a int, b text);
insert into v values (1, 'x'), (2, null);
select row_to_json(v) from v order by a;
select row_to_json(t) from (select a, b as name, a * 1.5 as half from v order by a) t;
select to_json(q) from v as q (k) order by k;
select to_jsonb(q) from v q order by a;
select json_agg(v) from v;
select json_agg(t order by t.a desc) from (select * from v) t;
select jsonb_agg(t) from (select a from v order by a) t;
with w as (select a, array_agg(b) as bs from v group by a) select row_to_json(w) from w order by a;
select coalesce(json_agg(x), '[]'::json) from (select * from v where a > 5) x;
select a, (select json_agg(u) from (select b from v w where w.a = v.a) u) from v order by a;
select count(v) from v;
-- feature: GROUPING SETS of expressions
create table v (a int, b text);
insert into v values (1, 'x'), (2, 'y'), (3, 'x');
select a % 2, count(*) from v group by grouping sets ((a % 2), ()) order by 1, 2;
select a % 2 as k, b, count(*), grouping(a % 2, b) from v group by rollup (a % 2, b) order by 1, 2, 3;
select lower(b), a + 1, count(*), sum(a % 2) from v group by cube (lower(b), a + 1) order by 1, 2, 3;
select a % 2 + 1 as k, max(b) from v group by rollup (a % 2) having count(*) > 0 order by 1;
-- feature: LIKE ALL
create table v (a int, b text);
insert into v values (1, 'xy'), (2, 'yz'), (3, null);
select a from v where b like all (array['x%', '%y']);
select a from v where b not like all (array['x%', 'q%']);
select a from v where b ilike all ('{X%,%Y}'::text[]);
select a, b like all (array['x%', null]) from v order by 1;
-- feature: correlated subqueries with set operations, WITH RECURSIVE, parameters
create table o (id int primary key, v int);
create table i (id int, oid int);
insert into o select g, g * 10 from generate_series(1, 5) g;
insert into i values (1, 1), (2, 1), (3, 2);
select o.id, (with recursive r(n, d) as (select o.id, 0 union all select n - 1, d + 1 from r where n > 0) select n from r order by d desc limit 1) as last from o order by 1;
select o.id, case when o.id > 3 then (with recursive r(n, d) as (select o.id, 0 union all select n - 1, d + 1 from r where n > 0) select max(d) from r) end as last from o order by 1;
select o.id, (select count(*) from (select 1 from i where i.oid = o.id union all select 1 from i where i.id = o.v / 10) x) from o order by 1;
select o.id from o where exists (select 1 from i where i.oid = o.id union all select 1 from i where i.id = 3 and o.id = 4) order by 1;
select o.id from o where not exists (select 1 from i where i.oid = o.id union all select 1 from i where i.id = 3 and o.id = 4) order by 1;
select o.id, (select x.n from (select i.id as n from i where i.oid = o.id union all select 7) x) from o order by 1;
prepare p(int) as select o.id, (select sum(n) from (select i.id as n from i where i.oid = o.id union all select $1) x) from o order by 1;
execute p(100);
execute p(null);
-- feature: unnest of several arrays keeps the type of each
create table t (id serial primary key, j jsonb, at timestamptz, n bigint, v varchar(5));
insert into t (j) select * from unnest('{"{\"a\": 1}",NULL}'::jsonb[]) returning id, j;
insert into t (j, at, n, v) select * from unnest(array['1', '[2]']::jsonb[], array[null, null]::timestamptz[], array[null, null]::bigint[], array[null, null]::varchar[]) returning *;
select pg_typeof(a), pg_typeof(b), pg_typeof(c) from unnest(array['a']::varchar[], array[null]::date[], array[null]::jsonb[]) u (a, b, c);
select pg_typeof(u) from (select unnest(array['{}']::jsonb[]) as u) x;
-- feature: UNION of numbers and names of objects, of names and texts
select 1259::oid union all select 'pg_class'::regclass;
select 1259::oid as x union all select 'pg_class'::regclass union all select 'pg_type'::regclass order by 1;
select pg_typeof(x) from (select 1259::oid as x union all select 'pg_class'::regclass union all select 'pg_type'::regclass) s;
select pg_typeof(x), x from (select 'a'::name as x union all select 'b'::text) s order by 2;
-- feature: rows IN (SELECT …) in select lists, EXISTS in EXISTS
create table a (i int, s text); insert into a values (1, 'x'), (2, null), (null, 'z');
create table b (i int, s text); insert into b values (1, 'x'), (2, 'y'), (null, 'q');
select i, s, (i, s) in (select i, s from b) from a order by 1, 2;
select i, s, (i, s) not in (select i, s from b) from a order by 1, 2;
select (1, 'y') in (select i, s from b), (3, 'z') in (select i, s from b where i is not null), (1, 2) in (select 1, 3 where false);
select (i, s) = any (select i, s from b) from a order by a.i, a.s;
select i from a where exists (select 1 from b where b.i = a.i and exists (select 1 from b c where c.i = a.i and c.s = b.s)) order by 1;
select i from a where exists (select 1 from b where exists (select 1 from b c where c.i = a.i)) order by 1;
select i from a where not exists (select 1 from b where not exists (select 1 from b c where c.i + b.i = a.i + 1)) order by 1;
select i, (select count(*) from b where exists (select 1 from b c where c.i = a.i)) from a order by 1;
-- feature: correlated IN (SELECT … LIMIT), in WHERE and in select lists
create table a (i int, s text); insert into a values (1, 'x'), (2, null), (null, 'z');
create table b (i int, s text); insert into b values (1, 'x'), (2, 'y'), (null, 'q');
select i from a where s = any (select unnest(array[a.s, 'x'])) order by 1;
select i from a where i in (select b.i from b where b.i >= a.i order by b.i limit 1) order by 1;
select i from a where i not in (select b.i from b where b.i > coalesce(a.i, 0) order by b.i limit 1) order by 1;
select i, i in (select b.i from b where b.i >= a.i or b.i is null order by b.i limit 2) from a order by 1;
select i, i not in (select b.i from b where b.i > a.i or b.i is null limit 2) from a order by 1;
select i, i in (select x from unnest(array[a.i + 1, null]) x) from a order by 1;
select i from a where i::numeric in (select b.i from b where b.i >= a.i order by 1 limit 1) order by 1;
select i from a where 'x' in (select b.s from b where b.i >= a.i order by b.s limit 1) order by 1;
prepare p(int) as select i from a where i + $1 in (select b.i + $1 from b where b.i >= a.i order by 1 limit 1) order by 1;
execute p(3);
-- feature: ARRAY of columns from outside
create table a (i int, s text); insert into a values (1, 'x'), (2, null), (null, 'z');
select a.i, x from a, lateral (select array[a.i, 2] as x) l order by 1;
select a.i, (select array[a.i, b.i] from a b where b.i = a.i) from a order by 1;
select a.i, (select array[a.s, 'k']) from a order by 1;
select a.i, u from a, unnest(array[a.i, 2]) u order by 1, 2;
select (select array_agg(x) from unnest(array[a.i, 7]) x) from a order by 1;
select q.x[1], q.x from (select array[i, i * 2] as x from a) q order by 1;
select q.x, q.y from (select array[i, null] as x, array[null, i] as y from a) q order by 1;
select (select array[i, 'x'] from a limit 1);
-- feature: types of UNION, of IN (SELECT …), of bits
select 1 union select 'a';
select 1 union select 'a'::text;
select null::text union select 1;
select 1 as x union select true;
select '1' union select 2 order by 1;
select date '2020-01-01' union select timestamp '2020-01-01 10:00' order by 1;
select 1 in (select 'a'::text);
select 1 where date '2020-01-01' in (select '2020-01-01'::text);
select 1 where '2020-01-01' in (select date '2020-01-01');
select 1 | 2, 5 & 3, 5 # 3, 1 << 3, 7::bigint >> 1, 1::smallint | 3, '3' | 5, 6 & '2';
select 1 | 2.5;
select true | false;
select 1.5 << 1;
-- feature: columns beside * of functions and system tables
select *, x from generate_series(1, 2) x;
select *, generate_series from generate_series(1, 2);
select (select count(*) from (select oid, * from pg_namespace where nspname = 'public') q);
select count(*) from (select n.nspname, n.*, n.nspname as again from pg_namespace n where n.oid = 11) q;
-- feature: IN (SELECT …) told from NULL in conditions
create table a (id int, v int); insert into a values (1, 1), (2, null), (3, 3);
create table b (id int, v int); insert into b values (1, 1), (2, 5), (7, null);
select id from a where (v in (select v from b)) is not false order by 1;
select id from a where (v in (select v from b)) is null order by 1;
select id from a where id = 3 or v not in (select v from b) order by 1;
select id from a where not (v in (select v from b) and id > 0) order by 1;
select id from a where not (id = 9 or v in (select v from b)) order by 1;
select id from a where case when v in (select v from b) then false else true end order by 1;
select id from a where (v not in (select v from b where v is not null)) is not true order by 1;
select id from a where id = 3 or v in (select v from b) order by 1;
select id from a where not v in (select v from b where v is not null) order by 1;
-- feature: conditions that read no columns above count(*)
create table a (id int); insert into a values (1), (2);
select a.id, q.c from a left join (select count(*) as c from a) q on 1 = 2 order by 1;
select a.id, q.c from a left join (select count(*) as c from a) q on a.id = 1 and 1 = 2 order by 1;
select a.id, q.c from a join (select count(*) as c from a where false) q on 1 = 1 order by 1;
select c from (select count(*) as c from a) q where 1 = 2;
select count(*) from a having 1 = 2;
prepare p(int) as select count(*) from a having $1 = 1;
execute p(2);
execute p(1);
-- feature: conditions over both sides of an outer join
create table a (id int, v int, t text); insert into a values (1, 1, 'x'), (2, null, 'y'), (3, 3, null);
create table b (id int, v int, t text); insert into b values (1, 1, 'x'), (2, 5, 'q'), (7, null, null);
select a.id, b.id from a full join b on a.id = b.id where b.v is distinct from a.v and b.t not like '%z%' order by 1, 2;
select a.id, b.id from a right join b on a.id = b.id where b.v is distinct from a.v and b.t not like '%z%' order by 1, 2;
select a.id, b.id from a left join b on a.id = b.id where b.v is distinct from a.v and a.t not like '%z%' order by 1, 2;
-- feature: casts of one expression to several types, grouped and ordered by
create table a (id int, v int); insert into a values (1, 1), (2, null), (3, 3);
select a.id::smallint, a.id::float8, max(v) from a group by 1, 2 order by 1;
select max(a.id::smallint), max(a.id::bigint) from a;
select (id::int)::text, (id::int)::bigint from a group by 1, 2 order by 1;
select a.id::text, count(*), a.id::bigint from a group by a.id::text, a.id::bigint order by a.id::text desc;
select a.id::text, a.id::bigint from a order by a.id desc;
select id::text, id from a group by id order by id::text;
-- feature: UNION, CASE and VALUES of several numeric types, and what is computed of them
create table n (a int, b numeric, c numeric(6, 2), d float4, e float8, f smallint);
insert into n values (1, 2.5, -3.25, 1.5, -2.5, 7);
select pg_typeof(r), round(r), r = 2.5 from (select 1 as r union all select -2.5) q order by 2;
select round(abs(r), 2) from (select 1.5 as r union select -2.25) q order by 1;
select round(abs(x), 2) from (select a as x from n union all select b from n union all select c from n) q order by 1;
select abs(x), pg_typeof(x) from (select d as x from n union all select e from n) q order by 1;
select abs(x), pg_typeof(x) from (select b as x from n union all select e from n) q order by 1;
select date_trunc('hour', d), pg_typeof(d) from (select date '2020-01-01' as d union all select timestamp '2020-01-01 10:30') q order by 1;
select pg_typeof(r), r from (select rank() over (order by a) as r from n union select f from n) q order by 2;
select round(c), round(abs(c), 2) from (select case when g = 1 then 1 else -2.5 end as c from generate_series(1, 2) g) q order by 1;
select round(abs(c), 2) from (select case when g = 1 then 1.5 else -2.25 end as c from generate_series(1, 2) g) q order by 1;
select round(abs(case g when 1 then 1 else -2.5 end), 1) from generate_series(1, 2) g order by 1;
select round(column1), pg_typeof(column1) from (values (1), (-2.5)) v order by 1;
select round(abs(unnest), 1), round(unnest) from unnest(array[1, -2.5]) order by 1;
-- feature: NULL NOT IN (SELECT …), conditions that are NULL
create table a (id int); insert into a values (1), (2);
select id from a where null::int not in (select id from a) order by 1;
select id from a where (id & null::int) not in (select id from a) order by 1;
select id from a where not null::int in (select id from a where false) order by 1;
with w as (select count(*) as c from a) select a.id from w left join a on (0::bigint <= w.c) where a.id > 0 and null::bool;
with w as (select count(*) as c from a) select c from w where null;
-- feature: WITH RECURSIVE, types of the terms
create table emp (id int, boss int, salary numeric(8,2), name varchar(10));
insert into emp values (1, null, 100.50, 'a'), (2, 1, 50.25, 'b'), (3, 2, 10, 'c');
with recursive r(n) as (select 1.0 union all select n + 0.25 from r where n < 2) select n::numeric(10,2), n = 1.25 as x from r;
with recursive r(n, k) as (select 1.0, 1 union all select n / 3, k + 1 from r where k < 4) select n::numeric(10,6), k from r;
with recursive r(n) as (select 1::numeric union all select n * 1.5 from r where n < 20) select n::numeric(12,6) from r;
with recursive r(n) as (values (1.0) union select (n + 0.25)::numeric(6,2) from r where n < 2) select n::float8 from r;
with recursive r(n) as (select null union all select 'a' from r where n is null) select * from r;
with recursive r(n) as (select 'a'::varchar(5) union all select (n || 'b')::varchar(5) from r where length(n) < 3) select * from r;
with recursive r(n) as (select 1, 2 as b union all select n + 1, b + 1 from r where n < 3) select * from r;
with recursive r as (select 1.5 as n union all select n + 0.25 from r where n < 2), s(m) as (select max(n) from r union all select m + 0.125 from s where m < 3) select count(*), max(m)::float8 from s;
with recursive r(id, path, total) as (select id, name::text, salary::numeric from emp where boss is null union all select e.id, r.path || '/' || e.name, r.total + e.salary from emp e join r on e.boss = r.id) select id, path, total::numeric(8,2) from r order by id;
with recursive r as (select * from emp where boss is null union all select e.* from emp e join r on e.boss = r.id) select * from r order by id;
create view v as with recursive r(n) as (select 1.0 union all select n + 0.25 from r where n < 2) select n from r;
select n::numeric(10,2) from v;
with recursive r(n) as (select 1 union all select n + 0.25 from r where n < 2) select * from r;
with recursive r(n) as (select 1 union all select n + 1::int8 from r where n < 3) select * from r;
with recursive r(n) as (select 1.0::numeric(5,1) union all select n + 0.25 from r where n < 2) select * from r;
with recursive r(n) as (select salary from emp union all select n + 0.25 from r where n < 2) select * from r;
with recursive r(n) as (select 'a'::varchar(3) union all select n || 'b' from r where length(n) < 3) select * from r;
with recursive r(n) as (select 1.5::float4 union all select n + 1.5::float8 from r where n < 4) select * from r;
with recursive r(d) as (select date '2024-01-01' union all select d + interval '1 day' from r where d < '2024-01-03') select * from r;
with recursive r(n) as (select 1, 2 union all select 1 from r) select * from r;
with recursive r(n) as (select 'a' union all select 1 from r) select * from r;
-- feature: VALUES with subqueries
create table t (a int, b int);
insert into t values (1, 10), (2, 20), (null, 30);
create table u (a int, n int);
insert into u values (1, 5), (3, 6), (null, null);
values (1, (select count(*) from t));
select * from (values (1, (select count(*) from t)), (2, 5)) v(a, b) order by a;
select t.b, v.* from t, lateral (values (1, (select count(*) from u where u.a = t.a)), (t.a, 5)) v(a, b) order by t.b, v.a, v.b;
values ((select 1)) order by 1;
values ((select 1)), ((select 3)), ((select 2)) order by column1 desc limit 2;
values ((select 1)), ((select 1)) union values (2) order by 1;
values ((select 'a')), ('b') order by 1 desc limit 1;
values ((select 1), 'a'), (2, 'b'), (3, null) order by 1;
values (1 in (select a from u), 2 in (select a from u), 1 = all (select 2));
values ((select 1)), ('a');
values ((select 1)), (1, 2);
insert into u values (7, (select max(b) from t)), ((select 8), 1);
insert into u select * from (values ((select 4), 1), (5, (select 2))) v;
select * from u order by a, n;
select * from u where a in (values (1), ((select max(a) from t))) order by a, n;
select a from t where (a, b) in (values (1, 10), (2, (select 20))) order by a;
select * from u where (a, 5) in (values (1, 5), ((select max(a) from t), 1)) order by a;
create view vv as values ((select 1), 'x'), (2, 'y');
select * from vv order by 1;
select array(values ((select 5)), (6) order by 1);
-- feature: IN (SELECT …) told from NULL in HAVING and ON
create table t (a int, b int);
insert into t values (1, 10), (2, 20), (null, 30);
create table u (a int);
insert into u values (1), (3), (null);
select max(a) from t group by b having (max(a) in (select a from u)) is not false order by 1;
select max(a) from t group by b having (max(a) in (select a from u)) is null order by 1;
select max(a) from t group by b having max(a) not in (select a from u) order by 1;
select b, count(*) from t group by b having not (b in (select a from u)) is true order by 1;
select b, count(*) from t group by b having (max(a) in (select a from u)) is not true or b not in (select a from u) order by 1;
select a, max(b) from t group by a having not (max(b) in (select null::int)) or a = 1;
select t.b, u.a from t left join u on (t.a in (select a from u)) is not false order by 1, 2;
select t.b, u.a from t left join u on (t.a in (select a from u)) is null order by 1, 2;
select t.b, u.a from t join u on (u.a not in (select a from t)) is null order by 1, 2;
select t.b, u.a from t full join u on t.a = u.a and (u.a in (select a from t)) is null order by 1, 2;
select t.b, u.a from t left join u on t.a = u.a and t.a not in (select a from u) order by 1;
select t.b, u.a from t left join u on u.a in (select k.a from u k where k.a <= t.a) order by 1, 2;
select t.b from t join u on (t.a in (select k.a from u k where k.a <= u.a)) is not true order by 1;
select t.b from t join u on t.a = u.a where t.a in (select a from u) or u.a not in (select a from t) order by 1;
select t.b from t where exists (select 1 from u where t.b not in (select k.a from u k)) order by 1;
select t.b from t where exists (select 1 from u where t.b not in (select k.a from u k where k.a is not null)) order by 1;
-- feature: windows by IN (SELECT …) and other subqueries
create table t (a int, b int);
insert into t values (1, 10), (2, 20), (null, 30);
create table u (a int);
insert into u values (1), (3), (null);
select a, count(*) over (partition by a in (select a from u)) from t order by a;
select a, row_number() over (order by a in (select a from u), b) from t order by a;
select a, sum(b) over (partition by a in (select a from u) order by a in (select a from u where a is not null), b) from t order by a;
select rank() over (order by (select max(a) from u where u.a <= t.a)), a from t order by a;
select sum((select max(a) from u where u.a <= t.a)) over (order by exists (select 1 from u where u.a = t.a)), a from t order by a;
select count(*) filter (where a in (select a from u)) over (order by b), a from t order by b;
create view v as select b, sum(b) over (partition by a in (select a from u where a is not null)) from t;
select * from v order by 1;
-- feature: windows ordered by jsonb and bytea
create table t (a int, j jsonb, by bytea);
insert into t values (1, '{"a":1}', '\x01'), (2, '[1]', '\x02'), (null, null, null);
select a, count(*) over (order by j) from t order by a;
select a, count(*) over (order by by) from t order by a;
select a, count(*) over (order by by desc nulls last) from t order by a;
select a, count(*) over (order by j desc, by) from t order by a;
select a, sum(a) over (partition by a order by j) from t order by a;
select a, first_value(a) over (order by j desc nulls last), rank() over (order by j), last_value(a) over (order by j) from t order by a;
select a, count(*) over (order by by range between unbounded preceding and unbounded following) from t order by a;
select a, count(*) over (order by j rows 1 preceding) from t order by a;
select a, count(*) over w from t window w as (order by j) order by a;
select a, count(*) over (order by j range between 1 preceding and current row) from t order by a;
-- feature: LATERAL: UNION, a column of outside by itself, within EXISTS
create table t (a int, b int);
insert into t values (1, 10), (2, 20), (null, 30);
create table u (a int);
insert into u values (1), (3), (null);
select v.a from t, lateral (select t.a) v order by 1;
select t.b, v.* from t, lateral (select t.a union select u.a from u where u.a > t.a union all select 7) v order by t.b, v.a;
select t.b, v.* from t left join lateral (select u.a, 1 from u where u.a = t.a union all select u.a, 2 from u where u.a > t.a) v on true order by t.b, v.a;
select t.b, (select max(x) from (select t.a as x union all select u.a from u where u.a >= t.a) q) from t order by b;
select t.b, exists (select 1 from (select t.a as x union all select u.a from u where u.a >= t.a) q where x = 3) from t order by b;
select t.a from t where exists (select 1 from u, lateral (select t.a + u.a as s) x where x.s = 2) order by b;
select t.a from t where exists (select 1 from u, lateral (select count(*) as s from t k where k.a <= t.a and k.a <= u.a) x where x.s = 1) order by b;
select t.a from t where t.a in (select x.s from u, lateral (select t.a * u.a as s) x) order by b;
select t.b, (select max(x.s) from u, lateral (select t.b + k.b as s from t k where k.a = u.a) x) from t order by b;
-- feature: lag, lead and first_value: types of what they take
create table t (a int, tx text);
insert into t values (1, 'x'), (2, 'y'), (null, null);
select lag('a') over (order by a) from t;
select lead('a') over (order by a) from t;
select first_value('a') over (order by a) from t;
select last_value('a') over (order by a) from t;
select nth_value('a', 1) over (order by a) from t;
select lag(null) over (order by a) from t;
select lag('a', 1, 'b') over (order by a) from t;
select lag(tx, 1, 'b') over (order by a) from t;
select lag(a, 1, 7) over (order by a), lag(a, 1, 2::bigint) over (order by a), lag(a, 1, '3') over (order by a) from t;
select (lag(a, 1, 1.5) over (order by a))::numeric(5,2) from t;
select first_value('x'::text) over (order by a), first_value(null::int) over (order by a) from t;
-- feature: types of columns of joins and queries that find nothing
create table t (a int, m numeric(10,2), v varchar(7), j jsonb, by bytea);
create table u (a int);
insert into u values (1);
select x.j from u left join (select a, j from t where false) x on x.a = u.a;
select x.* from u left join t x on false;
select * from t where false;
select j from t where false union all select j from t where a = 1;
select sum(a), count(*), max(m), min(j::text), v::text from t where false group by v;
select v::text, v::varchar, v from t;
-- feature: constants of one value and several types in GROUP BY
create table t (a int);
insert into t values (1), (2);
select count(*), 0.5::float8 as x, 0.5 as y from t group by 2, 3;
select q.* from t left join (select max(a), 0.5::float8 as x, 0.5 as y from t group by 2, 3) q on t.a = q.max order by 1;
-- feature: NULL and arrays without elements
create table t (a int[], b int);
insert into t values ('{1,2}', 1), (null, 2), ('{}', null);
select null::int = any(a), null::int = all(a), null::int <> any(a), b = any('{}') from t;
select a && '{}', a && '{}'::int[], a[1:2] && '{}'::int[], '{}' && a, a && '{2}' from t;
-- feature: aggregates with FILTER over aggregates of no rows
create table t (a int);
insert into t values (1), (2);
select count(*) filter (where true), min(c) from (select max(a) as c from t where false) q;
select sum(c) filter (where c > 0), count(*) from (select count(*) as c from t where false) q;
select count(c) filter (where c is null) from (select max(a) as c from t where false) q;
-- feature: EXPLAIN: options that cannot be
explain (wal) select 1;
explain (timing) select 1;
explain (costs maybe) select 1;
explain (nonsense) select 1;
explain (format nothing) select 1;
-- feature: window functions in correlated subqueries
create table t1 (id int primary key, a int);
create table t2 (id int primary key, a int, t text);
insert into t1 values (1, 1), (2, 2), (3, 3), (4, null), (5, 1), (6, 7);
insert into t2 values (1, 1, 'a'), (2, 1, 'b'), (3, 2, 'c'), (4, null, null), (5, 2, 'a'), (6, 5, 'z'), (7, 1, 'q');
select x.id, l.id, l.r from t1 x, lateral (select y.id, row_number() over (order by y.id) r from t2 y where y.a = x.a) l order by 1, 2;
select x.id, l.id from t1 x left join lateral (select y.id, row_number() over (order by y.id desc) r from t2 y where y.a = x.a) l on l.r = 1 order by 1;
select x.id, l.* from t1 x, lateral (select y.id, sum(y.id) over (partition by y.t order by y.id), lag(y.id) over (order by y.id) + x.id as k from t2 y where y.a >= x.a) l order by 1, 2;
select x.id from t1 x where exists (select 1 from (select row_number() over (order by y.id) r from t2 y where y.id > x.id) q where q.r = 2) order by 1;
select x.id from t1 x where x.a in (select row_number() over (order by y.id) from t2 y where y.id > x.id) order by 1;
select x.id, (select max(w) from (select y.id + row_number() over (order by y.id) w from t2 y where y.a = x.a) q) from t1 x order by 1;
-- feature: correlated EXISTS, IN and ANY of aggregates without groups
create table t1 (id int primary key, a int);
create table t2 (id int primary key, a int);
insert into t1 values (1, 1), (2, 2), (3, 3), (4, null), (5, 1), (6, 7);
insert into t2 values (1, 1), (2, 1), (3, 2), (4, null), (5, 2), (6, 5), (7, 1);
select x.id from t1 x where exists (select max(y.id) from t2 y where y.a = x.a) order by 1;
select x.id from t1 x where not exists (select max(y.id) from t2 y where y.a = x.a) order by 1;
select x.id from t1 x where exists (select 1 from t2 y where y.a = x.a having count(*) = 0) order by 1;
select x.id from t1 x where not exists (select 1 from t2 y where y.a = x.a having count(*) > 2) order by 1;
select x.id from t1 x where 0 in (select count(*) from t2 y where y.a = x.a) order by 1;
select x.id from t1 x where 0 not in (select count(*) from t2 y where y.a = x.a) order by 1;
select x.id from t1 x where 0 = any (select count(*) from t2 y where y.a = x.a) order by 1;
select x.id from t1 x where 2 > all (select count(*) from t2 y where y.a = x.a) order by 1;
select x.id from t1 x where exists (select 1 from t2 y where y.a = x.a offset 2) order by 1;
select x.id from t1 x where exists (select 1 from (select * from t2 y where y.a = x.a order by y.id limit 1) q where q.id > 1) order by 1;
-- feature: aggregates of nothing in correlated scalar subqueries
create table t1 (id int primary key, a int);
create table t2 (id int primary key, a int);
insert into t1 values (1, 1), (2, 2), (3, 3), (4, null), (5, 1), (6, 7);
insert into t2 values (1, 1), (2, 1), (3, 2), (4, null), (5, 2), (6, 5), (7, 1);
select x.id, (select 5 from t2 y where y.a = x.a having count(*) = 0) from t1 x order by 1;
select x.id from t1 x where 5 = (select 5 from t2 y where y.a = x.a having count(*) = 0) order by 1;
select x.id, (select count(*) is null from t2 y where y.a = x.a), (select count(*) is not null from t2 y where y.a = x.a) from t1 x order by 1;
select x.id, (select case when count(*) = 0 then 'none' else 'some' end from t2 y where y.a = x.a) from t1 x order by 1;
select x.id, (select count(*) from t2 y where y.a = x.a and x.id > 2), (select coalesce(max(y.id), 0) from t2 y where y.a = x.a and x.id > 2) from t1 x order by 1;
-- feature: outer joins in correlated subqueries
create table t1 (id int primary key, a int);
create table t2 (id int primary key, a int);
insert into t1 values (1, 1), (2, 2), (3, 3), (4, null), (5, 1), (6, 7);
insert into t2 values (1, 1), (2, 1), (3, 2), (4, null), (5, 2), (6, 5), (7, 1);
select x.id, (select count(*) from t2 y left join t1 z on z.id = y.id and z.a = x.a where z.id is null) from t1 x order by 1;
select x.id, l.* from t1 x, lateral (select count(*), count(z.id) from t2 y left join t1 z on z.id = y.id and z.a = x.a) l order by 1;
select x.id, l.* from t1 x, lateral (select y.id, z.id from t1 z right join t2 y on z.id = y.id and z.a = x.a) l(i, j) order by 1, 2, 3;
select x.id, l.* from t1 x, lateral (select y.id, z.id from t2 y left join (select * from t1 z where z.a = x.a) z on z.id = y.id) l(i, j) order by 1, 2, 3;
select x.id, l.* from t1 x, lateral (select y.id, z.id from (select * from t2 y where y.a = x.a) y full join (select * from t1 z where z.a = x.a) z on z.id = y.id) l(i, j) order by 1, 2, 3;
select x.id from t1 x where not exists (select 1 from t2 y left join t1 z on z.id = y.id and z.a = x.a where z.id is null and y.a = x.a) order by 1;
-- feature: LATERAL with VALUES, LIMIT of a column, EXCEPT, DISTINCT ON
create table t1 (id int primary key, a int, b numeric(6,2));
create table t2 (id int primary key, a int, t text);
insert into t1 values (1, 1, 1.5), (2, 2, 2.5), (3, 3, null), (4, null, 4.5), (5, 1, 1);
insert into t2 values (1, 1, 'a'), (2, 1, 'b'), (3, 2, 'c'), (4, null, null), (5, 2, 'a'), (6, 5, 'z');
select x.id, l.y from t1 x, lateral (values (x.b * 2)) l(y) order by 1;
select x.id, l.* from t1 x, lateral (values (x.id, 'a'), (x.a, 'b')) l(y, z) order by 1, 2, 3;
select x.id, l.* from t1 x, lateral (select y.id, y.t from t2 y order by y.id limit x.a) l order by 1, 2;
select x.id, l.* from t1 x, lateral (select y.a from t2 y except select x.a) l order by 1, 2;
select x.id, l.* from t1 x left join lateral (select y.a from t2 y intersect select x.a) l on true order by 1, 2;
select x.id, l.* from t1 x, lateral (select distinct on (y.a) y.a, y.id, y.t from t2 y where y.id > x.id order by y.a, y.id desc) l order by 1, 2;
select x.id, l.* from t1 x, lateral (with w as (select * from t2 y where y.a = x.a) select count(*), (select max(id) from w) from w) l order by 1;
-- feature: a column's name in the list and in ORDER BY of a scalar subquery
create table t1 (id int primary key, a int);
create table t2 (id int primary key, a int);
insert into t1 values (1, 1), (2, 2), (3, 1);
insert into t2 values (1, 1), (2, 1), (3, 2);
select x.id, (select y.id from t2 y where y.a = x.a order by y.id limit 1) from t1 x order by 1;
select x.id, (select y.id from t2 y where y.a = x.a order by y.id desc limit 1) from t1 x order by x.id desc;
select x.id, (select y.id as z from t2 y where y.a > x.a order by z desc, y.id limit 1) from t1 x order by 2, 1;
-- feature: WITH of volatile functions that is read more than once
create sequence s;
create table t (id int primary key);
create table w (id int, n bigint);
insert into t values (1), (2), (3);
with x as (select nextval('s') n) select a.n = b.n from x a, x b;
select currval('s');
with x as materialized (select id, random() r from t) select count(*) from x a join x b on a.r = b.r;
with x as (select gen_random_uuid() u from t) select count(*) from x where u not in (select u from x);
with x as (select clock_timestamp() c) select a.c = b.c from x a, x b;
with x as (select nextval('s') n from t) select (select count(*) from x y where y.n = x.n), (select max(n) from x) - n from x order by 2;
select count(*) from (with x as (select nextval('s') n from t) select a.n from x a, x b where a.n = b.n) q;
select currval('s');
with x as (select nextval('s') n), i as (insert into w select 1, n from x returning n) select x.n = i.n from x, i;
with x as (select nextval('s') n) insert into w select 2, a.n - b.n from x a, x b;
with recursive r as (select 1 n union all select n + 1 from r where n < 3), x as (select random() r from r) select count(*) from x a, x b where a.r = b.r;
create table c as with x as (select id, random() r from t) select count(*) c from x a join x b on a.r = b.r;
select c, (select min(n) from w where id = 2) from c;
-- feature: ORDER BY a key and what is unnested beside it
create table t (id int primary key, a int);
insert into t values (1, 1), (2, 2), (3, 1);
select id, unnest(array[3, 1, 2]) from t order by 1, 2;
select a, unnest(array_agg(id order by id desc)) from t group by a order by 1, 2;
-- feature: t.* beside columns, of a subquery with columns of one name
create table t (id int primary key, a int);
insert into t values (1, 1), (2, 2), (3, null);
select x.id, l.* from t x, (select count(*), count(y.a) from t y) l order by 1;
select x.a, l.* from t x, (select y.a as b, y.id as b from t y) l order by x.id, 3;
with l as (select y.a as b, y.id as b from t y) select l.*, x.id from t x, l order by x.id, 2;
