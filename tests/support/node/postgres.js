// Drives node-postgres and Drizzle: checks by their names, each on a server and database of its own. See support/checks.py.

const assert = require("node:assert/strict");
const fs = require("node:fs");
const path = require("node:path");
const readline = require("node:readline");
const { Client, Pool, types } = require("pg");
const { drizzle } = require("drizzle-orm/node-postgres");
const { migrate } = require("drizzle-orm/node-postgres/migrator");
const { and, count, desc, eq, gt, inArray, relations, sql, sum } = require("drizzle-orm");
const pg = require("drizzle-orm/pg-core");

const checks = {
  async parameters(c) {
    await c.query("create table t (id serial primary key, s text, n numeric(10,2), f float8, b boolean, d timestamptz, x bytea, l bigint)");
    const at = new Date("2024-03-31T01:30:00.123Z");
    const put = await c.query(
      "insert into t (s, n, f, b, d, x, l) values ($1, $2, $3, $4, $5, $6, $7) returning *",
      ["Größe 🐸", "1.50", 0.1, true, at, Buffer.from([0, 255]), "9223372036854775807"]);
    assert.deepEqual(put.rows, [{
      id: 1, s: "Größe 🐸", n: "1.50", f: 0.1, b: true, d: at, x: Buffer.from([0, 255]), l: "9223372036854775807" }]);
    assert.deepEqual([put.command, put.rowCount], ["INSERT", 1]);
    assert.deepEqual(put.fields.map((field) => field.dataTypeID), [23, 25, 1700, 701, 16, 1184, 17, 20]);
    const none = await c.query("select * from t where s = $1", [null]);
    assert.equal(none.rowCount, 0);
  },

  async preparedByName(c) {
    await c.query("create table t (id int primary key, v text)");
    for (let i = 0; i < 10; i++) await c.query({ name: "put", text: "insert into t values ($1, $2)", values: [i, `v${i}`] });
    const rows = await c.query({ name: "get", text: "select v from t where id > $1 order by id", values: [7], rowMode: "array" });
    assert.deepEqual(rows.rows, [["v8"], ["v9"]]);
  },

  async binaryResults(unused, options) {
    const c = new Client({ ...options, binary: true });
    await c.connect();
    const { rows } = await c.query("select 1::int4 as a, 'x'::text as b, true as c, 1.5::float8 as d", []);
    assert.deepEqual(rows, [{ a: 1, b: "x", c: true, d: 1.5 }]);
    await c.end();
  },

  async severalStatements(c) {
    const results = await c.query("create table t (id int); insert into t values (1), (2); select * from t order by id");
    assert.deepEqual(results.map((r) => r.command), ["CREATE", "INSERT", "SELECT"]);
    assert.equal(results[2].rows.length, 2);
  },

  async transactions(c) {
    await c.query("create table t (id int primary key)");
    await c.query("begin");
    await c.query("insert into t values (1)");
    await assert.rejects(c.query("insert into t values (1)"), { code: "23505", constraint: "t_pkey", table: "t", schema: "public" });
    await assert.rejects(c.query("select 1"), { code: "25P02" });
    await c.query("rollback");
    assert.equal((await c.query("select count(*)::int as n from t")).rows[0].n, 0);
  },

  async pool(unused, options) {
    const pool = new Pool({ ...options, max: 5 });
    await pool.query("create table t (id int primary key, v int)");
    await pool.query("insert into t values (1, 0)");
    await Promise.all(Array.from({ length: 50 }, () => pool.query("update t set v = v + $1 where id = 1", [1])));
    assert.equal((await pool.query("select v from t")).rows[0].v, 50);
    await pool.end();
  },

  async dates(c) {
    types.setTypeParser(1082, (text) => text);
    const { rows } = await c.query("select $1::date as d, $2::time as t, $3::interval as i", ["2024-02-29", "10:00", "1 day 2 hours"]);
    assert.equal(rows[0].d, "2024-02-29");
    assert.equal(rows[0].t, "10:00:00");
    assert.deepEqual({ ...rows[0].i }, { days: 1, hours: 2 });
  },

  async arrays(c) {
    await c.query("create table t (a int[], s text[])");
    const { rows } = await c.query("insert into t values ($1, $2) returning *", [[1, null, 3], ["x", 'a "quoted", one']]);
    assert.deepEqual(rows, [{ a: [1, null, 3], s: ["x", 'a "quoted", one'] }]);
  },

  async anyOfAnArray(c) {
    await c.query("create table t (id int primary key); insert into t values (1), (2), (3)");
    assert.equal((await c.query("select * from t where id = any($1)", [[1, 3, 9]])).rowCount, 2);
    assert.equal((await c.query("select * from t where id = any($1::int[])", [[]])).rowCount, 0);
  },

  async json(c) {
    await c.query("create table t (j jsonb)");
    const { rows } = await c.query("insert into t values ($1) returning j, j->'a'->>0 as a", [{ a: [1, null] }]);
    assert.deepEqual(rows, [{ j: { a: [1, null] }, a: "1" }]);
  },

  async listen(c, options) {
    const heard = new Promise((resolve) => c.on("notification", resolve));
    await c.query("listen frogs");
    const other = new Client(options);
    await other.connect();
    await other.query("select pg_notify('frogs', $1)", ["quak"]);
    await other.end();
    const { channel, payload } = await heard;
    assert.deepEqual([channel, payload], ["frogs", "quak"]);
  },

  async timeout(unused, options) {
    const c = new Client({ ...options, statement_timeout: 100 });
    await c.connect();
    await assert.rejects(c.query("select pg_sleep(30)"), { code: "57014" });
    await c.end();
  },

  // Drizzle's own migrator: a table of what was applied, in a schema of its own.
  async drizzleMigrate(c) {
    await migrate(drizzle(c), { migrationsFolder: path.join(__dirname, "drizzle") });
    await migrate(drizzle(c), { migrationsFolder: path.join(__dirname, "drizzle") });
    const { rows } = await c.query("select count(*)::int as n from drizzle.__drizzle_migrations");
    assert.equal(rows[0].n, 4);
  },

  async drizzleHistory(c) {
    await apply(c);
    const { rows } = await c.query(
      "select column_name, data_type, is_nullable from information_schema.columns where table_name = 'frog' order by ordinal_position");
    assert.deepEqual(rows.map((row) => Object.values(row).join(" ")), [
      "id integer NO", "name character varying NO", "pond_id integer YES", "born timestamp with time zone NO", "grams integer NO"]);
  },

  async drizzleQueries(c) {
    await apply(c);
    const db = drizzle(c, { schema });
    const [pond] = await db.insert(schema.pond).values({ title: "Deep", depth: "12.50" }).returning();
    assert.equal(pond.depth, "12.50");
    await db.insert(schema.frog).values([
      { name: "Anna", pondId: pond.id, grams: 10 }, { name: "Otto", pondId: pond.id, grams: 20 }, { name: "Ulf", grams: 30 }]);
    const heavy = await db.select({ name: schema.frog.name, title: schema.pond.title }).from(schema.frog)
      .leftJoin(schema.pond, eq(schema.frog.pondId, schema.pond.id)).where(gt(schema.frog.grams, 10)).orderBy(desc(schema.frog.grams));
    assert.deepEqual(heavy, [{ name: "Ulf", title: null }, { name: "Otto", title: "Deep" }]);
    const groups = await db.select({ pond: schema.frog.pondId, n: count(), grams: sum(schema.frog.grams) }).from(schema.frog)
      .groupBy(schema.frog.pondId).orderBy(schema.frog.pondId);
    assert.deepEqual(groups, [{ pond: pond.id, n: 2, grams: "30" }, { pond: null, n: 1, grams: "30" }]);
    await db.insert(schema.pond).values({ id: pond.id, title: "Deeper" }).onConflictDoUpdate({
      target: schema.pond.id, set: { title: sql`excluded.title || '!'` } });
    const changed = await db.update(schema.frog).set({ grams: sql`${schema.frog.grams} + 1` })
      .where(and(inArray(schema.frog.name, ["Anna", "Otto"]), gt(schema.frog.grams, 15))).returning({ grams: schema.frog.grams });
    assert.deepEqual(changed, [{ grams: 21 }]);
    await assert.rejects(db.transaction(async (tx) => {
      await tx.delete(schema.frog);
      await tx.transaction(async (inner) => { await inner.insert(schema.pond).values({ title: "nested" }); });
      tx.rollback();
    }));
    assert.equal((await db.select().from(schema.frog)).length, 3);
  },

  // Drizzle's relational queries are one statement of lateral joins and json.
  async drizzleRelations(c) {
    await apply(c);
    const db = drizzle(c, { schema });
    const [pond] = await db.insert(schema.pond).values({ title: "Deep" }).returning();
    await db.insert(schema.frog).values([{ name: "Anna", pondId: pond.id, grams: 1 }, { name: "Otto", pondId: pond.id, grams: 2 }]);
    const found = await db.query.pond.findMany({ columns: { title: true }, with: { frogs: { columns: { name: true }, orderBy: schema.frog.id } } });
    assert.deepEqual(found, [{ title: "Deep", frogs: [{ name: "Anna" }, { name: "Otto" }] }]);
  },

  // What `drizzle-kit push` does: reads the database's tables, and finds that there is nothing to change.
  async drizzleKitIntrospects(c) {
    await apply(c);
    const { pushSchema } = require("drizzle-kit/api");
    const { statementsToExecute } = await pushSchema({ pond: schema.pond, frog: schema.frog }, drizzle(c));
    assert.deepEqual(statementsToExecute, []);
  },
};

const pond = pg.pgTable("pond", {
  id: pg.serial().primaryKey(), title: pg.text().notNull(), depth: pg.numeric({ precision: 6, scale: 2 }).default("1"),
});
const frog = pg.pgTable("frog", {
  id: pg.serial().primaryKey(), name: pg.varchar({ length: 40 }).notNull(),
  pondId: pg.integer("pond_id").references(() => pond.id, { onDelete: "cascade" }),
  born: pg.timestamp({ withTimezone: true }).defaultNow().notNull(), grams: pg.integer().notNull(),
}, (table) => [pg.index("heaviest").on(table.pondId, table.grams), pg.unique("frog_name_pond").on(table.name, table.pondId)]);
const schema = {
  pond, frog,
  pondRelations: relations(pond, ({ many }) => ({ frogs: many(frog) })),
  frogRelations: relations(frog, ({ one }) => ({ pond: one(pond, { fields: [frog.pondId], references: [pond.id] }) })),
};

// The history's statements without the migrator's table.
async function apply(c) {
  for (const { tag } of require("./drizzle/meta/_journal.json").entries) {
    const text = fs.readFileSync(path.join(__dirname, "drizzle", `${tag}.sql`), "utf8");
    for (const statement of text.split("--> statement-breakpoint")) await c.query(statement);
  }
}

// drizzle-kit talks on standard output, and ends the process when a query of its fails.
const say = process.stdout.write.bind(process.stdout);
let chatter = "";
process.stdout.write = (text) => Boolean((chatter = `${text}`));
process.exit = (code) => { throw new Error(`exit ${code}: ${chatter}`); };

async function outcome(line) {
  const [, host, port, database, check] = /^(.*):(\d+)\/(\S+) (\w+)$/.exec(line);
  const options = { host, port: Number(port), database, user: "postgres" };
  const c = new Client(options);
  try {
    await c.connect();
    await checks[check](c, options);
    return "passed";
  } catch (error) {
    return `failed ${error.stack} ${error.cause ? error.cause.stack : ""}`.replaceAll("\n", " ");
  } finally {
    await c.end().catch(() => {});
  }
}

(async () => {
  for await (const line of readline.createInterface({ input: process.stdin })) say(`${await outcome(line)}\n`);
})();
