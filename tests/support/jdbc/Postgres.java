// Drives pgjdbc: checks by their names, each on a server and database of its own. See support/checks.py.

import java.io.*;
import java.math.BigDecimal;
import java.sql.*;
import java.time.*;
import java.util.*;

public class Postgres {
    static Connection connect(String address, String... options) throws SQLException {
        Properties properties = new Properties();
        properties.setProperty("user", "postgres");
        for (int i = 0; i < options.length; i += 2) properties.setProperty(options[i], options[i + 1]);
        return DriverManager.getConnection("jdbc:postgresql://" + address, properties);
    }

    static void same(Object expected, Object seen) {
        if (!Objects.equals(expected, seen)) throw new AssertionError("expected " + expected + ", saw " + seen);
    }

    /** The rows of a result, some of its columns, each row a line. */
    static String lines(ResultSet rows, String... columns) throws SQLException {
        StringBuilder text = new StringBuilder();
        while (rows.next()) {
            StringJoiner line = new StringJoiner("|");
            for (String column : columns) line.add(String.valueOf(rows.getObject(column)));
            text.append(line).append("\n");
        }
        return text.toString();
    }

    static void run(Connection c, String... statements) throws SQLException {
        try (Statement s = c.createStatement()) {
            for (String sql : statements) s.execute(sql);
        }
    }

    static final String[] TABLES = {
        "create table parent (id serial primary key, name varchar(20) not null unique)",
        "create table child (id bigint primary key, parent int references parent on delete cascade,"
            + " amount numeric(10,2) default 1.5, note text, code char(3), at timestamptz)",
        "create index by_note on child (note, amount)",
    };

    public static void main(String[] args) throws IOException {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null;) {
            String[] words = line.split(" ");
            System.out.println(outcome(words[0], words[1]).replace("\n", " "));
        }
    }

    static String outcome(String address, String check) {
        try (Connection c = connect(address)) {
            Postgres.class.getDeclaredMethod(check, Connection.class, String.class).invoke(null, c, address);
            return "passed";
        } catch (java.lang.reflect.InvocationTargetException e) {
            StringWriter trace = new StringWriter();
            e.getCause().printStackTrace(new PrintWriter(trace));
            return "failed " + trace;
        } catch (Exception e) {
            return "failed " + e;
        }
    }

    /** Statements become server-side prepared ones after five executions, and values binary. */
    static void prepared(Connection c, String address) throws SQLException {
        run(c, "create table t (id int primary key, s text, n numeric(10,2), b bytea, u uuid, d date, z timestamptz,"
            + " f float8, g boolean, l bigint)");
        UUID uuid = UUID.randomUUID();
        OffsetDateTime at = OffsetDateTime.of(2024, 3, 31, 1, 30, 0, 123456000, ZoneOffset.UTC);
        try (PreparedStatement put = c.prepareStatement("insert into t values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")) {
            for (int i = 0; i < 12; i++) {
                put.setInt(1, i);
                put.setString(2, i % 2 == 0 ? "s" + i : null);
                put.setBigDecimal(3, new BigDecimal("1.50"));
                put.setBytes(4, new byte[] {0, 1, (byte) 255});
                put.setObject(5, uuid);
                put.setObject(6, LocalDate.of(2024, 2, 29));
                put.setObject(7, at);
                put.setDouble(8, 0.1);
                put.setBoolean(9, true);
                put.setLong(10, Long.MIN_VALUE);
                same(1, put.executeUpdate());
            }
        }
        try (PreparedStatement get = c.prepareStatement("select * from t where id = ?")) {
            for (int i = 0; i < 12; i++) {
                get.setInt(1, i);
                ResultSet row = get.executeQuery();
                row.next();
                same(i % 2 == 0 ? "s" + i : null, row.getString("s"));
                same(new BigDecimal("1.50"), row.getBigDecimal("n"));
                same(255, row.getBytes("b")[2] & 255);
                same(uuid, row.getObject("u"));
                same(LocalDate.of(2024, 2, 29), row.getObject("d", LocalDate.class));
                same(at, row.getObject("z", OffsetDateTime.class));
                same(0.1, row.getDouble("f"));
                same(true, row.getBoolean("g"));
                same(Long.MIN_VALUE, row.getLong("l"));
            }
        }
    }

    static void batch(Connection c, String address) throws SQLException {
        run(c, "create table t (id serial primary key, v int, s text)");
        try (Connection rewriting = connect(address, "reWriteBatchedInserts", "true")) {
            for (Connection each : new Connection[] {c, rewriting}) {
                try (PreparedStatement put = each.prepareStatement(
                        "insert into t (v, s) values (?, ?)", Statement.RETURN_GENERATED_KEYS)) {
                    for (int i = 0; i < 300; i++) {
                        put.setInt(1, i);
                        put.setString(2, "s" + i);
                        put.addBatch();
                    }
                    same(300, put.executeBatch().length);
                    ResultSet keys = put.getGeneratedKeys();
                    int count = 0;
                    while (keys.next()) count++;
                    same(300, count);
                }
            }
        }
        ResultSet sum = c.createStatement().executeQuery("select count(*), sum(v) from t");
        same("600|89700\n", lines(sum, "count", "sum"));
    }

    /** With a fetch size and outside autocommit, rows come through a portal in parts. */
    static void fetchSize(Connection c, String address) throws SQLException {
        c.setAutoCommit(false);
        try (PreparedStatement some = c.prepareStatement("select n from generate_series(1, 1000) as g (n)")) {
            some.setFetchSize(70);
            ResultSet rows = some.executeQuery();
            int expected = 0;
            while (rows.next()) same(++expected, rows.getInt(1));
            same(1000, expected);
        }
        c.commit();
    }

    static void savepoints(Connection c, String address) throws SQLException {
        run(c, "create table t (id int primary key)");
        c.setAutoCommit(false);
        c.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
        run(c, "insert into t values (1)");
        Savepoint before = c.setSavepoint("before");
        try {
            run(c, "insert into t values (1)");
            throw new AssertionError("a duplicate key");
        } catch (SQLException e) {
            same("23505", e.getSQLState());
        }
        c.rollback(before);
        run(c, "insert into t values (2)");
        c.commit();
        c.setReadOnly(true);
        try {
            run(c, "insert into t values (3)");
            throw new AssertionError("read only");
        } catch (SQLException e) {
            same("25006", e.getSQLState());
        }
        c.rollback();
        same("2\n", lines(c.createStatement().executeQuery("select count(*) from t"), "count"));
    }

    /** autosave=always has a savepoint before each statement. */
    static void autosave(Connection unused, String address) throws SQLException {
        try (Connection c = connect(address, "autosave", "always")) {
            run(c, "create table t (id int primary key)");
            c.setAutoCommit(false);
            for (int i = 0; i < 10; i++) {
                try (PreparedStatement put = c.prepareStatement("insert into t values (?)")) {
                    put.setInt(1, i / 2);
                    put.executeUpdate();
                } catch (SQLException e) {
                    same("23505", e.getSQLState());
                }
            }
            c.commit();
            same("5\n", lines(c.createStatement().executeQuery("select count(*) from t"), "count"));
        }
    }

    static void serializable(Connection c, String address) throws SQLException {
        c.setAutoCommit(false);
        c.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
        same("serializable\n", lines(c.createStatement().executeQuery("show transaction_isolation"), "transaction_isolation"));
        c.commit();
    }

    static void copy(Connection c, String address) throws Exception {
        run(c, "create table t (id int primary key, v text)");
        var copies = c.unwrap(org.postgresql.PGConnection.class).getCopyAPI();
        same(2L, copies.copyIn("copy t from stdin (format csv)", new StringReader("1,one\n2,\n")));
        StringWriter out = new StringWriter();
        same(2L, copies.copyOut("copy (select * from t order by id) to stdout", out));
        same("1\tone\n2\t\\N\n", out.toString());
    }

    static void arrays(Connection c, String address) throws SQLException {
        run(c, "create table t (id int primary key, a int[], s text[])");
        try (PreparedStatement put = c.prepareStatement("insert into t values (1, ?, ?)")) {
            put.setArray(1, c.createArrayOf("int4", new Integer[] {1, null, 3}));
            put.setArray(2, c.createArrayOf("text", new String[] {"x", "a \"quoted\", one"}));
            put.executeUpdate();
        }
        ResultSet row = c.createStatement().executeQuery("select * from t");
        row.next();
        same(Arrays.asList(1, null, 3), Arrays.asList((Object[]) row.getArray("a").getArray()));
        same("int4", row.getArray("a").getBaseTypeName());
        same(List.of("x", "a \"quoted\", one"), Arrays.asList((Object[]) row.getArray("s").getArray()));
    }

    static void anyOfAnArray(Connection c, String address) throws SQLException {
        run(c, "create table t (id int primary key)", "insert into t select n from generate_series(1, 10) as g (n)");
        try (PreparedStatement get = c.prepareStatement("select count(*) as n from t where id = any (?)")) {
            get.setArray(1, c.createArrayOf("int4", new Integer[] {1, 5, 77}));
            same("2\n", lines(get.executeQuery(), "n"));
        }
    }

    static void resultSetMetaData(Connection c, String address) throws SQLException {
        run(c, TABLES);
        ResultSetMetaData is = c.createStatement().executeQuery("select id, amount as a, note, code from child").getMetaData();
        same(4, is.getColumnCount());
        same("int8", is.getColumnTypeName(1));
        same(Types.NUMERIC, is.getColumnType(2));
        same(10, is.getPrecision(2));
        same(2, is.getScale(2));
        same("a", is.getColumnLabel(2));
        same("child", is.getTableName(1));
        same("amount", ((org.postgresql.PGResultSetMetaData) is).getBaseColumnName(2));
        same(ResultSetMetaData.columnNoNulls, is.isNullable(1));
        same(ResultSetMetaData.columnNullable, is.isNullable(3));
        same(false, is.isAutoIncrement(1));
    }

    /** Rows that the client changes through the result set: pgjdbc looks for the primary key. */
    static void updatableResultSet(Connection c, String address) throws SQLException {
        run(c, "create table t (id int primary key, v text)", "insert into t values (1, 'a'), (2, 'b')");
        try (Statement s = c.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_UPDATABLE)) {
            ResultSet rows = s.executeQuery("select id, v from t order by id");
            rows.last();
            rows.updateString("v", "changed");
            rows.updateRow();
            rows.first();
            rows.deleteRow();
            rows.moveToInsertRow();
            rows.updateInt("id", 3);
            rows.updateString("v", "new");
            rows.insertRow();
        }
        same("2|changed\n3|new\n", lines(c.createStatement().executeQuery("select * from t order by id"), "id", "v"));
    }

    static void tables(Connection c, String address) throws SQLException {
        run(c, TABLES);
        same("child|TABLE\nparent|TABLE\n", lines(
            c.getMetaData().getTables(null, "public", "%", new String[] {"TABLE"}), "table_name", "table_type"));
        same(true, lines(c.getMetaData().getTables(null, "pg_catalog", "pg_class", null), "table_name").contains("pg_class"));
    }

    static void views(Connection c, String address) throws SQLException {
        run(c, TABLES);
        run(c, "create view rich as select id, amount from child where amount > 100");
        same("rich|VIEW\n", lines(
            c.getMetaData().getTables(null, "public", "r%", new String[] {"VIEW"}), "table_name", "table_type"));
        same("id|-5\namount|2\n", lines(c.getMetaData().getColumns(null, null, "rich", null), "column_name", "data_type"));
    }

    static void columns(Connection c, String address) throws SQLException {
        run(c, TABLES);
        same("id|-5|int8|19|0|NO|1|NO\nparent|4|int4|10|0|YES|2|NO\namount|2|numeric|10|2|YES|3|NO\n"
            + "note|12|text|2147483647|0|YES|4|NO\ncode|1|bpchar|3|0|YES|5|NO\nat|93|timestamptz|35|6|YES|6|NO\n", lines(
            c.getMetaData().getColumns(null, "public", "child", "%"), "column_name", "data_type", "type_name",
            "column_size", "decimal_digits", "is_nullable", "ordinal_position", "is_autoincrement"));
        same("id|nextval('parent_id_seq'::regclass)|YES\n", lines(
            c.getMetaData().getColumns(null, null, "parent", "id"), "column_name", "column_def", "is_autoincrement"));
    }

    static void primaryKeys(Connection c, String address) throws SQLException {
        run(c, TABLES);
        run(c, "create table pair (a int, b int, primary key (b, a))");
        same("b|1|pair_pkey\na|2|pair_pkey\n", lines(
            c.getMetaData().getPrimaryKeys(null, "public", "pair"), "column_name", "key_seq", "pk_name"));
        same("a\nb\n", lines(c.getMetaData().getBestRowIdentifier(
            null, "public", "pair", DatabaseMetaData.bestRowSession, true), "column_name"));
    }

    static void foreignKeys(Connection c, String address) throws SQLException {
        run(c, TABLES);
        String[] columns = {"pktable_name", "pkcolumn_name", "fktable_name", "fkcolumn_name", "key_seq", "update_rule",
            "delete_rule", "fk_name", "pk_name", "deferrability"};
        String expected = "parent|id|child|parent|1|3|0|child_parent_fkey|parent_pkey|7\n";
        same(expected, lines(c.getMetaData().getImportedKeys(null, "public", "child"), columns));
        same(expected, lines(c.getMetaData().getExportedKeys(null, "public", "parent"), columns));
        same(expected, lines(c.getMetaData().getCrossReference(null, null, "parent", null, null, "child"), columns));
    }

    static void indexes(Connection c, String address) throws SQLException {
        run(c, TABLES);
        same("false|child_pkey|1|id|A\ntrue|by_note|1|note|A\ntrue|by_note|2|amount|A\n", lines(
            c.getMetaData().getIndexInfo(null, "public", "child", false, true),
            "non_unique", "index_name", "ordinal_position", "column_name", "asc_or_desc"));
    }

    static void typeInfo(Connection c, String address) throws SQLException {
        String types = "\n" + lines(c.getMetaData().getTypeInfo(), "type_name", "data_type");
        for (String type : List.of("int4|4", "text|12", "numeric|2", "timestamptz|93", "bool|-7", "uuid|1111", "bytea|-2")) {
            same(true, types.contains("\n" + type + "\n"));
        }
    }

    static void schemasAndCatalogs(Connection c, String address) throws SQLException {
        String schemas = lines(c.getMetaData().getSchemas(), "table_schem");
        for (String schema : List.of("information_schema", "pg_catalog", "public")) same(true, schemas.contains(schema));
        same(true, lines(c.getMetaData().getCatalogs(), "table_cat").contains(c.getCatalog()));
        same("public", c.getSchema());
        same("TABLE", lines(c.getMetaData().getTableTypes(), "table_type").lines().filter("TABLE"::equals).findFirst().get());
    }

    static void functions(Connection c, String address) throws SQLException {
        same(true, lines(c.getMetaData().getFunctions(null, "pg_catalog", "lower"), "function_name").startsWith("lower"));
        same("", lines(c.getMetaData().getProcedures(null, "public", "%"), "procedure_name"));
        try (CallableStatement upper = c.prepareCall("{? = call upper(?)}")) {
            upper.registerOutParameter(1, Types.VARCHAR);
            upper.setString(2, "frog");
            upper.execute();
            same("FROG", upper.getString(1));
        }
    }

    static void privileges(Connection c, String address) throws SQLException {
        run(c, TABLES);
        same(true, lines(c.getMetaData().getTablePrivileges(null, "public", "child"), "grantee", "privilege")
            .contains("postgres|SELECT\n"));
        same(true, lines(c.getMetaData().getColumnPrivileges(null, "public", "child", "note"), "column_name", "privilege")
            .contains("note|UPDATE\n"));
    }

    /** What JDBC's escapes become: functions and literals of other names. */
    static void escapes(Connection c, String address) throws SQLException {
        ResultSet row = c.createStatement().executeQuery(
            "select {d '2024-02-29'} as d, {ts '2024-02-29 12:00:00'} as ts, {fn concat('a', 'b')} as c,"
            + " {fn ucase('x')} as u, {fn mod(7, 3)} as m, {fn year({d '2024-02-29'})} as y, {fn length('abc')} as l");
        same("2024-02-29|2024-02-29 12:00:00.0|ab|X|1|2024|3\n", lines(row, "d", "ts", "c", "u", "m", "y", "l"));
    }

    static void timeAndInterval(Connection c, String address) throws SQLException {
        try (PreparedStatement get = c.prepareStatement("select ?::time as t, ?::interval as i")) {
            for (int i = 0; i < 7; i++) {
                get.setObject(1, LocalTime.of(23, 59, 59));
                get.setObject(2, new org.postgresql.util.PGInterval("1 mon 2 days 3 hours"));
                ResultSet row = get.executeQuery();
                row.next();
                same(LocalTime.of(23, 59, 59), row.getObject("t", LocalTime.class));
                same(new org.postgresql.util.PGInterval("1 mon 2 days 3 hours"), row.getObject("i"));
            }
        }
    }

    static void json(Connection c, String address) throws SQLException {
        run(c, "create table t (j jsonb)");
        try (PreparedStatement put = c.prepareStatement("insert into t values (?::jsonb)")) {
            put.setString(1, "{\"a\": [1, 2]}");
            put.executeUpdate();
        }
        same("{\"a\": [1, 2]}|1\n", lines(c.createStatement().executeQuery(
            "select j::text as j, j #>> '{a,0}' as a from t where j @> '{\"a\": [2]}'"), "j", "a"));
    }

    static void queryTimeout(Connection c, String address) throws SQLException {
        try (Statement s = c.createStatement()) {
            s.setQueryTimeout(1);
            s.executeQuery("select pg_sleep(30)");
            throw new AssertionError("not cancelled");
        } catch (SQLException e) {
            same("57014", e.getSQLState());
        }
    }

    static void tpcc(Connection c, String address) throws Exception {
        Tpcc.run(c, address);
    }
}

/** A small TPC-C: two warehouses, four terminals, new orders and payments, and what must hold afterwards. */
class Tpcc {
    static final int WAREHOUSES = 2, DISTRICTS = 3, CUSTOMERS = 20, ITEMS = 50, TERMINALS = 4, TRANSACTIONS = 50;

    static void run(Connection c, String address) throws Exception {
        Postgres.run(c,
            "create table warehouse (w_id int primary key, w_ytd numeric(12,2) not null)",
            "create table district (d_w_id int references warehouse, d_id int, d_ytd numeric(12,2) not null,"
                + " d_next_o_id int not null, primary key (d_w_id, d_id))",
            "create table customer (c_w_id int, c_d_id int, c_id int, c_name varchar(20) not null,"
                + " c_balance numeric(12,2) not null, c_payments int not null, primary key (c_w_id, c_d_id, c_id),"
                + " foreign key (c_w_id, c_d_id) references district)",
            "create table item (i_id int primary key, i_price numeric(5,2) not null)",
            "create table stock (s_w_id int, s_i_id int references item, s_quantity int not null,"
                + " s_ytd int not null, primary key (s_w_id, s_i_id))",
            "create table orders (o_w_id int, o_d_id int, o_id int, o_c_id int not null, o_at timestamptz default now(),"
                + " o_lines int not null, primary key (o_w_id, o_d_id, o_id))",
            "create table order_line (ol_w_id int, ol_d_id int, ol_o_id int, ol_number int, ol_i_id int not null,"
                + " ol_quantity int not null, ol_amount numeric(8,2) not null, primary key (ol_w_id, ol_d_id, ol_o_id, ol_number))",
            "create table history (h_id bigserial primary key, h_w_id int, h_d_id int, h_c_id int, h_amount numeric(8,2))",
            "insert into warehouse select n, 0 from generate_series(1, " + WAREHOUSES + ") as g (n)",
            "insert into district select w_id, n, 0, 1 from warehouse, generate_series(1, " + DISTRICTS + ") as g (n)",
            "insert into customer select d_w_id, d_id, n, 'c' || n, 0, 0 from district, generate_series(1, " + CUSTOMERS + ") as g (n)",
            "insert into item select n, n + 0.5 from generate_series(1, " + ITEMS + ") as g (n)",
            "insert into stock select w_id, i_id, 1000000, 0 from warehouse, item");
        List<Thread> terminals = new ArrayList<>();
        List<Throwable> failures = Collections.synchronizedList(new ArrayList<>());
        for (int t = 0; t < TERMINALS; t++) {
            Random random = new Random(t);
            Thread terminal = new Thread(() -> {
                try (Connection own = Postgres.connect(address)) {
                    own.setAutoCommit(false);
                    for (int i = 0; i < TRANSACTIONS; i++) {
                        if (random.nextBoolean()) newOrder(own, random); else payment(own, random);
                    }
                } catch (Throwable e) {
                    failures.add(e);
                }
            });
            terminals.add(terminal);
            terminal.start();
        }
        for (Thread terminal : terminals) terminal.join();
        if (!failures.isEmpty()) throw new AssertionError(failures.get(0));
        consistent(c);
    }

    static void newOrder(Connection c, Random random) throws SQLException {
        int w = 1 + random.nextInt(WAREHOUSES), d = 1 + random.nextInt(DISTRICTS), customer = 1 + random.nextInt(CUSTOMERS);
        int lines = 3 + random.nextInt(5);
        int order;
        try (PreparedStatement next = c.prepareStatement(
                "update district set d_next_o_id = d_next_o_id + 1 where d_w_id = ? and d_id = ? returning d_next_o_id - 1")) {
            next.setInt(1, w);
            next.setInt(2, d);
            ResultSet row = next.executeQuery();
            row.next();
            order = row.getInt(1);
        }
        try (PreparedStatement put = c.prepareStatement(
                "insert into orders (o_w_id, o_d_id, o_id, o_c_id, o_lines) values (?, ?, ?, ?, ?)")) {
            int at = 1;
            for (int value : new int[] {w, d, order, customer, lines}) put.setInt(at++, value);
            put.executeUpdate();
        }
        // In the order of their ids, so that two terminals cannot wait for each other.
        TreeSet<Integer> items = new TreeSet<>();
        while (items.size() < lines) items.add(1 + random.nextInt(ITEMS));
        try (PreparedStatement price = c.prepareStatement("select i_price from item where i_id = ?");
             PreparedStatement take = c.prepareStatement(
                 "update stock set s_quantity = s_quantity - ?, s_ytd = s_ytd + ? where s_w_id = ? and s_i_id = ?");
             PreparedStatement line = c.prepareStatement("insert into order_line values (?, ?, ?, ?, ?, ?, ?)")) {
            int number = 0;
            for (int item : items) {
                int quantity = 1 + random.nextInt(10);
                price.setInt(1, item);
                ResultSet row = price.executeQuery();
                row.next();
                BigDecimal amount = row.getBigDecimal(1).multiply(BigDecimal.valueOf(quantity));
                int at = 1;
                for (int value : new int[] {quantity, quantity, w, item}) take.setInt(at++, value);
                Postgres.same(1, take.executeUpdate());
                at = 1;
                for (int value : new int[] {w, d, order, ++number, item, quantity}) line.setInt(at++, value);
                line.setBigDecimal(7, amount);
                line.addBatch();
            }
            line.executeBatch();
        }
        // One in a hundred is given up, as the benchmark wants it.
        if (random.nextInt(100) == 0) c.rollback(); else c.commit();
    }

    static void payment(Connection c, Random random) throws SQLException {
        int w = 1 + random.nextInt(WAREHOUSES), d = 1 + random.nextInt(DISTRICTS), customer = 1 + random.nextInt(CUSTOMERS);
        BigDecimal amount = BigDecimal.valueOf(100 + random.nextInt(400000), 2);
        String[] statements = {
            "update warehouse set w_ytd = w_ytd + ? where w_id = ?",
            "update district set d_ytd = d_ytd + ? where d_w_id = ? and d_id = ?",
            "update customer set c_balance = c_balance - ?, c_payments = c_payments + 1 where c_w_id = ? and c_d_id = ? and c_id = ?",
            "insert into history (h_amount, h_w_id, h_d_id, h_c_id) values (?, ?, ?, ?)",
        };
        int[] keys = {w, d, customer, 0};
        int[] count = {1, 2, 3, 3};
        for (int i = 0; i < statements.length; i++) {
            try (PreparedStatement s = c.prepareStatement(statements[i])) {
                s.setBigDecimal(1, amount);
                for (int k = 0; k < count[i]; k++) s.setInt(2 + k, keys[k]);
                Postgres.same(1, s.executeUpdate());
            }
        }
        c.commit();
    }

    /** TPC-C's consistency conditions 1 to 4 and 8 to 10, as far as these tables go. */
    static void consistent(Connection c) throws SQLException {
        String[] wrong = {
            "select w_id from warehouse join district on d_w_id = w_id group by w_id, w_ytd having w_ytd <> sum(d_ytd)",
            "select d_w_id from district left join orders on o_w_id = d_w_id and o_d_id = d_id"
                + " group by d_w_id, d_id, d_next_o_id having d_next_o_id - 1 <> coalesce(max(o_id), 0) or count(o_id) <> coalesce(max(o_id), 0)",
            "select o_w_id from orders o where o_lines <> (select count(*) from order_line"
                + " where ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id)",
            "select w_id from warehouse where w_ytd <> (select coalesce(sum(h_amount), 0) from history where h_w_id = w_id)",
            "select d_id from district where d_ytd <> (select coalesce(sum(h_amount), 0) from history"
                + " where h_w_id = d_w_id and h_d_id = d_id)",
            "select c_id from customer where -c_balance <> (select coalesce(sum(h_amount), 0) from history"
                + " where h_w_id = c_w_id and h_d_id = c_d_id and h_c_id = c_id)",
            "select s_i_id from stock where s_ytd <> (select coalesce(sum(ol_quantity), 0) from order_line"
                + " where ol_w_id = s_w_id and ol_i_id = s_i_id)",
        };
        for (String sql : wrong) {
            try (ResultSet rows = c.createStatement().executeQuery(sql)) {
                if (rows.next()) throw new AssertionError("not consistent: " + sql);
            }
        }
        ResultSet counts = c.createStatement().executeQuery("select (select count(*) from orders) > 50 as o, (select count(*) from history) > 50 as h");
        Postgres.same("true|true\n", Postgres.lines(counts, "o", "h"));
    }
}
