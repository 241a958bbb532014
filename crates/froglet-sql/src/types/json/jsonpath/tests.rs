//! Paths as they are printed, what they find, and their errors. What PostgreSQL says of the same is compared in
//! `tests/features/types.sql`.

use super::{Path, Question, fit};
use crate::types::json::{Json, canonical, read};

fn printed(text: &str) -> String {
    match fit(text) {
        Ok(kept) => kept.unwrap_or_else(|| text.to_owned()),
        Err(e) => e.state.as_str().to_owned(),
    }
}

fn found(json: &str, path: &str, vars: &str, silent: bool) -> String {
    let (json, vars) = (read(json).expect("it is json"), read(vars).expect("it is json"));
    let path = match Path::of(path) {
        Ok(path) => path,
        Err(e) => return e.state.as_str().to_owned(),
    };
    let question = Question { path: &path, json: &json, vars: Some(&vars), silent };
    match question.items() {
        Ok(items) => items.iter().map(|item| canonical(item)).collect::<Vec<_>>().join(" "),
        Err(e) => e.state.as_str().to_owned(),
    }
}

fn query(json: &str, path: &str) -> String {
    found(json, path, "{}", false)
}

#[test]
fn paths_are_printed_canonically() {
    let cases = [
        ("$.a", "$.\"a\""),
        ("strict  $ . a [ * ]", "strict $.\"a\"[*]"),
        ("LAX $.**{2 to last}.*", "$.**{2 to last}.*"),
        ("$[0, last - 1 to last]", "$[0,last - 1 to last]"),
        ("(1 + 2) * 3 - (4 - 5)", "((1 + 2) * 3 - (4 - 5))"),
        ("$ ? (@ > 1 && (@ < 5 || @ == 7))", "$?(@ > 1 && (@ < 5 || @ == 7))"),
        (
            "$ ? (!exists(@.a) || (@ == 1) is unknown)",
            "$?(!(exists (@.\"a\")) || (@ == 1) is unknown)",
        ),
        ("$ ? (@ like_regex \"x\" flag \"smi\")", "$?(@ like_regex \"x\" flag \"ism\")"),
        ("$ ? (@ starts with $\"v w\")", "$?(@ starts with $\"v w\")"),
        ("1..type()", "(1).type()"),
        ("-1.50e2", "-150"),
        ("/* blank */ $ /**/", "$"),
        ("\"\\u0041\\x42\\u{43}\\ud83d\\ude00\"", "\"ABC😀\""),
        // What the operation's steps are of must be told from what its last operand's are.
        ("($.a * 2).abs() + 3", "(($.\"a\" * 2).abs() + 3)"),
        ("(exists($.a)).type()", "(exists ($.\"a\")).type()"),
    ];
    for (text, wanted) in cases {
        assert_eq!(printed(text), wanted, "{text}");
        assert_eq!(printed(wanted), wanted, "{wanted} is canonical");
    }
}

#[test]
fn what_is_no_path_is_refused() {
    for text in [
        "$.",
        "@",
        "last",
        "1a",
        "$[",
        "$ ? (1)",
        "1 == 1 == 1",
        "true && false",
        "\"",
        "$.f()",
        "/*",
    ] {
        assert_eq!(printed(text), "42601", "{text}");
    }
    assert_eq!(printed(" "), "22P02");
    assert_eq!(printed("\"\\u0000\""), "22P05");
    assert_eq!(printed("$ ? (@ like_regex \"(\")"), "2201B");
    assert_eq!(printed("$ ? (@ like_regex \"a\" flag \"x\")"), "0A000");
    assert_eq!(printed(&"(".repeat(100_000)), "54001");
    assert_eq!(printed(&"1+".repeat(100_000)), "54001");
}

#[test]
fn lax_paths_unwrap_and_forgive() {
    assert_eq!(query(r#"{"a": [{"b": 1}, {"b": 2}, {}]}"#, "$.a.b"), "1 2");
    assert_eq!(query(r#"{"a": [{"b": 1}]}"#, "strict $.a.b"), "2203A");
    assert_eq!(query("1", "$[0]"), "1");
    assert_eq!(query("1", "strict $[0]"), "22039");
    assert_eq!(query("[1]", "$[5]"), "");
    assert_eq!(query("[1]", "strict $[5]"), "22033");
    assert_eq!(query("1", "strict $.*"), "2203C");
    assert_eq!(found("1", "strict $.*", "{}", true), "");
}

#[test]
fn numbers_are_exact() {
    assert_eq!(query("12345678901234567890.10", "$ + 0.01"), "12345678901234567890.11");
    assert_eq!(query("7", "$ / 2"), "3.5000000000000000");
    assert_eq!(query("[1.0, 2]", "$[*] ? (@ == 1)"), "1.0");
    assert_eq!(query("0", "1 / $"), "22012");
    assert_eq!(query("0", "1 / $ > 0"), "null");
    assert_eq!(query("\"a\"", "-$"), "2203B");
    assert_eq!(query("\"a\"", "$ + 1"), "22038");
    assert_eq!(query("\"a\"", "$.abs()"), "22036");
}

#[test]
fn variables_have_values() {
    assert_eq!(found("[1, 2, 3]", "$[*] ? (@ >= $min)", r#"{"min": 2}"#, false), "2 3");
    // It is an error of the call, which is not silenced.
    assert_eq!(found("1", "$x", "{}", true), "42704");
    assert_eq!(found("1", "$", "[]", true), "22023");
}

#[test]
fn objects_have_ids_of_their_places() {
    let json = r#"[{"k": 1.00005}, {"a": {"b": true}}]"#;
    assert_eq!(query(json, "$.**{last to 9}.keyvalue()"), "");
    assert_eq!(query(json, "$[*].keyvalue().id"), "12 40");
    assert_eq!(query(json, "$[1].a.keyvalue().id"), "56");
}

#[test]
fn deep_values_are_walked() {
    let deep = format!("{}1{}", "[".repeat(500), "]".repeat(500));
    assert_eq!(query(&deep, "$.**{last}"), "1");
    let keys = ".a".repeat(50_000);
    assert_eq!(query("{}", &format!("${keys}")), "");
    assert!(matches!(read(&deep), Ok(Json::Array(_))));
}
