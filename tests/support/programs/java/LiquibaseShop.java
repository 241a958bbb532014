// Liquibase: update, its look at every object of the database (a snapshot as a changelog), rollback, drop all.
import java.io.*;
import java.sql.*;
import liquibase.*;
import liquibase.database.DatabaseFactory;
import liquibase.database.jvm.JdbcConnection;
import liquibase.diff.output.*;
import liquibase.diff.output.changelog.DiffToChangeLog;
import liquibase.resource.DirectoryResourceAccessor;

public class LiquibaseShop {
    public static void main(String[] args) throws Exception {
        java.util.logging.LogManager.getLogManager().reset();
        try (Connection connection = DriverManager.getConnection("jdbc:postgresql://" + args[0], "postgres", "")) {
            var database = DatabaseFactory.getInstance().findCorrectDatabaseImplementation(new JdbcConnection(connection));
            var liquibase = new Liquibase("changes/changes.xml", new DirectoryResourceAccessor(new File(".")), database);
            var nowhere = new OutputStreamWriter(OutputStream.nullOutputStream());
            liquibase.update(new Contexts(), nowhere);
            System.out.println("to do " + liquibase.listUnrunChangeSets(new Contexts(), new LabelExpression()).size());
            liquibase.update(new Contexts());
            System.out.println("to do " + liquibase.listUnrunChangeSets(new Contexts(), new LabelExpression()).size());
            try (Statement statement = connection.createStatement();
                    ResultSet rows = statement.executeQuery("select id, exectype, orderexecuted, md5sum from databasechangelog order by orderexecuted")) {
                while (rows.next()) System.out.println(rows.getString(1) + " " + rows.getString(2) + " " + rows.getInt(3) + " " + rows.getString(4));
            }
            var written = new ByteArrayOutputStream();
            new Liquibase((String) null, new DirectoryResourceAccessor(new File(".")), database).generateChangeLog(new CatalogAndSchema(null, "public"),
                new DiffToChangeLog(new DiffOutputControl(false, false, false, null)),
                new PrintStream(written));
            // In whatever order it finds them.
            String[] found = written.toString().replace("</databaseChangeLog>", "").split("\\s*<changeSet[^>]*>\\s*");
            for (int n = 0; n < found.length; n++) found[n] = found[n].strip();
            java.util.Arrays.sort(found);
            System.out.println(String.join("\n", found));
            liquibase.rollback(2, "");
            System.out.println("to do " + liquibase.listUnrunChangeSets(new Contexts(), new LabelExpression()).size());
            liquibase.update(new Contexts());
            liquibase.rollback(4, "");
            liquibase.update(new Contexts());
            liquibase.dropAll();
            try (Statement statement = connection.createStatement();
                    ResultSet rows = statement.executeQuery("select count(*) from pg_class c join pg_namespace n on n.oid = relnamespace where nspname = 'public'")) {
                rows.next();
                System.out.println("left " + rows.getInt(1));
            }
        }
    }
}
