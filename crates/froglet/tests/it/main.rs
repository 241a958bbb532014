//! The program as a process: what it prints, how it ends, what survives it.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio_postgres::{Client, NoTls};

fn froglet() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_froglet"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("FROGLET_")) {
        command.env_remove(name);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A server on a port of its own, killed if the test leaves it.
struct Served {
    child: Child,
    port: u16,
    lines: Vec<String>,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a server and waits until it says that it is ready.
fn serve(data: &Path, more: &[&str]) -> Served {
    let mut command = froglet();
    command.args(["serve", "--listen", "127.0.0.1:0", "--memory-limit", "1GB", "--data"]);
    command.arg(data).args(more);
    started(command)
}

/// Runs a command that serves until it says that it is ready.
fn started(mut command: Command) -> Served {
    let mut child = command.spawn().expect("starts");
    let out = BufReader::new(child.stdout.take().expect("piped"));
    let lines: Vec<String> = out.lines().take(2).map(|line| line.expect("text")).collect();
    let port = lines.first().and_then(|line| line.rsplit(':').next()?.parse().ok());
    let Some(port) = port else {
        let mut errors = String::new();
        let _ = child.kill();
        let stderr = child.stderr.as_mut().expect("piped");
        stderr.read_to_string(&mut errors).expect("text");
        panic!("no server: {lines:?}\n{errors}");
    };
    Served { child, port, lines }
}

impl Served {
    async fn connect(&self) -> Client {
        let text = format!("host=127.0.0.1 port={} user=postgres", self.port);
        let (client, connection) = tokio_postgres::connect(&text, NoTls).await.expect("connects");
        tokio::spawn(connection);
        client
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(status.expect("kill is there").success());
    }

    /// Waits for its end, a minute long. Returns its exit code (none: it was killed) and what it logged.
    fn end(mut self) -> (Option<i32>, String) {
        let began = Instant::now();
        let status = loop {
            match self.child.try_wait().expect("is a child") {
                Some(status) => break status,
                None => assert!(began.elapsed() < Duration::from_secs(60), "it does not end"),
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        let mut errors = String::new();
        let stderr = self.child.stderr.as_mut().expect("piped");
        stderr.read_to_string(&mut errors).expect("text");
        (status.code(), errors)
    }
}

fn data() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

fn fails(command: &mut Command) -> String {
    let Output { status, stderr, .. } = command.output().expect("runs");
    let errors = String::from_utf8(stderr).expect("text");
    assert_eq!(status.code(), Some(1), "{errors}");
    errors
}

#[test]
fn readiness_is_told_in_two_lines() {
    let data = data();
    let served = serve(data.path(), &[]);
    let port = served.port;
    let version = env!("CARGO_PKG_VERSION");
    let want = [
        format!("froglet {version} listening on 127.0.0.1:{port}"),
        format!("psql -h 127.0.0.1 -p {port} -U postgres postgres"),
    ];
    assert_eq!(served.lines, want);
}

#[test]
fn a_second_server_on_a_directory_is_refused() {
    let data = data();
    let served = serve(data.path(), &[]);
    let mut second = froglet();
    second.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data.path());
    let errors = fails(&mut second);
    assert!(errors.contains(&format!("process {}", served.child.id())), "{errors}");
}

#[test]
fn a_taken_port_and_wrong_configurations_are_explained() {
    let (one, other) = (data(), data());
    let served = serve(one.path(), &[]);
    let taken = format!("127.0.0.1:{}", served.port);
    let mut second = froglet();
    second.args(["serve", "--listen", &taken, "--data"]).arg(other.path());
    let errors = fails(&mut second);
    assert!(errors.contains(&taken) && errors.contains("--listen 127.0.0.1:"), "{errors}");

    let file = other.path().join("froglet.toml");
    std::fs::write(&file, "\nlistne = \"127.0.0.1:1\"\n").expect("written");
    let errors = fails(froglet().arg("serve").arg("--data").arg(other.path()));
    assert!(errors.contains("froglet.toml:2: unknown key \"listne\""), "{errors}");
    std::fs::write(&file, "[settings]\n\nno_such_setting = 3\n").expect("written");
    let errors = fails(froglet().arg("serve").arg("--config").arg(&file));
    assert!(errors.contains("froglet.toml:3: "), "{errors}");
    let errors = fails(froglet().args(["serve", "--listen", "0.0.0.0:5432"]));
    assert!(errors.contains("authentication"), "{errors}");
    let errors = fails(froglet().arg("serve").env("FROGLET_MEMORY_LIMIT", "lots"));
    assert!(errors.contains("FROGLET_MEMORY_LIMIT"), "{errors}");
}

#[tokio::test]
async fn what_was_acknowledged_survives_a_kill() {
    let data = data();
    let served = serve(data.path(), &[]);
    let client = served.connect().await;
    let create = "CREATE TABLE t (id int PRIMARY KEY, name text); INSERT INTO t VALUES (0, 'a')";
    client.batch_execute(create).await.expect("runs");
    client.batch_execute("ALTER TABLE t ADD COLUMN n int NOT NULL DEFAULT 7").await.expect("runs");
    client.execute("INSERT INTO t VALUES (1, 'b', 8)", &[]).await.expect("runs");
    client.batch_execute("BEGIN; INSERT INTO t VALUES (2, 'half', 9)").await.expect("runs");
    served.signal("KILL");
    assert_eq!(served.end().0, None);

    let served = serve(data.path(), &[]);
    let client = served.connect().await;
    let rows = client.query("SELECT id, name, n FROM t ORDER BY id", &[]).await.expect("runs");
    let rows: Vec<(i32, String, i32)> =
        rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
    assert_eq!(rows, [(0, "a".to_owned(), 7), (1, "b".to_owned(), 8)]);
    served.signal("TERM");
    let (code, errors) = served.end();
    assert_eq!(code, Some(0), "{errors}");

    let served = serve(data.path(), &[]);
    let client = served.connect().await;
    let row = client.query_one("SELECT count(*) FROM t", &[]).await.expect("runs");
    assert_eq!(row.get::<_, i64>(0), 2);
    served.signal("INT");
    let (code, errors) = served.end();
    assert_eq!(code, Some(0), "{errors}");
}

#[test]
fn every_command_explains_itself() {
    let commands: [&[&str]; 8] = [
        &["--help"],
        &["serve", "--help"],
        &["bench", "--help"],
        &["demo", "--help"],
        &["migrations", "--help"],
        &["migrations", "list", "--help"],
        &["migrations", "watch", "--help"],
        &["migrations", "cancel", "--help"],
    ];
    for command in commands {
        let output = froglet().args(command).output().expect("runs");
        let help = String::from_utf8(output.stdout).expect("text");
        assert!(output.status.success() && help.contains("Usage:"), "{command:?}: {help}");
        assert!(help.contains("Examples:"), "{command:?} has no examples: {help}");
    }
}

#[tokio::test]
async fn migrations_are_listed_and_cancelled_by_number() {
    let data = data();
    let served = serve(data.path(), &[]);
    let client = served.connect().await;
    let sql = "CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1), (2)";
    client.batch_execute(sql).await.expect("runs");
    client
        .batch_execute("ALTER TABLE t ADD COLUMN n int DEFAULT 1 CHECK (n > 0)")
        .await
        .expect("runs");
    client.batch_execute("CREATE INDEX ON t (n)").await.expect("runs");
    let port = served.port.to_string();
    let listed = froglet().args(["migrations", "list", "--port", &port]).output().expect("runs");
    let text = String::from_utf8(listed.stdout).expect("text");
    assert!(listed.status.success() && text.contains("CREATE INDEX"), "{text}");
    let errors = fails(froglet().args(["migrations", "cancel", "999999", "--port", &port]));
    assert!(errors.contains("no schema change 999999"), "{errors}");
}

#[tokio::test]
async fn a_log_that_cannot_grow_refuses_writes_and_loses_nothing() {
    let data = data();
    // Files may not grow beyond 4 MB: the log meets the limit as it would a full disk.
    let mut command = Command::new("bash");
    command.arg("-c").arg("trap '' XFSZ; ulimit -f 4096; exec \"$@\"").arg("bash");
    command.arg(env!("CARGO_BIN_EXE_froglet"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--memory-limit", "1GB", "--data"]);
    command.arg(data.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let served = started(command);
    let client = served.connect().await;
    client.batch_execute("CREATE TABLE t (id int PRIMARY KEY, x text)").await.expect("runs");
    let padding = "x".repeat(10_000);
    let mut acknowledged = 0;
    let error = loop {
        match client.execute("INSERT INTO t VALUES ($1, $2)", &[&acknowledged, &padding]).await {
            Ok(_) => acknowledged += 1,
            Err(error) => break error,
        }
        assert!(acknowledged < 2000, "the limit was not met");
    };
    // It is refused before it is anywhere, and what is read goes on.
    assert_eq!(error.code().map(|code| code.code()), Some("53100"), "{error:?}");
    assert_eq!(count(&client).await, acknowledged);
    drop(client);
    served.signal("TERM");
    let (code, errors) = served.end();
    assert_eq!(code, Some(0), "{errors}");

    let served = serve(data.path(), &[]);
    assert_eq!(count(&served.connect().await).await, acknowledged);
}

/// The rows of `t`.
async fn count(client: &Client) -> i32 {
    let row = client.query_one("SELECT count(*)::int FROM t", &[]).await.expect("runs");
    row.get(0)
}

/// The names of the operations in a file of results, each once.
fn operations(file: &Path) -> Vec<String> {
    let json = std::fs::read_to_string(file).expect("was written");
    let lines = json.lines().map(str::trim);
    let mut names: Vec<String> =
        lines.filter(|line| line.starts_with("\"operation\"")).map(str::to_owned).collect();
    names.dedup();
    names
}

#[test]
fn the_benchmark_of_schema_changes_verifies_one_and_draws_it() {
    let dir = data();
    let (json, plots) = (dir.path().join("results.json"), dir.path().join("plots"));
    let mut command = froglet();
    command.args(["bench", "tpccd", "--small", "--seconds", "0.2", "--only", "Preaggregate"]);
    command.args(["--no-postgres", "--rounds", "2"]);
    let output = command.arg("--json").arg(&json).arg("--plots").arg(&plots).output();
    let Output { status, stdout, stderr } = output.expect("runs");
    let errors = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{errors}");
    let table = String::from_utf8_lossy(&stdout);
    assert!(table.contains("rows wrong") || table.contains("given up after"), "{table}");
    assert!(table.contains("Limits: closed loop"), "{table}");
    let plot = std::fs::read_to_string(plots.join("figure-7-preaggregate.svg"));
    assert!(plot.expect("was drawn").ends_with("</svg>\n"));
    assert_eq!(operations(&json).len(), 1);
}

#[test]
fn all_figures_of_a_change_are_one_command() {
    let dir = data();
    let figures = dir.path().join("figures");
    let mut command = froglet();
    command.args(["bench", "tpccd", "--small", "--seconds", "0.2", "--only", "AddConstraint"]);
    let output = command.arg("--no-postgres").arg("--figures").arg(&figures).output();
    let Output { status, stdout, stderr } = output.expect("runs");
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    assert!(String::from_utf8_lossy(&stdout).contains("Limits: open loop at 0.5"));
    for file in [
        "tpccd.json",
        "tpccd.txt",
        "figure-9-addconstraint.svg",
        "figure-9-addconstraint-load-0-5.svg",
        "sweep-rows-microbenchmark.svg",
        "sweep-rows-tpcc.svg",
    ] {
        assert!(figures.join(file).is_file(), "{file}");
    }
}

#[test]
fn clients_come_to_a_new_schema_under_every_approach_and_lose_nothing() {
    let dir = data();
    let figures = dir.path().join("figures");
    let mut command = froglet();
    command.args(["bench", "tpccd", "--small", "--seconds", "0.2", "--only", "JoinTable"]);
    command.args(["--approach", "all", "--load", "0.3"]).arg("--plots").arg(&figures);
    let Output { status, stdout, stderr } = command.output().expect("runs");
    let table = String::from_utf8_lossy(&stdout);
    // Rows that are wrong make it fail.
    assert!(status.success(), "{table}\n{}", String::from_utf8_lossy(&stderr));
    let lazily = ["Lazy ", "Hybrid ", "Lazy, ON CONFLICT "];
    for approach in ["NoDDL ", "Eager-blocking ", "Multi-step ", "Tesseract "].iter().chain(&lazily)
    {
        assert!(table.lines().any(|line| line.starts_with(approach)), "{approach}: {table}");
    }
    assert!(table.contains("Limits: moderate rate"), "{table}");
    let failed = table.lines().filter(|line| line.contains("failed transactions"));
    assert!(failed.clone().count() == 7 && failed.clone().all(|l| l.trim_end().ends_with(" 0")));
    for file in ["figure-4-7-jointable-load-0-3.svg", "figure-4-8-jointable-load-0-3.svg"] {
        assert!(figures.join(file).is_file(), "{file}");
    }
}

#[test]
fn what_tracking_costs_and_how_soon_a_table_answers_are_sweeps_of_big_flips() {
    let mut command = froglet();
    command.args(["bench", "tpccd", "--small", "--seconds", "0.5", "--sweep", "sizes,tracking"]);
    let without = command.output().expect("runs");
    assert!(String::from_utf8_lossy(&without.stderr).contains("give --approach"));
    let Output { status, stdout, stderr } =
        command.args(["--approach", "lazy"]).output().expect("runs");
    let table = String::from_utf8_lossy(&stdout);
    assert!(status.success(), "{table}\n{}", String::from_utf8_lossy(&stderr));
    assert!(table.contains("Limits: rows") && table.contains("Limits: tracking"), "{table}");
}

#[test]
fn the_demonstration_makes_every_change_and_says_so_in_lines() {
    let dir = data();
    let json = dir.path().join("figures.json");
    let mut command = froglet();
    command.args(["demo", "--small", "--seconds", "0.2", "--json"]).arg(&json);
    let Output { status, stdout, stderr } = command.output().expect("runs");
    let lines = String::from_utf8_lossy(&stdout);
    assert!(status.success(), "{lines}\n{}", String::from_utf8_lossy(&stderr));
    assert!(lines.contains("DROP COLUMN ol_vat") && !lines.contains("not made"), "{lines}");
    assert!(!lines.contains('\u{1b}'), "no escape sequences where nobody draws: {lines}");
    assert_eq!(operations(&json).len(), 8);
}
