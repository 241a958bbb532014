//! Lines and indents of what is printed. CASE stands on lines of its own, four blanks deeper within another, and no
//! blank stays before a line's end:
//!
//! ```text
//!   CASE CASE id WHEN 1 THEN b END WHEN …      CASE
//!                                                  CASE id
//!                                                      WHEN 1 THEN b
//! ```
//!
//! How deep one is shows where the whole is printed. Until then its words have marks, which no text of SQL can have.

/// Begins a CASE.
pub(super) const CASE: &str = "\0>CASE";
/// A line within it.
pub(super) const LINE: &str = "\0=";
pub(super) const END: &str = "\0<END";

const INDENT: usize = 4;

/// A text without marks; the outermost CASE stands `indent` blanks from the left.
pub(super) fn laid_out(text: &str, indent: usize) -> String {
    let mut parts = text.split('\0');
    let mut out = parts.next().unwrap_or_default().to_owned();
    let mut depth = indent;
    for part in parts {
        let (mark, line) = part.split_at_checked(1).unwrap_or((part, ""));
        if mark == "<" {
            depth = depth.saturating_sub(INDENT);
        }
        out.truncate(out.trim_end_matches(' ').len());
        out.push('\n');
        out.push_str(&" ".repeat(depth));
        out.push_str(line);
        if mark == ">" {
            depth += INDENT;
        }
    }
    out
}
