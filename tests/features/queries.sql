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
select p.name from only p join only f on f.pid = p.id order by 1;
