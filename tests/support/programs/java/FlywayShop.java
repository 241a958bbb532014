// Flyway: its history, migrate, info, validate, repeatable migrations, clean; and one that fails halfway.
import java.nio.file.*;
import org.flywaydb.core.Flyway;
import org.flywaydb.core.api.MigrationInfo;

public class FlywayShop {
    static void info(Flyway flyway) {
        for (MigrationInfo one : flyway.info().all()) {
            System.out.println(one.getVersion() + " " + one.getDescription() + " " + one.getState() + " " + one.getChecksum());
        }
    }

    public static void main(String[] args) throws Exception {
        java.util.logging.LogManager.getLogManager().reset();
        var configuration = Flyway.configure().dataSource("jdbc:postgresql://" + args[0], "postgres", "")
            .locations("filesystem:db/migration").cleanDisabled(false);
        Flyway flyway = configuration.load();
        info(flyway);
        System.out.println("migrated " + flyway.migrate().migrationsExecuted);
        System.out.println("again " + flyway.migrate().migrationsExecuted);
        flyway.validate();
        info(flyway);
        Path broken = Files.createTempDirectory("flyway");
        Files.writeString(broken.resolve("V4__broken.sql"), "create table half (a int); insert into nothing values (1);");
        var more = configuration.locations("filesystem:db/migration", "filesystem:" + broken).load();
        try {
            more.migrate();
        } catch (Exception error) {
            System.out.println("refused " + error.getMessage().contains("42P01"));
        }
        info(more);
        System.out.println("repaired " + more.repair().repairActions);
        var baseline = configuration.locations("filesystem:db/migration").table("other_history").baselineOnMigrate(true).baselineVersion("3").load();
        System.out.println("baseline " + baseline.migrate().migrationsExecuted);
        System.out.println("cleaned " + flyway.clean().schemasCleaned);
        info(flyway);
    }
}
