//! Precedence, and complaints that say where.

use super::*;

fn variables(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(n, v): &(&str, &str)| ((*n).to_owned(), (*v).to_owned());
    pairs.iter().map(owned).collect()
}

fn file(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), text).expect("written");
    file
}

#[test]
fn flight_is_off_until_it_has_an_address() {
    let config = Config::load(None, &[], variables(&[])).expect("loads");
    assert_eq!((config.flight_listen, &config.flight_tls), (None, &None));
    let switches = [
        Entry::switch("flight_listen", "127.0.0.1:7"),
        Entry::switch("flight_tls_cert", "c.pem"),
        Entry::switch("flight_tls_key", "k.pem"),
        Entry::switch("flight_result_timeout", "2min"),
    ];
    let config = Config::load(None, &switches, variables(&[])).expect("loads");
    assert_eq!(config.flight_listen.map(|a| a.port()), Some(7));
    let files = TlsFiles { certificate: "c.pem".into(), key: "k.pem".into() };
    assert_eq!(config.flight_tls, Some(files));
    assert_eq!(config.flight_result_timeout, Duration::from_secs(120));
    let far = [Entry::switch("flight_listen", "192.0.2.1:7")];
    let error = Config::load(None, &far, variables(&[])).expect_err("refused").to_string();
    assert!(error.starts_with("--flight-listen: ") && error.contains("loopback"), "{error}");
}

#[test]
fn switches_beat_variables_beat_the_file_beats_defaults() {
    let file = file(
        "listen = \"127.0.0.1:1\"\nmax_connections = 1_0\nmemory_limit = \"1GB\"\n\
         [settings]\nlock_timeout = 5\nfroglet.fast_path = false\nwork = \"file\"\n",
    );
    let environment = variables(&[
        ("FROGLET_MAX_CONNECTIONS", "20"),
        ("FROGLET_MEMORY_LIMIT", "2GB"),
        ("FROGLET_SETTING_WORK", "variable"),
        ("FROGLET_SOMEBODY_ELSES", "1"),
        ("PATH", "/bin"),
    ]);
    let switches =
        [Entry::switch("memory_limit", "3GB"), Entry::switch("settings.other", "switch")];
    let config = Config::load(Some(file.path()), &switches, environment).expect("loads");
    assert_eq!(config.listen.port(), 1);
    assert_eq!(config.max_connections, 20);
    assert_eq!(config.memory_limit_bytes, 3 << 30);
    assert_eq!(config.checkpoint_timeout, Duration::from_secs(300));
    assert_eq!(config.freeze_after, Some(Duration::from_secs(5)));
    let mut settings: Vec<(&str, &str)> =
        config.settings.iter().map(|s| (s.name.as_str(), s.value.as_str())).collect();
    settings.sort_unstable();
    let want = [
        ("froglet.fast_path", "off"),
        ("lock_timeout", "5"),
        ("other", "switch"),
        ("work", "variable"),
    ];
    assert_eq!(settings, want);
}

#[test]
fn the_file_in_the_data_directory_is_found() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let data = dir.path().display().to_string();
    std::fs::write(dir.path().join(FILE_NAME), "max_connections = 7\n").expect("written");
    let load = || Config::load(None, &[Entry::switch("data", data.clone())], []);
    assert_eq!(load().expect("loads").max_connections, 7);
    std::fs::write(dir.path().join(FILE_NAME), "data = \"/elsewhere\"\n").expect("written");
    let error = load().expect_err("a file cannot move the directory it lies in");
    assert!(error.to_string().contains("froglet.toml:1"), "{error}");
}

#[test]
fn complaints_name_file_and_line() {
    let cases = [
        ("\n\nmax_conections = 3\n", ":3: unknown key \"max_conections\""),
        ("max_connections = \"many\"\n", ":1: max_connections cannot be \"many\""),
        ("max_connections = 0\n", "at least one"),
        ("memory_limit = \"1MB\"", "at least 16MB"),
        ("store_history = \"29s\"", "at least 30s"),
        ("\nmemory_limit = [1]\n", ":2: memory_limit"),
        ("a = 1\na = 2\n", ":2: duplicate key"),
        ("listen = \"0.0.0.0:5432\"", "rules of authentication"),
        (
            "\nauthentication = [\n  \"host all all all reject\",\n  \"host all\",\n]",
            ":4: authentication cannot be \"host all\"",
        ),
        ("authentication = []", ":1: authentication"),
        ("authentication = [3]", "a rule is TYPE"),
        ("tls_cert = \"c.pem\"", ":1: tls_cert cannot be \"c.pem\": tls_key is needed"),
        ("listen = \"nonsense\"", "HOST:PORT"),
        ("x\n", ":1: "),
    ];
    for (text, want) in cases {
        let file = file(text);
        let error = Config::load(Some(file.path()), &[], []).expect_err(text);
        let shown = error.to_string();
        assert!(shown.contains(want), "{text:?} gave {shown:?}");
    }
    let missing = Path::new("/nonexistent/froglet.toml");
    let error = Config::load(Some(missing), &[], []).expect_err("no such file");
    assert!(error.to_string().contains("/nonexistent/froglet.toml"), "{error}");
    let environment = variables(&[("FROGLET_LISTEN", "10.0.0.1:1")]);
    let error = Config::load(None, &[], environment).expect_err("not loopback");
    assert!(error.to_string().contains("FROGLET_LISTEN"), "{error}");
}

#[test]
fn the_freezer_is_told_when_and_how() {
    let load = |name: &str, value: &str| Config::load(None, &[Entry::switch(name, value)], []);
    assert_eq!(load("freeze_after", "off").expect("loads").freeze_after, None);
    let after = load("freeze_after", "200ms").expect("loads").freeze_after;
    assert_eq!(after, Some(Duration::from_millis(200)));
    let choice = load("freeze_dictionary", "off").expect("loads").freeze_dictionary;
    assert_eq!(choice, Dictionary::Off);
    for (name, value) in
        [("freeze_after", "soon"), ("freeze_threads", "0"), ("freeze_dictionary", "maybe")]
    {
        let error = load(name, value).expect_err("refused").to_string();
        assert!(error.contains(value) && error.contains("--freeze-"), "{error}");
    }
}

#[test]
fn beyond_loopback_everybody_proves_who_he_is() {
    let far = "listen = \"192.0.2.1:5432\"\n";
    let load = |rules: &str| {
        let file = file(&format!("{far}authentication = [{rules}]"));
        Config::load(Some(file.path()), &[], []).map_err(|e| e.to_string())
    };
    load("\"host all all 127.0.0.1/32 trust\", \"host all all all scram-sha-256\"").expect("loads");
    let error = load("\"host all all all scram-sha-256\", \"host all all all trust\"");
    let error = error.expect_err("it trusts");
    assert!(error.contains(":1: listen") && error.contains(":2 trusts"), "{error}");
    let flight = [Entry::switch("flight_listen", "192.0.2.1:7")];
    let rules =
        [("FROGLET_AUTHENTICATION", "host all all all scram-sha-256; host all all all reject")];
    let error = Config::load(None, &flight, variables(&rules)).expect_err("no TLS").to_string();
    assert!(error.contains("needs TLS"), "{error}");
    let with_tls = [
        Entry::switch("flight_listen", "192.0.2.1:7"),
        Entry::switch("tls_cert", "c.pem"),
        Entry::switch("tls_key", "k.pem"),
    ];
    let config = Config::load(None, &with_tls, variables(&rules)).expect("loads");
    assert_eq!(config.authentication.len(), 2);
}

#[test]
fn rules_of_one_source_replace_those_of_another() {
    let file = file("authentication = [\"host all all all reject\"]\nsuperuser_password = \"x\"");
    let rules = variables(&[("FROGLET_AUTHENTICATION", "host all anna all reject")]);
    let config = Config::load(Some(file.path()), &[], rules).expect("loads");
    assert_eq!(config.authentication.len(), 1);
    assert_eq!(config.authentication[0].place, "environment variable FROGLET_AUTHENTICATION");
    assert!(!format!("{config:?}").contains("\"x\""), "a password is not shown");
}
