// Drives the Arrow Flight SQL JDBC driver: statements, parameters, a transaction, metadata. Prints what it finds.

import java.sql.*;
import java.util.*;

public class Flight {
    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        properties.setProperty("user", "anna");
        properties.setProperty("password", "any");
        properties.setProperty("useEncryption", "false");
        // The driver cannot read views. What it does not know it sends as a header.
        properties.setProperty("froglet-strings", "plain");
        String url = "jdbc:arrow-flight-sql://" + args[0];
        try (Connection connection = DriverManager.getConnection(url, properties)) {
            try (Statement statement = connection.createStatement()) {
                System.out.println("updated " + statement.executeUpdate(
                    "create table j (id int primary key, s text, n numeric(10,2))"));
                System.out.println("updated " + statement.executeUpdate(
                    "insert into j values (1, 'eins, 雪', 1.50), (2, null, null)"));
            }
            try (PreparedStatement insert = connection.prepareStatement("insert into j values ($1, $2, $3)")) {
                insert.setInt(1, 3);
                insert.setString(2, "drei");
                // The driver wants the scale of the parameter: that of a numeric without precision.
                insert.setBigDecimal(3, new java.math.BigDecimal("3.25").setScale(10));
                System.out.println("updated " + insert.executeUpdate());
            }
            try (Statement statement = connection.createStatement();
                 ResultSet rows = statement.executeQuery("select id, s, n from j order by id")) {
                while (rows.next()) {
                    System.out.println(rows.getInt(1) + " " + rows.getString(2) + " " + rows.getBigDecimal(3));
                }
            }
            try (Statement statement = connection.createStatement()) {
                statement.executeQuery("select * from nothing");
            } catch (SQLException e) {
                System.out.println("error " + e.getMessage().contains("42P01"));
            }
            try (ResultSet tables = connection.getMetaData().getTables(null, "public", "%", null)) {
                while (tables.next()) {
                    System.out.println("table " + tables.getString("TABLE_NAME"));
                }
            }
            try (ResultSet keys = connection.getMetaData().getPrimaryKeys(null, "public", "j")) {
                while (keys.next()) {
                    System.out.println("key " + keys.getString("COLUMN_NAME"));
                }
            }
        }
    }
}
