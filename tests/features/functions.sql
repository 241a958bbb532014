-- feature: string functions
select length('Größe'), char_length('abc'), octet_length('ö'), bit_length('a'), upper('a'), lower('A'), initcap('hello wORLD'), reverse('abc'), repeat('ab', 2), left('abcd', -1), right('abcd', 2);
select substr('abcdef', 2, 3), substring('abcdef' from 3), substring('abcdef' for 2), substring('foobar' from 'o(.)b'), overlay('abcdef' placing 'X' from 2 for 3), position('c' in 'abc'), strpos('abc', 'z');
select trim('  x '), trim(both 'x' from 'xxaxx'), ltrim('xxa', 'x'), rtrim('axx', 'x'), btrim('xax', 'x'), lpad('7', 3, '0'), rpad('ab', 5), lpad('abcdef', 3), replace('aXbX', 'X', '-'), translate('12345', '143', 'ax');
select split_part('a,b,c', ',', 2), split_part('a,b,c', ',', -1), concat('a', null, 1, true), concat_ws('-', 'a', null, 'b'), ascii('A'), chr(228), md5('frog'), to_hex(255), starts_with('abc', 'ab'), quote_ident('A b'), quote_literal('it''s'), quote_nullable(null);
select format('%s %I %L %%', 'a', 'B c', 'd''e'), format('%2$s %1$s', 'x', 'y'), format('%5s|%-5s|', 'a', 'b');
-- feature: regular expression functions
select regexp_replace('foobarbaz', 'b(..)', 'X\1Y', 'g'), regexp_replace('Foo', 'f', 'x', 'i'), regexp_match('foobar', 'o(.)(.)'), regexp_split_to_array('a1b22c', '\d+'), regexp_count('abcabc', 'b'), regexp_instr('abc', 'c'), regexp_substr('foobar', 'o+'), regexp_like('Abc', 'abc', 'i');
select regexp_matches('foobar foobaz', 'ba(.)', 'g');
select * from regexp_split_to_table('a b c', ' ');
-- feature: math functions
select abs(-5), abs(-1.5), sign(-2), mod(7, 3), gcd(12, 18), lcm(4, 6), factorial(5), pi(), degrees(pi()), radians(180), cbrt(8.0::float8), width_bucket(5, 0, 10, 5);
select sqrt(2::float8), exp(1::float8), ln(2::float8), log(10::float8), log(2, 8), power(2::float8, 0.5), 2 ^ 3, |/ 25.0, @ -5, 5 # 3, 5 & 3, 5 | 3, ~5, 1 << 4, 16 >> 2;
select sin(1), cos(1), tan(1), asin(1), acos(1), atan(1), atan2(1, 2), sinh(1), ceil(1.5::float8), floor(-1.5::float8), round(2.5::float8), trunc(-1.7::float8), random() < 1;
select round(1.005, 2), round(15, -1), trunc(12.345, 2), scale(1.50), min_scale(1.50), trim_scale(1.50);
-- feature: date and time functions
select date_part('year', date '2024-02-29'), extract(month from date '2024-02-29'), extract(week from date '2024-02-29'), extract(quarter from date '2024-02-29'), extract(isodow from date '2024-03-03'), extract(second from time '10:00:30.5'), extract(day from interval '3 days 4 hours');
select date_trunc('month', date '2024-02-29'), date_trunc('week', timestamp '2024-02-29 10:00'), age(timestamp '2024-03-01', timestamp '2023-01-15'), make_date(2024, 2, 29), make_timestamp(2024, 1, 2, 3, 4, 5.5), make_interval(days => 3), make_time(1, 2, 3.5);
select to_date('29.02.2024', 'DD.MM.YYYY'), to_timestamp('2024-02-29 10:11', 'YYYY-MM-DD HH24:MI')::timestamp, to_timestamp(0) at time zone 'UTC', isfinite(date 'infinity'), date_bin('15 minutes', timestamp '2024-01-01 10:22', timestamp '2024-01-01'), (date '2024-01-01', date '2024-02-01') overlaps (date '2024-01-15', date '2024-03-01');
select now() = current_timestamp, current_date = now()::date, localtimestamp is not null, current_time is not null, clock_timestamp() >= now(), statement_timestamp() >= now(), timeofday() is not null;
-- feature: to_char and to_number
select to_char(1234.5, 'FM9,999.00'), to_char(12, '000'), to_char(-5, 'S99'), to_char(0.5, '0.99'), to_number('1,234.5', '9,999.9'), to_char(485, 'RN'), to_char(date '2024-02-29', 'Day DD Month YYYY'), to_char(interval '25 hours', 'HH24:MI'), to_char(timestamp '2024-02-29 15:04:05.678', 'HH12:MI:SS.MS AM');
-- feature: functions refuse what has no value
select sqrt(-1);
select ln(0);
select power(0, -1);
select power(-8, 0.5);
select exp(1000);
select acos(2);
select factorial(-1);
select mod(5, 0);
select abs(-32768::smallint);
select substr('abc', 1, -1);
select split_part('a,b', ',', 0);
select chr(0);
select 'a' ~ '(';
select regexp_match('a', 'a', 'g');
select make_date(2024, 2, 30);
select to_date('2024-02-30', 'YYYY-MM-DD');
select date_trunc('nothing', now());
select extract(hour from date '2024-01-01');
select decode('zz', 'hex');
select convert_from('\xff', 'UTF8');
select format('%s');
select length(5);
-- feature: operators of text
select 'a' || 'b', 'a' || 1, 'abc' ^@ 'ab', 'a' < 'b', 'a' collate "C" < 'B', 'a' || null;
-- feature: num_nulls, pg_typeof, pg_sleep
select num_nulls(1, null, 2), num_nonnulls(1, null), pg_typeof(1), pg_typeof('x'::varchar), pg_typeof(now()), pg_sleep(0);
-- feature: set-returning functions
select * from unnest(array[1, 2], array['a', 'b']) as u (n, s);
select generate_subscripts(array[5, 6], 1);
select * from json_each('{"a": 1}');
select * from json_to_recordset('[{"a": 1, "b": "x"}]') as r (a int, b text);
select * from string_to_table('a,b', ',');
-- feature: encoding and hashing
select encode(sha256('x'), 'hex'), md5('x'::bytea), convert_from('\xc3a4'::bytea, 'UTF8'), convert_to('ä', 'UTF8'), hashtext('x') is not null;

-- feature: array_agg of names and of records
create table t (id int, s varchar(9), n name);
insert into t values (1, 'a b', 'x'), (2, null, 'y');
select array_agg(n order by id), array_agg(s order by id) from t;
select coalesce(array_agg(n), '{}') from t where id > 2;
select array_agg((id, s) order by id), array_agg(row(id, n, null) order by id) from t;
select coalesce((select array_agg((id, n)) from t where id > 2), '{}');
select pg_typeof(array_agg(n)), pg_typeof(array_agg((id, s))), pg_typeof(array_agg(id)) from t;
select array_agg(id::regtype order by id) from (values (23), (1043)) v(id);
select typname, typtype, typcategory, typelem, typarray from pg_type where oid in (2211, 2287) order by oid;
-- feature: json of NaN and Infinity
create table t (x numeric);
insert into t values ('NaN'), ('Infinity'), (1.50);
select row_to_json(t) from t order by x;
select json_build_object('a', x), to_jsonb(x), jsonb_build_object('a', x), array_to_json(array[x]) from t order by x;
select json_agg(x order by x), jsonb_agg(x order by x) from t;
-- feature: upper, lower, initcap and ILIKE character by character
select upper('ß'), upper('ﬁ'), upper('ŉ'), upper('ΐ'), initcap('ßeta'), lower('ΑΣ'), lower('İ'), upper('ᾀ'), initcap('hello WORLD ½a é²x o''neil');
select 'Σ' ilike 'ς', 'ſ' ilike 's', 'İ' ilike 'i', 'ÄÖ' ilike 'äö', 'abc' ilike 'A_C', 'a%c' ilike 'A\%C', 'A!%' ilike 'a!%' escape '!', 'a' not ilike 'A';
select 'ÄÖ' ilike any (array['x', 'ä%']), 'ab' not ilike all (array['AB']);
-- feature: character classes of regular expressions beyond ASCII
select 'é' ~ '[[:alpha:]]', 'É' ~ '[[:upper:]]', regexp_replace('Straße', '[^[:alnum:]]', '', 'g'), '١' ~ '\d', '‿' ~ '\w', 'a' ~ '[\w]', 'a' ~ '\W', 'é' ~ '^\w+$';
select '½' ~ '[[:alnum:]]', '€' ~ '[[:punct:]]', 'x' ~ '[^\W]', '5' ~ '[\D]', 'a b' ~ 'a\sb', '1' ~ '\D', U&'\00A0' ~ '\s', U&'\2003' ~ '[[:space:]]', 'x' ~ '[[:word:]]';
select count(*) from generate_series(1, 2000) i where chr(i) ~ '[[:alpha:]]';
select count(*) from generate_series(1, 2000) i where chr(i) ~ '[[:punct:]]';
select 'a' ~ '[[:nothing:]]';
-- feature: json_agg: lines of rows and arrays
create table x (a int, b text);
insert into x values (1, 'p'), (2, 'q');
select json_agg(row_to_json(x)), json_agg(x), json_agg(to_json(x)), jsonb_agg(x) from x;
select json_agg(array[a, 2] order by a), jsonb_agg(array[a] order by a), json_agg(a order by a), json_agg(b order by a) from x;
select json_agg(v order by v) from (select null::int[] v union all select array[1] union all select array[2]) x;
select to_json(x) -> 'a', to_json(x) ->> 'b', pg_typeof(to_json(x)), pg_typeof(row_to_json(x)) from x order by a;
-- feature: jsonb -> of scalars
select '1'::jsonb -> 0, '"a"'::jsonb ->> 0, '1'::jsonb -> 1, '1'::jsonb -> -1, '1'::json -> 0, '{"a":1}'::jsonb -> 0, '[1]'::jsonb -> -1, 'null'::jsonb -> 0, 'null'::jsonb ->> 0, '1'::jsonb #> '{0}';
-- feature: pg_size_pretty of numeric
select pg_size_pretty(10239::bigint), pg_size_pretty(10240::bigint), pg_size_pretty(-10240::bigint), pg_size_pretty(20971000::bigint), pg_size_pretty(1.5), pg_size_pretty(123456789.99), pg_size_pretty(9223372036854775807), pg_size_pretty(-1.25), pg_size_pretty(10239.9), pg_size_pretty(10240.0);
-- feature: array_fill, trim_array
select array_fill(7, array[3]), array_fill('x'::text, array[2]), array_fill(null::int, array[2]), array_fill(1.5, array[0]);
select trim_array(array[1,2,3], 1), trim_array(array['a','b'], 2), trim_array('{1}'::int[], 0), trim_array(null::int[], 1), trim_array(array[1.50, 2.5], 1);
select trim_array(array[1,2], 3);
select trim_array(array[1,2], -1);
-- feature: parse_ident
select parse_ident('a.B."Cd"'), parse_ident(' "SomeSchema" . someTable'), parse_ident('foo[]', false), parse_ident('"a""b"'), parse_ident('ÄÖ.x');
select parse_ident('foo[]');
select parse_ident('a.');
select parse_ident('.a');
select parse_ident('""');
-- feature: normalize, IS NORMALIZED
select normalize(U&'\0061\0308bc', NFC) = U&'\00e4bc', normalize('ﬁ', nfkc), normalize(U&'\00e4'), length(normalize('ä', NFD));
select 'ä' is normalized, 'ä' is nfd normalized, 'ä' is not nfd normalized, U&'\0061\0308' is nfc normalized, 'ﬁ' is nfkc normalized, U&'\00E4' is not normalized;
