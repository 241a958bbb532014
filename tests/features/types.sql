-- feature: boolean
select true, false, 't'::bool, 'no'::bool, null::bool, not true, true and null, false or null;
select 'maybe'::bool;
-- feature: integers, overflow, division
select 7 / 2, -7 / 2, 7 % -3, 2147483647::bigint + 1, 5::smallint, '12'::int2;
select 2147483647 + 1;
select 1 / 0;
select 32768::smallint;
-- feature: float4, float8, NaN and infinity
select 'NaN'::float8 = 'NaN'::float8, 'NaN'::float8 > 'infinity'::float8, '-inf'::float4, 1e300::float8 * 10, 0.1::float4, 1::float8 / 3;
select 1e308::float8 * 10;
-- feature: numeric, exact
select 1.0 / 3, 10::numeric / 7, 1e3, 1.50 * 2.0, 0.1 + 0.2, avg(x), sum(x) from (values (1), (2), (4)) v(x);
select 12345678901234567890.123456789::numeric * 98765432109876543210.987654321;
select 'NaN'::numeric, 'infinity'::numeric > 1e100;
select round(2.5), round(-2.567, 2), trunc(2.567, 1), floor(-1.5), ceil(1.2), mod(7.5, 2), sign(-3.2), div(7, 2);
select sqrt(2.0), exp(1.0), ln(10.0), power(2.0, 0.5), log(100.0), 2.0 ^ 10;
-- feature: numeric(p, s) rounds and refuses
create table n (v numeric(6, 2));
insert into n values (1234.567), ('-0.005');
select v, v * 2, v / 3 from n order by v;
insert into n values (12345.6);
-- feature: text, varchar(n), char(n)
create table s (a text, b varchar(3), c char(4));
insert into s values ('x', 'abc', 'de');
insert into s values ('x', 'abc  ', 'de');
select a, b, c, length(c), c = 'de', octet_length(c), c || 'x' from s;
insert into s values ('x', 'abcd', 'de');
-- feature: bytea
select '\xdeadbeef'::bytea, 'abc'::bytea || '\x00'::bytea, length('\x0102'::bytea), encode('\xff00'::bytea, 'hex'), encode('abc'::bytea, 'base64'), decode('ff00', 'hex'), get_byte('\x0102'::bytea, 1), substring('\x010203'::bytea from 2 for 1), sha256('abc'::bytea);
-- feature: date
select '2024-02-29'::date, '2024-02-29'::date + 1, '2024-03-01'::date - '2024-02-01'::date, 'epoch'::date, 'infinity'::date, date '2024-01-31' + interval '1 month', '0044-03-15 BC'::date;
select '2023-02-29'::date;
-- feature: time
select '12:34:56.789'::time, time '23:59' + interval '2 minutes', '04:05 PM'::time, time '10:00' - time '08:30', extract(hour from time '13:45');
create table tm (id int primary key, at time, precise time(0));
insert into tm values (1, '08:00', '08:00:01.6'), (2, '24:00', null);
select * from tm where at > '07:00' order by at;
select at - interval '9 hours', date '2024-02-29' + at, at - time '01:00', at::interval, at::text from tm order by id;
select '25:00'::time;
select time '10:00' + 1;
create unique index on tm (at);
insert into tm values (3, '08:00');
select timestamp '2024-02-29 12:34:56.789'::time, '12:34:56.789'::time(1), '25:30'::interval::time, time 'allballs';
-- feature: timestamp
select '2024-02-29 12:34:56.789'::timestamp, timestamp '2024-01-01' - timestamp '2023-12-31 12:00', timestamp '2024-01-31' + interval '1 month 1 day', '2024-01-01T10:00:00'::timestamp, 'infinity'::timestamp;
select date_trunc('hour', timestamp '2024-02-29 12:34:56'), extract(dow from timestamp '2024-02-29'), extract(epoch from timestamp '2024-01-01'), date_part('doy', timestamp '2024-02-29'), to_char(timestamp '2024-02-29 12:34:56', 'YYYY-MM-DD HH24:MI:SS Dy Mon');
-- feature: timestamptz and time zones
set timezone = 'Europe/Berlin';
select '2024-07-01 12:00'::timestamptz, '2024-07-01 12:00+00'::timestamptz, timestamptz '2024-03-31 01:30+01' + interval '1 hour', timestamptz '2024-07-01 12:00 America/New_York';
select timestamptz '2024-07-01 12:00' at time zone 'UTC', timestamp '2024-07-01 12:00' at time zone 'Asia/Tokyo', timestamptz '2024-07-01 12:00'::date, extract(timezone from timestamptz '2024-07-01 12:00');
-- feature: interval
select interval '1 year 2 months 3 days 04:05:06.789', interval '1 day' * 2.5, interval '1 month' = interval '30 days', -interval '1 hour', interval '90 minutes' / 2, 'P1Y2M3DT4H5M6S'::interval, justify_hours(interval '27 hours'), interval '1' day, 2 * interval '3 days';
create table iv (id int primary key, length interval);
insert into iv values (1, '1 day'), (2, '23:59:59'), (3, '-1 month');
select * from iv order by length;
select sum(length), avg(length), min(length), max(length) from iv;
select id from iv where length between '0' and '24:00' order by length desc, id;
select length + length, length * 1.5, -length, length / 2 from iv order by id;
select interval '1-2' year to month, interval '1 2:03:04' day to second, interval '2.345' second(2), interval '1 day 2 hours ago', interval '-1 day 2:03', interval '1.5 months';
select timestamptz '2024-03-31 00:30+00' - interval '1 month', date '2024-03-31' - interval '1 month', timestamp '2024-01-01' - timestamp '2023-12-31 06:00', justify_interval('1 mon -1 hour'), justify_days('35 days');
select interval '1 lightyear';
select interval '1:60:00';
select interval '1 day' / 0;
select interval '1 day' + 1;
create table ik (i interval primary key);
insert into ik values ('1 mon'), ('31 days');
insert into ik values ('30 days');
select i from ik where i = '720 hours';
alter table ik add column rest interval day to second(1) default '1 day 02:03:04.56';
alter table ik alter column i type text;
alter table ik alter column i type interval using i::interval;
select i, rest from ik order by i;
-- feature: uuid
select '12345678-1234-5678-1234-567812345678'::uuid, 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'::uuid < '{b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}'::uuid, length(gen_random_uuid()::text);
select 'x'::uuid;
-- feature: json
select '{"a": 1, "a" : [1,2]}'::json, '{"a": {"b": [10, 20]}}'::json -> 'a' -> 'b' ->> 1, '[1,2]'::json -> -1, json_typeof('{"a": 1}'::json -> 'a'), '{"a": {"b": 1}}'::json #>> '{a,b}', json_array_length('[1,2,3]');
select '{bad'::json;
select '[1,]'::json;
create table js (id int primary key, d json default '{"k" :  1}');
insert into js values (1, '{"a": "x", "b" : null}');
insert into js (id) values (2);
select d, d -> 'a', d ->> 'a', d ->> 'b', d -> 'nothing' from js order by id;
select d = d from js;
select '{"a": 1}'::json || '{}';
-- feature: jsonb
select '{"b": 1, "a": 2, "b": 3}'::jsonb, '[1, 2.50, "x", null, true]'::jsonb, '{"a": 1}'::jsonb @> '{}', '{"a": [1, 2]}'::jsonb @> '{"a": [2]}', '{"a": 1}'::jsonb ? 'a', '{"a": 1, "b": 2}'::jsonb - 'a', '{"a": 1}'::jsonb || '{"b": 2}', '{"a": {"b": 1}}'::jsonb #> '{a,b}', jsonb_set('{"a": 1}', '{a}', '5');
create table j (id int primary key, d jsonb);
insert into j values (1, '{"k": "v", "n": 10}'), (2, '{"k": "w"}'), (3, null);
select id, d ->> 'k', (d ->> 'n')::int from j where d ->> 'k' = 'v' or d @> '{"k": "w"}' order by id;
select d from j where d = '{"n": 10, "k": "v"}';
select '1.0'::jsonb = '1', '[1, 2]'::jsonb < '[3]', '{}'::jsonb > '[1]', '"a"'::jsonb < '1', 'null'::jsonb > '[]';
select d from j order by d;
select '[1e3, -0, 1.50, 1E-3]'::jsonb, '"\u00e9\n"'::jsonb, '5.5'::jsonb::int, '"x"'::jsonb::text, 'true'::jsonb::bool;
select '"x"'::jsonb::int;
select '[1, 2, 3]'::jsonb - 1, '["a", "b"]'::jsonb - 'a', '{"a": 1, "b": 2}'::jsonb - array['a', 'b'], '[1]'::jsonb || '2', '{"a": {"b": [1, 2]}}'::jsonb #- '{a,b,0}', '{"a": 1}'::jsonb ?| array['z', 'a'], '{"a": 1}'::jsonb ?& array['z', 'a'], '[1, [2]]'::jsonb @> '[[2]]', '[1]'::jsonb @> '1';
select '{"a": 1}'::jsonb - 1;
update j set d = jsonb_set(d, '{n}', '11') || '{"m": [1]}' where id = 1 returning d, d #>> '{m,0}';
insert into j values (1, '[]') on conflict (id) do update set d = excluded.d || j.d returning d;
insert into j values (4, 'x'::text);
alter table j add column e jsonb default '{"z": [1,  2]}';
alter table j alter column d type text;
select d, e from j where id = 2;
alter table j alter column d type jsonb using d::jsonb;
select count(*) from j where d @> '{"k": "w"}';
-- feature: jsonb functions
select jsonb_build_object('a', 1, 'b', array[1, 2]), jsonb_build_array(1, 'x', null), to_jsonb('x'::text), jsonb_array_length('[1,2]'), jsonb_typeof('null'), jsonb_strip_nulls('{"a": null}'), jsonb_pretty('{"a": 1}'), jsonb_extract_path_text('{"a": {"b": "x"}}', 'a', 'b');
select * from jsonb_each_text('{"a": 1, "b": null}') order by key;
select value from jsonb_array_elements('[1, "x"]');
select jsonb_agg(x), json_agg(x), jsonb_object_agg(x::text, x) from (values (1), (2)) v(x);
select json_agg(x order by x desc), json_object_agg(x, x * 2 order by x), json_agg(x) filter (where x > 5) from (values (1), (2)) v(x);
select json_build_object('a', 1, 'b', null, 'c', '{"x": 1}'::jsonb), json_build_array(true, 1.50, date '2024-01-01', timestamp '2024-01-01 10:00'), to_json(array['a', null]), json_object('{a,1,b,2}');
select jsonb_build_object('a');
select jsonb_set('{"a": 1}', '{b}', '2', false), jsonb_set('[1, 2]', '{-1}', '9'), jsonb_insert('[1, 2]', '{1}', '9'), jsonb_strip_nulls('{"a": null, "b": [null, {"c": null}]}');
select jsonb_set('[1]', '{x}', '2');
select jsonb_pretty('{"a": [1, {"b": 2}], "c": {}}');
select * from json_each('{"a": 1, "b": "x"}');
select * from json_array_elements_text('["a", null, 1]');
select k from jsonb_object_keys('{"b": 1, "a": 2}') k order by k;
select jsonb_array_elements('[1, "x"]');
select jsonb_array_length('{}');
select row_to_json(v) from (values (1, 'x')) v(a, b);
-- feature: jsonpath
select jsonb_path_query_first('{"a": [1, 2]}', '$.a[1]'), '{"a": 1}'::jsonb @? '$.a', jsonb_path_exists('{"a": 1}', '$.a ? (@ > 0)');
-- feature: jsonpath: texts and their errors
select '$.a''b'::jsonpath;
select '1abc'::jsonpath;
select '1a'::jsonpath;
select '$ . 1abc'::jsonpath;
select '1.'::jsonpath;
select '.1'::jsonpath;
select '1.e3'::jsonpath;
select '1..type()'::jsonpath;
select '$.a/*c*/.b'::jsonpath;
select '$.a /*c*/.b'::jsonpath;
select '($.a * 2).abs()'::jsonpath;
select '(1 + 2) * 3 - (4 - 5) - 6'::jsonpath;
select '-1.type()'::jsonpath;
select '-(1).type()'::jsonpath;
select '-$.a + -(1+2)'::jsonpath;
select '$ ? (@.a like_regex "x" flag "smi" && (@.b + 1) like_regex "z" || !(@.c starts with $v) && (@ == 1) is unknown || exists(@.z))'::jsonpath;
select '!($.a == 1).type()'::jsonpath;
select '!($.a == 1) is unknown'::jsonpath;
select 'strict $.**{2 to 3}.**{last}.**{2}.**{last to 2}.*.**{1 to last}[0,last to 2,*]'::jsonpath;
select 'LAX $.LAST.Exists.$foo'::jsonpath;
select '$."a\u0041\x41\v\q"'::jsonpath;
select '@'::jsonpath;
select 'last'::jsonpath;
select '$.a like_regex "("'::jsonpath;
select '$.a like_regex "x" flag "z"'::jsonpath;
select '(($))'::jsonpath, '(($)).a'::jsonpath, '($.a == 1).type()'::jsonpath, '((1 == 1) == (2 == 2))'::jsonpath;
select '1 == 1 == 1'::jsonpath;
select '$.a ? (1)'::jsonpath;
select '$.\u0061\u0062 == "\ud83d\ude00"'::jsonpath;
select '"\u0000"'::jsonpath;
select '"\ud83d"'::jsonpath;
select '"\u{1F600}"'::jsonpath;
select '1e400'::jsonpath, '1e-20'::jsonpath, '+1'::jsonpath, '+ -2'::jsonpath, '- -2'::jsonpath, '-$'::jsonpath, '+$.a'::jsonpath, '-(+$)'::jsonpath;
select TRUE::text, 'True'::jsonpath;
select 'true && false'::jsonpath;
select '(1 == 1) && ((2 == 2) || 3 == 3)'::jsonpath;
select '$.a.b ? (@.c > 1 ).d'::jsonpath;
-- feature: jsonpath: modes, accessors, filters, arithmetic, methods and their errors
select jsonb_path_query('{"a":[1,2,3]}', '$.a[*] ? (@ > 1)');
select * from jsonb_path_query('[1, "x", null, {"a": 2}]', '$[*]');
select * from jsonb_path_query('[1, "x", null, {"a": 2}]', '$[*]') as q(z) where z <> '1';
select q, pg_typeof(q) from jsonb_path_query('[1, "x"]', '$[*]') q;
select * from jsonb_path_query('[1, "x"]', '$[*]') with ordinality;
select jsonb_path_query('{"a":1}', '$.a + $x', '{"x": 1.50}');
select jsonb_path_query('{"a":1}', '$.a + $y', '{"x": 1.50}');
select jsonb_path_query('{"a":1}', '$.a + $y', '{"x": 1.50}', true);
select jsonb_path_query('{"a":1}', '$.a', '[1]');
select jsonb_path_query('{"a":1}', 'strict $.b');
select jsonb_path_query('{"a":1}', 'strict $.b', '{}', true);
select jsonb_path_query('1', 'strict $.b');
select jsonb_path_query('1', 'strict $[*]');
select jsonb_path_query('1', 'strict $[0]');
select jsonb_path_query('[1]', 'strict $[1]');
select jsonb_path_query('[1]', 'strict $[*].a');
select jsonb_path_query('1', 'strict $.*');
select jsonb_path_query('[1,2,3]', '$[last]'), jsonb_path_query('[1,2,3]', '$[last - 1 to last]'), jsonb_path_query('[1,2,3]', '$[0, 2, 1.9]'), jsonb_path_query('[1,2,3]', '$[5]');
select jsonb_path_query('[1,2,3]', '$["a"]');
select jsonb_path_query('[1,2,3]', '$[10000000000]');
select jsonb_path_query('[1,2,3]', '$[-1 to 1]');
select jsonb_path_query('[1,2,3]', 'strict $[2 to 1]');
select jsonb_path_query('1', '$[last]'), jsonb_path_query('1', '$[0]'), jsonb_path_query('1', '$[*]'), jsonb_path_query('1', '$.size()'), jsonb_path_query('[1,2]', '$.size()'), jsonb_path_query('[1,2]', '$.type()'), jsonb_path_query('[1,[2]]', '$[*].size()');
select jsonb_path_query('1', 'strict $.size()');
select jsonb_path_query('[1, -2.50, 3]', '-$[*]'), jsonb_path_query('[1, -2.50, 3]', '$[*].abs()'), jsonb_path_query('[1.5, -2.50, 3]', '$.floor()'), jsonb_path_query('[1.5, -2.50, 3]', '$.ceiling()');
select jsonb_path_query('["a"]', '-$[*]');
select jsonb_path_query('["a"]', '$.abs()');
select jsonb_path_query('["a"]', '$.floor()');
select jsonb_path_query('["a", 1]', '$ + 1');
select jsonb_path_query('["a"]', '1 + $');
select jsonb_path_query('[7]', '$[0] / 2'), jsonb_path_query('[7]', '$[0] % 2.5'), jsonb_path_query('[7]', '$[0] * 1.10 - 3'), jsonb_path_query('[7]', '1 / 3.0'), jsonb_path_query('7', '2 / 3');
select jsonb_path_query('[7]', '$[0] / 0');
select jsonb_path_query('[7]', '$[0] % 0');
select jsonb_path_query('[7]', '$[0] / 0', '{}', true);
select jsonb_path_query('0', '1 / $ > 1'), jsonb_path_query('0', '(1 / $ > 1) is unknown'), jsonb_path_query('0', '$ ? (1 / @ > 1)');
select jsonb_path_query('["1.5", "  2e3 ", 3, "1e-10", "0.1234567890123456789"]', '$.double()');
select jsonb_path_query('"x"', '$.double()');
select jsonb_path_query('"nan"', '$.double()');
select jsonb_path_query('"1e400"', '$.double()');
select jsonb_path_query('1e400', '$.double()');
select jsonb_path_query('true', '$.double()');
select jsonb_path_query('{"a": {"b": {"c": 1}}}', '$.**'), jsonb_path_query('{"a": {"b": {"c": 1}}}', '$.**{1}'), jsonb_path_query('{"a": {"b": {"c": 1}}}', '$.**{1 to 2}'), jsonb_path_query('{"a": {"b": {"c": 1}}}', '$.**{last}'), jsonb_path_query('{"a": {"b": {"c": 1}}}', '$.**{2 to last}');
select jsonb_path_query('{"a": {"b": {"c": 1}}}', '$.**{0}'), jsonb_path_query('{"a": [1, [2, {"c": 1}]]}', '$.**{last to 2}'), jsonb_path_query('{"a": [1, [2, {"c": 1}]]}', 'strict $.**.c'), jsonb_path_query('{"a": [1, [2, {"c": 1}]]}', '$.**.c');
select jsonb_path_query('{"a": [{"b": 1}, {"b": [2, 3]}], "c": "x"}', '$.*'), jsonb_path_query('{"a": [{"b": 1}, {"b": [2, 3]}], "c": "x"}', '$.a.b'), jsonb_path_query('{"a": [{"b": 1}, {"b": [2, 3]}], "c": "x"}', '$.a.b[*]'), jsonb_path_query('{"a": [{"b": 1}, {"b": [2, 3]}], "c": "x"}', '$.a.*');
select jsonb_path_query('["abc", "ABC", "xabc", "a\nb", 1, null]', '$[*] ? (@ like_regex "^a")'), jsonb_path_query('["abc", "ABC", "xabc", "a\nb"]', '$[*] ? (@ like_regex "^a" flag "i")');
select jsonb_path_query('["a.c", "abc", "a\nc"]', '$[*] ? (@ like_regex "a.c")'), jsonb_path_query('["a.c", "abc", "a\nc"]', '$[*] ? (@ like_regex "a.c" flag "s")'), jsonb_path_query('["a.c", "abc", "A.C"]', '$[*] ? (@ like_regex "a.c" flag "qi")'), jsonb_path_query('["x\na", "a"]', '$[*] ? (@ like_regex "^a" flag "m")');
select jsonb_path_query('["abc", "xabc", 1]', '$[*] ? (@ starts with "a")'), jsonb_path_query('["abc", "xabc", 1]', '$[*] ? (@ starts with $p)', '{"p": "x"}');
select jsonb_path_query('[1, "1", null, true, [1], {"a": 1}]', '$[*] ? (@ == 1)'), jsonb_path_query('[1, "1", null, true, [1], {"a": 1}]', '$[*] ? (@ == null)'), jsonb_path_query('[1, "1", null, true, [1], {"a": 1}]', '$[*] ? (@ != null)'), jsonb_path_query('[1, "1", null, true, [1], {"a": 1}]', '$[*] ? ((@ == "1") is unknown)'), jsonb_path_query('[1, "1", null, true, [1], {"a": 1}]', 'strict $[*] ? ((@ == 1) is unknown)');
select jsonb_path_query('[1.0, 2, 1.00]', '$[*] ? (@ == 1)'), jsonb_path_query('["a", "B", "é", "z"]', '$[*] ? (@ > "a")'), jsonb_path_query('[true, false]', '$[*] ? (@ < true)');
select jsonb_path_query('[1, 2, 3]', '$ ? (@ > 2)'), jsonb_path_query('[1, 2, 3]', '$ ? (@[*] > 2)'), jsonb_path_query('[1, 2, 3]', 'strict $ ? (@[*] > 2)'), jsonb_path_query('[1, "a", 3]', 'strict $ ? (@[*] > 2)'), jsonb_path_query('[1, "a", 3]', 'lax $ ? (@[*] > 2)');
select jsonb_path_query('[{"a": 1}, {"b": 1}, {"a": null}]', '$[*] ? (exists(@.a))'), jsonb_path_query('[{"a": 1}, {"b": 1}, {"a": null}]', 'strict $[*] ? (exists(@.a))'), jsonb_path_query('[{"a": 1}, {"b": 1}]', 'strict $[*] ? (!exists(@.a))'), jsonb_path_query('[{"a": 1}, {"b": 1}]', '$[*] ? (!exists(@.a))');
select jsonb_path_query('{"a": 1, "b": 2}', '$ ? (@.a == 1 && @.b == 2)'), jsonb_path_query('{"a": 1, "b": 2}', '$ ? (@.a == 1 || @.b == 3)'), jsonb_path_query('{"a": 1, "b": 2}', '$.a == 1 && ("x" == 1)'), jsonb_path_query('{"a": 1, "b": 2}', '$.a == 2 || ("x" == 1)'), jsonb_path_query('{"a": 1, "b": 2}', '!($.a == 2)');
select jsonb_path_match('{"a": 1}', '$.a == 1'), jsonb_path_match('{"a": 1}', '$.a == "x"'), jsonb_path_match('true', '$');
select jsonb_path_match('{"a": 1}', '$.a');
select jsonb_path_exists('{"a": 1}', 'strict $.b');
select jsonb_path_exists('{"a": 1}', 'strict $.b', '{}', true), jsonb_path_exists('[1, 2]', 'strict $[*] ? (@ > 5)'), jsonb_path_exists(null, '$'), jsonb_path_exists('1', null), jsonb_path_exists('[1, 0]', '$[*] ? (1 / @ > 0)');
select jsonb_path_exists('{"a": 1}', '$.'), 1;
select jsonb_path_query_array('[1, 2, 3]', '$[*] ? (@ >= $min && @ <= $max)', '{"min": 2, "max": 4}'), jsonb_path_query_array('[]', '$[*]'), jsonb_path_query_first('[]', '$[*]'), jsonb_path_query_array('[1]', '$');
select jsonb_path_query('[1,{"a":{"b":2}}]', '$[*].a ? (@.b == $[0] + 1).b'), jsonb_path_query('[[1,2],[3]]', '$[*][*]'), jsonb_path_query('[[1,2],[3]]', '$[*]'), jsonb_path_query('[[1,2],[3]]', '$.type()'), jsonb_path_query('[[1,2],[3]]', '$[*].type()'), jsonb_path_query('[[1,2],[3]]', '$[1 to last]');
select jsonb_path_query('[1,2,3]', '$[$[0]]'), jsonb_path_query('[[1,2],[2]]', '$[0][last]'), jsonb_path_query('[1,[4,5,6]]', '$[$[1][last - 2] - 3]');
select jsonb_path_query('[12, {"a": 13}, {"b": 14}, "ccc", true]', '$[2.5 - 1 to $.size() - 2]');
select jsonb_path_query('1', 'null'), jsonb_path_query('1', '"x"'), jsonb_path_query('1', 'true'), jsonb_path_query('1', '1.50'), jsonb_path_query('1', '-1.50e2'), jsonb_path_query('1', '"x".type()'), jsonb_path_query('1', '(1 == 1).type()'), jsonb_path_query('1', '(1).type()'), jsonb_path_query('1', '(null).type()');
select jsonb_path_query('{"a": [2,3]}', '($.a * 2).abs()');
select jsonb_path_query('{"a": 2}', '(-$.a * 2).abs() + 3'), jsonb_path_query('{"a": 2}', '2 - 1 - 1'), jsonb_path_query('{"a": 2}', '2 - (1 - 1)'), jsonb_path_query('{"a": 2}', '-$.a.abs()'), jsonb_path_query('{"a": 2}', '2 + 3 * 4 % 5');
select jsonb_path_query(1, '$');
select jsonb_path_query('1'::json, '$');
select jsonb_path_query('1', '$'::text);
-- feature: jsonpath: nested arrays, operators, regular expressions
select jsonb_path_query_array('[1,[2,[3,{"a":[4]}]],{"a":{"a":5}}]', '$.**.a');
select jsonb_path_query_array('[1,[2,[3,{"a":[4]}]],{"a":{"a":5}}]', '$.**{1 to 3}.a');
select jsonb_path_query_array('[1,[2,[3,{"a":[4]}]],{"a":{"a":5}}]', 'strict $.**{1 to 3}.a');
select jsonb_path_query_array('[1,[2,[3,{"a":[4]}]],{"a":{"a":5}}]', '$.**[0]');
select jsonb_path_query_array('[1,[2,[3,{"a":[4]}]],{"a":{"a":5}}]', 'strict $.**[0]');
select jsonb_path_query_array('[1,[2,[3,{"a":[4]}]],{"a":{"a":5}}]', '$.** ? (@ > 2)');
select jsonb_path_query_array('[1,[2,[3,{"a":[4]}]],{"a":{"a":5}}]', 'strict $.** ? (@ > 2)');
select jsonb_path_query_array('[1,[2,[3,{"a":[4]}]],{"a":{"a":5}}]', '$.** ? (@.type() == "number") + 1', '{}', true);
select jsonb_path_query_array('[1,[2,[3,{"a":[4]}]],{"a":{"a":5}}]', '-($.** ? (@.type() == "number"))');
select jsonb_path_query_array('[1,[2,[3,{"a":[4]}]],{"a":{"a":5}}]', '$.*');
select jsonb_path_query_array('[[{"a":1}],[{"a":2}]]', '$.a'), jsonb_path_query_array('[[{"a":1}],[{"a":2}]]', '$[*].a'), jsonb_path_query_array('[[{"a":1}],[{"a":2}]]', '$[*][*].a');
select jsonb_path_query_array('[[1,2],[3]]', '$.abs()', '{}', true), jsonb_path_query_array('[1,"x",2]', '$.abs()', '{}', true), jsonb_path_query_array('[1,"x",2]', '$[*].abs()', '{}', true);
select jsonb_path_query_array('[[1,2],[3]]', '$ ? (@[0] > 0)'), jsonb_path_query_array('[[1,2],[3]]', '$[*] ? (@ > 1)'), jsonb_path_query_array('[[1,2],[3]]', '$[*][*] ? (@ > 1)');
select jsonb_path_query_array('[[1,2],[3]]', '$[*] ? (@.size() > 1)'), jsonb_path_query_array('[[1,2],[3]]', 'strict $[*] ? (@.size() > 1)');
select jsonb_path_query_array('{"a":[1,2,3,4,5]}', '$.a[*] ? (@ >= $min && @ <= $max)', '{"min":2,"max":4}');
select jsonb_path_exists('[{"a": 1}, {"a": 2}, 3]', 'strict $[*].a', '{}', true), jsonb_path_exists('[{"a": 1}, {"a": 2}, 3]', 'lax $[*].a', '{}', true), jsonb '[{"a": 1}, 3]' @? 'strict $[*].a', jsonb '[{"a": 1}, 3]' @? '$[1].a';
select jsonb '[1,2,3]' @? '$[*] ? (@ > "a")', jsonb '[1]' @? '$.abs()', jsonb '["a"]' @? '$.abs()', jsonb '["a"]' @? '-$[*]', jsonb '[1, "a"]' @? '-$[*]', jsonb '["a"]' @? '$[*] + 1', jsonb '["a"]' @? '1 == $', jsonb '[]' @? '$[*]', jsonb '[]' @? '$', jsonb '{}' @? '$.keyvalue()', jsonb '{"a":1}' @? '$.keyvalue()';
select jsonb '{"a": 1, "b":1}' @? '$ ? (.a == .b)';
select jsonb '{"a": 1, "b":1}' @? '$ ? (@.a == @.b)', jsonb '{"a": 1}' @? '$ ? (@.a == @.b)', jsonb '{"c": {"a": 1, "b":1}}' @? '$.c ? ($.c.a == @.b)', jsonb '{"c": {"a": 2, "b":1}}' @? '$.c.* ? (@ == $.c.a)', jsonb '{"a": 1, "b":2}' @? '$.* ? (@ == 1 || @ == "x")';
select jsonb_path_query('[null,1,true,"a",[],{}]', '$[*].type()'), jsonb_path_query('[null,1,true,"abc",[],{}]', 'lax $[*].size()');
select jsonb_path_query('{}', '$.abs()');
select jsonb_path_query('true', '$.ceiling()');
select jsonb_path_query('[0, 1, -2, -3.4, 5.6]', '$[*].ceiling().abs().type()');
select jsonb_path_query('[{},1]', '$[*].keyvalue()');
select jsonb_path_query('[{"a": 1, "b": [1, 2]}, {"c": {"a": "bbb"}}]', '$[*].keyvalue().a');
select jsonb_path_query('[{"a": 1, "b": [1, 2]}, {"c": {"a": "bbb"}}]', 'strict $[*].keyvalue().a');
select jsonb '[null, 1, "abd", "abdabc"]' @? 'lax $[*] ? (exists (@ ? (@ starts with "abc")) || (@ starts with "abc") is unknown)';
select jsonb_path_query('[null, 1, "abc", "abd", "aBdC", "abdacb", "babc", "adc\nabc", "ab\nadc"]', 'lax $[*] ? (@ like_regex "^ab.*c")');
select jsonb_path_query('[null, 1, "abc", "abd", "aBdC", "abdacb", "babc", "adc\nabc", "ab\nadc"]', 'lax $[*] ? (@ like_regex "^ab.*c" flag "im")');
select jsonb_path_query('[null, 1, "a\b", "a\\b", "^a\\b$"]', 'lax $[*] ? (@ like_regex "^a\\b$" flag "q")'), jsonb_path_query('[null, 1, "a\b", "a\\b", "^a\\b$"]', 'lax $[*] ? (@ like_regex "a\\b" flag "")'), jsonb_path_query('[null, 1, "a\b", "a\\b", "^a\\b$"]', 'lax $[*] ? (@ like_regex "^A\\\\b$" flag "i")');
select jsonb_path_query('1', '$x.a', '{"x": [{"a": 1}, {"a": 2}]}'), jsonb_path_query('1', '$x[*] ? (@.a > $).a', '{"x": [{"a": 1}, {"a": 2}]}'), jsonb_path_query('1', '$"x"[last].a', '{"x": [{"a": 1}, {"a": 2}]}');
select jsonb_path_query('[1,2]', '$[$x to last]', '{"x": [1]}');
select jsonb_path_query('[1,2]', '$[$x to last]', '{"x": 1}');
select jsonb_path_query('[[1,2,3],[4]]', '$[last][last]'), jsonb_path_query('[[1,2,3],[4]]', '$[0][last ? (@ > 0)]');
select jsonb_path_query('[1,2,3]', '$[last ? (exists($[last]))]'), jsonb_path_query('[1,2,3]', 'strict $[last - 3]', '{}', true);
select jsonb_path_query('[1,2,3]', '$[last.type()]');
select jsonb_path_query('[1,2,3]', 'strict $[*] ? (@ > $x)');
select jsonb_path_query('1e300', '$ * $ * 1e-300'), jsonb_path_query('3', '10 % $ - -$'), jsonb_path_query('3', '+$'), jsonb_path_query('-3.70', '$.floor()'), jsonb_path_query('0.00', '-$');
select jsonb_path_query('"abc"', '@ == 1');
select jsonb_path_query('[true,false]', '$[*] == true'), jsonb_path_query('[true,false]', '($[*] == true)'), jsonb_path_query('[true,false]', '!($[*] == true)'), jsonb_path_query('[true,false]', 'strict $[*] == true');
select jsonb_path_query('[1,"x"]', '$[*] > 0'), jsonb_path_query('[1,"x"]', 'strict $[*] > 0'), jsonb_path_query('["x", 1]', 'lax $[*] > 0'), jsonb_path_query('["x", 0]', 'lax $[*] > 0'), jsonb_path_query('[]', 'lax $[*] > 0');
select jsonb_path_query('{"a":[1,2]}', '$.a == [1,2]');
select jsonb_path_query('{"a":[1,2]}', '$.a == $.a'), jsonb_path_query('{"a":{}}', '$.a == $.a'), jsonb_path_query('{"a":{}}', '$.a == null'), jsonb_path_query('{"a":{}}', '$.a <> null'), jsonb_path_query('{"a":null}', '$.a < null'), jsonb_path_query('{"a":null}', '$.a <= null'), jsonb_path_query('{"a":[null]}', 'strict $.a == null'), jsonb_path_query('{"a":1}', 'strict $.a == $.b');
select '{"a":1}' @@ '$.a == 1'::jsonpath, '{"a":1}' @? '$.a'::jsonpath;
select jsonb_path_query('"12:34"', '$.double()');
select jsonb_path_query('"+5"', '$.double()'), jsonb_path_query('".5"', '$.double()'), jsonb_path_query('"5."', '$.double()'), jsonb_path_query('"1e-400"', '$.type()'), jsonb_path_query('123456789012345678901234567890', '$.double()'), jsonb_path_query('"123456789012345678901234567890"', '$.double()');
select jsonb_path_query('"1e-400"', '$.double()');
select jsonb_path_query('""', '$.double()');
select '$.**{2147483648}'::jsonpath;
select '$.a.**{1 to 2}.b ? (@.x[0 to last] == "a" && @.** > 1)'::jsonpath, '$."" [""]'::jsonpath, '$.a[1][2 to 3, 4]'::jsonpath, '($)'::jsonpath, '(1)'::jsonpath, '(-1)'::jsonpath, '(1).abs()'::jsonpath, '$.true.null.is.to'::jsonpath, 'strict'::jsonpath;
select '$.true.null.is.to'::jsonpath, '$.strict.lax.with'::jsonpath, 'strict 1'::jsonpath, 'lax null'::jsonpath, '$ == $ || 1 == 1 && 2 == 2'::jsonpath, '((1 == 1 || 2 == 2) && 3 == 3)'::jsonpath, '1 + 2 - (3 + 4) * 5 / (6 * 7)'::jsonpath, '-(-$)'::jsonpath, '- - 1'::jsonpath, '-1 * -$'::jsonpath, '$.size() + @.a'::text;
select '$ ? (@ ? (@ > 1) == 2).a'::jsonpath, '$[$ ? (@ == 1)]'::jsonpath, '$ ? (@.a[last] == 1)'::jsonpath, '$.type().size()'::jsonpath, '(1 + 1)[0]'::jsonpath, '("x" starts with "y")'::jsonpath, '$ like_regex "a\"b"'::jsonpath, '$ <> 1'::jsonpath, '$x+$y'::jsonpath, '$-1'::jsonpath, '$a-b'::jsonpath;
select 'ab' ~ 'a\b', E'a\bc' ~ 'a\bc', 'b' ~ '[a\b]';
-- feature: jsonpath: keyvalue()
select jsonb_path_query('{"a": {"x": 1, "y": [1,2,{"z": "w"}]}, "b": 1.00005, "c": {"q": {}}}', '$.keyvalue()');
select jsonb_path_query('{"a": {"x": 1, "yyyyy": [1,2,{"z": "w"}]}, "b": 1.00005, "c": {"q": {"r": 1}}}', '$.**.keyvalue()');
select jsonb_path_query('[{"k": 12345678.12345678901234567890, "l": "abc", "m": true}, {"a": {"b": 1e100}, "zz": {"b": 0}, "y": {"q": 0.00001}}]', '$.**.keyvalue().id');
select jsonb_path_query('[{"k": 1e-70, "m": {"a": 1}}, {"k": 0.00010001, "m": {"a": 1}}, {"k": 100000000, "m": {"a": 1}},{"k": 1e260, "m": {"a": 1}}]', '$.**.keyvalue().id');
select jsonb_path_query('{"a": {"x": 1}}', '$.keyvalue().value.keyvalue()');
select jsonb_path_query('{"a": {"x": 1}, "b": {"y": 2}}', '$.keyvalue().keyvalue()');
select jsonb_path_query('{"a": {"x": 1}}', '$v.keyvalue()', '{"u": "abc", "v": {"p": 1, "q": {"z": 1}}}');
select jsonb_path_query('{"a": {"x": 1}}', '$v.q.keyvalue()', '{"u": "abc", "v": {"p": 1, "q": {"z": 1}}}');
select jsonb_path_query('[1]', '$.keyvalue()');
select jsonb_path_query('[]', '$.keyvalue()');
select jsonb_path_query('[{"a":1}]', 'strict $.keyvalue()');
-- feature: jsonpath over tables, in FROM and in select lists
insert into t values (1, '{"a": [1, 2, {"b": 3}], "c": "xyz"}'), (2, '[]'), (3, null), (4, '{"a": {"b": [10.50, -7, "5"]}}');
select id, q from t, jsonb_path_query(d, '$.a[*]') q order by id, q;
select id, jsonb_path_query(d, '$.a[*]') from t order by 1;
select id, jsonb_path_query(d, '$.a[*]') -> 'b' from t order by 1;
select id, jsonb_path_exists(d, '$.a'), jsonb_path_query_array(d, '$.**.b'), jsonb_path_query_first(d, '$.**.b[*]'), d @? '$.c', d @@ '$.c starts with "x"' from t order by id;
select id from t where d @? '$.a ? (@.b > $x)' order by id;
select id from t where jsonb_path_exists(d, '$.a.b[*] ? (@ > $x)', '{"x": 3}') order by id;
select d::text from t where d @? 'x';
select jsonb_path_query(d, '$.a[*]') q, count(*) from t group by 1 order by 1;
select count(*) from t where d @? '$.a[*] ? (@ == 1)' or d @@ '$.c == "xyz"';
select id, (select jsonb_agg(x) from jsonb_path_query(d, '$.a[*]') x) from t order by id;
select id from t where jsonb_path_query_first(d, '$.c') = '"xyz"';
-- feature: jsonpath in views, indexes, checks and generated columns
create table t(id int, d jsonb);
insert into t values (1, '{"a": [1, 2, {"b": 3}], "c": "xyz"}'), (2, '[]'), (3, null), (4, '{"a": {"b": [10.50, -7, "5"]}}');
create view v as select id, jsonb_path_query_array(d, '$.a[*] ? (@ > 1)'::jsonpath) x from t where d @? '$.a';
select * from v order by id;
create index on t ((jsonb_path_query_first(d, '$.c')));
select id from t where jsonb_path_query_first(d, '$.c') = '"xyz"';
create table c (d jsonb check (d @? '$.a'), e jsonb generated always as (jsonb_path_query_array(d, '$.a[*]')) stored);
insert into c values ('{"a": [1, 2]}') returning e;
insert into c values ('{"b": [1, 2]}');
-- feature: jsonpath: datetime()
select jsonb_path_query('"2024-01-01"', '$.datetime()');
-- feature: columns of type jsonpath
create table jpt(p jsonpath);
-- feature: arrays
select array[1, 2, 3], '{a,"b c",NULL}'::text[], (array[10, 20, 30])[2], array[1, 2] || 3, array[1, 2] || array[3], 2 = any (array[1, 2]), 3 > all (array[1, 2]), array_length(array[1, 2], 1), cardinality(array[1, 2]), array[1, 2] @> array[1], array[1, 2] && array[2, 3];
create table a (id int primary key, tags text[], n int[] default '{}');
insert into a values (1, '{x,y}', '{1,2}'), (2, array['z'], default), (3, null, null);
select id, tags[1], n, array_to_string(tags, ','), 'x' = any (tags) from a order by id;
update a set n = array_append(n, 5) where id = 2 returning n;
select unnest(tags) from a order by 1;
select array_agg(id order by id desc) from a;
select id from a where n @> '{1}' or tags && array['z'] order by id;
select id from a where n = array[1, 2];
select n || 7, 0 || n, n || '{8,9}', n[1:1] from a where id = 1;
insert into a values (1, '{q}', null) on conflict (id) do update set tags = excluded.tags || a.tags returning tags, cardinality(tags);
insert into a values (4, '{x', '{}');
insert into a values (4, '{}', '{1,b}');
alter table a add column z timestamptz[] default '{2024-01-01 00:00+00}', add column m numeric(6, 2)[];
update a set m = '{1.234,NULL}' where id = 1 returning m;
alter table a alter column n type text;
alter table a alter column n type bigint[] using n::bigint[];
select n, z, m from a order by id;
copy (select id, tags, n from a order by id) to stdout;
-- feature: array functions
select array_position(array['a', 'b'], 'b'), array_remove(array[1, 2, 1], 1), array_cat(array[1], array[2]), array_prepend(0, array[1]), string_to_array('a,b', ','), array_upper(array[5, 6], 1), array_replace(array[1, 2], 2, 9), (array[1, 2, 3])[2:3];
select array(select x from generate_series(1, 3) x);
-- feature: enum types
create type mood as enum ('sad', 'ok', 'happy');
create table p (id int primary key, m mood not null default 'ok');
insert into p values (1, 'happy'), (2, 'sad');
insert into p (id) values (3);
select id, m, m > 'sad', m::text as label, m in ('ok', 'sad'), m between 'sad' and 'ok' from p order by m;
select id from p where m >= 'ok' order by m desc;
select m, count(*) from p group by m order by m;
select id from p where m = 'angry';
select 'angry'::mood;
select id, row_number() over (order by m desc) from p order by id;
insert into p values (4, 'angry');
alter type mood add value 'angry' before 'ok';
insert into p values (4, 'angry');
select id from p order by m;
drop type mood;
alter table p alter m type text;
insert into p values (5, 'anything');
alter table p alter m drop default, alter m type mood using m::mood;
delete from p where id = 5;
alter table p alter m type mood using m::mood;
select id, m from p order by m, id;
select enumlabel from pg_enum where enumtypid = 'mood'::regtype order by enumsortorder;
drop type mood cascade;
select * from p order by id;
-- feature: functions of enum types
create type mood as enum ('sad', 'ok', 'happy');
select enum_range(null::mood);
select enum_first(null::mood), enum_last(null::mood);
select min(m), max(m) from (values ('ok'::mood), ('sad')) v(m)
-- feature: domains
create domain positive as int check (value > 0);
create table d (v positive);
insert into d values (1);
insert into d values (0);
select v + 1 from d;
-- feature: composite types
create type pair as (a int, b text);
create table c (p pair);
insert into c values (row(1, 'x'));
select (p).a, (p).b from c;
-- feature: row values
select row(1, 'x'), (1, 2) = (1, 2), (1, 2) < (1, 3), (1, null) is null;
-- feature: oid, regclass, regtype
create table r (id int primary key);
select 'r'::regclass, 'int4'::regtype, 'r'::regclass::oid > 0, 23::regtype, to_regclass('nothing');
select 'nothing'::regclass;
-- feature: money
select '12.34'::money;
-- feature: inet and cidr
select '192.168.0.1/24'::inet, host('10.0.0.1'::inet);
-- feature: bit strings
select b'101', '1010'::bit(4) & b'0110';
-- feature: ranges
select int4range(1, 5) @> 3, '[2024-01-01,2024-02-01)'::daterange;
-- feature: full text search
select to_tsvector('english', 'a fat cat') @@ to_tsquery('english', 'cat');
-- feature: casts between types
select 1::text, '1'::int, 1.7::int, 2.5::int, -2.5::int, 1.5::float8::int, true::int, 1::bool, 'x'::text::varchar(1), 65::"char", '2024-01-01'::date::timestamp, '2024-01-01 10:00'::timestamp::date, '10:00'::text::time;
select 'abc'::int;
select 'abc'::text::int;
-- feature: serial columns
create table sr (id serial primary key, b bigserial, s smallserial, v text);
insert into sr (v) values ('a'), ('b') returning id, b, s;
select nextval('sr_id_seq'), currval('sr_id_seq'), pg_get_serial_sequence('sr', 'id');
-- feature: identity columns
create table idn (id int generated always as identity primary key, k int generated by default as identity (start 10 increment 5), v text);
insert into idn (v) values ('a'), ('b') returning id, k;
insert into idn (id, v) values (7, 'x');
insert into idn (id, v) overriding system value values (7, 'x') returning id;
insert into idn (k, v) values (1, 'x') returning id, k;
-- feature: generated columns
create table g (a int primary key, b int generated always as (a * 2) stored);
insert into g values (1), (2);
insert into g values (3, 5);
update g set a = 10 where a = 1 returning b;
-- feature: default expressions
create table df (id int default 7, at date default current_date, s text default 'x' || 'y', u uuid default gen_random_uuid());
insert into df default values returning id, s, at = current_date, length(u::text);
insert into df values (default, default, 'z') returning id, s;
-- feature: collation "C" by name
create table co (s text collate "C");
insert into co values ('b'), ('B'), ('a');
select s from co order by s;
select s from co order by s collate "C" desc;
-- feature: literals without a type beside values of one
select coalesce(null::time, '10:00'), greatest(date '2024-01-01', '2024-02-01'), nullif(interval '1 day', '24 hours'), least(interval '1 mon', '29 days'), case when true then date '2024-01-01' else '2024-01-02' end;
select t from (values (time '10:00'), ('09:00'), (null)) v(t) order by t;
select v from (values ('1'::jsonb), ('"x"'), (null), ('[1, 2]')) t(v) order by v;
select coalesce('{"a": 1}'::jsonb -> 'b', '{}'), nullif('1'::jsonb, '1.0'), greatest('1'::jsonb, '2');
select array[time '10:00', '11:00'], array[true, 'f'], array['{"a": 1}'::jsonb, '2'], array['2024-01-01'::date, null];
select interval '1 day' is distinct from '24 hours', date '2024-01-01' is not distinct from '2024-01-01';
select 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid in ('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11');
select coalesce(1, date '2024-01-01');
create type shade as enum ('light', 'dark');
select greatest('light'::shade, 'dark'), least('dark'::shade, 'light'), coalesce(null::shade, 'dark'), nullif('dark'::shade, 'dark');
-- feature: ANY and ALL over arrays
select '10:00' = any (array[time '10:00']), interval '1 day' = any ('{24:00}'), 1.5 = any (array[1, 2]), 1 = any (array[1.0]), 5 > all (array[1, 2]), null = any (array[1]), 5 = any ('{}'::int[]), 3 <> all (array[1, 2]);
select 'a' like any (array['b%', 'a%']), 'A' ilike any ('{a,b}');
select 1 = any (1);
-- feature: subscripts and slices
select (array[1, 2, 3])[0], (array[1, 2, 3])[-1], (array[1, 2, 3])[2:], (array[1, 2, 3])[:2], (array[1, 2, 3])[2:10];
select ('{"a": {"b": [1, 2]}}'::jsonb)['a']['b'][1];
-- feature: texts of values in ||
select interval '1 day' || 'x', timestamp '2024-01-01 10:00' || '', 1e-7::float8 || '', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid || 'x', '{"a": 1}'::jsonb::text || 'x';
select 1e-300::float8;
-- feature: infinite dates, local times beside points in time
set timezone = 'Europe/Berlin';
select date 'infinity' + 1, date '-infinity' - 1;
select date 'infinity' - date '2024-01-01';
select timestamp '2024-07-01 12:00' = timestamptz '2024-07-01 12:00', date '2024-07-01' < timestamptz '2024-07-01 00:30', timestamptz '2024-07-01 12:00+00' at time zone '+03';
-- feature: stored expressions after types and sequences are renamed
create type mood as enum ('sad', 'ok');
create sequence sq;
create table t (id int primary key default nextval('sq'), m mood default 'ok'::mood, check (m <> 'sad'::mood));
create view v as select id, m from t where m = 'ok'::mood;
alter type mood rename to feeling;
alter sequence sq rename to sq2;
create schema s;
alter sequence sq2 set schema s;
alter type feeling set schema s;
insert into t default values returning *;
select * from v;
insert into t (m) values ('sad');
select column_default from information_schema.columns where table_name = 't' order by ordinal_position;
drop sequence s.sq2;
drop type s.feeling;
create table ser (id serial primary key, b int);
alter sequence ser_id_seq rename to other;
insert into ser (b) values (1) returning *;
drop sequence other;
drop sequence other cascade;
insert into ser (b) values (1);
-- feature: array_remove and array_replace: equal elements, other types, NULL
create table t (a numeric[], b int);
insert into t values ('{1.0,1.00,2}', 1), (null, 2), ('{3,NULL}', null);
select array_remove(a, b), array_replace(a, b, 9.99) from t;
select array_replace(array['a','b',null], 'a', 'x'), array_replace(array['a',null], null, 'x'), array_replace(null::int[], 1, 2);
select array_replace(array[1,2], 2, 2.5), array_remove(array[1,2], 2.0), array_replace(array[1,2], 2, null);
select array_remove(array[1.5,2], 3/2.0), array_remove('{1,2}'::bigint[], 1), array_replace('{}'::text[], 'a', 'b');
select array_remove(array[1,2], 'a');
-- feature: a numeric beside a float is a float
create table n (id int primary key, f float8, g float4);
insert into n values (1, 0.30000000000000004, 0.1), (2, 1e30, 'NaN'), (3, 'NaN', null);
select id, f > 0.3, f = 0.3, f in (0.1, 2.5), f between 0.1 and 2.5, coalesce(f, 0.0), greatest(f, 0.5), nullif(f, 0.0), case when true then f else 0.0 end, g = 0.1, g > 0.1 from n order by 1;
select id from n where f > 0.3 order by 1;
select id from n where f = 0.3;
create index on n (f);
select id from n where f > 0.3 order by 1;
select id from n where 0.3 = f or f = 1e30;
select 0.3 = 0.1::float8 + 0.2::float8, 1e-20::float8 > 0.0, 0.1 = 0.1::float4, 1.5 < 1e30::float8, 1.5 < 'NaN'::float8;
select n.id from n join (values (0.3), (1.5)) v(x) on n.f > v.x order by 1;
select sum(case when f > 0 then f else 0.0 end), coalesce(sum(f), 0.0) from n where id < 3;
update n set f = 0.5 where f > 0.3 and f < 1.5;
select f from n order by id;
-- feature: casts and assignments of arrays, element by element
create table n (id int primary key, ia int[], va varchar(3)[]);
insert into n values (1, array[1.5,2.5], array['abc']), (2, array[1.5::float8, 3.5], '{}');
select array[1.5, 2.5]::int[], array[1.5::float8, 3.5]::int[], array['abcdef']::varchar(3)[], array[1,2]::text[], array['1','2']::int[];
select array[1e10]::int[];
select array['00000000-0000-0000-0000-000000000002']::uuid[], array['2024-01-01']::date[], array[true]::text[], array[1]::bigint[], array[1]::numeric(5,2)[];
select array['a']::int[];
insert into n values (4, null, array['abcdef']);
insert into n values (4, array['x'], null);
select ia, va from n order by id;
select array_position(array[1.00, 2.00], 2), array_position(array[1, 2], 2), array_position(array[1.5, 2]::numeric(6,2)[], 2.0);
-- feature: ALTER TYPE between numerics
create table a (id int primary key, x numeric);
insert into a values (1, 1.23456);
create index on a (x);
alter table a alter x type numeric(40,3);
select x from a;
select x from a where x = 1.235;
alter table a alter x type numeric(45,5);
alter table a alter x type numeric(45,2);
select x from a;
alter table a alter x type numeric;
select x from a where x = 1.24;
insert into a values (2, 123456789012345678901234567890123456789012345678);
alter table a alter x type numeric(45,2);
-- feature: char(n) without its blanks in functions, lists, CASE and NULLIF
create table c (id int, c char(4), t text);
insert into c values (1, 'ab', 'ab'), (2, 'cd', 'cd'), (3, null, null);
select upper(c)||'|', lower(c)||'|', initcap(c)||'|', reverse(c)||'|', replace(c,' ','_'), md5(c), translate(c, 'a ', 'x_'), starts_with(c,'ab '), btrim(c,'b'), string_to_array(c,' ') from c order by id;
select string_agg(c, ',' order by id) from c;
select c in ('ab','cd'), c in ('xx', 'ab '), c not in ('ab'), nullif(c,'cd'), c between 'ab' and 'ab', c is distinct from 'ab', 'ab' is not distinct from c from c order by id;
select case when id = 1 then c else 'zz' end || '|', case c when 'ab' then 1 else 2 end, coalesce(c, 'x') || '|' from c order by id;
select id from c where c = any (array['ab', 'x']) order by 1;
select id from c where c = any ('{ab,x}') order by 1;
select id from c where c in (t, 'x') order by 1;
select c ilike 'ab', c ilike 'AB  ', c like 'ab', c ~ '^ab$', c similar to 'ab' from c order by id;
-- feature: jsonb = ANY (array)
select '{"k": [1.0]}'::jsonb = any (array['{"k": [1]}'::jsonb]), '1.0'::jsonb <> all (array['1'::jsonb, '2']), '1'::jsonb = any(array['2'::jsonb, null]), '5'::jsonb > any (array['4.0'::jsonb]);
-- feature: characters as numbers: U&, UESCAPE, pairs of halves
select U&'d\0061t\+000061', U&'\00e4' || 'x', U&"d\0061ta" from (select 1 as data) q;
select U&'d!0061t' uescape '!', u&'a''\0027b', U&'\\x', 'U&''\0061', $$U&'\0061'$$, 1 as "U&x";
select E'\ud83d\ude00', U&'\D83D\DE00', E'\\ud83d', U&'\+01F600', e'\U0000D83D\U0000DE00';
select U&'\00zz';
select U&'\D83Dx';
select U&'\DE00';
select U&'\0000';
-- feature: values keep their types: subqueries, elements of arrays, aggregates
create type mood as enum ('sad', 'ok', 'happy');
create table t (a int, b text, c char(4), e mood, j json, jb jsonb, ja jsonb[]);
insert into t values (1, 'x', 'ab', 'ok', '{"p": 1}', '{"q":2}', array['{"a":1}', '2']::jsonb[]), (2, 'y', 'c', 'happy', null, '[1]', null);
select jsonb_build_object('rows', (select jsonb_agg(t order by a) from t)), json_build_object('rows', (select json_agg(a order by a) from t));
select json_build_object('r', (select jb from t where a = 1)), json_build_array((select j from t order by a limit 1)), to_jsonb((select json_object_agg(a, b) from t));
select json_build_object('a', (select (select (select jb from t where a = 1)))), json_build_object('r', (select jb -> 'q' from t where a = 1));
select json_build_object('r', array(select jb from t order by a)), array_to_json((select array_agg(jb order by a) from t)), to_json((select array_agg(e order by a) from t));
select json_build_object('r', (array_agg(jb order by a))[1]), (array_agg(jb order by a))[1] -> 'q', (array(select e from t order by a))[1] < 'happy' from t;
select jsonb_set('{}', '{a}', coalesce((select jsonb_agg(a) from t where a > 5), '[]')), (select jsonb_agg(a order by a) from t) || '[3]';
select pg_typeof(ja[1]), ja[1] -> 'a', json_build_object('x', ja[1], 'y', ja[1:2], 'q', array_append(ja, '7'), 'c', ja || ja, 'p', array_prepend('7', ja)) from t order by a;
select pg_typeof(array_append(ja, '7')), pg_typeof(ja || ja), pg_typeof(ja[1:1]), pg_typeof(array_agg(e)), pg_typeof((array_agg(c))[1]), pg_typeof(max(c)) from t group by ja order by 1;
select md5((select c from t where a = 1)), (select c from t where a = 1) || '|', upper((select c from t where a = 1)) || '|', (select max(c) from t) || '|', min(c) over () || '|' from t order by a;
select (select max(c) from t) = 'c', max(c) = 'c', max(c) in ('c', 'd'), max(c) between 'b' and 'c', (array_agg(c order by a))[2] = 'c' from t;
select to_json((select 't'::regclass)), concat((select 't'::regclass), pg_typeof(1)), to_json(pg_typeof(1)), json_build_object('t', 'int4'::regtype);
update t set jb = jsonb_build_object('x', (select jsonb_agg(b order by a) from t)) where a = 1 returning jb;
insert into t (a, jb) select 3, jsonb_build_object('y', (select jb from t where a = 1)) returning jb;
create table m as select (select c from t where a = 1) c, (select ja from t where a = 1) ja, (select ja[1] from t where a = 1) j1;
select attname, format_type(atttypid, atttypmod) from pg_attribute where attrelid = 'm'::regclass and attnum > 0 order by attnum;
-- feature: aggregates of enum types
create type mood as enum ('sad', 'ok', 'happy');
create table t (a int, m mood);
insert into t values (1, 'ok'), (1, 'happy'), (2, 'sad'), (2, 'ok'), (3, null);
select min(m), max(m), pg_typeof(max(m)) from t;
select a, min(m), max(m), max(m) > 'ok' from t group by a order by a;
select a, m, max(m) over (order by a, m), min(m) over (order by a, m rows between 1 preceding and current row) from t order by a, m;
select max(distinct m), min(m) filter (where a = 2), (select max(m) from t where a = 2) < 'happy' from t having max(m) = 'happy';
select mode() within group (order by m), mode() within group (order by m desc), percentile_disc(0.5) within group (order by m) from t where a < 3;
-- feature: enum_range, enum_first, enum_last
create type mood as enum ('sad', 'ok', 'happy');
create table t (a int, m mood);
insert into t values (1, 'ok'), (2, 'happy'), (3, 'sad'), (4, null);
select enum_range('ok'::mood, null), enum_range(null, 'ok'::mood), enum_range('sad'::mood, 'ok'), enum_range('happy'::mood, 'sad'::mood), enum_range('ok'::mood);
select pg_typeof(enum_first(null::mood)), pg_typeof(enum_range(null::mood)), (enum_range(null::mood))[2] < 'happy', array_length(enum_range(null::mood), 1);
select x, pg_typeof(x), x > 'ok' from unnest(enum_range(null::mood)) x order by x desc;
select a, m = any(enum_range('ok'::mood, null)), enum_range(m, null), enum_last(m) from t order by a;
select x, count(m) from unnest(enum_range(null::mood)) x left join t on t.m = x group by x order by x;
select array_to_string(enum_range(null::mood), ','), enum_range(null::mood)::text[], to_json(enum_range(null::mood)), pg_typeof(array_agg(m)) from t;
select * from enum_first(null::mood) x;
select enum_range(null::mood, 'nope');
select enum_first('sad');
select enum_range(1, 2);
-- feature: || of numeric[] with other numbers
create table n (a numeric[], b int, c numeric(10, 2), d bigint[]);
insert into n values ('{1.10,2}', 3, 4.50, '{7,8}');
update n set a = a || b;
update n set a = c || a;
update n set a = a || d;
update n set a = a || 9 || 10.125;
select a, array_length(a, 1) from n;
-- feature: rows out of json: json_to_record, jsonb_to_recordset, jsonb_populate_recordset
create table t (a int primary key, b numeric(10,2), c text, d timestamp, e int[], f jsonb, g varchar(3), h bool, i text[]);
select * from json_to_recordset('[{"a": 1, "b": "x"}, {"a": 2}]') as r(a int, b text);
select * from jsonb_to_recordset('[{"a": 1, "b": "x"}, {"a": 2, "b": null}, {}]') as r(a int, b text);
select r.b, a + 1 from jsonb_to_recordset('[{"a": "7", "b": [1, 2]}]') r(a int, b jsonb);
select * from json_to_record('{"a": [1, 2, null], "b": {"x": 1}, "c": "2020-01-01", "d": "true"}') as r(a int[], b json, c date, d bool);
select * from jsonb_to_record('{"a": ["x", "y\"z", null]}') as r(a text[]);
select * from jsonb_to_record('{"a": "{1,2}"}') as r(a int[]);
select * from jsonb_to_record('{"a": 5}') as r(a int[]);
select * from jsonb_to_record('[1]') as r(a int);
select * from jsonb_to_recordset('[1]') as r(a int);
select * from jsonb_to_recordset('{"a": 1}') as r(a int);
select * from jsonb_to_record(null) as r(a int);
select * from jsonb_to_recordset(null) as r(a int);
select * from jsonb_to_record('{"a": "toolong"}') as r(a varchar(3));
select * from jsonb_to_record('{"a": "abc"}') as r(a varchar(3));
select * from jsonb_to_record('{"a": "x"}') as r(a int);
select * from jsonb_to_record('{"A": 1, "a": 2}') as r("A" int);
select * from jsonb_to_record('{"a": 1.5}') as r(a int);
select * from json_to_record('{"a": 1}');
select * from jsonb_populate_recordset(null::t, '[{"a": 1, "b": 1.239, "c": "q", "d": "2020-01-01 10:00", "e": [1,2], "f": {"x": 1}, "g": "abc", "h": true}, {"a": 2}]');
insert into t select * from jsonb_populate_recordset(null::t, '[{"a": 1, "b": 1.239, "c": "q", "d": "2020-01-01 10:00", "e": [1,2], "f": {"x": 1}, "g": "abc", "h": true, "i": ["p","q"]}, {"a": 2}]');
select * from t order by a;
insert into t (a, g) select a, g from jsonb_to_recordset('[{"a": 3, "g": "long one"}]') as x(a int, g text);
insert into t select * from jsonb_populate_recordset(null::t, '[{"a": 4, "g": "long one"}]');
select * from json_populate_record(null::t, '{"a": 9, "zz": 1}') as r;
select x, y from json_populate_record(null::t, '{"a": 9, "b": 2}') as r(x, y);
select t.a, r.x from t, jsonb_to_record(t.f) as r(x int) order by 1;
select t.a, r.q from t, jsonb_to_recordset(jsonb_build_array(jsonb_build_object('q', t.a), '{"q": 5}'::jsonb)) as r(q int) order by 1, 2;
update t set c = r.c from jsonb_to_recordset('[{"a": 1, "c": "new"}]') as r(a int, c text) where r.a = t.a returning t.a, t.c;
insert into t (a, c) select a, c from jsonb_to_recordset('[{"a": 1, "c": "up"}, {"a": 7, "c": "in"}]') as r(a int, c text) on conflict (a) do update set c = excluded.c;
select a, c from t order by a;
select count(*), sum(a) from json_to_recordset((select json_agg(t) from t)) as r(a int);
with j as (select '[{"k": 1}, {"k": 2}]'::jsonb as d) select k from j, jsonb_to_recordset(j.d) as r(k int);
create view v as select * from jsonb_to_recordset('[{"a": 1}]') as r(a int);
select * from v;
