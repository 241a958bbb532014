// TypeORM: synchronize, migrations that it generates itself, up and down, repositories, query builder.
const { DataSource, EntitySchema, In, MoreThan, ILike, ArrayContains } = require("typeorm");
const { run, show } = require("./program.js");

const Author = new EntitySchema({
  name: "Author", tableName: "author",
  columns: {
    id: { type: Number, primary: true, generated: "increment" },
    name: { type: "varchar", length: 50, unique: true },
    kind: { type: "enum", enum: ["poet", "liar"], default: "poet", enumName: "author_kind" },
    tags: { type: "text", array: true, default: "{}" },
    numbers: { type: "int", array: true, nullable: true },
    facts: { type: "jsonb", default: {} },
    born: { type: "date", nullable: true },
    seen: { type: "timestamp with time zone", default: () => "'2024-01-01 00:00:00+00'" },
    rate: { type: "numeric", precision: 6, scale: 2, default: "1.5" },
    version: { type: Number, version: true },
    deleted: { type: "timestamp", deleteDate: true, nullable: true },
  },
  relations: { books: { type: "one-to-many", target: "Book", inverseSide: "author", cascade: true } },
  checks: [{ name: "rated", expression: '"rate" >= 0' }],
});
const bookColumns = {
  id: { type: "uuid", primary: true, default: "5b0c0a3e-1c53-4b0f-9d5e-0f3ad0b3a111" },
  title: { type: "text", default: "" },
  pages: { type: "smallint", default: 100 },
  size: { type: "bigint", nullable: true },
};
const relations = { author: { type: "many-to-one", target: "Author", inverseSide: "books", onDelete: "CASCADE", nullable: false } };
const Book = new EntitySchema({ name: "Book", tableName: "book", columns: bookColumns, relations, indices: [{ columns: ["title"] }] });
const Longer = new EntitySchema({
  name: "Book", tableName: "book",
  columns: { ...bookColumns, title: { type: "varchar", length: 200, default: "none" }, isbn: { type: "varchar", nullable: true, comment: "a number" } },
  relations, indices: [{ columns: ["title", "pages"], unique: true }],
});
const Thick = new EntitySchema({
  name: "Thick", tableName: "thick", type: "view", expression: 'select "title", "pages" from "book" where "pages" > 150',
  columns: { title: { type: "varchar" }, pages: { type: "smallint" } },
});

run(async (url) => {
  const options = { type: "postgres", url, logging: false, installExtensions: false, uuidExtension: "pgcrypto" };
  let db = await new DataSource({ ...options, entities: [Author, Book], synchronize: true }).initialize();
  const pending = async (db) => (await db.driver.createSchemaBuilder().log()).upQueries.map((query) => query.query);
  show("in step", await pending(db));
  const authors = db.getRepository("Author"), books = db.getRepository("Book");
  await authors.save({
    name: "Ada", tags: ["x", 'y "z"'], numbers: [1, 2], facts: { a: { b: [1] } }, born: "1815-12-10",
    books: [{ id: "00000000-0000-0000-0000-000000000001", title: "One", size: "9007199254740993" }, { id: "00000000-0000-0000-0000-000000000002", title: "Two", pages: 200 }],
  });
  await authors.insert([{ name: "Bob", kind: "liar" }, { name: "Cy", rate: 9.99 }]);
  await authors.upsert([{ name: "Cy", rate: 3.25 }, { name: "Di" }], ["name"]);
  const columns = { id: true, name: true, kind: true, tags: true, numbers: true, facts: true, born: true, seen: true, rate: true, version: true };
  show("all", await authors.find({ select: columns, relations: { books: true }, order: { id: "ASC", books: { id: "ASC" } } }));
  show("where", await authors.find({ select: { name: true }, where: [{ rate: MoreThan(2) }, { name: ILike("a%") }, { tags: ArrayContains(["x"]) }], order: { name: "ASC" } }));
  show("page", await books.findAndCount({ where: { author: { name: In(["Ada", "Bob"]) } }, order: { title: "DESC" }, take: 1, skip: 1, relations: { author: true }, select: { id: true, title: true, author: { name: true } } }));
  show("raw", await books.createQueryBuilder("b").innerJoin("b.author", "a").select("a.kind", "kind").addSelect("count(*)", "n").addSelect("sum(b.pages)", "pages").groupBy("a.kind").getRawMany());
  show("sub", await authors.createQueryBuilder("a").where((q) => "a.id IN " + q.subQuery().select("b.authorId").from("Book", "b").where("b.pages > :p", { p: 150 }).getQuery()).select(["a.name"]).getMany());
  const ada = await authors.findOneByOrFail({ name: "Ada" });
  ada.rate = "7.00";
  show("version", (await authors.save(ada)).version);
  await authors.softDelete({ name: "Bob" });
  show("alive", await authors.count());
  show("refused", await db.transaction(async (manager) => {
    await manager.getRepository("Book").clear().catch(() => {});
    await manager.getRepository("Author").insert({ name: "Ada" });
  }).catch((error) => [error.driverError.code, error.driverError.detail, error.driverError.constraint !== undefined]));
  show("books", await books.count());
  await db.destroy();

  db = await new DataSource({ ...options, entities: [Author, Longer, Thick] }).initialize();
  const { upQueries, downQueries } = await db.driver.createSchemaBuilder().log();
  show("to do", upQueries.map((query) => query.query));
  show("to undo", downQueries.map((query) => query.query));
  await db.destroy();
  class Longer1700000000000 {
    name = "Longer1700000000000";
    async up(runner) { for (const { query, parameters } of upQueries) await runner.query(query, parameters); }
    async down(runner) { for (const { query, parameters } of [...downQueries].reverse()) await runner.query(query, parameters); }
  }
  db = await new DataSource({ ...options, entities: [Author, Longer, Thick], migrations: [Longer1700000000000] }).initialize();
  show("run", (await db.runMigrations()).map((migration) => migration.name));
  show("in step", await pending(db));
  show("thick", await db.getRepository("Thick").find());
  await db.undoLastMigration();
  show("left to do", (await pending(db)).length);
  const runner = db.createQueryRunner();
  for (const name of ["author", "book"]) {
    const table = await runner.getTable(name);
    const byName = (list) => list.map((one) => ({ name: one.name, columns: one.columnNames, unique: one.isUnique, expression: one.expression, onDelete: one.onDelete, to: one.referencedTableName }))
      .sort((a, b) => (a.name < b.name ? -1 : 1));
    show(name, table.columns.map((c) => [c.name, c.type, c.length, c.precision, c.scale, c.default, c.isNullable, c.isArray, c.enum, c.isGenerated, c.isPrimary]));
    show(`${name}'s`, [byName(table.indices), byName(table.uniques), byName(table.checks), byName(table.foreignKeys)]);
  }
  await runner.release();
  await db.dropDatabase();
  await db.destroy();
});
