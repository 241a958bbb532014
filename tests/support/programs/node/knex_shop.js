// Knex: migrations up and down, its query builder, transactions with savepoints, streams.
const knex = require("knex");
const { run, show } = require("./program.js");

const steps = {
  "1_first": {
    up: async (db) => {
      await db.schema.createTable("users", (table) => {
        table.increments("id");
        table.string("email", 120).notNullable().unique();
        table.enu("role", ["admin", "user"], { useNative: true, enumName: "user_role" }).defaultTo("user");
        table.jsonb("settings").defaultTo("{}");
        table.specificType("scores", "integer[]");
        table.timestamps(true, true);
      });
      await db.schema.createTable("posts", (table) => {
        table.bigIncrements("id");
        table.integer("user_id").unsigned().references("id").inTable("users").onDelete("cascade").index();
        table.text("body").comment("what was said");
        table.decimal("price", 8, 3).defaultTo(0);
        table.boolean("hidden").notNullable().defaultTo(false);
        table.date("day");
        table.uuid("key");
        table.check("?? >= 0", ["price"], "no_debt");
      });
    },
    down: async (db) => {
      await db.schema.dropTable("posts");
      await db.schema.dropTable("users");
      await db.raw("drop type user_role");
    },
  },
  "2_second": {
    up: async (db) => {
      await db.schema.alterTable("posts", (table) => {
        table.string("title", 40).notNullable().defaultTo("none");
        table.renameColumn("body", "text");
        table.index(["user_id", "day"], "by_day");
        table.dropColumn("key");
      });
      await db.schema.alterTable("posts", (table) => {
        table.string("title", 80).nullable().alter();
        table.unique(["user_id", "title"], { indexName: "once" });
      });
      await db.schema.createView("visible", (view) => {
        view.columns(["id", "who"]);
        view.as(db("posts").join("users", "users.id", "posts.user_id").where({ hidden: false }).select("posts.id", "email"));
      });
    },
    down: async (db) => {
      await db.schema.dropView("visible");
      await db.schema.alterTable("posts", (table) => {
        table.dropUnique(["user_id", "title"], "once");
        table.dropIndex(["user_id", "day"], "by_day");
        table.renameColumn("text", "body");
        table.dropColumn("title");
        table.uuid("key");
      });
    },
  },
};

run(async (url) => {
  const db = knex({
    client: "pg", connection: url, pool: { min: 1, max: 3 },
    migrations: {
      migrationSource: {
        getMigrations: async () => Object.keys(steps), getMigrationName: (name) => name, getMigration: async (name) => steps[name],
      },
    },
  });
  show("up", (await db.migrate.latest())[1]);
  show("ids", await db("users").insert([{ email: "a@x", scores: [1, 2] }, { email: "b@x", role: "admin", settings: { dark: true } }], ["id", "email", "role", "settings", "scores"]));
  show("merged", await db("users").insert({ email: "a@x", role: "admin" }).onConflict("email").merge(["role"]).returning(["id", "role"]));
  show("ignored", (await db("users").insert({ email: "a@x" }).onConflict("email").ignore()).rowCount);
  await db("posts").insert([1, 2, 3, 4].map((n) => ({ user_id: (n % 2) + 1, text: `post ${n}`, title: `t${n}`, price: n / 8, day: `2024-02-0${n}` })));
  show("joined", await db("posts as p").leftJoin("users as u", "u.id", "p.user_id").whereIn("p.id", [1, 2, 3]).andWhere("p.price", ">", 0.1)
    .orderBy("p.id").select("p.id", "u.email", "p.price", db.raw("to_char(p.day, 'YYYY/MM/DD') as day")));
  show("grouped", await db("posts").groupBy("user_id").having(db.raw("count(*) > 1")).orderBy("user_id")
    .select("user_id").count("* as n").sum({ total: "price" }).max("title as last"));
  show("with", await db.with("top", db("posts").orderBy("price", "desc").limit(2)).from("top").select("id").union(db("posts").select("id").where("id", 1)).orderBy("id"));
  show("windowed", await db("posts").select("id").rank("place", (over) => over.orderBy("price", "desc").partitionBy("user_id")).orderBy("id"));
  show("json", await db("users").whereJsonPath("settings", "$.dark", "=", true).pluck("email"));
  show("subset", await db("users").whereJsonSupersetOf("settings", { dark: true }).pluck("email"));
  await db.transaction(async (transaction) => {
    await transaction("posts").where({ id: 1 }).forUpdate().update({ hidden: true });
    await transaction.transaction(async (inner) => {
      await inner("posts").del();
      throw new Error("no");
    }).catch((error) => show("inner", error.message));
    show("still", await transaction("posts").count());
  });
  const rows = [];
  for await (const row of db("visible").orderBy("id").stream()) rows.push(row);
  show("visible", rows);
  show("refused", await db("posts").insert({ price: -1 }).catch((error) => [error.code, error.constraint, error.table]));
  show("refused", await db("users").insert({ email: "b@x" }).catch((error) => [error.code, error.constraint, error.detail]));
  show("columns", await db("posts").columnInfo());
  show("has", [await db.schema.hasTable("posts"), await db.schema.hasColumn("posts", "text"), await db.schema.hasColumn("posts", "body")]);
  show("list", (await db.migrate.list()).map((part) => part.map((one) => one.name || one)));
  show("down", (await db.migrate.rollback(undefined, true))[1]);
  show("has", [await db.schema.hasTable("posts"), await db.schema.hasTable("users")]);
  await db.destroy();
});
