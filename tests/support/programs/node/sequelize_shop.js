// Sequelize: sync, migrations up and down by umzug, its queries, transactions and look at the catalog.
const { Sequelize, DataTypes, Op } = require("sequelize");
const { Umzug, SequelizeStorage } = require("umzug");
const { run, show } = require("./program.js");

run(async (url) => {
  const db = new Sequelize(url, { logging: false, timezone: "+00:00" });
  const queries = db.getQueryInterface();
  const Customer = db.define("customer", {
    name: { type: DataTypes.STRING(80), allowNull: false, unique: true },
    mood: { type: DataTypes.ENUM("sad", "ok", "happy"), defaultValue: "ok" },
    tags: { type: DataTypes.ARRAY(DataTypes.TEXT), defaultValue: [] },
    extra: { type: DataTypes.JSONB, defaultValue: { a: 1 } },
    key: { type: DataTypes.UUID, defaultValue: "5b0c0a3e-1c53-4b0f-9d5e-0f3ad0b3a111" },
  }, { underscored: true });
  const Order = db.define("order", {
    amount: { type: DataTypes.DECIMAL(10, 2), allowNull: false, validate: { min: 0 } },
    placed: { type: DataTypes.DATE, allowNull: false },
    day: DataTypes.DATEONLY,
    paid: { type: DataTypes.BOOLEAN, defaultValue: false },
  }, { underscored: true, timestamps: false, indexes: [{ fields: ["placed"] }, { unique: true, fields: ["customer_id", "placed"] }] });
  Customer.hasMany(Order, { foreignKey: "customer_id", onDelete: "CASCADE" });
  Order.belongsTo(Customer, { foreignKey: "customer_id" });
  await db.authenticate();
  await db.sync({ force: true });
  await db.sync({ alter: true });

  const anna = await Customer.create({ name: "Anna", tags: ["a", "b,c"], mood: "happy" });
  await Customer.bulkCreate([{ name: "Ben" }, { name: "Cleo", extra: { a: [1, 2], b: { c: "x" } } }]);
  await Customer.upsert({ name: "Ben", mood: "sad" }, { conflictFields: ["name"] });
  for (let n = 1; n <= 4; n++) {
    await anna.createOrder({ amount: n * 1.5, placed: new Date(Date.UTC(2024, 0, n)), day: `2024-01-0${n}` });
  }
  show("with orders", await Customer.findAll({
    include: [Order], order: ["id", [Order, "id", "DESC"]], attributes: ["id", "name", "mood", "tags", "extra", "key"],
  }));
  show("json path", await Customer.count({ where: { "extra.b.c": "x" } }));
  show("array", await Customer.findAll({ where: { tags: { [Op.contains]: ["a"] } }, attributes: ["name"] }));
  show("ilike", await Customer.findAll({ where: { name: { [Op.iLike]: "%E%" } }, order: ["name"], attributes: ["name"] }));
  show("page", await Order.findAndCountAll({ limit: 2, offset: 1, order: [["placed", "DESC"]] }));
  show("sums", await Order.findAll({
    attributes: ["customer_id", [db.fn("sum", db.col("amount")), "total"], [db.fn("date_trunc", "month", db.col("placed")), "month"]],
    group: ["customer_id", "month"],
  }));
  show("updated", await Order.update({ paid: true }, { where: { amount: { [Op.gt]: 3 } }, returning: true }));
  await Order.increment("amount", { by: 10, where: { paid: true } });
  try {
    await db.transaction(async (transaction) => {
      await Order.destroy({ where: {}, transaction });
      await Customer.create({ name: "Anna" }, { transaction });
    });
  } catch (error) {
    show("refused", [error.name, error.parent.code, error.fields]);
  }
  // findOrCreate makes a function of its own, which is not supported.
  show("found or made", (await Customer.findCreateFind({ where: { name: "Dora" } }))[1]);
  show("left", await Order.findAll({ order: ["id"] }));

  const migrations = new Umzug({
    migrations: [
      {
        name: "1-address", up: async () => {
          await queries.addColumn("customers", "address", { type: DataTypes.STRING, defaultValue: "none", allowNull: false });
          await queries.changeColumn("customers", "address", { type: DataTypes.TEXT, allowNull: true });
          await queries.renameColumn("customers", "address", "street");
          await queries.addIndex("customers", ["street", "name"], { name: "by_street", where: { mood: "ok" } });
        },
        down: async () => {
          await queries.removeIndex("customers", "by_street");
          await queries.removeColumn("customers", "street");
        },
      },
      {
        name: "2-parcels", up: async () => {
          await queries.createTable("parcels", {
            id: { type: DataTypes.BIGINT, autoIncrement: true, primaryKey: true },
            order_id: { type: DataTypes.INTEGER, references: { model: "orders", key: "id" }, onUpdate: "CASCADE" },
            weight: DataTypes.DOUBLE,
          });
          await queries.addConstraint("parcels", { type: "check", fields: ["weight"], where: { weight: { [Op.gte]: 0 } }, name: "heavy" });
          await queries.renameTable("parcels", "packets");
        },
        down: () => queries.dropTable("packets"),
      },
    ],
    context: queries, storage: new SequelizeStorage({ sequelize: db }), logger: undefined,
  });
  show("up", (await migrations.up()).map((migration) => migration.name));
  const tables = async () => (await queries.showAllTables()).map((table) => table.tableName || table).sort();
  show("tables", await tables());
  for (const table of ["customers", "orders", "packets"]) {
    // In whatever order they are found.
    show(`columns of ${table}`, Object.fromEntries(Object.entries(await queries.describeTable(table)).sort()));
    const indexes = await queries.showIndex(table);
    show(`indexes of ${table}`, indexes.map(({ name, primary, unique, fields, definition }) => ({ name, primary, unique, fields, definition }))
      .sort((a, b) => (a.name < b.name ? -1 : 1)));
    show(`keys of ${table}`, (await queries.getForeignKeyReferencesForTable(table)).map(({ constraintName, columnName, referencedTableName, referencedColumnName }) =>
      ({ constraintName, columnName, referencedTableName, referencedColumnName })));
  }
  show("down", (await migrations.down({ to: 0 })).map((migration) => migration.name));
  show("tables", await tables());
  await db.drop({});
  show("tables", await tables());
  await db.close();
});
