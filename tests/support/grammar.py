"""Random SQL over the live catalog, by a grammar: what one server says of a statement the other must say, too.

    Grammar(rng, catalog).statement()      a query, or a statement that writes
    catalog(connection)                    tables and their columns, as information_schema has them

Expressions are made from the type that is wanted down to columns and literals, so that nearly all statements are
right (wrong ones have tests of their own). Left out is what Froglet is known not to plan: ARRAY[…] of outer
columns in LATERAL, and EXISTS in EXISTS. Numbers are small, divisors may be zero, and
texts hold what is special to LIKE, to regular expressions and to sorting.
"""

import re
from dataclasses import dataclass

# What of types other servers call by other names the grammar knows.
TYPES = {
    "integer": "int", "bigint": "bigint", "smallint": "smallint", "numeric": "numeric", "double precision": "float8",
    "text": "text", "character varying": "text", "boolean": "bool", "date": "date",
    "timestamp without time zone": "timestamp", "interval": "interval", "jsonb": "jsonb", "ARRAY": "int[]", "uuid": "uuid",
}
SCALARS = ["int", "bigint", "numeric", "float8", "text", "bool", "date", "timestamp", "interval", "jsonb", "int[]"]
COMPARED = ["int", "bigint", "smallint", "numeric", "float8", "text", "date", "timestamp", "interval", "uuid"]
NUMBERS = ["int", "bigint", "numeric", "float8"]

# Calls by the type that they answer: the text, with the types of its operands.
CALLS = {
    "int": [
        "{int} + {int}", "{int} - {int}", "{int} * {int}", "{int} / nullif({int}, 0)", "{int} % nullif({int}, 0)", "- {int}",
        "abs({int})", "length({text})", "position({text} in {text})", "ascii({text})", "{int} & {int}", "{int} | {int}",
        "{int} # {int}", "~ {int}", "{int} << 2", "coalesce({int}, {int})", "nullif({int}, {int})", "greatest({int}, {int})",
        "least({int}, {int}, {int})", "case when {bool} then {int} else {int} end", "case {int} when 1 then {int} when 2 then 5 end",
        "{date} - {date}", "array_length({int[]}, 1)", "cardinality({int[]})", "({int[]})[{int}]", "{bool}::int",
        "strpos({text}, {text})", "octet_length({text})", "char_length({text})", "sign({int})::int", "{int}::smallint::int",
        "jsonb_array_length('[1, 2]')", "array_position({int[]}, {int})", "div({int}, 3)::int", "width_bucket({int}, 0, 10, 5)",
        "extract(year from {date})::int", "extract(dow from {timestamp})::int", "mod({int}, 7)", "gcd({int}, {int})",
        "(select max(s.n) from {series} as s (n))", "(select sum(s.n) from {series} as s (n) where s.n <> {int})::int",
    ],
    "bigint": ["{bigint} + {int}", "{int} * {bigint}", "{bigint} - {bigint}", "{int}::bigint", "abs({bigint})", "coalesce({bigint}, {int})",
               "{bigint} % 7", "greatest({bigint}, {int})", "case when {bool} then {bigint} end", "{bigint} / 3"],
    "numeric": [
        "{numeric} + {numeric}", "{numeric} - {int}", "{numeric} * {numeric}", "round({numeric}, 2)", "trunc({numeric}, 1)", "ceil({numeric})",
        "floor({numeric})", "round({numeric})", "abs({numeric})", "{int}::numeric", "{int}::numeric(10,2)", "coalesce({numeric}, {int})",
        "{numeric} % 3", "- {numeric}", "extract(epoch from {interval})",
        "sign({numeric})", "extract(month from {timestamp})", "round({numeric} / nullif({int}, 0), 4)", "mod({numeric}, 2)",
    ],
    "float8": ["{float8} + {float8}", "{float8} * {int}", "{float8} - {int}", "abs({float8})", "floor({float8})", "{int}::float8", "coalesce({float8}, 0)",
               "- {float8}", "round({float8})", "ceil({float8})", "trunc({float8})", "greatest({float8}, {int})", "sign({float8})", "{float8} / 4"],
    "text": [
        "{text} || {text}", "upper({text})", "lower({text})", "substr({text}, {int}, abs({int}))", "substring({text} from 2 for 3)", "trim({text})", "ltrim({text}, 'a ')",
        "rtrim({text})", "replace({text}, 'a', {text})", "reverse({text})", "left({text}, {int})", "right({text}, {int})", "lpad({text}, 6, '*')",
        "rpad({text}, 5)", "repeat({text}, 2)", "coalesce({text}, {text})", "concat({text}, {int}, {bool})", "concat_ws('-', {text}, {int})", "{int}::text",
        "{numeric}::text", "{bool}::text", "{date}::text", "{timestamp}::text", "split_part({text}, 'a', 1)", "initcap({text})", "translate({text}, 'ab', 'xy')",
        "case when {bool} then {text} else {text} end", "nullif({text}, {text})", "greatest({text}, {text})", "to_char({date}, 'YYYY-MM-DD Dy')", "to_char({int}, '9999')",
        "to_char({numeric}, 'FM999990.00')", "quote_literal({text})", "quote_ident({text})", "md5({text})", "overlay({text} placing 'zz' from 2)", "format('%s:%I', {text}, {text})",
        "{text} || {int}", "regexp_replace({text}, '[aeiou]', '_', 'g')", "{jsonb} ->> 'a'", "{jsonb} #>> '{{b,0}}'", "({int[]})::text", "{interval}::text",
        "btrim({text}, ' a')", "chr(65 + abs({int}) % 26)", "substring({text} from 'a.')", "array_to_string({int[]}, ',', '*')", "jsonb_typeof({jsonb})", "to_hex(abs({int}))",
    ],
    "bool": [
        "{bool} and {bool}", "{bool} or {bool}", "not {bool}", "{any} is null", "{any} is not null", "{int} between {int} and {int}", "{text} like 'a%'", "{text} ilike '%B_'",
        "{text} not like '%a%'", "{text} ~ '^[a-c]'", "{text} !~* 'B'", "{int} in ({int}, {int}, 3)", "{int} not in (1, 2)", "{text} in ('a', {text})", "{bool} is true", "{bool} is not false",
        "{bool} is unknown", "{jsonb} @> '{{\"a\": 1}}'", "{jsonb} ? 'a'", "{int} = any ({int[]})", "{int} > all ({int[]})", "{int[]} @> array[1]", "{int[]} && {int[]}",
        "coalesce({bool}, false)", "starts_with({text}, 'a')", "({int}, {text}) = ({int}, {text})", "({int}, {int}) < ({int}, {int})", "{date} between '2024-01-01' and {date}",
        "{text} similar to '(a|b)%'", "{date} < {timestamp}", "{int} < {numeric}", "{int} >= {float8}", "{int} = {bigint}", "case when {bool} then {bool} else {bool} end",
        # Of subqueries with the same alias.
        "{int} in (select s.n from {series} as s (n))", "{int} not in (select s.n from {series} as s (n))", "exists (select from {series} as s (n) where s.n = {int})",
        "not exists (select from {series} as s (n) where s.n < {int})", "{int} = any (array(select s.n from {series} as s (n)))",
        "{int} <> all (array(select s.n from {series} as s (n)))", "{int} <> all ({int[]})", "{int} > any (select s.n from {series} as s (n))",
        "{int} in (select v.n from (values ({small}), ({small})) as v (n))", "{int} < (select count(*) from {series} as s (n))",
        "exists (select 1 from {table} where {sub})", "{int} in (select {subint} from {table})", "{int} not in (select {subint} from {table} where {subint} is not null)",
        "({date}, {date}) overlaps ({date}, {date})", "{int} = some (select {subint} from {table})", "{text} < all (select 'zz')",
    ],
    "date": ["{date} + {int}", "{date} - {int}", "{timestamp}::date", "coalesce({date}, '2024-02-29')", "greatest({date}, {date})", "make_date(2024, 1 + abs({int}) % 12, 1 + abs({int}) % 28)",
             "case when {bool} then {date} end"],
    "timestamp": ["{timestamp} + {interval}", "{date} + {interval}", "date_trunc('month', {timestamp})", "date_trunc('hour', {timestamp})", "{date}::timestamp", "{timestamp} - {interval}",
                  "coalesce({timestamp}, {date})", "case when {bool} then {timestamp} end"],
    "interval": ["{interval} + {interval}", "{timestamp} - {timestamp}", "{interval} * 2", "- {interval}", "make_interval(days => {int})", "age({date}::timestamp, {date}::timestamp)",
                 "justify_days({interval})", "justify_hours({interval})", "coalesce({interval}, '1 day')"],
    "jsonb": ["{jsonb} -> 'b'", "{jsonb} || '{{\"z\": 1}}'", "{jsonb} - 'a'", "jsonb_build_object('k', {int}, 't', {text})", "to_jsonb({int})", "to_jsonb({text}::text)",
              "coalesce({jsonb}, '[]')", "jsonb_build_array({int}, {bool})", "jsonb_set({jsonb}, '{{a}}', '2')", "to_jsonb({int[]})", "jsonb_strip_nulls({jsonb})"],
    "int[]": ["{int[]} || {int}", "array[{int}, {int}]", "{int[]} || {int[]}", "array_remove({int[]}, {int})", "coalesce({int[]}, '{{}}')", "array_append({int[]}, 7)", "({int[]})[1:2]",
              "array_prepend({int}, {int[]})", "array_cat({int[]}, {int[]})", "array(select {subint} from {table} order by 1)",
              "array(select s.n from {series} as s (n))", "array(select v.n from (values ({small}), (null)) as v (n))", "string_to_array('1,2', ',')::int[]"],
    "smallint": ["{int}::smallint"],
    "uuid": ["'00000000-0000-0000-0000-000000000001'::uuid"],
}

LITERALS = {
    "int": ["0", "1", "2", "-3", "7", "10", "null::int"],
    "bigint": ["0::bigint", "5000000000", "-1::bigint"],
    "smallint": ["3::smallint"],
    "numeric": ["0.5", "1.25", "-2.75", "100.00", "3::numeric"],
    "float8": ["0.5::float8", "-2.25::float8", "4::float8"],
    "text": ["'a'", "'Abc'", "''", "' b a'", "'a_b%c'", "null::text"],
    "bool": ["true", "false", "null::bool"],
    "date": ["date '2024-02-29'", "date '2023-12-31'", "null::date"],
    "timestamp": ["timestamp '2024-02-29 12:30:00'", "timestamp '2000-01-01'"],
    "interval": ["interval '1 day'", "interval '2 months -3 days'", "interval '36:15:00'"],
    "jsonb": ["'{\"a\": 1, \"b\": [1, 2]}'::jsonb", "'[1, null]'::jsonb", "'\"x\"'::jsonb"],
    "int[]": ["array[1, 2, 3]", "'{}'::int[]", "array[null, 2]"],
    "uuid": ["'00000000-0000-0000-0000-00000000000a'::uuid"],
}

# Aggregates by the type that they answer; their results do not depend on the order of rows.
AGGREGATES = {
    "bigint": ["count(*)", "count({any})", "count(distinct {compared})", "sum({int})", "count(*) filter (where {bool})", "regr_count({float8}, {float8})"],
    "numeric": ["sum({numeric})", "sum({bigint})", "round(avg({int}), 3)", "round(avg({numeric}), 3)", "sum(distinct {numeric})", "round(stddev({int}), 3)", "round(variance({numeric}), 2)"],
    "int": ["min({int})", "max({int})", "bit_and({int})", "bit_or({int})", "(percentile_disc(0.5) within group (order by {int}))", "mode() within group (order by {int})"],
    "float8": ["min({float8})", "max({float8})", "sum({float8})"],
    "text": ["min({text})", "max({text})", "string_agg({text!}, ',' order by {text!})", "string_agg(distinct {text}, ',')"],
    "bool": ["bool_and({bool})", "bool_or({bool})", "every({bool})"],
    "date": ["min({date})", "max({date})"],
    "timestamp": ["min({timestamp})", "max({timestamp})"],
    "interval": ["sum({interval})", "max({interval})"],
    "jsonb": ["jsonb_agg({int!} order by {int!})", "jsonb_object_agg(coalesce({text}, ''), 1)"],
    "int[]": ["array_agg({int!} order by {int!})", "array_agg(distinct {int})"],
}
WINDOWS = {
    "bigint": ["row_number() over (partition by {compared} order by {key})", "rank() over (order by {compared})", "dense_rank() over (order by {compared} desc)",
               "count(*) over (partition by {compared})", "sum({int}) over (order by {key})", "ntile(3) over (order by {key})::bigint",
               "sum({int}) over (order by {key} rows between 1 preceding and 1 following)", "count({any}) over (order by {key} rows between unbounded preceding and current row)"],
    "int": ["lag({int}) over (order by {key})", "lead({int}, 2, 0) over (order by {key})", "first_value({int}) over (partition by {bool} order by {key})",
            "max({int}) over (partition by {compared})", "nth_value({int}, 2) over (order by {key})",
            "last_value({int}) over (order by {key} rows between unbounded preceding and unbounded following)"],
    "text": ["lag({text}) over (order by {key})", "min({text}) over (partition by {bool})", "string_agg({text}, '') over (order by {key})"],
}


@dataclass(frozen=True)
class Column:
    name: str
    type: str


@dataclass(frozen=True)
class Relation:
    """Something with columns, by the name that expressions call it."""

    name: str
    columns: tuple
    # Of columns that tell its rows apart.
    key: str = "id"

    def of_type(self, type):
        return [f"{self.name}.{c.name}" for c in self.columns if c.type == type]


def catalog(connection):
    """The tables of schema public, with the columns of types that the grammar knows."""
    rows = connection.execute(
        "select table_name, column_name, data_type from information_schema.columns"
        " where table_schema = 'public' order by table_name, ordinal_position"
    ).fetchall()
    tables = {}
    for table, column, type in rows:
        if type in TYPES:
            tables.setdefault(table, []).append(Column(column, TYPES[type]))
    return [Relation(name, tuple(columns)) for name, columns in tables.items()]


class Grammar:
    """Makes statements; `rng` alone decides which."""

    def __init__(self, rng, tables):
        self.rng, self.tables = rng, tables
        self.names, self.aliases = 0, {}
        # Calls with this in them are not made for the time being.
        self.without = None

    # Statements ---------------------------------------------------------------------------------

    def statement(self):
        kind = self.rng.random()
        if kind < 0.85:
            return self.query()
        return self.rng.choice([self.insert, self.update, self.delete])()

    def insert(self):
        table = self.rng.choice(self.tables)
        columns = [c for c in table.columns if c.name != "id" and self.rng.random() < 0.5]
        values = ", ".join([str(self.rng.randint(1000, 1010)), *(self.expression(c.type, [], 2) for c in columns)])
        names = ", ".join(["id", *(c.name for c in columns)])
        conflict = self.rng.choice(["", " on conflict (id) do nothing", " on conflict do nothing"])
        return f"insert into {table.name} ({names}) values ({values}){conflict} returning {names}"

    def update(self):
        table = self.rng.choice(self.tables)
        own = [Relation(table.name, table.columns)]
        column = self.rng.choice([c for c in table.columns if c.name != "id"])
        value = self.expression(column.type, own, 3)
        return f"update {table.name} set {column.name} = {value} where {self.expression('bool', own, 2)} returning id, {column.name}"

    def delete(self):
        table = self.rng.choice(self.tables)
        own = [Relation(table.name, table.columns)]
        return f"delete from {table.name} where {self.expression('bool', own, 3)} returning id"

    # Queries ------------------------------------------------------------------------------------

    def query(self, depth=3):
        kind = self.rng.random()
        if kind < 0.1 and depth > 1:
            return self.set_operation(depth)
        if kind < 0.2 and depth > 1:
            name = self.name("w")
            inner, columns = self.select(depth - 1)
            return f"with {name} as ({inner}) {self.select(depth - 1, [Relation(name, columns, columns[0].name)])[0]}"
        return self.select(self.rng.randint(1, depth))[0]

    def set_operation(self, depth):
        types = [self.rng.choice(COMPARED[:7]) for _ in range(self.rng.randint(1, 3))]
        sides = [self.select(depth - 1, types=types)[0] for _ in range(2)]
        operator = self.rng.choice(["union", "union all", "intersect", "except", "except all", "intersect all"])
        return f"({sides[0]}) {operator} ({sides[1]})"

    def select(self, depth, given=None, types=None):
        """A SELECT and its columns."""
        source, scope, where = self.sources(depth, given)
        where += [self.expression("bool", scope, depth) for _ in range(self.rng.choice([0, 1, 1, 2]))]
        # Of a set operation both sides have the same columns: no more for groups.
        most_keys = 0 if types else 2
        types = types or [self.rng.choice(SCALARS) for _ in range(self.rng.randint(1, 4))]
        is_grouped = self.rng.random() < 0.3
        tail, order = "", ""
        if is_grouped:
            keys = [self.expression(self.rng.choice(COMPARED[:8]), scope, 1) for _ in range(self.rng.randint(0, most_keys))]
            keys = [k for k in keys if "." in k and "null" not in k]
            items = []
            for type in types:
                usable = AGGREGATES.get(type)
                call = self.rng.choice(usable) if usable else None
                items.append(self.fill(call, scope, 1) if call else self.literal(type))
            items += keys
            types = [*types, *(["?"] * len(keys))]
            if keys:
                tail = " group by " + ", ".join(str(len(items) - len(keys) + 1 + n) for n in range(len(keys)))
                if self.rng.random() < 0.3:
                    tail += f" having {self.fill(self.rng.choice(['count(*) > 1', 'max({int}) > 0', 'bool_or({bool})']), scope, 1)}"
        else:
            items = [self.item(type, scope, depth) for type in types]
            if self.rng.random() < 0.25:
                order = " order by " + ", ".join(f"{n + 1}{self.rng.choice(['', ' desc', ' nulls first', ' desc nulls last'])}"
                                                 for n, type in enumerate(types) if type in COMPARED)
                order = "" if order == " order by " else order
        names = [self.name("c") for _ in items]
        distinct = "distinct " if not is_grouped and not order and self.rng.random() < 0.1 and "jsonb" not in types else ""
        listed = ", ".join(f"{item} as {name}" for item, name in zip(items, names))
        condition = " where " + " and ".join(f"({w})" for w in where) if where else ""
        columns = tuple(Column(name, type) for name, type in zip(names, types))
        return f"select {distinct}{listed} from {source}{condition}{tail}{order}", columns

    def item(self, type, scope, depth):
        if type in WINDOWS and self.rng.random() < 0.12:
            return self.fill(self.rng.choice(WINDOWS[type]), scope, 1)
        if type == "int" and self.rng.random() < 0.1:
            inner = self.relation()
            # An aggregate of outer columns alone would be the outer query's.
            return f"(select max({self.column('int', [inner])}) from {self.aliased(inner)} where {self.expression('bool', [inner, *scope], 1)})"
        return self.expression(type, scope, depth)

    def sources(self, depth, given):
        first = given[0] if given else self.relation()
        source, scope = (first.name if given else self.aliased(first)), [first]
        where = []
        for _ in range(self.rng.choice([0, 0, 1, 1, 2])):
            kind = self.rng.random()
            if kind < 0.2 and depth > 1:
                inner, columns = self.select(1)
                other = Relation(self.name("q"), columns, columns[0].name)
                text = f"({inner}) as {other.name}"
            elif kind < 0.3:
                other = Relation(self.name("g"), (Column("n", "int"),), "n")
                text = f"generate_series(1, {self.rng.randint(0, 3)}) as {other.name} (n)"
            elif kind < 0.4:
                other = Relation(self.name("v"), (Column("a", "int"), Column("b", "text")), "a")
                text = f"(values (1, 'a'), (2, null), (null, 'c')) as {other.name} (a, b)"
            else:
                other = self.relation()
                text = self.aliased(other)
            if kind > 0.9:
                source += f" cross join lateral (select {self.leaving_out('[]', 'int', scope, 2)} as n) as {(other := Relation(self.name('l'), (Column('n', 'int'),), 'n')).name}"
                scope = [*scope, other]
                continue
            join = self.rng.choice(["join", "left join", "join", "left join", "full join", "cross join", "right join"])
            both = [*scope, other]
            ours, theirs = self.column("int", scope), self.column("int", [other])
            if join == "cross join":
                source += f" cross join {text}"
            elif ours and theirs:
                more = f" and {self.expression('bool', both, 1)}" if join != "full join" and self.rng.random() < 0.3 else ""
                source += f" {join} {text} on {ours} = {theirs}{more}"
            else:
                source += f" left join {text} on {self.expression('bool', both, 1)}"
            scope = both
        return source, scope, where

    # Expressions --------------------------------------------------------------------------------

    def expression(self, type, scope, depth):
        column = self.column(type, scope)
        if depth <= 0 or self.rng.random() < 0.25:
            return column if column and self.rng.random() < 0.8 else self.literal(type)
        if type == "bool" and self.rng.random() < 0.4:
            compared = self.rng.choice(COMPARED)
            operator = self.rng.choice(["=", "<>", "<", "<=", ">", ">=", "is distinct from", "is not distinct from"])
            return f"({self.expression(compared, scope, depth - 1)} {operator} {self.expression(compared, scope, depth - 1)})"
        calls = [call for call in CALLS[type] if self.without is None or self.without not in call]
        return f"({self.fill(self.rng.choice(calls), scope, depth - 1)})"

    def fill(self, call, scope, depth):
        """A call with its operands; a table that it reads is the same in all of them, and so is what has a `!`."""
        inner = self.relation()
        same = {}

        def operand(found):
            match found[0]:
                case "{{" | "}}":
                    return found[0][0]
                case "{table}":
                    return self.aliased(inner)
                case "{small}":
                    return str(self.rng.randint(0, 3))
                case "{series}":
                    return f"generate_series({self.rng.randint(0, 2)}, {self.rng.randint(0, 3)})"
                case "{sub}":
                    return self.leaving_out("exists", "bool", [inner, *scope], 1)
                case "{subint}":
                    return self.column("int", [inner])
                case "{key}":
                    return ", ".join(f"{relation.name}.{relation.key}" for relation in scope)
                case "{any}":
                    return self.expression(self.rng.choice(SCALARS), scope, depth)
                case "{compared}":
                    return self.expression(self.rng.choice(COMPARED[:8]), scope, depth)
                case wanted if wanted.endswith("!}"):
                    if wanted not in same:
                        same[wanted] = self.expression(wanted[1:-2], scope, depth)
                    return same[wanted]
                case wanted:
                    return self.expression(wanted[1:-1], scope, depth)

        return re.sub(r"\{\{|\}\}|\{[a-z0-9]+(\[\])?!?\}", operand, call)

    def leaving_out(self, text, type, scope, depth):
        """An expression without calls that have this text in them."""
        before, self.without = self.without, text
        made = self.expression(type, scope, depth)
        self.without = before
        return made

    def column(self, type, scope):
        found = [name for relation in scope for name in relation.of_type(type)]
        return self.rng.choice(found) if found else None

    def literal(self, type):
        return self.rng.choice(LITERALS[type])

    # Names --------------------------------------------------------------------------------------

    def name(self, letter):
        self.names += 1
        return f"{letter}{self.names}"

    def relation(self):
        table = self.rng.choice(self.tables)
        relation = Relation(self.name(table.name[0]), table.columns)
        self.aliases[relation.name] = table.name
        return relation

    def aliased(self, relation):
        return f"{self.aliases[relation.name]} as {relation.name}"
