//! Mutations of valid inputs: what is nearly right goes deeper into a decoder than noise does.

use std::fmt;

/// SplitMix64 (Steele et al., OOPSLA 2014): the same numbers from the same seed, for ever.
#[derive(Debug, Clone)]
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next_u64() % bound as u64) as usize
    }

    /// One of these; there is at least one.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// Bytes with one to four things wrong: cut, flipped, overwritten, spliced with `other`, repeated.
pub fn bytes(random: &mut Random, valid: &[u8], other: &[u8]) -> Vec<u8> {
    let mut out = valid.to_vec();
    for _ in 0..1 + random.below(4) {
        let at = random.below(out.len() + 1);
        match random.below(9) {
            0 => out.truncate(at),
            1..4 if at < out.len() => out[at] ^= 1 << random.below(8),
            4 if at < out.len() => out[at] = *random.pick(&[0, 1, 0x7F, 0x80, 0xFE, 0xFF]),
            5 => {
                // A length, as they are stored here.
                let number = *random.pick(&[0, 1, 0xFFFF, 1 << 20, 1 << 30, u32::MAX]);
                let end = out.len().min(at + 4);
                out[at..end].copy_from_slice(&number.to_le_bytes()[..end - at]);
            }
            6 => {
                let from = random.below(other.len() + 1);
                out.truncate(at);
                out.extend_from_slice(&other[from..]);
            }
            7 => {
                let end = at + random.below(out.len() - at + 1).min(64);
                let repeated = out[at..end].to_vec();
                out.splice(at..at, repeated);
            }
            _ => {
                let end = at + random.below(out.len() - at + 1).min(64);
                out.drain(at..end);
            }
        }
    }
    out
}

/// Words that mean something to a decoder of SQL.
const WORDS: &[&str] = &[
    "NULL",
    "(",
    ")",
    "((((((((",
    "))))))))",
    "''",
    "'",
    "\"",
    "$1",
    "$65536",
    "::",
    "int",
    "text",
    "numeric(1000,1000)",
    "timestamptz",
    "interval",
    "9223372036854775808",
    "-2147483648",
    "1e400",
    "0.1e-400",
    "0/0",
    "nan",
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP BY",
    "ORDER BY",
    "LIMIT -1",
    "OFFSET 9223372036854775807",
    "WITH RECURSIVE",
    "UNION ALL",
    "JOIN",
    "LATERAL",
    "USING",
    "DISTINCT ON (1)",
    "RETURNING *",
    "ON CONFLICT DO NOTHING",
    "FOR UPDATE",
    "CASCADE",
    "IF NOT EXISTS",
    "ALTER TABLE",
    "ADD COLUMN",
    "DROP COLUMN",
    "generate_series(1, 1000000000000)",
    "repeat('x', 1000000000)",
    "ARRAY[1]",
    "[0]",
    ";",
    "--",
    "/*",
    "*/",
    "\\",
    "é",
    "\u{10FFFF}",
    "E'\\u0000'",
    "U&'\\+110000'",
    "''''",
    "*",
    ".",
    ",",
    "=",
    "<>",
    "NOT",
    "IN",
    "IN ()",
    "EXISTS",
    "CASE",
    "END",
    "AS",
    "count(*)",
    "OVER ()",
    "BEGIN",
    "COMMIT",
    "ROLLBACK TO x",
    "now()",
    "'2000-02-30'::date",
    "'infinity'::timestamp",
    "pg_catalog.pg_class",
    "information_schema.columns",
    "EXPLAIN",
    "COPY",
    "SET",
    "SHOW ALL",
    "VACUUM",
];

/// A text with one to four things wrong, in words and in characters; spliced with `other`.
pub fn text(random: &mut Random, valid: &str, other: &str) -> String {
    let mut words = pieces(valid);
    let others = pieces(other);
    for _ in 0..1 + random.below(4) {
        let at = random.below(words.len() + 1);
        match random.below(10) {
            0 if at < words.len() => {
                words.remove(at);
            }
            1 if at < words.len() => words.insert(at, words[at].clone()),
            2 | 3 => words.insert(at, format!(" {} ", random.pick(WORDS))),
            4 | 5 if at < words.len() => words[at] = format!(" {} ", random.pick(WORDS)),
            6 if !others.is_empty() => {
                let from = random.below(others.len());
                words.truncate(at);
                words.extend_from_slice(&others[from..]);
            }
            7 if !others.is_empty() && at < words.len() => {
                words[at] = random.pick(&others).clone();
            }
            8 if at < words.len() => {
                let other = random.below(words.len());
                words.swap(at, other);
            }
            9 => {
                let mut whole: Vec<char> = words.concat().chars().collect();
                whole.truncate(random.below(whole.len() + 1));
                words = vec![whole.into_iter().collect()];
            }
            _ => {}
        }
    }
    words.concat()
}

/// Runs of letters and digits, single other characters.
fn pieces(text: &str) -> Vec<String> {
    let mut pieces: Vec<String> = Vec::new();
    let mut in_word = false;
    for c in text.chars() {
        let is_word = c.is_alphanumeric() || c == '_';
        match pieces.last_mut() {
            Some(last) if is_word && in_word => last.push(c),
            _ => pieces.push(c.to_string()),
        }
        in_word = is_word;
    }
    pieces
}

/// Says which input it was when the thread panics while this lives.
pub struct Suspect<T: fmt::Debug>(pub T);

impl<T: fmt::Debug> Drop for Suspect<T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the input was {:?}", self.0);
        }
    }
}
