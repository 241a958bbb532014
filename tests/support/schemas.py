"""Random schemas: types, tables with defaults, checks, generated columns, keys, indexes, views, comments, grants, and some rows.

Everything is derived from one number, and is SQL that PostgreSQL 15 takes; what is said to be immutable is so.
"""

import random

TYPES = ["smallint", "int", "bigint", "numeric", "numeric(10,2)", "real", "float8", "text", "varchar", "varchar(12)", "char(3)", "boolean",
         "date", "time", "timestamp", "timestamptz", "interval", "json", "jsonb", "uuid", "bytea", "int[]", "text[]", "enum"]
NAMES = ["a", "b c", "Größe", "select", "x1", "Mixed", "say \"it\"", "user", "日本", "order", "value", "bigint", "é'è"]
WORDS = ["a", "it's", "back\\slash", "", "x y", "100%", "_", "ünï", "{}", "NULL", "$1", "a\"b"]


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


def literal(text):
    return "'" + text.replace("'", "''") + "'"


class Column:
    def __init__(self, name, ty, enum=None):
        self.name, self.ty, self.enum = name, ty, enum
        self.key = self.fixed = False

    @property
    def kind(self):
        """What expressions may do with it."""
        bare = self.ty.split("(")[0]
        return {"smallint": "int", "real": "float8", "char": "varchar"}.get(bare, bare)

    def __str__(self):
        return quoted(self.name)


class Schema:
    """Statements, in their order."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.statements, self.tables, self.enums, self.queries = [], {}, [], []
        self.count = 0
        choose = self.random
        self.schemas = ["public", *choose.sample(["app", "Two Words"], choose.randint(0, 2))]
        self.do(f"create schema {quoted(name)}" for name in self.schemas[1:])
        for _ in range(choose.randint(1, 2)):
            self.enum()
        for _ in range(choose.randint(2, 4)):
            self.table()
        for _ in range(choose.randint(1, 3)):
            self.foreign_key()
        for _ in range(choose.randint(2, 5)):
            self.index()
        for _ in range(choose.randint(1, 4)):
            self.view()
        self.rest()

    def do(self, statements):
        self.statements += [statements] if isinstance(statements, str) else list(statements)

    def name(self, prefix):
        self.count += 1
        return f"{prefix}{self.count}" if self.random.random() < 0.6 else f"{prefix} {self.random.choice(NAMES)} {self.count}"

    def placed(self, prefix):
        return f"{quoted(self.random.choice(self.schemas))}.{quoted(self.name(prefix))}"

    def enum(self):
        name, labels = self.placed("kind"), self.random.sample(["sad", "ok", "it's", "Größe", "x y"], 3)
        self.do(f"create type {name} as enum ({', '.join(map(literal, labels))})")
        self.enums.append((name, labels))

    def column(self, name):
        ty = self.random.choice(TYPES)
        enum = self.random.choice(self.enums) if ty == "enum" else None
        return Column(name, ty, enum)

    def type_of(self, column):
        return column.enum[0] if column.enum else column.ty

    # --- Values and expressions -------------------------------------------------------------------

    def constant(self, kind, enum=None, typed=False):
        """A constant of a kind, often with its type."""
        choose = self.random
        bare, ty = {
            "int": lambda: (str(choose.choice([0, 1, -1, 42, -7])), None),
            "bigint": lambda: (str(choose.choice([0, -1, 3000000000, -3000000000])), "bigint"),
            "numeric": lambda: (choose.choice(["0", "1.50", "-2.5", "1e3", "12345678.901234567890"]), None),
            "float8": lambda: (choose.choice(["0", "0.1", "-1e10", "2.5"]), None),
            "text": lambda: (literal(choose.choice(WORDS)), "text"),
            "varchar": lambda: (literal(choose.choice(["a", "b'c", ""])), "varchar"),
            "boolean": lambda: (choose.choice(["true", "false"]), None),
            "date": lambda: (literal(choose.choice(["2024-02-29", "1999-12-31"])), "date"),
            "time": lambda: (literal(choose.choice(["10:00:00", "23:59:59.5"])), "time"),
            "timestamp": lambda: (literal("2024-02-29 10:00:00"), "timestamp"),
            "timestamptz": lambda: (literal("2024-02-29 10:00:00+00"), "timestamptz"),
            "interval": lambda: (literal(choose.choice(["1 day", "02:00:00", "1 mon"])), "interval"),
            "json": lambda: (literal('{"a": [1, "x"]}'), "json"),
            "jsonb": lambda: (literal(choose.choice(['{"a": [1, "it\'s"]}', "[]", "null"])), "jsonb"),
            "uuid": lambda: (literal("5b0c0a3e-1c53-4b0f-9d5e-0f3ad0b3a111"), "uuid"),
            "bytea": lambda: (literal("\\x00ff"), "bytea"),
            "int[]": lambda: choose.choice([(literal("{1,2}"), "int[]"), ("array[1, 2]", None)]),
            "text[]": lambda: choose.choice([(literal('{a,"b c"}'), "text[]"), ("array['a', 'it''s']", None)]),
            "enum": lambda: (literal(choose.choice(enum[1])), enum[0]),
        }[kind]()
        return f"{bare}::{ty}" if ty and (typed or choose.random() < 0.7) else bare

    def value(self, columns, kind, depth=0):
        """An immutable expression of a kind over columns."""
        choose = self.random
        own = [str(c) for c in columns if c.kind == kind and kind != "enum"]
        if own and choose.random() < (0.4 if depth < 2 else 0.8):
            return choose.choice(own)
        if depth > 2 or choose.random() < 0.25:
            return self.constant(kind, typed=True)
        deeper = lambda kind: self.value(columns, kind, depth + 1)  # noqa: E731
        forms = {
            "int": ["{int} + {int}", "({int} - 1) * {int}", "length({text})", "coalesce({int}, 0)", "abs({int})", "- {int}",
                    "case when {boolean} then {int} else 2 end", "case {int} when 1 then 10 end", "position('a' in {text})",
                    "greatest({int}, 3)", "nullif({int}, 0)", "{int} % 7", "strpos({text}, 'x')", "({int[]})[1]", "array_length({int[]}, 1)",
                    "{int} & 255", "extract(year from {date})::int"],
            "bigint": ["{int}::bigint", "{bigint} * 2", "{int} + {bigint}", "coalesce({bigint}, {int})"],
            "numeric": ["{numeric} + {int}", "round({numeric}, 2)", "{numeric} / 2.5", "coalesce({numeric}, 0)", "{int}::numeric(10,2)",
                        "abs({numeric})", "greatest({numeric}, {int}, 1.5)", "- ({numeric})"],
            "float8": ["{float8} * 2", "{float8} + {numeric}", "sqrt(abs({float8}))", "{int} / 2.0::float8", "({float8})::float8"],
            "text": ["lower({text})", "{text} || 'x'", "{varchar} || {text}", "upper({varchar})", "coalesce({text}, {varchar}, 'none')",
                     "substr({text}, 1, 2)", "substring({text} from 2 for 3)", "trim({text})", "trim(both 'x' from {text})", "left({text}, 3)",
                     "replace({text}, 'a', 'b''c')", "case when {boolean} then 'yes' when {int} > 3 then {text} end", "{int}::text",
                     "({jsonb} ->> 'a')", "({jsonb} #>> '{{a,b}}')", "md5({text})", "overlay({text} placing 'q' from 2 for 1)", "({text[]})[1]",
                     "lpad({text}, 5, '*')", "{text} collate \"C\"", "split_part({text}, ',', 1)", "nullif({text}, '')", "{varchar}::text",
                     "{int} || ' and ' || {text}", "reverse({text})"],
            "varchar": ["{text}::varchar", "({text})::varchar(5)"],
            "boolean": ["{int} > {int}", "{text} = 'a'", "{varchar} <> ''", "{text} like 'a%'", "{varchar} not like '_b%'", "{text} ilike 'A_'",
                        "not {boolean}", "{boolean} and {boolean}", "({boolean} or {boolean}) and {boolean}", "{int} in (1, 2, 3)",
                        "{text} in ('a', 'b''c')", "{varchar} not in ('x', 'y')", "{int} between 1 and 10", "{int} is null", "{text} is not null",
                        "{boolean} is true", "{boolean} is not false", "{int} is distinct from {int}", "{text} is not distinct from 'x'",
                        "{numeric} >= 0", "{float8} < 1", "{date} > '2020-01-01'", "{date} >= date '2020-01-01'", "{timestamp} < '2030-01-01'",
                        "{jsonb} ? 'a'", "{jsonb} @> '{{\"a\": 1}}'", "{text} ~ '^[a-z]+$'", "{text} !~* 'X'", "{int} = any (array[1, 2])",
                        "{text} <> all ('{{a,b}}')", "{int[]} @> array[1]", "{text[]} && array['a', 'b']", "{uuid} <> '5b0c0a3e-1c53-4b0f-9d5e-0f3ad0b3a111'",
                        "{interval} > '1 hour'", "starts_with({text}, 'a')", "{text} similar to 'a|b'", "{int} in ({int}, 5)", "{bigint} > 5",
                        "{text} like 'a!%' escape '!'", "{time} < '12:00'", "length({varchar}) < 100", "{numeric} in (1, 2.5)", "{int} = 1.5"],
            "date": ["{date} + 1", "{date} - {int}", "coalesce({date}, '2000-01-01')", "{timestamp}::date"],
            "time": ["{time} + '1 hour'", "{timestamp}::time"],
            "timestamp": ["{timestamp} + interval '1 day'", "{date} + {time}", "date_trunc('day', {timestamp})", "{date}::timestamp",
                          "{timestamptz} at time zone 'UTC'", "{timestamp} - '01:00'::interval"],
            "timestamptz": ["{timestamp} at time zone 'UTC'", "coalesce({timestamptz}, '2024-01-01 00:00:00+00')"],
            "interval": ["{timestamp} - {timestamp}", "{interval} * 2", "- {interval}", "make_interval(days => 1)", "justify_days({interval})"],
            "jsonb": ["{jsonb} -> 'a'", "{jsonb} || '{{\"b\": 2}}'", "{jsonb} - 'a'", "jsonb_build_object('a', {int})", "to_jsonb({text})",
                      "({jsonb} -> 0)", "{jsonb} #> '{{a,0}}'", "jsonb_set({jsonb}, '{{a}}', '1')"],
            "int[]": ["array[{int}, 2]", "{int[]} || 5", "array_append({int[]}, {int})", "({int[]})[1:2]"],
            "text[]": ["array[{text}, 'b']", "{text[]} || '{{c}}'", "string_to_array({text}, ',')"],
        }.get(kind)
        if forms is None:
            return self.constant(kind, typed=True)
        form = choose.choice(forms)
        for inner in ("smallint", "int", "bigint", "numeric", "float8", "text", "varchar", "boolean", "date", "time", "timestamp", "timestamptz",
                      "interval", "jsonb", "uuid", "int[]", "text[]"):
            while "{" + inner + "}" in form:
                part = deeper(inner)
                form = form.replace("{" + inner + "}", part if part.isalnum() else f"({part})", 1)
        return form.replace("{{", "{").replace("}}", "}")

    def default(self, column):
        choose = self.random
        kind = column.kind
        volatile = {
            "timestamptz": ["now()", "current_timestamp", "clock_timestamp()"], "date": ["current_date", "now()::date"],
            "timestamp": ["localtimestamp", "now()"], "uuid": ["gen_random_uuid()"], "float8": ["random()"], "text": ["current_user", "session_user"],
            "int": ["(random() * 10)::int", "floor(random() * 6)::int + 1"], "time": ["localtime"],
        }.get(kind, [])
        if volatile and choose.random() < 0.4:
            return choose.choice(volatile)
        if choose.random() < 0.3 and kind not in ("enum", "json", "varchar"):
            return self.value([], kind)
        return self.constant(kind, column.enum)

    # --- Objects ----------------------------------------------------------------------------------

    def table(self):
        choose = self.random
        name = self.placed("t")
        columns = [self.column(n) for n in choose.sample(NAMES, choose.randint(3, 7))]
        parts = []
        if choose.random() < 0.8:
            key = Column("id", "int")
            key.key = True
            key.fixed = choose.choice(["", " generated always as identity", " generated by default as identity (start 5 increment 3)", "serial"])
            columns.insert(0, key)
            ty = "serial" if key.fixed == "serial" else f"int{key.fixed}"
            timing = choose.choice(["", "", " deferrable", " deferrable initially deferred"])
            parts.append(f"id {ty} primary key{timing}")
        plain = [c for c in columns if not c.key]
        computed = []
        for column in plain:
            text = f"{column} {self.type_of(column)}"
            sources = [c for c in columns if c not in computed and c is not column]
            if column.kind not in ("enum", "json", "uuid", "bytea", "varchar") and "(" not in column.ty and column.ty not in ("smallint", "real") \
                    and choose.random() < 0.25:
                computed.append(column)
                column.fixed = True
                text += f" generated always as ({self.value(sources, column.kind)}) stored"
            else:
                if choose.random() < 0.5:
                    text += f" default {self.default(column)}"
                if choose.random() < 0.2:
                    text += " not null"
                if choose.random() < 0.1 and column.kind in ("int", "bigint", "text", "date", "uuid"):
                    text += choose.choice([" unique", " unique deferrable", " unique nulls not distinct"])
            parts.append(text)
        for _ in range(choose.randint(0, 3)):
            named = f"constraint {quoted(self.name('ck'))} " if choose.random() < 0.5 else ""
            condition = f"({self.value(columns, 'boolean')}) or {columns[-1]} is null or {columns[-1]} is not null"
            enum = next((c for c in columns if c.enum), None)
            if enum and choose.random() < 0.5:
                labels = ", ".join(f"{literal(label)}{choose.choice(['', '::' + enum.enum[0]])}" for label in enum.enum[1])
                condition = choose.choice([f"{enum} in ({labels})", f"{enum} >= {literal(enum.enum[1][0])} or true", f"{enum} is not null or true"])
            parts.append(f"{named}check ({condition})")
        self.do(f"create table {name} ({', '.join(parts)})")
        self.tables[name] = columns
        given = [c for c in columns if not c.fixed]
        for n in range(choose.randint(0, 3)):
            values = [str(n) if c.key else "'ab'" if c.ty == "char(3)" else self.constant(c.kind, c.enum) for c in given]
            self.do(f"insert into {name} ({', '.join(map(str, given))}) values ({', '.join(values)})" if given else f"insert into {name} default values")

    def keyed(self):
        return [name for name, columns in self.tables.items() if columns[0].key]

    def foreign_key(self):
        choose = self.random
        if not self.keyed():
            return
        child, parent = choose.choice(list(self.tables)), choose.choice(self.keyed())
        column = quoted(self.name("ref"))
        actions = choose.choice(["", " on delete cascade", " on update cascade on delete set null", " on delete restrict"])
        timing = choose.choice(["", " deferrable initially deferred", " deferrable"])
        self.do(f"alter table {child} add column {column} int references {parent} (id){actions}{timing}")

    def index(self):
        choose = self.random
        table = choose.choice(list(self.tables))
        columns = self.tables[table]
        ordered = [c for c in columns if c.kind not in ("json", "jsonb", "int[]", "text[]")] or columns[:1]
        parts = [choose.choice([str(choose.choice(ordered)) + choose.choice(["", " desc", " nulls first", " desc nulls last"]),
                                f"({self.value(columns, choose.choice(['int', 'text', 'boolean', 'date', 'numeric']))})",
                                f"lower({self.value(columns, 'text')})"]) for _ in range(choose.randint(1, 3))]
        where = f" where {self.value(columns, 'boolean')}" if choose.random() < 0.4 else ""
        include = f" include ({choose.choice(ordered)})" if choose.random() < 0.2 else ""
        self.do(f"create index {quoted(self.name('ix'))} on {table} ({', '.join(parts)}){include}{where}")

    def view(self):
        choose = self.random
        table = choose.choice(list(self.tables))
        columns = self.tables[table]
        named = [Column(c.name, c.ty, c.enum) for c in columns]
        picked = [f"{self.value(named, choose.choice(['int', 'text', 'boolean', 'numeric', 'timestamp', 'jsonb']))} as {quoted(self.name('v'))}"
                  for _ in range(choose.randint(1, 3))]
        plain = choose.sample([str(c) for c in columns], choose.randint(1, len(columns)))
        condition = f" where {self.value(named, 'boolean')}" if choose.random() < 0.5 else ""
        grouped = f"select {plain[0]}, count(*) as n from {table} group by {plain[0]} order by 2, {plain[0]} is null"
        query = choose.choice([
            f"select {', '.join(plain + picked)} from {table}{condition}", f"select * from {table}{condition}",
            f"with w as (select {', '.join(plain + picked)} from {table}) select * from w",
            f"select {', '.join(plain)} from {table} union all select {', '.join(plain)} from {table}{condition}",
            f"select x.{plain[0]}, row_number() over (order by x.{plain[0]} is null) as r from {table} x where exists (select 1 from {table} y)",
            grouped if not any(c.kind == "json" for c in columns) else f"select {', '.join(picked)} from {table}",
        ])
        kind = choose.choice(["view", "view", "materialized view"])
        self.do(f"create {kind} {self.placed('v')} as {query}")

    def rest(self):
        choose = self.random
        for table, columns in self.tables.items():
            if choose.random() < 0.4:
                self.do(f"comment on table {table} is {literal(choose.choice(WORDS) or 'x')}")
            if choose.random() < 0.4:
                self.do(f"comment on column {table}.{columns[-1]} is {literal(choose.choice(WORDS) or 'x')}")
            if choose.random() < 0.3:
                self.do(f"grant select, insert on {table} to public")
            if choose.random() < 0.2:
                self.do(f"grant update ({columns[0]}) on {table} to public")
            if choose.random() < 0.2 and not columns[-1].key:
                self.do(f"alter table {table} alter column {columns[-1]} drop not null")
        if choose.random() < 0.6:
            self.do(f"create sequence {self.placed('s')} as {choose.choice(['int', 'bigint', 'smallint'])} start 7 increment 2")
