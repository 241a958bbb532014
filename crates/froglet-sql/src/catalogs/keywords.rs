//! The keywords of PostgreSQL 15: `keywords.txt` has each with its category, and whether it may be a bare label.

use std::collections::HashMap;
use std::sync::LazyLock;

static TEXT: &str = include_str!("keywords.txt");

/// A keyword.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keyword {
    pub(crate) word: &'static str,
    /// `U`nreserved, a `C`olumn's name only, a function's or `T`ype's name, or `R`eserved
    pub(crate) category: char,
    pub(crate) bare_label: bool,
}

impl Keyword {
    /// pg_get_keywords().catdesc
    pub(crate) fn category_text(self) -> &'static str {
        match self.category {
            'U' => "unreserved",
            'C' => "unreserved (cannot be function or type name)",
            'T' => "reserved (can be function or type name)",
            _ => "reserved",
        }
    }

    /// pg_get_keywords().baredesc
    pub(crate) fn label_text(self) -> &'static str {
        if self.bare_label { "can be bare label" } else { "requires AS" }
    }
}

/// All of them, in order.
pub(crate) fn all() -> &'static [Keyword] {
    static ALL: LazyLock<Vec<Keyword>> = LazyLock::new(|| TEXT.lines().filter_map(read).collect());
    &ALL
}

fn read(line: &'static str) -> Option<Keyword> {
    let mut fields = line.split(' ');
    let word = fields.next()?;
    let category = fields.next()?.chars().next()?;
    Some(Keyword { word, category, bare_label: fields.next()? == "1" })
}

fn category_of(word: &str) -> Option<char> {
    static CATEGORIES: LazyLock<HashMap<&'static str, char>> =
        LazyLock::new(|| all().iter().map(|keyword| (keyword.word, keyword.category)).collect());
    CATEGORIES.get(word).copied()
}

/// Whether a word, in small letters, is one.
pub(crate) fn is_keyword(word: &str) -> bool {
    category_of(word).is_some()
}

/// Whether a word needs quotes to be any name.
pub(crate) fn needs_quotes(word: &str) -> bool {
    category_of(word).is_some_and(|category| category != 'U')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_keyword() {
        assert_eq!(all().len(), TEXT.lines().count());
        assert!(needs_quotes("bigint") && needs_quotes("select") && needs_quotes("left"));
        assert!(!needs_quotes("begin") && !needs_quotes("frog"));
    }
}
