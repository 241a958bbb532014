// GORM: migrations by AutoMigrate, up and down, its queries, and its look at the catalog.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"sort"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"
)

type Person struct {
	ID      uint
	Name    string    `gorm:"size:80;not null;uniqueIndex;comment:what they say"`
	Mood    string    `gorm:"type:mood;default:ok"`
	Paid    float64   `gorm:"type:numeric(10,2);default:1.5;check:paid_enough,paid >= 0"`
	Born    time.Time `gorm:"type:date"`
	Seen    time.Time `gorm:"default:'2024-01-02 03:04:05+00'"`
	Extra   string    `gorm:"type:jsonb;default:'{}'"`
	Key     string    `gorm:"type:uuid;default:'5b0c0a3e-1c53-4b0f-9d5e-0f3ad0b3a111'"`
	Active  *bool     `gorm:"default:true;index:by_active,where:active"`
	Houses  []House   `gorm:"foreignKey:OwnerID;constraint:OnDelete:CASCADE"`
	Tags    []Tag     `gorm:"many2many:person_tags"`
	Deleted gorm.DeletedAt
}

type House struct {
	ID      uint64
	OwnerID uint  `gorm:"not null;index:by_owner,priority:1"`
	Doors   int16 `gorm:"index:by_owner,priority:2,sort:desc;default:4"`
	Photo   []byte
}

type Tag struct {
	ID   uint
	Text string `gorm:"unique"`
}

// What House becomes.
type LargeHouse struct {
	ID      uint64
	OwnerID uint  `gorm:"not null;index:by_owner,priority:1"`
	Doors   int64 `gorm:"index:by_owner,priority:2,sort:desc;default:5"`
	Photo   []byte
	Street  string `gorm:"size:40;not null;default:none;comment:where"`
}

func (LargeHouse) TableName() string { return "houses" }

var created = regexp.MustCompile(`"Deleted":null,?`)

func show(what string, found any) {
	text, err := json.Marshal(found)
	check(err)
	fmt.Printf("%s: %s\n", what, created.ReplaceAll(text, nil))
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	db, err := gorm.Open(postgres.Open(os.Args[1]), &gorm.Config{Logger: logger.Discard, TranslateError: false})
	check(err)
	check(db.Exec("create type mood as enum ('sad', 'ok', 'happy')").Error)
	tables := []any{&Person{}, &House{}, &Tag{}}
	check(db.AutoMigrate(tables...))
	check(db.AutoMigrate(tables...))
	born := time.Date(2001, 2, 3, 0, 0, 0, 0, time.UTC)
	check(db.Create(&[]Person{
		{Name: "Anna", Born: born, Houses: []House{{Doors: 1}, {Doors: 2, Photo: []byte{0, 255}}}, Tags: []Tag{{Text: "x"}, {Text: "y"}}},
		{Name: "Ben", Born: born.AddDate(1, 0, 0), Mood: "happy", Extra: `{"a": [1, {"b": null}]}`},
	}).Error)
	check(db.Clauses(clause.OnConflict{Columns: []clause.Column{{Name: "name"}}, DoUpdates: clause.AssignmentColumns([]string{"paid"})}).
		Create(&Person{Name: "Ben", Born: born, Paid: 7.25}).Error)
	var people []Person
	check(db.Preload("Houses", func(db *gorm.DB) *gorm.DB { return db.Order("id") }).Preload("Tags", func(db *gorm.DB) *gorm.DB { return db.Order("id") }).Order("id").Find(&people).Error)
	for n := range people {
		people[n].Seen = people[n].Seen.UTC()
	}
	show("people", people)
	var sums []map[string]any
	check(db.Model(&House{}).Select("owner_id, count(*) as n, sum(doors) as doors, max(doors) > 1 as large").Group("owner_id").Having("count(*) > ?", 1).Find(&sums).Error)
	show("sums", sums)
	var names []string
	check(db.Model(&Person{}).Joins("left join houses h on h.owner_id = people.id").Where("h.id is null or people.name in ?", []string{"Anna"}).Distinct().Order("name").Limit(5).Offset(0).Pluck("people.name", &names).Error)
	show("names", names)
	check(db.Model(&Person{}).Where("extra->'a' @> ?::jsonb", "[1]").Pluck("name", &names).Error)
	show("json", names)
	err = db.Transaction(func(tx *gorm.DB) error {
		check(tx.Clauses(clause.Locking{Strength: "UPDATE"}).First(&people[0], "name = ?", "Anna").Error)
		_ = tx.Transaction(func(inner *gorm.DB) error {
			check(inner.Where("true").Delete(&House{}).Error)
			return errors.New("no")
		})
		return tx.Create(&Person{Name: "Anna", Born: born}).Error
	})
	var refused *pgconn.PgError
	errors.As(err, &refused)
	show("refused", []string{refused.Code, refused.ConstraintName, refused.TableName})
	result := db.Model(&House{}).Clauses(clause.Returning{}).Where("doors < ?", 2).UpdateColumn("doors", gorm.Expr("doors + ?", 10))
	show("updated", result.RowsAffected)
	check(db.Delete(&Person{}, "name = ?", "Ben").Error)
	var count int64
	check(db.Model(&Person{}).Count(&count).Error)
	show("alive", count)

	check(db.AutoMigrate(&LargeHouse{}))
	check(db.AutoMigrate(&LargeHouse{}))
	check(db.Migrator().RenameColumn(&LargeHouse{}, "street", "address"))
	check(db.Migrator().CreateView("owners", gorm.ViewOption{Replace: true, Query: db.Model(&Person{}).Select("name, id")}))
	for _, table := range []any{&Person{}, &LargeHouse{}} {
		columns, err := db.Migrator().ColumnTypes(table)
		check(err)
		// In whatever order they are found.
		sort.Slice(columns, func(a, b int) bool { return columns[a].Name() < columns[b].Name() })
		for _, column := range columns {
			kind, _ := column.ColumnType()
			length, _ := column.Length()
			precision, scale, _ := column.DecimalSize()
			nullable, _ := column.Nullable()
			value, has := column.DefaultValue()
			comment, _ := column.Comment()
			unique, _ := column.Unique()
			primary, _ := column.PrimaryKey()
			increments, _ := column.AutoIncrement()
			show("column", []any{column.Name(), column.DatabaseTypeName(), kind, length, precision, scale, nullable, value, has, comment, unique, primary, increments})
		}
		indexes, err := db.Migrator().GetIndexes(table)
		check(err)
		found := map[string]any{}
		for _, index := range indexes {
			unique, _ := index.Unique()
			primary, _ := index.PrimaryKey()
			found[index.Name()] = []any{index.Columns(), unique, primary}
		}
		show("indexes", found)
	}
	migrator := db.Migrator()
	show("has", []bool{migrator.HasTable("houses"), migrator.HasColumn(&LargeHouse{}, "address"), migrator.HasIndex(&LargeHouse{}, "by_owner"),
		migrator.HasConstraint(&Person{}, "paid_enough"), migrator.HasConstraint(&Person{}, "Houses"), migrator.HasConstraint(&Person{}, "nothing")})
	check(migrator.DropView("owners"))
	check(migrator.DropColumn(&LargeHouse{}, "address"))
	check(migrator.DropConstraint(&Person{}, "paid_enough"))
	check(migrator.DropIndex(&LargeHouse{}, "by_owner"))
	check(migrator.DropTable("person_tags", &House{}, &Person{}, &Tag{}))
	left, err := migrator.GetTables()
	check(err)
	show("left", left)
}
