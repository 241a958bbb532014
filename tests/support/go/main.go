// Drives pgx: checks by their names, each on a server and database of its own. See support/checks.py.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/big"
	"os"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// must ends a check, by a panic that outcome turns into its answer.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

func same(expected, seen any) {
	if !reflect.DeepEqual(expected, seen) {
		panic(fmt.Errorf("expected %v, saw %v", expected, seen))
	}
}

// code is the SQLSTATE of an error that must be one of the server's.
func code(err error) string {
	var of *pgconn.PgError
	if !errors.As(err, &of) {
		panic(fmt.Errorf("no error of the server's: %v", err))
	}
	return of.Code
}

func exec(ctx context.Context, c *pgx.Conn, sql string, args ...any) pgconn.CommandTag {
	tag, err := c.Exec(ctx, sql, args...)
	must(err)
	return tag
}

func value[T any](ctx context.Context, c *pgx.Conn, sql string, args ...any) T {
	var v T
	must(c.QueryRow(ctx, sql, args...).Scan(&v))
	return v
}

var checks = map[string]func(ctx context.Context, c *pgx.Conn, url string){
	"types":         types,
	"arrays":        arrays,
	"jsonb":         jsonb,
	"interval":      interval,
	"execModes":     execModes,
	"rowsToStructs": rowsToStructs,
	"batch":         batch,
	"copyFrom":      copyFrom,
	"transactions":  transactions,
	"serializable":  serializable,
	"pool":          pool,
	"cancel":        cancel,
	"listen":        listen,
	"enum":          enum,
	"anyOfAnArray":  anyOfAnArray,
}

// types goes there and back in the binary format.
func types(ctx context.Context, c *pgx.Conn, _ string) {
	exec(ctx, c, `create table t (id serial primary key, b bool, i2 smallint, i4 int, i8 bigint, f4 real, f8 float8,
		n numeric(30,10), s text, v varchar(9), x bytea, u uuid, d date, ts timestamp, tz timestamptz)`)
	at := time.Date(2024, 3, 31, 1, 30, 0, 123456000, time.UTC)
	n := pgtype.Numeric{Int: big.NewInt(-15), Exp: -1, Valid: true}
	u := pgtype.UUID{Bytes: [16]byte{15: 7}, Valid: true}
	in := []any{true, int16(-32768), int32(1), int64(-1 << 63), float32(1.5), 0.1, n, "Größe 🐸", "v", []byte{0, 255}, u,
		time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC), at, at}
	exec(ctx, c, "insert into t (b, i2, i4, i8, f4, f8, n, s, v, x, u, d, ts, tz) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)", in...)
	rows, err := c.Query(ctx, "select b, i2, i4, i8, f4, f8, s, v, x, d, ts, tz from t where u = $1", u)
	must(err)
	out, err := pgx.CollectOneRow(rows, func(row pgx.CollectableRow) ([]any, error) { return row.Values() })
	must(err)
	out[11] = out[11].(time.Time).UTC()
	same([]any{true, int16(-32768), int32(1), int64(-1 << 63), float32(1.5), 0.1, "Größe 🐸", "v", []byte{0, 255},
		time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC), at, at}, out)
	same("-1.5000000000", value[string](ctx, c, "select n::text from t"))
	var missing *int32
	must(c.QueryRow(ctx, "select null::int").Scan(&missing))
	same((*int32)(nil), missing)
}

func arrays(ctx context.Context, c *pgx.Conn, _ string) {
	exec(ctx, c, "create table t (a int[], s text[])")
	exec(ctx, c, "insert into t values ($1, $2)", []int32{1, 2, 3}, []string{"x", `a "quoted", one`})
	same([]int32{1, 2, 3}, value[[]int32](ctx, c, "select a from t"))
	same([]string{"x", `a "quoted", one`}, value[[]string](ctx, c, "select s from t where $1 = any (a)", 2))
}

func jsonb(ctx context.Context, c *pgx.Conn, _ string) {
	exec(ctx, c, "create table t (j jsonb)")
	exec(ctx, c, "insert into t values ($1)", map[string]any{"a": []int{1, 2}})
	same(map[string]any{"a": []any{1.0, 2.0}}, value[map[string]any](ctx, c, "select j from t where j @> $1", map[string]any{"a": []int{2}}))
}

func interval(ctx context.Context, c *pgx.Conn, _ string) {
	same(90*time.Minute, value[time.Duration](ctx, c, "select $1::interval", 90*time.Minute))
	same(pgtype.Time{Microseconds: 1, Valid: true}, value[pgtype.Time](ctx, c, "select $1::time", pgtype.Time{Microseconds: 1, Valid: true}))
}

// execModes are the ways in which pgx sends a query: prepared, described, typed by the client, simple.
func execModes(ctx context.Context, c *pgx.Conn, _ string) {
	exec(ctx, c, "create table t (id int primary key, s text)")
	for i, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe,
		pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		for j := 0; j < 3; j++ {
			exec(ctx, c, "insert into t values ($1, $2)", mode, 10*i+j, "it's")
			same("it's", value[string](ctx, c, "select s from t where id = $1 and s = $2", mode, 10*i+j, "it's"))
		}
	}
	same(int64(15), value[int64](ctx, c, "select count(*) from t"))
}

func rowsToStructs(ctx context.Context, c *pgx.Conn, _ string) {
	type frog struct {
		ID   int32
		Name *string
	}
	rows, err := c.Query(ctx, "select n as id, nullif('frog ' || n, 'frog 2') as name from generate_series(1, 3) as g (n) order by n")
	must(err)
	frogs, err := pgx.CollectRows(rows, pgx.RowToStructByName[frog])
	must(err)
	same(3, len(frogs))
	same("frog 3", *frogs[2].Name)
	same((*string)(nil), frogs[1].Name)
}

func batch(ctx context.Context, c *pgx.Conn, _ string) {
	exec(ctx, c, "create table t (id int primary key)")
	b := &pgx.Batch{}
	for i := 0; i < 100; i++ {
		b.Queue("insert into t values ($1)", i)
	}
	var n int64
	b.Queue("select count(*) from t").QueryRow(func(row pgx.Row) error { return row.Scan(&n) })
	must(c.SendBatch(ctx, b).Close())
	same(int64(100), n)
	b = &pgx.Batch{}
	b.Queue("insert into t values (1000)")
	b.Queue("insert into t values (1)")
	same("23505", code(c.SendBatch(ctx, b).Close()))
	same(int64(100), value[int64](ctx, c, "select count(*) from t"))
}

// copyFrom is COPY in the binary format.
func copyFrom(ctx context.Context, c *pgx.Conn, _ string) {
	exec(ctx, c, "create table t (id int primary key, s text, at timestamptz)")
	rows := make([][]any, 1000)
	for i := range rows {
		rows[i] = []any{int32(i), fmt.Sprint("s", i), time.Now()}
	}
	n, err := c.CopyFrom(ctx, pgx.Identifier{"t"}, []string{"id", "s", "at"}, pgx.CopyFromRows(rows))
	must(err)
	same(int64(1000), n)
	_, err = c.CopyFrom(ctx, pgx.Identifier{"public", "t"}, []string{"id"}, pgx.CopyFromRows([][]any{{int32(5000)}, {int32(1)}}))
	same("23505", code(err))
	same("1000 s999", value[string](ctx, c, "select count(*) || ' ' || max(s) from t"))
}

func transactions(ctx context.Context, c *pgx.Conn, _ string) {
	exec(ctx, c, "create table t (id int primary key)")
	must(pgx.BeginTxFunc(ctx, c, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "insert into t values (1)")
		must(err)
		err = pgx.BeginFunc(ctx, tx, func(inner pgx.Tx) error {
			_, err := inner.Exec(ctx, "insert into t values (2), (1)")
			return err
		})
		same("23505", code(err))
		_, err = tx.Exec(ctx, "insert into t values (3)")
		return err
	}))
	err := pgx.BeginTxFunc(ctx, c, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "delete from t")
		return err
	})
	same("25006", code(err))
	same(int64(2), value[int64](ctx, c, "select count(*) from t"))
}

func serializable(ctx context.Context, c *pgx.Conn, _ string) {
	must(pgx.BeginTxFunc(ctx, c, pgx.TxOptions{IsoLevel: pgx.Serializable, AccessMode: pgx.ReadOnly, DeferrableMode: pgx.Deferrable},
		func(tx pgx.Tx) error {
			var level string
			must(tx.QueryRow(ctx, "show transaction_isolation").Scan(&level))
			same("serializable", level)
			return nil
		}))
}

func pool(ctx context.Context, c *pgx.Conn, url string) {
	exec(ctx, c, "create table t (id int primary key, v int)")
	exec(ctx, c, "insert into t values (1, 0)")
	p, err := pgxpool.New(ctx, url)
	must(err)
	defer p.Close()
	var done sync.WaitGroup
	errs := make(chan error, 100)
	for i := 0; i < 100; i++ {
		done.Add(1)
		go func() {
			defer done.Done()
			if _, err := p.Exec(ctx, "update t set v = v + 1 where id = $1", 1); err != nil {
				errs <- err
			}
		}()
	}
	done.Wait()
	same(0, len(errs))
	same(int32(100), value[int32](ctx, c, "select v from t"))
}

func cancel(ctx context.Context, c *pgx.Conn, _ string) {
	time.AfterFunc(100*time.Millisecond, func() { _ = c.PgConn().CancelRequest(ctx) })
	_, err := c.Exec(ctx, "select pg_sleep(30)")
	same("57014", code(err))
}

func listen(ctx context.Context, c *pgx.Conn, url string) {
	exec(ctx, c, "listen frogs")
	other, err := pgx.Connect(ctx, url)
	must(err)
	exec(ctx, other, "select pg_notify('frogs', $1)", "quak")
	must(other.Close(ctx))
	heard, err := c.WaitForNotification(ctx)
	must(err)
	same("frogs quak", heard.Channel+" "+heard.Payload)
}

// enum is a type that pgx looks up in pg_type and pg_enum.
func enum(ctx context.Context, c *pgx.Conn, _ string) {
	exec(ctx, c, "create type mood as enum ('sad', 'happy')")
	of, err := c.LoadType(ctx, "mood")
	must(err)
	c.TypeMap().RegisterType(of)
	exec(ctx, c, "create table t (m mood)")
	exec(ctx, c, "insert into t values ($1)", "happy")
	same("happy", value[string](ctx, c, "select m from t where m > $1", "sad"))
}

func anyOfAnArray(ctx context.Context, c *pgx.Conn, _ string) {
	exec(ctx, c, "create table t (id int primary key)")
	exec(ctx, c, "insert into t values (1), (2), (3)")
	same(int64(2), value[int64](ctx, c, "select count(*) from t where id = any ($1)", []int32{1, 3, 9}))
}

func outcome(address, check string) (answer string) {
	defer func() {
		if failure := recover(); failure != nil {
			answer = fmt.Sprint("failed ", failure)
		}
	}()
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
	defer stop()
	url := "postgres://postgres@" + address
	c, err := pgx.Connect(ctx, url)
	must(err)
	defer c.Close(ctx)
	checks[check](ctx, c, url)
	return "passed"
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		fmt.Println(strings.ReplaceAll(outcome(words[0], words[1]), "\n", " "))
	}
}
