// Hibernate: schema made, validated and updated, entities with generated keys, versions, enums, JSON-like texts, HQL.
import jakarta.persistence.*;
import java.math.BigDecimal;
import java.time.*;
import java.util.*;
import org.hibernate.cfg.Configuration;

public class HibernateShop {
    public enum Mood { SAD, OK, HAPPY }

    @Entity(name = "Person") @Table(name = "person", indexes = @Index(columnList = "mood, name"))
    public static class Person {
        @Id @GeneratedValue(strategy = GenerationType.SEQUENCE) public Long id;
        @Column(nullable = false, unique = true, length = 80) public String name;
        @Enumerated(EnumType.STRING) public Mood mood = Mood.OK;
        @Column(precision = 10, scale = 2) public BigDecimal paid = new BigDecimal("1.50");
        public LocalDate born;
        public Instant seen = Instant.parse("2024-01-02T03:04:05.123456Z");
        public UUID key = UUID.fromString("5b0c0a3e-1c53-4b0f-9d5e-0f3ad0b3a111");
        public byte[] photo = {1, 2, 3};
        public String[] tags = {"a", "b c"};
        @Version public int version;
        @OneToMany(mappedBy = "owner", cascade = CascadeType.ALL, orphanRemoval = true) @OrderBy("doors desc") public List<House> houses = new ArrayList<>();
        @ElementCollection public Map<String, String> facts = new TreeMap<>();
    }

    @Entity(name = "House") @Table(name = "house")
    public static class House {
        @Id @GeneratedValue(strategy = GenerationType.IDENTITY) public Integer id;
        @ManyToOne(optional = false, fetch = FetchType.LAZY) public Person owner;
        public short doors;
        @Column(columnDefinition = "text") public String note;
    }

    static Configuration configuration(String address, String mode) {
        var made = new Configuration().addAnnotatedClass(Person.class).addAnnotatedClass(House.class);
        made.setProperty("hibernate.connection.url", "jdbc:postgresql://" + address).setProperty("hibernate.connection.username", "postgres");
        return made.setProperty("hibernate.connection.password", "").setProperty("hibernate.hbm2ddl.auto", mode)
            .setProperty("hibernate.jdbc.batch_size", "10").setProperty("hibernate.jdbc.time_zone", "UTC");
    }

    public static void main(String[] args) {
        java.util.logging.LogManager.getLogManager().reset();
        try (var factory = configuration(args[0], "create").buildSessionFactory()) {
            factory.inTransaction(session -> {
                for (String name : List.of("Anna", "Ben", "Cleo")) {
                    var person = new Person();
                    person.name = name;
                    person.born = LocalDate.of(2000 + name.length(), 2, 3);
                    person.facts.put("length", "" + name.length());
                    for (int n = 1; n < name.length(); n++) {
                        var house = new House();
                        house.owner = person;
                        house.doors = (short) n;
                        person.houses.add(house);
                    }
                    session.persist(person);
                }
            });
            factory.inTransaction(session -> {
                var list = session.createQuery("select p from Person p left join fetch p.houses where p.mood = :mood and p.paid > 1 order by p.name", Person.class)
                    .setParameter("mood", Mood.OK).getResultList();
                for (var p : list) {
                    System.out.println(p.id + p.name + p.paid + p.born + p.seen + p.key + Arrays.toString(p.photo) + Arrays.toString(p.tags) + p.version + p.houses.size() + p.facts);
                }
                list.get(0).mood = Mood.HAPPY;
                list.get(0).houses.remove(0);
                System.out.println(session.createQuery("select p.mood, count(h), max(h.doors), avg(h.doors) from House h join h.owner p group by p.mood order by 2", Object[].class)
                    .setFirstResult(0).setMaxResults(5).getResultList().stream().map(Arrays::toString).toList());
            });
            factory.inTransaction(session -> {
                System.out.println(session.createQuery("from Person where size(houses) > 1 and extract(year from born) > 2000 order by name", Person.class)
                    .setMaxResults(2).getResultList().stream().map(p -> p.name + p.version).toList());
                System.out.println(session.createMutationQuery("update House set doors = doors + 1 where owner.id in (select id from Person where name like 'B%')").executeUpdate());
                var locked = session.find(Person.class, 1L, LockModeType.PESSIMISTIC_WRITE);
                locked.paid = locked.paid.add(BigDecimal.TEN);
                System.out.println(session.createNativeQuery("select name, row_number() over (order by name desc) from person", Object[].class)
                    .getResultList().stream().map(Arrays::toString).toList());
            });
            try {
                factory.inTransaction(session -> {
                    var twice = new Person();
                    twice.name = "Anna";
                    session.persist(twice);
                });
            } catch (PersistenceException error) {
                System.out.println(error.getClass().getSimpleName());
            }
            try (var one = factory.openSession(); var two = factory.openSession()) {
                var first = one.find(Person.class, 2L);
                var second = two.find(Person.class, 2L);
                for (var pair : List.of(Map.entry(one, first), Map.entry(two, second))) {
                    try {
                        pair.getKey().beginTransaction();
                        pair.getValue().paid = pair.getValue().paid.add(BigDecimal.ONE);
                        pair.getKey().getTransaction().commit();
                    } catch (RuntimeException error) {
                        System.out.println(error.getClass().getSimpleName());
                    }
                }
            }
        }
        for (String mode : List.of("validate", "update")) {
            try (var factory = configuration(args[0], mode).buildSessionFactory()) {
                factory.inSession(session -> System.out.println(session.createQuery("select count(*) from House", Long.class).getSingleResult()));
            }
        }
        configuration(args[0], "create-drop").buildSessionFactory().close();
    }
}
