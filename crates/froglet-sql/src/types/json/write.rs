//! JSON values as text: canonical, pretty.

use super::{Json, Node, deeper};

/// Appends a string in quotes.
pub fn escape(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// As jsonb prints it. The members are in their order already.
pub fn canonical(json: &Json) -> String {
    let mut out = String::new();
    write(json, (", ", ": "), &mut out);
    out
}

/// Without a blank, as json_strip_nulls prints json.
pub fn compact(json: &Json) -> String {
    let mut out = String::new();
    write(json, (",", ":"), &mut out);
    out
}

fn write(json: &Json, marks: (&str, &str), out: &mut String) {
    match json {
        Json::Null => out.push_str("null"),
        Json::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Json::Number(text) => out.push_str(text),
        Json::String(text) => escape(text, out),
        Json::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at > 0 { marks.0 } else { "" });
                deeper(|| write(&item.json, marks, out));
            }
            out.push(']');
        }
        Json::Object(members) => {
            out.push('{');
            for (at, (name, member)) in members.iter().enumerate() {
                out.push_str(if at > 0 { marks.0 } else { "" });
                escape(name, out);
                out.push_str(marks.1);
                deeper(|| write(&member.json, marks, out));
            }
            out.push('}');
        }
    }
}

/// A line for each value, four blanks for each level.
pub fn pretty(json: &Json) -> String {
    let mut out = String::new();
    write_pretty(json, 0, &mut out);
    out
}

fn write_pretty(json: &Json, depth: usize, out: &mut String) {
    let line = |depth: usize, out: &mut String| {
        out.push('\n');
        out.push_str(&"    ".repeat(depth));
    };
    let each = |at: usize, out: &mut String| {
        out.push_str(if at > 0 { "," } else { "" });
        line(depth + 1, out);
    };
    match json {
        Json::Array(items) => {
            out.push('[');
            for (at, Node { json, .. }) in items.iter().enumerate() {
                each(at, out);
                deeper(|| write_pretty(json, depth + 1, out));
            }
            line(depth, out);
            out.push(']');
        }
        Json::Object(members) => {
            out.push('{');
            for (at, (name, Node { json, .. })) in members.iter().enumerate() {
                each(at, out);
                escape(name, out);
                out.push_str(": ");
                deeper(|| write_pretty(json, depth + 1, out));
            }
            line(depth, out);
            out.push('}');
        }
        plain => write(plain, (", ", ": "), out),
    }
}
